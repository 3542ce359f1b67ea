//! A simulated program: one thread plays the callers, the worker and the network in turn, in simulated time.

mod checks;
mod disk;
mod exporter;
mod network;
mod succession;

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::script::{Action, Dice, SCOPES, SIGNALS, Script};
use super::server::Book;
use crate::config::{Level, Signals, SpoolSettings};
use crate::pipeline::clock::{self, simulated};
use crate::pipeline::exporter_handle::{ExporterHandle, ExporterSpec, RecordFilter};
use crate::pipeline::exporter_set::{self, FlushOutcome};
use crate::pipeline::ledger::Counts;
use crate::pipeline::queue::Wait;
use crate::pipeline::retry::MAX_PROXY_PAUSE;
use crate::pipeline::worker::PendingFlush;
use crate::process::Driver;
use crate::record::wire::encode_field;
use crate::record::{Scope, Signal};
use crate::spool::faults;
use disk::Disk;
use exporter::{Exporter, Network};
use network::Request;

/// The exporter's handle, which keeps the exporter alive.
struct Handle(Rc<Exporter>);

impl Deref for Handle {
    type Target = ExporterHandle;

    fn deref(&self) -> &ExporterHandle {
        self.0.handle()
    }
}

/// Longest time by which a stop may exceed its budget.
const MAX_STOP_OVERRUN: Duration = Duration::from_millis(50);
/// The part of `MAX_STOP_OVERRUN` in which an interrupted worker must end.
const INTERRUPT_GRACE: Duration = Duration::from_millis(30);
/// Shortest time without requests after a refusal by the proxy.
const PROXY_PAUSE: Duration = Duration::from_secs(60);
/// Number of steps above which a simulation is assumed to be in an endless loop.
const MAX_STEPS: u64 = 1_000_000;

thread_local! {
    static WORLD: RefCell<Option<Rc<World>>> = const { RefCell::new(None) };
}

/// The world of this thread's simulation.
fn world() -> Rc<World> {
    WORLD.with_borrow(|world| Rc::clone(world.as_ref().expect("a simulation runs")))
}

pub(super) struct World {
    script: Script,
    start: Instant,
    is_verbose: bool,
    dice: RefCell<Dice>,
    exporter: RefCell<Option<Rc<Exporter>>>,
    /// Counts of the previous program.
    before: Cell<[Counts; SIGNALS.len()]>,
    /// Directory of the spool, if the script has one.
    disk: Option<Disk>,
    scopes: [[Arc<Scope>; SCOPES.len()]; SIGNALS.len()],
    /// Future actions, the next one last.
    agenda: RefCell<Vec<(Instant, Action)>>,
    /// Actions that had to be postponed, because their thread was busy.
    postponed: RefCell<Vec<Action>>,
    books: RefCell<[Book; SIGNALS.len()]>,
    /// Number of records that callers have tried to enqueue.
    offered: [Cell<u64>; SIGNALS.len()],
    flushes: RefCell<Vec<(PendingFlush, [u64; SIGNALS.len()])>>,
    /// Whether the network has recovered for good.
    recovered: Cell<bool>,
    stop_by: Cell<Option<Instant>>,
    /// Attempts of each signal before the stop. An attempt that is under way when the stop begins counts as made in
    /// the stop.
    attempts_before: Cell<[u64; SIGNALS.len()]>,
    budget: Cell<Duration>,
    is_cut: Cell<bool>,
    is_interrupted: Cell<bool>,
    /// Time of the last refusal by the proxy.
    refused_at: Cell<Option<Instant>>,
    /// Signal of the attempt that is under way. All simulated threads share one real thread. So during an attempt, or
    /// while a caller waits, no other simulated thread may begin a wait.
    attempt: Cell<Option<Signal>>,
    is_caller_waiting: Cell<bool>,
    /// The request that is being sent in the background, while the worker checks its queues.
    under_way: RefCell<Option<Request>>,
    /// How often the worker moved queued records to the disk while a request was being sent.
    pub(super) relieved: Cell<u64>,
    failure: RefCell<Option<String>>,
    commands: Cell<u64>,
    turns: Cell<u64>,
    pub(super) steps: Cell<u64>,
}

