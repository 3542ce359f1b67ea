use std::cell::Cell;
use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::record::Period;
use crate::tests::share_of;

/// Returns a generator of numbers that depend only on the seed (SplitMix64).
fn seeded(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// Returns the sample of the elements 0 to `count`, and how many of them were accepted.
fn sample(size: usize, count: usize, mut random: impl FnMut() -> u64) -> (BTreeMap<usize, usize>, usize) {
    let (mut draw, mut kept, mut skip, mut accepted) = (Draw::default(), BTreeMap::new(), 0, 0);
    for element in 0..count {
        if skip > 0 {
            skip -= 1;
            continue;
        }
        accepted += 1;
        let (place, next) = draw.accept(size, &mut random);
        assert!(place < size);
        kept.insert(place, element);
        skip = next;
    }
    (kept, accepted)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Chi-squared test. The bound is exceeded by chance in one of 10^9 cases.
    #[test]
    fn draws_each_offered_measurement_equally_often(
        seed: u64,
        size in prop::sample::select(vec![1usize, 1, 2, 3, 20]),
        beyond in prop::sample::select(vec![0usize, 1, 2, 30, 100]),
    ) {
        let trials = share_of(20_000);
        let (count, mut random) = (size + beyond, seeded(seed));
        let mut drawn = vec![0usize; count];
        for _ in 0..trials {
            let (kept, _) = sample(size, count, &mut random);
            prop_assert_eq!(kept.len(), size);
            kept.values().for_each(|element| drawn[*element] += 1);
        }
        let expected = (trials as usize * size) as f64 / count as f64;
        let distance: f64 = drawn.iter().map(|times| (*times as f64 - expected).powi(2) / expected).sum();
        let freedom = (count - 1) as f64;
        prop_assert!(distance <= freedom + 9.0 * (2.0 * freedom).sqrt() + 25.0, "{distance}: {drawn:?}");
    }
}

#[test]
fn keeps_about_fourteen_of_a_million_measurements() {
    let mut random = seeded(1);
    let accepted: usize = (0..20).map(|_| sample(1, 1_000_000, &mut random).1).sum();
    assert!((10..19).contains(&(accepted / 20)), "{accepted} in 20 samples");
}

#[test]
fn draws_from_extreme_random_numbers_without_a_panic() {
    for (size, number) in [(1, 0), (1, u64::MAX), (20, 0), (20, u64::MAX)] {
        let mut draw = Draw::default();
        for _ in 0..100_000 {
            draw.accept(size, || number);
        }
    }
}

const PLAIN: Layout = Layout { samples: 1, exemplars: 1 };
const ALWAYS: Period = Period { start: 0, time: u64::MAX };
const NOW: u64 = 1 << 60;

/// Offers a number and returns whether it was kept.
fn offer(reservoir: &Reservoir, number: i64) -> bool {
    let is_kept = reservoir.is_offered() && !reservoir.skips(0);
    if is_kept {
        reservoir.keep(0, (Number::Int(number), NOW), PLAIN, &AttributeSet::default);
    }
    is_kept
}

fn values(exemplars: &[Exemplar]) -> Vec<i64> {
    let value = |exemplar: &Exemplar| match exemplar.value {
        Number::Int(value) => value,
        Number::Float(value) => panic!("{value}"),
    };
    exemplars.iter().map(value).collect()
}

#[test]
fn begins_a_new_sample_after_each_collection_and_repeats_only_cumulative_exemplars() {
    for is_delta in [true, false] {
        let reservoir = Reservoir::new(ExemplarFilter::AlwaysOn);
        assert!(offer(&reservoir, 1));
        (0..1000).for_each(|_| _ = offer(&reservoir, 1));
        assert_eq!(values(&reservoir.collect(ALWAYS, is_delta)), [1]);
        let repeated: &[i64] = if is_delta { &[] } else { &[1] };
        assert_eq!(values(&reservoir.collect(ALWAYS, is_delta)), repeated);
        assert!(offer(&reservoir, 2), "the first one of an interval is always kept");
        assert_eq!(values(&reservoir.collect(ALWAYS, is_delta)), [2]);
    }
}

#[test]
fn leaves_out_exemplars_from_outside_of_the_period() {
    let reservoir = Reservoir::new(ExemplarFilter::AlwaysOn);
    offer(&reservoir, 1);
    let count = |start, end| reservoir.collect(Period { start, time: end }, false).len();
    assert_eq!((count(NOW, NOW), count(NOW + 1, u64::MAX), count(0, NOW - 1)), (1, 0, 0));
}

#[test]
fn skips_measurements_that_are_made_while_one_is_kept() {
    let reservoir = Reservoir::new(ExemplarFilter::AlwaysOn);
    let inner = Cell::new(true);
    reservoir.keep(0, (Number::Int(1), NOW), PLAIN, &|| {
        inner.set(reservoir.is_offered());
        AttributeSet::default()
    });
    assert!(!inner.get(), "the bits of the thread are cleared meanwhile");
    assert_ne!(context::offering(), 0);
    assert_eq!(values(&reservoir.collect(ALWAYS, true)), [1]);
}
