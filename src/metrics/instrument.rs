//! The implementation of an instrument behind its handles: its descriptor, and one storage per exporter.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use super::aggregator::{AggregationKind, Aggregator};
use super::handles::sealed::Pair;
use super::registry::MeterShared;
use super::storage::MetricStorage;
use super::table::{BoundSeries, Table};
use crate::config::{Histograms, PeriodicReaderSettings, Temporality};
use crate::context::unix_now;
use crate::process::PerProcess;
use crate::record::{AggregationTemporality, AttributeSet, MetricHead, Number, PointKind, Scope};

/// The kind of an instrument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InstrumentKind {
    Counter,
    UpDownCounter,
    Gauge,
    Histogram,
}

/// The type of an instrument's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NumberKind {
    Int,
    Float,
}

impl NumberKind {
    /// Converts bits, of an `i64` or of an `f64`, to a number.
    pub(super) fn number(self, bits: u64) -> Number {
        match self {
            Self::Int => Number::Int(bits as i64),
            Self::Float => Number::Float(f64::from_bits(bits)),
        }
    }
}

/// The unit and the description of an instrument. Empty if not set.
#[derive(Debug)]
pub(crate) struct Metadata {
    pub(crate) unit: String,
    pub(crate) description: String,
}

/// Metadata that the program may set after it has created the instrument. Set under the fork lock, because a child
/// continues to use it.
pub(crate) type LateMetadata = Arc<OnceLock<Metadata>>;

/// Everything that identifies and describes an instrument when it is created.
#[derive(Debug, Clone)]
pub(super) struct Descriptor {
    pub(super) scope: Arc<Scope>,
    pub(super) name: String,
    pub(super) metadata: LateMetadata,
    pub(super) kind: InstrumentKind,
    pub(super) number_kind: NumberKind,
    /// Buckets that the program has chosen for a histogram.
    pub(super) buckets: Option<AggregationKind>,
    /// Bounds of an explicit histogram for which the program has not chosen any.
    pub(super) default_bounds: &'static [f64],
    /// Maximum number of series.
    pub(super) limit: usize,
}

impl Descriptor {
    /// Returns the temporality of the instrument for an exporter with this preference.
    pub(super) fn temporality(&self, preference: Temporality, is_observed: bool) -> AggregationTemporality {
        match (self.kind, preference) {
            (_, Temporality::Cumulative) | (InstrumentKind::UpDownCounter, _) => {
                AggregationTemporality::Cumulative
            }
            (_, Temporality::LowMemory) if is_observed => AggregationTemporality::Cumulative,
            _ => AggregationTemporality::Delta,
        }
    }

    pub(super) fn aggregation(&self, histograms: Histograms) -> AggregationKind {
        match self.kind {
            InstrumentKind::Counter | InstrumentKind::UpDownCounter => AggregationKind::Sum(self.number_kind),
            InstrumentKind::Gauge => AggregationKind::Gauge(self.number_kind),
            InstrumentKind::Histogram => match (&self.buckets, histograms) {
                (Some(buckets), _) => buckets.clone(),
                (None, Histograms::Exponential) => AggregationKind::Exponential,
                (None, _) => AggregationKind::Explicit(self.default_bounds.into()),
            },
        }
    }

    /// Returns the message about a value that is left out.
    pub(super) fn refusal(&self, what: &str) -> String {
        format!("metric {:?}: a {what} value is left out: {} does not accept it", self.name, self.kind_name())
    }

