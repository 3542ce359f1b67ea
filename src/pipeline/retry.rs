//! The retry policy: maps a verdict to the next step (done, try again, divide, drop, or give up). Pure: no I/O, no
//! clock.
//!
//! Delays follow exponential back-off with full jitter. If the server names a delay (`Retry-After`, `RetryInfo`), the
//! longer of the two delays applies. After the first attempt only, the server's delay applies even if it is shorter.
//!
//! This module does not decide which answers of a collector may be retried: the transport turns each answer into a
//! [`Verdict`]. The list of retryable HTTP statuses is `RETRYABLE` in `transport/response/mod.rs`, and that of gRPC
//! statuses is `RETRYABLE` in `transport/grpc/status.rs`.

use std::time::{Duration, Instant};

use crate::config::RetrySettings;
use crate::transport::Verdict;

/// First pause of an exporter whose proxy refused it (407). Each consecutive refusal doubles the pause, up to
/// [`MAX_PROXY_PAUSE`].
const FIRST_PROXY_PAUSE: Duration = Duration::from_secs(60);
/// Longest pause after a refusal by the proxy.
pub(super) const MAX_PROXY_PAUSE: Duration = Duration::from_secs(600);

/// The worker's next step with a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextStep {
    /// The collector has accepted the batch, except for this number of rejected records, which may be 0.
    Done { rejected: u64 },
    /// Send the same batch again after a pause.
    TryAgain(Pause),
    /// Send the same records in two smaller requests.
    Divide,
    /// Drop a single record that is too large for the collector.
    DropTooLarge,
    /// Drop the batch: the collector refused it with a status that must not be retried.
    DropRefused,
    /// Drop the batch, because its time is up. The pause delays the next batch.
    GiveUp(Pause),
}

/// A pause in the sending of one signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pause {
    pub(crate) time: Duration,
    /// True if a flush must not shorten the pause: the server asked for it, the proxy refused the exporter, the spool
    /// cannot be read, or the worker waits for a caller that has reserved room but not appended its record yet.
    pub(crate) by_server: bool,
    /// True if the batch's time is up when the pause ends. One last attempt follows.
    pub(crate) is_last: bool,
}

/// The attempt after which [`next_step`] decides what to do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attempt {
    /// Number of consecutive attempts of this signal, including this one, that did not reach the server, that a proxy
    /// refused, or that the server answered with "try again later".
    pub(crate) number: u32,
    pub(crate) records: u64,
    /// Whether the batch can be divided into smaller requests.
    pub(crate) is_divisible: bool,
    /// Time at which the batch is given up.
    pub(crate) deadline: Instant,
    /// Whether this was the last attempt, made at the end of the batch's time.
    pub(crate) is_last: bool,
    /// Uniformly distributed random bits for the jitter.
    pub(crate) random: u64,
    /// Remaining time of the exporter's [`ProxyPause`].
    pub(crate) proxy_pause: Duration,
}

/// The pause of a whole exporter after its proxy refused it. No signal is sent before the end of the pause, since
/// each attempt would repeat the refused password.
#[derive(Debug, Default)]
pub(crate) struct ProxyPause {
    until: Option<Instant>,
    /// Length of the last pause; zero before the first, and once an attempt shows that the proxy lets requests through.
    length: Duration,
}

impl ProxyPause {
    /// Begins a pause if the proxy refused an attempt. Resets the length if the proxy let the attempt through.
    pub(crate) fn note(&mut self, verdict: &Verdict, now: Instant) {
        match verdict {
            Verdict::ProxyRefused { .. } => {
                self.length = (self.length * 2).clamp(FIRST_PROXY_PAUSE, MAX_PROXY_PAUSE);
                self.until = Some(now + self.length);
            }
            // These verdicts do not show that the proxy lets the exporter through.
            Verdict::TryLater { .. } | Verdict::Unreachable { .. } => {}
            _ => self.length = Duration::ZERO,
        }
    }

    /// Returns the remaining time of the pause, or zero.
    pub(crate) fn left(&self, now: Instant) -> Duration {
        self.until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
    }
}

