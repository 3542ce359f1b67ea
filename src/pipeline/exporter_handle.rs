//! One exporter as callers see it: its queues, its counters, and the channels to its worker.

use std::io;
use std::mem;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded};

use crate::config::{
    BatchSettings, Level, PaceSettings, QueueSettings, RetrySettings, Signals, SpoolSettings,
};
use crate::context::{self, Owner};
use crate::metrics::Reader;
use crate::pipeline::clock;
use crate::pipeline::exporter_set::StartError;
use crate::pipeline::ledger::{Counters, ExporterLedger, Handover, NotEnqueuedReason};
use crate::pipeline::queue::{Queue, RoomMaker, Shared, Wait, WorkerStart};
use crate::pipeline::schedule::Throttle;
use crate::pipeline::self_observation::Observer;
use crate::pipeline::worker::manual::{Goal, ManualWorker, OnEnd};
use crate::pipeline::worker::{
    Commands, CurrentAttempt, Delivery, NextFlush, PendingFlush, PeriodicReader, State, Stop, Worker,
};
use crate::process::{Driver, spawn};
use crate::record::{Chunk, FrameLimits, OpenSpanSlot, Scope, Severity, Signal};
use crate::spool::{Recorder, Spool};
use crate::transport::{Opener, Transport};
use crate::{pipeline::problems::ProblemReporter, problem::ProblemHook, problem::ProblemKind};

/// Bytes of the headers of the resource's and the scope's messages in a request, rounded up.
const FRAME_BYTES: usize = 16;
/// Largest frame of a metric. A larger metric gets several frames, because a request that is too large for the
/// collector can only be divided between frames.
const MAX_METRIC_FRAME_BYTES: usize = 64 << 10;

/// Slots that the flight recorder has per signal besides a full queue: enough for 32 chunks, open or being sent.
const SPARE_SLOTS: usize = 32 * Chunk::BYTES / Chunk::SLOT_BYTES;

/// Time after which callers give up on a worker thread that has not begun to run. See [`WorkerStart`].
const MAX_START_TIME: Duration = Duration::from_secs(5);

/// Returns the encoded resource of this process, a part of every request. A forked child has its own.
pub(crate) type ResourceSource = Arc<dyn Fn() -> Vec<u8> + Send + Sync>;

/// Everything that is needed to start an exporter, in this process or in a forked child.
pub(crate) struct ExporterSpec {
    pub(crate) name: String,
    pub(crate) filter: RecordFilter,
    pub(crate) queue: QueueSettings,
    pub(crate) batch: BatchSettings,
    pub(crate) pace: PaceSettings,
    pub(crate) retry: RetrySettings,
    pub(crate) spool: SpoolSettings,
    pub(crate) attempt_timeout: Duration,
    pub(crate) resource: ResourceSource,
    /// Source and interval of the metrics; `None` if the exporter does not send metrics.
    pub(crate) metrics: Option<(Reader, Duration)>,
    pub(crate) hook: Option<ProblemHook>,
    pub(crate) transport: Opener,
    pub(crate) driver: Driver,
    pub(crate) observer: Option<Observer>,
}

impl ExporterSpec {
    /// Returns the size above which a record can never be sent by this exporter.
    pub(crate) fn largest_record(&self) -> usize {
        self.batch.bytes.saturating_sub((self.resource)().len() + FRAME_BYTES).min(self.queue.bytes)
    }

    /// Returns the limits by which metrics are divided into frames.
    pub(crate) fn frame_limits(&self) -> FrameLimits {
        let largest = self.largest_record();
        FrameLimits {
            bytes: largest.min(MAX_METRIC_FRAME_BYTES),
            // At most a quarter of the queue, so that a frame gets room even while callers keep enqueuing records.
            points: self.batch.records.min(self.queue.records / 4).max(1) as u64,
            largest,
        }
    }

