//! HTTP/2 settings that most servers never ask for: every field, and then requests of many sizes on one connection.

use serde_json::Value;

use super::{fields, no_complaints, same_spans, sent_spans, spans_to};
use crate::Error;
use crate::program::Program;
use crate::seen::Record;
use crate::servers::{Order, Stage};

/// So many bytes more in each request.
const STEP: usize = 300;
const REQUESTS: usize = 40;

pub(super) fn run(order: Order<'_>, stage: &Stage) -> Result<String, Error> {
    fields::run(order, false, stage)?;
    let program = Program::start(&spans_to(order, stage.port(), "batch-records = 1\n"))?;
    let tracer = program.telemetry.tracer("interop");
    let sent: Vec<String> = (0..REQUESTS)
        .map(|number| {
            let mut span = tracer.span("sized");
            span.set("text", &"x".repeat(number * STEP));
            span.context().span_id().to_string()
        })
        .collect();
    program.finish()?;
    let mut records = stage.records(sent_spans(REQUESTS))?;
    records.retain(|record| record.body["name"] == "sized");
    same_spans(&sent, &records)?;
    let bytes: usize = records.iter().map(text_length).sum();
    if bytes != STEP * REQUESTS * (REQUESTS - 1) / 2 {
        return Err(format!("{bytes} bytes of text").into());
    }
    no_complaints(stage)?;
    Ok(format!("every field, then {REQUESTS} requests of up to {} KB", STEP * REQUESTS / 1000))
}

fn text_length(record: &Record) -> usize {
    record.body.pointer("/attributes/text/stringValue").and_then(Value::as_str).map_or(0, str::len)
}
