//! Standpipe's layer for `tracing`.

use std::sync::Arc;

use standpipe::bridge::tracing::{SpanExt, TracingLayer};
use standpipe::{Exporter, SpanContext};

use super::{Case, Contender, install, work};
use crate::support::program::Program;
use crate::support::workload::{self, text};
use crate::support::{Error, calls};

pub(super) const LEAN: Contender = Contender {
    name: "standpipe, lean",
    note: "without location and threads; all other defaults, over HTTP",
    sends: true,
    start: |case, endpoint| start(case, endpoint, |layer| layer.location(false).threads(false)),
};

pub(super) const DEFAULT: Contender = Contender {
    name: "standpipe",
    note: "all defaults",
    sends: true,
    start: |case, endpoint| start(case, endpoint, |layer| layer),
};

fn start(case: &Case, endpoint: &str, set: fn(TracingLayer) -> TracingLayer) -> Result<Program, Error> {
    let telemetry = Arc::new(workload::start(Exporter::http(endpoint))?);
    install(set(TracingLayer::new(&*telemetry)))?;
    let remote = SpanContext::from_traceparent(text::REMOTE)?;
    let burst = work::burst(case, move |root| {
        // If this fails, the receiver does not count the span.
        root.set_parent(&remote);
    });
    Ok(calls::sending(telemetry, burst))
}
