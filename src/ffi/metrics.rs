//! Instruments and measurements from C.

use super::input::{Arena, AttributeArray, CArray, CText};
use super::lifecycle::{Pointer, scoped};
use super::{Code, SizeFirst, Versioned};
use crate::metrics::{
    Attributes, BoundCounter, BoundGauge, BoundHistogram, BoundUpDownCounter, Counter, Gauge, Histogram,
    Meter, Pair, Pairs, UpDownCounter,
};
use crate::record::Value;

/// `standpipe_instrument_options`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct InstrumentOptions<'a> {
    pub(super) size: usize,
    pub(super) kind: i32,
    pub(super) reserved: u32,
    pub(super) name: CText<'a>,
    pub(super) unit: CText<'a>,
    pub(super) description: CText<'a>,
    pub(super) bounds: CArray<'a, f64>,
    pub(super) bound_count: usize,
}

// SAFETY: the struct is `repr(C)` and begins with its size. All other fields are numbers and pointers, for which zero
// means unset.
unsafe impl SizeFirst for InstrumentOptions<'_> {}

/// `standpipe_instrument`.
enum Instrument {
    Counter(Counter<u64>),
    UpDownCounter(UpDownCounter<i64>),
    Gauge(Gauge<f64>),
    Histogram(Histogram<f64>),
    CounterDouble(Counter<f64>),
    UpDownCounterDouble(UpDownCounter<f64>),
    BoundCounter(BoundCounter<u64>),
    BoundUpDownCounter(BoundUpDownCounter<i64>),
    BoundGauge(BoundGauge<f64>),
    BoundHistogram(BoundHistogram<f64>),
    BoundCounterDouble(BoundCounter<f64>),
    BoundUpDownCounterDouble(BoundUpDownCounter<f64>),
}

exported! {
    fn standpipe_meter_new(handle: Pointer<'_>, scope: CText<'_>, version: CText<'_>) -> Option<Box<Meter>> {
        scoped(&handle, (scope, version), |telemetry, scope| telemetry.meter(scope))
    }

    fn standpipe_meter_free(meter: Option<Box<Meter>>) {
        drop(meter);
    }

    fn standpipe_instrument_new(
        meter: Option<&Meter>,
        options: Versioned<'_, InstrumentOptions<'_>>,
    ) -> Option<Box<Instrument>> {
        let InstrumentOptions { kind, name, unit, description, bounds, bound_count, .. } = options.read();
        let (name, unit, description) = (name.text(), unit.text(), description.text());
        let mut instrument = meter?.build(&name).unit(&unit).description(&description);
        let bounds = bounds.all(bound_count);
        if !bounds.is_empty() {
            instrument = instrument.bounds(bounds);
        }
        Some(Box::new(match kind {
            1 => Instrument::Counter(instrument.counter()),
            2 => Instrument::UpDownCounter(instrument.up_down_counter()),
            3 => Instrument::Gauge(instrument.gauge()),
            4 => Instrument::Histogram(instrument.histogram()),
            5 => Instrument::CounterDouble(instrument.counter_f64()),
            6 => Instrument::UpDownCounterDouble(instrument.up_down_counter_f64()),
            _ => return None,
        }))
    }

    fn standpipe_instrument_bind(
        instrument: Option<&Instrument>,
        attributes: AttributeArray<'_>,
        count: usize,
    ) -> Option<Box<Instrument>> {
        let given = MeasurementAttributes { attributes, count };
        Some(Box::new(match instrument? {
            Instrument::Counter(counter) => Instrument::BoundCounter(counter.with(given)),
            Instrument::UpDownCounter(counter) => Instrument::BoundUpDownCounter(counter.with(given)),
            Instrument::Gauge(gauge) => Instrument::BoundGauge(gauge.with(given)),
            Instrument::Histogram(histogram) => Instrument::BoundHistogram(histogram.with(given)),
            Instrument::CounterDouble(counter) => Instrument::BoundCounterDouble(counter.with(given)),
            Instrument::UpDownCounterDouble(it) => Instrument::BoundUpDownCounterDouble(it.with(given)),
            _ => return None,
        }))
    }

    fn standpipe_instrument_free(instrument: Option<Box<Instrument>>) {
        drop(instrument);
    }

    fn standpipe_add(
        instrument: Option<&Instrument>,
        value: i64,
        attributes: AttributeArray<'_>,
        count: usize,
    ) -> Code {
        let given = MeasurementAttributes { attributes, count };
        match (instrument, u64::try_from(value)) {
            (None, _) => {}
            (Some(Instrument::Counter(counter)), Ok(value)) => counter.add(value, given),
            (Some(Instrument::UpDownCounter(counter)), _) => counter.add(value, given),
            (Some(Instrument::BoundCounter(counter)), Ok(value)) if count == 0 => counter.add(value),
            (Some(Instrument::BoundUpDownCounter(counter)), _) if count == 0 => counter.add(value),
            _ => return Code::INVALID_ARGUMENT,
        }
        Code::OK
    }

    fn standpipe_add_double(
        instrument: Option<&Instrument>,
        value: f64,
        attributes: AttributeArray<'_>,
        count: usize,
    ) -> Code {
        let given = MeasurementAttributes { attributes, count };
        match instrument {
            None => {}
            Some(Instrument::CounterDouble(_) | Instrument::BoundCounterDouble(_)) if value < 0.0 => {
                return Code::INVALID_ARGUMENT;
            }
            Some(Instrument::CounterDouble(counter)) => counter.add(value, given),
            Some(Instrument::UpDownCounterDouble(counter)) => counter.add(value, given),
            Some(Instrument::BoundCounterDouble(counter)) if count == 0 => counter.add(value),
            Some(Instrument::BoundUpDownCounterDouble(counter)) if count == 0 => counter.add(value),
            Some(_) => return Code::INVALID_ARGUMENT,
        }
        Code::OK
    }

    fn standpipe_record(
        instrument: Option<&Instrument>,
        value: f64,
        attributes: AttributeArray<'_>,
        count: usize,
    ) -> Code {
        let given = MeasurementAttributes { attributes, count };
        match instrument {
            None => {}
            Some(Instrument::Gauge(gauge)) => gauge.record(value, given),
            Some(Instrument::Histogram(histogram)) => histogram.record(value, given),
            Some(Instrument::BoundGauge(gauge)) if count == 0 => gauge.record(value),
            Some(Instrument::BoundHistogram(histogram)) if count == 0 => histogram.record(value),
            Some(_) => return Code::INVALID_ARGUMENT,
        }
        Code::OK
    }
}

/// A list of at most this many attributes of a measurement needs no allocation.
const MAX_INLINE_ATTRIBUTES: usize = 8;

#[derive(Clone, Copy)]
struct MeasurementAttributes<'a> {
    attributes: AttributeArray<'a>,
    count: usize,
}

impl Attributes for MeasurementAttributes<'_> {}

impl Pairs for MeasurementAttributes<'_> {
    #[inline]
    fn with<R>(self, take: impl FnOnce(&[Pair<'_>]) -> R) -> R {
        if self.count == 0 {
            return take(&[]);
        }
        let arena = Arena::default();
        let mut pairs = arena.attributes(self.attributes, self.count);
        if self.count > MAX_INLINE_ATTRIBUTES {
            return take(&pairs.collect::<Vec<_>>());
        }
        let (mut few, mut len) = ([("", Value::Bool(false)); MAX_INLINE_ATTRIBUTES], 0);
        for (place, pair) in few.iter_mut().zip(&mut pairs) {
            *place = pair;
            len += 1;
        }
        take(&few[..len])
    }
}
