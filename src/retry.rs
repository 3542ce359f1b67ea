//! Pure: what follows from a verdict.

use std::time::{Duration, Instant};

use crate::config::RetrySettings;
use crate::transport::Verdict;

/// What the worker does next with a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextStep {
    /// The collector has it; so many records of it were rejected.
    Done { rejected: u64 },
    /// The same again, after a pause; it may be cut short unless the server asked for it.
    TryAgain { pause: Duration, asked_for: bool },
    /// The same records in two smaller requests.
    Halve,
    /// A single record that is too large for the collector.
    DropTooLarge,
    /// Refused for good.
    DropRefused,
    /// Its time is up.
    GiveUp,
}

/// One batch under way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attempt {
    /// How many attempts there were, this one included.
    pub(crate) number: u32,
    pub(crate) records: u64,
    /// Whether it could be sent in smaller requests.
    pub(crate) is_divisible: bool,
    /// When the batch's time is up.
    pub(crate) deadline: Instant,
    /// Even bits for the jitter.
    pub(crate) random: u64,
}

pub(crate) fn next_step(
    settings: &RetrySettings,
    attempt: &Attempt,
    verdict: &Verdict,
    now: Instant,
) -> NextStep {
    let (pause, asked_for) = match verdict {
        Verdict::Accepted => return NextStep::Done { rejected: 0 },
        Verdict::AcceptedPartly { rejected, .. } => {
            return NextStep::Done { rejected: (*rejected).min(attempt.records) };
        }
        Verdict::Refused { .. } | Verdict::NotTaken { .. } => return NextStep::DropRefused,
        Verdict::TooLarge { .. } if attempt.is_divisible => return NextStep::Halve,
        Verdict::TooLarge { .. } => return NextStep::DropTooLarge,
        Verdict::TryLater { after: Some(after), .. } => ((*after).min(settings.max_retry_after), true),
        Verdict::TryLater { after: None, .. } => (back_off(settings, attempt), false),
    };
    match attempt.deadline.checked_duration_since(now) {
        Some(left) if pause < left => NextStep::TryAgain { pause, asked_for },
        _ => NextStep::GiveUp,
    }
}

/// Full jitter: anything between nothing and the exponential step, so that a thousand programs that lost
/// the same collector do not come back together.
fn back_off(settings: &RetrySettings, attempt: &Attempt) -> Duration {
    let doublings = attempt.number.saturating_sub(1).min(31);
    let step = settings.first_delay.saturating_mul(1 << doublings).min(settings.max_delay);
    let share = (attempt.random >> 11) as f64 / (1u64 << 53) as f64;
    step.mul_f64(share)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(number: u32, now: Instant) -> Attempt {
        Attempt {
            number,
            records: 10,
            is_divisible: true,
            deadline: now + Duration::from_secs(300),
            random: u64::MAX,
        }
    }

    fn later(after: Option<Duration>) -> Verdict {
        Verdict::TryLater { after, reason: String::new() }
    }

    fn step(attempt: &Attempt, verdict: &Verdict, now: Instant) -> NextStep {
        next_step(&RetrySettings::default(), attempt, verdict, now)
    }

    #[test]
    fn what_the_collector_took_is_done() {
        let now = Instant::now();
        assert_eq!(step(&attempt(1, now), &Verdict::Accepted, now), NextStep::Done { rejected: 0 });
        let partly = Verdict::AcceptedPartly { rejected: 3, message: String::new() };
        assert_eq!(step(&attempt(1, now), &partly, now), NextStep::Done { rejected: 3 });
    }

    #[test]
    fn no_more_can_be_rejected_than_were_sent() {
        let now = Instant::now();
        let partly = Verdict::AcceptedPartly { rejected: u64::MAX, message: String::new() };
        assert_eq!(step(&attempt(1, now), &partly, now), NextStep::Done { rejected: 10 });
    }

    #[test]
    fn refusals_are_dropped_at_once() {
        let now = Instant::now();
        let refused = Verdict::Refused { reason: String::new() };
        assert_eq!(step(&attempt(1, now), &refused, now), NextStep::DropRefused);
        let not_taken = Verdict::NotTaken { reason: String::new() };
        assert_eq!(step(&attempt(1, now), &not_taken, now), NextStep::DropRefused);
    }

    #[test]
    fn too_large_is_halved_down_to_one_record_and_then_dropped() {
        let now = Instant::now();
        let too_large = Verdict::TooLarge { reason: String::new() };
        assert_eq!(step(&attempt(1, now), &too_large, now), NextStep::Halve);
        let single = Attempt { records: 1, is_divisible: false, ..attempt(1, now) };
        assert_eq!(step(&single, &too_large, now), NextStep::DropTooLarge);
    }

    #[test]
    fn back_off_doubles_up_to_its_cap_and_never_overflows() {
        let now = Instant::now();
        let almost = |expected: Duration, number| match step(&attempt(number, now), &later(None), now) {
            NextStep::TryAgain { pause, asked_for: false } => {
                assert!(pause <= expected && pause > expected.mul_f64(0.999), "{number}: {pause:?}");
            }
            other => panic!("{other:?}"),
        };
        almost(Duration::from_millis(250), 1);
        almost(Duration::from_millis(500), 2);
        almost(Duration::from_secs(16), 7);
        almost(Duration::from_secs(30), 8);
        almost(Duration::from_secs(30), u32::MAX);
    }

    #[test]
    fn jitter_reaches_down_to_nothing() {
        let now = Instant::now();
        let unlucky = Attempt { random: 0, ..attempt(5, now) };
        let expected = NextStep::TryAgain { pause: Duration::ZERO, asked_for: false };
        assert_eq!(step(&unlucky, &later(None), now), expected);
    }

    #[test]
    fn what_the_server_asked_for_is_honoured_and_capped() {
        let now = Instant::now();
        for (asked, given) in [(0, 0), (2, 2), (60, 60), (1_000_000_000_000, 60)] {
            let verdict = later(Some(Duration::from_secs(asked)));
            let pause = Duration::from_secs(given);
            assert_eq!(step(&attempt(1, now), &verdict, now), NextStep::TryAgain { pause, asked_for: true });
        }
    }

    #[test]
    fn a_batch_is_given_up_when_its_time_is_up() {
        let now = Instant::now();
        let late = now + Duration::from_secs(300);
        assert_eq!(step(&attempt(9, now), &later(None), late), NextStep::GiveUp);
        let soon = now + Duration::from_secs(299);
        let verdict = later(Some(Duration::from_secs(2)));
        assert_eq!(step(&attempt(9, now), &verdict, soon), NextStep::GiveUp);
    }
}
