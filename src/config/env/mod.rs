//! Reads OpenTelemetry's environment variables.
//!
//! ```text
//! variables → reader ─→ values of each signal ─→ exporters   one exporter for all signals with equal settings
//!                                             └→ fill        unset settings of exporters from a file or from code
//!                    └→ fill_general                         settings that do not belong to one exporter
//! ```

mod exporters;
mod reader;

#[cfg(feature = "yaml")]
pub(super) use exporters::with_defaults;
pub(super) use reader::{OTEL_CONFIG_FILE, Variables};

use std::ffi::OsString;
use std::ops::RangeInclusive;

use self::reader::{
    OTEL_RESOURCE_ATTRIBUTES, OTEL_SERVICE_NAME, OTEL_TRACES_SAMPLER, OTEL_TRACES_SAMPLER_ARG, Reader,
    is_any_set, report_unknown,
};
use super::error::{ConfigError, Configured, Diagnostic, Fault};
use super::provider::{SERVICE_NAME, Sampler};
use super::settings::ANY;
use super::settings::general::{self, GeneralKind, GeneralRow};
use super::text::{quoted, what_to_write};
use super::{Config, SettingSource, demand, header, validate};
use crate::record::Value;

impl Config {
    /// Reads OpenTelemetry's environment variables; the [guide](crate::guide::environment) lists them with their
    /// defaults.
    ///
    /// If `OTEL_CONFIG_FILE` names a file, the file is read instead, as [`from_file`](Self::from_file) reads
    /// OpenTelemetry's declarative configuration (needs the `yaml` feature).
    ///
    /// Signals with equal settings share one exporter, `otlp`. A signal whose settings differ from those of the others
    /// has its own exporter, such as `otlp.logs`. Signals that are printed share the exporter `console`. Invalid
    /// endpoints, headers and certificate files are errors. Any other invalid value is reported in
    /// [`diagnostics`](Self::diagnostics) and ignored, as the specification demands.
    ///
    /// ```
    /// use standpipe::Config;
    ///
    /// let config = Config::from_variables([
    ///     ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector.example:4318"),
    ///     ("OTEL_EXPORTER_OTLP_LOGS_TIMEOUT", "2000"),
    /// ])?;
    /// let names: Vec<&str> = config.exporters().iter().map(|exporter| exporter.name()).collect();
    /// assert_eq!(names, ["otlp", "otlp.logs"]);
    /// # Ok::<(), standpipe::ConfigError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if an exporter cannot be started as requested. The error contains all diagnostics and the
    /// usable exporters.
    pub fn from_env() -> Result<Self, ConfigError> {
        read(&Variables::of_process())
    }

    /// Reads the environment as [`from_env`](Self::from_env) does if at least one of the variables is set, even if it
    /// is only `OTEL_SERVICE_NAME`. Otherwise returns a [disabled](Self::disabled) configuration without exporters: no
    /// thread is started, and nothing is sent.
    ///
    /// Intended for commands and libraries that export telemetry only at the request of their user. Empty variables
    /// and variables of other programs do not count. A misspelled name is reported in
    /// [`diagnostics`](Self::diagnostics), even if the configuration is disabled.
    ///
    /// ```
    /// use standpipe::{Config, Telemetry};
    ///
    /// let telemetry = Telemetry::start(Config::from_env_if_set()?)?;
    /// telemetry.tracer("tool").span("run").end(); // costs next to nothing where no variable is set
    /// # Ok::<(), standpipe::ConfigError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`from_env`](Self::from_env).
    pub fn from_env_if_set() -> Result<Self, ConfigError> {
        read_if_set(&Variables::of_process())
    }

    /// Reads the given variables as [`from_env_if_set`](Self::from_env_if_set) reads the environment.
    ///
    /// ```
    /// use standpipe::Config;
    ///
    /// assert!(Config::from_variables_if_set([("PATH", "/bin")])?.exporters().is_empty());
    /// let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318");
    /// assert_eq!(Config::from_variables_if_set([endpoint])?.exporters().len(), 1);
    /// # Ok::<(), standpipe::ConfigError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`from_env`](Self::from_env).
    pub fn from_variables_if_set(
        variables: impl IntoIterator<Item = (impl Into<String>, impl Into<OsString>)>,
    ) -> Result<Self, ConfigError> {
        read_if_set(&variables.into_iter().collect())
    }

    /// Reads the given variables as [`from_env`](Self::from_env) reads the environment, for tests and for programs that
    /// store their variables elsewhere.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`from_env`](Self::from_env).
    pub fn from_variables(
        variables: impl IntoIterator<Item = (impl Into<String>, impl Into<OsString>)>,
    ) -> Result<Self, ConfigError> {
        read(&variables.into_iter().collect())
    }

