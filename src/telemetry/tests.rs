use std::io;

use super::no_thread;
use crate::config::{
    Diagnostic, DiagnosticSeverity, ExporterSummary, Histograms, Location, LogLimits, ProviderName, Proxy,
    Setting, SettingSource, SpanLimits, Temporality,
};
use crate::ledger::{Counts, Dropped, ExporterLedger, NotEnqueued};
use crate::metrics::{
    BoundCounter, BoundGauge, BoundHistogram, BoundUpDownCounter, InstrumentBuilder, Observation,
};
use crate::trace::{InvalidId, ParseContextError};
use crate::{
    Application, Compression, Config, Counter, Exporter, FlushOutcome, Gauge, Histogram, Ledger, Meter,
    Problem, ProblemKind, Provider, Sampler, Severity, Signal, SpanKind, Status, Telemetry, Transport,
    UpDownCounter, WhenFull,
};

const fn is_shared_by_threads<T: Send + Sync>() {}

/// Checked by the compiler, like the list in `trace/tests.rs`: programs store values of these types in statics and send
/// them to other threads.
const _: () = {
    is_shared_by_threads::<Telemetry>();
    is_shared_by_threads::<Provider>();
    is_shared_by_threads::<Meter>();
    is_shared_by_threads::<InstrumentBuilder<'_>>();
    is_shared_by_threads::<Observation>();
    is_shared_by_threads::<(Counter, BoundCounter)>();
    is_shared_by_threads::<(UpDownCounter, BoundUpDownCounter)>();
    is_shared_by_threads::<(Gauge, BoundGauge)>();
    is_shared_by_threads::<(Histogram, BoundHistogram)>();
    is_shared_by_threads::<(Ledger, ExporterLedger, Counts, Dropped, NotEnqueued, FlushOutcome)>();
    is_shared_by_threads::<(Application, ProviderName, Problem, ProblemKind, Sampler)>();
    is_shared_by_threads::<(Diagnostic, DiagnosticSeverity, Location)>();
    is_shared_by_threads::<(ExporterSummary, Setting, SettingSource)>();
    is_shared_by_threads::<(Compression, Proxy, Transport, WhenFull, Histograms, Temporality)>();
    is_shared_by_threads::<(LogLimits, SpanLimits, Severity, Signal, SpanKind, Status<'_>)>();
    is_shared_by_threads::<(ParseContextError, InvalidId)>();
};

#[cfg(feature = "receiver")]
const _: () = {
    use crate::receiver::*;
    is_shared_by_threads::<(Receiver, Builder, Answer, Batch, Protocol, RefusalKind, RefusedRequest)>();
    is_shared_by_threads::<(ReceivedRequest, ReceivedSpan, ReceivedLog, ReceivedMetric)>();
};

#[cfg(feature = "probe")]
const _: () = {
    use crate::probe::*;
    is_shared_by_threads::<(Report, EndpointReport, Stage, StageKind, Outcome)>();
};

#[cfg(feature = "tracing")]
const _: () =
    is_shared_by_threads::<(crate::bridge::tracing::TracingLayer, crate::bridge::tracing::Events)>();

#[cfg(feature = "log")]
const _: () = is_shared_by_threads::<crate::bridge::log::LogBridge>();

#[cfg(feature = "metrics")]
const _: () = is_shared_by_threads::<crate::bridge::metrics::MetricsRecorder>();

#[cfg(feature = "opentelemetry")]
const _: () = {
    use crate::bridge::opentelemetry::*;
    is_shared_by_threads::<(SpanExporter, LogExporter, MetricExporter)>();
};

#[test]
fn a_target_without_threads_is_named_as_the_reason() {
    let config = Config::new().exporter(Exporter::http("http://127.0.0.1:4318"));
    let words = "its thread cannot be started: this target has no threads; use Telemetry::start_manual";
    let faults = no_thread(&config, &io::ErrorKind::Unsupported.into());
    assert_eq!(faults, [("otlp".to_owned(), words.to_owned())]);
}
