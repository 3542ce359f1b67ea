//! Scheduling: when the next round of a signal starts, and which signal is sent next. Pure: time is an argument.
//!
//! In a *round*, the worker drains the queue of a signal and sends its records. [`Throttle`] spaces the rounds of one
//! signal. [`FairShare`] is a fair scheduler over signals, like the virtual run time of a thread scheduler: the signal
//! that has used the least time is next. The signals share time and not attempts, because one slow attempt may take as
//! long as a thousand others.

use std::time::{Duration, Instant};

use crate::config::PaceSettings;
use crate::record::Signal;

/// Shortest time between two rounds, unless the queue is about to fill up. Without this minimum, the worker would wake
/// for every record, and each wake-up costs the caller more than the record itself.
const MIN_REST: Duration = Duration::from_millis(1);
/// Longest wait, one year. Adding a longer wait to an `Instant` could overflow.
const MAX_WAIT: Duration = Duration::from_secs(365 * 24 * 3600);
const COUNT: usize = Signal::COUNT;

/// Decides when a round starts: applies the throttle between rounds, and the linger time to incomplete batches.
pub(crate) struct Throttle {
    settings: PaceSettings,
    last_round: Option<Instant>,
}

/// The queued records, as far as they matter for the next round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// Time at which the worker first saw these records.
    pub(crate) since: Instant,
    /// True if there are enough records for a whole request.
    pub(crate) full_batch: bool,
    /// True if the queue is three quarters full, or would have no room for a large record. Waiting longer would then
    /// block a caller or lose a record.
    pub(crate) pressing: bool,
}

/// The start of the next round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextRound {
    Now,
    /// At this time, or earlier if the queue is about to fill up.
    ThrottledUntil(Instant),
    /// At this time, or earlier if there are enough records for a whole request.
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
        let throttle = self.settings.throttle.max(MIN_REST);
        let throttled = self.last_round.map_or(now, |last| last + throttle.min(MAX_WAIT));
        let linger = if waiting.full_batch { Duration::ZERO } else { self.settings.linger };
        let lingers = waiting.since + linger.min(MAX_WAIT);
        match throttled.max(lingers) {
            due if due <= now => NextRound::Now,
            due if due == throttled => NextRound::ThrottledUntil(due),
            due => NextRound::LingersUntil(due),
        }
    }
}

/// The worker's time that each signal has used.
#[derive(Debug, Default)]
pub(crate) struct FairShare {
    spent: [Duration; COUNT],
    was_due: [bool; COUNT],
    /// Least time that any due signal has used. A signal that was not due for a while is raised to this value, so that
    /// it cannot claim the time that it did not use.
    least: Duration,
}

impl FairShare {
    /// Returns the due signal that has used the least time.
    pub(crate) fn pick(&mut self, due: [bool; COUNT]) -> Option<usize> {
        for ((spent, is_due), was_due) in self.spent.iter_mut().zip(due).zip(self.was_due) {
            if is_due && !was_due {
                *spent = (*spent).max(self.least);
            }
        }
        self.was_due = due;
        (0..COUNT).filter(|index| due[*index]).min_by_key(|index| self.spent[*index])
    }

    /// Returns how long an attempt of the signal `index` may take if the stop has `left` time. The time that signals
    /// with records have used, plus `left`, is divided equally among them. The result is the unused part of the share
    /// of `index`, but at least an equal part of `left`: other signals may be in a back-off and not use their parts.
    pub(crate) fn share(&self, index: usize, has_records: [bool; COUNT], left: Duration) -> Duration {
        let sharers = || (0..COUNT).filter(|other| *other == index || has_records[*other]);
        let count = sharers().count() as u32;
        let average = (left + sharers().map(|other| self.spent[other]).sum::<Duration>()) / count;
        average.saturating_sub(self.spent[index]).clamp(left / count, left)
    }

    /// Adds the time of an attempt or a collection.
    pub(crate) fn charge(&mut self, index: usize, time: Duration) {
        self.spent[index] += time;
        let of_due = self.spent.iter().zip(self.was_due).filter(|(_, is_due)| *is_due);
        self.least = of_due.map(|(spent, _)| *spent).min().unwrap_or_default().max(self.least);
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
        let due = start + MIN_REST;
        assert_eq!(throttle.next_round(start, &waiting(start)), NextRound::ThrottledUntil(due));
    }

