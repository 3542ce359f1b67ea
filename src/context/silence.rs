//! Whose code a thread runs: what an exporter does to send records must not become a record itself.

use std::cell::Cell;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

use super::suppress;

thread_local! {
    /// Something here is not recorded. Every record asks, so it is a flag of its own.
    static SILENCED: Cell<bool> = const { Cell::new(false) };
    /// The telemetry that this thread exports for.
    static EXPORTS_FOR: Cell<Option<Owner>> = const { Cell::new(None) };
    /// The program's own code runs on an exporter's thread: a hook or a callback.
    static IN_PROGRAM: Cell<bool> = const { Cell::new(false) };
}

/// Tells one [`Telemetry`](crate::Telemetry) from another; a forked child's is that of its parent.
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

/// Whether this thread exports for the telemetry: it must not wait for its own work.
pub(crate) fn exports_for(owner: Owner) -> bool {
    EXPORTS_FOR.get() == Some(owner)
}

/// Keeps this thread's own doings out of the telemetry from now on: what the worker and the libraries
/// it calls would record about sending would be sent in turn, for ever.
pub(crate) fn silence() {
    SILENCED.set(true);
    suppress::for_ever();
}

/// As [`silence`], for as long as `work` takes: for what a caller's own thread does to an exporter.
pub(crate) fn quietly<T>(work: impl FnOnce() -> T) -> T {
    let _before = Before::put(true, false);
    let _suppressed = suppress::for_now();
    work()
}

/// Runs the program's own code on an exporter's thread. What it records for the same telemetry is not enqueued and
/// counted; it may record for any other. The OpenTelemetry SDK stays suppressed: it may send what it is given from a
/// thread of its own, where nothing shows where it came from.
pub(crate) fn in_program<T>(work: impl FnOnce() -> T) -> T {
    let _before = Before::put(silenced(), true);
    work()
}

/// Whether something is not recorded on this thread; [`suppression`] says what.
#[inline]
pub(crate) fn silenced() -> bool {
    SILENCED.get()
}

/// Whether nothing at all is recorded on this thread.
#[inline]
pub(crate) fn is_silent() -> bool {
    silenced() && !IN_PROGRAM.get()
}

/// What becomes of a record that this thread makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Suppression {
    /// It is recorded.
    None,
    /// It is not enqueued and counted: the program has made it on a thread of the exporters that would send it.
    Counted,
    /// It has never been: an exporter has made it, not the program.
    Silent,
}

/// What becomes of a record that this thread makes for a telemetry.
pub(crate) fn suppression(owner: Owner) -> Suppression {
    match () {
        () if !silenced() => Suppression::None,
        () if is_silent() => Suppression::Silent,
        () if exports_for(owner) => Suppression::Counted,
        () => Suppression::None,
    }
}

/// What the thread was before; it is that again when this is dropped.
struct Before {
    silenced: bool,
    in_program: bool,
}

impl Before {
    fn put(silenced: bool, in_program: bool) -> Self {
        Self { silenced: SILENCED.replace(silenced), in_program: IN_PROGRAM.replace(in_program) }
    }
}

impl Drop for Before {
    fn drop(&mut self) {
        SILENCED.set(self.silenced);
        IN_PROGRAM.set(self.in_program);
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
            silence();
            [both(), in_program(both), in_program(|| quietly(both)), both()]
        };
        let silent = (Suppression::Silent, Suppression::Silent);
        let in_hook = (Suppression::Counted, Suppression::None);
        assert_eq!(thread::spawn(on_exporters_thread).join().unwrap(), [silent, in_hook, silent, silent]);
        assert_eq!((quietly(both), both()), (silent, (Suppression::None, Suppression::None)));
    }
}
