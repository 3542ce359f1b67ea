//! The schema of OTLP: one table with the number, name and type of each field of each message.
//!
//! Records are written with the tags of this table, the console and the receiver translate between protobuf and
//! OTLP/JSON by it, and the spool validates records with it. With the feature `receiver`, each message of the table is
//! also a struct, which [`message`](super::message) decodes and encodes. The table omits fields that only profiles use:
//! nothing prints them, and no record of this library has them.

use super::Signal;
#[cfg(feature = "receiver")]
use super::message::{self, DecodeError};
use super::wire::{Fields, Raw, WireType};
#[cfg(feature = "receiver")]
use super::wire::{encode_varint, zigzag};

/// Maximum nesting depth: the request itself, and 100 levels of messages in it. Protobuf decoders have the same limit.
pub(crate) const MAX_DEPTH: u32 = 1 + 100;

/// Fields of a message, in the order in which they are printed.
pub(crate) struct Schema {
    pub(crate) fields: &'static [Field],
}

impl Schema {
    pub(crate) fn field(&self, number: u32) -> Option<&'static Field> {
        self.fields.iter().find(|field| u32::from(field.number) == number)
    }
}

/// One field of a message.
pub(crate) struct Field {
    pub(crate) number: u8,
    pub(crate) kind: Kind,
    pub(crate) presence: Presence,
    /// Name in protobuf, with underscores.
    pub(crate) name: &'static str,
}

impl Field {
    /// Returns the tag of the field, or the first of its two bytes if the field has a number above 15.
    const fn tag(&self) -> u8 {
        let wire_type = match (self.kind.number_type(), self.presence) {
            (None, _) | (_, Presence::Repeated) => WireType::LengthDelimited,
            (Some(wire_type), _) => wire_type,
        };
        self.number << 3 | wire_type as u8
    }

    /// Returns the characters of the name in OTLP/JSON, which is in lower camel case.
    pub(crate) fn json_name(&self) -> impl Iterator<Item = u8> + 'static {
        let words = self.name.split('_').enumerate();
        words.flat_map(|(index, word)| {
            word.bytes().enumerate().map(move |(at, byte)| match index > 0 && at == 0 {
                true => byte.to_ascii_uppercase(),
                false => byte,
            })
        })
    }

    /// Appends the key that precedes a value in protobuf.
    #[cfg(feature = "receiver")]
    pub(crate) fn encode_key(&self, wire_type: WireType, out: &mut Vec<u8>) {
        encode_varint(u64::from(self.number) << 3 | wire_type as u64, out);
    }
}

/// How often a field occurs, and when it is printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    /// Zero and empty mean absent, and are not printed.
    Implicit,
    /// Printed if present, even if zero or empty.
    Explicit,
    /// Like `Explicit`, but of all fields of the oneof in a message, only the last one counts.
    OneOf,
    Repeated,
}

/// Type of a field: how it is encoded, and how it is printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Bool,
    /// Only enumerations have this type. They are printed as numbers.
    Int32,
    Uint32,
    Sint32,
    Fixed32,
    Int64,
    Uint64,
    Fixed64,
    Sfixed64,
    Double,
    Text,
    /// Bytes of a trace or span id. OTLP/JSON has them in hexadecimal, and all other bytes in base64.
    Id,
    Bytes,
    /// Index of the message type in the table: an index takes less memory than an address.
    Message(u8),
}

impl Kind {
    /// Returns the wire type of a number of this kind, or `None` for length-delimited kinds.
    pub(crate) const fn number_type(self) -> Option<WireType> {
        match self {
            Self::Bool | Self::Int32 | Self::Uint32 | Self::Sint32 | Self::Int64 | Self::Uint64 => {
                Some(WireType::Varint)
            }
            Self::Fixed32 => Some(WireType::ThirtyTwoBit),
            Self::Fixed64 | Self::Sfixed64 | Self::Double => Some(WireType::SixtyFourBit),
            Self::Text | Self::Id | Self::Bytes | Self::Message(_) => None,
        }
    }

