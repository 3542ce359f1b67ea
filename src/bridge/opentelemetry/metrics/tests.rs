//! Compares written metrics with those of opentelemetry-proto.

use opentelemetry::metrics::MeterProvider;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{Metric as Message, number_data_point};
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use proptest::prelude::*;
use prost::Message as _;

use super::*;
use crate::record::frames;
use program::{Program, World, any_program};

const AMPLE: FrameLimits = FrameLimits { bytes: 1 << 20, points: 1 << 20, largest: 1 << 20 };

/// A part of a metric: its message, framed bytes and number of points.
struct Framed {
    message: Message,
    bytes: usize,
    points: u64,
}

/// Returns the parts of every metric, and the number of points that were too large.
fn framed(metrics: &ResourceMetrics, limits: FrameLimits) -> (Vec<Vec<Framed>>, u64) {
    let mut record = MetricRecord::default();
    let mut too_large = 0;
    let mut all = Vec::new();
    for metric in metrics.scope_metrics().flat_map(|scope| scope.metrics()) {
        let mut parts = Vec::new();
        each_part(metric, &mut record, limits, |part| match part {
            FramedPoints::Frame { bytes, points } => parts.push(read(bytes, points)),
            FramedPoints::TooLarge { points } => too_large += points,
        });
        all.push(parts);
    }
    (all, too_large)
}

fn read(bytes: &[u8], points: u64) -> Framed {
    assert_eq!(frames(bytes).count(), 1, "one frame");
    let mut body = &bytes[1..];
    let message = Message::decode_length_delimited(&mut body).expect("a metric");
    assert!(body.is_empty());
    Framed { message, bytes: bytes.len(), points }
}

/// Joins all parts to one metric.
fn joined(parts: Vec<Framed>) -> Option<Message> {
    parts.into_iter().map(|part| part.message).reduce(|mut whole, part| {
        match (&mut whole.data, part.data) {
            (Some(Data::Gauge(whole)), Some(Data::Gauge(part))) => whole.data_points.extend(part.data_points),
            (Some(Data::Sum(whole)), Some(Data::Sum(part))) => {
                assert_eq!(whole.aggregation_temporality, part.aggregation_temporality);
                assert_eq!(whole.is_monotonic, part.is_monotonic);
                whole.data_points.extend(part.data_points);
            }
            (Some(Data::Histogram(whole)), Some(Data::Histogram(part))) => {
                assert_eq!(whole.aggregation_temporality, part.aggregation_temporality);
                whole.data_points.extend(part.data_points);
            }
            (Some(Data::ExponentialHistogram(whole)), Some(Data::ExponentialHistogram(part))) => {
                assert_eq!(whole.aggregation_temporality, part.aggregation_temporality);
                whole.data_points.extend(part.data_points);
            }
            (whole, part) => panic!("{part:?} is no part of {whole:?}"),
        }
        whole
    })
}

/// Returns the metrics that opentelemetry-proto would send, with the documented differences.
fn expected(metrics: &ResourceMetrics) -> Vec<Message> {
    let request = ExportMetricsServiceRequest::from(metrics);
    let scopes = request.resource_metrics.into_iter().flat_map(|resource| resource.scope_metrics);
    let mut messages: Vec<_> = scopes.flat_map(|scope| scope.metrics).collect();
    let own = metrics.scope_metrics().flat_map(|scope| scope.metrics());
    for (message, own) in messages.iter_mut().zip(own) {
        pin(message, own);
        match message.data.as_mut().expect("data") {
            Data::Gauge(gauge) => gauge.data_points.iter_mut().for_each(|point| sort(&mut point.attributes)),
            Data::Sum(sum) => sum.data_points.iter_mut().for_each(|point| sort(&mut point.attributes)),
            Data::Histogram(histogram) => {
                histogram.data_points.iter_mut().for_each(|point| sort(&mut point.attributes));
            }
            Data::ExponentialHistogram(histogram) => {
                for point in &mut histogram.data_points {
                    sort(&mut point.attributes);
                    point.positive = point.positive.take().filter(is_there);
                    point.negative = point.negative.take().filter(is_there);
                }
            }
            Data::Summary(summary) => panic!("{summary:?}"),
        }
    }
    messages
}

