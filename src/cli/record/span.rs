//! `standpipe span`: whole spans, and spans that go on in a file.

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};
use standpipe::{SpanContext, SpanKind, Status, Tracer};

use super::super::Failure;
use super::super::attribute::{AsValue, Attribute};
use super::super::caller;
use super::super::given::Given;
use super::super::sender::{self, NAME, Sender};
use super::super::text;
use super::span_file::{self, SpanFile};
use super::{STDIN, each_line, finish, from_line, start, time, with_own};

/// A span as JSON: a line of standard input, and the line of a span file.
#[derive(Deserialize, Serialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct SpanLine {
    pub(super) name: String,
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub(super) start: Json,
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub(super) end: Json,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<String>,
    #[serde(default)]
    pub(super) attributes: Map<String, Json>,
    #[serde(default)]
    pub(super) events: Vec<EventLine>,
    /// The parent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) traceparent: Option<String>,
}

/// An event of a span as JSON.
#[derive(Deserialize, Serialize, Clone)]
#[serde(deny_unknown_fields)]
pub(super) struct EventLine {
    pub(super) name: String,
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub(super) time: Json,
    #[serde(default)]
    pub(super) attributes: Map<String, Json>,
}

impl EventLine {
    /// The same at this time, unless it has one.
    fn timed(mut self, now: SystemTime) -> Self {
        if self.time.is_null() {
            self.time = nanos(now);
        }
        self
    }
}

/// What the options say.
struct Options {
    start: Option<SystemTime>,
    end: Option<SystemTime>,
    kind: Option<String>,
    status: Option<String>,
    message: Option<String>,
    attributes: Vec<Attribute>,
    events: Vec<EventLine>,
    parent: Option<SpanContext>,
}

impl Options {
    fn new(given: &Given) -> Result<Self, String> {
        let now = SystemTime::now();
        let moment = |option| given.value(option)?.map(|word| time::parse(word, now)).transpose();
        let kind =
            sender::value_or(given, "--kind", "OTEL_CLI_TRACE_KIND", |word| sender::kind(word).is_ok())?;
        let status = sender::value_or(given, "--status", "OTEL_CLI_STATUS_CODE", |word| {
            matches!(word, "ok" | "error")
        })?;
        let options = Self {
            start: moment("--start")?,
            end: moment("--end")?,
            kind,
            status,
            message: sender::value_or(given, "--message", "OTEL_CLI_STATUS_DESCRIPTION", |_| true)?,
            attributes: sender::attributes(given)?,
            events: given.values("--event")?.into_iter().map(|word| event(word, now)).collect(),
            parent: sender::caller(given)?.context,
        };
        options.kind.as_deref().map(sender::kind).transpose()?;
        status_of(options.status.as_deref(), "")?;
        if given.has("--message") && options.status.as_deref() != Some("error") {
            return Err("--message is for --status error".to_owned());
        }
        Ok(options)
    }

    /// The line of a span that begins with these options and goes on.
    fn into_line(self, name: &str) -> SpanLine {
        let now = SystemTime::now();
        let is_error = self.status.as_deref() == Some("error");
        SpanLine {
            name: name.to_owned(),
            start: nanos(self.start.unwrap_or(now)),
            end: Json::Null,
            kind: self.kind,
            status: self.status,
            message: self.message.filter(|_| is_error),
            attributes: self.attributes.into_iter().collect(),
            events: self.events.into_iter().map(|event| event.timed(now)).collect(),
            traceparent: self.parent.map(|parent| parent.traceparent()),
        }
    }
}

