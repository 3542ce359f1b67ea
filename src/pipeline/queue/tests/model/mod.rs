//! Model checking of the queue: callers and a worker interleave their steps in every order. Built and run by
//! `tests/model/run`.

mod search;
pub(super) mod sync;

use std::collections::BTreeSet;
use std::env;
use std::panic::{self, AssertUnwindSafe};
use std::rc::Rc;
use std::sync::PoisonError;

use shuttle::scheduler::{DfsScheduler, PctScheduler, RandomScheduler};

use super::*;
use crate::config::WhenFull;
use crate::pipeline::clock::simulated::{Simulated, World};
use crate::pipeline::ledger::Counts;
use search::{Report, exhaust, sample};
use sync::Ends;

const RECORD: &[u8] = &[0x12, 2, b'x', b'x'];

/// A queue that the threads of a model share.
struct Shop {
    queue: Queue,
    woken: Receiver<()>,
    counters: Arc<Counters>,
    scope: Arc<Scope>,
    /// Counters of callers that have ended, and of calls that have returned.
    ended: Ends,
    returned: Ends,
}

impl Shop {
    fn new(records: usize, when_full: WhenFull) -> Arc<Self> {
        let (wake, woken) = bounded(1);
        let counters = Arc::new(Counters::default());
        let reporter = Arc::new(ProblemReporter::new("memory", None, None));
        let settings = QueueSettings { records, bytes: 1000, when_full, block_timeout: None };
        Arc::new(Self {
            queue: Queue::new(&settings, 100, Shared::new(Arc::clone(&counters), reporter, wake)),
            woken,
            counters,
            scope: Arc::new(Scope::new(Signal::Traces, "shop", "")),
            ended: Ends::new(),
            returned: Ends::new(),
        })
    }

    fn enqueue(&self) {
        self.queue.enqueue(&self.scope, RECORD, 1, &Wait::FromNow);
    }

    /// Starts threads that enqueue `each` records.
    fn start_callers(self: &Arc<Self>, callers: usize, each: usize) {
        self.start(callers, each, Self::enqueue);
    }

    /// Starts threads that make `each` calls.
    fn start(self: &Arc<Self>, callers: usize, each: usize, call: fn(&Self)) {
        for _ in 0..callers {
            let shop = Arc::clone(self);
            shuttle::thread::spawn(move || {
                for _ in 0..each {
                    call(&shop);
                    shop.returned.note();
                }
                shop.ended.note();
            });
        }
    }

    /// Drains the queue like the worker. Returns the number of records.
    fn drain(&self) -> usize {
        let mut records = 0;
        self.queue.drain(|chunk| {
            let bytes: usize = chunk.runs().iter().map(|run| run.end - run.start).sum();
            records += bytes / RECORD.len();
            self.queue.give_back(chunk);
        });
        records
    }

    fn release(&self, records: usize) {
        self.queue.release(records, records * RECORD.len());
    }

    /// One round of the worker: sleeps unless work is due, and settles the records that it finds.
    fn round(&self) -> usize {
        let is_due = self.queue.wake_at(WakeAt::ANYTHING);
        if !is_due {
            self.woken.recv();
        }
        self.queue.stay_awake();
        let records = self.drain();
        if records > 0 {
            self.release(records);
        } else if is_due {
            // Wait for the caller that is about to append: a worker that polls would make a schedule infinite.
            self.returned.wait_for(1);
        }
        records
    }

    fn rounds(&self, records: usize) {
        let mut settled = 0;
        while settled < records {
            settled += self.round();
        }
    }

    fn assert_all_settled(&self, records: usize) {
        let counts = self.counts();
        assert_eq!((counts.accepted as usize, counts.not_enqueued.total()), (records, 0));
        assert_eq!((self.queue.level(), self.queue.backpressure.has_waiters()), ((0, 0), false));
    }

    fn counts(&self) -> Counts {
        self.counters.read("model", || [self.queue.accepted(), 0, 0]).traces
    }
}

/// Invariant: the level stays within its bound, and accepted records = taken records + queued records.
fn reservation(callers: usize, each: usize) {
    let shop = Shop::new(2, WhenFull::DropNewest);
    shop.enqueue();
    shop.start_callers(callers, each);
    let drained = shop.drain();
    let level = shop.queue.level().0;
    assert!(drained <= level && level <= 2, "{drained} records of {level} at a limit of 2");
    shop.release(drained);
    shop.ended.wait_for(callers);
    let last = shop.drain();
    assert_eq!(shop.queue.level(), (last, last * RECORD.len()));
    let counts = shop.counts();
    assert_eq!(counts.accepted as usize, drained + last);
    assert_eq!(counts.accepted + counts.not_enqueued.queue_full, 1 + (callers * each) as u64);
}

