//! fastrace with fastrace-opentelemetry and opentelemetry-otlp.

use std::borrow::Cow;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ::opentelemetry::InstrumentationScope;
use fastrace::Span;
use fastrace::collector::{Config, Reporter, SpanContext, SpanId, SpanRecord, TraceId};
use fastrace::local::LocalSpan;
use fastrace_opentelemetry::OpenTelemetryReporter;
use opentelemetry_sdk::Resource;

use super::contender::{Arrives, Contender, Pace, Pipe, Setup, Spans};
use super::{ALL_TASKS, ANY_ATTRIBUTES, opentelemetry};
use crate::support::Error;
use crate::support::workload::text;

pub(super) const LOCAL: Contender = Contender {
    name: "fastrace 0.7, LocalSpan",
    short: "fastrace",
    note: "with opentelemetry-otlp 0.33 over HTTP; it reports every 10 ms instead of every second, with callers that \
           sleep while 8,192 spans wait, because commands that do not fit into its ring of 10,240 are lost; the \
           default second in the tight loop; it has no flags and no shutdown, so it is flushed, without a time limit",
    arrives: Arrives::TextWithoutKind,
    tasks: ALL_TASKS,
    attributes: ANY_ATTRIBUTES,
    can_compress: true,
    start: |setup| start(setup, |traces| Pipe::new(Local(traces), flush, |_| flush())),
};

pub(super) const SPAN: Contender = Contender {
    name: "fastrace 0.7, Span",
    short: "fastrace, Span",
    note: "the same with children that can move to another thread",
    start: |setup| start(setup, |traces| Pipe::new(Global(traces), flush, |_| flush())),
    ..LOCAL
};

/// Backlog at which callers wait. Even if each span is a separate command, the ring of commands has room for them.
const LIMIT: u64 = 8_192;
/// Report interval of runs with more spans than [`LIMIT`]. fastrace reports earlier only if its ring of commands is
/// half full. A command can hold many spans, so the backlog may reach the limit first.
const INTERVAL: Duration = Duration::from_millis(10);

fn start(setup: &Setup, pipe: fn(Traces) -> Pipe) -> Result<Pipe, Error> {
    let resource = Cow::Owned(Resource::builder().with_service_name("bench").build());
    let scope = InstrumentationScope::builder(text::SCOPE).build();
    let reported = Arc::new(AtomicU64::new(0));
    let reporter = Counted {
        reporter: OpenTelemetryReporter::new(opentelemetry::http(setup)?, resource, scope),
        reported: Arc::clone(&reported),
    };
    let config = match setup.is_lossless && setup.spans > LIMIT {
        true => Config::default().report_interval(INTERVAL),
        false => Config::default(),
    };
    fastrace::set_reporter(reporter, config);
    let backlog = move |emitted: u64| emitted.saturating_sub(reported.load(Ordering::SeqCst));
    let pace = setup.is_lossless.then(|| Pace::new(LIMIT, backlog));
    Ok(pipe(Traces { attributes: setup.attributes }).paced(pace))
}

fn flush() -> Result<(), Error> {
    fastrace::flush();
    Ok(())
}

/// Reporter that counts the spans it has sent.
struct Counted {
    reporter: OpenTelemetryReporter,
    reported: Arc<AtomicU64>,
}

impl Reporter for Counted {
    fn report(&mut self, spans: Vec<SpanRecord>) {
        let count = spans.len() as u64;
        self.reporter.report(spans);
        self.reported.fetch_add(count, Ordering::SeqCst);
    }
}

#[derive(Clone, Copy)]
struct Traces {
    attributes: u64,
}

#[derive(Clone, Copy)]
struct Local(Traces);

#[derive(Clone, Copy)]
struct Global(Traces);

impl Spans for Local {
    fn root(&self, within: impl FnOnce()) {
        self.0.root(within);
    }

    fn child(&self) {
        let child = LocalSpan::enter_with_local_parent(black_box(text::CHILD));
        drop(match self.0.attributes {
            0 => child,
            1 => child.with_properties(one),
            5 => child.with_properties(five),
            _ => child.with_properties(twenty),
        });
    }
}

impl Spans for Global {
    fn root(&self, within: impl FnOnce()) {
        self.0.root(within);
    }

    fn child(&self) {
        drop(self.0.fill(Span::enter_with_local_parent(black_box(text::CHILD))));
    }
}

impl Traces {
    fn root(&self, within: impl FnOnce()) {
        let remote = SpanContext::new(TraceId(0x4bf9_2f35_77b3_4da6), SpanId(0x00f0_67aa_0ba9_02b7));
        let root = self.fill(Span::root(black_box(text::ROOT), remote));
        let _inside = root.set_local_parent();
        within();
    }

    fn fill(&self, span: Span) -> Span {
        match self.attributes {
            0 => span,
            1 => span.with_properties(one),
            5 => span.with_properties(five),
            _ => span.with_properties(twenty),
        }
    }
}

type Property = (&'static str, Cow<'static, str>);

fn one() -> [Property; 1] {
    [(text::ROUTE.0, Cow::Borrowed(black_box(text::ROUTE.1)))]
}

fn five() -> [Property; 5] {
    [
        (text::ROUTE.0, Cow::Borrowed(black_box(text::ROUTE.1))),
        (text::HOST.0, Cow::Borrowed(black_box(text::HOST.1))),
        (text::ZONE.0, Cow::Borrowed(black_box(text::ZONE.1))),
        (text::STATUS.0, Cow::Owned(black_box(text::STATUS.1).to_string())),
        (text::CACHED.0, Cow::Borrowed(if black_box(text::CACHED.1) { "true" } else { "false" })),
    ]
}

fn twenty() -> impl Iterator<Item = Property> {
    five().into_iter().chain(text::MORE.map(|key| (key, Cow::Borrowed(black_box(text::ROUTE.1)))))
}
