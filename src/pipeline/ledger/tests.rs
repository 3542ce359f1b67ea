use std::sync::atomic::Ordering;
use std::thread;

use proptest::prelude::*;

use super::*;
use crate::process::atomic::AtomicU64;
use crate::process::contain_panic;
use crate::spool;

const OUTCOMES: [Outcome; 8] = [
    Outcome::Delivered,
    Outcome::Rejected,
    Outcome::Refused,
    Outcome::GaveUp,
    Outcome::TooLarge,
    Outcome::WorkerPanicked,
    Outcome::Superseded,
    Outcome::Damaged,
];
const REFUSALS: [NotEnqueuedReason; NotEnqueuedReason::COUNT] = [
    NotEnqueuedReason::QueueFull,
    NotEnqueuedReason::TooLarge,
    NotEnqueuedReason::AfterShutdown,
    NotEnqueuedReason::Suppressed,
    NotEnqueuedReason::NoWorker,
    NotEnqueuedReason::Panicked,
];

fn read(counters: &Counters, accepted: u64) -> Counts {
    counters.read("test", || [accepted, 0, 0]).traces
}

/// Returns the count of each outcome, in the order of [`OUTCOMES`].
fn outcomes(counts: &Counts) -> [u64; OUTCOMES.len()] {
    let dropped = counts.dropped;
    [
        counts.delivered,
        counts.rejected,
        dropped.refused,
        dropped.gave_up,
        dropped.too_large,
        dropped.worker_panicked,
        counts.superseded,
        dropped.damaged,
    ]
}

fn adds_up(counts: &Counts) -> bool {
    counts.accepted + counts.recovered
        == counts.delivered
            + counts.rejected
            + counts.dropped.total()
            + counts.superseded
            + counts.spooled
            + counts.in_flight
}

/// Returns counts that are different powers of two, multiplied by `times`. If a count is left out, or confused with
/// another count, the sum changes.
fn all_different(times: u64) -> Counts {
    let mut next = times;
    let mut count = || {
        next *= 2;
        next / 2
    };
    let mut counts = Counts {
        accepted: count(),
        delivered: count(),
        rejected: count(),
        in_flight: count(),
        dropped: Dropped {
            refused: count(),
            gave_up: count(),
            too_large: count(),
            shutdown: count(),
            worker_panicked: count(),
            expired: 0,
            damaged: 0,
        },
        not_enqueued: NotEnqueued {
            queue_full: count(),
            too_large: count(),
            after_shutdown: count(),
            suppressed: count(),
            no_worker: count(),
            panicked: count(),
        },
        superseded: count(),
        filtered: count(),
        recovered: count(),
        spooled: count(),
    };
    counts.dropped.expired = count();
    counts.dropped.damaged = count();
    counts
}

fn busy_exporter() -> ExporterLedger {
    let counts = all_different(1);
    ExporterLedger { name: "one".to_owned(), traces: counts, logs: counts, metrics: counts, attempts: 1 }
}

#[test]
fn each_outcome_has_its_own_place() {
    for (index, outcome) in OUTCOMES.into_iter().enumerate() {
        let counters = Counters::default();
        counters.settle(Signal::Traces, outcome, 3);
        let mut expected = [0; OUTCOMES.len()];
        expected[index] = 3;
        let counts = read(&counters, 5);
        assert_eq!((outcomes(&counts), counts.in_flight), (expected, 2), "{outcome:?}");
    }
}

#[test]
fn what_is_spooled_and_sent_again_is_not_finished() {
    let counters = Counters::default();
    let finished = || {
        let counts = read(&counters, 6);
        counts.delivered + counts.lost()
    };
    counters.settle(Signal::Traces, Outcome::Delivered, 1);
    counters.spool(Signal::Traces, 5);
    assert_eq!(finished(), 1);
    counters.take_from_spool(Signal::Traces, 5, true);
    counters.take_from_spool(Signal::Traces, 7, false);
    assert_eq!(finished(), 1);
    counters.settle(Signal::Traces, Outcome::GaveUp, 12);
    assert_eq!(finished(), 13);
}

