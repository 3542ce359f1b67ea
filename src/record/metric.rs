//! How is a metric written? Its data points as OTLP `Metric`, in as many frames as the limits require.

use super::buffer::{Buffer, Nested, Writer, field_len};
use super::point::{self, ExponentialPoint, HistogramPoint, Number, Period, Point};
use super::wire::{Fields, Raw};
use super::{AttributeSet, Scope};

/// Tags of `Metric` and of the kinds of data in it.
mod tag {
    pub(super) const NAME: u8 = 0x0a;
    pub(super) const DESCRIPTION: u8 = 0x12;
    pub(super) const UNIT: u8 = 0x1a;
    pub(super) const GAUGE: u8 = 0x2a;
    pub(super) const SUM: u8 = 0x3a;
    pub(super) const HISTOGRAM: u8 = 0x4a;
    pub(super) const EXPONENTIAL_HISTOGRAM: u8 = 0x52;

    /// In all of them.
    pub(super) const DATA_POINT: u8 = 0x0a;
    pub(super) const AGGREGATION_TEMPORALITY: u8 = 0x10;
    pub(super) const IS_MONOTONIC: u8 = 0x18;
}

/// What all points of a metric have in common.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MetricHead<'a> {
    pub(crate) name: &'a str,
    pub(crate) description: &'a str,
    pub(crate) unit: &'a str,
    pub(crate) point_kind: PointKind,
}

/// Which kind of points a metric has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PointKind {
    Gauge,
    Sum { monotonic: bool, temporality: AggregationTemporality },
    Histogram { temporality: AggregationTemporality },
    ExponentialHistogram { temporality: AggregationTemporality },
}

/// Since when a point counts, as OTLP has it. What an exporter prefers is [`Temporality`](crate::config::Temporality).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AggregationTemporality {
    /// Since the series began.
    Cumulative,
    /// Since the point before.
    Delta,
}

/// The bytes of one `Metric`. Reused by [`begin`](MetricRecord::begin).
#[derive(Debug, Default)]
pub(crate) struct MetricRecord {
    buffer: Buffer,
    point_kind: Option<PointKind>,
    /// The data field, while points may still come.
    data: Option<Nested>,
    /// Bytes before the data field, and in it.
    head_len: usize,
    data_len: usize,
    points: u64,
    max_bytes: usize,
}

impl MetricRecord {
    /// Starts a new metric in the old storage, of at most `max_bytes` with its frame.
    pub(crate) fn begin(&mut self, head: &MetricHead<'_>, max_bytes: usize) {
        // the largest message that decoders read
        self.max_bytes = max_bytes.min(i32::MAX as usize);
        self.buffer.reset();
        self.point_kind = Some(head.point_kind);
        self.head_len = head.len();
        self.data_len = head.point_kind.settings_len();
        self.points = 0;
        self.data = if self.has_room(0) { self.write_head(head) } else { None };
    }

    fn write_head(&mut self, head: &MetricHead<'_>) -> Option<Nested> {
        head.write(&mut self.buffer.claim(self.head_len)?);
        let data = self.buffer.open(head.point_kind.tag())?;
        head.point_kind.write_settings(&mut self.buffer.claim(self.data_len)?);
        Some(data)
    }

    /// Adds a point to a gauge or a sum. Like the others, false if it does not fit beside what is there (or is of
    /// another kind than the metric): then nothing was written.
    pub(crate) fn number(&mut self, attributes: &AttributeSet, period: Period, value: Number) -> bool {
        let is_right = matches!(self.point_kind, Some(PointKind::Gauge | PointKind::Sum { .. }));
        is_right && self.append(attributes, period, &value)
    }

    /// Adds a point to a histogram.
    pub(crate) fn histogram(
        &mut self,
        attributes: &AttributeSet,
        period: Period,
        point: &HistogramPoint<'_>,
    ) -> bool {
        let is_right = matches!(self.point_kind, Some(PointKind::Histogram { .. }));
        is_right && self.append(attributes, period, point)
    }

    /// Adds a point to an exponential histogram.
    pub(crate) fn exponential(
        &mut self,
        attributes: &AttributeSet,
        period: Period,
        point: &ExponentialPoint<'_>,
    ) -> bool {
        let is_right = matches!(self.point_kind, Some(PointKind::ExponentialHistogram { .. }));
        is_right && self.append(attributes, period, point)
    }

    fn append(&mut self, attributes: &AttributeSet, period: Period, point: &impl Point) -> bool {
        let body_len = point::len(point, attributes, period);
        let count = field_len(body_len);
        if self.data.is_none() || !self.has_room(count) {
            return false;
        }
        let Some(mut out) = self.buffer.claim(count) else { return false };
        out.byte(tag::DATA_POINT);
        out.varint(body_len as u64);
        point::write(point, attributes, period, &mut out);
        self.data_len += count;
        self.points += 1;
        true
    }

    /// Whether this many more bytes of data leave the framed metric within its limit.
    fn has_room(&self, count: usize) -> bool {
        field_len(self.head_len + field_len(self.data_len + count)) <= self.max_bytes
    }

    /// How many points were added since the metric was begun.
    pub(crate) fn points(&self) -> u64 {
        self.points
    }

    /// Ends the metric and gives its framed bytes; none at all if it has no points.
    pub(crate) fn finish(&mut self) -> &[u8] {
        if let Some(data) = self.data.take() {
            self.buffer.close(&data);
        }
        if self.points == 0 { &[] } else { self.buffer.framed().unwrap_or_default() }
    }
}

