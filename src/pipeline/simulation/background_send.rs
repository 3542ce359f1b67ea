//! Simulates the background sending thread without a second thread: the function that sends returns after each slice
//! of time, and is called again until it is done.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::pipeline::clock::simulated;

thread_local! {
    /// Length of a slice of the simulated second thread, after which the first thread runs; `None` without a second
    /// thread.
    static SLICE: Cell<Option<Duration>> = const { Cell::new(None) };
    /// True if the work returned because its slice ended, and must be called again.
    static GOES_ON: Cell<bool> = const { Cell::new(false) };
}

/// Calls `work` until it has ended, and `look` after each slice of time. Returns `None` outside of a simulation.
pub(crate) fn run_in_background<T>(
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

/// Returns the end of the slice that begins now; `None` if there is no second thread.
pub(super) fn slice_ends() -> Option<Instant> {
    Some(simulated::now()? + SLICE.get()?)
}

/// Notes that the work is not done at the end of its slice.
pub(super) fn go_on() {
    GOES_ON.set(true);
}
