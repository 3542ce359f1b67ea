//! The OpenTelemetry SDK: batch log processor, periodic reader, OTLP over HTTP with reqwest's blocking client.

use std::hint::black_box;
use std::time::Instant;

use opentelemetry::logs::{AnyValue, LogRecord, Logger, LoggerProvider, Severity};
use opentelemetry::metrics::MeterProvider;
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{LogExporter, MetricExporter, WithExportConfig};
use opentelemetry_sdk::logs::{BatchConfigBuilder, BatchLogProcessor, SdkLoggerProvider};
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;

use crate::support::Error;
use crate::support::calls::spread;
use crate::support::program::{BURST, Program, repeat};
use crate::support::workload::{PATIENCE, text};
use crate::{Contender, case};

pub(crate) const CONTENDER: Contender = Contender {
    name: "opentelemetry 0.33",
    cases: &[
        case::LOG,
        case::COUNTER[0],
        case::COUNTER[1],
        case::COUNTER[2],
        case::HISTOGRAM[0],
        case::HISTOGRAM[1],
        case::HISTOGRAM[2],
    ],
    note: "with a log queue that holds a burst (the default queue holds 2,048 records and drops the rest); texts are \
           constants, which saves one allocation each; its SDK has no level to filter by",
    start,
};

fn start(case: &str, endpoint: &str) -> Result<Program, Error> {
    if case == case::LOG {
        return log(endpoint);
    }
    let exporter =
        MetricExporter::builder().with_http().with_endpoint(format!("{endpoint}/v1/metrics")).build()?;
    let provider = SdkMeterProvider::builder().with_periodic_exporter(exporter).build();
    let meter = provider.meter(text::SCOPE);
    let counter = meter.u64_counter("orders").build();
    let histogram = meter.f64_histogram("order.total").build();
    let burst = match case {
        _ if case == case::COUNTER[0] => repeat(move |_| counter.add(1, &[])),
        _ if case == case::COUNTER[1] => repeat(move |_| counter.add(1, &one())),
        _ if case == case::COUNTER[2] => repeat(move |_| counter.add(1, &five())),
        _ if case == case::HISTOGRAM[0] => repeat(move |number| histogram.record(spread(number), &[])),
        _ if case == case::HISTOGRAM[1] => repeat(move |number| histogram.record(spread(number), &one())),
        _ if case == case::HISTOGRAM[2] => repeat(move |number| histogram.record(spread(number), &five())),
        _ => return Err(format!("{case}: not a case of this contender").into()),
    };
    Ok(Program::new(burst, || Ok(()), move || Ok(provider.shutdown()?)))
}

fn log(endpoint: &str) -> Result<Program, Error> {
    let provider = logger_provider(endpoint)?;
    let logger = provider.logger(text::SCOPE);
    let inside = in_span();
    let burst = repeat(move |_| {
        let _inside = &inside;
        let mut record = logger.create_log_record();
        record.set_severity_number(Severity::Info);
        record.set_severity_text("INFO");
        record.set_body(AnyValue::from(black_box(text::BODY)));
        record.add_attribute(text::ROUTE.0, black_box(text::ROUTE.1));
        record.add_attribute(text::HOST.0, black_box(text::HOST.1));
        record.add_attribute(text::ZONE.0, black_box(text::ZONE.1));
        record.add_attribute(text::STATUS.0, black_box(text::STATUS.1));
        record.add_attribute(text::CACHED.0, black_box(text::CACHED.1));
        logger.emit(record);
    });
    let flushed = provider.clone();
    Ok(Program::new(burst, move || Ok(flushed.force_flush()?), move || Ok(provider.shutdown()?)))
}

/// Returns a logger provider with a batch processor whose queue holds a burst.
pub(crate) fn logger_provider(endpoint: &str) -> Result<SdkLoggerProvider, Error> {
    let exporter = LogExporter::builder().with_http().with_endpoint(format!("{endpoint}/v1/logs")).build()?;
    let config = BatchConfigBuilder::default().with_max_queue_size(2 * BURST as usize).build();
    let processor = BatchLogProcessor::builder(exporter).with_batch_config(config).build();
    Ok(SdkLoggerProvider::builder().with_log_processor(processor).build())
}

/// Makes the remote span the current one until the guard is dropped.
pub(crate) fn in_span() -> impl Sized + 'static {
    remote().attach()
}

/// Returns a context with a span of another program.
pub(crate) fn remote() -> Context {
    let (trace, span) = (TraceId::from(0x4bf9_2f35_77b3_4da6), SpanId::from(0x00f0_67aa_0ba9_02b7));
    let span = SpanContext::new(trace, span, TraceFlags::SAMPLED, true, TraceState::NONE);
    Context::new().with_remote_span_context(span)
}

fn one() -> [KeyValue; 1] {
    [KeyValue::new(text::ROUTE.0, black_box(text::ROUTE.1))]
}

fn five() -> [KeyValue; 5] {
    [
        KeyValue::new(text::ROUTE.0, black_box(text::ROUTE.1)),
        KeyValue::new(text::HOST.0, black_box(text::HOST.1)),
        KeyValue::new(text::ZONE.0, black_box(text::ZONE.1)),
        KeyValue::new(text::STATUS.0, black_box(text::STATUS.1)),
        KeyValue::new(text::CACHED.0, black_box(text::CACHED.1)),
    ]
}

/// Flushes until everything is sent. A single flush gives up after 5 s, but the export continues.
pub(crate) fn flush(provider: &SdkTracerProvider) -> Result<(), Error> {
    let begun = Instant::now();
    loop {
        match provider.force_flush() {
            Err(error) if begun.elapsed() > PATIENCE => return Err(error.into()),
            Err(_) => {}
            Ok(()) => return Ok(()),
        }
    }
}
