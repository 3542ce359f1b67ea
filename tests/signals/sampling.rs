//! Unsampled spans are neither sent nor counted, and their children and log records carry the decision.
#![allow(
    clippy::unwrap_used,
    reason = "the programs of these tests are closures outside of #[test] functions"
)]

mod consistent;

use std::collections::HashSet;
use std::panic::{self, AssertUnwindSafe};
use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, SystemTime};

use standpipe::receiver::proto::Span as Received;
use standpipe::receiver::{ReceivedSpan, Receiver};
use standpipe::{
    Config, Exporter, Ledger, Sampler, Signal, Span, SpanContext, SpanKind, Status, Telemetry, Tracer,
};

/// Longer than anything on loopback takes.
const PATIENCE: Duration = Duration::from_secs(20);
const FOR_EVER: Duration = Duration::from_secs(3600);
/// A trace id that every ratio above 0 keeps, and one that no ratio below 1 keeps.
const LOW_TRACE: &str = "ffffffffffffffff0000000000000001";
const HIGH_TRACE: &str = "0000000000000001ffffffffffffffff";
const PARENT: &str = "00f067aa0ba902b7";
/// `SpanFlags`: the bits of the trace flags.
const TRACE_FLAGS: u32 = 0xff;

/// A program and the collector that it sends to.
struct Program {
    receiver: Receiver,
    telemetry: Telemetry,
    tracer: Tracer,
}

impl Program {
    fn with(sampler: Sampler) -> Self {
        let receiver = Receiver::start().unwrap();
        let exporter = Exporter::http(receiver.endpoint());
        let telemetry = Telemetry::start(Config::new().sampler(sampler).exporter(exporter)).unwrap();
        let tracer = telemetry.tracer("shop");
        Self { receiver, telemetry, tracer }
    }

    /// Ends the program and returns the received spans, sorted by name.
    fn end(self) -> Vec<ReceivedSpan> {
        let ledger = self.telemetry.shutdown(PATIENCE);
        let mut spans = self.receiver.spans();
        assert_eq!((ledger.total().accepted, ledger.lost()), (spans.len() as u64, 0), "{ledger}");
        spans.sort_by(|one, other| one.span.name.cmp(&other.span.name));
        spans
    }
}

fn names(spans: &[ReceivedSpan]) -> Vec<&str> {
    spans.iter().map(|span| span.span.name.as_str()).collect()
}

