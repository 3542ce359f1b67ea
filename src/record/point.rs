//! How is a data point written? Borrowed from where it is aggregated, as OTLP's message for its kind.

use super::AttributeSet;
use super::buffer::{Writer, field_len};
use super::wire::encoded_len_varint;

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

/// What a point stands for, in nanoseconds since 1970. A start of 0 is none: a gauge has no beginning.
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

/// A histogram with given bounds. There is one count more than bounds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HistogramPoint<'a> {
    pub(crate) count: u64,
    pub(crate) sum: f64,
    /// Unknown if nothing was counted, or it was not recorded; so is `max`.
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
    /// Unknown if nothing was counted, or it was not recorded; so is `max`.
    pub(crate) min: Option<f64>,
    pub(crate) max: Option<f64>,
    pub(crate) scale: i32,
    pub(crate) zero_count: u64,
    /// The greatest distance from 0 that counts as zero.
    pub(crate) zero_threshold: f64,
    pub(crate) positive: BucketsView<'a>,
    pub(crate) negative: BucketsView<'a>,
}

/// Neighbouring buckets; `offset` is the index of the first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BucketsView<'a> {
    pub(crate) offset: i32,
    pub(crate) counts: &'a [u64],
}

/// What the kinds of points differ in.
pub(super) trait Point {
    /// The tag of an attribute.
    const ATTRIBUTE: u8;

    /// Bytes of the fields that only this kind of point has.
    fn own_len(&self) -> usize;

    /// Writes them.
    fn write_own(&self, out: &mut Writer<'_>);
}

/// Bytes of a whole point.
pub(super) fn len(point: &impl Point, attributes: &AttributeSet, period: Period) -> usize {
    fixed64_len(period.start) + fixed64_len(period.time) + point.own_len() + attributes.encoded_len()
}

/// Writes a whole point.
pub(super) fn write<P: Point>(point: &P, attributes: &AttributeSet, period: Period, out: &mut Writer<'_>) {
    put_fixed64(tag::START_TIME, period.start, out);
    put_fixed64(tag::TIME, period.time, out);
    point.write_own(out);
    attributes.write(P::ATTRIBUTE, out);
}

impl Point for Number {
    const ATTRIBUTE: u8 = tag::number::ATTRIBUTE;

    fn own_len(&self) -> usize {
        9
    }

    fn write_own(&self, out: &mut Writer<'_>) {
        match self {
            Number::Int(number) => {
                out.byte(tag::number::AS_INT);
                out.fixed64(*number as u64);
            }
            Number::Float(number) => put_double(tag::number::AS_DOUBLE, *number, out),
        }
    }
}

impl Point for HistogramPoint<'_> {
    const ATTRIBUTE: u8 = tag::histogram::ATTRIBUTE;

    fn own_len(&self) -> usize {
        let packed_len = |count: usize| if count == 0 { 0 } else { field_len(8 * count) };
        totals_len(self.count, self.min, self.max)
            + packed_len(self.counts.len())
            + packed_len(self.bounds.len())
    }

    fn write_own(&self, out: &mut Writer<'_>) {
        put_fixed64(tag::COUNT, self.count, out);
        put_double(tag::SUM, self.sum, out);
        put_packed(tag::histogram::BUCKET_COUNTS, self.counts.iter().copied(), out);
        put_packed(tag::histogram::EXPLICIT_BOUNDS, self.bounds.iter().map(|bound| bound.to_bits()), out);
        put_optional(tag::histogram::MIN, self.min, out);
        put_optional(tag::histogram::MAX, self.max, out);
    }
}

impl Point for ExponentialPoint<'_> {
    const ATTRIBUTE: u8 = tag::exponential::ATTRIBUTE;

    fn own_len(&self) -> usize {
        totals_len(self.count, self.min, self.max)
            + sint32_len(self.scale)
            + fixed64_len(self.zero_count)
            + fixed64_len(self.zero_threshold.to_bits())
            + self.positive.len()
            + self.negative.len()
    }

    fn write_own(&self, out: &mut Writer<'_>) {
        put_fixed64(tag::COUNT, self.count, out);
        put_double(tag::SUM, self.sum, out);
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
    /// Bytes of the whole field; none for buckets that are not there.
    fn len(&self) -> usize {
        if self.counts.is_empty() { 0 } else { field_len(self.body_len()) }
    }

    fn body_len(&self) -> usize {
        sint32_len(self.offset) + field_len(self.counts_len())
    }

    fn counts_len(&self) -> usize {
        self.counts.iter().map(|count| encoded_len_varint(*count)).sum()
    }

    fn write(&self, tag: u8, out: &mut Writer<'_>) {
        if self.counts.is_empty() {
            return;
        }
        out.byte(tag);
        out.varint(self.body_len() as u64);
        put_sint32(tag::buckets::OFFSET, self.offset, out);
        out.byte(tag::buckets::COUNTS);
        out.varint(self.counts_len() as u64);
        self.counts.iter().for_each(|count| out.varint(*count));
    }
}

/// Bytes of count, sum, min and max.
fn totals_len(count: u64, min: Option<f64>, max: Option<f64>) -> usize {
    fixed64_len(count) + 9 + 9 * usize::from(min.is_some()) + 9 * usize::from(max.is_some())
}

fn fixed64_len(value: u64) -> usize {
    if value == 0 { 0 } else { 9 }
}

fn put_fixed64(tag: u8, value: u64, out: &mut Writer<'_>) {
    if value != 0 {
        out.byte(tag);
        out.fixed64(value);
    }
}

/// Where a double is there or not, 0 is a value like any other.
fn put_double(tag: u8, value: f64, out: &mut Writer<'_>) {
    out.byte(tag);
    out.fixed64(value.to_bits());
}

fn put_optional(tag: u8, value: Option<f64>, out: &mut Writer<'_>) {
    if let Some(value) = value {
        put_double(tag, value, out);
    }
}

fn put_packed(tag: u8, words: impl ExactSizeIterator<Item = u64>, out: &mut Writer<'_>) {
    if words.len() > 0 {
        out.byte(tag);
        out.varint(8 * words.len() as u64);
        words.for_each(|word| out.fixed64(word));
    }
}

fn sint32_len(value: i32) -> usize {
    if value == 0 { 0 } else { 1 + encoded_len_varint(zigzag(value)) }
}

fn put_sint32(tag: u8, value: i32, out: &mut Writer<'_>) {
    if value != 0 {
        out.byte(tag);
        out.varint(zigzag(value));
    }
}

/// Small numbers of either sign become small numbers without one.
fn zigzag(value: i32) -> u64 {
    u64::from((value << 1 ^ value >> 31) as u32)
}
