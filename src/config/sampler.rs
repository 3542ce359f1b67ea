//! Samplers, which decide which traces are recorded. They are pure functions of the trace id and the parent.

use std::fmt;

use crate::record::TraceId;

/// Exclusive upper bound of [`share`], which returns 63 bits of a trace id. It corresponds to a ratio of 1.
const ALL: u64 = 1 << 63;

/// Decides which traces are recorded. Set by [`Config::sampler`](crate::Config::sampler). By default, a span is
/// recorded if its parent is recorded or if it has no parent.
///
/// A span that is not recorded is neither sent nor counted. It still propagates its context, which tells other threads
/// and processes that the trace is not recorded.
///
/// ```
/// use standpipe::{Config, Sampler};
///
/// let one_in_four = Sampler::trace_id_ratio(0.25).parent_based();
/// assert_eq!(one_in_four.to_string(), "parentbased_traceidratio{0.25}");
/// assert_eq!(Sampler::default().to_string(), "parentbased_always_on");
/// let config = Config::new().sampler(one_in_four);
/// # let _ = config;
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampler {
    rule: Rule,
    asks_parent: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Rule {
    AlwaysOn,
    AlwaysOff,
    /// Records traces whose [`share`] is less than `below`, which is `ratio` times [`ALL`].
    TraceIdRatio {
        ratio: f64,
        below: u64,
    },
}

impl Sampler {
    /// Records every span.
    pub const fn always_on() -> Self {
        Self { rule: Rule::AlwaysOn, asks_parent: false }
    }

    /// Records no span.
    pub const fn always_off() -> Self {
        Self { rule: Rule::AlwaysOff, asks_parent: false }
    }

    /// Records this share of all traces: 0.01 is one in a hundred. A ratio of 1 or more records all traces; 0, a
    /// negative ratio and NaN record none.
    ///
    /// The decision depends only on the trace id, by the same formula as in OpenTelemetry's SDK for Go, so all programs
    /// with the same ratio record the same traces.
    pub fn trace_id_ratio(ratio: f64) -> Self {
        // The comparison is false for NaN, which therefore records nothing.
        let ratio = if ratio > 0.0 { ratio.min(1.0) } else { 0.0 };
        let below = (ratio * ALL as f64) as u64;
        Self { rule: Rule::TraceIdRatio { ratio, below }, asks_parent: false }
    }

    /// Returns a sampler that records a span if its parent is recorded, in this process or another. `self` decides
    /// about spans without a parent.
    #[must_use]
    pub const fn parent_based(self) -> Self {
        Self { asks_parent: true, ..self }
    }

    /// Returns whether a span of this trace is recorded; `parent_sampled` is `None` for a span without a parent.
    #[inline]
    pub(crate) fn keeps(&self, trace_id: TraceId, parent_sampled: Option<bool>) -> bool {
        match (parent_sampled, self.rule) {
            (Some(sampled), _) if self.asks_parent => sampled,
            (_, Rule::AlwaysOn) => true,
            (_, Rule::AlwaysOff) => false,
            (_, Rule::TraceIdRatio { below, .. }) => share(trace_id) < below,
        }
    }

    /// Returns whether no span is ever recorded, regardless of its parent.
    pub(crate) fn keeps_nothing(&self) -> bool {
        !self.asks_parent && self.rule == Rule::AlwaysOff
    }

    /// Returns how many percent of the traces that begin in this process are recorded.
    pub(crate) fn percent(&self) -> f64 {
        match self.rule {
            Rule::AlwaysOn => 100.0,
            Rule::AlwaysOff => 0.0,
            Rule::TraceIdRatio { ratio, .. } => ratio * 100.0,
        }
    }

    /// Returns true if the sampler drops every child of an unrecorded parent, whatever the trace id is.
    pub(crate) fn keeps_nothing_below_unsampled(&self) -> bool {
        self.asks_parent || self.rule == Rule::AlwaysOff
    }

    /// Returns whether every child of a recorded parent is recorded, regardless of its trace id.
    pub(crate) fn keeps_all_below_sampled(&self) -> bool {
        self.asks_parent || self.rule == Rule::AlwaysOn
    }
}

impl Default for Sampler {
    fn default() -> Self {
        Self::always_on().parent_based()
    }
}

/// Writes OpenTelemetry's name of the sampler, followed by the ratio.
impl fmt::Display for Sampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.asks_parent {
            f.write_str("parentbased_")?;
        }
        match self.rule {
            Rule::AlwaysOn => f.write_str("always_on"),
            Rule::AlwaysOff => f.write_str("always_off"),
            Rule::TraceIdRatio { ratio, .. } => write!(f, "traceidratio{{{ratio}}}"),
        }
    }
}

