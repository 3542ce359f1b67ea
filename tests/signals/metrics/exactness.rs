//! No measurement is missed or counted twice.

use std::sync::Barrier;
use std::thread;

use standpipe::config::{Histograms, Temporality};
use standpipe::receiver::Receiver;
use standpipe::{Config, FlushOutcome};

use crate::support::points::{attributes, exponentials, float, histograms, int, named, newest, numbers};
use crate::support::scene::{FOR_EVER, LONG, exporter, start, start_with};
use crate::support::size_within;

#[test]
fn additions_of_eight_threads_are_summed_exactly() {
    const THREADS: u64 = 8;
    let additions = u64::from(size_within(20_000..=100_000));
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).interval(FOR_EVER));
    let orders = telemetry.meter("shop").counter("orders");
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let orders = &orders;
            scope.spawn(move || {
                // Half of the additions look up their attributes, half use bound attributes.
                let bound = orders.with(&[("half", "bound")]);
                for _ in 0..additions / 2 {
                    orders.add(1, &[("half", "found")]);
                    bound.add(thread);
                }
            });
        }
    });
    let ledger = telemetry.shutdown(LONG);
    assert_eq!(ledger.lost(), 0, "{ledger}");
    let sums: Vec<_> =
        newest(&receiver, "orders").iter().map(|p| (attributes(&p.attributes), int(p))).collect();
    let found = (THREADS * additions / 2) as i64;
    let bound = (0..THREADS).sum::<u64>() * additions / 2;
    let mut expected = [("half=bound".to_owned(), bound as i64), ("half=found".to_owned(), found)];
    expected.sort();
    let mut sums = sums;
    sums.sort();
    assert_eq!(sums, expected);
}

#[test]
fn deltas_add_up_to_the_cumulative_while_many_threads_measure() {
    const ROUNDS: usize = 20;
    const THREADS: usize = 4;
    let (cumulative, delta) = (Receiver::start().unwrap(), Receiver::start().unwrap());
    let config = Config::new()
        .exporter(exporter(&cumulative).named("cumulative").interval(FOR_EVER))
        .exporter(exporter(&delta).named("delta").interval(FOR_EVER).temporality(Temporality::Delta));
    let telemetry = start_with(config);
    let meter = telemetry.meter("shop");
    let (orders, revenue) = (meter.counter("orders"), meter.build("revenue").counter_f64());
    let (size, time) = (meter.histogram("size"), meter.build("time").exponential().histogram());
    let ready = Barrier::new(THREADS + 1);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (orders, revenue, size, time, ready) = (&orders, &revenue, &size, &time, &ready);
            scope.spawn(move || {
                let bound = orders.with(&[("thread", thread as i64)]);
                ready.wait();
                for step in 0..5_000_u64 {
                    bound.add(step);
                    orders.add(1, &[("step", (step % 7) as i64)]);
                    revenue.add(0.25, ());
                    size.record((step % 300) as f64, ());
                    time.record(1.5_f64.powi((step % 40) as i32), ());
                }
            });
        }
        ready.wait();
        for _ in 0..ROUNDS {
            assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
        }
    });
    assert_eq!(telemetry.shutdown(LONG).lost(), 0);

    let mut summed = std::collections::BTreeMap::new();
    for point in named(&delta, "orders").iter().flat_map(numbers) {
        *summed.entry(attributes(&point.attributes)).or_insert(0) += int(&point);
    }
    let whole: std::collections::BTreeMap<_, _> =
        newest(&cumulative, "orders").iter().map(|p| (attributes(&p.attributes), int(p))).collect();
    assert_eq!(summed, whole);

    let parts: f64 = named(&delta, "revenue").iter().flat_map(numbers).map(|point| float(&point)).sum();
    let whole = float(&newest(&cumulative, "revenue")[0]);
    assert_eq!((parts, whole), (0.25 * 5_000.0 * THREADS as f64, 0.25 * 5_000.0 * THREADS as f64));

    let whole = histograms(&named(&cumulative, "size").pop().unwrap()).pop().unwrap();
    let parts: Vec<_> = named(&delta, "size").iter().flat_map(histograms).collect();
    let added: Vec<u64> =
        (0..16).map(|bucket| parts.iter().map(|part| part.bucket_counts[bucket]).sum()).collect();
    assert_eq!(added, whole.bucket_counts);
    assert_eq!(parts.iter().map(|part| part.count).sum::<u64>(), whole.count);
    assert_eq!(parts.iter().filter_map(|part| part.sum).sum::<f64>(), whole.sum.unwrap());
    let least = parts.iter().filter_map(|part| part.min).fold(f64::MAX, f64::min);
    let most = parts.iter().filter_map(|part| part.max).fold(f64::MIN, f64::max);
    assert_eq!((Some(least), Some(most)), (whole.min, whole.max));
    for part in &parts {
        assert_eq!(part.count, part.bucket_counts.iter().sum::<u64>(), "a point is whole in itself");
    }

    let whole = exponentials(&named(&cumulative, "time").pop().unwrap()).pop().unwrap();
    let parts: Vec<_> = named(&delta, "time").iter().flat_map(exponentials).collect();
    assert_eq!(parts.iter().map(|part| part.count).sum::<u64>(), whole.count);
    assert_eq!(whole.count, 5_000 * THREADS as u64);
    assert_eq!(whole.positive.unwrap().bucket_counts.iter().sum::<u64>(), whole.count);
}

