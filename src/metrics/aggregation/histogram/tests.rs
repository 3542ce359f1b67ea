use proptest::prelude::*;

use super::*;
use crate::metrics::aggregation::tests::{any_finite, assert_many_are_counted, extremes, is_near};

fn histogram_of(bounds: &Arc<[f64]>, values: &[f64]) -> ExplicitHistogram {
    let mut histogram = ExplicitHistogram::empty(bounds);
    values.iter().for_each(|value| assert!(histogram.record(*value)));
    histogram
}

/// Returns the first bucket whose upper bound is not below the value, by linear search.
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
    prop_assert!(is_near(point.sum, values), "{}", point.sum);
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
        tail.iter().for_each(|value| assert!(running.record(*value)));
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
    assert_many_are_counted!(ExplicitHistogram::empty(&Arc::from(DEFAULT_BOUNDS)));
}

#[test]
fn what_is_not_finite_is_refused_and_leaves_no_trace() {
    let mut histogram = histogram_of(&Arc::from(DEFAULT_BOUNDS), &[7.0]);
    for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert!(!histogram.record(value));
    }
    let point = histogram.point();
    assert_eq!((point.count, point.sum, point.min, point.max), (1, 7.0, Some(7.0), Some(7.0)));
    assert_eq!(point.counts.iter().sum::<u64>(), 1);
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