impl World {
    pub(super) fn new(seed: u64, is_verbose: bool) -> Rc<Self> {
        let mut dice = Dice::new(seed);
        let script = Script::new(&mut dice);
        let start = Instant::now();
        let agenda = script.actions.iter().rev().map(|(at, action)| (start + *at, *action)).collect();
        let scope = |signal| SCOPES.map(|name| Arc::new(Scope::new(signal, name, "")));
        Rc::new(Self {
            start,
            is_verbose,
            dice: RefCell::new(dice),
            exporter: RefCell::default(),
            before: Cell::default(),
            disk: script.settings.spool.map(|_| Disk::new()),
            scopes: SIGNALS.map(scope),
            agenda: RefCell::new(agenda),
            postponed: RefCell::default(),
            books: RefCell::default(),
            offered: Default::default(),
            flushes: RefCell::default(),
            recovered: Cell::new(false),
            stop_by: Cell::new(None),
            attempts_before: Cell::default(),
            budget: Cell::default(),
            is_cut: Cell::new(false),
            is_interrupted: Cell::new(false),
            refused_at: Cell::new(None),
            attempt: Cell::new(None),
            is_caller_waiting: Cell::new(false),
            under_way: RefCell::default(),
            relieved: Cell::new(0),
            failure: RefCell::default(),
            commands: Cell::new(0),
            turns: Cell::new(0),
            steps: Cell::new(0),
            script,
        })
    }

    /// Runs the script to its end.
    pub(super) fn run(self: &Rc<Self>) {
        self.note(|| format!("{:#?}", self.script));
        let _time = simulated::Simulated::start(Rc::clone(self) as Rc<dyn simulated::World>, self.start);
        WORLD.set(Some(Rc::clone(self)));
        self.start_exporter();
        self.break_disk();
        self.pass_while(|| !self.agenda.borrow().is_empty() || !self.postponed.borrow().is_empty());
        let spool = self.script.settings.spool;
        if self.stop_by.get().is_none() && spool.is_some_and(|spool| spool.is_killed) {
            self.kill();
        } else {
            if self.stop_by.get().is_none() {
                self.recover();
                self.perform(Action::Stop(Duration::from_secs(1)));
                self.pass_while(|| !self.agenda.borrow().is_empty());
            }
            self.check_end();
        }
        if spool.is_some() {
            self.deliver_what_was_left();
        }
        WORLD.set(None);
    }

    fn spec(&self) -> ExporterSpec {
        let settings = self.script.settings;
        ExporterSpec {
            name: "simulated".to_owned(),
            filter: RecordFilter { signals: Signals::ALL, level: Level::default() },
            queue: settings.queue,
            batch: settings.batch,
            pace: settings.pace,
            retry: settings.retry,
            spool: settings.spool.zip(self.disk.as_ref()).map_or_else(
                SpoolSettings::default,
                |(spool, disk)| {
                    let directory = Some(disk.0.clone());
                    let (bytes, sync) = (spool.bytes, spool.sync);
                    SpoolSettings { directory, bytes, sync, age: None, ..SpoolSettings::default() }
                },
            ),
            attempt_timeout: settings.attempt_timeout,
            resource: Arc::new(Vec::new),
            metrics: None,
            hook: None,
            transport: Box::new(|| Box::new(Network)),
            driver: settings.driver,
            observer: None,
        }
    }

    /// Lets network and disk recover, and checks that all accepted records are settled within a time that follows
    /// from the settings.
    fn recover(&self) {
        self.note(|| "network and disk recover".to_owned());
        self.recovered.set(true);
        faults::set(None);
        let settings = &self.script.settings;
        let mut longest_pause = settings.retry.max_delay.max(settings.retry.max_retry_after);
        if self.refused_at.get().is_some() {
            longest_pause = longest_pause.max(MAX_PROXY_PAUSE);
        }
        let pace = settings.pace.throttle + settings.pace.linger;
        // The spool is read again five seconds after an error.
        let spare = Duration::from_secs(if self.disk.is_some() { 15 } else { 5 });
        let bound = 2 * (longest_pause + settings.attempt_timeout + pace) + spare;
        let by = clock::now() + bound;
        let is_settled = || {
            let is_settled = |signal: &Signal| {
                let counts = self.counts(*signal);
                counts.in_flight + counts.spooled == 0
            };
            SIGNALS.iter().all(is_settled) && self.flushes.borrow().is_empty()
        };
        self.pass_while(|| !is_settled() && clock::now() < by);
        if !is_settled() {
            self.fail(format!("{bound:?} after the network has recovered, records or flushes are in flight"));
        }
    }

    /// Lets time pass while `is_to_come` returns true.
    fn pass_while(&self, is_to_come: impl Fn() -> bool) {
        simulated::World::pass(self, None, &|| !is_to_come());
    }

