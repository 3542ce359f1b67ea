//! The clock of an exporter: the system's monotonic clock, or in tests the time of a simulation.

use std::time::Instant;

/// Returns the current time.
#[inline]
pub(crate) fn now() -> Instant {
    #[cfg(test)]
    if let Some(now) = simulated::now() {
        return now;
    }
    Instant::now()
}

/// Must be called before every wait in code that a simulation can run. In a simulation, lets time pass to `until`, or
/// until `is_over` returns true if that is earlier, so that the wait itself ends at once. Outside of a simulation, does
/// nothing.
#[inline]
pub(crate) fn before_wait(until: Option<Instant>, is_over: impl Fn() -> bool) {
    #[cfg(test)]
    simulated::pass(until, &is_over);
    #[cfg(not(test))]
    let _ = (until, is_over);
}

#[cfg(test)]
#[path = "simulation/clock.rs"]
pub(crate) mod simulated;
