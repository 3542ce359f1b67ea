//! Planted changes in the records of programs that use the OpenTelemetry API.

use std::sync::Arc;

use standpipe::receiver::proto::{
    Data, HistogramDataPoint, LogRecord, Metric, NumberDataPoint, Resource, Span,
};

use crate::exporters::{self, Arrived, differences};

/// The change, and the name of the difference that must be found.
type Plant = (fn(&mut Arrived), &'static str);

const SPANS: &[Plant] = &[
    (|all| span(all).name.push('!'), "name"),
    (|all| span(all).trace_id[0] ^= 1, "ids"),
    (|all| span(all).parent_span_id.push(1), "parent"),
    (|all| span(all).trace_state.push_str("a=b"), "trace state"),
    (|all| span(all).flags ^= 1, "flags"),
    (|all| span(all).kind += 1, "kind"),
    (|all| span(all).end_time_unix_nano += 1, "times"),
    (|all| span(all).status.get_or_insert_default().code = 2, "status"),
    (|all| span(all).attributes.truncate(1), "attributes"),
    (|all| span(all).attributes.swap(0, 1), "attributes"),
    (|all| span(all).dropped_attributes_count += 1, "dropped attributes"),
    (|all| span(all).dropped_events_count += 1, "dropped events"),
    (|all| span(all).dropped_links_count += 1, "dropped links"),
    (|all| span(all).events[1].time_unix_nano += 1, "event 2"),
    (|all| span(all).events[1].attributes.clear(), "event 2 attributes"),
    (|all| drop(span(all).events.pop()), "event 3"),
    (|all| span(all).links[0].flags ^= 1, "link 1"),
    (|all| span(all).links[0].attributes.clear(), "link 1 attributes"),
    (|all| resource(all).attributes.truncate(1), "resource"),
    (|all| Arc::make_mut(&mut all.spans[0].scope).version.push('!'), "scope"),
    (|all| drop(all.spans.pop()), "name"),
];

const LOGS: &[Plant] = &[
    (|all| log(all).body = None, "body"),
    (|all| log(all).severity_number += 1, "severity"),
    (|all| log(all).severity_text.push('!'), "severity"),
    (|all| log(all).event_name.push('!'), "event name"),
    (|all| log(all).time_unix_nano += 1, "times"),
    (|all| log(all).span_id.clear(), "ids"),
    (|all| log(all).flags ^= 1, "flags"),
    (|all| log(all).attributes.clear(), "attributes"),
    (|all| log(all).dropped_attributes_count += 1, "dropped attributes"),
];

const METRICS: &[Plant] = &[
    (|all| metric(all, "counter").unit.push('!'), "unit"),
    (|all| metric(all, "counter").description.push('!'), "description"),
    (|all| sum(all).value = None, "point {}"),
    (|all| sum(all).flags = 1, "point {}"),
    (|all| sum(all).start_time_unix_nano = 0, "point {}"),
    (|all| histogram(all).bucket_counts[0] += 1, "point {}"),
    (|all| histogram(all).explicit_bounds.truncate(1), "point {}"),
    (|all| histogram(all).max = None, "point {}"),
    (|all| all.metrics.retain(|kept| kept.metric.name != "plain"), "kind"),
    (|all| change_kind(metric(all, "counter")), "kind"),
];

#[test]
fn whatever_is_changed_in_a_record_is_found() {
    find(SPANS, "spans_of_everything");
    find(LOGS, "logs_in_spans");
    find(METRICS, "metrics_of_one_push");
}

fn find(plants: &[Plant], program: &str) {
    let program = exporters::all().find(|known| known.name == program).unwrap();
    let usual = program.arrived();
    assert_eq!(differences(program.name, &usual, &usual), []);
    for (number, (change, fact)) in plants.iter().enumerate() {
        let mut changed = usual.clone();
        change(&mut changed);
        let found = differences(program.name, &usual, &changed);
        let is_found = found.iter().any(|difference| difference.name.ends_with(&format!(": {fact}")));
        assert!(is_found, "{} {number} {fact}: {found:#?}", program.name);
    }
}

fn span(all: &mut Arrived) -> &mut Span {
    Arc::make_mut(&mut all.spans[0].span)
}

fn resource(all: &mut Arrived) -> &mut Resource {
    Arc::make_mut(&mut all.spans[0].resource)
}

fn log(all: &mut Arrived) -> &mut LogRecord {
    Arc::make_mut(&mut all.logs[0].log)
}

fn metric<'a>(all: &'a mut Arrived, name: &str) -> &'a mut Metric {
    let received = all.metrics.iter_mut().find(|received| received.metric.name == name).unwrap();
    Arc::make_mut(&mut received.metric)
}

fn sum(all: &mut Arrived) -> &mut NumberDataPoint {
    let Some(Data::Sum(sum)) = &mut metric(all, "counter").data else { panic!("no sum") };
    &mut sum.data_points[0]
}

fn histogram(all: &mut Arrived) -> &mut HistogramDataPoint {
    let Some(Data::Histogram(histogram)) = &mut metric(all, "plain").data else { panic!("no histogram") };
    &mut histogram.data_points[0]
}

fn change_kind(metric: &mut Metric) {
    let Some(Data::Sum(sum)) = &mut metric.data else { panic!("no sum") };
    sum.is_monotonic = !sum.is_monotonic;
}
