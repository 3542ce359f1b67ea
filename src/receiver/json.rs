//! Streaming conversion of OTLP/JSON to protobuf, so that limits and decoding are the same for both formats.
//!
//! The converter builds no tree of values. It follows the schema in `record::schema`, and messages are nested no deeper
//! than in protobuf.

use std::fmt;

use serde::de::{
    DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor,
};

use crate::record::schema::{self, Field, Kind, MAX_DEPTH, Presence, Schema};
use crate::record::wire::{WireType, encode_varint, insert_length};
use crate::record::{Severity, Signal};
use crate::transport::base64::decode as decode_base64;
use serde_json::json;

/// Converts an export request from JSON to protobuf.
pub(super) fn to_protobuf(signal: Signal, text: &[u8]) -> serde_json::Result<Vec<u8>> {
    let mut out = Vec::new();
    let mut text = serde_json::Deserializer::from_slice(text);
    // The parser needs no recursion limit: messages have the nesting limit of protobuf, and unknown fields are skipped
    // without recursion.
    text.disable_recursion_limit();
    text.deserialize_map(Request { schema: schema::request(signal), out: &mut out })?;
    // Text after the request is an error.
    text.end()?;
    Ok(out)
}

/// Returns the maximum protobuf length of a JSON text of this length. The worst case is `0,`, which becomes a double of
/// eight bytes.
pub(super) fn max_protobuf_bytes(text: usize) -> usize {
    text.saturating_mul(4)
}

/// The top-level message.
struct Request<'a> {
    schema: &'static Schema,
    out: &'a mut Vec<u8>,
}

impl<'de> Visitor<'de> for Request<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an export request")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        write_fields(self.schema, map, MAX_DEPTH, self.out)
    }
}

fn write_fields<'de, A: MapAccess<'de>>(
    schema: &'static Schema,
    mut map: A,
    depth: u32,
    out: &mut Vec<u8>,
) -> Result<(), A::Error> {
    let Some(depth) = depth.checked_sub(1) else {
        return Err(A::Error::custom("nested more than 100 levels deep"));
    };
    while let Some(name) = map.next_key::<String>()? {
        match schema.fields.iter().find(|field| field.json_name().eq(name.bytes())) {
            Some(field) => {
                let is_list = field.presence == Presence::Repeated;
                let context = if is_list { ValueContext::List } else { ValueContext::Field };
                map.next_value_seed(Value { field, context, depth, out })?;
            }
            // Unknown fields are ignored: they belong to a later version, or are an extension of the sender.
            None => _ = map.next_value::<IgnoredAny>()?,
        }
    }
    Ok(())
}

/// Position of a value in its message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ValueContext {
    Field,
    List,
    Element,
    /// An element of a packed list of numbers.
    Packed,
}

/// The value of a field, or an element of its list.
struct Value<'a> {
    field: &'static Field,
    context: ValueContext,
    /// Levels of messages that the value may contain.
    depth: u32,
    out: &'a mut Vec<u8>,
}