/// Returns the number, below [`ALL`], that decides about a trace: the last 64 bits of its id without the lowest one.
fn share(TraceId(id): TraceId) -> u64 {
    let low = [id[8], id[9], id[10], id[11], id[12], id[13], id[14], id[15]];
    u64::from_be_bytes(low) >> 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATIOS: [f64; 9] = [0.0, f64::MIN_POSITIVE, 0.001, 0.1, 0.25, 0.5, 0.999_999, 1.0, 7.5];

    fn id(high: u64, low: u64) -> TraceId {
        TraceId((u128::from(high) << 64 | u128::from(low)).to_be_bytes())
    }

    fn keeps(ratio: f64, low: u64) -> bool {
        let sampler = Sampler::trace_id_ratio(ratio);
        let kept = sampler.keeps(id(0, low), None);
        assert_eq!(sampler.keeps(id(u64::MAX, low), None), kept, "only the low half of an id matters");
        kept
    }

    #[test]
    fn a_ratio_keeps_what_is_below_its_border_and_not_the_border() {
        // Bounds as in the SDK for Go: ratio · 2⁶³, rounded down. The lowest bit of the id is ignored.
        for (ratio, border) in [
            (0.5, 1 << 62),
            (0.25, 1 << 61),
            (0.001, 0x0020_c49b_a5e3_53f8),
            (0.1, 0x0ccc_cccc_cccc_cd00),
            (1.0 / 3.0, 0x2aaa_aaaa_aaaa_aa00),
            (1e-18, 9),
            (1.0 - f64::EPSILON / 2.0, (1 << 63) - (1 << 10)),
        ] {
            assert!(keeps(ratio, (border - 1) << 1 | 1), "{ratio}: the last one below");
            assert!(!keeps(ratio, border << 1), "{ratio}: the border itself");
            assert!(keeps(ratio, 0), "{ratio}: the lowest id");
            assert!(!keeps(ratio, u64::MAX), "{ratio}: the highest id");
        }
    }

    #[test]
    fn one_and_more_keep_every_id_and_nothing_keeps_none() {
        for low in [0, 1, 2, 1 << 63, u64::MAX - 1, u64::MAX] {
            for all in [1.0, 1.5, 100.0, f64::MAX, f64::INFINITY] {
                assert!(keeps(all, low), "{all}: {low:x}");
            }
            for none in [0.0, -0.0, -1.0, f64::MIN, f64::NEG_INFINITY, f64::NAN, -f64::NAN] {
                assert!(!keeps(none, low), "{none}: {low:x}");
            }
        }
    }

    #[test]
    fn a_ratio_keeps_about_its_share_of_random_traces() {
        for (ratio, expected) in [(0.5, 45_000..55_000), (0.1, 8_500..11_500), (0.001, 30..250)] {
            let sampler = Sampler::trace_id_ratio(ratio);
            let kept = (0..100_000).filter(|_| sampler.keeps(TraceId::random(), None)).count();
            assert!(expected.contains(&kept), "{ratio}: {kept} of 100,000");
        }
    }

    #[test]
    fn a_trace_that_a_ratio_keeps_is_kept_by_every_larger_one_again_and_again() {
        for _ in 0..1000 {
            let trace_id = TraceId::random();
            let ask = || RATIOS.map(|ratio| Sampler::trace_id_ratio(ratio).keeps(trace_id, None));
            assert!(ask().is_sorted(), "{trace_id}");
            assert_eq!(ask(), ask(), "{trace_id}");
        }
    }

    #[test]
    fn only_a_parent_based_sampler_asks_the_parent() {
        let (kept, dropped) = (id(7, 0), id(7, u64::MAX));
        let half = Sampler::trace_id_ratio(0.5);
        for (sampler, trace_id, of_a_root) in [
            (Sampler::always_on(), kept, true),
            (Sampler::always_off(), kept, false),
            (half, kept, true),
            (half, dropped, false),
        ] {
            assert_eq!(sampler.keeps(trace_id, None), of_a_root, "{sampler}");
            assert_eq!(sampler.parent_based().keeps(trace_id, None), of_a_root, "{sampler}");
            for parent in [true, false] {
                assert_eq!(sampler.keeps(trace_id, Some(parent)), of_a_root, "{sampler}, {parent}");
                assert_eq!(
                    sampler.parent_based().keeps(trace_id, Some(parent)),
                    parent,
                    "{sampler}, {parent}"
                );
            }
        }
    }

    #[test]
    fn samplers_go_by_their_usual_names() {
        for (sampler, name) in [
            (Sampler::always_on(), "always_on"),
            (Sampler::always_off(), "always_off"),
            (Sampler::trace_id_ratio(0.001), "traceidratio{0.001}"),
            (Sampler::trace_id_ratio(f64::NAN), "traceidratio{0}"),
            (Sampler::trace_id_ratio(2.0).parent_based(), "parentbased_traceidratio{1}"),
            (Sampler::always_off().parent_based(), "parentbased_always_off"),
            (Sampler::default(), "parentbased_always_on"),
        ] {
            assert_eq!(sampler.to_string(), name);
        }
    }
}
