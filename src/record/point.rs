//! Encodes data points as OTLP's message for their kind. The points borrow their values from the aggregators.

use super::schema::tag::{
    Buckets as buckets, Exemplar as exemplar, ExponentialHistogramDataPoint as exponential,
    HistogramDataPoint as histogram, NumberDataPoint as number,
};
use super::wire::{encode_field, encode_varint, insert_length, zigzag};
use super::{AttributeSet, SpanRef};

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

/// The resolution of an exponential histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ExponentialLimits {
    /// Maximum number of buckets per sign.
    pub(crate) buckets: i32,
    /// Initial scale.
    pub(crate) scale: i32,
}

impl ExponentialLimits {
    pub(crate) const DEFAULT: Self = Self { buckets: 160, scale: 20 };
}

/// A histogram with given bounds. `counts` has one more element than `bounds`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HistogramPoint<'a> {
    pub(crate) count: u64,
    /// The sum; `None` if the instrument does not track it. The same applies to `min` and `max`, which are also `None`
    /// if no value was recorded.
    pub(crate) sum: Option<f64>,
    pub(crate) min: Option<f64>,
    pub(crate) max: Option<f64>,
    pub(crate) bounds: &'a [f64],
    pub(crate) counts: &'a [u64],
}

/// A histogram whose bounds are powers of `2^(2^-scale)`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExponentialPoint<'a> {
    pub(crate) count: u64,
    /// The sum; `None` if the instrument does not track it. The same applies to `min` and `max`, which are also `None`
    /// if no value was recorded.
    pub(crate) sum: Option<f64>,
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

/// One measurement of a point, as an example.
#[derive(Debug, Clone)]
pub(crate) struct Exemplar {
    pub(crate) value: Number,
    pub(crate) time: u64,
    /// The span in which the measurement was made.
    pub(crate) span: Option<SpanRef>,
    /// Attributes of the measurement that the point does not have.
    pub(crate) removed: AttributeSet,
}

impl Exemplar {
    fn write(&self, tag: u8, out: &mut Vec<u8>) {
        out.push(tag);
        let body = out.len();
        put_fixed64(exemplar::time_unix_nano, self.time, out);
        self.value.write(exemplar::as_int, exemplar::as_double, out);
        if let Some(span) = &self.span {
            encode_field(exemplar::span_id, &span.span_id.0, out);
            encode_field(exemplar::trace_id, &span.trace_id.0, out);
        }
        self.removed.write(exemplar::filtered_attributes, out);
        insert_length(body, out);
    }
}

impl Number {
    fn write(self, as_int: u8, as_double: u8, out: &mut Vec<u8>) {
        match self {
            Self::Int(number) => put_word(as_int, number as u64, out),
            Self::Float(number) => put_word(as_double, number.to_bits(), out),
        }
    }
}

impl Point<'_> {
    /// Writes the fields of the point.
    pub(super) fn write(
        &self,
        attributes: &AttributeSet,
        period: Period,
        exemplars: &[Exemplar],
        out: &mut Vec<u8>,
    ) {
        put_fixed64(number::start_time_unix_nano, period.start, out);
        put_fixed64(number::time_unix_nano, period.time, out);
        let (attribute, exemplar) = match self {
            Self::Number(value) => {
                value.write(number::as_int, number::as_double, out);
                (number::attributes, number::exemplars)
            }
            Self::Histogram(histogram) => {
                histogram.write(out);
                (histogram::attributes, histogram::exemplars)
            }
            Self::Exponential(histogram) => {
                histogram.write(out);
                (exponential::attributes, exponential::exemplars)
            }
        };
        attributes.write(attribute, out);
        exemplars.iter().for_each(|it| it.write(exemplar, out));
    }
}

impl HistogramPoint<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        put_fixed64(histogram::count, self.count, out);
        put_optional(histogram::sum, self.sum, out);
        put_packed(histogram::bucket_counts, self.counts.iter().copied(), out);
        put_packed(histogram::explicit_bounds, self.bounds.iter().map(|bound| bound.to_bits()), out);
        put_optional(histogram::min, self.min, out);
        put_optional(histogram::max, self.max, out);
    }
}

impl ExponentialPoint<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        put_fixed64(histogram::count, self.count, out);
        put_optional(histogram::sum, self.sum, out);
        put_sint32(exponential::scale, self.scale, out);
        // The tags of `count` and `sum`, above, are the same in both kinds of histogram.
        put_fixed64(exponential::zero_count, self.zero_count, out);
        self.positive.write(exponential::positive, out);
        self.negative.write(exponential::negative, out);
        put_optional(exponential::min, self.min, out);
        put_optional(exponential::max, self.max, out);
        put_fixed64(exponential::zero_threshold, self.zero_threshold.to_bits(), out);
    }
}

impl BucketsView<'_> {
    fn write(&self, tag: u8, out: &mut Vec<u8>) {
        if self.counts.is_empty() {
            return;
        }
        out.push(tag);
        let body = out.len();
        put_sint32(buckets::offset, self.offset, out);
        out.push(buckets::bucket_counts);
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

/// Writes an integer or a double, even if it is 0: the field is part of a oneof or optional, so its absence would not
/// mean 0.
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
