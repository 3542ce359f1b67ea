//! The calls that the regression check measures. Each of them is a program.
//!
//! The workers send only at a flush: work that depends on the clock would differ from run to run.

#[cfg(target_os = "linux")]
use std::fs;
use std::hint::black_box;
#[cfg(target_os = "linux")]
use std::path::Path;
use std::sync::Arc;

use standpipe::bridge::log::LogBridge;
use standpipe::bridge::tracing::{SpanExt, TracingLayer};
use standpipe::config::Proxy;
use standpipe::{Config, Sampler, Span, SpanBuilder, SpanContext, SpanKind, Telemetry, Tracer};
use tracing::info_span;
use tracing::subscriber::set_global_default;
use tracing_subscriber::Registry;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;

use crate::c;
use crate::support::program::{Arrives, Burst, Play, Program, repeat};
use crate::support::workload::{self, TRACE, VALUES, Workload, text};
use crate::support::{Error, calls};

/// A measured call.
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    /// Whether the instructions of the worker are also counted.
    pub(crate) with_worker: bool,
    work: Work,
}

enum Work {
    /// Spans that arrive with this many attributes and events.
    Spans { attributes: u64, events: u64, make: fn(&Telemetry) -> Result<Burst, Error> },
    /// Like `Spans`, with a queue that survives the process. With `open_spans`, open spans survive it too.
    #[cfg(target_os = "linux")]
    Spooled { attributes: u64, open_spans: bool, make: fn(&Telemetry) -> Result<Burst, Error> },
    /// Spans that are created through the functions of `standpipe.h`.
    FromC { attributes: u64 },
    /// Spans that are not sampled.
    Unsampled(fn(Tracer) -> Burst),
    /// Records of the `log` crate.
    LogCrate,
    /// A call of [`calls::CALLS`], which other benchmarks also measure.
    Known,
}

#[rustfmt::skip]
pub(crate) const PROGRAMS: &[Subject] = &[
    span("span, 0 attributes", 0, 0, native::<0>),
    span("span, 1 attribute", 1, 0, native::<1>),
    span("span, 5 attributes", 5, 0, native::<5>),
    span("span, 20 attributes", 20, 0, native::<20>),
    span("span, 5 attributes, 1 event", 5, 1, with_event),
    #[cfg(target_os = "linux")]
    spooled("spooled span, 0 attributes", 0, native::<0>),
    #[cfg(target_os = "linux")]
    spooled("spooled span, 5 attributes", 5, native::<5>),
    #[cfg(target_os = "linux")]
    Subject {
        name: "spooled span, 5 attributes, also while open",
        with_worker: false,
        work: Work::Spooled { attributes: 5, open_spans: true, make: native::<5> },
    },
    span("span of tracing, 5 fields", 5, 0, bridged),
    span("span of tracing, name, kind and 5 fields, lean", 5, 0, bridged_lean),
    Subject { name: "span from C, 3 attributes", with_worker: false, work: Work::FromC { attributes: 3 } },
    unsampled("unsampled child, 5 attributes", |tracer| {
        let root = tracer.span(text::ROOT);
        repeat(move |_| {
            let _inside = &root;
            workload::emit_values(&tracer, black_box(&VALUES));
        })
    }),
    unsampled("unsampled root, 5 attributes", |tracer| {
        repeat(move |_| workload::emit_values(&tracer, black_box(&VALUES)))
    }),
    log("log, 0 attributes"),
    log("log, 5 attributes"),
    Subject { name: "log of the log crate, 5 attributes", with_worker: true, work: Work::LogCrate },
    quiet("filtered log, 5 attributes"),
    quiet("counter add, 0 attributes"),
    quiet("counter add, 2 attributes"),
    quiet("counter add, 3 attributes"),
    quiet("counter add, 5 attributes"),
    quiet("counter add, bound"),
    quiet("histogram record, 0 attributes"),
    quiet("histogram record, 5 attributes"),
    quiet("histogram record, bound"),
    quiet("exponential record, 0 attributes"),
    quiet("gauge record, 1 attribute"),
    quiet("counter add, 0 attributes, in a span"),
    quiet("counter add, 2 attributes, in a span"),
    quiet("counter add, bound, in a span"),
    quiet("histogram record, 0 attributes, in a span"),
    quiet("exponential record, 0 attributes, in a span"),
    quiet("gauge record, 1 attribute, in a span"),
];

