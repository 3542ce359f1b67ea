//! What do OpenTelemetry's environment variables set?
//!
//! ```text
//! variables → reader ─→ values of each signal ─→ exporters   one for all signals of which they say the same
//!                                             └→ fill        into an exporter that a file or the program describes
//!                    └→ program                              into what is not of one exporter
//! ```

mod exporters;
mod names;
mod program;
mod reader;
mod values;

pub(super) use reader::Variables;

use std::ffi::OsString;

use self::reader::Reader;
use super::error::{ConfigError, Diagnostic};
use super::{Config, validate};

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
    if names::is_any_set(variables) {
        return read(variables);
    }
    let mut reader = Reader::new(variables);
    names::report_unknown(variables, &mut reader);
    validate::validate(Config::new().disabled(true), reader.into_diagnostics(), &[])
}

/// The exporters that the variables describe.
fn read(variables: &Variables) -> Result<Config, ConfigError> {
    let mut config = Config::new();
    let mut reader = Reader::new(variables);
    config.exporters = exporters::described(&mut reader);
    let diagnostics = finish(&mut config, reader, variables);
    validate::validate(config, diagnostics, &[])
}

/// Sets what neither code nor a file has set; makes no exporter. What breaks an exporter is left in it for the
/// validation to report.
pub(super) fn fill(config: &mut Config, variables: &Variables) -> Vec<Diagnostic> {
    let mut reader = Reader::new(variables);
    for exporter in &mut config.exporters {
        values::fill(exporter, &mut reader);
    }
    finish(config, reader, variables)
}

/// What is not of one exporter, and what is not known.
fn finish(config: &mut Config, mut reader: Reader<'_>, variables: &Variables) -> Vec<Diagnostic> {
    program::fill(config, &mut reader);
    names::report_unknown(variables, &mut reader);
    reader.into_diagnostics()
}

#[cfg(all(test, feature = "grpc", feature = "gzip", feature = "tls"))]
mod tests;
