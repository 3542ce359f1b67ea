//! `standpipe span`: sends spans, and keeps unfinished spans in files.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use clap::{Args, Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};
use standpipe::{SpanContext, Status, Telemetry, Tracer};

use super::span_file::{self, SpanFile};
use super::{STDIN, deliver, each_line, from_line, time};
use crate::cli::sender::{self, AsValue, Attributes, Destination, Kind, Parent, Sender};
use crate::cli::{Failure, caller, text};

/// Description of a valid line of standard input, for messages.
const LINE_FORM: &str = "an object with name and optionally start, end, kind, status, message, attributes, events and traceparent, \
                         for example {\"name\": \"job\", \"start\": 1700000000, \"end\": 1700000001.5}";

/// Sends a span, or keeps one in a file until it ends.
///
/// Sends one span. The span continues the trace in TRACEPARENT and TRACESTATE, if they are set. Without --start and
/// --end, its duration is 0.
///
/// start keeps an unfinished span in FILE and sends nothing; event adds an event to it; end sends the span and removes
/// FILE once the span was delivered. No process runs in between. A shell can source FILE, and --parent can read it: its
/// lines TRACEPARENT=... and TRACESTATE=... make other commands children of the span. If OTEL_CLI_CARRIER_FILE is set,
/// start also writes these lines to that file, and the other commands read it if --parent is not given. The subcommand
/// background, which otel-cli has, is not supported.
///
/// With - each line of standard input is a span as a JSON object: name, and optionally start, end, kind, status,
/// message, attributes (an object), events (a list of objects with name, time and attributes) and traceparent, the
/// parent. The options are defaults for values that a line does not have. Lines of more than 4 MiB are reported.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(override_usage = "standpipe span [OPTIONS] NAME
       standpipe span start --file FILE [OPTIONS] NAME
       standpipe span event --file FILE [--attr KEY=VALUE]... NAME
       standpipe span end --file FILE [OPTIONS]
       standpipe span [OPTIONS] -")]
#[command(after_help = include_str!("../help/span.txt").trim_ascii_end())]
pub(crate) struct SpanOptions {
    #[command(subcommand)]
    step: Option<Step>,
    /// The name of the span, or - for standard input.
    #[arg(required = true)]
    name: Option<String>,
    #[command(flatten)]
    details: Details,
}

/// The steps of a span that is kept in a file.
#[derive(Debug, Subcommand)]
enum Step {
    /// Keeps an unfinished span in a file, and sends nothing.
    Start {
        /// The name of the span.
        name: String,
        /// The file for the span; an existing file must be empty.
        #[arg(long)]
        file: PathBuf,
        #[command(flatten)]
        details: Details,
    },
    /// Adds an event to the span in a file.
    Event {
        /// The name of the event, or NAME@TIME.
        name: String,
        /// The file of the span.
        #[arg(long)]
        file: PathBuf,
        #[command(flatten)]
        attributes: Attributes,
    },
    // A command of otel-cli. Without this variant, `span background` would send a span with that name.
    #[command(hide = true)]
    Background {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Sends the span in a file, and removes the file once the span was delivered.
    End {
        /// The file of the span.
        #[arg(long)]
        file: PathBuf,
        #[command(flatten)]
        details: Details,
    },
}

/// Options for the values of a span and its destination.
#[derive(Debug, Args)]
struct Details {
    #[command(flatten)]
    attributes: Attributes,
    /// The kind of the span; the default is internal.
    #[arg(short, long, value_name = "KIND")]
    kind: Option<Kind>,
    /// The start time: 2026-11-17T14:00:00.5Z or with an offset; a number since 1970 in seconds, milliseconds,
    /// microseconds or nanoseconds, recognized by its length; -5s or -250ms, relative to now. The default is now.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = time::parse_now)]
    start: Option<SystemTime>,
    /// The end time, in the same forms. The default is now.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = time::parse_now)]
    end: Option<SystemTime>,
    /// The status of the span.
    #[arg(long)]
    status: Option<StatusCode>,
    /// The description of the error, for --status error.
    #[arg(long, value_name = "TEXT")]
    message: Option<String>,
    /// An event of the span: NAME or NAME@TIME; may be given more than once.
    #[arg(long = "event", value_name = "NAME")]
    events: Vec<String>,
    #[command(flatten)]
    destination: Destination,
    #[command(flatten)]
    parent: Parent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum StatusCode {
    Ok,
    Error,
}

/// A span as JSON, in a line of standard input or of a span file.
#[derive(Deserialize, Serialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct SpanLine {
    pub(super) name: String,
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub(super) start: Json,
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub(super) end: Json,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) kind: Option<Kind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<StatusCode>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<String>,
    #[serde(default)]
    pub(super) attributes: Map<String, Json>,
    #[serde(default)]
    pub(super) events: Vec<EventLine>,
    /// Context of the parent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) traceparent: Option<String>,
}

