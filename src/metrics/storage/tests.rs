use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::*;
use crate::metrics::aggregator::AggregationKind;
use crate::metrics::instrument::NumberKind;
use crate::record::Number;

const SEED: u64 = 7;

fn deltas(aggregation: AggregationKind, limit: usize) -> MetricStorage {
    MetricStorage::new(Table::new(aggregation, limit, SEED), AggregationTemporality::Delta, 1)
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
    storage.collect(now, |held| {
        exported.push((int(&held), held.period.start));
        held.confirm();
        true
    });
    exported
}

#[test]
fn what_was_put_back_or_not_looked_at_keeps_the_beginning_of_its_period() {
    let storage = deltas(AggregationKind::Sum(NumberKind::Int), 100);
    for number in 0..3 {
        storage.update(&[("n", number.into())], 1);
    }
    let mut looked_at = 0;
    storage.collect(10, |held| {
        looked_at += 1;
        // The first point is accepted, the second is not, and the third is not passed on.
        if looked_at == 1 {
            held.confirm();
        }
        looked_at == 1
    });
    assert_eq!(looked_at, 2);
    storage.update(&[("n", 0.into())], 5);
    storage.update(&[("n", 1.into())], 5);
    storage.update(&[("n", 3.into())], 5);
    assert_eq!(confirmed(&storage, 20), [(5, 10), (6, 1), (1, 1), (5, 10)]);
    storage.update(&[("n", 1.into())], 7);
    assert_eq!(confirmed(&storage, 30), [(7, 20)]);
}

#[test]
fn a_series_that_is_held_is_not_forgotten() {
    let storage = deltas(AggregationKind::Sum(NumberKind::Int), 3);
    storage.update(&[("n", 0.into())], 1);
    storage.update(&[("n", 1.into())], 1);
    let mut kept = None;
    storage.collect(10, |held| {
        if kept.is_none() {
            kept = Some(held);
        } else {
            held.confirm();
        }
        true
    });
    // A new attribute set removes the idle series, but not the bound one.
    storage.update(&[("n", 2.into())], 1);
    drop(kept);
    storage.update(&[("n", 0.into())], 1);
    assert_eq!(confirmed(&storage, 20), [(2, 1), (1, 10)]);
    assert!(!storage.is_overflowing());
}

#[test]
fn nothing_is_lost_while_threads_measure_and_half_of_it_is_put_back() {
    const THREADS: u64 = 4;
    const STEPS: u64 = 5_000;
    let (sums, histograms) =
        (deltas(AggregationKind::Sum(NumberKind::Int), 16), deltas(AggregationKind::Exponential, 16));
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
            sums.collect(2, |held| {
                if is_kept() {
                    sum += int(&held);
                    held.confirm();
                }
                true
            });
            histograms.collect(2, |held| {
                let PointValue::Exponential(histogram) = &held.value else { panic!("{held:?}") };
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
