//! Very many requests over one connection: nothing leaks, and neither side closes it.

use std::time::Instant;

use super::{attempts, no_complaints, same_spans, sent_spans, spans_to};
use crate::Error;
use crate::program::Program;
use crate::relay::Relay;
use crate::servers::{Order, Stage};

/// Number of requests. A client that never extends its window of 65,535 bytes stalls after 13,107 answers of 5 bytes.
pub(super) fn requests(quick: bool) -> usize {
    if quick { 500 } else { 15_000 }
}

pub(super) fn run(order: Order<'_>, quick: bool, stage: &Stage) -> Result<String, Error> {
    let relay = Relay::start(stage.port())?;
    let program = Program::start(&spans_to(order, relay.port(), "batch-records = 1\n"))?;
    let begun = Instant::now();
    let tracer = program.telemetry.tracer("interop");
    let sent: Vec<String> = (0..requests(quick))
        .map(|number| {
            let mut span = tracer.span("request");
            span.set("number", number);
            span.context().span_id().to_string()
        })
        .collect();
    let ledger = program.finish()?;
    let took = begun.elapsed();
    let attempts = attempts(&ledger);
    if attempts != sent.len() as u64 {
        return Err(format!("{} requests took {attempts} attempts", sent.len()).into());
    }
    if relay.connections() != 1 {
        return Err(format!("{} connections", relay.connections()).into());
    }
    same_spans(&sent, &stage.records(sent_spans(sent.len()))?)?;
    no_complaints(stage)?;
    Ok(format!("{:.1} s", took.as_secs_f64()))
}
