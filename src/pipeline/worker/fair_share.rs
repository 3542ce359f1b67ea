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
