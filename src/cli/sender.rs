//! The telemetry of `exec`, `span`, `log` and `metric`: the options that they share, where they send, and whether the records
//! were delivered.

use std::env;
use std::ffi::{OsStr, OsString};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use standpipe::config::DiagnosticSeverity;
use standpipe::{Config, Exporter, IntoValue, Problem, ProblemKind, SpanKind, Telemetry, Value, WhenFull};

use super::caller::Caller;
use super::{Failure, describe, report_error, text};

/// The name of the service, and of the scope, where none is set.
pub(crate) const NAME: &str = "standpipe";
/// The shortest block timeout that an exporter accepts.
const MIN_WAIT: Duration = Duration::from_millis(1);
/// Service of this program's commands. `exec --service` sets it for nested commands, and it wins over OTEL_SERVICE_NAME,
/// which a whole environment may share.
pub(crate) const SERVICE_NAME: &str = "OTEL_CLI_SERVICE_NAME";
/// File that `span start` writes its context to, and that the other commands read theirs from.
pub(crate) const CARRIER_FILE: &str = "OTEL_CLI_CARRIER_FILE";
const SIGNALS: [&str; 4] = ["", "TRACES_", "LOGS_", "METRICS_"];

/// How the library says that the server has no TLS.
const NOT_TLS: &str = "the server does not speak TLS";
/// How the standard library, ureq and Windows say that no address was found for a name.
const UNRESOLVED: [&str; 3] = ["failed to lookup address", "host not found", "No such host"];

/// Where a command sends its telemetry, and in whose name.
#[derive(Debug, Clone, Args)]
pub(crate) struct Destination {
    /// The service.name, instead of OTEL_CLI_SERVICE_NAME or else OTEL_SERVICE_NAME; commands nested in exec inherit it.
    #[arg(short, long, value_name = "NAME")]
    pub(crate) service: Option<String>,
    /// Where to send, instead of OTEL_EXPORTER_OTLP_ENDPOINT.
    #[arg(long, value_name = "URL", value_parser = endpoint)]
    endpoint: Option<String>,
    /// Send over gRPC instead of HTTP.
    #[arg(long)]
    grpc: bool,
    /// A header of each request, as for a token; may be given more than once.
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = header)]
    headers: Vec<(String, String)>,
    /// How long to try to deliver, as 500ms or 30s; 5s if it is not given, and 1s for exec.
    #[arg(long, value_name = "TIME", value_parser = text::duration)]
    pub(crate) timeout: Option<Duration>,
    /// Report on standard error what becomes of the telemetry.
    #[arg(short, long)]
    verbose: bool,
}

impl Destination {
    pub(crate) fn is_verbose(&self) -> bool {
        self.verbose || is_on("OTEL_CLI_VERBOSE")
    }

