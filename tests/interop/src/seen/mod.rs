//! Records that servers received, as OTLP JSON or as protobuf, in one normal form.

mod normal;

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message;
use serde_json::{Value, json};
use standpipe::receiver::{Receiver, Records};

pub(crate) use normal::normal;

use crate::Error;

/// The three signals: their name, and the fields of OTLP JSON that lead to their records.
const SIGNALS: [(&str, [&str; 3]); 3] = [
    ("traces", ["resourceSpans", "scopeSpans", "spans"]),
    ("logs", ["resourceLogs", "scopeLogs", "logRecords"]),
    ("metrics", ["resourceMetrics", "scopeMetrics", "metrics"]),
];

/// A span, a log record or a metric.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Record {
    pub(crate) signal: &'static str,
    pub(crate) resource: Value,
    pub(crate) scope: Value,
    pub(crate) body: Value,
}

impl Record {
    pub(crate) fn new(signal: &'static str, resource: Value, scope: Value, body: Value) -> Self {
        Self { signal, resource: normal(resource), scope: normal(scope), body: normal(body) }
    }
}

/// Reads records from a file with one request per line, as OTLP JSON or as protobuf in hexadecimal.
pub(crate) fn in_book(book: &str) -> Result<Vec<Record>, Error> {
    let mut records = Vec::new();
    for line in book.lines() {
        let line: Value = serde_json::from_str(line)?;
        let request = match (line["signal"].as_str(), line["protobuf"].as_str()) {
            (Some(signal), Some(hex)) => decoded(signal, &bytes(hex)?)?,
            _ => line,
        };
        collect(request, &mut records);
    }
    Ok(records)
}

/// The records that a sink has.
pub(crate) fn in_sink(sink: &Receiver) -> Result<Vec<Record>, Error> {
    let mut records = Records::default();
    records.spans = sink.spans();
    records.logs = sink.logs();
    records.metrics = sink.metrics();
    in_book(&records.to_json_lines())
}

fn collect(mut request: Value, records: &mut Vec<Record>) {
    for (signal, [of_resources, of_scopes, bodies]) in SIGNALS {
        for mut of_resource in take_list(&mut request, of_resources) {
            let resource = of_resource["resource"].take();
            for mut of_scope in take_list(&mut of_resource, of_scopes) {
                let scope = of_scope["scope"].take();
                for body in take_list(&mut of_scope, bodies) {
                    records.push(Record::new(signal, resource.clone(), scope.clone(), body));
                }
            }
        }
    }
}

fn take_list(tree: &mut Value, field: &str) -> Vec<Value> {
    match tree.get_mut(field).map(Value::take) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

fn decoded(signal: &str, body: &[u8]) -> Result<Value, Error> {
    match signal {
        "traces" => to_json(&ExportTraceServiceRequest::decode(body)?),
        "logs" => to_json(&ExportLogsServiceRequest::decode(body)?),
        "metrics" => to_json(&ExportMetricsServiceRequest::decode(body)?),
        unknown => Err(format!("no signal {unknown}").into()),
    }
}

fn to_json(message: &impl serde::Serialize) -> Result<Value, Error> {
    Ok(serde_json::to_value(message).unwrap_or_else(|error| json!({ "unwritable": error.to_string() })))
}

fn bytes(hex: &str) -> Result<Vec<u8>, Error> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).map(|digit| digit as u8).ok_or("not hex");
    hex.as_bytes()
        .chunks(2)
        .map(|pair| Ok(digit(&pair[0])? << 4 | digit(pair.get(1).unwrap_or(&b'?'))?))
        .collect()
}