impl Value<'_> {
    fn key(&mut self, wire_type: WireType) {
        if self.context != ValueContext::Packed {
            self.field.encode_key(wire_type, self.out);
        }
    }

    /// Writes the bits of a number or a bool. Returns `None` if the field holds neither.
    fn number(&mut self, bits: u64) -> Option<()> {
        self.key(self.field.kind.number_type()?);
        self.field.kind.encode_number(bits, self.out);
        Some(())
    }

    fn bytes(&mut self, value: &[u8]) {
        self.key(WireType::LengthDelimited);
        encode_varint(value.len() as u64, self.out);
        self.out.extend_from_slice(value);
    }

    /// Writes the output of `write` with its length in front.
    fn delimited<E>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
        self.key(WireType::LengthDelimited);
        let start = self.out.len();
        // The length is known only after the content is written, so it is inserted then.
        write(self.out)?;
        insert_length(start, self.out);
        Ok(())
    }

    /// Writes an integer. Returns `None` if the field cannot hold it.
    fn whole(&mut self, number: i128) -> Option<()> {
        // A repeated field needs a list, not a single number. The match below refuses fields of other types, and
        // numbers outside the range of the field.
        if self.context == ValueContext::List {
            return None;
        }
        let bits = match self.field.kind {
            Kind::Double => (number as f64).to_bits(),
            Kind::Fixed64 | Kind::Uint64 => number.try_into().ok()?,
            Kind::Sfixed64 | Kind::Int64 => i64::try_from(number).ok()? as u64,
            Kind::Fixed32 | Kind::Uint32 => u32::try_from(number).ok()?.into(),
            Kind::Int32 | Kind::Sint32 => i64::from(i32::try_from(number).ok()?) as u64,
            Kind::Message(_) | Kind::Text | Kind::Id | Kind::Bytes | Kind::Bool => return None,
        };
        self.number(bits)
    }

    fn float(&mut self, number: f64) -> Option<()> {
        match self.field.kind {
            Kind::Double if self.context != ValueContext::List => self.number(number.to_bits()),
            // JSON may write an integer as 1e3.
            _ if number.fract() == 0.0 => self.whole(number as i128),
            _ => None,
        }
    }

    fn text(&mut self, text: &str) -> Option<()> {
        match self.field.kind {
            _ if self.context == ValueContext::List => return None,
            Kind::Text => self.bytes(text.as_bytes()),
            Kind::Id => self.bytes(&decode_hex(text.as_bytes())?),
            // Protobuf's JSON mapping accepts the URL-safe alphabet, too.
            Kind::Bytes => self.bytes(&decode_base64(text.replace('-', "+").replace('_', "/").as_bytes())?),
            Kind::Int32 => self.whole(enum_number(self.field, text)?)?,
            Kind::Double => self.number(double(text)?.to_bits())?,
            _ => self.whole(text.parse().ok()?)?,
        }
        Some(())
    }
}

impl<'de> DeserializeSeed<'de> for Value<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, text: D) -> Result<(), D::Error> {
        text.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Value<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.context, self.field.kind) {
            (ValueContext::List, _) => "a list",
            (_, Kind::Message(_)) => "an object",
            (_, Kind::Text) => "a string",
            (_, Kind::Id) => "an id in hexadecimal",
            (_, Kind::Bytes) => "bytes in base64",
            (_, Kind::Bool) => "true or false",
            (_, Kind::Double) => "a number",
            (_, Kind::Int32) => "the number of an enum",
            (_, Kind::Fixed64 | Kind::Uint64) => "a whole number of 64 bits that is not negative",
            (_, Kind::Fixed32 | Kind::Uint32) => "a whole number of 32 bits that is not negative",
            (_, Kind::Sfixed64 | Kind::Int64) => "a whole number of 64 bits",
            (_, Kind::Sint32) => "a whole number of 32 bits",
        })
    }

    /// Treats a field that is `null` as absent. In a list of messages, `null` is an empty message; in other lists, it
    /// is an error.
    fn visit_unit<E: Error>(mut self) -> Result<(), E> {
        match (self.context, self.field.kind) {
            (ValueContext::Field | ValueContext::List, _) => Ok(()),
            (_, Kind::Message(_)) => self.delimited(|_| Ok(())),
            _ => Err(E::invalid_type(Unexpected::Unit, &self)),
        }
    }

    fn visit_bool<E: Error>(mut self, value: bool) -> Result<(), E> {
        match self.field.kind {
            Kind::Bool if self.context != ValueContext::List => self.number(value.into()),
            _ => None,
        }
        .ok_or_else(|| E::invalid_type(Unexpected::Bool(value), &self))
    }

    fn visit_u64<E: Error>(mut self, value: u64) -> Result<(), E> {
        self.whole(value.into()).ok_or_else(|| E::invalid_value(Unexpected::Unsigned(value), &self))
    }

    fn visit_i64<E: Error>(mut self, value: i64) -> Result<(), E> {
        self.whole(value.into()).ok_or_else(|| E::invalid_value(Unexpected::Signed(value), &self))
    }

    fn visit_f64<E: Error>(mut self, value: f64) -> Result<(), E> {
        self.float(value).ok_or_else(|| E::invalid_value(Unexpected::Float(value), &self))
    }

    fn visit_str<E: Error>(mut self, value: &str) -> Result<(), E> {
        // The message does not quote the string, which may be long or secret and would end up in the client's log.
        self.text(value).ok_or_else(|| E::invalid_value(Unexpected::Other("another string"), &self))
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        let (field, depth) = (self.field, self.depth);
        if self.context != ValueContext::List {
            return Err(A::Error::invalid_type(Unexpected::Seq, &self));
        }
        let is_packed = !matches!(field.kind, Kind::Message(_) | Kind::Text);
        let context = if is_packed { ValueContext::Packed } else { ValueContext::Element };
        let mut elements = |out: &mut Vec<u8>| {
            while list.next_element_seed(Value { field, context, depth, out })?.is_some() {}
            Ok(())
        };
        if is_packed { self.delimited(elements) } else { elements(self.out) }
    }

    fn visit_map<A: MapAccess<'de>>(mut self, map: A) -> Result<(), A::Error> {
        match self.field.kind {
            Kind::Message(index) if self.context != ValueContext::List => {
                let depth = self.depth;
                self.delimited(|out| write_fields(schema::schema(index), map, depth, out))
            }
            _ => Err(A::Error::invalid_type(Unexpected::Map, &self)),
        }
    }
}

