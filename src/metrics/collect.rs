//! What an exporter's worker does when it is time to push: look at every instrument and frame what it says.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;

use super::cell::Reading;
use super::instrument::Instrument;
use super::observe::{Ask, Due, Observable};
use super::registry::{Entry, Registry};
use super::store::Held;
use crate::config::ProblemKind;
use crate::config::Temporality;
use crate::record::{
    AttributeSet, FrameLimits, MetricHead, MetricParts, MetricRecord, Number, Part, Period, Scope, Shape,
};

/// One exporter's view of the instruments.
#[derive(Debug, Clone)]
pub(crate) struct Reader {
    registry: Arc<Registry>,
    /// Which of the registry's exporters it is.
    exporter: usize,
}

/// What a collection gives, piece by piece.
#[derive(Debug)]
pub(crate) enum Collected<'a> {
    /// A metric, or a part of one.
    Frame { scope: &'a Arc<Scope>, bytes: &'a [u8], points: u64 },
    /// Data points that no request can hold.
    TooLarge { points: u64 },
    /// What the program should know, whenever it happens.
    Problem(ProblemKind, String),
    /// What it should know once: how it uses an instrument is wrong.
    Complaint(String),
}

/// What became of a piece of a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It has found its place.
    Yes,
    /// The same, and nothing more is wanted.
    Enough,
    /// There is no room for it: what was taken for it is put back, and the next collection has it.
    NoRoom,
}

type Take<'t> = dyn FnMut(Collected<'_>) -> Taken + 't;

impl Reader {
    pub(crate) fn new(registry: Arc<Registry>, exporter: usize) -> Self {
        Self { registry, exporter }
    }

    /// Whether what is collected says all that was said before: then an older snapshot that could not be delivered is
    /// worth nothing any more.
    pub(crate) fn is_cumulative(&self) -> bool {
        self.temporality() == Temporality::Cumulative
    }

    /// Whether there is anything to collect.
    pub(crate) fn has_instruments(&self) -> bool {
        !self.registry.entries().is_empty()
    }

    /// Over which stretch of time the exporter's sums go.
    pub(crate) fn temporality(&self) -> Temporality {
        self.registry.ground.pushes[self.exporter].temporality
    }

    /// Looks at every instrument, hands over what there is to tell, and goes on while `take` says so. Once it
    /// `is_over`, callbacks are asked no more: what they look at may be gone.
    pub(crate) fn collect(&self, limits: FrameLimits, is_over: &dyn Fn() -> bool, take: &mut Take<'_>) {
        let mut record = MetricRecord::default();
        for entry in self.registry.entries() {
            let taken = match &entry {
                Entry::Measured(instrument) => self.measured(instrument, &mut record, limits, take),
                Entry::Observed(observable) => {
                    let ask = if is_over() { Ask::NoMore } else { Ask::Again };
                    self.observed(observable, ask, &mut record, limits, take)
                }
            };
            if taken != Taken::Yes {
                return;
            }
        }
        for what in self.registry.ground.take_complaints() {
            take(Collected::Complaint(what));
        }
    }

    fn measured(
        &self,
        instrument: &Instrument,
        record: &mut MetricRecord,
        limits: FrameLimits,
        take: &mut Take<'_>,
    ) -> Taken {
        let push = &self.registry.ground.pushes[self.exporter];
        let description = &instrument.description;
        let stretch = description.stretch(push.temporality, false);
        let shape = description.shape(push.histograms, stretch);
        let progress = Progress::new();
        let mut parts = framed(instrument.head(shape), &instrument.scope, record, limits, &progress, take);
        let store = &instrument.stores()[self.exporter];
        // those that wait until their part has found its place, in the order of the points
        let mut held = VecDeque::new();
        store.collect(self.registry.ground.now(), |next| {
            let Held { series, period, reading, .. } = &next;
            parts.add(|record| write(record, shape, &series.attributes, *period, reading));
            held.push_back(next);
            held.drain(..progress.newly_settled()).for_each(Held::settle);
            progress.taken() == Taken::Yes
        });
        parts.end();
        held.drain(..progress.newly_settled()).for_each(Held::settle);
        if progress.taken() == Taken::Yes && store.is_overflowing() {
            let (name, limit) = (&description.name, description.limit);
            let what =
                format!("metric {name:?} has more than {limit} sets of attributes: the rest is put together");
            return take(Collected::Problem(ProblemKind::CardinalityLimit, what));
        }
        progress.taken()
    }

