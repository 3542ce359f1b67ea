//! Three signals, every field of them.

use super::no_complaints;
use crate::Error;
use crate::compare::compare;
use crate::program::{Program, Setup, Signals};
use crate::servers::{Order, Sent, Stage};
use crate::showcase::Showcase;

/// Sends all there is to say and compares. Compressed runs have metrics since the last push, others since the start.
pub(super) fn run(order: Order<'_>, gzip: bool, stage: &Stage) -> Result<Sent, Error> {
    let program = Program::start(&setup(order, gzip, stage))?;
    let showcase = Showcase::play(&program.telemetry, gzip)?;
    program.finish()?;
    compare(&showcase, stage.records(showcase.sent)?)?;
    no_complaints(stage)?;
    Ok(showcase.sent)
}

fn setup<'a>(order: Order<'a>, gzip: bool, stage: &Stage) -> Setup<'a> {
    let Order { transport, identity, .. } = order;
    Setup { transport, port: stage.port(), identity, gzip, signals: Signals::All { delta: gzip }, more: "" }
}