    /// The variables of the process, where the options do not say otherwise; `presets` are for variables that are not set.
    pub(crate) fn variables(&self, presets: &[(&str, &str)]) -> Vec<(String, OsString)> {
        let mut variables: Vec<(String, OsString)> =
            env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value))).collect();
        let mut replace = |end: &str, value: &str| {
            let names = SIGNALS.map(|signal| format!("OTEL_EXPORTER_OTLP_{signal}{end}"));
            variables.retain(|(name, _)| !names.contains(name));
            variables.push((names[0].clone(), value.into()));
        };
        if let Some(endpoint) = &self.endpoint {
            replace("ENDPOINT", endpoint);
        }
        if self.grpc {
            replace("PROTOCOL", "grpc");
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

/// The option for the span that a command is part of.
#[derive(Debug, Args)]
pub(crate) struct Parent {
    /// A traceparent, or a file with a line TRACEPARENT=..., instead of TRACEPARENT of the environment; a file that does
    /// not exist is ignored.
    #[arg(long, value_name = "CONTEXT", value_hint = clap::ValueHint::FilePath)]
    parent: Option<String>,
}

impl Parent {
    /// The span that this command was started in. With `is_verbose`, the parts of it that cannot be read are reported.
    pub(crate) fn caller(&self, is_verbose: bool) -> Caller {
        let parent = self.parent.clone().or_else(|| of_environment(CARRIER_FILE));
        let caller = parent.map_or_else(Caller::of_process, |parent| Caller::of(&parent));
        if is_verbose {
            caller.complaints.iter().for_each(|complaint| report_error(complaint));
        }
        caller
    }
}

/// The kind of a span, in an option, a variable or a line of JSON.
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

/// Started telemetry, and the trouble that it had.
pub(crate) struct Sender {
    pub(crate) telemetry: Telemetry,
    /// The last message.
    trouble: Arc<Mutex<Option<String>>>,
    /// Whether the configuration itself is the trouble.
    is_broken: bool,
    is_verbose: bool,
}

impl Sender {
    /// Starts what the variables describe. Where a queue is full, callers wait for `patience`; without any, records are
    /// dropped. A configuration that cannot be used is reported in the end, and is not an error.
    ///
    /// # Errors
    /// When no telemetry can be started at all.
    pub(crate) fn start(
        destination: &Destination,
        variables: Vec<(String, OsString)>,
        patience: Option<Duration>,
    ) -> Result<Self, Failure> {
        let is_verbose = destination.is_verbose();
        let (config, mut broken) = match Config::from_variables(variables) {
            Ok(config) => (config, None),
            Err(error) => {
                let words = error.to_string();
                (error.into_usable(), Some(words))
            }
        };
        let trouble = Arc::new(Mutex::new(None));
        let latest = Arc::clone(&trouble);
        let report = move |words: String| {
            if is_verbose {
                report_error(&words);
            }
            *latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(words);
        };
        let hook = report.clone();
        let hook = move |problem: &Problem| hook(in_words(problem));
        let config = config.map_exporters(|exporter| {
            let exporter = with_headers(exporter, &destination.headers);
            match patience {
                Some(patience) => exporter.when_full(WhenFull::Block).block_timeout(patience.max(MIN_WAIT)),
                None => exporter,
            }
        });
        let config = config.default_service_name(NAME).on_problem(hook);
        let telemetry = Telemetry::start(config).or_else(|error| {
            broken = Some(error.to_string());
            Telemetry::start(Config::new())
        });
        let telemetry = telemetry.map_err(|error| Failure::Message(error.to_string()))?;
        let is_broken = broken.is_some();
        broken.into_iter().for_each(report);
        Ok(Self { telemetry, trouble, is_broken, is_verbose })
    }

    /// Delivers what there is, within the budget.
    ///
    /// # Errors
    /// What was not delivered, and why.
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
        let trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner).take();
        let trouble = trouble.unwrap_or_else(|| format!("the time is up after {} ms", budget.as_millis()));
        Err(match lost {
            0 => format!("nothing was sent: {trouble}"),
            _ => format!("{} not delivered: {trouble}", describe::count(lost, "record")),
        })
    }
}

/// Whether the variable of otel-cli turns a switch on.
pub(crate) fn is_on(variable: &str) -> bool {
    of_environment(variable).is_some_and(|value| value == "true" || value == "1")
}

/// The value of the variable of otel-cli for an option, if it is valid: a variable is not part of the command line, and never
/// a reason to refuse that.
pub(crate) fn choice<T: ValueEnum>(variable: &str) -> Option<T> {
    of_environment(variable).and_then(|value| T::from_str(&value, false).ok())
}

/// The value of `--header`.
pub(crate) fn header(word: &str) -> Result<(String, String), &'static str> {
    let parts = word.split_once('=').filter(|(name, _)| !name.is_empty());
    parts.map(|(name, value)| (name.to_owned(), value.to_owned())).ok_or("write NAME=VALUE")
}

/// Whether a variable says something; one that cannot be understood counts as not set.
fn is_usable(name: &str, value: &OsStr) -> bool {
    let read = Config::from_variables([(name, value)]);
    !value.is_empty() && read.is_ok_and(|config| config.diagnostics().is_empty())
}

/// The value of `--endpoint`: a mistake in the command line is to be corrected there, and not telemetry that cannot be
/// delivered.
pub(crate) fn endpoint(word: &str) -> Result<String, String> {
    const NAME: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
    let read = Config::from_variables([(NAME, word)]);
    let diagnostics = match &read {
        Ok(config) => config.diagnostics(),
        Err(error) => error.diagnostics(),
    };
    match diagnostics.iter().find(|diagnostic| diagnostic.severity == DiagnosticSeverity::Error) {
        Some(diagnostic) => Err(diagnostic.to_string().replace(&format!("{NAME}: "), "")),
        None => Ok(word.to_owned()),
    }
}

