//! The decisions of a [`Sampler`].
//!
//! Samplers that depend only on the trace id and the parent's flag are asked directly ([`Simple`]). All other samplers,
//! and all spans whose parent has a `tracestate`, take the general path ([`Decider::decide`]).

use std::cell::Cell;
use std::collections::HashMap;
use std::ptr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::builder::SpanSpec;
use crate::config::provider::{
    AttributeCondition, ComposableSampler, ParentOrigin, Sampler, SamplerKind, SamplingRule,
};
use crate::config::view::matches;
use crate::context::{OtFields, SpanContext, randomness, threshold, with_threshold};
use crate::pipeline::self_observation::SamplingResult;
use crate::process::with_locked;
use crate::record::TraceId;

/// Exclusive upper bound of [`low_bits`], which returns 63 bits of a trace id. It corresponds to a ratio of 1.
const ALL: u64 = 1 << 63;

/// A sampler that is ready to decide. All tracers of a provider share it.
#[derive(Debug)]
pub(crate) struct Decider {
    pub(super) simple: Option<Simple>,
    sampler: SamplerKind,
    /// States of the rate limits, by the address of the limit in `sampler`.
    limiters: Mutex<HashMap<usize, RateLimiter>>,
    /// True once a trace without a random id was reported.
    pub(super) has_warned: AtomicBool,
}

/// A sampler that depends only on the trace id and the sampled flag of the parent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Simple {
    /// A trace is kept if its [`low_bits`] are less than this number.
    below: u64,
    asks_parent: bool,
}

/// A span about which a sampler decides.
pub(super) struct Candidate<'a> {
    parent: Option<&'a SpanContext>,
    trace_id: TraceId,
    ot: OtFields,
    randomness: u64,
    spec: &'a SpanSpec<'a>,
    attributes: Option<&'a StartAttributes<'a>>,
    /// True if the decision assumes a random trace id, but the flags of the parent do not promise one.
    pub(super) lacks_randomness: Cell<bool>,
}

/// Returns whether an attribute given at the span's start has this key and a text that meets the condition.
pub(super) type StartAttributes<'a> = dyn Fn(&str, &dyn Fn(&str) -> bool) -> bool + 'a;

/// The decision of a part of a composite sampler: a threshold, or `None` to drop the span, and whether the threshold
/// may be sent. The threshold may be sent only if it states the real probability of the decision.
type Intent = (Option<u64>, bool);

impl Decider {
    pub(crate) fn new(Sampler(sampler): Sampler) -> Self {
        let simple = match &sampler {
            SamplerKind::ParentBased(root) => (bound(root), true),
            sampler => (bound(sampler), false),
        };
        let simple = simple.0.map(|below| Simple { below, asks_parent: simple.1 });
        Self { simple, sampler, limiters: Mutex::default(), has_warned: AtomicBool::new(false) }
    }

    /// Returns whether no span is ever recorded, regardless of its parent.
    pub(super) fn keeps_nothing(&self) -> bool {
        matches!(self.sampler, SamplerKind::AlwaysOff)
    }

    /// Returns whether every child of an unsampled parent is dropped, whatever the trace id is.
    pub(super) fn keeps_nothing_below_unsampled(&self) -> bool {
        self.keeps_nothing() || matches!(self.sampler, SamplerKind::ParentBased(_))
    }

    /// Returns whether every child of a sampled parent is sampled, whatever the trace id is.
    pub(super) fn keeps_all_below_sampled(&self) -> bool {
        matches!(self.sampler, SamplerKind::ParentBased(_) | SamplerKind::AlwaysOn)
    }

    /// Returns the decision and the `tracestate` of the span.
    #[cold]
    pub(super) fn decide(&self, candidate: &Candidate<'_>) -> (SamplingResult, Option<Arc<str>>) {
        self.ask(&self.sampler, candidate)
    }

