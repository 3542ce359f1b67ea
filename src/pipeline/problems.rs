//! Reports problems at run time by calling the program's hook, rate-limited per kind and signal. The library never
//! prints.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::context::{self, Owner};
use crate::escape::{escape_all_but, shows_itself};
use crate::pipeline::clock;
use crate::problem::{Note, Problem, ProblemHook, ProblemKind};
use crate::process::{Driver, contain_panic, lock, spawn};
use crate::record::Signal;

/// Each kind of problem of a signal is reported at most once per period.
const PERIOD: Duration = Duration::from_secs(60);
/// Maximum number of problems that are held back.
const MAX_HELD: usize = 1000;

/// Rate limiter: lets each kind of problem of a signal pass once per period, and counts the occurrences in between.
#[derive(Debug, Default)]
struct Gate([[Held; ProblemKind::COUNT]; Signal::COUNT]);

#[derive(Debug, Clone, Copy, Default)]
struct Held {
    last_reported: Option<Instant>,
    /// Occurrences since the last report.
    since: u64,
}

impl Gate {
    /// Counts an occurrence. If a report is due, returns the number of occurrences since the last report.
    fn pass(&mut self, signal: Signal, kind: ProblemKind, now: Instant) -> Option<u64> {
        let held = &mut self.0[signal as usize][kind as usize];
        held.since += 1;
        if held.last_reported.is_some_and(|reported| now.saturating_duration_since(reported) < PERIOD) {
            return None;
        }
        held.last_reported = Some(now);
        Some(std::mem::take(&mut held.since))
    }
}

/// Calls the program's hook on a thread of the exporter or, if callers drive the exporter, on the driving caller's
/// thread.
#[derive(Default)]
pub(crate) struct ProblemReporter {
    exporter: String,
    hook: Option<ProblemHook>,
    /// The telemetry whose records are suppressed while the hook runs; `None` in tests.
    owner: Option<Owner>,
    gate: Mutex<Gate>,
    /// The threads that call the hook.
    pub(crate) driver: Driver,
    /// Problems that are reported later, by [`report_held`](Self::report_held).
    held: Mutex<Vec<Problem>>,
    /// True while all problems are held back.
    holds_back: AtomicBool,
    /// For each signal, true after a report that the collector does not accept it, until the collector accepts it.
    not_taken: [AtomicBool; Signal::COUNT],
}

impl ProblemReporter {
    pub(crate) fn new(exporter: &str, hook: Option<ProblemHook>, owner: Option<Owner>) -> Self {
        Self { exporter: exporter.to_owned(), hook, owner, ..Self::default() }
    }

    /// Starts or stops holding back problems.
    pub(crate) fn hold_back(&self, holds_back: bool) {
        self.holds_back.store(holds_back, Ordering::Relaxed);
    }

    /// Reports the problems that were held back, unless problems are still being held back.
    pub(crate) fn report_held(&self) {
        if !self.holds_back.load(Ordering::Relaxed) {
            let held = std::mem::take(&mut *lock(&self.held));
            held.iter().for_each(|problem| self.call_hook(problem));
        }
    }

    /// Reports a problem, at most once per period. `message` is called only if the problem is reported.
    pub(crate) fn report(&self, signal: Signal, kind: ProblemKind, message: impl FnOnce() -> String) {
        if let Some(occurrences) = self.pass(signal, kind) {
            self.pass_on(self.problem(Some(signal), kind, &message(), occurrences));
        }
    }

    /// Like [`report`](Self::report), for a thread of the program. This thread may hold a lock that the hook needs, so
    /// the hook is called on a new thread. If the program drives the exporter, the hook is called later.
    pub(crate) fn report_from_caller(
        self: &Arc<Self>,
        signal: Signal,
        kind: ProblemKind,
        message: impl FnOnce() -> String,
    ) {
        let Some(occurrences) = self.pass(signal, kind) else { return };
        let problem = self.problem(Some(signal), kind, &message(), occurrences);
        if self.driver == Driver::Caller {
            return self.hold(problem);
        }
        let reporter = Arc::clone(self);
        // If no thread can be started, the problem is not reported: emitting a record never fails.
        let _ = spawn(format!("standpipe-{}", self.exporter), move || {
            reporter.owner.into_iter().for_each(context::export_for);
            context::suppress_for_ever();
            reporter.call_hook(&problem);
        });
    }

    /// Counts an occurrence. Returns the number of occurrences to report, if there is a hook and the period is over.
    fn pass(&self, signal: Signal, kind: ProblemKind) -> Option<u64> {
        self.hook.as_ref()?;
        lock(&self.gate).pass(signal, kind, clock::now())
    }

    /// Reports a problem without the rate limit, for problems that occur once.
    pub(crate) fn report_once(&self, signal: impl Into<Option<Signal>>, kind: ProblemKind, message: String) {
        self.pass_on(self.problem(signal.into(), kind, &message, 1));
    }