#[test]
fn cumulative_starts_stay_and_delta_periods_follow_each_other_without_a_gap() {
    let (cumulative, delta) = (Receiver::start().unwrap(), Receiver::start().unwrap());
    let config = Config::new()
        .exporter(exporter(&cumulative).named("cumulative").interval(FOR_EVER))
        .exporter(exporter(&delta).named("delta").interval(FOR_EVER).temporality(Temporality::Delta));
    let telemetry = start_with(config);
    let meter = telemetry.meter("shop");
    let (orders, size) = (meter.counter("orders"), meter.histogram("size"));
    meter.build("seconds").observe_counter_f64(|observer| observer.observe(1.5, ()));
    for _ in 0..4 {
        orders.add(1, ());
        size.record(1.0, ());
        assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    }
    for name in ["orders", "size", "seconds"] {
        let periods = |receiver| -> Vec<(u64, u64)> {
            let period = |metric| match name {
                "size" => {
                    histograms(metric).iter().map(|p| (p.start_time_unix_nano, p.time_unix_nano)).collect()
                }
                _ => numbers(metric)
                    .iter()
                    .map(|p| (p.start_time_unix_nano, p.time_unix_nano))
                    .collect::<Vec<_>>(),
            };
            named(receiver, name).iter().flat_map(period).collect()
        };
        let whole = periods(&cumulative);
        assert_eq!(whole.len(), 4, "{name}");
        assert!(whole.iter().all(|(start, time)| *start == whole[0].0 && time >= start), "{name} {whole:?}");
        assert!(whole.is_sorted(), "{name} {whole:?}");
        let parts = periods(&delta);
        assert_eq!(parts.len(), 4, "{name}");
        for pair in parts.windows(2) {
            assert_eq!(pair[0].1, pair[1].0, "{name}: a period begins where the last one ended");
        }
    }
}

#[test]
fn a_sum_at_the_end_of_the_scale_stays_there() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).interval(FOR_EVER).histograms(Histograms::Explicit));
    let meter = telemetry.meter("shop");
    let (up, down, float_up) =
        (meter.counter("up"), meter.up_down_counter("down"), meter.build("float").counter_f64());
    for _ in 0..3 {
        up.add(u64::MAX, ());
        down.add(i64::MIN, ());
        float_up.add(f64::MAX, ());
    }
    let size = meter.histogram("size");
    size.record(f64::MAX, ());
    size.record(f64::MAX, ());
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    assert_eq!(int(&newest(&receiver, "up")[0]), i64::MAX);
    assert_eq!(int(&newest(&receiver, "down")[0]), i64::MIN);
    assert_eq!(float(&newest(&receiver, "float")[0]), f64::MAX);
    let point = histograms(&named(&receiver, "size")[0]).pop().unwrap();
    assert_eq!((point.count, point.sum), (2, Some(f64::MAX)));
}

#[test]
fn many_small_fractions_add_up() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).interval(FOR_EVER));
    let meter = telemetry.meter("shop");
    let (revenue, size) = (meter.build("revenue").counter_f64(), meter.histogram("size"));
    for _ in 0..100_000 {
        revenue.add(0.1, ());
        size.record(0.1, ());
    }
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    // Plain addition would have an error of 2e-8.
    assert!((float(&newest(&receiver, "revenue")[0]) - 10_000.0).abs() < 1e-9);
    let sum = histograms(&named(&receiver, "size")[0])[0].sum.unwrap();
    assert!((sum - 10_000.0).abs() < 1e-9, "{sum}");
}

#[test]
fn deltas_miss_nothing_while_series_are_forgotten_and_handles_come_and_go() {
    const THREADS: u64 = 4;
    // Enough for more customers than the limit of series.
    let steps = u64::from(size_within(2_000..=5_000));
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).interval(FOR_EVER).temporality(Temporality::Delta));
    let meter = telemetry.meter("shop");
    let orders = meter.build("orders").cardinality_limit(32).counter();
    let size = meter.build("size").cardinality_limit(32).histogram();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (orders, size) = (&orders, &size);
                scope.spawn(move || {
                    for step in 0..steps {
                        let customer = [("customer", ((step / 50 + thread) % 500) as i64)];
                        orders.with(&customer).add(1);
                        orders.add(1, &customer);
                        size.with(&customer).record(1.0);
                    }
                })
            })
            .collect();
        while workers.iter().any(|worker| !worker.is_finished()) {
            assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
        }
    });
    assert_eq!(telemetry.shutdown(LONG).lost(), 0);
    let sum: i64 = named(&receiver, "orders").iter().flat_map(numbers).map(|point| int(&point)).sum();
    assert_eq!(sum, (2 * THREADS * steps) as i64);
    let count: u64 = named(&receiver, "size").iter().flat_map(histograms).map(|point| point.count).sum();
    assert_eq!(count, THREADS * steps);
}