    /// Opens the transport and the spool. Opening the transport may call the program's loggers, so no lock may be held.
    /// Records that these loggers emit are suppressed.
    pub(crate) fn prepare(&self) -> Prepared<'_> {
        let resource = (self.resource)();
        Prepared {
            spec: self,
            transport: context::suppress_instrumentation(|| (self.transport)()),
            spool: Spool::open(&self.spool, &self.name, &resource, self.slots(), self.signals()),
            resource,
            owner: None,
        }
    }

    /// Returns the size of the flight recorder, in slots: for each signal a full queue, [`SPARE_SLOTS`], and a quarter
    /// of the queue, which covers unused parts of slots, and gaps between chunks.
    fn slots(&self) -> usize {
        self.signals() * (self.queue.bytes / Chunk::SLOT_BYTES * 5 / 4 + SPARE_SLOTS)
    }

    /// Returns the number of signals that the exporter takes.
    fn signals(&self) -> usize {
        Signal::ALL.into_iter().filter(|signal| self.filter.takes(*signal)).count()
    }

    fn periodic_reader(&self) -> Option<PeriodicReader> {
        let (instruments, interval) = self.metrics.clone()?;
        Some(PeriodicReader { instruments, interval, limits: self.frame_limits() })
    }
}

/// An exporter that is ready to be started.
pub(crate) struct Prepared<'b> {
    spec: &'b ExporterSpec,
    transport: Box<dyn Transport>,
    spool: io::Result<Option<Spool>>,
    resource: Vec<u8>,
    owner: Option<Owner>,
}

impl Prepared<'_> {
    /// Returns the exporter, or an error if its spool could not be opened.
    pub(crate) fn with_spool(self) -> Result<Self, StartError> {
        match self.spool {
            Err(error) => Err(StartError::Spool { exporter: self.spec.name.clone(), error }),
            Ok(_) => Ok(self),
        }
    }

    /// Sets the owner for which the exporter sends telemetry.
    pub(crate) fn for_owner(mut self, owner: Owner) -> Self {
        self.owner = Some(owner);
        self
    }
}

/// The signals and log levels that an exporter takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordFilter {
    pub(crate) signals: Signals,
    pub(crate) level: Level,
}

impl RecordFilter {
    #[inline]
    pub(crate) fn takes(self, signal: Signal) -> bool {
        self.signals.contain(signal)
    }

    /// Returns the lowest severity number of a log record that the exporter takes; `u8::MAX` if it takes no logs.
    pub(crate) fn min_severity(self) -> u8 {
        if self.takes(Signal::Logs) { self.level.min_severity() } else { u8::MAX }
    }

    #[inline]
    pub(crate) fn takes_log(self, severity: Severity) -> bool {
        severity.number() >= self.min_severity()
    }
}

type Queues = [Option<Arc<Queue>>; Signal::COUNT];

/// A running exporter: callers enqueue records here, and control its worker.
pub(crate) struct ExporterHandle {
    name: String,
    pub(crate) filter: RecordFilter,
    /// One queue per signal, so that a signal whose collector fails takes no room from the other signals.
    queues: Queues,
    counters: Arc<Counters>,
    stop: Sender<Stop>,
    /// A clone of `stop`, stored when a stop is requested. The function that is called when the worker ends shares this
    /// cell, so the channel stays connected until then, even if the handle is dropped. A disconnected channel would
    /// make the worker stop at once, without time to send.
    stopped: Arc<OnceLock<Sender<Stop>>>,
    flush: Weak<NextFlush>,
    /// A message on this channel wakes the worker.
    wake: Sender<()>,
    /// Disconnected when the worker has ended. No message is ever sent.
    ended: Receiver<()>,
    /// Ends the current attempt and all later ones.
    interrupt: Box<dyn Fn() + Send + Sync>,
    /// Ends the current attempt. Later attempts use a new connection.
    cut: Box<dyn Fn() + Send + Sync>,
    current_attempt: Arc<CurrentAttempt>,
    /// Source of the metrics.
    reader: Option<Reader>,
    start: Arc<WorkerStart>,
    /// The worker, if callers drive it; `None` if it has a thread.
    manual: Option<Arc<ManualWorker>>,
    recorder: Option<Arc<Recorder>>,
}

