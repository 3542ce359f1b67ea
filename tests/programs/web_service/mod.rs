//! A synchronous program instrumented end to end: two web services, each a process of its own, written with `tracing`,
//! `log` and `metrics`. What they do for one request is one tree.
//!
//! The services are the example `web_service`; see `program/main.rs`.

mod browser;
mod requests;
mod service;
mod signals;
mod stage;
mod traces;
mod tree;
