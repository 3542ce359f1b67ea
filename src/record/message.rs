//! Decodes and encodes the messages of the [schema], and estimates the memory that a decoded request takes.
//!
//! Each message in the table of the schema is a struct. A member is a number, a text, bytes, another message, or a list
//! or an option of these. The functions here handle these few types; the macro around the table generates the rest.

use std::fmt;

use super::Signal;
use super::schema::{self, Field, Kind, MAX_DEPTH, Presence, SIZES, Schema};
use super::wire::{Fields, Malformed, Raw, WireType, encode_varint};

/// Overhead of the allocator per allocation, in bytes.
const ALLOCATION: usize = 16;

/// The reason why bytes are not a message, and the path of the field concerned.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DecodeError {
    path: String,
    reason: &'static str,
}

impl DecodeError {
    fn new(reason: &'static str) -> Self {
        Self { path: String::new(), reason }
    }

    fn within(self, field: &Field) -> Self {
        let name = String::from_utf8_lossy(&field.json_name().collect::<Vec<u8>>()).into_owned();
        let path = if self.path.is_empty() { name } else { format!("{name}.{}", self.path) };
        Self { path, ..self }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(self.reason),
            path => write!(f, "{path}: {}", self.reason),
        }
    }
}

impl From<Malformed> for DecodeError {
    fn from(_: Malformed) -> Self {
        Self::new("the bytes are not a protobuf message")
    }
}

/// Decodes a request or another top-level message.
pub(crate) fn decode<M: Message>(bytes: &[u8]) -> Result<M, DecodeError> {
    let mut message = M::default();
    merge_message(&mut message, bytes, MAX_DEPTH)?;
    Ok(message)
}

fn merge_message<M: Message>(message: &mut M, bytes: &[u8], depth: u32) -> Result<(), DecodeError> {
    let depth = depth.checked_sub(1).ok_or_else(|| DecodeError::new("nested more than 100 levels deep"))?;
    for field in Fields::of(bytes) {
        let (number, value) = field?;
        // Later versions of the protocol have further fields.
        if let Some(field) = M::schema().field(number) {
            message.merge_field(field, value, depth).map_err(|error| error.within(field))?;
        }
    }
    Ok(())
}

/// A struct of the schema. The macro around the table implements this trait.
pub(crate) trait Message: Default {
    fn schema() -> &'static Schema;

