//! The gRPC client before servers that break every rule: each case ends inside its deadline, with a verdict that says
//! what to do with the records, and the program holds no more memory than usual.
//!
//! The servers are scripts on real sockets. Their frames are made by hand here, with nothing of the library's.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[allow(dead_code, reason = "only what is held is counted here")]
#[path = "../support/allocator.rs"]
mod allocator;
mod answers;
mod bombs;
mod farewells;
mod floods;
mod frames;
mod hpack;
mod padding;
mod resets;
mod server;
mod settings;
mod sockets;
mod stage;
mod stalls;
mod uploads;
mod windows;
mod wire;

#[global_allocator]
static ALLOCATOR: allocator::HookedAllocator = allocator::HookedAllocator;
