//! The exporters of one provider: a record is encoded once and enqueued for each of them.
//!
//! Flush and stop act on all exporters at the same time.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::config::provider::Sampler;
use crate::context::{self, Baggage, Owner, Suppression};
use crate::pipeline::clock;
use crate::pipeline::exporter_handle::{ExporterHandle, ExporterSpec, Prepared, RecordFilter};
use crate::pipeline::ledger::{ExporterLedger, Ledger, NotEnqueuedReason};
use crate::pipeline::queue::Wait;
use crate::pipeline::self_observation::SpanCounts;
use crate::pipeline::worker::manual;
use crate::process::{self, PerProcess};
use crate::record::{IdGenerator, LogLimits, OpenSpanSlot, Scope, Severity, Signal, SpanLimits, Value};

/// Time within which interrupted workers must end.
const INTERRUPT_GRACE: Duration = Duration::from_millis(30);

/// The exporters of one provider.
///
/// A forked child starts its own exporters at its first record. The parent sends the records that the child inherited.
pub(crate) struct ExporterSet {
    spec: Arc<ProviderSpec>,
    /// For each signal, the size of the largest record that any exporter can send; `None` if none takes the signal.
    largest_record: [Option<usize>; Signal::COUNT],
    /// Lowest severity number that at least one exporter takes; `u8::MAX` if none takes logs.
    min_severity: u8,
    handles: PerProcess<Vec<ExporterHandle>>,
    /// True once a stop has begun. A forked child inherits the flag: a child of a stopped program starts nothing.
    stopped: AtomicBool,
}

/// Everything that is needed to start the exporters of a provider.
#[derive(Default)]
pub(crate) struct ProviderSpec {
    pub(crate) owner: Owner,
    pub(crate) exporters: Vec<ExporterSpec>,
    pub(crate) limits: SpanLimits,
    pub(crate) log_limits: LogLimits,
    /// Keys of baggage entries that are copied into attributes.
    pub(crate) baggage_attributes: Vec<String>,
    pub(crate) sampler: Sampler,
    pub(crate) id_generator: Option<Arc<dyn IdGenerator>>,
    pub(crate) scope_levels: Vec<(String, Severity)>,
    /// `None` without self-observation.
    pub(crate) span_counts: Option<Arc<SpanCounts>>,
}

impl ProviderSpec {
    fn prepare(&self) -> Vec<Prepared<'_>> {
        self.exporters.iter().map(|spec| spec.prepare().for_owner(self.owner)).collect()
    }
}

#[derive(Debug)]
pub(crate) enum StartError {
    NoThread(io::Error),
    Spool { exporter: String, error: io::Error },
}

/// The result of a flush, [of all providers](crate::Telemetry::flush) or [of one](crate::Provider::flush).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use = "a flush may leave records behind"]
#[non_exhaustive]
pub enum FlushOutcome {
    /// All records that were accepted before the call have an outcome in the [`Ledger`], such as delivered or dropped.
    Complete,
    /// The budget was used up first, or the caller is an exporter's own thread.
    TimedOut {
        /// Records that are still in flight, in all flushed exporters together.
        left: u64,
    },
}

impl fmt::Debug for ExporterSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExporterSet").field("limits", &self.spec.limits).finish_non_exhaustive()
    }
}

impl ExporterSet {
    /// Starts all exporters.
    ///
    /// # Errors
    /// Returns an error if a thread could not be started or a spool could not be opened. No exporter runs in that case.
    pub(crate) fn start(spec: Arc<ProviderSpec>) -> Result<Self, StartError> {
        process::watch();
        let prepared = spec.prepare().into_iter().map(Prepared::with_spool).collect::<Result<Vec<_>, _>>()?;
        let start = || prepared.into_iter().map(ExporterHandle::start).collect::<io::Result<_>>();
        let handles = PerProcess::new(process::with_fork_lock(start).map_err(StartError::NoThread)?);
        let largest_of = |signal| {
            let takers = spec.exporters.iter().filter(|spec| spec.filter.takes(signal));
            takers.map(ExporterSpec::largest_record).max()
        };
        let min_severities = spec.exporters.iter().map(|spec| spec.filter.min_severity());
        Ok(Self {
            largest_record: Signal::ALL.map(largest_of),
            min_severity: min_severities.min().unwrap_or(u8::MAX),
            spec,
            handles,
            stopped: AtomicBool::new(false),
        })
    }

