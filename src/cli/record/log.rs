//! `standpipe log`: sends log records.

use std::ffi::OsStr;
use std::process::ExitCode;
use std::time::SystemTime;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, Args, Command};
use serde_json::{Map, Value as Json};
use standpipe::{Logger, Severity, SpanContext};

use super::{STDIN, deliver, each_line, time, with_own};
use crate::cli::Failure;
use crate::cli::sender::{self, AsValue, Attribute, Attributes, Destination, Parent};

/// Sends a log record, or the lines of standard input.
///
/// Sends a log record. Its body is BODY, the words joined by spaces. The record belongs to the span in TRACEPARENT, if
/// it is set.
///
/// With - each line of standard input is a record. A line that is a JSON object may have the keys body (or message, or
/// msg), level (or severity), time (or timestamp, or ts), event, traceparent and attributes (an object). Every other
/// key becomes an attribute, and so does a key with an invalid value, so that the output of most loggers can be sent
/// unchanged. An unknown level becomes the severity text. Any other line is the body itself. Empty lines are left out;
/// lines of more than 4 MiB are reported. The options are defaults for values that a line does not have. If the queue
/// is full, reading waits. Ctrl-C and SIGTERM end the input: the records read so far are delivered; a second signal
/// ends the command at once.
#[derive(Debug, Args)]
#[command(after_help = include_str!("../help/log.txt").trim_ascii_end())]
pub(crate) struct LogOptions {
    /// The words of the record's body, or - for standard input.
    #[arg(required = true, allow_negative_numbers = true)]
    body: Vec<String>,
    /// The severity: a name, optionally followed by 2, 3 or 4 (as in warn2), or a number from 1 to 24; the default is
    /// info.
    #[arg(short, long, value_parser = LevelParser)]
    level: Option<Severity>,
    #[command(flatten)]
    attributes: Attributes,
    /// The name of the event that the record describes.
    #[arg(long, value_name = "NAME")]
    event: Option<String>,
    /// The time of the record: 2026-11-17T14:00:00.5Z or with an offset; a number since 1970 in seconds, milliseconds,
    /// microseconds or nanoseconds, recognized by its length; -5s or -250ms, relative to now. The default is now.
    #[arg(long, allow_hyphen_values = true, value_parser = time::parse_now)]
    time: Option<SystemTime>,
    #[command(flatten)]
    destination: Destination,
    #[command(flatten)]
    parent: Parent,
}

/// Parses names and numbers of severities. The help and the completions list the six common names.
#[derive(Clone)]
pub(crate) struct LevelParser;

impl TypedValueParser for LevelParser {
    type Value = Severity;

    fn parse_ref(&self, of: &Command, option: Option<&Arg>, value: &OsStr) -> Result<Severity, clap::Error> {
        let level = |word: &str| {
            let numbered = word.parse().ok().and_then(Severity::from_number);
            numbered.map_or_else(|| severity(word), Ok)
        };
        TypedValueParser::parse_ref(&level, of, option, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(LEVELS.iter().map(PossibleValue::new)))
    }
}

/// The values of a record that is not emitted yet.
#[derive(Clone)]
struct Draft {
    severity: Severity,
    /// Text of an unknown level.
    level: Option<String>,
    body: Json,
    event: Option<String>,
    /// Time of the record; `None` means the current time.
    time: Option<SystemTime>,
    attributes: Vec<Attribute>,
    context: Option<SpanContext>,
}

pub(crate) fn run(options: &LogOptions) -> Result<ExitCode, Failure> {
    let mut draft = Draft {
        severity: options.level.unwrap_or(Severity::Info),
        level: None,
        body: Json::Null,
        event: options.event.clone(),
        time: options.time,
        attributes: options.attributes.all(),
        context: options.parent.caller(options.destination.is_verbose()).context,
    };
    // By default, exporters drop records below info.
    deliver(&options.destination, &[("OTEL_LOGS_LEVEL", "trace")], |telemetry| {
        let logger = telemetry.logger(sender::scope());
        if options.body == [STDIN] {
            return each_line(|line| {
                draft.of_line(line).emit(&logger);
                Ok(())
            });
        }
        draft.body = options.body.join(" ").into();
        draft.emit(&logger);
        Ok(true)
    })
}

impl Draft {
    /// Returns a copy of this draft with the values of a line. An invalid level becomes the severity text. Any other
    /// invalid value becomes an attribute. A line that is not a JSON object is the body.
    fn of_line(&self, line: &str) -> Self {
        let Ok(mut fields) = serde_json::from_str::<Map<String, Json>>(line) else {
            return Self { body: line.into(), ..self.clone() };
        };
        let (mut own, mut draft) = (Map::new(), self.clone());
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
        draft.event = take(&["event"]).as_ref().map(as_text).or(draft.event);
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

pub(super) fn as_text(json: &Json) -> String {
    json.as_str().map_or_else(|| json.to_string(), str::to_owned)
}

const LEVELS: [&str; 6] = ["trace", "debug", "info", "warn", "error", "fatal"];
/// OpenTelemetry's level names, and the names that other loggers use for them.
const ALIASES: [(&str, &[&str]); 5] = [
    ("info", &["information"]),
    ("info2", &["notice"]),
    ("warn", &["warning"]),
    ("error", &["err"]),
    ("fatal", &["critical", "crit", "panic", "emerg", "alert"]),
];

/// Parses the name of a severity.
pub(crate) fn severity(word: &str) -> Result<Severity, String> {
    let is_word = |alias: &&str| word.eq_ignore_ascii_case(alias);
    let alias = ALIASES.iter().find(|(_, aliases)| aliases.iter().any(is_word));
    let name = alias.map_or(word, |(name, _)| name);
    let known =
        (1..=24).filter_map(Severity::from_number).find(|known| known.name().eq_ignore_ascii_case(name));
    known.ok_or_else(|| format!("write {}", LEVELS.join(", ")))
}

/// Reads a level from JSON: a name, or a number as the loggers bunyan and pino write it, from 10 (trace) to 60 (fatal).
fn severity_of(level: &Json) -> Result<Severity, String> {
    let place = level.as_u64().and_then(|number| (1..=6).find(|place| u64::from(place * 10) == number));
    // OpenTelemetry has four severities for each name: trace is 1 to 4, debug is 5 to 8.
    let numbered = place.and_then(|place: u8| Severity::from_number(4 * place - 3));
    numbered.map_or_else(|| severity(&as_text(level)), Ok)
}
