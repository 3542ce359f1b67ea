//! How one exporter is started, flushed and stopped: its queues, its worker, its counters, as callers see them.

use std::fmt;
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
use crate::pipeline::ledger::{Counters, ExporterLedger, NotEnqueuedReason};
use crate::pipeline::queue::{Queue, RoomMaker, Shared, Wait, WorkerStart};
use crate::pipeline::schedule::Throttle;
use crate::pipeline::worker::manual::{Goal, ManualWorker, OnEnd};
use crate::pipeline::worker::{
    Commands, CurrentAttempt, Delivery, NextFlush, PendingFlush, PeriodicReader, State, Stop, Worker,
};
use crate::process::{Driver, spawn};
use crate::record::{Chunk, FrameLimits, OpenSpanSlot, Scope, Severity, Signal};
use crate::spool::{Recorder, Spool};
use crate::transport::{Opener, Transport};
use crate::{pipeline::problems::ProblemReporter, problem::ProblemHook, problem::ProblemKind};

/// What a request needs beside its records and the resource: headers of messages, rounded up.
const FRAME_BYTES: usize = 16;
/// A metric with more than this is framed in parts, so that a collector that finds a request too large can be sent less.
const MOST_METRIC_BYTES: usize = 64 << 10;

/// For 32 chunks of each signal that may be open, or be sent, beside a full queue.
const SPARE_SLOTS: usize = 32 * Chunk::BYTES / Chunk::SLOT_BYTES;

/// A thread that has not begun to run in this time will never do so.
const LONGEST_START: Duration = Duration::from_secs(5);

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
    /// The resource as it stands in every request.
    pub(crate) resource: Vec<u8>,
    /// Where its metrics come from, and how often they go; `None` if it sends none.
    pub(crate) metrics: Option<(Reader, Duration)>,
    pub(crate) hook: Option<ProblemHook>,
    pub(crate) transport: Opener,
    pub(crate) driver: Driver,
}

impl ExporterSpec {
    /// The largest record that this exporter can ever send.
    pub(crate) fn largest_record(&self) -> usize {
        self.batch.bytes.saturating_sub(self.resource.len() + FRAME_BYTES).min(self.queue.bytes)
    }

    /// How its metrics are divided.
    pub(crate) fn frame_limits(&self) -> FrameLimits {
        let largest = self.largest_record();
        FrameLimits {
            bytes: largest.min(MOST_METRIC_BYTES),
            // so few that they fit beside what callers enqueue all the time
            points: self.batch.records.min(self.queue.records / 4).max(1) as u64,
            largest,
        }
    }

    /// Opens the transport and the spool. That may call the program's loggers, so no lock may be held; what they log is
    /// suppressed.
    pub(crate) fn prepare(&self) -> Prepared<'_> {
        Prepared {
            spec: self,
            transport: context::suppress_instrumentation(|| (self.transport)()),
            spool: Spool::open(&self.spool, &self.name, &self.resource, self.slots(), self.signals()),
            owner: None,
        }
    }

    /// How large its flight recorder is: for full queues of all signals, of which each chunk leaves less than a slot unused, and
    /// some leave a gap.
    fn slots(&self) -> usize {
        self.signals() * (self.queue.bytes / Chunk::SLOT_BYTES * 5 / 4 + SPARE_SLOTS)
    }

    /// How many signals it takes.
    fn signals(&self) -> usize {
        Signal::ALL.into_iter().filter(|signal| self.filter.takes(*signal)).count()
    }

    fn periodic_reader(&self) -> Option<PeriodicReader> {
        let (instruments, interval) = self.metrics.clone()?;
        Some(PeriodicReader { instruments, interval, limits: self.frame_limits() })
    }
}

/// An exporter that is still to be started.
pub(crate) struct Prepared<'b> {
    spec: &'b ExporterSpec,
    transport: Box<dyn Transport>,
    spool: io::Result<Option<Spool>>,
    owner: Option<Owner>,
}

/// Why an exporter could not be started.
#[derive(Debug)]
pub(crate) enum StartError {
    NoThread(io::Error),
    Spool { exporter: String, error: io::Error },
}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> Self {
        Self::NoThread(error)
    }
}

impl Prepared<'_> {
    /// Insists on the spool.
    pub(crate) fn with_spool(self) -> Result<Self, StartError> {
        match self.spool {
            Err(error) => Err(StartError::Spool { exporter: self.spec.name.clone(), error }),
            Ok(_) => Ok(self),
        }
    }

    /// Sets which telemetry it exports for.
    pub(crate) fn for_owner(mut self, owner: Owner) -> Self {
        self.owner = Some(owner);
        self
    }
}

