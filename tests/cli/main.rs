//! Tests of the command: its output and its exit code.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod check;
mod commands;
mod completions;
mod console;
mod exec;
mod init;
mod names;
mod page;
mod records;
mod spool;
#[path = "../support/mod.rs"]
mod support;
