//! The simulated server: answers requests, counts their records by outcome, and checks their order and timing.

use std::panic::resume_unwind;
use std::time::{Duration, Instant};

use super::script::{Dice, Fault, Phase, SCOPES, Settings};
use crate::record::wire::decode_varint;
use crate::record::{Signal, frames};
use crate::transport::Verdict;

const SCOPE_RECORDS: u8 = 0x12;
const RECORD: u8 = 0x12;

/// Longest time until an answer arrives, if there is no fault.
const USUAL: Duration = Duration::from_millis(5);

/// The records of one signal and their outcomes, as the server knows them. The ledger is compared with these counts.
#[derive(Debug, Default)]
pub(super) struct Book {
    /// All records, indexed by their numbers.
    records: Vec<Record>,
    /// Number of records up to the newest one that has arrived: the highest number plus one, or 0. `seen_at` is the
    /// time when that record first arrived.
    seen: usize,
    seen_at: Option<Instant>,
    /// For each scope: records below this number must not arrive again, because the pipeline has an answer for them or
    /// for later records.
    answered: [usize; SCOPES.len()],
    /// Number of records by the outcome that the server reported.
    pub(super) delivered: u64,
    pub(super) rejected: u64,
    pub(super) refused: u64,
    pub(super) panicked: u64,
    /// Records that were too large although each was alone in its request.
    pub(super) too_large: u64,
    /// Number of attempts, and of those that must be repeated: no answer, "try again later", or refused by the proxy.
    pub(super) attempts: u64,
    pub(super) later: u64,
    /// Value of `later` when the stop began, and the time that attempts have used since.
    pub(super) later_before_stop: u64,
    pub(super) time_in_stop: Duration,
    /// True if records may arrive out of order: while the disk fails, records in memory are sent before those on
    /// disk.
    pub(super) is_lenient: bool,
    /// Last time at which the program had a reason to begin a round before the end of the throttle, such as a nearly
    /// full queue.
    pub(super) hurried: Option<Instant>,
}

#[derive(Debug)]
struct Record {
    made: Instant,
    scope: usize,
    is_answered: bool,
    /// True if later records may arrive first: the caller of this record had to wait, or the record's request was
    /// divided. At the end of the program, the rest of a divided request is appended to the spool.
    is_overtaken: bool,
}

/// The server's reply to a request, chosen when the request arrives.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reply {
    fault: Fault,
    pub(super) after: Duration,
    /// Percentage of the records that are rejected.
    rejected: u64,
}

impl Reply {
    /// Decides on the reply to a request in a phase of the script.
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
    /// Adds a record that is made now, and returns its number.
    pub(super) fn add(&mut self, made: Instant, scope: usize) -> u64 {
        self.records.push(Record { made, scope, is_answered: false, is_overtaken: false });
        self.records.len() as u64 - 1
    }

    /// Allows later records to arrive before these.
    pub(super) fn let_overtake(&mut self, numbers: &[usize]) {
        numbers.iter().for_each(|number| self.records[*number].is_overtaken = true);
    }

    /// Forgets the order of arrival, because another program follows: records that the first one did not note on disk
    /// as settled arrive again.
    pub(super) fn forget_order(&mut self) {
        (self.seen, self.seen_at, self.answered) = (0, None, [0; SCOPES.len()]);
    }

    /// Returns the number of records that have an answer of any kind.
    pub(super) fn answered(&self) -> u64 {
        self.records.iter().filter(|record| record.is_answered).count() as u64
    }

    /// Checks a request that has arrived with these records.
    ///
    /// # Errors
    /// Returns a description if the records, their order or their time are wrong.
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

    /// Checks that two rounds are at least the throttle apart. A record that was made after others had arrived belongs
    /// to a later round. The earlier round cannot have begun before its last record was made, and the later round has
    /// begun by now.
    fn check_throttle(&self, newest: Instant, now: Instant, throttle: Duration) -> Result<(), String> {
        let (Some(seen_at), Some(before)) = (self.seen_at, self.seen.checked_sub(1)) else { return Ok(()) };
        let earliest = self.records[before].made;
        let is_hurried = self.hurried.is_some_and(|hurried| hurried >= earliest);
        if newest > seen_at && now < earliest + throttle && !is_hurried {
            return Err(format!("a round {:?} after the one before, without need", now - earliest));
        }
        Ok(())
    }

    /// Counts the records of a request by their outcome, and returns the verdict. `is_late` means that the answer is
    /// not in time.
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
            // May exceed `count`: a server may claim to have rejected more records than it received.
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
            // Panics without calling the panic hook, which would print a message.
            resume_unwind(Box::new("on purpose"));
        }
        verdict
    }
}

/// Returns the numbers of the records in a request, in their order; `None` if the request is malformed.
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

/// Returns the content of a length-delimited field.
fn content(mut field: &[u8]) -> Option<&[u8]> {
    field = field.get(1..)?;
    let len = decode_varint(&mut field)?;
    (len == field.len() as u64).then_some(field)
}