/// Which records an exporter takes.
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

    /// The least severity of a log record, by number; one that no record has if it takes none.
    pub(crate) fn least_severity(self) -> u8 {
        if self.takes(Signal::Logs) { self.level.least_severity() } else { u8::MAX }
    }

    #[inline]
    pub(crate) fn takes_log(self, severity: Severity) -> bool {
        severity.number() >= self.least_severity()
    }
}

type Queues = [Option<Arc<Queue>>; Signal::COUNT];

/// A running exporter, as its callers and its owner see it.
pub(crate) struct ExporterHandle {
    name: String,
    filter: RecordFilter,
    /// One for each signal that it takes: a signal whose collector is in trouble takes no room from the others.
    queues: Queues,
    counters: Arc<Counters>,
    stop: Sender<Stop>,
    /// Once it is stopped, the worker keeps its own channel open: the handle may be dropped before the worker ends.
    stopped: Arc<OnceLock<Sender<Stop>>>,
    flush: Weak<NextFlush>,
    /// Wakes the worker.
    wake: Sender<()>,
    /// Nothing is ever sent: it is disconnected when the worker has ended.
    ended: Receiver<()>,
    interrupt: Box<dyn Fn() + Send + Sync>,
    cut: Box<dyn Fn() + Send + Sync>,
    current_attempt: Arc<CurrentAttempt>,
    /// Where its metrics come from.
    reader: Option<Reader>,
    start: Arc<WorkerStart>,
    /// `None` if it has a thread.
    manual: Option<Arc<ManualWorker>>,
    recorder: Option<Arc<Recorder>>,
}

impl ExporterHandle {
    /// Starts the exporter's thread, unless callers drive its worker. Without its spool, if there was none to be had: in a
    /// forked child that is no reason to lose records.
    ///
    /// # Errors
    /// When the system has no thread to give.
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

