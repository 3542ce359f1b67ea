//! With every bridge open at every level, whatever the exporters are doing: no record of their own making comes back in.
//!
//! Each test is a program in a process of its own, with its bridges installed as any program would do it. The collector is
//! in another one, so that all that is logged here is logged by the program or by its exporters.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use standpipe::bridge::log::LogBridge;
use standpipe::bridge::tracing::{Events, TracingLayer};
use standpipe::receiver::{Answer, Receiver};
use standpipe::{Config, Exporter, Flushed, Ledger, Problem, Severity, Telemetry};
use support::process;
use support::tls::{TestCa, TlsFront};
use tracing_log::LogTracer;
use tracing_subscriber::prelude::*;

mod support;

/// Longer than anything on loopback takes.
const PATIENCE: Duration = Duration::from_secs(20);
const ROUNDS: u64 = 5;
/// How a program is told whom to trust.
const CA: &str = "TRUSTED_CA";
/// What the program logs when it hears of a problem, which it does on an exporter's thread.
const HOOK: &str = "hook";

/// Whose records of the `log` crate came from an exporter's thread.
static OWN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

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
        }
    }

    fn flush(&self) {}
}

/// A program whose logs, spans and events all go into its own telemetry.
struct Program {
    telemetry: Telemetry,
}

impl Program {
    fn start(exporter: Exporter) -> Self {
        let telemetry = Telemetry::start(Config::new().exporter(hasty(exporter)).on_problem(tell)).unwrap();
        // what is logged becomes a record of its own, and an event of tracing besides
        LogBridge::new(&telemetry).chain(LogTracer::new()).chain(OwnThreads).install().unwrap();
        let layer = TracingLayer::new(&telemetry).events(Events::Both);
        tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer)).unwrap();
        assert_eq!(log::max_level(), log::LevelFilter::Trace);
        Self { telemetry }
    }

    /// Says something in every way that it knows: one span and three log records.
    fn speak(&self) {
        let _checkout = tracing::info_span!("checkout").entered();
        log::info!("a customer came in");
        tracing::info!("paid");
    }

    /// Speaks, and waits until that is settled; again and again, as what a round brings in would go with the next.
    fn speak_in_rounds(&self) {
        for round in 1..=ROUNDS {
            self.speak();
            assert_eq!(self.telemetry.flush(PATIENCE), Flushed::Complete);
            assert_only(round, &self.telemetry.ledger());
        }
    }

    /// Shuts down, and finds nothing but what was said so many times, although these spoke on the exporter's thread.
    fn end(self, times: u64, budget: Duration, speakers: &[&str]) -> Ledger {
        let ledger = self.telemetry.shutdown(budget);
        drop(self.telemetry);
        assert_only(times, &ledger);
        let own = OWN.lock().unwrap();
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
fn tell(problem: &Problem) {
    let _problem = tracing::error_span!("problem").entered();
    log::warn!(target: HOOK, "{problem}");
    tracing::error!("{problem}");
}

#[track_caller]
fn assert_only(times: u64, ledger: &Ledger) {
    let exporter = &ledger.exporters[0];
    assert_eq!((exporter.traces.accepted, exporter.logs.accepted), (times, 3 * times), "{ledger}");
    assert_eq!(ledger.total().turned_away.total(), 0, "{ledger}");
}

/// What the collector has got, if all was well: each span with its two events.
#[track_caller]
fn assert_arrived(receiver: &Receiver, times: u64) {
    assert_eq!((receiver.span_count(), receiver.log_count()), (times, 3 * times));
    assert!(receiver.spans().iter().all(|received| received.span.events.len() == 2));
}

/// The exporter of a child that was told whom to trust.
fn trusting(exporter: Exporter) -> Exporter {
    exporter.ca_pem(std::env::var(CA).unwrap())
}

#[test]
fn after_what_the_program_said_the_exporter_falls_silent() {
    let Some(endpoint) = process::task() else {
        let receiver = Receiver::start().unwrap();
        process::run("after_what_the_program_said_the_exporter_falls_silent", &receiver.endpoint());
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
    assert_eq!(program.end(ROUNDS, PATIENCE, &[HOOK]).lost(), 0);
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
    assert!(program.end(ROUNDS, PATIENCE, &[HOOK, "ureq", "ureq_proto"]).lost() > 0);
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
    assert!(program.end(ROUNDS, PATIENCE, &[HOOK]).lost() > 0);
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
    let Some(endpoint) = process::task() else {
        let receiver = Receiver::start().unwrap();
        receiver.always(Answer::hang());
        let name = "a_shutdown_that_has_to_break_a_connection_makes_no_record";
        return drop(process::run(name, &receiver.endpoint()));
    };
    break_a_connection(Exporter::http(endpoint), &[HOOK, "ureq", "ureq_proto"]);
}

#[test]
fn a_shutdown_that_has_to_break_a_connection_of_grpc_and_tls_makes_no_record() {
    let Some(endpoint) = process::task() else {
        let (ca, receiver) = (TestCa::new(), Receiver::start().unwrap());
        receiver.always(Answer::hang());
        let front = TlsFront::offering("h2", &ca.leaf("localhost"), receiver.grpc_address());
        let name = "a_shutdown_that_has_to_break_a_connection_of_grpc_and_tls_makes_no_record";
        return drop(process::run_with(name, &front.url(), &[(CA, &ca.pem())]));
    };
    break_a_connection(trusting(Exporter::grpc(endpoint)), &[HOOK, "rustls"]);
}

fn break_a_connection(exporter: Exporter, speakers: &[&str]) {
    let program = Program::start(exporter);
    program.speak();
    // as long as it takes for the request to be on its way
    let Flushed::TimedOut { left } = program.telemetry.flush(Duration::from_millis(300)) else {
        panic!("nobody answered");
    };
    assert_eq!(left, 4);
    let ledger = program.end(1, Duration::from_millis(50), speakers);
    assert_eq!(ledger.total().dropped.shutdown, 4, "{ledger}");
}

#[test]
fn the_start_and_the_end_of_another_exporter_make_no_record() {
    let Some(endpoint) = process::task() else {
        let (ca, receiver) = (TestCa::new(), Receiver::start().unwrap());
        let front = TlsFront::start(&ca.leaf("localhost"), receiver.address());
        let name = "the_start_and_the_end_of_another_exporter_make_no_record";
        process::run_with(name, &front.url(), &[(CA, &ca.pem())]);
        return assert_eq!(receiver.span_count(), 1 + 1);
    };
    let program = Program::start(trusting(Exporter::http(endpoint.clone())));
    let other = Telemetry::start(Config::new().exporter(trusting(Exporter::http(endpoint)))).unwrap();
    other.tracer("shop").span("checkout").end();
    assert_eq!(other.flush(PATIENCE), Flushed::Complete);
    drop(other);
    assert_only(0, &program.telemetry.ledger());
    program.speak();
    assert_eq!(program.end(1, PATIENCE, &["rustls", "ureq", "ureq_proto"]).lost(), 0);
}
