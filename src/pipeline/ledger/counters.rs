//! The counters of one exporter: callers count records that were not enqueued, the worker counts the outcomes.
//!
//! Outcomes change once per batch, so a mutex is cheap enough for them, and it makes readings consistent. Counts that
//! callers change are relaxed atomics.

use std::sync::Mutex;
use std::sync::atomic::Ordering;

use super::{Counts, ExporterLedger, NotEnqueued};
use crate::pipeline::queue::thread_number;
use crate::process::atomic::AtomicU64;
use crate::process::lock;
use crate::record::Signal;
use crate::spool;

/// Number of cache lines of a [`ShardedCounter`], a power of two.
const COUNTER_SHARDS: usize = 16;

/// The outcome of an accepted record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Delivered,
    Rejected,
    Refused,
    GaveUp,
    TooLarge,
    WorkerPanicked,
    Superseded,
    Damaged,
    Expired,
}

/// The reason why a record was not accepted. The reason why an accepted record was dropped is an [`Outcome`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotEnqueuedReason {
    QueueFull,
    TooLarge,
    AfterShutdown,
    Suppressed,
    NoWorker,
    #[allow(dead_code, reason = "only bridges count it")]
    Panicked,
}

impl NotEnqueuedReason {
    pub(super) const COUNT: usize = 6;
}

/// One exporter's counters. After [`close`](Self::close), outcomes are ignored.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    outcomes: Mutex<Outcomes>,
    not_enqueued: [[AtomicU64; NotEnqueuedReason::COUNT]; Signal::COUNT],
    attempts: AtomicU64,
    /// Log records below the exporter's level. Sharded, because a disabled level must stay cheap on all threads.
    filtered: ShardedCounter,
}

#[derive(Debug, Default)]
struct Outcomes {
    counts: [Counts; Signal::COUNT],
    /// Collected data points that are neither settled nor spooled. Never in the flight recorder.
    collected: u64,
    handovers: [Handover; Signal::COUNT],
    closed: bool,
}

/// Counts of the records of a signal that left the queue, for self-observation.
#[derive(Debug, Clone, Default)]
pub(crate) struct Handover {
    pub(crate) records: u64,
    /// Records of failed exports, by outcome and cause. The cause is the `error.type` of the last attempt.
    pub(crate) failures: Vec<(Outcome, String, u64)>,
}

impl Counters {
    /// Counts records that left the queue: in a batch, or lost before they were in one.
    pub(crate) fn hand_over(&self, signal: Signal, records: u64) {
        lock(&self.outcomes).handovers[signal as usize].records += records;
    }

    /// Counts the cause of a failed export, whose outcome is counted separately.
    pub(crate) fn note_failure(&self, signal: Signal, outcome: Outcome, cause: &str, records: u64) {
        let failures = &mut lock(&self.outcomes).handovers[signal as usize].failures;
        match failures.iter_mut().find(|known| (known.0, &*known.1) == (outcome, cause)) {
            Some(known) => known.2 += records,
            None => failures.push((outcome, cause.to_owned(), records)),
        }
    }

    pub(crate) fn handover(&self, signal: Signal) -> Handover {
        lock(&self.outcomes).handovers[signal as usize].clone()
    }

    pub(crate) fn settle(&self, signal: Signal, outcome: Outcome, records: u64) {
        self.change(signal, |counts| *count_of(counts, outcome) += records);
    }

    /// Counts the outcome of data points that the worker has collected.
    pub(crate) fn settle_collected(&self, outcome: Outcome, points: u64) {
        let mut outcomes = lock(&self.outcomes);
        if !outcomes.closed {
            subtract(&mut outcomes.collected, points);
            *count_of(&mut outcomes.counts[Signal::Metrics as usize], outcome) += points;
        }
    }

    /// Notes that collected data points are in the spool, so that [`close`](Self::close) does not count them as
    /// dropped.
    pub(crate) fn keep_collected(&self, points: u64) {
        subtract(&mut lock(&self.outcomes).collected, points);
    }

    /// Counts records that were written to the spool.
    pub(crate) fn spool(&self, signal: Signal, records: u64) {
        self.change(signal, |counts| counts.spooled += records);
    }

    /// Counts records that were loaded from the spool to be sent.
    pub(crate) fn take_from_spool(&self, signal: Signal, records: u64, is_own: bool) {
        self.change(signal, |counts| match is_own {
            true => subtract(&mut counts.spooled, records),
            false => counts.recovered += records,
        });
    }

    /// Reverses [`take_from_spool`](Self::take_from_spool) for records that were not sent and are still in the spool.
    pub(crate) fn put_back_into_spool(&self, signal: Signal, records: u64, is_own: bool) {
        self.change(signal, |counts| match is_own {
            true => counts.spooled += records,
            false => subtract(&mut counts.recovered, records),
        });
    }

    /// Counts records that the spool has dropped because of their age or damage.
    pub(crate) fn settle_spooled(&self, outcome: Outcome, dropped: [spool::Dropped; Signal::COUNT]) {
        for (signal, spool::Dropped { own, of_others }) in Signal::ALL.into_iter().zip(dropped) {
            self.change(signal, |counts| {
                subtract(&mut counts.spooled, own);
                counts.recovered += of_others;
                *count_of(counts, outcome) += own + of_others;
            });
        }
    }

    fn change(&self, signal: Signal, change: impl FnOnce(&mut Counts)) {
        let mut outcomes = lock(&self.outcomes);
        if !outcomes.closed {
            change(&mut outcomes.counts[signal as usize]);
        }
    }

