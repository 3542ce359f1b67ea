use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::*;
use crate::config::ExemplarFilter;
use crate::context::unix_now;
use crate::metrics::aggregator::AggregationKind;
use crate::metrics::instrument::NumberKind;
use crate::record::{ExponentialLimits, Number};

const SEED: u64 = 7;

fn deltas(aggregation: AggregationKind, limit: usize) -> MetricStorage {
    MetricStorage::new(
        Table::new((aggregation, ExemplarFilter::default()), limit, SEED),
        AggregationTemporality::Delta,
        None,
        1,
    )
}

fn int(held: &PendingPoint) -> i64 {
    match held.value {
        PointValue::Number(Number::Int(value)) => value,
        ref other => panic!("{other:?}"),
    }
}

/// Returns the sums that a collection at this time exports and confirms, with the starts of their periods.
fn confirmed(storage: &MetricStorage, now: u64) -> Vec<(i64, u64)> {
    let mut exported = Vec::new();
    storage.collect(now, &mut |held| {
        exported.push((int(&held), held.period.start));
        held.confirm();
        true
    });
    storage.end_period(now);
    exported
}

#[test]
fn gives_all_points_of_a_collection_the_start_of_its_period_when_some_were_put_back() {
    let storage = deltas(AggregationKind::IntDelta, 100);
    for number in 0..3 {
        storage.update(&[("n", number.into())], 1);
    }
    let mut looked_at = 0;
    storage.collect(10, &mut |held| {
        looked_at += 1;
        // The first point is accepted, the second is not, and the third is not passed on.
        if looked_at == 1 {
            held.confirm();
        }
        looked_at == 1
    });
    assert_eq!(looked_at, 2);
    storage.end_period(10);
    storage.update(&[("n", 0.into())], 5);
    storage.update(&[("n", 1.into())], 5);
    storage.update(&[("n", 3.into())], 5);
    assert_eq!(confirmed(&storage, 20), [(5, 10), (6, 10), (1, 10), (5, 10)]);
    storage.update(&[("n", 1.into())], 7);
    assert_eq!(confirmed(&storage, 30), [(7, 20)]);
}

#[test]
fn sends_no_exemplar_in_the_period_after_that_of_its_measurement() {
    let kind = (AggregationKind::IntDelta, ExemplarFilter::AlwaysOn);
    let table = Table::new(kind, 9, SEED);
    let storage = MetricStorage::new(table, AggregationTemporality::Delta, None, 1);
    let SeriesTable::Delta(table) = &storage.series else { panic!() };
    // Called between the aggregation of the measurement and the storing of its exemplar.
    let collect = || {
        assert_eq!(confirmed(&storage, unix_now() + 1), [(5, 1)]);
        AttributeSet::default()
    };
    update_held(table, &[], 5, &collect);
    let mut exemplars = Vec::new();
    // Not offered, because its exemplar could replace the first one.
    crate::context::without_offering(|| storage.update(&[], 2));
    storage.collect(u64::MAX, &mut |mut held| {
        exemplars.append(&mut held.exemplars);
        true
    });
    let values: Vec<_> = exemplars.iter().map(|exemplar| exemplar.value).collect();
    assert!(!values.contains(&Number::Int(5)), "{values:?}");
}

#[test]
fn reports_a_delta_of_zero_once_when_zero_was_measured() {
    let (ints, floats) =
        (deltas(AggregationKind::IntDelta, 9), deltas(AggregationKind::Sum(NumberKind::Float), 9));
    let exported = |storage: &MetricStorage| {
        let mut count = 0;
        storage.collect(10, &mut |held| {
            held.confirm();
            count += 1;
            true
        });
        count
    };
    for storage in [&ints, &floats] {
        drop(storage.bind(&[]));
        assert_eq!(exported(storage), 0, "nothing was measured");
        storage.update(&[], 0);
        storage.collect(5, &mut |held| {
            drop(held);
            true
        });
        assert_eq!((exported(storage), exported(storage)), (1, 0), "exported again, and only once");
    }
}

#[test]
fn counts_a_cumulative_series_since_its_first_measurement() {
    let table = Table::new((AggregationKind::Sum(NumberKind::Int), ExemplarFilter::default()), 9, SEED);
    let storage = MetricStorage::new(table, AggregationTemporality::Cumulative, None, 1);
    let before = unix_now();
    storage.update(&[], 3);
    let after = unix_now();
    for now in [0, u64::MAX] {
        storage.collect(now, &mut |held| {
            assert!((before..=after).contains(&held.period.start), "{:?}", held.period);
            assert_eq!(held.period.time, now.max(held.period.start));
            true
        });
        storage.end_period(now);
    }
}

#[test]
fn a_series_that_is_held_is_not_forgotten() {
    let storage = deltas(AggregationKind::IntDelta, 2);
    storage.update(&[("n", 0.into())], 1);
    storage.update(&[("n", 1.into())], 1);
    let mut kept = None;
    storage.collect(10, &mut |held| {
        if kept.is_none() {
            kept = Some(held);
        } else {
            held.confirm();
        }
        true
    });
    storage.end_period(10);
    // A new attribute set removes the idle series, but not the bound one.
    storage.update(&[("n", 2.into())], 1);
    drop(kept);
    storage.update(&[("n", 0.into())], 1);
    assert_eq!(confirmed(&storage, 20), [(2, 10), (1, 10)]);
    assert!(!storage.is_overflowing());
}

#[test]
fn nothing_is_lost_while_threads_measure_and_half_of_it_is_put_back() {
    const THREADS: u64 = 4;
    const STEPS: u64 = 5_000;
    let (sums, histograms) = (
        deltas(AggregationKind::IntDelta, 16),
        deltas(AggregationKind::Exponential(ExponentialLimits::DEFAULT), 16),
    );
    let is_over = AtomicBool::new(false);
    let (mut sum, mut count) = (0, 0);
    thread::scope(|scope| {
        let callers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (sums, histograms) = (&sums, &histograms);
                scope.spawn(move || {
                    for step in 0..STEPS {
                        let pairs = [("n", ((step / 20 + thread) as i64 % 100).into())];
                        sums.update(&pairs, 1);
                        histograms.update(&pairs, (step as f64).to_bits());
                    }
                })
            })
            .collect();
        let mut number = 0;
        loop {
            let is_last = is_over.load(Ordering::SeqCst);
            let mut is_kept = || {
                number += 1;
                number % 2 == 0 || is_last
            };
            sums.collect(2, &mut |held| {
                if is_kept() {
                    sum += int(&held);
                    held.confirm();
                }
                true
            });
            histograms.collect(2, &mut |held| {
                let PointValue::Exponential(histogram) = &held.value else { panic!("{:?}", held.value) };
                if is_kept() {
                    count += histogram.point().count;
                    held.confirm();
                }
                true
            });
            if is_last {
                break;
            }
            is_over.store(callers.iter().all(|caller| caller.is_finished()), Ordering::SeqCst);
        }
    });
    assert_eq!((sum, count), ((THREADS * STEPS) as i64, THREADS * STEPS));
}
