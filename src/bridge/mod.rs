//! Bridges export the telemetry that programs already emit through other crates.
//!
//! Each bridge is a module with a feature of the same name. All bridges take a [`Telemetry`](crate::Telemetry), whose
//! main provider they use, or a [`Provider`](crate::Provider).
//!
//! Records that the exporters' own threads log or trace about the export are ignored. Measurements of the program on
//! such a thread, for example in its [hook](crate::Config::on_problem), are aggregated, because they cause no export.

#[cfg(feature = "log")]
pub mod log;
#[cfg(feature = "metrics")]
pub mod metrics;
#[cfg(feature = "opentelemetry")]
pub mod opentelemetry;
#[cfg(feature = "tracing")]
pub mod tracing;

/// Maximum number of call sites that a bridge caches. Large programs have thousands.
#[cfg(any(feature = "log", feature = "tracing"))]
const MAX_CALL_SITES: usize = 1 << 16;

/// Returns whether a record may contain credentials: at TRACE, ureq logs the bytes of requests and responses.
#[cfg(any(feature = "log", feature = "opentelemetry", feature = "tracing"))]
fn shows_credentials(is_trace: bool, target: &str) -> bool {
    is_trace && target.starts_with("ureq")
}

/// Guard: runs its function if code of the program, such as a `Display`, panics while a bridge calls it. Without a
/// panic, the bridge must pass the guard to `mem::forget`.
#[cfg(any(feature = "log", feature = "tracing"))]
struct OnPanic<F: Fn()>(F);

#[cfg(any(feature = "log", feature = "tracing"))]
impl<F: Fn()> Drop for OnPanic<F> {
    fn drop(&mut self) {
        self.0();
    }
}