    fn ask(&self, sampler: &SamplerKind, candidate: &Candidate<'_>) -> (SamplingResult, Option<Arc<str>>) {
        let is_kept = |threshold: &u64| candidate.randomness >= *threshold;
        let (sampled, threshold) = match (sampler, candidate.parent_sampled()) {
            // The threshold of the parent is forwarded, unless it contradicts the flag.
            (SamplerKind::ParentBased(_), Some(sampled)) => {
                (sampled, candidate.ot.threshold.filter(|threshold| is_kept(threshold) == sampled))
            }
            (SamplerKind::ParentBased(root), None) => return self.ask(root, candidate),
            (SamplerKind::AlwaysRecord(inner), _) => {
                let (result, state) = self.ask(inner, candidate);
                let is_dropped = result == SamplingResult::Drop;
                return (if is_dropped { SamplingResult::RecordOnly } else { result }, state);
            }
            (SamplerKind::Composite(sampler), _) => {
                let (threshold, is_reliable) = self.intent(sampler, candidate);
                let kept = threshold.filter(is_kept);
                (kept.is_some(), kept.filter(|_| is_reliable))
            }
            // Simple samplers have no threshold, and the parent's threshold does not describe this decision.
            (simple, _) => (bound(simple).is_some_and(|below| low_bits(candidate.trace_id) < below), None),
        };
        (SamplingResult::of(sampled), candidate.with_threshold(threshold))
    }

    fn intent(&self, sampler: &ComposableSampler, candidate: &Candidate<'_>) -> Intent {
        match (sampler, candidate.parent_sampled()) {
            (ComposableSampler::AlwaysOn, _) => (Some(0), true),
            (ComposableSampler::AlwaysOff, _) => (None, true),
            (ComposableSampler::Probability(ratio), _) => {
                let promises = candidate.parent.is_none_or(SpanContext::has_random_id);
                candidate.lacks_randomness.set(!promises && candidate.ot.randomness.is_none());
                (threshold(*ratio), true)
            }
            (ComposableSampler::RateLimited(rate), _) => {
                let share = with_locked(&self.limiters, |limiters| {
                    let limiter = limiters.entry(ptr::from_ref(rate).addr()).or_default();
                    limiter.share(*rate, Instant::now())
                });
                (share.and_then(threshold), true)
            }
            (ComposableSampler::ParentThreshold(root), None) => self.intent(root, candidate),
            (ComposableSampler::ParentThreshold(_), Some(sampled)) => match candidate.ot.threshold {
                None => (sampled.then_some(0), false),
                threshold => (threshold, true),
            },
            (ComposableSampler::RuleBased(rules), _) => {
                let rule = rules.iter().find(|rule| rule.matches(candidate));
                rule.map_or((None, true), |rule| self.intent(&rule.sampler, candidate))
            }
        }
    }
}

/// Returns the bound of a simple sampler, which keeps a trace if its [`low_bits`] are less than the bound.
fn bound(sampler: &SamplerKind) -> Option<u64> {
    match sampler {
        SamplerKind::AlwaysOn => Some(ALL),
        SamplerKind::AlwaysOff => Some(0),
        SamplerKind::TraceIdRatio(ratio) => Some((ratio * ALL as f64) as u64),
        _ => None,
    }
}

impl Simple {
    /// Returns whether a span of this trace is recorded; `parent_sampled` is `None` for a span without a parent.
    #[inline]
    pub(super) fn keeps(&self, trace_id: TraceId, parent_sampled: Option<bool>) -> bool {
        match parent_sampled {
            Some(sampled) if self.asks_parent => sampled,
            _ => low_bits(trace_id) < self.below,
        }
    }
}

/// Returns the last 64 bits of a trace id without the lowest one.
fn low_bits(TraceId(id): TraceId) -> u64 {
    u128::from_be_bytes(id) as u64 >> 1
}

impl<'a> Candidate<'a> {
    pub(super) fn new(
        parent: Option<&'a SpanContext>,
        trace_id: TraceId,
        spec: &'a SpanSpec<'a>,
        attributes: Option<&'a StartAttributes<'a>>,
    ) -> Self {
        let ot = OtFields::read(parent.map_or("", SpanContext::tracestate));
        let randomness = ot.randomness.unwrap_or_else(|| randomness(trace_id));
        Self { parent, trace_id, ot, randomness, spec, attributes, lacks_randomness: Cell::new(false) }
    }

    /// Returns the decision about the parent; `None` without a parent, or if the caller left it to this process.
    fn parent_sampled(&self) -> Option<bool> {
        self.parent?.sampling_decision()
    }

