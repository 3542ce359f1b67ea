//! Learns the maximum request size of a collector from its answers. Pure: time is an argument.
//!
//! OTLP has no way to ask for the limit. A refusal (413) sets the limit to half of the refused size, or to the largest
//! size accepted before, if that is larger. Sizes that were accepted before must be refused three times in a row before
//! the limit falls below them. A limit that has not changed for 30 s grows by half when the collector accepts a request
//! of at least half the limit's size, because the collector's limit may have been temporary.

use std::time::{Duration, Instant};

/// Time after which an unchanged limit is raised.
const RAISED_AFTER: Duration = Duration::from_secs(30);
/// Number of single frames refused in a row after which frames at least as large as the last are assumed too large.
const HOPELESS_AFTER: u32 = 16;
/// Time for which frames that are assumed to be too large are dropped without an attempt.
const HOPELESS_FOR: Duration = Duration::from_secs(1);

/// If a size that was accepted before is refused this many times in a row, the limit falls below that size. Up to
/// then, the cause may be a single oversized record in the request.
const MAX_DOUBTS: u32 = 3;

/// The parts of later metrics are this many times smaller than a refused metric. The factor is large, because every
/// collection may lose the metric until the parts are small enough.
const METRIC_STEP: usize = 8;
/// Lower bound of the size at which metrics are divided after a refusal. Smaller parts would hardly help: they would
/// mostly consist of the head of the metric, which each part repeats.
const MIN_METRIC_BYTES: usize = 1 << 10;

/// The request size that a collector accepts for one signal, as learned so far. Sizes are bytes of uncompressed
/// requests.
#[derive(Debug, Default)]
pub(crate) struct RequestLimit {
    max_bytes: Option<usize>,
    /// Largest request that was accepted. Forgotten when `doubts` reaches [`MAX_DOUBTS`].
    taken: usize,
    /// Consecutive refusals of sizes that were accepted before.
    doubts: u32,
    changed: Option<Instant>,
    /// Size above which the next metrics are framed in parts, learned from single frames that were refused. The size
    /// never grows again: small parts cost little more than the repeated head of the metric.
    metric_bytes: Option<usize>,
    /// Consecutive single frames that were refused.
    refused_alone: u32,
    /// Frames of this size or larger are dropped until this time.
    hopeless: Option<(usize, Instant)>,
}

impl RequestLimit {
    /// Returns the maximum size of a request. A single frame may be larger.
    pub(crate) fn max_bytes(&self) -> usize {
        self.max_bytes.unwrap_or(usize::MAX)
    }

    /// Returns the largest size at which a collected metric is framed as one part. Unlike a span, a metric can be
    /// divided between its points, but only before it is framed.
    pub(crate) fn max_metric_bytes(&self) -> usize {
        // Half of a request: the other half is for the resource and the scope.
        self.metric_bytes.unwrap_or(usize::MAX).min(self.max_bytes() / 2)
    }

    /// Notes that a request of this size was refused as too large. The caller then divides the request.
    pub(crate) fn refuse(&mut self, size: usize, now: Instant) {
        if size <= self.taken {
            self.doubts += 1;
            if self.doubts < MAX_DOUBTS {
                return;
            }
            self.taken = 0;
        }
        self.doubts = 0;
        self.max_bytes = Some(self.taken.max(size / 2));
        self.changed = Some(now);
    }

    /// Notes that a request with a single frame was refused as too large.
    pub(crate) fn refuse_alone(&mut self, frame: usize, now: Instant) {
        self.shrink_metrics(frame);
        self.refused_alone = self.refused_alone.saturating_add(1);
        if self.refused_alone >= HOPELESS_AFTER {
            let least = self.hopeless.map_or(frame, |(least, _)| least.min(frame));
            self.hopeless = Some((least, now + HOPELESS_FOR));
        }
    }

