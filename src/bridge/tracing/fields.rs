//! The fields of spans and events.
//!
//! Fields are read while no lock is held, because code of the program formats them. Then they are set as attributes, or
//! applied to the span if they are special, such as `otel.name`.

use std::borrow::Cow;
use std::error::Error;
use std::fmt::{self, Write};
use std::mem;
use std::ops::Range;

use tracing::field::{Field, Visit};

use super::call_site::PlannedField;
use crate::record::{self, Pool, SpanKind, Status, Value};
use crate::trace::{DetachedSpan, OpenSpan};

/// Fields in the order in which they were recorded. The thread reuses the storage.
#[derive(Default)]
pub(super) struct Fields {
    entries: Vec<Entry>,
    /// The text of all fields, back to back.
    text: String,
    /// The causes of all errors, as ranges of `text`.
    causes: Vec<Range<usize>>,
    /// True if any field is an error.
    pub(super) has_errors: bool,
}

struct Entry {
    name: &'static str,
    value: Recorded,
}

enum Recorded {
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Range<usize>),
    Bytes(Vec<u8>),
    Error { text: Range<usize>, causes: Range<usize> },
}

/// The value of a field.
#[derive(Clone, Copy)]
pub(super) enum FieldValue<'a> {
    Plain(Value<'a>),
    Error(ErrorText<'a>),
}

/// The message of an error and the messages of its causes.
#[derive(Clone, Copy)]
pub(super) struct ErrorText<'a> {
    pub(super) text: &'a str,
    fields: &'a Fields,
    causes: &'a [Range<usize>],
}

impl<'a> ErrorText<'a> {
    pub(super) fn causes(&self) -> Vec<&'a str> {
        self.causes.iter().map(|range| self.fields.text(range)).collect()
    }

    /// Sets the attributes of an exception.
    pub(super) fn set_exception(&self, set: impl FnMut(&str, Value<'_>)) {
        record::set_exception(self.text, &self.causes().join("\n"), set);
    }

    /// Sets the field of the error, and its causes as `<field>.chain`; before them, if `exceptions` is true, the
    /// attributes of an exception.
    pub(super) fn set_as(&self, name: &str, exceptions: bool, mut set: impl FnMut(&str, Value<'_>)) {
        if exceptions {
            self.set_exception(&mut set);
        }
        set(name, Value::Str(self.text));
        set(&chain_key(name), Value::Strs(&self.causes()));
    }
}

thread_local! {
    static POOL: Pool<Fields, 1> = const { Pool::new() };
}

impl Fields {
    /// Reads fields with `record` and passes them to `work`. If a value traces or logs while it is formatted, the
    /// nested call gets its own storage.
    pub(super) fn read<T>(record: impl FnOnce(&mut Self), work: impl FnOnce(&Self) -> T) -> T {
        let mut fields = Pool::take(&POOL).unwrap_or_default();
        record(&mut fields);
        let result = work(&fields);
        // Cleared now, not at the next use: byte arrays, which may be large, are not part of `bytes` below.
        fields.clear();
        let bytes = fields.text.capacity() + fields.entries.capacity() * size_of::<Entry>();
        Pool::keep(&POOL, fields, bytes);
        result
    }

    fn clear(&mut self) {
        self.entries.clear();
        self.text.clear();
        self.causes.clear();
        self.has_errors = false;
    }

    /// Calls `visit` with each field, in order.
    pub(super) fn each<'a>(&'a self, mut visit: impl FnMut(&'static str, FieldValue<'a>)) {
        for entry in &self.entries {
            let value = match &entry.value {
                Recorded::Bool(truth) => FieldValue::Plain(Value::Bool(*truth)),
                Recorded::Int(number) => FieldValue::Plain(Value::Int(*number)),
                Recorded::Float(number) => FieldValue::Plain(Value::Float(*number)),
                Recorded::Text(range) => FieldValue::Plain(Value::Str(self.text(range))),
                Recorded::Bytes(bytes) => FieldValue::Plain(Value::Bytes(bytes)),
                Recorded::Error { text, causes } => FieldValue::Error(ErrorText {
                    text: self.text(text),
                    fields: self,
                    causes: &self.causes[causes.clone()],
                }),
            };
            visit(entry.name, value);
        }
    }

    /// Returns the last field with this name as text.
    pub(super) fn shown(&self, name: &str) -> Option<Cow<'_, str>> {
        Some(match self.find(name)? {
            Recorded::Text(range) | Recorded::Error { text: range, .. } => self.text(range).into(),
            Recorded::Bool(truth) => truth.to_string().into(),
            Recorded::Int(number) => number.to_string().into(),
            Recorded::Float(number) => number.to_string().into(),
            Recorded::Bytes(bytes) => String::from_utf8_lossy(bytes),
        })
    }

    /// Returns the text of the last field with this name, if it is text or an error.
    pub(super) fn text_of(&self, name: &str) -> Option<&str> {
        match self.find(name)? {
            Recorded::Text(range) | Recorded::Error { text: range, .. } => Some(self.text(range)),
            _ => None,
        }
    }

    /// Returns the last field with this name, if it is an integer.
    pub(super) fn int_of(&self, name: &str) -> Option<i64> {
        match self.find(name)? {
            Recorded::Int(number) => Some(*number),
            _ => None,
        }
    }

    #[inline]
    fn find(&self, name: &str) -> Option<&Recorded> {
        self.entries.iter().rfind(|entry| entry.name == name).map(|entry| &entry.value)
    }

    fn text(&self, range: &Range<usize>) -> &str {
        &self.text[range.clone()]
    }

    fn write(&mut self, text: fmt::Arguments<'_>) -> Range<usize> {
        let start = self.text.len();
        // If formatting fails, the text up to the failure is kept.
        let _ = self.text.write_fmt(text);
        start..self.text.len()
    }

    #[inline]
    fn push(&mut self, field: &Field, value: Recorded) {
        self.entries.push(Entry { name: field.name(), value });
    }
}

