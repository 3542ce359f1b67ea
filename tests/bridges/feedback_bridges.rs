//! With every bridge installed at the finest level, exporters cause no records about themselves, whatever they do.
//!
//! Each test runs a program in its own process, with bridges installed as any program would do it. The collector is in
//! another process, so that only the program and its exporters log here.

use std::collections::BTreeSet;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use opentelemetry::logs::{LogRecord, Logger, LoggerProvider};
use opentelemetry::trace::{Span, Tracer, TracerProvider};
use opentelemetry_sdk::logs::{SdkLogger, SdkLoggerProvider};
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use standpipe::bridge::log::LogBridge;
use standpipe::bridge::metrics::MetricsRecorder;
use standpipe::bridge::opentelemetry::{LogExporter, SpanExporter};
use standpipe::bridge::tracing::{Events, TracingLayer};
use standpipe::receiver::{Answer, Receiver};
use standpipe::{Config, Exporter, FlushOutcome, Ledger, Problem, Provider, Severity, Telemetry};
use tracing_log::LogTracer;
use tracing_subscriber::prelude::*;

use crate::support::process;
use crate::support::tls::{TestCa, TlsFront};

/// Longer than anything on loopback takes.
const PATIENCE: Duration = Duration::from_secs(20);
const ROUNDS: u64 = 5;
/// Variable with the trusted CA of a program.
const CA: &str = "TRUSTED_CA";
/// Target of the log records that the program's problem hook emits on an exporter's thread.
const HOOK: &str = "hook";

/// Crates that used the `log` crate on an exporter's thread.
static OWN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
static SPOKEN: Condvar = Condvar::new();

/// A logger that only notes which crates log on exporters' threads.
struct OwnThreads;

impl log::Log for OwnThreads {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        if thread::current().name().is_some_and(|name| name.starts_with("standpipe-")) {
            let speaker = record.target().split("::").next().unwrap_or_default();
            OWN.lock().unwrap().insert(speaker.to_owned());
            SPOKEN.notify_all();
        }
    }

    fn flush(&self) {}
}

/// A program whose logs, spans, events and measurements all go into its own telemetry.
struct Program {
    telemetry: Telemetry,
    /// Lives as long as the program.
    _tracers: SdkTracerProvider,
    loggers: SdkLoggerProvider,
}

/// The program's tracer and logger of the OpenTelemetry SDK.
static OTEL: OnceLock<(SdkTracer, SdkLogger)> = OnceLock::new();
/// Numbers of spans and log records that one call of `speak` emits. The spans are those of `tracing` and OpenTelemetry.
/// The log records go through `log`, through `log` and `tracing`, through `tracing`, and through OpenTelemetry.
const SPANS: u64 = 2;
const LOGS: u64 = 4;

impl Program {
    fn start(exporter: Exporter) -> Self {
        let telemetry =
            Telemetry::start(Config::new().service_name("shop").exporter(hasty(exporter)).on_problem(report))
                .unwrap();
        // A log record is exported directly, and also becomes an event of tracing.
        LogBridge::new(&telemetry).chain(LogTracer::new()).chain(OwnThreads).install().unwrap();
        let layer = TracingLayer::new(&telemetry).events(Events::Both);
        tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer)).unwrap();
        assert_eq!(log::max_level(), log::LevelFilter::Trace);
        MetricsRecorder::new(&telemetry).install().unwrap();
        // Spans go directly into the exporter's queue, log records through a thread of the SDK.
        let tracers = SdkTracerProvider::builder().with_span_processor(SpanExporter::new(&telemetry)).build();
        let loggers = SdkLoggerProvider::builder().with_batch_exporter(LogExporter::new(&telemetry)).build();
        OTEL.set((tracers.tracer("shop"), loggers.logger("shop"))).unwrap();
        Self { telemetry, _tracers: tracers, loggers }
    }

    /// Emits a record through each API.
    fn speak(&self) {
        let _checkout = tracing::info_span!("checkout").entered();
        log::info!("a customer came in");
        tracing::info!("paid");
        speak_by_the_sdk();
        metrics::counter!("customers").increment(1);
        self.hand_over();
    }

    /// Makes the SDK export the log records in its queue.
    fn hand_over(&self) {
        self.loggers.force_flush().unwrap();
    }

    /// Emits records and waits until they are settled, several times.
    ///
    /// If an export emitted records, they would be sent in the next round.
    fn speak_in_rounds(&self) {
        for round in 1..=ROUNDS {
            self.speak();
            assert_eq!(self.telemetry.flush(PATIENCE), FlushOutcome::Complete);
            // If the export had caused log records, they would be in the SDK's queue now.
            self.hand_over();
            assert_only(round, &self.telemetry.ledger());
        }
    }

    /// Shuts down. Asserts that only the records of `times` calls of `speak` exist, although the crates in `speakers`
    /// logged on the exporter's thread.
    fn end(self, times: u64, budget: Duration, speakers: &[&str]) -> Ledger {
        let ledger = self.telemetry.shutdown(budget);
        assert_only(times, &ledger);
        // Records after the shutdown are counted, but not enqueued.
        self.hand_over();
        assert_only(times, &self.telemetry.ledger());
        // The exporter's thread may outlive the shutdown and log later, so this waits for its records.
        let some_are_silent = |own: &mut BTreeSet<String>| own.len() < speakers.len();
        let (own, _) = SPOKEN.wait_timeout_while(OWN.lock().unwrap(), PATIENCE, some_are_silent).unwrap();
        assert_eq!(
            *own,
            speakers.iter().map(|name| (*name).to_owned()).collect(),
            "or this test proves nothing"
        );
        ledger
    }
}

