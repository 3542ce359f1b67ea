//! Traces are connected: across processes by headers, across threads by contexts, and within a thread by the current
//! span.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use standpipe::receiver::proto::Span as Received;
use standpipe::receiver::{ReceivedSpan, Receiver};
use standpipe::{Config, Context, Exporter, Signal, SpanContext, SpanKind, Telemetry, Tracer};

use crate::support::process;

/// Longer than anything on loopback takes.
const PATIENCE: Duration = Duration::from_secs(20);
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";
/// `SpanFlags`: bits 8 and 9.
const REMOTE_IS_KNOWN: u32 = 0x100;
const IS_REMOTE: u32 = 0x200;

/// Runs a program to its end, and returns the received spans.
fn spans_of(program: impl FnOnce(&Tracer)) -> Spans {
    let receiver = Receiver::start().expect("loopback has a free port");
    let telemetry = Telemetry::start(Config::new().exporter(Exporter::http(receiver.endpoint())))
        .expect("a sound configuration");
    program(&telemetry.tracer("shop"));
    let ledger = telemetry.shutdown(PATIENCE);
    assert_eq!(ledger.lost(), 0, "{ledger}");
    Spans(receiver.spans())
}

struct Spans(Vec<ReceivedSpan>);

impl Spans {
    #[track_caller]
    fn named(&self, name: &str) -> &Received {
        let found: Vec<&Received> =
            self.0.iter().map(|span| &*span.span).filter(|span| span.name == name).collect();
        let [span] = found[..] else { panic!("{} spans are called {name:?}", found.len()) };
        span
    }

    #[track_caller]
    fn assert_child(&self, child: &str, parent: &str) {
        let (child_span, parent_span) = (self.named(child), self.named(parent));
        assert_eq!(
            hex(&child_span.parent_span_id),
            hex(&parent_span.span_id),
            "{child} is no child of {parent}"
        );
        assert_eq!(
            hex(&child_span.trace_id),
            hex(&parent_span.trace_id),
            "{child} left the trace of {parent}"
        );
    }

