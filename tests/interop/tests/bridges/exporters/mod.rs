//! Programs that use the OpenTelemetry API: one SDK passes the same records to both exporters, so even ids and times
//! must be equal.

mod exact;
mod logs;
mod metrics;
mod ours;
mod schemas;
mod spans;
mod usual;

use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::logs::{LoggerProviderBuilder, SdkLoggerProvider};
use opentelemetry_sdk::metrics::{
    Aggregation, Instrument, MeterProviderBuilder, SdkMeterProvider, Stream, Temporality,
};
use opentelemetry_sdk::trace::{SdkTracerProvider, TracerProviderBuilder};
use standpipe::receiver::Receiver;

pub(crate) use exact::Arrived;
pub(crate) use ours::Ours;
pub(crate) use schemas::schemas_differ;
pub(crate) use usual::Usual;

use crate::compare::{Difference, facts_differ};
use exact::Record;

/// A set of exporters for the SDK's builders.
pub(crate) trait Exporters {
    fn add_to_spans(&self, builder: TracerProviderBuilder) -> TracerProviderBuilder;
    fn add_to_logs(&self, builder: LoggerProviderBuilder) -> LoggerProviderBuilder;
    fn add_to_metrics(&self, builder: MeterProviderBuilder) -> MeterProviderBuilder;
    /// Called after the SDK has shut the exporters down.
    fn finish(&self);
}

/// Starts exporters that send to an endpoint.
pub(crate) type Start = fn(&str, Temporality) -> Box<dyn Exporters>;

/// The providers that a program uses.
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

/// Returns all programs.
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

    /// Returns the differences between the records of the usual exporters and those of `others`.
    pub(crate) fn differences(&self, others: Start) -> Vec<Difference> {
        let receivers = [(); 2].map(|()| Receiver::start().unwrap());
        self.run([&receivers[0].endpoint(), &receivers[1].endpoint()], others);
        let [usual, other] = receivers.map(|receiver| Arrived::at(&receiver));
        differences(self.name, &usual, &other)
    }

    /// Returns the records that the usual exporters send.
    pub(crate) fn arrived(&self) -> Arrived {
        let receivers = [(); 2].map(|()| Receiver::start().unwrap());
        self.run([&receivers[0].endpoint(), &receivers[1].endpoint()], Usual::start);
        Arrived::at(&receivers[0])
    }

    /// Runs the program, with the usual exporters to the first endpoint and `others` to the second.
    fn run(&self, endpoints: [&str; 2], others: Start) {
        let exporters = [Usual::start, others];
        let both = [0, 1].map(|which| exporters[which](endpoints[which], self.temporality));
        let sdk = self.sdk(&both);
        (self.play)(&sdk);
        sdk.tracing.shutdown().unwrap();
        sdk.logging.shutdown().unwrap();
        sdk.metering.shutdown().unwrap();
        both.iter().for_each(|exporters| exporters.finish());
    }

    fn sdk(&self, both: &[Box<dyn Exporters>]) -> Sdk {
        let resource = (self.resource)();
        let tracing = SdkTracerProvider::builder().with_resource(resource.clone());
        let logging = SdkLoggerProvider::builder().with_resource(resource.clone());
        let metering = SdkMeterProvider::builder().with_resource(resource).with_view(exponential);
        Sdk {
            tracing: both.iter().fold(tracing, |builder, exporters| exporters.add_to_spans(builder)).build(),
            logging: both.iter().fold(logging, |builder, exporters| exporters.add_to_logs(builder)).build(),
            metering: both
                .iter()
                .fold(metering, |builder, exporters| exporters.add_to_metrics(builder))
                .build(),
        }
    }
}

/// Longer than any test, so that metrics are exported only when the program flushes or shuts down.
const NEVER: Duration = Duration::from_secs(24 * 3600);

fn resource() -> Resource {
    let attributes =
        [KeyValue::new("deployment.environment.name", "test"), KeyValue::new("host.cpu.count", 2)];
    Resource::builder().with_service_name("shop").with_attributes(attributes).build()
}

/// Histograms whose name begins with `exponential` are exponential.
fn exponential(instrument: &Instrument) -> Option<Stream> {
    let aggregation =
        Aggregation::Base2ExponentialHistogram { max_size: 20, max_scale: 20, record_min_max: true };
    let stream = Stream::builder().with_aggregation(aggregation);
    instrument.name().starts_with("exponential").then(|| stream.build().ok()).flatten()
}

/// Returns all differences between the records of two exporters.
pub(crate) fn differences(program: &str, usual: &Arrived, ours: &Arrived) -> Vec<Difference> {
    let [usual, ours] = [usual, ours].map(exact::records);
    let mut differences = Vec::new();
    for index in 0..usual.len().max(ours.len()) {
        let (usual, ours) = (usual.get(index), ours.get(index));
        let of = |record: Option<&Record>| record.map(|record| record.facts.clone()).unwrap_or_default();
        let name = usual.or(ours).map_or("", |record| record.name.as_str());
        differences.extend(facts_differ(&format!("{program}: {name}"), &of(usual), &of(ours)));
    }
    differences
}