/// Defines the methods of [`Visit`] for numbers and bools: each calls `$take` with a `$kind`. Integers that do not fit
/// into `i64` become text.
macro_rules! visit_numbers {
    ($take:ident $kind:ident) => {
        #[inline]
        fn record_bool(&mut self, field: &Field, value: bool) {
            self.$take(field, $kind::Bool(value));
        }

        #[inline]
        fn record_i64(&mut self, field: &Field, value: i64) {
            self.$take(field, $kind::Int(value));
        }

        #[inline]
        fn record_u64(&mut self, field: &Field, value: u64) {
            record_integer(self, field, value);
        }

        fn record_i128(&mut self, field: &Field, value: i128) {
            record_integer(self, field, value);
        }

        fn record_u128(&mut self, field: &Field, value: u128) {
            record_integer(self, field, value);
        }

        #[inline]
        fn record_f64(&mut self, field: &Field, value: f64) {
            self.$take(field, $kind::Float(value));
        }
    };
}

impl Visit for Fields {
    visit_numbers! { push Recorded }

    fn record_bytes(&mut self, field: &Field, value: &[u8]) {
        self.push(field, Recorded::Bytes(value.to_vec()));
    }

    #[inline]
    fn record_str(&mut self, field: &Field, value: &str) {
        let start = self.text.len();
        self.text.push_str(value);
        self.push(field, Recorded::Text(start..self.text.len()));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        let text = self.write(format_args!("{value}"));
        // `causes` is shared by all fields, so an error keeps the range of its own causes.
        let first = self.causes.len();
        for cause in record::causes(value) {
            let range = self.write(format_args!("{cause}"));
            self.causes.push(range);
        }
        self.push(field, Recorded::Error { text, causes: first..self.causes.len() });
        self.has_errors = true;
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = self.write(format_args!("{value:?}"));
        self.push(field, Recorded::Text(text));
    }
}

/// Records an integer, or its text if it does not fit into `i64`, the integer type of OTLP.
#[inline]
fn record_integer(visitor: &mut impl Visit, field: &Field, value: impl TryInto<i64> + fmt::Debug + Copy) {
    match value.try_into() {
        Ok(value) => visitor.record_i64(field, value),
        Err(_) => visitor.record_debug(field, &value),
    }
}

/// A span whose fields are being read. If reading them panics, the span is counted and not sent.
pub(super) struct StartingSpan(Option<DetachedSpan>);

impl StartingSpan {
    pub(super) fn new(span: DetachedSpan) -> Self {
        Self(Some(span))
    }

    /// Returns the span if it is recorded.
    #[inline]
    pub(super) fn recorded(&mut self) -> Option<&mut OpenSpan> {
        self.0.as_mut().and_then(DetachedSpan::open_mut)
    }

    #[inline]
    pub(super) fn started(mut self) -> Option<DetachedSpan> {
        let span = self.0.take();
        // The span was taken, so `drop` would find nothing to discard.
        mem::forget(self);
        span
    }
}

impl Drop for StartingSpan {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(DetachedSpan::discard_in_panic);
    }
}

