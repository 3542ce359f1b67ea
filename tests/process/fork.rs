//! After a fork, parent and child continue independently: nothing is sent twice, no id is used twice, and neither
//! hangs.
//!
//! A separate process forks, so that threads of other tests are not copied into the children.

#![cfg(unix)]

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use log::Log as _;
use metrics::{counter, describe_counter, gauge};
use opentelemetry::logs::{LogRecord as _, Logger as _, LoggerProvider as _};
use opentelemetry_sdk::logs::{SdkLogger, SdkLoggerProvider};
use standpipe::bridge::log::LogBridge;
use standpipe::bridge::metrics::MetricsRecorder;
use standpipe::bridge::opentelemetry::LogExporter;
use standpipe::bridge::tracing::TracingLayer;
use standpipe::config::Detector;
use standpipe::receiver::proto::{Data, Number, Value};
use standpipe::receiver::{Answer, ReceivedLog, ReceivedSpan, Receiver};
use standpipe::{Application, Config, Exporter, Provider, Signal, Telemetry, Tracer};
use tracing_subscriber::prelude::*;

use crate::support::scratch::Scratch;
use crate::support::{figures, process, size_within, skip};
use crate::system;

const CHILDREN: u64 = 8;
const SPANS_PER_CHILD: u64 = 200;
/// Number of threads that emit in the parent while it forks.
const LOAD: usize = 4;
/// Maximum time for an expected event.
const PATIENCE: Duration = Duration::from_secs(20);
/// Seconds after which the system ends a child that hangs.
const MAX_LIFE_SECONDS: u32 = 50;

/// Runs `work` in a forked child, which then ends. Returns the child's process id to the parent.
#[allow(unsafe_code)]
fn fork(work: impl FnOnce() -> bool) -> libc::pid_t {
    // SAFETY: the tests are about this library in a child of a program with threads. The child only sets a timer and
    // runs `work`, and exits without the parent's exit handlers.
    match unsafe { libc::fork() } {
        0 => {
            // SAFETY: only sets a timer whose signal ends this process.
            unsafe { libc::alarm(MAX_LIFE_SECONDS) };
            // A panic would unwind into the copy of the parent's stack.
            let good = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or(false);
            // SAFETY: ends this process at once.
            unsafe { libc::_exit(if good { 0 } else { 1 }) }
        }
        -1 => panic!("cannot fork: {}", std::io::Error::last_os_error()),
        child => child,
    }
}

/// Waits for a child's end. Returns whether the child succeeded.
#[allow(unsafe_code)]
fn reap(child: libc::pid_t) -> bool {
    let mut status = 0;
    // SAFETY: the child is ours and has not been waited for; `status` outlives the call. An alarm bounds the wait.
    let reaped = unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!(reaped, child, "{}", std::io::Error::last_os_error());
    if libc::WIFSIGNALED(status) {
        process::report(format!("child {child} was ended by signal {}", libc::WTERMSIG(status)));
    }
    libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
}

fn start(exporter: Exporter) -> Telemetry {
    Telemetry::start(Config::new().exporter(exporter)).unwrap()
}

fn emit(tracer: &Tracer, name: &str, spans: u64) {
    (0..spans).for_each(|_| tracer.span(name).end());
}

/// Returns the number of spans of each name. Asserts that none arrived twice.
fn received_once(receiver: &Receiver) -> HashMap<String, u64> {
    let spans = receiver.spans();
    let ids: HashSet<_> = spans.iter().map(|received| received.span.span_id.clone()).collect();
    assert_eq!(ids.len(), spans.len(), "an id was used twice, or a span was sent twice");
    let mut counts = HashMap::new();
    for ReceivedSpan { span, .. } in spans {
        *counts.entry(span.name.clone()).or_insert(0) += 1;
    }
    counts
}

/// Emits spans on several threads while `work` runs. Returns the result of `work`, and the number of emitted spans.
fn under_load<T>(telemetry: &Telemetry, work: impl FnOnce() -> T) -> (T, u64) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let load = |_| {
            scope.spawn(|| {
                let mut spans = 0;
                while !stop.load(Ordering::Relaxed) {
                    emit(&telemetry.tracer("load"), "load", 10);
                    spans += 10;
                }
                spans
            })
        };
        let threads: Vec<_> = (0..LOAD).map(load).collect();
        let result = work();
        stop.store(true, Ordering::Relaxed);
        (result, threads.into_iter().map(|thread| thread.join().unwrap()).sum())
    })
}

/// The work of a child: emits on the thread that forked and on a new one, and shuts down. Returns whether all was
/// delivered.
fn child_emits(telemetry: &Telemetry) -> bool {
    let emit_half = || emit(&telemetry.tracer("shop"), "child", SPANS_PER_CHILD / 2);
    thread::scope(|scope| {
        scope.spawn(emit_half);
        emit_half();
    });
    let counts = telemetry.shutdown(PATIENCE).total();
    (counts.accepted, counts.delivered, counts.lost()) == (SPANS_PER_CHILD, SPANS_PER_CHILD, 0)
}

#[test]
fn eight_children_forked_under_load_send_their_own_and_nothing_twice() {
    let name = "eight_children_forked_under_load_send_their_own_and_nothing_twice";
    eight_children(name, Receiver::endpoint, Exporter::http);
}

