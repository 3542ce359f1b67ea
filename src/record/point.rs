//! Encodes data points as OTLP's message for their kind. The points borrow their values from the aggregators.

use super::AttributeSet;
use super::wire::{encode_varint, insert_length, zigzag};

/// Tags of the data points. Those that differ between kinds of points are in a module for each kind.
mod tag {
    pub(super) const START_TIME: u8 = 0x11;
    pub(super) const TIME: u8 = 0x19;
    pub(super) const COUNT: u8 = 0x21;
    pub(super) const SUM: u8 = 0x29;

    pub(super) mod number {
        pub(in super::super) const AS_DOUBLE: u8 = 0x21;
        pub(in super::super) const AS_INT: u8 = 0x31;
        pub(in super::super) const ATTRIBUTE: u8 = 0x3a;
    }

    pub(super) mod histogram {
        pub(in super::super) const BUCKET_COUNTS: u8 = 0x32;
        pub(in super::super) const EXPLICIT_BOUNDS: u8 = 0x3a;
        pub(in super::super) const ATTRIBUTE: u8 = 0x4a;
        pub(in super::super) const MIN: u8 = 0x59;
        pub(in super::super) const MAX: u8 = 0x61;
    }

    pub(super) mod exponential {
        pub(in super::super) const ATTRIBUTE: u8 = 0x0a;
        pub(in super::super) const SCALE: u8 = 0x30;
        pub(in super::super) const ZERO_COUNT: u8 = 0x39;
        pub(in super::super) const POSITIVE: u8 = 0x42;
        pub(in super::super) const NEGATIVE: u8 = 0x4a;
        pub(in super::super) const MIN: u8 = 0x61;
        pub(in super::super) const MAX: u8 = 0x69;
        pub(in super::super) const ZERO_THRESHOLD: u8 = 0x71;
    }

    pub(super) mod buckets {
        pub(in super::super) const OFFSET: u8 = 0x08;
        pub(in super::super) const COUNTS: u8 = 0x12;
    }
}

/// The time that a point covers, in nanoseconds since 1970. A gauge has a start of 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Period {
    pub(crate) start: u64,
    pub(crate) time: u64,
}

/// The value of a counter or a gauge.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Number {
    Int(i64),
    Float(f64),
}

/// A histogram with given bounds. `counts` has one more element than `bounds`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HistogramPoint<'a> {
    pub(crate) count: u64,
    pub(crate) sum: f64,
    /// The minimum; `None` if no value was recorded or the instrument does not track it. The same applies to `max`.
    pub(crate) min: Option<f64>,
    pub(crate) max: Option<f64>,
    pub(crate) bounds: &'a [f64],
    pub(crate) counts: &'a [u64],
}

/// A histogram whose bounds are powers of `2^(2^-scale)`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExponentialPoint<'a> {
    pub(crate) count: u64,
    pub(crate) sum: f64,
    /// The minimum; `None` if no value was recorded or the instrument does not track it. The same applies to `max`.
    pub(crate) min: Option<f64>,
    pub(crate) max: Option<f64>,
    pub(crate) scale: i32,
    pub(crate) zero_count: u64,
    /// Values at most this far from 0 count as zero.
    pub(crate) zero_threshold: f64,
    pub(crate) positive: BucketsView<'a>,
    pub(crate) negative: BucketsView<'a>,
}

/// Adjacent buckets. `offset` is the index of the first bucket.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BucketsView<'a> {
    pub(crate) offset: i32,
    pub(crate) counts: &'a [u64],
}

/// A data point of any kind.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Point<'a> {
    Number(Number),
    Histogram(HistogramPoint<'a>),
    Exponential(ExponentialPoint<'a>),
}

impl Point<'_> {
    /// Writes the fields of the point.
    pub(super) fn write(&self, attributes: &AttributeSet, period: Period, out: &mut Vec<u8>) {
        put_fixed64(tag::START_TIME, period.start, out);
        put_fixed64(tag::TIME, period.time, out);
        let attribute = match self {
            Self::Number(number) => {
                match number {
                    Number::Int(number) => put_word(tag::number::AS_INT, *number as u64, out),
                    Number::Float(number) => put_word(tag::number::AS_DOUBLE, number.to_bits(), out),
                }
                tag::number::ATTRIBUTE
            }
            Self::Histogram(histogram) => {
                histogram.write(out);
                tag::histogram::ATTRIBUTE
            }
            Self::Exponential(histogram) => {
                histogram.write(out);
                tag::exponential::ATTRIBUTE
            }
        };
        attributes.write(attribute, out);
    }
}

impl HistogramPoint<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        put_fixed64(tag::COUNT, self.count, out);
        put_word(tag::SUM, self.sum.to_bits(), out);
        put_packed(tag::histogram::BUCKET_COUNTS, self.counts.iter().copied(), out);
        put_packed(tag::histogram::EXPLICIT_BOUNDS, self.bounds.iter().map(|bound| bound.to_bits()), out);
        put_optional(tag::histogram::MIN, self.min, out);
        put_optional(tag::histogram::MAX, self.max, out);
    }
}

impl ExponentialPoint<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        put_fixed64(tag::COUNT, self.count, out);
        put_word(tag::SUM, self.sum.to_bits(), out);
        put_sint32(tag::exponential::SCALE, self.scale, out);
        put_fixed64(tag::exponential::ZERO_COUNT, self.zero_count, out);
        self.positive.write(tag::exponential::POSITIVE, out);
        self.negative.write(tag::exponential::NEGATIVE, out);
        put_optional(tag::exponential::MIN, self.min, out);
        put_optional(tag::exponential::MAX, self.max, out);
        put_fixed64(tag::exponential::ZERO_THRESHOLD, self.zero_threshold.to_bits(), out);
    }
}

impl BucketsView<'_> {
    fn write(&self, tag: u8, out: &mut Vec<u8>) {
        if self.counts.is_empty() {
            return;
        }
        out.push(tag);
        let body = out.len();
        put_sint32(tag::buckets::OFFSET, self.offset, out);
        out.push(tag::buckets::COUNTS);
        let counts = out.len();
        self.counts.iter().for_each(|count| encode_varint(*count, out));
        insert_length(counts, out);
        insert_length(body, out);
    }
}

/// Writes a number, unless it is 0.
fn put_fixed64(tag: u8, value: u64, out: &mut Vec<u8>) {
    if value != 0 {
        put_word(tag, value, out);
    }
}

/// Writes an integer or a double, even if it is 0: the field is part of a oneof or optional, where absence has
/// another meaning.
fn put_word(tag: u8, word: u64, out: &mut Vec<u8>) {
    out.push(tag);
    out.extend_from_slice(&word.to_le_bytes());
}

fn put_optional(tag: u8, value: Option<f64>, out: &mut Vec<u8>) {
    if let Some(value) = value {
        put_word(tag, value.to_bits(), out);
    }
}

fn put_packed(tag: u8, words: impl ExactSizeIterator<Item = u64>, out: &mut Vec<u8>) {
    if words.len() > 0 {
        out.push(tag);
        encode_varint(8 * words.len() as u64, out);
        words.for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
    }
}

/// Writes a number in zigzag code, unless it is 0.
fn put_sint32(tag: u8, value: i32, out: &mut Vec<u8>) {
    if value != 0 {
        out.push(tag);
        encode_varint(zigzag(value), out);
    }
}
