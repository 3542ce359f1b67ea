//! OTLP export for programs without an async runtime.

mod context;
mod fork;
mod problem;
mod record;
#[allow(dead_code)]
mod transport;

pub use problem::{Problem, ProblemKind};
pub use record::{Resource, Signal, Value};
