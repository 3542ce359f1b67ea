//! Metrics of the OpenTelemetry SDK through the bridge: they arrive as the SDK's own exporter would send them, and
//! every point is counted.

use std::future::Future;
use std::io::Write;
use std::net::TcpStream;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use opentelemetry::metrics::MeterProvider;
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::metrics::{
    Aggregation, Instrument, PeriodicReader, SdkMeterProvider, Stream, Temporality as SdkTemporality,
};
use prost::Message;
use standpipe::bridge::opentelemetry::MetricExporter;
use standpipe::config::Temporality;
use standpipe::receiver::proto::{Data, KeyValue as Attribute, Metric, Sum};
use standpipe::receiver::{Answer, ReceivedMetric, Receiver};
use standpipe::{Compression, Config, FlushOutcome, Signal, WhenFull};

use crate::support::points::{attributes, int, named, numbers};
use crate::support::scene::{
    FOR_EVER, LONG, closed_address, exporter, exporter_to, gathering, open_at, start, start_with,
};

/// Keeps each request that opentelemetry-otlp would have sent, and passes the metrics on to `exporter`.
struct Witness {
    exporter: MetricExporter,
    seen: Arc<Mutex<Vec<ExportMetricsServiceRequest>>>,
}

impl PushMetricExporter for Witness {
    fn export(&self, metrics: &ResourceMetrics) -> impl Future<Output = OTelSdkResult> + Send {
        self.seen.lock().unwrap().push(metrics.into());
        self.exporter.export(metrics)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn temporality(&self) -> SdkTemporality {
        self.exporter.temporality()
    }
}

/// A provider that collects only when it is flushed or shut down.
fn provider(exporter: impl PushMetricExporter) -> SdkMeterProvider {
    let reader = PeriodicReader::builder(exporter).with_interval(FOR_EVER).build();
    SdkMeterProvider::builder().with_reader(reader).with_view(many_series).build()
}

/// Allows more series of the instrument `many` than the SDK does by default.
fn many_series(instrument: &Instrument) -> Option<Stream> {
    (instrument.name() == "many").then(|| Stream::builder().with_cardinality_limit(10_000).build().unwrap())
}

/// Records one point for each number.
fn record_many(provider: &SdkMeterProvider, points: i64) {
    let gauge = provider.meter("shop").i64_gauge("many").build();
    (0..points).for_each(|number| gauge.record(number, &[KeyValue::new("number", number)]));
}

/// Returns the result of a future that is ready at once.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it is not ready"),
    }
}

fn sum(metric: &Metric) -> &Sum {
    match &metric.data {
        Some(Data::Sum(sum)) => sum,
        other => panic!("{other:?}"),
    }
}

/// Polls the ledger, because it cannot be waited for.
fn wait_until(reached: impl Fn() -> bool) {
    let deadline = Instant::now() + LONG;
    while !reached() {
        assert!(Instant::now() < deadline, "it never came");
        thread::yield_now();
    }
}

fn measure_all_kinds(provider: &SdkMeterProvider) {
    let scope = InstrumentationScope::builder("shop")
        .with_version("1.2.3")
        .with_schema_url("https://example.com/scope")
        .with_attributes([KeyValue::new("team", "blue")])
        .build();
    let meter = provider.meter_with_scope(scope);
    let pairs = [KeyValue::new("country", "SE"), KeyValue::new("express", true)];
    meter
        .u64_counter("counter.u64")
        .with_unit("{order}")
        .with_description("all orders")
        .build()
        .add(7, &pairs);
    meter.f64_counter("counter.f64").build().add(0.5, &[]);
    meter.i64_up_down_counter("up_down.i64").build().add(-3, &pairs);
    meter.f64_up_down_counter("up_down.f64").build().add(-0.5, &[]);
    meter.u64_gauge("gauge.u64").build().record(1, &[]);
    meter.i64_gauge("gauge.i64").build().record(-1, &pairs);
    meter.f64_gauge("gauge.f64").build().record(1.5, &[]);
    meter.u64_histogram("histogram.u64").with_boundaries(vec![1.0, 10.0]).build().record(5, &pairs);
    let histogram = meter.f64_histogram("exponential").build();
    [0.25, -8.0, 0.0, 1e6].iter().for_each(|value| histogram.record(*value, &[]));
    meter.f64_histogram("no_extremes").build().record(3.0, &[]);
    meter.u64_observable_counter("observed.u64").with_callback(|seen| seen.observe(9, &[])).build();
    let observed = meter.f64_observable_gauge("observed.f64");
    observed
        .with_callback(move |seen| {
            pairs.iter().for_each(|pair| seen.observe(0.1, std::slice::from_ref(pair)))
        })
        .build();
}

