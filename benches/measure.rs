//! Measures what metrics and log records cost the calling thread: time, allocations and instructions.
//!
//! Run it with `cargo bench --bench measure`. With `-- --smoke`, a short run only checks that the benchmark works.

mod support;

use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use standpipe::receiver::Receiver;
use standpipe::{Exporter, Telemetry};
use support::allocations::CountingAllocator;
use support::arguments::{Part, Task};
use support::calls::{self, CALLS, Call};
use support::program::{Play, Seen};
use support::table::{Table, hundredths, tenths, whole};
use support::workload::{self, PATIENCE, text};
use support::{Error, arrival, callgrind};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const THREADS: [u64; 4] = [1, 2, 4, 8];

struct Sizes {
    rounds: u64,
    bursts: u64,
    /// Whether instructions are counted for every call. Otherwise they are counted only for calls with a target.
    all_instructions: bool,
    /// Additions per thread.
    contention: u64,
}

fn main() -> Result<(), Error> {
    match Task::from_command_line()? {
        Task::Play(part) => play(&part),
        Task::Measure { smoke: true } => {
            measure(&Sizes { rounds: 1, bursts: 2, all_instructions: false, contention: 10_000 })
        }
        Task::Measure { smoke: false } => {
            measure(&Sizes { rounds: 5, bursts: 40, all_instructions: true, contention: 4_000_000 })
        }
    }
}

/// Runs the measured program. The name of the part is the name of a call.
fn play(part: &Part) -> Result<(), Error> {
    calls::start(&part.name, part.text("endpoint")?)?.play(part)
}

fn measure(sizes: &Sizes) -> Result<(), Error> {
    let mut seen = vec![Seen::NOTHING; CALLS.len()];
    for _ in 0..sizes.rounds {
        for (call, seen) in CALLS.iter().zip(&mut seen) {
            *seen = seen.min(play_of(call).time(sizes.bursts)?);
        }
    }
    let missing = callgrind::unavailable();
    let mut table = Table::new(["caller, for each call", "time", "allocations", "instructions", "target"]);
    for (call, seen) in CALLS.iter().zip(seen) {
        let counts = missing.is_none() && (sizes.all_instructions || call.target.is_some());
        let instructions = if counts { whole(play_of(call).instructions()?) } else { "SKIPPED".to_owned() };
        let target = call.target.map(|most| format!("≤ {most} instructions, 0 allocations"));
        let time = format!("{} ns", tenths(seen.nanoseconds));
        let name = call.name.to_owned();
        table.row([name, time, hundredths(seen.allocations), instructions, target.unwrap_or_default()]);
    }
    table.print("measure: counters, gauges, histograms and log records");
    if let Some(reason) = missing {
        println!("  instructions SKIPPED: {reason}");
    }
    contention(sizes)
}

fn play_of(call: &Call) -> Play<'_> {
    Play { part: call.name, settings: &[], arrives: calls::arrives(call.name) }
}

/// Measures one counter that several threads share, for each number of threads.
fn contention(sizes: &Sizes) -> Result<(), Error> {
    let mut times = [const { [const { Vec::new() }; 2] }; THREADS.len()];
    for _ in 0..sizes.rounds {
        for (threads, [bound, looked_up]) in THREADS.into_iter().zip(&mut times) {
            bound.push(contend(threads, sizes.contention, |telemetry| {
                let counter = telemetry.meter(text::SCOPE).counter("orders").with(&calls::one());
                move || counter.add(1)
            })?);
            looked_up.push(contend(threads, sizes.contention, |telemetry| {
                let counter = telemetry.meter(text::SCOPE).counter("orders");
                move || counter.add(1, &calls::one())
            })?);
        }
    }
    let mut table = Table::new(["one counter, many threads", "bound", "1 attribute", ""]);
    for (threads, times) in THREADS.iter().zip(times) {
        let [bound, looked_up] = times.map(|times| format!("{} ns", tenths(median(times))));
        let name = format!("{threads} thread{}", if *threads == 1 { "" } else { "s" });
        table.row([name, bound, looked_up, String::new()]);
    }
    let processors = thread::available_parallelism()?;
    table.print(&format!(
        "contention: wall time for each addition, all threads together, {processors} processors"
    ));
    Ok(())
}

/// Returns the median. The minimum would be a round in which the threads happened to run one after the other.
fn median(mut times: Vec<f64>) -> f64 {
    times.sort_unstable_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Returns the wall time in nanoseconds, divided by the additions of all threads.
fn contend<A: Fn() + Sync>(
    threads: u64,
    additions: u64,
    make: impl FnOnce(&Telemetry) -> A,
) -> Result<f64, Error> {
    let receiver = Receiver::start()?;
    let telemetry = workload::start(Exporter::http(receiver.endpoint()))?;
    let add = make(&telemetry);
    let gate = Barrier::new(threads as usize + 1);
    let begun = thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                gate.wait();
                (0..additions).for_each(|_| add());
            });
        }
        let begun = Instant::now();
        gate.wait();
        begun
    });
    let (time, all) = (begun.elapsed(), threads * additions);
    telemetry.shutdown(PATIENCE);
    match arrival::tally(&receiver) {
        arrived if arrived == all => Ok(time.as_nanos() as f64 / all as f64),
        arrived => Err(format!("{all} additions were made, {arrived} arrived").into()),
    }
}
