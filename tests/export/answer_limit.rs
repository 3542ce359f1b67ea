//! The default limit of an answer is 4 MiB. A success with a longer answer counts as a refusal. Compressed answers are
//! decompressed up to 64 KiB.

use std::sync::mpsc;
use std::time::Duration;

use standpipe::receiver::{Answer, Receiver};
use standpipe::{Compression, Config, Exporter, FlushOutcome, Ledger, Problem, ProblemKind, Telemetry};

/// Longer than anything on loopback takes.
const PATIENCE: Duration = Duration::from_secs(20);
const LIMIT: u64 = 4 << 20;

struct Outcome {
    ledger: Ledger,
    problems: Vec<Problem>,
    receiver: Receiver,
}

/// Exports one span that gets this answer, and one that is accepted.
fn export(answer: Answer) -> Outcome {
    export_by(answer, |receiver| Exporter::http(receiver.endpoint()))
}

fn export_by(answer: Answer, exporter: impl FnOnce(&Receiver) -> Exporter) -> Outcome {
    let receiver = Receiver::start().expect("loopback has a free port");
    receiver.script([answer]);
    let (report, reported) = mpsc::channel();
    let exporter = exporter(&receiver).throttle(Duration::ZERO);
    let config = Config::new().service_name("shop").exporter(exporter).on_problem(move |problem| {
        let _ = report.send(problem.clone());
    });
    let telemetry = Telemetry::start(config).expect("a sound configuration");
    for name in ["first", "second"] {
        telemetry.tracer("shop").span(name).end();
        assert_eq!(telemetry.flush(PATIENCE), FlushOutcome::Complete);
    }
    let ledger = telemetry.shutdown(PATIENCE);
    assert_eq!(receiver.request_count(), 2, "one attempt each: {ledger}");
    Outcome { ledger, problems: reported.try_iter().collect(), receiver }
}

#[test]
fn an_answer_up_to_the_limit_is_taken_and_its_connection_used_again() {
    for bytes in [0, 1, 64 << 10, (64 << 10) + 1, LIMIT] {
        let outcome = export(Answer::oversized(bytes));
        let total = outcome.ledger.total();
        assert_eq!((total.delivered, outcome.ledger.lost()), (2, 0), "{bytes}: {}", outcome.ledger);
        assert_eq!(outcome.receiver.connection_count(), 1, "{bytes}");
    }
}

/// The collector's message is longer than the part of an answer that is kept.
#[test]
fn what_a_long_answer_rejects_is_counted() {
    let message = "too old ".repeat(20_000);
    let json = format!(r#"{{"partialSuccess":{{"rejectedSpans":"1","errorMessage":"{message}"}}}}"#);
    let in_json = Answer::partial(1, "").header("content-type", "application/json").body(json);
    let in_protobuf = || Answer::partial(1, message.as_str());
    for (case, outcome) in [
        ("http", export(in_protobuf())),
        ("json", export(in_json)),
        ("grpc", export_by(in_protobuf(), |receiver| Exporter::grpc(receiver.grpc_endpoint()))),
    ] {
        let total = outcome.ledger.total();
        assert_eq!((total.delivered, total.rejected), (1, 1), "{case}: {}", outcome.ledger);
        assert_eq!(outcome.receiver.span_count(), 1, "{case}");
        let [problem] = &outcome.problems[..] else { panic!("{case}: {:?}", outcome.problems) };
        assert_eq!(problem.kind, ProblemKind::PartialSuccess, "{case}");
        assert!(problem.message.contains("1 record rejected: too old too old"), "{case}: {problem}");
        assert!(problem.message.len() < 1000, "{case}: {} bytes", problem.message.len());
    }
}

#[test]
fn a_longer_answer_is_refused_once_and_reported() {
    let outcome = export(Answer::oversized(LIMIT + 1));
    let total = outcome.ledger.total();
    assert_eq!((total.delivered, total.dropped.refused), (1, 1), "{}", outcome.ledger);
    let [problem] = &outcome.problems[..] else { panic!("{:?}", outcome.problems) };
    assert_eq!(problem.kind, ProblemKind::Refused);
    assert!(problem.message.ends_with("the response is longer than response-bytes"), "{problem}");
}

#[test]
fn the_status_of_a_longer_error_is_what_counts() {
    let long = vec![b'x'; 5 << 20];
    let outcome = export(Answer::status(400).header("content-type", "text/plain").body(long));
    let total = outcome.ledger.total();
    assert_eq!((total.delivered, total.dropped.refused), (1, 1), "{}", outcome.ledger);
    let message = &outcome.problems[0].message;
    assert!(message.contains("400") && message.contains("xxx"), "{message}");
    assert!(message.len() < 500, "{} bytes of message", message.len());
}

/// Decompressed, the answer would far exceed the limit, but the limit applies to the received bytes.
#[test]
fn a_packed_answer_is_not_asked_for_and_not_unpacked_beyond_what_is_kept_of_an_answer() {
    let outcome = export(Answer::gzip_bomb(1 << 30));
    assert_eq!((outcome.ledger.total().delivered, outcome.ledger.lost()), (2, 0), "{}", outcome.ledger);
    for request in outcome.receiver.requests() {
        assert_eq!(request.header("accept-encoding"), Some("identity"));
    }
}

/// A server that receives gzip requests may answer with gzip. Accepted records count as delivered, whatever the size of
/// the decompressed answer.
#[test]
fn a_packed_answer_over_grpc_is_not_unpacked_beyond_what_is_kept_of_an_answer() {
    let over_grpc =
        |receiver: &Receiver| Exporter::grpc(receiver.grpc_endpoint()).compression(Compression::Gzip);
    for (bytes, words) in [(32 << 20, "longer than 64 KiB when it is unpacked"), (1 << 30, "was cut short")] {
        let outcome = export_by(Answer::gzip_bomb(bytes), over_grpc);
        assert_eq!((outcome.ledger.total().delivered, outcome.ledger.lost()), (2, 0), "{}", outcome.ledger);
        let [problem] = &outcome.problems[..] else { panic!("{:?}", outcome.problems) };
        assert_eq!(problem.kind, ProblemKind::PartialSuccess, "{problem}");
        assert!(problem.message.contains(words), "{problem}");
        assert_eq!(outcome.receiver.connection_count(), 1, "{bytes}");
    }
}

#[test]
fn refuses_answers_beyond_response_bytes_over_every_protocol() {
    for case in ["http", "json", "grpc"] {
        let exporter = |receiver: &Receiver| match case {
            "http" => Exporter::http(receiver.endpoint()),
            "json" => Exporter::http(receiver.endpoint()).json(),
            _ => Exporter::grpc(receiver.grpc_endpoint()),
        };
        let answer = || Answer::partial(1, "too old ".repeat(4000));
        let outcome = export_by(answer(), |receiver| exporter(receiver).response_bytes(20 << 10));
        let total = outcome.ledger.total();
        assert_eq!((total.delivered, total.dropped.refused), (1, 1), "{case}: {}", outcome.ledger);
        let message = &outcome.problems[0].message;
        assert!(message.ends_with("the response is longer than response-bytes"), "{case}: {message}");
        let outcome = export_by(answer(), |receiver| exporter(receiver).response_bytes(40 << 10));
        let total = outcome.ledger.total();
        assert_eq!((total.delivered, total.rejected), (1, 1), "{case}: {}", outcome.ledger);
    }
}
