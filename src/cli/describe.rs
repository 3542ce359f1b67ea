//! Describes spans and log records as text: durations, times of day, ids, kinds, severities and attributes.

use std::collections::{HashMap, HashSet};

use standpipe::Severity;
use standpipe::receiver::proto::{AnyValue, KeyValue, LogRecord, Span, Value};
use standpipe::receiver::{ReceivedLog, ReceivedSpan};
use standpipe::shared::beginning;
pub(crate) use standpipe::shared::count;

use super::style::{Ink, Style};

/// Maximum characters of an attribute's value, and maximum items of a list or map.
const MAX_VALUE_CHARS: usize = 256;
/// Maximum nesting depth of lists and maps that is shown.
const MAX_VALUE_DEPTH: usize = 3;

/// Maximum number of attributes shown for a record, unless all are requested.
const MAX_ATTRIBUTES: usize = 4;
/// Maximum characters of the value of an attribute that [`telling`] selects.
const MAX_TELLING_CHARS: usize = 64;
/// Prefixes of attributes that are not shown by default: most describe the process, its host or the source code.
const FOLDED: [&str; 7] = ["process.", "host.", "os.", "thread.", "code.", "telemetry.", "network.protocol."];
/// Exception to [`FOLDED`]: this attribute distinguishes the spans of `exec`.
const COMMAND: &str = "process.command_args";
/// The most informative attributes. If a record has too many attributes, those in this list are selected first, in the
/// order of the list.
const TELLING: [&str; 15] = [
    "error.type",
    "exception.type",
    "exception.message",
    COMMAND,
    "http.response.status_code",
    "http.request.method",
    "http.route",
    "url.path",
    "url.full",
    "db.query.summary",
    "db.operation.name",
    "db.collection.name",
    "rpc.method",
    "messaging.destination.name",
    "server.address",
];

/// Names of span kinds. The index is the number in OTLP.
const KINDS: [&str; 6] = ["unspecified", "internal", "server", "client", "producer", "consumer"];
/// Status code of a span with an error.
const STATUS_ERROR: i32 = 2;

/// A span with its service, scope and resource.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SpanView<'a> {
    pub(crate) span: &'a Span,
    pub(crate) service: &'a str,
    pub(crate) scope: &'a str,
    pub(crate) scope_version: &'a str,
    pub(crate) resource: &'a [KeyValue],
    /// Whether the span was drawn before, and is drawn again only as an ancestor of late spans.
    pub(crate) is_past: bool,
    /// Whether the span matches the filter. Such a span keeps its row in a large trace.
    pub(crate) is_wanted: bool,
}

impl<'a> From<&'a ReceivedSpan> for SpanView<'a> {
    fn from(received: &'a ReceivedSpan) -> Self {
        Self {
            span: &received.span,
            service: received.service_name(),
            scope: &received.scope.name,
            scope_version: &received.scope.version,
            resource: &received.resource.attributes,
            is_past: false,
            is_wanted: true,
        }
    }
}

impl SpanView<'_> {
    /// Returns the duration: zero for a span that ends before it starts.
    pub(crate) fn nanos(&self) -> u64 {
        self.span.end_time_unix_nano.saturating_sub(self.span.start_time_unix_nano)
    }

    /// Returns the message of a span with an error; it may be empty. Returns `None` for a span without an error, and
    /// for a span that was drawn before, because its message is already shown.
    pub(crate) fn error(&self) -> Option<&str> {
        let status = self.span.status.as_ref()?;
        (status.code == STATUS_ERROR && !self.is_past).then_some(status.message.as_str())
    }

    pub(crate) fn status(&self) -> &'static str {
        match self.span.status.as_ref().map_or(0, |status| status.code) {
            1 => "ok",
            STATUS_ERROR => "error",
            _ => "unset",
        }
    }

    pub(crate) fn kind(&self) -> &'static str {
        let kind = usize::try_from(self.span.kind).ok().and_then(|kind| KINDS.get(kind));
        kind.unwrap_or(&KINDS[0])
    }
}

