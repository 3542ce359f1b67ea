//! A metric with many points, framed in as many parts as the limits ask for.

use super::Scope;
use super::metric::{MetricHead, MetricRecord};

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
pub(crate) enum Part<'a> {
    Frame {
        bytes: &'a [u8],
        points: u64,
    },
    /// No request can hold them.
    TooLarge {
        points: u64,
    },
}

/// Frames the points of one metric and gives every part that is full.
pub(crate) struct MetricParts<'a, G> {
    head: MetricHead<'a>,
    record: &'a mut MetricRecord,
    limits: FrameLimits,
    give: G,
}

impl<'a, G: FnMut(Part<'_>)> MetricParts<'a, G> {
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

    /// Adds a point by a function that says whether it fitted.
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
                (self.give)(Part::TooLarge { points: 1 });
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
            (self.give)(Part::Frame { bytes: self.record.finish(), points });
        }
        self.record.begin(&self.head, self.limits.bytes);
    }
}