    pub(crate) fn spec(&self) -> &ProviderSpec {
        &self.spec
    }

    /// Returns whether the set is empty.
    pub(crate) fn is_idle(&self) -> bool {
        self.spec.exporters.is_empty()
    }

    /// Warns that a remote caller may not have chosen its trace id at random, although the probability sampler relies
    /// on that.
    pub(crate) fn warn_of_unpromised_randomness(&self) {
        let queue = self.handles().iter().find_map(|handle| handle.queue(Signal::Traces));
        let message = "a caller does not promise that its trace ids are random, so the probability sampler may record \
                       a different share than configured; update the caller to W3C Trace Context level 2";
        queue.into_iter().for_each(|queue| queue.warn(Signal::Traces, message));
    }

    /// Returns the lowest severity number of a log record of this scope that at least one exporter takes.
    pub(crate) fn min_severity(&self, scope: &Scope) -> u8 {
        let of_scope = self.spec.scope_levels.iter().rfind(|(name, _)| *name == scope.name);
        self.min_severity.max(of_scope.map_or(0, |(_, least)| least.number()))
    }

    /// Reserves a slot in each flight recorder, so that an open span survives the end of the process.
    pub(crate) fn open_span_slots(&self) -> Vec<OpenSpanSlot> {
        // Check the settings before `takers` is called: in a forked child, that call starts the exporters.
        if !self.spec.exporters.iter().any(|exporter| exporter.spool.open_spans) {
            return Vec::new();
        }
        let takers = self.takers(|filter| filter.takes(Signal::Traces));
        takers.filter_map(ExporterHandle::take_open_span).collect()
    }

    pub(crate) fn has_baggage_attributes(&self) -> bool {
        !self.spec.baggage_attributes.is_empty()
    }