/// Returns the earliest start and the latest end of spans; zeros if there are no spans.
pub(crate) fn interval(spans: &[SpanView<'_>]) -> (u64, u64) {
    let start = spans.iter().map(|view| view.span.start_time_unix_nano).min().unwrap_or(0);
    (start, spans.iter().map(|view| view.span.end_time_unix_nano).max().unwrap_or(0))
}

/// A log record with the name of the service that wrote it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogView<'a> {
    pub(crate) log: &'a LogRecord,
    pub(crate) service: &'a str,
}

impl<'a> From<&'a ReceivedLog> for LogView<'a> {
    fn from(received: &'a ReceivedLog) -> Self {
        Self { log: &received.log, service: received.service_name() }
    }
}

impl LogView<'_> {
    /// Returns the time of the record, or if that is unknown, the time at which the record was observed.
    pub(crate) fn unix_nanos(&self) -> u64 {
        match self.log.time_unix_nano {
            0 => self.log.observed_time_unix_nano,
            time => time,
        }
    }

    /// Returns the severity's name (`WARN`, `INFO2`), or `unset` if there is neither number nor text. If the sender
    /// wrote another text, returns that text, and the number unless it is 0: `notice(10)`.
    pub(crate) fn severity(&self) -> String {
        let (number, text) = (self.log.severity_number, self.log.severity_text.as_str());
        match (name_of(number), text) {
            (Some(name), text) if is_usual(text, name) => name.to_owned(),
            (None, "") if number == 0 => "unset".to_owned(),
            (None, text) if number == 0 => text.to_owned(),
            _ => format!("{text}({number})"),
        }
    }

    pub(crate) fn ink(&self) -> Ink {
        match self.severity_number() {
            1..=8 => Ink::FAINT,
            9..=12 => Ink::GOOD,
            13..=16 => Ink::WARNING.bold(),
            17..=20 => Ink::BAD.bold(),
            21..=24 => Ink::BAD.bold().reversed(),
            _ => Ink::PLAIN,
        }
    }

    pub(crate) fn is_error(&self) -> bool {
        (17..=24).contains(&self.severity_number())
    }

    /// Returns the number of the severity. If the record has no number, returns the number that belongs to the severity
    /// text; 0 if the text is empty or unknown.
    pub(crate) fn severity_number(&self) -> i32 {
        let text = self.log.severity_text.as_str();
        let is_meant = |number: &i32| name_of(*number).is_some_and(|name| is_usual(text, name));
        match self.log.severity_number {
            0 if !text.is_empty() => (1..=24).find(is_meant).unwrap_or(0),
            number => number,
        }
    }

    /// Returns the body: text unchanged, any other value as [`whole_value`] formats it; empty if there is no body.
    pub(crate) fn body(&self) -> String {
        match self.log.body.as_ref().and_then(|body| body.value.as_ref()) {
            None => String::new(),
            Some(Value::StringValue(text)) => text.clone(),
            Some(_) => whole_value(self.log.body.as_ref()),
        }
    }

    /// Returns the beginnings of the trace id and the span id, if present.
    pub(crate) fn ids(&self) -> String {
        let ids = [&self.log.trace_id, &self.log.span_id];
        let ids: Vec<String> = ids.into_iter().filter(|id| !id.is_empty()).map(|id| short_id(id)).collect();
        ids.join("/")
    }
}

/// Returns the name of a severity number from 1 to 24; `None` for other numbers.
fn name_of(number: i32) -> Option<&'static str> {
    let severity = u8::try_from(number).ok().and_then(Severity::from_number)?;
    Some(severity.name())
}

/// Returns whether the severity text adds nothing to the name: for WARN2, an empty text, `warn2`, `warn` or `warning`.
fn is_usual(text: &str, name: &str) -> bool {
    let class = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let same = |word: &str| text.eq_ignore_ascii_case(word);
    text.is_empty() || same(name) || same(class) || (class == "WARN" && same("warning"))
}