    /// Returns the name of the kind in messages.
    pub(super) fn kind_name(&self) -> &'static str {
        match (self.kind, self.number_kind) {
            (InstrumentKind::Counter, NumberKind::Int) => "a counter",
            (InstrumentKind::Counter, NumberKind::Float) => "a counter of floats",
            (InstrumentKind::UpDownCounter, NumberKind::Int) => "an up-down counter",
            (InstrumentKind::UpDownCounter, NumberKind::Float) => "an up-down counter of floats",
            (InstrumentKind::Gauge, NumberKind::Int) => "a gauge of integers",
            (InstrumentKind::Gauge, NumberKind::Float) => "a gauge",
            (InstrumentKind::Histogram, NumberKind::Int) => "a histogram of integers",
            (InstrumentKind::Histogram, NumberKind::Float) => "a histogram",
        }
    }

    /// Returns the unit, or an empty text if it is not set yet.
    pub(super) fn unit(&self) -> &str {
        self.metadata.get().map_or("", |metadata| &metadata.unit)
    }

    /// Returns the fields of the metric that precede its points.
    pub(super) fn head(&self, point_kind: PointKind) -> MetricHead<'_> {
        let description = self.metadata.get().map_or("", |metadata| &metadata.description);
        MetricHead { name: &self.name, description, unit: self.unit(), point_kind }
    }

    pub(super) fn point_kind(
        &self,
        histograms: Histograms,
        temporality: AggregationTemporality,
    ) -> PointKind {
        match self.aggregation(histograms) {
            AggregationKind::Gauge(_) => PointKind::Gauge,
            AggregationKind::Sum(_) => {
                PointKind::Sum { monotonic: self.kind == InstrumentKind::Counter, temporality }
            }
            AggregationKind::Explicit(_) => PointKind::Histogram { temporality },
            AggregationKind::Exponential => PointKind::ExponentialHistogram { temporality },
        }
    }
}

/// An instrument that the program measures with.
pub(super) struct Instrument {
    pub(super) descriptor: Descriptor,
    pub(super) shared: Arc<MeterShared>,
    /// True once a value was left out, which is reported once.
    pub(super) has_refused: AtomicBool,
    /// One storage per exporter of metrics. Measurements from before a fork are sent by the parent.
    storages: PerProcess<Box<[MetricStorage]>>,
}

impl Instrument {
    pub(super) fn new(descriptor: Descriptor, shared: Arc<MeterShared>) -> Self {
        let storages = PerProcess::new(new_storages(&descriptor, &shared));
        Self { descriptor, shared, has_refused: AtomicBool::new(false), storages }
    }

    /// Aggregates a measurement, given as the bits of its number.
    pub(super) fn update(&self, bits: u64, pairs: &[Pair<'_>]) {
        let storages = self.storages();
        // Fast path: most programs have one exporter of metrics.
        let [storage] = storages else { return update_all(storages, bits, pairs) };
        storage.update(pairs, bits);
    }

    /// Aggregates a measurement without attributes.
    pub(super) fn update_bare(&self, bits: u64) {
        match self.only_bare() {
            Some(aggregator) => aggregator.update(bits),
            None => update_all(self.storages(), bits, &[]),
        }
    }

    /// Returns the aggregator for measurements without attributes, if there is one exporter and no lock is needed.
    #[inline]
    fn only_bare(&self) -> Option<&Aggregator> {
        match self.storages.get().map(|storages| &**storages) {
            Some([storage]) => storage.bare(),
            _ => None,
        }
    }

    /// Binds the series of these attributes, one per exporter.
    pub(super) fn bind(&self, attributes: &AttributeSet) -> BoundSeries {
        BoundSeries(self.storages().iter().map(|storage| storage.bind(attributes.clone())).collect())
    }

    /// Returns the storages of this process, in the order of the exporters.
    #[inline]
    pub(super) fn storages(&self) -> &[MetricStorage] {
        match self.storages.get() {
            Some(storages) => storages,
            None => self.storages_of_child(),
        }
    }

    #[cold]
    fn storages_of_child(&self) -> &[MetricStorage] {
        let storages = self.storages.get_or_renew(|| new_storages(&self.descriptor, &self.shared));
        // A child that only measures must start its exporters as well, unless none of them sends metrics.
        if !storages.is_empty() {
            self.shared.start_in_child.get().into_iter().for_each(|start| start());
        }
        storages
    }
}

#[inline(never)]
fn update_all(storages: &[MetricStorage], bits: u64, pairs: &[Pair<'_>]) {
    storages.iter().for_each(|storage| storage.update(pairs, bits));
}

fn new_storages(descriptor: &Descriptor, shared: &MeterShared) -> Box<[MetricStorage]> {
    let now = unix_now();
    let storage = |reader: &PeriodicReaderSettings| {
        let temporality = descriptor.temporality(reader.temporality, false);
        let aggregation = descriptor.aggregation(reader.histograms);
        MetricStorage::new(Table::new(aggregation, descriptor.limit, shared.seed), temporality, now)
    };
    shared.readers.iter().map(storage).collect()
}
