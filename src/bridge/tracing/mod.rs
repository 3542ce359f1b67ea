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
//! The layer has none of its own and works with those of tracing-subscriber, `with_filter` for this layer alone included.
//! Log records also pass the [level](crate::Exporter::level) of each exporter. Give a subscriber one such layer: each of
//! two would take the other's spans for parents.
//!
//! A layer that a `reload::Layer` takes away sends the spans that are open as they are. A thread that is in one of them is
//! out of it as soon as it traces through the next layer.

mod entered;
mod event;
mod fields;
mod layer;
mod layers;
mod open;
mod place;
mod propagation;
mod scopes;
mod span;

use std::fmt;

use layers::Number;
use open::OpenSpans;
pub use propagation::SpanExt;
use scopes::Scopes;

use crate::telemetry::provider::Provider;

/// What becomes of events that happen in a span. Those outside of spans are log records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Events {
    /// They are events of the span.
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
    number: Number,
    scopes: Scopes,
    spans: OpenSpans,
    /// Whether the target is an attribute; if that is not said, it is where no scope tells it.
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
            number: Number::next(),
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
    pub fn events(mut self, events: Events) -> Self {
        self.events = events;
        self
    }

    /// One scope for everything: the target is an attribute then. Unless set, each target is a scope of its own.
    pub fn scope(mut self, name: &str) -> Self {
        self.scopes.fix(name);
        self
    }

    /// Whether spans and log records say their target, as `target`. Unless set, they do if it is not their scope. Events
    /// of spans always do.
    pub fn target(mut self, is_told: bool) -> Self {
        self.target = Some(is_told);
        self
    }

    fn tells_target(&self) -> bool {
        self.target.unwrap_or_else(|| self.scopes.is_fixed())
    }

    /// Whether spans, events and log records say where in the code they come from, as `code.file.path`,
    /// `code.line.number` and `code.module.name`. They do unless set.
    pub fn location(mut self, is_told: bool) -> Self {
        self.location = is_told;
        self
    }

    /// Whether spans say which thread made them, as `thread.id` and `thread.name`. They do unless set.
    pub fn threads(mut self, are_told: bool) -> Self {
        self.threads = are_told;
        self
    }

    /// Whether spans say their level, as `level`. They do not unless set.
    pub fn level(mut self, is_told: bool) -> Self {
        self.level = is_told;
        self
    }

    /// Whether spans say for how long they were entered and for how long not, as `busy_ns` and `idle_ns`. They do not
    /// unless set.
    pub fn busy_and_idle(mut self, are_told: bool) -> Self {
        self.busy_and_idle = are_told;
        self
    }

    /// Whether errors become `exception.*` attributes, and an event with a field `error` but no message an event
    /// `exception`. They do unless set; the span's status is the same either way.
    pub fn exceptions(mut self, are_told: bool) -> Self {
        self.exceptions = are_told;
        self
    }
}

impl fmt::Debug for TracingLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TracingLayer").field("events", &self.events).finish_non_exhaustive()
    }
}
