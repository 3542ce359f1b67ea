//! What an exporter's worker does when it is time to push: look at every instrument and frame what it says.

use std::sync::Arc;

use super::cell::Reading;
use super::instrument::Instrument;
use super::observe::Observable;
use super::registry::{Entry, Registry};
use crate::config::Temporality;
use crate::problem::ProblemKind;
use crate::record::{AttributeSet, MetricHead, MetricRecord, Period, Scope, Shape};

/// One exporter's view of the instruments.
#[derive(Debug, Clone)]
pub(crate) struct Reader {
    registry: Arc<Registry>,
    /// Which of the registry's exporters it is.
    exporter: usize,
}

/// How large one framed metric may become; one with more series is framed in parts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FrameLimits {
    pub(crate) bytes: usize,
    pub(crate) points: u64,
    /// Bytes of a part with a single point.
    pub(crate) largest: usize,
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
        self.registry.ground.pushes[self.exporter].temporality == Temporality::Cumulative
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
        let mut framing = Framing {
            head: instrument.head(shape),
            scope: &instrument.scope,
            record,
            limits,
            take,
            goes_on: true,
        };
        framing.begin();
        let store = &instrument.stores()[self.exporter];
        store.collect(self.registry.ground.now(), |series, period, reading| {
            framing.add(&series.attributes, period, reading);
        });
        framing.hand_over();
        if store.is_overflowing() {
            let (name, limit) = (&description.name, description.limit);
            let what =
                format!("metric {name:?} has more than {limit} sets of attributes: the rest is put together");
            framing.give(Collected::Problem(ProblemKind::CardinalityLimit, what));
        }
        framing.goes_on
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
        let mut framing = Framing {
            head: description.head(shape),
            scope: &observable.scope,
            record,
            limits,
            take,
            goes_on: true,
        };
        framing.begin();
        let outcome = observable.collect(
            self.exporter,
            stretch,
            &self.registry.ground,
            |attributes, period, number| {
                framing.add(attributes, period, &Reading::Number(number));
            },
        );
        framing.hand_over();
        if let Err(words) = outcome {
            let what = format!("the callback of metric {:?} panicked: {words}", description.name);
            framing.give(Collected::Problem(ProblemKind::CallbackPanicked, what));
        }
        framing.goes_on
    }
}

/// Frames the points of one instrument, in as many parts as they need.
struct Framing<'a, 't> {
    head: MetricHead<'a>,
    scope: &'a Arc<Scope>,
    record: &'a mut MetricRecord,
    limits: FrameLimits,
    take: &'a mut (dyn FnMut(Collected<'_>) -> bool + 't),
    goes_on: bool,
}

impl Framing<'_, '_> {
    fn begin(&mut self) {
        self.begin_within(self.limits.bytes);
    }

    fn begin_within(&mut self, bytes: usize) {
        self.record.begin(&self.head, bytes);
    }

    fn add(&mut self, attributes: &AttributeSet, period: Period, reading: &Reading) {
        if self.record.points() >= self.limits.points {
            self.hand_over();
            self.begin();
        }
        if self.write(attributes, period, reading) {
            return;
        }
        self.hand_over();
        self.begin();
        if !self.write(attributes, period, reading) {
            self.add_alone(attributes, period, reading);
        }
    }

    /// For a point that is larger than a part should be.
    fn add_alone(&mut self, attributes: &AttributeSet, period: Period, reading: &Reading) {
        self.begin_within(self.limits.largest);
        match self.write(attributes, period, reading) {
            true => self.hand_over(),
            false => self.give(Collected::TooLarge { points: 1 }),
        }
        self.begin();
    }

    fn write(&mut self, attributes: &AttributeSet, period: Period, reading: &Reading) -> bool {
        // a gauge tells of a moment, not of a stretch of time
        let start = if matches!(self.head.shape, Shape::Gauge) { 0 } else { period.start };
        let period = Period { start, ..period };
        match reading {
            Reading::Number(number) => self.record.number(attributes, period, *number),
            Reading::Explicit(histogram) => self.record.histogram(attributes, period, &histogram.point()),
            Reading::Exponential(histogram) => {
                self.record.exponential(attributes, period, &histogram.point())
            }
        }
    }

    fn hand_over(&mut self) {
        let points = self.record.points();
        if points > 0 && self.goes_on {
            let frame = Collected::Frame { scope: self.scope, bytes: self.record.finish(), points };
            self.goes_on = (self.take)(frame);
        }
    }

    fn give(&mut self, collected: Collected<'_>) {
        if self.goes_on {
            self.goes_on = (self.take)(collected);
        }
    }
}