    /// Returns the bits of a number of this kind, sign-extended to 64 bits if the kind is signed. Returns `None` if the
    /// value has another wire type.
    pub(crate) fn decode_number(self, value: Raw<'_>) -> Option<u64> {
        // Protobuf keeps the low bits of a number that is too large.
        Some(match (self, value) {
            (Self::Bool, Raw::Varint(number)) => u64::from(number != 0),
            (Self::Int32, Raw::Varint(number)) => i64::from(number as i32) as u64,
            (Self::Uint32, Raw::Varint(number)) => u64::from(number as u32),
            (Self::Sint32, Raw::Varint(number)) => i64::from(unzigzag(number as u32)) as u64,
            (Self::Int64 | Self::Uint64, Raw::Varint(number)) => number,
            (Self::Fixed32, Raw::Four(bytes)) => u32::from_le_bytes(bytes).into(),
            (Self::Fixed64 | Self::Sfixed64 | Self::Double, Raw::Eight(bytes)) => u64::from_le_bytes(bytes),
            _ => return None,
        })
    }

    /// Appends a number of this kind without a key. `bits` are those that [`decode_number`](Self::decode_number)
    /// returns.
    #[cfg(feature = "receiver")]
    pub(crate) fn encode_number(self, bits: u64, out: &mut Vec<u8>) {
        match (self, self.number_type()) {
            (_, Some(WireType::ThirtyTwoBit)) => out.extend_from_slice(&(bits as u32).to_le_bytes()),
            (_, Some(WireType::SixtyFourBit)) => out.extend_from_slice(&bits.to_le_bytes()),
            (Self::Sint32, _) => encode_varint(zigzag(bits as i32), out),
            _ => encode_varint(bits, out),
        }
    }
}

fn unzigzag(number: u32) -> i32 {
    (number >> 1) as i32 ^ -((number & 1) as i32)
}

/// Message types that are validated before a request is rebuilt from the bytes of a dead process.
#[derive(Clone, Copy)]
pub(crate) enum Part {
    /// `ResourceSpans` and its counterparts.
    Resource,
    /// `ScopeSpans` and its counterparts.
    Scope,
    /// `Span`, `LogRecord` or `Metric`.
    Record,
}

/// Returns whether every decoder accepts these bytes as a message of this signal.
///
/// Unknown fields, repeated singular fields, and ids that are not 0, 8 or 16 bytes long are rejected: the writer does
/// not produce them, so they are signs of damage.
pub(crate) fn is_valid(part: Part, signal: Signal, bytes: &[u8]) -> bool {
    use MessageIndex::*;
    let parts = match signal {
        Signal::Traces => [ResourceSpans, ScopeSpans, Span],
        Signal::Logs => [ResourceLogs, ScopeLogs, LogRecord],
        Signal::Metrics => [ResourceMetrics, ScopeMetrics, Metric],
    };
    is_message(schema(parts[part as usize] as u8), bytes, MAX_DEPTH)
}

fn is_message(known: &Schema, bytes: &[u8], depth: u32) -> bool {
    let is_packed = |kind: Kind, bytes| {
        let mut numbers = Fields::of(bytes);
        kind.number_type().is_some_and(|wire_type| {
            while !numbers.is_empty() && numbers.value(wire_type).is_ok() {}
            numbers.is_empty()
        })
    };
    let is_value = |field: &Field, value| match (field.kind, value) {
        (Kind::Message(index), Raw::Bytes(bytes)) => depth > 0 && is_message(schema(index), bytes, depth - 1),
        (Kind::Text, Raw::Bytes(bytes)) => std::str::from_utf8(bytes).is_ok(),
        (Kind::Id, Raw::Bytes(id)) => matches!(id.len(), 0 | 8 | 16),
        (Kind::Bytes, Raw::Bytes(_)) => true,
        (kind, Raw::Bytes(bytes)) => field.presence == Presence::Repeated && is_packed(kind, bytes),
        (kind, number) => kind.decode_number(number).is_some(),
    };
    let mut seen = 0u32;
    Fields::of(bytes).all(|field| {
        let Ok((number, value)) = field else { return false };
        let Some(field) = known.field(number) else { return false };
        // All field numbers of the table are below 32.
        let is_first = seen & 1 << number == 0 || field.presence == Presence::Repeated;
        seen |= 1 << number;
        is_first && is_value(field, value)
    })
}

