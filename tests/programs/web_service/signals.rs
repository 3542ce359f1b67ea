//! Logs and metrics of both services arrive together with the traces, and refer to them.

use standpipe::receiver::proto::{Data, Event, Number};
use standpipe::receiver::{ReceivedLog, ReceivedMetric};

use super::stage::{Arrived, Stage};
use super::tree;

/// Returns the records of one accepted and one refused order.
fn two_orders() -> Arrived {
    let stage = Stage::open();
    assert_eq!(stage.check_out("order=4711", &[]).0, 200);
    assert_eq!(stage.check_out("order=4712&items=1000", &[]).0, 409);
    stage.close()
}

/// The service, the text and the severity of a log record.
fn line(received: &ReceivedLog) -> (&str, &str, i32) {
    (received.service_name(), received.body().as_str().unwrap(), received.log.severity_number)
}

#[test]
fn log_records_carry_the_ids_of_the_spans_they_were_made_in() {
    const INFO: i32 = 9;
    const WARN: i32 = 13;
    let arrived = two_orders();
    let mut lines: Vec<_> = arrived.logs.iter().map(line).collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            ("storefront", "open for business", INFO),
            ("storefront", "order complete", INFO),
            ("warehouse", "open for business", INFO),
            ("warehouse", "out of stock", WARN),
            ("warehouse", "reserved", INFO),
        ]
    );
    for received in &arrived.logs {
        let name = match line(received).1 {
            "order complete" => "check_out",
            "reserved" | "out of stock" => "POST /reservations",
            _ => {
                assert_eq!((&received.log.trace_id[..], &received.log.span_id[..]), (&[][..], &[][..]));
                continue;
            }
        };
        let traces = tree::traces(&arrived.spans);
        let trace = traces.iter().find(|trace| trace.id() == tree::hex(&received.log.trace_id)).unwrap();
        let span = trace.span(line(received).0, name);
        assert_eq!(received.log.span_id, span.span.span_id);
        let order = trace.span("storefront", "check_out").attribute("order");
        assert_eq!(received.attribute("order"), order);
    }
}

#[test]
fn events_are_in_the_spans_they_happened_in() {
    let arrived = two_orders();
    let events_of = |name: &str| -> Vec<&Event> {
        let spans = arrived.spans.iter().filter(|received| received.span.name == name);
        spans.flat_map(|received| &received.span.events).collect()
    };
    let names = |name: &str| events_of(name).iter().map(|event| event.name.clone()).collect::<Vec<_>>();
    assert_eq!(names("take_from_shelf"), ["taken"]);
    let received = names("check_out").iter().filter(|name| *name == "order received").count();
    assert_eq!(received, 2);
}

#[test]
fn metrics_of_both_services_arrive() {
    let arrived = two_orders();
    let of = |service: &str, name: &str| -> &ReceivedMetric {
        let is_it =
            |received: &&ReceivedMetric| received.service_name() == service && received.metric.name == name;
        arrived.metrics.iter().find(is_it).unwrap_or_else(|| panic!("no {name} of {service}"))
    };
    for service in ["storefront", "warehouse"] {
        let metric = &of(service, "http.server.request.duration").metric;
        assert_eq!((metric.unit.as_str(), metric.description.is_empty()), ("s", false));
        let Some(Data::Histogram(duration)) = &metric.data else { panic!("no histogram") };
        let points: Vec<_> =
            duration.data_points.iter().map(|point| (point.count, point.bucket_counts.len())).collect();
        assert_eq!(points, [(1, 15), (1, 15)], "one for each status, in buckets of seconds");
    }
    let Some(Data::Sum(orders)) = &of("storefront", "orders").metric.data else { panic!("no sum") };
    assert_eq!(orders.data_points.len(), 2, "one for each outcome");
    assert!(orders.data_points.iter().all(|point| point.value == Some(Number::AsInt(1))));
    let Some(Data::Gauge(stock)) = &of("warehouse", "stock.left").metric.data else { panic!("no gauge") };
    assert_eq!(stock.data_points[0].value, Some(Number::AsDouble(999.0)));
}
