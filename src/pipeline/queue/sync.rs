//! The locks, atomics, channels and thread-locals through which the threads of a queue synchronize.
//!
//! They are named in one place so that the model checker in the tests can replace them. The atomics of the latches and
//! of the ledger's counters are not replaced.

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

    /// Maximum number of shards. More would only spread the records over more half-empty chunks.
    pub(crate) const MAX_SHARDS: usize = 16;
}
