//! One case: a program that exports to a scripted server, the outcome, its duration, and the memory used.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use standpipe::config::Proxy;
use standpipe::ledger::Counts;
use standpipe::{Compression, Config, Exporter, FlushOutcome, Problem, ProblemKind, Telemetry};

use crate::allocator;
use crate::server::{Heard, Peer, Server};

/// Longer than anything on loopback takes.
pub(crate) const LONG: Duration = Duration::from_secs(60);
/// Timeout of an attempt that the server ends earlier.
const PATIENT: Duration = Duration::from_secs(20);
/// Timeout of an attempt that only the timeout ends.
pub(crate) const HASTY: Duration = Duration::from_secs(1);
/// Additional time on a busy machine.
const SLACK: Duration = Duration::from_secs(8);
/// A pause that never ends, so that one attempt decides.
const FOR_EVER: Duration = Duration::from_secs(200 * 24 * 3600);
/// Maximum memory of a case, for program and server together.
const MAX_BYTES: usize = 2 << 20;

/// Memory is measured for the whole process, so cases run one at a time.
static TURN: Mutex<()> = Mutex::new(());

/// The outcome of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Delivered,
    /// Delivered, with a problem reported.
    Warned,
    Rejected,
    /// Failed in a way that permits a retry, but [`Setting`] ended the retries: dropped as `gave_up`.
    Later,
    Refused,
    NotTaken,
    TooLarge,
}

/// The result of an export.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) fate: Fate,
    /// The message of the problem that was reported.
    pub(crate) words: String,
    pub(crate) took: Duration,
    case: &'static str,
}

impl Outcome {
    #[track_caller]
    pub(crate) fn is(&self, fate: Fate, words: &str) {
        assert!(self.fate == fate && self.words.contains(words), "{}: {self:?}", self.case);
    }
}

pub(crate) struct Stage {
    case: &'static str,
    telemetry: Option<Telemetry>,
    server: Option<Server>,
    problems: Arc<Mutex<Vec<Problem>>>,
    timeout: Duration,
    most_bytes: usize,
    marked: usize,
    before: Counts,
    _turn: MutexGuard<'static, ()>,
}

/// Settings of a program.
pub(crate) struct Setting {
    pub(crate) timeout: Duration,
    pub(crate) give_up_after: Duration,
    pub(crate) retry_delay: Duration,
    pub(crate) batch_records: usize,
    pub(crate) most_bytes: usize,
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            timeout: PATIENT,
            give_up_after: PATIENT,
            retry_delay: FOR_EVER,
            batch_records: 1000,
            most_bytes: MAX_BYTES,
        }
    }
}

impl Setting {
    /// Returns settings for servers that never complete a call.
    pub(crate) fn hasty() -> Self {
        Self { timeout: HASTY, give_up_after: HASTY, ..Self::default() }
    }

    /// Returns settings of a program that retries at once, within the usual time.
    pub(crate) fn retrying() -> Self {
        Self { give_up_after: LONG, retry_delay: Duration::from_millis(1), ..Self::default() }
    }

    /// Allows the memory for requests of several MiB, of which the program holds more than one copy.
    pub(crate) fn large(self) -> Self {
        Self { most_bytes: 12 << 20, ..self }
    }
}

impl Stage {
    pub(crate) fn set(
        case: &'static str,
        setting: Setting,
        script: impl Fn(&mut Peer) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let marked = allocator::mark();
        let server = Server::start(script);
        let exporter = Exporter::grpc(server.endpoint())
            .proxy(Proxy::Off)
            .compression(Compression::None)
            .throttle(Duration::ZERO)
            .linger(FOR_EVER)
            .queue_bytes(64 << 20)
            .batch_records(setting.batch_records)
            .timeout(setting.timeout)
            .give_up_after(setting.give_up_after)
            .retry_delays(setting.retry_delay, setting.retry_delay);
        let problems = Arc::<Mutex<Vec<Problem>>>::default();
        let reported = Arc::clone(&problems);
        let config = Config::new().service_name("shop").exporter(exporter);
        let config = config.on_problem(move |problem| reported.lock().unwrap().push(problem.clone()));
        Self {
            case,
            telemetry: Some(Telemetry::start(config).expect("a sound configuration")),
            server: Some(server),
            problems,
            timeout: setting.timeout.max(setting.give_up_after),
            most_bytes: setting.most_bytes,
            marked,
            before: Counts::default(),
            _turn: turn,
        }
    }

