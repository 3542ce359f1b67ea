//! Received values, which tests compare with the values that the program set.

use std::fmt;

use crate::record::schema::{self, AnyValue, KeyValue, Number};
use crate::record::{IntoValue, Value};

/// The value of an attribute, the body of a log record, or the number of a data point. The value may be absent.
///
/// A `ReceivedValue` can be compared with every type that [`Span::set`](crate::Span::set) accepts, and with arrays and
/// lists of them. Types matter: 2 equals neither `2.0` nor `"2"`. An absent value equals only `None` and another absent
/// value. `Debug` and `Display` show the value or `absent`, so that a failed `assert_eq!` is readable.
///
/// ```
/// use standpipe::receiver::TestTelemetry;
///
/// let test = TestTelemetry::start();
/// let mut span = test.tracer("shop").span("checkout");
/// span.set("phases", 2).set("card", "visa").set("total", 12.5).set("tags", ["a", "b"].as_slice());
/// span.end();
///
/// let trace = test.finish().only_trace();
/// let span = trace.root();
/// assert_eq!(span.attribute("phases"), 2);
/// assert_eq!(span.attribute("card"), "visa");
/// assert_eq!(span.attribute("tags"), ["a", "b"]);
/// assert!(span.attribute("total").as_f64() > Some(12.0));
/// assert!(span.attribute("coupon").is_none());
/// assert_eq!(format!("{:?} {:?}", span.attribute("card"), span.attribute("coupon")), r#""visa" absent"#);
/// ```
#[derive(Clone, Copy, PartialEq)]
pub struct ReceivedValue<'a>(Content<'a>);

#[derive(Clone, Copy, PartialEq)]
enum Content<'a> {
    Absent,
    Str(&'a str),
    Bool(bool),
    Int(i64),
    Float(f64),
    Bytes(&'a [u8]),
    Array(&'a [AnyValue]),
    Map(&'a [KeyValue]),
}

impl<'a> ReceivedValue<'a> {
    pub(super) fn of_number(number: Option<Number>) -> Self {
        Self(match number {
            Some(Number::AsInt(number)) => Content::Int(number),
            Some(Number::AsDouble(number)) => Content::Float(number),
            None => Content::Absent,
        })
    }

    pub(super) const ABSENT: Self = Self(Content::Absent);

    pub(super) fn of(value: Option<&'a AnyValue>) -> Self {
        let Some(value) = value.and_then(|value| value.value.as_ref()) else { return Self::ABSENT };
        Self(match value {
            schema::Value::StringValue(text) => Content::Str(text),
            schema::Value::BoolValue(boolean) => Content::Bool(*boolean),
            schema::Value::IntValue(number) => Content::Int(*number),
            schema::Value::DoubleValue(number) => Content::Float(*number),
            schema::Value::BytesValue(bytes) => Content::Bytes(bytes),
            schema::Value::ArrayValue(array) => Content::Array(&array.values),
            schema::Value::KvlistValue(map) => Content::Map(&map.values),
        })
    }

    /// Returns the value of the attribute `key`.
    pub(super) fn find(attributes: &'a [KeyValue], key: &str) -> Self {
        let found = attributes.iter().find(|attribute| attribute.key == key);
        Self::of(found.and_then(|found| found.value.as_ref()))
    }

    /// Returns whether there is a value.
    pub fn is_some(self) -> bool {
        !self.is_none()
    }

    /// Returns whether there is no value.
    pub fn is_none(self) -> bool {
        matches!(self.0, Content::Absent)
    }

    /// Returns the text, if the value is one.
    pub fn as_str(self) -> Option<&'a str> {
        if let Content::Str(text) = self.0 { Some(text) } else { None }
    }

    /// Returns the integer, if the value is one.
    pub fn as_i64(self) -> Option<i64> {
        if let Content::Int(number) = self.0 { Some(number) } else { None }
    }

    /// Returns the double, if the value is one.
    pub fn as_f64(self) -> Option<f64> {
        if let Content::Float(number) = self.0 { Some(number) } else { None }
    }

    /// Returns the boolean, if the value is one.
    pub fn as_bool(self) -> Option<bool> {
        if let Content::Bool(boolean) = self.0 { Some(boolean) } else { None }
    }

    /// Returns the bytes, if the value is an array of bytes.
    pub fn as_bytes(self) -> Option<&'a [u8]> {
        if let Content::Bytes(bytes) = self.0 { Some(bytes) } else { None }
    }

    /// Returns the items of an array; empty for other values.
    pub fn items(self) -> Vec<ReceivedValue<'a>> {
        let Content::Array(items) = self.0 else { return Vec::new() };
        items.iter().map(|item| Self::of(Some(item))).collect()
    }

    /// Returns the entries of a map, in the order they were sent; empty for other values.
    pub fn entries(self) -> Vec<(&'a str, ReceivedValue<'a>)> {
        let Content::Map(entries) = self.0 else { return Vec::new() };
        entries_of(entries)
    }

    /// Returns the entry `key` of a map; absent for other values.
    pub fn get(self, key: &str) -> ReceivedValue<'a> {
        let Content::Map(entries) = self.0 else { return Self::ABSENT };
        Self::find(entries, key)
    }

    fn is(self, expected: Value<'_>) -> bool {
        match (self.0, expected) {
            (Content::Str(text), Value::Str(expected)) => text == expected,
            (Content::Bool(boolean), Value::Bool(expected)) => boolean == expected,
            (Content::Int(number), Value::Int(expected)) => number == expected,
            (Content::Float(number), Value::Float(expected)) => number == expected,
            (Content::Bytes(bytes), Value::Bytes(expected)) => bytes == expected,
            (Content::Array(_), Value::Array(expected)) => self.has_items(expected),
            (Content::Array(_), Value::Strs(expected)) => self.has_items(expected),
            (Content::Array(_), Value::Bools(expected)) => self.has_items(expected),
            (Content::Array(_), Value::Ints(expected)) => self.has_items(expected),
            (Content::Array(_), Value::Floats(expected)) => self.has_items(expected),
            (Content::Map(entries), Value::Map(expected)) => {
                entries.len() == expected.len()
                    && expected.iter().all(|(key, value)| self.get(key).is(*value))
            }
            _ => false,
        }
    }

    fn has_items<T>(self, expected: &[T]) -> bool
    where
        Self: PartialEq<T>,
    {
        let Content::Array(items) = self.0 else { return false };
        items.len() == expected.len()
            && items.iter().zip(expected).all(|(item, expected)| Self::of(Some(item)) == *expected)
    }
}

