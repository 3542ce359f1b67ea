//! Observable (asynchronous) instruments: a callback reports the values when they are collected.

use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Mutex;

use super::handles::sealed::Pair;
use super::handles::{Attributes, Measure, difference, is_negative, sum};
use super::instrument::Descriptor;
use super::registry::MeterShared;
use super::storage::kept_set;
use super::stream::{Keys, Stream};
use super::table::overflow;
use crate::context::{self, unix_now};
use crate::process::{PerProcess, contain_panic, lock};
use crate::record::{AggregationTemporality, AttributeSet, Number, Period, PointKind};

/// Receives the values that a callback observes. Passed to the callbacks of [`InstrumentBuilder::observe_gauge`] and
/// similar methods.
///
/// [`InstrumentBuilder::observe_gauge`]: crate::metrics::InstrumentBuilder::observe_gauge
#[derive(Debug)]
pub struct Observer<'a, N> {
    observations: &'a mut Observations,
    measure: PhantomData<fn(N)>,
}

impl<N: Measure> Observer<'_, N> {
    /// Reports a value. If two values have the same attributes, the last one counts. Two values of a sum are added
    /// instead if a [`View`](crate::View) or the instrument selects attributes, and the selected attributes are equal.
    /// NaN, infinities and negative values of a counter are left out, and reported to
    /// [`Config::on_problem`](crate::Config::on_problem).
    pub fn observe(&mut self, value: N, attributes: impl Attributes) {
        match value.number() {
            None => self.observations.refused = Some("NaN or infinite"),
            Some(number) if self.observations.only_rises && is_negative(number) => {
                self.observations.refused = Some("negative");
            }
            Some(number) => {
                attributes.with(|pairs| self.observations.add(pairs, number));
            }
        }
    }
}

/// The values that one call of a callback observed.
#[derive(Debug)]
pub(super) struct Observations {
    of_streams: Vec<StreamValues>,
    only_rises: bool,
    /// The reason why a value was left out.
    refused: Option<&'static str>,
}

impl Observations {
    fn add(&mut self, pairs: &[Pair<'_>], number: Number) {
        self.of_streams
            .iter_mut()
            .for_each(|values| values.add(kept_set(values.keys.as_deref(), pairs), number));
    }
}

/// The observed values of one stream, in order.
#[derive(Debug, Default)]
struct StreamValues {
    values: Vec<(AttributeSet, Number)>,
    by_set: HashMap<AttributeSet, usize>,
    keys: Keys,
    limit: usize,
    /// True if values with different attributes may be added up, as in the overflow series.
    adds_up: bool,
    rest: Option<Number>,
}

impl StreamValues {
    fn new(stream: &Stream) -> Self {
        let adds_up = stream.point_kind != PointKind::Gauge;
        Self { keys: stream.keys.clone(), limit: stream.limit, adds_up, ..Self::default() }
    }

    fn add(&mut self, attributes: AttributeSet, number: Number) {
        if let Some(&index) = self.by_set.get(&attributes) {
            let known = &mut self.values[index].1;
            *known = if self.adds_up && self.keys.is_some() { sum(*known, number) } else { number };
        } else if self.values.len() < self.limit {
            self.by_set.insert(attributes.clone(), self.values.len());
            self.values.push((attributes, number));
        } else {
            self.rest = Some(match (self.rest, self.adds_up) {
                (Some(rest), true) => sum(rest, number),
                _ => number,
            });
        }
    }

    /// Returns all values. Those beyond the limit are combined in the overflow series.
    fn into_values(self) -> impl Iterator<Item = (AttributeSet, Number)> {
        self.values.into_iter().chain(self.rest.map(|rest| (overflow(), rest)))
    }
}

/// Whether callbacks are called. After the end of the telemetry, the data that they read may be gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Callbacks {
    Run,
    Skip,
}

type Callback = Box<dyn Fn(&mut Observations) + Send + Sync>;

/// An instrument with its callback.
pub(super) struct Observable {
    pub(super) descriptor: Descriptor,
    callback: Callback,
    /// State for each stream.
    state: PerProcess<Box<[Mutex<ExportState>]>>,
}

/// The series of a stream that were sent before, and the points that its exporter has not accepted yet.
struct ExportState {
    /// Start of the current period: the creation of the instrument, or an earlier collection.
    since: u64,
    /// The series of sums that the previous collection observed, each with its start and, for deltas, its previous
    /// value. A series starts at the start of the period in which it was first observed.
    known: HashMap<AttributeSet, (u64, Number)>,
    /// Points that the exporter's queue has not accepted yet.
    pending: Vec<ObservedPoint>,
}

/// A point that was observed and is to be exported.
#[derive(Debug, Clone)]
pub(super) struct ObservedPoint {
    pub(super) attributes: AttributeSet,
    pub(super) period: Period,
    pub(super) number: Number,
}

/// The only kind of point for which differences between observations are sent: counters with delta temporality.
const RISING_DELTA: PointKind =
    PointKind::Sum { monotonic: true, temporality: AggregationTemporality::Delta };

