//! Traces: from the bytes of a request to spans that know their resource and scope.

use std::sync::Arc;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::{DecodeError, Message};

use super::store::ReceivedSpan;

/// Decodes an `ExportTraceServiceRequest`.
pub(super) fn decode(body: &[u8]) -> Result<Vec<ReceivedSpan>, DecodeError> {
    let request = ExportTraceServiceRequest::decode(body)?;
    let mut spans = Vec::new();
    for of_resource in request.resource_spans {
        let resource = Arc::new(of_resource.resource.unwrap_or_default());
        for of_scope in of_resource.scope_spans {
            let scope = Arc::new(of_scope.scope.unwrap_or_default());
            spans.extend(of_scope.spans.into_iter().map(|span| ReceivedSpan {
                span: Arc::new(span),
                resource: resource.clone(),
                scope: scope.clone(),
            }));
        }
    }
    Ok(spans)
}
