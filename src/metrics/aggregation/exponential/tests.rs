use proptest::prelude::*;

use super::*;
use crate::metrics::aggregation::tests::{any_finite, assert_many_are_counted, extremes, is_near};

/// The scales that OpenTelemetry permits. This histogram uses some of them.
const SCALES: std::ops::RangeInclusive<i32> = -10..=20;

fn histogram_of(values: &[f64]) -> ExponentialHistogram {
    let mut histogram = ExponentialHistogram::empty(&ExponentialLimits::DEFAULT);
    for value in values {
        histogram.record(*value, 1);
        for side in [&histogram.positive, &histogram.negative] {
            assert!(side.counts.capacity() <= 160, "{}", side.counts.capacity());
        }
    }
    histogram
}

/// Returns the bucket of a positive value by integer arithmetic, with 62 fractional bits: ten more than a double has.
fn plain_index(value: f64, scale: i32) -> i64 {
    const ONE: u64 = 1 << 62;
    let (mut exponent, mut mantissa) = (0i64, value);
    while mantissa >= 2.0 {
        (exponent, mantissa) = (exponent + 1, mantissa / 2.0);
    }
    while mantissa < 1.0 {
        (exponent, mantissa) = (exponent - 1, mantissa * 2.0);
    }
    if scale <= 0 {
        // Take the exponent of the smallest power of two that is not below the value, divide it by the number of powers
        // per bucket, and round up; the index is one less.
        let power = if mantissa == 1.0 { exponent } else { exponent + 1 };
        return -(-power).div_euclid(1 << -scale) - 1;
    }
    if mantissa == 1.0 {
        return (exponent << scale) - 1;
    }
    // Finds the highest bound below the mantissa, as a product of some of these factors: the square root of two, the
    // square root of that, and so on.
    let wanted = ((mantissa * (1u64 << 52) as f64) as u64) << 10;
    let (mut bound, mut root, mut fraction) = (ONE, 2 * u128::from(ONE), 0);
    for _ in 0..scale {
        root = (root << 62).isqrt();
        let next = ((u128::from(bound) * root) >> 62) as u64;
        fraction *= 2;
        if next < wanted {
            bound = next;
            fraction += 1;
        }
    }
    (exponent << scale) + fraction
}

/// Returns the buckets of one sign, from the first to the last that is not empty.
fn plain_buckets(sizes: &[f64], scale: i32) -> (i64, Vec<u64>) {
    let indices: Vec<_> = sizes.iter().map(|size| i64::from(index(*size, scale))).collect();
    let (Some(first), Some(last)) = (indices.iter().min(), indices.iter().max()) else {
        return (0, Vec::new());
    };
    let mut counts = vec![0; (last - first + 1) as usize];
    indices.iter().for_each(|index| counts[(index - first) as usize] += 1);
    (*first, counts)
}

/// Returns the highest scale at which neither sign needs more than 160 buckets.
fn plain_scale(sides: [&[f64]; 2]) -> i32 {
    let width = |sizes: &[f64], scale| {
        let (Some(min), Some(max)) = extremes(sizes) else { return 0 };
        i64::from(index(max, scale)) - i64::from(index(min, scale)) + 1
    };
    let fits = |scale: &i32| sides.iter().all(|sizes| width(sizes, *scale) <= 160);
    SCALES.rev().find(fits).expect("at the lowest scale three buckets hold every double")
}

fn assert_counts(histogram: &ExponentialHistogram, values: &[f64]) -> Result<(), TestCaseError> {
    let positive: Vec<_> = values.iter().copied().filter(|value| *value > 0.0).collect();
    let negative: Vec<_> = values.iter().filter(|value| **value < 0.0).map(|value| -value).collect();
    let point = histogram.point();
    prop_assert_eq!(point.scale, plain_scale([&positive, &negative]));
    for (view, sizes) in [(point.positive, &positive), (point.negative, &negative)] {
        let (offset, counts) = plain_buckets(sizes, point.scale);
        prop_assert_eq!((i64::from(view.offset), view.counts), (offset, &*counts));
    }
    prop_assert_eq!(point.zero_count, (values.len() - positive.len() - negative.len()) as u64);
    prop_assert_eq!(point.count, values.len() as u64);
    prop_assert_eq!(histogram.is_empty(), values.is_empty());
    prop_assert_eq!((point.min, point.max), extremes(values));
    prop_assert!(point.sum.is_some_and(|sum| is_near(sum, values)), "{:?}", point.sum);
    Ok(())
}

/// Values of any size, or so close together that a high scale is kept.
fn any_values() -> impl Strategy<Value = Vec<f64>> {
    let scattered = prop::collection::vec(any_finite(), 0..60);
    let spread = prop::sample::select(vec![0.0, 1e-15, 1e-6, 1e-5, 1e-4, 1e-2, 1.0, 1e3]);
    let close = (any_finite(), spread, prop::collection::vec(0.0..1.0f64, 0..60)).prop_map(
        |(center, spread, offsets)| {
            let values = offsets.into_iter().map(|offset| center * (1.0 + spread * offset));
            values.filter(|value| value.is_finite()).collect()
        },
    );
    prop_oneof![scattered, close]
}

