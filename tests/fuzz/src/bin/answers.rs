//! Any bytes as a server's answer to an export.
#![no_main]

use libfuzzer_sys::fuzz_target;
use standpipe_fuzz::answers::check;

fuzz_target!(|input: &[u8]| check(input));
