//! The embedded receiver over real sockets: it answers as OTLP demands, misbehaves as scripted, and survives what
//! clients do to it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod answers;
mod client;
mod grpc;
mod hostile;
mod json;
mod lifecycle;
mod refusals;
mod script;
mod shares;
mod signals;
#[path = "../support/mod.rs"]
mod support;
mod typed;