    /// Does one thing that is due: a step of the worker, or an action. Returns false if nothing is due.
    fn step(&self) -> bool {
        self.steps.set(self.steps.get() + 1);
        let has_acted = self.exporter().step(self) || self.act();
        if has_acted {
            self.check();
        }
        if self.steps.get() > MAX_STEPS {
            self.fail("it never ends".to_owned());
        }
        if let Some(failure) = self.failure.borrow().as_ref().filter(|_| self.is_free()) {
            panic!("{failure}");
        }
        has_acted
    }

    /// Returns whether no attempt is under way and no caller waits.
    fn is_free(&self) -> bool {
        self.attempt.get().is_none() && !self.is_caller_waiting.get()
    }

    /// Performs the next action, if it is due.
    fn act(&self) -> bool {
        if self.is_free() {
            let again = self.postponed.take().into_iter().rev().map(|action| (clock::now(), action));
            self.agenda.borrow_mut().extend(again);
        }
        if self.next_action().is_none_or(|at| at > clock::now()) {
            return false;
        }
        let next = self.agenda.borrow_mut().pop();
        next.into_iter().for_each(|(_, action)| self.perform(action));
        true
    }

    fn next_action(&self) -> Option<Instant> {
        self.agenda.borrow().last().map(|(at, _)| *at)
    }

    fn perform(&self, action: Action) {
        let exporter = self.exporter();
        // A worker without a thread runs on this thread, which is busy.
        let must_wait = !self.is_free() && matches!(*exporter, Exporter::Caller { .. });
        if must_wait && !matches!(action, Action::Burst { .. }) {
            return self.postponed.borrow_mut().push(action);
        }
        self.note(|| format!("{action:?}"));
        if !matches!(action, Action::Burst { .. } | Action::Freeze(_)) {
            self.hurry();
        }
        match action {
            Action::Burst { signal, records, bytes } => self.burst(signal, records, bytes),
            Action::Flush(timeout) => self.flush(timeout),
            // Skipped during a stop: the simulation checks that a stop ends within its budget, and a freeze could
            // exceed it.
            Action::Freeze(_) if self.stop_by.get().is_some() => {}
            Action::Freeze(time) => simulated::set(clock::now() + time),
            Action::Stop(budget) => self.stop(budget),
            Action::CutOldAttempt => self.handle().cut_attempt(),
            Action::Interrupt if !self.has_ended() => self.handle().interrupt(),
            Action::FinishStop => {
                if !self.has_ended() {
                    self.fail("the worker goes on after it was interrupted".to_owned());
                }
            }
            Action::Interrupt => {}
        }
    }

    fn burst(&self, signal: Signal, records: u64, bytes: u64) {
        for done in 0..records {
            if !self.enqueue(signal, bytes) {
                let rest = Action::Burst { signal, records: records - done, bytes };
                return self.postponed.borrow_mut().push(rest);
            }
        }
    }

    /// Enqueues one record. Returns false if the caller would have to wait and cannot wait now.
    fn enqueue(&self, signal: Signal, bytes: u64) -> bool {
        let handle = self.handle();
        let mut dice = self.dice.borrow_mut();
        let (at, len) = (dice.number(0..=SCOPES.len() as u64 - 1) as usize, dice.number(8..=bytes));
        drop(dice);
        let (scope, made) = (&self.scopes[signal as usize][at], clock::now());
        let number = self.books.borrow_mut()[signal as usize].add(made, at);
        let mut text = format!("{number:08}").into_bytes();
        text.resize(len as usize, 0);
        let (mut record, mut frame) = (Vec::new(), Vec::new());
        // Field 3 is a text in the records of both signals.
        encode_field(0x1a, &text, &mut record);
        encode_field(0x12, &record, &mut frame);
        let is_done = handle.enqueue(scope, &frame, 1, &Wait::No);
        if !is_done && self.is_free() {
            self.note(|| format!("a caller waits with {signal} {number}"));
            if self.disk.is_some() {
                self.books.borrow_mut()[signal as usize].let_overtake(&[number as usize]);
            }
            self.waiting(|| handle.enqueue(scope, &frame, 1, &Wait::FromNow));
            let waited = clock::now() - made;
            self.note(|| format!("{signal} {number} has waited for {waited:?}"));
            // With a worker thread, the length of the wait cannot be checked: a real caller would go on during an
            // attempt, but the simulated caller goes on only after the attempt.
            let settings = &self.script.settings;
            let longest = settings.queue.block_timeout.filter(|_| settings.driver == Driver::Caller);
            if longest.is_some_and(|longest| waited > longest) {
                self.fail(format!("a caller has waited for {waited:?}"));
            }
        } else if !is_done {
            self.hurry_if_pressing();
            return false;
        }
        self.offered[signal as usize].set(self.offered[signal as usize].get() + 1);
        self.hurry_if_pressing();
        true
    }