fn trace_flags(span: &Received) -> u32 {
    span.flags & TRACE_FLAGS
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn incoming(trace: &str, flags: u8) -> SpanContext {
    SpanContext::from_traceparent(&format!("00-{trace}-{PARENT}-{flags:02x}")).unwrap()
}

fn unsampled() -> SpanContext {
    incoming(LOW_TRACE, 0)
}

/// Asserts that `span` is unsampled, and belongs to the trace of `around`, whose other flags it has.
#[track_caller]
fn assert_unsampled_within(span: &Span, around: &SpanContext) {
    assert!(!span.is_recording() && !span.context().is_sampled(), "{span:?}");
    assert_eq!(span.context().trace_id(), around.trace_id());
    assert_eq!(span.context().flags(), around.flags() & !1);
    assert!(!span.context().is_remote() && span.context().span_id().is_valid(), "{span:?}");
}

#[test]
fn an_unsampled_span_is_neither_sent_nor_counted() {
    let program = Program::with(Sampler::always_off());
    let mut span = program.tracer.span_builder("root").kind(SpanKind::Server).start();
    span.set("a", 1).kind(SpanKind::Client).status(Status::Error("unseen"));
    span.event("unseen").set("a", 1);
    span.event_with_time("unseen", std::time::SystemTime::now());
    span.link(&unsampled()).set("a", 1);
    program.tracer.span("child").set("a", 1).set("b", "two");
    span.end_at(std::time::SystemTime::now());
    let ledger: Ledger = program.telemetry.shutdown(PATIENCE);
    assert_eq!(ledger.total(), Ledger::default().total(), "{ledger}");
    assert_eq!(program.receiver.request_count(), 0);
}

#[test]
fn by_default_every_trace_that_begins_here_is_recorded() {
    let program = Program::with(Sampler::default());
    let root = program.tracer.span("1 root");
    let child = program.tracer.span("2 child");
    assert!(root.is_recording() && child.is_recording());
    drop((child, root));
    let spans = program.end();
    assert_eq!(names(&spans), ["1 root", "2 child"]);
    assert!(spans.iter().all(|span| trace_flags(&span.span) == 0x03));
}

#[test]
fn an_unsampled_root_names_a_trace_of_its_own_that_is_random_and_not_recorded() {
    let program = Program::with(Sampler::trace_id_ratio(0.0));
    let root = program.tracer.span("root");
    let context = root.context();
    assert!(context.trace_id().is_valid() && context.span_id().is_valid());
    let ids = format!("{}-{}", context.trace_id(), context.span_id());
    assert_eq!(context.traceparent(), format!("00-{ids}-02"));
    let other = program.tracer.span_builder("other").root().start();
    assert_ne!(other.context().trace_id(), context.trace_id());
}

#[test]
fn spans_inside_an_unsampled_one_follow_it() {
    let program = Program::with(Sampler::always_off().parent_based());
    let root = program.tracer.span("root");
    let child = program.tracer.span("child");
    let grandchild = program.tracer.span("grandchild");
    for span in [&child, &grandchild] {
        assert_unsampled_within(span, root.context());
    }
    let ids = [&root, &child, &grandchild].map(|span| span.context().span_id());
    assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2], "{ids:?}");
    drop((root, child, grandchild));
    assert!(program.end().is_empty());
}

#[test]
fn every_unsampled_span_has_an_id_of_its_own_that_logs_and_headers_carry() {
    let program = Program::with(Sampler::default());
    let logger = program.telemetry.logger("shop");
    let remote = unsampled();
    let server = program.tracer.span_builder("server").parent(&remote).start();
    let child = program.tracer.span("child");
    let grandchild = program.tracer.span("grandchild");
    let mut detached = program.tracer.span_builder("detached").detached();
    logger.info("in grandchild").emit();
    {
        let _entered = detached.enter();
        logger.info("in detached").emit();
    }
    let contexts = [server.context(), child.context(), grandchild.context(), detached.context()];
    let headers: HashSet<_> = contexts.iter().map(|context| context.traceparent()).collect();
    assert_eq!(headers.len(), 4, "{headers:?}");
    assert!(
        headers.iter().all(|header| header[3..35] == *LOW_TRACE && header.ends_with("-00")),
        "{headers:?}"
    );
    assert!(contexts.iter().all(|context| context.span_id() != remote.span_id()));
    let ids = [&contexts[2], &contexts[3]].map(|context| context.span_id().to_string());

    // A sampled span names its parent even if the parent is not sampled.
    let on = Program::with(Sampler::always_on());
    on.tracer.span("sampled").end();
    assert_eq!(hex(&on.end()[0].span.parent_span_id), ids[0]);
    drop((detached, grandchild));
    assert_eq!(SpanContext::current().as_ref(), Some(child.context()));
    logger.info("in child").emit();
    let last = child.context().span_id().to_string();
    drop((child, server));

    assert_eq!(program.telemetry.shutdown(PATIENCE).lost(), 0);
    let logs = program.receiver.logs();
    let found: Vec<_> = logs.iter().map(|log| (hex(&log.log.span_id), log.log.flags)).collect();
    let expected: Vec<_> = ids.into_iter().chain([last]).map(|id| (id, 0)).collect();
    assert_eq!(found, expected);
    assert!(logs.iter().all(|log| hex(&log.log.trace_id) == LOW_TRACE));
    assert_eq!(program.receiver.span_count(), 0);
}