/// Number of points that [`measure_all_kinds`] makes.
const ALL_KINDS: u64 = 13;

fn other_aggregations(instrument: &Instrument) -> Option<Stream> {
    let aggregation = match instrument.name() {
        "exponential" => {
            Aggregation::Base2ExponentialHistogram { max_size: 160, max_scale: 20, record_min_max: true }
        }
        "no_extremes" => {
            Aggregation::ExplicitBucketHistogram { boundaries: vec![2.0], record_min_max: false }
        }
        _ => return None,
    };
    Some(Stream::builder().with_aggregation(aggregation).build().unwrap())
}

/// Returns the metrics sorted by name, with attributes sorted by key, because the order is not significant.
fn by_name(mut metrics: Vec<Metric>) -> Vec<Metric> {
    for metric in &mut metrics {
        match metric.data.as_mut().unwrap() {
            Data::Gauge(gauge) => gauge.data_points.iter_mut().for_each(|point| sort(&mut point.attributes)),
            Data::Sum(sum) => sum.data_points.iter_mut().for_each(|point| sort(&mut point.attributes)),
            Data::Histogram(histogram) => {
                histogram.data_points.iter_mut().for_each(|point| sort(&mut point.attributes));
            }
            Data::ExponentialHistogram(histogram) => {
                histogram.data_points.iter_mut().for_each(|point| sort(&mut point.attributes));
            }
            Data::Summary(summary) => panic!("{summary:?}"),
        }
    }
    metrics.sort_by(|one, other| one.name.cmp(&other.name));
    metrics
}

/// Sends a request to a receiver, as opentelemetry-proto encodes it. Returns the received metrics.
fn sent_whole(request: &ExportMetricsServiceRequest) -> Vec<ReceivedMetric> {
    let (receiver, body) = (Receiver::start().unwrap(), request.encode_to_vec());
    let mut socket = TcpStream::connect(receiver.address()).unwrap();
    let head = format!(
        "POST /v1/metrics HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-protobuf\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    socket.write_all(&[head.as_bytes(), &body].concat()).unwrap();
    assert!(receiver.wait_for_points(1, LONG));
    receiver.metrics()
}

fn sort(attributes: &mut [Attribute]) {
    attributes.sort_by(|one, other| one.key.cmp(&other.key));
}

#[test]
fn all_kinds_arrive_as_opentelemetry_would_send_them() {
    for temporality in [Temporality::Cumulative, Temporality::Delta, Temporality::LowMemory] {
        let receiver = Receiver::start().unwrap();
        let telemetry = start(gathering(&receiver).interval(FOR_EVER).temporality(temporality));
        let seen = Arc::default();
        let witness = Witness { exporter: MetricExporter::new(&telemetry), seen: Arc::clone(&seen) };
        let resource = Resource::builder_empty()
            .with_schema_url([KeyValue::new("service.name", "till")], "https://example.com/resource")
            .build();
        let provider = SdkMeterProvider::builder()
            .with_reader(PeriodicReader::builder(witness).with_interval(FOR_EVER).build())
            .with_resource(resource)
            .with_view(other_aggregations)
            .build();
        measure_all_kinds(&provider);
        provider.force_flush().unwrap();
        assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
        let seen = std::mem::take(&mut *seen.lock().unwrap());
        let expected = sent_whole(&seen[0]);
        let received = receiver.metrics();
        for metric in &received {
            assert_eq!((&metric.resource, &metric.scope), (&expected[0].resource, &expected[0].scope));
        }
        let messages =
            |metrics: &[ReceivedMetric]| metrics.iter().map(|metric| (*metric.metric).clone()).collect();
        assert_eq!(by_name(messages(&received)), by_name(messages(&expected)), "{temporality:?}");
        let counts = telemetry.shutdown(LONG).exporters[0].metrics;
        assert_eq!((counts.accepted, counts.delivered, counts.lost()), (ALL_KINDS, ALL_KINDS, 0), "{counts}");
        assert_eq!(receiver.point_count(), ALL_KINDS);
    }
}

#[test]
fn a_resource_that_the_sdk_made_up_gives_way_to_the_telemetrys() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).interval(FOR_EVER));
    let provider = provider(MetricExporter::new(&telemetry));
    provider.meter("shop").u64_counter("orders").build().add(1, &[]);
    provider.shutdown().unwrap();
    let [received] = &receiver.metrics()[..] else { panic!("{:?}", receiver.metrics()) };
    let service = received.resource.attributes.iter().find(|attribute| attribute.key == "service.name");
    assert_eq!(attributes(&[service.unwrap().clone()]), "service.name=shop");
}