/// Decides what to do with a batch after an attempt that ended with `verdict`.
pub(crate) fn next_step(
    settings: &RetrySettings,
    attempt: &Attempt,
    verdict: &Verdict,
    now: Instant,
) -> NextStep {
    let requested = match verdict {
        Verdict::Accepted => return NextStep::Done { rejected: 0 },
        Verdict::AcceptedPartly { rejected, .. } => {
            // A server may claim to have rejected more records than it received.
            return NextStep::Done { rejected: (*rejected).min(attempt.records) };
        }
        Verdict::Refused { .. } | Verdict::NotTaken { .. } => return NextStep::DropRefused,
        Verdict::TooLarge { .. } if attempt.is_divisible => return NextStep::Divide,
        Verdict::TooLarge { .. } => return NextStep::DropTooLarge,
        Verdict::TryLater { after, .. } => *after,
        Verdict::Unreachable { .. } | Verdict::ProxyRefused { .. } => None,
    };
    let requested = requested.map(|requested| requested.min(settings.max_retry_after));
    let back_off = back_off(settings, attempt);
    // The pause that the server asked for, or the back-off if that is longer. Between the first and the second attempt,
    // the server's pause is used even if it is shorter than the back-off, or zero. If the server asks for a zero pause
    // again, the back-off applies: otherwise the server would get thousands of requests per second.
    let (time, by_server) = match requested {
        _ if matches!(verdict, Verdict::ProxyRefused { .. }) => (attempt.proxy_pause, true),
        Some(requested) if requested >= back_off || attempt.number <= 1 => (requested, true),
        _ => (back_off, false),
    };
    let pause = Pause { time, by_server, is_last: false };
    let left = attempt.deadline.saturating_duration_since(now);
    if attempt.is_last || left.is_zero() {
        return NextStep::GiveUp(pause);
    }
    match pause.time < left {
        true => NextStep::TryAgain(pause),
        // The server's or the proxy's pause outlasts the batch. The batch waits for its remaining time, and one last
        // attempt follows.
        false if pause.by_server => NextStep::TryAgain(Pause { time: left, is_last: true, ..pause }),
        false => NextStep::GiveUp(pause),
    }
}

