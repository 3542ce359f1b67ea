//! Chooses the schedules of a model: every different schedule or, for larger models, those that shuttle's schedulers
//! choose.

use std::cell::RefCell;
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};
use shuttle::{Config, Runner};

use super::sync::{Step, announced, start_run};

/// The extent of a search.
#[derive(Debug, Default, Clone)]
pub(super) struct Report {
    /// Number of complete runs.
    pub(super) schedules: usize,
    /// Number of runs that were abandoned because every continuation leads to a schedule that has already run.
    pub(super) pruned: usize,
    /// True if all schedules have run.
    pub(super) is_complete: bool,
    pub(super) took: Duration,
}

/// Runs a model with every schedule, up to `max_schedules`. Panics if a run panics or deadlocks.
///
/// Schedules that differ only in the order of adjacent commuting steps lead to the same states. Only one of them runs
/// (sleep sets, from Godefroid's partial-order methods).
pub(super) fn exhaust(max_schedules: usize, model: impl Fn() + Send + Sync + 'static) -> Report {
    run(Exhaustive { stack: Vec::new(), max_schedules }, model)
}

/// Runs a model with the schedules that one of shuttle's schedulers chooses.
pub(super) fn sample(
    scheduler: impl Scheduler + 'static,
    model: impl Fn() + Send + Sync + 'static,
) -> Report {
    run(Sampled(scheduler), model)
}

fn run(search: impl Search + 'static, model: impl Fn() + Send + Sync + 'static) -> Report {
    let begun = Instant::now();
    let report = Rc::new(RefCell::new(Report::default()));
    let observed = Observed { search, depth: 0, trace: Vec::new(), fault: None, report: Rc::clone(&report) };
    let mut config = Config::new();
    config.stack_size = 1 << 17;
    Runner::new(observed, config).run(model);
    let took = begun.elapsed();
    Report { took, ..report.borrow().clone() }
}

/// Chooses among the runnable threads.
trait Search {
    /// Returns whether there is another run. `schedules` is the number of runs so far.
    fn next_run(&mut self, schedules: usize) -> Next;
    /// Returns the thread that takes the step at this `depth`, or `None` if the run can be abandoned.
    fn choose(&mut self, depth: usize, tasks: &[&Task], current: Option<TaskId>) -> Option<TaskId>;
}

enum Next {
    Run(Schedule),
    Complete,
    Bounded,
}

/// A search and its report. Detects runs in which no thread can continue.
struct Observed<S> {
    search: S,
    depth: usize,
    /// The steps of this run, printed if it fails.
    trace: Vec<(usize, Step)>,
    /// The failure of the last run.
    fault: Option<String>,
    report: Rc<RefCell<Report>>,
}

impl<S: Search> Scheduler for Observed<S> {
    fn new_execution(&mut self) -> Option<Schedule> {
        if let Some(fault) = self.fault.take() {
            panic!("{fault}");
        }
        start_run();
        let mut report = self.report.borrow_mut();
        report.schedules += usize::from(self.depth > 0);
        self.depth = 0;
        self.trace.clear();
        match self.search.next_run(report.schedules) {
            Next::Run(schedule) => return Some(schedule),
            Next::Complete => report.is_complete = true,
            Next::Bounded => {}
        }
        None
    }

    fn next_task(&mut self, runnable: &[&Task], current: Option<TaskId>, _: bool) -> Option<TaskId> {
        let enabled: Vec<&Task> = runnable.iter().copied().filter(|task| announced(task.id()).1).collect();
        if enabled.is_empty() {
            let waiting: Vec<_> = runnable.iter().map(|task| (task.id(), announced(task.id()).0)).collect();
            self.fault = Some(format!("no thread can go on: {waiting:?}"));
            return None;
        }
        let Some(chosen) = self.search.choose(self.depth, &enabled, current) else {
            self.report.borrow_mut().pruned += 1;
            self.depth = 0;
            return None;
        };
        self.depth += 1;
        self.trace.push((usize::from(chosen), announced(chosen).0));
        Some(chosen)
    }

    fn next_u64(&mut self) -> u64 {
        unreachable!("a model needs no random number")
    }
}

impl<S> Drop for Observed<S> {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("failed after these steps of the threads: {:?}", self.trace);
        }
    }
}

/// Searches all schedules depth first, up to `max_schedules`; `stack` holds the choices of the current run.
struct Exhaustive {
    stack: Vec<Choice>,
    max_schedules: usize,
}

/// A state of the model, and the thread that continues there.
#[derive(Debug)]
struct Choice {
    chosen: (TaskId, Step),
    /// Threads that later runs can choose here.
    left: Vec<(TaskId, Step)>,
    /// Threads whose step leads only to schedules that have already run.
    asleep: Vec<(TaskId, Step)>,
}

impl Search for Exhaustive {
    fn next_run(&mut self, schedules: usize) -> Next {
        if schedules >= self.max_schedules {
            return Next::Bounded;
        }
        let is_first = self.stack.is_empty();
        while let Some(mut choice) = self.stack.pop() {
            if let Some(next) = choice.left.pop() {
                choice.asleep.push(choice.chosen);
                choice.chosen = next;
                self.stack.push(choice);
                break;
            }
        }
        if self.stack.is_empty() && !is_first { Next::Complete } else { Next::Run(Schedule::new(0)) }
    }

    fn choose(&mut self, depth: usize, tasks: &[&Task], current: Option<TaskId>) -> Option<TaskId> {
        if let Some(choice) = self.stack.get(depth) {
            assert_eq!(
                announced(choice.chosen.0).0,
                choice.chosen.1,
                "the same schedule leads to the same state"
            );
            return Some(choice.chosen.0);
        }
        let asleep: Vec<_> = self.stack.last().map_or(Vec::new(), |last| {
            let stays = |(_, step): &&(TaskId, Step)| step.commutes_with(last.chosen.1);
            last.asleep.iter().filter(stays).copied().collect()
        });
        let mut left: Vec<_> = tasks.iter().map(|task| (task.id(), announced(task.id()).0)).collect();
        left.retain(|(task, _)| !asleep.iter().any(|(sleeper, _)| sleeper == task));
        // Prefer the running thread, which makes abandoned schedules rarer.
        left.sort_by_key(|(task, _)| Some(*task) == current);
        let chosen = left.pop()?;
        self.stack.push(Choice { chosen, left, asleep });
        Some(chosen.0)
    }
}

/// The choices of one of shuttle's schedulers.
struct Sampled<S>(S);

impl<S: Scheduler> Search for Sampled<S> {
    fn next_run(&mut self, _: usize) -> Next {
        self.0.new_execution().map_or(Next::Bounded, Next::Run)
    }

    fn choose(&mut self, _: usize, tasks: &[&Task], current: Option<TaskId>) -> Option<TaskId> {
        self.0.next_task(tasks, current, false)
    }
}
