//! Plays a second thread on the thread of the simulation: its work returns after each slice of time, and is called again.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::pipeline::clock::simulated;

thread_local! {
    /// How long the work goes on before the first thread has its turn; `None` if that one does the work itself.
    static SLICE: Cell<Option<Duration>> = const { Cell::new(None) };
    static GOES_ON: Cell<bool> = const { Cell::new(false) };
}

/// Calls `work` until it has ended, and `look` after each slice of time. `None` if no simulation plays this thread.
pub(crate) fn run_beside<T>(
    slice: Duration,
    work: &mut impl FnMut() -> T,
    look: &mut impl FnMut(),
) -> Option<T> {
    simulated::now()?;
    SLICE.set(Some(slice));
    let mut worked = work();
    while GOES_ON.take() {
        look();
        worked = work();
    }
    SLICE.set(None);
    Some(worked)
}

/// Returns when the slice of time that begins now is over.
pub(super) fn slice_ends() -> Option<Instant> {
    Some(simulated::now()? + SLICE.get()?)
}

/// The work goes on after this slice.
pub(super) fn go_on() {
    GOES_ON.set(true);
}
