use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::*;
use crate::config::{InstrumentKind, PeriodicReaderSettings, Temporality};
use crate::metrics::instrument::NumberKind;
use crate::process::atomic::AtomicU64;
use crate::record::{Scope, Signal};

/// Returns a counter of at most `limit` series with this callback, and the shared state.
fn counter(
    limit: usize,
    callback: impl Fn(&mut Observer<'_, u64>) + Send + Sync + 'static,
) -> (Observable, MeterShared) {
    let reader =
        PeriodicReaderSettings { temporality: Temporality::Delta, ..PeriodicReaderSettings::default() };
    let mut shared = MeterShared::default();
    shared.readers.push(reader);
    let descriptor = Descriptor {
        scope: Arc::new(Scope::new(Signal::Metrics, "shop", "")),
        name: "steps".to_owned(),
        metadata: Arc::default(),
        kind: InstrumentKind::ObservableCounter,
        number_kind: NumberKind::Int,
        buckets: None,
        default_bounds: &[],
        limit: Some(limit),
        keys: None,
        streams: Box::default(),
    };
    (Observable::new(descriptor, &shared, callback), shared)
}

/// Returns the next points for an exporter of deltas, if it has room for `room` points.
fn told_with_room(room: usize, (observable, shared): &(Observable, MeterShared)) -> Vec<ObservedPoint> {
    let mut exported = Vec::new();
    let sink = |_: &Stream, pending: &[ObservedPoint], _| {
        exported.extend(pending.iter().take(room).cloned());
        exported.len()
    };
    // A panic is irrelevant here.
    let _ = observable.observe(0, shared, Callbacks::Run, sink);
    exported
}

/// Returns the next points, if there is room for all.
fn exported_next(counter: &(Observable, MeterShared)) -> Vec<(AttributeSet, Number)> {
    told_with_room(usize::MAX, counter)
        .into_iter()
        .map(|pending| (pending.attributes, pending.number))
        .collect()
}

fn set(walker: u64) -> AttributeSet {
    AttributeSet::new([("walker", (walker as i64).into())])
}

#[test]
fn deltas_of_what_is_beyond_the_limit_are_the_steps_between_two_pushes_too() {
    let steps = Arc::new(AtomicU64::new(10));
    let walked = Arc::clone(&steps);
    let counter = counter(1, move |observer| {
        for walker in 0..3 {
            observer.observe(walked.load(Ordering::SeqCst), &[("walker", walker)]);
        }
    });
    assert_eq!(exported_next(&counter), [(set(0), Number::Int(10)), (overflow(), Number::Int(20))]);
    steps.store(11, Ordering::SeqCst);
    assert_eq!(exported_next(&counter), [(set(0), Number::Int(1)), (overflow(), Number::Int(2))]);
}

#[test]
fn a_callback_that_panics_every_time_does_not_make_memory_grow() {
    let calls = AtomicU64::new(0);
    let counter = counter(10, move |observer| {
        let call = calls.fetch_add(1, Ordering::SeqCst) as i64;
        (0..5).for_each(|number| observer.observe(1, &[("walker", 5 * call + number)]));
        panic!("on purpose");
    });
    for _ in 0..20 {
        assert_eq!(exported_next(&counter).len(), 5);
    }
    let remembered = counter.0.state.get().unwrap()[0].lock().unwrap().known.len();
    assert!(remembered <= 20, "{remembered}");
}

#[test]
fn a_step_beyond_the_largest_double_stays_finite() {
    let (low, high) = (Number::Float(f64::MIN), Number::Float(f64::MAX));
    assert_eq!(difference(high, Some(low)), high);
}

#[test]
fn what_was_observed_once_and_found_no_room_is_told_though_it_is_not_observed_again() {
    let calls = AtomicU64::new(0);
    let counter = counter(10, move |observer| match calls.fetch_add(1, Ordering::SeqCst) {
        0 => (0..2).for_each(|walker| observer.observe(10, &[("walker", walker)])),
        1 => observer.observe(4, &[("walker", 1)]),
        _ => {}
    });
    let first = told_with_room(0, &counter);
    assert!(first.is_empty(), "{first:?}");
    let second = told_with_room(1, &counter);
    assert_eq!((&second[0].attributes, second[0].number), (&set(0), Number::Int(10)));
    let third = told_with_room(9, &counter);
    // The counter fell from 10 to 4, so it was restarted, and both values count.
    assert_eq!((&third[0].attributes, third[0].number, third.len()), (&set(1), Number::Int(14), 1));
    assert_eq!(third[0].period.start, second[0].period.time, "all points of a collection start together");
    assert!(third[0].period.time >= second[0].period.time);
}

#[test]
fn what_waits_for_room_stays_within_the_limit() {
    let calls = AtomicU64::new(0);
    let counter = counter(3, move |observer| {
        let call = calls.fetch_add(1, Ordering::SeqCst) as i64;
        (0..3).for_each(|number| observer.observe(1, &[("walker", 3 * call + number)]));
    });
    for _ in 0..5 {
        assert!(told_with_room(0, &counter).is_empty());
    }
    let exported = exported_next(&counter);
    let ones = (0..3).map(|walker| (set(walker), Number::Int(1)));
    assert_eq!(exported, ones.chain([(overflow(), Number::Int(15))]).collect::<Vec<_>>());
}

#[test]
fn a_callback_that_is_called_no_more_has_its_last_values_sent() {
    let counter = counter(4, |observer| observer.observe(3, &[("walker", 0)]));
    assert!(told_with_room(0, &counter).is_empty());
    let mut exported = Vec::new();
    let sink = |_: &Stream, pending: &[ObservedPoint], _| {
        exported.extend(pending.iter().map(|pending| pending.number));
        pending.len()
    };
    counter.0.observe(0, &counter.1, Callbacks::Skip, sink).unwrap();
    assert_eq!(exported, [Number::Int(3)]);
}
