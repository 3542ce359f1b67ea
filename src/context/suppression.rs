//! Suppression of instrumentation: an exporter's threads record nothing about their own sending.

use std::cell::Cell;
use std::num::NonZeroU64;
use std::sync::atomic::Ordering;

use crate::process::atomic::AtomicU64;

thread_local! {
    /// Something here is not recorded. Every record reads it, so it is a flag of its own.
    static MAY_BE_SUPPRESSED: Cell<bool> = const { Cell::new(false) };
    /// The telemetry that this thread exports for.
    static EXPORTS_FOR: Cell<Option<Owner>> = const { Cell::new(None) };
    /// The program's own code runs on an exporter's thread: a hook or a callback.
    static IN_PROGRAM: Cell<bool> = const { Cell::new(false) };
}

/// Identifies a [`Telemetry`](crate::Telemetry); a forked child's is that of its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner(NonZeroU64);

impl Owner {
    pub(crate) fn new() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(NonZeroU64::MIN.saturating_add(LAST.fetch_add(1, Ordering::Relaxed)))
    }
}

/// Makes this thread one that exports for a telemetry.
pub(crate) fn export_for(owner: Owner) {
    EXPORTS_FOR.set(Some(owner));
}

/// Makes this thread one that exports for a telemetry, with its instrumentation suppressed, for as long as `work` takes.
pub(crate) fn while_exporting_for<T>(owner: Option<Owner>, work: impl FnOnce() -> T) -> T {
    let _before = Before::put(owner, true, false);
    let _suppressed = sdk::suppress();
    work()
}

/// Whether this thread exports for the telemetry: it must not wait for its own work.
pub(crate) fn exports_for(owner: Owner) -> bool {
    EXPORTS_FOR.get() == Some(owner)
}

/// Suppresses instrumentation on this thread from now on: what the worker and the libraries
/// it calls would record about sending would be sent in turn, for ever.
pub(crate) fn suppress_for_ever() {
    MAY_BE_SUPPRESSED.set(true);
    sdk::suppress_for_ever();
}

/// As [`suppress_for_ever`], for as long as `work` takes: for what a caller's own thread does to an exporter.
pub(crate) fn suppress_instrumentation<T>(work: impl FnOnce() -> T) -> T {
    while_exporting_for(EXPORTS_FOR.get(), work)
}

/// Runs the program's own code on an exporter's thread. What it records for the same telemetry is not enqueued and
/// counted; it may record for any other. The OpenTelemetry SDK stays suppressed: it may send what it is given from a
/// thread of its own, where nothing shows where it came from.
pub(crate) fn in_program<T>(work: impl FnOnce() -> T) -> T {
    let _before = Before::put(EXPORTS_FOR.get(), may_be_suppressed(), true);
    work()
}

/// Whether something is not recorded on this thread; [`suppression`] says what.
#[inline]
pub(crate) fn may_be_suppressed() -> bool {
    MAY_BE_SUPPRESSED.get()
}

/// Whether nothing at all is recorded on this thread.
#[inline]
pub(crate) fn runs_exporter_code() -> bool {
    may_be_suppressed() && !IN_PROGRAM.get()
}

/// What becomes of a record that this thread makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Suppression {
    /// It is recorded.
    None,
    /// It is not enqueued and counted: the program has made it on a thread of the exporters that would send it.
    Counted,
    /// It has never been: an exporter has made it, not the program.
    Uncounted,
}

/// What becomes of a record that this thread makes for a telemetry.
pub(crate) fn suppression(owner: Owner) -> Suppression {
    match () {
        () if !may_be_suppressed() => Suppression::None,
        () if runs_exporter_code() => Suppression::Uncounted,
        () if exports_for(owner) => Suppression::Counted,
        () => Suppression::None,
    }
}

/// The state of the thread before a change, restored on drop.
struct Before {
    exports_for: Option<Owner>,
    may_be_suppressed: bool,
    in_program: bool,
}

impl Before {
    fn put(exports_for: Option<Owner>, may_be_suppressed: bool, in_program: bool) -> Self {
        Self {
            exports_for: EXPORTS_FOR.replace(exports_for),
            may_be_suppressed: MAY_BE_SUPPRESSED.replace(may_be_suppressed),
            in_program: IN_PROGRAM.replace(in_program),
        }
    }
}

impl Drop for Before {
    fn drop(&mut self) {
        EXPORTS_FOR.set(self.exports_for);
        MAY_BE_SUPPRESSED.set(self.may_be_suppressed);
        IN_PROGRAM.set(self.in_program);
    }
}

/// Keeps a thread of the exporters out of the OpenTelemetry SDK, too: what is made there may be sent from another
/// thread.
#[cfg(feature = "opentelemetry")]
mod sdk {
    use std::panic::catch_unwind;

    use opentelemetry::{Context, ContextGuard};

    /// For the rest of the thread.
    pub(super) fn suppress_for_ever() {
        // it must not end with the thread either, when the context that it would restore may be gone
        std::mem::forget(suppress());
    }

    /// Until the guard is dropped. Nothing is done while the thread ends, or while code of the program looks at its
    /// context there: there is no way to find that out, and the call would panic.
    pub(super) fn suppress() -> Option<ContextGuard> {
        catch_unwind(Context::enter_telemetry_suppressed_scope).ok()
    }
}

/// A build without the OpenTelemetry SDK has nothing more to suppress.
#[cfg(not(feature = "opentelemetry"))]
mod sdk {
    pub(super) fn suppress_for_ever() {}

    pub(super) fn suppress() -> Option<()> {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_thread_records_for_others_than_its_own_telemetry_where_the_program_runs() {
        let (own, other) = (Owner::new(), Owner::new());
        let both = move || (suppression(own), suppression(other));
        assert_eq!(both(), (Suppression::None, Suppression::None));
        let on_exporters_thread = move || {
            export_for(own);
            suppress_for_ever();
            [both(), in_program(both), in_program(|| suppress_instrumentation(both)), both()]
        };
        let uncounted = (Suppression::Uncounted, Suppression::Uncounted);
        let in_hook = (Suppression::Counted, Suppression::None);
        assert_eq!(
            thread::spawn(on_exporters_thread).join().unwrap(),
            [uncounted, in_hook, uncounted, uncounted]
        );
        assert_eq!(
            (suppress_instrumentation(both), both()),
            (uncounted, (Suppression::None, Suppression::None))
        );
    }

    #[cfg(feature = "opentelemetry")]
    #[test]
    fn a_thread_that_looks_at_the_context_of_opentelemetry_may_send() {
        use opentelemetry::Context;

        assert_eq!(Context::map_current(|_| suppress_instrumentation(|| "sent")), "sent");
        assert!(suppress_instrumentation(Context::is_current_telemetry_suppressed));
        assert!(!Context::is_current_telemetry_suppressed());
    }
}
