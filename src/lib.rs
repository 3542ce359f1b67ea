//! OTLP export for programs without an async runtime.

mod problem;
#[cfg(feature = "receiver")]
pub mod receiver;
mod record;
#[allow(dead_code)]
mod transport;

pub use problem::{Problem, ProblemKind};
pub use record::{Resource, Signal, Value};