impl MetricHead<'_> {
    /// The fields that are there, by their tags.
    fn fields(&self) -> impl Iterator<Item = (u8, &str)> {
        let fields = [(tag::NAME, self.name), (tag::DESCRIPTION, self.description), (tag::UNIT, self.unit)];
        fields.into_iter().filter(|(_, text)| !text.is_empty())
    }

    fn len(&self) -> usize {
        self.fields().map(|(_, text)| field_len(text.len())).sum()
    }

    fn write(&self, out: &mut Writer<'_>) {
        self.fields().for_each(|(tag, text)| out.field(tag, text.as_bytes()));
    }
}

impl PointKind {
    fn tag(self) -> u8 {
        match self {
            PointKind::Gauge => tag::GAUGE,
            PointKind::Sum { .. } => tag::SUM,
            PointKind::Histogram { .. } => tag::HISTOGRAM,
            PointKind::ExponentialHistogram { .. } => tag::EXPONENTIAL_HISTOGRAM,
        }
    }

    fn temporality(self) -> Option<AggregationTemporality> {
        match self {
            PointKind::Gauge => None,
            PointKind::Sum { temporality, .. }
            | PointKind::Histogram { temporality }
            | PointKind::ExponentialHistogram { temporality } => Some(temporality),
        }
    }

    fn is_monotonic(self) -> bool {
        matches!(self, PointKind::Sum { monotonic: true, .. })
    }

    /// Bytes of the settings that hold for all points.
    fn settings_len(self) -> usize {
        2 * usize::from(self.temporality().is_some()) + 2 * usize::from(self.is_monotonic())
    }

    fn write_settings(self, out: &mut Writer<'_>) {
        if let Some(temporality) = self.temporality() {
            let number = match temporality {
                AggregationTemporality::Delta => 1,
                AggregationTemporality::Cumulative => 2,
            };
            out.put(&[tag::AGGREGATION_TEMPORALITY, number]);
        }
        if self.is_monotonic() {
            out.put(&[tag::IS_MONOTONIC, 1]);
        }
    }
}

/// How many data points a framed metric has, or several of them back to back; 0 for bytes that are none.
pub(crate) fn points_in(framed: &[u8]) -> u64 {
    let mut points = 0;
    let counted = each_message(framed, |number, metric| {
        if number != FRAME {
            return None;
        }
        each_message(metric, |number, data| {
            if !DATA.contains(&number) {
                return Some(());
            }
            each_message(data, |number, _| {
                points += u64::from(number == DATA_POINT);
                Some(())
            })
        })
    });
    counted.map_or(0, |()| points)
}

/// Field numbers: of a metric in its scope, of the kinds of data in a metric (the last is the summary, which others
/// may send), and of a point in any of them.
const FRAME: u32 = 2;
const DATA: [u32; 5] = [5, 7, 9, 10, 11];
const DATA_POINT: u32 = 1;

/// Shows all length-delimited fields of a message with their numbers; `None` if they cannot be read, or shown.
fn each_message(bytes: &[u8], mut show: impl FnMut(u32, &[u8]) -> Option<()>) -> Option<()> {
    for field in Fields::of(bytes) {
        if let (number, Raw::Bytes(body)) = field.ok()? {
            show(number, body)?;
        }
    }
    Some(())
}

/// How large one framed metric may become; one with more series is framed in parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameLimits {
    pub(crate) bytes: usize,
    pub(crate) points: u64,
    /// Bytes of a part with a single point.
    pub(crate) largest: usize,
}

impl FrameLimits {
    /// As these, with room beside each part for its scope, and for a resource that the scope has of its own.
    pub(crate) fn beside(self, scope: &Scope) -> Self {
        let needed = scope.field().len() + scope.resource().map_or(0, <[u8]>::len);
        Self { bytes: self.bytes.saturating_sub(needed), ..self }
    }
}

/// What became of some points of a metric.
#[derive(Debug)]
pub(crate) enum FramedPoints<'a> {
    Frame {
        bytes: &'a [u8],
        points: u64,
    },
    /// No request can hold them.
    TooLarge {
        points: u64,
    },
}

/// Frames the points of one metric and passes every part that is full to `give`.
pub(crate) struct MetricFramer<'a, G> {
    head: MetricHead<'a>,
    record: &'a mut MetricRecord,
    limits: FrameLimits,
    give: G,
}

impl<'a, G: FnMut(FramedPoints<'_>)> MetricFramer<'a, G> {
    /// `record` is storage to reuse.
    pub(crate) fn begin(
        head: MetricHead<'a>,
        record: &'a mut MetricRecord,
        limits: FrameLimits,
        give: G,
    ) -> Self {
        record.begin(&head, limits.bytes);
        Self { head, record, limits, give }
    }

    /// Adds a point by a function that returns whether it fitted.
    pub(crate) fn add(&mut self, write: impl Fn(&mut MetricRecord) -> bool) {
        if self.record.points() >= self.limits.points {
            self.hand_over();
        }
        if write(self.record) {
            return;
        }
        self.hand_over();
        if !write(self.record) {
            self.add_alone(write);
        }
    }

    /// For a point that is larger than a part should be.
    fn add_alone(&mut self, write: impl Fn(&mut MetricRecord) -> bool) {
        self.record.begin(&self.head, self.limits.largest);
        match write(self.record) {
            true => self.hand_over(),
            false => {
                (self.give)(FramedPoints::TooLarge { points: 1 });
                self.record.begin(&self.head, self.limits.bytes);
            }
        }
    }

    /// Gives what is left.
    pub(crate) fn end(mut self) {
        self.hand_over();
    }

    fn hand_over(&mut self) {
        let points = self.record.points();
        if points > 0 {
            (self.give)(FramedPoints::Frame { bytes: self.record.finish(), points });
        }
        self.record.begin(&self.head, self.limits.bytes);
    }
}

#[cfg(test)]
mod tests;
