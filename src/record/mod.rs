//! What can be said, in wire format: each signal writes OTLP protobuf as the user speaks.

mod attribute;
mod resource;

pub use attribute::Value;
pub use resource::Resource;

/// The kinds of telemetry a record can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Signal {
    /// Spans, to `/v1/traces`.
    Traces,
}

impl Signal {
    /// All signals, for iteration.
    pub const ALL: [Signal; 1] = [Signal::Traces];

    /// The path that OTLP over HTTP appends to a base endpoint.
    pub fn path(self) -> &'static str {
        match self {
            Signal::Traces => "/v1/traces",
        }
    }

    /// Lower-case plural, as configuration and the ledger name it.
    pub fn name(self) -> &'static str {
        match self {
            Signal::Traces => "traces",
        }
    }
}