    /// Exports `spans` spans in one request.
    pub(crate) fn export(&mut self, spans: u64) -> Outcome {
        self.export_large(spans, 0)
    }

    /// Exports `spans` spans with `bytes` of text each.
    pub(crate) fn export_large(&mut self, spans: u64, bytes: usize) -> Outcome {
        self.emit(spans, bytes);
        let telemetry = self.running();
        let begun = Instant::now();
        assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete, "{}", self.case);
        let took = begun.elapsed();
        assert!(took < self.timeout + SLACK, "{}: {took:?}", self.case);
        let now = telemetry.ledger().total();
        let before = std::mem::replace(&mut self.before, now);
        let problems = std::mem::take(&mut *self.problems.lock().unwrap());
        let reported = |kind| problems.iter().find(|problem| problem.kind == kind);
        let (fate, kind) = if now.delivered > before.delivered && now.lost() == before.lost() {
            let is_warned = reported(ProblemKind::PartialSuccess).is_some();
            (if is_warned { Fate::Warned } else { Fate::Delivered }, ProblemKind::PartialSuccess)
        } else if now.rejected > before.rejected {
            (Fate::Rejected, ProblemKind::PartialSuccess)
        } else if now.dropped.gave_up > before.dropped.gave_up {
            (Fate::Later, ProblemKind::Unavailable)
        } else if now.dropped.too_large > before.dropped.too_large {
            (Fate::TooLarge, ProblemKind::TooLarge)
        } else if reported(ProblemKind::NotTaken).is_some() {
            (Fate::NotTaken, ProblemKind::NotTaken)
        } else {
            assert!(now.dropped.refused > before.dropped.refused, "{}: {now}, {problems:?}", self.case);
            (Fate::Refused, ProblemKind::Refused)
        };
        let words = reported(kind).map(|problem| problem.message.clone()).unwrap_or_default();
        Outcome { fate, words, took, case: self.case }
    }

    /// Emits `spans` spans with `bytes` of text each, without waiting for their export.
    pub(crate) fn emit(&self, spans: u64, bytes: usize) {
        let tracer = self.running().tracer("shop");
        let text = "x".repeat(bytes);
        for _ in 0..spans {
            tracer.span("work").set("text", text.as_str());
        }
    }

    pub(crate) fn attempts(&self) -> u64 {
        self.running().ledger().exporters[0].attempts
    }

    fn running(&self) -> &Telemetry {
        self.telemetry.as_ref().expect("not ended")
    }

    /// Shuts the program down, which the server must not delay, and checks the memory.
    pub(crate) fn end(self) -> Heard {
        self.shut_down(LONG, 0)
    }

    /// Like [`end`](Self::end), with one span in flight and this budget.
    pub(crate) fn end_within(self, budget: Duration) -> Heard {
        self.shut_down(budget, 1)
    }

    fn shut_down(mut self, budget: Duration, lost: u64) -> Heard {
        let begun = Instant::now();
        let telemetry = self.telemetry.take().expect("not ended");
        let ledger = telemetry.shutdown(budget);
        assert!(begun.elapsed() < SLACK, "{}: a shutdown of {:?}", self.case, begun.elapsed());
        let total = ledger.total();
        assert_eq!((total.in_flight, total.dropped.shutdown), (0, lost), "{}: {ledger}", self.case);
        let heard = self.server.take().expect("not ended").end();
        let rise = allocator::rise(self.marked);
        println!("{}: {} KiB", self.case, rise / 1024);
        println!("most: {} KiB more memory", rise / 1024);
        assert!(rise < self.most_bytes, "{}: {rise} bytes were held", self.case);
        heard
    }
}

/// Exports one span in a separate case.
pub(crate) fn export(
    case: &'static str,
    setting: Setting,
    script: impl Fn(&mut Peer) -> io::Result<()> + Send + Sync + 'static,
) -> (Outcome, Heard) {
    let mut stage = Stage::set(case, setting, script);
    let outcome = stage.export(1);
    assert_eq!(stage.attempts(), 1, "{case}");
    (outcome, stage.end())
}