    /// Reads a value of the field into its member.
    fn merge_field(&mut self, field: &Field, value: Raw<'_>, depth: u32) -> Result<(), DecodeError>;

    /// Visits the members with their field numbers. Of the fields of a oneof, visits only the field that is set.
    fn visit<'a>(&'a self, visit: &mut dyn FnMut(u32, &'a dyn Value));
}

/// A member of a message.
pub(crate) trait Value {
    /// Takes the value of a field, or the next value of a repeated one.
    fn merge(&mut self, field: &Field, value: Raw<'_>, depth: u32) -> Result<(), DecodeError>;

    /// Appends the member with its key, once for each element of a list, unless its value means absence. Numbers are
    /// not packed.
    fn encode(&self, field: &Field, out: &mut Vec<u8>);

    /// Returns the memory that the member points to.
    fn heap_bytes(&self) -> usize {
        0
    }
}

pub(crate) fn encoded<M: Message>(message: &M) -> Vec<u8> {
    let mut out = Vec::new();
    message.visit(&mut |number, value| {
        M::schema().field(number).into_iter().for_each(|field| value.encode(field, &mut out));
    });
    out
}

impl<M: Message> Value for M {
    fn merge(&mut self, _: &Field, value: Raw<'_>, depth: u32) -> Result<(), DecodeError> {
        merge_message(self, bytes_of(value)?, depth)
    }

    fn encode(&self, field: &Field, out: &mut Vec<u8>) {
        encode_bytes(&encoded(self), field, out);
    }

    fn heap_bytes(&self) -> usize {
        let mut bytes = 0;
        self.visit(&mut |_, value| bytes += value.heap_bytes());
        bytes
    }
}

impl<V: Value + Default> Value for Vec<V> {
    fn merge(&mut self, field: &Field, value: Raw<'_>, depth: u32) -> Result<(), DecodeError> {
        let mut push = |value| {
            let mut element = V::default();
            element.merge(field, value, depth)?;
            self.push(element);
            Ok(())
        };
        match (field.kind.number_type(), value) {
            (Some(wire_type), Raw::Bytes(packed)) => {
                // Packed: all numbers in one field. Decoders must accept the packed form and the unpacked one.
                let mut numbers = Fields::of(packed);
                while !numbers.is_empty() {
                    push(numbers.value(wire_type)?)?;
                }
                Ok(())
            }
            _ => push(value),
        }
    }

    fn encode(&self, field: &Field, out: &mut Vec<u8>) {
        self.iter().for_each(|element| element.encode(field, out));
    }

    fn heap_bytes(&self) -> usize {
        let elements: usize = self.iter().map(|element| size_of::<V>() + element.heap_bytes()).sum();
        ALLOCATION + elements
    }
}

impl<V: Value + Default> Value for Option<V> {
    fn merge(&mut self, field: &Field, value: Raw<'_>, depth: u32) -> Result<(), DecodeError> {
        // If a message occurs twice, protobuf merges the second one into the first.
        self.get_or_insert_default().merge(field, value, depth)
    }

    fn encode(&self, field: &Field, out: &mut Vec<u8>) {
        self.iter().for_each(|value| value.encode(field, out));
    }

    fn heap_bytes(&self) -> usize {
        self.as_ref().map_or(0, Value::heap_bytes)
    }
}

impl Value for String {
    fn merge(&mut self, _: &Field, value: Raw<'_>, _: u32) -> Result<(), DecodeError> {
        let text = std::str::from_utf8(bytes_of(value)?).map_err(|_| DecodeError::new("not UTF-8"))?;
        text.clone_into(self);
        Ok(())
    }

    fn encode(&self, field: &Field, out: &mut Vec<u8>) {
        encode_bytes(self.as_bytes(), field, out);
    }

    fn heap_bytes(&self) -> usize {
        ALLOCATION + self.len()
    }
}

impl Value for Vec<u8> {
    fn merge(&mut self, _: &Field, value: Raw<'_>, _: u32) -> Result<(), DecodeError> {
        bytes_of(value)?.clone_into(self);
        Ok(())
    }

    fn encode(&self, field: &Field, out: &mut Vec<u8>) {
        encode_bytes(self, field, out);
    }

    fn heap_bytes(&self) -> usize {
        ALLOCATION + self.len()
    }
}

macro_rules! numbers {
    ($($number:ty, $from_bits:expr, $to_bits:expr;)*) => {
        $(impl Value for $number {
            fn merge(&mut self, field: &Field, value: Raw<'_>, _: u32) -> Result<(), DecodeError> {
                *self = field.kind.decode_number(value).map($from_bits).ok_or(WRONG_TYPE)?;
                Ok(())
            }

            fn encode(&self, field: &Field, out: &mut Vec<u8>) {
                let means_absence = field.presence == Presence::Implicit && *self == <$number>::default();
                if let Some(wire_type) = field.kind.number_type().filter(|_| !means_absence) {
                    field.encode_key(wire_type, out);
                    field.kind.encode_number($to_bits(*self), out);
                }
            }
        })*
    };
}

numbers! {
    bool, |bits| bits != 0, u64::from;
    u32, |bits| bits as u32, u64::from;
    i32, |bits| bits as i32, |number| i64::from(number) as u64;
    u64, |bits| bits, u64::from;
    i64, |bits| bits as i64, |number| number as u64;
    f64, f64::from_bits, f64::to_bits;
}

const WRONG_TYPE: DecodeError = DecodeError { path: String::new(), reason: "encoded as another type" };

fn bytes_of(value: Raw<'_>) -> Result<&[u8], DecodeError> {
    if let Raw::Bytes(bytes) = value { Ok(bytes) } else { Err(WRONG_TYPE) }
}

fn encode_bytes(bytes: &[u8], field: &Field, out: &mut Vec<u8>) {
    if field.presence == Presence::Implicit && bytes.is_empty() {
        return;
    }
    field.encode_key(WireType::LengthDelimited, out);
    encode_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Estimates how much memory a request will take once it is decoded, without decoding it.
///
/// Two bytes on the wire can be a whole empty span, so a body within its limit could expand to a hundred times its
/// size. Counting the messages first takes no memory. For a malformed request, returns the memory of the messages that
/// the decoder builds before it stops.
pub(crate) fn decoded_bytes(signal: Signal, request: &[u8]) -> usize {
    let mut bytes = request.len();
    // The decoder reports the same error, with more detail.
    let _ = add_decoded_bytes(&mut bytes, schema::request(signal), request, MAX_DEPTH);
    bytes
}

fn add_decoded_bytes(total: &mut usize, schema: &Schema, bytes: &[u8], depth: u32) -> Result<(), Malformed> {
    let depth = depth.checked_sub(1).ok_or(Malformed)?;
    for field in Fields::of(bytes) {
        let (number, value) = field?;
        let Some(field) = schema.field(number) else { continue };
        let size = match (field.kind, value) {
            (Kind::Message(index), _) => SIZES[usize::from(index)],
            _ if field.presence != Presence::Repeated => 0,
            (Kind::Text, _) => size_of::<String>(),
            // Only the last byte of a varint is below 0x80, so this counts the numbers.
            (Kind::Uint64, Raw::Bytes(packed)) => {
                size_of::<u64>() * packed.iter().filter(|byte| **byte < 0x80).count()
            }
            (_, Raw::Bytes(packed)) => packed.len(),
            _ => size_of::<u64>(),
        };
        // On 32 bits the sum may exceed `usize`.
        *total = total.saturating_add(size);
        if let (Kind::Message(index), Raw::Bytes(content)) = (field.kind, value) {
            add_decoded_bytes(total, schema::schema(index), content, depth)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
