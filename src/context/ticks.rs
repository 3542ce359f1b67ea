//! The processor's time counter, which a single instruction reads: the TSC of x86-64, the generic timer of aarch64.
//!
//! Workers measure the counter's rate against the system's monotonic clock ([`Calibrator`]), if the rate is constant
//! and the kernel uses the counter as its own clock source. A [`Clock`](super::clock::Clock) stores the value of the
//! counter at its start, and a mark, which identifies one of the published rates ([`Rates`]).
//!
//! - *Accuracy.* A measurement is wrong by at most 0.25 µs per second. A rate is published when two consecutive
//!   measurements agree, and withdrawn when a later one disagrees. So clocks drift by less than 1 µs per second.
//! - *Monotonic clocks.* A clock keeps the rate with which it started. There are two places for rates: a new rate is
//!   written to one place, while older clocks still read the other. Writes are at least [`MIN_REST`] apart: the maximum
//!   age of a clock for new spans, plus 30 seconds. So only a span that is open for longer than 30 seconds may end
//!   with a newer rate.
//! - *No dependence on a worker.* New clocks use the system's clock if the rate was not measured within [`MAX_AGE`]:
//!   while workers are idle or have no thread, in a forked child, or after the machine was suspended.

use std::mem;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use super::clock::{CLOCK_AGE, monotonic_nanos};
use crate::process;
use crate::process::atomic::AtomicU64;

/// Number of low bits of a word that hold a value of the counter; the bits above hold the mark of a rate. Even the
/// fastest counters take two years to overflow 58 bits.
pub(super) const TICK_BITS: u32 = 58;
/// The highest bit of a mark, always set. A mark's lowest bit (bit 58) is the index of the place that has the rate.
const MARK: u64 = 1 << 63;
/// Minimum time between two measurements of one worker, in nanoseconds.
const MIN_INTERVAL: u64 = 250_000_000;
/// Time in nanoseconds after which a measured rate is not used for new clocks.
const MAX_AGE: u64 = 20_000_000_000;
/// Minimum time in nanoseconds between two writes of rates, so that no new span uses a clock whose rate is overwritten.
const MIN_REST: u64 = CLOCK_AGE + 30_000_000_000;
/// Reciprocal of the largest accepted error of a measurement, which is 0.25 µs per second.
const MAX_ERROR: u64 = 4_000_000;
/// Reciprocal of the largest difference at which two rates agree, which is 0.5 µs per second.
const MAX_DIFFERENCE: u64 = 2_000_000;

pub(super) static RATES: Rates = Rates::new();
static CALIBRATION: Mutex<Calibration> = Mutex::new(Calibration::new());

/// The published rates: nanoseconds per tick times 2^58.
pub(super) struct Rates {
    places: [AtomicU64; 2],
    /// Mark of the rate for new clocks; 0 if the counter must not be used.
    pub(super) current: AtomicU64,
    /// Counter at the last measurement that confirmed the current rate.
    measured: AtomicU64,
}

impl Rates {
    const fn new() -> Self {
        Self {
            places: [const { AtomicU64::new(0) }; 2],
            current: AtomicU64::new(0),
            measured: AtomicU64::new(0),
        }
    }

    /// Returns the rate whose mark is in the upper bits of a word, such as [`Clock`](super::clock::Clock)'s `since`.
    #[inline(always)]
    pub(super) fn get(&self, marked: u64) -> u64 {
        // Relaxed is enough: the clock was made with this mark, which `mark_at` loaded with Acquire after the rate was
        // stored.
        self.places[(marked >> TICK_BITS) as usize & 1].load(Ordering::Relaxed)
    }

    /// Returns the mark of the current rate, for a clock that starts at this value of the counter; `None` if the rate
    /// is unknown or too old.
    pub(super) fn mark_at(&self, ticks: u64) -> Option<u64> {
        let mark = self.current.load(Ordering::Acquire);
        // If the counter was reset, the difference wraps to a large number, so the rate counts as too old.
        let age = ticks.wrapping_sub(self.measured.load(Ordering::Relaxed));
        (mark != 0 && self.nanos(mark, age) < u128::from(MAX_AGE)).then_some(mark)
    }

    /// Converts ticks to nanoseconds by the rate of a mark.
    pub(super) fn nanos(&self, mark: u64, ticks: u64) -> u128 {
        (u128::from(ticks) * u128::from(self.get(mark))) >> TICK_BITS
    }
}

/// Measures the rate of the counter regularly. Each worker has a calibrator.
pub(crate) struct Calibrator {
    /// Time of the next measurement; `u64::MAX` without a reliable counter.
    due: u64,
}

