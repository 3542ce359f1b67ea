//! Spans that are open when their process dies are delivered as well, if configured.

#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use standpipe::receiver::{ReceivedSpan, Receiver};
use standpipe::{Config, Telemetry};

use crate::spool::{NOWHERE, deliver, exporter, files, private};
use crate::support::process::{self, Child};

fn start(endpoint: &str, spool: &Path) -> Telemetry {
    let exporter = exporter(endpoint, spool).spool_open_spans(true);
    Telemetry::start(Config::new().service_name("shop").exporter(exporter)).unwrap()
}

fn is_interrupted(span: &ReceivedSpan) -> bool {
    span.attribute("standpipe.interrupted").as_bool() == Some(true)
}

fn named<'s>(spans: &'s [ReceivedSpan], name: &str) -> &'s ReceivedSpan {
    spans.iter().find(|span| span.span.name == name).unwrap_or_else(|| panic!("no {name} in {spans:?}"))
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
}

#[test]
fn what_a_process_was_doing_when_it_was_killed_arrives_marked_as_interrupted() {
    const NAME: &str = "what_a_process_was_doing_when_it_was_killed_arrives_marked_as_interrupted";
    if let Some(spool) = process::task() {
        let telemetry = start(NOWHERE, Path::new(&spool));
        let tracer = telemetry.tracer("shop");
        let mut order = tracer.span("order");
        order.set("order.id", 4711).set("step", "one").set("step", "two");
        tracer.span("ended").end();
        let mut job = tracer.span_builder("job").detached();
        job.event("picked up").set("attempt", 2);
        let context = order.context().clone();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _charge = tracer.span_builder("charge").parent(&context).set("amount", 12.5).start();
                process::report("open");
                // Waits until the process is killed.
                std::thread::park();
            });
        });
        return;
    }
    let spool = private();
    let began = now();
    let mut child = Child::start(NAME, &spool.path().display().to_string());
    assert_eq!(child.next_report(), "open");
    child.kill();
    let receiver = Receiver::start().unwrap();
    let counts = deliver(&receiver, spool.path());
    let spans = receiver.spans();
    // If the process died while the worker was writing the ended span to a file, this span is sent twice.
    let names: BTreeSet<_> = spans.iter().map(|span| (&*span.span.name, is_interrupted(span))).collect();
    let expected = [("charge", true), ("ended", false), ("job", true), ("order", true)];
    assert_eq!(names, BTreeSet::from(expected), "{counts}");
    assert_eq!((counts.recovered, counts.lost()), (counts.delivered, 0), "{counts}");
    let (order, job, charge) = (named(&spans, "order"), named(&spans, "job"), named(&spans, "charge"));
    for span in [order, job, charge] {
        let status = span.span.status.as_ref().unwrap();
        assert_eq!((status.code, &*status.message), (2, "the process ended while the span was open"));
        let (start, end) = (span.span.start_time_unix_nano, span.span.end_time_unix_nano);
        assert!(began <= start && start <= end && end <= now(), "{span:?}");
        assert_eq!((span.service_name(), span.scope_name()), ("shop", "shop"));
    }
    assert_eq!(order.attribute("order.id").as_i64(), Some(4711));
    assert_eq!(order.attribute("step").as_str(), Some("two"));
    assert_eq!(charge.span.parent_span_id, order.span.span_id);
    assert_eq!(job.span.events[0].name, "picked up");
}

#[test]
fn a_shutdown_leaves_no_interrupted_spans_and_a_fork_none_of_its_parent() {
    const NAME: &str = "a_shutdown_leaves_no_interrupted_spans_and_a_fork_none_of_its_parent";
    if let Some(spool) = process::task() {
        let telemetry = start(NOWHERE, Path::new(&spool));
        let mut span = telemetry.tracer("shop").span("of the parent");
        // The child ends without a shutdown, and its own span is open.
        assert!(process::in_a_fork(|| {
            span.set("by", "the child");
            let mut own = telemetry.tracer("shop").span("of the child");
            own.set("by", "the child");
            std::mem::forget(own);
            true
        }));
        span.set("by", "the parent");
        telemetry.shutdown(Duration::from_secs(30));
        span.set("after", "the shutdown");
        std::process::exit(0);
    }
    let spool = private();
    Child::start(NAME, &spool.path().display().to_string()).wait_for_end();
    assert_eq!(files(spool.path()).len(), 1, "the child's: {:?}", files(spool.path()));
    let receiver = Receiver::start().unwrap();
    assert_eq!(deliver(&receiver, spool.path()).recovered, 1);
    let spans = receiver.spans();
    assert!(is_interrupted(named(&spans, "of the child")));
}
