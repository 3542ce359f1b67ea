//! The gRPC client with servers that break every rule: each case ends within its deadline, with a verdict about the
//! records, and the program uses no more memory than usual.
//!
//! The servers are scripts on real sockets. Their frames are hand-written here, without code of the library.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[allow(dead_code, reason = "only what is held is counted here")]
#[path = "../support/allocator.rs"]
mod allocator;
mod answers;
#[path = "../support/base64.rs"]
mod base64;
mod bombs;
#[allow(dead_code, reason = "nothing is skipped here")]
#[path = "../../src/tests.rs"]
mod cases;
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
