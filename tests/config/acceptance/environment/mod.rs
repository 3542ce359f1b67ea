//! OpenTelemetry's environment variables.
//!
//! `TRACEPARENT` and `TRACESTATE` belong to the command and are covered by its tests.

mod destination;
mod pace;
mod program;

use standpipe::receiver::Receiver;
use standpipe::{Config, SpanContext, Telemetry};

use crate::acceptance::outcome::Outcome;
use crate::acceptance::table::{Table, hold};
use crate::support::scene::LONG;
use crate::support::scratch::Scratch;

pub(crate) const TABLES: &[Table] = &[
    Table { name: "where it goes", read: variables, rows: destination::DESTINATION },
    Table { name: "for each signal", read: variables, rows: destination::SIGNALS },
    Table { name: "who speaks", read: variables, rows: program::PROGRAM },
    Table { name: "at what pace", read: variables, rows: pace::PACE },
    Table { name: "names", read: variables, rows: program::NAMES },
];

#[test]
fn every_row_holds() {
    hold(TABLES);
}

/// One `NAME=value` per line.
fn pairs(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().map(|line| line.split_once('=').unwrap())
}

fn variables(text: &str) -> Outcome {
    Outcome::of(Config::from_variables(pairs(text)))
}

fn sending_to(receiver: &Receiver, text: &str) -> Telemetry {
    let endpoint = receiver.endpoint();
    let all = [("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str())].into_iter().chain(pairs(text));
    Telemetry::start(Config::from_variables(all).unwrap()).unwrap()
}

#[test]
fn header_values_are_percent_decoded_on_their_way() {
    let receiver = Receiver::start().unwrap();
    let telemetry = sending_to(&receiver, "OTEL_EXPORTER_OTLP_HEADERS=authorization=Basic%20a%3Db,x-one= 1 ");
    telemetry.tracer("shop").span("checkout").end();
    telemetry.shutdown(LONG);
    let requests = receiver.requests();
    assert_eq!(requests[0].header("authorization"), Some("Basic a=b"));
    assert_eq!(requests[0].header("x-one"), Some("1"));
}

/// Emits a span and a log record with two items of each kind, and returns how many of each kind arrive.
///
/// The kinds are: attributes, events and links of the span, and attributes of an event, of a link and of the log
/// record.
fn kept(receiver: &Receiver, variables: &str) -> [usize; 6] {
    let telemetry = sending_to(receiver, variables);
    let other =
        SpanContext::from_traceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").unwrap();
    let mut span = telemetry.tracer("shop").span("checkout");
    span.set("a", "long text").set("b", 1);
    for _ in 0..2 {
        span.event("paid").set("a", 1).set("b", 2);
        span.link(&other).set("a", 1).set("b", 2);
    }
    drop(span);
    telemetry.logger("shop").info("paid").set("a", "long text").set("b", 2).emit();
    telemetry.shutdown(LONG);
    let (spans, logs) = (receiver.spans(), receiver.logs());
    let span = &spans[0].span;
    [
        span.attributes.len(),
        span.events.len(),
        span.links.len(),
        span.events[0].attributes.len(),
        span.links[0].attributes.len(),
        logs[0].log.attributes.len(),
    ]
}

#[test]
fn limits_hold_for_all_attributes_or_for_those_of_one_kind() {
    for (variables, arrived) in [
        ("", [2, 2, 2, 2, 2, 2]),
        ("OTEL_ATTRIBUTE_COUNT_LIMIT=1", [1, 2, 2, 2, 2, 1]),
        ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT=1", [1, 2, 2, 2, 2, 2]),
        ("OTEL_ATTRIBUTE_COUNT_LIMIT=1\nOTEL_SPAN_ATTRIBUTE_COUNT_LIMIT=2", [2, 2, 2, 2, 2, 1]),
        ("OTEL_SPAN_EVENT_COUNT_LIMIT=1", [2, 1, 2, 2, 2, 2]),
        ("OTEL_SPAN_LINK_COUNT_LIMIT=1", [2, 2, 1, 2, 2, 2]),
        ("OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT=1", [2, 2, 2, 1, 2, 2]),
        ("OTEL_LINK_ATTRIBUTE_COUNT_LIMIT=1", [2, 2, 2, 2, 1, 2]),
        ("OTEL_LOGRECORD_ATTRIBUTE_COUNT_LIMIT=1", [2, 2, 2, 2, 2, 1]),
    ] {
        assert_eq!(kept(&Receiver::start().unwrap(), variables), arrived, "{variables}");
    }
}

#[test]
fn texts_are_cut_to_the_length_that_is_set() {
    for (variables, of_span, of_log) in [
        ("", "long text", "long text"),
        ("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT=4", "long", "long"),
        ("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT=4", "long", "long text"),
        ("OTEL_LOGRECORD_ATTRIBUTE_VALUE_LENGTH_LIMIT=4", "long text", "long"),
    ] {
        let receiver = Receiver::start().unwrap();
        kept(&receiver, variables);
        let arrived = [&receiver.spans()[0].span.attributes[0], &receiver.logs()[0].log.attributes[0]]
            .map(|attribute| format!("{:?}", attribute.value));
        assert!(arrived[0].contains(&format!("{of_span:?}")), "{variables}: {arrived:?}");
        assert!(arrived[1].contains(&format!("{of_log:?}")), "{variables}: {arrived:?}");
    }
}

#[test]
fn certificates_are_read_from_their_files() {
    let scratch = Scratch::new();
    let file = |name: &str, kind: &str| {
        let pem = format!("-----BEGIN {kind}-----\n-----END {kind}-----\n");
        scratch.write(name, pem).display().to_string()
    };
    let certificate = file("certificate.pem", "CERTIFICATE");
    let key = file("key.pem", "PRIVATE KEY");
    let text = format!(
        "OTEL_EXPORTER_OTLP_ENDPOINT=https://a.test\nOTEL_EXPORTER_OTLP_CERTIFICATE={certificate}\n\
         OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE={certificate}\nOTEL_EXPORTER_OTLP_CLIENT_KEY={key}"
    );
    let outcome = variables(&text);
    let expected = [
        format!("ca-file = {certificate}"),
        format!("client-certificate-file = {certificate}"),
        format!("client-key-file = {key}"),
        "ca-file from OTEL_EXPORTER_OTLP_CERTIFICATE".to_owned(),
    ];
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    assert_eq!(outcome.compare(&expected), Ok(()));
}

#[test]
fn what_is_switched_off_sends_nothing_and_hands_contexts_on() {
    let receiver = Receiver::start().unwrap();
    let telemetry = sending_to(&receiver, "OTEL_SDK_DISABLED=true");
    let remote = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let parent = SpanContext::from_traceparent(remote).unwrap();
    let span = telemetry.tracer("shop").span_builder("work").parent(&parent).start();
    assert_eq!(span.context().traceparent(), remote);
    drop(span);
    telemetry.shutdown(LONG);
    assert_eq!(receiver.connection_count(), 0);
}
