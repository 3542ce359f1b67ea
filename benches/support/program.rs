//! Measures a program that repeats one call: time, processor time, allocations and instructions.
//!
//! Each burst of calls fits into any queue. The time of a burst excludes sending; its processor time includes sending.

use std::fmt;
use std::hint::black_box;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use standpipe::receiver::Receiver;

use super::arguments::Part;
use super::callgrind::{Instructions, OTHER_THREADS};
use super::{Error, allocations, arrival, callgrind, child, process};

/// Calls per burst. The smallest queue of all contenders holds more.
pub(crate) const BURST: u64 = 8192;
/// Calls in the short and in the long run. The difference of their instructions gives the instructions per call.
const INSTRUCTIONS: (u64, u64) = (BURST / 4, BURST);
/// Bursts in the short and in the long run when the instructions of the whole process are counted.
///
/// Both runs allocate the buffers that later bursts reuse, so the difference does not include these allocations.
const BURSTS: (u64, u64) = (2, 6);
const SHORT_BURST: u64 = BURST / 8;

/// Function that makes the given number of calls.
pub(crate) type Burst = Box<dyn Fn(u64)>;

/// The measured program, in the child.
pub(crate) struct Program {
    burst: Burst,
    /// Sends the queued records.
    flush: Box<dyn Fn() -> Result<(), Error>>,
    /// Sends the remaining records and shuts down.
    end: Box<dyn FnOnce() -> Result<(), Error>>,
}

impl Program {
    pub(crate) fn new(
        burst: Burst,
        flush: impl Fn() -> Result<(), Error> + 'static,
        end: impl FnOnce() -> Result<(), Error> + 'static,
    ) -> Self {
        Self { burst, flush: Box::new(flush), end: Box::new(end) }
    }

    /// Runs the calls and bursts that the part specifies, and reports the results.
    ///
    /// The reported time is that of the best burst. Allocations and processor time are summed over all bursts except
    /// the first one, which allocates the buffers that later bursts reuse.
    pub(crate) fn play(self, part: &Part) -> Result<(), Error> {
        let (calls, bursts) = (part.number("calls")?, part.number("bursts")?);
        let (mut best, mut allocated, mut cpu) = (u128::MAX, 0, Duration::ZERO);
        for number in 0..bursts {
            let cpu_before = process::cpu_time()?;
            let (begun, before) = (Instant::now(), allocations::of_this_thread());
            measured_burst(&*self.burst, calls);
            let (time, allocations) = (begun.elapsed(), allocations::of_this_thread() - before);
            (self.flush)()?;
            if number > 0 {
                best = best.min(time.as_nanos());
                allocated += allocations;
                cpu += process::cpu_time()? - cpu_before;
            }
        }
        // Ends the span in which the calls are made.
        drop(self.burst);
        (self.end)()?;
        child::report("nanoseconds", best);
        child::report("allocations", allocated);
        child::report("cpu", cpu.as_nanos());
        Ok(())
    }
}

/// Runs the burst. On the calling thread, callgrind counts only the instructions of this function.
///
/// The start of a contender is excluded, because its instructions may depend on time: one peer calibrates its clock in
/// a busy loop before `main`.
#[inline(never)]
pub(crate) fn measured_burst(burst: &dyn Fn(u64), calls: u64) {
    burst(calls);
    // Prevents a tail call: with one, callgrind would see this function end before the burst begins.
    black_box(());
}

/// Name of the function above.
pub(crate) const MEASURED: &str = "measured_burst";

/// Returns a burst that repeats `call`, with the number of preceding calls in the burst as its argument.
pub(crate) fn repeat(call: impl Fn(u64) + 'static) -> Burst {
    Box::new(move |calls| (0..calls).for_each(&call))
}

/// What must arrive at the receiver. Otherwise the measurement fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrives {
    /// Every call.
    Each,
    /// One record per burst, because all others are filtered out.
    OneOfBurst,
    /// A span for every call, with a parent, at least this many attributes, and exactly this many events.
    Spans { attributes: u64, events: u64 },
    /// Nothing, because nothing is sent.
    Nothing,
}

