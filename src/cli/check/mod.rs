//! `standpipe check`: shows the effective configuration and its problems, and probes the collectors.

mod examine;
mod probed;
mod report;

use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;

use clap::Args;
use serde::Serialize;
use standpipe::Exporter;
use standpipe::config::{Diagnostic, DiagnosticSeverity, ExporterSummary};
use standpipe::probe::EndpointReport;

use self::examine::{Examined, examine};
use self::probed::Totals;
use super::style::Style;
use super::terminal::Progress;
use super::{Failure, UNUSABLE, print, report_error, text};
use standpipe::shared::{shows_itself, to_declarative};

/// Name of standard input in messages.
const STDIN: &str = "<stdin>";
/// Maximum number of exporters that are probed in parallel, with a thread for each.
const MAX_PARALLEL_PROBES: usize = 32;

/// Shows the effective configuration and its problems, and probes the collector.
///
/// Reads a configuration file, or OpenTelemetry's environment variables. For each exporter, shows the endpoint of each
/// signal, and the value and origin of every setting that is not at its default. Then shows every problem with its
/// line and a remedy. Finally, probes each endpoint with a request without telemetry, and shows the result of each
/// stage. The values of headers are never shown.
///
/// A file whose name ends in .yaml or .yml is read as YAML, any other file as TOML. With - the configuration is read
/// from standard input, as TOML or YAML, and its relative paths start at the working directory.
#[derive(Debug, Args)]
#[command(after_help = include_str!("../help/check.txt").trim_ascii_end())]
pub(crate) struct Options {
    /// The configuration file, or - for standard input.
    #[arg(required_unless_present = "env", conflicts_with = "env")]
    file: Option<PathBuf>,
    /// Check the environment instead of a file.
    #[arg(long)]
    env: bool,
    /// Also show the settings that have their default values, instead of only their number.
    #[arg(long)]
    all: bool,
    /// Do not probe the endpoints.
    #[arg(long)]
    offline: bool,
    /// Print one JSON object instead: exporters, warnings and errors.
    #[arg(long)]
    json: bool,
    /// Print the configuration in another format instead: otel, OpenTelemetry's declarative configuration.
    #[arg(long, value_name = "FORMAT", value_parser = ["otel"], conflicts_with_all = ["all", "offline", "json"])]
    to: Option<String>,
}

/// Source of the configuration to check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Subject {
    File(PathBuf),
    Stdin,
    /// OpenTelemetry's variables in the environment of this process.
    Environment,
}

impl Subject {
    fn name(&self) -> String {
        match self {
            Self::File(file) => file.display().to_string(),
            Self::Stdin => STDIN.to_owned(),
            Self::Environment => "environment".to_owned(),
        }
    }
}

