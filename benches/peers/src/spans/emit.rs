//! emit with emit_otlp.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use emit::metric::{Source, sampler};
use emit::span::{SpanCtxt, SpanId, TraceId};
use emit_otlp::OtlpMetrics;

use super::ALL_TASKS;
use super::contender::{Arrives, Contender, Pace, Pipe, STEP, Setup, Spans};
use crate::support::Error;
use crate::support::workload::{ATTRIBUTES, PATIENCE, text};

pub(super) const CONTENDER: Contender = Contender {
    name: "emit 2.23",
    short: "emit",
    note: "emit_otlp over HTTP, uncompressed by default; callers sleep while 8,192 spans wait, because a full queue of \
           10,000 is discarded; it has no flags",
    arrives: Arrives::Everything,
    tasks: ALL_TASKS,
    attributes: &[ATTRIBUTES],
    can_compress: true,
    start,
};

/// Backlog at which a single caller waits. The limit is lower by [`STEP`] spans for each further caller, because each
/// caller emits that many spans before it checks the backlog.
const LIMIT: u64 = 8_192;

fn start(setup: &Setup) -> Result<Pipe, Error> {
    let transport = emit_otlp::http(format!("{}/v1/traces", setup.endpoint));
    let otlp = emit_otlp::new()
        .resource(emit::props! { #[emit::key("service.name")] service_name: "bench" })
        .traces(emit_otlp::traces_proto(transport.allow_compression(setup.is_compressed)))
        .spawn();
    let metrics = otlp.metric_source();
    let emitter = Arc::new(emit::setup().emit_to(otlp).init());
    let flushed = Arc::clone(&emitter);
    let pipe = Pipe::new(
        Traces,
        move || all(flushed.blocking_flush(PATIENCE)),
        move |budget: Duration| all(emitter.blocking_flush(budget)),
    );
    let limit = LIMIT - (setup.producers - 1) * STEP;
    Ok(pipe.paced(setup.is_lossless.then(|| Pace::new(limit, move |_| waiting(&metrics)))))
}

fn all(is_sent: bool) -> Result<(), Error> {
    match is_sent {
        true => Ok(()),
        false => Err("emit did not send everything in time".into()),
    }
}

/// Returns the length of the queue, from the metrics of emit_otlp.
fn waiting(metrics: &OtlpMetrics) -> u64 {
    let length = AtomicU64::new(0);
    metrics.sample_metrics(sampler::from_fn(|metric| {
        if metric.name().is_some_and(|name| name == "otlp_traces_queue_length") {
            length
                .store(metric.value().and_then(|value| value.cast()).unwrap_or_default(), Ordering::Relaxed);
        }
    }));
    length.into_inner()
}

#[derive(Clone, Copy)]
struct Traces;

/// The five attributes. Children of the span do not inherit them.
macro_rules! five {
    ($kind:literal) => {
        emit::props! {
            span_kind: $kind,
            #[emit::key("http.route")]
            route: black_box(text::ROUTE.1),
            #[emit::key("server.address")]
            host: black_box(text::HOST.1),
            #[emit::key("cloud.region")]
            zone: black_box(text::ZONE.1),
            #[emit::key("http.response.status_code")]
            status: black_box(text::STATUS.1),
            #[emit::key("cache.hit")]
            cached: black_box(text::CACHED.1),
        }
    };
}

#[allow(clippy::too_many_arguments, reason = "the macro for properties generates such a function")]
impl Spans for Traces {
    fn root(&self, within: impl FnOnce()) {
        let (trace, span) =
            (TraceId::from_u128(0x4bf9_2f35_77b3_4da6), SpanId::from_u64(0x00f0_67aa_0ba9_02b7));
        let remote = SpanCtxt::new(trace, None, span);
        remote.push(emit::ctxt()).call(|| {
            let (mut root, frame) = emit::span_guard!(evt_props: five!("server"), "GET /orders/{{id}}");
            frame.call(move || {
                root.start();
                within();
            });
        });
    }

    fn child(&self) {
        let (mut child, frame) = emit::span_guard!(evt_props: five!("client"), "SELECT shop.orders");
        frame.call(move || child.start());
    }
}
