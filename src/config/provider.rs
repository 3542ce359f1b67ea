//! Settings that all exporters of a provider share: its resource and its sampler.

use std::fmt;

use super::summary::Origins;
use super::text::{MASK, is_credential_name, shown};
use super::{Exporter, Setting, SettingSource};
use crate::config::sampler::Sampler;
use crate::record::{IntoValue, Resource, Value};

pub(super) const SERVICE_NAME: &str = "service.name";

/// The second provider of a program: telemetry of the application it runs, apart from its own.
///
/// It has its own resource, sampler, exporters and queues. Handed to
/// [`Config::application`](crate::Config::application); files describe it as `server.telemetry.applicationExporter`.
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
    /// A provider that exports nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the resource attribute `service.name`.
    pub fn service_name(self, name: &str) -> Self {
        self.resource(SERVICE_NAME, name)
    }

    /// Sets an attribute of the application, sent with every request; of a key set twice the last value counts.
    pub fn resource(mut self, key: &str, value: impl IntoValue) -> Self {
        value.with_value(|value| self.settings.set_resource(key, value, SettingSource::Code));
        self
    }

    /// Sets which traces are recorded; by default those that the parent's process records, and all that begin here.
    pub fn sampler(mut self, sampler: Sampler) -> Self {
        self.settings.set_sampler(sampler, None, SettingSource::Code);
        self
    }

    /// Adds an exporter; names need only differ within the provider.
    pub fn exporter(mut self, exporter: Exporter) -> Self {
        self.exporters.push(exporter);
        self
    }
}

/// One of the ways out of a program that has two: see [`Exporter::provider`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ProviderName {
    /// The program's own telemetry.
    Internal,
    /// That of the application it runs: [`Telemetry::application`](crate::Telemetry::application).
    Application,
}

impl ProviderName {
    /// `internal` or `application`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Internal => "internal",
            Self::Application => "application",
        }
    }
}

/// The settings of a provider: what all of its exporters share.
#[derive(Clone, Default)]
pub(crate) struct ProviderSettings {
    resource: Resource,
    pub(crate) sampler: Sampler,
    /// The share of traces in percent as it was given, if it was given so.
    sampling: Option<f64>,
    /// The name of the service if no other is set, in code, in a file or in the environment.
    pub(super) default_name: Option<String>,
    /// How each attribute of the resource got its value.
    origins: Origins<String>,
    pub(super) sampler_source: SettingSource,
}

impl ProviderSettings {
    pub(super) fn set_resource(&mut self, key: &str, value: Value<'_>, source: SettingSource) {
        self.resource.set(key, value);
        self.origins.insert(key.to_owned(), (source, None));
    }

    /// For an attribute that is set, with something in it that is not to be shown: `written` is.
    pub(super) fn show_as_written(&mut self, key: &str, written: &str) {
        let source = self.resource_source(key);
        self.origins.insert(key.to_owned(), (source, Some(written.to_owned())));
    }

    /// Sets an attribute that is not set yet.
    pub(super) fn fill_resource(&mut self, key: &str, value: &str, source: SettingSource) {
        if self.resource_source(key) == SettingSource::Default {
            self.set_resource(key, Value::Str(value), source);
        }
    }

    /// `written` is what to show, if something was put into the name that is not to be shown.
    pub(super) fn set_service_name(&mut self, name: &str, written: Option<&str>, source: SettingSource) {
        self.set_resource(SERVICE_NAME, Value::Str(name), source);
        if let Some(written) = written {
            self.show_as_written(SERVICE_NAME, written);
        }
    }

    /// Whether the service has a name that is not made up.
    pub(crate) fn is_named(&self) -> bool {
        self.has_own_name() || self.default_name.as_ref().is_some_and(|name| !name.is_empty())
    }

    fn has_own_name(&self) -> bool {
        self.resource.get_str(SERVICE_NAME).is_some_and(|name| !name.is_empty())
    }

    /// As it is sent.
    pub(crate) fn complete_resource(&self) -> Resource {
        let mut resource = self.resource.clone();
        if let Some(name) = self.default_name.as_ref().filter(|_| !self.has_own_name()) {
            resource.set(SERVICE_NAME, Value::Str(name));
        }
        resource.with_defaults()
    }

    /// `sampling` is the share in percent, if that is how it was said.
    pub(super) fn set_sampler(&mut self, sampler: Sampler, sampling: Option<f64>, source: SettingSource) {
        self.sampler = sampler;
        self.sampling = sampling;
        self.sampler_source = source;
    }

    pub(super) fn resource_source(&self, key: &str) -> SettingSource {
        self.origins.source(&key.to_owned())
    }

    /// As it will be sent, or as it is written if something was put in.
    pub(crate) fn shown_service_name(&self) -> String {
        if let Some(written) = self.origins.shown(&SERVICE_NAME.to_owned()) {
            return shown(written).into_owned();
        }
        shown(self.complete_resource().get_str(SERVICE_NAME).unwrap_or_default()).into_owned()
    }

    /// The share of traces that begin here and are kept, in percent.
    pub(super) fn sampling(&self) -> f64 {
        self.sampling.unwrap_or_else(|| self.sampler.percent())
    }

    /// Name, other attributes and sampler, under these keys. Attributes of different sources are apart.
    pub(super) fn effective(&self, [name, resource, sampler]: [&'static str; 3]) -> Vec<Setting> {
        let has_default = self.default_name.is_some() && !self.has_own_name();
        let source = if has_default { SettingSource::Code } else { self.resource_source(SERVICE_NAME) };
        let mut settings = vec![Setting::new(name, &self.shown_service_name(), source)];
        let mut others: Vec<(SettingSource, Vec<String>)> = Vec::new();
        for (key, value) in self.resource.shown().filter(|(key, _)| *key != SERVICE_NAME) {
            let value = self.origins.shown(&key.to_owned()).unwrap_or(&value);
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

/// As [`effective`](ProviderSettings::effective): no secret is in it.
impl fmt::Debug for ProviderSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("ProviderSettings");
        for setting in self.effective(["service-name", "resource", "sampler"]) {
            shown.field(setting.key, &format_args!("{}", setting.value));
        }
        shown.finish()
    }
}