pub(super) fn run(given: &Given) -> Result<ExitCode, Failure> {
    let words = given.words().map_err(Failure::Usage)?;
    let options = Options::new(given).map_err(Failure::Usage)?;
    let usage = |message: &str| Err(Failure::Usage(message.to_owned()));
    match (&words[..], given.os_value("--file").map(Path::new)) {
        // of otel-cli; without this arm it would be the name of a span
        (["background", ..], _) => usage(
            "span background is not supported, because no process is needed between start and end: \
             write span start --file FILE NAME, and span end --file FILE when the work is done",
        ),
        (["start", name], Some(file)) => begin(given, options, name, file),
        (["event", name], Some(file)) => {
            let attributes = options.attributes.into_iter().collect();
            let now = SystemTime::now();
            let event = EventLine { attributes, ..event(name, now).timed(now) };
            span_file::add(file, &event).map_err(Failure::Message)?;
            Ok(ExitCode::SUCCESS)
        }
        (["end"], Some(file)) => end(given, options, file),
        (_, Some(_)) => usage("--file is for span start NAME, span event NAME and span end"),
        (["start" | "event" | "end", ..], None) => usage("span start, event and end need --file FILE"),
        ([STDIN], None) => {
            let (sender, budget) = start(given, &[])?;
            let tracer = tracer(&sender);
            let is_whole = each_line(|line| emit(&tracer, from_line(line)?, &options, None))?;
            finish(sender, budget, is_whole)
        }
        ([name], None) => {
            let (sender, budget) = start(given, &[])?;
            let line = SpanLine { name: (*name).to_owned(), ..SpanLine::default() };
            emit(&tracer(&sender), line, &options, None).map_err(Failure::Usage)?;
            finish(sender, budget, true)
        }
        ([], None) => usage("span needs a NAME, or - for standard input"),
        ([_, word, ..], None) => usage(&format!("unexpected argument {word:?}")),
    }
}

fn tracer(sender: &Sender) -> Tracer {
    sender.telemetry.tracer_with_version(NAME, env!("CARGO_PKG_VERSION"))
}

