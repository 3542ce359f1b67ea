//! Invariants for every input, with one module for each kind of reader; `src/bin` has the targets.

pub mod answers;
pub mod config;
pub mod conn;
pub mod hpack;
pub mod no_proxy;
pub mod receiver;
pub mod retry_after;
pub mod trace_context;

/// HTTP/2 without a socket. It is not public in the crate, so its source is included here.
#[allow(dead_code, unused_imports, reason = "targets do not use everything")]
#[path = "../../../src/http2/mod.rs"]
mod http2;

/// The reader of `Retry-After`, which is not public in the crate, either.
#[allow(dead_code, reason = "targets do not use everything")]
#[path = "../../../src/transport/calendar.rs"]
mod calendar;
