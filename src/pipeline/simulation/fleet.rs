//! Simulates a fleet of exporters whose collector returns after a long outage, and counts the requests per second after
//! this return, with and without the jitter of the back-off. Each simulated exporter consists only of the real throttle
//! and the real retry policy.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt::Write;
use std::time::{Duration, Instant};
use std::{env, fs};

use super::script::Dice;
use crate::config::{PaceSettings, RetrySettings};
use crate::pipeline::retry::{Attempt, NextStep, next_step};
use crate::pipeline::schedule::{NextRound, Throttle, Waiting};
use crate::transport::Verdict;

/// All programs start within this time, as in a deployment.
const STARTED_WITHIN: Duration = Duration::from_secs(1);
/// Time between two records of a program. Each program has a random phase.
const RECORD_EVERY: Duration = Duration::from_secs(10);
/// Number of seconds after the collector's return for which requests are counted.
const COUNTED: usize = 60;

struct Exporter {
    throttle: Throttle,
    /// Consecutive attempts that failed.
    failures: u32,
    /// Time at which the current batch is given up.
    give_up: Option<Instant>,
    /// Time of the first record that is not in the current batch.
    next_record: Instant,
    /// Time of the program's second record. All later records follow at regular intervals.
    phase: Instant,
}

impl Exporter {
    fn new(start: Instant, dice: &mut Dice) -> Self {
        let first = start + dice.time(STARTED_WITHIN);
        let phase = first + dice.time(RECORD_EVERY);
        let throttle = Throttle::new(PaceSettings::default());
        Self { throttle, failures: 0, give_up: None, next_record: first, phase }
    }

    /// Sends a request if one is due. Returns whether a request was sent, and when the next step is due.
    fn step(&mut self, now: Instant, verdict: &Verdict, random: u64) -> (bool, Instant) {
        let settings = RetrySettings::default();
        if self.give_up.is_none() {
            if let Some(then) = self.rests_until(now) {
                return (false, then);
            }
            self.throttle.round_starts(now);
            let made = now.saturating_duration_since(self.phase).as_secs() / RECORD_EVERY.as_secs();
            self.next_record = self.phase + RECORD_EVERY * (made as u32 + 1);
        }
        let deadline = *self.give_up.get_or_insert(now + settings.give_up_after);
        let number = self.failures + 1;
        let proxy_pause = Duration::ZERO;
        let attempt = Attempt {
            number,
            records: 1,
            is_divisible: false,
            deadline,
            is_last: false,
            random,
            proxy_pause,
        };
        let then = match next_step(&settings, &attempt, verdict, now) {
            NextStep::TryAgain(pause) => {
                self.failures = number;
                now + pause.time
            }
            NextStep::GiveUp(pause) => {
                (self.failures, self.give_up) = (number, None);
                now + pause.time
            }
            _ => {
                (self.failures, self.give_up) = (0, None);
                now
            }
        };
        (true, then)
    }

    /// Returns the time until which there is nothing to send; `None` if something is due.
    fn rests_until(&self, now: Instant) -> Option<Instant> {
        if now < self.next_record {
            return Some(self.next_record);
        }
        let waiting = Waiting { since: self.next_record, full_batch: false, pressing: false };
        match self.throttle.next_round(now, &waiting) {
            NextRound::Now => None,
            NextRound::ThrottledUntil(then) | NextRound::LingersUntil(then) => Some(then),
        }
    }
}

/// Returns the number of requests in each second after the collector has returned.
fn requests_after(outage: Duration, exporters: usize, has_jitter: bool) -> [u32; COUNTED] {
    let (mut dice, start) = (Dice::new(1), Instant::now());
    let mut fleet: Vec<_> = (0..exporters).map(|_| Exporter::new(start, &mut dice)).collect();
    let mut due: BinaryHeap<_> = (0..exporters).map(|at| Reverse((fleet[at].next_record, at))).collect();
    let back = start + outage;
    let mut requests = [0; COUNTED];
    let down = Verdict::Unreachable { reason: String::new() };
    while let Some(Reverse((now, at))) = due.pop() {
        let second = now.saturating_duration_since(back).as_secs() as usize;
        if second >= COUNTED {
            break;
        }
        let is_back = now >= back;
        let verdict = if is_back { &Verdict::Accepted } else { &down };
        let (has_sent, then) = fleet[at].step(now, verdict, if has_jitter { dice.bits() } else { u64::MAX });
        requests[second] += u32::from(has_sent && is_back);
        due.push(Reverse((then, at)));
    }
    requests
}

fn peak(requests: &[u32]) -> u32 {
    requests.iter().copied().max().unwrap_or_default()
}

/// Draws the curves as text, one bar per second.
fn text(curves: &[(&str, [u32; COUNTED])]) -> String {
    let highest = curves.iter().map(|(_, requests)| peak(requests)).max().unwrap_or(1).max(1);
    let mut text = String::new();
    for (name, requests) in curves {
        let _ = writeln!(text, "{name}: at most {} requests in a second", peak(requests));
        for (second, requests) in requests.iter().enumerate() {
            let bar = "█".repeat((requests * 80).div_ceil(highest) as usize);
            let _ = writeln!(text, "{second:>3} s {requests:>6} {bar}");
        }
    }
    text
}

/// Draws the curves as a picture, one below the other.
fn svg(curves: &[(&str, [u32; COUNTED])]) -> String {
    let highest = curves.iter().map(|(_, requests)| peak(requests)).max().unwrap_or(1).max(1);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" font-size=\"14\">\n",
        COUNTED * 12 + 40,
        curves.len() * 240,
    );
    for (number, (name, requests)) in curves.iter().enumerate() {
        let bottom = number * 240 + 220;
        let _ = writeln!(
            svg,
            "<text x=\"20\" y=\"{}\">{name}: at most {} requests in a second</text>",
            bottom - 204,
            peak(requests)
        );
        for (second, requests) in requests.iter().enumerate() {
            let height = (requests * 190).div_ceil(highest);
            let (left, top) = (20 + second * 12, bottom - height as usize);
            let _ = writeln!(
                svg,
                "<rect x=\"{left}\" y=\"{top}\" width=\"10\" height=\"{height}\" fill=\"#3366aa\"/>"
            );
        }
    }
    svg + "</svg>\n"
}

#[test]
fn the_jitter_keeps_a_fleet_from_returning_all_at_once() {
    let file = env::var_os("SIMULATION_FLEET");
    // Without the variable, simulate a smaller fleet, to be fast.
    let (exporters, outage) = if file.is_some() { (10_000, 3_600) } else { (1_000, 600) };
    let curve = |has_jitter| requests_after(Duration::from_secs(outage), exporters, has_jitter);
    let curves = [("with jitter", curve(true)), ("without jitter", curve(false))];
    if let Some(file) = file {
        println!("{exporters} exporters, a collector that was down for {outage} s and is back at 0 s");
        print!("{}", text(&curves));
        fs::write(file, svg(&curves)).expect("the picture is written");
    }
    let [with, without] = curves.map(|(_, requests)| peak(&requests));
    assert!(4 * with < without, "at most {with} requests in a second with jitter, {without} without");
}