proptest! {
    #[test]
    fn every_value_is_in_its_bucket_at_every_scale(value in any_finite()) {
        let value = value.abs();
        prop_assume!(value > 0.0);
        // A bound between two powers of two is not a double, so the doubles next to it may be in either bucket.
        let neighbors = [value.to_bits() - 1, value.to_bits() + 1].map(f64::from_bits);
        let allowed = neighbors.map(|near| if near > 0.0 && near.is_finite() { near } else { value });
        for scale in SCALES {
            let found = i64::from(index(value, scale));
            let exact = plain_index(value, scale);
            let is_near = allowed.iter().any(|near| plain_index(*near, scale) == found);
            prop_assert!(found == exact || (scale > 0 && is_near), "{value:e} at {scale}: {found}, not {exact}");
        }
    }

    #[test]
    fn every_value_is_counted_at_the_highest_scale_that_holds_them_all(values in any_values()) {
        assert_counts(&histogram_of(&values), &values)?;
    }

    #[test]
    fn parts_of_any_scale_merge_to_the_whole(head in any_values(), tail in any_values()) {
        let mut merged = histogram_of(&head);
        merged.merge(&histogram_of(&tail));
        assert_counts(&merged, &[head, tail].concat())?;
        prop_assert!(merged.positive.counts.capacity() <= 160 && merged.negative.counts.capacity() <= 160);
    }

    #[test]
    fn what_is_taken_is_gone_and_makes_the_whole_with_the_rest(head in any_values(), tail in any_values()) {
        let mut running = histogram_of(&head);
        let mut taken = running.take();
        assert_counts(&taken, &head)?;
        assert_counts(&running, &[])?;
        tail.iter().for_each(|value| running.record(*value, 1));
        assert_counts(&running, &tail)?;
        taken.merge(&running);
        assert_counts(&taken, &[head, tail].concat())?;
    }
}

#[test]
fn a_power_of_two_is_the_upper_end_of_its_bucket_at_every_scale() {
    for exponent in -1074..1024i32 {
        // From its bits: `powi` is not exact for subnormal numbers on every platform.
        let value = match exponent {
            ..-1022 => f64::from_bits(1 << (exponent + 1074)),
            _ => f64::from_bits(((exponent + 1023) as u64) << 52),
        };
        for scale in 0..=20 {
            assert_eq!(index(value, scale), (exponent << scale) - 1, "2^{exponent} at {scale}");
            if exponent > -1022 {
                let [below, above] = [value.to_bits() - 1, value.to_bits() + 1].map(f64::from_bits);
                assert_eq!(index(below, scale), (exponent << scale) - 1, "below 2^{exponent} at {scale}");
                assert_eq!(index(above, scale), exponent << scale, "above 2^{exponent} at {scale}");
            }
        }
    }
}

#[test]
fn equal_values_keep_the_finest_scale_in_one_bucket() {
    for value in [1.0, 1234.5, 5e-324, f64::MIN_POSITIVE, f64::MAX, -0.1] {
        let histogram = histogram_of(&[value; 1000]);
        let point = histogram.point();
        let counts = if value > 0.0 { point.positive.counts } else { point.negative.counts };
        assert_eq!((point.scale, counts), (20, [1000].as_slice()), "{value:e}");
    }
}

#[test]
fn the_smallest_and_the_largest_double_fit_side_by_side() {
    let values = [f64::MAX, 5e-324, f64::MIN, -5e-324, 0.0, -0.0, f64::MIN_POSITIVE, 1.0];
    let histogram = histogram_of(&values);
    let point = histogram.point();
    assert_eq!((point.scale, point.count, point.zero_count), (-4, 8, 2));
    assert_eq!((point.positive.offset, point.positive.counts.len()), (-68, 132));
    assert_eq!(point.positive.counts.iter().sum::<u64>(), 4);
    assert_eq!((point.negative.offset, point.negative.counts.len()), (-68, 132));
    assert_eq!(point.negative.counts.iter().sum::<u64>(), 2);
    assert_eq!((point.min, point.max), (Some(f64::MIN), Some(f64::MAX)));
}

#[test]
fn a_hundred_and_sixty_buckets_fit_and_one_more_does_not() {
    // At scale 0 each power of two has its own bucket.
    let powers = |count: i32| -> Vec<f64> { (0..count).map(|exponent| 2.0f64.powi(exponent)).collect() };
    assert_eq!(histogram_of(&powers(160)).point().scale, 0);
    assert_eq!(histogram_of(&powers(161)).point().scale, -1);
    let backwards: Vec<_> = powers(160).into_iter().rev().collect();
    let histogram = histogram_of(&backwards);
    assert_eq!((histogram.point().scale, histogram.point().positive.counts), (0, [1; 160].as_slice()));
}

#[test]
fn a_value_so_many_times_is_the_same_as_each_time_by_itself() {
    assert_many_are_counted!(
        ExponentialHistogram::empty(&ExponentialLimits::DEFAULT),
        ExponentialHistogram::record
    );
}

#[test]
fn a_merge_with_an_empty_one_changes_nothing() {
    let values = [1.0, 1e9, -3.0];
    let mut histogram = histogram_of(&values);
    histogram.merge(&ExponentialHistogram::empty(&ExponentialLimits::DEFAULT));
    assert_counts(&histogram, &values).unwrap();
    let mut empty = ExponentialHistogram::empty(&ExponentialLimits::DEFAULT);
    empty.merge(&histogram);
    assert_counts(&empty, &values).unwrap();
}
