//! All three signals with every field.

use std::os::unix::net::UnixStream;
use std::path::Path;

use super::{no_complaints, wait_until};
use crate::Error;
use crate::compare::compare;
use crate::program::{Program, Setup, Signals, To};
use crate::servers::{Order, Sent, Stage};
use crate::showcase::Showcase;

/// Sends every field and compares. Compressed runs use delta temporality, the others cumulative.
pub(super) fn run(order: Order<'_>, gzip: bool, stage: &Stage) -> Result<Sent, Error> {
    play(&setup(order, gzip, stage), stage)
}

/// Writes every field to files in this folder. Compares the records that the server has read from these files.
pub(super) fn write(order: Order<'_>, folder: &Path, stage: &Stage) -> Result<Sent, Error> {
    let file = folder.join("lines.jsonl");
    play(&Setup { to: To::File(&file), ..setup(order, false, stage) }, stage)
}

/// Sends every field to the socket of the transport in this folder, and compares.
pub(super) fn send_to_socket(order: Order<'_>, folder: &Path, stage: &Stage) -> Result<Sent, Error> {
    let socket = folder.join(format!("{}.sock", order.transport.name()));
    // The server opens its port and its sockets in any order, so the socket may not be ready yet.
    wait_until("the server does not listen on its socket", || UnixStream::connect(&socket).is_ok())?;
    play(&Setup { to: To::UnixSocket(&socket), ..setup(order, true, stage) }, stage)
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
    Setup { transport, to: To::Port(stage.port()), identity, gzip, signals, more: "" }
}
