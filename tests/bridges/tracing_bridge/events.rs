//! An event becomes an event of its span, a log record, or both.

use opentelemetry_proto::tonic::logs::v1::SeverityNumber;
use standpipe::bridge::tracing::Events;
use standpipe::{Config, Exporter, Sampler, Severity, Telemetry, receiver::Receiver};
use tracing::{Level, debug, error, event, info, info_span, trace, warn};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::prelude::*;

use super::stage::{PATIENCE, as_texts, run, run_with, text};

#[test]
fn an_event_in_a_span_is_an_event_of_the_span() {
    let arrived = run(|| {
        let _span = info_span!("span").entered();
        info!(target: "shop", amount = 12.5, "paid {}", "twice");
    });
    let span = &arrived.span("span").span;
    let event = &span.events[0];
    assert_eq!((span.events.len(), event.name.as_str()), (1, "paid twice"));
    assert_eq!(as_texts(&event.attributes), ["level=\"INFO\"", "target=\"shop\"", "amount=12.5"]);
    assert!((span.start_time_unix_nano..=span.end_time_unix_nano).contains(&event.time_unix_nano));
    assert!(arrived.logs.is_empty());
}

#[test]
fn an_event_outside_of_spans_is_a_log_record() {
    let arrived = run(|| info!(target: "shop", amount = 12.5, "paid"));
    let log = &arrived.logs[0];
    assert_eq!((arrived.logs.len(), log.scope.name.as_str()), (1, "shop"));
    assert_eq!(text(log.log.body.as_ref().unwrap().value.as_ref().unwrap()), "\"paid\"");
    assert_eq!(as_texts(&log.log.attributes), ["amount=12.5"]);
    assert!(log.log.span_id.is_empty());
}

#[test]
fn events_may_be_log_records_with_the_ids_of_their_span_or_both() {
    let program = || {
        let other = info_span!("other");
        let _span = info_span!("span").entered();
        info!("inside");
        info!(parent: &other, "elsewhere");
    };
    let logs = run_with(|layer| layer.events(Events::Logs), program);
    assert!(logs.spans.iter().all(|received| received.span.events.is_empty()));
    let both = run_with(|layer| layer.events(Events::Both), program);
    for arrived in [&logs, &both] {
        assert_eq!(arrived.logs[0].log.span_id, arrived.span("span").span.span_id);
        assert_eq!(arrived.logs[1].log.span_id, arrived.span("other").span.span_id);
        assert_eq!(arrived.logs[1].log.trace_id, arrived.span("other").span.trace_id);
    }
    assert_eq!(both.span("span").span.events[0].name, "inside");
    assert_eq!(both.span("other").span.events[0].name, "elsewhere");
}

#[test]
fn an_event_that_belongs_to_no_span_is_a_log_record_without_ids() {
    let arrived = run(|| {
        let _span = info_span!("span").entered();
        info!(parent: None, "alone");
    });
    assert!(arrived.logs[0].log.span_id.is_empty() && arrived.logs[0].log.trace_id.is_empty());
    assert!(arrived.span("span").span.events.is_empty());
}

#[test]
fn a_message_may_be_any_value() {
    let arrived = run(|| {
        let _span = info_span!("span").entered();
        info!(message = 42);
        info!(message = true, kept = 1);
    });
    let events = &arrived.span("span").span.events;
    assert_eq!((events[0].name.as_str(), events[1].name.as_str()), ("42", "true"));
    assert_eq!(as_texts(&events[1].attributes)[2..], ["kept=1"]);
}

#[test]
fn what_a_program_says_of_its_place_counts() {
    let arrived = run_with(
        |layer| layer.location(true),
        || {
            let _span = info_span!("span", code.file.path = "template.html").entered();
            info!(code.line.number = 7, target = "mine", "event");
        },
    );
    let received = arrived.span("span");
    assert_eq!(received.attribute("code.file.path"), "template.html");
    let event = as_texts(&received.span.events[0].attributes);
    assert!(event.contains(&"code.line.number=7".to_owned()), "{event:?}");
    assert!(event.contains(&"target=\"mine\"".to_owned()), "{event:?}");
}

#[test]
fn levels_are_severities() {
    let arrived = run(|| {
        trace!("t");
        debug!("d");
        info!("i");
        warn!("w");
        error!("e");
    });
    let severities: Vec<_> =
        arrived.logs.iter().map(|log| (log.log.severity_number, log.log.severity_text.as_str())).collect();
    let expected = [
        (SeverityNumber::Trace as i32, "TRACE"),
        (SeverityNumber::Debug as i32, "DEBUG"),
        (SeverityNumber::Info as i32, "INFO"),
        (SeverityNumber::Warn as i32, "WARN"),
        (SeverityNumber::Error as i32, "ERROR"),
    ];
    assert_eq!(severities, expected);
}

#[test]
fn the_level_of_an_exporter_holds_for_log_records() {
    let receiver = Receiver::start().unwrap();
    let exporter = Exporter::http(receiver.endpoint()).level(Severity::Warn);
    let telemetry = Telemetry::start(Config::new().exporter(exporter)).unwrap();
    let layer = standpipe::bridge::tracing::TracingLayer::new(&telemetry);
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
        info!("left out");
        warn!("kept");
    });
    let total = telemetry.shutdown(PATIENCE).total();
    assert_eq!((total.accepted, total.filtered, receiver.log_count()), (1, 1, 1));
}

