//! The tasks of a contender in a child process, and what they report.

use std::hint::black_box;
use std::time::{Duration, Instant};
use std::{process as this_process, thread};

use super::contender::{CHILDREN, Contender, Pipe, Setup};
use crate::support::arguments::Part;
use crate::support::child::report;
use crate::support::workload::{PATIENCE, TRACE};
use crate::support::{Error, allocations, process};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    /// Send everything without a loss.
    Send,
    /// Emit in a tight loop with the default queue, and time each call.
    Hurry,
    /// Like [`Hurry`](Self::Hurry), at 10,000 spans per second.
    Steady,
    /// Like [`Hurry`](Self::Hurry), at 100,000 spans per second.
    Swift,
    /// Send the first trace, then shut down while idle.
    First,
    /// Shut down with a trace that no collector acknowledges.
    Silence,
}

/// Budget of a shutdown, for contenders that accept one.
const BUDGET: Duration = Duration::from_secs(5);
/// Time after which a shutdown counts as never ending.
pub(super) const NEVER: Duration = Duration::from_secs(15);

impl Task {
    const ALL: [Self; 6] = [Self::Send, Self::Hurry, Self::Steady, Self::Swift, Self::First, Self::Silence];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Hurry => "hurry",
            Self::Steady => "steady",
            Self::Swift => "swift",
            Self::First => "first",
            Self::Silence => "silence",
        }
    }

    /// Returns whether callers never wait for room in the queue.
    pub(super) fn is_lossy(self) -> bool {
        matches!(self, Self::Hurry | Self::Steady | Self::Swift)
    }
}

/// Runs the measured program.
pub(super) fn play(contender: &Contender, part: &Part) -> Result<(), Error> {
    let (name, setup) = (part.text("task")?, Setup::read(part)?);
    let task = Task::ALL.into_iter().find(|task| task.name() == name);
    match task.ok_or_else(|| format!("{name}: no such task"))? {
        Task::Send => send(contender, &setup, part.number("bursts")?),
        Task::Hurry => hurry(contender, &setup, Duration::ZERO),
        Task::Steady => hurry(contender, &setup, Duration::from_micros(100)),
        Task::Swift => hurry(contender, &setup, Duration::from_micros(10)),
        Task::First => first(contender, &setup),
        Task::Silence => silence(contender, &setup),
    }
}

fn send(contender: &Contender, setup: &Setup, bursts: u64) -> Result<(), Error> {
    let before = process::resident()?;
    let pipe = (contender.start)(setup)?;
    let (cpu, allocated, begun) = (process::cpu_time()?, allocations::of_all_threads(), Instant::now());
    let mut callers = Caller::default();
    for burst in 0..bursts {
        if burst > 0 {
            pipe.flush()?;
        }
        callers.add(emit(&pipe, setup)?);
    }
    let threads = process::threads()?;
    pipe.end(PATIENCE)?;
    report("wall", begun.elapsed().as_nanos());
    report("cpu", (process::cpu_time()? - cpu).as_nanos());
    report("callers-cpu", callers.cpu.as_nanos());
    report("callers-allocations", callers.allocations);
    report("allocations", allocations::of_all_threads() - allocated);
    report("memory", process::resident_peak()?.saturating_sub(before));
    report("threads", threads);
    Ok(())
}

/// Cost for a calling thread.
#[derive(Debug, Clone, Copy, Default)]
struct Caller {
    cpu: Duration,
    allocations: u64,
}

impl Caller {
    fn of(work: impl FnOnce()) -> Result<Self, Error> {
        let (cpu, allocated) = (process::thread_cpu_time()?, allocations::of_this_thread());
        work();
        Ok(Self {
            cpu: process::thread_cpu_time()? - cpu,
            allocations: allocations::of_this_thread() - allocated,
        })
    }

    fn add(&mut self, other: Self) {
        self.cpu += other.cpu;
        self.allocations += other.allocations;
    }
}

/// Emits a burst from all producers. A single producer is the main thread, where instructions are counted.
fn emit(pipe: &Pipe, setup: &Setup) -> Result<Caller, Error> {
    let emitter = pipe.emitter();
    if setup.producers == 1 {
        return Caller::of(|| measured_emitting(&emitter, setup.spans));
    }
    let (each, mut all) = (setup.spans / setup.producers, Caller::default());
    let work = || Caller::of(|| emitter(each)).map_err(|error| error.to_string());
    thread::scope(|scope| {
        let callers: Vec<_> = (0..setup.producers).map(|_| scope.spawn(work)).collect();
        for caller in callers {
            all.add(caller.join().map_err(|_| "a producer panicked")??);
        }
        Ok(all)
    })
}

/// Emits spans. On the main thread, callgrind counts only the instructions of this function.
#[inline(never)]
fn measured_emitting(emit: &dyn Fn(u64), spans: u64) {
    emit(spans);
    // Prevents a tail call: with one, callgrind would see this function end before the work begins.
    black_box(());
}

/// Name of the function above.
pub(super) const MEASURED: &str = "measured_emitting";

/// Times each child. The children begin `distance` apart.
fn hurry(contender: &Contender, setup: &Setup, distance: Duration) -> Result<(), Error> {
    // Filled with ones, so that its pages are resident before the first measurement.
    let mut times = vec![1; (setup.spans / TRACE) as usize * CHILDREN];
    let before = process::resident()?;
    let pipe = (contender.start)(setup)?;
    if !distance.is_zero() {
        // A steady rate is measured when the contender has allocated the memory that it needs at this rate.
        pipe.time(&mut times, distance);
    }
    pipe.time(&mut times, distance);
    pipe.end(PATIENCE)?;
    report("memory", process::resident_peak()?.saturating_sub(before));
    times.sort_unstable();
    report("median", times[times.len() / 2]);
    report("99th", times[times.len() * 99 / 100]);
    report("999th", times[times.len() * 999 / 1000]);
    report("longest", times[times.len() - 1]);
    Ok(())
}

fn first(contender: &Contender, setup: &Setup) -> Result<(), Error> {
    let begun = Instant::now();
    let pipe = (contender.start)(setup)?;
    pipe.emitter()(TRACE);
    pipe.flush()?;
    report("first", begun.elapsed().as_nanos());
    let begun = Instant::now();
    pipe.end(BUDGET)?;
    report("shutdown", begun.elapsed().as_nanos());
    Ok(())
}

fn silence(contender: &Contender, setup: &Setup) -> Result<(), Error> {
    let pipe = (contender.start)(setup)?;
    pipe.emitter()(TRACE);
    thread::spawn(|| {
        thread::sleep(NEVER);
        report("shutdown", NEVER.as_nanos());
        this_process::exit(0);
    });
    let begun = Instant::now();
    // The trace cannot be sent, so an error is expected.
    let _ = pipe.end(BUDGET);
    report("shutdown", begun.elapsed().as_nanos());
    this_process::exit(0);
}
