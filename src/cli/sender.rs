//! Telemetry of `exec`, `span`, `log` and `metric`: their common options, the destination, and the result of the
//! delivery.

use std::env;
use std::ffi::{OsStr, OsString};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use standpipe::config::{Diagnostic, DiagnosticSeverity};
use standpipe::{
    Config, ConfigError, Exporter, IntoValue, Problem, ProblemKind, Scope, SpanBuilder, SpanContext,
    SpanKind, Telemetry, Value, WhenFull,
};

use super::caller::Caller;
use super::{Failure, describe, report_error, text};

/// Name of the instrumentation scope, and of the service if none is set.
pub(crate) const NAME: &str = "standpipe";
const INSTANCE_ID: &str = "service.instance.id";
/// The shortest block timeout that an exporter accepts.
const MIN_WAIT: Duration = Duration::from_millis(1);
/// Variable with the service name for this program's commands. `exec --service` sets it for nested commands. It takes
/// precedence over OTEL_SERVICE_NAME, which may be meant for other programs.
pub(crate) const SERVICE_NAME: &str = "OTEL_CLI_SERVICE_NAME";
/// Variable with the path of a file: `span start` writes its context there, and the other commands read it.
pub(crate) const CARRIER_FILE: &str = "OTEL_CLI_CARRIER_FILE";
/// Texts after `OTEL_EXPORTER_OTLP_` in the names of variables: for all signals, and for each signal.
const SIGNALS: [&str; 4] = ["", "TRACES_", "LOGS_", "METRICS_"];

/// End of the library's message about a server without TLS.
const NOT_TLS: &str = "the server does not speak TLS";
/// Messages of the standard library, ureq and Windows about a host name without an address.
const UNRESOLVED: [&str; 3] = ["failed to lookup address", "host not found", "No such host"];

/// Returns the instrumentation scope of the command.
pub(crate) fn scope() -> Scope<'static> {
    Scope::new(NAME).version(env!("CARGO_PKG_VERSION"))
}

/// Options for the destination and the service name.
#[derive(Debug, Clone, Args)]
pub(crate) struct Destination {
    /// The service.name; overrides OTEL_CLI_SERVICE_NAME, which overrides OTEL_SERVICE_NAME. Commands nested in exec
    /// inherit it.
    #[arg(short, long, value_name = "NAME")]
    pub(crate) service: Option<String>,
    /// The endpoint to send to; overrides OTEL_EXPORTER_OTLP_ENDPOINT.
    #[arg(long, value_name = "URL", value_parser = endpoint)]
    endpoint: Option<String>,
    /// Send over gRPC instead of HTTP.
    #[arg(long)]
    grpc: bool,
    /// A header for each request, for example a token; may be given more than once.
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = header)]
    headers: Vec<(String, String)>,
    /// A PEM file with the certificate authorities to trust instead of the bundled roots.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    ca_file: Option<OsString>,
    /// A PEM file with the client certificate.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, requires = "client_key_file")]
    client_certificate_file: Option<OsString>,
    /// A PEM file with the private key of the client certificate.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, requires = "client_certificate_file")]
    client_key_file: Option<OsString>,
    /// Maximum time for the delivery, for example 500ms or 30s; the default is 5s, for exec 1s.
    #[arg(long, value_name = "TIME", value_parser = text::duration)]
    pub(crate) timeout: Option<Duration>,
    /// Report on standard error whether the telemetry was delivered, and any problems.
    #[arg(short, long)]
    verbose: bool,
}

impl Destination {
    pub(crate) fn is_verbose(&self) -> bool {
        self.verbose || is_on("OTEL_CLI_VERBOSE")
    }

    /// Returns the options for TLS: the name of each option, the end of its variable's name, and its value.
    fn tls_files(&self) -> [(&'static str, &'static str, Option<&OsString>); 3] {
        [
            ("--ca-file", "CERTIFICATE", self.ca_file.as_ref()),
            ("--client-certificate-file", "CLIENT_CERTIFICATE", self.client_certificate_file.as_ref()),
            ("--client-key-file", "CLIENT_KEY", self.client_key_file.as_ref()),
        ]
    }