/// Replaces the 0 that opentelemetry-proto writes for an unsigned number that is too large.
fn pin(message: &mut Message, metric: &Metric) {
    let (points, numbers): (_, Vec<_>) = match (&mut message.data, metric.data()) {
        (Some(Data::Gauge(gauge)), AggregatedMetrics::U64(MetricData::Gauge(own))) => {
            (&mut gauge.data_points, own.data_points().map(|point| point.value()).collect())
        }
        (Some(Data::Sum(sum)), AggregatedMetrics::U64(MetricData::Sum(own))) => {
            (&mut sum.data_points, own.data_points().map(|point| point.value()).collect())
        }
        _ => return,
    };
    for (point, number) in points.iter_mut().zip(numbers) {
        if number > i64::MAX as u64 {
            assert_eq!(point.value, Some(number_data_point::Value::AsInt(0)));
            point.value = Some(number_data_point::Value::AsInt(i64::MAX));
        }
    }
}

fn is_there(buckets: &Buckets) -> bool {
    !buckets.bucket_counts.is_empty()
}

/// Sorts by key. The last value of a repeated key counts, and an empty key is removed.
fn sort(attributes: &mut Vec<KeyValue>) {
    attributes.retain(|attribute| !attribute.key.is_empty());
    attributes.reverse();
    attributes.sort_by(|one, other| one.key.cmp(&other.key));
    attributes.dedup_by(|one, other| one.key == other.key);
}

fn points(message: &Message) -> usize {
    match message.data.as_ref().expect("data") {
        Data::Gauge(data) => data.data_points.len(),
        Data::Sum(data) => data.data_points.len(),
        Data::Histogram(data) => data.data_points.len(),
        Data::ExponentialHistogram(data) => data.data_points.len(),
        Data::Summary(data) => data.data_points.len(),
    }
}

fn compare(program: &Program, limits: FrameLimits) -> Result<(), TestCaseError> {
    let world = World::new(program);
    for round in program.rounds() {
        world.measure(round);
        let metrics = world.collect();
        let (all, too_large) = framed(&metrics, limits);
        prop_assert_eq!(too_large, 0);
        for part in all.iter().flatten() {
            prop_assert_eq!(points(&part.message) as u64, part.points);
            prop_assert!(part.points <= limits.points);
            prop_assert!(part.bytes <= limits.bytes || part.points == 1, "{} bytes", part.bytes);
        }
        let written: Vec<_> = all.into_iter().filter_map(joined).collect();
        let expected = expected(&metrics);
        prop_assert_eq!(written.len(), expected.len());
        for (written, expected) in written.iter().zip(&expected) {
            // Compares bytes, because NaN differs from itself.
            let is_same = written.encode_to_vec() == expected.encode_to_vec();
            prop_assert!(is_same, "written: {written:#?}\nexpected: {expected:#?}");
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: crate::tests::share_of(128), ..ProptestConfig::default() })]

    #[test]
    fn any_metrics_are_written_as_opentelemetry_writes_them(program in any_program()) {
        compare(&program, AMPLE)?;
    }

    #[test]
    fn the_parts_of_a_metric_keep_the_limits_and_are_the_whole(
        program in any_program(),
        bytes in 0usize..2000,
        points in 1u64..5,
    ) {
        compare(&program, FrameLimits { bytes, points, largest: 1 << 20 })?;
    }
}

#[test]
fn an_unsigned_number_beyond_the_largest_signed_one_is_pinned_not_zero() {
    let world = World::new(&Program::default());
    let meter = world.provider.meter("shop");
    meter.u64_gauge("gauge").build().record(u64::MAX, &[]);
    meter.u64_counter("sum").build().add(i64::MAX as u64 + 1, &[]);
    let (all, _) = framed(&world.collect(), AMPLE);
    for message in all.into_iter().filter_map(joined) {
        let points = match message.data {
            Some(Data::Gauge(gauge)) => gauge.data_points,
            Some(Data::Sum(sum)) => sum.data_points,
            other => panic!("{other:?}"),
        };
        assert_eq!(points[0].value, Some(number_data_point::Value::AsInt(i64::MAX)), "{}", message.name);
    }
}

#[test]
fn a_point_that_no_request_can_hold_is_reported_and_the_others_are_written() {
    let world = World::new(&Program::default());
    let gauge = world.provider.meter("shop").u64_gauge("gauge").build();
    let pair = |length: usize| opentelemetry::KeyValue::new("key", "x".repeat(length));
    gauge.record(1, &[pair(10)]);
    gauge.record(2, &[pair(1000)]);
    gauge.record(3, &[pair(20)]);
    let (all, too_large) = framed(&world.collect(), FrameLimits { bytes: 100, points: 10, largest: 500 });
    assert_eq!(too_large, 1);
    assert_eq!(all.into_iter().flatten().map(|part| part.points).sum::<u64>(), 2);
}