/// Adds the headers of `--header`.
pub(crate) fn with_headers(exporter: Exporter, headers: &[(String, String)]) -> Exporter {
    headers.iter().fold(exporter, |exporter, (name, value)| exporter.header(name, value))
}

/// What is wrong, and what may help.
pub(crate) fn in_words(problem: &Problem) -> String {
    let message = &problem.message;
    let has_path_twice = message.split(' ').any(|word| word.matches("/v1/").count() > 1);
    let is_from_proxy = message.split(|c: char| !c.is_alphanumeric()).any(|word| word == "407");
    let advice = match problem.kind {
        _ if message.ends_with(NOT_TLS) => "; write http:// instead of https://",
        _ if UNRESOLVED.iter().any(|words| message.contains(words)) => {
            "; is the name right? in a container, is it on the same network?"
        }
        ProblemKind::NotTaken if has_path_twice => {
            "; the path is there twice: write the endpoint without it, since it is appended"
        }
        ProblemKind::Unavailable if !is_from_proxy => "; is a collector running? try: standpipe receive",
        _ => "",
    };
    format!("{message}{advice}")
}

pub(crate) fn of_environment(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// A key and its value.
pub(crate) type Attribute = (String, Json);

/// The option for attributes.
#[derive(Debug, Args)]
pub(crate) struct Attributes {
    /// An attribute, as text; KEY:=JSON for a number, true, false or a list. May be given more than once.
    #[arg(short, long = "attr", value_name = "KEY=VALUE", value_parser = parse)]
    attributes: Vec<Attribute>,
}

impl Attributes {
    /// Those of the environment, then those of the options: of a key the last one counts.
    pub(crate) fn all(&self) -> Vec<Attribute> {
        let list = of_environment("OTEL_CLI_ATTRIBUTES").unwrap_or_default();
        parse_list(&list).into_iter().chain(self.attributes.iter().cloned()).collect()
    }
}

/// Reads `KEY=VALUE`, which is text, or `KEY:=JSON`.
///
/// # Errors
/// When it is neither. The message does not repeat the value, which may be a secret.
fn parse(word: &str) -> Result<Attribute, String> {
    let Some((key, value)) = word.split_once('=').filter(|(key, _)| !matches!(*key, "" | ":")) else {
        return Err("write KEY=VALUE, or KEY:=JSON for a number".to_owned());
    };
    match key.strip_suffix(':') {
        None => Ok((key.to_owned(), value.into())),
        Some(key) => serde_json::from_str(value).map(|value| (key.to_owned(), value)).map_err(|_| {
            format!("the value of {key} is not JSON, as 42, 1.5 or true; for text write {key}=VALUE")
        }),
    }
}

/// Reads `k=v,k=v`, the form of `OTEL_CLI_ATTRIBUTES`; a part that is no attribute is left out.
fn parse_list(list: &str) -> Vec<Attribute> {
    list.split(',').filter_map(|part| parse(part).ok()).collect()
}

/// Attributes of which each is a [scalar]: lists and objects become JSON text.
pub(crate) fn flat(attributes: Vec<Attribute>) -> Vec<Attribute> {
    let flat =
        |value: Json| if value.is_array() || value.is_object() { value.to_string().into() } else { value };
    attributes.into_iter().map(|(key, value)| (key, flat(value))).collect()
}

/// The value of what is neither a list nor an object nor null.
pub(crate) fn scalar(json: &Json) -> Option<Value<'_>> {
    match json {
        Json::Bool(value) => Some(Value::Bool(*value)),
        Json::String(value) => Some(Value::Str(value)),
        Json::Number(number) => match number.as_i64() {
            Some(value) => Some(Value::Int(value)),
            None => number.as_f64().map(Value::Float),
        },
        Json::Null | Json::Array(_) | Json::Object(_) => None,
    }
}

/// A JSON value as an attribute has it. Lists of one type stay lists; what is nested or mixed becomes JSON text. Null is no
/// attribute.
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
