//! Settings that all exporters of a provider share: the resource and the sampler, which decides which traces are
//! recorded. Plain data; `trace/sampler.rs` makes the decisions.

use std::fmt;
use std::sync::Arc;

use super::node::Node;
use super::summary::{Origins, SmallMap};
use super::text::{MASK, is_credential_name, shown};
use super::values::Named;
use super::{Exporter, Setting, SettingSource, View, demand};
use crate::record::{IntoValue, Resource, SpanKind, Value};

pub(super) const SERVICE_NAME: &str = "service.name";

/// The second provider of a program that runs an application: it keeps the application's telemetry separate from the
/// program's own.
///
/// It has its own resource, sampler, exporters and queues. Pass it to
/// [`Config::application`](crate::Config::application). In files, `server.telemetry.applicationExporter` selects its
/// exporter.
///
/// ```
/// use standpipe::{Application, Config, Exporter, Sampler};
///
/// let application = Application::new()
///     .service_name("shop")
///     .sampler(Sampler::trace_id_ratio(0.1))
///     .exporter(Exporter::http("http://localhost:4318"));
/// let config = Config::new().service_name("runner").application(application);
/// # let _ = config;
/// ```
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct Application {
    pub(super) settings: ProviderSettings,
    pub(super) exporters: Vec<Exporter>,
}

impl Application {
    /// Returns a provider without exporters.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the resource attribute `service.name`.
    pub fn service_name(self, name: &str) -> Self {
        self.resource(SERVICE_NAME, name)
    }

    /// Sets a resource attribute, which describes the application and is sent with every request. A second value for
    /// the same key replaces the first.
    pub fn resource(mut self, key: &str, value: impl IntoValue) -> Self {
        value.with_value(|value| self.settings.set_resource(key, value, None, SettingSource::Code));
        self
    }

    /// Sets the URL of the schema to which the names of the resource attributes conform.
    pub fn schema_url(mut self, url: &str) -> Self {
        self.settings.set_schema_url(url);
        self
    }

    /// Sets which traces are recorded. By default, a span is recorded if it has no parent or if its parent is
    /// recorded.
    pub fn sampler(mut self, sampler: Sampler) -> Self {
        self.settings.set_sampler(sampler, None, SettingSource::Code);
        self
    }

    /// Adds a view, which changes how measurements of the instruments that it selects are exported.
    pub fn view(mut self, view: View) -> Self {
        demand::VIEWS.raise();
        self.settings.views.push(view);
        self
    }

    /// Adds an exporter. Its name must be distinct within the provider.
    pub fn exporter(mut self, exporter: Exporter) -> Self {
        self.exporters.push(exporter);
        self
    }
}

/// One of the two providers of a program: see [`Exporter::provider`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ProviderName {
    /// The program's own telemetry.
    Internal,
    /// The telemetry of the application that the program runs:
    /// [`Telemetry::application`](crate::Telemetry::application).
    Application,
}

impl ProviderName {
    /// Returns `internal` or `application`.
    pub fn name(self) -> &'static str {
        Named::name(self)
    }
}

/// The settings that all exporters of a provider share.
#[derive(Clone, Default)]
pub(crate) struct ProviderSettings {
    pub(super) resource: Resource,
    /// Attributes and views as a file spells them.
    #[cfg_attr(not(feature = "yaml"), allow(dead_code, reason = "only the writer of YAML reads them"))]
    pub(super) attribute_nodes: SmallMap<String, Node>,
    #[cfg_attr(not(feature = "yaml"), allow(dead_code, reason = "only the writer of YAML reads them"))]
    pub(super) view_nodes: Vec<Node>,
    pub(crate) sampler: Sampler,
    pub(crate) views: Vec<View>,
    /// Percentage of traces, if the sampler was set as a percentage.
    sampling: Option<f64>,
    /// Service name that is used if code, file and environment set none.
    pub(super) default_name: Option<String>,
    /// Origin of each attribute of the resource.
    origins: Origins<String>,
    pub(super) sampler_source: SettingSource,
}

impl ProviderSettings {
    /// Sets an attribute; `written` is the text to show if the value contains an expanded secret.
    pub(super) fn set_resource(
        &mut self,
        key: &str,
        value: Value<'_>,
        written: Option<&str>,
        source: SettingSource,
    ) {
        self.resource.set(key, value);
        self.origins.insert(key.to_owned(), (source, written.map(str::to_owned)));
    }