    #[test]
    fn waits_beyond_the_clock_are_only_long() {
        let now = Instant::now();
        let mut throttle = Throttle::new(PaceSettings { throttle: Duration::MAX, linger: Duration::MAX });
        throttle.round_starts(now);
        assert_eq!(throttle.next_round(now, &waiting(now)), NextRound::ThrottledUntil(now + MAX_WAIT));
    }

    /// Returns the time that each signal has used after `turns` turns of these lengths.
    fn after(turns: usize, lengths: [u64; COUNT], due: [bool; COUNT]) -> [u64; COUNT] {
        let (mut fair_share, mut had) = (FairShare::default(), [0; COUNT]);
        for _ in 0..turns {
            let index = fair_share.pick(due).expect("one is due");
            fair_share.charge(index, Duration::from_millis(lengths[index]));
            had[index] += lengths[index];
        }
        had
    }

    #[test]
    fn only_what_is_due_has_a_turn() {
        assert_eq!(FairShare::default().pick([false; 3]), None);
        assert_eq!(after(10, [1, 1, 1], [false, true, false]), [0, 10, 0]);
    }

    #[test]
    fn time_is_shared_however_long_a_turn_takes() {
        let had = after(1000, [1, 100, 10], [true; 3]);
        let (least, most) = (had.iter().min().unwrap(), had.iter().max().unwrap());
        assert!(most - least <= 100, "{had:?}");
    }

    #[test]
    fn one_that_was_not_due_has_saved_up_nothing() {
        let mut fair_share = FairShare::default();
        for _ in 0..100 {
            assert_eq!(fair_share.pick([true, false, false]), Some(0));
            fair_share.charge(0, Duration::from_secs(1));
        }
        let mut had = [0; COUNT];
        for _ in 0..10 {
            let index = fair_share.pick([true, true, false]).unwrap();
            fair_share.charge(index, Duration::from_secs(1));
            had[index] += 1;
        }
        assert_eq!(had, [5, 5, 0]);
    }

    #[test]
    fn shares_the_rest_of_a_stop_equally_between_signals_that_hang() {
        let (mut fair_share, mut left, mut had) = (FairShare::default(), 6, Vec::new());
        for _ in 0..COUNT {
            let index = fair_share.pick([true; 3]).unwrap();
            let share = fair_share.share(index, [true; 3], Duration::from_secs(left));
            fair_share.charge(index, share);
            left -= share.as_secs();
            had.push((index, share.as_secs()));
        }
        assert_eq!(had, [(0, 2), (1, 2), (2, 2)]);
    }

    #[test]
    fn leaves_signals_with_records_their_share_though_they_were_tried() {
        let mut fair_share = FairShare::default();
        for index in 0..2 {
            assert_eq!(fair_share.pick([true, true, false]), Some(index));
            fair_share.charge(index, Duration::from_millis(30));
        }
        let left = Duration::from_millis(1920);
        let share = |fair_share: &FairShare, has_records| fair_share.share(2, has_records, left);
        assert_eq!(share(&fair_share, [true, true, true]), Duration::from_millis(660));
        assert_eq!(share(&fair_share, [true, false, true]), Duration::from_millis(975));
        assert_eq!(share(&fair_share, [false, false, true]), left);
        // At least an equal part, whatever the signal has used: the others may be in a back-off.
        fair_share.charge(2, 10 * left);
        assert_eq!(share(&fair_share, [true, false, true]), left / 2);
    }

    #[test]
    fn one_that_took_long_waits_for_the_others_to_have_as_much() {
        let mut fair_share = FairShare::default();
        assert_eq!(fair_share.pick([true, true, false]), Some(0));
        fair_share.charge(0, Duration::from_secs(10));
        for _ in 0..10 {
            assert_eq!(fair_share.pick([true, true, false]), Some(1));
            fair_share.charge(1, Duration::from_secs(1));
        }
        assert_eq!(fair_share.pick([true, true, false]), Some(0));
    }
}
