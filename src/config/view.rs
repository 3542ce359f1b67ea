//! [`View`]: which instruments it selects, and how the measurements of these instruments are exported.

use std::sync::Arc;

use super::error::Fault;
use super::values::InstrumentKind;
use super::{Diagnostic, SettingSource};
use crate::record::ExponentialLimits;

/// Maximum number of bounds, and of exponential buckets of each sign. It limits the size of a data point.
const MAX_BUCKETS: usize = 1024;
/// Key of the overflow series, which no view removes.
pub(crate) const OVERFLOW: &str = "otel.metric.overflow";

/// Changes how measurements of selected instruments are exported: the name, the attributes, the aggregation, or whether
/// they are exported at all. Pass it to [`Config::view`](crate::Config::view).
///
/// A view selects the instruments that meet all its conditions: [name](Self::new), [kind](Self::kind),
/// [unit](Self::unit) and [meter](Self::meter). The other methods describe the exported metric. If several views select
/// an instrument, each of them exports a metric. An instrument that no view selects is exported unchanged.
///
/// A view takes precedence over the bounds, attributes and limits of the instrument's builder. The methods check
/// nothing: `Telemetry::start` reports invalid views.
///
/// ```
/// use standpipe::config::InstrumentKind;
/// use standpipe::{Config, View};
///
/// let config = Config::new()
///     .view(View::new("http.server.*").kind(InstrumentKind::Histogram).keep(["http.route"]).bounds(&[0.1, 1.0]))
///     .view(View::new("orders").rename("shop.orders").remove(["customer.id"]).limit(500))
///     .view(View::new("debug.*").drop());
/// # let _ = config;
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
#[must_use]
pub struct View {
    /// Conditions; `None` selects all instruments.
    pub(super) pattern: Option<String>,
    pub(super) kind: Option<InstrumentKind>,
    pub(super) unit: Option<String>,
    pub(super) meter: Option<String>,
    pub(super) meter_version: Option<String>,
    pub(super) meter_schema_url: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) keys: Option<Arc<KeySelection>>,
    pub(crate) aggregation: ViewAggregation,
    /// True if histograms omit their minimum and maximum.
    pub(crate) omits_min_max: bool,
    pub(crate) limit: Option<usize>,
    pub(super) source: SettingSource,
}

/// The aggregation of a [`View`].
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) enum ViewAggregation {
    /// The aggregation of the instrument.
    #[default]
    Default,
    Drop,
    Sum,
    LastValue,
    /// A histogram with these bounds; `None` for the default bounds.
    Explicit(Option<Arc<[f64]>>),
    Exponential(ExponentialLimits),
}

/// Attribute keys of a [`View`], which may contain wildcards.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct KeySelection {
    /// Keys that are kept; `None` keeps all.
    pub(crate) kept: Option<Vec<String>>,
    /// Keys that are removed, even if they are also listed as kept.
    pub(crate) removed: Vec<String>,
}

impl KeySelection {
    pub(crate) fn keeps(&self, key: &str) -> bool {
        let has = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern, key));
        key == OVERFLOW || self.kept.as_deref().is_none_or(has) && !has(&self.removed)
    }
}

impl View {
    /// Returns a view that selects the instruments with this name, and exports them unchanged until other methods are
    /// called. In the name, `*` stands for any characters and `?` for one; case is ignored. `*` selects all
    /// instruments.
    pub fn new(name: &str) -> Self {
        Self { pattern: Some(name.to_owned()), source: SettingSource::Code, ..Self::default() }
    }

    /// Keeps only attributes with these keys. Measurements whose remaining attributes are equal are aggregated
    /// together. Keys may contain the wildcards `*` and `?`.
    pub fn keep<K: Into<String>>(mut self, keys: impl IntoIterator<Item = K>) -> Self {
        self.keys().kept = Some(keys.into_iter().map(Into::into).collect());
        self
    }

    /// Removes attributes with these keys, which may contain the wildcards `*` and `?`.
    pub fn remove<K: Into<String>>(mut self, keys: impl IntoIterator<Item = K>) -> Self {
        self.keys().removed = keys.into_iter().map(Into::into).collect();
        self
    }

    pub(super) fn keys(&mut self) -> &mut KeySelection {
        Arc::make_mut(self.keys.get_or_insert_default())
    }

