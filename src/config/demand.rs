//! Flags that let the linker remove parts of the library that a program cannot request.
//!
//! The configuration is known only at run time, so without these flags a program that never calls `Exporter::grpc`
//! would still contain gRPC. Each large optional part has a flag. Only functions that can request the part set its
//! flag. If none of these functions is linked, link-time optimization proves that the flag is never set and removes the
//! part. In a program with the default features, built for size, the flags save 141 KiB.

use std::sync::atomic::{AtomicBool, Ordering};

/// Flag that is set once this process has requested a part of the library.
pub(crate) struct Demand(AtomicBool);

/// OTLP over gRPC.
pub(crate) static GRPC: Demand = Demand::none();
/// Compressed requests.
pub(crate) static GZIP: Demand = Demand::none();
/// Headers and certificates that are renewed while the program runs, and signatures.
pub(crate) static CREDENTIALS: Demand = Demand::none();
/// Detectors of resource attributes.
pub(crate) static DETECTORS: Demand = Demand::none();
/// The ledger as metrics.
pub(crate) static SELF_OBSERVATION: Demand = Demand::none();
/// Views.
pub(crate) static VIEWS: Demand = Demand::none();

/// Sets all flags, because a file or the environment can request any part.
pub(super) fn raise_all() {
    [&CREDENTIALS, &DETECTORS, &GRPC, &GZIP, &SELF_OBSERVATION, &VIEWS].into_iter().for_each(Demand::raise);
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
