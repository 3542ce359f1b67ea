//! The embedded receiver over real sockets: it answers as OTLP asks, misbehaves as told, and survives what
//! clients do to it.

#![allow(clippy::unwrap_used)]

mod answers;
mod client;
mod grpc;
mod hostile;
mod json;
mod lifecycle;
#[path = "../support/process.rs"]
mod process;
mod refusals;
mod script;
mod shares;
mod signals;
