//! Rules of the project: layering, the README, the tools of tests and benchmarks.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod architecture;
mod bench_figures;
// The benchmarks measure their processor time with a Unix call.
#[cfg(unix)]
mod bench_support;
mod compliance;
mod messages;
mod readme;
mod snippets;
#[path = "../support/mod.rs"]
mod support;
mod support_tls;
mod thread_safety;
