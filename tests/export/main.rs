//! The outcome of a record, from the queue to the collector's answer.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod answer_limit;
mod credentials;
mod delivery;
mod file;
mod grpc;
mod http_format;
mod json;
mod ledger;
mod limits;
mod manual;
mod names;
mod probe;
mod producers;
mod redirects;
mod refusals;
mod retry;
mod routes;
mod shutdown;
#[path = "../support/mod.rs"]
mod support;
mod throttle;
mod timeouts;
mod tls;
#[cfg(unix)]
mod unix_socket;
mod when_full;
