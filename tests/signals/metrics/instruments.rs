//! Every instrument arrives with its kind.

use opentelemetry_proto::tonic::metrics::v1::AggregationTemporality;
use standpipe::config::{Histograms, Temporality};
use standpipe::receiver::proto::Data;
use standpipe::receiver::{Receiver, TestTelemetry};
use standpipe::{Config, FlushOutcome, Scope, Signal, Telemetry, Value};

use crate::support::points::{attributes, exponentials, float, histograms, int, named, newest, numbers};
use crate::support::scene::{FOR_EVER, LONG, exporter, start, start_with};

const CUMULATIVE: i32 = AggregationTemporality::Cumulative as i32;
const DELTA: i32 = AggregationTemporality::Delta as i32;

fn flush(telemetry: &Telemetry) {
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
}

#[test]
fn sums_arrive_with_unit_description_kind_and_scope() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).interval(FOR_EVER));
    let meter = telemetry.meter(Scope::new("shop").version("1.2"));
    let orders = meter.build("orders").unit("{order}").description("paid ones").counter();
    orders.add(1, &[("country", "SE")]);
    orders.add(2, &[("country", "SE")]);
    orders.add(4, &[("country", Value::from("NO")), ("express", true.into())]);
    meter.build("revenue").counter_f64().add(12.5, &[]);
    meter.up_down_counter("open").add(-3, ());
    meter.build("balance").up_down_counter_f64().add(-0.5, ());
    flush(&telemetry);

    let received = receiver.metrics();
    let first = &received[0];
    assert_eq!((first.scope.name.as_str(), first.scope.version.as_str()), ("shop", "1.2"));
    let [metric] = &named(&receiver, "orders")[..] else { panic!() };
    assert_eq!((metric.unit.as_str(), metric.description.as_str()), ("{order}", "paid ones"));
    let Some(Data::Sum(sum)) = &metric.data else { panic!("{metric:?}") };
    assert!(sum.is_monotonic);
    assert_eq!(sum.aggregation_temporality, CUMULATIVE);
    let points: Vec<_> = sum.data_points.iter().map(|p| (attributes(&p.attributes), int(p))).collect();
    assert_eq!(points, [("country=SE".to_owned(), 3), ("country=NO,express=true".to_owned(), 4)]);
    assert!(
        sum.data_points
            .iter()
            .all(|p| 0 < p.start_time_unix_nano && p.start_time_unix_nano <= p.time_unix_nano)
    );

    assert_eq!(float(&newest(&receiver, "revenue")[0]), 12.5);
    for name in ["open", "balance"] {
        let Some(Data::Sum(sum)) = &named(&receiver, name)[0].data else { panic!("{name}") };
        assert!(!sum.is_monotonic, "{name}");
    }
    assert_eq!(int(&newest(&receiver, "open")[0]), -3);
    assert_eq!(float(&newest(&receiver, "balance")[0]), -0.5);
    let counts = telemetry.ledger().exporters[0].metrics;
    assert_eq!((counts.accepted, counts.delivered), (5, 5));
}

#[test]
fn a_gauge_tells_its_last_value_of_a_moment_without_a_beginning() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).interval(FOR_EVER));
    let meter = telemetry.meter("shop");
    let temperature = meter.gauge("temperature");
    temperature.record(21.5, ());
    temperature.record(-4.0, ());
    meter.build("stock").gauge_u64().record(7, ());
    meter.build("offset").gauge_i64().record(-7, ());
    let _ = meter.build("unset").gauge_i64().with(&[("never", 1)]);
    flush(&telemetry);

    let [point] = &newest(&receiver, "temperature")[..] else { panic!() };
    assert_eq!((float(point), point.start_time_unix_nano), (-4.0, 0));
    assert!(point.time_unix_nano > 0);
    assert_eq!(int(&newest(&receiver, "stock")[0]), 7);
    assert_eq!(int(&newest(&receiver, "offset")[0]), -7);
    assert!(named(&receiver, "unset").is_empty());
}

