//! Tests of sums, and slow, simple computations with which all aggregates are compared.

use proptest::prelude::*;

use super::*;
use crate::config::check_bounds;

/// Returns the sum of finite values, rounded once. Keeps parts that do not overlap, so that no bit is lost.
pub(super) fn exact_sum(values: &[f64]) -> f64 {
    let mut parts: Vec<f64> = Vec::new();
    for value in values {
        let mut carried = *value;
        let mut kept = Vec::new();
        for part in parts {
            let (large, small) = if carried.abs() >= part.abs() { (carried, part) } else { (part, carried) };
            let sum = large + small;
            let dropped = small - (sum - large);
            if dropped != 0.0 {
                kept.push(dropped);
            }
            carried = sum;
        }
        kept.push(carried);
        parts = kept;
    }
    parts.iter().sum()
}

/// Finite doubles of every size, many of them round numbers.
pub(super) fn any_finite() -> impl Strategy<Value = f64> {
    let sizes = [5e-324, f64::MIN_POSITIVE, f64::MAX, f64::MAX.sqrt(), 0.0, 1.0, 5.0, 250.0, 10_000.0, 0.1];
    let round = prop::sample::select(sizes.to_vec());
    let power = (-1074i32..1024).prop_map(|exponent| 2.0f64.powi(exponent));
    let size = prop_oneof![
        3 => prop::num::f64::POSITIVE | prop::num::f64::NORMAL | prop::num::f64::SUBNORMAL,
        2 => round,
        1 => power,
        3 => 0.0..20_000.0f64,
        1 => 0.99..1.01f64,
    ];
    (size, any::<bool>()).prop_map(|(size, is_negative)| if is_negative { -size } else { size })
}

pub(super) fn extremes(values: &[f64]) -> (Option<f64>, Option<f64>) {
    let values = || values.iter().copied();
    (values().reduce(f64::min), values().reduce(f64::max))
}

/// Returns whether a sum of values is close enough to the exact sum. If partial sums may overflow, any result is
/// accepted.
pub(super) fn is_near(sum: f64, values: &[f64]) -> bool {
    // Scaled down, so that nothing overflows here.
    let scaled: Vec<_> = values.iter().map(|value| value / 1024.0).collect();
    let size: f64 = scaled.iter().map(|value| value.abs()).sum();
    let may_overflow = size > f64::MAX / 2048.0;
    may_overflow || (sum / 1024.0 - exact_sum(&scaled)).abs() <= 1e-12 * size + f64::MIN_POSITIVE
}

/// Asserts that counting a value `times` times in one call of `count` equals counting it in `times` separate calls, and
/// that counts saturate.
macro_rules! assert_many_are_counted {
    ($empty:expr, $count:expr) => {
        let (mut at_once, mut one_by_one) = ($empty, $empty);
        for (value, times) in [(7.0, 3), (0.0, 2), (-2.5, 4), (1e9, 1)] {
            $count(&mut at_once, value, times);
            (0..times).for_each(|_| $count(&mut one_by_one, value, 1));
        }
        assert_eq!(format!("{:?}", at_once.point()), format!("{:?}", one_by_one.point()));
        for _ in 0..2 {
            $count(&mut at_once, f64::MAX, u64::MAX);
            $count(&mut at_once, 0.0, u64::MAX);
        }
        let other = at_once.clone();
        at_once.merge(&other);
        assert_eq!((at_once.point().count, at_once.point().sum), (u64::MAX, Some(f64::MAX)));
    };
}

pub(super) use assert_many_are_counted;

fn sum_of(values: &[f64]) -> NeumaierSum {
    let mut sum = NeumaierSum::default();
    values.iter().for_each(|value| sum.add(*value));
    sum
}

/// Values so far from the largest double that no partial sum overflows.
fn any_moderate() -> impl Strategy<Value = f64> {
    (prop::num::f64::NORMAL | prop::num::f64::SUBNORMAL | prop::num::f64::ZERO)
        .prop_map(|value| if value.abs() > 1e300 { value / 1e10 } else { value })
}

/// Tolerance: a few ulps of the sum, plus the error of Neumaier's method, which is proportional to the sum of all
/// absolute values.
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
        prop_oneof![any_finite(), Just(f64::MAX), Just(f64::MIN)], 0..50),
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
    // Each value is too small to change the sum, but the sum of all dropped parts is not.
    let quarter_of_an_ulp = 2.0f64.powi(1023 - 52 - 2);
    assert_eq!(sum_of(&[f64::MAX, quarter_of_an_ulp, quarter_of_an_ulp, 1.0]).value(), f64::MAX);
}

impl ExplicitHistogram {
    fn count(&mut self, value: f64, times: u64) {
        self.record(Self::bucket(&self.bounds, value), value, times);
    }
}

fn histogram_of(bounds: &Arc<[f64]>, values: &[f64]) -> ExplicitHistogram {
    let mut histogram = ExplicitHistogram::empty(bounds);
    values.iter().for_each(|value| histogram.count(*value, 1));
    histogram
}