    /// Sets an attribute unless it is already set.
    pub(super) fn fill_resource(&mut self, key: &str, value: &str, source: SettingSource) {
        if self.resource_source(key) == SettingSource::Default {
            self.set_resource(key, Value::Str(value), None, source);
        }
    }

    pub(super) fn set_schema_url(&mut self, url: &str) {
        url.clone_into(&mut self.resource.schema_url);
    }

    /// Returns whether a service name is configured, so that none has to be derived from the name of the executable.
    pub(crate) fn is_named(&self) -> bool {
        self.has_own_name() || self.default_name.as_ref().is_some_and(|name| !name.is_empty())
    }

    fn has_own_name(&self) -> bool {
        self.resource.get_str(SERVICE_NAME).is_some_and(|name| !name.is_empty())
    }

    /// Returns the configured resource. If it has no service name, adds the fallback that code has set, if any.
    pub(crate) fn named_resource(&self) -> Resource {
        let mut resource = self.resource.clone();
        if let Some(name) = self.default_name.as_ref().filter(|_| !self.has_own_name()) {
            resource.set(SERVICE_NAME, Value::Str(name));
        }
        resource
    }

    /// Sets the sampler; `sampling` is the percentage of traces if the sampler was given as a percentage, and `None`
    /// otherwise.
    pub(super) fn set_sampler(&mut self, sampler: Sampler, sampling: Option<f64>, source: SettingSource) {
        self.sampler = sampler;
        self.sampling = sampling;
        self.sampler_source = source;
    }

    pub(super) fn resource_source(&self, key: &str) -> SettingSource {
        self.origins.source(key)
    }

    /// Returns the service name for display. A name with an expanded secret is returned as the file spells it.
    pub(crate) fn shown_service_name(&self) -> String {
        if let Some(written) = self.origins.shown(SERVICE_NAME) {
            return shown(written).into_owned();
        }
        shown(self.named_resource().with_defaults().get_str(SERVICE_NAME).unwrap_or_default()).into_owned()
    }

    /// Returns how many percent of the traces that begin in this process are recorded.
    pub(super) fn sampling(&self) -> f64 {
        self.sampling.unwrap_or_else(|| self.sampler.percent())
    }

    /// Returns settings with the given keys: the service name, the other attributes of the resource, and the sampler.
    /// Attributes of the same origin form one setting.
    pub(super) fn effective(&self, [name, resource, sampler]: [&'static str; 3]) -> Vec<Setting> {
        let has_default = self.default_name.is_some() && !self.has_own_name();
        // The fallback name can only be set in code.
        let source = if has_default { SettingSource::Code } else { self.resource_source(SERVICE_NAME) };
        let mut settings = vec![Setting::new(name, &self.shown_service_name(), source)];
        let mut others: Vec<(SettingSource, Vec<String>)> = Vec::new();
        for (key, value) in self.resource.shown().filter(|(key, _)| *key != SERVICE_NAME) {
            let value = self.origins.shown(key).unwrap_or(&value);
            let value = if is_credential_name(key) { MASK.into() } else { shown(value) };
            let (source, attribute) = (self.resource_source(key), format!("{}={value}", shown(key)));
            match others.iter_mut().find(|(known, _)| *known == source) {
                Some((_, attributes)) => attributes.push(attribute),
                None => others.push((source, vec![attribute])),
            }
        }
        let of_source =
            |(source, attributes): (_, Vec<String>)| Setting::new(resource, &attributes.join(", "), source);
        settings.extend(others.into_iter().map(of_source));
        settings.push(Setting::new(sampler, &self.sampler.to_string(), self.sampler_source.clone()));
        settings
    }
}

/// Shows the [effective](ProviderSettings::effective) settings, which contain no secret.
impl fmt::Debug for ProviderSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("ProviderSettings");
        for setting in self.effective(["service-name", "resource", "sampler"]) {
            shown.field(setting.key, &format_args!("{}", setting.value));
        }
        shown.finish()
    }
}

/// Decides which traces are recorded. Set by [`Config::sampler`](crate::Config::sampler). By default, a span is
/// recorded if its parent is recorded or if it has no parent.
///
/// A span that is not recorded is neither sent nor counted. It still propagates its context, which tells other threads
/// and processes that the trace is not recorded.
///
/// ```
/// use standpipe::{Config, Sampler};
///
/// let one_in_four = Sampler::trace_id_ratio(0.25).parent_based();
/// assert_eq!(one_in_four.to_string(), "parentbased_traceidratio{0.25}");
/// assert_eq!(Sampler::default().to_string(), "parentbased_always_on");
/// let config = Config::new().sampler(one_in_four);
/// # let _ = config;
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Sampler(pub(crate) SamplerKind);

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum SamplerKind {
    AlwaysOn,
    AlwaysOff,
    /// From 0 to 1.
    TraceIdRatio(f64),
    /// The inner sampler decides about spans without a parent.
    ParentBased(Box<SamplerKind>),
    AlwaysRecord(Box<SamplerKind>),
    Composite(Arc<ComposableSampler>),
}

