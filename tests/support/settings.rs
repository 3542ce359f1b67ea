//! Helpers that inspect configurations.

use std::sync::mpsc;
use std::time::Duration;

use standpipe::{Config, ConfigError, Exporter, Problem, Telemetry};

/// A valid tracer, with additional keys.
pub(crate) fn tracer(keys: &str) -> String {
    format!("[tracer.otel]\ntype = \"otel\"\ntransport = \"http\"\n{keys}\n")
}

/// A setting of the first exporter.
pub(crate) fn value(config: &Config, key: &str) -> String {
    let settings = config.exporters()[0].effective();
    settings.into_iter().find(|setting| setting.key == key).map(|setting| setting.value).expect(key)
}

pub(crate) fn diagnostics(config: &Config) -> Vec<String> {
    config.diagnostics().iter().map(ToString::to_string).collect()
}

pub(crate) fn names(config: &Config) -> Vec<&str> {
    config.exporters().iter().map(Exporter::name).collect()
}

pub(crate) fn refused(text: &str) -> ConfigError {
    Config::from_toml_str(text).expect_err(text)
}

/// Returns the problems that the hook receives before `start` returns.
pub(crate) fn problems_of_start(config: Config) -> Vec<Problem> {
    let (report, reported) = mpsc::channel();
    let hook = move |problem: &Problem| report.send(problem.clone()).expect("the test is there");
    let telemetry = Telemetry::start(config.on_problem(hook)).expect("telemetry starts");
    let problems = reported.try_iter().collect();
    telemetry.shutdown(Duration::ZERO);
    problems
}
