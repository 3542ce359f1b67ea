//! A synchronous program that is instrumented end to end: two web services, each in its own process, written with
//! `tracing`, `log` and `metrics`. The spans of one request form one tree.
//!
//! The services are the example `web_service`; see `program/main.rs`.

mod browser;
mod requests;
mod service;
mod signals;
mod stage;
mod traces;
mod tree;