impl Sampler {
    /// Records every span.
    pub const fn always_on() -> Self {
        Self(SamplerKind::AlwaysOn)
    }

    /// Records no span.
    pub const fn always_off() -> Self {
        Self(SamplerKind::AlwaysOff)
    }

    /// Records this share of all traces: 0.01 is one in a hundred. A ratio of 1 or more records all traces; 0, a
    /// negative ratio and NaN record none.
    ///
    /// The decision depends only on the trace id, by the same formula as in OpenTelemetry's SDK for Go, so all programs
    /// with the same ratio record the same traces. [`probability`](Self::probability) uses another formula: use one of
    /// the two in all programs of a system.
    pub fn trace_id_ratio(ratio: f64) -> Self {
        Self(SamplerKind::TraceIdRatio(share(ratio)))
    }

    /// Records this share of all traces, like [`trace_id_ratio`](Self::trace_id_ratio), and writes the threshold of the
    /// decision to the `tracestate` (`ot=th:c` for one in four). Collectors read it to extrapolate. Other programs read
    /// it to decide consistently: a program with a larger share records all traces that a program with a smaller share
    /// records. The parent's decision is ignored; [`ComposableSampler::ParentThreshold`] follows it.
    pub fn probability(ratio: f64) -> Self {
        Self::composite(ComposableSampler::Probability(ratio))
    }

    /// Records the spans that a tree of samplers selects. The decisions are consistent with those of other programs
    /// that use thresholds.
    pub fn composite(sampler: ComposableSampler) -> Self {
        Self(SamplerKind::Composite(Arc::new(sampler)))
    }

    /// Returns a sampler that records a span if its parent is recorded, in this process or another. `self` decides
    /// about spans without a parent. The threshold of the parent's decision is propagated, unless it contradicts the
    /// parent's sampled flag.
    #[must_use]
    pub fn parent_based(self) -> Self {
        match self.0 {
            SamplerKind::ParentBased(_) => self,
            root => Self(SamplerKind::ParentBased(Box::new(root))),
        }
    }

    /// Returns a sampler that records every span, even those that `self` does not sample. If a span is recorded but not
    /// sampled, its [`Span::is_recording`] is true and its sampled flag is off. It is neither sent nor in the ledger.
    ///
    /// [`Span::is_recording`]: crate::Span::is_recording
    #[must_use]
    pub fn always_record(self) -> Self {
        Self(SamplerKind::AlwaysRecord(Box::new(self.0)))
    }

    /// Returns the percentage of recorded traces among those that begin in this process. For composite samplers other
    /// than a probability, returns the upper bound 100.
    pub(crate) fn percent(&self) -> f64 {
        self.0.share() * 100.0
    }
}

impl SamplerKind {
    fn share(&self) -> f64 {
        match self {
            Self::AlwaysOff => 0.0,
            Self::TraceIdRatio(ratio) => *ratio,
            Self::ParentBased(inner) | Self::AlwaysRecord(inner) => inner.share(),
            Self::AlwaysOn => 1.0,
            Self::Composite(sampler) => match **sampler {
                ComposableSampler::Probability(ratio) => share(ratio),
                _ => 1.0,
            },
        }
    }
}

impl Default for Sampler {
    fn default() -> Self {
        Self::always_on().parent_based()
    }
}

/// Writes OpenTelemetry's name of the sampler, followed by the ratio.
impl fmt::Display for Sampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for SamplerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AlwaysOn => f.write_str("always_on"),
            Self::AlwaysOff => f.write_str("always_off"),
            Self::TraceIdRatio(ratio) => write!(f, "traceidratio{{{ratio}}}"),
            Self::ParentBased(root) => write!(f, "parentbased_{root}"),
            Self::AlwaysRecord(inner) => write!(f, "always_record{{{inner}}}"),
            Self::Composite(sampler) => write!(f, "composite{{{sampler:?}}}"),
        }
    }
}

