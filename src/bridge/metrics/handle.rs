//! What a program holds of a metric, and how it becomes a measurement of ours.

use std::sync::atomic::Ordering;

use metrics::{CounterFn, GaugeFn, HistogramFn, Key};

use crate::metrics::{
    BoundCounter, BoundGauge, BoundHistogram, Counter, Gauge, Histogram, InstrumentBuilder,
};
use crate::process::PerProcess;
use crate::process::atomic::AtomicU64;
use crate::record::Value;

/// What the three kinds of instruments have in common.
pub(super) trait Instrument: Clone {
    /// The instrument with its attributes, and what it must know beside them.
    type Bound;

    fn make(builder: InstrumentBuilder<'_>) -> Self;
    fn bind(&self, attributes: &[(&str, Value<'_>)]) -> Self::Bound;
    fn describe(&self, unit: &str, description: &str);
}

/// An instrument under the labels of a key.
pub(super) struct Handle<I: Instrument> {
    instrument: I,
    /// None for whatever is beyond the limit.
    key: Option<Key>,
    /// A child's measurements are its own, and as fast as its parent's.
    bound: PerProcess<I::Bound>,
}

impl<I: Instrument> Handle<I> {
    pub(super) fn new(instrument: I, key: Option<&Key>) -> Self {
        let bound = PerProcess::new(bind(&instrument, key));
        Self { instrument, key: key.map(Key::to_retained), bound }
    }

    pub(super) fn has(&self, key: &Key) -> bool {
        // in the same order first, as most callers give them: to sort many labels a key needs memory
        let is_as_given = |own: &Key| own.name() == key.name() && own.labels().eq(key.labels());
        self.key.as_ref().is_some_and(|own| is_as_given(own) || own == key)
    }

    #[inline]
    fn bound(&self) -> &I::Bound {
        match self.bound.get() {
            Some(bound) => bound,
            None => self.bound_in_child(),
        }
    }

    #[cold]
    fn bound_in_child(&self) -> &I::Bound {
        // before, as no fork can happen while it is put in its place, and binding has that need itself
        let bound = bind(&self.instrument, self.key.as_ref());
        self.bound.get_or_renew(|| bound)
    }
}

fn bind<I: Instrument>(instrument: &I, key: Option<&Key>) -> I::Bound {
    match key {
        Some(key) => {
            let labels = key.labels().map(|label| (label.key(), Value::from(label.value())));
            instrument.bind(&labels.collect::<Vec<_>>())
        }
        None => instrument.bind(&[("otel.metric.overflow", true.into())]),
    }
}

/// A counter knows how far it is, so that it can be set to where another one is.
pub(super) struct Count {
    bound: BoundCounter<u64>,
    total: AtomicU64,
}

impl Instrument for Counter<u64> {
    type Bound = Count;

    fn make(builder: InstrumentBuilder<'_>) -> Self {
        builder.counter()
    }

    fn bind(&self, attributes: &[(&str, Value<'_>)]) -> Count {
        Count { bound: self.with(attributes), total: AtomicU64::new(0) }
    }

    fn describe(&self, unit: &str, description: &str) {
        Counter::describe(self, unit, description);
    }
}

impl CounterFn for Handle<Counter<u64>> {
    fn increment(&self, value: u64) {
        let Count { bound, total } = self.bound();
        if total.fetch_add(value, Ordering::Relaxed).checked_add(value).is_none() {
            // at the end of the scale it stays there
            total.store(u64::MAX, Ordering::Relaxed);
        }
        bound.add(value);
    }

    fn absolute(&self, value: u64) {
        let Count { bound, total } = self.bound();
        let before = total.fetch_max(value, Ordering::Relaxed);
        bound.add(value.saturating_sub(before));
    }
}

impl Instrument for Gauge<f64> {
    type Bound = BoundGauge<f64>;

    fn make(builder: InstrumentBuilder<'_>) -> Self {
        builder.gauge()
    }

    fn bind(&self, attributes: &[(&str, Value<'_>)]) -> BoundGauge<f64> {
        self.with(attributes)
    }

    fn describe(&self, unit: &str, description: &str) {
        Gauge::describe(self, unit, description);
    }
}

impl GaugeFn for Handle<Gauge<f64>> {
    fn increment(&self, value: f64) {
        self.bound().shift(value);
    }

    fn decrement(&self, value: f64) {
        self.bound().shift(-value);
    }

    fn set(&self, value: f64) {
        self.bound().record(value);
    }
}

impl Instrument for Histogram<f64> {
    type Bound = BoundHistogram<f64>;

    fn make(builder: InstrumentBuilder<'_>) -> Self {
        builder.histogram()
    }

    fn bind(&self, attributes: &[(&str, Value<'_>)]) -> BoundHistogram<f64> {
        self.with(attributes)
    }

    fn describe(&self, unit: &str, description: &str) {
        Histogram::describe(self, unit, description);
    }
}

impl HistogramFn for Handle<Histogram<f64>> {
    fn record(&self, value: f64) {
        self.bound().record(value);
    }

    fn record_many(&self, value: f64, count: usize) {
        self.bound().record_many(value, count as u64);
    }
}
