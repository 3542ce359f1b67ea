//! A collection: an exporter's worker reads every instrument and frames its data points.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;

use super::instrument::{Descriptor, Instrument};
use super::observable::{Callbacks, Observable, ObservedPoint};
use super::registry::Registry;
use super::storage::{MetricStorage, PendingPoint};
use super::stream::Stream;
use crate::config::{PeriodicReaderSettings, Temporality};
use crate::context::unix_now;
use crate::problem::ProblemKind;
use crate::record::{FrameLimits, FramedPoints, MetricFramer, MetricRecord, Period, Point, PointKind, Scope};

/// Collects the metrics of all instruments for one exporter.
#[derive(Debug, Clone)]
pub(crate) struct Reader {
    registry: Arc<Registry>,
    /// Index among the registry's exporters.
    exporter: usize,
}

/// One result of a collection.
pub(crate) enum Collected<'a> {
    /// A metric, or a part of one.
    Frame { scope: &'a Arc<Scope>, bytes: &'a [u8], points: u64 },
    /// Data points that are too large for any request.
    TooLarge { points: u64 },
    /// A problem, reported with the usual rate limit.
    Problem(ProblemKind, String),
    /// A wrong use of an instrument, reported once.
    Misuse(String),
}

/// The answer of the sink to one result of a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum SinkStatus {
    /// The sink accepted the result.
    #[default]
    Accepted,
    /// The sink accepted the result and wants no more.
    AcceptedLast,
    /// The sink had no room. The values are put back, and the next collection exports them.
    Full,
}

pub(super) type Sink<'s> = dyn FnMut(Collected<'_>) -> SinkStatus + 's;

impl Reader {
    pub(crate) fn new(registry: Arc<Registry>, exporter: usize) -> Self {
        Self { registry, exporter }
    }

    /// Returns whether the points of a collection include the measurements of earlier collections. If so, an
    /// undelivered snapshot is redundant once there is a newer one.
    pub(crate) fn is_cumulative(&self) -> bool {
        self.temporality() == Temporality::Cumulative
    }

    /// Returns whether there are instruments to collect.
    pub(crate) fn has_instruments(&self) -> bool {
        !self.registry.entries().is_empty()
    }

    /// Returns the temporality that the exporter prefers.
    pub(crate) fn temporality(&self) -> Temporality {
        self.settings().temporality
    }

    /// Reads every instrument and passes its metrics to `sink`, until the sink stops. Once `is_over` returns true,
    /// callbacks are no longer called, because the data that they read may be gone.
    pub(crate) fn collect(&self, limits: FrameLimits, is_over: &dyn Fn() -> bool, sink: &mut Sink<'_>) {
        let mut pass = Pass { reader: self, limits, is_over, record: MetricRecord::default(), sink };
        for entry in self.registry.entries() {
            if entry.collect(&mut pass) != SinkStatus::Accepted {
                return;
            }
        }
        for what in self.registry.shared.take_misuses() {
            sink(Collected::Misuse(what));
        }
    }

    fn settings(&self) -> &PeriodicReaderSettings {
        &self.registry.shared.readers[self.exporter]
    }
}

/// One collection of all instruments, with the arguments of [`Reader::collect`].
pub(super) struct Pass<'a> {
    reader: &'a Reader,
    limits: FrameLimits,
    is_over: &'a dyn Fn() -> bool,
    /// Storage that all metrics reuse.
    record: MetricRecord,
    sink: &'a mut Sink<'a>,
}

/// One instrument, as used by a collection. A trait object, so that a program without instruments does not link their
/// code.
pub(super) trait Collect: Send + Sync {
    fn descriptor(&self) -> &Descriptor;

    /// Returns the instrument if it is synchronous, that is, if it has no callback.
    fn synchronous(self: Arc<Self>) -> Option<Arc<Instrument>>;

    /// Passes the metric of the instrument to the sink.
    fn collect(&self, pass: &mut Pass<'_>) -> SinkStatus;
}

impl Collect for Instrument {
    fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    fn synchronous(self: Arc<Self>) -> Option<Arc<Instrument>> {
        Some(self)
    }