/// Visitor that sets the fields of a span directly as attributes, before another thread can access the span.
pub(super) struct FieldsOf<'a> {
    pub(super) span: &'a mut OpenSpan,
    /// Fields of the call site, by their indices.
    pub(super) planned: &'a [PlannedField],
    pub(super) exceptions: bool,
}

impl FieldsOf<'_> {
    #[inline(always)]
    fn set(&mut self, field: &Field, value: Value<'_>) {
        match self.planned.get(field.index()) {
            // The key was hashed and encoded once per call site.
            Some(planned) => self.span.record.set_at_start(&planned.key, value),
            None => self.span.record.set(field.name(), value),
        }
    }
}

impl Visit for FieldsOf<'_> {
    visit_numbers! { set Value }

    fn record_bytes(&mut self, field: &Field, value: &[u8]) {
        self.set(field, Value::Bytes(value));
    }

    #[inline]
    fn record_str(&mut self, field: &Field, value: &str) {
        match self.planned.get(field.index()) {
            Some(PlannedField { key, role: Role::Attribute }) => {
                self.span.record.set_at_start(key, Value::Str(value));
            }
            Some(planned) => planned.role.apply(self.span, value),
            None => set_text(self.span, field.name(), value),
        }
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        let set = |fields: &Fields| set_fields(self.span, fields, self.exceptions);
        Fields::read(|fields| fields.record_error(field, value), set);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let set = |fields: &Fields| set_fields(self.span, fields, self.exceptions);
        Fields::read(|fields| fields.record_debug(field, value), set);
    }
}

/// Sets fields on a span, as attributes or special fields.
pub(super) fn set_fields(span: &mut OpenSpan, fields: &Fields, exceptions: bool) {
    fields.each(|name, value| match value {
        FieldValue::Plain(Value::Str(text)) => set_text(span, name, text),
        FieldValue::Plain(value) => span.record.set(name, value),
        FieldValue::Error(error) => {
            error.set_as(name, exceptions, |key, value| span.record.set(key, value));
        }
    });
}

/// Returns the key for the causes of the error in a field.
fn chain_key(field: &str) -> Cow<'_, str> {
    match field {
        "error" => Cow::Borrowed("error.chain"),
        field => Cow::Owned(format!("{field}.chain")),
    }
}

/// The property of a span that a text field sets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Attribute,
    Name,
    Kind,
    StatusCode,
    StatusMessage,
}

impl Role {
    pub(super) fn of(field: &str) -> Self {
        match field {
            "otel.name" => Self::Name,
            "otel.kind" => Self::Kind,
            "otel.status_code" => Self::StatusCode,
            "otel.status_message" | "otel.status_description" => Self::StatusMessage,
            _ => Self::Attribute,
        }
    }

    /// Sets the property, unless it is an attribute.
    #[inline(never)]
    fn apply(self, span: &mut OpenSpan, text: &str) {
        match self {
            Self::Name => span.rename(text),
            Self::Kind => kind(text).into_iter().for_each(|kind| span.record.set_kind(kind)),
            Self::StatusCode if text.eq_ignore_ascii_case("ok") => span.record.set_status(Status::Ok),
            Self::StatusCode if text.eq_ignore_ascii_case("error") => {
                span.status_unless_set(Status::Error(""))
            }
            Self::StatusMessage => span.record.set_status(Status::Error(text)),
            // An unknown status code is ignored, as tracing-opentelemetry does.
            Self::StatusCode | Self::Attribute => {}
        }
    }
}

/// Applies a special field, and sets any other field as an attribute.
fn set_text(span: &mut OpenSpan, name: &str, text: &str) {
    match Role::of(name) {
        Role::Attribute => span.record.set(name, Value::Str(text)),
        role => role.apply(span, text),
    }
}

/// Parses a span kind. Lower case is tried first, since nearly all programs use it.
fn kind(text: &str) -> Option<SpanKind> {
    match text {
        "server" => Some(SpanKind::Server),
        "client" => Some(SpanKind::Client),
        "producer" => Some(SpanKind::Producer),
        "consumer" => Some(SpanKind::Consumer),
        "internal" => Some(SpanKind::Internal),
        _ if text.bytes().any(|byte| byte.is_ascii_uppercase()) => kind(&text.to_ascii_lowercase()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storage_is_kept_but_no_value() {
        let bytes = || Entry { name: "body", value: Recorded::Bytes(vec![0; 1 << 20]) };
        let seen = Fields::read(|fields| fields.entries.push(bytes()), |fields| fields.entries.len());
        let kept = Pool::take(&POOL).expect("little storage is kept");
        assert_eq!((seen, kept.entries.len()), (1, 0));
        assert!(kept.entries.capacity() > 0);
    }
}