    #[track_caller]
    fn assert_root(&self, name: &str) {
        assert_eq!(hex(&self.named(name).parent_span_id), "", "{name} has a parent");
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn incoming(flags: &str) -> SpanContext {
    SpanContext::from_traceparent(&format!("00-{TRACE}-{PARENT}-{flags}")).expect("a sound header")
}

#[test]
fn a_span_continues_the_trace_of_an_incoming_header() {
    let context = incoming("01");
    assert!(context.is_remote() && context.is_sampled());
    let spans = spans_of(|tracer| {
        let span = tracer.span_builder("GET /orders").parent(&context).kind(SpanKind::Server).start();
        assert_eq!(span.context().trace_id().to_string(), TRACE);
        assert!(!span.context().is_remote(), "the span itself is of this process");
        tracer.span("query").end();
    });
    let server = spans.named("GET /orders");
    assert_eq!((hex(&server.trace_id), hex(&server.parent_span_id)), (TRACE.to_owned(), PARENT.to_owned()));
    spans.assert_child("query", "GET /orders");
}

#[test]
fn the_outgoing_header_names_the_span_that_makes_the_call() {
    let mut outgoing = String::new();
    let spans = spans_of(|tracer| outgoing = tracer.span("call").context().traceparent());
    let call = spans.named("call");
    assert_eq!(outgoing, format!("00-{}-{}-03", hex(&call.trace_id), hex(&call.span_id)));
    let read = SpanContext::from_traceparent(&outgoing).unwrap();
    assert_eq!(read.traceparent(), outgoing);
}

#[test]
fn a_trace_crosses_two_processes_with_its_state() {
    let state = "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE";
    let mut headers = (String::new(), String::new());
    let first = spans_of(|tracer| {
        let came_in = incoming("01").with_tracestate(state);
        let _server = tracer.span_builder("first server").parent(&came_in).start();
        let client = tracer.span("client");
        headers = (client.context().traceparent(), client.context().tracestate().to_owned());
    });
    assert_eq!(headers.1, state);
    let second = spans_of(|tracer| {
        let came_in = SpanContext::from_traceparent(&headers.0).unwrap().with_tracestate(&headers.1);
        let mut server = tracer.span_builder("second server").parent(&came_in).start();
        server.link(&came_in);
    });
    let (client, server) = (first.named("client"), second.named("second server"));
    assert_eq!((&server.trace_id, &server.parent_span_id), (&client.trace_id, &client.span_id));
    for span in [first.named("first server"), client, server] {
        assert_eq!(span.trace_state, state, "{}", span.name);
    }
    assert_eq!(server.links[0].trace_state, state);
}

#[test]
fn a_state_that_is_not_valid_is_left_out_and_the_trace_goes_on() {
    let too_many = (0..33).map(|index| format!("k{index}=v")).collect::<Vec<_>>().join(",");
    for state in ["no equals sign", "a=1,a=2", "UPPER=1", "a=\u{1f980}", &too_many] {
        let spans = spans_of(|tracer| {
            let context = incoming("01").with_tracestate(state);
            tracer.span_builder("server").parent(&context).start().end();
        });
        let span = spans.named("server");
        assert_eq!((hex(&span.trace_id).as_str(), span.trace_state.as_str()), (TRACE, ""), "{state}");
    }
}

#[test]
fn a_header_that_cannot_be_read_begins_a_new_trace() {
    let version = |version: &str| format!("{version}-{TRACE}-{PARENT}-01");
    for header in ["", "00", "garbage", "\0", &version("ff"), &version("0"), &format!("{}-", version("00"))] {
        let spans = spans_of(|tracer| {
            let parent = SpanContext::from_traceparent(header).ok();
            let builder = tracer.span_builder("server");
            let span = match &parent {
                Some(parent) => builder.parent(parent).start(),
                None => builder.root().start(),
            };
            span.end();
        });
        spans.assert_root("server");
        assert_ne!(hex(&spans.named("server").trace_id), TRACE, "{header:?}");
    }
}

#[test]
fn a_later_version_with_more_fields_is_read_as_far_as_it_is_known() {
    let context = SpanContext::from_traceparent(&format!("cc-{TRACE}-{PARENT}-01-what-comes-later")).unwrap();
    assert_eq!(context.traceparent(), format!("00-{TRACE}-{PARENT}-01"));
}

/// Returns the context of a request with these headers.
fn from_headers(headers: &[(&str, &str)]) -> Option<(String, String)> {
    let value = |name| headers.iter().find(|(known, _)| *known == name).map(|(_, value)| value);
    let context = SpanContext::from_headers(value)?;
    Some((context.traceparent(), context.tracestate().to_owned()))
}

#[test]
fn headers_give_the_span_of_the_caller_or_none() {
    let parent = format!("00-{TRACE}-{PARENT}-01");
    let parent = parent.as_str();
    let with_state = |state: &str| Some((parent.to_owned(), state.to_owned()));
    assert_eq!(from_headers(&[("traceparent", parent)]), with_state(""));
    assert_eq!(from_headers(&[("tracestate", "a=1, b=2"), ("traceparent", parent)]), with_state("a=1,b=2"));
    // An invalid tracestate does not affect the trace.
    assert_eq!(from_headers(&[("traceparent", parent), ("tracestate", "what?")]), with_state(""));
    assert_eq!(from_headers(&[("tracestate", "a=1")]), None);
    assert_eq!(from_headers(&[("traceparent", &parent[1..]), ("tracestate", "a=1")]), None);
    // Two headers `traceparent`, joined by a comma.
    assert_eq!(from_headers(&[("traceparent", &format!("{parent},{parent}"))]), None);
}

#[test]
fn what_is_injected_is_read_back() {
    for state in ["", "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"] {
        let context = incoming("03").with_tracestate(state);
        let mut headers = Vec::new();
        context.inject(|name, value| headers.push((name, value.to_owned())));
        assert_eq!(headers.len(), if state.is_empty() { 1 } else { 2 }, "{headers:?}");
        let value = |name| headers.iter().find(|(known, _)| *known == name).map(|(_, value)| value);
        assert_eq!(SpanContext::from_headers(value), Some(context));
    }
}

#[test]
fn a_process_finds_the_span_it_was_started_in() {
    const NAME: &str = "a_process_finds_the_span_it_was_started_in";
    if process::task().is_some() {
        return process::report(format!("{:?}", SpanContext::from_env()));
    }
    let parent = format!("00-{TRACE}-{PARENT}-01");
    let found =
        |variables: &[(&str, &str)]| process::run_with(NAME, "report the caller", variables).remove(0);
    let expected = |state| format!("{:?}", Some(incoming("01").with_tracestate(state)));
    assert_eq!(found(&[("TRACEPARENT", &parent), ("TRACESTATE", "a=1")]), expected("a=1"));
    assert_eq!(found(&[("TRACEPARENT", &parent), ("TRACESTATE", "")]), expected(""));
    assert_eq!(found(&[("TRACEPARENT", ""), ("TRACESTATE", "a=1")]), "None");
}

#[test]
fn span_flags_say_how_the_trace_was_flagged_and_whether_the_parent_is_remote() {
    for (flags, kept) in [("01", 0x01), ("03", 0x03), ("ff", 0x03)] {
        let spans = spans_of(|tracer| {
            let remote = incoming(flags);
            let mut server = tracer.span_builder("server").parent(&remote).start();
            server.link(&remote);
            let local = server.context().clone();
            let mut child = tracer.span("child");
            child.link(&local);
        });
        let (server, child) = (spans.named("server"), spans.named("child"));
        assert_eq!(server.flags, kept | REMOTE_IS_KNOWN | IS_REMOTE, "{flags}");
        assert_eq!(server.links[0].flags, kept | REMOTE_IS_KNOWN | IS_REMOTE, "{flags}");
        assert_eq!(child.flags, kept | REMOTE_IS_KNOWN, "{flags}");
        assert_eq!(child.links[0].flags, kept | REMOTE_IS_KNOWN, "{flags}");
    }
}

#[test]
fn a_new_trace_is_flagged_as_sampled_and_random() {
    let spans = spans_of(|tracer| tracer.span("root").end());
    assert_eq!(spans.named("root").flags, 0x03 | REMOTE_IS_KNOWN);
    spans.assert_root("root");
}

#[test]
fn spans_of_a_thread_are_children_of_the_one_they_are_in() {
    let spans = spans_of(|tracer| {
        let _outer = tracer.span("outer");
        {
            let _inner = tracer.span("inner");
            tracer.span("innermost").end();
        }
        tracer.span("sibling").end();
    });
    spans.assert_root("outer");
    spans.assert_child("inner", "outer");
    spans.assert_child("innermost", "inner");
    spans.assert_child("sibling", "outer");
}

#[test]
fn after_the_last_span_has_ended_the_next_begins_a_new_trace() {
    let spans = spans_of(|tracer| {
        tracer.span("first").end();
        tracer.span("second").end();
    });
    spans.assert_root("second");
    assert_ne!(spans.named("first").trace_id, spans.named("second").trace_id);
}

#[test]
fn a_root_may_begin_inside_another_trace_and_gives_the_thread_back() {
    let spans = spans_of(|tracer| {
        let _request = tracer.span("request");
        {
            let _job = tracer.span_builder("job").root().start();
            tracer.span("step of the job").end();
        }
        tracer.span("step of the request").end();
    });
    spans.assert_root("job");
    assert_ne!(spans.named("job").trace_id, spans.named("request").trace_id);
    spans.assert_child("step of the job", "job");
    spans.assert_child("step of the request", "request");
}

#[test]
fn spans_that_end_out_of_order_leave_the_right_one_current() {
    let spans = spans_of(|tracer| {
        let first = tracer.span("first");
        let second = tracer.span("second");
        let third = tracer.span("third");
        first.end();
        tracer.span("in third").end();
        third.end();
        tracer.span("in second").end();
        second.end();
        tracer.span("in nothing").end();
    });
    spans.assert_child("second", "first");
    spans.assert_child("third", "second");
    spans.assert_child("in third", "third");
    spans.assert_child("in second", "second");
    spans.assert_root("in nothing");
}

#[test]
fn spans_that_a_panic_unwinds_are_no_longer_current() {
    let spans = spans_of(|tracer| {
        let _outer = tracer.span("outer");
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _inner = tracer.span("inner");
            std::panic::resume_unwind(Box::new("on purpose"));
        }));
        assert!(panicked.is_err());
        tracer.span("afterwards").end();
    });
    spans.assert_child("inner", "outer");
    spans.assert_child("afterwards", "outer");
}

