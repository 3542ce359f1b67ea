//! The embedded receiver over real sockets: it answers according to OTLP, misbehaves as scripted, and survives
//! malicious clients.

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
