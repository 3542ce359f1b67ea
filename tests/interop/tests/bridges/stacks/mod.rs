//! The ways from `tracing` to OTLP, each with its own words for the same things.

mod ours;
mod usual;

use standpipe::receiver::Receiver;
use tracing::Span;
use tracing_subscriber::{Layer, Registry};

pub(crate) use ours::Ours;
pub(crate) use usual::Usual;

/// The name under which both stacks send, and that of the scope of everything.
pub(crate) const PROGRAM: &str = "shop";

pub(crate) type BoxedLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// A way from `tracing` to OTLP, as a program sees it.
pub(crate) trait Stack: Sync {
    /// The layer for the program.
    fn layer(&self) -> BoxedLayer;

    /// Gives the span a parent in another process. `false` if it is too late for that.
    fn set_parent(&self, span: &Span, remote: Remote) -> bool;

    /// Links the span to one in another process.
    fn add_link(&self, span: &Span, remote: Remote);

    /// The `traceparent` and the `tracestate` for a request that is made within the span.
    fn inject(&self, span: &Span) -> (String, String);

    /// Does `work` in a span that is made without `tracing`, with the stack's own tracer.
    fn native_span(&self, name: &'static str, work: &dyn Fn());

    /// Sends what there is, and ends.
    fn finish(&self);
}

/// What a span in another process says of itself.
#[derive(Clone, Copy)]
pub(crate) struct Remote {
    pub(crate) traceparent: &'static str,
    pub(crate) tracestate: &'static str,
}

/// What a program can choose with both stacks; the default is the default of the usual one.
#[derive(Clone, Copy)]
pub(crate) struct Settings {
    pub(crate) location: bool,
    pub(crate) threads: bool,
    pub(crate) level: bool,
    pub(crate) busy_and_idle: bool,
    /// Instead of all that: what each stack does unasked.
    pub(crate) untouched: bool,
    /// Instead of all that: events are also log records, with their targets as scopes.
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
