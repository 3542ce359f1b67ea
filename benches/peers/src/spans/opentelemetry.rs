//! The OpenTelemetry SDK: batch span processor, OTLP over HTTP (reqwest's blocking client) or gRPC (tonic).

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use opentelemetry::trace::{SpanKind, Tracer, TracerProvider, mark_span_as_active};
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{
    Compression, SpanExporter as OtlpExporter, WithExportConfig, WithHttpConfig, WithTonicConfig,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, SdkTracer, SdkTracerProvider, SpanData, SpanExporter,
};
use tokio::runtime::{Builder, Runtime};

use super::contender::{Arrives, Contender, Pace, Pipe, Setup, Spans};
use super::{ALL_TASKS, ANY_ATTRIBUTES};
use crate::opentelemetry::{flush, remote};
use crate::support::Error;
use crate::support::workload::text;

pub(super) const HTTP: Contender = Contender {
    name: "opentelemetry-otlp 0.33, HTTP",
    short: "otel, HTTP",
    note: "batch span processor and reqwest's blocking client; a queue of 16,384 spans, and callers that sleep while \
           8,192 wait, because it drops spans that do not fit; the default queue of 2,048 in the tight loop",
    arrives: Arrives::Everything,
    tasks: ALL_TASKS,
    attributes: ANY_ATTRIBUTES,
    can_compress: true,
    start: |setup| {
        let (provider, pace) = provider(setup, http(setup)?);
        Ok(pipe(traces(setup, &provider), provider, None).paced(pace))
    },
};

pub(super) const GRPC: Contender = Contender {
    name: "opentelemetry-otlp 0.33, gRPC",
    short: "otel, gRPC",
    note: "the same over tonic, on a runtime with one worker",
    start: |setup| {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let exporter = {
            let _inside = runtime.enter();
            let exporter = OtlpExporter::builder().with_tonic().with_endpoint(&setup.endpoint);
            match setup.is_compressed {
                true => exporter.with_compression(Compression::Gzip).build()?,
                false => exporter.build()?,
            }
        };
        let (provider, pace) = provider(setup, exporter);
        Ok(pipe(traces(setup, &provider), provider, Some(runtime)).paced(pace))
    },
    ..HTTP
};

/// Size of the queue in lossless runs. Callers wait at [`LIMIT`], so that it never overflows.
const QUEUE: usize = 16_384;
const LIMIT: u64 = 8_192;

/// Builds the exporter over HTTP.
pub(super) fn http(setup: &Setup) -> Result<OtlpExporter, Error> {
    let endpoint = format!("{}/v1/traces", setup.endpoint);
    let exporter = OtlpExporter::builder().with_http().with_endpoint(endpoint);
    Ok(match setup.is_compressed {
        true => WithHttpConfig::with_compression(exporter, Compression::Gzip).build()?,
        false => exporter.build()?,
    })
}

/// Builds a provider with a batch processor, and a pace if nothing may be lost.
pub(super) fn provider(setup: &Setup, exporter: OtlpExporter) -> (SdkTracerProvider, Option<Pace>) {
    let exported = Arc::new(AtomicU64::new(0));
    let exporter = Counted { exporter, exported: Arc::clone(&exported) };
    let mut processor = BatchSpanProcessor::builder(exporter);
    if setup.is_lossless {
        processor =
            processor.with_batch_config(BatchConfigBuilder::default().with_max_queue_size(QUEUE).build());
    }
    let provider = SdkTracerProvider::builder()
        .with_span_processor(processor.build())
        .with_resource(Resource::builder().with_service_name("bench").build())
        .build();
    let backlog = move |emitted: u64| emitted.saturating_sub(exported.load(Ordering::SeqCst));
    (provider, setup.is_lossless.then(|| Pace::new(LIMIT, backlog)))
}

pub(super) fn pipe(
    spans: impl Spans + Clone + 'static,
    provider: SdkTracerProvider,
    runtime: Option<Runtime>,
) -> Pipe {
    let flushed = provider.clone();
    Pipe::new(
        spans,
        move || flush(&flushed),
        move |budget| {
            let ended = provider.shutdown_with_timeout(budget);
            drop(runtime);
            Ok(ended?)
        },
    )
}

/// Exporter that counts the spans it has sent.
#[derive(Debug)]
struct Counted {
    exporter: OtlpExporter,
    exported: Arc<AtomicU64>,
}

impl SpanExporter for Counted {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len() as u64;
        let result = self.exporter.export(batch).await;
        self.exported.fetch_add(spans, Ordering::SeqCst);
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

#[derive(Clone)]
struct Traces {
    tracer: SdkTracer,
    remote: Context,
    attributes: u64,
}

fn traces(setup: &Setup, provider: &SdkTracerProvider) -> Traces {
    Traces { tracer: provider.tracer(text::SCOPE), remote: remote(), attributes: setup.attributes }
}

impl Spans for Traces {
    fn root(&self, within: impl FnOnce()) {
        let root = self.tracer.span_builder(black_box(text::ROOT)).with_kind(SpanKind::Server);
        let root = root.with_attributes(self.attributes()).start_with_context(&self.tracer, &self.remote);
        let _inside = mark_span_as_active(root);
        within();
    }

    fn child(&self) {
        let child = self.tracer.span_builder(black_box(text::CHILD)).with_kind(SpanKind::Client);
        drop(child.with_attributes(self.attributes()).start(&self.tracer));
    }
}

impl Traces {
    fn attributes(&self) -> Vec<KeyValue> {
        let mut all = Vec::with_capacity(self.attributes as usize);
        if self.attributes >= 1 {
            all.push(KeyValue::new(text::ROUTE.0, black_box(text::ROUTE.1)));
        }
        if self.attributes >= 5 {
            all.push(KeyValue::new(text::HOST.0, black_box(text::HOST.1)));
            all.push(KeyValue::new(text::ZONE.0, black_box(text::ZONE.1)));
            all.push(KeyValue::new(text::STATUS.0, black_box(text::STATUS.1)));
            all.push(KeyValue::new(text::CACHED.0, black_box(text::CACHED.1)));
        }
        if self.attributes >= 20 {
            all.extend(text::MORE.map(|key| KeyValue::new(key, black_box(text::ROUTE.1))));
        }
        all
    }
}
