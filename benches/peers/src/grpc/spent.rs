//! Measures what sending costs the process.

use std::hint::black_box;
use std::ops::AddAssign;
use std::time::{Duration, Instant};

use crate::support::child::{Findings, report};
use crate::support::{Error, allocations, process};

/// Cost for all threads together.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Spent {
    pub(super) wall: Duration,
    pub(super) cpu: Duration,
    pub(super) allocations: u64,
}

impl Spent {
    /// Runs `work` and returns its cost.
    pub(super) fn on(work: impl FnOnce() -> Result<(), Error>) -> Result<Self, Error> {
        let (allocated, cpu, begun) = (allocations::of_all_threads(), process::cpu_time()?, Instant::now());
        measured_sending(work)?;
        Ok(Self {
            wall: begun.elapsed(),
            cpu: process::cpu_time()? - cpu,
            allocations: allocations::of_all_threads() - allocated,
        })
    }

    /// Reports the cost to the parent.
    pub(super) fn report(&self) {
        report("wall", self.wall.as_nanos());
        report("cpu", self.cpu.as_nanos());
        report("allocations", self.allocations);
    }

    /// Reads the cost that a child reported.
    pub(super) fn from_report(findings: &Findings) -> Result<Self, Error> {
        let time = |key| findings.number(key).map(Duration::from_nanos);
        Ok(Self { wall: time("wall")?, cpu: time("cpu")?, allocations: findings.number("allocations")? })
    }
}

/// Runs `work`. On the main thread, callgrind counts only the instructions of this function.
#[inline(never)]
fn measured_sending(work: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
    let done = work();
    // Prevents a tail call: with one, callgrind would see this function end before the work begins.
    black_box(());
    done
}

/// Name of the function above.
pub(super) const MEASURED: &str = "measured_sending";

impl AddAssign for Spent {
    fn add_assign(&mut self, other: Self) {
        self.wall += other.wall;
        self.cpu += other.cpu;
        self.allocations += other.allocations;
    }
}
