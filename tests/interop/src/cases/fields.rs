//! All three signals with every field.

use super::no_complaints;
use crate::Error;
use crate::compare::compare;
use crate::program::{Program, Setup, Signals};
use crate::servers::{Order, Sent, Stage};
use crate::showcase::Showcase;

/// Sends every field and compares. Compressed runs use delta temporality, the others cumulative.
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