impl ExportState {
    /// Turns the observed values into pending points. `is_complete` is false if the callback panicked or was not
    /// called, so that values may be missing. Returns the time of the points.
    fn update(&mut self, values: StreamValues, stream: &Stream, now: u64, is_complete: bool) -> u64 {
        let period = Period { start: self.since, time: now.max(self.since) };
        // Series that are no longer observed are forgotten. After an incomplete observation they are kept, because the
        // next one may include them, unless there are more series than the limit.
        if is_complete || self.known.len() > stream.limit {
            let rest = values.rest.map(|_| overflow());
            let is_observed = |attributes: &AttributeSet| {
                values.by_set.contains_key(attributes) || rest.as_ref() == Some(attributes)
            };
            self.known.retain(|attributes, _| is_observed(attributes));
        }
        if stream.point_kind == RISING_DELTA {
            self.add_differences(values, period, stream.limit);
            return period.time;
        }
        let point = |(attributes, number): (AttributeSet, Number)| {
            let known =
                |it: &mut HashMap<_, _>| *it.entry(attributes.clone()).or_insert((period.start, number));
            // Only points of sums have a start, so the series of a gauge need not be remembered.
            let is_sum = stream.point_kind != PointKind::Gauge;
            let start = if is_sum { known(&mut self.known).0 } else { period.start };
            ObservedPoint { attributes, period: Period { start, ..period }, number }
        };
        self.pending = values.into_values().map(point).collect();
        period.time
    }

    /// Adds the change of each value since the previous observation to the pending points. At most `limit` attribute
    /// sets are pending; changes of further sets are added to the overflow point.
    fn add_differences(&mut self, values: StreamValues, period: Period, limit: usize) {
        let overflow = overflow();
        let index_of = |(index, pending): (usize, &ObservedPoint)| (pending.attributes.clone(), index);
        let mut indices: HashMap<_, _> = self.pending.iter().enumerate().map(index_of).collect();
        for (mut attributes, number) in values.into_values() {
            let before = self.known.insert(attributes.clone(), (period.start, number));
            let change = difference(number, before.map(|(_, last)| last));
            let real = self.pending.len() - usize::from(indices.contains_key(&overflow));
            if !indices.contains_key(&attributes) && real >= limit {
                attributes = overflow.clone();
            }
            match indices.get(&attributes) {
                Some(&index) => self.pending[index].number = sum(self.pending[index].number, change),
                None => {
                    indices.insert(attributes.clone(), self.pending.len());
                    self.pending.push(ObservedPoint { attributes, period, number: change });
                }
            }
        }
        // A collection exports all points with the same period, even those that an earlier collection left pending.
        self.pending.iter_mut().for_each(|pending| pending.period = period);
    }
}

impl Observable {
    pub(super) fn new<N: Measure>(
        mut descriptor: Descriptor,
        shared: &MeterShared,
        callback: impl Fn(&mut Observer<'_, N>) + Send + Sync + 'static,
    ) -> Self {
        let callback: Callback =
            Box::new(move |observations| callback(&mut Observer { observations, measure: PhantomData }));
        descriptor.streams = Stream::resolve(&descriptor, shared);
        let state = PerProcess::new(new_states(&descriptor.streams));
        Self { descriptor, callback, state }
    }

    /// Calls the callback, unless `callbacks` says to skip it, and exports the values for the exporter with this index.
    ///
    /// `sink` is called once per stream, with the pending points and whether there were more attribute sets than the
    /// limit. It accepts points in order, and returns the number of accepted points. Points that are not accepted stay
    /// pending if they are deltas of a counter. Others are dropped: the next collection observes their values again.
    ///
    /// # Errors
    /// Returns an error if the callback panicked. Values that it observed before the panic are exported.
    pub(super) fn observe(
        &self,
        exporter: usize,
        shared: &MeterShared,
        callbacks: Callbacks,
        mut sink: impl FnMut(&Stream, &[ObservedPoint], bool) -> usize,
    ) -> Result<(), String> {
        let sent =
            || self.descriptor.streams.iter().enumerate().filter(|(_, stream)| stream.exporter == exporter);
        if sent().next().is_none() {
            return Ok(());
        }
        let mut observations = Observations {
            of_streams: sent().map(|(_, stream)| StreamValues::new(stream)).collect(),
            only_rises: self.descriptor.kind.is_counter(),
            refused: None,
        };
        let outcome = match callbacks {
            Callbacks::Run => contain_panic(|| context::in_program(|| (self.callback)(&mut observations))),
            Callbacks::Skip => Ok(()),
        };
        if let Some(what) = observations.refused {
            shared.report_misuse(self.descriptor.refusal(what));
        }
        let (now, is_run) = (unix_now(), callbacks == Callbacks::Run);
        let states = self.state.get_or_renew(|| new_states(&self.descriptor.streams));
        for ((index, stream), values) in sent().zip(observations.of_streams) {
            let (is_complete, is_overflowing) = (is_run && outcome.is_ok(), values.rest.is_some());
            let mut state = lock(&states[index]);
            let time = state.update(values, stream, now, is_complete);
            let accepted = sink(stream, &state.pending, is_overflowing);
            let is_kept = stream.point_kind == RISING_DELTA;
            // If there were deltas but none was accepted, the period goes on: the next collection uses the same start.
            if is_run && (!is_kept || accepted > 0 || state.pending.is_empty()) {
                state.since = time;
            }
            match is_kept {
                true => _ = state.pending.drain(..accepted),
                // The callback reports these values again.
                false => state.pending = Vec::new(),
            }
        }
        outcome
    }
}

impl fmt::Debug for Observable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observable").field("descriptor", &self.descriptor).finish_non_exhaustive()
    }
}

fn new_states(streams: &[Stream]) -> Box<[Mutex<ExportState>]> {
    let now = unix_now();
    let nothing = || ExportState { since: now, known: HashMap::new(), pending: Vec::new() };
    streams.iter().map(|_| Mutex::new(nothing())).collect()
}

#[cfg(test)]
mod tests;
