//! The telemetry of one command: where it goes, by variables and options, and whether it got there.

use std::env;
use std::ffi::{OsStr, OsString};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use standpipe::config::DiagnosticSeverity;
use standpipe::{Config, Problem, ProblemKind, SpanKind, Telemetry, WhenFull};

use super::attribute::{self, Attribute};
use super::caller::Caller;
use super::given::Given;
use super::help::Topic;
use super::{Failure, arguments, describe, report_error, text};

/// The name of the service, and of the scope, where none is set.
pub(crate) const NAME: &str = "standpipe";
/// A wait of no time is none that an exporter can be set to.
const SHORTEST: Duration = Duration::from_millis(1);
/// Service of this program's commands. `exec --service` sets it for nested commands, and it wins over OTEL_SERVICE_NAME,
/// which a whole environment may share.
pub(crate) const SERVICE_NAME: &str = "OTEL_CLI_SERVICE_NAME";
/// File that `span start` writes its context to, and that the other commands read theirs from.
pub(crate) const CARRIER_FILE: &str = "OTEL_CLI_CARRIER_FILE";
const EXPORTERS: [&str; 3] = ["OTEL_TRACES_EXPORTER", "OTEL_LOGS_EXPORTER", "OTEL_METRICS_EXPORTER"];
const SIGNALS: [&str; 4] = ["", "TRACES_", "LOGS_", "METRICS_"];

/// How the library says that the server has no TLS.
const NOT_TLS: &str = "the server does not speak TLS";
/// How the standard library, ureq and Windows say that no address was found for a name.
const UNRESOLVED: [&str; 3] = ["failed to lookup address", "host not found", "No such host"];

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
    /// Starts what the environment describes, where the options do not say otherwise; `presets` are for variables that are
    /// not set. Where a queue is full, callers wait for `patience`; without any, records are dropped. A configuration that
    /// cannot be used is trouble to report in the end, not an error.
    ///
    /// # Errors
    /// When an option cannot be used.
    pub(crate) fn start(
        given: &Given,
        presets: &[(&str, &str)],
        patience: Option<Duration>,
    ) -> Result<Self, Failure> {
        let is_verbose = is_verbose(given);
        let headers = headers(given).map_err(Failure::Usage)?;
        let variables = variables(given, presets).map_err(Failure::Usage)?;
        let (config, mut broken) = usable(Config::from_variables(variables));
        let trouble = Arc::new(Mutex::new(None));
        let latest = Arc::clone(&trouble);
        let hook = move |problem: &Problem| {
            let words = in_words(problem);
            if is_verbose {
                report_error(&words);
            }
            *latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(words);
        };
        let add =
            |exporter, (name, value): &(String, String)| standpipe::Exporter::header(exporter, name, value);
        let config = config
            .map_exporters(|exporter| {
                let exporter = headers.iter().fold(exporter, add);
                match patience {
                    Some(patience) => {
                        exporter.when_full(WhenFull::Block).block_timeout(patience.max(SHORTEST))
                    }
                    None => exporter,
                }
            })
            .default_service_name(NAME)
            .on_problem(hook);
        let telemetry = Telemetry::start(config).or_else(|error| {
            broken = Some(error.to_string());
            Telemetry::start(Config::new())
        });
        let telemetry = telemetry.map_err(|error| Failure::Message(error.to_string()))?;
        if let Some(broken) = &broken {
            if is_verbose {
                report_error(broken);
            }
            *trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some(broken.clone());
        }
        Ok(Self { telemetry, trouble, is_broken: broken.is_some(), is_verbose })
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

/// What an option says, or else the variable of otel-cli that is the same, if its value is valid: a variable is no part of the
/// command line, and never a reason to refuse that.
pub(crate) fn value_or(
    given: &Given,
    option: &str,
    variable: &str,
    is_valid: impl Fn(&str) -> bool,
) -> Result<Option<String>, String> {
    let of_option = given.value(option)?.map(str::to_owned);
    Ok(of_option.or_else(|| of_environment(variable).filter(|value| is_valid(value))))
}

/// Whether a switch is on, by its option or by the variable of otel-cli.
pub(crate) fn is_on(given: &Given, option: &str, variable: &str) -> bool {
    given.has(option) || of_environment(variable).is_some_and(|value| value == "true" || value == "1")
}

pub(crate) fn is_verbose(given: &Given) -> bool {
    is_on(given, "--verbose", "OTEL_CLI_VERBOSE")
}

/// Those of the environment, then those of the options: of a key the last one counts.
pub(crate) fn attributes(given: &Given) -> Result<Vec<Attribute>, String> {
    let list = of_environment("OTEL_CLI_ATTRIBUTES").unwrap_or_default();
    let mut attributes = attribute::parse_list(&list);
    for word in given.values("--attr")? {
        attributes.push(attribute::parse(word)?);
    }
    Ok(attributes)
}

/// How long may it take to deliver?
pub(crate) fn budget(given: &Given, default: Duration) -> Result<Duration, String> {
    let Some(word) = given.value("--timeout")? else { return Ok(default) };
    text::duration(word).ok_or_else(|| format!("--timeout {word:?}: write a time, as 500ms or 2s"))
}

/// The span that this command was started in; what cannot be read of it is reported on request.
pub(crate) fn caller(given: &Given) -> Result<Caller, String> {
    let parent = value_or(given, "--parent", CARRIER_FILE, |_| true)?;
    let caller = parent.map_or_else(Caller::of_process, |parent| Caller::of(&parent));
    if is_verbose(given) {
        caller.complaints.iter().for_each(|complaint| report_error(complaint));
    }
    Ok(caller)
}

pub(crate) fn kind(word: &str) -> Result<SpanKind, String> {
    match word {
        "internal" => Ok(SpanKind::Internal),
        "server" => Ok(SpanKind::Server),
        "client" => Ok(SpanKind::Client),
        "producer" => Ok(SpanKind::Producer),
        "consumer" => Ok(SpanKind::Consumer),
        _ => Err(format!("kind {word:?}: write internal, server, client, producer or consumer")),
    }
}

fn headers(given: &Given) -> Result<Vec<(String, String)>, String> {
    let headers = given.values("--header")?.into_iter().map(arguments::header);
    headers.collect::<Result<_, _>>().map_err(|error| error.to_string())
}

/// The variables of the process, where the options do not say otherwise.
fn variables(given: &Given, presets: &[(&str, &str)]) -> Result<Vec<(String, OsString)>, String> {
    let mut variables: Vec<(String, OsString)> =
        env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value))).collect();
    let mut replace = |end: &str, value: &str| {
        let names = SIGNALS.map(|signal| format!("OTEL_EXPORTER_OTLP_{signal}{end}"));
        variables.retain(|(name, _)| !names.contains(name));
        variables.push((names[0].clone(), value.into()));
    };
    if let Some(endpoint) = given.value("--endpoint")? {
        check_endpoint(endpoint)?;
        replace("ENDPOINT", endpoint);
    }
    if given.has("--grpc") {
        replace("PROTOCOL", "grpc");
    }
    if given.topic == Topic::Exec {
        // standard output is the command's
        for (_, value) in variables.iter_mut().filter(|(name, _)| EXPORTERS.contains(&name.as_str())) {
            let chosen = value.to_string_lossy().into_owned();
            let others: Vec<&str> =
                chosen.split(',').filter(|exporter| exporter.trim() != "console").collect();
            let is_only = others.is_empty() && !chosen.is_empty();
            *value = if is_only { "none".into() } else { others.join(",").into() };
        }
    }
    if let Some(service) = value_or(given, "--service", SERVICE_NAME, |_| true)? {
        variables.retain(|(name, _)| name != "OTEL_SERVICE_NAME");
        variables.push(("OTEL_SERVICE_NAME".to_owned(), service.into()));
    }
    for (preset, value) in presets {
        if !variables.iter().any(|(name, value)| name == preset && is_usable(name, value)) {
            variables.retain(|(name, _)| name != preset);
            variables.push(((*preset).to_owned(), value.into()));
        }
    }
    Ok(variables)
}