    /// Notes that a metric of this size is too large, so that the next ones are framed in smaller parts.
    pub(crate) fn shrink_metrics(&mut self, frame: usize) {
        let metric_bytes = (frame / METRIC_STEP).max(MIN_METRIC_BYTES);
        self.metric_bytes = Some(self.metric_bytes.map_or(metric_bytes, |least| least.min(metric_bytes)));
    }

    /// Notes that a request of this size was accepted.
    pub(crate) fn accept(&mut self, size: usize, now: Instant) {
        (self.refused_alone, self.hopeless) = (0, None);
        // A success resets `doubts` only if the request is nearly as large as the largest accepted request. Smaller
        // requests prove nothing: the halves of a refused request are accepted even if the collector has lowered its
        // limit.
        self.doubts = if size > self.taken / 4 * 3 { 0 } else { self.doubts };
        self.taken = self.taken.max(size);
        // A single oversized record lowers the limit several times: its batch is refused, then the half and the quarter
        // that contain it. If another part above the lowered limit is accepted, the record was the reason for these
        // refusals, and the limit returns to the size of that part.
        let Some(max_bytes) = self.max_bytes.map(|bytes| bytes.max(size)) else { return };
        self.max_bytes = Some(max_bytes);
        let is_old =
            self.changed.is_some_and(|changed| now.saturating_duration_since(changed) >= RAISED_AFTER);
        // Only a request near the limit shows that the collector accepts such sizes.
        if is_old && size >= max_bytes / 2 {
            self.max_bytes = Some(max_bytes.saturating_add((max_bytes / 2).max(1)));
            self.changed = Some(now);
        }
    }

