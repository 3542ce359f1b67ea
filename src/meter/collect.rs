//! What an exporter's worker does when it is time to push: look at every instrument and frame what it says.

use std::sync::Arc;

use super::cell::Reading;
use super::instrument::Instrument;
use super::observe::Observable;
use super::registry::{Entry, Registry};
use crate::config::Temporality;
use crate::problem::ProblemKind;
use crate::record::{AttributeSet, FrameLimits, MetricParts, MetricRecord, Part, Period, Scope, Shape};

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

impl Reader {
    pub(crate) fn new(registry: Arc<Registry>, exporter: usize) -> Self {
        Self { registry, exporter }
    }

    /// Whether what is collected says all that was said before: then an older snapshot that could not be delivered is
    /// worth nothing any more.
    pub(crate) fn is_cumulative(&self) -> bool {
        self.temporality() == Temporality::Cumulative
    }

    /// Over which stretch of time the exporter's sums go.
    pub(crate) fn temporality(&self) -> Temporality {
        self.registry.ground.pushes[self.exporter].temporality
    }

    /// Looks at every instrument, hands over what there is to tell, and goes on while `take` says so. Once it
    /// `is_over`, callbacks are asked no more: what they look at may be gone.
    pub(crate) fn collect(
        &self,
        limits: FrameLimits,
        is_over: &dyn Fn() -> bool,
        take: &mut dyn FnMut(Collected<'_>) -> bool,
    ) {
        let mut record = MetricRecord::default();
        for entry in self.registry.entries() {
            let goes_on = match &entry {
                Entry::Measured(instrument) => self.measured(instrument, &mut record, limits, take),
                Entry::Observed(_) if is_over() => continue,
                Entry::Observed(observable) => self.observed(observable, &mut record, limits, take),
            };
            if !goes_on {
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
        take: &mut dyn FnMut(Collected<'_>) -> bool,
    ) -> bool {
        let push = &self.registry.ground.pushes[self.exporter];
        let description = &instrument.description;
        let stretch = description.stretch(push.temporality, false);
        let shape = description.shape(push.histograms, stretch);
        let mut goes_on = true;
        let give = |part: Part<'_>| hand_on(part, &instrument.scope, &mut goes_on, take);
        let limits = limits.beside(&instrument.scope);
        let mut parts = MetricParts::begin(instrument.head(shape), record, limits, give);
        let store = &instrument.stores()[self.exporter];
        store.collect(self.registry.ground.now(), |series, period, reading| {
            parts.add(|record| write(record, shape, &series.attributes, period, reading));
        });
        parts.end();
        if goes_on && store.is_overflowing() {
            let (name, limit) = (&description.name, description.limit);
            let what =
                format!("metric {name:?} has more than {limit} sets of attributes: the rest is put together");
            goes_on = take(Collected::Problem(ProblemKind::CardinalityLimit, what));
        }
        goes_on
    }

    fn observed(
        &self,
        observable: &Observable,
        record: &mut MetricRecord,
        limits: FrameLimits,
        take: &mut dyn FnMut(Collected<'_>) -> bool,
    ) -> bool {
        let push = &self.registry.ground.pushes[self.exporter];
        let description = &observable.description;
        let stretch = description.stretch(push.temporality, true);
        let shape = description.shape(push.histograms, stretch);
        let mut goes_on = true;
        let give = |part: Part<'_>| hand_on(part, &observable.scope, &mut goes_on, take);
        let limits = limits.beside(&observable.scope);
        let mut parts = MetricParts::begin(description.head(shape), record, limits, give);
        let outcome = observable.collect(
            self.exporter,
            stretch,
            &self.registry.ground,
            |attributes, period, number| {
                let reading = Reading::Number(number);
                parts.add(|record| write(record, shape, attributes, period, &reading));
            },
        );
        parts.end();
        if let (true, Err(words)) = (goes_on, outcome) {
            let what = format!("the callback of metric {:?} panicked: {words}", description.name);
            goes_on = take(Collected::Problem(ProblemKind::CallbackPanicked, what));
        }
        goes_on
    }
}

fn hand_on(
    part: Part<'_>,
    scope: &Arc<Scope>,
    goes_on: &mut bool,
    take: &mut dyn FnMut(Collected<'_>) -> bool,
) {
    if *goes_on {
        *goes_on = take(match part {
            Part::Frame { bytes, points } => Collected::Frame { scope, bytes, points },
            Part::TooLarge { points } => Collected::TooLarge { points },
        });
    }
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
        Reading::Explicit(histogram) => record.histogram(attributes, period, &histogram.point()),
        Reading::Exponential(histogram) => record.exponential(attributes, period, &histogram.point()),
    }
}