/// An event of a span as JSON.
#[derive(Deserialize, Serialize, Clone)]
#[serde(
    deny_unknown_fields,
    expecting = "an event as a JSON object with name and optionally time and attributes"
)]
pub(super) struct EventLine {
    pub(super) name: String,
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub(super) time: Json,
    #[serde(default)]
    pub(super) attributes: Map<String, Json>,
}

impl EventLine {
    /// Sets the time, unless the event has one.
    fn set_time(&mut self, time: SystemTime) {
        if self.time.is_null() {
            self.time = nanos(time);
        }
    }
}

/// The span that the options and variables describe, and its parent.
struct Draft {
    span: SpanLine,
    parent: Option<SpanContext>,
    /// Context of a span that was started earlier; `None` for a new span.
    identity: Option<SpanContext>,
}

impl Draft {
    fn new(details: &Details) -> Result<Self, Failure> {
        let now = SystemTime::now();
        let status = details.status.or_else(|| sender::choice("OTEL_CLI_STATUS_CODE"));
        if details.message.is_some() && status != Some(StatusCode::Error) {
            return Err(Failure::Usage("--message needs --status error".to_owned()));
        }
        let message = || sender::of_environment("OTEL_CLI_STATUS_DESCRIPTION");
        let span = SpanLine {
            name: String::new(),
            start: details.start.map_or(Json::Null, nanos),
            end: details.end.map_or(Json::Null, nanos),
            kind: details.kind.or_else(|| sender::choice("OTEL_CLI_TRACE_KIND")),
            status,
            message: details.message.clone().or_else(message),
            attributes: details.attributes.all().into_iter().collect(),
            events: details.events.iter().map(|word| event(word, now)).collect(),
            traceparent: None,
        };
        let parent = details.parent.caller(details.destination.is_verbose()).context;
        Ok(Self { span, parent, identity: None })
    }
}

pub(crate) fn run(options: SpanOptions) -> Result<ExitCode, Failure> {
    match options.step {
        Some(Step::Start { name, file, details }) => begin(&details, &name, &file),
        Some(Step::Event { name, file, attributes }) => {
            let now = SystemTime::now();
            let mut event = event(&name, now);
            event.set_time(now);
            event.attributes = attributes.all().into_iter().collect();
            span_file::add(&file, &event).map_err(Failure::Message)?;
            Ok(ExitCode::SUCCESS)
        }
        Some(Step::Background { .. }) => Err(Failure::Usage(
            "span background is not supported, because no process is needed between start and end: \
             write span start --file FILE NAME, and span end --file FILE when the work is done"
                .to_owned(),
        )),
        Some(Step::End { file, details }) => end(details, &file),
        None => {
            let (name, draft) = (options.name.unwrap_or_default(), Draft::new(&options.details)?);
            deliver(&options.details.destination, &[], |telemetry| {
                let tracer = tracer(telemetry);
                if name == STDIN {
                    return each_line(|line| emit(&tracer, from_line(line, LINE_FORM)?, &draft));
                }
                let line = SpanLine { name, ..SpanLine::default() };
                emit(&tracer, line, &draft).map_err(Failure::Usage)?;
                Ok(true)
            })
        }
    }
}

fn tracer(telemetry: &Telemetry) -> Tracer {
    telemetry.tracer(sender::scope())
}