    pub(crate) fn count_not_enqueued(&self, signal: Signal, reason: NotEnqueuedReason, records: u64) {
        self.not_enqueued[signal as usize][reason as usize].fetch_add(records, Ordering::Relaxed);
    }

    /// Counts a log record below the exporter's level.
    #[inline]
    pub(crate) fn count_filtered(&self) {
        self.filtered.add_one();
    }

    pub(crate) fn attempted(&self) {
        self.attempts.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how many records of a signal were not enqueued for this reason.
    pub(crate) fn not_enqueued(&self, signal: Signal, reason: NotEnqueuedReason) -> u64 {
        self.not_enqueued[signal as usize][reason as usize].load(Ordering::Relaxed)
    }

    /// Reads all counters. `accepted` is called after the outcomes are read, so that no record is seen with an
    /// outcome before it is seen as accepted.
    pub(crate) fn read(&self, name: &str, accepted: impl FnOnce() -> [u64; Signal::COUNT]) -> ExporterLedger {
        // The lock is held while `accepted` is read. Otherwise records could be settled, and others accepted in their
        // room, between the two readings, and more records would seem to be in flight than the queue can hold.
        let outcomes = lock(&self.outcomes);
        let mut counts = outcomes.counts;
        for (signal, (counts, accepted)) in counts.iter_mut().zip(accepted()).enumerate() {
            // In the order of `NotEnqueuedReason`.
            let [queue_full, too_large, after_shutdown, suppressed, no_worker, panicked] =
                self.not_enqueued[signal].each_ref().map(|count| count.load(Ordering::Relaxed));
            counts.not_enqueued =
                NotEnqueued { queue_full, too_large, after_shutdown, suppressed, no_worker, panicked };
            counts.accepted = accepted;
            counts.in_flight = unsettled(counts, accepted);
        }
        drop(outcomes);
        let [traces, mut logs, metrics] = counts;
        logs.filtered = self.filtered.total();
        let attempts = self.attempts.load(Ordering::Relaxed);
        ExporterLedger { name: name.to_owned(), traces, logs, metrics, attempts }
    }

    /// Counts data points that the worker has collected, if `admit` returns true. Returns the result of `admit`, or
    /// `None` if the counters are closed.
    pub(crate) fn admit_collected(&self, points: u64, admit: impl FnOnce() -> bool) -> Option<bool> {
        let mut outcomes = lock(&self.outcomes);
        let is_admitted = (!outcomes.closed).then(admit);
        outcomes.collected += if is_admitted == Some(true) { points } else { 0 };
        is_admitted
    }

    pub(crate) fn are_closed(&self) -> bool {
        lock(&self.outcomes).closed
    }

    /// Closes the counters. Accepted records without an outcome count as dropped by the shutdown. If they are in the
    /// flight recorder (`is_recorded`), they count as spooled, except collected data points, which are never in it.
    pub(crate) fn close(&self, is_recorded: bool, accepted: impl FnOnce() -> [u64; Signal::COUNT]) {
        let mut outcomes = lock(&self.outcomes);
        if outcomes.closed {
            return;
        }
        outcomes.closed = true;
        let unrecorded = [0, 0, outcomes.collected];
        let signals = outcomes.counts.iter_mut().zip(accepted()).zip(unrecorded);
        for ((counts, accepted), unrecorded) in signals {
            let left = unsettled(counts, accepted);
            // Recovered records stay in the spool until they have an outcome, so at most the accepted records are
            // dropped.
            let dropped = left.min(if is_recorded { unrecorded } else { accepted });
            counts.dropped.shutdown += dropped;
            counts.spooled += left - dropped;
        }
    }
}

fn count_of(counts: &mut Counts, outcome: Outcome) -> &mut u64 {
    match outcome {
        Outcome::Delivered => &mut counts.delivered,
        Outcome::Rejected => &mut counts.rejected,
        Outcome::Refused => &mut counts.dropped.refused,
        Outcome::GaveUp => &mut counts.dropped.gave_up,
        Outcome::TooLarge => &mut counts.dropped.too_large,
        Outcome::WorkerPanicked => &mut counts.dropped.worker_panicked,
        Outcome::Superseded => &mut counts.superseded,
        Outcome::Damaged => &mut counts.dropped.damaged,
        Outcome::Expired => &mut counts.dropped.expired,
    }
}

/// Returns how many accepted or recovered records have no outcome.
fn unsettled(counts: &Counts, accepted: u64) -> u64 {
    let mut left = accepted + counts.recovered;
    subtract(&mut left, counts.settled());
    left
}

/// Subtracts, but not below 0, so that a wrong count does not wrap around to a huge number. A wrong count is a bug of
/// this library, and debug builds panic.
fn subtract(from: &mut u64, records: u64) {
    let before = *from;
    *from = before.saturating_sub(records);
    debug_assert!(before >= records, "{records} of {before} records were settled: one was counted twice");
}

/// A counter that many threads increment and that is rarely read. Each thread adds to one of 16 cache lines, so that
/// threads seldom contend for a line.
#[derive(Debug, Default)]
pub(crate) struct ShardedCounter([CounterShard; COUNTER_SHARDS]);

#[derive(Debug, Default)]
#[repr(align(128))]
struct CounterShard(AtomicU64);

impl ShardedCounter {
    #[inline]
    pub(crate) fn add_one(&self) {
        self.0[thread_number() % COUNTER_SHARDS].0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn total(&self) -> u64 {
        self.0.iter().map(|shard| shard.0.load(Ordering::Relaxed)).sum()
    }
}