    /// Copies the configured baggage entries of this thread into a record that has just begun.
    #[cold]
    pub(crate) fn set_baggage_attributes(&self, mut set: impl FnMut(&str, Value<'_>)) {
        let baggage = Baggage::current();
        for key in &self.spec.baggage_attributes {
            if let Some(value) = baggage.get(key) {
                set(key, Value::Str(value));
            }
        }
    }

    /// Returns the size of the largest record that any exporter can send; `None` if no exporter takes the signal.
    pub(crate) fn largest_record(&self, signal: Signal) -> Option<usize> {
        self.largest_record[signal as usize]
    }

    /// Returns whether any exporter takes a log record of this severity.
    #[inline]
    pub(crate) fn takes_log(&self, severity: Severity) -> bool {
        severity.number() >= self.min_severity
    }

    /// Enqueues a framed span for every exporter that takes spans.
    #[inline]
    pub(crate) fn enqueue_span(&self, scope: &Arc<Scope>, record: &[u8]) {
        match self.handles() {
            // An exporter that does not take spans has no queue for them, so its filter is not checked here.
            [only] => only.enqueue_one(Signal::Traces, scope, record),
            handles => {
                enqueue_to_each(handles, scope, record, 1, None, &|filter| filter.takes(Signal::Traces))
            }
        }
    }

    /// Starts the exporters of a forked child at its first measurement.
    pub(crate) fn start_in_child(&self) {
        // A record that an instrumented allocator emits during the start must not start the exporters again.
        if self.suppression() != Suppression::Uncounted {
            self.handles();
        }
    }

    /// Enqueues a log record for exporters whose level includes it. Counts it as filtered for others that take logs.
    #[inline]
    pub(crate) fn enqueue_log(&self, scope: &Arc<Scope>, severity: Severity, record: &[u8]) {
        match self.handles() {
            // A single exporter's level is the level of the set.
            [only] if self.takes_log(severity) => only.enqueue_one(Signal::Logs, scope, record),
            handles => enqueue_log_to_each(handles, scope, severity, record),
        }
    }

    /// Counts a log record that every exporter's level excludes, for each exporter that takes logs. In a forked child
    /// that has not started its exporters, counts nothing.
    #[inline(never)]
    pub(crate) fn count_log_filtered(&self, severity: Severity) {
        let handles = self.handles.original().map_or_else(|| self.running(), Vec::as_slice);
        handles.iter().for_each(|handle| handle.count_if_filtered(severity));
    }

    /// Counts a span as not enqueued, for each exporter that takes spans.
    pub(crate) fn count_span_not_enqueued(&self, reason: NotEnqueuedReason) {
        self.takers(|filter| filter.takes(Signal::Traces))
            .for_each(|handle| handle.count_not_enqueued(Signal::Traces, reason, 1));
    }

    /// Counts a log record as not enqueued, for each exporter whose level includes it.
    pub(crate) fn count_log_not_enqueued(&self, severity: Severity, reason: NotEnqueuedReason) {
        self.takers(|filter| filter.takes_log(severity))
            .for_each(|handle| handle.count_not_enqueued(Signal::Logs, reason, 1));
    }

    /// Returns whether a span that begins on this thread is suppressed. Counts a suppressed span if it is sampled and
    /// was begun by code of the program (such as the problem hook), not by an exporter.
    #[cold]
    pub(crate) fn suppresses_span(&self, is_sampled: bool) -> bool {
        let suppression = self.suppression();
        if suppression == Suppression::Counted && is_sampled {
            self.count_span_not_enqueued(NotEnqueuedReason::Suppressed);
        }
        suppression != Suppression::None
    }

    /// Returns whether a log record that begins on this thread is suppressed. Counts it like
    /// [`suppresses_span`](Self::suppresses_span).
    #[cold]
    pub(crate) fn suppresses_log(&self, severity: Severity) -> bool {
        let suppression = self.suppression();
        if suppression == Suppression::Counted {
            self.count_log_not_enqueued(severity, NotEnqueuedReason::Suppressed);
        }
        suppression != Suppression::None
    }

    /// Returns whether records of this thread are suppressed, and whether they are counted.
    #[cold]
    pub(crate) fn suppression(&self) -> Suppression {
        context::suppression(self.spec.owner)
    }

    #[inline]
    fn takers(&self, takes: impl Fn(RecordFilter) -> bool) -> impl Iterator<Item = &ExporterHandle> {
        self.handles().iter().filter(move |handle| takes(handle.filter))
    }

    /// Returns the exporters of this process; empty in a forked child that has not emitted yet.
    pub(crate) fn running(&self) -> &[ExporterHandle] {
        self.handles.get().map_or(&[], Vec::as_slice)
    }

    pub(crate) fn ledger(&self) -> Vec<ExporterLedger> {
        self.running().iter().map(ExporterHandle::ledger).collect()
    }

    /// Rejects further records and lets the workers send the accepted ones until the deadline. If a stop was begun
    /// before, only returns false.
    fn start_stop(&self, deadline: Instant) -> bool {
        // A child also starts its exporters under the fork lock, so it starts them before the stop or not at all.
        let is_first = !process::with_fork_lock(|| self.stopped.swap(true, Ordering::SeqCst));
        if is_first {
            self.running().iter().for_each(|handle| handle.start_stop(deadline));
        }
        is_first
    }

    /// Returns the exporters of this process. A forked child starts its own at the first call.
    #[inline]
    fn handles(&self) -> &[ExporterHandle] {
        match self.handles.original() {
            Some(handles) => handles,
            None => self.handles_of_child(),
        }
    }

    #[cold]
    fn handles_of_child(&self) -> &[ExporterHandle] {
        // Outside the lock, because opening a transport may call the program's loggers.
        let prepare = || (!self.is_stopped()).then(|| self.spec.prepare());
        let start = |prepared: Option<Vec<Prepared<'_>>>| {
            let exporters = &self.spec.exporters;
            match prepared {
                // Checked again under the lock: a stop that found no exporters may have come in between.
                Some(prepared) if !self.is_stopped() => {
                    let started = prepared.into_iter().zip(exporters);
                    // Emitting never fails. A child that cannot spawn a thread counts its records as not enqueued.
                    let or_closed = |(prepared, spec)| {
                        ExporterHandle::start(prepared)
                            .unwrap_or_else(|_| ExporterHandle::closed(spec, NotEnqueuedReason::NoWorker))
                    };
                    started.map(or_closed).collect()
                }
                _ => {
                    let closed = |spec| ExporterHandle::closed(spec, NotEnqueuedReason::AfterShutdown);
                    exporters.iter().map(closed).collect()
                }
            }
        };
        // Starting allocates memory, and an instrumented allocator may then emit records. Such records are suppressed,
        // because they would need the exporters that are being started here.
        context::suppress_instrumentation(|| self.handles.get_or_start(prepare, start))
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }
}