impl Calibrator {
    pub(crate) fn new() -> Self {
        Self { due: if is_clock_source() && is_invariant() { 0 } else { u64::MAX } }
    }

    /// Measures the rate if enough time has passed since the last measurement. Publishes it, or withdraws the old one.
    pub(crate) fn update(&mut self) {
        let now = monotonic_nanos();
        if now >= self.due {
            self.due = now + MIN_INTERVAL;
            let reading = Reading::take(read, monotonic_nanos, |_| false);
            process::with_locked(&CALIBRATION, |calibration| calibration.add(reading, &RATES));
        }
    }
}

/// The values of a counter and of a clock at one moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    pub(super) counter: u64,
    /// The clock, in nanoseconds.
    pub(super) time: u64,
    /// By how much the counter advanced during the reading.
    width: u64,
}

impl Reading {
    /// Reads the counter and the clock until the counter has advanced by a width that is narrow enough, but at most
    /// four times. Returns the narrowest reading: if the thread was interrupted, the reading is wide, and counter and
    /// clock may differ by half of the width.
    #[inline(always)]
    pub(super) fn take(
        counter: impl Fn() -> u64,
        clock: impl Fn() -> u64,
        is_narrow: impl Fn(u64) -> bool,
    ) -> Self {
        let first = Self::between(counter(), clock(), counter());
        if is_narrow(first.width) { first } else { first.or_narrower(counter, clock, is_narrow) }
    }

    #[cold]
    #[inline(never)]
    fn or_narrower(
        self,
        counter: impl Fn() -> u64,
        clock: impl Fn() -> u64,
        is_narrow: impl Fn(u64) -> bool,
    ) -> Self {
        let mut narrowest = self;
        for _ in 1..4 {
            let other = Self::between(counter(), clock(), counter());
            narrowest = if other.width < narrowest.width { other } else { narrowest };
            if is_narrow(narrowest.width) {
                break;
            }
        }
        narrowest
    }

    #[inline(always)]
    fn between(before: u64, time: u64, after: u64) -> Self {
        let width = after.wrapping_sub(before);
        Self { counter: before.wrapping_add(width / 2), time, width }
    }
}

#[derive(Debug)]
struct Calibration {
    last: Option<Reading>,
    /// Rate of the last measurement.
    rate: u64,
    /// Index of the place that was written last.
    place: usize,
    /// Time from which the other place may be written.
    next_write: u64,
}

impl Calibration {
    const fn new() -> Self {
        Self { last: None, rate: 0, place: 0, next_write: 0 }
    }

    /// Measures the rate since the last reading, and publishes it or withdraws the published one.
    fn add(&mut self, now: Reading, rates: &Rates) {
        let last = *self.last.get_or_insert(now);
        let (ticks, nanos) = (now.counter.wrapping_sub(last.counter), now.time.saturating_sub(last.time));
        // A reading is wrong by at most half of its width. If that is too much for the interval, this measurement is
        // skipped; `last` stays, so the next interval is longer and tolerates wider readings.
        if (now.width + last.width) / 2 > ticks / MAX_ERROR {
            return;
        }
        self.last = Some(now);
        let rate = u64::try_from((u128::from(nanos) << TICK_BITS) / u128::from(ticks.max(1))).unwrap_or(0);
        if !agree(mem::replace(&mut self.rate, rate), rate) {
            return rates.current.store(0, Ordering::Release);
        }
        if !agree(rates.places[self.place].load(Ordering::Relaxed), rate) {
            if now.time < self.next_write {
                return rates.current.store(0, Ordering::Release);
            }
            (self.place, self.next_write) = (1 - self.place, now.time + MIN_REST);
            rates.places[self.place].store(rate, Ordering::Relaxed);
        }
        rates.measured.store(now.counter, Ordering::Relaxed);
        rates.current.store(MARK | (self.place as u64) << TICK_BITS, Ordering::Release);
    }
}

fn agree(one: u64, other: u64) -> bool {
    one > 0 && one.abs_diff(other) <= one / MAX_DIFFERENCE
}

/// Returns whether the kernel uses the counter for its own clock.
fn is_clock_source() -> bool {
    const FILE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    cfg!(target_os = "linux")
        && std::fs::read_to_string(FILE)
            .is_ok_and(|name| matches!(name.trim_end(), "tsc" | "arch_sys_counter"))
}

