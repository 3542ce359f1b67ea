//! Any text as a `Retry-After` header.
#![no_main]

use libfuzzer_sys::fuzz_target;
use standpipe_fuzz::retry_after::check;

fuzz_target!(|input: &[u8]| {
    if let Ok(text) = std::str::from_utf8(input) {
        check(text);
    }
});
