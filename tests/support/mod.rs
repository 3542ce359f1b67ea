//! Helpers that several test binaries use.

#![allow(dead_code, unused_imports, reason = "each test binary uses only a part of this")]

pub(crate) mod allocator;
pub(crate) mod base64;
#[path = "../../src/tests.rs"]
pub(crate) mod cases;
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

pub(crate) use cases::{share_of, size_within, skip};

/// Returns the step with which a test goes through a list: `step`, which is at most 31, with the default of `cargo test`,
/// and 1 if the test tries all cases.
pub(crate) fn step_of(step: u32) -> usize {
    (step / share_of(step)).max(1) as usize
}