    /// Returns the parent's `tracestate` with this threshold.
    fn with_threshold(&self, threshold: Option<u64>) -> Option<Arc<str>> {
        let state = self.parent.and_then(|parent| parent.state.clone());
        if self.ot.threshold == threshold { state } else { with_threshold(state, threshold) }
    }
}

/// Estimates the rate of spans as an exponential moving average: `spans` and `seconds` decay with a time constant of
/// one second, and their ratio is the rate.
#[derive(Debug, Default)]
struct RateLimiter {
    spans: f64,
    seconds: f64,
    last: Option<Instant>,
}

impl RateLimiter {
    /// Counts a span, and returns the share of spans that may be kept within the limit, which is in spans per second.
    fn share(&mut self, limit: f64, now: Instant) -> f64 {
        // The first span counts as the only one in a full second, so a program may start with a burst.
        let decay = self.last.map_or(0.0, |last| (-now.saturating_duration_since(last).as_secs_f64()).exp());
        self.last = Some(now);
        self.spans = self.spans * decay + 1.0;
        self.seconds = self.seconds * decay + (1.0 - decay);
        limit * self.seconds / self.spans
    }
}

impl SamplingRule {
    fn matches(&self, candidate: &Candidate<'_>) -> bool {
        let origin = ParentOrigin::of(candidate.parent.map(|parent| parent.is_remote));
        let any = |patterns: &[String], text: &str| patterns.iter().any(|pattern| matches(pattern, text));
        let has_attribute = |condition: &AttributeCondition| {
            let AttributeCondition { key, values, included, excluded } = condition;
            let is_it = |text: &str| {
                let is_listed = values.iter().any(|value| value == text) || any(included, text);
                (is_listed || values.is_empty() && included.is_empty()) && !any(excluded, text)
            };
            candidate.attributes.is_some_and(|has_text| has_text(key, &is_it))
        };
        (self.names.is_empty() || any(&self.names, candidate.spec.name))
            && (self.kinds.is_empty() || self.kinds.contains(&candidate.spec.kind))
            && (self.parents.is_empty() || self.parents.contains(&origin))
            && self.attributes.iter().all(has_attribute)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::context::ParseContextError;
    use crate::record::{SpanKind, Value};
    use crate::tests::size_within;

    const RATIOS: [f64; 9] = [0.0, f64::MIN_POSITIVE, 0.001, 0.1, 0.25, 0.5, 0.999_999, 1.0, 7.5];

    fn id(high: u64, low: u64) -> TraceId {
        TraceId((u128::from(high) << 64 | u128::from(low)).to_be_bytes())
    }

    /// Asks a sampler that depends only on the trace id and the parent.
    fn ask(sampler: &Sampler, trace_id: TraceId, parent_sampled: Option<bool>) -> bool {
        Decider::new(sampler.clone()).simple.expect("it is simple").keeps(trace_id, parent_sampled)
    }

    fn keeps(ratio: f64, low: u64) -> bool {
        let sampler = Sampler::trace_id_ratio(ratio);
        let kept = ask(&sampler, id(0, low), None);
        assert_eq!(ask(&sampler, id(u64::MAX, low), None), kept, "only the low half of an id matters");
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
            assert!(keeps(ratio, (border - 1) << 1 | 1), "{ratio}: the highest id below the border");
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
    fn a_trace_that_a_ratio_keeps_is_kept_by_every_larger_one_again_and_again() {
        for _ in 0..size_within(200..=1000) {
            let trace_id = TraceId::random();
            let simply = || RATIOS.map(|ratio| ask(&Sampler::trace_id_ratio(ratio), trace_id, None));
            let consistently = || {
                let ask = |ratio| decide(&Sampler::probability(ratio), None, trace_id).0;
                RATIOS.map(ask).map(|result| result == SamplingResult::RecordAndSample)
            };
            assert!(simply().is_sorted() && consistently().is_sorted(), "{trace_id}");
            assert_eq!((simply(), consistently()), (simply(), consistently()), "{trace_id}");
        }
    }

    #[test]
    fn a_ratio_keeps_about_its_share_of_random_traces() {
        const ALL: u32 = 20_000;
        // Fewer traces vary more: the distance from the expected number falls with the root only. Of few traces, the
        // smallest ratio may keep none.
        let traces = size_within(ALL / 5..=ALL);
        let root = (f64::from(traces) / f64::from(ALL)).sqrt();
        let fewest = u32::from(traces >= ALL);
        for (ratio, distance) in [(0.5, 700.0), (0.1, 400.0), (0.001, 50.0)] {
            let (mean, distance) = (ratio * f64::from(traces), root * distance);
            let expected = fewest.max((mean - distance) as u32)..(mean + distance) as u32;
            let simple = Decider::new(Sampler::trace_id_ratio(ratio)).simple.expect("it is simple");
            let consistent = Decider::new(Sampler::probability(ratio));
            let (mut kept, mut consistently) = (0, 0);
            for _ in 0..traces {
                let trace_id = TraceId::random();
                kept += u32::from(simple.keeps(trace_id, None));
                let (result, _) = asked(&consistent, None, trace_id);
                consistently += u32::from(result == SamplingResult::RecordAndSample);
            }
            assert!(expected.contains(&kept), "{ratio}: {kept} of {traces}");
            assert!(expected.contains(&consistently), "{ratio}: {consistently} of {traces}");
        }
    }

    #[test]
    fn only_a_parent_based_sampler_asks_the_parent() {
        let (kept, dropped) = (id(7, 0), id(7, u64::MAX));
        let half = Sampler::trace_id_ratio(0.5);
        for (sampler, trace_id, of_a_root) in [
            (Sampler::always_on(), kept, true),
            (Sampler::always_off(), kept, false),
            (half.clone(), kept, true),
            (half, dropped, false),
        ] {
            let parent_based = sampler.clone().parent_based();
            assert_eq!(ask(&sampler, trace_id, None), of_a_root, "{sampler}");
            assert_eq!(ask(&parent_based, trace_id, None), of_a_root, "{sampler}");
            for parent in [true, false] {
                assert_eq!(ask(&sampler, trace_id, Some(parent)), of_a_root, "{sampler}, {parent}");
                assert_eq!(ask(&parent_based, trace_id, Some(parent)), parent, "{sampler}, {parent}");
            }
        }
    }

    /// Asks about a server span `GET /orders/7` with two attributes. The last returned value is
    /// [`Candidate::lacks_randomness`].
    fn ask_about(
        decider: &Decider,
        parent: Option<&SpanContext>,
        trace_id: TraceId,
    ) -> (SamplingResult, String, bool) {
        let telemetry = crate::telemetry::provider::Provider::idle();
        let tracer = telemetry.tracer("shop");
        let attributes = |key: &str, is_it: &dyn Fn(&str) -> bool| match key {
            "route" => Value::Str("/orders/{id}").has_text(is_it),
            "status" => Value::Int(200).has_text(is_it),
            "part" => Value::Ints(&[10, 20]).has_text(is_it),
            _ => false,
        };
        let spec = SpanSpec::new(&tracer, "GET /orders/7", SpanKind::Server);
        let candidate = Candidate::new(parent, trace_id, &spec, Some(&attributes));
        let (result, state) = decider.decide(&candidate);
        let state = state.as_deref().unwrap_or_default().to_owned();
        (result, state, candidate.lacks_randomness.get())
    }

    fn asked(decider: &Decider, parent: Option<&SpanContext>, trace_id: TraceId) -> (SamplingResult, String) {
        let (result, state, _) = ask_about(decider, parent, trace_id);
        (result, state)
    }

    fn decide(
        sampler: &Sampler,
        parent: Option<&SpanContext>,
        trace_id: TraceId,
    ) -> (SamplingResult, String) {
        asked(&Decider::new(sampler.clone()), parent, trace_id)
    }

    /// Returns a remote parent whose trace has the randomness of the specification's example, `6e6d1a75832a2f`.
    fn parent(flags: &str, state: &str) -> Result<SpanContext, ParseContextError> {
        let header = format!("00-4bf92f3577b34da6a36e6d1a75832a2f-00f067aa0ba902b7-{flags}");
        Ok(SpanContext::from_traceparent(&header)?.with_tracestate(state))
    }

    #[test]
    fn the_threshold_of_a_decision_is_written_and_one_that_contradicts_it_is_erased() {
        use SamplingResult::{Drop, RecordAndSample, RecordOnly};
        let (on, off) = (Sampler::always_on(), Sampler::always_off());
        let (default, ratio) = (Sampler::default(), Sampler::trace_id_ratio(1.0));
        let half = Sampler::probability(0.5);
        let most = Sampler::probability(0.75);
        let off_threshold = ComposableSampler::ParentThreshold(Box::new(ComposableSampler::AlwaysOff));
        let follow = Sampler::composite(off_threshold);
        let record = off.clone().always_record();
        let rv = "rv:fe6d1a75832a2f";
        for (sampler, flags, state, result, expected) in [
            // The parent decides: its threshold is forwarded, unless it contradicts the flag. The randomness is 6e….
            (&default, "03", "ot=th:4,a=b", RecordAndSample, "ot=th:4,a=b"),
            (&default, "03", "ot=th:8,a=b", RecordAndSample, "a=b"),
            (&default, "02", "ot=th:8,a=b", Drop, "ot=th:8,a=b"),
            (&default, "02", "ot=th:4", Drop, ""),
            (&default, "02", &format!("ot=th:8;{rv}"), Drop, &format!("ot={rv}")),
            (&default, "03", &format!("ot=th:8;{rv}"), RecordAndSample, &format!("ot=th:8;{rv}")),
            // The sampler decides without a threshold.
            (&on, "03", "ot=th:4,a=b", RecordAndSample, "a=b"),
            (&off, "03", &format!("ot=th:4;{rv}"), Drop, &format!("ot={rv}")),
            (&ratio, "03", "ot=th:4", RecordAndSample, ""),
            (&record, "03", "ot=th:4", RecordOnly, ""),
            // The sampler decides with its own threshold.
            (&half, "03", "ot=th:4", Drop, ""),
            (&half, "02", "a=b", Drop, "a=b"),
            (&most, "02", "a=b", RecordAndSample, "ot=th:4,a=b"),
            (&half, "02", &format!("a=b,ot={rv}"), RecordAndSample, &format!("ot=th:8;{rv},a=b")),
            // The parent's threshold decides or, without a threshold, the parent's flag.
            (&follow, "02", "ot=th:4", RecordAndSample, "ot=th:4"),
            (&follow, "03", "ot=th:8", Drop, ""),
            (&follow, "03", "a=b", RecordAndSample, "a=b"),
            (&follow, "02", "a=b", Drop, "a=b"),
            (&follow, "03", &format!("ot=th:x;{rv}"), RecordAndSample, &format!("ot=th:x;{rv}")),
        ] {
            let parent = parent(flags, state).expect("it is valid");
            let decided = decide(sampler, Some(&parent), parent.trace_id);
            assert_eq!(decided, (result, expected.to_owned()), "{sampler}, {flags}, {state}");
        }
        // This trace id has the randomness 6e6d1a75832a2f: thresholds up to this number sample the trace.
        let trace_id = parent("03", "").expect("it is valid").trace_id;
        for (state, result) in [("ot=th:6e6d1a75832a2f", RecordAndSample), ("ot=th:6e6d1a75832a3", Drop)] {
            let parent = parent("03", state).expect("it is valid");
            assert_eq!(decide(&follow, Some(&parent), trace_id).0, result, "{state}");
        }
        assert_eq!(decide(&most, None, trace_id), (RecordAndSample, "ot=th:4".to_owned()));
        assert_eq!(decide(&half, None, trace_id), (Drop, String::new()));
    }

    #[test]
    fn only_a_probability_of_a_child_without_a_promise_lacks_randomness() {
        let lacks = |sampler: &Sampler, parent: Option<&SpanContext>| {
            let trace_id = parent.map_or(id(1, 1), |parent| parent.trace_id);
            ask_about(&Decider::new(sampler.clone()), parent, trace_id).2
        };
        let (half, on) = (Sampler::probability(0.5), Sampler::composite(ComposableSampler::AlwaysOn));
        let of = |flags, state| parent(flags, state).expect("it is valid");
        assert!(lacks(&half, Some(&of("01", ""))));
        assert!(!lacks(&half, Some(&of("03", ""))));
        assert!(!lacks(&half, Some(&of("01", "ot=rv:6e6d1a75832a2f"))));
        assert!(!lacks(&half, None) && !lacks(&on, Some(&of("01", ""))));
    }

    #[test]
    fn the_first_rule_that_matches_decides_and_without_one_the_span_is_dropped() {
        let named = |names: &[&str]| SamplingRule { names: owned(names), ..SamplingRule::default() };
        let of_kinds = |kinds: &[SpanKind]| SamplingRule { kinds: kinds.to_vec(), ..SamplingRule::default() };
        let below =
            |parents: &[ParentOrigin]| SamplingRule { parents: parents.to_vec(), ..Default::default() };
        let with = |key: &str, included: &[&str], excluded: &[&str]| {
            let (included, excluded) = (owned(included), owned(excluded));
            let condition =
                AttributeCondition { key: key.to_owned(), included, excluded, values: Vec::new() };
            SamplingRule { attributes: vec![condition], ..SamplingRule::default() }
        };
        let equal = |key: &str, values: &[&str]| {
            let condition =
                AttributeCondition { key: key.to_owned(), values: owned(values), ..Default::default() };
            SamplingRule { attributes: vec![condition], ..SamplingRule::default() }
        };
        let remote = parent("03", "").expect("it is valid");
        let local = SpanContext { is_remote: false, ..remote.clone() };
        for (rule, parent, expected) in [
            (SamplingRule::default(), None, true),
            (named(&["GET *"]), None, true),
            (named(&["PUT *", "POST *"]), None, false),
            (of_kinds(&[SpanKind::Client, SpanKind::Server]), None, true),
            (of_kinds(&[SpanKind::Client]), None, false),
            (below(&[ParentOrigin::None]), None, true),
            (below(&[ParentOrigin::None]), Some(&local), false),
            (below(&[ParentOrigin::Local, ParentOrigin::Remote]), Some(&remote), true),
            (below(&[ParentOrigin::Local]), Some(&remote), false),
            (with("status", &["404", "200"], &[]), None, true),
            (with("status", &["404"], &[]), None, false),
            (with("other", &[], &[]), None, false),
            (with("route", &["/cart*", "/orders/*"], &[]), None, true),
            (with("route", &["/orders/*"], &["*{id}"]), None, false),
            (with("route", &[], &["/cart*"]), None, true),
            (equal("route", &["/cart", "/orders/{id}"]), None, true),
            (equal("route", &["/orders/*"]), None, false),
            (equal("status", &["200"]), None, true),
            // One matching element of an array is enough.
            (equal("part", &["20"]), None, true),
            (with("part", &[], &["1*"]), None, true),
            (with("part", &[], &["?0"]), None, false),
            (SamplingRule { names: owned(&["PUT *"]), ..with("status", &["200"], &[]) }, None, false),
        ] {
            let never = SamplingRule { sampler: ComposableSampler::AlwaysOff, ..named(&["never"]) };
            let rules = vec![never, rule.clone()];
            let sampler = Sampler::composite(ComposableSampler::RuleBased(rules));
            let sampled = decide(&sampler, parent, id(1, 1)).0 == SamplingResult::RecordAndSample;
            assert_eq!(sampled, expected, "{rule:?}");
        }
    }

    fn owned(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn a_rate_limit_is_kept_at_any_rate_and_after_any_pause() {
        for (per_second, limit) in [(1000, 10.0), (50, 10.0), (5, 10.0), (20, 0.5)] {
            let mut limiter = RateLimiter::default();
            let start = Instant::now();
            let mut expected = 0.0;
            for number in 0..per_second * 100 {
                let now = start + Duration::from_secs(3600) + Duration::from_secs(number) / per_second as u32;
                expected += limiter.share(limit, now).min(1.0);
            }
            let (rate, offered) = (expected / 100.0, per_second as f64);
            assert!(rate <= limit.min(offered) * 1.1, "{rate} of {offered} at {limit}");
            assert!(rate >= limit.min(offered) * 0.5, "{rate} of {offered} at {limit}");
            let later = start + Duration::from_secs(24 * 3600);
            let burst: f64 = (0..10_000).map(|_| limiter.share(limit, later).min(1.0)).sum();
            assert!(burst <= limit * 12.0, "{burst} at {limit}");
        }
    }

    #[test]
    fn patterns_match_the_whole_text() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("a*", "abc", true),
            ("*c", "abc", true),
            ("a*c", "abcbc", true),
            ("a*b", "abc", false),
            ("?", "ä", true),
            ("?", "", false),
            ("a?c*", "abcd", true),
            ("**", "x", true),
            ("A", "a", false),
            ("*a*a*a*a*b", &"a".repeat(2000), false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }
}
