//! Any bytes as input of the receiver's HTTP port.
#![no_main]

use libfuzzer_sys::fuzz_target;
use standpipe_fuzz::receiver::check_http;

fuzz_target!(|input: &[u8]| check_http(input));
