//! Any bytes as the header blocks of a connection.
#![no_main]

use libfuzzer_sys::fuzz_target;
use standpipe_fuzz::hpack::check;

fuzz_target!(|input: &[u8]| check(input));
