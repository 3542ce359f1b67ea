//! Suppression of instrumentation: an exporter's threads record nothing about the export itself.
//!
//! Without suppression, each record about an export would cause another export, and so another record, forever.

use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::num::NonZeroU64;
use std::sync::atomic::Ordering;

use crate::process::atomic::AtomicU64;

thread_local! {
    /// True if some records of this thread may be suppressed. Every record reads this flag, but hardly any record reads
    /// the other two values, so they are separate.
    static MAY_BE_SUPPRESSED: Cell<bool> = const { Cell::new(false) };
    /// The telemetry for which this thread exports.
    static EXPORTS_FOR: Cell<Option<Owner>> = const { Cell::new(None) };
    /// True while code of the program (a hook or a callback) runs on an exporter's thread.
    static IN_PROGRAM: Cell<bool> = const { Cell::new(false) };
}

/// Identifies a [`Telemetry`](crate::Telemetry). A forked child keeps the identity of its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner(NonZeroU64);

/// The default is a new identity, different from all others.
impl Default for Owner {
    fn default() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(NonZeroU64::MIN.saturating_add(LAST.fetch_add(1, Ordering::Relaxed)))
    }
}

/// Marks this thread as one that exports for a telemetry.
pub(crate) fn export_for(owner: Owner) {
    EXPORTS_FOR.set(Some(owner));
}

/// Runs `work` on this thread as an exporter of a telemetry, with instrumentation suppressed.
pub(crate) fn while_exporting_for<T>(owner: Option<Owner>, work: impl FnOnce() -> T) -> T {
    let _before = Before::put(owner, true, false);
    let _suppressed = suppress_sdk();
    work()
}

/// Returns whether this thread exports for the telemetry. Such a thread must not wait for its own work.
pub(crate) fn exports_for(owner: Owner) -> bool {
    EXPORTS_FOR.get() == Some(owner)
}

/// Suppresses instrumentation on this thread until its end.
pub(crate) fn suppress_for_ever() {
    MAY_BE_SUPPRESSED.set(true);
    // Leaked: a guard dropped at the end of the thread would restore a context that may already be destroyed.
    let _suppressed = ManuallyDrop::new(suppress_sdk());
}

/// Runs `work` with instrumentation suppressed, for the part of an exporter's work that runs on a caller's thread.
pub(crate) fn suppress_instrumentation<T>(work: impl FnOnce() -> T) -> T {
    while_exporting_for(EXPORTS_FOR.get(), work)
}

/// Runs code of the program on an exporter's thread. Records that this code emits to the exporter's telemetry are
/// counted and not enqueued. Records that it emits to another telemetry are enqueued. The OpenTelemetry SDK stays
/// suppressed, because it may export records from another thread, where their origin is unknown.
pub(crate) fn in_program<T>(work: impl FnOnce() -> T) -> T {
    let _before = Before::put(EXPORTS_FOR.get(), may_be_suppressed(), true);
    work()
}

/// Returns whether some records of this thread may be suppressed; [`suppression`] decides which.
#[inline]
pub(crate) fn may_be_suppressed() -> bool {
    MAY_BE_SUPPRESSED.get()
}

/// Returns whether this thread runs code of an exporter, and therefore records nothing.
#[inline]
pub(crate) fn runs_exporter_code() -> bool {
    may_be_suppressed() && !IN_PROGRAM.get()
}

/// The treatment of a record that this thread emits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Suppression {
    /// The record is emitted normally.
    None,
    /// The record is counted and not enqueued: the program emitted it on a thread of the exporter that would send it.
    Counted,
    /// The record is ignored and not counted: an exporter emitted it, not the program.
    Uncounted,
}

/// Returns how to treat a record that this thread emits for a telemetry.
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

/// Suppresses the OpenTelemetry SDK until the guard is dropped: the SDK may export records of this thread from another
/// thread, on which nothing is suppressed. Does nothing while the thread ends, or while code of the program borrows the
/// SDK's context: the SDK's function then panics. This panic cannot be predicted, so this function catches it.
#[cfg(feature = "opentelemetry")]
fn suppress_sdk() -> impl Sized {
    std::panic::catch_unwind(opentelemetry::Context::enter_telemetry_suppressed_scope).ok()
}

/// Without the OpenTelemetry SDK, there is nothing more to suppress.
#[cfg(not(feature = "opentelemetry"))]
fn suppress_sdk() -> impl Sized {}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_thread_records_for_others_than_its_own_telemetry_where_the_program_runs() {
        let (own, other) = (Owner::default(), Owner::default());
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
