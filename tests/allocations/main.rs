//! What does a record cost its caller in memory, and what may an allocator do while it is made?

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod logging_allocator;
mod measuring_allocator;
mod steady_state;
#[path = "../support/mod.rs"]
mod support;

#[global_allocator]
static ALLOCATOR: support::allocator::HookedAllocator = support::allocator::HookedAllocator;