    /// Returns the environment variables of this process, overridden by the options.
    ///
    /// `presets` are values for variables that are unset or invalid.
    pub(crate) fn variables(&self, presets: &[(&str, &str)]) -> Vec<(String, OsString)> {
        let mut variables: Vec<(String, OsString)> =
            env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value))).collect();
        let mut replace = |end: &str, value: &OsStr| {
            // Variables of single signals are removed, too: they would take precedence over the option.
            let names = SIGNALS.map(|signal| format!("OTEL_EXPORTER_OTLP_{signal}{end}"));
            variables.retain(|(name, _)| !names.contains(name));
            variables.push((names[0].clone(), value.into()));
        };
        if let Some(endpoint) = &self.endpoint {
            replace("ENDPOINT", endpoint.as_ref());
        }
        if self.grpc {
            replace("PROTOCOL", "grpc".as_ref());
        }
        for (_, end, file) in self.tls_files() {
            file.into_iter().for_each(|file| replace(end, file));
        }
        if let Some(service) = self.service.clone().or_else(|| of_environment(SERVICE_NAME)) {
            variables.retain(|(name, _)| name != "OTEL_SERVICE_NAME");
            variables.push(("OTEL_SERVICE_NAME".to_owned(), service.into()));
        }
        for (preset, value) in presets {
            if !variables.iter().any(|(name, value)| name == preset && is_usable(name, value)) {
                variables.retain(|(name, _)| name != preset);
                variables.push(((*preset).to_owned(), value.into()));
            }
        }
        variables
    }
}

/// Option for the parent span.
#[derive(Debug, Args)]
pub(crate) struct Parent {
    /// The parent span: a traceparent, or a file with a line TRACEPARENT=...; overrides the variable TRACEPARENT. A
    /// file that does not exist is ignored.
    #[arg(long, value_name = "CONTEXT", value_hint = clap::ValueHint::FilePath)]
    parent: Option<String>,
}

impl Parent {
    /// Returns the context of the parent span. With `is_verbose`, invalid values are reported.
    pub(crate) fn caller(&self, is_verbose: bool) -> Caller {
        let parent = self.parent.clone().or_else(|| of_environment(CARRIER_FILE));
        let caller = parent.map_or_else(Caller::of_process, |parent| Caller::of(&parent));
        if is_verbose {
            caller.complaints.iter().for_each(|complaint| report_error(complaint));
        }
        caller
    }
}

/// Kind of a span, as options, variables and JSON lines name it.
#[derive(Debug, Clone, Copy, ValueEnum, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Internal,
    Server,
    Client,
    Producer,
    Consumer,
}

impl From<Kind> for SpanKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Internal => Self::Internal,
            Kind::Server => Self::Server,
            Kind::Client => Self::Client,
            Kind::Producer => Self::Producer,
            Kind::Consumer => Self::Consumer,
        }
    }
}

/// Started telemetry, and its last problem.
pub(crate) struct Sender {
    pub(crate) telemetry: Telemetry,
    /// Message of the last problem.
    last_problem: Arc<Mutex<Option<String>>>,
    /// Whether the configuration has an error.
    is_broken: bool,
    is_verbose: bool,
}

