//! Standpipe, through its public API.

use std::sync::Arc;

use standpipe::{Compression, Exporter, FlushOutcome, Telemetry, WhenFull};

use super::contender::{Arrives, Contender, Pipe, Setup, Spans};
use super::{ALL_TASKS, ANY_ATTRIBUTES};
use crate::support::Error;
use crate::support::workload::{self, PATIENCE, Workload};

pub(super) const HTTP: Contender = Contender {
    name: "standpipe, HTTP",
    short: "standpipe, HTTP",
    note: "all defaults: a full queue makes callers wait instead of losing a span; in the tight loop it drops instead",
    arrives: Arrives::Everything,
    tasks: ALL_TASKS,
    attributes: ANY_ATTRIBUTES,
    can_compress: true,
    start: |setup| start(setup, Exporter::http(&setup.endpoint)),
};

pub(super) const GRPC: Contender = Contender {
    name: "standpipe, gRPC",
    short: "standpipe, gRPC",
    note: "the same over gRPC",
    start: |setup| start(setup, Exporter::grpc(&setup.endpoint)),
    ..HTTP
};

fn start(setup: &Setup, exporter: Exporter) -> Result<Pipe, Error> {
    let telemetry = telemetry(setup, exporter)?;
    let workload = Workload::new(&telemetry, setup.attributes)?;
    Ok(pipe(Arc::new(workload), telemetry))
}

/// Starts telemetry with the default settings, except for those in `setup`.
pub(super) fn telemetry(setup: &Setup, exporter: Exporter) -> Result<Arc<Telemetry>, Error> {
    let compression = if setup.is_compressed { Compression::Gzip } else { Compression::None };
    let when_full = if setup.is_lossless { WhenFull::Block } else { WhenFull::DropNewest };
    // Without a timeout, a queue that blocks loses nothing.
    let exporter = exporter.compression(compression).when_full(when_full).block_timeout(None);
    Ok(Arc::new(workload::start(exporter)?))
}

pub(super) fn pipe(spans: impl Spans + Clone + 'static, telemetry: Arc<Telemetry>) -> Pipe {
    let flushed = Arc::clone(&telemetry);
    let flush = move || match flushed.flush(PATIENCE) {
        FlushOutcome::Complete => Ok(()),
        other => Err(format!("flush: {other:?}").into()),
    };
    Pipe::new(spans, flush, move |budget| {
        telemetry.shutdown(budget);
        Ok(())
    })
}

impl Spans for Arc<Workload> {
    fn root(&self, within: impl FnOnce()) {
        self.emit_root(within);
    }

    fn child(&self) {
        self.emit_child();
    }
}
