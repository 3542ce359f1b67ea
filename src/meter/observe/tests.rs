use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::config::PushSettings;
use crate::meter::instrument::{Measured, Words};
use crate::record::Signal;

/// A counter of at most `limit` series that is asked by `callback`, and what it stands on.
fn counter(
    limit: usize,
    callback: impl Fn(&mut Observer<'_, u64>) + Send + Sync + 'static,
) -> (Observable, Ground) {
    let ground = Ground::new(vec![PushSettings::default()]);
    let description = Description {
        name: "steps".to_owned(),
        words: Words { unit: String::new(), description: String::new() },
        kind: Kind::Counter,
        measured: Measured::Int,
        division: None,
        limit,
    };
    let scope = Arc::new(Scope::new(Signal::Metrics, "shop", ""));
    (Observable::new(description, scope, &ground, callback), ground)
}

/// What an exporter of deltas is told next.
fn told_next((observable, ground): &(Observable, Ground)) -> Vec<(AttributeSet, Number)> {
    let mut told = Vec::new();
    let tell = |attributes: &AttributeSet, _, number| told.push((attributes.clone(), number));
    // a panic is no matter here
    let _ = observable.collect(0, Stretch::SinceLast, ground, tell);
    told
}

fn set(walker: u64) -> AttributeSet {
    AttributeSet::new([("walker", (walker as i64).into())])
}

#[test]
fn deltas_of_what_is_beyond_the_limit_are_the_steps_between_two_pushes_too() {
    let steps = Arc::new(AtomicU64::new(10));
    let walked = Arc::clone(&steps);
    let counter = counter(2, move |observer| {
        for walker in 0..3 {
            observer.observe(walked.load(Ordering::SeqCst), &[("walker", walker)]);
        }
    });
    assert_eq!(told_next(&counter), [(set(0), Number::Int(10)), (overflow(), Number::Int(20))]);
    steps.store(11, Ordering::SeqCst);
    assert_eq!(told_next(&counter), [(set(0), Number::Int(1)), (overflow(), Number::Int(2))]);
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
        assert_eq!(told_next(&counter).len(), 5);
    }
    let remembered = counter.0.told.get().unwrap()[0].lock().unwrap().values.len();
    assert!(remembered <= 20, "{remembered}");
}

#[test]
fn a_step_beyond_the_largest_double_stays_finite() {
    let (low, high) = (Number::Float(f64::MIN), Number::Float(f64::MAX));
    assert_eq!(difference(high, Some(low)), high);
}