#[test]
fn an_event_that_only_the_level_of_an_exporter_keeps_from_being_a_log_record_is_counted() {
    for (events, expected) in [(Events::OfSpans, 2), (Events::Logs, 4), (Events::Both, 4)] {
        let receiver = Receiver::start().unwrap();
        let exporter = Exporter::http(receiver.endpoint()).level(Severity::Warn);
        let telemetry = Telemetry::start(Config::new().exporter(exporter)).unwrap();
        let layer = standpipe::bridge::tracing::TracingLayer::new(&telemetry).events(events);
        let layer = layer.with_filter(LevelFilter::INFO);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            info!("outside of spans");
            debug!("kept out by the filter of the layer");
            let span = info_span!("span");
            span.in_scope(|| info!("inside"));
            info!(parent: &span, "inside as well");
            span.in_scope(|| info!(parent: None, "outside again"));
            assert!(tracing::enabled!(Level::INFO));
        });
        let total = telemetry.shutdown(PATIENCE).total();
        assert_eq!((total.filtered, receiver.log_count(), total.lost()), (expected, 0, 0), "{events:?}");
    }
}

/// A value that must not be formatted.
struct Unseen;

impl std::fmt::Debug for Unseen {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        panic!("nobody wants to see it")
    }
}

#[test]
fn an_event_that_goes_nowhere_is_not_formatted() {
    let receiver = Receiver::start().unwrap();
    let exporter = Exporter::http(receiver.endpoint()).level(Severity::Warn);
    let config = Config::new().sampler(Sampler::always_off()).exporter(exporter);
    let telemetry = Telemetry::start(config).unwrap();
    for events in [Events::OfSpans, Events::Logs, Events::Both] {
        let layer = standpipe::bridge::tracing::TracingLayer::new(&telemetry).events(events);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            info!(unseen = ?Unseen, "outside of spans");
            info_span!("unsampled").in_scope(|| info!(unseen = ?Unseen, "inside"));
        });
    }
    assert_eq!(telemetry.shutdown(PATIENCE).total().accepted, 0);
}

#[test]
fn an_event_without_a_message_has_the_name_of_its_place_or_its_own() {
    let arrived = run(|| {
        let _span = info_span!("span").entered();
        info!(answer = 42);
        event!(name: "order.paid", Level::INFO, answer = 42);
        event!(name: "order.paid", parent: None, Level::INFO, "paid");
    });
    let events = &arrived.span("span").span.events;
    assert!(events[0].name.starts_with("event tests/"), "{}", events[0].name);
    assert_eq!(events[1].name, "order.paid");
    assert_eq!(arrived.logs[0].log.event_name, "order.paid");
}

#[test]
fn records_of_the_log_crate_know_where_they_come_from() {
    use tracing_log::AsTrace as _;
    assert_eq!(log::Level::Warn.as_trace(), Level::WARN);
    let line = line!();
    let record = || {
        let metadata = log::Metadata::builder().level(log::Level::Warn).target("old").build();
        tracing_log::format_trace(
            &log::Record::builder()
                .metadata(metadata)
                .args(format_args!("from log"))
                .file(Some("old.rs"))
                .line(Some(line))
                .module_path(Some("old::part"))
                .build(),
        )
        .unwrap();
    };
    let arrived = run_with(
        |layer| layer.location(true),
        || {
            record();
            info_span!("span").in_scope(record);
        },
    );
    let log = &arrived.logs[0];
    assert_eq!((log.scope.name.as_str(), log.log.severity_text.as_str()), ("old", "WARN"));
    let place = format!("code.line.number={line}");
    assert_eq!(
        as_texts(&log.log.attributes),
        ["code.file.path=\"old.rs\"", "code.module.name=\"old::part\"", &place]
    );
    let event = &arrived.span("span").span.events[0];
    assert_eq!(event.name, "from log");
    assert_eq!(as_texts(&event.attributes)[..2], ["level=\"WARN\"", "target=\"old\""]);
}

#[test]
fn leaves_out_what_ureq_logs_at_trace() {
    let record = |target, level| {
        let metadata = log::Metadata::builder().level(level).target(target).build();
        let record = log::Record::builder().metadata(metadata).args(format_args!("Basic c2hvcA==")).build();
        tracing_log::format_trace(&record).unwrap();
    };
    let records = || {
        record("ureq", log::Level::Trace);
        record("ureq_proto::client", log::Level::Trace);
        record("ureq", log::Level::Debug);
        record("shop", log::Level::Trace);
    };
    let arrived = run(|| {
        records();
        info_span!("span").in_scope(records);
    });
    let scopes: Vec<_> = arrived.logs.iter().map(|log| log.scope.name.as_str()).collect();
    assert_eq!(scopes, ["ureq", "shop"]);
    assert_eq!(arrived.span("span").span.events.len(), 2);
}

#[test]
fn events_above_the_limit_are_counted() {
    let arrived = run(|| {
        let _span = info_span!("span").entered();
        (0..130).for_each(|number| info!(number, "again"));
    });
    let span = &arrived.span("span").span;
    assert_eq!((span.events.len(), span.dropped_events_count), (128, 2));
}
