//! The locks, atomics, channels and thread-locals by which the threads at a queue meet, named in one place: a model checker puts
//! its own there. The latches of timeouts and the counts of the ledger are not among them.

pub(super) use std::sync::atomic::{AtomicBool, AtomicUsize};
pub(super) use std::sync::{Condvar, Mutex, MutexGuard};
pub(super) use std::thread_local;

pub(super) use crossbeam_channel::{Receiver, Sender, bounded};

pub(super) use crate::process::atomic::AtomicU64;

/// More would only spread the records over more half-empty chunks.
pub(super) const MOST_SHARDS: usize = 16;
