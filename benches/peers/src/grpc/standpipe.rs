//! Standpipe, through its public API.

use std::time::Duration;

use standpipe::{Compression, Exporter, FlushOutcome};

use super::spent::Spent;
use super::{ALL, Contender, Order};
use crate::support::Error;
use crate::support::workload::{ATTRIBUTES, PATIENCE, Workload, finish, start};

/// Longer than any run, so that requests are sent only at a flush.
const LONG: Duration = Duration::from_secs(3600);

pub(super) const GRPC: Contender = Contender {
    name: "standpipe",
    cases: ALL,
    note: "everything from the call that starts a span to the shutdown: spans with 5 attributes, a queue that blocks, \
           the worker; no throttle; larger requests are flushed one by one",
    send: |order| send(order, Exporter::grpc(&order.endpoint)),
};

pub(super) const HTTP: Contender = Contender {
    name: "standpipe, HTTP",
    cases: ALL,
    note: "the same over HTTP, to standpipe's own receiver, which also decodes every span",
    send: |order| send(order, Exporter::http(&order.endpoint)),
};

fn send(order: &Order, exporter: Exporter) -> Result<Spent, Error> {
    let compression = if order.is_compressed { Compression::Gzip } else { Compression::None };
    // The worker may send a request that has a few spans less than the limit. So the limit is twice the size of a
    // request, and a flush sends each request. If a request has one span, the worker sends each span at once.
    let (linger, most) = if order.spans == 1 { (Duration::ZERO, 1) } else { (LONG, 2 * order.spans) };
    let exporter = exporter
        .throttle(Duration::ZERO)
        .linger(linger)
        .batch_records(usize::try_from(most)?)
        .compression(compression);
    let telemetry = start(exporter)?;
    let workload = Workload::new(&telemetry, ATTRIBUTES)?;
    Spent::on(|| {
        for _ in 0..order.requests {
            (0..order.spans).for_each(|_| workload.emit_child());
            // Without the flush, the shutdown could split the last request in two.
            if order.spans > 1 && telemetry.flush(PATIENCE) != FlushOutcome::Complete {
                return Err("a request was not sent in time".into());
            }
        }
        finish(&telemetry, order.requests * order.spans)
    })
}
