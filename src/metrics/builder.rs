//! [`InstrumentBuilder`]: configures an instrument (unit, description, buckets, limits, callback) and creates it.

use std::sync::Arc;

use super::aggregator::AggregationKind;
use super::handles::{Counter, Gauge, Histogram, Measure, UpDownCounter};
use super::instrument::{Descriptor, Instrument, LateMetadata, Metadata, NumberKind};
use super::observable::{Observable, Observer};
use super::stream::Keys;
use super::{Meter, Observation};
use crate::config::{InstrumentKind, KeySelection, check_bounds};
use crate::metrics::aggregation::{DEFAULT_BOUNDS, SECONDS_BOUNDS};
use crate::record::ExponentialLimits;

/// Maximum length of a name, as in the specification.
const MAX_NAME_LEN: usize = 255;

/// A builder for an instrument. From [`Meter::build`].
///
/// ```
/// # let telemetry = standpipe::Telemetry::start(standpipe::Config::new()).unwrap();
/// let meter = telemetry.meter("shop");
/// let duration = meter.build("http.server.request.duration")
///     .unit("s")
///     .description("how long requests take")
///     .bounds(&[0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0])
///     .histogram();
/// duration.record(0.032, &[("http.route", "/checkout")]);
///
/// meter.build("process.uptime").unit("s").observe_gauge(|observer| observer.observe(12.5, ()));
/// ```
#[derive(Debug)]
#[must_use = "an instrument is made by counter(), gauge(), histogram() and similar methods"]
pub struct InstrumentBuilder<'a> {
    meter: &'a Meter,
    name: &'a str,
    unit: &'a str,
    description: &'a str,
    buckets: Option<AggregationKind>,
    limit: Option<usize>,
    keys: Keys,
    late_metadata: Option<&'a LateMetadata>,
}

impl<'a> InstrumentBuilder<'a> {
    pub(super) fn new(meter: &'a Meter, name: &'a str) -> Self {
        let (buckets, limit, keys, late_metadata) = (None, None, None, None);
        Self { meter, name, unit: "", description: "", buckets, limit, keys, late_metadata }
    }

    /// Sets the unit, in the Unified Code for Units of Measure: `s`, `By`, `{order}`. A histogram in `s` has its own
    /// [default bounds](Self::histogram).
    pub fn unit(self, unit: &'a str) -> Self {
        Self { unit, ..self }
    }

    /// Reads unit and description from a cell that may be filled later, and ignores the unit and description of the
    /// builder. If the cell already has a unit, the default bounds of a histogram are those for this unit.
    #[cfg(feature = "metrics")]
    pub(crate) fn late_metadata(self, late: &'a LateMetadata) -> Self {
        Self { late_metadata: Some(late), ..self }
    }

    /// Sets the description.
    pub fn description(self, description: &'a str) -> Self {
        Self { description, ..self }
    }

    /// Sets the bucket bounds of a histogram, at most 1024 finite and increasing numbers. A bucket includes its upper
    /// bound. Invalid bounds are reported to [`Config::on_problem`](crate::Config::on_problem), and the default bounds
    /// are used instead.
    pub fn bounds(mut self, bounds: &[f64]) -> Self {
        match check_bounds(bounds) {
            Ok(()) => self.buckets = Some(AggregationKind::Explicit(bounds.into())),
            Err(error) => {
                let what =
                    format!("metric {:?}: the default bounds replace invalid ones: {error}", self.name);
                self.meter.registry.shared.report_misuse(what);
            }
        }
        self
    }

    /// Makes a histogram exponential: each bucket bound is the previous one times a constant factor, which is as small
    /// as the range of the values permits. There are at most 160 buckets for positive values and 160 for negative ones.
    pub fn exponential(self) -> Self {
        Self { buckets: Some(AggregationKind::Exponential(ExponentialLimits::DEFAULT)), ..self }
    }

    /// Sets the maximum number of attribute sets, at least 1. The default is the [limit of the
    /// exporter](crate::Exporter::cardinality_limit). Measurements beyond the limit are aggregated under the attribute
    /// `otel.metric.overflow`.
    pub fn cardinality_limit(self, max: usize) -> Self {
        Self { limit: Some(max.max(1)), ..self }
    }

    /// Exports only attributes with these keys, unless a [`View`](crate::View) chooses others. Measurements may have
    /// further attributes. A user who needs them can export them with a view, at the cost of more series.
    ///
    /// ```
    /// # let telemetry = standpipe::Telemetry::start(standpipe::Config::new()).unwrap();
    /// let requests = telemetry.meter("shop").build("requests").attributes(&["http.route"]).counter();
    /// requests.add(1, &[("http.route", "/cart"), ("user.id", "4711")]); // exported without user.id
    /// ```
    pub fn attributes(self, keys: &[&str]) -> Self {
        let kept = Some(keys.iter().map(|key| (*key).to_owned()).collect());
        Self { keys: Some(Arc::new(KeySelection { kept, removed: Vec::new() })), ..self }
    }

    fn make(self, kind: InstrumentKind, number_kind: NumberKind) -> Arc<Instrument> {
        let descriptor = self.descriptor(kind, number_kind);
        self.meter.registry.instrument(descriptor)
    }