#[test]
fn a_histogram_has_the_default_bounds_or_its_own() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).interval(FOR_EVER));
    let meter = telemetry.meter("shop");
    let duration = meter.histogram("duration");
    for value in [0.0, 5.0, 5.1, 10_000.0, 10_000.5, -1.0] {
        duration.record(value, ());
    }
    let sizes = meter.build("size").bounds(&[1.0, 2.0]).histogram_u64();
    sizes.record(1, &[("kind", "small")]);
    sizes.record(2, &[("kind", "small")]);
    sizes.record(3, &[("kind", "small")]);
    flush(&telemetry);

    let [point] = &histograms(&named(&receiver, "duration")[0])[..] else { panic!() };
    let default = [
        0.0, 5.0, 10.0, 25.0, 50.0, 75.0, 100.0, 250.0, 500.0, 750.0, 1000.0, 2500.0, 5000.0, 7500.0,
        10_000.0,
    ];
    assert_eq!(point.explicit_bounds, default);
    assert_eq!(point.bucket_counts, [2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1]);
    assert_eq!(
        (point.count, point.sum, point.min, point.max),
        (6, Some(20_009.6), Some(-1.0), Some(10_000.5))
    );
    let [point] = &histograms(&named(&receiver, "size")[0])[..] else { panic!() };
    assert_eq!((&point.explicit_bounds[..], &point.bucket_counts[..]), (&[1.0, 2.0][..], &[1, 1, 1][..]));
    assert_eq!(point.sum, Some(6.0));
}

#[test]
fn a_histogram_of_seconds_has_bounds_that_fit_seconds() {
    let test = TestTelemetry::start();
    let meter = test.meter("shop");
    for unit in ["s", "seconds"] {
        meter.build(&format!("in.{unit}")).unit(unit).histogram().record(0.03, ());
    }
    meter.histogram("wait.seconds").record(0.03, ());
    meter.histogram("wait_seconds").record(0.03, ());
    meter.build("whole_seconds").histogram_u64().record(3, ());
    meter.build("wait.more.seconds").unit("ms").histogram().record(30.0, ());
    meter.histogram("wait.milliseconds").record(30.0, ());
    meter.histogram("seconds").record(30.0, ());
    meter.build("wait.own.seconds").unit("s").bounds(&[1.0]).histogram().record(0.03, ());
    meter.build("wait.fine.seconds").unit("s").exponential().histogram().record(0.03, ());

    let received = test.received();
    let advised = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0];
    for name in ["in.s", "in.seconds", "wait.seconds", "wait_seconds"] {
        let metric = received.metric(name).unwrap();
        let point = metric.point(()).unwrap();
        assert_eq!((point.bounds(), point.bucket_counts()[3]), (&advised[..], 1), "{name}");
    }
    let bounds = |name: &str| received.metric(name).unwrap().point(()).unwrap().bounds().to_vec();
    assert_eq!(bounds("whole_seconds"), advised);
    for of_milliseconds in ["wait.more.seconds", "wait.milliseconds", "seconds"] {
        assert_eq!(bounds(of_milliseconds).last(), Some(&10_000.0), "{of_milliseconds}");
    }
    assert_eq!((bounds("wait.own.seconds"), bounds("wait.fine.seconds")), (vec![1.0], vec![]));
}

#[test]
fn histograms_are_exponential_where_they_are_asked_to_be() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).interval(FOR_EVER).histograms(Histograms::Exponential));
    let meter = telemetry.meter("shop");
    meter.histogram("by exporter").record(8.0, ());
    meter.build("by_instrument").exponential().histogram().record(8.0, ());
    meter.build("explicit").bounds(&[1.0]).histogram().record(8.0, ());
    flush(&telemetry);
    for name in ["by exporter", "by_instrument"] {
        let [point] = &exponentials(&named(&receiver, name)[0])[..] else { panic!() };
        let positive = point.positive.as_ref().unwrap();
        assert_eq!(
            (point.scale, positive.offset, &positive.bucket_counts[..]),
            (20, (3 << 20) - 1, &[1][..])
        );
        assert_eq!((point.count, point.sum, point.min, point.max), (1, Some(8.0), Some(8.0), Some(8.0)));
    }
    assert_eq!(histograms(&named(&receiver, "explicit")[0])[0].bucket_counts, [0, 1]);
}

#[test]
fn an_instrument_that_is_asked_for_again_is_the_same() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).interval(FOR_EVER));
    for name in ["orders", "ORDERS", "orders"] {
        telemetry.meter("shop").counter(name).add(1, ());
    }
    telemetry.meter("elsewhere").counter("orders").add(10, ());
    flush(&telemetry);
    let sums: Vec<_> = named(&receiver, "orders").iter().map(|metric| int(&numbers(metric)[0])).collect();
    assert_eq!(sums, [3, 10]);
}

