//! One request whose body exceeds the default limit of servers: delivered whole if the limit was raised, otherwise in
//! parts.

use standpipe::ProblemKind;

use super::{attempts, no_complaints, same_spans, sent_spans, spans_to};
use crate::Error;
use crate::program::Program;
use crate::servers::{Largest, Order, Stage};

/// Number of spans, and bytes of each: 5 MB without framing.
const SPANS: usize = 5_000;
const BYTES: usize = 1_000;

/// All spans in one request, which is sent by a flush.
const GATHER: &str =
    "batch-bytes = \"16 MiB\"\nqueue-bytes = \"64 MiB\"\nlinger = \"10m\"\ntimeout = \"60s\"\n";

pub(super) fn run(order: Order<'_>, stage: &Stage) -> Result<String, Error> {
    let program = Program::start(&spans_to(order, stage.port(), GATHER))?;
    let tracer = program.telemetry.tracer("interop");
    let text = "x".repeat(BYTES);
    let sent: Vec<String> = (0..SPANS)
        .map(|_| {
            let mut span = tracer.span("large");
            span.set("text", &text);
            span.context().span_id().to_string()
        })
        .collect();
    // A server with the usual limit refuses the request, and then accepts its two halves: three attempts.
    let (expected, problems) = match order.largest {
        Largest::Raised => (1, &[][..]),
        Largest::Usual => (3, &[ProblemKind::TooLarge][..]),
    };
    let ledger = program.finish_in_spite_of(problems)?;
    let attempts = attempts(&ledger);
    if attempts != expected {
        return Err(format!("{attempts} requests instead of {expected}").into());
    }
    same_spans(&sent, &stage.records(sent_spans(SPANS))?)?;
    no_complaints(stage)?;
    Ok(if attempts == 1 { "in one request" } else { "refused, then in two halves" }.to_owned())
}
