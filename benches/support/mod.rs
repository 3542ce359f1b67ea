//! Shared code of the benchmarks.
//!
//! The process that cargo starts runs the receiver and prints the tables. It starts itself again as a [`child`], which
//! runs only the measured program.

#![allow(dead_code, reason = "each benchmark is a separate crate and uses only a part of this code")]

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