/// Metrics that another SDK aggregated. They go through the queue like spans and log records.
#[cfg(feature = "opentelemetry")]
impl ExporterSet {
    /// Returns the temporality of the first exporter that takes metrics; `None` if no exporter does.
    pub(crate) fn temporality(&self) -> Option<crate::config::Temporality> {
        let reader = self.spec.exporters.iter().find_map(|spec| spec.metrics.as_ref());
        reader.map(|(reader, _)| reader.temporality())
    }

    /// Returns limits for dividing metrics into frames that every exporter can take. Only a single data point can still
    /// be too large for some exporters. `None` if no exporter takes metrics.
    pub(crate) fn frame_limits(&self) -> Option<crate::record::FrameLimits> {
        let takers = self.spec.exporters.iter().filter(|spec| spec.filter.takes(Signal::Metrics));
        takers.map(ExporterSpec::frame_limits).reduce(|one, other| crate::record::FrameLimits {
            bytes: one.bytes.min(other.bytes),
            points: one.points.min(other.points),
            largest: one.largest.max(other.largest),
        })
    }

    /// Enqueues a framed metric of `points` data points for every exporter that takes metrics.
    pub(crate) fn enqueue_metric(&self, scope: &Arc<Scope>, frame: &[u8], points: u64) {
        let takes = |filter: RecordFilter| filter.takes(Signal::Metrics);
        enqueue_to_each(self.handles(), scope, frame, points as usize, None, &takes);
    }

    /// Counts data points as not enqueued, for each exporter that takes metrics.
    pub(crate) fn count_points_not_enqueued(&self, points: u64, reason: NotEnqueuedReason) {
        self.takers(|filter| filter.takes(Signal::Metrics))
            .for_each(|handle| handle.count_not_enqueued(Signal::Metrics, reason, points));
    }
}

/// Enqueues a frame of `records` records for each exporter that takes it, first for the exporters with room.
///
/// A caller waits for all full exporters at the same time, from `since` on (now, if `None`), so that their timeouts do
/// not add up.
#[inline(never)]
fn enqueue_to_each(
    handles: &[ExporterHandle],
    scope: &Arc<Scope>,
    frame: &[u8],
    records: usize,
    since: Option<Instant>,
    takes: &dyn Fn(RecordFilter) -> bool,
) {
    for (index, handle) in handles.iter().enumerate() {
        if takes(handle.filter) && !handle.enqueue(scope, frame, records, &Wait::No) {
            let since = since.unwrap_or_else(clock::now);
            // The recursion keeps the list of full exporters on the stack; a `Vec` would have to be allocated.
            enqueue_to_each(&handles[index + 1..], scope, frame, records, Some(since), takes);
            handle.enqueue(scope, frame, records, &Wait::Since(since));
            return;
        }
    }
}

#[inline(never)]
fn enqueue_log_to_each(handles: &[ExporterHandle], scope: &Arc<Scope>, severity: Severity, frame: &[u8]) {
    handles.iter().for_each(|handle| handle.count_if_filtered(severity));
    enqueue_to_each(handles, scope, frame, 1, None, &|filter| filter.takes_log(severity));
}

/// Makes all exporters of these sets, at the same time, send the records accepted before the call.
pub(crate) fn flush(exporter_sets: &[&ExporterSet], deadline: Instant) -> FlushOutcome {
    let handles: Vec<_> = exporter_sets.iter().flat_map(|exporters| exporters.running()).collect();
    // An exporter's own thread would wait for itself.
    if !context::may_be_suppressed() && are_flushed_by(deadline, &handles) {
        return FlushOutcome::Complete;
    }
    let exporters = handles.iter().map(|handle| handle.ledger()).collect();
    FlushOutcome::TimedOut { left: Ledger { exporters, ..Ledger::default() }.total().in_flight }
}

