//! Keeps a silenced thread out of the OpenTelemetry SDK, too: what is made there may be sent from another thread.

use std::panic::catch_unwind;

use opentelemetry::{Context, ContextGuard};

/// For the rest of the thread.
pub(super) fn for_ever() {
    // it must not end with the thread either, when what it would put back may be gone
    std::mem::forget(for_now());
}

/// Until the guard is dropped. `None` while a thread ends and its context is gone already: there the SDK panics, which
/// would take the whole program down.
pub(super) fn for_now() -> Option<ContextGuard> {
    catch_unwind(Context::enter_telemetry_suppressed_scope).ok()
}