#[test]
fn sums_go_over_what_the_exporter_asks_for() {
    for (temporality, values, number) in [
        (Temporality::Cumulative, [1, 3], 2),
        (Temporality::Delta, [1, 2], 1),
        (Temporality::LowMemory, [1, 2], 1),
    ] {
        let receiver = Receiver::start().unwrap();
        let telemetry = start(exporter(&receiver).interval(FOR_EVER).temporality(temporality));
        let provider = provider(MetricExporter::new(&telemetry));
        let orders = provider.meter("shop").u64_counter("orders").build();
        for more in [1, 2] {
            orders.add(more, &[]);
            provider.force_flush().unwrap();
            assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
        }
        let arrived = named(&receiver, "orders");
        assert_eq!(arrived.iter().flat_map(numbers).map(|point| int(&point)).collect::<Vec<_>>(), values);
        for metric in &arrived {
            assert_eq!((sum(metric).aggregation_temporality, sum(metric).is_monotonic), (number, true));
        }
    }
}

#[test]
fn of_several_exporters_the_first_that_takes_metrics_says_what_all_get() {
    let receivers = [(); 3].map(|()| Receiver::start().unwrap());
    let [spans, delta, cumulative] =
        receivers.each_ref().map(|receiver| exporter(receiver).interval(FOR_EVER));
    let config = Config::new()
        .exporter(spans.named("spans").signals([Signal::Traces]))
        .exporter(delta.named("delta").temporality(Temporality::Delta))
        .exporter(cumulative.named("cumulative"));
    let telemetry = start_with(config);
    let exporter = MetricExporter::new(&telemetry);
    assert_eq!(exporter.temporality(), SdkTemporality::Delta);
    assert_eq!(MetricExporter::new(telemetry.application()).temporality(), SdkTemporality::Cumulative);
    let provider = provider(exporter);
    provider.meter("shop").u64_counter("orders").build().add(1, &[]);
    provider.shutdown().unwrap();
    assert_eq!(receivers.each_ref().map(Receiver::point_count), [0, 1, 1]);
    for receiver in &receivers[1..] {
        assert_eq!(sum(&named(receiver, "orders")[0]).aggregation_temporality, 1);
    }
    let ledger = telemetry.shutdown(LONG);
    assert_eq!(ledger.exporters.iter().map(|one| one.metrics.delivered).collect::<Vec<_>>(), [0, 1, 1]);
}

#[test]
fn a_route_without_exporters_takes_metrics_and_does_nothing() {
    let telemetry = start_with(Config::new());
    let provider = provider(MetricExporter::new(&telemetry));
    provider.meter("shop").u64_counter("orders").build().add(1, &[]);
    provider.force_flush().unwrap();
    provider.shutdown().unwrap();
    assert!(telemetry.shutdown(LONG).exporters.is_empty());
}

#[test]
fn a_metric_with_many_points_is_sent_in_parts_within_the_limits() {
    const POINTS: i64 = 5000;
    const MAX_BYTES: usize = 20_000;
    let receiver = Receiver::start().unwrap();
    let exporter = exporter(&receiver).interval(FOR_EVER).compression(Compression::None);
    let telemetry = start(exporter.batch_records(300).batch_bytes(MAX_BYTES));
    let provider = provider(MetricExporter::new(&telemetry));
    record_many(&provider, POINTS);
    provider.shutdown().unwrap();
    let arrived = named(&receiver, "many");
    let mut values: Vec<_> = arrived.iter().flat_map(numbers).map(|point| int(&point)).collect();
    values.sort_unstable();
    assert_eq!(values, (0..POINTS).collect::<Vec<_>>());
    for request in receiver.requests() {
        assert!(request.records <= 300 && request.body_bytes <= MAX_BYTES, "{request:?}");
    }
    let counts = telemetry.shutdown(LONG).exporters[0].metrics;
    assert_eq!((counts.accepted, counts.delivered, counts.lost()), (5000, 5000, 0), "{counts}");
}

