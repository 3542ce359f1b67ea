//! Does the C ABI keep what its header promises? Programs in C, C++ and other languages, run as processes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod header;
mod library;
mod process;
mod story;

#[path = "../support/mod.rs"]
mod support;