impl Sender {
    /// Starts the telemetry that the variables describe.
    ///
    /// If a queue is full, callers wait for up to `patience`; with `None`, records are dropped. An invalid
    /// configuration is not an error here: [`finish`](Self::finish) reports it.
    ///
    /// # Errors
    /// If the telemetry cannot be started, telemetry without exporters is started. Returns an error if that fails, too.
    pub(crate) fn start(
        destination: &Destination,
        variables: Vec<(String, OsString)>,
        patience: Option<Duration>,
    ) -> Result<Self, Failure> {
        let is_verbose = destination.is_verbose();
        let (config, mut broken) = match Config::from_variables(variables) {
            Ok(config) => (config, None),
            Err(error) => {
                let mut errors = errors(&error);
                // The messages name variables, but the user has written options, so the names are replaced.
                for (option, end, _) in
                    destination.tls_files().into_iter().filter(|(.., file)| file.is_some())
                {
                    errors = errors.replace(&format!("OTEL_EXPORTER_OTLP_{end}:"), &format!("{option}:"));
                }
                (error.into_usable(), Some(errors))
            }
        };
        let last_problem = Arc::new(Mutex::new(None));
        let latest = Arc::clone(&last_problem);
        let report = move |words: String| {
            if is_verbose {
                report_error(&words);
            }
            *latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(words);
        };
        let hook = report.clone();
        let hook = move |problem: &Problem| match problem.kind {
            // A warning is not kept as the last problem, because it is not the reason why records are not delivered.
            ProblemKind::Configuration if !is_verbose => {}
            ProblemKind::Configuration => report_error(&problem.message),
            _ => hook(in_words(problem)),
        };
        let config = config.map_exporters(|exporter| {
            let exporter = with_headers(exporter, &destination.headers);
            match patience {
                Some(patience) => exporter.when_full(WhenFull::Block).block_timeout(patience.max(MIN_WAIT)),
                None => exporter,
            }
        });
        // Every call of the command is a new process. With a new `service.instance.id` for each process, every call
        // would create its own time series.
        let given = of_environment("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
        let config = if given.contains(INSTANCE_ID) { config } else { config.resource(INSTANCE_ID, "") };
        let config = config.default_service_name(NAME).on_problem(hook);
        let telemetry = Telemetry::start(config).or_else(|error| {
            broken = Some(error.to_string());
            // Telemetry without exporters lets `exec` run its command even if the telemetry cannot be sent.
            Telemetry::start(Config::new())
        });
        let telemetry = telemetry.map_err(|error| Failure::Message(error.to_string()))?;
        let is_broken = broken.is_some();
        broken.into_iter().for_each(report);
        Ok(Self { telemetry, last_problem, is_broken, is_verbose })
    }

    /// Delivers all records within the budget.
    ///
    /// # Errors
    /// Returns how many records were not delivered, or that nothing was sent, and why.
    pub(crate) fn finish(self, budget: Duration) -> Result<(), String> {
        let began = Instant::now();
        let counts = self.telemetry.shutdown(budget).total();
        let lost = counts.lost() + counts.in_flight;
        if lost == 0 && !self.is_broken {
            if self.is_verbose {
                let (records, time) = (describe::count(counts.delivered, "record"), began.elapsed());
                report_error(&format!("delivered {records} in {} ms", time.as_millis()));
            }
            return Ok(());
        }
        let problem = self.last_problem.lock().unwrap_or_else(PoisonError::into_inner).take();
        let problem = problem.unwrap_or_else(|| format!("timed out after {} ms", budget.as_millis()));
        Err(match lost {
            0 => format!("nothing was sent: {problem}"),
            _ => format!("{} not delivered: {problem}", describe::count(lost, "record")),
        })
    }
}

/// Returns whether a variable of otel-cli switches an option on.
pub(crate) fn is_on(variable: &str) -> bool {
    of_environment(variable).is_some_and(|value| value == "true" || value == "1")
}

/// Returns the value of an otel-cli variable for an option, or `None` if it is unset or invalid.
///
/// Unlike an invalid option, an invalid variable is ignored, because it is not part of the command line.
pub(crate) fn choice<T: ValueEnum>(variable: &str) -> Option<T> {
    of_environment(variable).and_then(|value| T::from_str(&value, false).ok())
}

/// Parses the value of `--header`.
pub(crate) fn header(word: &str) -> Result<(String, String), &'static str> {
    let parts = word.split_once('=').filter(|(name, _)| !name.is_empty());
    parts.map(|(name, value)| (name.to_owned(), value.to_owned())).ok_or("write NAME=VALUE")
}