/// Returns the number of an enum value, given its name.
fn enum_number(field: &Field, text: &str) -> Option<i128> {
    let (prefix, names): (&str, &[&str]) = match field.name {
        "kind" => ("SPAN_KIND_", &["UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER"]),
        "code" => ("STATUS_CODE_", &["UNSET", "OK", "ERROR"]),
        "aggregation_temporality" => ("AGGREGATION_TEMPORALITY_", &["UNSPECIFIED", "DELTA", "CUMULATIVE"]),
        _ => {
            let name = text.strip_prefix("SEVERITY_NUMBER_")?;
            let is_named =
                |number: &u8| Severity::from_number(*number).map_or("UNSPECIFIED", Severity::name) == name;
            return (0..=24).find(is_named).map(i128::from);
        }
    };
    let name = text.strip_prefix(prefix)?;
    names.iter().position(|known| *known == name).map(|number| number as i128)
}

fn double(text: &str) -> Option<f64> {
    // Rust also parses other spellings of these names, such as `inf`, which JSON does not have.
    let is_named = matches!(text, "NaN" | "Infinity" | "-Infinity");
    text.parse().ok().filter(|number: &f64| number.is_finite() || is_named)
}

fn decode_hex(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = |pair: &[u8]| match pair {
        [high, low] => Some((digit(*high)? << 4 | digit(*low)?) as u8),
        _ => None,
    };
    text.chunks(2).map(byte).collect()
}

/// Returns an export response with a partial success as JSON. The name of the rejected count depends on the signal.
pub(super) fn partial(rejected: u64, message: &str, signal: Option<Signal>) -> Vec<u8> {
    let name = match signal {
        None | Some(Signal::Traces) => "rejectedSpans",
        Some(Signal::Logs) => "rejectedLogRecords",
        Some(Signal::Metrics) => "rejectedDataPoints",
    };
    let mut success = serde_json::Map::new();
    if rejected > 0 {
        // OTLP/JSON writes 64-bit integers as strings.
        success.insert(name.to_owned(), rejected.to_string().into());
    }
    if !message.is_empty() {
        success.insert("errorMessage".to_owned(), message.into());
    }
    json!({ "partialSuccess": success }).to_string().into_bytes()
}

/// Returns a `google.rpc.Status` as JSON.
pub(super) fn status(code: u32, message: &str) -> Vec<u8> {
    json!({ "code": code, "message": message }).to_string().into_bytes()
}

#[cfg(test)]
mod tests;
