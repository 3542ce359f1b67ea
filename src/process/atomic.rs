//! Atomic numbers of 64 bits on every machine: std's, or, where the machine has none, `portable-atomic`'s, which take a lock.

#[cfg(not(target_has_atomic = "64"))]
pub(crate) use portable_atomic::{AtomicI64, AtomicU64};
#[cfg(target_has_atomic = "64")]
pub(crate) use std::sync::atomic::{AtomicI64, AtomicU64};