/// Returns whether a variable has a valid value. An empty or invalid value counts as unset.
fn is_usable(name: &str, value: &OsStr) -> bool {
    let read = Config::from_variables([(name, value)]);
    !value.is_empty() && read.is_ok_and(|config| config.diagnostics().is_empty())
}

/// Parses the value of `--endpoint`. An invalid URL is an error of the command line, not a failed delivery.
pub(crate) fn endpoint(word: &str) -> Result<String, String> {
    const NAME: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
    // The message begins with the name of the variable, but the user has written an option.
    let message = |error| errors(&error).replace(&format!("{NAME}: "), "");
    Config::from_variables([(NAME, word)]).map(|_| word.to_owned()).map_err(message)
}

/// Returns the errors of a configuration, without its warnings.
fn errors(error: &ConfigError) -> String {
    let is_error = |found: &&Diagnostic| found.severity == DiagnosticSeverity::Error;
    let errors = error.diagnostics().iter().filter(is_error).map(Diagnostic::to_string);
    errors.collect::<Vec<_>>().join("\n")
}

/// Adds the headers of `--header`.
pub(crate) fn with_headers(exporter: Exporter, headers: &[(String, String)]) -> Exporter {
    headers.iter().fold(exporter, |exporter, (name, value)| exporter.header(name, value))
}

/// Returns the message of a problem, with advice if there is any.
pub(crate) fn in_words(problem: &Problem) -> String {
    let message = &problem.message;
    // The library's messages contain the URL of the request.
    let has_path_twice = message.split(' ').any(|word| word.matches("/v1/").count() > 1);
    let is_from_proxy = message.split(|c: char| !c.is_alphanumeric()).any(|word| word == "407");
    let advice = match problem.kind {
        _ if message.ends_with(NOT_TLS) => "; write http:// instead of https://",
        _ if UNRESOLVED.iter().any(|words| message.contains(words)) => {
            "; check the host name; in a container, check that both are on the same network"
        }
        ProblemKind::NotTaken if has_path_twice => {
            "; the endpoint contains the path twice: write it without /v1/..., which is appended"
        }
        ProblemKind::Unavailable if !is_from_proxy => "; is a collector running? try: standpipe receive",
        _ => "",
    };
    format!("{message}{advice}")
}

pub(crate) fn of_environment(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// Key and value of an attribute.
pub(crate) type Attribute = (String, Json);

/// Option for attributes.
#[derive(Debug, Args)]
pub(crate) struct Attributes {
    /// An attribute whose value is text; KEY:=JSON for a number, true, false or a list. May be given more than once.
    #[arg(short, long = "attr", value_name = "KEY=VALUE", value_parser = parse)]
    attributes: Vec<Attribute>,
}

impl Attributes {
    /// Returns the attributes of the environment, then those of the options. The last value of a key takes precedence.
    pub(crate) fn all(&self) -> Vec<Attribute> {
        let list = of_environment("OTEL_CLI_ATTRIBUTES").unwrap_or_default();
        parse_list(&list).into_iter().chain(self.attributes.iter().cloned()).collect()
    }
}

/// Parses `KEY=VALUE`, where the value is text, or `KEY:=JSON`.
///
/// # Errors
/// Returns an error if the word has neither form. The message does not repeat the value, which may be a secret.
fn parse(word: &str) -> Result<Attribute, String> {
    let Some((key, value)) = word.split_once('=').filter(|(key, _)| !matches!(*key, "" | ":")) else {
        return Err("write KEY=VALUE, or KEY:=JSON for a number".to_owned());
    };
    match key.strip_suffix(':') {
        None => Ok((key.to_owned(), value.into())),
        Some(key) => serde_json::from_str(value).map(|value| (key.to_owned(), value)).map_err(|_| {
            format!("the value of {key} is not JSON, such as 42, 1.5 or true; for text write {key}=VALUE")
        }),
    }
}

/// Parses `k=v,k=v`, the form of `OTEL_CLI_ATTRIBUTES`. Invalid parts are left out.
fn parse_list(list: &str) -> Vec<Attribute> {
    list.split(',').filter_map(|part| parse(part).ok()).collect()
}

/// Replaces lists and objects with JSON text, so that each value except null is a [scalar].
pub(crate) fn flat(attributes: Vec<Attribute>) -> Vec<Attribute> {
    let flat =
        |value: Json| if value.is_array() || value.is_object() { value.to_string().into() } else { value };
    attributes.into_iter().map(|(key, value)| (key, flat(value))).collect()
}

/// Makes a span a child of `parent`, or the root of a new trace.
pub(crate) fn below<'a>(span: SpanBuilder<'a>, parent: Option<&'a SpanContext>) -> SpanBuilder<'a> {
    match parent {
        Some(parent) => span.parent(parent),
        None => span.root(),
    }
}

/// Returns the value of a bool, string or number, and `None` for a list, an object and null.
pub(crate) fn scalar(json: &Json) -> Option<Value<'_>> {
    match json {
        Json::Bool(value) => Some(Value::Bool(*value)),
        Json::String(value) => Some(Value::Str(value)),
        Json::Number(number) => number.as_i64().map(Value::Int).or(number.as_f64().map(Value::Float)),
        Json::Null | Json::Array(_) | Json::Object(_) => None,
    }
}