#[test]
fn after_an_unsampled_trace_the_next_is_decided_anew() {
    let program = Program::with(Sampler::default());
    {
        let _server = program.tracer.span_builder("unsampled").parent(&unsampled()).start();
        program.tracer.span("unsampled child").end();
    }
    program.tracer.span("sampled").end();
    let spans = program.end();
    assert_eq!(names(&spans), ["sampled"]);
    assert_eq!(hex(&spans[0].span.parent_span_id), "");
    assert_ne!(hex(&spans[0].span.trace_id), LOW_TRACE);
}

#[test]
fn each_sampler_decides_below_a_remote_parent_and_the_flag_is_handed_on() {
    let half = Sampler::trace_id_ratio(0.5);
    // The trace, and the decisions for a sampled parent and for an unsampled one.
    for (sampler, trace, below_sampled, below_unsampled) in [
        (Sampler::always_on(), HIGH_TRACE, true, true),
        (Sampler::always_off(), LOW_TRACE, false, false),
        (half.clone(), LOW_TRACE, true, true),
        (half.clone(), HIGH_TRACE, false, false),
        (Sampler::trace_id_ratio(1.0), HIGH_TRACE, true, true),
        (Sampler::trace_id_ratio(0.0), LOW_TRACE, false, false),
        (Sampler::always_on().parent_based(), HIGH_TRACE, true, false),
        (Sampler::always_off().parent_based(), LOW_TRACE, true, false),
        (half.clone().parent_based(), LOW_TRACE, true, false),
        (half.parent_based(), HIGH_TRACE, true, false),
    ] {
        for flags in 0..=3_u8 {
            let kept = if flags & 1 == 1 { below_sampled } else { below_unsampled };
            let said = format!("{sampler}, {trace}, flags {flags:02x}");
            let program = Program::with(sampler.clone());
            let remote = incoming(trace, flags).with_tracestate("rojo=1");
            let server = program.tracer.span_builder("1 server").parent(&remote).start();
            let child = program.tracer.span("2 child");
            let flags_here = flags & 0x02 | u8::from(kept);
            for span in [&server, &child] {
                assert_eq!((span.is_recording(), span.context().is_sampled()), (kept, kept), "{said}");
                assert!(!span.context().is_remote(), "{said}");
                assert_ne!(span.context().span_id(), remote.span_id(), "{said}");
                assert_eq!(span.context().tracestate(), "rojo=1", "{said}");
                let header = span.context().traceparent();
                let expected = (format!("00-{trace}-"), format!("-{flags_here:02x}"));
                assert!(header.starts_with(&expected.0) && header.ends_with(&expected.1), "{said}: {header}");
            }
            drop((child, server));
            let spans = program.end();
            assert_eq!(names(&spans), if kept { vec!["1 server", "2 child"] } else { vec![] }, "{said}");
            for span in &spans {
                assert_eq!(trace_flags(&span.span), u32::from(flags_here), "{said}");
                assert_eq!((hex(&span.span.trace_id).as_str(), &*span.span.trace_state), (trace, "rojo=1"));
            }
            if let Some(server) = spans.first() {
                assert_eq!(hex(&server.span.parent_span_id), PARENT, "{said}");
            }
        }
    }
}

#[test]
fn a_ratio_sends_whole_traces_or_nothing_of_them() {
    let program = Program::with(Sampler::trace_id_ratio(0.5));
    let mut kept = 0;
    for _ in 0..200 {
        let root = program.tracer.span("root");
        let child = program.tracer.span("child");
        assert_eq!(child.is_recording(), root.is_recording());
        assert_eq!(child.context().trace_id(), root.context().trace_id());
        kept += usize::from(root.is_recording());
    }
    assert!((40..160).contains(&kept), "{kept} of 200");
    assert_eq!(program.end().len(), 2 * kept);
}

