//! An instrument behind its handles: what it is called, and where its measurements go.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use super::attributes::sealed::Pair;
use super::cell::{Cell, Form};
use super::ground::Ground;
use super::series::Series;
use super::store::Store;
use crate::config::{Histograms, PeriodicReaderSettings, Temporality};
use crate::metrics::aggregation::DEFAULT_BOUNDS;
use crate::process::PerProcess;
use crate::record::{AttributeSet, MetricHead, Scope, Shape, Stretch};

/// What an instrument is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    UpDownCounter,
    Gauge,
    Histogram,
}

/// Whether an instrument measures in whole numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Measured {
    Int,
    Float,
}

/// How the values of a histogram are divided, if the instrument says it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Division {
    Explicit(Arc<[f64]>),
    Exponential,
}

/// What an instrument measures in, and what it means; empty if nobody said it.
#[derive(Debug, Clone)]
pub(super) struct Words {
    pub(super) unit: String,
    pub(super) description: String,
}

/// Everything that is said about an instrument when it is made.
#[derive(Debug, Clone)]
pub(super) struct Description {
    pub(super) name: String,
    pub(super) words: Words,
    pub(super) kind: Kind,
    pub(super) measured: Measured,
    pub(super) division: Option<Division>,
    /// The most series it may have.
    pub(super) limit: usize,
}

impl Description {
    /// The stretch of time that an exporter with this preference is told of.
    pub(super) fn stretch(&self, temporality: Temporality, is_observed: bool) -> Stretch {
        match (self.kind, temporality) {
            (_, Temporality::Cumulative) | (Kind::UpDownCounter, _) => Stretch::SinceStart,
            (_, Temporality::LowMemory) if is_observed => Stretch::SinceStart,
            _ => Stretch::SinceLast,
        }
    }

    pub(super) fn form(&self, histograms: Histograms) -> Form {
        match (self.kind, self.measured) {
            (Kind::Counter | Kind::UpDownCounter, Measured::Int) => Form::IntSum,
            (Kind::Counter | Kind::UpDownCounter, Measured::Float) => Form::FloatSum,
            (Kind::Gauge, Measured::Int) => Form::IntGauge,
            (Kind::Gauge, Measured::Float) => Form::FloatGauge,
            (Kind::Histogram, _) => match &self.division {
                Some(Division::Explicit(bounds)) => Form::Explicit(Arc::clone(bounds)),
                _ if self.is_exponential(histograms) => Form::Exponential,
                _ => Form::Explicit(DEFAULT_BOUNDS.into()),
            },
        }
    }

    fn is_exponential(&self, histograms: Histograms) -> bool {
        match &self.division {
            Some(division) => *division == Division::Exponential,
            None => histograms == Histograms::Exponential,
        }
    }

    /// What is said of a value that is none.
    pub(super) fn refusal(&self, what: &str) -> String {
        format!("metric {:?}: a value that is {what} is left out: {} takes none", self.name, self.kind_name())
    }

    /// In words, for messages.
    pub(super) fn kind_name(&self) -> &'static str {
        match (self.kind, self.measured) {
            (Kind::Counter, Measured::Int) => "a counter",
            (Kind::Counter, Measured::Float) => "a counter of floats",
            (Kind::UpDownCounter, Measured::Int) => "an up-down counter",
            (Kind::UpDownCounter, Measured::Float) => "an up-down counter of floats",
            (Kind::Gauge, Measured::Int) => "a gauge of integers",
            (Kind::Gauge, Measured::Float) => "a gauge",
            (Kind::Histogram, Measured::Int) => "a histogram of integers",
            (Kind::Histogram, Measured::Float) => "a histogram",
        }
    }

    pub(super) fn head(&self, shape: Shape) -> MetricHead<'_> {
        let Words { unit, description } = &self.words;
        MetricHead { name: &self.name, description, unit, shape }
    }

    pub(super) fn shape(&self, histograms: Histograms, stretch: Stretch) -> Shape {
        match self.kind {
            Kind::Gauge => Shape::Gauge,
            Kind::Histogram if self.is_exponential(histograms) => Shape::ExponentialHistogram { stretch },
            Kind::Histogram => Shape::Histogram { stretch },
            kind => Shape::Sum { monotonic: kind == Kind::Counter, stretch },
        }
    }
}

