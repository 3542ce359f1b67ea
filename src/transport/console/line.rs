//! One request as one line of OTLP JSON: walks the wire format along the [schema].
//!
//! [schema]: super::schema

use prost::encoding::WireType;

use super::json;
use super::schema::{self, Field, Kind, Message, Presence};
use super::wire::{Fields, Malformed, Raw};
use crate::record::Signal;

/// A request and the messages within messages in it, as far as decoders go.
const DEEPEST: u32 = 1 + 100;

/// Appends the request as JSON, without the end of the line.
///
/// # Errors
/// When the bytes are no request of this signal; then what was appended is no JSON.
pub(super) fn write(out: &mut Vec<u8>, signal: Signal, request: &[u8]) -> Result<(), Malformed> {
    message(out, schema::request(signal), request, DEEPEST)
}

/// Fields come in any order, and those that repeat come apart: so each is gathered by a walk of its own.
fn message(out: &mut Vec<u8>, message: &Message, bytes: &[u8], depth: u32) -> Result<(), Malformed> {
    let depth = depth.checked_sub(1).ok_or(Malformed)?;
    let present = present(message, bytes)?;
    out.push(b'{');
    for field in message.fields.iter().filter(|field| present & bit(field) != 0) {
        let mut values = Fields::of(bytes)
            .map_while(Result::ok)
            .filter_map(|(number, value)| (number == u32::from(field.number)).then_some(value));
        if field.presence == Presence::Repeated {
            name(out, field);
            out.push(b'[');
            values.try_for_each(|value| element(out, field.kind, value, depth))?;
            out.push(b']');
            continue;
        }
        let Some(value) = values.last() else { continue };
        if field.presence != Presence::Implicit || !value.is_zero() {
            name(out, field);
            single(out, field.kind, value, depth)?;
        }
    }
    out.push(b'}');
    Ok(())
}

/// Which fields there are, by their numbers; of those that exclude each other the last.
fn present(message: &Message, bytes: &[u8]) -> Result<u32, Malformed> {
    let of_one = message.fields.iter().filter(|field| field.presence == Presence::OneOf);
    let one_of = of_one.fold(0, |bits, field| bits | bit(field));
    Fields::of(bytes).try_fold(0, |present: u32, field| {
        // no field that is printed has a number that is too large for a bit
        let bit = 1u32.checked_shl(field?.0).unwrap_or(0);
        Ok(if bit & one_of == 0 { present | bit } else { present & !one_of | bit })
    })
}

fn bit(field: &Field) -> u32 {
    1 << field.number
}

fn name(out: &mut Vec<u8>, field: &Field) {
    separate(out);
    out.push(b'"');
    out.extend_from_slice(field.name.as_bytes());
    out.extend_from_slice(b"\":");
}

/// One value of a repeated field, or many numbers packed into one.
fn element(out: &mut Vec<u8>, kind: Kind, value: Raw<'_>, depth: u32) -> Result<(), Malformed> {
    let packed = match value {
        Raw::Bytes(bytes) => number_type(kind).map(|wire_type| (Fields::of(bytes), wire_type)),
        _ => None,
    };
    let Some((mut numbers, wire_type)) = packed else {
        separate(out);
        return single(out, kind, value, depth);
    };
    while !numbers.is_empty() {
        separate(out);
        single(out, kind, numbers.value(wire_type)?, depth)?;
    }
    Ok(())
}

/// How a number of this kind stands in a packed field; `None` for what is no number.
fn number_type(kind: Kind) -> Option<WireType> {
    match kind {
        Kind::Bool | Kind::Int32 | Kind::Uint32 | Kind::Sint32 | Kind::Int64 | Kind::Uint64 => {
            Some(WireType::Varint)
        }
        Kind::Fixed32 => Some(WireType::ThirtyTwoBit),
        Kind::Fixed64 | Kind::Sfixed64 | Kind::Double => Some(WireType::SixtyFourBit),
        Kind::Text | Kind::Id | Kind::Bytes | Kind::Message(_) => None,
    }
}

fn single(out: &mut Vec<u8>, kind: Kind, value: Raw<'_>, depth: u32) -> Result<(), Malformed> {
    match (kind, value) {
        (Kind::Bool, Raw::Varint(truth)) => json::plain(out, truth != 0),
        // protobuf keeps the low bits of a number that is too large
        (Kind::Int32, Raw::Varint(number)) => json::plain(out, number as i32),
        (Kind::Uint32, Raw::Varint(number)) => json::plain(out, number as u32),
        (Kind::Sint32, Raw::Varint(number)) => json::plain(out, unzigzag(number as u32)),
        (Kind::Fixed32, Raw::Four(bytes)) => json::plain(out, u32::from_le_bytes(bytes)),
        (Kind::Int64, Raw::Varint(number)) => json::quoted(out, number as i64),
        (Kind::Uint64, Raw::Varint(number)) => json::quoted(out, number),
        (Kind::Fixed64, Raw::Eight(bytes)) => json::quoted(out, u64::from_le_bytes(bytes)),
        (Kind::Sfixed64, Raw::Eight(bytes)) => json::quoted(out, i64::from_le_bytes(bytes)),
        (Kind::Double, Raw::Eight(bytes)) => json::double(out, f64::from_le_bytes(bytes)),
        (Kind::Text, Raw::Bytes(bytes)) => {
            json::text(out, std::str::from_utf8(bytes).map_err(|_| Malformed)?)
        }
        (Kind::Id, Raw::Bytes(bytes)) => json::hex(out, bytes),
        (Kind::Bytes, Raw::Bytes(bytes)) => json::base64(out, bytes),
        (Kind::Message(place), Raw::Bytes(bytes)) => message(out, schema::message(place), bytes, depth)?,
        _ => return Err(Malformed),
    }
    Ok(())
}

/// Small numbers of either sign are small on the wire.
fn unzigzag(number: u32) -> i32 {
    (number >> 1) as i32 ^ -((number & 1) as i32)
}

/// A comma, unless this is the first in its braces or brackets.
fn separate(out: &mut Vec<u8>) {
    if !matches!(out.last(), None | Some(b'{' | b'[')) {
        out.push(b',');
    }
}
