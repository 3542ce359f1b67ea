//! What sending has cost the process.

use std::ops::AddAssign;
use std::time::{Duration, Instant};

use crate::support::child::{Findings, tell};
use crate::support::{Error, allocations, process};

/// By all threads together.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Spent {
    pub(super) wall: Duration,
    pub(super) cpu: Duration,
    pub(super) allocations: u64,
}

impl Spent {
    /// Does the work and says what it cost.
    pub(super) fn on(work: impl FnOnce() -> Result<(), Error>) -> Result<Self, Error> {
        let (allocated, cpu, begun) = (allocations::of_all_threads(), process::cpu_time()?, Instant::now());
        work()?;
        Ok(Self {
            wall: begun.elapsed(),
            cpu: process::cpu_time()? - cpu,
            allocations: allocations::of_all_threads() - allocated,
        })
    }

    /// Says it to the parent.
    pub(super) fn tell(&self) {
        tell("wall", self.wall.as_nanos());
        tell("cpu", self.cpu.as_nanos());
        tell("allocations", self.allocations);
    }

    /// What a child said.
    pub(super) fn told(findings: &Findings) -> Result<Self, Error> {
        let time = |key| findings.number(key).map(Duration::from_nanos);
        Ok(Self { wall: time("wall")?, cpu: time("cpu")?, allocations: findings.number("allocations")? })
    }
}

impl AddAssign for Spent {
    fn add_assign(&mut self, other: Self) {
        self.wall += other.wall;
        self.cpu += other.cpu;
        self.allocations += other.allocations;
    }
}
