//! OTLP/JSON, read as it comes and written as protobuf: what holds for the one form holds for the other.
//!
//! No tree of values is built, and the message is weighed and decoded like any other. The text goes no deeper than what a
//! protobuf message of the same content may.

use std::fmt;

use serde::de::{
    DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor,
};

use super::answer::{Answer, Body};
use super::rpc;
use crate::record::schema::{self, Field, Kind, Presence, Schema};
use crate::record::wire::{Fields, Raw, WireType, encode_varint};
use crate::record::{Severity, Signal};
use crate::transport::base64::decode as decode_base64;
use serde_json::json;

/// How deep a text may be. An array in an array is two messages, of which a decoder of protobuf takes 100 in each other, and
/// three levels of JSON: 153 at most, with those around it.
const DEEPEST: usize = 160;

/// The protobuf of an export request that is written in JSON.
pub(super) fn to_protobuf(signal: Signal, text: &[u8]) -> serde_json::Result<Vec<u8>> {
    let mut out = Vec::new();
    if is_too_deep(text) {
        return Err(serde_json::Error::custom(format_args!("it is nested more than {DEEPEST} levels deep")));
    }
    let mut text = serde_json::Deserializer::from_slice(text);
    // its own is less than what senders of protobuf are allowed
    text.disable_recursion_limit();
    Request { schema: schema::request(signal), out: &mut out }.deserialize(&mut text)?;
    text.end()?;
    Ok(out)
}

fn is_too_deep(text: &[u8]) -> bool {
    let (mut depth, mut is_string, mut is_escaped) = (0_usize, false, false);
    for byte in text {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_string => is_escaped = true,
            b'"' => is_string = !is_string,
            b'{' | b'[' if !is_string => depth += 1,
            b'}' | b']' if !is_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEEPEST {
            return true;
        }
    }
    false
}

/// The most bytes of protobuf that a text of this length becomes: where `0,` is a double of eight bytes.
pub(super) fn most_bytes(text: usize) -> usize {
    text.saturating_mul(4)
}

/// A message without framing.
struct Request<'a> {
    schema: &'static Schema,
    out: &'a mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for Request<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, text: D) -> Result<(), D::Error> {
        text.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Request<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an export request")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        write_fields(self.schema, map, self.out)
    }
}

fn write_fields<'de, A: MapAccess<'de>>(
    schema: &'static Schema,
    mut map: A,
    out: &mut Vec<u8>,
) -> Result<(), A::Error> {
    while let Some(field) = map.next_key_seed(Name(schema))? {
        match field {
            Some(field) => {
                let is_list = field.presence == Presence::Repeated;
                let context = if is_list { ValueContext::List } else { ValueContext::Field };
                map.next_value_seed(Value { field, context, out })?;
            }
            // of a later version, or of the sender's own
            None => _ = map.next_value::<IgnoredAny>()?,
        }
    }
    Ok(())
}

/// The name of a field of this message, or of none that is known.
struct Name(&'static Schema);

impl<'de> DeserializeSeed<'de> for Name {
    type Value = Option<&'static Field>;

    fn deserialize<D: Deserializer<'de>>(self, text: D) -> Result<Self::Value, D::Error> {
        text.deserialize_str(self)
    }
}

impl Visitor<'_> for Name {
    type Value = Option<&'static Field>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.fields.iter().find(|field| field.json_name().eq(name.bytes())))
    }
}

/// Where a value stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ValueContext {
    Field,
    List,
    Element,
    /// In a list of numbers, which share one key.
    Packed,
}

/// The value of a field, or an element of its list.
struct Value<'a> {
    field: &'static Field,
    context: ValueContext,
    out: &'a mut Vec<u8>,
}

