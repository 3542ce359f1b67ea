//! Attribute values: [`Value`], and the types that convert to it ([`IntoValue`]).

use std::borrow::Cow;

/// A borrowed attribute value, as written by [`Span::set`](crate::Span::set) and [`Log::set`](crate::Log::set).
///
/// Strings, numbers, booleans and slices of them convert implicitly: see [`IntoValue`]. Arrays of mixed values and
/// nested maps are constructed explicitly:
///
/// ```
/// use standpipe::Value;
///
/// let plain: Value = 4711.into();
/// let list: Value = ["red", "green"].as_slice().into();
/// let nested = Value::Map(&[("id", Value::Int(7)), ("tags", Value::Strs(&["a", "b"]))]);
/// # let _ = (plain, list, nested);
/// ```
// Later versions of OTLP's `AnyValue` may have more kinds.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// UTF-8 text.
    Str(&'a str),
    /// A boolean.
    Bool(bool),
    /// A 64-bit signed integer.
    Int(i64),
    /// A double; NaN and infinities are written as they are.
    Float(f64),
    /// Bytes that need not be text.
    Bytes(&'a [u8]),
    /// An array of any values.
    Array(&'a [Value<'a>]),
    /// An array of strings.
    Strs(&'a [&'a str]),
    /// An array of booleans.
    Bools(&'a [bool]),
    /// An array of integers.
    Ints(&'a [i64]),
    /// An array of doubles.
    Floats(&'a [f64]),
    /// A map. If several entries have the same key, the last one counts.
    Map(&'a [(&'a str, Value<'a>)]),
}

impl Value<'_> {
    /// Returns whether the value as text meets a condition. For an array, one element has to meet it. Bytes and maps
    /// have no text.
    pub(crate) fn has_text(self, is_it: &dyn Fn(&str) -> bool) -> bool {
        match self {
            Self::Str(text) => is_it(text),
            Self::Bool(boolean) => is_it(&boolean.to_string()),
            Self::Int(number) => is_it(&number.to_string()),
            Self::Float(number) => is_it(&format!("{number:?}")),
            Self::Array(values) => values.iter().any(|value| value.has_text(is_it)),
            Self::Strs(texts) => texts.iter().any(|text| is_it(text)),
            Self::Bools(values) => values.iter().any(|value| Value::Bool(*value).has_text(is_it)),
            Self::Ints(values) => values.iter().any(|value| Value::Int(*value).has_text(is_it)),
            Self::Floats(values) => values.iter().any(|value| Value::Float(*value).has_text(is_it)),
            Self::Bytes(_) | Self::Map(_) => false,
        }
    }
}

/// A type whose values can be set as attributes: everything that converts to a [`Value`], and owned strings. An
/// `Option` sets the attribute if it is `Some`. `None` sets nothing, and keeps a value that was set before.
///
/// ```
/// # let telemetry = standpipe::Telemetry::start(standpipe::Config::new()).unwrap();
/// # let mut span = telemetry.tracer("shop").span("checkout");
/// # let (order, coupon) = (4711, None::<&str>);
/// span.set("order.id", order).set("order.label", format!("order {order}"));
/// span.set("coupon", coupon); // no attribute
/// ```
///
/// A type of the program implements one method:
///
/// ```
/// use standpipe::{IntoValue, Value};
///
/// struct OrderId(u32);
///
/// impl IntoValue for &OrderId {
///     fn with_value(self, write: impl FnOnce(Value<'_>)) {
///         write(Value::Int(self.0.into()));
///     }
/// }
/// # let telemetry = standpipe::Telemetry::start(standpipe::Config::new()).unwrap();
/// # telemetry.tracer("shop").span("checkout").set("order.id", &OrderId(4711));
/// ```
pub trait IntoValue {
    /// Calls `write` with the value, or not at all if the value is absent.
    fn with_value(self, write: impl FnOnce(Value<'_>));

    /// Returns the value, if it is available without computation or allocation.
    ///
    /// For such types, `Span::set` is inlined where it is called, which makes a literal key fast to write. Other types
    /// need not implement this.
    #[inline(always)]
    fn as_value(&self) -> Option<Value<'_>> {
        None
    }

    /// Returns the value for a [`SamplingRule`](crate::config::SamplingRule), which reads attributes before the span
    /// starts. With `None`, the rule does not see the attribute.
    fn peek(&self) -> Option<Value<'_>> {
        self.as_value()
    }
}

impl IntoValue for Value<'_> {
    #[inline(always)]
    fn with_value(self, write: impl FnOnce(Value<'_>)) {
        write(self);
    }

    fn peek(&self) -> Option<Value<'_>> {
        Some(*self)
    }
}

impl<T: IntoValue> IntoValue for Option<T> {
    #[inline(always)]
    fn with_value(self, write: impl FnOnce(Value<'_>)) {
        if let Some(value) = self {
            value.with_value(write);
        }
    }

    fn peek(&self) -> Option<Value<'_>> {
        self.as_ref()?.peek()
    }
}

impl IntoValue for String {
    #[inline]
    fn with_value(self, write: impl FnOnce(Value<'_>)) {
        write(Value::Str(&self));
    }

    #[inline(always)]
    fn as_value(&self) -> Option<Value<'_>> {
        Some(Value::Str(self))
    }
}

impl IntoValue for Cow<'_, str> {
    #[inline]
    fn with_value(self, write: impl FnOnce(Value<'_>)) {
        write(Value::Str(&self));
    }

    fn peek(&self) -> Option<Value<'_>> {
        Some(Value::Str(self))
    }
}