impl Subject {
    pub(crate) fn play(&self) -> Play<'_> {
        let arrives = match self.work {
            Work::Spans { attributes, events, .. } => Arrives::Spans { attributes, events },
            #[cfg(target_os = "linux")]
            Work::Spooled { attributes, .. } => Arrives::Spans { attributes, events: 0 },
            Work::FromC { attributes } => Arrives::Spans { attributes, events: 0 },
            Work::Unsampled(_) => Arrives::Nothing,
            Work::LogCrate => Arrives::Each,
            Work::Known => calls::arrives(self.name),
        };
        Play { part: self.name, settings: &[], arrives }
    }
}

const fn span(
    name: &'static str,
    attributes: u64,
    events: u64,
    make: fn(&Telemetry) -> Result<Burst, Error>,
) -> Subject {
    Subject { name, with_worker: true, work: Work::Spans { attributes, events, make } }
}

#[cfg(target_os = "linux")]
const fn spooled(
    name: &'static str,
    attributes: u64,
    make: fn(&Telemetry) -> Result<Burst, Error>,
) -> Subject {
    Subject { name, with_worker: true, work: Work::Spooled { attributes, open_spans: false, make } }
}

const fn unsampled(name: &'static str, make: fn(Tracer) -> Burst) -> Subject {
    Subject { name, with_worker: false, work: Work::Unsampled(make) }
}

/// Describes a call of [`calls::CALLS`] that enqueues log records.
const fn log(name: &'static str) -> Subject {
    Subject { name, with_worker: true, work: Work::Known }
}

/// Describes a call of [`calls::CALLS`] that enqueues nothing.
const fn quiet(name: &'static str) -> Subject {
    Subject { name, with_worker: false, work: Work::Known }
}

/// Starts the program with this name.
pub(crate) fn start(name: &str, endpoint: &str) -> Result<Program, Error> {
    let subject = PROGRAMS.iter().find(|subject| subject.name == name);
    let exporter = workload::parked(endpoint);
    match subject.ok_or_else(|| format!("{name}: no such program"))?.work {
        Work::Spans { make, .. } => {
            let telemetry = workload::start(exporter)?;
            let burst = make(&telemetry)?;
            Ok(calls::sending(Arc::new(telemetry), burst))
        }
        #[cfg(target_os = "linux")]
        Work::Spooled { make, open_spans, .. } => {
            let spool = Path::new(env!("CARGO_TARGET_TMPDIR")).join("spool");
            // A run that was killed may have left records in the spool, which would be delivered and counted now.
            let _ = fs::remove_dir_all(&spool);
            // This queue is smaller than that of `parked`, because the start writes all pages of the flight recorder,
            // which is several times as large as the queue. A burst fills less than a quarter of the queue.
            let exporter = exporter.queue_records(1 << 16).queue_bytes(64 << 20);
            let telemetry = workload::start(exporter.spool(spool).spool_open_spans(open_spans))?;
            let burst = make(&telemetry)?;
            Ok(calls::sending(Arc::new(telemetry), burst))
        }
        Work::FromC { .. } => c::start(endpoint),
        Work::Unsampled(make) => {
            let sampler = Sampler::always_off().parent_based();
            let config = Config::new().sampler(sampler).exporter(exporter.proxy(Proxy::Off));
            let telemetry = Telemetry::start(config)?;
            let burst = make(telemetry.tracer(text::SCOPE));
            Ok(calls::sending(Arc::new(telemetry), burst))
        }
        Work::LogCrate => {
            let telemetry = workload::start(exporter)?;
            LogBridge::new(&telemetry).install()?;
            let burst = calls::log(&telemetry, |_| emit_by_log_crate());
            Ok(calls::sending(Arc::new(telemetry), burst))
        }
        Work::Known => calls::start_with(name, exporter),
    }
}