/// Returns the schema of an export request.
pub(crate) fn request(signal: Signal) -> &'static Schema {
    schema(match signal {
        Signal::Traces => MessageIndex::TracesRequest,
        Signal::Logs => MessageIndex::LogsRequest,
        Signal::Metrics => MessageIndex::MetricsRequest,
    } as u8)
}

pub(crate) fn schema(index: u8) -> &'static Schema {
    &SCHEMAS[usize::from(index)]
}

/// Expands to the schema and the tags of each message and, with the feature `receiver`, to its struct.
///
/// A row is `name = number type`. The type of a repeated field is in brackets, that of an optional field in
/// parentheses. The fields in the braces after a `*` exclude each other: together they are one member of the struct, an
/// enum with one variant per field.
macro_rules! messages {
    ($($message:ident {
        $($name:ident = $number:literal $type:tt,)*
        $(*$member:ident: $choice:ident {
            $($one:ident = $one_number:literal $one_type:ident $variant:ident,)*
        }
        $($later:ident = $later_number:literal $later_type:tt,)*)?
    })*) => {
        #[derive(Clone, Copy)]
        #[repr(u8)]
        enum MessageIndex { $($message,)* }

        /// The tag of each field (its number and its wire type), by message. For numbers above 15, this is the first
        /// of the tag's two bytes.
        #[allow(dead_code, unused_imports, non_snake_case, non_upper_case_globals, reason = "names of the protocol")]
        pub(crate) mod tag {
            $(pub(crate) mod $message {
                use super::super::{Field, Kind, MessageIndex, Presence};

                $(pub(crate) const $name: u8 = field!($name, $number, $type).tag();)*
                $($(pub(crate) const $one: u8 = field!($one, $one_number, $one_type, Presence::OneOf).tag();)*
                $(pub(crate) const $later: u8 = field!($later, $later_number, $later_type).tag();)*)?
            })*
        }

        static SCHEMAS: &[Schema] = &[$(Schema { fields: &[
            $(field!($name, $number, $type),)*
            $($(field!($one, $one_number, $one_type, Presence::OneOf),)*
            $(field!($later, $later_number, $later_type),)*)?
        ] },)*];

        /// Size of the struct of each message.
        #[cfg(feature = "receiver")]
        pub(super) static SIZES: &[usize] = &[$(size_of::<$message>(),)*];

        $(#[cfg(feature = "receiver")]
        #[derive(Debug, Clone, Default, PartialEq)]
        #[allow(missing_docs, reason = "the protocol documents its messages")]
        pub struct $message {
            $(pub $name: member!($type),)*
            $(pub $member: Option<$choice>,
            $(pub $later: member!($later_type),)*)?
        }

        $(#[cfg(feature = "receiver")]
        #[derive(Debug, Clone, PartialEq)]
        #[allow(missing_docs, reason = "the protocol documents its messages")]
        pub enum $choice { $($variant(member!($one_type)),)* })?

        #[cfg(feature = "receiver")]
        impl message::Message for $message {
            fn schema() -> &'static Schema {
                schema(MessageIndex::$message as u8)
            }

            fn merge_field(&mut self, field: &Field, value: Raw<'_>, depth: u32) -> Result<(), DecodeError> {
                match field.number {
                    $($number => message::Value::merge(&mut self.$name, field, value, depth)?,)*
                    $($($one_number => {
                        let mut one: member!($one_type) = Default::default();
                        message::Value::merge(&mut one, field, value, depth)?;
                        self.$member = Some($choice::$variant(one));
                    })*
                    $($later_number => message::Value::merge(&mut self.$later, field, value, depth)?,)*)?
                    _ => {}
                }
                Ok(())
            }

            fn visit<'a>(&'a self, visit: &mut dyn FnMut(u32, &'a dyn message::Value)) {
                $(visit($number, &self.$name);)*
                $(match &self.$member {
                    $(Some($choice::$variant(one)) => visit($one_number, one),)*
                    None => {}
                }
                $(visit($later_number, &self.$later);)*)?
            }
        })*
    };
}