    /// The exporter, its worker, which does not run yet, and what is to be called at the worker's end.
    pub(crate) fn assemble(
        Prepared { spec, transport, spool, owner }: Prepared<'_>,
    ) -> (Self, Worker, OnEnd) {
        let (wake, woken) = bounded(1);
        let (stop, stops) = bounded(1);
        let flush = Arc::default();
        let (running, ended) = bounded(0);
        let counters = Arc::new(Counters::default());
        let reporter = ProblemReporter::new(&spec.name, spec.hook.clone(), owner).driven_by(spec.driver);
        let reporter = Arc::new(reporter);
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
            let mut delivery = Delivery::new(signal, queue, Arc::clone(&counters), Throttle::new(spec.pace));
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
            resource: spec.resource.clone(),
            reader: spec.periodic_reader(),
            spool,
            reporter,
            commands: Commands { stop: stops, flush: Arc::clone(&flush), wake: woken },
            state: State::default(),
        };
        worker.schedule_first_collection();
        let (own_queues, own_counters, own_recorder) =
            (queues.clone(), Arc::clone(&counters), recorder.clone());
        let stopped = Arc::new(OnceLock::new());
        let own_stopped = Arc::clone(&stopped);
        let on_end = move || {
            // a stop from the worker's own thread does not wait for it
            own_counters.close(has_all(own_recorder.as_ref()), || accepted(&own_queues));
            drop((own_stopped, running));
        };
        let start = Arc::new(WorkerStart::due(clock::now() + LONGEST_START));
        let (name, filter) = (spec.name.clone(), spec.filter);
        let reader = spec.metrics.as_ref().map(|(reader, _)| reader.clone());
        let handle = Self {
            name,
            filter,
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
            reader,
            start,
            manual: None,
            recorder,
        };
        (handle, worker, Box::new(on_end))
    }

    /// An exporter without a thread: it enqueues nothing and counts every record for this reason.
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
            // nothing is at its other end, as after the end of a worker
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

    /// Which records it takes.
    #[inline]
    pub(crate) fn filter(&self) -> RecordFilter {
        self.filter
    }

    /// A place in its flight recorder for a span while it is open.
    pub(crate) fn take_open_span(&self) -> Option<OpenSpanSlot> {
        self.recorder.as_ref()?.take_open_span()
    }

    /// The process is as good as killed: what is in the flight recorder stays there.
    #[cfg(test)]
    pub(crate) fn abandon(&self) {
        self.recorder.iter().for_each(|recorder| recorder.abandon());
    }

    /// Enqueues one frame that counts as `records` records, if the exporter takes their signal: see [`Queue::enqueue`].
    #[inline]
    pub(crate) fn enqueue(&self, scope: &Arc<Scope>, frame: &[u8], records: usize, wait: &Wait) -> bool {
        let queue = self.queues[scope.signal as usize].as_ref();
        queue.is_none_or(|queue| queue.enqueue(scope, frame, records, wait))
    }

    /// Counts records that were never framed, or may not be enqueued.
    pub(crate) fn count_not_enqueued(&self, signal: Signal, reason: NotEnqueuedReason, records: u64) {
        self.counters.count_not_enqueued(signal, reason, records);
    }

    /// Counts a log record that the exporter would take if its level let it pass.
    #[inline]
    pub(crate) fn count_if_filtered(&self, severity: Severity) {
        if self.filter.takes(Signal::Logs) && !self.filter.takes_log(severity) {
            self.counters.count_filtered();
        }
    }

    pub(crate) fn ledger(&self) -> ExporterLedger {
        self.counters.read(&self.name, || accepted(&self.queues))
    }

    fn queues(&self) -> impl Iterator<Item = &Queue> {
        self.queues.iter().flatten().map(|queue| &**queue)
    }

    /// The queue of a signal.
    #[cfg(test)]
    pub(crate) fn queue(&self, signal: Signal) -> Option<&Queue> {
        self.queues[signal as usize].as_deref()
    }

    /// Starts a flush.
    pub(crate) fn start_flush(&self) -> PendingFlush {
        // Without a worker, the request is dropped at once, which ends it.
        let pending = self.flush.upgrade().unwrap_or_default().request();
        let _ = self.wake.try_send(());
        pending
    }

    /// The worker, if callers drive it.
    pub(crate) fn manual(&self) -> Option<&ManualWorker> {
        self.manual.as_deref()
    }

    /// What callers drive the worker for, if they do.
    pub(crate) fn goal(&self, reached: &Receiver<()>) -> Option<Goal<'_>> {
        Some(Goal { worker: self.manual()?, reached: reached.clone() })
    }

    /// The same, for its end.
    pub(crate) fn end_goal(&self) -> Option<Goal<'_>> {
        self.goal(&self.ended)
    }

    /// Takes no more records and lets the worker send what it has until the deadline.
    pub(crate) fn start_stop(&self, deadline: Instant) {
        self.queues().for_each(Queue::close);
        // the worker may already be gone; then there is nothing to stop
        let _ = self.stop.try_send(Stop { begun: clock::now(), by: deadline });
        let _ = self.stopped.set(self.stop.clone());
    }

    /// Ends an attempt that was begun before the stop, if another signal has records to send: they have a share of the stop's
    /// time, too. The next attempt opens a new connection.
    pub(crate) fn cut_attempt(&self) {
        let is_waiting = |signal: Signal| {
            let has_records = self.queues[signal as usize].as_ref().is_some_and(|queue| queue.level().0 > 0);
            has_records
                || signal == Signal::Metrics && self.reader.as_ref().is_some_and(Reader::has_instruments)
        };
        let is_in_the_way = |current_attempt| {
            Signal::ALL.into_iter().any(|signal| signal != current_attempt && is_waiting(signal))
        };
        // breaking a connection is logged, and a logger may make a record of that
        self.current_attempt.cut_if(is_in_the_way, || context::suppress_instrumentation(|| (self.cut)()));
    }

    /// Ends what the worker has under way, at once if the network allows.
    pub(crate) fn interrupt(&self) {
        // breaking a connection is logged, and a logger may make a record of that
        context::suppress_instrumentation(|| (self.interrupt)());
    }

    /// Whether a stop has come to its end.
    pub(crate) fn is_stopped(&self) -> bool {
        self.counters.are_closed()
    }

    /// Counts what is not settled as lost to the stop.
    pub(crate) fn finish_stop(&self) {
        self.counters.close(has_all(self.recorder.as_ref()), || accepted(&self.queues));
    }

    /// Waits for the end of the worker; false if it has not come by then. One that should have begun to run and has not is
    /// not waited for.
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
        // a deadline in the past must still see an end that has come
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

impl fmt::Debug for ExporterHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExporterHandle").field("name", &self.name).finish_non_exhaustive()
    }
}