macro_rules! from {
    ($($source:ty => |$name:ident| $value:expr;)*) => {
        $(impl<'a> From<$source> for Value<'a> {
            #[inline(always)]
            fn from($name: $source) -> Self {
                $value
            }
        }

        impl<'a> IntoValue for $source {
            #[inline(always)]
            fn with_value(self, write: impl FnOnce(Value<'_>)) {
                write(self.into());
            }

            #[inline(always)]
            fn as_value(&self) -> Option<Value<'_>> {
                Some((*self).into())
            }
        })*
    };
}

from! {
    &'a str => |text| Value::Str(text);
    &'a String => |text| Value::Str(text);
    &'a Cow<'a, str> => |text| Value::Str(text);
    bool => |boolean| Value::Bool(boolean);
    i64 => |number| Value::Int(number);
    isize => |number| Value::Int(number as i64);
    i32 => |number| Value::Int(number.into());
    i16 => |number| Value::Int(number.into());
    i8 => |number| Value::Int(number.into());
    u32 => |number| Value::Int(number.into());
    u16 => |number| Value::Int(number.into());
    u8 => |number| Value::Int(number.into());
    // OTLP has no unsigned 64-bit attribute, so a larger number becomes `i64::MAX`.
    u64 => |number| Value::Int(i64::try_from(number).unwrap_or(i64::MAX));
    usize => |number| Value::Int(i64::try_from(number).unwrap_or(i64::MAX));
    f64 => |number| Value::Float(number);
    f32 => |number| Value::Float(number.into());
    &'a [u8] => |bytes| Value::Bytes(bytes);
    &'a Vec<u8> => |bytes| Value::Bytes(bytes);
    &'a [Value<'a>] => |values| Value::Array(values);
    &'a [&'a str] => |values| Value::Strs(values);
    &'a [bool] => |values| Value::Bools(values);
    &'a [i64] => |values| Value::Ints(values);
    &'a [f64] => |values| Value::Floats(values);
    &'a [(&'a str, Value<'a>)] => |entries| Value::Map(entries);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the text that would be written, if any.
    fn text(value: impl IntoValue) -> Option<String> {
        let mut found = None;
        value.with_value(|value| {
            if let Value::Str(text) = value {
                found = Some(text.to_owned());
            }
        });
        found
    }

    #[test]
    fn owned_and_borrowed_strings_are_the_same_value() {
        let owned = String::from("a");
        let expected = Some(owned.clone());
        assert_eq!(
            [text(owned.clone()), text(&owned), text(owned.as_str())],
            [(); 3].map(|()| expected.clone())
        );
        let (borrowed, cow) = (Cow::Borrowed("a"), Cow::<str>::Owned(owned));
        assert_eq!([text(&borrowed), text(borrowed), text(cow)], [(); 3].map(|()| expected.clone()));
        assert_eq!([text(Some("a")), text(Some(Some("a")))], [expected.clone(), expected]);
    }

    #[test]
    fn nothing_is_written_for_none() {
        None::<&str>.with_value(|value| panic!("{value:?}"));
        Some(None::<i64>).with_value(|value| panic!("{value:?}"));
    }
}