#[test]
fn each_refusal_has_its_own_place_beside_the_accepted() {
    for (index, reason) in REFUSALS.into_iter().enumerate() {
        let counters = Counters::default();
        counters.count_not_enqueued(Signal::Traces, reason, 1);
        let counts = read(&counters, 0);
        let not_enqueued = counts.not_enqueued;
        let mut expected = [0; REFUSALS.len()];
        expected[index] = 1;
        let found = [
            not_enqueued.queue_full,
            not_enqueued.too_large,
            not_enqueued.after_shutdown,
            not_enqueued.suppressed,
            not_enqueued.no_worker,
            not_enqueued.panicked,
        ];
        assert_eq!((found, not_enqueued.total()), (expected, 1));
        assert_eq!(REFUSALS.map(|reason| counters.not_enqueued(Signal::Traces, reason)), expected);
        assert_eq!(REFUSALS.map(|reason| counters.not_enqueued(Signal::Logs, reason)), [0; REFUSALS.len()]);
        assert_eq!((counts.accepted, counts.in_flight, counts.lost()), (0, 0, 1));
    }
}

#[test]
fn what_is_filtered_is_beside_the_accepted_and_no_loss() {
    let counters = Counters::default();
    (0..12).for_each(|_| counters.count_filtered());
    let exporter = counters.read("test", || [0; Signal::COUNT]);
    let expected = Counts { filtered: 12, ..Counts::default() };
    assert_eq!(
        (exporter.traces, exporter.logs, exporter.metrics),
        (Counts::default(), expected, Counts::default())
    );
    assert_eq!((exporter.logs.lost(), exporter.logs.in_flight), (0, 0));
    let ledger = Ledger { exporters: vec![exporter], ..Ledger::default() };
    assert_eq!(ledger.to_string(), "test logs: 0 accepted, 0 delivered, 12 filtered by level");
}

#[test]
fn closing_puts_what_is_left_to_the_shutdown_and_ignores_what_comes_late() {
    let counters = Counters::default();
    counters.settle(Signal::Traces, Outcome::Delivered, 4);
    counters.close(false, || [10, 0, 0]);
    let closed = read(&counters, 10);
    assert_eq!((closed.delivered, closed.dropped.shutdown, closed.in_flight), (4, 6, 0));
    for outcome in OUTCOMES {
        counters.settle(Signal::Traces, outcome, 6);
    }
    counters.close(false, || [1000, 0, 0]);
    assert_eq!(read(&counters, 10), closed, "no late settlement, no second closing");
    counters.count_not_enqueued(Signal::Traces, NotEnqueuedReason::AfterShutdown, 1);
    assert_eq!(read(&counters, 10).not_enqueued.after_shutdown, 1, "a late record is still counted");
}

#[test]
fn a_closed_ledger_adds_up_while_a_worker_goes_on_settling() {
    for _ in 0..200 {
        let counters = Counters::default();
        thread::scope(|scope| {
            scope.spawn(|| (0..100).for_each(|_| counters.settle(Signal::Traces, Outcome::Delivered, 1)));
            counters.close(false, || [100, 0, 0]);
            let closed = read(&counters, 100);
            assert!(adds_up(&closed) && closed.in_flight == 0, "{closed}");
        });
        let later = read(&counters, 100);
        assert_eq!(later.delivered + later.dropped.shutdown, 100);
    }
}

#[test]
fn a_record_is_never_seen_as_settled_before_it_is_seen_as_accepted() {
    let counters = Counters::default();
    let accepted = AtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..20_000 {
                accepted.fetch_add(1, Ordering::SeqCst);
                counters.settle(Signal::Traces, Outcome::Delivered, 1);
            }
        });
        for _ in 0..2_000 {
            // If `read` called the closure before it read the outcomes, there could be more outcomes than accepted
            // records, and the subtraction would panic in a debug build.
            let counts = counters.read("test", || [accepted.load(Ordering::SeqCst), 0, 0]).traces;
            assert!(adds_up(&counts), "{counts}");
        }
    });
}

