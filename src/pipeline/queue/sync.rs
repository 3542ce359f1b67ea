//! The locks, atomics, channels and thread-locals by which the threads at a queue meet, named in one place: a model checker puts
//! its own there. The latches of timeouts and the counts of the ledger are not among them.

#[cfg(all(test, queue_model))]
pub(super) use super::model::sync::*;
#[cfg(not(all(test, queue_model)))]
pub(super) use real::*;

#[cfg(not(all(test, queue_model)))]
mod real {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicUsize};
    pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use std::thread_local;

    pub(crate) use crossbeam_channel::{Receiver, Sender, bounded};

    pub(crate) use crate::process::atomic::AtomicU64;

    /// More would only spread the records over more half-empty chunks.
    pub(crate) const MAX_SHARDS: usize = 16;
}
