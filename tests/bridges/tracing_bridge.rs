//! `tracing` spans and events arrive as spans, span events and log records, whatever the program does with them.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod errors;
mod events;
mod fields;
mod filters;
mod propagation;
mod reentrance;
mod stage;
mod threads;
mod trees;
