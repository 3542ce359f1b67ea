//! Converts a protobuf request to OTLP JSON on one line, by the [schema].

use std::fmt::Display;
use std::io::Write;

use crate::escape::shows_itself;
use crate::record::Signal;
use crate::record::schema::{self, Field, Kind, MAX_DEPTH, Presence, Schema};
use crate::record::wire::{Fields, Malformed, Raw};
use crate::transport::{Payload, base64};

/// Replaces `text` with the request as JSON. Returns false if the JSON is longer than `max_bytes`, or the payload is
/// not a request of its signal.
pub(super) fn encode(text: &mut Vec<u8>, payload: &Payload<'_>, max_bytes: usize) -> bool {
    text.clear();
    write(text, payload.signal, &payload.body.concat()).is_ok() && text.len() <= max_bytes
}

/// Appends the request as JSON, without the end of the line.
///
/// # Errors
/// Returns an error if the bytes are not a request of this signal. The appended text is then incomplete.
pub(crate) fn write(out: &mut Vec<u8>, signal: Signal, request: &[u8]) -> Result<(), Malformed> {
    message(out, schema::request(signal), request, MAX_DEPTH)
}

/// Writes a message. Protobuf fields may be in any order and repeated fields may be scattered, so each field is
/// collected by its own pass.
fn message(out: &mut Vec<u8>, message: &Schema, bytes: &[u8], depth: u32) -> Result<(), Malformed> {
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

/// Returns a bit mask of the present fields, with only the last one of a `oneof`.
fn present(message: &Schema, bytes: &[u8]) -> Result<u32, Malformed> {
    let of_one = message.fields.iter().filter(|field| field.presence == Presence::OneOf);
    let one_of = of_one.fold(0, |bits, field| bits | bit(field));
    Fields::of(bytes).try_fold(0, |present: u32, field| {
        // All printed fields have numbers below 32.
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
    out.extend(field.json_name());
    out.extend_from_slice(b"\":");
}

/// Writes a value of a repeated field, or several packed numbers.
fn element(out: &mut Vec<u8>, kind: Kind, value: Raw<'_>, depth: u32) -> Result<(), Malformed> {
    let packed = match value {
        Raw::Bytes(bytes) => kind.number_type().map(|wire_type| (Fields::of(bytes), wire_type)),
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

fn single(out: &mut Vec<u8>, kind: Kind, value: Raw<'_>, depth: u32) -> Result<(), Malformed> {
    let bits = kind.decode_number(value).ok_or(Malformed);
    match (kind, value) {
        (Kind::Text, Raw::Bytes(bytes)) => text(out, std::str::from_utf8(bytes).map_err(|_| Malformed)?),
        (Kind::Id, Raw::Bytes(bytes)) => hex(out, bytes),
        (Kind::Bytes, Raw::Bytes(bytes)) => quoted(out, base64::encode(bytes)),
        (Kind::Message(index), Raw::Bytes(bytes)) => message(out, schema::schema(index), bytes, depth)?,
        (Kind::Bool, _) => plain(out, bits? != 0),
        (Kind::Int32 | Kind::Sint32, _) => plain(out, bits? as i32),
        (Kind::Uint32 | Kind::Fixed32, _) => plain(out, bits?),
        (Kind::Int64 | Kind::Sfixed64, _) => quoted(out, bits? as i64),
        (Kind::Uint64 | Kind::Fixed64, _) => quoted(out, bits?),
        (Kind::Double, _) => double(out, f64::from_bits(bits?)),
        (Kind::Text | Kind::Id | Kind::Bytes | Kind::Message(_), _) => return Err(Malformed),
    }
    Ok(())
}

/// Writes a comma, unless this is the first element.
fn separate(out: &mut Vec<u8>) {
    if !matches!(out.last(), None | Some(b'{' | b'[')) {
        out.push(b',');
    }
}

/// Writes a number or a bool.
fn plain(out: &mut Vec<u8>, value: impl Display) {
    // Writing to memory cannot fail.
    let _ = write!(out, "{value}");
}

/// Writes a value in quotes. 64-bit numbers are strings, because many readers store numbers as doubles, which are not
/// exact.
fn quoted(out: &mut Vec<u8>, value: impl Display) {
    let _ = write!(out, "\"{value}\"");
}

/// Writes the shortest text that parses to the same number. Non-finite numbers are strings, because JSON has no syntax
/// for them.
fn double(out: &mut Vec<u8>, number: f64) {
    match number {
        f64::INFINITY => quoted(out, "Infinity"),
        f64::NEG_INFINITY => quoted(out, "-Infinity"),
        number if number.is_nan() => quoted(out, "NaN"),
        // `Debug` uses exponents, where `Display` would write hundreds of zeros.
        number => plain(out, format_args!("{number:?}")),
    }
}

/// Writes a string. Control characters are escaped, even those that JSON allows, because the output may be read on a
/// terminal.
fn text(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| matches!(c, '"' | '\\') || !shows_itself(c)) {
        let (plain, from_here) = rest.split_at(at);
        out.extend_from_slice(plain.as_bytes());
        let mut characters = from_here.chars();
        characters.next().into_iter().for_each(|character| escape(out, character));
        rest = characters.as_str();
    }
    out.extend_from_slice(rest.as_bytes());
    out.push(b'"');
}

fn escape(out: &mut Vec<u8>, character: char) {
    let short = match character {
        '"' | '\\' => character,
        '\n' => 'n',
        '\r' => 'r',
        '\t' => 't',
        other => {
            for unit in other.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
            return;
        }
    };
    let _ = write!(out, "\\{short}");
}

fn hex(out: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    for byte in bytes {
        out.extend([DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests;