#[test]
fn a_part_leaves_room_for_its_scope_and_for_the_resource_of_the_sdk() {
    const POINTS: i64 = 1000;
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).interval(FOR_EVER).batch_bytes(4096));
    let resource = Resource::builder().with_attribute(KeyValue::new("host.name", "x".repeat(500))).build();
    let reader = PeriodicReader::builder(MetricExporter::new(&telemetry)).with_interval(FOR_EVER).build();
    let provider = SdkMeterProvider::builder()
        .with_reader(reader)
        .with_resource(resource)
        .with_view(many_series)
        .build();
    record_many(&provider, POINTS);
    provider.shutdown().unwrap();
    let counts = telemetry.shutdown(LONG).exporters[0].metrics;
    assert_eq!((counts.delivered, counts.lost()), (1000, 0), "{counts}");
}

#[test]
fn a_point_that_no_request_can_hold_is_counted_and_does_not_harm_the_others() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).interval(FOR_EVER).batch_bytes(4096));
    let provider = provider(MetricExporter::new(&telemetry));
    let orders = provider.meter("shop").u64_counter("orders").build();
    orders.add(1, &[KeyValue::new("note", "x".repeat(8192))]);
    orders.add(1, &[KeyValue::new("note", "short")]);
    provider.shutdown().unwrap();
    let counts = telemetry.shutdown(LONG).exporters[0].metrics;
    assert_eq!((counts.delivered, counts.not_enqueued.too_large), (1, 1), "{counts}");
    assert_eq!(receiver.point_count(), 1);
}

#[test]
fn a_full_queue_drops_whole_parts_and_counts_their_points() {
    const POINTS: u64 = 1000;
    let receiver = Receiver::start().unwrap();
    receiver.pause();
    let exporter = exporter(&receiver).interval(FOR_EVER).queue_records(100).when_full(WhenFull::DropNewest);
    let telemetry = start(exporter);
    let provider = provider(MetricExporter::new(&telemetry));
    record_many(&provider, POINTS as i64);
    provider.force_flush().unwrap();
    let counts = telemetry.ledger().exporters[0].metrics;
    assert_eq!(counts.accepted + counts.not_enqueued.queue_full, POINTS, "{counts}");
    assert_eq!(counts.accepted, 100, "parts of 25 fill it: {counts}");
    receiver.resume();
    let counts = telemetry.shutdown(LONG).exporters[0].metrics;
    assert_eq!((counts.delivered, receiver.point_count()), (100, 100), "{counts}");
}

#[test]
fn the_readers_thread_waits_for_room_and_nothing_is_lost() {
    const POINTS: u64 = 2000;
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).interval(FOR_EVER).queue_records(100));
    let provider = provider(MetricExporter::new(&telemetry));
    record_many(&provider, POINTS as i64);
    provider.force_flush().unwrap();
    let counts = telemetry.shutdown(LONG).exporters[0].metrics;
    assert_eq!((counts.delivered, counts.lost()), (POINTS, 0), "{counts}");
    assert_eq!(receiver.point_count(), POINTS);
}

#[test]
fn a_reader_that_waits_for_room_goes_on_when_the_telemetry_ends() {
    const POINTS: u64 = 1000;
    let receiver = Receiver::start().unwrap();
    receiver.always(Answer::hang());
    let telemetry = start(exporter(&receiver).interval(FOR_EVER).queue_records(100));
    let provider = provider(MetricExporter::new(&telemetry));
    record_many(&provider, POINTS as i64);
    thread::scope(|scope| {
        let flush = scope.spawn(|| provider.force_flush());
        wait_until(|| telemetry.ledger().exporters[0].metrics.accepted == 100);
        let _ = telemetry.shutdown(Duration::from_millis(50));
        flush.join().unwrap().unwrap();
    });
    let counts = telemetry.ledger().exporters[0].metrics;
    assert_eq!(
        (counts.dropped.shutdown, counts.not_enqueued.after_shutdown),
        (100, POINTS - 100),
        "{counts}"
    );
}