/// Measurements per call. Values that were not measured are infinite.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    /// Nanoseconds in the best of all bursts.
    pub(crate) nanoseconds: f64,
    pub(crate) allocations: f64,
    /// Processor time of all threads in nanoseconds, including sending.
    pub(crate) cpu: f64,
}

impl Seen {
    pub(crate) const NOTHING: Self =
        Self { nanoseconds: f64::INFINITY, allocations: f64::INFINITY, cpu: f64::INFINITY };

    /// Returns the lower value of each figure.
    pub(crate) fn min(self, other: Self) -> Self {
        Self {
            nanoseconds: self.nanoseconds.min(other.nanoseconds),
            allocations: self.allocations.min(other.allocations),
            cpu: self.cpu.min(other.cpu),
        }
    }
}

/// A program to be measured, in the parent: the part that a child runs, and its settings.
///
/// All measurements fail if the child fails, or if its records do not arrive.
pub(crate) struct Play<'a> {
    pub(crate) part: &'a str,
    pub(crate) settings: &'a [(&'a str, &'a dyn fmt::Display)],
    pub(crate) arrives: Arrives,
}

impl Play<'_> {
    /// Measures time, allocations and processor time of this many bursts.
    pub(crate) fn time(&self, bursts: u64) -> Result<Seen, Error> {
        let findings = self.run(BURST, bursts + 1, |settings| child::play(&[], self.part, settings))?;
        let each = |key| findings.number(key).map(|all| all as f64 / (BURST * bursts) as f64);
        Ok(Seen {
            nanoseconds: findings.number("nanoseconds")? as f64 / BURST as f64,
            allocations: each("allocations")?,
            cpu: each("cpu")?,
        })
    }

    /// Counts the instructions per call on the calling thread.
    pub(crate) fn instructions(&self) -> Result<f64, Error> {
        let count = |calls| {
            self.run(calls, 1, |settings| callgrind::count(self.part, settings, &[MEASURED]))
                .map(|(caller, _)| caller)
        };
        let (short, long) = INSTRUCTIONS;
        Ok((count(long)? as f64 - count(short)? as f64) / (long - short) as f64)
    }

    /// Counts the instructions per call on the calling thread and on all other threads, without the warm-up.
    pub(crate) fn instructions_of_all(&self) -> Result<Instructions, Error> {
        let count = |bursts| {
            self.run(SHORT_BURST, bursts, |settings| {
                callgrind::count(self.part, settings, &[MEASURED, OTHER_THREADS])
            })
        };
        let (short, long) = BURSTS;
        Ok(Instructions::between(count(short)?, count(long)?, (long - short) * SHORT_BURST))
    }

    fn run<T>(
        &self,
        calls: u64,
        bursts: u64,
        run: impl FnOnce(&[(&str, &dyn fmt::Display)]) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let (receiver, spans) = match self.arrives {
            Arrives::Spans { attributes, events } => {
                let (receiver, counter) = arrival::receiver_of_spans(attributes, events)?;
                (receiver, Some(counter))
            }
            _ => (Receiver::start()?, None),
        };
        let endpoint = receiver.endpoint();
        let mut settings = self.settings.to_vec();
        settings.extend([
            ("endpoint", &endpoint as &dyn fmt::Display),
            ("calls", &calls),
            ("bursts", &bursts),
        ]);
        let outcome = run(&settings)?;
        let expected = match self.arrives {
            Arrives::Each | Arrives::Spans { .. } => calls * bursts,
            Arrives::OneOfBurst => bursts,
            Arrives::Nothing => 0,
        };
        match spans.map_or_else(|| arrival::tally(&receiver), |counter| counter.load(Ordering::SeqCst) as u64)
        {
            arrived if arrived == expected => Ok(outcome),
            arrived => Err(format!("{}: expected {expected} records, {arrived} arrived", self.part).into()),
        }
    }
}