/// Drives the exporters that have no thread: does their due work on this thread, and begins nothing after `until`.
///
/// Returns the time at which more work may be due, if known. `first` selects the exporter to begin with. The caller
/// changes `first` with each call, so that a slow exporter cannot starve the others.
pub(crate) fn pump(exporter_sets: &[&ExporterSet], first: usize, until: Instant) -> Option<Instant> {
    // A worker on this thread has called code of the program, which calls `pump`. So this thread already drives that
    // worker.
    if context::may_be_suppressed() {
        return None;
    }
    let handles = exporter_sets.iter().flat_map(|exporters| exporters.running());
    let mut workers: Vec<_> = handles.filter_map(ExporterHandle::manual).collect();
    let first = first.checked_rem(workers.len()).unwrap_or(0);
    workers.rotate_left(first);
    manual::pump(&workers, until)
}

fn are_flushed_by(deadline: Instant, handles: &[&ExporterHandle]) -> bool {
    let pending: Vec<_> = handles.iter().map(|handle| handle.start_flush()).collect();
    let goals = handles.iter().zip(&pending).filter_map(|(handle, done)| handle.goal(&done.0));
    manual::drive(goals.collect(), deadline, deadline);
    // A flush also ends with its worker: a worker that ends gives all remaining records an outcome.
    let left = || deadline.saturating_duration_since(clock::now());
    pending.iter().all(|flush| flush.ends_within(left()))
}

/// Stops every exporter of these sets, all at the same time: each may send its records until the deadline.
///
/// If another caller has begun a stop, this call only waits for the end of that stop, at most until `deadline`. On an
/// exporter's own thread the call does not wait: each worker sends its records until the deadline and closes its own
/// counters.
pub(crate) fn stop(exporter_sets: &[&ExporterSet], deadline: Instant) {
    let (begun_here, begun_before): (Vec<&ExporterSet>, Vec<_>) =
        exporter_sets.iter().partition(|exporters| exporters.start_stop(deadline));
    if exporter_sets.iter().any(|exporters| context::exports_for(exporters.spec.owner)) {
        return;
    }
    cut_old_attempts(deadline, &begun_here);
    let late = finish_by(deadline, &begun_here);
    finish_by(deadline, &begun_before);
    late.iter().for_each(|handle| handle.interrupt());
    // One grace period for all exporters: separate periods of several blocked exporters would add up.
    let grace_ends = clock::now() + INTERRUPT_GRACE;
    for handle in &late {
        handle.wait_for_end(grace_ends);
    }
    late.iter().for_each(|handle| handle.finish_stop());
}

/// Ends attempts that were begun before the stop, once they have used one signal's share of the stop's time.
fn cut_old_attempts(deadline: Instant, exporter_sets: &[&ExporterSet]) {
    let now = clock::now();
    let share_ends = now + deadline.saturating_duration_since(now) / Signal::COUNT as u32;
    let running = || exporter_sets.iter().flat_map(|exporters| exporters.running());
    manual::drive(running().filter_map(ExporterHandle::end_goal).collect(), share_ends, deadline);
    let late: Vec<_> = running().filter(|handle| !handle.wait_for_end(share_ends)).collect();
    late.iter().for_each(|handle| handle.cut_attempt());
}

/// Closes the counters of all exporters that end by the deadline, and returns those that do not end.
fn finish_by<'o>(deadline: Instant, exporter_sets: &[&'o ExporterSet]) -> Vec<&'o ExporterHandle> {
    let running = || exporter_sets.iter().flat_map(|exporters| exporters.running());
    // Do not wait again for a worker that an earlier stop has given up.
    let open = || running().filter(|handle| !handle.is_stopped());
    manual::drive(open().filter_map(ExporterHandle::end_goal).collect(), deadline, deadline);
    let (ended, late): (Vec<_>, Vec<_>) = open().partition(|handle| handle.wait_for_end(deadline));
    ended.iter().for_each(|handle| handle.finish_stop());
    late
}

/// Returns the deadline of a budget that begins now.
pub(crate) fn deadline(budget: Duration) -> Instant {
    // Clamp the budget to a year: adding a longer time to an `Instant` could overflow.
    let budget = budget.min(Duration::from_secs(365 * 24 * 3600));
    clock::now() + budget
}