    /// Returns whether a frame of this size is assumed to be too large and must be dropped without an attempt.
    pub(crate) fn is_hopeless(&self, frame: impl FnOnce() -> usize, now: Instant) -> bool {
        self.hopeless.is_some_and(|(least, until)| now < until && frame() >= least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends `total` bytes to a collector that accepts requests up to the size `collector`. The requests are divided as
    /// the limit and the collector demand. Returns the number of refused requests.
    fn send(limit: &mut RequestLimit, collector: usize, total: usize, now: Instant) -> usize {
        let (mut refused, mut left) = (0, total);
        while left > 0 {
            let mut parts = vec![left.min(limit.max_bytes())];
            left -= parts[0];
            while let Some(part) = parts.pop() {
                if part <= collector {
                    limit.accept(part, now);
                } else {
                    refused += 1;
                    limit.refuse(part, now);
                    parts.extend([part / 2, part - part / 2]);
                }
            }
        }
        refused
    }

    #[test]
    fn without_a_refusal_there_is_no_limit() {
        let mut limit = RequestLimit::default();
        limit.accept(4 << 20, Instant::now());
        assert_eq!(limit.max_bytes(), usize::MAX);
    }

    #[test]
    fn what_the_collector_takes_is_known_after_one_batch() {
        let (mut limit, now) = (RequestLimit::default(), Instant::now());
        assert!(send(&mut limit, 100_000, 4 << 20, now) > 0);
        assert!((50_000..=100_000).contains(&limit.max_bytes()), "{}", limit.max_bytes());
        assert_eq!(send(&mut limit, 100_000, 40 << 20, now), 0);
    }

    #[test]
    fn a_limit_is_raised_now_and_then_and_returns_to_what_was_taken() {
        let (mut limit, mut now) = (RequestLimit::default(), Instant::now());
        send(&mut limit, 100_000, 4 << 20, now);
        let mut refused = 0;
        for _ in 0..60 {
            now += Duration::from_secs(60);
            refused += send(&mut limit, 100_000, 4 << 20, now);
            assert!((50_000..=150_000).contains(&limit.max_bytes()), "{}", limit.max_bytes());
        }
        assert!(refused <= 60, "{refused} refusals in an hour");
    }

    #[test]
    fn a_collector_that_takes_more_again_gets_more() {
        let (mut limit, mut now) = (RequestLimit::default(), Instant::now());
        send(&mut limit, 10_000, 1 << 20, now);
        for _ in 0..30 {
            now += Duration::from_secs(60);
            assert_eq!(send(&mut limit, usize::MAX, 4 << 20, now), 0);
        }
        assert!(limit.max_bytes() > 1 << 20, "{}", limit.max_bytes());
    }

    #[test]
    fn one_record_that_is_too_large_does_not_make_later_requests_small() {
        let (mut limit, now) = (RequestLimit::default(), Instant::now());
        // The halves that contain the record are refused, down to the record itself. All other parts are accepted.
        [800, 400, 200].into_iter().for_each(|size| limit.refuse(size, now));
        limit.refuse_alone(100, now);
        [100, 200, 400].into_iter().for_each(|size| limit.accept(size, now));
        assert_eq!(limit.max_bytes(), 400);
    }

    #[test]
    fn metrics_are_framed_within_the_learned_limits() {
        let (mut limit, now) = (RequestLimit::default(), Instant::now());
        limit.refuse(100_000, now);
        assert_eq!(limit.max_metric_bytes(), 25_000);
        limit.refuse_alone(64_000, now);
        assert_eq!(limit.max_metric_bytes(), 8000);
        limit.refuse_alone(8000, now);
        limit.refuse_alone(64_000, now);
        assert_eq!(limit.max_metric_bytes(), MIN_METRIC_BYTES);
    }

    #[test]
    fn a_small_request_raises_nothing() {
        let (mut limit, now) = (RequestLimit::default(), Instant::now());
        limit.refuse(1000, now);
        limit.accept(10, now + Duration::from_secs(600));
        assert_eq!(limit.max_bytes(), 500);
    }

    #[test]
    fn a_collector_that_takes_less_than_before_is_asked_for_less() {
        let (mut limit, now) = (RequestLimit::default(), Instant::now());
        limit.accept(1000, now);
        for _ in 0..3 {
            assert_eq!(limit.max_bytes(), usize::MAX, "the reason may have been a record in it");
            limit.refuse(1000, now);
            limit.accept(500, now);
            limit.accept(500, now);
        }
        assert_eq!(limit.max_bytes(), 500);
    }

    #[test]
    fn a_refusal_now_and_then_of_what_is_taken_otherwise_changes_nothing() {
        let (mut limit, now) = (RequestLimit::default(), Instant::now());
        for _ in 0..20 {
            limit.accept(1000, now);
            limit.refuse(1000, now);
            limit.accept(500, now);
            limit.accept(500, now);
        }
        assert_eq!(limit.max_bytes(), usize::MAX);
    }

    #[test]
    fn frames_are_hopeless_for_a_while_when_many_of_their_size_were_refused_in_a_row() {
        let (mut limit, now) = (RequestLimit::default(), Instant::now());
        (1..HOPELESS_AFTER).for_each(|_| limit.refuse_alone(100, now));
        limit.accept(100, now);
        (1..HOPELESS_AFTER).for_each(|_| limit.refuse_alone(100, now));
        assert!(!limit.is_hopeless(|| 100, now), "one was taken in between");
        limit.refuse_alone(101, now);
        assert!(limit.is_hopeless(|| 101, now) && !limit.is_hopeless(|| 100, now));
        limit.refuse_alone(100, now);
        assert!(
            limit.is_hopeless(|| 100, now)
                && limit.is_hopeless(|| 1000, now)
                && !limit.is_hopeless(|| 99, now)
        );
        let later = now + HOPELESS_FOR;
        assert!(!limit.is_hopeless(|| 1000, later));
        limit.refuse_alone(100, later);
        assert!(limit.is_hopeless(|| 100, later), "one more is enough");
        limit.accept(100, later);
        assert!(!limit.is_hopeless(|| 100, later));
    }
}