#[test]
fn a_parent_crosses_threads_by_its_context() {
    let spans = spans_of(|tracer| {
        let parent = tracer.span("parent");
        let context = parent.context().clone();
        thread::scope(|scope| {
            for number in 0..4 {
                let context = &context;
                scope.spawn(move || {
                    let _child = tracer.span_builder(&format!("child {number}")).parent(context).start();
                    tracer.span(&format!("grandchild {number}")).end();
                });
            }
        });
        tracer.span("own child").end();
    });
    for number in 0..4 {
        spans.assert_child(&format!("child {number}"), "parent");
        spans.assert_child(&format!("grandchild {number}"), &format!("child {number}"));
        let flags = spans.named(&format!("child {number}")).flags;
        assert_eq!(flags & (REMOTE_IS_KNOWN | IS_REMOTE), REMOTE_IS_KNOWN, "another thread is not remote");
    }
    spans.assert_child("own child", "parent");
}

#[test]
fn work_takes_its_context_to_a_thread_through_a_channel_and_to_a_pool() {
    let spans = spans_of(|tracer| {
        let (sender, jobs) = mpsc::channel();
        let _parent = tracer.span("parent");
        let context = Context::current();
        thread::scope(|scope| {
            scope.spawn(Context::current().wrap(|| tracer.span("in a thread").end()));
            scope.spawn(move || {
                let (context, job): (Context, &str) = jobs.recv_timeout(PATIENCE).unwrap();
                context.run(|| tracer.span(job).end());
                tracer.span("after the job").end();
            });
            sender.send((Context::current(), "through a channel")).unwrap();
            for name in ["in a pool", "again in a pool"] {
                let context = &context;
                scope.spawn(move || context.run(|| tracer.span(name).end()));
            }
        });
    });
    for child in ["in a thread", "through a channel", "in a pool", "again in a pool"] {
        spans.assert_child(child, "parent");
    }
    spans.assert_root("after the job");
}

