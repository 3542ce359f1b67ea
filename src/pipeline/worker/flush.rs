//! A flush: what was accepted before it, and the metrics as they are then, is delivered or counted.

use std::ops::Deref;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};

use super::{Delivery, Worker};
use crate::pipeline::clock;
use crate::process::lock;
use crate::record::Signal;

/// A flush as its callers see it: the channel is disconnected when the flush or the worker has ended. Once all callers have
/// dropped theirs, the worker does not keep the flush.
pub(crate) struct PendingFlush(Arc<Receiver<()>>);

impl PendingFlush {
    #[cfg(test)]
    pub(crate) fn is_over(&self) -> bool {
        self.ends_within(Duration::ZERO)
    }

    /// Waits for the end; false if it has not come within this time.
    pub(crate) fn ends_within(&self, time: Duration) -> bool {
        self.0.recv_timeout(time).is_err_and(|error| error.is_disconnected())
    }
}

impl Deref for PendingFlush {
    type Target = Receiver<()>;

    fn deref(&self) -> &Receiver<()> {
        &self.0
    }
}

/// A flush as the worker sees it: its drop reports the end.
pub(crate) struct FlushRequest {
    _running: Sender<()>,
    callers: Weak<Receiver<()>>,
}

/// The flush that the worker has not begun. All that request one meanwhile share it: callers that do not wait for its end, and
/// request the next one, cost the worker one flush for each of its steps, and no memory.
#[derive(Default)]
pub(crate) struct NextFlush(Mutex<Option<FlushRequest>>);

impl NextFlush {
    pub(crate) fn request(&self) -> PendingFlush {
        // Allocated and freed without the lock: the program's allocator may make a record, and wait for the worker.
        let (running, ended) = bounded(0);
        let callers = Arc::new(ended);
        let request = FlushRequest { _running: running, callers: Arc::downgrade(&callers) };
        let mut next = lock(&self.0);
        let shared = next.as_ref().and_then(|next| next.callers.upgrade());
        let unused = if shared.is_none() { next.replace(request) } else { Some(request) };
        drop(next);
        drop(unused);
        PendingFlush(shared.unwrap_or(callers))
    }

    pub(super) fn take(&self) -> Option<FlushRequest> {
        lock(&self.0).take()
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
        let is_awaited = |flush: &Flush| flush.request.callers.strong_count() > 0;
        self.state.flushes.retain(|flush| is_awaited(flush) && !is_finished(flush));
    }
}
