//! The system's clock, by which what is on disk gets old, and what becomes of that when the clock is set.

#[cfg(test)]
use std::cell::Cell;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What the two clocks may differ by between two looks at both.
const TOLERANCE: Duration = Duration::from_secs(1);

#[cfg(test)]
thread_local! {
    /// What the clock shows on this thread, where a test has set it.
    pub(super) static NOW_MS: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Milliseconds since 1970.
pub(super) fn now_ms() -> u64 {
    #[cfg(test)]
    if let Some(now) = NOW_MS.get() {
        return now;
    }
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The clock was set forward, or the system was suspended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Jump {
    /// What the clock would show without it.
    from_ms: u64,
    by_ms: u64,
}

impl Jump {
    /// What lies between two moments, if the clock has advanced further than time.
    pub(super) fn between(then: (Instant, u64), now: (Instant, u64)) -> Option<Self> {
        let elapsed = now.0.saturating_duration_since(then.0).as_millis();
        let from_ms = then.1.saturating_add(u64::try_from(elapsed).unwrap_or(u64::MAX));
        let by_ms = now.1.saturating_sub(from_ms);
        (u128::from(by_ms) > TOLERANCE.as_millis()).then_some(Self { from_ms, by_ms })
    }

    /// What happened before it is as long ago as without it. What is of a later time was written after it, or before the clock
    /// was wrong.
    pub(super) fn shift(self, time_ms: &mut u64) {
        if *time_ms <= self.from_ms {
            *time_ms += self.by_ms;
        }
    }
}
