//! Helpers that all benchmarks use.
//!
//! A benchmark is two programs in one. The process that cargo starts holds the receiver and prints the table. It
//! starts the measured program as a [`child`], so that nothing else runs in the measured process.

#![allow(dead_code, reason = "each benchmark is a crate of its own and uses only a part of this")]

pub(crate) mod allocations;
pub(crate) mod arguments;
pub(crate) mod arrival;
pub(crate) mod callgrind;
pub(crate) mod calls;
pub(crate) mod child;
pub(crate) mod process;
pub(crate) mod program;
pub(crate) mod publish;
pub(crate) mod sink;
pub(crate) mod svg;
pub(crate) mod table;
pub(crate) mod workload;

/// Error type of the benchmarks.
pub(crate) type Error = Box<dyn std::error::Error>;
