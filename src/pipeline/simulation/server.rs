//! The simulated network and the server behind it, which counts what it takes, and checks what arrives and when.

use std::panic::resume_unwind;
use std::time::{Duration, Instant};

use super::script::{Dice, Fault, Phase, SCOPES, Settings};
use crate::record::wire::decode_varint;
use crate::record::{Signal, frames};
use crate::transport::Verdict;

const SCOPE_RECORDS: u8 = 0x12;
const RECORD: u8 = 0x12;

/// How long an answer usually takes at most.
const USUAL: Duration = Duration::from_millis(5);

/// All that is known of the records of one signal outside of the pipeline.
#[derive(Debug, Default)]
pub(super) struct Book {
    /// By their numbers.
    records: Vec<Record>,
    /// Records as far as this number have arrived, and when the last of them did so for the first time.
    seen: usize,
    seen_at: Option<Instant>,
    /// Records of each scope below this number must not come again: the pipeline has an answer about them, or about later ones.
    answered: [usize; SCOPES.len()],
    /// How many had each end that the pipeline knows of.
    pub(super) delivered: u64,
    pub(super) rejected: u64,
    pub(super) refused: u64,
    pub(super) panicked: u64,
    /// Too large, though alone in their request.
    pub(super) too_large: u64,
    /// Attempts, and those that led to no answer but "later".
    pub(super) attempts: u64,
    pub(super) later: u64,
    /// Those that led to "later" before the stop, and the time that attempts have had of the stop.
    pub(super) later_before_stop: u64,
    pub(super) time_in_stop: Duration,
    /// Whether records may come in another order: a disk that fails must not hold up what is in memory.
    pub(super) is_lenient: bool,
    /// The last moment at which a round might begin whatever the throttle is.
    pub(super) hurried: Option<Instant>,
}

#[derive(Debug)]
struct Record {
    made: Instant,
    scope: usize,
    is_answered: bool,
    /// Others may have overtaken it on the disk: its caller has waited, or its request was divided, whose rest goes behind what is
    /// there when the program ends.
    is_overtaken: bool,
}

/// What becomes of a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reply {
    fault: Fault,
    pub(super) after: Duration,
    /// Of the records, in percent.
    rejected: u64,
}

impl Reply {
    /// What the weather does to a request.
    pub(super) fn new(dice: &mut Dice, phase: Option<&Phase>, signal: Signal, settings: &Settings) -> Self {
        let fault = phase.filter(|phase| dice.chance(phase.share));
        let fault = fault.map_or(Fault::None, |phase| phase.faults[signal as usize]);
        let after = match fault {
            Fault::Slow => 2 * settings.attempt_timeout,
            Fault::LostAnswer => settings.attempt_timeout,
            _ => USUAL,
        };
        Self { fault, after: dice.time(after), rejected: dice.pick(&[0, 30, 100, 150]) }
    }
}

impl Book {
    /// The number of a record that is made now.
    pub(super) fn add(&mut self, made: Instant, scope: usize) -> u64 {
        self.records.push(Record { made, scope, is_answered: false, is_overtaken: false });
        self.records.len() as u64 - 1
    }

    /// Others may come before these records.
    pub(super) fn let_overtake(&mut self, numbers: &[usize]) {
        numbers.iter().for_each(|number| self.records[*number].is_overtaken = true);
    }

    /// The program was killed: what it had not noted as settled comes again.
    pub(super) fn forget_order(&mut self) {
        (self.seen, self.seen_at, self.answered) = (0, None, [0; SCOPES.len()]);
    }

    /// Records that the server has answered about, whatever the answer was.
    pub(super) fn answered(&self) -> u64 {
        self.records.iter().filter(|record| record.is_answered).count() as u64
    }

