use std::thread;

use super::*;
use crate::config::ExemplarFilter;
use crate::record::Number;

const SEED: u64 = 7;

fn table(limit: usize) -> Table {
    Table::new((AggregationKind::IntDelta, ExemplarFilter::default()), limit, SEED)
}

/// Returns all series, in the order of their creation.
fn all(table: &Table) -> Vec<Arc<Series>> {
    let mut all = Vec::with_capacity(2000);
    table.copy_into(&mut all).unwrap();
    all
}

fn add(table: &Table, pairs: &[Pair<'_>], value: i64) {
    table.series(pairs).aggregator.update(value as u64);
}

/// Returns the sums of all series, in the order of their creation.
fn sums(table: &Table) -> Vec<i64> {
    let sum = |series: &Arc<Series>| match series.aggregator.read() {
        Some(super::super::aggregator::PointValue::Number(Number::Int(sum))) => sum,
        other => panic!("{other:?}"),
    };
    all(table).iter().map(sum).collect()
}

#[test]
fn the_same_attributes_in_any_order_are_one_series() {
    let table = table(2000);
    add(&table, &[("a", 1.into()), ("b", "x".into())], 1);
    add(&table, &[("b", "x".into()), ("a", 1.into())], 2);
    add(&table, &[("a", 9.into()), ("b", "x".into()), ("a", 1.into())], 4);
    add(&table, &[("a", 2.into()), ("b", "x".into())], 8);
    add(&table, &[], 16);
    add(&table, &[("", 1.into())], 32);
    assert_eq!(sums(&table), [7, 8, 48]);
}

#[test]
fn series_with_other_keys_than_the_first_are_found_again_also_after_idle_ones_were_forgotten() {
    let mut table = table(2000);
    let measure = |table: &Table| {
        add(table, &[("a", "x".into()), ("b", "y".into())], 1);
        add(table, &[("b", "y".into()), ("c", "x".into())], 2);
        add(table, &[("b", "x".into()), ("a", "y".into())], 4);
        add(table, &[("a", "y".into()), ("b", "x".into())], 8);
        add(table, &[("a", "x".into())], 16);
    };
    measure(&table);
    assert_eq!(sums(&table), [1, 2, 12, 16]);
    _ = all(&table)[0].aggregator.take();
    drop(table.forget_idle());
    measure(&table);
    assert_eq!(sums(&table), [4, 24, 32, 1]);
}

#[test]
fn what_comes_beyond_the_limit_is_put_together() {
    let table = table(4);
    for number in 0..10 {
        add(&table, &[("n", number.into())], 1);
    }
    add(&table, &[("n", 0.into())], 1);
    assert_eq!(sums(&table), [2, 1, 1, 1, 6], "the overflow series does not count towards the limit");
    assert!(table.is_overflowing());
    assert_eq!(all(&table)[4].attributes, overflow());
}

#[test]
fn the_rest_is_one_series_also_if_it_was_asked_for_by_its_attributes_before_the_limit_was_reached() {
    let table = table(4);
    add(&table, &[("otel.metric.overflow", true.into())], 10);
    for number in 0..5 {
        add(&table, &[("n", number.into())], 1);
    }
    assert_eq!(sums(&table), [11, 1, 1, 1, 1]);
    assert_eq!(all(&table)[0].attributes, overflow());
}

#[test]
fn a_limit_of_zero_is_one_set_and_the_overflow() {
    let table = table(0);
    add(&table, &[], 1);
    add(&table, &[("a", 1.into())], 1);
    assert_eq!(sums(&table), [1, 1]);
}

#[test]
fn threads_that_meet_at_a_new_series_share_it() {
    let table = table(2000);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for number in 0..500 {
                    add(&table, &[("n", (number % 250).into())], 1);
                }
            });
        }
    });
    assert_eq!(sums(&table), [16; 250]);
}

#[test]
fn only_idle_series_are_forgotten() {
    let mut table = table(5);
    for number in 0..6 {
        add(&table, &[("n", number.into())], 1);
    }
    let bound = Arc::clone(&all(&table)[0]);
    bound.bind();
    all(&table).iter().skip(1).for_each(|series| _ = series.aggregator.take());
    add(&table, &[("n", 2.into())], 5);
    add(&table, &[("n", 99.into())], 7);

    drop(table.forget_idle());
    assert_eq!(sums(&table), [1, 5, 7]);
    assert!(table.is_overflowing(), "there was something in it");
    add(&table, &[("n", 0.into())], 1);
    assert_eq!(sums(&table)[0], 2, "a handle that is bound goes on with the same series");
    bound.unbind();
    all(&table).iter().for_each(|series| _ = series.aggregator.take());
    drop(table.forget_idle());
    assert_eq!(all(&table).len(), 0);
    assert!(!table.is_overflowing());
}
