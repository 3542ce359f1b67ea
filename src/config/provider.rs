//! Settings that all exporters of a provider share: the resource and the sampler.

use std::fmt;

use super::summary::Origins;
use super::text::{MASK, is_credential_name, shown};
use super::{Exporter, Setting, SettingSource};
use crate::config::sampler::Sampler;
use crate::record::{IntoValue, Resource, Value};

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

    /// Sets which traces are recorded. By default, a span is recorded if it has no parent or if its parent is
    /// recorded.
    pub fn sampler(mut self, sampler: Sampler) -> Self {
        self.settings.set_sampler(sampler, None, SettingSource::Code);
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
        match self {
            Self::Internal => "internal",
            Self::Application => "application",
        }
    }
}

/// The settings that all exporters of a provider share.
#[derive(Clone, Default)]
pub(crate) struct ProviderSettings {
    resource: Resource,
    pub(crate) sampler: Sampler,
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

    /// Returns whether a service name is configured, so that none has to be derived from the name of the executable.
    pub(crate) fn is_named(&self) -> bool {
        self.has_own_name() || self.default_name.as_ref().is_some_and(|name| !name.is_empty())
    }

    fn has_own_name(&self) -> bool {
        self.resource.get_str(SERVICE_NAME).is_some_and(|name| !name.is_empty())
    }

    /// Returns the resource that is sent, including defaults.
    pub(crate) fn complete_resource(&self) -> Resource {
        let mut resource = self.resource.clone();
        if let Some(name) = self.default_name.as_ref().filter(|_| !self.has_own_name()) {
            resource.set(SERVICE_NAME, Value::Str(name));
        }
        resource.with_defaults()
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

    /// Returns the service name for display: the text of the file if the name contains an expanded secret.
    pub(crate) fn shown_service_name(&self) -> String {
        if let Some(written) = self.origins.shown(SERVICE_NAME) {
            return shown(written).into_owned();
        }
        shown(self.complete_resource().get_str(SERVICE_NAME).unwrap_or_default()).into_owned()
    }

    /// Returns how many percent of the traces that begin in this process are recorded.
    pub(super) fn sampling(&self) -> f64 {
        self.sampling.unwrap_or_else(|| self.sampler.percent())
    }

    /// Returns settings with these keys: the service name, the other attributes of the resource (one setting for each
    /// origin), and the sampler.
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
