//! The way of metrics that were added up elsewhere: like spans and log records they go through the queue.

use std::sync::Arc;

use super::{ExporterSet, push_to_each};
use crate::config::Temporality;
use crate::pipeline::exporter_handle::{ExporterSpec, Intake};
use crate::pipeline::ledger::NotEnqueuedReason;
use crate::record::{FrameLimits, Scope, Signal};

impl ExporterSet {
    /// Over which stretch of time the first exporter that takes metrics wants their sums to go; `None` if none takes any.
    pub(crate) fn temporality(&self) -> Option<Temporality> {
        let reader = self.spec.exporters.iter().find_map(|spec| spec.metrics.as_ref());
        reader.map(|(reader, _)| reader.temporality())
    }

    /// How metrics are divided so that every exporter can take the parts; only a single point may be too large for
    /// some of them. `None` if no exporter takes metrics.
    pub(crate) fn frame_limits(&self) -> Option<FrameLimits> {
        let takers = self.spec.exporters.iter().filter(|spec| spec.intake.takes(Signal::Metrics));
        takers.map(ExporterSpec::frame_limits).reduce(|one, other| FrameLimits {
            bytes: one.bytes.min(other.bytes),
            points: one.points.min(other.points),
            largest: one.largest.max(other.largest),
        })
    }

    /// Hands a framed metric with so many points to every exporter that takes metrics.
    pub(crate) fn push_metric(&self, scope: &Arc<Scope>, frame: &[u8], points: u64) {
        let takes = |intake: Intake| intake.takes(Signal::Metrics);
        push_to_each(&self.here().handles, scope, frame, points as usize, &takes);
    }

    /// Counts data points that cannot be sent.
    pub(crate) fn count_points_not_enqueued(&self, points: u64, reason: NotEnqueuedReason) {
        self.takers(|intake| intake.takes(Signal::Metrics))
            .for_each(|handle| handle.count_not_enqueued(Signal::Metrics, reason, points));
    }
}
