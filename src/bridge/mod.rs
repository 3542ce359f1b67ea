//! The telemetry that programs already write, by way of other crates.
//!
//! Each bridge is a feature and a module of its own, and goes straight to records in wire format: no other SDK is in
//! between. All take a [`Telemetry`](crate::Telemetry), for its main provider, or a [`Provider`](crate::Provider).
//!
//! What the exporters' own threads log or trace about sending never comes back in. What a program measures there, as in
//! its [hook](crate::Config::on_problem), is counted: it goes with the next push, and makes none.

#[cfg(feature = "log")]
pub mod log;
#[cfg(feature = "metrics")]
pub mod metrics;
#[cfg(feature = "opentelemetry")]
pub mod opentelemetry;
#[cfg(feature = "tracing")]
pub mod tracing;

/// Returns whether a record may show credentials: at TRACE, ureq logs the bytes of requests and responses.
#[cfg(any(feature = "log", feature = "tracing"))]
fn shows_credentials(is_trace: bool, target: &str) -> bool {
    is_trace && target.starts_with("ureq")
}

/// Runs its function when a panic of the program unwinds through a bridge that reads the program's values. Forgotten
/// otherwise.
#[cfg(any(feature = "log", feature = "tracing"))]
struct OnPanic<F: Fn()>(F);

#[cfg(any(feature = "log", feature = "tracing"))]
impl<F: Fn()> Drop for OnPanic<F> {
    fn drop(&mut self) {
        self.0();
    }
}
