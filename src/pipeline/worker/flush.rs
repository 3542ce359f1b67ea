//! A flush: what was accepted before it, and the metrics as they are then, is delivered or counted.

use std::time::Instant;

use crossbeam_channel::Sender;

use super::Worker;
use crate::record::Signal;

/// A flush that is not over.
pub(super) struct Flush {
    done: Sender<()>,
    since: Instant,
    /// How much each delivery must have settled.
    pub(super) targets: [u64; Signal::COUNT],
    /// The number of the push before the one that it waits for.
    pub(super) waits_for_push_after: Option<u64>,
}

impl Flush {
    /// Says that it is over.
    pub(super) fn report(self) {
        // the caller may have stopped waiting
        let _ = self.done.try_send(());
    }
}

impl Worker {
    /// Begins a flush, however many others are under way: none of them waits for another, nor for throttle or linger.
    pub(super) fn start_flush(&mut self, done: Sender<()>) {
        let now = Instant::now();
        let mut targets = [0; Signal::COUNT];
        for (at, delivery) in self.deliveries.iter_mut().enumerate() {
            delivery.hurry();
            delivery.gather(now);
            targets[at] = delivery.taken;
        }
        self.tell_turned_away();
        let waits_for_push_after = self.want_push();
        self.state.flushes.push(Flush { done, since: now, targets, waits_for_push_after });
    }

    /// A push has come to its end: those who waited for it wait for its points.
    pub(super) fn push_is_over(&mut self, number: u64, at: usize) {
        for flush in &mut self.state.flushes {
            if flush.waits_for_push_after.is_some_and(|before| before < number) {
                flush.waits_for_push_after = None;
                flush.targets[at] = self.deliveries[at].taken;
            }
        }
    }

    /// Metrics that made way for newer ones, or found no room, are not delivered before the next push is; but with
    /// metrics that no collector takes, a flush would never end. Says whether there is a flush that waits.
    pub(super) fn wait_for_next_push(&mut self, number: u64) -> bool {
        for flush in &mut self.state.flushes {
            if flush.since.elapsed() < self.retry.give_up_after {
                flush.waits_for_push_after.get_or_insert(number);
            }
        }
        self.state.flushes.iter().any(|flush| flush.waits_for_push_after.is_some())
    }

    /// Reports all flushes that are over.
    pub(super) fn report_flushed(&mut self) {
        let settled = |at: usize| self.deliveries.get(at).map_or(u64::MAX, |delivery| delivery.settled);
        let settled: [u64; Signal::COUNT] = std::array::from_fn(settled);
        let is_over = |flush: &Flush| {
            flush.waits_for_push_after.is_none()
                && flush.targets.iter().zip(settled).all(|(target, settled)| *target <= settled)
        };
        let flushes = std::mem::take(&mut self.state.flushes);
        let (over, rest): (Vec<_>, Vec<_>) = flushes.into_iter().partition(is_over);
        self.state.flushes = rest;
        over.into_iter().for_each(Flush::report);
    }
}