/// Invariant: a sleeping worker that has set its threshold is woken for every record.
fn wake_ups(callers: usize, each: usize) {
    let shop = Shop::new(100, WhenFull::DropNewest);
    shop.start_callers(callers, each);
    shop.rounds(callers * each);
    shop.ended.wait_for(callers);
    assert_eq!((shop.counts().accepted as usize, shop.queue.level()), (callers * each, (0, 0)));
}

/// Like `wake_ups`, but a chunk is open already (the fast path), and only all records together reach the threshold.
fn threshold(callers: usize, each: usize) {
    let shop = Shop::new(100, WhenFull::DropNewest);
    shop.enqueue();
    let records = 1 + callers * each;
    shop.start_callers(callers, each);
    if !shop.queue.wake_at(WakeAt { records, bytes: usize::MAX }) {
        shop.woken.recv();
    }
    assert_eq!(shop.queue.level().0, records, "not woken before");
    shop.ended.wait_for(callers);
    assert_eq!(shop.drain(), records);
}

/// Invariant: all callers that wait for room get it. In this model, they do not append records.
fn waiters(callers: usize, each: usize) {
    let shop = Shop::new(1, WhenFull::Block);
    assert!(shop.queue.admit(1, RECORD.len()), "an empty queue has room");
    shop.start(callers, each, |shop| {
        let room = shop.queue.wait_for_room(clock::now(), Signal::Traces, 1, RECORD.len());
        HOLDS_ROOM.with(|holds_room| holds_room.set(false));
        assert!(room.is_some(), "the queue is open");
    });
    shop.release(1);
    for _ in 0..callers * each {
        shop.returned.wait_for(1);
        shop.release(1);
    }
    assert_eq!((shop.queue.level(), shop.queue.backpressure.has_waiters()), ((0, 0), false));
}

/// Invariant: callers get room and append their records, with a worker that is always awake.
fn awake(callers: usize, each: usize) {
    let shop = Shop::new(1, WhenFull::Block);
    shop.enqueue();
    shop.start_callers(callers, each);
    shop.release(shop.drain());
    for _ in 0..callers * each {
        shop.returned.wait_for(1);
        shop.release(shop.drain());
    }
    shop.assert_all_settled(1 + callers * each);
}

/// Like `awake`, with a worker that sleeps between its rounds.
fn rounds(callers: usize, each: usize) {
    let shop = Shop::new(1, WhenFull::Block);
    shop.start_callers(callers, each);
    shop.rounds(callers * each);
    shop.ended.wait_for(callers);
    shop.assert_all_settled(callers * each);
}

/// Invariant: a record is accepted before the worker's last drain, or counted as not enqueued. No caller waits forever.
fn close(callers: usize, each: usize) {
    let shop = Shop::new(1, WhenFull::Block);
    shop.start_callers(callers, each);
    shop.queue.close();
    let last = shop.drain();
    shop.release(last);
    shop.ended.wait_for(callers);
    let counts = shop.counts();
    assert_eq!((counts.accepted as usize, shop.drain()), (last, 0), "none came in behind the last look");
    assert_eq!(counts.accepted + counts.not_enqueued.after_shutdown, (callers * each) as u64);
    assert_eq!((shop.queue.level(), shop.queue.backpressure.has_waiters()), ((0, 0), false));
}

/// Invariant: callers that wait when the queue is closed stop waiting, even without room.
fn close_when_full(callers: usize, each: usize) {
    let shop = Shop::new(1, WhenFull::Block);
    shop.enqueue();
    shop.start_callers(callers, each);
    shop.queue.close();
    shop.ended.wait_for(callers);
    let counts = shop.counts();
    assert_eq!((counts.accepted, counts.not_enqueued.after_shutdown), (1, (callers * each) as u64));
    assert!(shop.queue.level().0 == 1 && !shop.queue.backpressure.has_waiters());
}

/// A simulated world in which no time passes.
struct Still;

impl World for Still {
    fn pass(&self, _: Option<Instant>, _: &dyn Fn() -> bool) {}
}