/// Whether a variable says something; one that cannot be understood counts as not set.
fn is_usable(name: &str, value: &OsStr) -> bool {
    let read = Config::from_variables([(name, value)]);
    !value.is_empty() && read.is_ok_and(|config| config.diagnostics().is_empty())
}

/// Of the command line, where a slip is to be mended, and not telemetry that cannot be delivered.
pub(crate) fn check_endpoint(endpoint: &str) -> Result<(), String> {
    const NAME: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
    let read = Config::from_variables([(NAME, endpoint)]);
    let diagnostics = match &read {
        Ok(config) => config.diagnostics(),
        Err(error) => error.diagnostics(),
    };
    match diagnostics.iter().find(|diagnostic| diagnostic.severity == DiagnosticSeverity::Error) {
        Some(diagnostic) => Err(diagnostic.to_string().replace(NAME, "--endpoint")),
        None => Ok(()),
    }
}

fn usable(read: Result<Config, standpipe::ConfigError>) -> (Config, Option<String>) {
    match read {
        Ok(config) => (config, None),
        Err(error) => {
            let words = error.to_string();
            (error.into_usable(), Some(words))
        }
    }
}

/// What is wrong, and what may help.
pub(crate) fn in_words(problem: &Problem) -> String {
    let message = &problem.message;
    let has_path_twice = message.split(' ').any(|word| word.matches("/v1/").count() > 1);
    let advice = match problem.kind {
        _ if message.ends_with(NOT_TLS) => "; write http:// instead of https://",
        _ if UNRESOLVED.iter().any(|words| message.contains(words)) => {
            "; is the name right? in a container, is it on the same network?"
        }
        ProblemKind::NotTaken if has_path_twice => {
            "; the path is there twice: write the endpoint without it, since it is appended"
        }
        ProblemKind::Unavailable => "; is a collector running? try: standpipe receive",
        _ => "",
    };
    format!("{message}{advice}")
}

pub(crate) fn of_environment(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}
