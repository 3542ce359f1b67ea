//! Streams: the forms in which an instrument is exported, as its builder, the views and the exporters determine them.

use std::sync::Arc;

use super::aggregator::{AggregationKind, PointValue};
use super::instrument::{Descriptor, NumberKind};
use super::registry::MeterShared;
use crate::config::{
    Histograms, InstrumentKind, KeySelection, PeriodicReaderSettings, Temporality, View, ViewAggregation,
};
use crate::record::{
    AggregationTemporality, ExponentialLimits, ExponentialPoint, HistogramPoint, MetricHead, Number, Point,
    PointKind,
};

/// The keys of the attributes that a stream keeps; `None` keeps all.
pub(super) type Keys = Option<Arc<KeySelection>>;

/// One metric that one exporter sends for an instrument. Each view that selects the instrument makes one stream per
/// exporter, or none if it drops the metric. Without such a view, the instrument has one stream per exporter.
#[derive(Debug, Clone)]
pub(super) struct Stream {
    /// Index of the exporter among the exporters of metrics.
    pub(super) exporter: usize,
    /// Name and description of the view, if it sets them.
    name: Option<String>,
    description: Option<String>,
    pub(super) aggregation: AggregationKind,
    pub(super) temporality: AggregationTemporality,
    pub(super) point_kind: PointKind,
    /// Keys of the exported attributes; `None` for all.
    pub(super) keys: Keys,
    /// Maximum number of series, besides the overflow series.
    pub(super) limit: usize,
    has_sum: bool,
    has_min_max: bool,
}

impl Stream {
    /// Returns the streams of an instrument for all exporters. Reports views that cannot be applied.
    pub(super) fn resolve(descriptor: &Descriptor, shared: &MeterShared) -> Box<[Self]> {
        let Descriptor { scope, name, kind, .. } = descriptor;
        let meter = [&*scope.name, &*scope.version, &*scope.schema_url];
        let selects = |view: &&View| view.selects(name, *kind, descriptor.unit(), meter);
        let mut views: Vec<_> = shared.views.iter().filter(selects).collect();
        views.retain(|view| {
            let is_possible = is_possible(*kind, &view.aggregation);
            if !is_possible {
                let kind = descriptor.kind_name();
                let what = format!("a view is ignored: {kind} cannot be aggregated as the view says");
                let fix = "select fewer instruments, for example with View::kind";
                shared.report_misuse(format!("metric {name:?}: {what}; {fix}"));
            }
            is_possible
        });
        let default = View::default();
        views.extend(views.is_empty().then_some(&default));
        let is_sent = |view: &&&View| view.aggregation != ViewAggregation::Drop;
        let of_exporter = |(exporter, settings): (usize, &PeriodicReaderSettings)| {
            let stream = |view: &&View| Self::new(descriptor, view, exporter, settings);
            views.iter().filter(is_sent).map(stream).collect::<Vec<_>>()
        };
        shared.readers.iter().enumerate().flat_map(of_exporter).collect()
    }