/// An instrument that the program measures with.
#[derive(Debug)]
pub(super) struct Instrument {
    pub(super) description: Description,
    /// What was said after it was made, for whoever collects. Set while no fork can happen, as a child goes on using it.
    pub(super) late_words: OnceLock<Words>,
    pub(super) scope: Arc<Scope>,
    pub(super) ground: Arc<Ground>,
    /// A value that is none was left out; that is told once.
    pub(super) has_refused: AtomicBool,
    /// One for each exporter of metrics. What was measured before a fork is the parent's to tell.
    stores: PerProcess<Box<[Store]>>,
}

impl Instrument {
    pub(super) fn new(description: Description, scope: Arc<Scope>, ground: Arc<Ground>) -> Self {
        let stores = PerProcess::new(fresh_stores(&description, &ground));
        let late_words = OnceLock::new();
        Self { description, late_words, scope, ground, has_refused: AtomicBool::new(false), stores }
    }

    /// What the wire says ahead of its points.
    pub(super) fn head(&self, shape: Shape) -> MetricHead<'_> {
        let head = self.description.head(shape);
        match self.late_words.get() {
            Some(Words { unit, description }) => MetricHead {
                unit: first_said(head.unit, unit),
                description: first_said(head.description, description),
                ..head
            },
            None => head,
        }
    }

    /// Takes a measurement in, given by the bits that its cells know it by.
    pub(super) fn update(&self, bits: u64, pairs: &[Pair<'_>]) {
        let stores = self.stores();
        // most programs have one exporter of metrics
        let [store] = stores else { return update_all(stores, bits, pairs) };
        store.update(pairs, bits);
    }

    /// The same without attributes.
    pub(super) fn update_bare(&self, bits: u64) {
        match self.only_bare() {
            Some(cell) => cell.update(bits),
            None => update_all(self.stores(), bits, &[]),
        }
    }

    /// The cell that measurements without attributes go to, if it is the only one and easily found.
    #[inline]
    fn only_bare(&self) -> Option<&Cell> {
        match self.stores.get().map(|stores| &**stores) {
            Some([store]) => store.bare(),
            _ => None,
        }
    }

    /// The same for attributes that are put together already.
    pub(super) fn update_set(&self, attributes: &AttributeSet, update: impl Fn(&Cell)) {
        self.stores().iter().for_each(|store| store.update_set(attributes, &update));
    }

    /// The series of these attributes, one for each exporter.
    pub(super) fn bind(&self, pairs: &[Pair<'_>]) -> Box<[Arc<Series>]> {
        self.stores().iter().map(|store| store.bind(pairs)).collect()
    }

    /// This process's stores, in the order of the exporters.
    #[inline]
    pub(super) fn stores(&self) -> &[Store] {
        match self.stores.get() {
            Some(stores) => stores,
            None => self.stores_of_child(),
        }
    }

    #[cold]
    fn stores_of_child(&self) -> &[Store] {
        let stores = self.stores.get_or_renew(|| fresh_stores(&self.description, &self.ground));
        // a child that only measures needs its exporters, too; unless none of them sends metrics
        if !stores.is_empty() {
            self.ground.measured_in_child();
        }
        stores
    }
}

#[inline(never)]
fn update_all(stores: &[Store], bits: u64, pairs: &[Pair<'_>]) {
    stores.iter().for_each(|store| store.update(pairs, bits));
}

fn first_said<'a>(early: &'a str, late: &'a str) -> &'a str {
    if early.is_empty() { late } else { early }
}

fn fresh_stores(description: &Description, ground: &Ground) -> Box<[Store]> {
    let now = ground.now();
    let store = |push: &PeriodicReaderSettings| {
        let stretch = description.stretch(push.temporality, false);
        Store::new(description.form(push.histograms), stretch, description.limit, ground.seed, now)
    };
    ground.pushes.iter().map(store).collect()
}
