//! A layer for tracing-subscriber that exports `tracing` spans and events as spans, span events and log records.
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
//! # Mapping
//!
//! | in `tracing` | in OTLP |
//! |---|---|
//! | span | span from its creation to its last exit; sent when it is closed, on any thread |
//! | target | scope, or the attribute `target` with [`TracingLayer::scope`] |
//! | field | attribute: numbers and bools unchanged, everything else as text; may be recorded later |
//! | `follows_from` | link |
//! | event in a span | span event with `level` and `target`; with [`TracingLayer::events`] a log record instead, or both |
//! | event outside of spans | log record with the severity of its level |
//! | event of level `ERROR` | also the status `Error`, unless a status was set |
//! | error value in a field | `exception.message` and `exception.stacktrace` (its causes), the field itself, and `<field>.chain` |
//! | span closed by a panic of its thread | status `Error`, unless a status was set, and an event `exception` |
//! | event with a field `error` and no message | event `exception` with `exception.message`, and status `Error` |
//!
//! Some fields of a span are special, as in tracing-opentelemetry: `otel.name`, `otel.kind` (`server`, `client`,
//! `producer`, `consumer`, `internal`), `otel.status_code` (`ok`, `error`) and `otel.status_message` (or
//! `otel.status_description`). They may be recorded later.
//!
//! # Mixing with native spans
//!
//! An entered span is also the current span of standpipe: a span of a [`Tracer`](crate::Tracer) inside it becomes its
//! child, and vice versa. Log records that a [`Logger`](crate::Logger) emits inside the span carry its ids.
//!
//! # Filters
//!
//! The layer itself has no filter. A span or event passes these filters in order. The ledger counts only the events
//! that the last filter excludes, as [`filtered`](crate::ledger::Counts::filtered):
//!
//! | filter | applies to | counted |
//! |---|---|---|
//! | static level: features of `tracing`, such as `release_max_level_info` | spans and events | no: the call is not compiled |
//! | filters of the subscriber: an `EnvFilter` or `LevelFilter` as a layer. If all of them exclude a call site, `tracing` caches that | spans and events | no: the layer is not called |
//! | filters of this layer: `layer.with_filter(…)` | spans and events | no |
//! | the [sampler](crate::Sampler) | spans and their events | no |
//! | [level](crate::Exporter::level) of each exporter; in a file, the default is `info` | events that become log records | yes, by exporter |
//!
//! Calls of `enabled!` are never counted.
//!
//! # Several layers
//!
//! Each layer of a subscriber has its own spans with their own ids and parents, so two layers can send to two
//! telemetries. The layer that was added last provides the thread's current span: spans of a [`Tracer`](crate::Tracer)
//! become its children, and [`SpanExt`] accesses its spans.
//!
//! A layer that is removed by a `reload::Layer` sends its open spans as they are. A thread that has entered such a
//! span leaves the span when the thread next traces through another layer.

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

/// The treatment of events that occur in a span. Events outside of spans are always log records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Events {
    /// Span events. This is the default.
    #[default]
    OfSpans,
    /// Log records, with the ids of the span.
    Logs,
    /// Both span events and log records.
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

/// A layer that sends the spans and events of `tracing`. See the [module](self) for the mapping.
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
#[must_use = "a layer receives nothing until it is added to a subscriber"]
pub struct TracingLayer {
    id: LayerId,
    scopes: Scopes,
    spans: OpenSpans,
    /// True if the target is an attribute. If unset, the target is an attribute unless it is the scope.
    target: Option<bool>,
    events: Events,
    location: bool,
    threads: bool,
    level: bool,
    busy_and_idle: bool,
    exceptions: bool,
}

impl TracingLayer {
    /// Creates a layer that sends to a [`Telemetry`](crate::Telemetry), or to one of its providers.
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

    /// Sets the treatment of events in a span. The default is [`Events::OfSpans`].
    pub fn events(self, events: Events) -> Self {
        Self { events, ..self }
    }

    /// Uses one scope for everything; the target becomes an attribute. By default, each target is a scope.
    pub fn scope(mut self, name: &str) -> Self {
        self.scopes.fix(name);
        self
    }

    /// Sets whether spans and log records have the attribute `target`. By default, they have the attribute only after
    /// [`scope`](Self::scope) was called; otherwise their scope is the target. Span events always have the attribute.
    pub fn target(self, enabled: bool) -> Self {
        Self { target: Some(enabled), ..self }
    }

    fn sets_target(&self) -> bool {
        self.target.unwrap_or_else(|| self.scopes.fixed.is_some())
    }

    /// Sets whether spans, events and log records have their source location as attributes: `code.file.path`,
    /// `code.line.number` and `code.module.name`. The default is true.
    pub fn location(self, enabled: bool) -> Self {
        Self { location: enabled, ..self }
    }

    /// Sets whether spans have the thread that created them as attributes, `thread.id` and `thread.name`. The default
    /// is true.
    pub fn threads(self, enabled: bool) -> Self {
        Self { threads: enabled, ..self }
    }

    /// Sets whether spans have their level as the attribute `level`. The default is false.
    pub fn level(self, enabled: bool) -> Self {
        Self { level: enabled, ..self }
    }

    /// Sets whether spans have the attributes `busy_ns` and `idle_ns`: how long they were entered, and how long they
    /// were not. The default is false.
    pub fn busy_and_idle(self, enabled: bool) -> Self {
        Self { busy_and_idle: enabled, ..self }
    }

    /// Sets whether errors become `exception.*` attributes, and whether an event with a field `error` but no message
    /// becomes an event `exception`. The default is true. The span's status does not depend on this setting.
    pub fn exceptions(self, enabled: bool) -> Self {
        Self { exceptions: enabled, ..self }
    }
}

impl fmt::Debug for TracingLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TracingLayer").field("events", &self.events).finish_non_exhaustive()
    }
}

/// Additional methods of a [`tracing::Span`] that a [`TracingLayer`] exports.
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
    /// Makes the span a child of a remote span. The sampler decides again, and attributes that were set before are
    /// kept.
    ///
    /// Returns false and has no effect if the span was entered before, is already a parent, or has had its context
    /// read; if a filter excludes the span from the layer; or if the subscriber has no such layer, or hides it, as a
    /// `reload::Layer` does.
    fn set_parent(&self, parent: &SpanContext) -> bool;

    /// Returns the context that identifies the span to others; `None` if a filter excludes the span from the layer, or
    /// if the subscriber has no such layer, or hides it.
    fn context(&self) -> Option<SpanContext>;

    /// Adds a link to a related span.
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
