//! Reads any text in two ways: all of it as a `baggage`; and its first line as a `traceparent`, with the rest as a
//! `tracestate`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use standpipe_fuzz::trace_context::check;

fuzz_target!(|input: &[u8]| {
    if let Ok(text) = std::str::from_utf8(input) {
        check(text);
    }
});