macro_rules! field {
    ($name:ident, $number:literal, [$type:ident]) => {
        field!($name, $number, $type, Presence::Repeated)
    };
    ($name:ident, $number:literal, ($type:ident)) => {
        field!($name, $number, $type, Presence::Explicit)
    };
    ($name:ident, $number:literal, $type:ident) => {
        field!($name, $number, $type, Presence::Implicit)
    };
    ($name:ident, $number:literal, $type:ident, $presence:expr) => {
        Field { number: $number, kind: kind!($type), presence: $presence, name: stringify!($name) }
    };
}

/// Maps each type of the table to its [`Kind`] and to the Rust type of a member of a struct.
macro_rules! scalars {
    ($dollar:tt $($type:ident $rust:ty;)*) => {
        macro_rules! kind {
            $(($type) => { Kind::$type };)*
            ($dollar message:ident) => { Kind::Message(MessageIndex::$dollar message as u8) };
        }

        #[cfg(feature = "receiver")]
        macro_rules! member {
            ([$dollar type:ident]) => { Vec<member!($dollar type)> };
            (($dollar type:ident)) => { Option<member!($dollar type)> };
            $(($type) => { $rust };)*
            ($dollar message:ident) => { $dollar message };
        }
    };
}

scalars! {
    $
    Bool bool; Int32 i32; Uint32 u32; Sint32 i32; Fixed32 u32;
    Int64 i64; Uint64 u64; Fixed64 u64; Sfixed64 i64; Double f64;
    Text String; Id Vec<u8>; Bytes Vec<u8>;
}