#[test]
fn totals_add_up_every_count_of_every_exporter() {
    let ledger = Ledger { exporters: vec![busy_exporter(), busy_exporter()], ..Ledger::default() };
    let total = ledger.total();
    assert_eq!(total, all_different(6));
    assert_eq!(total.dropped.total(), 6 * (16 + 32 + 64 + 128 + 256 + (1 << 19) + (1 << 20)));
    assert_eq!(total.not_enqueued.total(), 6 * (512 + 1024 + 2048 + 4096 + 8192 + 16384));
    assert_eq!(ledger.lost(), 6 * 4 + total.dropped.total() + total.not_enqueued.total());
}

#[test]
fn a_ledger_tells_each_count_that_is_not_zero() {
    let idle = ExporterLedger { name: "two".to_owned(), ..Default::default() };
    let shown = Ledger { exporters: vec![busy_exporter(), idle], ..Ledger::default() }.to_string();
    let starts: Vec<_> = shown.lines().map(|line| line.split(':').next().unwrap_or_default()).collect();
    assert_eq!(starts, ["one traces", "one logs", "one metrics", "two traces"]);
    for count in (0..21).map(|power| 1 << power) {
        assert!(shown.contains(&format!(" {count} ")), "{count} in {shown}");
    }
    let quiet = Counts { accepted: 3, delivered: 3, ..Default::default() }.to_string();
    assert_eq!(quiet, "3 accepted, 3 delivered");
}

#[test]
fn attempts_are_counted() {
    let counters = Counters::default();
    (0..3).for_each(|_| counters.attempted());
    assert_eq!(counters.read("test", || [0, 0, 0]).attempts, 3);
}

proptest! {
    #[test]
    fn the_books_add_up_at_every_moment(
        entries in prop::collection::vec((0..OUTCOMES.len(), 0u64..1000), 0..30),
        in_flight in 0u64..1000,
    ) {
        let counters = Counters::default();
        let accepted = in_flight + entries.iter().map(|(_, records)| records).sum::<u64>();
        let mut expected = [0; OUTCOMES.len()];
        for (outcome, records) in entries {
            counters.settle(Signal::Traces, OUTCOMES[outcome], records);
            expected[outcome] += records;
            prop_assert!(adds_up(&read(&counters, accepted)));
        }
        let open = read(&counters, accepted);
        prop_assert_eq!((outcomes(&open), open.in_flight), (expected, in_flight));
        counters.close(false, || [accepted, 0, 0]);
        let closed = read(&counters, accepted);
        prop_assert_eq!((outcomes(&closed), closed.in_flight), (expected, 0));
        prop_assert_eq!(closed.dropped.shutdown, in_flight);
        prop_assert!(adds_up(&closed));
    }
}

#[test]
fn records_in_the_spool_are_counted_until_they_are_settled_and_over_restarts() {
    let counters = Counters::default();
    counters.spool(Signal::Traces, 5);
    let counts = read(&counters, 7);
    assert_eq!((counts.spooled, counts.in_flight, counts.lost()), (5, 2, 0));
    counters.take_from_spool(Signal::Traces, 3, true);
    counters.take_from_spool(Signal::Traces, 4, false);
    let counts = read(&counters, 7);
    assert_eq!((counts.spooled, counts.recovered, counts.in_flight), (2, 4, 9));
    assert!(adds_up(&counts), "{counts}");
    counters.put_back_into_spool(Signal::Traces, 4, false);
    counters.settle(Signal::Traces, Outcome::Delivered, 3);
    let dropped = |own, of_others| crate::spool::Dropped { own, of_others };
    counters.settle_spooled(Outcome::Damaged, [dropped(1, 5), dropped(0, 0), dropped(0, 0)]);
    counters.settle_spooled(Outcome::Expired, [dropped(1, 2), dropped(0, 0), dropped(0, 0)]);
    let counts = read(&counters, 7);
    assert_eq!(
        (counts.spooled, counts.recovered, counts.dropped.damaged, counts.dropped.expired),
        (0, 7, 6, 3)
    );
    assert!(adds_up(&counts) && counts.in_flight == 2, "{counts}");
}

