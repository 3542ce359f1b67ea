//! Consistent probability sampling, composite samplers, and spans that are recorded but not sampled.

use std::borrow::Cow;

use standpipe::config::{AttributeCondition, ComposableSampler, ParentOrigin, SamplingRule};
use standpipe::{Config, IntoValue, ProblemKind, Sampler, SpanContext, SpanKind, Value};

use super::{PARENT, PATIENCE, Program, names, trace_flags};
use crate::support::points::{attributes, int, newest};
use crate::support::scene::{FOR_EVER, Problems, exporter};

/// Threshold of a share of one half: traces with a lower randomness are not sampled.
const HALF: u64 = 1 << 55;

/// Returns the last 56 bits of a trace id.
fn randomness(context: &SpanContext) -> u64 {
    let id = context.trace_id().to_bytes();
    u64::from_be_bytes([0, id[9], id[10], id[11], id[12], id[13], id[14], id[15]])
}

/// A caller whose trace has the randomness `6e6d1a75832a2f`.
fn caller(flags: &str, state: &str) -> SpanContext {
    let header = format!("00-4bf92f3577b34da6a36e6d1a75832a2f-{PARENT}-{flags}");
    SpanContext::from_traceparent(&header).unwrap().with_tracestate(state)
}

fn rule(names: &[&str], sampler: ComposableSampler) -> SamplingRule {
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    SamplingRule { names, sampler, ..SamplingRule::default() }
}

#[test]
fn a_probability_decides_by_the_trace_id_and_sends_its_threshold() {
    let program = Program::with(Sampler::probability(0.5));
    let mut kept = 0;
    for _ in 0..100 {
        let root = program.tracer.span("root");
        let child = program.tracer.span("child");
        let sampled = randomness(root.context()) >= HALF;
        let expected = (sampled, if sampled { "ot=th:8" } else { "" });
        for span in [&root, &child] {
            assert_eq!((span.is_recording(), span.context().tracestate()), expected);
        }
        kept += usize::from(sampled);
    }
    let spans = program.end();
    assert_eq!(spans.len(), 2 * kept);
    assert!(spans.iter().all(|span| span.span.trace_state == "ot=th:8"));
}

#[test]
fn a_parent_based_sampler_forwards_the_threshold_unless_it_contradicts_the_flag() {
    let program = Program::with(Sampler::default());
    for (name, flags, state, expected) in [
        ("1", "03", "ot=th:4,a=b", "ot=th:4,a=b"),
        ("2", "03", "ot=th:8,a=b", "a=b"),
        ("3", "03", "ot=th:8;rv:fe6d1a75832a2f", "ot=th:8;rv:fe6d1a75832a2f"),
        ("4", "03", "ot=th:f;rv:0e6d1a75832a2f", "ot=rv:0e6d1a75832a2f"),
    ] {
        let (caller, other) = (caller(flags, state), caller("03", "ot=th:0"));
        let server = program.tracer.span_builder(name).parent(&caller).start();
        let child = program.tracer.span(name);
        let mut moved = program.tracer.span_builder(name).parent(&other).detached();
        assert!(moved.set_parent(&caller));
        for context in [server.context(), child.context(), moved.context()] {
            assert_eq!(context.tracestate(), expected);
        }
    }
    for span in program.end() {
        let expected = ["ot=th:4,a=b", "a=b", "ot=th:8;rv:fe6d1a75832a2f", "ot=rv:0e6d1a75832a2f"];
        let index: usize = span.span.name.parse().unwrap();
        assert_eq!(span.span.trace_state, expected[index - 1]);
    }
}

