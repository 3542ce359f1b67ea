//! Tests of metrics that callers have enqueued, together with those that the worker collects.

use super::*;
use crate::pipeline::queue::Wait;
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
        assert!(record.add(&attributes, period, &Point::Number(Number::Int(7))));
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
    // These fill the queue. They leave it while a part of the snapshot waits to be sent.
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

#[cfg(all(feature = "spool", target_os = "linux"))]
#[test]
fn counts_enqueued_metrics_as_spooled_though_others_were_collected() {
    let name = format!("standpipe-collected-{}", std::process::id());
    let directory = std::env::temp_dir().join(name);
    let _ = std::fs::remove_dir_all(&directory);
    let world = World::with(Temporality::Cumulative, LONG, |spec| {
        spec.spool = SpoolSettings { directory: Some(directory.clone()), ..SpoolSettings::default() };
    });
    world.meter.counter("orders").add(1, ());
    let flushed = world.handle.start_flush();
    assert_eq!(world.accept(), orders(1));
    assert!(flushed.ends_within(PATIENCE));
    // The second snapshot is still at the gate when the counters are closed, and the enqueued points are in the queue.
    let _flushed = world.handle.start_flush();
    world.gate.next();
    let scope = Arc::new(Scope::new(Signal::Metrics, "outside", ""));
    world.handle.enqueue(&scope, &outside(3), 3, &Wait::FromNow);
    world.handle.start_stop(Instant::now());
    world.handle.finish_stop();
    let counts = world.counts();
    assert_eq!((counts.spooled, counts.dropped.shutdown, counts.delivered), (3, 1, 1), "{counts}");
    world.accept();
    assert!(world.handle.wait_for_end(Instant::now() + PATIENCE));
    drop(world);
    std::fs::remove_dir_all(directory).unwrap();
}