#[test]
fn eight_children_forked_under_load_send_their_own_over_grpc_and_nothing_twice() {
    let name = "eight_children_forked_under_load_send_their_own_over_grpc_and_nothing_twice";
    eight_children(name, Receiver::grpc_endpoint, Exporter::grpc);
}

fn eight_children(name: &str, door: fn(&Receiver) -> String, exporter: fn(String) -> Exporter) {
    let Some(endpoint) = process::task() else {
        let receiver = Receiver::start().unwrap();
        let reports = process::run(name, &door(&receiver));
        let [load] = &reports[..] else { panic!("{reports:?}") };
        let received = received_once(&receiver);
        assert_eq!(received["child"], CHILDREN * SPANS_PER_CHILD);
        assert_eq!(received["load"].to_string(), *load);
        figures::show(format!("{CHILDREN} children, {} + {load} spans, each once", received["child"]));
        return assert_eq!(received["across"], 1);
    };
    // The queue is full most of the time, so that forks occur in every state of the callers and the worker.
    let telemetry = start(exporter(endpoint).block_timeout(None).queue_records(32).throttle(Duration::ZERO));
    let across = telemetry.tracer("shop").span("across");
    let (all_good, load) = under_load(&telemetry, || {
        let children: Vec<_> = (0..CHILDREN).map(|_| fork(|| child_emits(&telemetry))).collect();
        children.into_iter().map(reap).filter(|good| !good).count() == 0
    });
    drop(across);
    let counts = telemetry.shutdown(PATIENCE).total();
    assert!(all_good, "a child failed");
    assert_eq!((counts.accepted, counts.delivered, counts.lost()), (load + 1, load + 1, 0), "{counts}");
    process::report(load);
}

#[test]
fn a_child_does_not_send_what_the_parent_had_queued() {
    let Some(endpoint) = process::task() else {
        let receiver = Receiver::start().unwrap();
        process::run("a_child_does_not_send_what_the_parent_had_queued", &receiver.endpoint());
        let received = received_once(&receiver);
        assert_eq!((received["queued"], received["child"]), (100, SPANS_PER_CHILD));
        return assert_eq!(received["first"], 1);
    };
    // The first record is sent at once, all others at the end.
    let telemetry = start(Exporter::http(endpoint).throttle(Duration::from_secs(600)));
    let tracer = telemetry.tracer("shop");
    emit(&tracer, "first", 1);
    let _ = telemetry.flush(PATIENCE);
    emit(&tracer, "queued", 100);
    assert!(reap(fork(|| child_emits(&telemetry))), "the child failed");
    assert_eq!(telemetry.ledger().total().in_flight, 100);
    assert_eq!(telemetry.shutdown(PATIENCE).total().delivered, 101);
}

#[test]
fn a_child_has_its_own_instance_id_and_process_id() {
    let Some(endpoint) = process::task() else {
        let receiver = Receiver::start().unwrap();
        process::run("a_child_has_its_own_instance_id_and_process_id", &receiver.endpoint());
        let sources: HashSet<_> = receiver.spans().iter().map(source).collect();
        let [ids, pids] =
            [0, 1].map(|part| sources.iter().map(|source| &source[part]).collect::<HashSet<_>>());
        assert_eq!((sources.len(), ids.len(), pids.len()), (3, 3, 3), "{sources:?}");
        return;
    };
    let config = Config::new().detect([Detector::Process]).exporter(Exporter::http(endpoint));
    let telemetry = Telemetry::start(config).unwrap();
    emit(&telemetry.tracer("shop"), "parent", 1);
    let children = [0, 1].map(|_| fork(|| child_emits(&telemetry)));
    assert!(children.into_iter().all(reap), "a child failed");
    emit(&telemetry.tracer("shop"), "parent", 1);
    assert_eq!(telemetry.shutdown(PATIENCE).total().delivered, 2);
}

/// Returns the attributes that identify the process that sent a span.
fn source(span: &ReceivedSpan) -> [String; 2] {
    ["service.instance.id", "process.pid"].map(|key| format!("{:?}", span.resource_attribute(key)))
}

/// Only the worker's thread continues in a child that the hook forks, and it must do nothing there.
#[test]
fn a_child_forked_by_the_hook_ends_and_sends_nothing() {
    let Some(endpoint) = process::task() else {
        let receiver = Receiver::start().unwrap();
        receiver.script([Answer::status(503)]);
        process::run("a_child_forked_by_the_hook_ends_and_sends_nothing", &receiver.endpoint());
        assert_eq!(receiver.request_count(), 2);
        return assert_eq!(received_once(&receiver)["parent"], 1);
    };
    let (forked, child) = mpsc::channel();
    let forked = Mutex::new(Some(forked));
    let config =
        Config::new().service_name("shop").exporter(Exporter::http(endpoint)).on_problem(move |_| {
            if let Some(forked) = forked.lock().unwrap().take() {
                fork_on_this_thread(&forked);
            }
        });
    let telemetry = Telemetry::start(config).unwrap();
    emit(&telemetry.tracer("shop"), "parent", 1);
    let child = child.recv_timeout(PATIENCE).expect("the hook is called");
    assert!(reap(child), "the child did not end by itself");
    assert_eq!(telemetry.shutdown(PATIENCE).total().delivered, 1);
}

