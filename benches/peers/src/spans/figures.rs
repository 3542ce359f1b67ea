//! What was found about the contenders, and how it is shown.

use std::collections::BTreeMap;

use crate::support::table::Better;
use crate::with_ratio;

/// Something that is measured.
#[derive(Debug, Clone, Copy)]
pub(super) struct Measure {
    pub(super) name: &'static str,
    better: Better,
    show: fn(f64) -> String,
    /// Whether it says something as a multiple of another's.
    compares: bool,
}

impl Measure {
    pub(super) const fn less(name: &'static str, show: fn(f64) -> String) -> Self {
        Self { name, better: Better::Less, show, compares: true }
    }

    pub(super) const fn more(name: &'static str, show: fn(f64) -> String) -> Self {
        Self { name, better: Better::More, show, compares: true }
    }

    /// One that stands for itself.
    pub(super) const fn alone(self) -> Self {
        Self { compares: false, ..self }
    }

    /// Whether the largest is best.
    pub(super) fn is_of_more(&self) -> bool {
        self.better == Better::More
    }

    /// Whether it was measured for any contender.
    pub(super) fn is_known(&self, all: &[Figures]) -> bool {
        all.iter().any(|figures| figures.get(self).is_finite())
    }

    /// The text of each contender.
    pub(super) fn texts(&self, all: &[Figures]) -> Vec<String> {
        let values: Vec<f64> = all.iter().map(|figures| figures.get(self)).collect();
        let text = |(number, value): (usize, &f64)| match self.compares || value.is_infinite() {
            true => with_ratio(&values, number, self.show),
            false => (self.show)(*value),
        };
        values.iter().enumerate().map(text).collect()
    }
}

/// The figures of one contender, by the names of what was measured.
#[derive(Debug, Clone, Default)]
pub(super) struct Figures(BTreeMap<&'static str, f64>);

impl Figures {
    /// Keeps the better of all runs.
    pub(super) fn add(&mut self, measure: &Measure, value: f64) {
        let kept = self.0.entry(measure.name).or_insert(value);
        *kept = match measure.better {
            Better::Less => kept.min(value),
            Better::More => kept.max(value),
        };
    }

    /// Takes some from another run.
    pub(super) fn copy(&mut self, other: &Self, measures: &[Measure]) {
        measures.iter().for_each(|measure| self.add(measure, other.get(measure)));
    }

    /// Infinite if it was not measured.
    fn get(&self, measure: &Measure) -> f64 {
        self.0.get(measure.name).copied().unwrap_or(f64::INFINITY)
    }
}
