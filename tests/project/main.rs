//! Does the project keep its own rules: layering, the README, the tools of tests and benchmarks?

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod architecture;
mod bench_figures;
// the benchmarks ask a unix for their processor time
#[cfg(unix)]
mod bench_support;
mod messages;
mod readme;
#[path = "../support/mod.rs"]
mod support;
mod support_tls;
