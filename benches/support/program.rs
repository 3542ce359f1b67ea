//! A program that does one thing over and over, and what is seen of it: time, processor time, allocations, instructions.
//!
//! It does so in bursts that any queue can hold, and sends outside of the measured time.

use std::fmt;
use std::hint::black_box;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use standpipe::receiver::Receiver;

use super::arguments::Part;
use super::callgrind::{Instructions, OTHER_THREADS};
use super::{Error, allocations, arrival, callgrind, child, process};

/// Calls of a burst: fewer than the smallest queue of all contenders holds.
pub(crate) const BURST: u64 = 8192;
/// The bursts of which the difference is taken for instructions.
const INSTRUCTIONS: (u64, u64) = (BURST / 4, BURST);
/// The same for a whole process: how many bursts of how many calls. The short run is for the storage that is reused.
const BURSTS: (u64, u64) = (2, 6);
const SHORT_BURST: u64 = BURST / 8;

/// Calls as often as the argument demands.
pub(crate) type Burst = Box<dyn Fn(u64)>;

/// The program, in the hands of the child.
pub(crate) struct Program {
    burst: Burst,
    /// Sends what waits to be sent.
    flush: Box<dyn Fn() -> Result<(), Error>>,
    /// Sends the rest.
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

    /// Runs as often as the part demands, and reports the best time, and the allocations and the processor time of all bursts
    /// but the first, which is for the storage that later ones reuse.
    ///
    /// # Errors
    /// When something cannot be sent.
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
        // ends the span that the calls are made in
        drop(self.burst);
        (self.end)()?;
        child::report("nanoseconds", best);
        child::report("allocations", allocated);
        child::report("cpu", cpu.as_nanos());
        Ok(())
    }
}

/// The one function whose instructions are counted. What a contender does at its start is often a matter of time, not
/// of calls: the clock of one of them is set in a busy loop before `main`.
#[inline(never)]
pub(crate) fn measured_burst(burst: &dyn Fn(u64), calls: u64) {
    burst(calls);
    // or the burst would not be called but jumped to, and this function had ended
    black_box(());
}

/// Its name.
pub(crate) const MEASURED: &str = "measured_burst";

/// A burst of this call, which gets the number of calls before it in the burst.
pub(crate) fn repeat(call: impl Fn(u64) + 'static) -> Burst {
    Box::new(move |calls| (0..calls).for_each(&call))
}

/// What of a program's work must be found at the other end, or it has not been done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrives {
    /// Every call.
    Each,
    /// One record of every burst, as all others are filtered out.
    OneOfBurst,
    /// A span for every call, with a parent, no fewer attributes and exactly this many events.
    Spans { attributes: u64, events: u64 },
    /// Nothing, as nothing is sent.
    Nothing,
}

/// For each call; what was not measured is infinite.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    /// In the best of all bursts.
    pub(crate) nanoseconds: f64,
    pub(crate) allocations: f64,
    /// Nanoseconds of all threads, sending included.
    pub(crate) cpu: f64,
}

impl Seen {
    pub(crate) const NOTHING: Self =
        Self { nanoseconds: f64::INFINITY, allocations: f64::INFINITY, cpu: f64::INFINITY };

    /// The better of two runs.
    pub(crate) fn min(self, other: Self) -> Self {
        Self {
            nanoseconds: self.nanoseconds.min(other.nanoseconds),
            allocations: self.allocations.min(other.allocations),
            cpu: self.cpu.min(other.cpu),
        }
    }
}

/// A program in the eyes of the parent: the part that a child plays, and its settings.
pub(crate) struct Play<'a> {
    pub(crate) part: &'a str,
    pub(crate) settings: &'a [(&'a str, &'a dyn fmt::Display)],
    pub(crate) arrives: Arrives,
}

impl Play<'_> {
    /// Time, allocations and processor time of this many bursts.
    ///
    /// # Errors
    /// When the child fails, or when its work did not arrive.
    pub(crate) fn time(&self, bursts: u64) -> Result<Seen, Error> {
        let findings = self.run(BURST, bursts + 1, |settings| child::play(&[], self.part, settings))?;
        let each = |key| findings.number(key).map(|all| all as f64 / (BURST * bursts) as f64);
        Ok(Seen {
            nanoseconds: findings.number("nanoseconds")? as f64 / BURST as f64,
            allocations: each("allocations")?,
            cpu: each("cpu")?,
        })
    }

    /// Instructions of a call on the calling thread.
    ///
    /// # Errors
    /// When a run fails, or when its work did not arrive.
    pub(crate) fn instructions(&self) -> Result<f64, Error> {
        let count = |calls| {
            self.run(calls, 1, |settings| callgrind::count(self.part, settings, &[MEASURED]))
                .map(|(caller, _)| caller)
        };
        let (short, long) = INSTRUCTIONS;
        Ok((count(long)? as f64 - count(short)? as f64) / (long - short) as f64)
    }

    /// Instructions of a call on the calling thread, and on all others on its behalf, with storage that is reused.
    ///
    /// # Errors
    /// When a run fails, or when its work did not arrive.
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
