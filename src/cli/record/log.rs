//! `standpipe log`: log records.

use std::process::ExitCode;
use std::time::SystemTime;

use serde_json::{Map, Value as Json};
use standpipe::{Logger, Severity, SpanContext};

use super::super::Failure;
use super::super::attribute::{AsValue, Attribute};
use super::super::given::Given;
use super::super::sender::{self, NAME};
use super::{STDIN, each_line, finish, start, time, with_own};

/// A record before it is made.
#[derive(Clone)]
struct Draft {
    severity: Severity,
    /// A level that is not known.
    level: Option<String>,
    body: Json,
    event: Option<String>,
    /// Now if it is not known.
    time: Option<SystemTime>,
    attributes: Vec<Attribute>,
    context: Option<SpanContext>,
}

pub(super) fn run(given: &Given) -> Result<ExitCode, Failure> {
    let words = given.words().map_err(Failure::Usage)?;
    let mut draft = Draft::of_options(given).map_err(Failure::Usage)?;
    if words.is_empty() {
        return Err(Failure::Usage("log needs a BODY, or - for standard input".to_owned()));
    }
    // an exporter leaves out what is less than info, unless the environment says otherwise
    let (sender, budget) = start(given, &[("OTEL_LOGS_LEVEL", "trace")])?;
    let logger = sender.telemetry.logger_with_version(NAME, env!("CARGO_PKG_VERSION"));
    let is_whole = match words[..] {
        [STDIN] => each_line(|line| {
            draft.of_line(line).emit(&logger);
            Ok(())
        })?,
        _ => {
            draft.body = words.join(" ").into();
            draft.emit(&logger);
            true
        }
    };
    finish(sender, budget, is_whole)
}

impl Draft {
    fn of_options(given: &Given) -> Result<Self, String> {
        let when = given.value("--time")?.map(|word| time::parse(word, SystemTime::now())).transpose()?;
        Ok(Self {
            severity: given.value("--level")?.map_or(Ok(Severity::Info), severity)?,
            level: None,
            body: Json::Null,
            event: given.value("--event")?.map(str::to_owned),
            time: when,
            attributes: sender::attributes(given)?,
            context: sender::caller(given)?.context,
        })
    }

    /// The record of a line: this one, but for what the line says. What cannot be used as it is meant becomes an attribute.
    fn of_line(&self, line: &str) -> Self {
        let Ok(mut fields) = serde_json::from_str::<Map<String, Json>>(line) else {
            return Self { body: line.into(), ..self.clone() };
        };
        let mut own = Map::new();
        let mut draft = self.clone();
        let mut take = |names: &[&str]| names.iter().find_map(|name| fields.remove(*name));
        draft.body = take(&["body", "message", "msg"]).unwrap_or(Json::Null);
        if let Some(level) = take(&["level", "severity"]) {
            match severity_of(&level) {
                Ok(severity) => draft.severity = severity,
                Err(_) => draft.level = Some(as_text(&level)),
            }
        }
        if let Some(moment) = take(&["time", "timestamp", "ts"]) {
            match time::of_json(&moment, SystemTime::now()) {
                Ok(moment) => draft.time = Some(moment),
                Err(_) => drop(own.insert("time".to_owned(), moment)),
            }
        }
        if let Some(event) = take(&["event"]) {
            draft.event = Some(as_text(&event));
        }
        if let Some(parent) = take(&["traceparent"]) {
            match SpanContext::from_traceparent(parent.as_str().unwrap_or_default()) {
                Ok(context) => draft.context = Some(context),
                Err(_) => drop(own.insert("traceparent".to_owned(), parent)),
            }
        }
        match take(&["attributes"]) {
            Some(Json::Object(attributes)) => own.extend(attributes),
            Some(other) => drop(own.insert("attributes".to_owned(), other)),
            None => {}
        }
        own.extend(fields);
        draft.attributes = with_own(&self.attributes, own);
        draft
    }

    fn emit(&self, logger: &Logger) {
        let mut log = logger.record(self.severity, AsValue(&self.body));
        for (key, value) in &self.attributes {
            log.set_in_place(key, AsValue(value));
        }
        if let Some(event) = &self.event {
            log = log.event_name(event);
        }
        if let Some(level) = &self.level {
            log = log.severity_text(level);
        }
        if let Some(time) = self.time {
            log = log.time(time);
        }
        match &self.context {
            Some(context) => log.context(context).emit(),
            None => log.without_context().emit(),
        }
    }
}

fn as_text(json: &Json) -> String {
    json.as_str().map_or_else(|| json.to_string(), str::to_owned)
}

/// A level by its name, as OpenTelemetry and as other loggers have it.
fn severity(word: &str) -> Result<Severity, String> {
    let lower = word.to_ascii_lowercase();
    let name = match lower.as_str() {
        "warning" => "warn",
        "err" => "error",
        "critical" | "crit" | "panic" | "emerg" | "alert" => "fatal",
        "notice" => "info2",
        "information" => "info",
        other => other,
    };
    let known =
        (1..=24).filter_map(Severity::from_number).find(|known| known.name().eq_ignore_ascii_case(name));
    known.ok_or_else(|| format!("level {word:?}: write trace, debug, info, warn, error or fatal"))
}

/// Of JSON: a name, or a number as bunyan and pino have it.
fn severity_of(level: &Json) -> Result<Severity, String> {
    const NUMBERS: [(i64, Severity); 6] = [
        (10, Severity::Trace),
        (20, Severity::Debug),
        (30, Severity::Info),
        (40, Severity::Warn),
        (50, Severity::Error),
        (60, Severity::Fatal),
    ];
    let of_number =
        |number| NUMBERS.iter().find(|(known, _)| *known == number).map(|(_, severity)| *severity);
    match level.as_i64().and_then(of_number) {
        Some(severity) => Ok(severity),
        None => severity(&as_text(level)),
    }
}
