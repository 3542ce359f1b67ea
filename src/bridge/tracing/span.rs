//! What a span's fields make of it.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::mem;

use tracing::field::{Field, Visit};

use super::fields::{ErrorText, FieldValue, Fields, record_integer};
use crate::record::{SpanKind, Status, Value};
use crate::trace::{self, DetachedSpan};

/// A span whose fields are being read. If that ends in a panic, it is counted and never sent.
pub(super) struct StartingSpan(Option<DetachedSpan>);

impl StartingSpan {
    pub(super) fn new(span: DetachedSpan) -> Self {
        Self(Some(span))
    }

    /// The span, if what is set goes anywhere.
    #[inline]
    pub(super) fn recording(&mut self) -> Option<&mut DetachedSpan> {
        self.0.as_mut().filter(|span| span.is_recording())
    }

    #[inline]
    pub(super) fn started(mut self) -> Option<DetachedSpan> {
        let span = self.0.take();
        // nothing is left that could be discarded
        mem::forget(self);
        span
    }
}

impl Drop for StartingSpan {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(DetachedSpan::discard_in_panic);
    }
}

/// Sets the fields of a span that no other thread knows yet, as they are read.
pub(super) struct FieldsOf<'a> {
    pub(super) span: &'a mut DetachedSpan,
    pub(super) exceptions: bool,
}

impl Visit for FieldsOf<'_> {
    #[inline]
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.span.set_at_start(field.name(), value);
    }

    #[inline]
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.span.set_at_start(field.name(), value);
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

    fn record_bytes(&mut self, field: &Field, value: &[u8]) {
        self.span.set(field.name(), value);
    }

    #[inline]
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.span.set_at_start(field.name(), value);
    }

    #[inline]
    fn record_str(&mut self, field: &Field, value: &str) {
        let name = field.name();
        match is_order(name) {
            true => obey(self.span, name, value),
            false => self.span.set_at_start(name, value),
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

/// Sets what the fields say.
pub(super) fn set_fields(span: &mut DetachedSpan, fields: &Fields, exceptions: bool) {
    fields.each(|name, value| match value {
        FieldValue::Plain(Value::Str(text)) => set_text(span, name, text),
        FieldValue::Plain(value) => _ = span.set(name, value),
        FieldValue::Error(error) => {
            if exceptions {
                set_exception(span, &error);
            }
            set_error(name, &error, |key, value| _ = span.set(key, value));
        }
    });
}

/// Sets the attributes of an error of the span or of one of its events.
pub(super) fn set_exception(span: &mut DetachedSpan, error: &ErrorText<'_>) {
    set_exception_on(error, |key, value| _ = span.set(key, value));
}

pub(super) fn set_exception_on(error: &ErrorText<'_>, set: impl FnMut(&str, Value<'_>)) {
    trace::set_exception(error.text, &error.causes().join("\n"), set);
}

/// The field of an error, and the causes beside it.
pub(super) fn set_error(name: &str, error: &ErrorText<'_>, mut set: impl FnMut(&str, Value<'_>)) {
    set(name, Value::Str(error.text));
    set(&chain_key(name), Value::Strs(&error.causes()));
}

/// `<field>.chain`, the causes of the error in a field.
fn chain_key(field: &str) -> Cow<'_, str> {
    match field {
        "error" => Cow::Borrowed("error.chain"),
        field => Cow::Owned(format!("{field}.chain")),
    }
}

fn set_text(span: &mut DetachedSpan, name: &str, text: &str) {
    match is_order(name) {
        true => obey(span, name, text),
        false => _ = span.set(name, text),
    }
}

/// Whether a field may be an order rather than an attribute.
#[inline]
fn is_order(name: &str) -> bool {
    name.starts_with("otel.")
}

#[cold]
#[inline(never)]
fn obey(span: &mut DetachedSpan, name: &str, text: &str) {
    match name {
        "otel.name" => _ = span.rename(text),
        "otel.kind" => kind(text).into_iter().for_each(|kind| _ = span.kind(kind)),
        "otel.status_code" if text.eq_ignore_ascii_case("ok") => _ = span.status(Status::Ok),
        "otel.status_code" if text.eq_ignore_ascii_case("error") => span.status_unless_set(Status::Error("")),
        "otel.status_code" => {}
        "otel.status_message" | "otel.status_description" => _ = span.status(Status::Error(text)),
        _ => _ = span.set(name, text),
    }
}

fn kind(text: &str) -> Option<SpanKind> {
    let kinds = [
        ("server", SpanKind::Server),
        ("client", SpanKind::Client),
        ("producer", SpanKind::Producer),
        ("consumer", SpanKind::Consumer),
        ("internal", SpanKind::Internal),
    ];
    kinds.into_iter().find(|(name, _)| text.eq_ignore_ascii_case(name)).map(|(_, kind)| kind)
}