/// Only the worker's thread continues in the child. It returns from its current step, and must not change the parent's
/// files.
#[cfg(target_os = "linux")]
#[test]
fn a_child_forked_by_the_hook_leaves_the_parents_spool_alone() {
    const NAME: &str = "a_child_forked_by_the_hook_leaves_the_parents_spool_alone";
    let Some(task) = process::task() else {
        // The exporter calls the hook when an attempt fails. It also calls the hook before the first attempt if the
        // spool contains an unknown file, and leaves this file alone.
        for (answer, strange) in [(Answer::status(503), None), (Answer::ok(), Some("strange"))] {
            let (spool, receiver) = (crate::spool::private(), Receiver::start().unwrap());
            receiver.script([answer]);
            let left = strange.map(|text| (spool.path().join("00000000000000aa.recorder"), text));
            left.iter().for_each(|(path, text)| std::fs::write(path, text).unwrap());
            let task = format!("{} {}", receiver.endpoint(), spool.path().display());
            let delivered = process::run(NAME, &task);
            assert_eq!(delivered, [receiver.point_count().to_string()]);
            let left: Vec<_> = left.into_iter().map(|(path, _)| path).collect();
            assert_eq!(crate::spool::files(spool.path()), left);
        }
        return;
    };
    let (endpoint, spool) = task.split_once(' ').unwrap();
    let ((forked, child), (reaped, is_over)) = (mpsc::channel(), mpsc::channel());
    let gates = Mutex::new(Some((forked, is_over)));
    let exporter = Exporter::http(endpoint).spool(spool);
    let config = Config::new().service_name("shop").exporter(exporter).on_problem(move |_| {
        let Some((forked, is_over)) = gates.lock().unwrap().take() else { return };
        let parent = std::process::id();
        fork_on_this_thread(&forked);
        if std::process::id() == parent {
            is_over.recv_timeout(PATIENCE).expect("the child ends");
        }
    });
    let telemetry = Telemetry::start(config).unwrap();
    // The worker collects this metric itself, so the child's memory also contains the encoded metric.
    telemetry.meter("shop").counter("orders").add(1, ());
    let _ = telemetry.flush(Duration::ZERO);
    let child = child.recv_timeout(PATIENCE).expect("the hook is called");
    assert!(reap(child), "the child did not end by itself");
    reaped.send(()).unwrap();
    let total = telemetry.shutdown(PATIENCE).total();
    assert_eq!((total.lost(), total.spooled), (0, 0), "{total}");
    process::report(total.delivered);
}

/// Forks, and returns in both parent and child. The system ends the child if it hangs.
#[allow(unsafe_code)]
fn fork_on_this_thread(forked: &mpsc::Sender<libc::pid_t>) {
    // SAFETY: the test is about this library in a child. `sigfillset` initializes the set. This thread belongs to the
    // library, which blocks its signals. The child unblocks them, because the timer ends the child with a signal.
    unsafe {
        match libc::fork() {
            0 => {
                let mut signals = std::mem::zeroed();
                libc::sigfillset(&raw mut signals);
                libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const signals, std::ptr::null_mut());
                libc::alarm(MAX_LIFE_SECONDS);
            }
            child => forked.send(child).unwrap(),
        }
    }
}

#[test]
fn a_span_open_across_a_fork_is_sent_by_the_parent_alone_and_is_the_parent_of_both_sides() {
    let Some(endpoint) = process::task() else {
        let receiver = Receiver::start().unwrap();
        let name = "a_span_open_across_a_fork_is_sent_by_the_parent_alone_and_is_the_parent_of_both_sides";
        process::run(name, &receiver.endpoint());
        let received = received_once(&receiver);
        assert_eq!((received["across"], received["in the child"], received["in the parent"]), (1, 1, 1));
        let spans = receiver.spans();
        let named = |name: &str| &spans.iter().find(|received| received.span.name == name).unwrap().span;
        let across = named("across");
        for side in ["in the child", "in the parent"] {
            assert_eq!(
                (&named(side).trace_id, &named(side).parent_span_id),
                (&across.trace_id, &across.span_id)
            );
        }
        return;
    };
    let telemetry = start(Exporter::http(endpoint));
    let tracer = telemetry.tracer("shop");
    let mut across = Some(tracer.span("across"));
    let child = fork(|| {
        tracer.span("in the child").end();
        drop(across.take());
        telemetry.shutdown(PATIENCE).total().delivered == 1
    });
    tracer.span("in the parent").end();
    assert!(reap(child), "the child failed");
    drop(across);
    assert_eq!(telemetry.shutdown(PATIENCE).total().delivered, 2);
}

fn received_bodies(receiver: &Receiver) -> Vec<String> {
    let body = |log: ReceivedLog| match log.log.body.clone().unwrap().value {
        Some(Value::StringValue(text)) => text,
        other => panic!("{other:?}"),
    };
    receiver.logs().into_iter().map(body).collect()
}

