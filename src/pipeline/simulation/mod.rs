//! Deterministic simulation: the whole pipeline on one thread, with a network and a clock that depend only on a seed.
//!
//! ```text
//! script ─ settings, faults, actions ─► world ─ records ─► queue … worker ─ requests ─► server
//! (from a seed)                           │                                               │
//! └─ after every step: ledger == server's counts ─┘
//! ```
//!
//! [`script`] derives settings, faults and actions from a seed. [`world`] plays the callers and the worker, and lets
//! time pass. [`server`] receives the requests and checks them. A program with a spool is stopped or killed, and a
//! second one must deliver the records that the first has left. A seed that fails once fails every time:
//! `tests/simulation/run --seed` prints every step of its run.
//!
//! The test runs the first seeds. `tests/simulation/run` runs further seeds for a given time.

mod background_send;
mod fleet;
mod script;
mod server;
mod world;

use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::record::seed_random;
use crate::tests::share_of;
pub(super) use background_send::run_in_background;
use script::HAS_SPOOL;
use world::World;

/// Number of seeds that the test runs. Slow builds run a share of them.
const SEEDS: u32 = 300;
/// Minimum number of seeds. The test needs a seed that fills a queue during an attempt: one of the first 40 does.
const MIN_SEEDS: u32 = 40;

/// Runs one seed, and returns its world at the end.
fn run(seed: u64, is_verbose: bool) -> Rc<World> {
    seed_random(seed);
    let world = World::new(seed, is_verbose);
    if let Err(failure) = catch_unwind(AssertUnwindSafe(|| world.run())) {
        println!("seed {seed} fails, see every step of it by: tests/simulation/run --seed {seed}");
        resume_unwind(failure);
    }
    world
}

fn variable(name: &str) -> Option<u64> {
    env::var(name).ok().map(|value| value.parse().unwrap_or_else(|_| panic!("{name}={value} is no number")))
}

#[test]
fn every_record_is_accounted_for_whatever_the_network_does() {
    if let Some(seed) = variable("SIMULATION_SEED") {
        run(seed, true);
        return;
    }
    let Some(seconds) = variable("SIMULATION_SECONDS") else {
        let seeds = share_of(SEEDS).max(MIN_SEEDS);
        let relieved: u64 = (0..seeds).map(|seed| run(seed.into(), false).relieved.get()).sum();
        return assert!(relieved > 0 || !HAS_SPOOL, "no seed fills a queue during an attempt");
    };
    let (begun, first) = (Instant::now(), crate::record::random() >> 16);
    let (mut seeds, mut steps) = (0, 0);
    while begun.elapsed() < Duration::from_secs(seconds) {
        steps += run(first + seeds, false).steps.get();
        seeds += 1;
    }
    let minutes = begun.elapsed().as_secs_f64() / 60.0;
    println!("{seeds} seeds from {first} on, {steps} steps: {:.0} seeds a minute", seeds as f64 / minutes);
}

#[test]
fn a_seed_always_leads_to_the_same_steps() {
    for seed in 0..share_of(20) {
        let steps = || run(seed.into(), false).steps.get();
        assert_eq!(steps(), steps(), "seed {seed}");
    }
}
