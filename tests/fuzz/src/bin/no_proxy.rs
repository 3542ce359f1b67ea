//! Any text as the value of `NO_PROXY`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use standpipe_fuzz::no_proxy::check;

fuzz_target!(|input: &[u8]| {
    if let Ok(text) = std::str::from_utf8(input) {
        check(text);
    }
});
