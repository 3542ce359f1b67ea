//! One exporter from queue to verdict, and the fan-out over all exporters of a provider.
//!
//! ```text
//!  caller                         │ worker thread, one per exporter
//!  exporter_set ─► queue (bounded)┼─► batch ─► transport ─► verdict ─► ledger
//!                                 │     ▲ schedule    retry ◄─┘  └─► problems
//! ```
//!
//! - [`exporter_set`] gives each record to every exporter that takes its signal and, for log records, its level.
//! - [`exporter_handle`] is the caller's side of one exporter: starts it, enqueues records, flushes and stops it.
//! - [`queue`] bounds the queued records and bytes, and decides whether a caller waits for room.
//! - [`worker`] drains the queues, makes batches, sends them, and counts the outcomes. Start reading there.
//! - [`batch`], [`schedule`] and [`retry`] are pure functions and state machines: which records to send, when to send
//!   them, and what follows from a verdict.
//! - [`clock`] is the time source of all these modules. Tests can replace it with simulated time.
//! - [`worker::manual`] lets callers drive the worker in programs that must not have other threads.
//! - [`ledger`] counts every record by its outcome. To find out why a record was lost, start there.
//! - [`problems`] reports problems to the program's hook, and [`self_observation`] exports the ledger as metrics.
//!
//! With a spool, the chunks of the queue are in the *flight recorder*, a memory-mapped file from which another process
//! can deliver them if this one dies. See `spool/recorder`.

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