/// Counts each value, by linear search, in the first bucket whose upper bound is not below the value.
fn counts_of(bounds: &[f64], values: &[f64]) -> Vec<u64> {
    let mut counts = vec![0; bounds.len() + 1];
    for value in values {
        let mut bucket = 0;
        while bucket < bounds.len() && *value > bounds[bucket] {
            bucket += 1;
        }
        counts[bucket] += 1;
    }
    counts
}

fn assert_counts(histogram: &ExplicitHistogram, bounds: &[f64], values: &[f64]) -> Result<(), TestCaseError> {
    let point = histogram.point();
    prop_assert_eq!(point.bounds, bounds);
    prop_assert_eq!(point.counts, counts_of(bounds, values));
    prop_assert_eq!(point.count, values.len() as u64);
    prop_assert_eq!(histogram.is_empty(), values.is_empty());
    prop_assert_eq!((point.min, point.max), extremes(values));
    prop_assert!(point.sum.is_some_and(|sum| is_near(sum, values)), "{:?}", point.sum);
    Ok(())
}

fn any_bounds() -> impl Strategy<Value = Arc<[f64]>> {
    let any = prop::collection::vec(any_finite(), 0..20).prop_map(|mut bounds| {
        bounds.sort_by(f64::total_cmp);
        bounds.dedup();
        Arc::from(bounds)
    });
    prop_oneof![Just(Arc::from(DEFAULT_BOUNDS)), any]
}

/// Values, many of which equal a bound.
fn any_values(bounds: &Arc<[f64]>) -> impl Strategy<Value = Vec<f64>> + use<> {
    let bounds = Arc::clone(bounds);
    let value = (any_finite(), any::<prop::sample::Index>(), any::<bool>());
    let value = value.prop_map(move |(value, index, is_bound)| {
        if is_bound && !bounds.is_empty() { bounds[index.index(bounds.len())] } else { value }
    });
    prop::collection::vec(value, 0..100)
}

proptest! {
    #[test]
    fn every_value_is_counted_in_its_bucket(
        (bounds, values) in any_bounds().prop_flat_map(|bounds| (Just(bounds.clone()), any_values(&bounds))),
    ) {
        prop_assert_eq!(check_bounds(&bounds), Ok(()));
        assert_counts(&histogram_of(&bounds, &values), &bounds, &values)?;
    }

    #[test]
    fn parts_merge_to_the_whole_and_what_is_taken_is_gone(
        (bounds, values) in any_bounds().prop_flat_map(|bounds| (Just(bounds.clone()), any_values(&bounds))),
        at in any::<prop::sample::Index>(),
    ) {
        let (head, tail) = values.split_at(at.index(values.len() + 1));
        let mut running = histogram_of(&bounds, head);
        let mut taken = running.take();
        assert_counts(&taken, &bounds, head)?;
        assert_counts(&running, &bounds, &[])?;
        tail.iter().for_each(|value| running.count(*value, 1));
        assert_counts(&running, &bounds, tail)?;
        taken.merge(&running);
        assert_counts(&taken, &bounds, &values)?;
    }
}

#[test]
fn a_bound_belongs_to_the_bucket_below_it() {
    let histogram =
        histogram_of(&Arc::from([1.0, 2.0]), &[1.0, 1.0 + f64::EPSILON, 2.0, 2.0 + 2.0 * f64::EPSILON]);
    assert_eq!(histogram.point().counts, [1, 2, 1]);
}

#[test]
fn zero_of_either_sign_is_in_the_first_default_bucket() {
    let histogram = histogram_of(&Arc::from(DEFAULT_BOUNDS), &[0.0, -0.0, -1.0, f64::MIN, 5e-324]);
    assert_eq!(histogram.point().counts[..3], [4, 1, 0]);
}

#[test]
fn a_value_so_many_times_is_the_same_as_each_time_by_itself() {
    assert_many_are_counted!(ExplicitHistogram::empty(&Arc::from(DEFAULT_BOUNDS)), ExplicitHistogram::count);
}

#[test]
fn bounds_that_make_no_buckets_are_told_why() {
    let complaint = |bounds: &[f64]| check_bounds(bounds).unwrap_err().to_string();
    assert_eq!(complaint(&[1.0, 1.0]), "bounds must rise: 1 is followed by 1");
    assert_eq!(complaint(&[0.0, 2.5, 1.0]), "bounds must rise: 2.5 is followed by 1");
    assert_eq!(complaint(&[-0.0, 0.0]), "bounds must rise: -0 is followed by 0");
    assert_eq!(complaint(&[1.0, f64::NAN]), "a bound must be a finite number, not NaN");
    assert_eq!(complaint(&[1.0, f64::INFINITY]), "a bound must be a finite number, not inf");
    let many: Vec<_> = (0..1025).map(f64::from).collect();
    assert_eq!(complaint(&many), "1025 bounds exceed the maximum of 1024");
    assert_eq!(check_bounds(&many[..1024]), Ok(()));
    assert_eq!(check_bounds(&[]), Ok(()));
    assert_eq!(check_bounds(&DEFAULT_BOUNDS), Ok(()));
}
