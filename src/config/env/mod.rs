//! What do OpenTelemetry's environment variables set?
//!
//! ```text
//! variables → reader ─→ values of each signal ─→ exporters   one for all signals of which they say the same
//!                                             └→ fill        into an exporter that a file or the program describes
//!                    └→ program                              into what is not of one exporter
//! ```

mod exporters;
mod names;
mod pairs;
mod program;
mod reader;
mod values;

pub(super) use reader::Variables;

use std::ffi::OsString;

use self::reader::Reader;
use super::error::{ConfigError, Diagnostic};
use super::{Config, validate};
#[cfg(doc)]
use crate::{LogLimits, Sampler, SpanLimits};

impl Config {
    /// Reads OpenTelemetry's environment variables. An empty one is as good as none.
    ///
    /// | variable | default | meaning |
    /// |---|---|---|
    /// | `OTEL_{TRACES,LOGS,METRICS}_EXPORTER` | `otlp` | or `console` (with the feature of that name), or both with a comma; `none`: the signal is not sent |
    /// | `OTEL_EXPORTER_OTLP_INSECURE` | `true` | `false`: gRPC endpoints without a scheme are https |
    /// | `OTEL_SERVICE_NAME` | – | wins over `service.name` in the next |
    /// | `OTEL_RESOURCE_ATTRIBUTES` | none | `key=value,other=value`, percent-encoded; all or none |
    /// | `OTEL_TRACES_SAMPLER`, `…_ARG` | `parentbased_always_on` | [`Sampler`] by its OpenTelemetry name, and its ratio |
    /// | `OTEL_ATTRIBUTE_{COUNT,VALUE_LENGTH}_LIMIT`, `OTEL_SPAN_…`, `OTEL_LOGRECORD_…` | 128, none | [`SpanLimits`] and [`LogLimits`] |
    /// | `OTEL_SPAN_{EVENT,LINK}_COUNT_LIMIT`, `OTEL_{EVENT,LINK}_ATTRIBUTE_COUNT_LIMIT` | 128 | [`SpanLimits`] |
    /// | `OTEL_SDK_DISABLED` | `false` | as [`disabled`](Self::disabled) |
    /// | `OTEL_PROPAGATORS` | `tracecontext,baggage` | only checked: the program hands contexts on |
    ///
    /// Those that set what an exporter has are in the table of [`from_file`](Self::from_file), with their defaults but for
    /// two: `throttle` is zero where something is sent, and an incomplete batch waits for 5 s, of logs for 1 s. Some have
    /// words of their own: `http/protobuf` or `grpc` as protocol, `DROP` or `BLOCK` when the queue is full, and
    /// `explicit_bucket_histogram` or `base2_exponential_bucket_histogram`. Headers are `name=value,other=value` with
    /// percent-encoded values; `/v1/<signal>` is put behind the endpoint.
    ///
    /// Those of `OTEL_EXPORTER_OTLP_` exist for one signal too, like `OTEL_EXPORTER_OTLP_LOGS_ENDPOINT`, which is
    /// posted to exactly as it is. Times are whole milliseconds. A number or word that cannot be understood is reported in
    /// [`diagnostics`](Self::diagnostics) and ignored, and so is an unknown variable that looks like one of these.
    ///
    /// Signals for which everything is set alike share one exporter, `otlp`. Otherwise a signal that shares with no
    /// other has its own, like `otlp.logs`, and `otlp` is for the others. What is printed shares the exporter `console`,
    /// which needs the `console` feature.
    ///
    /// ```
    /// use standpipe::Config;
    ///
    /// let config = Config::from_variables([
    ///     ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://collector.example:4318"),
    ///     ("OTEL_EXPORTER_OTLP_LOGS_TIMEOUT", "2000"),
    /// ])?;
    /// let ids: Vec<&str> = config.exporters().iter().map(|exporter| exporter.name()).collect();
    /// assert_eq!(ids, ["otlp", "otlp.logs"]);
    /// # Ok::<(), standpipe::ConfigError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Everything that is wrong with them at once, together with what is usable nevertheless.
    pub fn from_env() -> Result<Self, ConfigError> {
        read(&Variables::of_process())
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

#[cfg(test)]
mod tests;
