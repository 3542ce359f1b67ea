//! Observable (asynchronous) instruments: a callback reports the values when they are collected.

use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Mutex;

use super::handles::{Attributes, Measure, difference, is_negative, sum};
use super::instrument::{Descriptor, InstrumentKind};
use super::registry::MeterShared;
use super::table::overflow;
use crate::context::{self, unix_now};
use crate::process::{Panic, PerProcess, contain_panic, lock};
use crate::record::{AggregationTemporality, AttributeSet, Number, Period};

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
    /// Reports a value. If two values have the same attributes, the last one counts. NaN, infinities and negative
    /// values of a counter are left out, and reported to [`Config::on_problem`](crate::Config::on_problem).
    pub fn observe(&mut self, value: N, attributes: impl Attributes) {
        match value.number() {
            None => self.observations.refused = Some("NaN or infinite"),
            Some(number) if self.observations.only_rises && is_negative(number) => {
                self.observations.refused = Some("negative");
            }
            Some(number) => {
                attributes
                    .with(|pairs| self.observations.add(AttributeSet::new(pairs.iter().copied()), number));
            }
        }
    }
}

/// The values that one call of a callback observed, in order.
#[derive(Debug, Default)]
pub(super) struct Observations {
    values: Vec<(AttributeSet, Number)>,
    by_set: HashMap<AttributeSet, usize>,
    limit: usize,
    /// True if values with different attributes may be added up, as in the overflow series.
    adds_up: bool,
    only_rises: bool,
    rest: Option<Number>,
    /// The reason why a value was left out.
    refused: Option<&'static str>,
}

impl Observations {
    fn add(&mut self, attributes: AttributeSet, number: Number) {
        if let Some(&index) = self.by_set.get(&attributes) {
            self.values[index].1 = number;
        // One set is reserved for the overflow.
        } else if self.values.len() + 1 < self.limit {
            self.by_set.insert(attributes.clone(), self.values.len());
            self.values.push((attributes, number));
        } else {
            self.rest = Some(match (self.rest, self.adds_up) {
                (Some(rest), true) => sum(rest, number),
                _ => number,
            });
        }
    }

    /// Returns all values. Those beyond the limit are combined in the overflow.
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
    /// State for each exporter of metrics.
    state: PerProcess<Box<[Mutex<ExportState>]>>,
}

/// The values that one exporter was sent before, and the points that it has not accepted yet.
#[derive(Debug)]
struct ExportState {
    since: u64,
    /// Previous values, for delta temporality.
    values: HashMap<AttributeSet, Number>,
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

impl ExportState {
    /// Adds the change of each value since the previous observation to the pending points, which have at most `limit`
    /// attribute sets.
    fn add_differences(
        &mut self,
        observations: impl Iterator<Item = (AttributeSet, Number)>,
        period: Period,
        limit: usize,
    ) {
        let known = |(index, pending): (usize, &ObservedPoint)| (pending.attributes.clone(), index);
        let mut known: HashMap<_, _> = self.pending.iter().enumerate().map(known).collect();
        for (mut attributes, number) in observations {
            let before = self.values.insert(attributes.clone(), number);
            let change = difference(number, before);
            // One set is reserved for the overflow.
            if !known.contains_key(&attributes) && self.pending.len() + 1 >= limit {
                attributes = overflow();
            }
            match known.get(&attributes) {
                Some(&index) => self.pending[index].number = sum(self.pending[index].number, change),
                None => {
                    known.insert(attributes.clone(), self.pending.len());
                    self.pending.push(ObservedPoint { attributes, period, number: change });
                }
            }
        }
        self.pending.iter_mut().for_each(|pending| pending.period.time = period.time);
    }
}

impl Observable {
    pub(super) fn new<N: Measure>(
        descriptor: Descriptor,
        shared: &MeterShared,
        callback: impl Fn(&mut Observer<'_, N>) + Send + Sync + 'static,
    ) -> Self {
        let callback: Callback =
            Box::new(move |observations| callback(&mut Observer { observations, measure: PhantomData }));
        Self { descriptor, callback, state: PerProcess::new(new_states(shared)) }
    }

    /// Calls the callback, unless it is to be skipped, and passes the pending points of the exporter with this index to
    /// `sink`. `sink` accepts points in order, and returns how many it accepted. The others stay pending if they are
    /// deltas of a counter; all other values are observed again by the next collection.
    ///
    /// Returns whether the number of attribute sets exceeded the limit.
    ///
    /// # Errors
    /// Returns an error if the callback panicked. Values that it observed before the panic are exported.
    pub(super) fn observe(
        &self,
        exporter: usize,
        temporality: AggregationTemporality,
        shared: &MeterShared,
        callbacks: Callbacks,
        sink: impl FnOnce(&[ObservedPoint]) -> usize,
    ) -> Result<bool, Panic> {
        let mut observations = Observations {
            limit: self.descriptor.limit,
            adds_up: self.descriptor.kind != InstrumentKind::Gauge,
            only_rises: self.descriptor.kind == InstrumentKind::Counter,
            ..Observations::default()
        };
        let outcome = match callbacks {
            Callbacks::Run => contain_panic(|| context::in_program(|| (self.callback)(&mut observations))),
            Callbacks::Skip => Ok(()),
        };
        if let Some(what) = observations.refused {
            shared.report_misuse(self.descriptor.refusal(what));
        }
        let is_overflowing = observations.rest.is_some();
        let now = unix_now();
        let state = &self.state.get_or_renew(|| new_states(shared))[exporter];
        let mut state = lock(state);
        let period = Period { start: state.since, time: now.max(state.since) };
        let is_difference =
            temporality == AggregationTemporality::Delta && self.descriptor.kind == InstrumentKind::Counter;
        // Values that are no longer observed are forgotten. After a panic they may be observed again, so they are kept,
        // up to the limit.
        let is_complete = callbacks == Callbacks::Run && outcome.is_ok();
        if is_difference && (is_complete || state.values.len() >= self.descriptor.limit) {
            let rest = observations.rest.map(|_| overflow());
            let is_observed = |attributes: &AttributeSet| {
                observations.by_set.contains_key(attributes) || rest.as_ref() == Some(attributes)
            };
            state.values.retain(|attributes, _| is_observed(attributes));
        }
        if is_difference {
            state.add_differences(observations.into_values(), period, self.descriptor.limit);
            state.since = if callbacks == Callbacks::Run { period.time } else { state.since };
        } else {
            let pending = |(attributes, number)| ObservedPoint { attributes, period, number };
            state.pending = observations.into_values().map(pending).collect();
        }
        let accepted = sink(&state.pending);
        state.pending.drain(..accepted);
        if !is_difference {
            // Not kept: the callback reports these values again.
            state.pending = Vec::new();
        }
        outcome.map(|()| is_overflowing)
    }
}

impl fmt::Debug for Observable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observable").field("descriptor", &self.descriptor).finish_non_exhaustive()
    }
}

fn new_states(shared: &MeterShared) -> Box<[Mutex<ExportState>]> {
    let now = unix_now();
    let nothing = || ExportState { since: now, values: HashMap::new(), pending: Vec::new() };
    shared.readers.iter().map(|_| Mutex::new(nothing())).collect()
}

#[cfg(test)]
mod tests;