#[test]
fn a_child_logs_for_itself_and_leaves_what_was_begun_before_the_fork_to_the_parent() {
    let Some(endpoint) = process::task() else {
        let receiver = Receiver::start().unwrap();
        let name = "a_child_logs_for_itself_and_leaves_what_was_begun_before_the_fork_to_the_parent";
        process::run(name, &receiver.endpoint());
        let mut bodies = received_bodies(&receiver);
        bodies.sort_unstable();
        return assert_eq!(bodies, ["across", "in the child", "queued"]);
    };
    let telemetry = start(Exporter::http(endpoint).linger(Duration::from_secs(600)));
    let logger = telemetry.logger("shop");
    logger.info("queued").emit();
    let mut across = Some(logger.info("across"));
    let child = fork(|| {
        logger.info("in the child").emit();
        across.take().unwrap().emit();
        telemetry.shutdown(PATIENCE).total().delivered == 1
    });
    assert!(reap(child), "the child failed");
    across.unwrap().emit();
    assert_eq!(telemetry.shutdown(PATIENCE).total().delivered, 2);
}

/// A logger that requests a `Logger` for each record.
struct Asking(Provider);

impl log::Log for Asking {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        self.0.logger(record.target()).info("logged").emit();
    }

    fn flush(&self) {}
}

#[test]
fn a_childs_logger_may_ask_for_loggers_while_its_exporter_starts() {
    let Some(endpoint) = process::task() else {
        let receiver = Receiver::start().unwrap();
        let name = "a_childs_logger_may_ask_for_loggers_while_its_exporter_starts";
        process::run(name, &receiver.endpoint());
        return assert_eq!(receiver.span_count(), 1);
    };
    let telemetry = start(Exporter::http(endpoint));
    let provider: &Provider = telemetry.as_ref();
    log::set_boxed_logger(Box::new(Asking(provider.clone()))).unwrap();
    log::set_max_level(log::LevelFilter::Trace);
    let child = fork(|| {
        emit(&telemetry.tracer("shop"), "child", 1);
        telemetry.shutdown(PATIENCE).total().delivered == 1
    });
    assert!(reap(child));
}

#[test]
fn children_log_by_the_bridge_whatever_targets_the_parent_is_just_getting_to_know() {
    let targets = u64::from(size_within(60..=300));
    let name = "children_log_by_the_bridge_whatever_targets_the_parent_is_just_getting_to_know";
    let Some(endpoint) = process::task() else {
        let receiver = Receiver::start().unwrap();
        process::run(name, &receiver.endpoint());
        let bodies = received_bodies(&receiver);
        let of = |who: &str| bodies.iter().filter(|body| *body == who).count() as u64;
        return assert_eq!(
            (of("child"), of("parent")),
            (CHILDREN * targets, CHILDREN * targets * LOAD as u64)
        );
    };
    let telemetry = start(Exporter::http(endpoint).block_timeout(None).throttle(Duration::ZERO));
    let log_all = |bridge: &LogBridge, who: &str| {
        for number in 0..targets {
            let target = format!("shop::module_{number}");
            bridge.log(&log::Record::builder().target(&target).args(format_args!("{who}")).build());
        }
    };
    for _ in 0..CHILDREN {
        let bridge = LogBridge::new(&telemetry);
        let start = Barrier::new(LOAD + 1);
        let child = thread::scope(|scope| {
            for _ in 0..LOAD {
                scope.spawn(|| {
                    start.wait();
                    log_all(&bridge, "parent");
                });
            }
            start.wait();
            fork(|| {
                log_all(&bridge, "child");
                telemetry.shutdown(PATIENCE).total().delivered == targets
            })
        });
        assert!(reap(child));
    }
    assert_eq!(telemetry.shutdown(PATIENCE).lost(), 0);
}

#[test]
fn children_trace_by_the_bridge_below_the_span_they_were_forked_in() {
    let spans_each = u64::from(size_within(60..=300));
    let name = "children_trace_by_the_bridge_below_the_span_they_were_forked_in";
    let Some(endpoint) = process::task() else {
        let receiver = Receiver::start().unwrap();
        process::run(name, &receiver.endpoint());
        let spans = receiver.spans();
        let of = |name: &str| spans.iter().filter(|received| received.span.name == name).collect::<Vec<_>>();
        let outer: HashSet<_> = of("outer").iter().map(|outer| outer.span.span_id.clone()).collect();
        assert_eq!((outer.len() as u64, of("outer").len() as u64), (CHILDREN, CHILDREN), "each once");
        assert_eq!(of("of child").len() as u64, CHILDREN * spans_each);
        assert!(of("of child").iter().all(|inner| outer.contains(&inner.span.parent_span_id)));
        return assert_eq!(of("of parent").len() as u64, spans_each + CHILDREN * spans_each * LOAD as u64);
    };
    let telemetry = start(Exporter::http(endpoint).block_timeout(None).throttle(Duration::ZERO));
    tracing_subscriber::registry().with(TracingLayer::new(&telemetry)).init();
    let trace_all = |of_child: bool| {
        for number in 0..spans_each {
            let span = tracing::info_span!("of parent", number, otel.name = tracing::field::Empty);
            let _entered = span.enter();
            if of_child {
                span.record("otel.name", "of child");
            }
            tracing::info!("event");
        }
    };
    // All call sites are registered with tracing before the fork.
    trace_all(false);
    for _ in 0..CHILDREN {
        let start = Barrier::new(LOAD + 1);
        let child = thread::scope(|scope| {
            for _ in 0..LOAD {
                scope.spawn(|| {
                    start.wait();
                    trace_all(false);
                });
            }
            let outer = tracing::info_span!("outer");
            let _entered = outer.enter();
            start.wait();
            fork(|| {
                trace_all(true);
                telemetry.shutdown(PATIENCE).total().delivered == spans_each
            })
        });
        assert!(reap(child));
    }
    assert_eq!(telemetry.shutdown(PATIENCE).lost(), 0);
}

