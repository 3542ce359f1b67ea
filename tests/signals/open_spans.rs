//! The ledger names the spans that are still open, and only those.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use standpipe::receiver::Receiver;
use standpipe::{Application, Config, Exporter, Sampler, SpanContext, Telemetry};

#[cfg(unix)]
use crate::support::process;

const PATIENCE: Duration = Duration::from_secs(20);
const UNSAMPLED: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";

fn start(config: Config) -> (Receiver, Telemetry) {
    let receiver = Receiver::start().unwrap();
    let telemetry = Telemetry::start(config.exporter(Exporter::http(receiver.endpoint()))).unwrap();
    (receiver, telemetry)
}

/// The names of the open spans and how many there are of each.
fn open(telemetry: &Telemetry) -> Vec<(String, u64)> {
    let open = telemetry.ledger().open_spans;
    assert_eq!(open.count, open.names.iter().map(|(_, count)| count).sum::<u64>());
    open.names
}

fn named<const COUNT: usize>(names: [(&str, u64); COUNT]) -> Vec<(String, u64)> {
    names.map(|(name, count)| (name.to_owned(), count)).to_vec()
}

#[test]
fn a_span_that_a_thread_holds_at_shutdown_is_named() {
    let (_receiver, telemetry) = start(Config::new());
    let tracer = telemetry.tracer("shop");
    let ((begun, begins), (end, ends)) = (mpsc::channel(), mpsc::channel::<()>());
    let holder = thread::spawn(move || {
        let _outer = tracer.span("checkout");
        let _inner = [tracer.span("GET /orders"), tracer.span("GET /orders")];
        tracer.span("ended").end();
        begun.send(()).unwrap();
        let _ = ends.recv();
    });
    begins.recv().unwrap();
    let ledger = telemetry.shutdown(PATIENCE);
    assert_eq!(ledger.open_spans.names, named([("GET /orders", 2), ("checkout", 1)]));
    assert_eq!((ledger.open_spans.count, ledger.total().accepted, ledger.lost()), (3, 1, 0));
    let shown = ledger.to_string();
    assert!(shown.ends_with("\n3 spans still open: GET /orders (2 times), checkout"), "{shown}");
    drop(end);
    holder.join().unwrap();
    let after = telemetry.ledger();
    assert_eq!((after.open_spans.count, after.total().not_enqueued.after_shutdown), (0, 3));
    assert!(!after.to_string().contains("open"), "{after}");
}

#[test]
fn names_of_every_length_are_read_back() {
    let (_receiver, telemetry) = start(Config::new());
    let tracer = telemetry.tracer("shop");
    for len in 0..=32 {
        let name: String = ('a'..='z').chain('A'..='Z').take(len).collect();
        let span = tracer.span(&name);
        assert_eq!(open(&telemetry), named([(&name, 1)]));
        span.end();
    }
    let cut = [
        ("x".repeat(33), "x".repeat(32) + "…"),
        ("x".to_owned() + &"å".repeat(20), "x".to_owned() + &"å".repeat(15) + "…"),
    ];
    for (name, shown) in cut {
        let _span = tracer.span(&name);
        assert_eq!(open(&telemetry), named([(&shown, 1)]));
    }
    assert_eq!(open(&telemetry), []);
}

#[test]
fn a_detached_span_is_open_wherever_it_is_until_it_ends() {
    let (_receiver, telemetry) = start(Config::new());
    let mut span = telemetry.tracer("shop").span_builder("order").detached();
    let mut moved = thread::spawn(move || {
        span.rename("late order");
        span
    })
    .join()
    .unwrap();
    assert_eq!(open(&telemetry), named([("late order", 1)]));
    drop(moved.enter());
    thread::spawn(move || moved.end()).join().unwrap();
    assert_eq!(open(&telemetry), []);
}

#[test]
fn spans_of_threads_that_ended_are_not_open() {
    let (_receiver, telemetry) = start(Config::new());
    for _ in 0..100 {
        let tracer = telemetry.tracer("shop");
        let work = thread::spawn(move || {
            let _spans = [tracer.span("a"), tracer.span("b"), tracer.span("c")];
            panic!("on purpose");
        });
        assert!(work.join().is_err());
    }
    let _mine = telemetry.tracer("shop").span("mine");
    assert_eq!(open(&telemetry), named([("mine", 1)]));
}

#[test]
fn a_span_that_is_not_sampled_is_not_open() {
    let (_receiver, telemetry) = start(Config::new().sampler(Sampler::always_off()));
    let tracer = telemetry.tracer("shop");
    let (_span, _detached) = (tracer.span("span"), tracer.span_builder("detached").detached());
    assert_eq!(open(&telemetry), []);
    let (_receiver, telemetry) = start(Config::new());
    let incoming = SpanContext::from_traceparent(UNSAMPLED).unwrap();
    let mut undecided = telemetry.tracer("shop").span_builder("detached").detached();
    assert!(undecided.set_parent(&incoming));
    assert_eq!(open(&telemetry), named([("detached", 1)]));
    let _ = undecided.context();
    assert_eq!(open(&telemetry), []);
}

#[test]
fn each_telemetry_names_the_spans_of_its_own_providers() {
    let (receiver, other) = start(Config::new());
    let application = Application::new().exporter(Exporter::http(receiver.endpoint()));
    let (_receiver, one) = start(Config::new().application(application));
    for _ in 0..3 {
        let _of_main = one.tracer("shop").span("main");
        let _of_application = one.application().tracer("shop").span("application");
        let _of_other = other.tracer("shop").span("other");
        assert_eq!(open(&one), named([("application", 1), ("main", 1)]));
        assert_eq!(open(&other), named([("other", 1)]));
    }
    assert_eq!([open(&one), open(&other)], [vec![], vec![]]);
}

#[test]
fn names_beyond_the_most_frequent_are_only_counted() {
    let (_receiver, telemetry) = start(Config::new());
    let tracer = telemetry.tracer("shop");
    let _spans: Vec<_> =
        (0..20).map(|number| tracer.span_builder(&format!("span {number:02}")).detached()).collect();
    let _frequent = [tracer.span("twice"), tracer.span("twice")];
    let open = telemetry.ledger().open_spans;
    assert_eq!((open.count, open.names.len(), open.names[0].clone()), (22, 16, ("twice".to_owned(), 2)));
    assert!(open.to_string().ends_with(", span 14 and 5 with other names"), "{open}");
}

/// In a forked child, only the spans of the child are open, even in storage that it inherited.
#[cfg(unix)]
#[test]
fn a_forked_child_does_not_name_spans_of_its_parent() {
    if !process::is_alone("a_forked_child_does_not_name_spans_of_its_parent") {
        return;
    }
    let (_receiver, telemetry) = start(Config::new());
    let tracer = telemetry.tracer("shop");
    tracer.span("leaves its storage").end();
    let _outer = tracer.span("of the parent");
    assert!(process::in_a_fork(|| {
        let before = open(&telemetry);
        let _inner = tracer.span("of the child");
        before.is_empty() && open(&telemetry) == named([("of the child", 1)])
    }));
    assert_eq!(open(&telemetry), named([("of the parent", 1)]));
}