#[test]
fn what_the_flight_recorder_has_is_spooled_at_the_end() {
    let counters = Counters::default();
    counters.settle(Signal::Traces, Outcome::Delivered, 3);
    counters.close(true, || [7, 0, 0]);
    let counts = read(&counters, 7);
    assert_eq!((counts.delivered, counts.spooled, counts.lost(), counts.in_flight), (3, 4, 0, 0));
}

#[test]
fn recovered_records_without_an_outcome_are_not_lost_at_the_end() {
    let counters = Counters::default();
    counters.take_from_spool(Signal::Traces, 5, false);
    counters.settle(Signal::Traces, Outcome::Delivered, 2);
    counters.close(false, || [0, 0, 0]);
    let counts = read(&counters, 0);
    assert_eq!((counts.delivered, counts.spooled, counts.lost(), counts.in_flight), (2, 3, 0, 0));
}

#[test]
fn what_the_flight_recorder_does_not_have_is_lost_at_the_end() {
    let counters = Counters::default();
    assert_eq!(counters.admit_collected(4, || true), Some(true));
    assert_eq!(counters.admit_collected(9, || false), Some(false));
    counters.settle_collected(Outcome::Delivered, 1);
    counters.close(true, || [1, 2, 6]);
    let ledger = counters.read("otlp", || [1, 2, 6]);
    let ends = Signal::ALL.map(|signal| (ledger.of(signal).spooled, ledger.of(signal).dropped.shutdown));
    assert_eq!(ends, [(1, 0), (2, 0), (2, 3)]);
}

/// Returns the result of `call`; `None` if it panics, as debug builds do for a wrong count.
fn unless_asserted<T>(call: impl FnOnce() -> T) -> Option<T> {
    let returned = contain_panic(call);
    if let Err(message) = &returned {
        assert!(message.ends_with("records were settled: one was counted twice"), "{message}");
    }
    assert_eq!(returned.is_err(), cfg!(debug_assertions));
    returned.ok()
}

#[test]
fn shows_no_records_in_flight_when_more_are_settled_than_accepted() {
    let counters = Counters::default();
    counters.settle(Signal::Traces, Outcome::Delivered, 3);
    let counts = unless_asserted(|| read(&counters, 2));
    assert_eq!(counts.map_or(0, |counts| counts.in_flight), 0);
    unless_asserted(|| counters.close(false, || [2, 0, 0]));
    assert_eq!(read(&counters, 3).dropped.shutdown, 0);
}

#[test]
fn shows_no_records_in_the_spool_when_more_leave_it_than_went_there() {
    const TWO: [spool::Dropped; Signal::COUNT] = [spool::Dropped { own: 2, of_others: 0 }; Signal::COUNT];
    let leave: [fn(&Counters); 4] = [
        |counters| counters.take_from_spool(Signal::Traces, 2, true),
        |counters| counters.put_back_into_spool(Signal::Traces, 2, false),
        |counters| counters.settle_spooled(Outcome::Expired, TWO),
        |counters| counters.settle_spooled(Outcome::Damaged, TWO),
    ];
    for (number, leave) in leave.into_iter().enumerate() {
        let counters = Counters::default();
        counters.spool(Signal::Traces, 1);
        counters.take_from_spool(Signal::Traces, 1, false);
        unless_asserted(|| leave(&counters));
        let counts = read(&counters, 100);
        let left = if number == 1 { counts.recovered } else { counts.spooled };
        assert_eq!(left, 0, "{counts}");
    }
}
