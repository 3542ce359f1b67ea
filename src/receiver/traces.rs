//! Traces: from the bytes of a request to spans that know their resource and scope.

use std::sync::Arc;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::{DecodeError, Message};

use super::records::find;

/// A span that was accepted, with where it came from. Clones are cheap.
///
/// Get them from [`Receiver::spans`](super::Receiver::spans) or in a [`Batch`](super::Batch).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ReceivedSpan {
    /// The span as it was decoded.
    pub span: Arc<Span>,
    /// Its resource, shared with the other spans of the resource; empty if the sender gave none.
    pub resource: Arc<Resource>,
    /// Its instrumentation scope, shared likewise; empty if the sender gave none.
    pub scope: Arc<InstrumentationScope>,
}

impl ReceivedSpan {
    /// The value of the span's attribute `key`.
    pub fn attribute(&self, key: &str) -> Option<&Value> {
        find(&self.span.attributes, key)
    }

    /// The value of the resource's attribute `key`.
    pub fn resource_attribute(&self, key: &str) -> Option<&Value> {
        find(&self.resource.attributes, key)
    }
}

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