/// Formats a duration with three digits and a unit: `1.24 s`, `31.2 ms`, `850 µs`.
///
/// A duration of one minute or more has two units: `2 min 05 s`, `1 h 07 min`.
pub(crate) fn duration(nanos: u64, style: &Style) -> String {
    let minutes = nanos / 60_000_000_000;
    if minutes >= 60 {
        return format!("{} h {:02} min", minutes / 60, minutes % 60);
    }
    if minutes >= 1 {
        return format!("{minutes} min {:02} s", nanos / 1_000_000_000 % 60);
    }
    let micro = format!("{}s", style.glyph("µ"));
    let mut number = nanos as f64;
    for unit in ["ns", &micro, "ms"] {
        if number < 999.5 {
            return format!("{} {unit}", three_digits(number, unit == "ns"));
        }
        number /= 1000.0;
    }
    format!("{} s", three_digits(number, false))
}

/// Formats a duration like [`duration`], without trailing zeros: `200 ms`, `1.5 s`.
pub(crate) fn round_duration(nanos: u64, style: &Style) -> String {
    let exact = duration(nanos, style);
    match exact.split_once(' ') {
        Some((number, unit)) if number.contains('.') => {
            format!("{} {unit}", number.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => exact,
    }
}

/// Formats a number with three digits, but at most two decimals. A number of 1000 or more keeps all digits before the
/// point. With `whole`, and for 0, decimals are omitted.
pub(crate) fn three_digits(number: f64, whole: bool) -> String {
    let digits = match number.abs() {
        _ if whole || number == 0.0 => 0,
        // 9.996 would be rounded to `10.00`, which has four digits, so the limits are slightly below 10 and 100.
        n if n < 9.995 => 2,
        n if n < 99.95 => 1,
        _ => 0,
    };
    format!("{number:.digits$}")
}

/// Formats the time of day in UTC, with milliseconds.
pub(crate) fn time_of_day(unix_nanos: u64) -> String {
    let millis = unix_nanos / 1_000_000;
    let seconds = millis / 1000;
    format!("{:02}:{:02}:{:02}.{:03}Z", seconds / 3600 % 24, seconds / 60 % 60, seconds % 60, millis % 1000)
}

/// Formats an id in hexadecimal.
pub(crate) fn id(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns whether an id is present. Some senders write zeros instead of an empty id.
pub(crate) fn is_id(bytes: &[u8]) -> bool {
    bytes.iter().any(|byte| *byte != 0)
}

/// Returns the first eight digits of an id, which identify it in practice.
pub(crate) fn short_id(bytes: &[u8]) -> String {
    id(&bytes[..bytes.len().min(4)])
}

/// Returns the ids of `tops` and of all their descendants. The parents may form cycles.
pub(crate) fn with_descendants<'a>(
    spans: impl Iterator<Item = &'a Span>,
    tops: impl Iterator<Item = &'a Span>,
) -> HashSet<&'a [u8]> {
    let mut children: HashMap<&[u8], Vec<&'a [u8]>> = HashMap::new();
    spans.for_each(|span| children.entry(&span.parent_span_id).or_default().push(&span.span_id));
    let mut found = HashSet::new();
    let mut waiting: Vec<&[u8]> = tops.map(|span| span.span_id.as_slice()).collect();
    while let Some(id) = waiting.pop() {
        // Roots have an empty parent id, so a span without an id would be their parent.
        if is_id(id) && found.insert(id) {
            waiting.extend(children.get(id).into_iter().flatten());
        }
    }
    found
}

/// Formats a number of bytes: `850 bytes`, `3.1 MiB`.
pub(crate) fn size(bytes: u64) -> String {
    let mut number = bytes as f64;
    for unit in ["bytes", "KiB", "MiB"] {
        if number < 999.5 {
            let digits = usize::from(unit != "bytes" && number < 99.95);
            return format!("{number:.digits$} {unit}");
        }
        number /= 1024.0;
    }
    format!("{number:.1} GiB")
}

/// Returns `key=value` for the most informative attributes, and `+7` if there are seven other attributes.
///
/// With `full`, returns all attributes with their whole values.
pub(crate) fn telling(attributes: &[KeyValue], full: bool) -> Vec<String> {
    if full {
        return attributes.iter().map(|a| format!("{}={}", a.key, whole_value(a.value.as_ref()))).collect();
    }
    let is_folded = |key: &str| {
        key == "exception.stacktrace" || key != COMMAND && FOLDED.iter().any(|prefix| key.starts_with(prefix))
    };
    let rank = |key: &str| TELLING.iter().position(|telling| *telling == key).unwrap_or(TELLING.len());
    let mut shown: Vec<usize> = (0..attributes.len()).filter(|&at| !is_folded(&attributes[at].key)).collect();
    shown.sort_by_key(|&at| rank(&attributes[at].key));
    shown.truncate(MAX_ATTRIBUTES);
    // The selected attributes are shown in the order of the record.
    shown.sort_unstable();
    let text = |at: &usize| {
        let value = match &attributes[*at] {
            attribute if attribute.key == COMMAND => command_line(attribute.value.as_ref()),
            attribute => whole_value(attribute.value.as_ref()),
        };
        format!("{}={}", attributes[*at].key, beginning(value, MAX_TELLING_CHARS))
    };
    let mut texts: Vec<String> = shown.iter().map(text).collect();
    if shown.len() < attributes.len() {
        texts.push(format!("+{}", attributes.len() - shown.len()));
    }
    texts
}

/// Joins the words of a list into a command line. Formats any other value with [`whole_value`].
fn command_line(value: Option<&AnyValue>) -> String {
    let Some(Value::ArrayValue(words)) = value.and_then(|value| value.value.as_ref()) else {
        return whole_value(value);
    };
    let words: Vec<String> = words.values.iter().map(|word| whole_value(Some(word))).collect();
    words.join(" ")
}

/// Returns `key=value` for each attribute, separated by two spaces.
pub(crate) fn attributes(attributes: &[KeyValue]) -> String {
    let each: Vec<String> =
        attributes.iter().map(|a| format!("{}={}", a.key, value(a.value.as_ref()))).collect();
    each.join("  ")
}

/// Returns the value of the attribute `key`, or an empty text if it is absent.
pub(crate) fn value_of(attributes: &[KeyValue], key: &str) -> String {
    let found = attributes.iter().find(|attribute| attribute.key == key);
    found.map(|attribute| value(attribute.value.as_ref())).unwrap_or_default()
}

/// Returns the beginning of an attribute's value. An empty text, or a text with white space, is quoted.
pub(crate) fn value(value: Option<&AnyValue>) -> String {
    beginning(whole_value(value), MAX_VALUE_CHARS)
}

/// Returns an attribute's value like [`value`], but without the limit on characters.
///
/// Lists and maps are limited to [`MAX_VALUE_CHARS`] items and [`MAX_VALUE_DEPTH`] levels.
pub(crate) fn whole_value(value: Option<&AnyValue>) -> String {
    nested_value(value, 0)
}

fn nested_value(value: Option<&AnyValue>, depth: usize) -> String {
    let Some(value) = value.and_then(|value| value.value.as_ref()) else { return "null".to_owned() };
    match value {
        Value::StringValue(text) if text.is_empty() || text.contains(char::is_whitespace) => {
            format!("\"{text}\"")
        }
        Value::StringValue(text) => text.clone(),
        Value::BoolValue(flag) => flag.to_string(),
        Value::IntValue(number) => number.to_string(),
        Value::DoubleValue(number) => number.to_string(),
        Value::BytesValue(bytes) => format!("<{}>", count(bytes.len() as u64, "byte")),
        Value::ArrayValue(_) | Value::KvlistValue(_) if depth == MAX_VALUE_DEPTH => "...".to_owned(),
        Value::ArrayValue(list) => {
            let items = list.values.iter().map(|item| nested_value(Some(item), depth + 1));
            format!("[{}]", items.take(MAX_VALUE_CHARS).collect::<Vec<_>>().join(","))
        }
        Value::KvlistValue(list) => {
            let nested = |item: &KeyValue| nested_value(item.value.as_ref(), depth + 1);
            let items = list.values.iter().map(|item| format!("{}={}", item.key, nested(item)));
            format!("{{{}}}", items.take(MAX_VALUE_CHARS).collect::<Vec<_>>().join(","))
        }
    }
}

#[cfg(test)]
mod tests;
