//! Metrics end to end: exactly the recorded measurements arrive.

mod callbacks;
mod disabled;
mod exactness;
mod exemplars;
mod instruments;
mod limits;
mod outage;
mod self_observation;
mod small_queues;
mod start_times;
mod views;

use std::thread;
use std::time::Instant;

use crate::support::scene::LONG;

/// Polls, because a program cannot wait for a change of the ledger.
#[track_caller]
fn wait_until(reached: impl Fn() -> bool) {
    let deadline = Instant::now() + LONG;
    while !reached() {
        assert!(Instant::now() < deadline, "it never came");
        thread::yield_now();
    }
}
