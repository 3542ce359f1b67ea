//! The start of the period that each point covers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use standpipe::config::Temporality;
use standpipe::receiver::Receiver;
use standpipe::{FlushOutcome, Telemetry};

use crate::support::points::{int, named, newest, numbers};
use crate::support::scene::{FOR_EVER, LONG, exporter, start};

/// Waits until the clock has advanced, and returns its time.
fn now() -> u64 {
    let read = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let begun = read();
    loop {
        match read() {
            now if now > begun => return now,
            _ => std::hint::spin_loop(),
        }
    }
}

fn flush(telemetry: &Telemetry) {
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
}

#[test]
fn starts_a_cumulative_series_at_its_first_measurement() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).interval(FOR_EVER));
    let orders = telemetry.meter("shop").counter("orders");
    let mut between = vec![now()];
    for number in 0..2 {
        orders.add(1, &[("n", number)]);
        between.push(now());
        flush(&telemetry);
    }
    orders.add(1, &[("n", 0)]);
    flush(&telemetry);
    let starts: Vec<_> = newest(&receiver, "orders").iter().map(|point| point.start_time_unix_nano).collect();
    assert_eq!(starts.len(), 2);
    for (start, between) in starts.iter().zip(between.windows(2)) {
        assert!((between[0]..between[1]).contains(start), "{start} is not in {between:?}");
    }
}

#[test]
fn starts_an_observed_series_at_the_creation_or_at_the_collection_before_it_was_seen() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).interval(FOR_EVER));
    let round = Arc::new(AtomicU64::new(0));
    let before = now();
    telemetry.meter("shop").build("seen").observe_counter(move |observer| {
        // Collection 0 observes series 0, collection 2 observes series 1, and all others observe both.
        match round.fetch_add(1, Ordering::SeqCst) {
            0 => observer.observe(1, &[("n", 0)]),
            2 => observer.observe(1, &[("n", 1)]),
            _ => [0, 1].into_iter().for_each(|n| observer.observe(1, &[("n", n)])),
        }
    });
    let after = now();
    (0..4).for_each(|_| flush(&telemetry));
    let collected = named(&receiver, "seen");
    let points: Vec<_> = collected.iter().map(numbers).collect();
    let time = |round: usize| points[round][0].time_unix_nano;
    let starts: Vec<Vec<_>> =
        points.iter().map(|points| points.iter().map(|point| point.start_time_unix_nano).collect()).collect();
    let created = starts[0][0];
    assert!((before..after).contains(&created));
    assert_eq!(starts[1..], [vec![created, time(0)], vec![time(0)], vec![time(2), time(0)]]);
}

#[test]
fn starts_all_deltas_of_an_instrument_at_the_previous_collection() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).interval(FOR_EVER).temporality(Temporality::Delta));
    let meter = telemetry.meter("shop");
    let orders = meter.counter("orders");
    meter.build("seen").observe_counter(|observer| observer.observe(1, ()));
    for number in 0..3 {
        (0..=number).for_each(|number| orders.add(1, &[("n", number)]));
        flush(&telemetry);
    }
    for name in ["orders", "seen"] {
        let collected: Vec<_> = named(&receiver, name).iter().map(numbers).collect();
        assert_eq!(collected.len(), 3);
        for pair in collected.windows(2) {
            for point in &pair[1] {
                assert_eq!(point.start_time_unix_nano, pair[0][0].time_unix_nano, "{name}");
            }
        }
    }
}

#[test]
fn reports_deltas_of_zero_when_zero_was_measured() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).interval(FOR_EVER).temporality(Temporality::Delta));
    let meter = telemetry.meter("shop");
    let (orders, bound) = (meter.counter("orders"), meter.counter("bound").with(()));
    let revenue = meter.build("revenue").counter_f64();
    for value in [0, 1, 0] {
        orders.add(value, ());
        bound.add(value);
        revenue.add(value as f64, ());
        flush(&telemetry);
    }
    flush(&telemetry);
    for name in ["orders", "bound"] {
        let sums: Vec<_> = named(&receiver, name).iter().map(|metric| int(&numbers(metric)[0])).collect();
        assert_eq!(sums, [0, 1, 0], "{name}");
    }
    assert_eq!(named(&receiver, "revenue").len(), 3);
}
