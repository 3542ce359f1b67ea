//! With every bridge open at every level, whatever the exporters are doing: no record of their own making comes back in.
//!
//! Each test is a program in a process of its own, with its bridges installed as any program would do it. The collector is
//! in another one, so that all that is logged here is logged by the program or by its exporters.

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
/// How a program gets its trusted CA.
const CA: &str = "TRUSTED_CA";
/// What the program logs when it hears of a problem, which it does on an exporter's thread.
const HOOK: &str = "hook";

/// Whose records of the `log` crate came from an exporter's thread.
static OWN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
static SPOKEN: Condvar = Condvar::new();

/// A logger that only remembers who speaks on the exporters' threads.
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
    /// Ends with the program.
    _tracers: SdkTracerProvider,
    loggers: SdkLoggerProvider,
}

/// What the program speaks with by way of the OpenTelemetry SDK.
static OTEL: OnceLock<(SdkTracer, SdkLogger)> = OnceLock::new();
/// The spans and log records of one saying: by the log crate, by it and tracing, by tracing, by OpenTelemetry.
const SPANS: u64 = 2;
const LOGS: u64 = 4;

impl Program {
    fn start(exporter: Exporter) -> Self {
        let telemetry =
            Telemetry::start(Config::new().service_name("shop").exporter(hasty(exporter)).on_problem(report))
                .unwrap();
        // what is logged becomes a record of its own, and an event of tracing besides
        LogBridge::new(&telemetry).chain(LogTracer::new()).chain(OwnThreads).install().unwrap();
        let layer = TracingLayer::new(&telemetry).events(Events::Both);
        tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer)).unwrap();
        assert_eq!(log::max_level(), log::LevelFilter::Trace);
        MetricsRecorder::new(&telemetry).install().unwrap();
        // straight into the queue, and by way of a thread of the SDK
        let tracers = SdkTracerProvider::builder().with_span_processor(SpanExporter::new(&telemetry)).build();
        let loggers = SdkLoggerProvider::builder().with_batch_exporter(LogExporter::new(&telemetry)).build();
        OTEL.set((tracers.tracer("shop"), loggers.logger("shop"))).unwrap();
        Self { telemetry, _tracers: tracers, loggers }
    }

    /// Says something in every way that it knows.
    fn speak(&self) {
        let _checkout = tracing::info_span!("checkout").entered();
        log::info!("a customer came in");
        tracing::info!("paid");
        speak_by_the_sdk();
        metrics::counter!("customers").increment(1);
        self.hand_over();
    }

    /// Has the SDK hand over the log records that it still holds.
    fn hand_over(&self) {
        self.loggers.force_flush().unwrap();
    }

    /// Speaks, and waits until that is settled; again and again, as what a round brings in would go with the next.
    fn speak_in_rounds(&self) {
        for round in 1..=ROUNDS {
            self.speak();
            assert_eq!(self.telemetry.flush(PATIENCE), FlushOutcome::Complete);
            // what was said about that would be in the hands of the SDK now
            self.hand_over();
            assert_only(round, &self.telemetry.ledger());
        }
    }

    /// Shuts down, and finds nothing but what was said so many times, although these spoke on the exporter's thread.
    fn end(self, times: u64, budget: Duration, speakers: &[&str]) -> Ledger {
        let ledger = self.telemetry.shutdown(budget);
        assert_only(times, &ledger);
        // what comes now is not enqueued and counted
        self.hand_over();
        assert_only(times, &self.telemetry.ledger());
        // the exporter's thread may outlive a shutdown
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

/// Sends at once, and everything.
fn hasty(exporter: Exporter) -> Exporter {
    exporter
        .level(Severity::Trace)
        .throttle(Duration::ZERO)
        .retry_delays(Duration::from_millis(1), Duration::from_millis(5))
}

/// A hook that says what it hears in every way is the likeliest feedback of all.
fn report(problem: &Problem) {
    let _problem = tracing::error_span!("problem").entered();
    log::warn!(target: HOOK, "{problem}");
    tracing::error!("{problem}");
    speak_by_the_sdk();
    // no record, and no reason to send any: it goes with the next push, as what the program counts
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
    // a shutdown of little time may end before the last snapshot of the metrics, which are no feedback, is collected
    let late = exporter.metrics.not_enqueued.after_shutdown;
    assert_eq!(ledger.total().not_enqueued.total() - late, suppressed(ledger), "{ledger}");
}

/// What the hook has said: it is counted, and goes nowhere.
fn suppressed(ledger: &Ledger) -> u64 {
    ledger.total().not_enqueued.suppressed
}

/// What the collector has got, if all was well.
#[track_caller]
fn assert_arrived(receiver: &Receiver, times: u64) {
    assert_eq!((receiver.span_count(), receiver.log_count()), (SPANS * times, LOGS * times));
    // the program's own, which were both said in a span
    let events: usize = receiver.spans().iter().map(|received| received.span.events.len()).sum();
    assert_eq!(events as u64, 2 * times);
    let metrics = receiver.metrics();
    assert!(
        metrics.iter().all(|received| ["customers", "problems"].contains(&&*received.metric.name)),
        "{metrics:?}"
    );
}

/// The exporter of a child with a trusted CA.
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
    // nothing in this way of sending logs, but the hook does
    let ledger = program.end(ROUNDS, PATIENCE, &[HOOK]);
    // a span, and log records by the log crate, by it and tracing, and by tracing
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

/// Starts a child, and lets it go on once it has asked for something that it will not get.
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
    // the parent opens the gate by closing this
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

/// A logger of the program's own, which asks for a logger each time.
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
