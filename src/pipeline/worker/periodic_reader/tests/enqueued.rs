//! Tests of metrics that callers have enqueued, together with those that the worker collects.

use super::*;
use crate::pipeline::batch::Next;
use crate::pipeline::ledger::Counters;
use crate::pipeline::problems::ProblemReporter;
use crate::pipeline::queue::{Queue, Shared, Wait};
use crate::pipeline::schedule::Throttle;
use crate::pipeline::worker::Delivery;
use crate::record::{
    AggregationTemporality, AttributeSet, MetricHead, MetricRecord, Number, Period, Point, PointKind,
};

/// Returns a framed sum of a caller, with `points` points of the value 7.
fn outside(points: i64) -> Vec<u8> {
    let point_kind = PointKind::Sum { monotonic: true, temporality: AggregationTemporality::Cumulative };
    let mut record = MetricRecord::default();
    record.begin(&MetricHead { name: "outside", description: "", unit: "", point_kind }, usize::MAX);
    let period = Period { start: 1, time: 2 };
    for number in 0..points {
        let attributes = AttributeSet::new([("number", number.into())]);
        assert!(record.add(&attributes, period, &Point::Number(Number::Int(7)), &[]));
    }
    record.finish().to_vec()
}

fn sevens(count: usize) -> Vec<(String, i64)> {
    vec![("outside".to_owned(), 7); count]
}

#[test]
fn metrics_from_outside_are_tried_until_they_are_delivered_though_newer_ones_are_wanted() {
    let world = World::with(Temporality::Cumulative, LONG, |spec| {
        spec.pace.throttle = Duration::ZERO;
        spec.retry.max_delay = Duration::from_millis(1);
    });
    let scope = Arc::new(Scope::new(Signal::Metrics, "outside", ""));
    world.handle.enqueue(&scope, &outside(3), 3, &Wait::FromNow);
    world.gate.next();
    world.meter.counter("orders").add(1, ());
    let flushed = world.handle.start_flush();
    for _ in 0..5 {
        assert_eq!(sums(&world.gate.answer(later())), sevens(3));
    }
    assert_eq!(world.accept(), sevens(3));
    assert_eq!(world.accept(), orders(1));
    assert!(flushed.ends_within(PATIENCE));
    let counts = world.counts();
    assert_eq!((counts.superseded, counts.lost()), (0, 0), "{counts}");
}

#[test]
fn metrics_from_outside_stay_when_a_snapshot_makes_way_for_a_newer_one() {
    let world = World::with(Temporality::Cumulative, LONG, |spec| spec.queue.records = 8);
    let (asked, was_asked) = crossbeam_channel::bounded(1);
    let (go_on, may_go_on) = crossbeam_channel::bounded::<()>(1);
    world.meter.counter("orders").add(1, ());
    world.meter.build("slow").observe_counter(move |observer| {
        let _ = asked.try_send(());
        let _ = may_go_on.recv_timeout(PATIENCE);
        observer.observe(1, &[("a", 1)]);
        observer.observe(1, &[("a", 2)]);
    });
    let first = world.handle.start_flush();
    was_asked.recv_timeout(PATIENCE).unwrap();
    // These metrics fill the queue, and leave it while a part of the snapshot waits to be sent.
    let scope = Arc::new(Scope::new(Signal::Metrics, "outside", ""));
    world.handle.enqueue(&scope, &outside(6), 6, &Wait::FromNow);
    drop(go_on);
    assert_eq!(sums(&world.gate.next()), orders(1));
    let second = world.handle.start_flush();
    world.gate.answer(later());
    assert_eq!(world.accept(), sevens(6));
    while !first.is_over() {
        if world.gate.next_within(Duration::from_millis(5)).is_some() {
            world.accept();
        }
    }
    assert!(second.ends_within(PATIENCE));
    let counts = world.counts();
    assert_eq!((counts.superseded, counts.lost(), counts.in_flight), (1, 0, 0), "{counts}");
    assert_eq!((counts.accepted, counts.delivered), (10, 9), "{counts}");
}

#[test]
fn halves_of_metrics_from_outside_are_not_replaced_either() {
    let world = World::with(Temporality::Cumulative, LONG, |spec| {
        spec.pace.throttle = Duration::ZERO;
        spec.retry.max_delay = Duration::from_millis(1);
    });
    let scope = Arc::new(Scope::new(Signal::Metrics, "outside", ""));
    world.handle.enqueue(&scope, &[outside(2), outside(2)].concat(), 4, &Wait::FromNow);
    world.gate.answer(Verdict::TooLarge { reason: "too large".to_owned() });
    let flushed = world.handle.start_flush();
    assert_eq!(sums(&world.gate.answer(later())), sevens(2));
    assert_eq!(world.accept(), sevens(2));
    assert_eq!(world.accept(), sevens(2));
    assert!(flushed.ends_within(PATIENCE));
    let counts = world.counts();
    assert_eq!((counts.delivered, counts.superseded), (4, 0), "{counts}");
}