#[test]
fn an_unsampled_trace_crosses_threads_by_its_context() {
    let program = Program::with(Sampler::default());
    let server = program.tracer.span_builder("server").parent(&unsampled()).start();
    let inner = program.tracer.span("inner");
    let context = inner.context().clone();
    thread::scope(|scope| {
        scope.spawn(|| {
            let there = program.tracer.span_builder("there").parent(&context).start();
            assert_unsampled_within(&there, &context);
            assert_ne!(there.context().span_id(), context.span_id());
            assert_unsampled_within(&program.tracer.span("in there"), &context);
            drop(there);
            assert!(program.tracer.span("sampled there").is_recording());
        });
    });
    assert_unsampled_within(&program.tracer.span("here"), &context);
    drop((inner, server));
    assert_eq!(names(&program.end()), ["sampled there"]);
}

#[test]
fn a_sampled_trace_may_begin_inside_an_unsampled_one_and_gives_the_thread_back() {
    let program = Program::with(Sampler::default());
    let request = program.tracer.span_builder("request").parent(&unsampled()).start();
    let inner = program.tracer.span("inner");
    {
        let _job = program.tracer.span_builder("1 job").root().start();
        program.tracer.span("2 step").end();
    }
    assert_unsampled_within(&program.tracer.span("later"), request.context());
    drop((request, inner));
    let spans = program.end();
    assert_eq!(names(&spans), ["1 job", "2 step"]);
    assert_eq!(spans[1].span.parent_span_id, spans[0].span.span_id);
}

#[test]
fn an_unsampled_span_that_ends_before_those_inside_it_leaves_them_current() {
    let program = Program::with(Sampler::default());
    let outer = program.tracer.span_builder("outer").parent(&unsampled()).start();
    let inner = program.tracer.span("inner");
    let context = outer.context().clone();
    outer.end();
    assert_eq!(SpanContext::current().as_ref(), Some(inner.context()));
    let innermost = program.tracer.span("innermost");
    inner.end();
    assert_eq!(SpanContext::current().as_ref(), Some(innermost.context()));
    assert_unsampled_within(&innermost, &context);
    innermost.end();
    let next = program.tracer.span("next");
    assert!(next.is_recording());
    assert_ne!(next.context().trace_id(), context.trace_id());
}

#[test]
fn an_unsampled_span_may_end_below_a_sampled_one() {
    let program = Program::with(Sampler::default());
    let outer = program.tracer.span_builder("outer").parent(&unsampled()).start();
    let inner = program.tracer.span("inner");
    let context = inner.context().clone();
    let job = program.tracer.span_builder("1 job").root().start();
    outer.end();
    assert_eq!(inner.context(), &context);
    program.tracer.span("2 step").end();
    inner.end();
    program.tracer.span("3 step").end();
    job.end();
    program.tracer.span("4 root").end();
    let spans = program.end();
    assert_eq!(names(&spans), ["1 job", "2 step", "3 step", "4 root"]);
    for step in &spans[1..3] {
        assert_eq!(step.span.parent_span_id, spans[0].span.span_id);
    }
    assert_eq!(hex(&spans[3].span.parent_span_id), "");
}

#[test]
fn unsampled_spans_that_a_panic_unwinds_are_no_longer_current() {
    let program = Program::with(Sampler::default());
    let panicked = panic::catch_unwind(AssertUnwindSafe(|| {
        let _server = program.tracer.span_builder("server").parent(&unsampled()).start();
        let _inner = program.tracer.span("inner");
        panic::resume_unwind(Box::new("on purpose"));
    }));
    assert!(panicked.is_err());
    assert!(program.tracer.span("next").is_recording());
}