/// Returns an exponential back-off with full jitter: a random time between zero and the exponential step. So a
/// thousand programs that lost the same collector do not return at the same moment.
fn back_off(settings: &RetrySettings, attempt: &Attempt) -> Duration {
    let doublings = attempt.number.saturating_sub(1).min(31);
    let step = settings.first_delay.saturating_mul(1 << doublings).min(settings.max_delay);
    // An `f64` represents 53 bits exactly, so the upper 53 bits become a number in 0..1.
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
            is_last: false,
            random: u64::MAX,
            proxy_pause: Duration::ZERO,
        }
    }

    fn later(after: Option<Duration>) -> Verdict {
        Verdict::TryLater { after, reason: String::new() }
    }

    fn asked(time: Duration) -> Pause {
        Pause { time, by_server: true, is_last: false }
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
    fn too_large_is_divided_down_to_one_record_and_then_dropped() {
        let now = Instant::now();
        let too_large = Verdict::TooLarge { reason: String::new() };
        assert_eq!(step(&attempt(1, now), &too_large, now), NextStep::Divide);
        let single = Attempt { records: 1, is_divisible: false, ..attempt(1, now) };
        assert_eq!(step(&single, &too_large, now), NextStep::DropTooLarge);
    }

    #[test]
    fn back_off_doubles_up_to_its_cap_and_never_overflows() {
        let now = Instant::now();
        let almost = |expected: Duration, number| match step(&attempt(number, now), &later(None), now) {
            NextStep::TryAgain(Pause { time: pause, by_server: false, .. }) => {
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
        let pause = Pause { time: Duration::ZERO, by_server: false, is_last: false };
        let expected = NextStep::TryAgain(pause);
        assert_eq!(step(&unlucky, &later(None), now), expected);
    }

    #[test]
    fn what_the_server_asked_for_is_honoured_and_capped() {
        let now = Instant::now();
        for (requested, given) in [(0, 0), (2, 2), (60, 60), (1_000_000_000_000, 60)] {
            let verdict = later(Some(Duration::from_secs(requested)));
            let pause = asked(Duration::from_secs(given));
            assert_eq!(step(&attempt(1, now), &verdict, now), NextStep::TryAgain(pause));
        }
    }

    #[test]
    fn a_wish_for_no_pause_is_honoured_once() {
        let now = Instant::now();
        let at_once = later(Some(Duration::ZERO));
        assert_eq!(step(&attempt(1, now), &at_once, now), NextStep::TryAgain(asked(Duration::ZERO)));
        let NextStep::TryAgain(second) = step(&attempt(2, now), &at_once, now) else { panic!("no pause") };
        let NextStep::TryAgain(usual) = step(&attempt(2, now), &later(None), now) else { panic!("no pause") };
        assert_eq!(second, usual, "a flush may cut it short, as the server does not mind");
        assert!(second.time > Duration::from_millis(400), "{second:?}");
        let long = Duration::from_secs(20);
        assert_eq!(step(&attempt(2, now), &later(Some(long)), now), NextStep::TryAgain(asked(long)));
    }

    #[test]
    fn a_batch_is_given_up_when_its_time_is_up() {
        let now = Instant::now();
        let late = now + Duration::from_secs(300);
        assert!(matches!(step(&attempt(9, now), &later(None), late), NextStep::GiveUp(_)));
        let two_seconds = Duration::from_secs(2);
        let given_up = step(&attempt(9, now), &later(Some(two_seconds)), late + two_seconds);
        assert!(matches!(given_up, NextStep::GiveUp(_)), "{given_up:?}");
    }

    #[test]
    fn a_back_off_that_would_end_too_late_is_not_waited_for() {
        let now = Instant::now();
        let soon = now + Duration::from_secs(299);
        assert!(matches!(step(&attempt(9, now), &later(None), soon), NextStep::GiveUp(_)));
    }

    #[test]
    fn a_wish_beyond_the_batchs_time_is_cut_to_what_is_left_and_followed_by_one_last_attempt() {
        let now = Instant::now();
        let soon = now + Duration::from_secs(280);
        let verdict = later(Some(Duration::from_secs(60)));
        let cut = Pause { time: Duration::from_secs(20), by_server: true, is_last: true };
        assert_eq!(step(&attempt(9, now), &verdict, soon), NextStep::TryAgain(cut));
        let last = Attempt { is_last: true, ..attempt(10, now) };
        let requested = asked(Duration::from_secs(60));
        assert_eq!(step(&last, &verdict, soon + cut.time), NextStep::GiveUp(requested), "for the next batch");
        assert_eq!(step(&last, &Verdict::Accepted, soon), NextStep::Done { rejected: 0 });
    }

    #[test]
    fn doubles_the_proxy_pause_from_one_minute_to_ten_until_a_server_answers() {
        let refused = Verdict::ProxyRefused { reason: String::new() };
        let mut pause = ProxyPause::default();
        let mut now = Instant::now();
        assert_eq!(pause.left(now), Duration::ZERO);
        for minutes in [1, 2, 4, 8, 10, 10] {
            pause.note(&refused, now);
            let time = Duration::from_secs(60 * minutes);
            assert_eq!(pause.left(now), time);
            assert_eq!(pause.left(now + time), Duration::ZERO);
            // Neither an outage nor a time-out shows that the proxy lets the exporter through.
            now += time;
            pause.note(&later(None), now);
        }
        pause.note(&Verdict::Accepted, now);
        pause.note(&refused, now);
        assert_eq!(pause.left(now), Duration::from_secs(60));
    }

    #[test]
    fn keeps_a_batch_for_its_whole_time_and_no_longer_while_the_proxy_pauses() {
        let now = Instant::now();
        let refused = Verdict::ProxyRefused { reason: String::new() };
        let paused =
            |minutes: u64| Attempt { proxy_pause: Duration::from_secs(60 * minutes), ..attempt(1, now) };
        assert_eq!(step(&paused(2), &refused, now), NextStep::TryAgain(asked(Duration::from_secs(120))));
        // The pause is cut at the `give-up-after` of five minutes, because the batch is not sent later than that.
        let cut = Pause { time: Duration::from_secs(300), by_server: true, is_last: true };
        assert_eq!(step(&paused(8), &refused, now), NextStep::TryAgain(cut));
        let last = Attempt { is_last: true, ..paused(3) };
        let rest = asked(Duration::from_secs(180));
        assert_eq!(step(&last, &refused, now + cut.time), NextStep::GiveUp(rest));
    }
}