#[test]
fn rules_see_the_attributes_with_which_a_span_starts() {
    let condition = |key: &str, included: &[&str]| AttributeCondition {
        key: key.to_owned(),
        included: included.iter().map(|text| (*text).to_owned()).collect(),
        ..AttributeCondition::default()
    };
    let rules = [
        SamplingRule {
            attributes: vec![condition("route", &["/health*"])],
            ..rule(&[], ComposableSampler::AlwaysOff)
        },
        SamplingRule {
            attributes: vec![condition("status", &["200"])],
            ..rule(&[], ComposableSampler::AlwaysOn)
        },
        SamplingRule { kinds: vec![SpanKind::Client], ..rule(&["GET*"], ComposableSampler::AlwaysOn) },
        SamplingRule { parents: vec![ParentOrigin::Remote], ..rule(&[], ComposableSampler::AlwaysOn) },
    ];
    let program = Program::with(Sampler::composite(ComposableSampler::RuleBased(rules.to_vec())));
    let tracer = &program.tracer;
    tracer.span_builder("no").set("status", 200).set("route", "/health/live").start().end();
    tracer.span_builder("no").set("route", String::from("/health")).set("status", 200).detached().end();
    tracer.span_builder("1").set("status", 200).set("route", "/orders").start().end();
    tracer.span_builder("2").set("route", "/orders").set("status", 200).detached().end();
    tracer.span_builder("no").set("status", 404).start().end();
    tracer.span("no").set("status", 200);
    tracer.span_builder("GET 3").kind(SpanKind::Client).start().end();
    tracer.span_builder("4").parent(&caller("03", "")).set("status", 500).start().end();
    let spans = program.end();
    assert_eq!(names(&spans), ["1", "2", "4", "GET 3"]);
    assert!(spans.iter().all(|span| span.span.trace_state == "ot=th:0"));
}