#[test]
fn each_telemetry_asks_its_own_sampler_inside_anothers_spans() {
    let off = Program::with(Sampler::always_off());
    let on = Program::with(Sampler::always_on());
    let following = Program::with(Sampler::default());

    let unsampled = off.tracer.span("off");
    assert_unsampled_within(&following.tracer.span("following"), unsampled.context());
    let sampled = on.tracer.span("1 on");
    assert!(sampled.is_recording() && sampled.context().is_sampled());
    following.tracer.span("2 following").end();
    {
        let within = off.tracer.span("off again");
        assert_unsampled_within(&within, sampled.context());
        assert_ne!(within.context().span_id(), sampled.context().span_id());
        assert_unsampled_within(&following.tracer.span("following"), sampled.context());
        on.tracer.span("3 on").end();
    }
    following.tracer.span("4 following").end();
    drop((sampled, unsampled));

    assert!(off.end().is_empty());
    let (on, following) = (on.end(), following.end());
    assert_eq!((names(&on), names(&following)), (vec!["1 on", "3 on"], vec!["2 following", "4 following"]));
    for span in &following {
        assert_eq!(span.span.parent_span_id, on[0].span.span_id);
    }
    for span in on.iter().chain(&following) {
        assert_eq!(span.span.trace_id, on[0].span.trace_id);
        assert_eq!(trace_flags(&span.span), 0x03);
    }
}

#[test]
fn without_an_exporter_nothing_is_recorded_though_the_trace_is_sampled() {
    let telemetry = Telemetry::start(Config::new()).unwrap();
    let span = telemetry.tracer("shop").span("span");
    assert!(!span.is_recording() && span.context().is_sampled());
}

/// The next action of a program.
#[derive(Debug, Clone, Copy)]
enum Step {
    Unsampled,
    Root,
    Child,
    End(usize),
    EndThen(usize),
}

fn steps() -> impl proptest::strategy::Strategy<Value = Vec<Step>> {
    use proptest::prelude::*;
    let step = prop_oneof![
        Just(Step::Unsampled),
        Just(Step::Root),
        Just(Step::Child),
        Just(Step::Child),
        any::<usize>().prop_map(Step::End),
        any::<usize>().prop_map(Step::EndThen),
    ];
    proptest::collection::vec(step, 0..60)
}

proptest::proptest! {
    #[test]
    fn in_whatever_order_spans_end_the_innermost_open_one_is_the_parent(steps in steps()) {
        BOTH.iter().for_each(|telemetry| take(&steps, &telemetry.tracer("shop")));
    }
}

/// A telemetry whose exporter takes no spans, and one whose spans stay queued.
static BOTH: LazyLock<[Telemetry; 2]> = LazyLock::new(|| {
    [Signal::Logs, Signal::Traces].map(|signal| {
        let exporter = Exporter::http("http://127.0.0.1:9").signals([signal]);
        let waits = exporter.throttle(FOR_EVER).linger(FOR_EVER).queue_records(1 << 20);
        Telemetry::start(Config::new().exporter(waits)).unwrap()
    })
});

/// Takes the steps in order, and checks every child.
fn take(steps: &[Step], tracer: &Tracer) {
    let remote = unsampled();
    // The open spans, each with the context of one of its children.
    let mut open: Vec<(Span, SpanContext)> = Vec::new();
    for &step in steps {
        let span = match step {
            Step::Unsampled => tracer.span_builder("unsampled").parent(&remote).start(),
            Step::Root => tracer.span_builder("root").root().start(),
            Step::Child => {
                let child = tracer.span("child");
                if let Some((_, around)) = open.last() {
                    assert_eq!(child.context().trace_id(), around.trace_id());
                    assert_eq!(child.context().is_sampled(), around.is_sampled());
                    assert_ne!(child.context().span_id(), around.span_id());
                } else {
                    assert!(child.context().is_sampled());
                }
                child
            }
            Step::End(_) | Step::EndThen(_) if open.is_empty() => continue,
            Step::End(which) => {
                drop(open.remove(which % open.len()));
                continue;
            }
            Step::EndThen(which) => {
                open.remove(which % open.len()).0.end_at(SystemTime::now());
                continue;
            }
        };
        // The context of a child: the same trace, and another span id.
        let context = tracer.span("to be asked").context().clone();
        open.push((span, context));
    }
}