    fn new(descriptor: &Descriptor, view: &View, exporter: usize, reader: &PeriodicReaderSettings) -> Self {
        let kind = descriptor.kind;
        let temporality = temporality(kind, reader.temporality);
        // Histograms receive all numbers as floats.
        let number =
            if kind == InstrumentKind::Histogram { NumberKind::Float } else { descriptor.number_kind };
        let defaults = || descriptor.default_bounds.into();
        let aggregation = match (&view.aggregation, &descriptor.buckets) {
            (ViewAggregation::Sum, _) => AggregationKind::Sum(number),
            (ViewAggregation::LastValue, _) => AggregationKind::Gauge(number),
            (ViewAggregation::Explicit(bounds), _) => {
                AggregationKind::Explicit(bounds.clone().unwrap_or_else(defaults))
            }
            (ViewAggregation::Exponential(limits), _) => AggregationKind::Exponential(*limits),
            _ if kind.is_gauge() => AggregationKind::Gauge(number),
            _ if kind != InstrumentKind::Histogram => AggregationKind::Sum(number),
            (_, Some(buckets)) => buckets.clone(),
            _ if reader.histograms == Histograms::Explicit => AggregationKind::Explicit(defaults()),
            _ => AggregationKind::Exponential(ExponentialLimits::DEFAULT),
        };
        let rises = kind.is_counter() || kind == InstrumentKind::Histogram;
        let point_kind = match &aggregation {
            AggregationKind::Gauge(_) => PointKind::Gauge,
            AggregationKind::Explicit(_) => PointKind::Histogram { temporality },
            AggregationKind::Exponential(_) => PointKind::ExponentialHistogram { temporality },
            _ => PointKind::Sum { monotonic: rises, temporality },
        };
        let aggregation = match aggregation {
            AggregationKind::Sum(NumberKind::Int) if temporality == AggregationTemporality::Delta => {
                AggregationKind::IntDelta
            }
            AggregationKind::Explicit(_) | AggregationKind::Exponential(_) if number == NumberKind::Int => {
                AggregationKind::OfInts(Box::new(aggregation))
            }
            aggregation => aggregation,
        };
        let limit = view.limit.or(descriptor.limit).or(reader.cardinality_limits[kind as usize]);
        Self {
            exporter,
            name: view.name.clone(),
            description: view.description.clone(),
            aggregation,
            temporality,
            point_kind,
            keys: view.keys.clone().or(descriptor.keys.clone()),
            limit: limit.unwrap_or(reader.cardinality_limit),
            // As OpenTelemetry advises, a histogram of an instrument that may measure negative values, such as an
            // up-down counter, has no sum: readers treat the sum of a histogram as a counter.
            has_sum: rises,
            has_min_max: !view.omits_min_max,
        }
    }

    pub(super) fn name<'a>(&'a self, descriptor: &'a Descriptor) -> &'a str {
        self.name.as_deref().unwrap_or(&descriptor.name)
    }

    /// Returns the fields of the metric that precede its points.
    pub(super) fn head<'a>(&'a self, descriptor: &'a Descriptor) -> MetricHead<'a> {
        let given = descriptor.metadata.get().map_or("", |metadata| &metadata.description);
        let description = self.description.as_deref().unwrap_or(given);
        let (name, unit) = (self.name(descriptor), descriptor.unit());
        MetricHead { name, description, unit, point_kind: self.point_kind }
    }

    /// Returns the point of an aggregated value.
    pub(super) fn point<'v>(&self, value: &'v PointValue) -> Point<'v> {
        let mut point = match value {
            PointValue::Number(number) => Point::Number(*number),
            PointValue::FloatSum(sum) => Point::Number(Number::Float(sum.value())),
            PointValue::Explicit(histogram) => Point::Histogram(histogram.point()),
            PointValue::Exponential(histogram) => Point::Exponential(histogram.point()),
        };
        if let Point::Histogram(HistogramPoint { sum, min, max, .. })
        | Point::Exponential(ExponentialPoint { sum, min, max, .. }) = &mut point
        {
            *sum = sum.filter(|_| self.has_sum);
            [min, max].into_iter().for_each(|end| *end = end.filter(|_| self.has_min_max));
        }
        point
    }
}

/// Returns the temporality of an instrument for an exporter with this preference.
fn temporality(kind: InstrumentKind, preference: Temporality) -> AggregationTemporality {
    match (kind, preference) {
        (InstrumentKind::UpDownCounter | InstrumentKind::ObservableUpDownCounter, _)
        | (_, Temporality::Cumulative) => AggregationTemporality::Cumulative,
        (_, Temporality::LowMemory) if kind.is_observable() => AggregationTemporality::Cumulative,
        _ => AggregationTemporality::Delta,
    }
}

/// Returns whether instruments of this kind can have the aggregation of a view.
fn is_possible(kind: InstrumentKind, aggregation: &ViewAggregation) -> bool {
    match aggregation {
        ViewAggregation::Explicit(_) | ViewAggregation::Exponential(_) => !kind.is_observable(),
        ViewAggregation::Sum => !kind.is_gauge(),
        _ => true,
    }
}