impl ExporterHandle {
    /// Starts the exporter's thread, unless callers drive its worker.
    ///
    /// If the spool could not be opened, the exporter starts without it, so that a forked child loses no records. For
    /// other processes, [`Prepared::with_spool`] has returned the error before.
    ///
    /// # Errors
    /// Returns an error if the thread cannot be spawned.
    pub(crate) fn start(prepared: Prepared<'_>) -> io::Result<Self> {
        let (owner, driver) = (prepared.owner, prepared.spec.driver);
        let (mut handle, worker, on_end) = Self::assemble(prepared);
        let queues = || handle.queues.iter().flatten();
        match driver {
            Driver::OwnThread => {
                queues().for_each(|queue| queue.expect(&handle.start));
                let start = Arc::clone(&handle.start);
                spawn(format!("standpipe-{}", handle.name), move || {
                    start.begin();
                    owner.into_iter().for_each(context::export_for);
                    match worker.run() {
                        true => on_end(),
                        // This is a forked child: queues, counters and worker belong to the parent.
                        false => mem::forget(on_end),
                    }
                })?;
            }
            Driver::Caller => {
                handle.start.begin();
                let manual = Arc::new(ManualWorker::new(worker, owner, queues().cloned().collect(), on_end));
                let room_maker: Weak<dyn RoomMaker> =
                    Arc::downgrade(&(Arc::clone(&manual) as Arc<dyn RoomMaker>));
                queues().for_each(|queue| queue.make_room_by(room_maker.clone()));
                handle.manual = Some(manual);
            }
        }
        Ok(handle)
    }

    /// Creates the exporter, a worker that does not run yet, and the function to call when the worker ends.
    pub(crate) fn assemble(
        Prepared { spec, transport, spool, resource, owner }: Prepared<'_>,
    ) -> (Self, Worker, OnEnd) {
        let (wake, woken) = bounded(1);
        let (stop, stops) = bounded(1);
        let flush = Arc::default();
        let (running, ended) = bounded(0);
        let counters = Arc::new(Counters::default());
        let mut reporter = ProblemReporter::new(&spec.name, spec.hook.clone(), owner);
        reporter.driver = spec.driver;
        let reporter = Arc::new(reporter);
        // The caller holds the fork lock, so the hook must not run here. The worker's first step reports the problems.
        reporter.hold_back(true);
        let spool = spool.unwrap_or_else(|error| {
            let what = format!("records do not survive this process: {error}");
            reporter.report_once(None, ProblemKind::Spool, what);
            None
        });
        let recorder = spool.as_ref().map(|spool| Arc::clone(spool.recorder()));
        let mut shared = Shared::new(Arc::clone(&counters), Arc::clone(&reporter), wake.clone());
        shared.recorder = recorder.clone();
        let queues = open_queues(spec, shared);
        let delivery = |signal: Signal| {
            let queue = Arc::clone(queues[signal as usize].as_ref()?);
            let mut delivery = Delivery::of(signal, queue, Arc::clone(&counters), Throttle::new(spec.pace));
            delivery.has_spooled = spool.as_ref().is_some_and(|spool| spool.has_pending(signal));
            Some(delivery)
        };
        let (interrupt, cut) = (transport.interrupter(), transport.cutter());
        let current_attempt = Arc::new(CurrentAttempt::default());
        let mut worker = Worker {
            deliveries: Signal::ALL.into_iter().filter_map(delivery).collect(),
            counters: Arc::clone(&counters),
            transport: Some(transport),
            owner,
            current_attempt: Arc::clone(&current_attempt),
            batch: spec.batch,
            retry: spec.retry,
            attempt_timeout: spec.attempt_timeout,
            resource,
            reader: spec.periodic_reader(),
            spool,
            reporter,
            observer: spec.observer.clone(),
            commands: Commands { stop: stops, flush: Arc::clone(&flush), wake: woken },
            state: State::default(),
        };
        worker.schedule_first_collection();
        let (own_queues, own_counters, own_recorder) =
            (queues.clone(), Arc::clone(&counters), recorder.clone());
        let stopped = Arc::new(OnceLock::new());
        let own_stopped = Arc::clone(&stopped);
        let on_end = move || {
            // The worker closes its own counters: a stop that is called on the worker's thread neither waits for the
            // worker's end nor closes the counters.
            own_counters.close(has_all(own_recorder.as_ref()), || accepted(&own_queues));
            drop((own_stopped, running));
        };
        let handle = Self {
            name: spec.name.clone(),
            filter: spec.filter,
            queues,
            counters,
            stop,
            stopped,
            flush: Arc::downgrade(&flush),
            wake,
            ended,
            interrupt,
            cut,
            current_attempt,
            reader: spec.metrics.as_ref().map(|(reader, _)| reader.clone()),
            start: Arc::new(WorkerStart::due(clock::now() + MAX_START_TIME)),
            manual: None,
            recorder,
        };
        (handle, worker, Box::new(on_end))
    }

