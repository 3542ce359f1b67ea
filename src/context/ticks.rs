//! The processor's time counter, which is read without a call: the TSC of x86-64, the generic timer of aarch64.
//!
//! [`Calibration`] measures the rate of the counter against the system's monotonic clock, on the threads of workers.
//! The rate is published only if two consecutive measurements agree and the kernel itself uses the counter as its
//! clock source: the kernel checks that the counters of all cores agree and never stop. Without a recent measurement,
//! [`rate_and_ticks`] returns `None`, and clocks use the system's clock: in a program without a worker thread, while the
//! worker is idle, and on other machines.
//!
//! # Accuracy
//! Reading both clocks takes some 40 ns, so a rate measured over [`MIN_INTERVAL`] is wrong by less than 1 µs per second.
//! Every trace reads the wall clock at its start, so the error does not add up beyond a trace.

use std::mem;
use std::num::NonZeroU64;
use std::sync::atomic::Ordering;

use super::clock::monotonic_nanos;
use crate::process::atomic::AtomicU64;
use counter::is_invariant;
pub(super) use counter::read;

/// Nanoseconds per tick times 2^32; 0 if the rate is not known.
static RATE: AtomicU64 = AtomicU64::new(0);
/// Counter at the last measurement.
static MEASURED: AtomicU64 = AtomicU64::new(0);

/// Minimum time between two measurements in nanoseconds, before and after a rate was published.
const MIN_INTERVAL: u64 = 50_000_000;
const USUAL_INTERVAL: u64 = 500_000_000;
/// Time in nanoseconds after which a measured rate is no longer used.
const MAX_AGE: u64 = 20_000_000_000;

/// Nanoseconds per tick times 2^32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rate(NonZeroU64);

impl Rate {
    /// Returns the nanoseconds between two values of the counter. The counters of two cores may differ by a few ticks: if
    /// the later value is smaller, no time has passed.
    #[inline(always)]
    pub(super) fn nanos(self, from: u64, to: u64) -> u64 {
        (u128::from(to.saturating_sub(from)) * u128::from(self.0.get()) >> 32) as u64
    }
}

/// Returns the rate of the counter and its current value, if the rate was measured recently.
#[inline]
pub(super) fn rate_and_ticks() -> Option<(Rate, u64)> {
    // Relaxed: each of the two values is valid with any recent value of the other.
    let rate = Rate(NonZeroU64::new(RATE.load(Ordering::Relaxed))?);
    let now = read();
    (rate.nanos(MEASURED.load(Ordering::Relaxed), now) < MAX_AGE).then_some((rate, now))
}

/// Measures the rate of the counter, for a worker.
#[derive(Debug, Default)]
pub(crate) struct Calibration {
    /// Time of the next measurement.
    due: u64,
    last: Option<Reading>,
    rate: u64,
}

/// The values of both clocks at one moment.
#[derive(Debug, Clone, Copy)]
struct Reading {
    ticks: u64,
    nanos: u64,
}

impl Calibration {
    /// Measures the rate since the last measurement, if enough time has passed, and publishes it.
    pub(crate) fn update(&mut self) {
        let now = monotonic_nanos();
        if now < self.due {
            return;
        }
        let rate = Reading::take().and_then(|reading| self.measure(reading));
        if let Some((rate, ticks)) = rate {
            MEASURED.store(ticks, Ordering::Relaxed);
            RATE.store(rate, Ordering::Relaxed);
        }
        self.due = now + if rate.is_some_and(|(rate, _)| rate > 0) { USUAL_INTERVAL } else { MIN_INTERVAL };
    }

    /// Returns the rate since the last reading, and the value of the counter. The rate is 0 if it does not agree with
    /// the previous rate, for example after the machine was suspended or moved to another host.
    fn measure(&mut self, now: Reading) -> Option<(u64, u64)> {
        let last = self.last.replace(now)?;
        let (ticks, nanos) = (now.ticks.saturating_sub(last.ticks).max(1), now.nanos - last.nanos);
        let rate = u64::try_from((u128::from(nanos) << 32) / u128::from(ticks)).unwrap_or_default();
        let before = mem::replace(&mut self.rate, rate);
        // The kernel adjusts the speed of its clock by at most 500 ppm.
        let agrees = before.abs_diff(rate) <= before >> 10;
        Some((if agrees { rate } else { 0 }, now.ticks))
    }
}

impl Reading {
    /// Reads both clocks; `None` if the machine has no usable counter.
    fn take() -> Option<Self> {
        if !is_clock_source() || !is_invariant() {
            return None;
        }
        // An interruption between the readings increases the distance between the two readings of the counter. The
        // closest of three pairs was not interrupted.
        let pair = || {
            let (before, nanos, after) = (read(), monotonic_nanos(), read());
            let between = after.wrapping_sub(before);
            (between, Self { ticks: before.wrapping_add(between / 2), nanos })
        };
        [pair(), pair(), pair()].into_iter().min_by_key(|(between, _)| *between).map(|(_, reading)| reading)
    }
}

