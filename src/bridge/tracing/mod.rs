//! A layer for tracing-subscriber: `tracing` spans and events as spans, span events and log records.
//!
//! ```
//! use standpipe::bridge::tracing::TracingLayer;
//! use standpipe::{Config, Exporter, Telemetry};
//! use tracing_subscriber::prelude::*;
//!
//! # let receiver = standpipe::receiver::Receiver::start()?;
//! # let endpoint = &receiver.endpoint();
//! let telemetry = Telemetry::start(Config::new().service_name("shop").exporter(Exporter::http(endpoint)))?;
//! let subscriber = tracing_subscriber::registry().with(TracingLayer::new(&telemetry));
//! # let _default = tracing::subscriber::set_default(subscriber);
//! # /*
//! subscriber.init();
//! # */
//!
//! let checkout = tracing::info_span!("checkout", order.id = 4711);
//! checkout.in_scope(|| tracing::info!(amount = 12.5, "paid"));
//! drop(checkout); // sent
//! let ledger = telemetry.shutdown(std::time::Duration::from_secs(2));
//! # assert_eq!((ledger.lost(), receiver.span_count()), (0, 1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What becomes of what
//!
//! | in `tracing` | in OTLP |
//! |---|---|
//! | span | span, from its making to the last time it was left; sent when it is closed, on whichever thread |
//! | target | scope, or with [`TracingLayer::scope`] the attribute `target` |
//! | field | attribute: numbers and truth values as they are, the rest as text; recorded late, too |
//! | `follows_from` | link |
//! | event in a span | event of the span with `level` and `target`; by [`TracingLayer::events`] a log record instead, or as well |
//! | event outside of spans | log record with the severity of its level |
//! | event of level `ERROR` | also the status `Error`, unless the span has one |
//! | error value in a field | `exception.message` and `exception.stacktrace` (its causes), the field itself, and `<field>.chain` |
//! | span that a panic of its thread closes | the status `Error`, unless the span has one, and an event `exception` |
//! | event with a field `error` and no message | event `exception`, with `exception.message`, and the status `Error` |
//!
//! Some fields of a span are orders, as in tracing-opentelemetry: `otel.name`, `otel.kind` (`server`, `client`, `producer`,
//! `consumer`, `internal`), `otel.status_code` (`ok`, `error`) and `otel.status_message` (or `otel.status_description`). They
//! may be recorded late.
//!
//! # Spans of both kinds
//!
//! A span that is entered is also standpipe's current one: a [`Tracer`](crate::Tracer)'s span inside it is its child, and
//! the other way round; a [`Logger`](crate::Logger)'s record carries its ids.
//!
//! # Filters
//!
//! The layer has none of its own. A span or event passes these in turn; only what the last one keeps out is in the ledger, as
//! [`filtered`](crate::ledger::Counts::filtered):
//!
//! | filter | of | counted |
//! |---|---|---|
//! | the static level: features of `tracing`, `release_max_level_info` for instance | spans and events | no: it is not compiled |
//! | filters of the subscriber: an `EnvFilter` or `LevelFilter` as a layer; `tracing` remembers for a place in the code that all are against it | spans and events | no: the layer is not asked |
//! | filters of this layer: `layer.with_filter(…)` | spans and events | no |
//! | the [sampler](crate::Sampler) | spans, and with them their events | no |
//! | each exporter's [level](crate::Exporter::level), `info` by default | events that become log records | yes, by exporter |
//!
//! `enabled!` never counts.
//!
//! # Several layers
//!
//! Each layer of a subscriber has its own spans, with ids and parents of its own: two layers can send to two telemetries. Of several
//! layers, the one that was added last has the thread's current span: a [`Tracer`](crate::Tracer)'s span is its child, and
//! [`SpanExt`] finds its spans.
//!
//! A layer that a `reload::Layer` takes away sends the spans that are open as they are. A thread that is in one of them is
//! out of it as soon as it traces through the next layer.

mod call_site;
mod entered;
mod event;
mod fields;
mod layer;
mod open;

use std::fmt;

use tracing::{Dispatch, Id, Span};

use call_site::Scopes;
use entered::LayerId;
use open::{OpenSpans, SpanState};

use crate::context::SpanContext;
use crate::telemetry::provider::Provider;

/// What becomes of events that happen in a span. Those outside of spans are log records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Events {
    /// They are events of the span. This is the default.
    #[default]
    OfSpans,
    /// They are log records, with the ids of the span.
    Logs,
    /// They are both.
    Both,
}

impl Events {
    fn are_of_spans(self) -> bool {
        self != Events::Logs
    }

    fn are_logs(self) -> bool {
        self != Events::OfSpans
    }
}

/// A layer that sends the spans and events of `tracing`. See the [module](self) for what becomes of them.
///
/// ```
/// use standpipe::bridge::tracing::{Events, TracingLayer};
/// use tracing_subscriber::filter::LevelFilter;
/// use tracing_subscriber::prelude::*;
///
/// # let telemetry = standpipe::Telemetry::start(standpipe::Config::new()).unwrap();
/// let layer = TracingLayer::new(&telemetry).events(Events::Logs).threads(false);
/// let subscriber = tracing_subscriber::registry().with(layer.with_filter(LevelFilter::INFO));
/// # let _ = subscriber;
/// ```
#[must_use = "a layer takes nothing until a subscriber has it"]
pub struct TracingLayer {
    id: LayerId,
    scopes: Scopes,
    spans: OpenSpans,
    /// Whether the target is an attribute; unless set, it is where the scope does not name it.
    target: Option<bool>,
    events: Events,
    location: bool,
    threads: bool,
    level: bool,
    busy_and_idle: bool,
    exceptions: bool,
}

