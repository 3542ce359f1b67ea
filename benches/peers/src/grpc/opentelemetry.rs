//! The OpenTelemetry SDK with opentelemetry-otlp over tonic.

use std::hint::black_box;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::trace::{SpanKind, Tracer, TracerProvider};
use opentelemetry_otlp::{Compression, SpanExporter, WithExportConfig, WithTonicConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{BatchConfigBuilder, BatchSpanProcessor, SdkTracerProvider};
use tokio::runtime::Builder;

use super::spent::Spent;
use super::{ALL, Contender, Order};
use crate::support::Error;
use crate::support::workload::text;

const QUEUE: usize = 1024;
/// Spans between two flushes if each request has one span. The queue drops spans that do not fit, and a flush gives up
/// after 5 s.
const BURST: u64 = 128;
/// Longer than any run, so that requests are sent only when they are full.
const LONG: Duration = Duration::from_secs(3600);

pub(super) const CONTENDER: Contender = Contender {
    name: "opentelemetry 0.33",
    cases: ALL,
    note: "everything from the call that starts a span to the flush: batch span processor, opentelemetry-otlp, tonic \
           on a runtime with one worker; flushed every 128 or 512 spans, because its queue does not block",
    send,
};

fn send(order: &Order) -> Result<Spent, Error> {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let _inside = runtime.enter();
    let mut exporter = SpanExporter::builder().with_tonic().with_endpoint(&order.endpoint);
    if order.is_compressed {
        exporter = exporter.with_compression(Compression::Gzip);
    }
    let batch = usize::try_from(order.spans)?;
    let config = BatchConfigBuilder::default()
        .with_max_queue_size(QUEUE)
        .with_max_export_batch_size(batch)
        .with_scheduled_delay(LONG)
        .build();
    let processor = BatchSpanProcessor::builder(exporter.build()?).with_batch_config(config).build();
    let provider = SdkTracerProvider::builder()
        .with_span_processor(processor)
        .with_resource(Resource::builder().with_service_name("bench").build())
        .build();
    let tracer = provider.tracer(text::SCOPE);
    // A flush also sends a partial request. With these bursts, every request is full.
    let burst = if order.spans == 1 { BURST } else { order.spans };
    let spent = Spent::on(|| {
        let mut left = order.requests * order.spans;
        while left > 0 {
            let count = left.min(burst);
            (0..count).for_each(|_| emit(&tracer));
            provider.force_flush()?;
            left -= count;
        }
        Ok(())
    })?;
    provider.shutdown()?;
    Ok(spent)
}

fn emit(tracer: &impl Tracer) {
    let attributes = [
        KeyValue::new(text::ROUTE.0, black_box(text::ROUTE.1)),
        KeyValue::new(text::HOST.0, black_box(text::HOST.1)),
        KeyValue::new(text::ZONE.0, black_box(text::ZONE.1)),
        KeyValue::new(text::STATUS.0, black_box(text::STATUS.1)),
        KeyValue::new(text::CACHED.0, black_box(text::CACHED.1)),
    ];
    let span = tracer.span_builder(black_box(text::CHILD)).with_kind(SpanKind::Client);
    drop(span.with_attributes(attributes).start(tracer));
}