/// Returns the sums of a counter in the order of arrival, with the start time of each.
fn received_sums(receiver: &Receiver, name: &str) -> Vec<(i64, u64)> {
    let mut sums = Vec::new();
    for received in receiver.metrics().iter().filter(|received| received.metric.name == name) {
        let Some(Data::Sum(sum)) = &received.metric.data else { panic!("{received:?}") };
        for point in &sum.data_points {
            let Some(Number::AsInt(value)) = point.value else { panic!("{point:?}") };
            sums.push((value, point.start_time_unix_nano));
        }
    }
    sums
}

#[test]
fn children_that_only_measure_start_from_zero_and_push_for_themselves() {
    let Some(endpoint) = process::task() else {
        let receiver = Receiver::start().unwrap();
        let name = "children_that_only_measure_start_from_zero_and_push_for_themselves";
        process::run(name, &receiver.endpoint());
        let sums = received_sums(&receiver, "orders");
        let of_children: Vec<_> = sums.iter().filter(|(value, _)| *value == 3).collect();
        let of_parent: Vec<_> = sums.iter().filter(|(value, _)| *value == 105).collect();
        assert_eq!(
            (of_children.len(), of_parent.len(), sums.len()),
            (CHILDREN as usize, 1, CHILDREN as usize + 1)
        );
        let start = of_parent[0].1;
        assert!(of_children.iter().all(|(_, child)| *child > start), "{sums:?}");
        assert_eq!(received_sums(&receiver, "asked").len(), CHILDREN as usize + 1);
        return;
    };
    let telemetry = start(Exporter::http(endpoint).interval(Duration::from_secs(600)));
    let meter = telemetry.meter("shop");
    let orders = meter.counter("orders");
    let bound = orders.with(());
    meter.build("asked").observe_counter(|observer| observer.observe(7, ()));
    orders.add(100, ());
    let stop = AtomicBool::new(false);
    let all_good = thread::scope(|scope| {
        // New series and instruments are created all the time, so that forks occur in every state of their locks.
        for _ in 0..LOAD {
            scope.spawn(|| {
                for number in (0..1_000_000).take_while(|_| !stop.load(Ordering::Relaxed)) {
                    meter.counter("load").add(1, &[("number", number % 5_000)]);
                    meter.histogram("load.size").record(1.0, &[("number", number % 100)]);
                }
            });
        }
        let child = || {
            orders.add(1, ());
            bound.add(2);
            meter.histogram("of child").record(1.0, &[("new", true)]);
            let ledger = telemetry.shutdown(PATIENCE);
            ledger.lost() == 0 && ledger.total().delivered == 3
        };
        let children: Vec<_> = (0..CHILDREN).map(|_| fork(child)).collect();
        let failed = children.into_iter().map(reap).filter(|good| !good).count();
        stop.store(true, Ordering::Relaxed);
        failed == 0
    });
    assert!(all_good, "a child failed");
    bound.add(5);
    assert_eq!(telemetry.shutdown(PATIENCE).lost(), 0);
}

#[test]
fn a_childs_counters_of_the_metrics_crate_start_from_zero_whether_kept_or_found() {
    let Some(endpoint) = process::task() else {
        let receiver = Receiver::start().unwrap();
        let name = "a_childs_counters_of_the_metrics_crate_start_from_zero_whether_kept_or_found";
        process::run(name, &receiver.endpoint());
        for (name, of_child, of_parent) in [("orders", 6, 101), ("total", 30, 30)] {
            let mut sums: Vec<_> = received_sums(&receiver, name).into_iter().map(|(sum, _)| sum).collect();
            sums.sort();
            let mut expected = vec![of_child; CHILDREN as usize];
            expected.push(of_parent);
            expected.sort();
            assert_eq!(sums, expected, "{name}");
        }
        return;
    };
    let telemetry = start(Exporter::http(endpoint).interval(Duration::from_secs(600)));
    let recorder = &MetricsRecorder::new(&telemetry).cardinality_limit(100);
    let within = |work: &dyn Fn()| metrics::with_local_recorder(recorder, work);
    let stop = AtomicBool::new(false);
    let (kept, total) = metrics::with_local_recorder(recorder, || (counter!("orders"), counter!("total")));
    kept.increment(100);
    total.absolute(20);
    let all_good = thread::scope(|scope| {
        // New keys, names and descriptions are created all the time, so that forks occur at every step of their
        // creation.
        for _ in 0..LOAD {
            scope.spawn(|| {
                for number in (0..1_000_000).take_while(|_| !stop.load(Ordering::Relaxed)) {
                    within(&|| {
                        counter!("load", "number" => (number % 200).to_string()).increment(1);
                        describe_counter!(format!("load.{}", number % 1000), "described");
                        gauge!(format!("load.{}", number % 1000)).increment(1.0);
                    });
                }
            });
        }
        let child = || {
            kept.increment(1);
            total.absolute(10);
            total.absolute(30);
            within(&|| {
                counter!("orders").increment(2);
                counter!("total").absolute(25);
                counter!("load", "number" => "new").increment(1);
                describe_counter!("of child", "new");
                gauge!("of child").increment(1.0);
            });
            kept.increment(3);
            telemetry.shutdown(PATIENCE).lost() == 0
        };
        let children: Vec<_> = (0..CHILDREN).map(|_| fork(child)).collect();
        let failed = children.into_iter().map(reap).filter(|good| !good).count();
        stop.store(true, Ordering::Relaxed);
        failed == 0
    });
    assert!(all_good, "a child failed");
    kept.increment(1);
    total.absolute(30);
    assert_eq!(telemetry.shutdown(PATIENCE).lost(), 0);
}