impl TracingLayer {
    /// A layer that sends to a [`Telemetry`](crate::Telemetry), or to one of its providers.
    pub fn new(provider: impl AsRef<Provider>) -> Self {
        Self {
            id: LayerId::next(),
            scopes: Scopes::new(provider.as_ref()),
            spans: OpenSpans::new(),
            target: None,
            events: Events::default(),
            location: true,
            threads: true,
            level: false,
            busy_and_idle: false,
            exceptions: true,
        }
    }

    /// What becomes of events in a span; [`Events::OfSpans`] unless set.
    pub fn events(self, events: Events) -> Self {
        Self { events, ..self }
    }

    /// One scope for everything: the target is an attribute then. Unless set, each target is a scope of its own.
    pub fn scope(mut self, name: &str) -> Self {
        self.scopes.fix(name);
        self
    }

    /// Whether spans and log records have their target as an attribute, `target`. Unless set, they do if it is not their
    /// scope. Events of spans always do.
    pub fn target(self, enabled: bool) -> Self {
        Self { target: Some(enabled), ..self }
    }

    fn sets_target(&self) -> bool {
        self.target.unwrap_or_else(|| self.scopes.fixed.is_some())
    }

    /// Whether spans, events and log records have their source location as attributes: `code.file.path`,
    /// `code.line.number` and `code.module.name`. They do unless set.
    pub fn location(self, enabled: bool) -> Self {
        Self { location: enabled, ..self }
    }

    /// Whether spans have the thread that made them as attributes, `thread.id` and `thread.name`. They do unless set.
    pub fn threads(self, enabled: bool) -> Self {
        Self { threads: enabled, ..self }
    }

    /// Whether spans have their level as an attribute, `level`. They do not unless set.
    pub fn level(self, enabled: bool) -> Self {
        Self { level: enabled, ..self }
    }

    /// Whether spans have as attributes for how long they were entered and for how long not, `busy_ns` and `idle_ns`. They do not
    /// unless set.
    pub fn busy_and_idle(self, enabled: bool) -> Self {
        Self { busy_and_idle: enabled, ..self }
    }

    /// Whether errors become `exception.*` attributes, and an event with a field `error` but no message an event
    /// `exception`. They do unless set; the span's status is the same either way.
    pub fn exceptions(self, enabled: bool) -> Self {
        Self { exceptions: enabled, ..self }
    }
}

impl fmt::Debug for TracingLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TracingLayer").field("events", &self.events).finish_non_exhaustive()
    }
}

/// What a [`tracing::Span`] that goes through a [`TracingLayer`] can do beside.
///
/// ```
/// use standpipe::SpanContext;
/// use standpipe::bridge::tracing::{SpanExt, TracingLayer};
/// # use standpipe::{Config, Exporter, Telemetry};
/// # use tracing_subscriber::prelude::*;
/// # let telemetry = Telemetry::start(Config::new().exporter(Exporter::http("http://127.0.0.1:1"))).unwrap();
/// # let _default = tracing_subscriber::registry().with(TracingLayer::new(&telemetry)).set_default();
/// # let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
///
/// let request = tracing::info_span!("GET /orders", otel.kind = "server");
/// if let Ok(caller) = SpanContext::from_traceparent(header) {
///     request.set_parent(&caller);
/// }
/// let _entered = request.enter();
/// let onward = request.context().map(|context| context.traceparent()); // the header for the next process
/// # assert!(onward.unwrap().contains("4bf92f3577b34da6a3ce929d0e0e4736"));
/// # telemetry.shutdown(std::time::Duration::ZERO);
/// ```
pub trait SpanExt {
    /// Makes it a child of a span elsewhere. The sampler is asked again, and what was recorded before is kept.
    ///
    /// False, and nothing has changed, if the span has already been entered, become a parent or shown its context; if a
    /// filter keeps it from the layer; or if the subscriber has no such layer, or has it where it is not to be found, as in
    /// a `reload::Layer`.
    fn set_parent(&self, parent: &SpanContext) -> bool;

    /// What identifies it to others; `None` where [`set_parent`](Self::set_parent) finds no span.
    fn context(&self) -> Option<SpanContext>;

    /// Points at another span that has to do with this one.
    fn add_link(&self, target: &SpanContext);
}

impl SpanExt for Span {
    fn set_parent(&self, parent: &SpanContext) -> bool {
        with(self, |open| open.span.set_parent(parent)).unwrap_or_default()
    }

    fn context(&self) -> Option<SpanContext> {
        with(self, |open| open.span.context().clone())
    }

    fn add_link(&self, target: &SpanContext) {
        with(self, |open| drop(open.span.link(target)));
    }
}

fn with<T>(span: &Span, work: impl FnOnce(&mut SpanState) -> T) -> Option<T> {
    let find = |(id, subscriber): (&Id, &Dispatch)| {
        let layer = subscriber.downcast_ref::<TracingLayer>()?;
        layer.spans.with(id, work)
    };
    span.with_subscriber(find).flatten()
}
