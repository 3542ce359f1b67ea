//! Instruments that are asked: a callback says what there is, when it is collected.

use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use super::attributes::Attributes;
use super::ground::Ground;
use super::instrument::{Description, Kind};
use super::number::{Measure, difference, is_negative, sum};
use super::series::overflow;
use crate::context;
use crate::fork::PerProcess;
use crate::record::{AttributeSet, Number, Period, Scope, Stretch};

/// Takes what a callback observes. Given to the callbacks of [`InstrumentBuilder::observe_gauge`] and its like.
///
/// [`InstrumentBuilder::observe_gauge`]: crate::InstrumentBuilder::observe_gauge
#[derive(Debug)]
pub struct Observer<'a, N> {
    noted: &'a mut Noted,
    measure: PhantomData<fn(N)>,
}

impl<N: Measure> Observer<'_, N> {
    /// Notes a value; of two with the same attributes the last one counts. NaN, infinities and a counter below zero are
    /// left out, and told to [`Config::on_problem`](crate::Config::on_problem).
    pub fn observe(&mut self, value: N, attributes: impl Attributes) {
        match value.number() {
            None => self.noted.refused = Some("NaN or infinite"),
            Some(number) if self.noted.only_rises && is_negative(number) => {
                self.noted.refused = Some("negative");
            }
            Some(number) => {
                attributes.with(|pairs| self.noted.note(AttributeSet::new(pairs.iter().copied()), number));
            }
        }
    }
}

/// What one call of a callback observed, in the order it did.
#[derive(Debug)]
pub(super) struct Noted {
    values: Vec<(AttributeSet, Number)>,
    by_set: HashMap<AttributeSet, usize>,
    limit: usize,
    /// Whether the values of different sets may be added.
    adds_up: bool,
    only_rises: bool,
    rest: Option<Number>,
    /// Why a value was left out.
    refused: Option<&'static str>,
}

impl Noted {
    fn note(&mut self, attributes: AttributeSet, number: Number) {
        if let Some(&index) = self.by_set.get(&attributes) {
            self.values[index].1 = number;
        // one place is kept for the rest
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

    /// Everything, what came beyond the limit put together.
    fn into_values(self) -> impl Iterator<Item = (AttributeSet, Number)> {
        self.values.into_iter().chain(self.rest.map(|rest| (overflow(), rest)))
    }
}

type Callback = Box<dyn Fn(&mut Noted) + Send + Sync>;

/// An instrument with its callback.
pub(super) struct Observable {
    pub(super) description: Description,
    pub(super) scope: Arc<Scope>,
    callback: Callback,
    /// One for each exporter of metrics.
    told: PerProcess<Box<[Mutex<Told>]>>,
}

/// What an exporter was told before.
#[derive(Debug)]
struct Told {
    since: u64,
    /// Only where the difference is told.
    values: HashMap<AttributeSet, Number>,
}

impl Observable {
    pub(super) fn new<N: Measure>(
        description: Description,
        scope: Arc<Scope>,
        ground: &Ground,
        callback: impl Fn(&mut Observer<'_, N>) + Send + Sync + 'static,
    ) -> Self {
        let callback: Callback =
            Box::new(move |noted| callback(&mut Observer { noted, measure: PhantomData }));
        Self { description, scope, callback, told: PerProcess::new(nothing_told(ground)) }
    }

    /// Asks the callback, and hands over what the exporter with this number is to be told.
    ///
    /// # Errors
    /// What the callback panicked with; what it had observed before is told all the same.
    pub(super) fn collect(
        &self,
        exporter: usize,
        stretch: Stretch,
        ground: &Ground,
        mut tell: impl FnMut(&AttributeSet, Period, Number),
    ) -> Result<(), String> {
        let mut noted = Noted {
            values: Vec::new(),
            by_set: HashMap::new(),
            limit: self.description.limit,
            adds_up: self.description.kind != Kind::Gauge,
            only_rises: self.description.kind == Kind::Counter,
            rest: None,
            refused: None,
        };
        let outcome = catch_unwind(AssertUnwindSafe(|| context::in_program(|| (self.callback)(&mut noted))));
        if let Some(what) = noted.refused {
            ground.complain(self.description.refusal(what));
        }
        let now = ground.now();
        let told = &self.told.get_or_renew(|| nothing_told(ground))[exporter];
        let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
        let period = Period { start: told.since, time: now.max(told.since) };
        let is_difference = stretch == Stretch::SinceLast && self.description.kind == Kind::Counter;
        // what is not observed any more is forgotten; after a panic it may come again, but only so much is kept for it
        if is_difference && (outcome.is_ok() || told.values.len() >= self.description.limit) {
            let rest = noted.rest.map(|_| overflow());
            let is_noted = |attributes: &AttributeSet| {
                noted.by_set.contains_key(attributes) || rest.as_ref() == Some(attributes)
            };
            told.values.retain(|attributes, _| is_noted(attributes));
        }
        for (attributes, number) in noted.into_values() {
            let change = match is_difference {
                true => difference(number, told.values.get(&attributes).copied()),
                false => number,
            };
            tell(&attributes, period, change);
            if is_difference {
                told.values.insert(attributes, number);
            }
        }
        if is_difference {
            told.since = period.time;
        }
        outcome.map_err(|payload| {
            let words = words_of(payload.as_ref());
            // what a panic carries may panic again when it is dropped
            std::mem::forget(payload);
            words
        })
    }
}

impl fmt::Debug for Observable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observable").field("description", &self.description).finish_non_exhaustive()
    }
}

fn nothing_told(ground: &Ground) -> Box<[Mutex<Told>]> {
    let now = ground.now();
    ground.pushes.iter().map(|_| Mutex::new(Told { since: now, values: HashMap::new() })).collect()
}

/// What a panic said, if it said it in words.
fn words_of(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("without words").to_owned()
}

#[cfg(test)]
mod tests;