impl Value<'_> {
    fn key(&mut self, wire_type: WireType) {
        if self.context != ValueContext::Packed {
            self.field.encode_key(wire_type, self.out);
        }
    }

    /// Writes the bits of a number; `None` if the field does not hold numbers.
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

    /// Writes what `write` does with its length in front of it.
    fn delimited<E>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
        self.key(WireType::LengthDelimited);
        let start = self.out.len();
        write(self.out)?;
        let mut length = Vec::with_capacity(5);
        encode_varint((self.out.len() - start) as u64, &mut length);
        self.out.splice(start..start, length);
        Ok(())
    }

    /// Writes a whole number; `None` if it is no value of this field.
    fn whole(&mut self, number: i128) -> Option<()> {
        // a list is none, and what is no number is refused by the ranges below
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
            // 1e3 is a whole number, too
            _ if number.fract() == 0.0 => self.whole(number as i128),
            _ => None,
        }
    }

    fn text(&mut self, text: &str) -> Option<()> {
        match self.field.kind {
            _ if self.context == ValueContext::List => return None,
            Kind::Text => self.bytes(text.as_bytes()),
            Kind::Id => self.bytes(&decode_hex(text.as_bytes())?),
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

    /// `null` is a field that is not there; in a list it keeps its place.
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
        // what it says instead may be long, and is no business of the log that the answer ends in
        self.text(value).ok_or_else(|| E::invalid_value(Unexpected::Other("another string"), &self))
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        let field = self.field;
        if self.context != ValueContext::List {
            return Err(A::Error::invalid_type(Unexpected::Seq, &self));
        }
        if matches!(field.kind, Kind::Message(_) | Kind::Text) {
            while list
                .next_element_seed(Value { field, context: ValueContext::Element, out: self.out })?
                .is_some()
            {}
            return Ok(());
        }
        self.delimited(|out| {
            while list.next_element_seed(Value { field, context: ValueContext::Packed, out })?.is_some() {}
            Ok(())
        })
    }

    fn visit_map<A: MapAccess<'de>>(mut self, map: A) -> Result<(), A::Error> {
        match self.field.kind {
            Kind::Message(index) if self.context != ValueContext::List => {
                self.delimited(|out| write_fields(schema::schema(index), map, out))
            }
            _ => Err(A::Error::invalid_type(Unexpected::Map, &self)),
        }
    }
}

/// Returns the number that a name of an enumeration stands for.
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
    match text {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        text => text.parse().ok().filter(|number: &f64| number.is_finite()),
    }
}

fn decode_hex(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = |pair: &[u8]| match pair {
        [high, low] => Some((digit(*high)? << 4 | digit(*low)?) as u8),
        _ => None,
    };
    text.chunks(2).map(byte).collect()
}

/// The same answer in JSON; a body that was ordered for it stays what it is.
pub(super) fn answer(answer: &Answer, signal: Option<Signal>) -> Answer {
    match message_of(answer, signal) {
        Some(message) => {
            let has_type = answer.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
            let answer = answer.clone().body(message.to_string());
            if has_type { answer } else { answer.header("content-type", "application/json") }
        }
        None => answer.clone(),
    }
}

/// The message that its body is; `None` if it is none of OTLP's.
fn message_of(answer: &Answer, signal: Option<Signal>) -> Option<serde_json::Value> {
    let Body::Bytes(bytes) = &answer.body else { return None };
    if bytes.is_empty() {
        return Some(json!({}));
    }
    if answer.accepts() {
        return response(bytes, signal?);
    }
    let (code, message) = (answer.grpc_code(), answer.message.as_ref()?);
    let is_status = *bytes == rpc::encode_status(code, message, None);
    is_status.then(|| json!({ "code": code, "message": message }))
}

/// Returns an export response as JSON. A partial success has the same fields for all signals, under other names.
fn response(response: &[u8], signal: Signal) -> Option<serde_json::Value> {
    let rejected = match signal {
        Signal::Traces => "rejectedSpans",
        Signal::Logs => "rejectedLogRecords",
        Signal::Metrics => "rejectedDataPoints",
    };
    let mut json = serde_json::Map::new();
    for field in Fields::of(response) {
        let (1, Raw::Bytes(partial_success)) = field.ok()? else { continue };
        let mut success = serde_json::Map::new();
        for field in Fields::of(partial_success) {
            let (name, text) = match field.ok()? {
                // A 64-bit number is a string in JSON.
                (1, Raw::Varint(number)) => (rejected, (number as i64).to_string()),
                (2, Raw::Bytes(message)) => ("errorMessage", std::str::from_utf8(message).ok()?.to_owned()),
                _ => continue,
            };
            success.insert(name.to_owned(), text.into());
        }
        json.insert("partialSuccess".to_owned(), success.into());
    }
    Some(json.into())
}

#[cfg(test)]
mod tests;
