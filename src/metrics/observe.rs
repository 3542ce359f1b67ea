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
use crate::process::PerProcess;
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

/// Whether a callback may be asked: what it looks at may be gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ask {
    Again,
    NoMore,
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

/// What an exporter was given before, and what it is to be given.
#[derive(Debug)]
struct Told {
    since: u64,
    /// Only where the difference is told.
    values: HashMap<AttributeSet, Number>,
    /// Differences stay here until they have found their place.
    due: Vec<Due>,
}

/// What was observed under one set of attributes and is to be exported.
#[derive(Debug, Clone)]
pub(super) struct Due {
    pub(super) attributes: AttributeSet,
    pub(super) period: Period,
    pub(super) number: Number,
}

impl Told {
    /// Adds how far the values went to what is due, in at most `limit` sets of attributes.
    fn owe(&mut self, noted: impl Iterator<Item = (AttributeSet, Number)>, period: Period, limit: usize) {
        let known = |(index, due): (usize, &Due)| (due.attributes.clone(), index);
        let mut known: HashMap<_, _> = self.due.iter().enumerate().map(known).collect();
        for (mut attributes, number) in noted {
            let before = self.values.insert(attributes.clone(), number);
            let change = difference(number, before);
            // one place is kept for the rest
            if !known.contains_key(&attributes) && self.due.len() + 1 >= limit {
                attributes = overflow();
            }
            match known.get(&attributes) {
                Some(&index) => self.due[index].number = sum(self.due[index].number, change),
                None => {
                    known.insert(attributes.clone(), self.due.len());
                    self.due.push(Due { attributes, period, number: change });
                }
            }
        }
        self.due.iter_mut().for_each(|due| due.period.time = period.time);
    }
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

    /// Asks the callback, unless it is `Ask::NoMore`, and hands over what the exporter with this number is to be given.
    /// `tell` says how many of them, counted from the first, have found their place; the others are exported next time.
    ///
    /// # Errors
    /// What the callback panicked with; what it had observed before is told all the same.
    pub(super) fn collect(
        &self,
        exporter: usize,
        stretch: Stretch,
        ground: &Ground,
        ask: Ask,
        tell: impl FnOnce(&[Due]) -> usize,
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
        let outcome = match ask {
            Ask::Again => {
                catch_unwind(AssertUnwindSafe(|| context::in_program(|| (self.callback)(&mut noted))))
            }
            Ask::NoMore => Ok(()),
        };
        if let Some(what) = noted.refused {
            ground.complain(self.description.refusal(what));
        }
        let now = ground.now();
        let told = &self.told.get_or_renew(|| nothing_told(ground))[exporter];
        let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
        let period = Period { start: told.since, time: now.max(told.since) };
        let is_difference = stretch == Stretch::SinceLast && self.description.kind == Kind::Counter;
        // what is not observed any more is forgotten; after a panic it may come again, but only so much is kept for it
        let is_complete = ask == Ask::Again && outcome.is_ok();
        if is_difference && (is_complete || told.values.len() >= self.description.limit) {
            let rest = noted.rest.map(|_| overflow());
            let is_noted = |attributes: &AttributeSet| {
                noted.by_set.contains_key(attributes) || rest.as_ref() == Some(attributes)
            };
            told.values.retain(|attributes, _| is_noted(attributes));
        }
        if is_difference {
            told.owe(noted.into_values(), period, self.description.limit);
            told.since = if ask == Ask::Again { period.time } else { told.since };
        } else {
            let due = |(attributes, number)| Due { attributes, period, number };
            told.due = noted.into_values().map(due).collect();
        }
        let settled = tell(&told.due);
        told.due.drain(..settled);
        if !is_difference {
            // the callback says them again
            told.due = Vec::new();
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
    let nothing = || Told { since: now, values: HashMap::new(), due: Vec::new() };
    ground.pushes.iter().map(|_| Mutex::new(nothing())).collect()
}

/// What a panic said, if it said it in words.
fn words_of(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("without words").to_owned()
}

#[cfg(test)]
mod tests;
