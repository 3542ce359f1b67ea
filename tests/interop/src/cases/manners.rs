//! Servers with unusual settings, and servers that close connections. The program sends every field, then requests of
//! many sizes, each in one attempt.

use std::thread;

use serde_json::Value;

use super::{attempts, fields, no_complaints, same_spans, sent_spans, spans_to, wait_until};
use crate::Error;
use crate::program::Program;
use crate::relay::Relay;
use crate::seen::Record;
use crate::servers::{Manner, Order, Pace, Stage};

/// Bytes by which each request is larger than the one before.
const STEP: usize = 400;

pub(super) fn run(order: Order<'_>, manner: Manner, stage: &Stage) -> Result<String, Error> {
    let Manner { requests, pace, .. } = manner;
    let fields = fields::run(order, false, stage)?;
    let relay = Relay::start(stage.port())?;
    let program = Program::start(&spans_to(order, relay.port(), "batch-records = 1\n"))?;
    let tracer = program.telemetry.tracer("interop");
    let sent = (0..requests)
        .map(|number| -> Result<String, Error> {
            let mut span = tracer.span("sized");
            span.set("text", "x".repeat(number * STEP));
            let id = span.context().span_id().to_string();
            span.end();
            match pace {
                Pace::AtOnce => {}
                Pace::Every(pause) => thread::sleep(pause),
                Pace::AfterHangUp => {
                    wait_until("the server does not hang up", || relay.closed_by_server() > number)?;
                }
            }
            Ok(id)
        })
        .collect::<Result<Vec<String>, Error>>()?;
    let attempts = attempts(&program.finish()?);
    if attempts != requests as u64 {
        return Err(format!("{requests} requests took {attempts} attempts").into());
    }
    let connections = relay.connections();
    let is_expected = match pace {
        Pace::AtOnce => connections == 1,
        Pace::Every(_) => connections > 1,
        Pace::AfterHangUp => connections == requests,
    };
    if !is_expected {
        return Err(format!("{connections} connections").into());
    }
    let mut records = stage.records(sent_spans(fields.spans + requests))?;
    records.retain(|record| record.body["name"] == "sized");
    same_spans(&sent, &records)?;
    let bytes: usize = records.iter().map(text_length).sum();
    if bytes != STEP * requests * (requests - 1) / 2 {
        return Err(format!("{bytes} bytes of text").into());
    }
    no_complaints(stage)?;
    let connections =
        if connections == 1 { "1 connection".to_owned() } else { format!("{connections} connections") };
    Ok(format!("every field, then {requests} requests of up to {} KB, {connections}", STEP * requests / 1000))
}

fn text_length(record: &Record) -> usize {
    record.body.pointer("/attributes/text/stringValue").and_then(Value::as_str).map_or(0, str::len)
}