mod program {
    //! Arbitrary programs that measure with the SDK.

    use std::cell::Cell;
    use std::sync::{Arc, Mutex, Weak};
    use std::time::Duration;

    use opentelemetry::metrics::{Meter, MeterProvider};
    use opentelemetry::{Array, InstrumentationScope, KeyValue, StringValue, Value};
    use opentelemetry_sdk::error::OTelSdkResult;
    use opentelemetry_sdk::metrics::data::ResourceMetrics;
    use opentelemetry_sdk::metrics::reader::MetricReader;
    use opentelemetry_sdk::metrics::{
        Aggregation, Instrument, InstrumentKind, ManualReader, Pipeline, SdkMeterProvider, Stream,
        Temporality,
    };
    use proptest::prelude::*;

    /// Instruments, and the measurements before each collection.
    #[derive(Debug, Clone, Default)]
    pub(super) struct Program {
        temporality: Temporality,
        instruments: Vec<Tool>,
        rounds: Vec<Round>,
    }

    /// The measurements of a round, each with the index of its instrument.
    pub(super) type Round = Vec<(prop::sample::Index, Measurement)>;

    #[derive(Debug, Clone)]
    pub(super) struct Measurement {
        float: f64,
        integer: u32,
        attributes: Vec<KeyValue>,
        round: u32,
    }

    impl Measurement {
        /// Returns a value that rises in every round: the SDK does not support an observed counter that falls.
        fn growing(&self) -> u64 {
            (1 << (16 * self.round)) + u64::from(self.integer % 1000)
        }
    }

    /// The definition of an instrument. Its name is its index.
    #[derive(Debug, Clone)]
    struct Tool {
        kind: Kind,
        description: String,
        unit: String,
        aggregation: Option<Aggregation>,
    }

    #[derive(Debug, Clone, Copy)]
    enum Kind {
        U64Counter,
        F64Counter,
        I64UpDownCounter,
        F64UpDownCounter,
        U64Gauge,
        I64Gauge,
        F64Gauge,
        U64Histogram,
        F64Histogram,
        ObservableU64Counter,
        ObservableF64Counter,
        ObservableI64UpDownCounter,
        ObservableF64UpDownCounter,
        ObservableU64Gauge,
        ObservableI64Gauge,
        ObservableF64Gauge,
    }

    impl Program {
        pub(super) fn rounds(&self) -> &[Round] {
            &self.rounds
        }
    }

    /// A running program whose metrics are collected on demand.
    pub(super) struct World {
        pub(super) provider: SdkMeterProvider,
        reader: SharedReader,
        program: Program,
        seen: Vec<Seen>,
        round: Cell<u32>,
    }

    /// The values that the callback of an instrument observes.
    type Seen = Arc<Mutex<Vec<Measurement>>>;

    impl World {
        pub(super) fn new(program: &Program) -> Self {
            let reader = ManualReader::builder().with_temporality(program.temporality).build();
            let reader = SharedReader(Arc::new(reader));
            let aggregations: Vec<_> =
                program.instruments.iter().map(|tool| tool.aggregation.clone()).collect();
            let view = move |instrument: &Instrument| {
                let number: usize = instrument.name().strip_prefix("tool")?.parse().ok()?;
                let aggregation = aggregations[number].clone()?;
                (instrument.kind() == InstrumentKind::Histogram)
                    .then(|| Stream::builder().with_aggregation(aggregation).build().expect("a valid stream"))
            };
            let provider = SdkMeterProvider::builder().with_reader(reader.clone()).with_view(view).build();
            let scope = InstrumentationScope::builder("shop").with_version("1.0").build();
            let meter = provider.meter_with_scope(scope);
            let seen: Vec<_> = program.instruments.iter().map(|_| Seen::default()).collect();
            for ((number, tool), seen) in program.instruments.iter().enumerate().zip(&seen) {
                tool.observe(&meter, number, seen);
            }
            Self { provider, reader, program: program.clone(), seen, round: Cell::new(0) }
        }

