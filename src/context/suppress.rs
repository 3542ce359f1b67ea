//! Keeps a silenced thread out of the OpenTelemetry SDK, too: what is made there may be sent from another thread.

use std::panic::catch_unwind;

use opentelemetry::{Context, ContextGuard};

/// For the rest of the thread.
pub(super) fn for_ever() {
    // it must not end with the thread either, when what it would put back may be gone
    std::mem::forget(for_now());
}

/// Until the guard is dropped. Nothing is done while the thread ends, or somebody looks at its context there: that cannot
/// be asked for, and the call would end in a panic.
pub(super) fn for_now() -> Option<ContextGuard> {
    catch_unwind(Context::enter_telemetry_suppressed_scope).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::quietly;

    #[test]
    fn who_is_looking_at_the_context_of_opentelemetry_may_send() {
        assert_eq!(Context::map_current(|_| quietly(|| "sent")), "sent");
        assert!(quietly(Context::is_current_telemetry_suppressed));
        assert!(!Context::is_current_telemetry_suppressed());
    }
}