    fn observe<N: Measure>(
        self,
        kind: InstrumentKind,
        number_kind: NumberKind,
        callback: impl Fn(&mut Observer<'_, N>) + Send + Sync + 'static,
    ) -> Observation {
        let descriptor = self.descriptor(kind, number_kind);
        let registry = &self.meter.registry;
        let observable = Arc::new(Observable::new(descriptor, &registry.shared, callback));
        registry.observe(Arc::clone(&observable));
        Observation { observable, registry: Arc::clone(registry) }
    }

    fn descriptor(&self, kind: InstrumentKind, number_kind: NumberKind) -> Descriptor {
        if !is_valid_name(self.name) {
            let advice = "use letters, digits and _ . - / after a letter, at most 255 characters";
            let what = format!("metric {:?} has an invalid name: {advice}", self.name);
            self.meter.registry.shared.report_misuse(what);
        }
        let given = || Metadata { unit: self.unit.to_owned(), description: self.description.to_owned() };
        let metadata = self.late_metadata.cloned().unwrap_or_else(|| Arc::new(given().into()));
        let unit = metadata.get().map_or("", |metadata| &metadata.unit);
        let default_bounds =
            if measures_seconds(self.name, unit) { &SECONDS_BOUNDS[..] } else { &DEFAULT_BOUNDS };
        Descriptor {
            scope: Arc::clone(&self.meter.scope),
            name: self.name.to_owned(),
            metadata,
            kind,
            number_kind,
            buckets: self.buckets.clone().filter(|_| kind == InstrumentKind::Histogram),
            default_bounds,
            limit: self.limit,
            keys: self.keys.clone(),
            streams: Box::default(),
        }
    }
}

/// Defines methods that create instruments. An entry is the method's name, the kind, the number type and `NumberKind`.
macro_rules! created {
    ($($(#[$doc:meta])* $method:ident: $kind:ident<$number:ty>, $stored:ident;)*) => {
        impl InstrumentBuilder<'_> {
            $($(#[$doc])*
            pub fn $method(self) -> $kind<$number> {
                $kind::new(self.make(InstrumentKind::$kind, NumberKind::$stored))
            })*
        }
    };
}

created! {
    /// Creates a counter: a sum that only rises.
    counter: Counter<u64>, Int;

    /// Creates a counter of floats: a sum that only rises.
    counter_f64: Counter<f64>, Float;

    /// Creates an up-down counter: a sum that rises and falls.
    up_down_counter: UpDownCounter<i64>, Int;

    /// Creates an up-down counter of floats: a sum that rises and falls.
    up_down_counter_f64: UpDownCounter<f64>, Float;

    /// Creates a gauge: a current value.
    gauge: Gauge<f64>, Float;

    /// Creates a gauge of integers.
    gauge_i64: Gauge<i64>, Int;

    /// Creates a gauge of unsigned integers.
    gauge_u64: Gauge<u64>, Int;

    /// Creates a histogram: the distribution of values.
    ///
    /// Without [`bounds`](Self::bounds), and unless it is exponential, it has OpenTelemetry's default bounds, which fit
    /// milliseconds: 0 to 10,000. A histogram of seconds has the bounds that the semantic conventions advise: 0.005 to
    /// 10. It measures seconds if its unit is `s` or `seconds`, or if it has no unit and its name ends in `.seconds` or
    /// `_seconds`.
    ///
    /// ```
    /// # #[cfg(feature = "receiver")] {
    /// use standpipe::receiver::TestTelemetry;
    ///
    /// let test = TestTelemetry::start();
    /// test.meter("shop").build("checkout.duration").unit("s").histogram().record(0.032, ());
    /// let metric = test.received().metric("checkout.duration").unwrap();
    /// assert_eq!(metric.point(()).unwrap().bounds()[..3], [0.005, 0.01, 0.025]);
    /// # }
    /// ```
    histogram: Histogram<f64>, Float;

    /// Creates a histogram of integers.
    histogram_u64: Histogram<u64>, Int;
}

/// Defines methods that register callbacks. An entry is the method's name, the kind, the number type and `NumberKind`.
macro_rules! observed {
    ($($(#[$doc:meta])* $method:ident: $kind:ident<$number:ty>, $stored:ident;)*) => {
        impl InstrumentBuilder<'_> {
            $($(#[$doc])*
            pub fn $method(
                self,
                callback: impl Fn(&mut Observer<'_, $number>) + Send + Sync + 'static,
            ) -> Observation {
                self.observe(InstrumentKind::$kind, NumberKind::$stored, callback)
            })*
        }
    };
}

observed! {
    /// Registers a counter whose total is kept elsewhere: the callback reports it.
    observe_counter: ObservableCounter<u64>, Int;

    /// Like [`observe_counter`](Self::observe_counter), for floats.
    observe_counter_f64: ObservableCounter<f64>, Float;

    /// Registers an up-down counter whose total is kept elsewhere: the callback reports it.
    observe_up_down_counter: ObservableUpDownCounter<i64>, Int;

    /// Like [`observe_up_down_counter`](Self::observe_up_down_counter), for floats.
    observe_up_down_counter_f64: ObservableUpDownCounter<f64>, Float;

    /// Registers a gauge whose value is read at each collection: the callback reports it.
    observe_gauge: ObservableGauge<f64>, Float;

    /// Like [`observe_gauge`](Self::observe_gauge), for integers.
    observe_gauge_i64: ObservableGauge<i64>, Int;

    /// Like [`observe_gauge`](Self::observe_gauge), for unsigned integers.
    observe_gauge_u64: ObservableGauge<u64>, Int;
}

fn measures_seconds(name: &str, unit: &str) -> bool {
    match unit {
        // The unit takes precedence over the name.
        "" => name.ends_with(".seconds") || name.ends_with("_seconds"),
        unit => matches!(unit, "s" | "seconds"),
    }
}

/// Returns whether a name is valid. Invalid names are sent unchanged, but collectors may refuse them.
fn is_valid_name(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-/".contains(&byte);
    name.len() <= MAX_NAME_LEN
        && name.as_bytes().first().is_some_and(u8::is_ascii_alphabetic)
        && name.bytes().all(is_part)
}
