//! The implementation of an instrument behind its handles: its descriptor, and one storage per stream.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use super::aggregator::AggregationKind;
use super::handles::sealed::Pair;
use super::registry::MeterShared;
use super::storage::{BoundSeries, BoundStream, MetricStorage};
use super::stream::{Keys, Stream};
use super::table::{Series, Table};
use crate::config::InstrumentKind;
use crate::context::unix_now;
use crate::process::PerProcess;
use crate::record::{Number, Scope};

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

/// Metadata that the program may set after it has created the instrument. Set under the fork lock: a `OnceLock` that
/// another thread was setting during a fork would stay locked in the child.
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
    /// Maximum number of series, if the program has chosen one.
    pub(super) limit: Option<usize>,
    /// Attribute keys that the program has chosen.
    pub(super) keys: Keys,
    /// One or more streams per exporter of metrics. Empty if there is no such exporter, or if views drop all streams.
    pub(super) streams: Box<[Stream]>,
}

impl Descriptor {
    /// Returns the message about a value that is left out.
    pub(super) fn refusal(&self, what: &str) -> String {
        format!("metric {:?}: a {what} value is left out: {} does not accept it", self.name, self.kind_name())
    }

    /// Returns the name of the kind in messages.
    pub(super) fn kind_name(&self) -> &'static str {
        match (self.kind, self.number_kind) {
            (kind, NumberKind::Int) if kind.is_counter() => "a counter",
            (kind, NumberKind::Float) if kind.is_counter() => "a counter of floats",
            (kind, NumberKind::Int) if kind.is_gauge() => "a gauge of integers",
            (kind, NumberKind::Float) if kind.is_gauge() => "a gauge",
            (InstrumentKind::Histogram, NumberKind::Int) => "a histogram of integers",
            (InstrumentKind::Histogram, NumberKind::Float) => "a histogram",
            (_, NumberKind::Int) => "an up-down counter",
            (_, NumberKind::Float) => "an up-down counter of floats",
        }
    }

    /// Returns the unit, or an empty text if it is not set yet.
    pub(super) fn unit(&self) -> &str {
        self.metadata.get().map_or("", |metadata| &metadata.unit)
    }
}

/// An instrument that the program measures with.
pub(super) struct Instrument {
    pub(super) descriptor: Descriptor,
    pub(super) shared: Arc<MeterShared>,
    /// True once a value was left out. Only the first such value is reported.
    pub(super) has_refused: AtomicBool,
    /// One storage per stream. A forked child has new storages: the parent sends measurements from before the fork.
    storages: PerProcess<Box<[MetricStorage]>>,
    /// Series of the measurements without attributes. Only set if there is one stream, and the stream never removes
    /// series.
    bare: OnceLock<Arc<Series>>,
}

impl Instrument {
    pub(super) fn new(mut descriptor: Descriptor, shared: Arc<MeterShared>) -> Self {
        descriptor.streams = Stream::resolve(&descriptor, &shared);
        let storages = PerProcess::new(new_storages(&descriptor, &shared));
        Self { descriptor, shared, has_refused: AtomicBool::new(false), storages, bare: OnceLock::new() }
    }

    /// Aggregates a measurement, given as the bits of its number.
    pub(super) fn update(&self, bits: u64, pairs: &[Pair<'_>]) {
        let storages = self.storages();
        // Fast path: most programs have one exporter of metrics and no views.
        let [storage] = storages else { return update_all(storages, bits, pairs) };
        storage.update(pairs, bits);
    }

    /// Like [`update`](Self::update), compiled for each number of pairs, without loops over the pairs. With three
    /// attributes, this saves 65 instructions.
    #[inline(never)]
    pub(super) fn update_few<const N: usize>(&self, bits: u64, pairs: &[Pair<'_>; N]) {
        let series = match self.storages.original().map(|storages| &**storages) {
            Some([storage]) => storage.find_few(pairs),
            _ => None,
        };
        match series {
            Some(series) => series.update(bits),
            None => self.update(bits, pairs),
        }
    }

    /// Aggregates a measurement without attributes.
    pub(super) fn update_bare(&self, bits: u64) {
        match self.bare.get().filter(|_| self.storages.original().is_some()) {
            Some(series) => series.update(bits),
            None => self.update_any_bare(bits),
        }
    }

    /// Like [`update_bare`](Self::update_bare), for the first measurement, for several streams or for a forked child.
    #[inline(never)]
    fn update_any_bare(&self, bits: u64) {
        self.update(bits, &[]);
        if let Some([storage]) = self.storages.original().map(|storages| &**storages) {
            storage.bare().into_iter().for_each(|series| _ = self.bare.set(Arc::clone(series)));
        }
    }

    /// Binds the series of these attributes, one per stream.
    pub(super) fn bind(&self, pairs: &[Pair<'_>]) -> BoundSeries {
        BoundSeries(self.storages().iter().map(|storage| storage.bind(pairs)).collect())
    }

    /// Replaces the bound series of the parent in a forked child: binds the child's series of the same attributes.
    pub(super) fn bind_in_child(&self, inherited: &BoundSeries) -> BoundSeries {
        let bound = |(storage, of_parent): (&MetricStorage, &BoundStream)| BoundStream {
            series: storage.bind_set(of_parent.series.attributes.clone()),
            removed: of_parent.removed.clone(),
        };
        BoundSeries(self.storages().iter().zip(&inherited.0).map(bound).collect())
    }

    /// Returns the storages of this process, in the order of the streams.
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
        // A child that only measures starts its exporters here. Without storages, no exporter sends this metric.
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
    let storage = |stream: &Stream| {
        let table = Table::new((stream.aggregation.clone(), shared.exemplars), stream.limit, shared.seed);
        MetricStorage::new(table, stream.temporality, stream.keys.clone(), now)
    };
    descriptor.streams.iter().map(storage).collect()
}