#[test]
fn a_child_that_measures_what_no_exporter_sends_starts_nothing() {
    let Some(endpoint) = process::task() else {
        let receiver = Receiver::start().unwrap();
        let name = "a_child_that_measures_what_no_exporter_sends_starts_nothing";
        process::run(name, &receiver.endpoint());
        return;
    };
    let telemetry = start(Exporter::http(endpoint).signals([Signal::Traces]));
    let orders = telemetry.meter("shop").counter("orders");
    let child = fork(|| {
        orders.add(1, &[("shop.country", "SE")]);
        telemetry.ledger().exporters.is_empty()
    });
    assert!(reap(child), "the child started an exporter");
}

#[test]
fn a_child_that_emits_nothing_shuts_down_at_once_with_an_empty_ledger() {
    let Some(endpoint) = process::task() else {
        let receiver = Receiver::start().unwrap();
        let name = "a_child_that_emits_nothing_shuts_down_at_once_with_an_empty_ledger";
        process::run(name, &receiver.endpoint());
        return assert_eq!(received_once(&receiver)["queued"], 10);
    };
    let telemetry = start(Exporter::http(endpoint).throttle(Duration::from_secs(600)));
    emit(&telemetry.tracer("shop"), "queued", 10);
    let child = fork(|| {
        let flushed = telemetry.flush(PATIENCE) == standpipe::FlushOutcome::Complete;
        let counts = telemetry.shutdown(PATIENCE).total();
        flushed && (counts.accepted, counts.in_flight, counts.lost()) == (0, 0, 0)
    });
    assert!(reap(child), "the child failed");
    assert_eq!(telemetry.shutdown(PATIENCE).total().delivered, 10);
}

#[test]
fn a_grandchild_sends_its_own_too() {
    let Some(endpoint) = process::task() else {
        let receiver = Receiver::start().unwrap();
        process::run("a_grandchild_sends_its_own_too", &receiver.endpoint());
        let received = received_once(&receiver);
        return assert_eq!(
            (received["parent"], received["between"], received["child"]),
            (1, 1, SPANS_PER_CHILD)
        );
    };
    let telemetry = start(Exporter::http(endpoint));
    emit(&telemetry.tracer("shop"), "parent", 1);
    let child = fork(|| {
        emit(&telemetry.tracer("shop"), "between", 1);
        let grandchild = fork(|| child_emits(&telemetry));
        reap(grandchild) && telemetry.shutdown(PATIENCE).total().delivered == 1
    });
    assert!(reap(child), "the child failed");
    assert_eq!(telemetry.shutdown(PATIENCE).total().delivered, 1);
}

#[test]
fn a_child_of_a_program_that_has_shut_down_starts_nothing() {
    let Some(endpoint) = process::task() else {
        let receiver = Receiver::start().unwrap();
        process::run("a_child_of_a_program_that_has_shut_down_starts_nothing", &receiver.endpoint());
        return assert_eq!(received_once(&receiver), HashMap::from([("parent".to_owned(), 1)]));
    };
    let telemetry = start(Exporter::http(endpoint));
    let tracer = telemetry.tracer("shop");
    emit(&tracer, "parent", 1);
    assert_eq!(telemetry.shutdown(PATIENCE).total().delivered, 1);
    let child = fork(|| {
        emit(&tracer, "child", 10);
        telemetry.shutdown(PATIENCE).total().accepted == 0
    });
    assert!(reap(child), "the child failed");
}

#[test]
fn a_grandchild_of_a_child_that_shut_down_starts_nothing() {
    let Some(endpoint) = process::task() else {
        let receiver = Receiver::start().unwrap();
        process::run("a_grandchild_of_a_child_that_shut_down_starts_nothing", &receiver.endpoint());
        return assert_eq!(received_once(&receiver), HashMap::from([("child".to_owned(), 1)]));
    };
    let telemetry = start(Exporter::http(endpoint));
    let tracer = telemetry.tracer("shop");
    let child = fork(|| {
        emit(&tracer, "child", 1);
        let delivered = telemetry.shutdown(PATIENCE).total().delivered;
        let grandchild = fork(|| {
            emit(&tracer, "grandchild", 10);
            let counts = telemetry.shutdown(PATIENCE).total();
            (counts.accepted, counts.not_enqueued.after_shutdown) == (0, 10)
        });
        delivered == 1 && reap(grandchild)
    });
    assert!(reap(child), "the child failed");
}

