//! Flush: waits until all records accepted before the flush, and the metrics of one later collection, have an outcome.
//!
//! A flush notes how many records have left each queue so far (`taken`), and is over once this number of records is
//! settled. One number per signal is enough, since a delivery sends its records in order: a flush needs neither a
//! marker in the queue nor a list of records.

use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};

use super::{Delivery, Worker};
use crate::pipeline::clock;
use crate::process::lock;
use crate::record::Signal;

/// A flush as its callers see it. The channel is disconnected when the flush or the worker has ended. The worker
/// forgets the flush once all its callers have dropped this value.
pub(crate) struct PendingFlush(pub(crate) Arc<Receiver<()>>);

impl PendingFlush {
    #[cfg(test)]
    pub(crate) fn is_over(&self) -> bool {
        self.ends_within(Duration::ZERO)
    }

    /// Waits for the end of the flush, for at most `time`. Returns false if the flush is not over by then.
    pub(crate) fn ends_within(&self, time: Duration) -> bool {
        self.0.recv_timeout(time).is_err_and(|error| error.is_disconnected())
    }
}

/// A flush as the worker sees it. Dropping it disconnects the channel, which tells the callers that the flush is
/// over.
pub(crate) struct FlushRequest {
    _running: Sender<()>,
    callers: Weak<Receiver<()>>,
}

/// The flush that the worker begins next. Until then, all callers that request a flush share this one. So the worker
/// begins at most one flush per step and needs no list of requests, however often callers request a flush.
#[derive(Default)]
pub(crate) struct NextFlush(Mutex<Option<FlushRequest>>);

impl NextFlush {
    pub(crate) fn request(&self) -> PendingFlush {
        // The request is allocated and freed outside the lock: the program's allocator may emit a record and wait for
        // the worker, which takes this lock.
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

/// A flush that has begun and is not over.
pub(super) struct Flush {
    request: FlushRequest,
    since: Instant,
    /// Number of records that each delivery must have settled, counted from the start of the worker.
    pub(super) targets: [u64; Signal::COUNT],
    /// Number of the last collection that is too old: the flush waits for a later one. `None` if the flush does not
    /// wait for a collection.
    pub(super) waits_for_collection_after: Option<u64>,
}

impl Worker {
    /// Begins a flush. Several flushes can be under way: none of them waits for another, nor for the throttle or the
    /// linger time. The records are sent at once, even if the caller no longer waits.
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

    /// Notes the end of a collection. Flushes that waited for this end now wait until the collected data points are
    /// settled.
    pub(super) fn collection_is_over(&mut self, number: u64, at: usize) {
        for flush in &mut self.state.flushes {
            if flush.waits_for_collection_after.is_some_and(|before| before < number) {
                flush.waits_for_collection_after = None;
                flush.targets[at] = self.deliveries[at].taken;
            }
        }
    }

    /// Lets flushes wait for the next collection, because collection `number` was superseded or did not fit into the
    /// queue. A flush older than `give-up-after` does not wait: if the collector never accepted the metrics, the flush
    /// would never end. Returns whether any flush waits.
    pub(super) fn wait_for_next_collection(&mut self, number: u64) -> bool {
        for flush in &mut self.state.flushes {
            if clock::now() - flush.since < self.retry.give_up_after {
                flush.waits_for_collection_after.get_or_insert(number);
            }
        }
        self.state.flushes.iter().any(|flush| flush.waits_for_collection_after.is_some())
    }

    /// Ends all flushes whose records are settled, and forgets those whose callers no longer wait. Otherwise, flushes
    /// that time out would accumulate during an outage.
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
