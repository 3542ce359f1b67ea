//! Converts values of the OpenTelemetry SDK to borrowed [`Value`]s.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell};

use opentelemetry::logs::AnyValue;
use opentelemetry::{Array, StringValue};

use crate::record::{MAX_DEPTH, Value};

/// Calls `see` with an attribute value of a span, a scope or a resource.
pub(super) fn with_value<T>(value: &opentelemetry::Value, see: impl FnOnce(Value<'_>) -> T) -> T {
    see(ConvertedValue::new(value).value())
}

/// A converted value of the SDK, with the memory that it borrows.
pub(super) enum ConvertedValue<'a> {
    Value(Value<'a>),
    Texts(Vec<&'a str>),
    /// A kind of value that is newer than this code, as text.
    Text(Cow<'a, str>),
}

impl<'a> ConvertedValue<'a> {
    pub(super) fn new(value: &'a opentelemetry::Value) -> Self {
        Self::Value(match value {
            opentelemetry::Value::Bool(truth) => Value::Bool(*truth),
            opentelemetry::Value::I64(number) => Value::Int(*number),
            opentelemetry::Value::F64(number) => Value::Float(*number),
            opentelemetry::Value::String(text) => Value::Str(text.as_str()),
            opentelemetry::Value::Array(Array::Bool(truths)) => Value::Bools(truths),
            opentelemetry::Value::Array(Array::I64(numbers)) => Value::Ints(numbers),
            opentelemetry::Value::Array(Array::F64(numbers)) => Value::Floats(numbers),
            opentelemetry::Value::Array(Array::String(texts)) => {
                return Self::Texts(texts.iter().map(StringValue::as_str).collect());
            }
            other => return Self::Text(other.as_str()),
        })
    }

    pub(super) fn value(&self) -> Value<'_> {
        match self {
            Self::Value(value) => *value,
            Self::Texts(texts) => Value::Strs(texts),
            Self::Text(text) => Value::Str(text),
        }
    }
}

/// Calls `see` with the body or an attribute value of a log record.
pub(super) fn with_any_value<T>(value: &AnyValue, see: impl FnOnce(Value<'_>) -> T) -> T {
    let arena = ListArena::for_all_in(value);
    see(arena.value(value, 0))
}

/// Arena for the lists of nested values. Each list has its own cell, because outer lists borrow inner ones.
struct ListArena<'a> {
    places: Vec<OnceCell<List<'a>>>,
    taken: Cell<usize>,
}

enum List<'a> {
    Array(Vec<Value<'a>>),
    Map(Vec<(&'a str, Value<'a>)>),
    Text(String),
}

impl<'a> ListArena<'a> {
    fn for_all_in(value: &AnyValue) -> Self {
        let places = std::iter::repeat_with(OnceCell::new).take(lists_in(value, 0)).collect();
        Self { places, taken: Cell::new(0) }
    }

    fn value(&'a self, value: &'a AnyValue, depth: usize) -> Value<'a> {
        match value {
            AnyValue::Int(number) => Value::Int(*number),
            AnyValue::Double(number) => Value::Float(*number),
            AnyValue::String(text) => Value::Str(text.as_str()),
            AnyValue::Boolean(truth) => Value::Bool(*truth),
            AnyValue::Bytes(bytes) => Value::Bytes(bytes),
            // The value is nested too deep to be written, so its contents are not converted.
            AnyValue::ListAny(_) | AnyValue::Map(_) if depth > MAX_DEPTH => Value::Array(&[]),
            AnyValue::ListAny(values) => {
                let values = values.iter().map(|value| self.value(value, depth + 1));
                self.keep(List::Array(values.collect()))
            }
            AnyValue::Map(entries) => {
                let entries = entries.iter().map(|(key, value)| (key.as_str(), self.value(value, depth + 1)));
                self.keep(List::Map(entries.collect()))
            }
            // A kind of value that is newer than this code is sent as text.
            other => self.keep(List::Text(format!("{other:?}"))),
        }
    }

    fn keep(&'a self, list: List<'a>) -> Value<'a> {
        let place = self.taken.replace(self.taken.get() + 1);
        match self.places[place].get_or_init(|| list) {
            List::Array(values) => Value::Array(values),
            List::Map(entries) => Value::Map(entries),
            List::Text(text) => Value::Str(text),
        }
    }
}

/// Returns the number of cells that a value needs.
fn lists_in(value: &AnyValue, depth: usize) -> usize {
    match value {
        AnyValue::Int(_) | AnyValue::Double(_) | AnyValue::String(_) => 0,
        AnyValue::Boolean(_) | AnyValue::Bytes(_) => 0,
        AnyValue::ListAny(_) | AnyValue::Map(_) if depth > MAX_DEPTH => 0,
        AnyValue::ListAny(values) => 1 + values.iter().map(|value| lists_in(value, depth + 1)).sum::<usize>(),
        AnyValue::Map(entries) => 1 + entries.values().map(|value| lists_in(value, depth + 1)).sum::<usize>(),
        _ => 1,
    }
}
