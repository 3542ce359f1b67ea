//! Turns a `tracing` event into an event of its span, a log record, or both, with its source location.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::thread;

use tracing::{Event, Level, Metadata};

use super::TracingLayer;
use super::fields::{FieldValue, Fields};
use crate::context::SpanContext;
use crate::logs::Logger;
use crate::record::{EncodedAttributes, Severity, SpanRecord, Status, Value};
use crate::trace::DetachedSpan;

/// An event whose fields have been read.
pub(super) struct EventRecord<'a> {
    metadata: &'static Metadata<'static>,
    is_contextual: bool,
    place: CodeLocation<'a>,
    fields: &'a Fields,
    /// The message, or the name of the event if it has no message.
    name: Cow<'a, str>,
    /// The error, if the event has a field `error` and no message. `#[instrument(err)]` emits such events.
    failure: Option<&'a str>,
}

impl<'a> EventRecord<'a> {
    pub(super) fn new(event: &'a Event<'a>, fields: &'a Fields) -> Self {
        let (metadata, is_contextual) = (event.metadata(), event.is_contextual());
        let place = CodeLocation::of_event(metadata, fields);
        let message = fields.shown("message").filter(|message| !message.is_empty());
        let failure = if message.is_none() { fields.text_of("error") } else { None };
        let name = message.unwrap_or(metadata.name().into());
        Self { metadata, is_contextual, place, fields, name, failure }
    }

    /// Adds the event to the span.
    pub(super) fn add_to_span(&self, span: &mut DetachedSpan, layer: &TracingLayer) {
        let Some(open) = span.open_mut() else { return };
        if let Some(failure) = self.failure {
            // The failure of the function itself, from `#[instrument(err)]`, replaces an earlier status.
            open.record.set_status(Status::Error(failure));
        } else if *self.metadata.level() == Level::ERROR {
            // Any other event at ERROR sets an error status without a description, unless the span already has a
            // status, which may have a description.
            open.status_unless_set(Status::Error(""));
        }
        if layer.exceptions && self.fields.has_errors {
            self.fields.each(|_, value| match value {
                FieldValue::Error(error) => error.set_exception(|key, value| open.record.set(key, value)),
                FieldValue::Plain(_) => {}
            });
        }
        let is_exception = self.failure.is_some() && layer.exceptions;
        let mut event = span.event(if is_exception { "exception" } else { &self.name });
        let mut set = |key: &str, value: Value<'_>| {
            event.set(key, value);
        };
        set("level", Value::Str(self.metadata.level().as_str()));
        set("target", Value::Str(self.place.target));
        if layer.location {
            self.place.attributes().for_each(|(key, value)| set(key, value));
        }
        self.set_fields_on(layer.exceptions, &mut set);
    }

    /// Emits the event as a log record, or counts it if no exporter takes its severity. `parent` is the span that the
    /// event names as its parent.
    pub(super) fn emit_log(&self, logger: &Logger, parent: Option<&SpanContext>, layer: &TracingLayer) {
        let severity = severity(self.metadata.level());
        if !logger.is_of_use(severity) {
            return logger.count_if_filtered(severity);
        }
        let mut log = logger.record(severity, self.failure.unwrap_or(&self.name));
        log = match parent {
            Some(parent) => log.context(parent),
            None if self.is_contextual => log,
            // The event is explicitly a root, or its parent is unknown to this layer.
            None => log.without_context(),
        };
        if let Some(name) = self.own_name() {
            log = log.event_name(name);
        }
        let mut set = |key: &str, value: Value<'_>| log.set_in_place(key, value);
        if layer.sets_target() {
            set("target", Value::Str(self.place.target));
        }
        if layer.location {
            self.place.attributes().for_each(|(key, value)| set(key, value));
        }
        self.set_fields_on(layer.exceptions, &mut set);
        log.emit();
    }

    /// Returns the name of the event if the program has set it. The default name is a source location.
    fn own_name(&self) -> Option<&'static str> {
        let name = self.metadata.name();
        // `tracing` makes default names of the form `event src/main.rs:7`. Such a name would change with every edit.
        if self.place.is_of_log || name.starts_with("event ") { None } else { Some(name) }
    }

    /// Sets all fields as attributes, except those that are represented in another way, such as the message.
    fn set_fields_on(&self, exceptions: bool, set: &mut dyn FnMut(&str, Value<'_>)) {
        self.fields.each(|name, value| match value {
            _ if name == "message" => {}
            // These fields are the target and the location of a record of `log`, which `CodeLocation` has read.
            FieldValue::Plain(_) if self.place.is_of_log && name.starts_with("log.") => {}
            FieldValue::Plain(value) if name == "error" && self.failure.is_some() && exceptions => {
                set("exception.message", value);
            }
            FieldValue::Plain(value) => set(name, value),
            FieldValue::Error(error) => error.set_as(name, exceptions, &mut *set),
        });
    }

    /// Returns the target of an event that was a record of the `log` crate.
    pub(super) fn target_of_log(&self) -> Option<&'a str> {
        self.place.is_of_log.then_some(self.place.target)
    }
}