/// Returns whether the counter has the same rate in all power states. The generic timer of aarch64 always has.
#[cfg(target_arch = "x86_64")]
#[allow(unused_unsafe, unsafe_code, reason = "only older compilers consider `__cpuid` unsafe")]
fn is_invariant() -> bool {
    const POWER_MANAGEMENT: u32 = 0x8000_0007;
    const INVARIANT_TSC: u32 = 1 << 8;
    // SAFETY: every x86-64 processor has the instruction.
    let cpuid = |leaf| unsafe { std::arch::x86_64::__cpuid(leaf) };
    cpuid(1 << 31).eax >= POWER_MANAGEMENT && cpuid(POWER_MANAGEMENT).edx & INVARIANT_TSC != 0
}

#[cfg(not(target_arch = "x86_64"))]
fn is_invariant() -> bool {
    cfg!(target_arch = "aarch64")
}

/// Reads the counter, or returns 0 on machines other than x86-64 and aarch64.
#[allow(unsafe_code)]
#[inline(always)]
pub(super) fn read() -> u64 {
    #[allow(unused_mut, unused_assignments, reason = "not on every machine")]
    let mut ticks = 0;
    // SAFETY: the instructions only read a counter. The kernel permits this if it uses the counter itself: see
    // `is_clock_source`.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        ticks = std::arch::x86_64::_rdtsc();
    }
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags));
    }
    ticks
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::context::Clock;

    const SECOND: u64 = 1_000_000_000;
    /// Ticks per second of the simulated counter.
    const FREQUENCY: u64 = 2_500_000_000;

    /// A simulated counter, a worker that measures it, and the published rates.
    struct Machine {
        rates: Rates,
        calibration: Calibration,
        now: Reading,
    }

    impl Machine {
        fn new() -> Self {
            let now = Reading { counter: 5 * FREQUENCY, time: 7 * SECOND, width: 100 };
            Self { rates: Rates::new(), calibration: Calibration::new(), now }
        }

        /// Returns a machine whose rate is published.
        fn calibrated() -> Self {
            let mut machine = Self::new();
            (0..3).for_each(|_| machine.measure_after(1, FREQUENCY));
            assert!(machine.mark().is_some());
            machine
        }

        fn pass(&mut self, seconds: u64, ticks_per_second: u64) {
            self.now.counter = self.now.counter.wrapping_add(seconds * ticks_per_second);
            self.now.time += seconds * SECOND;
        }

        fn measure_after(&mut self, seconds: u64, ticks_per_second: u64) {
            self.pass(seconds, ticks_per_second);
            self.calibration.add(self.now, &self.rates);
        }

        fn mark(&self) -> Option<u64> {
            self.rates.mark_at(self.now.counter)
        }

        /// Starts a clock when the wall clock shows `wall`.
        fn clock(&self, wall: u64) -> Clock {
            Clock::at(&Reading { time: wall, ..self.now }, &self.rates).expect("the rate is published")
        }

        /// Returns the time of a clock that was started when the wall clock showed `wall`.
        fn time(&self, clock: Clock, wall: u64) -> u64 {
            wall + clock.nanos_until(self.now.counter, &self.rates).expect("the counter has not gone back")
        }
    }

    #[test]
    fn clocks_drift_by_less_than_a_microsecond_per_second() {
        let mut machine = Machine::new();
        machine.measure_after(0, FREQUENCY);
        machine.measure_after(1, FREQUENCY);
        assert_eq!(machine.mark(), None, "one measurement alone may be wrong");
        // The largest possible error of a reading is half of its width.
        machine.now.counter += 50;
        machine.measure_after(1, FREQUENCY);
        assert!(machine.mark().is_some());
        let clock = machine.clock(SECOND);
        machine.pass(59, FREQUENCY);
        let drift = machine.time(clock, SECOND).abs_diff(60 * SECOND);
        assert!(drift < 59_000, "{drift} ns in 59 seconds");
    }

    #[test]
    fn reads_counter_and_clock_at_one_moment_although_the_thread_is_interrupted() {
        // Each step takes 20 ns, but the thread is interrupted for 44 ms at one of them: before the clock is read, or
        // after it.
        for interrupted in 0..9 {
            let (now, steps) = (Cell::new(0), Cell::new(0));
            let pass = || {
                now.set(
                    now.get() + if steps.replace(steps.get() + 1) == interrupted { 44_000_000 } else { 20 },
                );
                now.get()
            };
            let reading = Reading::take(pass, || 7 * SECOND + pass(), |width| width <= 5_000);
            assert!(reading.time.abs_diff(7 * SECOND + reading.counter) <= 20, "{interrupted}: {reading:?}");
            assert!(steps.get() <= 6, "at most one more reading: {} steps", steps.get());
        }
    }

    #[test]
    fn waits_for_a_longer_interval_while_readings_are_wide() {
        let mut machine = Machine::new();
        // Between readings of this width, an interval may be wrong by 1 µs. `MAX_ERROR` accepts this error only if the
        // interval is at least four seconds long.
        machine.now.width = FREQUENCY / 1_000_000;
        (0..4).for_each(|_| machine.measure_after(1, FREQUENCY));
        assert!(machine.calibration.rate == 0 && machine.mark().is_none(), "four seconds are needed");
        (0..5).for_each(|_| machine.measure_after(1, FREQUENCY));
        assert!(machine.mark().is_some());
    }

    #[test]
    fn a_rate_that_no_worker_measures_any_more_is_not_used_for_new_clocks() {
        let mut machine = Machine::calibrated();
        machine.pass(19, FREQUENCY);
        assert!(machine.mark().is_some());
        machine.pass(2, FREQUENCY);
        assert_eq!(machine.mark(), None);
        machine.measure_after(1, FREQUENCY);
        assert!(machine.mark().is_some());
    }

    #[test]
    fn a_counter_that_was_reset_or_jumped_is_not_used_until_two_measurements_agree() {
        for ticks in [0, 1000 * FREQUENCY] {
            let mut machine = Machine::calibrated();
            let clock = machine.clock(SECOND);
            machine.now.counter = ticks;
            assert_eq!(machine.mark(), None);
            assert_eq!(clock.nanos_until(ticks, &machine.rates).is_none(), ticks == 0);
            machine.measure_after(1, FREQUENCY);
            assert_eq!(machine.mark(), None);
            machine.measure_after(1, FREQUENCY);
            assert_eq!(machine.mark(), None);
            machine.measure_after(1, FREQUENCY);
            assert!(machine.mark().is_some());
        }
    }

    #[test]
    fn a_clock_keeps_its_rate_while_the_rate_for_new_clocks_changes() {
        let mut machine = Machine::calibrated();
        let (clock, mark) = (machine.clock(SECOND), machine.mark());
        let mut before = 0;
        for seconds in 0..60 {
            // The kernel makes its clock faster after 20 seconds, and slower again after 40.
            let faster =
                if (20..40).contains(&seconds) { FREQUENCY - FREQUENCY / 100_000 } else { FREQUENCY };
            machine.measure_after(1, faster);
            let time = machine.time(clock, SECOND);
            assert!(time > before, "{time} after {before}");
            before = time;
        }
        assert_eq!(machine.mark(), mark, "the first rate agrees again");
        // Recent clocks use the rates of both places. The new rate is published when all clocks of one place are old.
        (0..3).for_each(|_| machine.measure_after(1, FREQUENCY + FREQUENCY / 100_000));
        assert_eq!(machine.mark(), None);
        (0..30).for_each(|_| machine.measure_after(1, FREQUENCY + FREQUENCY / 100_000));
        assert!(machine.mark().is_some());
    }

    #[test]
    fn new_clocks_follow_a_step_of_the_wall_clock_and_old_ones_do_not() {
        let mut machine = Machine::calibrated();
        let before = machine.clock(100 * SECOND);
        machine.pass(1, FREQUENCY);
        let after = machine.clock(SECOND);
        machine.measure_after(1, FREQUENCY);
        assert!(machine.time(before, 100 * SECOND).abs_diff(102 * SECOND) < 2000);
        assert!(machine.time(after, SECOND).abs_diff(2 * SECOND) < 1000);
    }

    #[test]
    fn the_measured_rate_is_that_of_the_system_clock() {
        if Calibrator::new().due > 0 {
            return println!("SKIPPED: the kernel's clock source is not a counter of the processor");
        }
        let take = || Reading::take(read, monotonic_nanos, |_| false);
        let (rates, mut calibration) = (Rates::new(), Calibration::new());
        let deadline = monotonic_nanos() + 60 * SECOND;
        while rates.mark_at(read()).is_none() {
            assert!(monotonic_nanos() < deadline, "{calibration:?}");
            std::thread::park_timeout(std::time::Duration::from_millis(100));
            calibration.add(take(), &rates);
        }
        let first = take();
        std::thread::park_timeout(std::time::Duration::from_millis(100));
        let last = take();
        let clock = Clock::at(&Reading { time: SECOND, ..first }, &rates).expect("the rate is published");
        let (counted, elapsed) =
            (clock.nanos_until(last.counter, &rates).expect("later"), last.time - first.time);
        // The tolerance is large, because a virtual machine may be interrupted in all readings.
        assert!(counted.abs_diff(elapsed) < elapsed / 1000, "{counted} and {elapsed} ns");
    }
}
