//! Cumulative metrics lose nothing in an outage of the collector.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use standpipe::config::Temporality;
use standpipe::receiver::{Answer, Receiver};
use standpipe::{FlushOutcome, Signal};

use super::wait_until;
use crate::support::points::{int, named, newest, numbers};
use crate::support::scene::{FOR_EVER, LONG, closed_address, emit, exporter, exporter_to, open_at, start};
use crate::support::size_within;

#[test]
fn after_an_outage_the_newest_snapshot_arrives_and_nothing_is_lost() {
    let address = closed_address();
    let telemetry = start(exporter_to(&format!("http://{address}")).interval(Duration::from_millis(5)));
    let orders = telemetry.meter("shop").counter("orders");
    orders.add(1, ());
    // Waits until some snapshots have failed and been superseded.
    wait_until(|| telemetry.ledger().exporters[0].metrics.superseded >= 3);
    orders.add(1, ());
    let receiver = open_at(address);
    assert!(receiver.wait_for_points(1, LONG));
    let ledger = telemetry.shutdown(LONG);
    let counts = ledger.exporters[0].metrics;
    assert_eq!(int(&newest(&receiver, "orders")[0]), 2);
    assert_eq!((ledger.lost(), counts.in_flight), (0, 0), "{ledger}");
    assert_eq!(counts.accepted, counts.delivered + counts.superseded, "{ledger}");
    assert_eq!(counts.delivered, receiver.point_count());
}

#[test]
fn deltas_that_could_not_be_delivered_are_sent_again_and_none_twice() {
    let receiver = Receiver::start().unwrap();
    receiver.script([Answer::status(503), Answer::status(503), Answer::status(429)]);
    let telemetry = start(exporter(&receiver).interval(FOR_EVER).temporality(Temporality::Delta));
    let orders = telemetry.meter("shop").counter("orders");
    for _ in 0..3 {
        orders.add(5, ());
        assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    }
    let steps: Vec<_> =
        named(&receiver, "orders").iter().flat_map(numbers).map(|point| int(&point)).collect();
    assert_eq!(steps, [5, 5, 5]);
    assert_eq!(telemetry.shutdown(LONG).lost(), 0);
}

#[test]
fn rejected_points_are_counted_one_by_one() {
    let receiver = Receiver::start().unwrap();
    receiver.script([Answer::partial(3, "too old")]);
    let telemetry = start(exporter(&receiver).interval(FOR_EVER));
    let orders = telemetry.meter("shop").counter("orders");
    (0..10).for_each(|number| orders.add(1, &[("n", number)]));
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    let counts = telemetry.ledger().exporters[0].metrics;
    assert_eq!((counts.accepted, counts.delivered, counts.rejected), (10, 7, 3), "{counts}");
    assert_eq!(receiver.point_count(), 7);
}

#[test]
fn a_collector_without_metrics_does_not_harm_the_traces() {
    let receiver = Receiver::start().unwrap();
    receiver.always_for(Signal::Metrics, Answer::status(404));
    let telemetry = start(exporter(&receiver).interval(Duration::from_millis(5)));
    telemetry.meter("shop").counter("orders").add(1, ());
    wait_until(|| telemetry.ledger().exporters[0].metrics.dropped.refused >= 3);
    emit(&telemetry.tracer("shop"), 50);
    let ledger = telemetry.shutdown(LONG);
    assert_eq!(
        (ledger.exporters[0].traces.delivered, ledger.exporters[0].traces.lost()),
        (50, 0),
        "{ledger}"
    );
}

#[test]
fn the_last_push_comes_within_the_budget_of_the_shutdown() {
    let receiver = Receiver::start().unwrap();
    receiver.always(Answer::hang());
    let telemetry = start(exporter(&receiver).interval(FOR_EVER));
    telemetry.meter("shop").counter("orders").add(1, ());
    let begun = Instant::now();
    let returned = telemetry.shutdown(Duration::from_millis(200)).total();
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert!(returned.in_flight == 0 && returned.lost() <= 1, "{returned}");
    // If the worker was not scheduled before the shutdown returned, it counts the lost data point afterwards.
    wait_until(|| telemetry.ledger().lost() > 0);
    let counts = telemetry.ledger().exporters[0].metrics;
    assert_eq!(counts.dropped.shutdown + counts.not_enqueued.after_shutdown, 1, "{counts}");
    assert_eq!((counts.accepted, counts.in_flight), (counts.dropped.shutdown, 0), "{counts}");
}

#[test]
fn nothing_measured_is_lost_while_callers_keep_the_queue_full() {
    let pushes = u64::from(size_within(6..=30));
    const SERIES: i64 = 300;
    let receiver = Receiver::start().unwrap();
    let exporter = exporter(&receiver).interval(Duration::from_millis(5)).queue_records(512);
    let telemetry = start(exporter.temporality(Temporality::Delta));
    let orders = telemetry.meter("shop").counter("orders");
    let (stop, begun) = (AtomicBool::new(false), Instant::now());
    let added = thread::scope(|scope| {
        let callers = [(); 4].map(|()| {
            scope.spawn(|| {
                let tracer = telemetry.tracer("shop");
                let goes_on = |_: &i64| !stop.load(Ordering::Relaxed) && begun.elapsed() < LONG;
                let numbers = (0..).take_while(goes_on);
                numbers
                    .inspect(|_| tracer.span("work").end())
                    .map(|number| orders.add(1, &[("n", number % SERIES)]))
                    .count()
            })
        });
        wait_until(|| telemetry.ledger().exporters[0].metrics.accepted >= pushes * SERIES as u64);
        stop.store(true, Ordering::Relaxed);
        callers.map(|caller| caller.join().unwrap()).iter().sum::<usize>()
    });
    let counts = telemetry.shutdown(LONG).exporters[0].metrics;
    assert_eq!(counts.lost(), 0, "{counts}");
    let sum: i64 = named(&receiver, "orders").iter().flat_map(numbers).map(|point| int(&point)).sum();
    assert_eq!(sum, added as i64);
}
