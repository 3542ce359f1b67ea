//! What a span's fields make of it.

use super::fields::{ErrorText, Fields, Told};
use super::place::chain_key;
use crate::record::{SpanKind, Status, Value};
use crate::tracer::DetachedSpan;

/// Sets what the fields say.
pub(super) fn set_fields(span: &mut DetachedSpan, fields: &Fields, exceptions: bool) {
    fields.each(|name, told| match told {
        Told::Plain(value) => set_field(span, name, value),
        Told::Error(error) => {
            if exceptions {
                set_exception(span, &error);
            }
            set_error(name, &error, |key, value| _ = span.set(key, value));
        }
    });
}

/// Tells the span of an error that is its own, or that one of its events has told.
pub(super) fn set_exception(span: &mut DetachedSpan, error: &ErrorText<'_>) {
    tell_exception(error, |key, value| _ = span.set(key, value));
}

pub(super) fn tell_exception(error: &ErrorText<'_>, mut set: impl FnMut(&str, Value<'_>)) {
    set("exception.message", Value::Str(error.text));
    let causes = error.causes();
    if !causes.is_empty() {
        // by the conventions it is one text, and what a program has of it are the causes
        set("exception.stacktrace", Value::Str(&causes.join("\n")));
    }
}

/// The field of an error, and the causes beside it.
pub(super) fn set_error(name: &str, error: &ErrorText<'_>, mut set: impl FnMut(&str, Value<'_>)) {
    set(name, Value::Str(error.text));
    set(&chain_key(name), Value::Strs(&error.causes()));
}

#[inline]
fn set_field(span: &mut DetachedSpan, name: &str, value: Value<'_>) {
    match (name.strip_prefix("otel."), value) {
        (Some(order), Value::Str(text)) => obey(span, name, order, text),
        _ => _ = span.set(name, value),
    }
}

/// A field that is an order rather than an attribute.
#[cold]
fn obey(span: &mut DetachedSpan, name: &str, order: &str, text: &str) {
    match order {
        "name" => _ = span.rename(text),
        "kind" => kind(text).into_iter().for_each(|kind| _ = span.kind(kind)),
        "status_code" if text.eq_ignore_ascii_case("ok") => _ = span.status(Status::Ok),
        "status_code" if text.eq_ignore_ascii_case("error") => span.status_unless_set(Status::Error("")),
        "status_code" => {}
        "status_message" | "status_description" => _ = span.status(Status::Error(text)),
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