pub(super) fn severity(level: &Level) -> Severity {
    match *level {
        Level::TRACE => Severity::Trace,
        Level::DEBUG => Severity::Debug,
        Level::INFO => Severity::Info,
        Level::WARN => Severity::Warn,
        Level::ERROR => Severity::Error,
    }
}

/// The source location of a span or an event.
pub(super) struct CodeLocation<'a> {
    pub(super) target: &'a str,
    file: Option<&'a str>,
    line: Option<i64>,
    module: Option<&'a str>,
    /// True if the event was a record of the `log` crate, whose location is in its fields.
    pub(super) is_of_log: bool,
}

impl<'a> CodeLocation<'a> {
    pub(super) fn of(metadata: &'a Metadata<'_>) -> Self {
        Self {
            target: metadata.target(),
            file: metadata.file(),
            line: metadata.line().map(i64::from),
            module: metadata.module_path(),
            is_of_log: false,
        }
    }

    /// Returns the location of an event. The location of a record of the `log` crate is read from the fields.
    pub(super) fn of_event(metadata: &'a Metadata<'_>, fields: &'a Fields) -> Self {
        // `tracing-log` gives every record of `log` this target, and passes the record's target and location as fields.
        let target = if metadata.target() == "log" { fields.text_of("log.target") } else { None };
        match target {
            Some(target) => Self {
                target,
                file: fields.text_of("log.file"),
                line: fields.int_of("log.line"),
                module: fields.text_of("log.module_path"),
                is_of_log: true,
            },
            None => Self::of(metadata),
        }
    }

    /// Returns the attributes for a source location.
    #[inline]
    pub(super) fn attributes(&self) -> impl Iterator<Item = (&'static str, Value<'a>)> + use<'a> {
        let file = self.file.map(|file| ("code.file.path", Value::Str(file)));
        let module = self.module.map(|module| ("code.module.name", Value::Str(module)));
        let line = self.line.map(|line| ("code.line.number", Value::Int(line)));
        [file, module, line].into_iter().flatten()
    }
}

/// The attributes of a thread.
struct ThreadDescription {
    id: Option<i64>,
    name: Option<String>,
    encoded: Option<EncodedAttributes>,
}

thread_local! {
    static THREAD: OnceCell<ThreadDescription> = const { OnceCell::new() };
}

impl ThreadDescription {
    fn of_this_thread() -> Self {
        let thread = thread::current();
        let (id, name) = (number(&format!("{:?}", thread.id())), thread.name().map(str::to_owned));
        let mut described = Self { id, name, encoded: None };
        let attributes: Vec<_> = described.attributes().collect();
        described.encoded = SpanRecord::encode(&attributes);
        described
    }

    fn attributes(&self) -> impl Iterator<Item = (&'static str, Value<'_>)> {
        let id = self.id.map(|id| ("thread.id", Value::Int(id)));
        id.into_iter().chain(self.name.as_deref().map(|name| ("thread.name", Value::Str(name))))
    }
}

/// Sets the attributes of the current thread on a span that has just been started.
#[inline]
pub(super) fn set_thread(record: &mut SpanRecord) {
    // While the thread exits, `try_with` may fail. The span is then sent without the attributes of the thread.
    let _ = THREAD.try_with(|thread| {
        let described = thread.get_or_init(ThreadDescription::of_this_thread);
        match &described.encoded {
            Some(encoded) if record.set_encoded_at_start(encoded) => {}
            _ => described.attributes().for_each(|(key, value)| record.set(key, value)),
        }
    });
}

/// Returns the number in the text of a thread id, such as 7 in `ThreadId(7)`. The standard library has no stable
/// accessor yet.
fn number(id: &str) -> Option<i64> {
    id.trim_matches(|letter: char| !letter.is_ascii_digit()).parse().ok()
}