fn native<const ATTRIBUTES: u64>(telemetry: &Telemetry) -> Result<Burst, Error> {
    let workload = Workload::new(telemetry, ATTRIBUTES)?;
    Ok(Box::new(move |spans| workload.emit(spans)))
}

fn with_event(telemetry: &Telemetry) -> Result<Burst, Error> {
    let tracer = telemetry.tracer(text::SCOPE);
    let remote = SpanContext::from_traceparent(text::REMOTE)?;
    Ok(repeat(move |_| {
        let mut span = with_five_attributes(tracer.span_builder(black_box(text::CHILD)).parent(&remote));
        span.event(black_box(text::BODY)).set("order.id", black_box(4711));
    }))
}

/// Starts a span and sets five attributes. Unlike [`Workload`], it has no branches for other numbers of attributes.
#[inline(never)]
fn with_five_attributes(span: SpanBuilder<'_>) -> Span {
    let mut span = span.kind(SpanKind::Client).start();
    span.set(text::ROUTE.0, black_box(text::ROUTE.1));
    span.set(text::HOST.0, black_box(text::HOST.1));
    span.set(text::ZONE.0, black_box(text::ZONE.1));
    span.set(text::STATUS.0, black_box(text::STATUS.1));
    span.set(text::CACHED.0, black_box(text::CACHED.1));
    span
}

fn emit_by_log_crate() {
    log::info!(
        target: text::SCOPE,
        "http.route" = black_box(text::ROUTE.1),
        "server.address" = black_box(text::HOST.1),
        "cloud.region" = black_box(text::ZONE.1),
        "http.response.status_code" = black_box(text::STATUS.1),
        "cache.hit" = black_box(text::CACHED.1);
        "order placed"
    );
}

/// Emits spans through the layer for `tracing`, with a level filter as in production.
fn bridged(telemetry: &Telemetry) -> Result<Burst, Error> {
    set_global_default(Registry::default().with(TracingLayer::new(telemetry)).with(LevelFilter::INFO))?;
    let remote = SpanContext::from_traceparent(text::REMOTE)?;
    Ok(Box::new(move |spans| (0..spans / TRACE).for_each(|_| bridged_trace(&remote))))
}

/// Like [`bridged`], without the attributes of location and thread. Fields set the names and kinds of the spans.
fn bridged_lean(telemetry: &Telemetry) -> Result<Burst, Error> {
    let layer = TracingLayer::new(telemetry).location(false).threads(false);
    set_global_default(Registry::default().with(layer).with(LevelFilter::INFO))?;
    let remote = SpanContext::from_traceparent(text::REMOTE)?;
    Ok(Box::new(move |spans| (0..spans / TRACE).for_each(|_| bridged_lean_trace(&remote))))
}

fn bridged_lean_trace(remote: &SpanContext) {
    macro_rules! span {
        ($name:expr, $kind:expr) => {
            info_span!(
                target: text::SCOPE,
                "span",
                otel.name = black_box($name),
                otel.kind = black_box($kind),
                http.route = black_box(text::ROUTE.1),
                server.address = black_box(text::HOST.1),
                cloud.region = black_box(text::ZONE.1),
                http.response.status_code = black_box(text::STATUS.1),
                cache.hit = black_box(text::CACHED.1),
            )
        };
    }
    let root = span!(text::ROOT, "server");
    root.set_parent(remote);
    let _in_root = root.enter();
    for _ in 1..TRACE {
        drop(span!(text::CHILD, "client").entered());
    }
}

fn bridged_trace(remote: &SpanContext) {
    macro_rules! span {
        ($name:expr) => {
            info_span!(
                target: text::SCOPE,
                $name,
                http.route = black_box(text::ROUTE.1),
                server.address = black_box(text::HOST.1),
                cloud.region = black_box(text::ZONE.1),
                http.response.status_code = black_box(text::STATUS.1),
                cache.hit = black_box(text::CACHED.1),
            )
        };
    }
    let root = span!(text::ROOT);
    root.set_parent(remote);
    let _in_root = root.enter();
    for _ in 1..TRACE {
        drop(span!(text::CHILD).entered());
    }
}
