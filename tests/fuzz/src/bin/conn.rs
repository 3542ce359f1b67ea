//! Any bytes from a server on a connection, and calls in between.
#![no_main]

use libfuzzer_sys::fuzz_target;
use standpipe_fuzz::conn::check;

fuzz_target!(|input: &[u8]| check(input));
