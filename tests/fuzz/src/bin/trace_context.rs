//! Any text as a `baggage`, and as a `traceparent` and, after the first line, a `tracestate`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use standpipe_fuzz::trace_context::check;

fuzz_target!(|input: &[u8]| {
    if let Ok(text) = std::str::from_utf8(input) {
        check(text);
    }
});
