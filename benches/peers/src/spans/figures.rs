//! Figures of the contenders, and their format.

use std::collections::BTreeMap;

use crate::support::table::Better;
use crate::with_ratio;

/// A measured quantity.
#[derive(Debug, Clone, Copy)]
pub(super) struct Measure {
    pub(super) name: &'static str,
    better: Better,
    show: fn(f64) -> String,
    /// Whether the ratio to another contender is meaningful.
    compares: bool,
}

impl Measure {
    pub(super) const fn less(name: &'static str, show: fn(f64) -> String) -> Self {
        Self { name, better: Better::Less, show, compares: true }
    }

    pub(super) const fn more(name: &'static str, show: fn(f64) -> String) -> Self {
        Self { name, better: Better::More, show, compares: true }
    }

    /// Shows figures without a ratio.
    pub(super) const fn alone(self) -> Self {
        Self { compares: false, ..self }
    }

    /// Returns whether higher is better.
    pub(super) fn is_of_more(&self) -> bool {
        self.better == Better::More
    }

    /// Returns whether the measure has a value for any contender.
    pub(super) fn is_known(&self, all: &[Figures]) -> bool {
        all.iter().any(|figures| figures.get(self).is_finite())
    }

    /// Returns the formatted figures of all contenders.
    pub(super) fn texts(&self, all: &[Figures]) -> Vec<String> {
        let values: Vec<f64> = all.iter().map(|figures| figures.get(self)).collect();
        let text = |(number, value): (usize, &f64)| match self.compares || value.is_infinite() {
            true => with_ratio(&values, number, self.show),
            false => (self.show)(*value),
        };
        values.iter().enumerate().map(text).collect()
    }
}

/// Figures of one contender, by the name of the measure.
#[derive(Debug, Clone, Default)]
pub(super) struct Figures(BTreeMap<&'static str, f64>);

impl Figures {
    /// Adds a value, and keeps the best of all runs.
    pub(super) fn add(&mut self, measure: &Measure, value: f64) {
        let kept = self.0.entry(measure.name).or_insert(value);
        *kept = match measure.better {
            Better::Less => kept.min(value),
            Better::More => kept.max(value),
        };
    }

    /// Adds the values of these measures from another run.
    pub(super) fn copy(&mut self, other: &Self, measures: &[Measure]) {
        measures.iter().for_each(|measure| self.add(measure, other.get(measure)));
    }

    /// Returns the value, which is infinite if it was not measured.
    fn get(&self, measure: &Measure) -> f64 {
        self.0.get(measure.name).copied().unwrap_or(f64::INFINITY)
    }
}