messages! {
    TracesRequest { resource_spans = 1 [ResourceSpans], }
    LogsRequest { resource_logs = 1 [ResourceLogs], }
    MetricsRequest { resource_metrics = 1 [ResourceMetrics], }
    ResourceSpans { resource = 1 (Resource), scope_spans = 2 [ScopeSpans], schema_url = 3 Text, }
    ResourceLogs { resource = 1 (Resource), scope_logs = 2 [ScopeLogs], schema_url = 3 Text, }
    ResourceMetrics { resource = 1 (Resource), scope_metrics = 2 [ScopeMetrics], schema_url = 3 Text, }
    ScopeSpans { scope = 1 (InstrumentationScope), spans = 2 [Span], schema_url = 3 Text, }
    ScopeLogs { scope = 1 (InstrumentationScope), log_records = 2 [LogRecord], schema_url = 3 Text, }
    ScopeMetrics { scope = 1 (InstrumentationScope), metrics = 2 [Metric], schema_url = 3 Text, }

    Resource { attributes = 1 [KeyValue], dropped_attributes_count = 2 Uint32, entity_refs = 3 [EntityRef], }
    EntityRef { schema_url = 1 Text, type_ = 2 Text, id_keys = 3 [Text], description_keys = 4 [Text], }
    InstrumentationScope {
        name = 1 Text,
        version = 2 Text,
        attributes = 3 [KeyValue],
        dropped_attributes_count = 4 Uint32,
    }
    KeyValue { key = 1 Text, value = 2 (AnyValue), }
    AnyValue {
        *value: Value {
            string_value = 1 Text StringValue,
            bool_value = 2 Bool BoolValue,
            int_value = 3 Int64 IntValue,
            double_value = 4 Double DoubleValue,
            array_value = 5 ArrayValue ArrayValue,
            kvlist_value = 6 KeyValueList KvlistValue,
            bytes_value = 7 Bytes BytesValue,
        }
    }
    ArrayValue { values = 1 [AnyValue], }
    KeyValueList { values = 1 [KeyValue], }

    Span {
        trace_id = 1 Id,
        span_id = 2 Id,
        trace_state = 3 Text,
        parent_span_id = 4 Id,
        flags = 16 Fixed32,
        name = 5 Text,
        kind = 6 Int32,
        start_time_unix_nano = 7 Fixed64,
        end_time_unix_nano = 8 Fixed64,
        attributes = 9 [KeyValue],
        dropped_attributes_count = 10 Uint32,
        events = 11 [Event],
        dropped_events_count = 12 Uint32,
        links = 13 [Link],
        dropped_links_count = 14 Uint32,
        status = 15 (Status),
    }
    Event {
        time_unix_nano = 1 Fixed64,
        name = 2 Text,
        attributes = 3 [KeyValue],
        dropped_attributes_count = 4 Uint32,
    }
    Link {
        trace_id = 1 Id,
        span_id = 2 Id,
        trace_state = 3 Text,
        attributes = 4 [KeyValue],
        dropped_attributes_count = 5 Uint32,
        flags = 6 Fixed32,
    }
    Status { message = 2 Text, code = 3 Int32, }

    LogRecord {
        time_unix_nano = 1 Fixed64,
        observed_time_unix_nano = 11 Fixed64,
        severity_number = 2 Int32,
        severity_text = 3 Text,
        event_name = 12 Text,
        body = 5 (AnyValue),
        attributes = 6 [KeyValue],
        dropped_attributes_count = 7 Uint32,
        flags = 8 Fixed32,
        trace_id = 9 Id,
        span_id = 10 Id,
    }

    Metric {
        name = 1 Text,
        description = 2 Text,
        unit = 3 Text,
        *data: Data {
            gauge = 5 Gauge Gauge,
            sum = 7 Sum Sum,
            histogram = 9 Histogram Histogram,
            exponential_histogram = 10 ExponentialHistogram ExponentialHistogram,
            summary = 11 Summary Summary,
        }
        metadata = 12 [KeyValue],
    }
    Gauge { data_points = 1 [NumberDataPoint], }
    Sum { data_points = 1 [NumberDataPoint], aggregation_temporality = 2 Int32, is_monotonic = 3 Bool, }
    Histogram { data_points = 1 [HistogramDataPoint], aggregation_temporality = 2 Int32, }
    ExponentialHistogram {
        data_points = 1 [ExponentialHistogramDataPoint],
        aggregation_temporality = 2 Int32,
    }
    Summary { data_points = 1 [SummaryDataPoint], }
    NumberDataPoint {
        attributes = 7 [KeyValue],
        start_time_unix_nano = 2 Fixed64,
        time_unix_nano = 3 Fixed64,
        *value: Number { as_double = 4 Double AsDouble, as_int = 6 Sfixed64 AsInt, }
        exemplars = 5 [Exemplar],
        flags = 8 Uint32,
    }
    HistogramDataPoint {
        attributes = 9 [KeyValue],
        start_time_unix_nano = 2 Fixed64,
        time_unix_nano = 3 Fixed64,
        count = 4 Fixed64,
        sum = 5 (Double),
        bucket_counts = 6 [Fixed64],
        explicit_bounds = 7 [Double],
        exemplars = 8 [Exemplar],
        flags = 10 Uint32,
        min = 11 (Double),
        max = 12 (Double),
    }
    ExponentialHistogramDataPoint {
        attributes = 1 [KeyValue],
        start_time_unix_nano = 2 Fixed64,
        time_unix_nano = 3 Fixed64,
        count = 4 Fixed64,
        sum = 5 (Double),
        scale = 6 Sint32,
        zero_count = 7 Fixed64,
        positive = 8 (Buckets),
        negative = 9 (Buckets),
        flags = 10 Uint32,
        exemplars = 11 [Exemplar],
        min = 12 (Double),
        max = 13 (Double),
        zero_threshold = 14 Double,
    }
    Buckets { offset = 1 Sint32, bucket_counts = 2 [Uint64], }
    SummaryDataPoint {
        attributes = 7 [KeyValue],
        start_time_unix_nano = 2 Fixed64,
        time_unix_nano = 3 Fixed64,
        count = 4 Fixed64,
        sum = 5 Double,
        quantile_values = 6 [ValueAtQuantile],
        flags = 8 Uint32,
    }
    ValueAtQuantile { quantile = 1 Double, value = 2 Double, }
    Exemplar {
        filtered_attributes = 7 [KeyValue],
        time_unix_nano = 2 Fixed64,
        *value: ExemplarValue { as_double = 3 Double AsDouble, as_int = 6 Sfixed64 AsInt, }
        span_id = 4 Id,
        trace_id = 5 Id,
    }
}
