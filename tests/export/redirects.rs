//! A redirect is refused, counted and reported: telemetry and credentials are not sent elsewhere.

use std::sync::mpsc;
use std::time::Duration;

use standpipe::receiver::{Answer, Receiver};
use standpipe::{Config, Exporter, FlushOutcome, Problem, ProblemKind, Telemetry};

/// Longer than anything on loopback takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// An exporter to `receiver` with a credential, and its problems.
fn start(receiver: &Receiver) -> (Telemetry, mpsc::Receiver<Problem>) {
    let (report, reported) = mpsc::channel();
    let exporter = Exporter::http(receiver.endpoint())
        .header("Authorization", "Bearer of-the-first-receiver-only")
        .throttle(Duration::ZERO);
    let config = Config::new().service_name("shop").exporter(exporter).on_problem(move |problem| {
        let _ = report.send(problem.clone());
    });
    (Telemetry::start(config).expect("a sound configuration"), reported)
}

#[test]
fn no_redirect_to_another_receiver_is_followed() {
    for status in [301, 302, 303, 307, 308] {
        let (asked, elsewhere) = (Receiver::start().unwrap(), Receiver::start().unwrap());
        let location = format!("{}/v1/traces", elsewhere.endpoint());
        asked.always(Answer::redirect(status, &location));
        let (telemetry, reported) = start(&asked);
        telemetry.tracer("shop").span("checkout").end();
        let ledger = telemetry.shutdown(PATIENCE);

        let traces = ledger.exporters[0].traces;
        assert_eq!((traces.delivered, traces.dropped.refused), (0, 1), "{status}: {ledger}");
        assert_eq!(ledger.exporters[0].attempts, 1, "{status} was tried again");
        assert_eq!((asked.request_count(), asked.span_count()), (1, 0), "{status}");
        assert_eq!(elsewhere.connection_count(), 0, "{status} was followed");

        let problem = reported.try_recv().expect("a redirect is reported");
        assert_eq!(problem.kind, ProblemKind::Refused, "{problem}");
        assert!(problem.message.contains(&location), "it does not say where to: {problem}");
        assert!(problem.message.contains(&status.to_string()), "it does not say what: {problem}");
    }
}

#[test]
fn a_redirect_to_another_path_of_the_same_receiver_is_not_followed_either() {
    let receiver = Receiver::start().unwrap();
    receiver.script([Answer::redirect(308, "/moved")]);
    let (telemetry, reported) = start(&receiver);
    telemetry.tracer("shop").span("checkout").end();
    let ledger = telemetry.shutdown(PATIENCE);

    assert_eq!(ledger.total().dropped.refused, 1, "{ledger}");
    assert_eq!(receiver.request_count(), 1);
    assert!(reported.try_recv().expect("a redirect is reported").message.contains("/moved"));
}

#[test]
fn a_redirect_that_says_nothing_of_where_to_is_refused_and_reported() {
    let receiver = Receiver::start().unwrap();
    receiver.script([Answer::status(302)]);
    let (telemetry, reported) = start(&receiver);
    telemetry.tracer("shop").span("checkout").end();
    let ledger = telemetry.shutdown(PATIENCE);

    assert_eq!(ledger.total().dropped.refused, 1, "{ledger}");
    assert_eq!(reported.try_recv().expect("a redirect is reported").kind, ProblemKind::Refused);
}

#[test]
fn a_location_of_any_length_makes_a_short_report() {
    let receiver = Receiver::start().unwrap();
    receiver.script([Answer::redirect(307, format!("http://127.0.0.1:1/{}", "x".repeat(8000)))]);
    let (telemetry, reported) = start(&receiver);
    telemetry.tracer("shop").span("checkout").end();
    let ledger = telemetry.shutdown(PATIENCE);

    assert_eq!(ledger.total().dropped.refused, 1, "{ledger}");
    let message = reported.try_recv().expect("a redirect is reported").message;
    assert!(message.contains("http://127.0.0.1:1/xxx"), "{message}");
    assert!(message.len() < 500, "{} bytes: {message}", message.len());
}

#[test]
fn what_comes_after_a_redirected_batch_is_delivered_where_the_endpoint_says() {
    let (asked, elsewhere) = (Receiver::start().unwrap(), Receiver::start().unwrap());
    asked.script([Answer::redirect(308, elsewhere.endpoint())]);
    let (telemetry, _told) = start(&asked);
    let tracer = telemetry.tracer("shop");
    tracer.span("first").end();
    assert_eq!(telemetry.flush(PATIENCE), FlushOutcome::Complete);
    tracer.span("second").end();
    let ledger = telemetry.shutdown(PATIENCE);

    assert_eq!((ledger.total().delivered, ledger.total().dropped.refused), (1, 1), "{ledger}");
    assert_eq!(asked.spans()[0].span.name, "second");
    assert_eq!(elsewhere.connection_count(), 0);
}