/// Configures an exporter that sends everything at once.
fn hasty(exporter: Exporter) -> Exporter {
    exporter
        .level(Severity::Trace)
        .throttle(Duration::ZERO)
        .retry_delays(Duration::from_millis(1), Duration::from_millis(5))
}

/// A hook that emits through every API is the most likely cause of feedback.
fn report(problem: &Problem) {
    let _problem = tracing::error_span!("problem").entered();
    log::warn!(target: HOOK, "{problem}");
    tracing::error!("{problem}");
    speak_by_the_sdk();
    // A measurement is not a record and does not cause a request: the next collection exports it.
    metrics::counter!("problems").increment(1);
}

fn speak_by_the_sdk() {
    let (tracer, logger) = OTEL.get().unwrap();
    tracer.start("said by OpenTelemetry").end();
    let mut record = logger.create_log_record();
    record.set_body("said by OpenTelemetry".into());
    record.set_severity_number(opentelemetry::logs::Severity::Info);
    logger.emit(record);
}

#[track_caller]
fn assert_only(times: u64, ledger: &Ledger) {
    let exporter = &ledger.exporters[0];
    let accepted = (exporter.traces.accepted, exporter.logs.accepted);
    assert_eq!(accepted, (SPANS * times, LOGS * times), "{ledger}");
    // If a short shutdown ends before the last collection, measurements count as not enqueued; these are not feedback.
    let late = exporter.metrics.not_enqueued.after_shutdown;
    assert_eq!(ledger.total().not_enqueued.total() - late, suppressed(ledger), "{ledger}");
}

/// Returns the number of records of the hook, which are counted and not sent.
fn suppressed(ledger: &Ledger) -> u64 {
    ledger.total().not_enqueued.suppressed
}

/// Asserts that the collector has received exactly the program's records.
#[track_caller]
fn assert_arrived(receiver: &Receiver, times: u64) {
    assert_eq!((receiver.span_count(), receiver.log_count()), (SPANS * times, LOGS * times));
    // The program itself emits two events within a span in each call of `speak`.
    let events: usize = receiver.spans().iter().map(|received| received.span.events.len()).sum();
    assert_eq!(events as u64, 2 * times);
    let metrics = receiver.metrics();
    assert!(
        metrics.iter().all(|received| ["customers", "problems"].contains(&&*received.metric.name)),
        "{metrics:?}"
    );
}

/// Makes a child's exporter trust the CA.
fn trusting(exporter: Exporter) -> Exporter {
    exporter.ca_pem(std::env::var(CA).unwrap())
}

#[test]
fn after_what_the_program_logged_the_exporter_logs_nothing() {
    let Some(endpoint) = process::task() else {
        let receiver = Receiver::start().unwrap();
        process::run("after_what_the_program_logged_the_exporter_logs_nothing", &receiver.endpoint());
        return assert_arrived(&receiver, ROUNDS);
    };
    let program = Program::start(Exporter::http(endpoint));
    program.speak_in_rounds();
    assert_eq!(program.end(ROUNDS, PATIENCE, &["ureq", "ureq_proto"]).lost(), 0);
}

