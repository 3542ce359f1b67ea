//! A flush: what was accepted before it, and the metrics as they are then, is delivered or counted.

use std::ops::Deref;
use std::sync::{Arc, Weak};
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender, bounded};

use super::{Delivery, Worker};
use crate::pipeline::clock;
use crate::record::Signal;

/// A flush as its caller sees it: the receiver gets a message at its end, or is disconnected if the worker ends first. Once
/// this is dropped, the worker does not keep the flush.
pub(crate) struct PendingFlush {
    done: Receiver<()>,
    _caller: Arc<()>,
}

impl PendingFlush {
    /// A new one, and what the worker is to get for it.
    pub(crate) fn new() -> (Self, FlushRequest) {
        let ((sender, done), caller) = (bounded(1), Arc::new(()));
        let request = FlushRequest { done: sender, caller: Arc::downgrade(&caller) };
        (Self { done, _caller: caller }, request)
    }
}

impl Deref for PendingFlush {
    type Target = Receiver<()>;

    fn deref(&self) -> &Receiver<()> {
        &self.done
    }
}

/// What the worker gets to begin a flush.
pub(crate) struct FlushRequest {
    /// On which to report its end.
    done: Sender<()>,
    /// Tells whether the caller still waits, which a sender cannot.
    caller: Weak<()>,
}

impl FlushRequest {
    fn is_awaited(&self) -> bool {
        self.caller.strong_count() > 0
    }
}

/// A flush that is not over.
pub(super) struct Flush {
    request: FlushRequest,
    since: Instant,
    /// The records that each delivery must have settled.
    pub(super) targets: [u64; Signal::COUNT],
    /// The number of the collection before the one that it waits for.
    pub(super) waits_for_collection_after: Option<u64>,
}

impl Flush {
    /// Reports that it is over.
    pub(super) fn report(self) {
        // the caller may have stopped waiting
        let _ = self.request.done.try_send(());
    }
}

impl Worker {
    /// Begins a flush, however many others are under way: none of them waits for another, nor for throttle or linger. What
    /// was accepted before it is sent at once, also if the caller has gone.
    pub(super) fn start_flush(&mut self, request: FlushRequest) {
        let now = clock::now();
        let mut targets = [0; Signal::COUNT];
        for (at, delivery) in self.deliveries.iter_mut().enumerate() {
            delivery.shorten_back_off();
            delivery.drain_queue(now);
            targets[at] = delivery.taken;
        }
        self.report_not_enqueued();
        let waits_for_collection_after = self.request_collection();
        self.state.flushes.push(Flush { request, since: now, targets, waits_for_collection_after });
    }

    /// A collection is over: the flushes that waited for it wait for its points.
    pub(super) fn collection_is_over(&mut self, number: u64, at: usize) {
        for flush in &mut self.state.flushes {
            if flush.waits_for_collection_after.is_some_and(|before| before < number) {
                flush.waits_for_collection_after = None;
                flush.targets[at] = self.deliveries[at].taken;
            }
        }
    }

    /// Metrics that made way for newer ones, or found no room, are not delivered before the next collection is; but with
    /// metrics that no collector takes, a flush would never end. Returns whether a flush waits.
    pub(super) fn wait_for_next_collection(&mut self, number: u64) -> bool {
        for flush in &mut self.state.flushes {
            if clock::now() - flush.since < self.retry.give_up_after {
                flush.waits_for_collection_after.get_or_insert(number);
            }
        }
        self.state.flushes.iter().any(|flush| flush.waits_for_collection_after.is_some())
    }

    /// Reports all flushes that are over, and forgets those whose callers have gone: while nothing is settled, they would
    /// become more and more.
    pub(super) fn report_flushed(&mut self) {
        let settled = |at: usize| self.deliveries.get(at).map_or(u64::MAX, |delivery| delivery.settled);
        let settled: [u64; Signal::COUNT] = std::array::from_fn(settled);
        let is_draining = self.drains() && !self.deliveries.iter().all(Delivery::is_idle);
        let is_finished = |flush: &Flush| {
            !is_draining
                && flush.waits_for_collection_after.is_none()
                && flush.targets.iter().zip(settled).all(|(target, settled)| *target <= settled)
        };
        let flushes = std::mem::take(&mut self.state.flushes);
        let is_over = |flush: &Flush| is_finished(flush) || !flush.request.is_awaited();
        let (over, rest): (Vec<_>, Vec<_>) = flushes.into_iter().partition(is_over);
        self.state.flushes = rest;
        over.into_iter().for_each(Flush::report);
    }
}