    /// Makes a call that may wait.
    fn waiting<T>(&self, call: impl FnOnce() -> T) -> T {
        self.is_caller_waiting.set(true);
        let returned = call();
        self.is_caller_waiting.set(false);
        returned
    }

    fn flush(&self, timeout: Duration) {
        let accepted = SIGNALS.map(|signal| self.counts(signal).accepted);
        self.commands.set(self.commands.get() + 1);
        match &*self.exporter() {
            Exporter::Thread { handle, .. } => {
                self.flushes.borrow_mut().push((handle.start_flush(), accepted));
            }
            Exporter::Caller { set, .. } => {
                let deadline = clock::now() + timeout;
                let outcome = self.waiting(|| exporter_set::flush(&[set], deadline));
                self.note(|| format!("{outcome:?}"));
                if outcome == FlushOutcome::Complete {
                    self.check_flushed(accepted);
                }
                if clock::now() > deadline {
                    self.fail(format!("a flush is late by {:?}", clock::now() - deadline));
                }
            }
        }
    }

    fn stop(&self, budget: Duration) {
        let now = clock::now();
        self.stop_by.set(Some(now + budget));
        let mut attempts = self.attempts();
        self.attempt.get().into_iter().for_each(|signal| attempts[signal as usize] -= 1);
        self.attempts_before.set(attempts);
        self.budget.set(budget);
        for book in &mut *self.books.borrow_mut() {
            (book.later_before_stop, book.time_in_stop) = (book.later, Duration::ZERO);
        }
        self.commands.set(self.commands.get() + 1);
        match &*self.exporter() {
            Exporter::Thread { handle, .. } => {
                handle.start_stop(now + budget);
                let mut agenda = self.agenda.borrow_mut();
                agenda.extend([
                    (now + budget / Signal::COUNT as u32, Action::CutOldAttempt),
                    (now + budget, Action::Interrupt),
                    (now + budget + INTERRUPT_GRACE, Action::FinishStop),
                ]);
                agenda.sort_by_key(|(at, _)| Reverse(*at));
            }
            Exporter::Caller { set, .. } => {
                self.waiting(|| exporter_set::stop(&[set], now + budget));
                let took = clock::now() - now;
                if took > budget + MAX_STOP_OVERRUN {
                    self.fail(format!("a stop of {budget:?} took {took:?}"));
                }
            }
        }
    }

    /// Notes that a round may begin now, regardless of the throttle.
    fn hurry(&self) {
        self.books.borrow_mut().iter_mut().for_each(|book| book.hurried = Some(clock::now()));
    }

    fn hurry_if_pressing(&self) {
        for signal in SIGNALS {
            let handle = self.handle();
            let queue = handle.queue(signal).expect("the signal is exported");
            if queue.is_pressing(queue.level()) {
                self.books.borrow_mut()[signal as usize].hurried = Some(clock::now());
            }
        }
    }

    fn attempts(&self) -> [u64; SIGNALS.len()] {
        self.books.borrow().each_ref().map(|book| book.attempts)
    }

    fn has_ended(&self) -> bool {
        self.handle().wait_for_end(clock::now())
    }

    fn counts(&self, signal: Signal) -> Counts {
        self.handle().ledger().of(signal)
    }

    fn exporter(&self) -> Rc<Exporter> {
        Rc::clone(self.exporter.borrow().as_ref().expect("the exporter was started"))
    }

    fn handle(&self) -> impl Deref<Target = ExporterHandle> {
        Handle(self.exporter())
    }

    /// Notes a failed check. A panic here would not fail the test, because the worker contains panics of its transport.
    fn fail(&self, what: String) {
        self.note(|| format!("FAILED: {what}"));
        self.failure
            .borrow_mut()
            .get_or_insert_with(|| format!("after {:?}: {what}", clock::now() - self.start));
    }

    fn note(&self, what: impl FnOnce() -> String) {
        if self.is_verbose {
            println!("{:>14?} {}", clock::now().saturating_duration_since(self.start), what());
        }
    }
}

impl simulated::World for World {
    fn pass(&self, until: Option<Instant>, is_over: &dyn Fn() -> bool) {
        while !is_over() && until.is_none_or(|until| clock::now() < until) {
            if self.step() {
                continue;
            }
            match until.into_iter().chain(self.next_action()).chain(self.exporter().next(self)).min() {
                Some(next) => simulated::set(next.max(clock::now())),
                None => panic!("something waits forever"),
            }
        }
    }
}