#[test]
fn so_it_does_over_tls_with_a_name_to_look_up() {
    let Some(endpoint) = process::task() else {
        let (ca, receiver) = (TestCa::new(), Receiver::start().unwrap());
        // a new connection each time
        receiver.always(Answer::ok().header("connection", "close").then_close());
        let front = TlsFront::start(&ca.leaf("localhost"), receiver.address());
        let name = "so_it_does_over_tls_with_a_name_to_look_up";
        process::run_with(name, &front.url(), &[(CA, &ca.pem())]);
        return assert_arrived(&receiver, ROUNDS);
    };
    let program = Program::start(trusting(Exporter::http(endpoint)));
    program.speak_in_rounds();
    assert_eq!(program.end(ROUNDS, PATIENCE, &["rustls", "ureq", "ureq_proto"]).lost(), 0);
}

#[test]
fn so_it_does_over_grpc() {
    let Some(endpoint) = process::task() else {
        let receiver = Receiver::start().unwrap();
        receiver.script([Answer::grpc(14).message("not yet")]);
        process::run("so_it_does_over_grpc", &receiver.grpc_endpoint());
        return assert_arrived(&receiver, ROUNDS);
    };
    let program = Program::start(Exporter::grpc(endpoint));
    program.speak_in_rounds();
    // This transport logs nothing, but the hook does.
    let ledger = program.end(ROUNDS, PATIENCE, &[HOOK]);
    // The four records: a span, and log records through the log crate, through log and tracing, and through tracing.
    assert_eq!((ledger.lost(), suppressed(&ledger)), (4, 4), "{ledger}");
}

#[test]
fn so_it_does_over_grpc_with_tls() {
    let Some(endpoint) = process::task() else {
        let (ca, receiver) = (TestCa::new(), Receiver::start().unwrap());
        let front = TlsFront::offering("h2", &ca.leaf("localhost"), receiver.grpc_address());
        process::run_with("so_it_does_over_grpc_with_tls", &front.url(), &[(CA, &ca.pem())]);
        return assert_arrived(&receiver, ROUNDS);
    };
    let program = Program::start(trusting(Exporter::grpc(endpoint)));
    program.speak_in_rounds();
    assert_eq!(program.end(ROUNDS, PATIENCE, &["rustls"]).lost(), 0);
}

#[test]
fn failures_retries_and_their_reports_make_no_record() {
    let Some(endpoint) = process::task() else {
        let receiver = Receiver::start().unwrap();
        receiver.script([
            Answer::status(503).retry_after("0"),
            Answer::reset_after_request(),
            Answer::status(400).message("no"),
            Answer::partial(1, "one was bad"),
            Answer::redirect(308, "http://127.0.0.1:1/"),
            Answer::garbage("nothing of HTTP"),
        ]);
        process::run("failures_retries_and_their_reports_make_no_record", &receiver.endpoint());
        return;
    };
    let program = Program::start(Exporter::http(endpoint));
    program.speak_in_rounds();
    let ledger = program.end(ROUNDS, PATIENCE, &[HOOK, "ureq", "ureq_proto"]);
    assert!(ledger.lost() > suppressed(&ledger) && suppressed(&ledger) > 0, "{ledger}");
}

#[test]
fn failures_retries_and_their_reports_over_grpc_make_no_record() {
    let Some(endpoint) = process::task() else {
        let receiver = Receiver::start().unwrap();
        receiver.script([
            Answer::grpc(14).message("not now").retry_delay(Duration::from_millis(1)),
            Answer::reset_after_request(),
            Answer::grpc(3).message("no"),
            Answer::partial(1, "one was bad"),
            Answer::go_away(0),
            Answer::garbage("nothing of HTTP/2"),
        ]);
        let name = "failures_retries_and_their_reports_over_grpc_make_no_record";
        process::run(name, &receiver.grpc_endpoint());
        return;
    };
    let program = Program::start(Exporter::grpc(endpoint));
    program.speak_in_rounds();
    let ledger = program.end(ROUNDS, PATIENCE, &[HOOK]);
    assert!(ledger.lost() > suppressed(&ledger) && suppressed(&ledger) > 0, "{ledger}");
}

#[test]
fn a_handshake_that_fails_makes_no_record() {
    let Some(endpoint) = process::task() else {
        let (ca, stranger, receiver) = (TestCa::new(), TestCa::new(), Receiver::start().unwrap());
        let front = TlsFront::start(&ca.leaf("localhost"), receiver.address());
        let name = "a_handshake_that_fails_makes_no_record";
        process::run_with(name, &front.url(), &[(CA, &stranger.pem())]);
        return assert_arrived(&receiver, 0);
    };
    let program = Program::start(trusting(Exporter::http(endpoint)));
    program.speak_in_rounds();
    let ledger = program.end(ROUNDS, PATIENCE, &[HOOK, "rustls", "ureq", "ureq_proto"]);
    assert_eq!(ledger.total().delivered, 0, "{ledger}");
}

