//! Behavior of the library in its process: forks, threads, clocks, memory, variables, the log.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod clock;
mod exit;
mod faults;
mod fork;
mod global;
mod interrupted;
#[cfg(unix)]
mod manual;
mod memory;
mod proxy;
mod secrets;
mod spool;
#[path = "../support/mod.rs"]
mod support;
#[cfg(unix)]
mod system;
mod threads;
mod truncation;

#[global_allocator]
static ALLOCATOR: support::allocator::HookedAllocator = support::allocator::HookedAllocator;
