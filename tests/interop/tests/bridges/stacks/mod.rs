//! The stacks: the paths from `tracing` to OTLP, behind one trait.

mod ours;
mod usual;

use standpipe::receiver::Receiver;
use tracing::Span;
use tracing_subscriber::{Layer, Registry};

pub(crate) use ours::Ours;
pub(crate) use usual::Usual;

/// Service name of both stacks. Also the name of the scope, unless a stack uses the target of a record as the scope.
pub(crate) const PROGRAM: &str = "shop";

pub(crate) type BoxedLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// A path from `tracing` to OTLP, as a program uses it.
pub(crate) trait Stack: Sync {
    /// The layer for the program.
    fn layer(&self) -> BoxedLayer;

    /// Makes a span of another process the parent of `span`. Returns false if it is too late for that.
    fn set_parent(&self, span: &Span, remote: Remote) -> bool;

    /// Links the span to one in another process.
    fn add_link(&self, span: &Span, remote: Remote);

    /// The `traceparent` and the `tracestate` for a request that is made within the span.
    fn inject(&self, span: &Span) -> (String, String);

    /// Runs `work` in a span of the stack's own tracer, not of `tracing`.
    fn native_span(&self, name: &'static str, work: &dyn Fn());

    /// Sends all records and shuts down.
    fn finish(&self);
}

/// The propagation headers of a span in another process.
#[derive(Clone, Copy)]
pub(crate) struct Remote {
    pub(crate) traceparent: &'static str,
    pub(crate) tracestate: &'static str,
}

/// Settings that both stacks have. [`Settings::USUAL`] has the defaults of the usual stack.
#[derive(Clone, Copy)]
pub(crate) struct Settings {
    pub(crate) location: bool,
    pub(crate) threads: bool,
    pub(crate) level: bool,
    pub(crate) busy_and_idle: bool,
    /// True to use each stack's own defaults instead of these settings.
    pub(crate) untouched: bool,
    /// True to export events as log records, too, with their targets as scopes. The other settings are then not used.
    pub(crate) logs: bool,
}

impl Settings {
    pub(crate) const USUAL: Self = Self {
        location: true,
        threads: true,
        level: false,
        busy_and_idle: true,
        untouched: false,
        logs: false,
    };
    pub(crate) const LOGS: Self = Self { logs: true, ..Self::USUAL };
}

/// A stack with these settings that sends to the receiver.
pub(crate) type Start = fn(&Receiver, Settings) -> Box<dyn Stack>;