#[test]
fn a_child_waits_for_no_lock_of_the_parent() {
    let lives = size_within(8..=32) as usize;
    const SPANS: u64 = 50;
    let Some(endpoint) = process::task() else {
        let receiver = Receiver::start().unwrap();
        process::run("a_child_waits_for_no_lock_of_the_parent", &receiver.endpoint());
        return;
    };
    let telemetry =
        start(Exporter::http(endpoint).block_timeout(None).queue_records(2).throttle(Duration::ZERO));
    let tracer = telemetry.tracer("shop");
    let stop = AtomicBool::new(false);
    let good = thread::scope(|scope| {
        // A thread that starts or ends holds locks of the standard library. Some forks occur at that moment.
        for _ in 0..LOAD {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    thread::spawn(|| ()).join().unwrap();
                }
            });
        }
        let child = || {
            emit(&tracer, "child", SPANS);
            // The shutdown must not wait for a worker thread that never began to run.
            let counts = telemetry.shutdown(PATIENCE).total();
            (counts.accepted + counts.not_enqueued.total(), counts.in_flight) == (SPANS, 0)
        };
        let children: Vec<_> = (0..lives).map(|_| fork(child)).collect();
        stop.store(true, Ordering::Relaxed);
        children.into_iter().map(reap).filter(|good| *good).count()
    });
    assert_eq!(good, lives, "{} of {lives} children hung or failed", lives - good);
}

#[test]
fn a_child_whose_worker_never_comes_counts_and_goes_on() {
    const SPANS: u64 = 1000;
    let Some(endpoint) = process::task() else {
        let receiver = Receiver::start().unwrap();
        process::run("a_child_whose_worker_never_comes_counts_and_goes_on", &receiver.endpoint());
        return assert_eq!(receiver.span_count(), 0);
    };
    let telemetry = start(Exporter::http(endpoint).block_timeout(None).queue_records(2));
    let tracer = telemetry.tracer("shop");
    let child = fork(|| {
        // New threads hang, as they would if they waited for a lock that a thread of the parent held.
        system::let_no_thread_begin();
        emit(&tracer, "child", SPANS);
        let counts = telemetry.shutdown(PATIENCE).total();
        (counts.accepted, counts.dropped.shutdown, counts.not_enqueued.queue_full) == (2, 2, SPANS - 2)
    });
    assert!(reap(child), "the child failed");
}

#[test]
fn a_child_stopped_before_its_first_record_counts_it() {
    let Some(endpoint) = process::task() else {
        let receiver = Receiver::start().unwrap();
        process::run("a_child_stopped_before_its_first_record_counts_it", &receiver.endpoint());
        return assert_eq!(receiver.span_count(), 0);
    };
    let telemetry = start(Exporter::http(endpoint));
    let tracer = telemetry.tracer("shop");
    let child = fork(|| {
        telemetry.shutdown(PATIENCE);
        emit(&tracer, "child", 10);
        telemetry.logger("shop").info("said").emit();
        let counts = telemetry.shutdown(PATIENCE).total();
        (counts.accepted, counts.not_enqueued.after_shutdown, counts.lost()) == (0, 11, 11)
    });
    assert!(reap(child), "the child failed");
}

/// Prevents this process from starting threads. Returns false if the system allows them nevertheless.
#[allow(unsafe_code)]
fn forbid_threads() -> bool {
    const NOBODY: libc::uid_t = 65_534;
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: only changes user and limit of this process; `none` outlives the call. The limit does not apply to root.
    let is_limited = unsafe {
        let is_plain = libc::geteuid() != 0 || libc::setuid(NOBODY) == 0;
        is_plain && libc::setrlimit(libc::RLIMIT_NPROC, &none) == 0
    };
    is_limited && thread::Builder::new().spawn(|| ()).is_err()
}

#[test]
fn a_child_that_gets_no_thread_counts_what_it_turns_away() {
    let Some(endpoint) = process::task() else {
        let receiver = Receiver::start().unwrap();
        process::run("a_child_that_gets_no_thread_counts_what_it_turns_away", &receiver.endpoint());
        return assert_eq!(receiver.span_count(), 0);
    };
    let telemetry = start(Exporter::http(endpoint).block_timeout(None).queue_records(2));
    let tracer = telemetry.tracer("shop");
    let child = fork(|| {
        if !forbid_threads() {
            skip("this system gives threads beyond RLIMIT_NPROC");
            return true;
        }
        emit(&tracer, "child", 10);
        let counts = telemetry.ledger().total();
        let ended = telemetry.shutdown(PATIENCE).total();
        ended == counts && (counts.accepted, counts.not_enqueued.no_worker, counts.lost()) == (0, 10, 10)
    });
    assert!(reap(child), "the child failed");
}

