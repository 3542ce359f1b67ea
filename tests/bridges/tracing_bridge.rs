//! `tracing` spans and events arrive as spans, span events and log records, whatever the program does with them.

mod errors;
mod events;
mod fields;
mod filters;
mod global;
mod propagation;
mod reentrance;
mod stage;
mod threads;
mod trees;
