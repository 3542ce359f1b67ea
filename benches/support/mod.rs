//! What the benchmarks share.
//!
//! A benchmark is two programs in one: what is started by cargo holds the receiver and prints the table; what
//! it starts of itself, a [`child`], is the program that is measured, with nothing else in its process.

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

/// What stops a benchmark.
pub(crate) type Error = Box<dyn std::error::Error>;