pub(super) fn entries_of(attributes: &[KeyValue]) -> Vec<(&str, ReceivedValue<'_>)> {
    attributes.iter().map(|entry| (entry.key.as_str(), ReceivedValue::of(entry.value.as_ref()))).collect()
}

/// Compares with a value that an attribute can be set to. `None`, which sets nothing, equals an absent value.
impl<T: IntoValue + Clone> PartialEq<T> for ReceivedValue<'_> {
    fn eq(&self, expected: &T) -> bool {
        let mut is_equal = self.is_none();
        expected.clone().with_value(|expected| is_equal = self.is(expected));
        is_equal
    }
}

macro_rules! compares_with_lists {
    ($($list:ty $(, $length:ident)?;)*) => {
        $(impl<T $(, const $length: usize)?> PartialEq<$list> for ReceivedValue<'_>
        where
            Self: PartialEq<T>,
        {
            fn eq(&self, expected: &$list) -> bool {
                self.has_items(&expected[..])
            }
        })*
    };
}

compares_with_lists! {
    [T; N], N;
    &[T; N], N;
    Vec<T>;
}

/// Shows the value in the style of a Rust literal, or `absent`.
impl fmt::Debug for ReceivedValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Content::Absent => f.write_str("absent"),
            Content::Str(text) => fmt::Debug::fmt(text, f),
            Content::Bool(boolean) => fmt::Debug::fmt(&boolean, f),
            Content::Int(number) => fmt::Debug::fmt(&number, f),
            Content::Float(number) => fmt::Debug::fmt(&number, f),
            Content::Bytes(bytes) => write!(f, "b\"{}\"", bytes.escape_ascii()),
            Content::Array(_) => f.debug_list().entries(self.items()).finish(),
            Content::Map(_) => f.debug_map().entries(self.entries()).finish(),
        }
    }
}

/// Like `Debug`, but shows a text without quotes and escapes.
impl fmt::Display for ReceivedValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Content::Str(text) => f.pad(text),
            _ => fmt::Debug::fmt(self, f),
        }
    }
}
