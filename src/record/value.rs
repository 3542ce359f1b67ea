//! What can an attribute be set to?

/// A borrowed attribute value: what [`Span::set`](crate::Span::set) and [`Log::set`](crate::Log::set) take, by way
/// of `Into`.
///
/// Strings, numbers, booleans and slices of them convert by themselves; arrays of mixed values and
/// nested maps are spelled out:
///
/// ```
/// use standpipe::Value;
///
/// let plain: Value = 4711.into();
/// let list: Value = ["red", "green"].as_slice().into();
/// let nested = Value::Map(&[("id", Value::Int(7)), ("tags", Value::Strs(&["a", "b"]))]);
/// # let _ = (plain, list, nested);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// UTF-8 text.
    Str(&'a str),
    /// A truth value.
    Bool(bool),
    /// A 64-bit signed integer.
    Int(i64),
    /// A double; NaN and infinities are passed on as they are.
    Float(f64),
    /// Bytes that need not be text.
    Bytes(&'a [u8]),
    /// An array of any values.
    Array(&'a [Value<'a>]),
    /// An array of strings.
    Strs(&'a [&'a str]),
    /// An array of truth values.
    Bools(&'a [bool]),
    /// An array of integers.
    Ints(&'a [i64]),
    /// An array of doubles.
    Floats(&'a [f64]),
    /// A map; of entries with the same key the last one counts.
    Map(&'a [(&'a str, Value<'a>)]),
}

macro_rules! from {
    ($($source:ty => |$name:ident| $value:expr;)*) => {
        $(impl<'a> From<$source> for Value<'a> {
            #[inline]
            fn from($name: $source) -> Self {
                $value
            }
        })*
    };
}

from! {
    &'a str => |text| Value::Str(text);
    &'a String => |text| Value::Str(text);
    bool => |truth| Value::Bool(truth);
    i64 => |number| Value::Int(number);
    isize => |number| Value::Int(number as i64);
    i32 => |number| Value::Int(number.into());
    i16 => |number| Value::Int(number.into());
    i8 => |number| Value::Int(number.into());
    u32 => |number| Value::Int(number.into());
    u16 => |number| Value::Int(number.into());
    u8 => |number| Value::Int(number.into());
    // OTLP has no unsigned 64-bit attribute; what does not fit is pinned at the largest that does
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