    /// Returns whether the view selects an instrument. `meter` is the name, the version and the schema URL of its
    /// meter.
    pub(crate) fn selects(&self, name: &str, kind: InstrumentKind, unit: &str, meter: [&str; 3]) -> bool {
        let wanted = [&self.unit, &self.meter, &self.meter_version, &self.meter_schema_url];
        let is = |(wanted, text): (&Option<String>, &str)| wanted.as_deref().is_none_or(|it| it == text);
        self.kind.is_none_or(|wanted| wanted == kind)
            && wanted.into_iter().zip([unit, meter[0], meter[1], meter[2]]).all(is)
            && matches(&self.shown_pattern().to_ascii_lowercase(), &name.to_ascii_lowercase())
    }

    pub(super) fn shown_pattern(&self) -> &str {
        self.pattern.as_deref().unwrap_or("*")
    }

    /// Returns the faults of the view, each with the key that is wrong. In files, the key is in the table `stream`.
    pub(super) fn faults(&self) -> impl Iterator<Item = (&'static str, Fault)> {
        let (mut bounds, mut limits) = (Ok(()), ExponentialLimits::DEFAULT);
        match &self.aggregation {
            ViewAggregation::Explicit(Some(given)) => bounds = check_bounds(given),
            ViewAggregation::Exponential(given) => limits = *given,
            _ => {}
        }
        let ExponentialLimits { buckets, scale } = limits;
        let is_coarse = !(2..=MAX_BUCKETS as i32).contains(&buckets) || !(-10..=20).contains(&scale);
        let coarse = format!("{buckets} buckets with the scale {scale} are out of range");
        let clash = "all selected instruments would have the same name".to_owned();
        let is_clash = self.name.is_some() && self.shown_pattern().contains(['*', '?']);
        let is_nameless = self.name.as_deref() == Some("");
        let faults = [
            (is_clash, "name", clash, "select one instrument by its full name"),
            (is_nameless, "name", "is empty".to_owned(), "write a name"),
            (self.limit == Some(0), "aggregation_cardinality_limit", "is 0".to_owned(), "write 1 or more"),
            (bounds.is_err(), "aggregation", bounds.err().unwrap_or_default(), "write ascending numbers"),
            (is_coarse, "aggregation", coarse, "write 2 to 1024 buckets and a scale of -10 to 20"),
        ];
        let found = faults.into_iter().filter(|(is_fault, ..)| *is_fault);
        found.map(|(_, part, what, fix)| (part, Fault::new(what, fix)))
    }

    /// Returns the faults of a view that was made in code.
    pub(super) fn diagnostics(&self) -> impl Iterator<Item = Diagnostic> {
        let path = format!("view {:?}", self.shown_pattern());
        self.faults().map(move |(_, fault)| fault.error(None, path.clone()))
    }
}