        pub(super) fn measure(&self, round: &Round) {
            let tools = &self.program.instruments;
            let scope = InstrumentationScope::builder("shop").with_version("1.0").build();
            let meter = self.provider.meter_with_scope(scope);
            self.round.set(self.round.get() + 1);
            self.seen.iter().for_each(|seen| seen.lock().unwrap().clear());
            for (index, measurement) in round {
                let number = index.index(tools.len());
                tools[number].measure(&meter, number, measurement);
                self.seen[number]
                    .lock()
                    .unwrap()
                    .push(Measurement { round: self.round.get(), ..measurement.clone() });
            }
        }

        pub(super) fn collect(&self) -> ResourceMetrics {
            let mut metrics = ResourceMetrics::default();
            self.reader.collect(&mut metrics).expect("the provider is there");
            metrics
        }
    }

    /// A reader that the provider and the test share.
    #[derive(Debug, Clone)]
    struct SharedReader(Arc<ManualReader>);

    impl MetricReader for SharedReader {
        fn register_pipeline(&self, pipeline: Weak<Pipeline>) {
            self.0.register_pipeline(pipeline);
        }

        fn collect(&self, metrics: &mut ResourceMetrics) -> OTelSdkResult {
            self.0.collect(metrics)
        }

        fn force_flush(&self) -> OTelSdkResult {
            self.0.force_flush()
        }

        fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
            self.0.shutdown_with_timeout(timeout)
        }

