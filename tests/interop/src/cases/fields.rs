//! All three signals with every field.

use std::path::Path;

use super::no_complaints;
use crate::Error;
use crate::compare::compare;
use crate::program::{Program, Setup, Signals};
use crate::servers::{Order, Sent, Stage};
use crate::showcase::Showcase;

/// Sends every field and compares. Compressed runs use delta temporality, the others cumulative.
pub(super) fn run(order: Order<'_>, gzip: bool, stage: &Stage) -> Result<Sent, Error> {
    play(&setup(order, gzip, stage), stage)
}

/// Writes every field to files in this folder, which the server reads, and compares.
pub(super) fn write(order: Order<'_>, folder: &Path, stage: &Stage) -> Result<Sent, Error> {
    let file = folder.join("lines.jsonl");
    play(&Setup { file: Some(&file), ..setup(order, false, stage) }, stage)
}

fn play(setup: &Setup<'_>, stage: &Stage) -> Result<Sent, Error> {
    let program = Program::start(setup)?;
    let showcase = Showcase::play(&program.telemetry, setup.gzip)?;
    program.finish()?;
    compare(&showcase, stage.records(showcase.sent)?)?;
    no_complaints(stage)?;
    Ok(showcase.sent)
}

fn setup<'a>(order: Order<'a>, gzip: bool, stage: &Stage) -> Setup<'a> {
    let Order { transport, identity, .. } = order;
    let signals = Signals::All { delta: gzip };
    Setup { transport, port: stage.port(), identity, gzip, signals, file: None, more: "" }
}