#[test]
fn a_bound_handle_and_lookups_share_a_series() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).interval(FOR_EVER));
    let orders = telemetry.meter("shop").counter("orders");
    let bound = orders.with(&[("country", "SE")]);
    bound.add(1);
    orders.clone().add(2, &[("country", "SE")]);
    drop(orders);
    bound.add(4);
    flush(&telemetry);
    let [point] = &newest(&receiver, "orders")[..] else { panic!() };
    assert_eq!(int(point), 7);
}

#[test]
fn without_an_exporter_of_metrics_instruments_do_nothing() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).signals([Signal::Traces]));
    let meter = telemetry.meter("shop");
    meter.counter("orders").add(1, &[("country", "SE")]);
    meter.counter("orders").with(&[("country", "SE")]).add(1);
    meter.histogram("duration").record(1.0, ());
    meter.build("asked").observe_gauge(|_| panic!("nobody wants to know"));
    flush(&telemetry);
    let ledger = telemetry.shutdown(LONG);
    assert_eq!((receiver.request_count(), ledger.total().accepted), (0, 0));
}

#[test]
fn handles_outlive_their_telemetry() {
    let receiver = Receiver::start().unwrap();
    let exporter = exporter(&receiver).interval(FOR_EVER);
    let telemetry = start_with(Config::new().exporter(exporter).drop_budget(LONG));
    let orders = telemetry.meter("shop").counter("orders");
    let bound = orders.with(());
    orders.add(1, ());
    drop(telemetry);
    orders.add(1, ());
    bound.add(1);
    assert_eq!(int(&newest(&receiver, "orders")[0]), 1, "dropping pushed once more");
}

#[test]
fn each_exporter_is_reported_in_its_own_way() {
    let (one, other) = (Receiver::start().unwrap(), Receiver::start().unwrap());
    let config = Config::new()
        .exporter(exporter(&one).named("one").interval(FOR_EVER))
        .exporter(exporter(&other).named("other").interval(FOR_EVER).temporality(Temporality::Delta));
    let telemetry = start_with(config);
    let meter = telemetry.meter("shop");
    let (orders, open, size) =
        (meter.counter("orders"), meter.up_down_counter("open"), meter.histogram("size"));
    for _ in 0..2 {
        orders.add(1, ());
        open.add(1, ());
        size.record(1.0, ());
        flush(&telemetry);
    }
    for (receiver, orders, temporality) in [(&one, 2, CUMULATIVE), (&other, 1, DELTA)] {
        let metric = named(receiver, "orders").pop().unwrap();
        assert_eq!(int(&numbers(&metric)[0]), orders);
        let Some(Data::Sum(sum)) = metric.data else { panic!() };
        assert_eq!(sum.aggregation_temporality, temporality);
        let metric = named(receiver, "size").pop().unwrap();
        assert_eq!(histograms(&metric)[0].count, orders as u64);
        let Some(Data::Histogram(histogram)) = metric.data else { panic!() };
        assert_eq!(histogram.aggregation_temporality, temporality);
        let metric = named(receiver, "open").pop().unwrap();
        assert_eq!(int(&numbers(&metric)[0]), 2, "up-down counters are always cumulative");
        let Some(Data::Sum(sum)) = metric.data else { panic!() };
        assert_eq!(sum.aggregation_temporality, CUMULATIVE);
    }
}

#[test]
fn low_memory_is_delta_for_what_is_measured_and_cumulative_for_what_is_observed() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).interval(FOR_EVER).temporality(Temporality::LowMemory));
    let meter = telemetry.meter("shop");
    let orders = meter.counter("orders");
    meter.build("seconds").observe_counter(|observer| observer.observe(5, ()));
    for _ in 0..2 {
        orders.add(1, ());
        flush(&telemetry);
    }
    let values =
        |name| -> Vec<_> { named(&receiver, name).iter().map(|metric| int(&numbers(metric)[0])).collect() };
    assert_eq!((values("orders"), values("seconds")), (vec![1, 1], vec![5, 5]));
    let Some(Data::Sum(sum)) = &named(&receiver, "seconds")[0].data else { panic!() };
    assert_eq!(sum.aggregation_temporality, CUMULATIVE);
}