type Model = (&'static str, fn(usize, usize));

/// Models that can be searched completely for two callers with one record each. The models in `LARGER` cannot.
const MODELS: [Model; 6] = [
    ("waiters", waiters),
    ("reservation", reservation),
    ("wake-ups", wake_ups),
    ("threshold", threshold),
    ("close", close),
    ("close full", close_when_full),
];
const LARGER: [Model; 2] = [("awake", awake), ("rounds", rounds)];

/// Runs models with `callers` that enqueue `each` records, and prints the extent of the search.
fn check(
    search: &str,
    models: &[Model],
    (callers, each): (usize, usize),
    run: impl Fn(Box<dyn Fn() + Send + Sync>) -> Report,
) {
    let _still = Simulated::start(Rc::new(Still), Instant::now());
    for (name, model) in models.iter().copied() {
        let Report { schedules, pruned, is_complete, took } = run(Box::new(move || model(callers, each)));
        let (end, seconds) = (if is_complete { "complete" } else { "bounded" }, took.as_secs_f64());
        let threads = format!("{callers}x{each} + 1");
        println!(
            "| {name:<11} | {threads} | {search:<6} | {schedules:>9} | {pruned:>9} | {end:<8} | {seconds:>7.1} |"
        );
    }
}

/// Returns the number in an environment variable, if it is set.
fn number(variable: &str) -> Option<usize> {
    env::var(variable).ok().map(|number| number.parse().expect("a number"))
}

#[test]
fn two_callers_and_a_worker_in_every_order() {
    let most = number("MODEL_SCHEDULES");
    check("every", &MODELS, (2, 1), |model| {
        let report = exhaust(most.unwrap_or(usize::MAX), model);
        assert!(report.is_complete || most.is_some());
        report
    });
}

#[test]
fn more_steps_in_sampled_orders() {
    let most = number("MODEL_SCHEDULES").unwrap_or(20_000);
    check("every", &LARGER, (2, 1), |model| exhaust(most, model));
    for size in [(2, 3), (3, 2)] {
        for models in [&MODELS[..], &LARGER] {
            check("random", models, size, |model| sample(RandomScheduler::new(most), model));
            check("pct", models, size, |model| sample(PctScheduler::new(3, most), model));
        }
    }
}

/// Each of these models has a faulty worker, which the search must detect.
#[test]
fn models_detect_a_faulty_worker() {
    let faults: [(&str, fn()); 4] = [
        ("reservation: it releases what it has not taken out", || {
            let shop = Shop::new(2, WhenFull::DropNewest);
            shop.enqueue();
            shop.start_callers(2, 1);
            shop.release(1);
            let drained = shop.drain();
            assert!(drained <= 2, "{drained} records at a limit of 2");
        }),
        ("wake-ups: it looks before it sets the threshold", || {
            let shop = Shop::new(100, WhenFull::DropNewest);
            shop.start_callers(2, 1);
            if shop.queue.level().0 == 0 {
                shop.queue.wake_at(WakeAt::ANYTHING);
                shop.woken.recv();
            }
        }),
        ("waiters: it makes room and wakes none of them", || {
            let shop = Shop::new(1, WhenFull::Block);
            shop.start_callers(2, 1);
            while shop.drain() == 0 {
                shop.returned.wait_for(1);
            }
            shop.queue.level.release(1, RECORD.len());
            shop.ended.wait_for(2);
        }),
        ("close: it takes its last look before it closes", || {
            let shop = Shop::new(1, WhenFull::Block);
            shop.start_callers(2, 1);
            let last = shop.drain();
            shop.queue.close();
            shop.ended.wait_for(2);
            assert_eq!(shop.counts().accepted as usize, last);
        }),
    ];
    let _still = Simulated::start(Rc::new(Still), Instant::now());
    for (fault, model) in faults {
        let found = panic::catch_unwind(AssertUnwindSafe(|| exhaust(usize::MAX, model)));
        assert!(found.is_err(), "not found: {fault}");
    }
}

/// The search skips schedules that differ only in the order of commuting steps. It must find the same outcomes as
/// shuttle's search, which runs all schedules.
#[test]
fn the_search_sees_every_outcome_that_shuttles_search_sees() {
    let outcomes = |is_reduced: bool| {
        let seen = Arc::new(std::sync::Mutex::new(BTreeSet::new()));
        let seen_by_model = Arc::clone(&seen);
        let model = move || {
            let shared = Arc::new((sync::Mutex::<Vec<usize>>::default(), AtomicU64::new(0), Ends::new()));
            for caller in 0..2 {
                let shared = Arc::clone(&shared);
                shuttle::thread::spawn(move || {
                    let (log, number, ended) = &*shared;
                    let before = number.load(Ordering::SeqCst);
                    log.lock().unwrap_or_else(PoisonError::into_inner).push(caller);
                    number.store(before + 1 + caller as u64, Ordering::SeqCst);
                    ended.note();
                });
            }
            let (log, number, ended) = &*shared;
            let first = number.load(Ordering::SeqCst);
            ended.wait_for(2);
            let log = log.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let outcome = (first, log, number.load(Ordering::SeqCst));
            seen_by_model.lock().expect("one thread").insert(outcome);
        };
        let report = if is_reduced {
            exhaust(usize::MAX, model)
        } else {
            sample(DfsScheduler::new(None, false), model)
        };
        let seen = seen.lock().expect("one thread").clone();
        (seen, report.schedules)
    };
    let ((all, schedules), (reduced, fewer)) = (outcomes(false), outcomes(true));
    println!("{} outcomes of {schedules} schedules, all seen in {fewer}", all.len());
    assert!(all == reduced && fewer < schedules, "{all:?} {reduced:?}");
}