/// Returns whether the kernel uses the counter for its own clock. It stops doing so if it finds the counter unreliable.
fn is_clock_source() -> bool {
    const FILE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    std::fs::read_to_string(FILE).is_ok_and(|name| matches!(name.trim_end(), "tsc" | "arch_sys_counter"))
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod counter {
    use std::arch::x86_64::{__cpuid, _rdtsc};

    /// Returns whether the counter runs at a constant rate in all power states (invariant TSC).
    #[allow(unused_unsafe, unsafe_code, reason = "only older compilers consider `__cpuid` unsafe")]
    pub(crate) fn is_invariant() -> bool {
        const POWER_MANAGEMENT: u32 = 0x8000_0007;
        const INVARIANT_TSC: u32 = 1 << 8;
        // SAFETY: every x86-64 processor has the instruction.
        let cpuid = |leaf| unsafe { __cpuid(leaf) };
        cpuid(1 << 31).eax >= POWER_MANAGEMENT && cpuid(POWER_MANAGEMENT).edx & INVARIANT_TSC != 0
    }

    #[allow(unsafe_code)]
    #[inline(always)]
    pub(crate) fn read() -> u64 {
        // SAFETY: the instruction only reads a counter. Every kernel that uses the counter as its clock source permits
        // the instruction.
        unsafe { _rdtsc() }
    }
}

#[cfg(all(target_os = "linux", target_arch = "aarch64"))]
mod counter {
    /// Returns whether there is a counter: every aarch64 processor has the generic timer.
    pub(crate) fn is_invariant() -> bool {
        true
    }

    #[allow(unsafe_code)]
    #[inline(always)]
    pub(crate) fn read() -> u64 {
        let ticks;
        // SAFETY: the instruction only reads a register, which Linux makes readable for programs.
        unsafe {
            std::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags))
        };
        ticks
    }
}

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod counter {
    pub(crate) fn is_invariant() -> bool {
        false
    }

    #[inline(always)]
    pub(crate) fn read() -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a reading `seconds` after the start, of a counter with this frequency.
    fn reading(seconds: u64, frequency: u64) -> Reading {
        Reading { ticks: 1000 + seconds * frequency, nanos: seconds * 1_000_000_000 }
    }

    #[test]
    fn publishes_a_rate_once_two_measurements_agree_and_withdraws_it_when_they_differ() {
        let mut calibration = Calibration::default();
        let mut measure =
            |seconds, frequency| calibration.measure(reading(seconds, frequency)).map(|(rate, _)| rate);
        assert_eq!(measure(1, 2_500_000_000), None, "one reading has no rate");
        assert_eq!(measure(2, 2_500_000_000), Some(0), "nothing to compare with");
        let rate = measure(3, 2_500_000_000).expect("third reading");
        let nanos = Rate(NonZeroU64::new(rate).expect("both agree")).nanos(0, 2_500_000_000 * 3600);
        assert!(nanos.abs_diff(3_600_000_000_000) < 3600, "{nanos} ns in an hour");
        assert_eq!(measure(4, 3_000_000_000), Some(0), "the counter jumped");
        assert_eq!(measure(5, 3_000_000_000), Some(0));
        assert!(measure(6, 3_000_000_000) > Some(0), "two measurements agree again");
        assert_eq!(measure(7, 100), Some(0), "the counter was reset");
    }

    #[test]
    fn ticks_of_another_core_that_lie_in_the_past_count_as_no_time() {
        let rate = Rate(NonZeroU64::new(1 << 32).expect("not zero"));
        assert_eq!((rate.nanos(7, 12), rate.nanos(7, 7), rate.nanos(7, 5)), (5, 0, 0));
    }

    #[test]
    fn the_measured_rate_is_that_of_the_system_clock() {
        if !is_clock_source() || !is_invariant() {
            return println!("SKIPPED: the kernel's clock source is not a counter of the processor");
        }
        let wait = || {
            let until = monotonic_nanos() + MIN_INTERVAL;
            while monotonic_nanos() < until {
                std::hint::spin_loop();
            }
        };
        let mut calibration = Calibration::default();
        let mut measure = || {
            wait();
            let (rate, _) = calibration.measure(Reading::take()?)?;
            NonZeroU64::new(rate).map(Rate)
        };
        let rate = (0..100).find_map(|_| measure()).expect("two measurements agree");
        let first = Reading::take().expect("the counter is in use");
        wait();
        let last = Reading::take().expect("the counter is in use");
        let (counted, elapsed) = (rate.nanos(first.ticks, last.ticks), last.nanos - first.nanos);
        // Generous: the promise is 1 µs per second, but a virtual machine may be interrupted in all readings.
        assert!(counted.abs_diff(elapsed) < elapsed / 1000, "{counted} and {elapsed} ns");
    }
}
