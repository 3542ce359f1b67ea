//! A request for those who only send: what standpipe sends, so that it is the same.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans};
use standpipe::Exporter;
use standpipe::receiver::Receiver;

use crate::support::Error;
use crate::support::workload::{ATTRIBUTES, Workload, finish, start};

/// A request of this many spans.
pub(super) fn request(spans: u64) -> Result<ExportTraceServiceRequest, Error> {
    request_of(spans, |workload| (0..spans).for_each(|_| workload.emit_child()))
}

/// A request of these spans.
pub(crate) fn request_of(
    spans: u64,
    emit: impl FnOnce(&Workload),
) -> Result<ExportTraceServiceRequest, Error> {
    let receiver = Receiver::start()?;
    let telemetry = start(Exporter::http(receiver.endpoint()))?;
    emit(&Workload::new(&telemetry, ATTRIBUTES)?);
    finish(&telemetry, spans)?;
    let received = receiver.spans();
    let first = received.first().ok_or("a request without spans")?;
    let scope_spans = ScopeSpans {
        scope: Some((*first.scope).clone()),
        spans: received.iter().map(|received| (*received.span).clone()).collect(),
        ..ScopeSpans::default()
    };
    let resource_spans = ResourceSpans {
        resource: Some((*first.resource).clone()),
        scope_spans: vec![scope_spans],
        ..ResourceSpans::default()
    };
    Ok(ExportTraceServiceRequest { resource_spans: vec![resource_spans] })
}