    fn collect(&self, pass: &mut Pass<'_>) -> SinkStatus {
        let sent = |(stream, _): &(&Stream, _)| stream.exporter == pass.reader.exporter;
        for (stream, storage) in self.descriptor.streams.iter().zip(self.storages()).filter(sent) {
            let status = self.collect_stream(stream, storage, pass);
            if status != SinkStatus::Accepted {
                return status;
            }
        }
        SinkStatus::Accepted
    }
}

impl Instrument {
    fn collect_stream(&self, stream: &Stream, storage: &MetricStorage, pass: &mut Pass<'_>) -> SinkStatus {
        let progress = Progress::default();
        let mut framer = framed(&self.descriptor, stream, pass, &progress);
        // Points whose frame is not accepted yet, in order.
        let (mut held, mut confirmed) = (VecDeque::new(), 0);
        let mut confirm = |held: &mut VecDeque<PendingPoint>| {
            confirmed += held.drain(..progress.newly_accepted()).map(PendingPoint::confirm).count();
        };
        let now = unix_now();
        storage.collect(now, &mut |next| {
            let PendingPoint { series, period, value, exemplars, .. } = &next;
            let period = covered(stream.point_kind, *period);
            framer.add(&series.attributes, period, &stream.point(value), exemplars);
            held.push_back(next);
            confirm(&mut held);
            progress.status.get() == SinkStatus::Accepted
        });
        framer.end();
        confirm(&mut held);
        // If there were values but none was accepted, the period goes on: the next collection uses the same start.
        if confirmed > 0 || held.is_empty() {
            storage.end_period(now);
        }
        if progress.status.get() == SinkStatus::Accepted && storage.is_overflowing() {
            return (pass.sink)(overflowing(&self.descriptor, stream));
        }
        progress.status.get()
    }
}

impl Collect for Observable {
    fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    fn synchronous(self: Arc<Self>) -> Option<Arc<Instrument>> {
        None
    }

    fn collect(&self, pass: &mut Pass<'_>) -> SinkStatus {
        let (reader, descriptor) = (pass.reader, &self.descriptor);
        let callbacks = if (pass.is_over)() { Callbacks::Skip } else { Callbacks::Run };
        let progress = Progress::default();
        let take = |stream: &Stream, pending: &[ObservedPoint], is_overflowing| {
            if progress.status.get() != SinkStatus::Accepted {
                return 0;
            }
            let mut framer = framed(descriptor, stream, pass, &progress);
            for ObservedPoint { attributes, period, number } in pending {
                let (period, point) = (covered(stream.point_kind, *period), Point::Number(*number));
                // No exemplars: the worker calls the callback, outside of the program's spans.
                framer.add(attributes, period, &point, &[]);
                if progress.status.get() != SinkStatus::Accepted {
                    break;
                }
            }
            framer.end();
            let accepted = progress.newly_accepted();
            if is_overflowing && progress.status.get() == SinkStatus::Accepted {
                progress.note(0, (pass.sink)(overflowing(descriptor, stream)));
            }
            accepted
        };
        let outcome = self.observe(reader.exporter, &reader.registry.shared, callbacks, take);
        match (progress.status.get(), outcome) {
            (SinkStatus::Accepted, Err(panic)) => {
                let what = format!("the callback of metric {:?} panicked: {panic}", descriptor.name);
                (pass.sink)(Collected::Problem(ProblemKind::CallbackPanicked, what))
            }
            (status, _) => status,
        }
    }
}

/// Returns the problem of a metric that has more series than its limit.
fn overflowing(descriptor: &Descriptor, stream: &Stream) -> Collected<'static> {
    let (name, limit) = (stream.name(descriptor), stream.limit);
    let what = format!(
        "metric {name:?} has more than {limit} sets of attributes: further ones are aggregated under \
         otel.metric.overflow; remove attributes with many values, or raise cardinality_limit"
    );
    Collected::Problem(ProblemKind::CardinalityLimit, what)
}

/// Progress of framing one metric in parts.
#[derive(Default)]
struct Progress {
    status: Cell<SinkStatus>,
    /// Number of points in accepted parts, since the last call of [`newly_accepted`](Self::newly_accepted).
    accepted: Cell<u64>,
}

impl Progress {
    fn note(&self, points: u64, status: SinkStatus) {
        self.status.set(status);
        if status != SinkStatus::Full {
            self.accepted.set(self.accepted.get() + points);
        }
    }

    /// Returns the number of points that were accepted since the last call.
    fn newly_accepted(&self) -> usize {
        self.accepted.take() as usize
    }
}

/// Returns a framer that passes the parts of a metric to the sink, one after the other, until the sink stops.
fn framed<'a>(
    descriptor: &'a Descriptor,
    stream: &'a Stream,
    pass: &'a mut Pass<'_>,
    progress: &'a Progress,
) -> MetricFramer<'a, impl FnMut(FramedPoints<'_>)> {
    let (Pass { limits, record, sink, .. }, scope) = (pass, &descriptor.scope);
    let forward = move |part: FramedPoints<'_>| {
        if progress.status.get() != SinkStatus::Accepted {
            return;
        }
        let (points, collected) = match part {
            FramedPoints::Frame { bytes, points } => (points, Collected::Frame { scope, bytes, points }),
            FramedPoints::TooLarge { points } => (points, Collected::TooLarge { points }),
        };
        progress.note(points, sink(collected));
    };
    MetricFramer::begin(stream.head(descriptor), record, limits.less_scope(scope), forward)
}

/// Returns the period of a point. The point of a gauge has a time, but no start.
fn covered(point_kind: PointKind, period: Period) -> Period {
    let start = if matches!(point_kind, PointKind::Gauge) { 0 } else { period.start };
    Period { start, ..period }
}

#[cfg(test)]
mod tests;
