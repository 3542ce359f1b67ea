//! gRPC behaves like HTTP: in time, each record arrives or is counted as lost, and the reason is reported.

mod connections;
#[cfg(unix)]
mod fork;
mod outcomes;
mod proxies;
mod requests;
mod tls;
mod wire;

use std::time::Duration;

use standpipe::config::Proxy;
use standpipe::receiver::Receiver;
use standpipe::{Exporter, FlushOutcome, Ledger, Problem, ProblemKind};

use crate::support::scene::{LONG, Problems, emit};

/// An exporter without delays.
fn exporter(receiver: &Receiver) -> Exporter {
    exporter_to(&receiver.grpc_endpoint())
}

fn exporter_to(endpoint: &str) -> Exporter {
    Exporter::grpc(endpoint)
        .proxy(Proxy::Off)
        .throttle(Duration::ZERO)
        .retry_delays(Duration::from_millis(1), Duration::from_millis(20))
}

/// Exports one span, and waits for its outcome.
fn export(exporter: Exporter) -> (Ledger, Vec<Problem>) {
    let problems = Problems::default();
    let telemetry = problems.start(exporter);
    emit(&telemetry.tracer("shop"), 1);
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    (telemetry.shutdown(LONG), problems.reported())
}

/// Asserts that the span was refused after one attempt, and that the only problem contains the reason `why`.
#[track_caller]
fn assert_refused_at_once((ledger, problems): &(Ledger, Vec<Problem>), why: &str) {
    assert_eq!((ledger.total().delivered, ledger.total().dropped.refused), (0, 1), "{why}: {ledger}");
    assert_eq!(ledger.exporters[0].attempts, 1, "{why}: it was tried again");
    let [problem] = &problems[..] else { panic!("{why}: one problem should be reported: {problems:?}") };
    assert_eq!(problem.kind, ProblemKind::Refused, "{problem}");
    assert!(problem.message.contains(why), "it should say {why:?}: {problem}");
}
