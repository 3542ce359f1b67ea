//! The time of spans and log records. A [`Clock`] reads the wall clock at its start, and afterwards adds the time
//! measured by the processor's time counter ([`ticks`]) or the system's monotonic clock.

use std::num::NonZeroU64;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use super::ticks::{self, RATES, Rates, Reading, TICK_BITS};

/// Age in nanoseconds at which [`Clock::advance`] makes a new clock, because the wall clock may have been set since.
pub(super) const CLOCK_AGE: u64 = 60_000_000_000;

/// Duration in nanoseconds of a [`Reading`] that counts as taken at one moment. Even a clock that needs a system call
/// is read in less.
const MAX_READING: u64 = 20_000;

/// The wall-clock time at one moment, and the value of a counter at that moment. The spans of a trace use the same
/// clock until it is older than [`CLOCK_AGE`], so their times are consistent, and taking a time reads only the counter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    /// One of two values, told apart by the highest bit:
    ///
    /// - set, "with a rate": the low [`TICK_BITS`] bits are the processor's counter at the start, the bits above them
    ///   are the mark of its rate (see [`Rates`]);
    /// - clear: the system's monotonic clock at the start, in nanoseconds.
    since: u64,
    /// With a rate: the wall clock at the start. Without a rate: the wall clock at the start minus `since`. Never
    /// zero, so that `Option<Clock>` needs no extra word.
    ahead: NonZeroU64,
}

impl Clock {
    /// Returns a new clock and its current time.
    #[cold]
    #[inline(never)]
    pub(crate) fn start() -> (Self, u64) {
        if RATES.current.load(Ordering::Relaxed) != 0 {
            let is_narrow =
                |ticks| RATES.nanos(RATES.current.load(Ordering::Relaxed), ticks) <= MAX_READING.into();
            let reading = Reading::take(ticks::read, unix_now, is_narrow);
            if let Some(clock) = Self::at(&reading, &RATES) {
                return (clock, reading.time);
            }
        }
        let reading = Reading::take(monotonic_nanos, unix_now, |nanos| nanos <= MAX_READING);
        let Reading { counter: since, time: wall, .. } = reading;
        // Wraps if the wall clock is behind the monotonic clock.
        (Self { since, ahead: non_zero(wall.wrapping_sub(since)) }, wall)
    }

    /// Returns a clock that starts at this reading of the processor's counter; `None` if the rate is unknown or old.
    pub(super) fn at(reading: &Reading, rates: &Rates) -> Option<Self> {
        let since = rates.mark_at(reading.counter)? | reading.counter & ((1 << TICK_BITS) - 1);
        Some(Self { since, ahead: non_zero(reading.time) })
    }

    /// Returns this clock, or a new one if this one is too old, and its current time.
    #[inline(always)]
    pub(crate) fn advance(self) -> (Self, u64) {
        let moment = self.moment();
        let age = if self.has_rate() { moment } else { moment.wrapping_sub(self.since) };
        if age < CLOCK_AGE { (self, moment.wrapping_add(self.ahead.get())) } else { Self::start() }
    }

    /// Returns the current time in nanoseconds since 1970.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        self.moment().wrapping_add(self.ahead.get())
    }

    /// Returns the current time minus `ahead`, that is, nanoseconds since the start if the clock has a rate, otherwise
    /// the system's monotonic clock.
    #[inline(always)]
    fn moment(&self) -> u64 {
        if !self.has_rate() {
            return monotonic_nanos();
        }
        let by_wall_clock = || unix_now().saturating_sub(self.ahead.get());
        self.nanos_until(ticks::read(), &RATES).unwrap_or_else(by_wall_clock)
    }

    #[inline(always)]
    fn has_rate(&self) -> bool {
        self.since >> 63 != 0
    }

    /// Returns the nanoseconds from the start to this value of the processor's counter; `None` if the counter has gone
    /// back, for example because the machine was suspended.
    #[inline(always)]
    pub(super) fn nanos_until(&self, ticks: u64, rates: &Rates) -> Option<u64> {
        // The shift removes the mark.
        let passed = ticks.wrapping_sub(self.since) << (64 - TICK_BITS);
        let is_later = passed >> 63 == 0;
        is_later.then(|| ((u128::from(passed) * u128::from(rates.get(self.since))) >> 64) as u64)
    }
}

fn non_zero(nanos: u64) -> NonZeroU64 {
    NonZeroU64::new(nanos).unwrap_or(NonZeroU64::MIN)
}

/// Returns nanoseconds since 1970, or 0 for earlier times.
pub(crate) fn unix_nanos(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the current wall-clock time in nanoseconds since 1970.
pub(crate) fn unix_now() -> u64 {
    #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
    return system_nanos(0);
    #[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
    unix_nanos(SystemTime::now())
}

/// Returns the monotonic clock in nanoseconds since an arbitrary moment.
#[inline]
pub(super) fn monotonic_nanos() -> u64 {
    #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
    return system_nanos(1);
    #[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
    instant_nanos()
}

/// Returns the time of a clock of the system: 0 is the wall clock, 1 the monotonic clock.
///
/// [`SystemTime`] and [`std::time::Instant`] make the same system call, but return opaque values. Getting a number from
/// them, by subtracting another value, takes three times as long as this function. Every span needs the time twice.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
#[allow(unsafe_code)]
#[inline]
fn system_nanos(clock: std::ffi::c_int) -> u64 {
    use std::ffi::{c_int, c_long};

    #[repr(C)]
    struct Time {
        seconds: i64,
        nanos: c_long,
    }
    unsafe extern "C" {
        fn clock_gettime(clock: c_int, time: *mut Time) -> c_int;
    }

    let mut time = Time { seconds: 0, nanos: 0 };
    // SAFETY: the C library writes only the two numbers of a `timespec`, which has this layout where pointers have 64
    // bits. The call cannot fail, because every Linux has both clocks.
    unsafe { clock_gettime(clock, &raw mut time) };
    // No overflow: the kernel refuses to set a clock before 1970 or after 2262.
    time.seconds as u64 * 1_000_000_000 + time.nanos as u64
}

/// Returns monotonic nanoseconds by means of the standard library.
#[cfg(any(test, not(all(target_os = "linux", target_pointer_width = "64"))))]
fn instant_nanos() -> u64 {
    use std::sync::OnceLock;
    use std::time::Instant;

    static FIRST: OnceLock<Instant> = OnceLock::new();
    let elapsed = FIRST.get_or_init(Instant::now).elapsed();
    elapsed.as_secs() * 1_000_000_000 + u64::from(elapsed.subsec_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_to_the_monotonic_clock_go_on_at_the_same_pace() {
        let readings = || (monotonic_nanos(), instant_nanos());
        let mut before = readings();
        let first = before;
        for _ in 0..10_000 {
            let now = readings();
            assert!(now.0 >= before.0 && now.1 >= before.1, "{before:?}, then {now:?}");
            before = now;
        }
        let (one, other) = (before.0 - first.0, before.1 - first.1);
        // Tolerates an interruption of the thread between two readings.
        assert!(one.abs_diff(other) < 10_000_000_000, "{one} and {other} ns");
        assert!(one > 0 && other > 0);
    }

    #[test]
    fn a_clock_shows_the_time_of_day() {
        let (clock, begun) = Clock::start();
        let wall = unix_nanos(SystemTime::now());
        let (_, later) = clock.advance();
        assert!(begun <= wall && wall.abs_diff(later) < 10_000_000_000, "{begun}, {wall}, {later}");
        assert!(clock.now() >= later);
    }
}