#[test]
fn a_start_that_gets_no_thread_says_so() {
    if process::task().is_none() {
        process::run("a_start_that_gets_no_thread_says_so", "");
    } else if !forbid_threads() {
        skip("this system gives threads beyond RLIMIT_NPROC");
    } else {
        let spool = Scratch::new_in(&std::env::temp_dir());
        let exporter = Exporter::http("http://127.0.0.1:4318");
        let exporter =
            if cfg!(target_os = "linux") { exporter.spool(spool.path().join("spool")) } else { exporter };
        let error =
            Telemetry::start(Config::new().exporter(exporter)).expect_err("there is no thread to be had");
        let left = spool.path().join("spool").read_dir().map_or(0, Iterator::count);
        assert_eq!(left, 0, "the file of the flight recorder is left");
        let words = "exporter \"otlp\": its thread cannot be started: ";
        assert!(error.to_string().starts_with(words), "{error}");
        let usable = Telemetry::start(error.into_usable()).expect("nothing of it needs a thread");
        usable.tracer("shop").span("checkout").end();
        assert_eq!(usable.shutdown(PATIENCE).total().accepted, 0);
    }
}

#[test]
fn a_child_sends_for_both_routes_and_starts_only_those_it_uses() {
    let Some(endpoint) = process::task() else {
        let receiver = Receiver::start().unwrap();
        let name = "a_child_sends_for_both_routes_and_starts_only_those_it_uses";
        process::run(name, &receiver.endpoint());
        let received = received_once(&receiver);
        assert_eq!((received["own"], received["theirs"]), (10, 20));
        assert_eq!((received["own, child"], received["theirs, child"]), (1, 2));
        let sums = received_sums(&receiver, "orders");
        assert_eq!(sums.iter().map(|(value, _)| *value).collect::<Vec<_>>(), [3]);
        return;
    };
    let exporter = || Exporter::http(&endpoint).linger(Duration::from_secs(600));
    let application = Application::new().exporter(exporter());
    let telemetry = Telemetry::start(Config::new().exporter(exporter()).application(application)).unwrap();
    let (own, theirs) = (telemetry.tracer("runner"), telemetry.application().tracer("shop"));
    emit(&own, "own", 10);
    emit(&theirs, "theirs", 20);
    let both = fork(|| {
        emit(&own, "own, child", 1);
        emit(&theirs, "theirs, child", 1);
        let counts = telemetry.shutdown(PATIENCE).total();
        (counts.accepted, counts.delivered, counts.lost()) == (2, 2, 0)
    });
    let one = fork(|| {
        emit(&theirs, "theirs, child", 1);
        let flushed = telemetry.flush(PATIENCE) == standpipe::FlushOutcome::Complete;
        let ledger = telemetry.shutdown(PATIENCE);
        let names: Vec<_> = ledger.exporters.iter().map(|exporter| exporter.name.as_str()).collect();
        flushed && names == ["application/otlp"] && ledger.total().delivered == 1
    });
    let orders = telemetry.application().meter("shop").counter("orders");
    let measuring = fork(|| {
        orders.add(3, ());
        let ledger = telemetry.shutdown(PATIENCE);
        ledger.exporters.len() == 1 && ledger.total().delivered == 1
    });
    for (child, name) in [(both, "of both providers"), (one, "of one provider"), (measuring, "that measures")]
    {
        assert!(reap(child), "the child {name} failed");
    }
    assert_eq!(telemetry.shutdown(PATIENCE).total().delivered, 30);
}

/// Emits a log record of a target through the OpenTelemetry SDK.
fn log_by_sdk(logger: &SdkLogger, target: impl Into<Cow<'static, str>>) {
    let mut log = logger.create_log_record();
    log.set_target(target);
    logger.emit(log);
}

#[test]
fn what_the_opentelemetry_sdk_hands_over_in_a_child_forked_under_load_is_sent_by_the_child() {
    // Many short-lived children, so that a fork occurs while a scope is looked up.
    const LIVES: u64 = 5 * CHILDREN;
    const LOGS: u64 = 20;
    let name = "what_the_opentelemetry_sdk_hands_over_in_a_child_forked_under_load_is_sent_by_the_child";
    let Some(endpoint) = process::task() else {
        let receiver = Receiver::start().unwrap();
        let reports = process::run(name, &receiver.endpoint());
        let of_children = receiver.logs().iter().filter(|log| log.scope.name == "child").count() as u64;
        assert_eq!((of_children, reports), (LIVES * LOGS, Vec::<String>::new()));
        return;
    };
    let telemetry = start(Exporter::http(endpoint).block_timeout(None).throttle(Duration::ZERO));
    let provider = SdkLoggerProvider::builder().with_log_processor(LogExporter::new(&telemetry)).build();
    let logger = provider.logger("shop");
    let stop = AtomicBool::new(false);
    let all_good = thread::scope(|scope| {
        for _ in 0..LOAD {
            scope.spawn(|| {
                // Unknown scopes take the longest look-up.
                (0..).take_while(|_| !stop.load(Ordering::Relaxed)).for_each(|number: u64| {
                    log_by_sdk(&logger, format!("load {number}"));
                });
            });
        }
        let child = || {
            (0..LOGS).for_each(|_| log_by_sdk(&logger, "child"));
            let counts = telemetry.shutdown(PATIENCE).total();
            (counts.delivered, counts.lost()) == (LOGS, 0)
        };
        let children: Vec<_> = (0..LIVES).map(|_| fork(child)).collect();
        let failed = children.into_iter().map(reap).filter(|good| !good).count();
        stop.store(true, Ordering::Relaxed);
        failed == 0
    });
    assert!(all_good, "a child failed");
    assert_eq!(telemetry.shutdown(PATIENCE).lost(), 0);
}