/// A JSON value as the value of an attribute. A list of one type stays a list. A mixed list and an object become JSON
/// text. Null sets no attribute.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AsValue<'a>(pub(crate) &'a Json);

impl IntoValue for AsValue<'_> {
    fn with_value(self, write: impl FnOnce(Value<'_>)) {
        let Json::Array(items) = self.0 else {
            return match scalar(self.0) {
                Some(value) => write(value),
                None if self.0.is_null() => {}
                None => write(Value::Str(&self.0.to_string())),
            };
        };
        fn all<'j, T>(items: &'j [Json], of: impl Fn(&'j Json) -> Option<T>) -> Option<Vec<T>> {
            items.iter().map(of).collect()
        }
        if let Some(texts) = all(items, Json::as_str) {
            write(Value::Strs(&texts));
        } else if let Some(integers) = all(items, Json::as_i64) {
            write(Value::Ints(&integers));
        } else if let Some(numbers) = all(items, Json::as_f64) {
            write(Value::Floats(&numbers));
        } else if let Some(flags) = all(items, Json::as_bool) {
            write(Value::Bools(&flags));
        } else {
            write(Value::Str(&self.0.to_string()));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_attribute_is_text_unless_it_says_json() {
        assert_eq!(parse("a=1"), Ok(("a".to_owned(), json!("1"))));
        assert_eq!(parse("a=b=c"), Ok(("a".to_owned(), json!("b=c"))));
        assert_eq!(parse("a:=1"), Ok(("a".to_owned(), json!(1))));
        assert_eq!(parse("a:=[1.5,2]"), Ok(("a".to_owned(), json!([1.5, 2]))));
        for wrong in ["a", "=a", ":=1", ""] {
            assert_eq!(parse(wrong).unwrap_err(), "write KEY=VALUE, or KEY:=JSON for a number");
        }
        let error = parse("a:=secret").unwrap_err();
        assert!(error.ends_with("for text write a=VALUE") && !error.contains("secret"), "{error}");
        assert_eq!(parse_list("a=1,odd,,b=2").len(), 2);
    }

    #[test]
    fn values_keep_their_type() {
        let written = |json: Json| {
            let mut text = String::new();
            AsValue(&json).with_value(|value| text = format!("{value:?}"));
            text
        };
        assert_eq!(written(json!(42)), "Int(42)");
        assert_eq!(written(json!(u64::MAX)), "Float(1.8446744073709552e19)");
        assert_eq!(written(json!([1, 2.5])), "Floats([1.0, 2.5])");
        assert_eq!(written(json!([true])), "Bools([true])");
        assert_eq!(written(json!(["a", 1])), "Str(\"[\\\"a\\\",1]\")");
        assert_eq!(written(json!({"a": 1})), "Str(\"{\\\"a\\\":1}\")");
        assert_eq!(written(json!(null)), "");
    }
}