    fn observed(
        &self,
        observable: &Observable,
        ask: Ask,
        record: &mut MetricRecord,
        limits: FrameLimits,
        take: &mut Take<'_>,
    ) -> Taken {
        let push = &self.registry.ground.pushes[self.exporter];
        let description = &observable.description;
        let stretch = description.stretch(push.temporality, true);
        let shape = description.shape(push.histograms, stretch);
        let progress = Progress::new();
        let outcome = observable.collect(self.exporter, stretch, &self.registry.ground, ask, |due| {
            let mut parts =
                framed(description.head(shape), &observable.scope, record, limits, &progress, take);
            for Due { attributes, period, number } in due {
                let reading = Reading::Number(*number);
                parts.add(|record| write(record, shape, attributes, *period, &reading));
                if progress.taken() != Taken::Yes {
                    break;
                }
            }
            parts.end();
            progress.newly_settled()
        });
        if let (Taken::Yes, Err(words)) = (progress.taken(), outcome) {
            let what = format!("the callback of metric {:?} panicked: {words}", description.name);
            return take(Collected::Problem(ProblemKind::CallbackPanicked, what));
        }
        progress.taken()
    }
}

/// How far the parts of one metric have come.
struct Progress {
    taken: Cell<Taken>,
    /// Points in parts that have found their place, until they are asked for.
    settled: Cell<u64>,
}

impl Progress {
    fn new() -> Self {
        Self { taken: Cell::new(Taken::Yes), settled: Cell::new(0) }
    }

    fn taken(&self) -> Taken {
        self.taken.get()
    }

    fn note(&self, points: u64, taken: Taken) {
        self.taken.set(taken);
        if taken != Taken::NoRoom {
            self.settled.set(self.settled.get() + points);
        }
    }

    /// How many points have found their place since this was last asked.
    fn newly_settled(&self) -> usize {
        self.settled.take() as usize
    }
}

/// Frames a metric in parts and hands them on, one after the other, until one is not wanted.
fn framed<'a>(
    head: MetricHead<'a>,
    scope: &'a Arc<Scope>,
    record: &'a mut MetricRecord,
    limits: FrameLimits,
    progress: &'a Progress,
    take: &'a mut Take<'_>,
) -> MetricParts<'a, impl FnMut(Part<'_>)> {
    let hand_on = move |part: Part<'_>| {
        if progress.taken() != Taken::Yes {
            return;
        }
        let (points, collected) = match part {
            Part::Frame { bytes, points } => (points, Collected::Frame { scope, bytes, points }),
            Part::TooLarge { points } => (points, Collected::TooLarge { points }),
        };
        progress.note(points, take(collected));
    };
    MetricParts::begin(head, record, limits.beside(scope), hand_on)
}

/// False if the point does not fit beside what is there.
fn write(
    record: &mut MetricRecord,
    shape: Shape,
    attributes: &AttributeSet,
    period: Period,
    reading: &Reading,
) -> bool {
    // a gauge tells of a moment, not of a stretch of time
    let start = if matches!(shape, Shape::Gauge) { 0 } else { period.start };
    let period = Period { start, ..period };
    match reading {
        Reading::Number(number) => record.number(attributes, period, *number),
        Reading::FloatSum(sum) => record.number(attributes, period, Number::Float(sum.value())),
        Reading::Explicit(histogram) => record.histogram(attributes, period, &histogram.point()),
        Reading::Exponential(histogram) => record.exponential(attributes, period, &histogram.point()),
    }
}

#[cfg(test)]
mod tests;
