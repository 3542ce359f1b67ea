//! The outcome of records is the same over both transports.

use std::time::Duration;

use standpipe::ledger::Counts;
use standpipe::receiver::{Answer, Receiver};
use standpipe::{Exporter, FlushOutcome, Problem, ProblemKind, Signal};

use super::{assert_refused_at_once, export, exporter};
use crate::support::scene::{FOR_EVER, LONG, Problems, emit, gathering_to, start};

/// Returns the outcome of ten spans whose first request gets this answer. Later requests are accepted.
fn outcome_of(answer: &Answer, exporter: Exporter, receiver: &Receiver) -> (Counts, Vec<ProblemKind>) {
    let problems = Problems::default();
    let telemetry = problems.start(exporter);
    receiver.script([answer.clone()]);
    emit(&telemetry.tracer("shop"), 10);
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    let kinds = problems.reported().iter().map(|problem| problem.kind).collect();
    (telemetry.shutdown(LONG).total(), kinds)
}

#[test]
fn the_same_answers_lead_to_the_same_ledger_and_the_same_problems() {
    for answer in [
        Answer::ok(),
        Answer::empty_partial(),
        Answer::partial(3, "three are too old"),
        Answer::partial(0, "use something newer"),
        Answer::status(503),
        Answer::status(503).message("later").retry_delay(Duration::ZERO),
        Answer::status(429).retry_delay(Duration::ZERO),
        Answer::status(502),
        Answer::status(504),
        Answer::status(400).message("no"),
        Answer::status(401),
        Answer::status(403),
        Answer::status(404),
        Answer::status(500),
        Answer::status(413).message("message larger than max (5 vs. 4)"),
        Answer::reset(),
        Answer::reset_after_request(),
        Answer::close(),
        Answer::ok().then_close(),
        Answer::gzip_bomb(1 << 20),
    ] {
        let http = Receiver::start().unwrap();
        let over_http = outcome_of(&answer, gathering_to(&http.endpoint()), &http);
        let grpc = Receiver::start().unwrap();
        let over_grpc = outcome_of(&answer, gathering_over_grpc(&grpc), &grpc);
        assert_eq!(over_grpc, over_http, "{answer:?}");
        assert_eq!(grpc.span_count(), http.span_count(), "{answer:?}");
    }
}

fn gathering_over_grpc(receiver: &Receiver) -> Exporter {
    exporter(receiver).linger(FOR_EVER).queue_bytes(64 << 20)
}

#[test]
fn records_that_a_server_rejects_are_counted_with_its_reason() {
    let receiver = Receiver::start().unwrap();
    receiver.script([Answer::partial(3, "three are too old")]);
    let problems = Problems::default();
    let telemetry = problems.start(gathering_over_grpc(&receiver));
    emit(&telemetry.tracer("shop"), 10);
    let counts = telemetry.shutdown(LONG).total();
    assert_eq!((counts.delivered, counts.rejected), (7, 3), "{counts}");
    let [Problem { kind: ProblemKind::PartialSuccess, message, .. }] = &problems.reported()[..] else {
        panic!("{:?}", problems.reported());
    };
    assert!(message.contains("three are too old"), "{message}");
}

#[test]
fn a_signal_that_has_no_place_there_does_not_touch_the_others() {
    let receiver = Receiver::start().unwrap();
    receiver.always_for(Signal::Logs, Answer::grpc(12).message("unknown service"));
    let problems = Problems::default();
    let telemetry = problems.start(exporter(&receiver));
    emit(&telemetry.tracer("shop"), 3);
    telemetry.logger("shop").info("paid").emit();
    let ledger = telemetry.shutdown(LONG);
    assert_eq!(
        (ledger.exporters[0].traces.delivered, ledger.exporters[0].logs.dropped.total()),
        (3, 1),
        "{ledger}"
    );
    let problem = problems.wait_for(ProblemKind::NotTaken);
    assert!(problem.message.contains("UNIMPLEMENTED: unknown service"), "{problem}");
}

#[test]
fn a_delay_that_the_server_asks_for_is_kept() {
    let receiver = Receiver::start().unwrap();
    let delay = Duration::from_millis(150);
    receiver.script([Answer::grpc(8).message("not now").retry_delay(delay)]);
    let telemetry = start(gathering_over_grpc(&receiver));
    emit(&telemetry.tracer("shop"), 1);
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    assert_eq!(telemetry.shutdown(LONG).total().delivered, 1);
    let times: Vec<_> = receiver.requests().iter().map(|request| request.received_at).collect();
    assert!(times[1] - times[0] >= delay, "{:?}", times[1] - times[0]);
}

#[test]
fn a_secret_that_the_server_repeats_is_not_shown() {
    const TOKEN: &str = "Wq7ZkR4vXt9N";
    for answer in [
        Answer::grpc(16).message(format!("bad token {TOKEN}")),
        Answer::grpc(16).message(format!("bad%20token {TOKEN}, twice {TOKEN}")),
    ] {
        let receiver = Receiver::start().unwrap();
        receiver.always(answer);
        let outcome = export(exporter(&receiver).header("authorization", format!("Bearer {TOKEN}")));
        assert_refused_at_once(&outcome, "UNAUTHENTICATED: bad");
        let message = &outcome.1[0].message;
        assert!(message.contains("***") && !message.contains(TOKEN), "{message}");
        assert_eq!(receiver.requests()[0].header("authorization"), Some(format!("Bearer {TOKEN}").as_str()));
    }
}

#[test]
fn what_is_too_large_for_the_server_goes_in_smaller_requests() {
    let receiver = Receiver::start().unwrap();
    receiver.script([Answer::grpc(11).message("Error, decoded message length too large: found 5 bytes")]);
    let telemetry = start(gathering_over_grpc(&receiver));
    emit(&telemetry.tracer("shop"), 10);
    let counts = telemetry.shutdown(LONG).total();
    assert_eq!((counts.delivered, receiver.span_count()), (10, 10), "{counts}");
    let sizes: Vec<_> = receiver.requests().iter().map(|request| request.records).collect();
    assert_eq!(sizes, [10, 5, 5]);
}
