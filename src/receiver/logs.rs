//! Logs: from the bytes of a request to log records that know their resource and scope.

use std::sync::Arc;

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::{DecodeError, Message};

use super::records::find;

/// A log record that was accepted, with where it came from. Clones are cheap.
///
/// Get them from [`Receiver::logs`](super::Receiver::logs) or in a [`Batch`](super::Batch).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ReceivedLog {
    /// The log record as it was decoded.
    pub log: Arc<LogRecord>,
    /// Its resource, shared with the other log records of the resource; empty if the sender gave none.
    pub resource: Arc<Resource>,
    /// Its instrumentation scope, shared likewise; empty if the sender gave none.
    pub scope: Arc<InstrumentationScope>,
}

impl ReceivedLog {
    /// The value of the log record's attribute `key`.
    pub fn attribute(&self, key: &str) -> Option<&Value> {
        find(&self.log.attributes, key)
    }

    /// The value of the resource's attribute `key`.
    pub fn resource_attribute(&self, key: &str) -> Option<&Value> {
        find(&self.resource.attributes, key)
    }
}

/// Decodes an `ExportLogsServiceRequest`.
pub(super) fn decode(body: &[u8]) -> Result<Vec<ReceivedLog>, DecodeError> {
    let request = ExportLogsServiceRequest::decode(body)?;
    let mut logs = Vec::new();
    for of_resource in request.resource_logs {
        let resource = Arc::new(of_resource.resource.unwrap_or_default());
        for of_scope in of_resource.scope_logs {
            let scope = Arc::new(of_scope.scope.unwrap_or_default());
            logs.extend(of_scope.log_records.into_iter().map(|log| ReceivedLog {
                log: Arc::new(log),
                resource: resource.clone(),
                scope: scope.clone(),
            }));
        }
    }
    Ok(logs)
}
