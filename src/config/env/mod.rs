//! Reads OpenTelemetry's environment variables.
//!
//! ```text
//! variables → reader ─→ values of each signal ─→ exporters   one for all signals with the same settings
//!                                             └→ fill        into an exporter that a file or the program describes
//!                    └→ fill_general                         into settings that are not of one exporter
//! ```

mod exporters;
mod reader;

pub(super) use reader::Variables;

use std::ffi::OsString;
use std::ops::RangeInclusive;

use self::reader::{
    OTEL_PROPAGATORS, OTEL_RESOURCE_ATTRIBUTES, OTEL_SERVICE_NAME, OTEL_TRACES_SAMPLER,
    OTEL_TRACES_SAMPLER_ARG, Reader, is_any_set, report_unknown, what_to_write,
};
use super::error::{ConfigError, Diagnostic, Fault};
use super::provider::SERVICE_NAME;
use super::sampler::Sampler;
use super::settings::ANY;
use super::settings::general::{self, GeneralKind, GeneralRow};
use super::text::quoted;
use super::{Config, SettingSource, demand, header, validate};

impl Config {
    /// Reads OpenTelemetry's environment variables; the [guide](crate::guide::environment) lists them with their defaults.
    ///
    /// Signals with equal settings share one exporter, `otlp`. Otherwise a signal that shares with no other has its own,
    /// like `otlp.logs`, and `otlp` is for the others. Signals that are printed share the exporter `console`. A value that
    /// cannot be understood is reported in [`diagnostics`](Self::diagnostics) and ignored.
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
    /// Everything that is wrong with them at once, together with what is usable nevertheless.
    pub fn from_env() -> Result<Self, ConfigError> {
        read(&Variables::of_process())
    }

    /// As [`from_env`](Self::from_env) if at least one of the variables that it reads is set, be it only
    /// `OTEL_SERVICE_NAME`; else a [disabled](Self::disabled) configuration without exporters: no thread is started, and
    /// nothing is sent.
    ///
    /// For commands and libraries that export only where their user asks for it. Variables that are empty, and those of
    /// other programs, do not count; one that only looks like one of these is reported in
    /// [`diagnostics`](Self::diagnostics) in either case.
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
    /// As [`from_env`](Self::from_env).
    pub fn from_env_if_set() -> Result<Self, ConfigError> {
        read_if_set(&Variables::of_process())
    }

    /// As [`from_env_if_set`](Self::from_env_if_set) for variables that are given.
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
    /// As [`from_env`](Self::from_env).
    pub fn from_variables_if_set<N, V>(
        variables: impl IntoIterator<Item = (N, V)>,
    ) -> Result<Self, ConfigError>
    where
        N: Into<String>,
        V: Into<OsString>,
    {
        read_if_set(&variables.into_iter().collect())
    }

    /// Reads the same from variables that are given, for tests and for programs that keep theirs elsewhere.
    ///
    /// # Errors
    ///
    /// As [`from_env`](Self::from_env).
    pub fn from_variables<N, V>(variables: impl IntoIterator<Item = (N, V)>) -> Result<Self, ConfigError>
    where
        N: Into<String>,
        V: Into<OsString>,
    {
        read(&variables.into_iter().collect())
    }

    /// Sets what neither the program nor a file has set from OpenTelemetry's environment variables, as far as there are
    /// any: the settings of each exporter, the resource, the sampler, the limits and the switch. No exporter is added;
    /// [`from_env`](Self::from_env) says what each variable means.
    ///
    /// An exporter of several signals follows a variable of one signal only if those of its other signals say the same,
    /// and else the one of all signals.
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
    /// Everything that is wrong at once, together with what is usable nevertheless.
    pub fn with_environment(mut self) -> Result<Self, ConfigError> {
        let diagnostics = fill(&mut self, &Variables::of_process());
        validate::validate(self, diagnostics, &[])
    }
}

/// The same, but nothing at all unless one of the variables is set.
fn read_if_set(variables: &Variables) -> Result<Config, ConfigError> {
    if is_any_set(variables) {
        return read(variables);
    }
    let mut reader = Reader::new(variables);
    report_unknown(&mut reader);
    validate::validate(Config::new().disabled(true), reader.into_diagnostics(), &[])
}

/// The exporters that the variables describe.
fn read(variables: &Variables) -> Result<Config, ConfigError> {
    let mut config = Config::new();
    let mut reader = Reader::new(variables);
    config.exporters = exporters::described(&mut reader);
    let diagnostics = finish(&mut config, reader);
    validate::validate(config, diagnostics, &[])
}

/// Sets what neither code nor a file has set; makes no exporter. What breaks an exporter is left in it for the
/// validation to report.
pub(super) fn fill(config: &mut Config, variables: &Variables) -> Vec<Diagnostic> {
    let mut reader = Reader::new(variables);
    for exporter in &mut config.exporters {
        exporters::fill(exporter, &mut reader);
    }
    finish(config, reader)
}

/// What is not of one exporter, and what is not known.
fn finish(config: &mut Config, mut reader: Reader<'_>) -> Vec<Diagnostic> {
    demand::raise_all();
    fill_general(config, &mut reader);
    report_unknown(&mut reader);
    reader.into_diagnostics()
}