    /// A request has arrived, with these records.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn arrive(
        &mut self,
        numbers: &[usize],
        now: Instant,
        throttle: Duration,
    ) -> Result<(), String> {
        self.attempts += 1;
        let last = *numbers.iter().max().ok_or("a request without records")?;
        let has_twice = numbers.iter().enumerate().any(|(at, number)| numbers[..at].contains(number));
        if last >= self.records.len() || has_twice {
            return Err(format!("records twice in a request, or never made: {numbers:?}"));
        }
        if self.is_lenient {
            return Ok(());
        }
        let in_order = numbers.iter().copied().filter(|number| !self.records[*number].is_overtaken);
        let mut numbers: Vec<_> = in_order.collect();
        let is_sorted =
            |scope: usize| numbers.iter().filter(|number| self.records[**number].scope == scope).is_sorted();
        if !(0..SCOPES.len()).all(is_sorted) {
            return Err(format!("records of a scope are out of order: {numbers:?}"));
        }
        numbers.sort_unstable();
        let (Some(first), Some(last)) = (numbers.first().copied(), numbers.last().copied()) else {
            return Ok(());
        };
        let is_answered = |number: &&usize| **number < self.answered[self.records[**number].scope];
        if let Some(number) = numbers.iter().find(is_answered) {
            return Err(format!("record {number} comes after an answer about it or a later one"));
        }
        if last < self.seen {
            return Ok(());
        }
        if first < self.seen {
            return Err(format!("record {first} comes again in another request"));
        }
        self.check_throttle(self.records[last].made, now, throttle)?;
        self.seen = last + 1;
        self.seen_at = Some(now);
        Ok(())
    }

    /// A record that was made after others had arrived is of a later round than they. Their round cannot have begun before the last
    /// of them was made, nor this one's after now.
    fn check_throttle(&self, newest: Instant, now: Instant, throttle: Duration) -> Result<(), String> {
        let (Some(seen_at), Some(before)) = (self.seen_at, self.seen.checked_sub(1)) else { return Ok(()) };
        let earliest = self.records[before].made;
        let is_hurried = self.hurried.is_some_and(|hurried| hurried >= earliest);
        if newest > seen_at && now < earliest + throttle && !is_hurried {
            return Err(format!("a round {:?} after the one before, without need", now - earliest));
        }
        Ok(())
    }

    /// The answer to a request: its verdict, once the books are kept. `is_late` if it did not come in time.
    pub(super) fn reply(&mut self, reply: Reply, is_late: bool, numbers: &[usize], bytes: usize) -> Verdict {
        let (count, reason) = (numbers.len() as u64, || format!("{:?}", reply.fault));
        let later = |after| Verdict::TryLater { after, reason: reason() };
        let verdict = match reply.fault {
            _ if is_late => later(None),
            Fault::LostAnswer => later(None),
            Fault::Later(after) => later(after),
            Fault::Unreachable => Verdict::Unreachable { reason: reason() },
            Fault::ProxyRefused => Verdict::ProxyRefused { reason: reason() },
            Fault::TooLarge(most) if bytes > most => Verdict::TooLarge { reason: reason() },
            Fault::Refused => Verdict::Refused { reason: reason() },
            Fault::NotTaken => Verdict::NotTaken { reason: reason() },
            // a server may claim to have rejected more than it was sent
            Fault::Partial => {
                Verdict::AcceptedPartly { rejected: count * reply.rejected / 100, message: reason() }
            }
            Fault::Panic | Fault::None | Fault::Slow | Fault::TooLarge(_) => Verdict::Accepted,
        };
        match &verdict {
            Verdict::TryLater { .. } | Verdict::Unreachable { .. } | Verdict::ProxyRefused { .. } => {
                self.later += 1;
                return verdict;
            }
            Verdict::TooLarge { .. } if count > 1 => return verdict,
            Verdict::TooLarge { .. } => self.too_large += count,
            Verdict::Refused { .. } | Verdict::NotTaken { .. } => self.refused += count,
            Verdict::Accepted if reply.fault == Fault::Panic => self.panicked += count,
            Verdict::Accepted => self.delivered += count,
            Verdict::AcceptedPartly { rejected, .. } => {
                self.rejected += count.min(*rejected);
                self.delivered += count.saturating_sub(*rejected);
            }
        }
        for number in numbers {
            self.records[*number].is_answered = true;
            self.answered[self.records[*number].scope] = number + 1;
        }
        if reply.fault == Fault::Panic {
            // without the message of a panic
            resume_unwind(Box::new("on purpose"));
        }
        verdict
    }
}

/// The numbers of the records in a request, as they come; `None` if it cannot be read.
pub(super) fn numbers(body: &[u8]) -> Option<Vec<usize>> {
    let mut numbers = Vec::new();
    for resource in frames(body) {
        for scope in frames(content(resource)?).filter(|field| field[0] == SCOPE_RECORDS) {
            for record in frames(content(scope)?).filter(|field| field[0] == RECORD) {
                let number = content(content(record)?)?.get(..8)?;
                numbers.push(std::str::from_utf8(number).ok()?.parse().ok()?);
            }
        }
    }
    Some(numbers)
}

/// What is in a field.
fn content(mut field: &[u8]) -> Option<&[u8]> {
    field = field.get(1..)?;
    let len = decode_varint(&mut field)?;
    (len == field.len() as u64).then_some(field)
}
