//! What several integration tests need.

#![allow(
    dead_code,
    unused_imports,
    reason = "each test file is a crate of its own and uses only a part of this"
)]

pub(crate) mod memory;
pub(crate) mod process;
pub(crate) mod scratch;
pub(crate) mod stubborn;
pub(crate) mod tls;
pub(crate) mod tunnel;