    /// Returns an exporter without a worker: it enqueues nothing and counts every record with this reason.
    pub(crate) fn closed(spec: &ExporterSpec, reason: NotEnqueuedReason) -> Self {
        let counters = Arc::new(Counters::default());
        let reporter = Arc::new(ProblemReporter::new(&spec.name, None, None));
        let queues = open_queues(spec, Shared::new(Arc::clone(&counters), reporter, bounded(1).0));
        queues.iter().flatten().for_each(|queue| queue.close_for(reason));
        Self {
            name: spec.name.clone(),
            filter: spec.filter,
            queues,
            counters,
            stop: bounded(1).0,
            stopped: Arc::default(),
            flush: Weak::new(),
            wake: bounded(1).0,
            // The sender is dropped at once, so the channel looks like that of a worker that has ended.
            ended: bounded(0).1,
            interrupt: Box::new(|| ()),
            cut: Box::new(|| ()),
            current_attempt: Arc::default(),
            reader: None,
            start: Arc::new(WorkerStart::due(clock::now())),
            manual: None,
            recorder: None,
        }
    }

    /// Reserves a slot of the flight recorder for an open span.
    pub(crate) fn take_open_span(&self) -> Option<OpenSpanSlot> {
        self.recorder.as_ref()?.take_open_span()
    }

    /// Simulates that the process is killed: the flight recorder keeps its contents.
    #[cfg(test)]
    pub(crate) fn abandon(&self) {
        self.recorder.iter().for_each(|recorder| recorder.abandon());
    }

    /// Calls [`Queue::enqueue`] for the frame's signal. Returns true if the exporter does not take the signal.
    #[inline]
    pub(crate) fn enqueue(&self, scope: &Arc<Scope>, frame: &[u8], records: usize, wait: &Wait) -> bool {
        let queue = self.queues[scope.signal as usize].as_ref();
        queue.is_none_or(|queue| queue.enqueue(scope, frame, records, wait))
    }

    /// Enqueues one framed record of this signal, if the exporter takes the signal. See [`Queue::enqueue_one`].
    #[inline(always)]
    pub(crate) fn enqueue_one(&self, signal: Signal, scope: &Arc<Scope>, frame: &[u8]) {
        if let Some(queue) = &self.queues[signal as usize] {
            queue.enqueue_one(scope, frame);
        }
    }

    /// Counts records that were never framed, or must not be enqueued.
    pub(crate) fn count_not_enqueued(&self, signal: Signal, reason: NotEnqueuedReason, records: u64) {
        self.counters.count_not_enqueued(signal, reason, records);
    }

    /// Counts a log record as filtered if the exporter takes logs, but its level excludes this severity.
    #[inline]
    pub(crate) fn count_if_filtered(&self, severity: Severity) {
        if self.filter.takes(Signal::Logs) && !self.filter.takes_log(severity) {
            self.counters.count_filtered();
        }
    }

    /// Returns the counts of the records of a signal that left the queue.
    pub(crate) fn handover(&self, signal: Signal) -> Handover {
        self.counters.handover(signal)
    }

    pub(crate) fn ledger(&self) -> ExporterLedger {
        self.counters.read(&self.name, || accepted(&self.queues))
    }

    fn queues(&self) -> impl Iterator<Item = &Queue> {
        self.queues.iter().flatten().map(|queue| &**queue)
    }

    pub(crate) fn queue(&self, signal: Signal) -> Option<&Queue> {
        self.queues[signal as usize].as_deref()
    }

    /// Requests a flush and wakes the worker.
    pub(crate) fn start_flush(&self) -> PendingFlush {
        // Without a worker, the request is dropped at once, which ends the flush.
        let pending = self.flush.upgrade().unwrap_or_default().request();
        let _ = self.wake.try_send(());
        pending
    }