/// Writes the file of an unfinished span and, if OTEL_CLI_CARRIER_FILE is set, the span's context to the file it names.
fn begin(details: &Details, name: &str, file: &Path) -> Result<ExitCode, Failure> {
    let draft = Draft::new(details)?;
    let sender = Sender::start(&details.destination, details.destination.variables(&[]), None)?;
    let tracer = tracer(&sender.telemetry);
    let span = sender::below(tracer.span_builder(name), draft.parent.as_ref()).start();
    // Only the sampling decision and the ids of this span are needed. The telemetry is shut down before the span ends,
    // so the span is not sent here but by `span end`.
    sender.telemetry.shutdown(Duration::ZERO);
    let mut line = SpanLine { name: name.to_owned(), end: Json::Null, ..draft.span };
    let now = SystemTime::now();
    if line.start.is_null() {
        line.start = nanos(now);
    }
    line.message = line.message.filter(|_| line.status == Some(StatusCode::Error));
    line.events.iter_mut().for_each(|event| event.set_time(now));
    line.traceparent = draft.parent.map(|parent| parent.traceparent());
    let service = details.destination.service.clone();
    let content = SpanFile { context: span.context().clone(), service, span: line };
    span_file::create(file, &content).map_err(Failure::Message)?;
    if let Some(carrier) = sender::of_environment(sender::CARRIER_FILE) {
        let lines = caller::shell_lines(&content.context);
        // The carrier may be the span file itself, which already begins with these lines.
        if !fs::read_to_string(&carrier).is_ok_and(|text| text.starts_with(&lines)) {
            let written = caller::write_private(carrier.as_ref(), &lines);
            written.map_err(|error| {
                Failure::Message(format!("{}: write {}: {error}", sender::CARRIER_FILE, text::name(&carrier)))
            })?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Sends the span in a file, completed by the options, and removes the file once the span was delivered.
fn end(details: Details, file: &Path) -> Result<ExitCode, Failure> {
    let draft = Draft::new(&details)?;
    // The file is taken before the span is sent, so that no other process sends the span as well.
    let taken = span_file::take(file).map_err(Failure::Message)?;
    let sent = send(details.destination, draft, &taken);
    match &sent {
        Ok(_) => fs::remove_file(&taken).map_err(|error| format!("{}: {error}", text::name(&taken))),
        Err(_) => span_file::give_back(&taken, file),
    }
    .map_err(Failure::Message)?;
    sent
}

fn send(mut destination: Destination, mut draft: Draft, file: &Path) -> Result<ExitCode, Failure> {
    let SpanFile { context, service, span: mut line } = span_file::read(file).map_err(Failure::Message)?;
    destination.service = destination.service.or(service);
    // The status of `span end` replaces that of `span start`, including its message.
    if draft.span.status.is_some() {
        (line.status, line.message) = (None, None);
    }
    line.events.append(&mut draft.span.events);
    line.attributes.append(&mut draft.span.attributes);
    draft.identity = Some(context);
    draft.parent = line.traceparent.take().and_then(|parent| SpanContext::from_traceparent(&parent).ok());
    deliver(&destination, &[], |telemetry| {
        emit(&tracer(telemetry), line, &draft).map_err(Failure::Message)?;
        Ok(true)
    })
}

/// Emits the span of a line. The draft has the defaults for values that the line does not have.
fn emit(tracer: &Tracer, line: SpanLine, draft: &Draft) -> Result<(), String> {
    let now = SystemTime::now();
    let Draft { span: common, parent, identity } = draft;
    let moment = |json: &Json| if json.is_null() { Ok(now) } else { time::of_json(json, now) };
    let own_or = |own, common| if Json::is_null(own) { common } else { own };
    let (begin, end) = (own_or(&line.start, &common.start), own_or(&line.end, &common.end));
    let ends_now = end.is_null();
    let (begin, end) = (moment(begin)?, moment(end)?);
    // If the end is not given, a start in the future is accepted: the clock may have been set back.
    if end < begin && !ends_now {
        return Err("the end is before the start; give a later end or an earlier start".to_owned());
    }
    let kind = line.kind.or(common.kind).unwrap_or(Kind::Internal);
    let message = line.message.as_deref().or(common.message.as_deref()).unwrap_or_default();
    let status = line.status.or(common.status);
    if line.message.is_some() && status != Some(StatusCode::Error) {
        return Err("message needs status error".to_owned());
    }
    let of_line = line.traceparent.as_deref().map(SpanContext::from_traceparent).transpose();
    let of_line = of_line.map_err(|error| error.to_string())?;
    let events = if line.events.is_empty() { &common.events } else { &line.events };
    let times = events.iter().map(|event| moment(&event.time)).collect::<Result<Vec<_>, _>>()?;
    let span = tracer.span_builder(&line.name).kind(kind.into()).start_time(begin);
    let mut span = sender::below(span, of_line.as_ref().or(parent.as_ref())).detached();
    if let Some(identity) = identity {
        span.set_identity(identity);
    }
    for (key, value) in common.attributes.iter().chain(&line.attributes) {
        span.set(key, AsValue(value));
    }
    for (event, time) in events.iter().zip(times) {
        let mut recorded = span.event_with_time(&event.name, time);
        for (key, value) in &event.attributes {
            recorded.set(key, AsValue(value));
        }
    }
    match status {
        Some(StatusCode::Ok) => drop(span.status(Status::Ok)),
        Some(StatusCode::Error) => drop(span.status(Status::Error(message))),
        None => {}
    }
    span.end_at(end);
    Ok(())
}

/// Parses `NAME` or `NAME@TIME`. If the text after the last `@` is not a time, the whole word is the name. If the word
/// contains no time, the time of the event is set later.
fn event(word: &str, now: SystemTime) -> EventLine {
    let timed = word.rsplit_once('@').and_then(|(name, time)| Some((name, time::parse(time, now).ok()?)));
    let (name, time) = timed.map_or((word, Json::Null), |(name, time)| (name, nanos(time)));
    EventLine { name: name.to_owned(), time, attributes: Map::new() }
}

/// Formats a time as seconds since 1970 with nine decimals, which [`time::parse`] reads.
fn nanos(time: SystemTime) -> Json {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("{}.{:09}", since.as_secs(), since.subsec_nanos()).into()
}
