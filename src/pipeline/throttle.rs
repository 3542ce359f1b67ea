//! Pure: when the next round of sending may start.

use std::time::{Duration, Instant};

use crate::config::PaceSettings;

/// The worker rests at least this long between two rounds, unless the queue presses: waking for every
/// record would cost the callers more than the records themselves.
const SHORTEST_REST: Duration = Duration::from_millis(1);
/// Longer waits are as good as this one and could overflow the clock.
const LONGEST_WAIT: Duration = Duration::from_secs(365 * 24 * 3600);

/// Keeps the pace: throttle between rounds, linger for incomplete batches.
#[derive(Debug)]
pub(crate) struct Throttle {
    settings: PaceSettings,
    last_round: Option<Instant>,
}

/// What is waiting to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// When the first of it was noticed.
    pub(crate) since: Instant,
    /// Enough for a whole request.
    pub(crate) full_batch: bool,
    /// The queue is three quarters full, or a large record would find no room: a wait now would end in a stall or a loss.
    pub(crate) pressing: bool,
}

/// When the next round starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextRound {
    Now,
    /// Then, or earlier if the queue presses.
    ThrottledUntil(Instant),
    /// Then, or earlier if a batch is full.
    LingersUntil(Instant),
}

impl Throttle {
    pub(crate) fn new(settings: PaceSettings) -> Self {
        Self { settings, last_round: None }
    }

    pub(crate) fn round_starts(&mut self, now: Instant) {
        self.last_round = Some(now);
    }

    pub(crate) fn next_round(&self, now: Instant, waiting: &Waiting) -> NextRound {
        if waiting.pressing {
            return NextRound::Now;
        }
        let throttle = self.settings.throttle.max(SHORTEST_REST);
        let throttled = self.last_round.map_or(now, |last| last + throttle.min(LONGEST_WAIT));
        let linger = if waiting.full_batch { Duration::ZERO } else { self.settings.linger };
        let lingers = waiting.since + linger.min(LONGEST_WAIT);
        match throttled.max(lingers) {
            due if due <= now => NextRound::Now,
            due if due == throttled => NextRound::ThrottledUntil(due),
            due => NextRound::LingersUntil(due),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn throttle(throttle: u64, linger: u64) -> Throttle {
        let (throttle, linger) = (Duration::from_millis(throttle), Duration::from_millis(linger));
        Throttle::new(PaceSettings { throttle, linger })
    }

    fn waiting(since: Instant) -> Waiting {
        Waiting { since, full_batch: false, pressing: false }
    }

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn the_first_record_goes_at_once() {
        let now = Instant::now();
        assert_eq!(throttle(1000, 0).next_round(now, &waiting(now)), NextRound::Now);
    }

    #[test]
    fn rounds_start_no_closer_than_the_throttle() {
        let start = Instant::now();
        let mut throttle = throttle(1000, 0);
        throttle.round_starts(start);
        let due = start + ms(1000);
        assert_eq!(throttle.next_round(start + ms(999), &waiting(start)), NextRound::ThrottledUntil(due));
        assert_eq!(throttle.next_round(due, &waiting(start)), NextRound::Now);
    }

    #[test]
    fn a_pressing_queue_cuts_throttle_and_linger_short() {
        let start = Instant::now();
        let mut throttle = throttle(1000, 5000);
        throttle.round_starts(start);
        let waiting = Waiting { since: start, full_batch: true, pressing: true };
        assert_eq!(throttle.next_round(start, &waiting), NextRound::Now);
    }

    #[test]
    fn an_incomplete_batch_lingers_and_a_full_one_does_not() {
        let start = Instant::now();
        let throttle = throttle(0, 5000);
        assert_eq!(throttle.next_round(start, &waiting(start)), NextRound::LingersUntil(start + ms(5000)));
        assert_eq!(throttle.next_round(start + ms(5000), &waiting(start)), NextRound::Now);
        let full = Waiting { full_batch: true, ..waiting(start) };
        assert_eq!(throttle.next_round(start, &full), NextRound::Now);
    }

    #[test]
    fn the_longer_of_throttle_and_linger_decides() {
        let start = Instant::now();
        let mut short_linger = throttle(1000, 10);
        short_linger.round_starts(start);
        let due = start + ms(1000);
        assert_eq!(short_linger.next_round(start, &waiting(start)), NextRound::ThrottledUntil(due));
        let mut long_linger = throttle(10, 1000);
        long_linger.round_starts(start);
        assert_eq!(long_linger.next_round(start, &waiting(start)), NextRound::LingersUntil(due));
    }

    #[test]
    fn the_worker_rests_even_without_a_throttle() {
        let start = Instant::now();
        let mut throttle = throttle(0, 0);
        throttle.round_starts(start);
        let due = start + SHORTEST_REST;
        assert_eq!(throttle.next_round(start, &waiting(start)), NextRound::ThrottledUntil(due));
    }

    #[test]
    fn waits_beyond_the_clock_are_only_long() {
        let now = Instant::now();
        let mut throttle = Throttle::new(PaceSettings { throttle: Duration::MAX, linger: Duration::MAX });
        throttle.round_starts(now);
        assert_eq!(throttle.next_round(now, &waiting(now)), NextRound::ThrottledUntil(now + LONGEST_WAIT));
    }
}