/// A type of the program, whose values samplers can read, because the type implements `peek`.
struct Route(&'static str);

impl IntoValue for Route {
    fn with_value(self, write: impl FnOnce(Value<'_>)) {
        write(Value::Str(self.0));
    }

    fn peek(&self) -> Option<Value<'_>> {
        Some(Value::Str(self.0))
    }
}

#[test]
fn rules_see_start_attributes_of_every_type() {
    let equal = |key: &str, value: &str| AttributeCondition {
        key: key.to_owned(),
        values: vec![value.to_owned()],
        ..AttributeCondition::default()
    };
    let conditions = [
        ("text", "a"),
        ("owned", "a"),
        ("borrowed", "a"),
        ("dynamic", "a"),
        ("some", "a"),
        ("kept", "a"),
        ("own", "a"),
        ("flag", "true"),
        ("integer", "-7"),
        ("double", "0.5"),
        ("whole", "2.0"),
        ("texts", "b"),
        ("integers", "2"),
        ("doubles", "2.5"),
        ("flags", "false"),
        ("values", "x"),
    ];
    let rules = SamplingRule {
        attributes: conditions.map(|(key, value)| equal(key, value)).to_vec(),
        sampler: ComposableSampler::AlwaysOn,
        ..SamplingRule::default()
    };
    let program = Program::with(Sampler::composite(ComposableSampler::RuleBased(vec![rules])));
    let start = |flag: bool| {
        let builder = program.tracer.span_builder("1").set("text", "a").set("owned", String::from("a"));
        let builder = builder.set("borrowed", Cow::Borrowed("a")).set("dynamic", Value::Str("a"));
        let builder = builder.set("some", Some("a")).set("kept", "a").set("kept", None::<&str>);
        let builder = builder.set("own", Route("a")).set("flag", flag).set("integer", -7);
        let builder = builder.set("double", 0.5).set("whole", 2.0).set("texts", &["a", "b"][..]);
        let builder = builder.set("integers", &[1_i64, 2][..]).set("doubles", &[1.5, 2.5][..]);
        let builder = builder.set("flags", &[true, false][..]);
        builder.set("values", &[Value::Int(1), Value::Str("x")][..]).start().end();
    };
    start(false);
    start(true);
    assert_eq!(names(&program.end()), ["1"]);
}

#[test]
fn a_composite_sampler_follows_the_threshold_of_the_caller_and_limits_the_rate_of_new_traces() {
    let root = Box::new(ComposableSampler::RateLimited(10.0));
    let program = Program::with(Sampler::composite(ComposableSampler::ParentThreshold(root)));
    (0..1000).for_each(|_| program.tracer.span("root").end());
    for (name, flags, state) in
        [("1", "03", "ot=th:4"), ("2", "03", ""), ("no", "03", "ot=th:8"), ("no", "02", "")]
    {
        program.tracer.span_builder(name).parent(&caller(flags, state)).start().end();
    }
    let spans = program.end();
    let roots = spans.iter().filter(|span| span.span.name == "root");
    assert!((10..200).contains(&roots.clone().count()), "{}", spans.len());
    assert!(roots.clone().all(|span| span.span.trace_state.starts_with("ot=th:")));
    let others: Vec<_> = spans.iter().filter(|span| span.span.name != "root").collect();
    let states: Vec<_> = others.iter().map(|span| (&*span.span.name, &*span.span.trace_state)).collect();
    assert_eq!(states, [("1", "ot=th:4"), ("2", "")]);
}

#[test]
fn a_caller_that_does_not_promise_random_ids_is_reported_once() {
    let receiver = standpipe::receiver::Receiver::start().unwrap();
    let problems = Problems::default();
    let config = Config::new().service_name("shop").sampler(Sampler::probability(1.0));
    let telemetry = problems.start_with(config.exporter(exporter(&receiver)));
    let tracer = telemetry.tracer("shop");
    tracer.span_builder("random").parent(&caller("03", "")).start().end();
    assert!(problems.reported().is_empty());
    for _ in 0..3 {
        tracer.span_builder("not random").parent(&caller("01", "")).start().end();
    }
    let problem = problems.wait_for(ProblemKind::Configuration);
    assert!(problem.message.contains("does not promise that its trace ids are random"), "{problem}");
    assert_eq!(telemetry.shutdown(PATIENCE).total().delivered, 4);
    assert_eq!(problems.reported().len(), 1);
}

#[test]
fn a_span_that_is_only_recorded_records_but_is_never_sent() {
    let receiver = standpipe::receiver::Receiver::start().unwrap();
    let sampler = Sampler::trace_id_ratio(0.0).parent_based().always_record();
    let config = Config::new().self_observation(true).sampler(sampler);
    let telemetry =
        standpipe::Telemetry::start(config.exporter(exporter(&receiver).interval(FOR_EVER))).unwrap();
    let tracer = telemetry.tracer("shop");
    let recorded = |name: &str| {
        let values = newest(&receiver, name);
        let is_it = |point: &&_| {
            let point: &standpipe::receiver::proto::NumberDataPoint = point;
            attributes(&point.attributes).contains("RECORD_ONLY")
        };
        values.iter().filter(is_it).map(int).sum::<i64>()
    };
    let mut detached = tracer.span_builder("detached").detached();
    {
        let mut root = tracer.span("root");
        root.set("a", 1).rename("renamed");
        root.event("seen");
        assert!(root.is_recording() && !root.context().is_sampled());
        let child = tracer.span("child");
        assert!(child.is_recording() && !child.context().is_sampled());
        assert_eq!(detached.context().flags(), 2);
        assert!(detached.is_recording());
        assert_eq!(telemetry.ledger().open_spans.count, 0);
        let _ = telemetry.flush(PATIENCE);
        assert_eq!((recorded("otel.sdk.span.started"), recorded("otel.sdk.span.live")), (3, 3));
    }
    let sampled = tracer.span_builder("sampled").parent(&caller("03", "")).start();
    assert_eq!(telemetry.ledger().open_spans.names, [("sampled".to_owned(), 1)]);
    drop((detached, sampled));
    let _ = telemetry.flush(PATIENCE);
    assert_eq!((recorded("otel.sdk.span.started"), recorded("otel.sdk.span.live")), (3, 0));
    telemetry.shutdown(PATIENCE);
    let spans = receiver.spans();
    assert_eq!((names(&spans), trace_flags(&spans[0].span)), (vec!["sampled"], 3));
}
