//! Lower bound of the cost: tracing-subscriber's registry with a layer that does nothing.

use tracing_subscriber::{Layer, Registry};

use super::{Case, Contender, install, work};
use crate::support::Error;
use crate::support::program::Program;

pub(super) const CONTENDER: Contender = Contender {
    name: "registry alone",
    note: "tracing-subscriber's registry with a layer that does nothing: the lower bound for all others",
    sends: false,
    start,
};

struct Nothing;

impl Layer<Registry> for Nothing {}

fn start(case: &Case, _: &str) -> Result<Program, Error> {
    install(Nothing)?;
    Ok(Program::new(work::burst(case, |_| {}), || Ok(()), || Ok(())))
}
