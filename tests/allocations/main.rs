//! Memory and system calls that a record costs its caller, and allocators that emit records themselves.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod logging_allocator;
mod measuring_allocator;
mod steady_state;
#[path = "../support/mod.rs"]
mod support;
mod system_calls;

#[global_allocator]
static ALLOCATOR: support::allocator::HookedAllocator = support::allocator::HookedAllocator;
