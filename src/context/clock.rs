//! The time that spans record: wall-clock time at the start of a trace, advanced by the monotonic clock.

use std::num::NonZeroU64;
use std::time::SystemTime;

/// Maximum age of a clock in nanoseconds. After that the wall clock is read again, because it may have been set.
const CLOCK_AGE: u64 = 60_000_000_000;

/// The offset between the wall clock and the monotonic clock at one moment. The spans of a trace use the same offset
/// until it is older than [`CLOCK_AGE`], so their times are consistent with each other and cost one reading each.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    since: u64,
    ahead: NonZeroU64,
}

impl Clock {
    /// Returns a new clock and its current time.
    #[inline]
    pub(crate) fn start() -> (Self, u64) {
        let clock = Self::set();
        (clock, clock.at(clock.since))
    }

    #[cold]
    #[inline(never)]
    fn set() -> Self {
        let (wall, since) = (unix_now(), monotonic_nanos());
        // Wraps if the wall clock is behind the monotonic clock. An offset of 0 becomes 1 ns, so that `Option<Clock>`
        // needs no extra word.
        let ahead = NonZeroU64::new(wall.wrapping_sub(since)).unwrap_or(NonZeroU64::MIN);
        Self { since, ahead }
    }

    /// Returns this clock, or a new one if this one is too old, and its current time.
    #[inline(always)]
    pub(crate) fn advance(self) -> (Self, u64) {
        let moment = monotonic_nanos();
        let is_young = moment.wrapping_sub(self.since) < CLOCK_AGE;
        if is_young { (self, self.at(moment)) } else { Self::start() }
    }

    /// Returns the current time in nanoseconds since 1970.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        self.at(monotonic_nanos())
    }

    #[inline]
    fn at(&self, moment: u64) -> u64 {
        moment.wrapping_add(self.ahead.get())
    }
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

/// Returns monotonic nanoseconds since an arbitrary moment before the start of the program.
#[inline]
fn monotonic_nanos() -> u64 {
    #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
    return system_nanos(1);
    #[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
    instant_nanos()
}

/// Returns the time of a clock of the system: 0 is the wall clock, 1 the monotonic clock.
///
/// [`SystemTime`] and [`std::time::Instant`] make the same system call, but return opaque values. A number must be
/// computed from them by subtracting another reading, which takes three times as long, and every span needs the time
/// twice.
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
        // An interruption between two readings takes less than this.
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