/// Writes the file of a span that goes on, and its context to the carrier file of the environment.
fn begin(given: &Given, options: Options, name: &str, file: &Path) -> Result<ExitCode, Failure> {
    let sender = Sender::start(given, &[], None)?;
    let tracer = tracer(&sender);
    let span = match &options.parent {
        Some(parent) => tracer.span_builder(name).parent(parent).start(),
        None => tracer.span_builder(name).root().start(),
    };
    // The sampler has decided, and the ids are known. The telemetry ends before the span does, so that only `span end` sends
    // it.
    sender.telemetry.shutdown(Duration::ZERO);
    let content = SpanFile {
        context: span.context().clone(),
        service: given.value("--service").map_err(Failure::Usage)?.map(str::to_owned),
        span: options.into_line(name),
    };
    span_file::create(file, &content).map_err(Failure::Message)?;
    if let Some(carrier) = sender::of_environment(sender::CARRIER_FILE) {
        let lines = caller::shell_lines(&content.context);
        // the file of the span has these lines, and may be the carrier itself
        if !fs::read_to_string(&carrier).is_ok_and(|text| text.starts_with(&lines)) {
            let written = fs::write(&carrier, lines);
            written.map_err(|error| {
                Failure::Message(format!("{}: write {}: {error}", sender::CARRIER_FILE, text::name(&carrier)))
            })?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Sends the span of a file, with what the options add, and removes the file once it was delivered.
fn end(given: &Given, options: Options, file: &Path) -> Result<ExitCode, Failure> {
    let taken = span_file::take(file).map_err(Failure::Message)?;
    let sent = send(given, options, &taken);
    match &sent {
        Ok(_) => fs::remove_file(&taken).map_err(|error| format!("{}: {error}", text::name(&taken))),
        Err(_) => span_file::give_back(&taken, file),
    }
    .map_err(Failure::Message)?;
    sent
}

fn send(given: &Given, options: Options, file: &Path) -> Result<ExitCode, Failure> {
    let SpanFile { context, service, span: mut line } = span_file::read(file).map_err(Failure::Message)?;
    let given = service.map_or_else(|| given.clone(), |service| given.or("--service", service));
    if options.status.is_some() {
        (line.status, line.message) = (None, None);
    }
    line.events.extend(options.events);
    line.attributes.extend(options.attributes);
    let parent = line.traceparent.take().and_then(|parent| SpanContext::from_traceparent(&parent).ok());
    let options = Options { parent, attributes: Vec::new(), events: Vec::new(), ..options };
    let (sender, budget) = start(&given, &[])?;
    emit(&tracer(&sender), line, &options, Some(&context)).map_err(Failure::Message)?;
    finish(sender, budget, true)
}

/// Starts and ends the span of a line; the options hold for what it does not say.
fn emit(
    tracer: &Tracer,
    line: SpanLine,
    options: &Options,
    identity: Option<&SpanContext>,
) -> Result<(), String> {
    let now = SystemTime::now();
    let moment = |json: &Json, or: Option<SystemTime>| match json {
        Json::Null => Ok(or.unwrap_or(now)),
        json => time::of_json(json, now),
    };
    let (begin, end) = (moment(&line.start, options.start)?, moment(&line.end, options.end)?);
    // a start in the future, or after the clock was set back, is no reason to refuse a span that ends now
    if end < begin && !(line.end.is_null() && options.end.is_none()) {
        return Err("the end is before the start".to_owned());
    }
    let kind =
        line.kind.as_deref().or(options.kind.as_deref()).map_or(Ok(SpanKind::Internal), sender::kind)?;
    let message = line.message.as_deref().or(options.message.as_deref()).unwrap_or_default();
    let status = status_of(line.status.as_deref().or(options.status.as_deref()), message)?;
    if line.message.is_some() && !matches!(status, Some(Status::Error(_))) {
        return Err("a message is for status error".to_owned());
    }
    let of_line = line.traceparent.as_deref().map(SpanContext::from_traceparent).transpose();
    let parent = of_line.map_err(|error| error.to_string())?;
    let parent = parent.as_ref().or(options.parent.as_ref());
    let events = if line.events.is_empty() { &options.events } else { &line.events };
    let times = events.iter().map(|event| moment(&event.time, None)).collect::<Result<Vec<_>, _>>()?;
    let mut span = tracer.span_builder(&line.name).kind(kind).start_time(begin);
    span = match parent {
        Some(parent) => span.parent(parent),
        None => span.root(),
    };
    let mut span = span.detached();
    if let Some(identity) = identity {
        span.set_identity(identity);
    }
    for (key, value) in with_own(&options.attributes, line.attributes) {
        span.set(&key, AsValue(&value));
    }
    for (event, time) in events.iter().zip(times) {
        let mut recorded = span.event_with_time(&event.name, time);
        for (key, value) in &event.attributes {
            recorded.set(key, AsValue(value));
        }
    }
    if let Some(status) = status {
        span.status(status);
    }
    span.end_at(end);
    Ok(())
}

fn status_of<'a>(status: Option<&str>, message: &'a str) -> Result<Option<Status<'a>>, String> {
    match status {
        None => Ok(None),
        Some("ok") => Ok(Some(Status::Ok)),
        Some("error") => Ok(Some(Status::Error(message))),
        Some(word) => Err(format!("status {word:?}: write ok or error")),
    }
}

/// `NAME`, which gets its time from its span, or `NAME@TIME`; an `@` that no time follows belongs to the name.
fn event(word: &str, now: SystemTime) -> EventLine {
    let timed = word.rsplit_once('@').and_then(|(name, time)| Some((name, time::parse(time, now).ok()?)));
    let (name, time) = timed.map_or((word, Json::Null), |(name, time)| (name, nanos(time)));
    EventLine { name: name.to_owned(), time, attributes: Map::new() }
}

/// As [`time::parse`] reads it.
fn nanos(time: SystemTime) -> Json {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("{}.{:09}", since.as_secs(), since.subsec_nanos()).into()
}