/// Checks the subject and prints the result.
pub(crate) fn run(options: &Options, style: &Style) -> Result<ExitCode, Failure> {
    let subject = match &options.file {
        None => Subject::Environment,
        Some(file) if file.as_os_str() == "-" => Subject::Stdin,
        Some(file) => Subject::File(file.clone()),
    };
    if options.to.is_some() {
        return convert(&subject);
    }
    let examined = match examine(&subject) {
        Ok(examined) => examined,
        Err(diagnostics) => {
            if options.json {
                show(&[document(Vec::new(), &diagnostics, &[])])?;
            } else {
                let reason = |found: &Diagnostic| format!("{}; {}", found.what, found.fix);
                let reasons: Vec<String> = diagnostics.iter().map(reason).collect();
                let message = format!("{}: {}", subject.name(), reasons.join("; "));
                report_error(&text::printable(&message, style.charset));
            }
            return Ok(ExitCode::from(UNUSABLE));
        }
    };
    let has_failed = match options.json {
        false => draw(options, &subject, &examined, style)?,
        true => write_json(options, &examined, style)?,
    };
    Ok(if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Prints a configuration in OpenTelemetry's declarative format, unless it has errors or is in this format already.
/// Reports the problems of the configuration, and everything that the format cannot express, on standard error.
fn convert(subject: &Subject) -> Result<ExitCode, Failure> {
    let (text, diagnostics, code) = match examine::read(subject, &mut Vec::new()) {
        Ok(config) => {
            let (text, found) = to_declarative(&config);
            (text, [config.diagnostics(), &found].concat(), 1)
        }
        Err(error) => {
            let code = if error.is_unreadable() { UNUSABLE } else { 1 };
            (String::new(), error.diagnostics().to_vec(), code)
        }
    };
    diagnostics.iter().for_each(|diagnostic| report_error(&diagnostic.to_string()));
    if text.is_empty() {
        return Ok(ExitCode::from(code));
    }
    show(&[text.trim_end()])?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the result as text. Each part is printed as soon as it is known, because a collector may take seconds to
/// answer.
///
/// Returns whether there is an error.
fn draw(options: &Options, subject: &Subject, examined: &Examined, style: &Style) -> Result<bool, Failure> {
    show(&report::draw(subject, examined, options.all, style))?;
    let mut probed = Vec::new();
    probe_all(options, examined, style, |exporter, results| {
        for result in &results {
            show(&probed::draw(result, exporter, style))?;
        }
        probed.push(results);
        Ok(())
    })?;
    let totals = Totals::new(examined, &probed);
    show(&[totals.draw(&subject.name(), style)])?;
    Ok(totals.has_failed())
}

/// Prints the result as JSON. Returns whether there is an error.
fn write_json(options: &Options, examined: &Examined, style: &Style) -> Result<bool, Failure> {
    let mut failures = Vec::new();
    probe_all(options, examined, style, |exporter, results| {
        failures.extend(results.iter().filter_map(|endpoint| probed::failure(endpoint, exporter)));
        Ok(())
    })?;
    let summaries = examined.exporters.iter().map(|(_, summary)| summary.clone()).collect();
    show(&[document(summaries, &examined.diagnostics, &failures)])?;
    Ok(!failures.is_empty() || examined.count(DiagnosticSeverity::Error) > 0)
}

/// Probes the exporters in parallel, and passes the results to `on_results` in order. With `--offline`, does nothing.
fn probe_all(
    options: &Options,
    examined: &Examined,
    style: &Style,
    mut on_results: impl FnMut(&Exporter, Vec<EndpointReport>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    if options.offline {
        return Ok(());
    }
    for exporters in examined.exporters.chunks(MAX_PARALLEL_PROBES) {
        thread::scope(|scope| {
            let probed: Vec<_> = exporters
                .iter()
                .map(|(exporter, summary)| scope.spawn(move || probed::probe(exporter, summary)))
                .collect();
            for (probed, (exporter, summary)) in probed.into_iter().zip(exporters) {
                let mut waiting = Progress::new(style);
                if !options.json && io::stdout().is_terminal() {
                    waiting.say(&message(&summary.endpoints, style));
                }
                let results = probed.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                waiting.clear();
                on_results(exporter, results)?;
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Prints lines. A closed pipe is not an error, so that the exit code depends on the configuration alone.
fn show(lines: &[impl AsRef<str>]) -> Result<(), Failure> {
    match print(lines) {
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        printed => printed,
    }
}

fn message(endpoints: &BTreeMap<&str, String>, style: &Style) -> String {
    let mut urls: Vec<&str> = endpoints.values().map(String::as_str).collect();
    urls.sort_unstable();
    urls.dedup();
    let ellipsis = style.glyph("…");
    let message = format!("probing {} {ellipsis}", urls.join(", "));
    // The line is erased later, and a line that wraps cannot be erased.
    text::cut(&text::printable(&message, style.charset), style.width - 1, ellipsis).into_owned()
}

#[derive(Serialize)]
struct Document {
    exporters: Vec<ExporterSummary>,
    warnings: Vec<String>,
    errors: Vec<String>,
}

/// Returns the JSON object of `--json`. Notes are left out, because they require no action.
fn document(exporters: Vec<ExporterSummary>, diagnostics: &[Diagnostic], failures: &[String]) -> String {
    let texts = |severity| {
        let of_it = diagnostics.iter().filter(|diagnostic| diagnostic.severity == severity).cloned();
        // `Display` puts the severity before each diagnostic that is not an error. The name of the list already states
        // the severity, so each diagnostic is formatted as an error.
        let shown = |mut it: Diagnostic| {
            it.severity = DiagnosticSeverity::Error;
            it.to_string()
        };
        of_it.map(shown).collect::<Vec<_>>()
    };
    let mut errors = texts(DiagnosticSeverity::Error);
    errors.extend_from_slice(failures);
    let document = Document { exporters, warnings: texts(DiagnosticSeverity::Warning), errors };
    // Strings, numbers and lists can always be serialized.
    let written = serde_json::to_string_pretty(&document).unwrap_or_default();
    // serde_json leaves invisible and control characters in the text. A terminal could interpret them.
    let escape = |c: char| match c == '\n' || shows_itself(c) {
        true => c.to_string(),
        false => c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect(),
    };
    written.chars().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use standpipe::{Config, Signal};

    use super::super::style::plain_style;
    use super::*;

    #[test]
    fn the_message_names_every_endpoint_once_and_never_wraps() {
        let endpoints = BTreeMap::from([
            ("logs", "http://a/v1/all".to_owned()),
            ("metrics", "http://b\x1b[2J".to_owned()),
            ("traces", "http://a/v1/all".to_owned()),
        ]);
        assert_eq!(message(&endpoints, &plain_style(80)), "probing http://a/v1/all, http://b\\u{1b}[2J …");
        assert_eq!(text::width(&message(&endpoints, &plain_style(44))), 43);
    }

    #[test]
    fn the_form_is_the_documented_one() {
        let exporter = Exporter::http("https://collector.example:4318")
            .header("Authorization", "Bearer hunter2")
            .signals([Signal::Traces]);
        let config = Config::new().service_name("shop").exporter(exporter);
        let written = document(config.summaries(), &[], &["it is down".to_owned()]);
        let expected = r#"{
  "exporters": [
    {
      "id": "otlp",
      "signals": [
        "traces"
      ],
      "transport": "http",
      "endpoints": {
        "traces": "https://collector.example:4318/v1/traces"
      },
      "tls": true,
      "headers": [
        "authorization"
      ],
      "level": "trace",
      "throttle_ms": 1000,
      "lossy": false,
      "timeout_ms": 10000,
      "interval_ms": null,
      "service_name": "shop",
      "sampling": 100.0,
      "route": null
    }
  ],
  "warnings": [],
  "errors": [
    "it is down"
  ]
}"#;
        assert_eq!(written, expected);
    }
}