#[test]
fn a_context_of_no_span_keeps_a_thread_out_of_the_spans_it_is_in() {
    let stranger = thread::spawn(Context::current).join().unwrap();
    let spans = spans_of(|tracer| {
        let outer = tracer.span("outer");
        stranger.run(|| {
            assert_eq!(SpanContext::current(), None);
            assert!(Context::current().span().is_none());
            let _stolen = tracer.span("stolen");
            tracer.span("in stolen").end();
            tracer.span_builder("detached").detached().end();
        });
        assert_eq!(SpanContext::current().as_ref(), Some(outer.context()));
        let entered = stranger.enter();
        tracer.span_builder("apart").detached().end();
        drop(outer);
        drop(entered);
        tracer.span("afterwards").end();
    });
    for root in ["outer", "stolen", "apart", "afterwards"] {
        spans.assert_root(root);
    }
    spans.assert_child("in stolen", "stolen");
    spans.assert_child("detached", "stolen");
}

#[test]
fn a_parent_may_have_ended_before_its_child_starts() {
    let spans = spans_of(|tracer| {
        let context = tracer.span("parent").context().clone();
        tracer.span_builder("child").parent(&context).start().end();
    });
    spans.assert_child("child", "parent");
}

#[test]
fn every_thread_has_a_current_span_of_its_own() {
    let spans = spans_of(|tracer| {
        let (opened, open) = mpsc::channel();
        let (done, wait) = mpsc::channel::<()>();
        thread::scope(|scope| {
            scope.spawn(move || {
                let _span = tracer.span("there");
                opened.send(()).unwrap();
                // The other thread works while this span is open, and drops its end of the channel when it is done.
                let _ = wait.recv_timeout(PATIENCE);
                tracer.span("in there").end();
            });
            open.recv_timeout(PATIENCE).unwrap();
            let _here = tracer.span("here");
            tracer.span("in here").end();
            drop(done);
        });
    });
    spans.assert_root("here");
    spans.assert_root("there");
    assert_ne!(spans.named("here").trace_id, spans.named("there").trace_id);
    spans.assert_child("in here", "here");
    spans.assert_child("in there", "there");
}

#[test]
fn without_an_exporter_a_context_is_handed_on_as_it_came_so_that_nobody_misses_a_parent() {
    let telemetry = Telemetry::start(Config::new()).unwrap();
    let tracer = telemetry.tracer("shop");
    for flags in ["00", "01"] {
        let context = incoming(flags).with_tracestate("a=1");
        let server = tracer.span_builder("server").parent(&context).start();
        let client = tracer.span("client");
        assert_eq!((server.context(), client.context()), (&context, &context));
        let apart = tracer.span_builder("apart").root().start();
        assert_ne!(apart.context().trace_id(), context.trace_id());
        drop(server);
        assert_eq!(client.context(), &context);
        drop(client);
        assert_ne!(tracer.span("after").context().trace_id(), context.trace_id());
    }
}

#[test]
fn without_an_exporter_of_spans_a_span_still_has_a_context_of_its_own() {
    let logs = Exporter::http("http://localhost:4318").signals([Signal::Logs]);
    let telemetry = Telemetry::start(Config::new().exporter(logs)).unwrap();
    let tracer = telemetry.tracer("shop");
    let context = incoming("01").with_tracestate("a=1");
    let server = tracer.span_builder("server").parent(&context).start();
    let client = tracer.span("client");
    assert_eq!(client.context().trace_id().to_string(), TRACE);
    assert_ne!(client.context().span_id(), server.context().span_id());
    assert_eq!(client.context().tracestate(), "a=1");
}