    /// Fills unset settings from OpenTelemetry's environment variables: the settings of each exporter, and general ones
    /// such as the resource, the sampler, the limits and [`disabled`](Self::disabled). Values that the program or a
    /// file has set are kept, and no exporter is added.
    ///
    /// A variable of one signal applies to an exporter of several signals only if the variables of the exporter's other
    /// signals have the same value. Otherwise the variable for all signals applies.
    ///
    /// ```
    /// use standpipe::{Config, Exporter};
    ///
    /// // OTEL_SERVICE_NAME, OTEL_EXPORTER_OTLP_HEADERS and all others, but not the endpoint
    /// let config = Config::new().exporter(Exporter::http("http://localhost:4318")).with_environment()?;
    /// # let _ = config;
    /// # Ok::<(), standpipe::ConfigError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the configuration is invalid. The error contains all diagnostics and the usable exporters.
    pub fn with_environment(mut self) -> Result<Self, ConfigError> {
        let diagnostics = fill(&mut self, &Variables::of_process());
        validate::validate(self, diagnostics, &[])
    }
}

/// Reads the variables if at least one is set, else returns a disabled configuration.
fn read_if_set(variables: &Variables) -> Configured {
    if is_any_set(variables) {
        return read(variables);
    }
    let mut reader = Reader::new(variables);
    report_unknown(&mut reader);
    // Validated even though it is disabled, so that the names of misspelled variables are reported.
    validate::validate(Config::new().disabled(true), reader.diagnostics.into_diagnostics(), &[])
}

/// Returns the configuration of the file that `OTEL_CONFIG_FILE` names, or else the one that the variables describe.
fn read(variables: &Variables) -> Configured {
    let refused = |fault: Fault| ConfigError::new(vec![fault.error(None, OTEL_CONFIG_FILE)], Config::new());
    match variables.get(OTEL_CONFIG_FILE) {
        #[cfg(feature = "yaml")]
        Some(Ok(path)) => return super::read::read_declarative(path, variables),
        #[cfg(not(feature = "yaml"))]
        Some(Ok(_)) => {
            let fix = "build standpipe with its feature \"yaml\", or unset it";
            return Err(refused(Fault::new("this build cannot read the file", fix)));
        }
        Some(Err(fault)) => return Err(refused(fault)),
        None => {}
    }
    let mut config = Config::new();
    let mut reader = Reader::new(variables);
    config.exporters = exporters::described(&mut reader);
    let diagnostics = finish(&mut config, reader);
    validate::validate(config, diagnostics, &[])
}

/// Fills settings that neither code nor a file has set, without adding exporters. A variable that breaks an exporter is
/// recorded in the exporter, so that validation reports it.
pub(super) fn fill(config: &mut Config, variables: &Variables) -> Vec<Diagnostic> {
    let mut reader = Reader::new(variables);
    for exporter in &mut config.exporters {
        exporters::fill(exporter, &mut reader);
    }
    finish(config, reader)
}

/// Fills the settings that do not belong to one exporter, and reports unknown variables.
fn finish(config: &mut Config, mut reader: Reader<'_>) -> Vec<Diagnostic> {
    // The linker must keep all optional parts of the library, because a variable may request any of them.
    demand::raise_all();
    fill_general(config, &mut reader);
    report_unknown(&mut reader);
    reader.diagnostics.into_diagnostics()
}

const SAMPLERS: [&str; 6] = [
    "always_on",
    "always_off",
    "traceidratio",
    "parentbased_always_on",
    "parentbased_always_off",
    "parentbased_traceidratio",
];
/// Samplers that ask a server. They are not supported.
const REMOTE_SAMPLERS: [&str; 3] = ["jaeger_remote", "parentbased_jaeger_remote", "xray"];

/// Fills settings that neither the program nor a file has set.
fn fill_general(config: &mut Config, reader: &mut Reader<'_>) {
    fill_resource(config, reader);
    fill_sampler(config, reader);
    for row in general::rows().filter(|row| config.source(row) == SettingSource::Default).collect::<Vec<_>>()
    {
        let set = row.variables.iter().find(|variable| set(row, variable, config, reader));
        if let Some(variable) = set {
            config.sources.insert(row.key, SettingSource::Environment((*variable).to_owned()));
        }
    }
}

/// Sets a row from a variable. Returns whether the variable has a valid value.
fn set(row: &GeneralRow, variable: &str, config: &mut Config, reader: &mut Reader<'_>) -> bool {
    const COUNTS: RangeInclusive<u64> = 0..=u32::MAX as u64;
    let done = match &row.kind {
        GeneralKind::Bool(field) => reader.bool(variable).map(|value| (field.set)(config, value)),
        kind @ (GeneralKind::Count(_) | GeneralKind::Length(_)) => {
            reader.count(variable, &COUNTS).map(|count| kind.set_count(config, count))
        }
        GeneralKind::Words(list) => reader.words(variable, list).map(|words| (list.set)(config, &words)),
        GeneralKind::Duration(field) => reader.duration(variable, &ANY).map(|it| (field.set)(config, it)),
    };
    done.is_some()
}

