//! Encodes the data points of a metric as OTLP `Metric`, in as many frames as the limits require.

use super::buffer::field_len;
use super::chunk::RECORD;
use super::point::{Exemplar, Period, Point};
use super::schema::tag::{Metric as tag, Sum as sum};
use super::wire::{Fields, Raw, encode_field, encode_varint};
use super::{AttributeSet, Scope};

/// The properties that all points of a metric have in common.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MetricHead<'a> {
    pub(crate) name: &'a str,
    pub(crate) description: &'a str,
    pub(crate) unit: &'a str,
    pub(crate) point_kind: PointKind,
}

/// The kind of points of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PointKind {
    Gauge,
    Sum { monotonic: bool, temporality: AggregationTemporality },
    Histogram { temporality: AggregationTemporality },
    ExponentialHistogram { temporality: AggregationTemporality },
}

/// OTLP's aggregation temporality. The preference of an exporter is [`Temporality`](crate::config::Temporality).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AggregationTemporality {
    /// A point covers the time since the previous point.
    Delta = 1,
    /// A point covers the time since the start of the series.
    Cumulative = 2,
}

/// The bytes of one `Metric`. Reused by [`begin`](MetricRecord::begin).
#[derive(Debug, Default)]
pub(crate) struct MetricRecord {
    point_kind: Option<PointKind>,
    /// Fields before the data field.
    head: Vec<u8>,
    /// Content of the data field: settings and points.
    data: Vec<u8>,
    /// Content of the newest point.
    point: Vec<u8>,
    /// The metric with its frame, once it is finished.
    framed: Vec<u8>,
    points: u64,
    max_bytes: usize,
}

impl MetricRecord {
    /// Starts a new metric of at most `max_bytes` including its frame, and reuses the storage.
    pub(crate) fn begin(&mut self, head: &MetricHead<'_>, max_bytes: usize) {
        // Decoders read messages up to 2 GiB.
        self.max_bytes = max_bytes.min(i32::MAX as usize);
        self.points = 0;
        for part in [&mut self.head, &mut self.data, &mut self.framed] {
            part.clear();
        }
        head.write(&mut self.head);
        head.point_kind.write_settings(&mut self.data);
        self.point_kind = Some(head.point_kind);
    }

    /// Adds a point. Returns false, and leaves the metric unchanged, if the point does not fit or has another kind
    /// than the metric.
    pub(crate) fn add(
        &mut self,
        attributes: &AttributeSet,
        period: Period,
        point: &Point<'_>,
        exemplars: &[Exemplar],
    ) -> bool {
        if !self.point_kind.is_some_and(|point_kind| point_kind.takes(point)) {
            return false;
        }
        self.point.clear();
        point.write(attributes, period, exemplars, &mut self.point);
        // The point was encoded separately, because its size decides whether it is part of this metric.
        let data_len = self.data.len() + field_len(self.point.len());
        let has_room = field_len(self.head.len() + field_len(data_len)) <= self.max_bytes;
        if has_room {
            encode_field(sum::data_points, &self.point, &mut self.data);
            self.points += 1;
        }
        has_room
    }

    /// Returns the number of points that were added since the metric was begun.
    pub(crate) fn points(&self) -> u64 {
        self.points
    }

    /// Ends the metric and returns its framed bytes, which are empty if it has no points.
    pub(crate) fn finish(&mut self) -> &[u8] {
        if let Some(point_kind) = self.point_kind.take().filter(|_| self.points > 0) {
            self.framed.push(RECORD);
            // A length precedes its content, so the parts are joined only now that their sizes are known.
            encode_varint((self.head.len() + field_len(self.data.len())) as u64, &mut self.framed);
            self.framed.extend_from_slice(&self.head);
            encode_field(point_kind.tag(), &self.data, &mut self.framed);
        }
        &self.framed
    }
}

impl MetricHead<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        let fields = [(tag::name, self.name), (tag::description, self.description), (tag::unit, self.unit)];
        for (tag, text) in fields.into_iter().filter(|(_, text)| !text.is_empty()) {
            encode_field(tag, text.as_bytes(), out);
        }
    }
}