#[test]
fn a_shutdown_that_has_to_break_a_connection_makes_no_record() {
    let Some(task) = process::task() else {
        let receiver = Receiver::start().unwrap();
        let name = "a_shutdown_that_has_to_break_a_connection_makes_no_record";
        return leave_hanging(&receiver, name, &receiver.endpoint(), "");
    };
    break_a_connection(&task, |endpoint| Exporter::http(endpoint), &[HOOK, "ureq", "ureq_proto"]);
}

#[test]
fn a_shutdown_that_has_to_break_a_connection_of_grpc_and_tls_makes_no_record() {
    let Some(task) = process::task() else {
        let (ca, receiver) = (TestCa::new(), Receiver::start().unwrap());
        let front = TlsFront::offering("h2", &ca.leaf("localhost"), receiver.grpc_address());
        let name = "a_shutdown_that_has_to_break_a_connection_of_grpc_and_tls_makes_no_record";
        return leave_hanging(&receiver, name, &front.url(), &ca.pem());
    };
    break_a_connection(&task, |endpoint| trusting(Exporter::grpc(endpoint)), &[HOOK, "rustls"]);
}

/// Starts a child, and lets it continue once it has made a request that gets no answer.
fn leave_hanging(receiver: &Receiver, name: &str, endpoint: &str, ca: &str) {
    receiver.always(Answer::hang());
    let gate = TcpListener::bind("127.0.0.1:0").unwrap();
    let task = format!("{endpoint} {}", gate.local_addr().unwrap());
    let child = process::Child::start_with(name, &task, &[(CA, ca)]);
    assert!(receiver.wait_for_requests(1, PATIENCE));
    drop(gate.accept().unwrap());
    child.finish();
}

fn break_a_connection(task: &str, exporter: fn(&str) -> Exporter, speakers: &[&str]) {
    let (endpoint, gate) = task.split_once(' ').unwrap();
    let program = Program::start(exporter(endpoint));
    program.speak();
    // The parent closes this connection to let the child continue.
    TcpStream::connect(gate).unwrap().read_to_end(&mut Vec::new()).unwrap();
    let ledger = program.end(1, Duration::from_millis(50), speakers);
    let exporter = &ledger.exporters[0];
    assert_eq!(exporter.traces.dropped.shutdown + exporter.logs.dropped.shutdown, SPANS + LOGS, "{ledger}");
}

#[test]
fn the_start_and_the_end_of_another_exporter_make_no_record() {
    let Some(endpoint) = process::task() else {
        let (ca, receiver) = (TestCa::new(), Receiver::start().unwrap());
        let front = TlsFront::start(&ca.leaf("localhost"), receiver.address());
        let name = "the_start_and_the_end_of_another_exporter_make_no_record";
        process::run_with(name, &front.url(), &[(CA, &ca.pem())]);
        return assert_eq!(receiver.span_count(), SPANS + 1);
    };
    let program = Program::start(trusting(Exporter::http(endpoint.clone())));
    let other = Telemetry::start(Config::new().exporter(trusting(Exporter::http(endpoint)))).unwrap();
    other.tracer("shop").span("checkout").end();
    assert_eq!(other.flush(PATIENCE), FlushOutcome::Complete);
    drop(other);
    assert_only(0, &program.telemetry.ledger());
    program.speak();
    assert_eq!(program.end(1, PATIENCE, &["rustls", "ureq", "ureq_proto"]).lost(), 0);
}

/// A logger of the program that requests a `Logger` for each record.
struct Asking(Provider);

impl log::Log for Asking {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        ASKED.fetch_add(1, Ordering::SeqCst);
        self.0.logger(record.target()).info("asked").emit();
    }

    fn flush(&self) {}
}

static ASKED: AtomicU32 = AtomicU32::new(0);

#[test]
fn the_start_and_the_end_of_an_exporter_that_sends_nothing_are_not_logged() {
    let Some(endpoint) = process::task() else {
        let receiver = Receiver::start().unwrap();
        let name = "the_start_and_the_end_of_an_exporter_that_sends_nothing_are_not_logged";
        return drop(process::run(name, &receiver.endpoint()));
    };
    let start = || Telemetry::start(Config::new().exporter(hasty(Exporter::http(&endpoint)))).unwrap();
    let telemetry = start();
    let provider: &Provider = telemetry.as_ref();
    LogBridge::new(provider).chain(Asking(provider.clone())).install().unwrap();
    drop(start());
    assert_eq!(ASKED.load(Ordering::SeqCst), 0, "a request was invented");
    assert_eq!(telemetry.ledger().total().accepted, 0);
}
