//! Builds requests in advance for contenders that only send. The requests contain spans that standpipe has sent, so
//! that all contenders send the same spans.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use standpipe::Exporter;
use standpipe::receiver::{Receiver, Records};

use crate::support::Error;
use crate::support::workload::{ATTRIBUTES, Workload, finish, start};

/// Returns a request with this many child spans.
pub(super) fn request(spans: u64) -> Result<ExportTraceServiceRequest, Error> {
    request_of(spans, |workload| (0..spans).for_each(|_| workload.emit_child()))
}

/// Returns one request with all spans that `emit` emits.
pub(crate) fn request_of(
    spans: u64,
    emit: impl FnOnce(&Workload),
) -> Result<ExportTraceServiceRequest, Error> {
    let receiver = Receiver::start()?;
    let telemetry = start(Exporter::http(receiver.endpoint()))?;
    emit(&Workload::new(&telemetry, ATTRIBUTES)?);
    finish(&telemetry, spans)?;
    let mut records = Records::default();
    records.spans = receiver.spans();
    let mut requests = Vec::new();
    for line in records.to_json_lines().lines() {
        requests.push(serde_json::from_str::<ExportTraceServiceRequest>(line)?);
    }
    let mut requests = requests.into_iter().flat_map(|request| request.resource_spans);
    let mut first = requests.next().ok_or("a request without spans")?;
    let first_scope = first.scope_spans.first_mut().ok_or("a request without a scope")?;
    let others = requests.flat_map(|of_resource| of_resource.scope_spans);
    first_scope.spans.extend(others.flat_map(|of_scope| of_scope.spans));
    Ok(ExportTraceServiceRequest { resource_spans: vec![first] })
}