impl PointKind {
    fn tag(self) -> u8 {
        match self {
            PointKind::Gauge => tag::gauge,
            PointKind::Sum { .. } => tag::sum,
            PointKind::Histogram { .. } => tag::histogram,
            PointKind::ExponentialHistogram { .. } => tag::exponential_histogram,
        }
    }

    fn takes(self, point: &Point<'_>) -> bool {
        match point {
            Point::Number(_) => matches!(self, PointKind::Gauge | PointKind::Sum { .. }),
            Point::Histogram(_) => matches!(self, PointKind::Histogram { .. }),
            Point::Exponential(_) => matches!(self, PointKind::ExponentialHistogram { .. }),
        }
    }

    /// Writes the settings that apply to all points.
    fn write_settings(self, out: &mut Vec<u8>) {
        let (temporality, is_monotonic) = match self {
            PointKind::Gauge => return,
            PointKind::Sum { temporality, monotonic } => (temporality, monotonic),
            PointKind::Histogram { temporality } | PointKind::ExponentialHistogram { temporality } => {
                (temporality, false)
            }
        };
        out.extend([sum::aggregation_temporality, temporality as u8]);
        if is_monotonic {
            out.extend([sum::is_monotonic, 1]);
        }
    }
}

/// Returns the number of data points of one framed metric or of several back to back. Returns 0 for malformed bytes.
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

/// Field numbers: `FRAME` is a metric in its scope, `DATA` are the kinds of data in a metric, and `DATA_POINT` is a
/// point in data of any kind. The last kind is the summary, which only other SDKs send.
const FRAME: u32 = 2;
const DATA: [u32; 5] = [5, 7, 9, 10, 11];
const DATA_POINT: u32 = 1;

/// Passes all length-delimited fields of a message to the callback, with their numbers. Returns `None` if the message
/// is malformed, or the callback returns `None`.
fn each_message(bytes: &[u8], mut show: impl FnMut(u32, &[u8]) -> Option<()>) -> Option<()> {
    for field in Fields::of(bytes) {
        if let (number, Raw::Bytes(body)) = field.ok()? {
            show(number, body)?;
        }
    }
    Some(())
}

/// Maximum size of one framed metric. A larger metric is framed in parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameLimits {
    pub(crate) bytes: usize,
    pub(crate) points: u64,
    /// Maximum bytes of a part with a single point.
    pub(crate) largest: usize,
}

impl FrameLimits {
    /// Returns these limits with fewer `bytes`. Each part is sent with its scope, and with the resource of the scope if
    /// the scope has one, so this function subtracts their sizes.
    pub(crate) fn less_scope(self, scope: &Scope) -> Self {
        let needed = scope.field().len() + scope.resource().map_or(0, <[u8]>::len);
        Self { bytes: self.bytes.saturating_sub(needed), ..self }
    }
}

/// A part of a metric, as [`MetricFramer`] passes it on.
pub(crate) enum FramedPoints<'a> {
    Frame {
        bytes: &'a [u8],
        points: u64,
    },
    /// The points are too large for any request.
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
    /// Starts to frame a metric. `record` is reused as storage.
    pub(crate) fn begin(
        head: MetricHead<'a>,
        record: &'a mut MetricRecord,
        limits: FrameLimits,
        give: G,
    ) -> Self {
        record.begin(&head, limits.bytes);
        Self { head, record, limits, give }
    }

    /// Adds a point. If the point is too large with its exemplars, they are left out.
    pub(crate) fn add(
        &mut self,
        attributes: &AttributeSet,
        period: Period,
        point: &Point<'_>,
        exemplars: &[Exemplar],
    ) {
        if self.record.points() >= self.limits.points {
            self.hand_over();
        }
        if self.record.add(attributes, period, point, exemplars) {
            return;
        }
        self.hand_over();
        if self.record.add(attributes, period, point, exemplars) {
            return;
        }
        // The point alone exceeds the usual size of a part, so it gets a part of its own, up to the largest size.
        self.record.begin(&self.head, self.limits.largest);
        if !self.record.add(attributes, period, point, exemplars)
            && !self.record.add(attributes, period, point, &[])
        {
            (self.give)(FramedPoints::TooLarge { points: 1 });
        }
        self.hand_over();
    }

    /// Passes on the last part.
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