fn fill_resource(config: &mut Config, reader: &mut Reader<'_>) {
    let name = reader.text(OTEL_SERVICE_NAME);
    let attributes = resource_attributes(reader);
    for provider in [&mut config.main, &mut config.application] {
        // Checked before a variable sets the name: a name from code or a file takes precedence over both variables.
        let has_name = provider.resource_source(SERVICE_NAME) != SettingSource::Default;
        if let Some(name) = name.filter(|_| !has_name) {
            let source = SettingSource::Environment(OTEL_SERVICE_NAME.to_owned());
            provider.set_resource(SERVICE_NAME, Value::Str(name), None, source);
        }
        for (key, value) in &attributes {
            let source = SettingSource::Environment(OTEL_RESOURCE_ATTRIBUTES.to_owned());
            match key.as_str() {
                // By the specification, OTEL_SERVICE_NAME wins over `service.name` in OTEL_RESOURCE_ATTRIBUTES.
                SERVICE_NAME if has_name || name.is_some() => {}
                SERVICE_NAME => provider.set_resource(SERVICE_NAME, Value::Str(value), None, source),
                key => provider.fill_resource(key, value, source),
            }
        }
    }
}

/// Reads the resource attributes. One malformed pair discards all of them, because an incomplete resource would
/// identify another program.
fn resource_attributes(reader: &mut Reader<'_>) -> Vec<(String, String)> {
    let Some(text) = reader.text(OTEL_RESOURCE_ATTRIBUTES) else { return Vec::new() };
    header::read_attributes(text).unwrap_or_else(|Fault { what, fix }| {
        reader.ignore(OTEL_RESOURCE_ATTRIBUTES, Fault::new(format!("{what}, so none is set"), fix));
        Vec::new()
    })
}

/// Sets the sampler of every provider for which neither code nor a file has set a sampler.
fn fill_sampler(config: &mut Config, reader: &mut Reader<'_>) {
    let providers = [&mut config.main, &mut config.application].into_iter();
    let mut open: Vec<_> = providers.filter(|it| it.sampler_source == SettingSource::Default).collect();
    // If code or a file has set all samplers, the variable is not read, so mistakes in it are not reported.
    let Some(sampler) = (!open.is_empty()).then(|| sampler(reader)).flatten() else { return };
    let source = SettingSource::Environment(OTEL_TRACES_SAMPLER.to_owned());
    open.iter_mut().for_each(|provider| provider.set_sampler(sampler.clone(), None, source.clone()));
}

fn sampler(reader: &mut Reader<'_>) -> Option<Sampler> {
    let Some(text) = reader.text(OTEL_TRACES_SAMPLER) else {
        if reader.text(OTEL_TRACES_SAMPLER_ARG).is_some() {
            let fix = format!("set {} to parentbased_traceidratio", OTEL_TRACES_SAMPLER);
            let what = format!("has no effect without {OTEL_TRACES_SAMPLER}");
            reader.warn(OTEL_TRACES_SAMPLER_ARG, Fault::new(what, fix));
        }
        return None;
    };
    let word = text.to_ascii_lowercase();
    let rule = word.strip_prefix("parentbased_").unwrap_or(&word);
    let sampler = match rule {
        "always_on" => Sampler::always_on(),
        "always_off" => Sampler::always_off(),
        "traceidratio" => Sampler::trace_id_ratio(ratio(reader)),
        _ => {
            let fault = match REMOTE_SAMPLERS.contains(&word.as_str()) {
                true => Fault::new("is not supported", "write parentbased_traceidratio"),
                false => Fault::new("is not known", what_to_write(&word, &SAMPLERS)),
            };
            reader.ignore(OTEL_TRACES_SAMPLER, fault.of(quoted(text)));
            return None;
        }
    };
    Some(if rule == word { sampler } else { sampler.parent_based() })
}

/// Returns the ratio of the sampler; 1 if the variable is unset or invalid.
fn ratio(reader: &mut Reader<'_>) -> f64 {
    let Some(text) = reader.text(OTEL_TRACES_SAMPLER_ARG) else { return 1.0 };
    text.parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio)).unwrap_or_else(|| {
        let fault = Fault::new("is not a ratio of traces", "write 0 to 1, like 0.25");
        reader.ignore(OTEL_TRACES_SAMPLER_ARG, fault.of(quoted(text)));
        1.0
    })
}

#[cfg(all(test, feature = "grpc", feature = "gzip", feature = "tls"))]
mod tests;
