//! Flags that let the linker leave out parts of the library that a program cannot ask for.
//!
//! What a configuration asks for is known at run time, so a program that never calls `Exporter::grpc` would carry gRPC all
//! the same. Each part that is worth leaving out has a flag, which only code sets that can ask for the part. Where none of
//! that code is linked, link-time optimization finds that the flag is never set, and drops the part.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a part of the library was ever asked for in this process.
pub(crate) struct Demand(AtomicBool);

/// OTLP over gRPC.
pub(crate) static GRPC: Demand = Demand::none();
/// Compressed requests.
pub(crate) static GZIP: Demand = Demand::none();
/// The ledger as metrics.
pub(crate) static SELF_OBSERVATION: Demand = Demand::none();

/// What is read from a file or from the environment can ask for any part.
pub(super) fn raise_all() {
    [&GRPC, &GZIP, &SELF_OBSERVATION].into_iter().for_each(Demand::raise);
}

impl Demand {
    const fn none() -> Self {
        Self(AtomicBool::new(false))
    }

    pub(crate) fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
