use proptest::prelude::*;

use super::*;
use crate::metrics::aggregation::tests::exact_sum;

fn sum_of(values: &[f64]) -> NeumaierSum {
    let mut sum = NeumaierSum::default();
    values.iter().for_each(|value| sum.add(*value));
    sum
}

/// Far enough from the largest double that no part of a sum overflows.
fn any_moderate() -> impl Strategy<Value = f64> {
    (prop::num::f64::NORMAL | prop::num::f64::SUBNORMAL | prop::num::f64::ZERO)
        .prop_map(|value| if value.abs() > 1e300 { value / 1e10 } else { value })
}

/// An ulp of the sum, and as much of the size of all values as twice the precision of a double leaves.
fn tolerance(values: &[f64], exact: f64) -> f64 {
    let size: f64 = values.iter().map(|value| value.abs()).sum();
    let count = values.len() as f64;
    2.0 * f64::EPSILON * exact.abs() + count * count * f64::EPSILON * f64::EPSILON * size
}

proptest! {
    #[test]
    fn a_sum_is_as_near_to_the_exact_one_as_a_double_can_say(values in prop::collection::vec(any_moderate(), 0..200)) {
        let exact = exact_sum(&values);
        let sum = sum_of(&values).value();
        prop_assert!((sum - exact).abs() <= tolerance(&values, exact), "{sum} for {exact}");
    }

    #[test]
    fn parts_add_up_to_the_whole(values in prop::collection::vec(any_moderate(), 0..100), at in any::<prop::sample::Index>()) {
        let (head, tail) = values.split_at(at.index(values.len() + 1));
        let mut merged = sum_of(head);
        merged.merge(&sum_of(tail));
        let exact = exact_sum(&values);
        prop_assert!((merged.value() - exact).abs() <= tolerance(&values, exact));
    }

    #[test]
    fn a_sum_is_always_finite(values in prop::collection::vec(
        prop_oneof![prop::num::f64::ANY, Just(f64::MAX), Just(f64::MIN)], 0..50),
    ) {
        prop_assert!(sum_of(&values).value().is_finite());
    }
}

#[test]
fn small_values_are_not_lost_beside_large_ones() {
    assert_eq!(sum_of(&[1.0, 1e100, 1.0, -1e100]).value(), 2.0);
    assert_eq!(sum_of(&[0.1; 10]).value(), 1.0);
    assert_eq!(sum_of(&vec![0.1; 1_000_000]).value(), 100_000.0);
}

#[test]
fn small_values_of_a_part_are_not_lost_either() {
    let mut merged = sum_of(&[1.0, 1e100]);
    merged.merge(&sum_of(&[1.0, -1e100]));
    assert_eq!(merged.value(), 2.0);
}

#[test]
fn an_overflow_stays_at_the_largest_double() {
    assert_eq!(sum_of(&[f64::MAX, f64::MAX, 1.0]).value(), f64::MAX);
    assert_eq!(sum_of(&[f64::MIN, f64::MIN, -1.0]).value(), f64::MIN);
    // each is too small to change the sum, all that was dropped is not
    let quarter_of_an_ulp = 2.0f64.powi(1023 - 52 - 2);
    assert_eq!(sum_of(&[f64::MAX, quarter_of_an_ulp, quarter_of_an_ulp, 1.0]).value(), f64::MAX);
}

#[test]
fn what_is_not_finite_is_ignored() {
    assert_eq!(sum_of(&[1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 2.0]).value(), 3.0);
}
