//! One exporter from queue to verdict, and the fan-out over all exporters of a provider.
//!
//! ```text
//!  caller                         │ worker thread, one per exporter
//!  exporter_set ─► queue (bounded)┼─► batch ─► transport ─► verdict ─► ledger
//!                                 │     ▲ schedule    retry ◄─┘  └─► problems
//! ```
//!
//! - [`exporter_set`] gives each record to every exporter that takes it.
//! - [`exporter_handle`] is the caller's side of one exporter: its queues, its thread, its flush and its stop.
//! - [`queue`] bounds what waits, in records and bytes, and decides whether a caller waits for room.
//! - [`worker`] is the thread: it drains the queue, makes batches, sends them and judges what follows.
//! - [`batch`], [`schedule`] and [`retry`] are pure: what to send, when to send it, and what a verdict leads to.
//! - [`clock`] is the time that all of them go by, which tests may simulate.
//! - [`worker::manual`] lets callers drive the worker where it may have no thread.
//! - [`ledger`] counts every record by what became of it. To find why a record was lost, start there.

pub(crate) mod batch;
pub(crate) mod clock;
pub(crate) mod exporter_handle;
pub(crate) mod exporter_set;
pub(crate) mod ledger;
pub(crate) mod problems;
pub(crate) mod queue;
pub(crate) mod retry;
pub(crate) mod schedule;
pub(crate) mod self_observation;
#[cfg(test)]
mod simulation;
pub(crate) mod worker;