/// Defines methods of the builder that set one field.
macro_rules! setters {
    ($($(#[$doc:meta])* $method:ident($($value:ident: $type:ty),*) sets $field:ident to $to:expr;)*) => {
        impl View {
            $($(#[$doc])*
            pub fn $method(self, $($value: $type),*) -> Self {
                Self { $field: $to, ..self }
            })*
        }
    };
}

setters! {
    /// Selects only instruments of this kind.
    kind(kind: InstrumentKind) sets kind to Some(kind);
    /// Selects only instruments with this unit.
    unit(unit: &str) sets unit to Some(unit.to_owned());
    /// Selects only instruments of meters with this name.
    meter(name: &str) sets meter to Some(name.to_owned());
    /// Selects only instruments of meters with this version.
    meter_version(version: &str) sets meter_version to Some(version.to_owned());
    /// Selects only instruments of meters with this schema URL.
    meter_schema_url(url: &str) sets meter_schema_url to Some(url.to_owned());
    /// Exports the metric under this name. The view must select one instrument by its full name.
    rename(name: &str) sets name to Some(name.to_owned());
    /// Replaces the description.
    description(description: &str) sets description to Some(description.to_owned());
    /// Exports nothing. If no other view selects the instrument, its measurements have no effect and its `enabled`
    /// returns false.
    drop() sets aggregation to ViewAggregation::Drop;
    /// Exports the sum of the measurements. Not for gauges.
    sum() sets aggregation to ViewAggregation::Sum;
    /// Exports the last value.
    last_value() sets aggregation to ViewAggregation::LastValue;
    /// Exports a histogram with these bounds, at most 1024 finite and increasing numbers. Not for instruments with a
    /// callback.
    bounds(bounds: &[f64]) sets aggregation to ViewAggregation::Explicit(Some(bounds.into()));
    /// Exports an exponential histogram. `max_buckets` (2 to 1024) limits the buckets for positive values, and
    /// separately those for negative values. `max_scale` (-10 to 20) limits the scale. OpenTelemetry's defaults are 160
    /// and 20. Not for instruments with a callback.
    exponential(max_buckets: u16, max_scale: i32) sets aggregation to
        ViewAggregation::Exponential(ExponentialLimits { buckets: max_buckets.into(), scale: max_scale });
    /// Omits the minimum and the maximum of histograms.
    without_min_max() sets omits_min_max to true;
    /// Sets the maximum number of attribute sets, at least 1. Measurements with further sets are aggregated under the
    /// attribute `otel.metric.overflow`.
    limit(max: usize) sets limit to Some(max);
}

/// Returns whether a text matches a pattern, in which `*` stands for any characters and `?` for one. The time is at
/// most proportional to the product of both lengths.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let (mut pattern, mut text) = (pattern.chars(), text.chars());
    // Where to continue after a mismatch: the pattern after the last `*`, and the text that this `*` does not cover
    // yet. Each retry lets the `*` cover one more character; an earlier `*` never has to be reconsidered.
    let mut retry = None;
    loop {
        let (here, wanted) = (text.clone(), pattern.next());
        match (wanted, text.next()) {
            (Some('*'), _) => (retry, text) = (Some((pattern.clone(), here.clone())), here),
            (Some('?'), Some(_)) => {}
            (None, None) => return true,
            (Some(wanted), Some(found)) if wanted == found => {}
            _ => {
                let Some((after, begin)) = &mut retry else { return false };
                if begin.next().is_none() {
                    return false;
                }
                (pattern, text) = (after.clone(), begin.clone());
            }
        }
    }
}

/// Checks the bounds of a histogram.
///
/// # Errors
/// Returns the reason if there are too many bounds, one is not finite, or they do not rise.
pub(crate) fn check_bounds(bounds: &[f64]) -> Result<(), String> {
    if bounds.len() > MAX_BUCKETS {
        return Err(format!("{} bounds exceed the maximum of {MAX_BUCKETS}", bounds.len()));
    }
    if let Some(bound) = bounds.iter().find(|bound| !bound.is_finite()) {
        return Err(format!("a bound must be a finite number, not {bound}"));
    }
    let falling = bounds.windows(2).find(|pair| pair[0] >= pair[1]);
    let what = falling.map(|pair| format!("bounds must rise: {} is followed by {}", pair[0], pair[1]));
    what.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_any_characters_by_a_star_and_one_by_a_question_mark() {
        for (pattern, text) in [
            ("*", ""),
            ("*", "a.b"),
            ("a", "a"),
            ("a*", "a"),
            ("a*b*c", "a.b.b.c"),
            ("*.b", "a.b.b"),
            ("?", "é"),
            ("a?c*", "abc.d"),
            ("**a", "ba"),
            ("", ""),
        ] {
            assert!(matches(pattern, text), "{pattern:?} {text:?}");
        }
        for (pattern, text) in [
            ("", "a"),
            ("a", ""),
            ("a", "ab"),
            ("?", ""),
            ("a*b", "a.c"),
            ("a*b*c", "a.c.b"),
            ("*.b", "a.bc"),
        ] {
            assert!(!matches(pattern, text), "{pattern:?} {text:?}");
        }
    }

    #[test]
    fn a_view_selects_instruments_that_meet_all_its_conditions() {
        let view =
            View::new("HTTP.*").kind(InstrumentKind::Histogram).unit("s").meter("shop").meter_version("1");
        let selects = |name, kind, unit, meter| view.selects(name, kind, unit, meter);
        let (kind, meter) = (InstrumentKind::Histogram, ["shop", "1", ""]);
        assert!(selects("http.Duration", kind, "s", meter));
        assert!(!selects("db.duration", kind, "s", meter));
        assert!(!selects("http.duration", InstrumentKind::Counter, "s", meter));
        assert!(!selects("http.duration", kind, "ms", meter));
        assert!(!selects("http.duration", kind, "s", ["shop", "2", ""]));
        assert!(!selects("http.duration", kind, "s", ["bank", "1", ""]));
        let of_schema = View::default().meter_schema_url("https://example.com/1");
        assert!(!of_schema.selects("x", kind, "", meter));
        assert!(of_schema.selects("x", kind, "", ["shop", "1", "https://example.com/1"]));
    }
}
