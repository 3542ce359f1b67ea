//! The C ABI does what its header promises. Programs in C, C++ and other languages, run as processes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod header;
#[cfg_attr(not(unix), allow(dead_code, reason = "only the header is compiled there"))]
mod library;
#[cfg(target_os = "linux")]
mod process;
#[cfg(unix)]
mod story;

#[path = "../support/mod.rs"]
mod support;
