//! Keeps a silenced thread out of the OpenTelemetry SDK, too: what is made there may be sent from another thread.

use opentelemetry::{Context, ContextGuard};

/// For the rest of the thread.
pub(super) fn for_ever() {
    // it must not end with the thread either, when what it would put back may be gone
    std::mem::forget(for_now());
}

/// Until the guard is dropped.
pub(super) fn for_now() -> ContextGuard {
    Context::enter_telemetry_suppressed_scope()
}