    /// Reports a note of the spool, without the rate limit.
    pub(crate) fn report_note(&self, Note { message, is_unaccounted }: Note) {
        // No signal is named, because a file of a spool may hold records of several signals.
        let problem = self.problem(None, ProblemKind::Spool, &message, 1);
        self.pass_on(Problem { is_unaccounted, ..problem });
    }

    /// Reports that the collector does not accept a signal. Does so only once until [`note_taken`](Self::note_taken),
    /// because the cause is a setting.
    pub(crate) fn report_not_taken(&self, signal: Signal, reason: &str) {
        if !self.not_taken[signal as usize].swap(true, Ordering::Relaxed) {
            let name = signal.name();
            let advice = format!("correct the endpoint or switch {name} off for this exporter");
            let message = format!("collector does not accept {name}, {advice}: {reason}");
            self.report_once(signal, ProblemKind::NotTaken, message);
        }
    }

    /// Notes that the collector accepts the signal, so that a later rejection of the signal is reported again.
    pub(crate) fn note_taken(&self, signal: Signal) {
        self.not_taken[signal as usize].store(false, Ordering::Relaxed);
    }

    fn problem(&self, signal: Option<Signal>, kind: ProblemKind, message: &str, occurrences: u64) -> Problem {
        let message = escape_all_but(shows_itself, message).into_owned();
        Problem { exporter: self.exporter.clone(), kind, signal, message, occurrences, is_unaccounted: false }
    }

    fn pass_on(&self, problem: Problem) {
        if self.holds_back.load(Ordering::Relaxed) { self.hold(problem) } else { self.call_hook(&problem) }
    }

    fn hold(&self, problem: Problem) {
        let mut held = lock(&self.held);
        if held.len() < MAX_HELD {
            held.push(problem);
        }
    }

    fn call_hook(&self, problem: &Problem) {
        let Some(hook) = &self.hook else { return };
        // A panic of the hook must not lose a batch.
        let _ = contain_panic(|| context::in_program(|| hook(problem)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACES: Signal = Signal::Traces;

    #[test]
    fn a_kind_is_reported_once_per_period_with_its_count() {
        let start = Instant::now();
        let mut gate = Gate::default();
        assert_eq!(gate.pass(TRACES, ProblemKind::Refused, start), Some(1));
        assert_eq!(gate.pass(TRACES, ProblemKind::Refused, start + Duration::from_secs(1)), None);
        assert_eq!(gate.pass(TRACES, ProblemKind::Refused, start + Duration::from_secs(59)), None);
        assert_eq!(gate.pass(TRACES, ProblemKind::Refused, start + Duration::from_secs(60)), Some(3));
    }

    #[test]
    fn kinds_do_not_hold_each_other_back() {
        let now = Instant::now();
        let mut gate = Gate::default();
        assert_eq!(gate.pass(TRACES, ProblemKind::Refused, now), Some(1));
        assert_eq!(gate.pass(TRACES, ProblemKind::WorkerPanicked, now), Some(1));
    }

    #[test]
    fn signals_do_not_hold_each_other_back() {
        let now = Instant::now();
        let mut gate = Gate::default();
        for signal in Signal::ALL {
            assert_eq!(gate.pass(signal, ProblemKind::Refused, now), Some(1), "{signal:?}");
        }
    }

    #[test]
    fn that_a_signal_is_not_taken_is_reported_once_until_it_was_taken() {
        let (send, reported) = std::sync::mpsc::channel();
        let hook: ProblemHook = Arc::new(move |problem| send.send(problem.to_string()).unwrap());
        let reporter = ProblemReporter::new("otlp", Some(hook), None);
        let reason = "post http://localhost/v1/logs: 404 Not Found";
        let logs = "exporter otlp: collector does not accept logs, correct the endpoint or switch logs off for this exporter: \
                    post http://localhost/v1/logs: 404 Not Found";
        for _ in 0..3 {
            reporter.report_not_taken(Signal::Logs, reason);
            reporter.note_taken(Signal::Traces);
        }
        assert_eq!(reported.try_iter().collect::<Vec<_>>(), [logs]);
        reporter.report_not_taken(Signal::Metrics, reason);
        assert!(reported.try_recv().unwrap().contains("does not accept metrics"));
        reporter.note_taken(Signal::Logs);
        reporter.report_not_taken(Signal::Logs, reason);
        assert_eq!(reported.try_iter().collect::<Vec<_>>(), [logs]);
    }

    #[test]
    fn what_a_terminal_would_obey_is_escaped() {
        let (send, reported) = std::sync::mpsc::channel();
        let hook: ProblemHook = Arc::new(move |problem| send.send(problem.to_string()).unwrap());
        let reporter = ProblemReporter::new("o\u{1b}tlp", Some(hook), None);
        reporter.report(Signal::Metrics, ProblemKind::Instrument, || {
            "a\r\nb \u{202e}c\u{1b}[2J\u{2029}ä".to_owned()
        });
        let expected = "exporter o\\u{1b}tlp: a\\r\\nb \\u{202e}c\\u{1b}[2J\\u{2029}ä";
        assert_eq!(reported.try_iter().collect::<Vec<_>>(), [expected]);
    }
}