/// A part of a [composite](Sampler::composite) sampler.
///
/// ```
/// use standpipe::config::{ComposableSampler, SamplingRule};
/// use standpipe::{Sampler, SpanKind};
///
/// let health = SamplingRule {
///     names: vec!["GET /health*".to_owned()],
///     sampler: ComposableSampler::AlwaysOff,
///     ..SamplingRule::default()
/// };
/// let servers = SamplingRule {
///     kinds: vec![SpanKind::Server],
///     sampler: ComposableSampler::RateLimited(10.0),
///     ..SamplingRule::default()
/// };
/// let root = ComposableSampler::RuleBased(vec![health, servers]);
/// let sampler = Sampler::composite(ComposableSampler::ParentThreshold(Box::new(root)));
/// # let _ = sampler;
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub enum ComposableSampler {
    /// Samples every span.
    #[default]
    AlwaysOn,
    /// Samples no span.
    AlwaysOff,
    /// Samples this share of all traces, from 0 to 1.
    Probability(f64),
    /// Samples at most about this number of spans per second. The sampled share adapts to the rate of the last second.
    RateLimited(f64),
    /// Decides by the threshold of the span's parent. Without a threshold, samples the span if its parent is sampled.
    /// The inner sampler decides about spans without a parent.
    ParentThreshold(Box<ComposableSampler>),
    /// The first rule that matches a span decides. A span that no rule matches is not sampled.
    RuleBased(Vec<SamplingRule>),
}

/// A rule of a [`RuleBased`](ComposableSampler::RuleBased) sampler. It matches spans that meet all its conditions; an
/// empty condition is always met. In patterns, `*` stands for any characters and `?` for one.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SamplingRule {
    /// Patterns for the name of the span. At least one must match.
    pub names: Vec<String>,
    /// Kinds of span.
    pub kinds: Vec<SpanKind>,
    /// Origins of the span's parent.
    pub parents: Vec<ParentOrigin>,
    /// Conditions on attributes, which must all be met.
    pub attributes: Vec<AttributeCondition>,
    /// The sampler that decides about spans that match.
    pub sampler: ComposableSampler,
}

/// A condition of a [`SamplingRule`] on an attribute that [`SpanBuilder::set`](crate::SpanBuilder::set) has set. The
/// sampler does not see attributes that are set after the start of the span. Numbers and booleans are compared as text,
/// and at least one element of an array must meet the condition. Spans without the attribute do not meet the condition.
/// Values of the program's own types are compared only if they implement [`IntoValue::peek`](crate::IntoValue::peek).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AttributeCondition {
    /// The key of the attribute.
    pub key: String,
    /// Values that meet the condition. If `values` and `included` are empty, all values meet it except `excluded` ones.
    pub values: Vec<String>,
    /// Patterns of values that meet the condition.
    pub included: Vec<String>,
    /// Patterns that must not match the value.
    pub excluded: Vec<String>,
}

/// Where the parent of a span comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ParentOrigin {
    /// The span has no parent.
    #[default]
    None,
    /// The parent is a span of this process.
    Local,
    /// The parent is a span of another process.
    Remote,
}

impl ParentOrigin {
    /// `parent_is_remote` is `None` for a span without a parent.
    pub(crate) fn of(parent_is_remote: Option<bool>) -> Self {
        parent_is_remote.map_or(Self::None, |is_remote| if is_remote { Self::Remote } else { Self::Local })
    }
}

/// Returns a ratio between 0 and 1. NaN becomes 0.
fn share(ratio: f64) -> f64 {
    // The comparison is false for NaN.
    if ratio > 0.0 { ratio.min(1.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samplers_go_by_their_usual_names() {
        for (sampler, name, percent) in [
            (Sampler::always_on(), "always_on", 100.0),
            (Sampler::always_off(), "always_off", 0.0),
            (Sampler::trace_id_ratio(0.25), "traceidratio{0.25}", 25.0),
            (Sampler::trace_id_ratio(f64::NAN), "traceidratio{0}", 0.0),
            (Sampler::trace_id_ratio(2.0).parent_based(), "parentbased_traceidratio{1}", 100.0),
            (Sampler::always_off().parent_based().parent_based(), "parentbased_always_off", 0.0),
            (Sampler::default(), "parentbased_always_on", 100.0),
            (Sampler::always_off().always_record(), "always_record{always_off}", 0.0),
            (Sampler::probability(0.5), "composite{Probability(0.5)}", 50.0),
            (Sampler::probability(f64::NAN), "composite{Probability(NaN)}", 0.0),
        ] {
            assert_eq!((sampler.to_string().as_str(), sampler.percent()), (name, percent));
        }
    }
}
