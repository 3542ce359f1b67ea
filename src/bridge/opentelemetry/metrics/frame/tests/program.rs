//! Programs that measure something with the SDK.

use std::cell::Cell;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use opentelemetry::metrics::{Meter, MeterProvider};
use opentelemetry::{Array, InstrumentationScope, KeyValue, StringValue, Value};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::reader::MetricReader;
use opentelemetry_sdk::metrics::{
    Aggregation, Instrument, InstrumentKind, ManualReader, Pipeline, SdkMeterProvider, Stream, Temporality,
};
use proptest::prelude::*;

/// Instruments, and what is measured with them before each collection.
#[derive(Debug, Clone, Default)]
pub(super) struct Program {
    temporality: Temporality,
    instruments: Vec<Tool>,
    rounds: Vec<Round>,
}

/// Which instrument, its value, and its attributes.
pub(super) type Round = Vec<(prop::sample::Index, Measurement)>;

#[derive(Debug, Clone)]
pub(super) struct Measurement {
    float: f64,
    integer: u32,
    attributes: Vec<KeyValue>,
    round: u32,
}

impl Measurement {
    /// More in every round, however often it is counted: the SDK cannot bear an observed counter that falls.
    fn growing(&self) -> u64 {
        (1 << (16 * self.round)) + u64::from(self.integer % 1000)
    }
}

/// What an instrument is, but for its name: that is its place.
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

/// A running program, whose metrics are collected when it is told to.
pub(super) struct World {
    pub(super) provider: SdkMeterProvider,
    reader: SharedReader,
    program: Program,
    seen: Vec<Seen>,
    round: Cell<u32>,
}

/// What the callback of an instrument tells.
type Seen = Arc<Mutex<Vec<Measurement>>>;

impl World {
    pub(super) fn new(program: &Program) -> Self {
        let reader = ManualReader::builder().with_temporality(program.temporality).build();
        let reader = SharedReader(Arc::new(reader));
        let aggregations: Vec<_> = program.instruments.iter().map(|tool| tool.aggregation.clone()).collect();
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

/// The provider and the test hold it both.
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

/// Makes an instrument with its name, description and unit.
macro_rules! build {
    ($tool:ident, $builder:expr) => {
        $builder.with_description($tool.description.clone()).with_unit($tool.unit.clone())
    };
}

impl Tool {
    /// An instrument that is asked for again is the same one.
    fn measure(&self, meter: &Meter, number: usize, measurement: &Measurement) {
        let name = format!("tool{number}");
        let Measurement { float, integer, attributes, .. } = measurement;
        let (float, integer) = (*float, *integer);
        match self.kind {
            Kind::U64Counter => {
                build!(self, meter.u64_counter(name)).build().add(integer.into(), attributes);
            }
            Kind::F64Counter => build!(self, meter.f64_counter(name)).build().add(float.abs(), attributes),
            Kind::I64UpDownCounter => {
                build!(self, meter.i64_up_down_counter(name)).build().add(signed(integer), attributes);
            }
            Kind::F64UpDownCounter => {
                build!(self, meter.f64_up_down_counter(name)).build().add(float, attributes);
            }
            Kind::U64Gauge => build!(self, meter.u64_gauge(name)).build().record(integer.into(), attributes),
            Kind::I64Gauge => build!(self, meter.i64_gauge(name)).build().record(signed(integer), attributes),
            Kind::F64Gauge => build!(self, meter.f64_gauge(name)).build().record(float, attributes),
            Kind::U64Histogram => {
                build!(self, meter.u64_histogram(name)).build().record(integer.into(), attributes);
            }
            Kind::F64Histogram => build!(self, meter.f64_histogram(name)).build().record(float, attributes),
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

/// Few of each kind, so that the same attributes come again.
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
