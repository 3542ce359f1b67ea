//! Spans that are created through the functions of `standpipe.h`, as a C program calls them.

#![allow(unsafe_code, reason = "C functions are called")]

use std::ffi::{CStr, c_char, c_void};
use std::hint::black_box;
use std::ptr;

use crate::support::Error;
use crate::support::program::{Program, repeat};

unsafe extern "C" {
    fn standpipe_start_from_toml(
        text: *const c_char,
        len: usize,
        options: *const c_void,
        out: *mut *mut c_void,
        error: *mut *mut c_char,
    ) -> i32;
    fn standpipe_flush(telemetry: *const c_void, budget_ms: u32, left: *mut u64) -> i32;
    fn standpipe_shutdown(telemetry: *const c_void, budget_ms: u32, ledger: *mut c_void) -> i32;
    fn standpipe_tracer_new(
        telemetry: *const c_void,
        scope: *const c_char,
        version: *const c_char,
    ) -> *mut c_void;
    fn standpipe_span_start(tracer: *const c_void, name: *const c_char, parent: *mut c_void) -> *mut c_void;
    fn standpipe_span_set_str(span: *mut c_void, key: *const c_char, value: *const c_char);
    fn standpipe_span_set_int(span: *mut c_void, key: *const c_char, value: i64);
    fn standpipe_span_set_bool(span: *mut c_void, key: *const c_char, value: bool);
    fn standpipe_span_end(span: *mut *mut c_void);
}

/// Budget of a flush and of the shutdown. Nothing on loopback takes this long.
const BUDGET_MS: u32 = 120_000;

/// Parent of all measured spans. It ends when it is dropped.
struct Parent(*mut c_void);

impl Drop for Parent {
    fn drop(&mut self) {
        // SAFETY: the span is open, and only this call ends it.
        unsafe { standpipe_span_end(&raw mut self.0) };
    }
}

/// Starts a program that emits child spans with three attributes. Its worker sends only at a flush.
pub(crate) fn start(endpoint: &str) -> Result<Program, Error> {
    let config = format!(
        "[tracer.otel]\ntype = 'otel'\ntransport = 'http'\nendpoint = '{endpoint}'\nthrottle = '1h'\nlinger = '1h'\n\
         batch-records = 1048576\nqueue-records = 1048576\nqueue-bytes = '1 GiB'\n"
    );
    let (mut telemetry, mut error) = (ptr::null_mut(), ptr::null_mut());
    let (text, len) = (config.as_ptr().cast(), config.len());
    // SAFETY: the pointer and the length are those of `config`, and both out-pointers are valid.
    let code =
        unsafe { standpipe_start_from_toml(text, len, ptr::null(), &raw mut telemetry, &raw mut error) };
    if code != 0 {
        // SAFETY: if the start fails, `error` points to a nul-terminated string.
        return Err(unsafe { CStr::from_ptr(error) }.to_string_lossy().into());
    }
    // SAFETY: the handles were returned by these functions and have not been freed; the texts are nul-terminated.
    let (tracer, parent) = unsafe {
        let tracer = standpipe_tracer_new(telemetry, c"shop.orders".as_ptr(), ptr::null());
        (tracer, standpipe_span_start(tracer, c"GET /orders/{id}".as_ptr(), ptr::null_mut()))
    };
    let parent = Parent(parent);
    // SAFETY: as above.
    let burst = repeat(move |_| unsafe {
        let mut span = standpipe_span_start(tracer, black_box(c"SELECT shop.orders").as_ptr(), parent.0);
        standpipe_span_set_str(span, c"http.route".as_ptr(), black_box(c"/v1/orders/{id}").as_ptr());
        standpipe_span_set_int(span, c"http.response.status_code".as_ptr(), black_box(200));
        standpipe_span_set_bool(span, c"cache.hit".as_ptr(), black_box(true));
        standpipe_span_end(&raw mut span);
    });
    let done = |code: i32| if code == 0 { Ok(()) } else { Err(format!("code {code}").into()) };
    // SAFETY: as above; a null pointer means that no result is requested.
    let flush = move || done(unsafe { standpipe_flush(telemetry, BUDGET_MS, ptr::null_mut()) });
    // SAFETY: as above.
    Ok(Program::new(burst, flush, move || {
        done(unsafe { standpipe_shutdown(telemetry, BUDGET_MS, ptr::null_mut()) })
    }))
}
