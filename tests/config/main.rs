//! Configurations in all formats: effective settings and messages.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod acceptance;
mod declarative;
mod default_resource;
mod environment;
mod errors;
mod headers;
mod hints;
mod hostile;
mod keys;
mod program;
mod routes;
mod signals;
#[path = "../support/mod.rs"]
mod support;
mod views;