    /// Returns the worker, if callers drive it.
    pub(crate) fn manual(&self) -> Option<&ManualWorker> {
        self.manual.as_deref()
    }

    /// Returns the goal of callers that drive the worker: they stop when the channel `reached` receives a message or is
    /// disconnected. `None` if the worker has a thread.
    pub(crate) fn goal(&self, reached: &Receiver<()>) -> Option<Goal<'_>> {
        Some(Goal { worker: self.manual()?, reached: reached.clone() })
    }

    /// Returns the goal of callers that drive the worker during a stop: the end of the worker.
    pub(crate) fn end_goal(&self) -> Option<Goal<'_>> {
        self.goal(&self.ended)
    }

    /// Rejects further records and lets the worker send the accepted ones until the deadline.
    pub(crate) fn start_stop(&self, deadline: Instant) {
        self.queues().for_each(Queue::close);
        // If the worker has ended already, the message is dropped: there is nothing to stop.
        let _ = self.stop.try_send(Stop { begun: clock::now(), by: deadline });
        let _ = self.stopped.set(self.stop.clone());
    }

    /// Ends an attempt that was begun before the stop, if another signal has something to send: each signal gets a
    /// share of the stop's time. The next attempt opens a new connection.
    pub(crate) fn cut_attempt(&self) {
        let is_waiting = |signal: Signal| {
            let has_records = self.queues[signal as usize].as_ref().is_some_and(|queue| queue.level().0 > 0);
            has_records
                || signal == Signal::Metrics && self.reader.as_ref().is_some_and(Reader::has_instruments)
        };
        let is_in_the_way = |current_attempt| {
            Signal::ALL.into_iter().any(|signal| signal != current_attempt && is_waiting(signal))
        };
        // Suppress records: closing a connection may be logged, and a bridged logger would emit the message.
        self.current_attempt.cut_if(is_in_the_way, || context::suppress_instrumentation(|| (self.cut)()));
    }

    /// Ends the current attempt, if the transport can be interrupted, and all later ones.
    pub(crate) fn interrupt(&self) {
        // Suppress records: closing a connection may be logged, and a bridged logger would emit the message.
        context::suppress_instrumentation(|| (self.interrupt)());
    }

    /// Returns whether a stop has finished.
    pub(crate) fn is_stopped(&self) -> bool {
        self.counters.are_closed()
    }

    /// Closes the counters: unsettled records are counted as spooled if the flight recorder has all of them, otherwise
    /// as dropped by the shutdown.
    pub(crate) fn finish_stop(&self) {
        self.counters.close(has_all(self.recorder.as_ref()), || accepted(&self.queues));
    }

    /// Waits for the end of the worker. Returns false if the worker is still running at the deadline. Gives up earlier
    /// if the worker's thread has not begun to run in time.
    pub(crate) fn wait_for_end(&self, deadline: Instant) -> bool {
        let due = self.start.limit().filter(|due| *due < deadline);
        let has_ended = due.is_some_and(|due| self.ends_by(due));
        let may_end = due.is_none() || self.start.limit().is_none();
        has_ended || may_end && self.ends_by(deadline)
    }

    fn ends_by(&self, deadline: Instant) -> bool {
        let has_ended = || self.ended.try_recv() == Err(TryRecvError::Disconnected);
        clock::before_wait(Some(deadline), has_ended);
        let time = deadline.saturating_duration_since(clock::now());
        // Look once more, so that the end of the worker is noticed even if the deadline is in the past.
        self.ended.recv_timeout(time).is_err_and(|error| error.is_disconnected()) || has_ended()
    }
}

fn open_queues(spec: &ExporterSpec, shared: Shared) -> Queues {
    let queue = || Queue::new(&spec.queue, spec.largest_record(), shared.clone());
    Signal::ALL.map(|signal| spec.filter.takes(signal).then(|| Arc::new(queue())))
}

/// Returns whether the flight recorder has all unsettled records that callers have enqueued.
fn has_all(recorder: Option<&Arc<Recorder>>) -> bool {
    recorder.is_some_and(|recorder| recorder.has_all())
}

fn accepted(queues: &Queues) -> [u64; Signal::COUNT] {
    Signal::ALL.map(|signal| queues[signal as usize].as_ref().map_or(0, |queue| queue.accepted()))
}
