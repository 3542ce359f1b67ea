//! Helpers that several test binaries use.

#![allow(dead_code, reason = "each test binary uses only a part of this")]

pub(crate) mod allocator;
pub(crate) mod base64;
pub(crate) mod command;
pub(crate) mod examples;
pub(crate) mod figures;
pub(crate) mod memory;
pub(crate) mod points;
pub(crate) mod process;
pub(crate) mod scene;
pub(crate) mod scratch;
pub(crate) mod settings;
pub(crate) mod stubborn;
pub(crate) mod tls;
pub(crate) mod tunnel;

use std::fmt::Display;
use std::io::{self, Write};

/// Prints why a test, or a part of it, is skipped. Writes to standard error directly, because the test runner hides
/// the output of `println!` and `eprintln!` in tests that pass.
pub(crate) fn skip(reason: impl Display) {
    let _ = writeln!(io::stderr(), "SKIPPED: {reason}");
}