#[test]
fn after_an_outage_all_snapshots_of_the_sdk_arrive_and_ours_are_replaced() {
    let address = closed_address();
    let telemetry = start(exporter_to(&format!("http://{address}")).interval(Duration::from_millis(5)));
    telemetry.meter("shop").counter("ours").add(1, ());
    wait_until(|| telemetry.ledger().exporters[0].metrics.superseded >= 3);
    let provider = provider(MetricExporter::new(&telemetry));
    let theirs = provider.meter("shop").u64_counter("theirs").build();
    for more in [1, 2, 3] {
        theirs.add(more, &[]);
        provider.force_flush().unwrap();
    }
    let receiver = open_at(address);
    assert!(receiver.wait_for_points(4, LONG));
    let ledger = telemetry.shutdown(LONG);
    let counts = ledger.exporters[0].metrics;
    let arrived = named(&receiver, "theirs");
    assert_eq!(arrived.iter().flat_map(numbers).map(|point| int(&point)).collect::<Vec<_>>(), [1, 3, 6]);
    assert_eq!((ledger.lost(), counts.in_flight), (0, 0), "{ledger}");
    assert_eq!(counts.accepted, counts.delivered + counts.superseded, "{ledger}");
    assert_eq!(counts.delivered, receiver.point_count());
}

#[test]
fn a_shutdown_of_the_provider_delivers_and_leaves_the_telemetry_running() {
    let receiver = Receiver::start().unwrap();
    // Nothing is sent before a flush.
    let telemetry = start(gathering(&receiver).interval(FOR_EVER));
    let exporter = MetricExporter::new(&telemetry);
    let provider = provider(MetricExporter::new(&telemetry));
    provider.meter("shop").u64_counter("orders").build().add(1, &[]);
    provider.shutdown().unwrap();
    assert_eq!(receiver.point_count(), 1);
    exporter.shutdown().unwrap();
    let metrics = ResourceMetrics::default();
    assert!(matches!(at_once(exporter.export(&metrics)), Err(OTelSdkError::AlreadyShutdown)));
    telemetry.tracer("shop").span("still there").end();
    assert_eq!(telemetry.shutdown(LONG).lost(), 0);
    assert_eq!(receiver.span_count(), 1);
}

#[test]
fn a_shutdown_that_cannot_deliver_ends_in_time_and_says_so() {
    let receiver = Receiver::start().unwrap();
    receiver.always(Answer::hang());
    let telemetry = start(exporter(&receiver).interval(FOR_EVER));
    telemetry.tracer("shop").span("stuck").end();
    let begun = Instant::now();
    let outcome = MetricExporter::new(&telemetry).shutdown_with_timeout(Duration::from_millis(50));
    assert!(matches!(outcome, Err(OTelSdkError::Timeout(_))), "{outcome:?}");
    assert!(begun.elapsed() < LONG / 2, "{:?}", begun.elapsed());
    let _ = telemetry.shutdown(Duration::from_millis(10));
}

#[test]
fn what_comes_after_the_end_of_the_telemetry_is_counted_as_turned_away() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).interval(FOR_EVER));
    let provider = provider(MetricExporter::new(&telemetry));
    provider.meter("shop").u64_counter("orders").build().add(1, &[]);
    let _ = telemetry.shutdown(LONG);
    provider.shutdown().unwrap();
    let counts = telemetry.ledger().exporters[0].metrics;
    assert_eq!((counts.accepted, counts.not_enqueued.after_shutdown), (0, 1), "{counts}");
}

#[test]
fn points_after_the_exporters_own_end_are_counted_as_turned_away() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).interval(FOR_EVER));
    let exporter = MetricExporter::new(&telemetry);
    exporter.shutdown().unwrap();
    let provider = provider(exporter);
    record_many(&provider, 3);
    assert!(provider.force_flush().is_err());
    let counts = telemetry.shutdown(LONG).exporters[0].metrics;
    assert_eq!((counts.accepted, counts.not_enqueued.after_shutdown), (0, 3), "{counts}");
}