const SAMPLERS: [&str; 6] = [
    "always_on",
    "always_off",
    "traceidratio",
    "parentbased_always_on",
    "parentbased_always_off",
    "parentbased_traceidratio",
];
/// Those that ask a server, which this crate does not.
const REMOTE_SAMPLERS: [&str; 3] = ["jaeger_remote", "parentbased_jaeger_remote", "xray"];

/// Sets what neither the program nor a file has set.
fn fill_general(config: &mut Config, reader: &mut Reader<'_>) {
    fill_resource(config, reader);
    check_propagators(reader);
    fill_sampler(config, reader);
    for row in general::rows().filter(|row| config.source(row) == SettingSource::Default).collect::<Vec<_>>()
    {
        let set = row.variables.iter().find(|variable| set(row, variable, config, reader));
        if let Some(variable) = set {
            config.sources.insert(row, SettingSource::Environment((*variable).to_owned()));
        }
    }
}

/// Whether the variable says something that can be used.
fn set(row: &GeneralRow, variable: &str, config: &mut Config, reader: &mut Reader<'_>) -> bool {
    const COUNTS: RangeInclusive<u64> = 0..=u32::MAX as u64;
    let done = match &row.kind {
        GeneralKind::Bool(field) => reader.bool(variable).map(|value| (field.set)(config, value)),
        GeneralKind::Count(field) => {
            let count = reader.count(variable, &COUNTS).and_then(|count| u32::try_from(count).ok());
            count.map(|count| (field.set)(config, count))
        }
        GeneralKind::Length(field) => {
            let length = reader.count(variable, &COUNTS).and_then(|length| usize::try_from(length).ok());
            length.map(|length| (field.set)(config, Some(length)))
        }
        GeneralKind::Duration(field) => {
            reader.duration(variable, &ANY).map(|value| (field.set)(config, value))
        }
    };
    done.is_some()
}

fn fill_resource(config: &mut Config, reader: &mut Reader<'_>) {
    let name = reader.text(OTEL_SERVICE_NAME);
    let attributes = resource_attributes(reader);
    for provider in [&mut config.main, &mut config.application] {
        let has_name = provider.resource_source(SERVICE_NAME) != SettingSource::Default;
        if let Some(name) = name.filter(|_| !has_name) {
            let source = SettingSource::Environment(OTEL_SERVICE_NAME.to_owned());
            provider.set_service_name(name, None, source);
        }
        for (key, value) in &attributes {
            let source = SettingSource::Environment(OTEL_RESOURCE_ATTRIBUTES.to_owned());
            match key.as_str() {
                SERVICE_NAME if has_name || name.is_some() => {}
                SERVICE_NAME => provider.set_service_name(value, None, source),
                key => provider.fill_resource(key, value, source),
            }
        }
    }
}

/// One bad pair discards them all: half a resource would be another one.
fn resource_attributes(reader: &mut Reader<'_>) -> Vec<(String, String)> {
    let Some(text) = reader.text(OTEL_RESOURCE_ATTRIBUTES) else {
        return Vec::new();
    };
    header::read_attributes(text).unwrap_or_else(|Fault { what, fix }| {
        reader.ignore(OTEL_RESOURCE_ATTRIBUTES, Fault::new(format!("{what}, so none is set"), fix));
        Vec::new()
    })
}

/// A context reads and writes the headers of W3C wherever the program uses one; so this only says what it must not count on.
fn check_propagators(reader: &mut Reader<'_>) {
    const KNOWN: [&str; 3] = ["tracecontext", "baggage", "none"];
    let text = reader.text(OTEL_PROPAGATORS).unwrap_or_default();
    for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        if !KNOWN.iter().any(|known| known.eq_ignore_ascii_case(word)) {
            let fault = Fault::new("is not supported", what_to_write(word, &KNOWN));
            reader.ignore(OTEL_PROPAGATORS, fault.of(quoted(word)));
        }
    }
}

/// Sets the sampler of every provider that has none.
fn fill_sampler(config: &mut Config, reader: &mut Reader<'_>) {
    let mut open: Vec<_> = [&mut config.main, &mut config.application]
        .into_iter()
        .filter(|provider| provider.sampler_source == SettingSource::Default)
        .collect();
    // what is not asked for is not judged
    let Some(sampler) = (!open.is_empty()).then(|| sampler(reader)).flatten() else {
        return;
    };
    for provider in &mut open {
        provider.set_sampler(sampler, None, SettingSource::Environment(OTEL_TRACES_SAMPLER.to_owned()));
    }
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

/// All traces unless something else is said.
fn ratio(reader: &mut Reader<'_>) -> f64 {
    let Some(text) = reader.text(OTEL_TRACES_SAMPLER_ARG) else {
        return 1.0;
    };
    text.parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio)).unwrap_or_else(|| {
        let fault = Fault::new("is not a share of all traces", "write 0 to 1, like 0.25");
        reader.ignore(OTEL_TRACES_SAMPLER_ARG, fault.of(quoted(text)));
        1.0
    })
}

#[cfg(all(test, feature = "grpc", feature = "gzip", feature = "tls"))]
mod tests;
