//! Answers for clients that write JSON.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message;
use serde_json::{Value, json};

use crate::receiver::answer::{Answer, Body};
use crate::receiver::rpc;
use crate::record::Signal;

/// The same answer in JSON; a body that was ordered for it stays what it is.
pub(in crate::receiver) fn answer(answer: &Answer, signal: Option<Signal>) -> Answer {
    match message_of(answer, signal) {
        Some(message) => {
            let has_type = answer.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
            let answer = answer.clone().body(message.to_string());
            if has_type { answer } else { answer.header("content-type", "application/json") }
        }
        None => answer.clone(),
    }
}

/// The message that its body is; `None` if it is none of OTLP's.
fn message_of(answer: &Answer, signal: Option<Signal>) -> Option<Value> {
    let Body::Bytes(bytes) = &answer.body else { return None };
    if bytes.is_empty() {
        return Some(json!({}));
    }
    if answer.accepts() {
        return response(&ExportTraceServiceResponse::decode(bytes.as_slice()).ok()?, signal?);
    }
    let (code, message) = (answer.grpc_code(), answer.message.as_ref()?);
    let is_status = *bytes == rpc::encode_status(code, message, None);
    is_status.then(|| json!({ "code": code, "message": message }))
}

/// A partial success has the same fields for all signals, under other names.
fn response(response: &ExportTraceServiceResponse, signal: Signal) -> Option<Value> {
    let Some(partial) = &response.partial_success else { return Some(json!({})) };
    let rejected = match signal {
        Signal::Traces => "rejectedSpans",
        Signal::Logs => "rejectedLogRecords",
        Signal::Metrics => "rejectedDataPoints",
    };
    let mut success = serde_json::Map::new();
    if partial.rejected_spans != 0 {
        // whole numbers of 64 bits are strings
        success.insert(rejected.to_owned(), partial.rejected_spans.to_string().into());
    }
    if !partial.error_message.is_empty() {
        success.insert("errorMessage".to_owned(), partial.error_message.as_str().into());
    }
    Some(json!({ "partialSuccess": success }))
}