/// Starts a cumulative exporter with a spool in a new directory.
#[cfg(all(feature = "spool", target_os = "linux"))]
fn with_spool(name: &str, batch: BatchSettings) -> (World, std::path::PathBuf) {
    let directory = std::env::temp_dir().join(format!("standpipe-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    let world = World::with(Temporality::Cumulative, LONG, |spec| {
        spec.batch = batch;
        spec.spool = SpoolSettings { directory: Some(directory.clone()), ..SpoolSettings::default() };
    });
    (world, directory)
}

/// Closes the counters while a request is at the gate, then ends the worker. Returns the counts.
#[cfg(all(feature = "spool", target_os = "linux"))]
fn close((world, directory): (World, std::path::PathBuf)) -> Counts {
    world.handle.start_stop(Instant::now());
    world.handle.finish_stop();
    let counts = world.counts();
    world.accept();
    assert!(world.handle.wait_for_end(Instant::now() + PATIENCE));
    drop(world);
    std::fs::remove_dir_all(directory).unwrap();
    counts
}

#[cfg(all(feature = "spool", target_os = "linux"))]
#[test]
fn counts_enqueued_metrics_as_spooled_though_others_were_collected() {
    let (world, directory) = with_spool("collected", BatchSettings::default());
    world.meter.counter("orders").add(1, ());
    let flushed = world.handle.start_flush();
    assert_eq!(world.accept(), orders(1));
    assert!(flushed.ends_within(PATIENCE));
    // The second snapshot is still at the gate when the counters are closed, and the enqueued points are in the queue.
    let _flushed = world.handle.start_flush();
    world.gate.next();
    let scope = Arc::new(Scope::new(Signal::Metrics, "outside", ""));
    world.handle.enqueue(&scope, &outside(3), 3, &Wait::FromNow);
    let counts = close((world, directory));
    assert_eq!((counts.spooled, counts.dropped.shutdown, counts.delivered), (3, 1, 1), "{counts}");
}

#[cfg(all(feature = "spool", target_os = "linux"))]
#[test]
fn counts_enqueued_metrics_as_spooled_though_a_collected_one_was_too_large() {
    let name = "o".repeat(200);
    let world = World::new(Temporality::Cumulative, LONG);
    world.meter.counter(&name).add(1, ());
    let flushed = world.handle.start_flush();
    let request = world.gate.answer(Verdict::Accepted).body.len();
    assert!(flushed.ends_within(PATIENCE));
    // The metric alone would fit into this size, but not with its scope and with headers of the maximum length.
    let batch = BatchSettings { bytes: request + 3, ..BatchSettings::default() };
    let (world, directory) = with_spool("too-large", batch);
    world.meter.counter(&name).add(1, ());
    assert!(world.handle.start_flush().ends_within(PATIENCE));
    assert_eq!(world.counts().dropped.too_large, 1, "{}", world.counts());
    let scope = Arc::new(Scope::new(Signal::Metrics, "outside", ""));
    world.handle.enqueue(&scope, &outside(3), 3, &Wait::FromNow);
    let _flushed = world.handle.start_flush();
    world.gate.next();
    let counts = close((world, directory));
    assert_eq!((counts.spooled, counts.dropped.shutdown), (3, 0), "{counts}");
}

#[test]
fn write_off_settles_collected_points_of_backlog_and_current_batch() {
    let counters = Arc::new(Counters::default());
    let reporter = Arc::new(ProblemReporter::new("memory", None, None));
    let shared = Shared::new(Arc::clone(&counters), reporter, crossbeam_channel::bounded(1).0);
    let queue = Arc::new(Queue::new(&QueueSettings::default(), 1 << 10, shared));
    let throttle = Throttle::new(PaceSettings { throttle: LONG, linger: LONG });
    let mut delivery = Delivery::of(Signal::Metrics, Arc::clone(&queue), Arc::clone(&counters), throttle);
    let (scope, frame) = (Arc::new(Scope::new(Signal::Metrics, "outside", "")), outside(3));
    for _ in 0..2 {
        assert_eq!(counters.admit_collected(3, || queue.admit(3, frame.len())), Some(true));
        delivery.backlog.append(&scope, &frame, 3);
    }
    let one_frame = BatchSettings { records: 3, ..BatchSettings::default() };
    assert!(matches!(delivery.next_batch(&one_frame, &[]), Some(Next::Batch(batch)) if batch.records == 3));
    queue.enqueue(&scope, &outside(2), 2, &Wait::No);
    delivery.write_off();
    counters.close(true, || [0, 0, queue.accepted()]);
    let counts = counters.read("memory", || [0, 0, queue.accepted()]).metrics;
    let ends = (counts.dropped.worker_panicked, counts.spooled, counts.dropped.shutdown);
    assert_eq!(ends, (6, 2, 0), "{counts}");
}
