//! Programs on the OpenTelemetry API: one SDK gives the same records to both exporters, so that even ids and times must
//! be the same.

mod exact;
mod logs;
mod metrics;
mod spans;
mod usual;

use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::logs::{LogExporter, SdkLoggerProvider};
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::metrics::{
    Aggregation, Instrument, PeriodicReader, SdkMeterProvider, Stream, Temporality,
};
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanExporter};
use standpipe::receiver::Receiver;

pub(crate) use usual::Usual;

use crate::compare::{Difference, facts_differ};
use exact::Record;

/// A choice of exporters for the SDK.
pub(crate) trait Exporters: Sized {
    fn start(receiver: &Receiver, temporality: Temporality) -> Self;
    fn spans(&self) -> impl SpanExporter + 'static;
    fn logs(&self) -> impl LogExporter + 'static;
    fn metrics(&self) -> impl PushMetricExporter;
    /// After the SDK has shut them down.
    fn finish(self);
}

/// What a program on the OpenTelemetry API is given.
pub(crate) struct Sdk {
    pub(crate) tracing: SdkTracerProvider,
    pub(crate) logging: SdkLoggerProvider,
    pub(crate) metering: SdkMeterProvider,
}

/// A small program.
pub(crate) struct Program {
    pub(crate) name: &'static str,
    temporality: Temporality,
    resource: fn() -> Resource,
    play: fn(&Sdk),
}

/// All there are.
pub(crate) fn all() -> impl Iterator<Item = &'static Program> {
    [spans::ALL, logs::ALL, metrics::ALL].into_iter().flatten()
}

impl Program {
    const fn new(name: &'static str, play: fn(&Sdk)) -> Self {
        Self { name, temporality: Temporality::Cumulative, resource, play }
    }

    const fn with_temporality(self, temporality: Temporality) -> Self {
        Self { temporality, ..self }
    }

    const fn with_resource(self, resource: fn() -> Resource) -> Self {
        Self { resource, ..self }
    }

    /// What differs between what the usual exporters send and what `Other` sends.
    pub(crate) fn differences<Other: Exporters>(&self) -> Vec<Difference> {
        let receivers = [(); 2].map(|()| Receiver::start().unwrap());
        let usual = Usual::start(&receivers[0], self.temporality);
        let other = Other::start(&receivers[1], self.temporality);
        let sdk = self.sdk(&usual, &other);
        (self.play)(&sdk);
        sdk.tracing.shutdown().unwrap();
        sdk.logging.shutdown().unwrap();
        sdk.metering.shutdown().unwrap();
        usual.finish();
        other.finish();
        let [usual, other] = receivers.map(|receiver| exact::records(&receiver));
        pair(self.name, &usual, &other)
    }

    fn sdk(&self, usual: &Usual, other: &impl Exporters) -> Sdk {
        let resource = (self.resource)();
        Sdk {
            tracing: SdkTracerProvider::builder()
                .with_resource(resource.clone())
                .with_batch_exporter(usual.spans())
                .with_simple_exporter(other.spans())
                .build(),
            logging: SdkLoggerProvider::builder()
                .with_resource(resource.clone())
                .with_batch_exporter(usual.logs())
                .with_simple_exporter(other.logs())
                .build(),
            metering: SdkMeterProvider::builder()
                .with_resource(resource)
                .with_reader(PeriodicReader::builder(usual.metrics()).with_interval(NEVER).build())
                .with_reader(PeriodicReader::builder(other.metrics()).with_interval(NEVER).build())
                .with_view(exponential)
                .build(),
        }
    }
}

/// Metrics are pushed when the program asks for it.
const NEVER: Duration = Duration::from_secs(24 * 3600);

fn resource() -> Resource {
    let attributes =
        [KeyValue::new("deployment.environment.name", "test"), KeyValue::new("host.cpu.count", 2)];
    Resource::builder().with_service_name("shop").with_attributes(attributes).build()
}

/// Histograms whose name says so are exponential.
fn exponential(instrument: &Instrument) -> Option<Stream> {
    let aggregation =
        Aggregation::Base2ExponentialHistogram { max_size: 20, max_scale: 20, record_min_max: true };
    let stream = Stream::builder().with_aggregation(aggregation);
    instrument.name().starts_with("exponential").then(|| stream.build().ok()).flatten()
}

fn pair(program: &str, usual: &[Record], ours: &[Record]) -> Vec<Difference> {
    let mut differences = Vec::new();
    for index in 0..usual.len().max(ours.len()) {
        let (usual, ours) = (usual.get(index), ours.get(index));
        let of = |record: Option<&Record>| record.map(|record| record.facts.clone()).unwrap_or_default();
        let name = usual.or(ours).map_or("", |record| record.name.as_str());
        differences.extend(facts_differ(&format!("{program}: {name}"), &of(usual), &of(ours)));
    }
    differences
}
