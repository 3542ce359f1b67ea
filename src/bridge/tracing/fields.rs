//! What a span or an event says, read from its fields while no lock is held: how a value looks is up to the program.

use std::borrow::Cow;
use std::error::Error;
use std::fmt::{self, Write};
use std::ops::Range;

use tracing::field::{Field, Visit};

use crate::record::{Pool, Value};
use crate::trace;

/// Fields as they were recorded, in order. Reused on its thread.
#[derive(Debug, Default)]
pub(super) struct Fields {
    entries: Vec<Entry>,
    /// The text of all of them.
    text: String,
    /// The causes of all errors.
    causes: Vec<Range<usize>>,
    /// Whether any of them is an error.
    pub(super) has_errors: bool,
}

#[derive(Debug)]
struct Entry {
    name: &'static str,
    value: Recorded,
}

#[derive(Debug)]
enum Recorded {
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Range<usize>),
    Bytes(Vec<u8>),
    Error { text: Range<usize>, causes: Range<usize> },
}

/// The value of a field.
#[derive(Debug, Clone, Copy)]
pub(super) enum FieldValue<'a> {
    Plain(Value<'a>),
    Error(ErrorText<'a>),
}

/// What an error says, and what those say that caused it.
#[derive(Debug, Clone, Copy)]
pub(super) struct ErrorText<'a> {
    pub(super) text: &'a str,
    fields: &'a Fields,
    causes: &'a [Range<usize>],
}

impl<'a> ErrorText<'a> {
    pub(super) fn causes(&self) -> Vec<&'a str> {
        self.causes.iter().map(|range| self.fields.text(range)).collect()
    }
}

thread_local! {
    static POOL: Pool<Fields, 1> = const { Pool::new() };
}

impl Fields {
    /// Reads the fields of `record` and gives them to `work`. A value that traces or logs while it is being formatted finds
    /// other storage than the one in use.
    pub(super) fn read<T>(record: impl FnOnce(&mut Self), work: impl FnOnce(&Self) -> T) -> T {
        let mut fields = Pool::take(&POOL).unwrap_or_default();
        record(&mut fields);
        let result = work(&fields);
        // Now and not the next time, because a value may be of any size.
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

    /// All of them, in order.
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

    /// What the last field of this name says, as text.
    pub(super) fn shown(&self, name: &str) -> Option<Cow<'_, str>> {
        Some(match self.find(name)? {
            Recorded::Text(range) | Recorded::Error { text: range, .. } => self.text(range).into(),
            Recorded::Bool(truth) => truth.to_string().into(),
            Recorded::Int(number) => number.to_string().into(),
            Recorded::Float(number) => number.to_string().into(),
            Recorded::Bytes(bytes) => String::from_utf8_lossy(bytes),
        })
    }

    /// The text of the last field of this name, if it has one.
    pub(super) fn text_of(&self, name: &str) -> Option<&str> {
        match self.find(name)? {
            Recorded::Text(range) | Recorded::Error { text: range, .. } => Some(self.text(range)),
            _ => None,
        }
    }

    /// The same for a whole number.
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
        // what cannot be formatted is as long as it got
        let _ = self.text.write_fmt(text);
        start..self.text.len()
    }

    #[inline]
    fn push(&mut self, field: &Field, value: Recorded) {
        self.entries.push(Entry { name: field.name(), value });
    }
}

impl Visit for Fields {
    #[inline]
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.push(field, Recorded::Bool(value));
    }

    #[inline]
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.push(field, Recorded::Int(value));
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
        self.push(field, Recorded::Bytes(value.to_vec()));
    }

    #[inline]
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.push(field, Recorded::Float(value));
    }

    #[inline]
    fn record_str(&mut self, field: &Field, value: &str) {
        let start = self.text.len();
        self.text.push_str(value);
        self.push(field, Recorded::Text(start..self.text.len()));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        let text = self.write(format_args!("{value}"));
        let first = self.causes.len();
        for cause in trace::causes(value) {
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

/// Records an integer as a number, or as text if it does not fit into 64 bits with a sign: OTLP has no larger numbers.
#[inline]
pub(super) fn record_integer(
    visitor: &mut impl Visit,
    field: &Field,
    value: impl TryInto<i64> + fmt::Debug + Copy,
) {
    match value.try_into() {
        Ok(value) => visitor.record_i64(field, value),
        Err(_) => visitor.record_debug(field, &value),
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
