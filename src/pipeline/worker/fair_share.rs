//! Pure: which signal is next, when several have something to send.
//!
//! A fair share of time, as schedulers of threads give it: a signal whose collector answers slowly, or with more to send
//! than others, has its share and no more. Attempts are not counted, as one may take as long as a thousand others.

use std::time::Duration;

use crate::record::Signal;

const COUNT: usize = Signal::COUNT;

/// What the signals have had of the worker's time.
#[derive(Debug, Default)]
pub(super) struct FairShare {
    spent: [Duration; COUNT],
    was_due: [bool; COUNT],
    /// What those that are due have had at least. One that was not due for a while begins here: it has saved up nothing.
    least: Duration,
}

impl FairShare {
    /// Of those that are due, the one that has had the least.
    pub(super) fn pick(&mut self, due: [bool; COUNT]) -> Option<usize> {
        for ((spent, is_due), was_due) in self.spent.iter_mut().zip(due).zip(self.was_due) {
            if is_due && !was_due {
                *spent = (*spent).max(self.least);
            }
        }
        self.was_due = due;
        (0..COUNT).filter(|index| due[*index]).min_by_key(|index| self.spent[*index])
    }

    /// Returns how long an attempt may take of the time that a stop has `left`: until this signal has had as much as the
    /// average of the signals with records left, and no less than an equal part, as the others may wait in a back-off.
    pub(super) fn share(&self, index: usize, has_records: [bool; COUNT], left: Duration) -> Duration {
        let sharers = || (0..COUNT).filter(|other| *other == index || has_records[*other]);
        let count = sharers().count() as u32;
        let average = (left + sharers().map(|other| self.spent[other]).sum::<Duration>()) / count;
        average.saturating_sub(self.spent[index]).clamp(left / count, left)
    }

    /// Adds what a turn took.
    pub(super) fn charge(&mut self, index: usize, time: Duration) {
        self.spent[index] += time;
        let of_due = self.spent.iter().zip(self.was_due).filter(|(_, is_due)| *is_due);
        self.least = of_due.map(|(spent, _)| *spent).min().unwrap_or_default().max(self.least);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The time that each has had after `turns` turns, each of its own length.
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
        // others that wait in a back-off leave it an equal part, whatever it has had
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
