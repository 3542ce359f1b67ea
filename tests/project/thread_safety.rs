//! Compile-time checks of the types that programs share between threads. A type that loses a trait breaks programs.

use standpipe::bridge::log::LogBridge;
use standpipe::bridge::metrics::MetricsRecorder;
use standpipe::bridge::opentelemetry::{LogExporter, MetricExporter, SpanExporter};
use standpipe::bridge::tracing::{Events, TracingLayer};
use standpipe::config::{
    Diagnostic, DiagnosticSeverity, ExporterSummary, Histograms, Location, LogLimits, ProviderName, Proxy,
    Setting, SettingSource, SpanLimits, Temporality,
};
use standpipe::ledger::{Counts, Dropped, ExporterLedger, NotEnqueued};
use standpipe::metrics::{
    BoundCounter, BoundGauge, BoundHistogram, BoundUpDownCounter, InstrumentBuilder, Observation,
};
use standpipe::probe::{EndpointReport, Outcome, Report, Stage, StageKind};
use standpipe::receiver::{
    Answer, Batch, Builder, Protocol, ReceivedLog, ReceivedMetric, ReceivedRequest, ReceivedSpan, Receiver,
    RefusalKind, RefusedRequest,
};
use standpipe::trace::{InvalidId, ParseContextError};
use standpipe::{
    Application, Compression, Config, ConfigError, ContextGuard, Counter, DetachedSpan, Exporter,
    FlushOutcome, Gauge, Histogram, Ledger, Log, Logger, Meter, Problem, ProblemKind, Provider, Sampler,
    Severity, Signal, Span, SpanBuilder, SpanContext, SpanId, SpanKind, Status, Telemetry, TraceId, Tracer,
    Transport, UpDownCounter, Value, WhenFull,
};

const fn is_shared_by_threads<T: Send + Sync>() {}

const _: () = {
    is_shared_by_threads::<(Telemetry, Provider, FlushOutcome)>();
    is_shared_by_threads::<(Tracer, SpanBuilder<'_>, DetachedSpan, SpanContext, TraceId, SpanId)>();
    is_shared_by_threads::<(Logger, Log<'_>, Value<'_>)>();
    is_shared_by_threads::<(Meter, InstrumentBuilder<'_>, Observation)>();
    is_shared_by_threads::<(Counter<u64>, BoundCounter, UpDownCounter, BoundUpDownCounter)>();
    is_shared_by_threads::<(Gauge, BoundGauge, Histogram<f64>, BoundHistogram)>();
    is_shared_by_threads::<(Ledger, ExporterLedger, Counts, Dropped, NotEnqueued, Problem, ProblemKind)>();
    is_shared_by_threads::<(Config, ConfigError, Exporter, Application, ProviderName, Sampler)>();
    is_shared_by_threads::<(Diagnostic, DiagnosticSeverity, Location)>();
    is_shared_by_threads::<(ExporterSummary, Setting, SettingSource)>();
    is_shared_by_threads::<(Compression, Proxy, Transport, WhenFull, Histograms, Temporality)>();
    is_shared_by_threads::<(LogLimits, SpanLimits, Severity, Signal, SpanKind, Status<'_>)>();
    is_shared_by_threads::<(ParseContextError, InvalidId)>();
    is_shared_by_threads::<(Receiver, Builder, Answer, Batch, Protocol, RefusalKind, RefusedRequest)>();
    is_shared_by_threads::<(ReceivedRequest, ReceivedSpan, ReceivedLog, ReceivedMetric)>();
    is_shared_by_threads::<(Report, EndpointReport, Stage, StageKind, Outcome)>();
    is_shared_by_threads::<(TracingLayer, Events, LogBridge, MetricsRecorder)>();
    is_shared_by_threads::<(SpanExporter, LogExporter, MetricExporter)>();
};

/// Two implementations match a type that is `Send`, so the compiler cannot choose.
trait AmbiguousIfSend<Which> {
    const HOLDS: () = ();
}

impl<T: ?Sized> AmbiguousIfSend<()> for T {}
impl<T: ?Sized + Send> AmbiguousIfSend<u8> for T {}

/// A guard belongs to the thread on whose stack it is.
const _: () = {
    let () = <Span as AmbiguousIfSend<_>>::HOLDS;
    let () = <ContextGuard as AmbiguousIfSend<_>>::HOLDS;
};