        fn temporality(&self, kind: InstrumentKind) -> Temporality {
            self.0.temporality(kind)
        }
    }

    /// Creates an instrument with its name, description and unit.
    macro_rules! build {
        ($tool:ident, $builder:expr) => {
            $builder.with_description($tool.description.clone()).with_unit($tool.unit.clone())
        };
    }

    impl Tool {
        /// Requests the instrument from `meter` and records the measurement; does nothing if the instrument is
        /// observable.
        fn measure(&self, meter: &Meter, number: usize, measurement: &Measurement) {
            let name = format!("tool{number}");
            let Measurement { float, integer, attributes, .. } = measurement;
            let (float, integer) = (*float, *integer);
            match self.kind {
                Kind::U64Counter => {
                    build!(self, meter.u64_counter(name)).build().add(integer.into(), attributes);
                }
                Kind::F64Counter => {
                    build!(self, meter.f64_counter(name)).build().add(float.abs(), attributes)
                }
                Kind::I64UpDownCounter => {
                    build!(self, meter.i64_up_down_counter(name)).build().add(signed(integer), attributes);
                }
                Kind::F64UpDownCounter => {
                    build!(self, meter.f64_up_down_counter(name)).build().add(float, attributes);
                }
                Kind::U64Gauge => {
                    build!(self, meter.u64_gauge(name)).build().record(integer.into(), attributes)
                }
                Kind::I64Gauge => {
                    build!(self, meter.i64_gauge(name)).build().record(signed(integer), attributes)
                }
                Kind::F64Gauge => build!(self, meter.f64_gauge(name)).build().record(float, attributes),
                Kind::U64Histogram => {
                    build!(self, meter.u64_histogram(name)).build().record(integer.into(), attributes);
                }
                Kind::F64Histogram => {
                    build!(self, meter.f64_histogram(name)).build().record(float, attributes)
                }
                _ => {}
            }
        }

        fn observe(&self, meter: &Meter, number: usize, seen: &Seen) {
            let name = format!("tool{number}");
            let seen = Arc::clone(seen);
            macro_rules! with_callback {
                ($builder:expr, $value:expr) => {{
                    let value: fn(&Measurement) -> _ = $value;
                    build!(self, $builder)
                        .with_callback(move |observer| {
                            for measurement in seen.lock().unwrap().iter() {
                                observer.observe(value(measurement), &measurement.attributes);
                            }
                        })
                        .build();
                }};
            }
            match self.kind {
                Kind::ObservableU64Counter => {
                    with_callback!(meter.u64_observable_counter(name), Measurement::growing);
                }
                Kind::ObservableF64Counter => {
                    with_callback!(meter.f64_observable_counter(name), |seen| seen.growing() as f64);
                }
                Kind::ObservableI64UpDownCounter => {
                    with_callback!(meter.i64_observable_up_down_counter(name), |seen| signed(seen.integer));
                }
                Kind::ObservableF64UpDownCounter => {
                    with_callback!(meter.f64_observable_up_down_counter(name), |seen| seen.float);
                }
                Kind::ObservableU64Gauge => {
                    with_callback!(meter.u64_observable_gauge(name), |seen| seen.integer.into());
                }
                Kind::ObservableI64Gauge => {
                    with_callback!(meter.i64_observable_gauge(name), |seen| signed(seen.integer));
                }
                Kind::ObservableF64Gauge => {
                    with_callback!(meter.f64_observable_gauge(name), |seen| seen.float);
                }
                _ => {}
            }
        }
    }

    fn signed(integer: u32) -> i64 {
        i64::from(integer) - i64::from(u32::MAX / 2)
    }

    pub(super) fn any_program() -> impl Strategy<Value = Program> {
        let temporality =
            prop::sample::select(vec![Temporality::Cumulative, Temporality::Delta, Temporality::LowMemory]);
        let instruments = prop::collection::vec(any_tool(), 1..6);
        let round = prop::collection::vec((any::<prop::sample::Index>(), any_measurement()), 0..30);
        let rounds = prop::collection::vec(round, 1..4);
        (temporality, instruments, rounds).prop_map(|(temporality, instruments, rounds)| Program {
            temporality,
            instruments,
            rounds,
        })
    }

    fn any_tool() -> impl Strategy<Value = Tool> {
        let kinds = vec![
            Kind::U64Counter,
            Kind::F64Counter,
            Kind::I64UpDownCounter,
            Kind::F64UpDownCounter,
            Kind::U64Gauge,
            Kind::I64Gauge,
            Kind::F64Gauge,
            Kind::U64Histogram,
            Kind::F64Histogram,
            Kind::ObservableU64Counter,
            Kind::ObservableF64Counter,
            Kind::ObservableI64UpDownCounter,
            Kind::ObservableF64UpDownCounter,
            Kind::ObservableU64Gauge,
            Kind::ObservableI64Gauge,
            Kind::ObservableF64Gauge,
        ];
        let histograms = vec![Kind::U64Histogram, Kind::F64Histogram];
        let kind = prop_oneof![2 => prop::sample::select(kinds), 1 => prop::sample::select(histograms)];
        (kind, "[a-zé水]{0,12}", "[a-z{}]{0,5}", prop::option::of(any_aggregation()))
            .prop_map(|(kind, description, unit, aggregation)| Tool { kind, description, unit, aggregation })
    }

    fn any_aggregation() -> impl Strategy<Value = Aggregation> {
        let boundaries = prop::collection::btree_set(-1000i32..1000, 0..6)
            .prop_map(|bounds| bounds.into_iter().map(f64::from).collect::<Vec<_>>());
        prop_oneof![
            (boundaries, any::<bool>()).prop_map(|(boundaries, record_min_max)| {
                Aggregation::ExplicitBucketHistogram { boundaries, record_min_max }
            }),
            (2u32..200, -10i8..=20, any::<bool>()).prop_map(|(max_size, max_scale, record_min_max)| {
                Aggregation::Base2ExponentialHistogram { max_size, max_scale, record_min_max }
            }),
        ]
    }

    fn any_measurement() -> impl Strategy<Value = Measurement> {
        let float = prop_oneof![
            3 => -10_000.0..10_000.0f64,
            1 => prop::sample::select(vec![0.0, -0.0, 1e300, 1e-300, f64::INFINITY, f64::NAN]),
        ];
        let attributes = prop::collection::vec(("[abc]{0,2}", any_value()), 0..4);
        (float, any::<u32>(), attributes).prop_map(|(float, integer, attributes)| Measurement {
            float,
            integer,
            round: 0,
            attributes: attributes.into_iter().map(|(key, value)| KeyValue::new(key, value)).collect(),
        })
    }

    /// Few values of each kind, so that attributes repeat.
    fn any_value() -> impl Strategy<Value = Value> {
        let text = || "[xé]{0,2}".prop_map(StringValue::from);
        prop_oneof![
            4 => text().prop_map(Value::String),
            2 => any::<bool>().prop_map(Value::Bool),
            2 => (-1i64..2).prop_map(Value::I64),
            2 => prop::sample::select(vec![0.5, -0.0]).prop_map(Value::F64),
            1 => Just(Value::Array(Array::Bool(vec![true, false]))),
            1 => Just(Value::Array(Array::I64(vec![i64::MIN, 0, 7]))),
            1 => Just(Value::Array(Array::F64(vec![0.0, 1.5]))),
            1 => prop::collection::vec(text(), 0..3).prop_map(|texts| Value::Array(Array::String(texts))),
        ]
    }
}
