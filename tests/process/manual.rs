//! Telemetry without a thread: no call starts one, and a forked child continues independently.
//!
//! Thread counts are per process, so each test exports from a child process.

#![cfg(target_os = "linux")]

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::{Duration, Instant};

use standpipe::config::Proxy;
use standpipe::receiver::{Answer, Receiver};
use standpipe::{Config, Exporter, FlushOutcome, ProblemKind, Telemetry};

use crate::support::process;
use crate::support::tls::{TestCa, TlsFront};
use crate::system;

/// Longer than anything on loopback takes.
const PATIENCE: Duration = Duration::from_secs(20);
/// Budget of the telemetry in one turn of the main loop.
const TURN: Duration = Duration::from_millis(5);
/// Capacity of a queue: fewer records than are emitted before the first turn.
const QUEUE: usize = 4;

static HAS_RETRIED: AtomicBool = AtomicBool::new(false);

fn start(exporter: Exporter) -> Telemetry {
    let exporter = exporter
        .proxy(Proxy::Off)
        .throttle(Duration::ZERO)
        .queue_records(QUEUE)
        .interval(Duration::from_millis(20))
        .retry_delays(Duration::from_millis(1), Duration::from_millis(1));
    // Telemetry with threads starts a thread that passes the problems of callers to the hook. This hook is set so that
    // the tests notice if telemetry without a thread starts such a thread.
    let config = Config::new().service_name("shop").exporter(exporter).on_problem(|problem| {
        HAS_RETRIED.fetch_or(problem.kind == ProblemKind::Unavailable, Ordering::SeqCst);
    });
    Telemetry::start_manual(config).unwrap()
}

fn threads() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}

/// Emits all signals, more than the queue can hold, and sends them in every way. Returns the peak number of additional
/// threads, the numbers of threads started and names looked up, and the delivered records.
fn use_all(exporter: Exporter) -> String {
    let (counts, before) = (system::counts(), threads());
    let telemetry = start(exporter);
    let (tracer, logger) = (telemetry.tracer("shop"), telemetry.logger("shop"));
    let orders = telemetry.meter("shop").counter("orders");
    for _ in 0..2 * QUEUE {
        tracer.span("checkout").end();
        logger.info("paid").emit();
        orders.add(1, ());
    }
    let deadline = Instant::now() + PATIENCE;
    while telemetry.ledger().exporters[0].metrics.delivered == 0 {
        assert!(Instant::now() < deadline, "{}", telemetry.ledger());
        telemetry.pump(TURN);
        std::thread::yield_now();
    }
    let mut most = threads();
    tracer.span("checkout").end();
    assert_eq!(telemetry.flush(PATIENCE), FlushOutcome::Complete);
    most = most.max(threads());
    tracer.span("checkout").end();
    let ledger = telemetry.shutdown(PATIENCE);
    most = most.max(threads());
    let now = system::counts();
    let (traces, logs) = (ledger.exporters[0].traces.delivered, ledger.exporters[0].logs.delivered);
    assert!(HAS_RETRIED.load(Ordering::SeqCst), "nothing was sent again: {ledger}");
    assert_eq!(ledger.lost(), 0, "{ledger}");
    let (started, looked_up) = (now.0 - counts.0, now.1 - counts.1);
    format!("{} more, {started} started, {looked_up} looked up; {traces} spans, {logs} logs", most - before)
}

/// A receiver whose first and third answers cause a retry.
fn receiver() -> Receiver {
    let receiver = Receiver::start().unwrap();
    receiver.script([Answer::status(503), Answer::ok(), Answer::status(503)]);
    receiver
}

const NO_THREAD: &str = "0 more, 0 started, 0 looked up; 10 spans, 8 logs";

#[test]
fn no_thread_is_started_over_http() {
    let Some(endpoint) = process::task() else {
        let receiver = receiver();
        return assert_eq!(process::run("no_thread_is_started_over_http", &receiver.endpoint()), [NO_THREAD]);
    };
    process::report(use_all(Exporter::http(endpoint)));
}

#[test]
fn no_thread_is_started_over_grpc() {
    let Some(endpoint) = process::task() else {
        let receiver = receiver();
        let reports = process::run("no_thread_is_started_over_grpc", &receiver.grpc_endpoint());
        return assert_eq!(reports, [NO_THREAD]);
    };
    process::report(use_all(Exporter::grpc(endpoint)));
}

/// Expected report if the endpoint is `localhost`, as in the certificate. The calling thread looks up this name.
const NO_THREAD_BY_NAME: &str = "0 more, 0 started, 1 looked up; 10 spans, 8 logs";

#[test]
fn no_thread_is_started_over_tls() {
    let Some(task) = process::task() else {
        let (receiver, ca) = (receiver(), TestCa::new());
        let front = TlsFront::start(&ca.leaf("localhost"), receiver.address());
        let task = format!("{} {}", front.url(), ca.pem());
        return assert_eq!(process::run("no_thread_is_started_over_tls", &task), [NO_THREAD_BY_NAME]);
    };
    let (endpoint, ca) = task.split_once(' ').unwrap();
    process::report(use_all(Exporter::http(endpoint).ca_pem(ca)));
}

#[test]
fn no_thread_is_started_over_grpc_with_tls() {
    let Some(task) = process::task() else {
        let (receiver, ca) = (receiver(), TestCa::new());
        let front = TlsFront::offering("h2", &ca.leaf("localhost"), receiver.grpc_address());
        let task = format!("{} {}", front.url(), ca.pem());
        let reports = process::run("no_thread_is_started_over_grpc_with_tls", &task);
        return assert_eq!(reports, [NO_THREAD_BY_NAME]);
    };
    let (endpoint, ca) = task.split_once(' ').unwrap();
    process::report(use_all(Exporter::grpc(endpoint).ca_pem(ca)));
}

/// Three failures start no thread: a caller that waits long, an unknown name, and a shutdown that delivers nothing.
#[test]
fn no_thread_is_started_by_what_goes_wrong() {
    if !process::is_alone("no_thread_is_started_by_what_goes_wrong") {
        return;
    }
    let before = (system::counts().0, threads());
    let telemetry = start(Exporter::http(format!("http://{}:4318", system::UNKNOWN)));
    let short = start(Exporter::http("http://127.0.0.1:9").block_timeout(Duration::from_secs(1)));
    for telemetry in [&telemetry, &short] {
        (0..QUEUE).for_each(|_| telemetry.tracer("shop").span("checkout").end());
        assert_eq!(telemetry.flush(TURN), FlushOutcome::TimedOut { left: QUEUE as u64 });
    }
    // This caller waits for a second, so the wait is reported.
    short.tracer("shop").span("checkout").end();
    assert_eq!(telemetry.shutdown(TURN).total().dropped.shutdown, QUEUE as u64);
    assert_eq!((system::counts().0, threads()), before);
}

#[test]
fn a_child_pumps_for_itself_and_leaves_its_parents_records_to_the_parent() {
    let Some(endpoint) = process::task() else {
        let receiver = Receiver::start().unwrap();
        let name = "a_child_pumps_for_itself_and_leaves_its_parents_records_to_the_parent";
        let reports = process::run(name, &receiver.endpoint());
        assert_eq!(reports, ["child true, parent 3, 0 threads"]);
        let mut names: Vec<_> = receiver.spans().iter().map(|span| span.name().to_owned()).collect();
        names.sort();
        return assert_eq!(names, ["child", "child", "child", "parent", "parent", "parent"]);
    };
    let threads = system::counts().0;
    let telemetry = start(Exporter::http(endpoint));
    let tracer = telemetry.tracer("shop");
    tracer.span("parent").end();
    telemetry.pump(PATIENCE);
    // Queued at the time of the fork.
    tracer.span("parent").end();
    let is_good = process::in_a_fork(|| {
        let nothing = telemetry.pump(PATIENCE).is_none() && telemetry.ledger().exporters.is_empty();
        tracer.span("child").end();
        telemetry.pump(PATIENCE);
        tracer.span("child").end();
        let is_flushed = telemetry.flush(PATIENCE) == FlushOutcome::Complete;
        tracer.span("child").end();
        nothing && is_flushed && telemetry.shutdown(PATIENCE).total().delivered == 3
    });
    tracer.span("parent").end();
    let delivered = telemetry.shutdown(PATIENCE).total().delivered;
    let threads = system::counts().0 - threads;
    process::report(format!("child {is_good}, parent {delivered}, {threads} threads"));
}

/// Code of the program may fork during a turn, and the child continues from there.
#[test]
fn a_child_forked_by_the_hook_leaves_the_turn_to_its_parent() {
    let Some(endpoint) = process::task() else {
        let receiver = Receiver::start().unwrap();
        receiver.script([Answer::status(503)]);
        let name = "a_child_forked_by_the_hook_leaves_the_turn_to_its_parent";
        assert_eq!(process::run(name, &receiver.endpoint()), ["parent 2"]);
        let mut names: Vec<_> = receiver.spans().iter().map(|span| span.name().to_owned()).collect();
        names.sort();
        return assert_eq!(names, ["child", "parent", "parent"]);
    };
    fork_in_hook(&endpoint);
}

#[allow(unsafe_code, reason = "std does not fork")]
fn fork_in_hook(endpoint: &str) {
    static CHILD: AtomicI32 = AtomicI32::new(-1);
    let exporter = Exporter::http(endpoint).proxy(Proxy::Off).throttle(Duration::ZERO);
    let config = Config::new().service_name("shop").exporter(exporter).on_problem(|_| {
        // SAFETY: this process has one thread.
        CHILD.store(unsafe { libc::fork() }, Ordering::SeqCst);
    });
    let telemetry = Telemetry::start_manual(config).unwrap();
    let tracer = telemetry.tracer("shop");
    (0..2).for_each(|_| tracer.span("parent").end());
    telemetry.pump(PATIENCE);
    let child = CHILD.load(Ordering::SeqCst);
    if child == 0 {
        // SAFETY: only sets a timer whose signal ends this process.
        unsafe { libc::alarm(20) };
        tracer.span("child").end();
        let delivered = telemetry.shutdown(PATIENCE).total().delivered;
        // SAFETY: ends this process at once.
        unsafe { libc::_exit(i32::from(delivered != 1)) }
    }
    let mut status = 0;
    // SAFETY: the child is this process's own; its alarm bounds the wait.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(status, 0, "the child has not sent its own");
    process::report(format!("parent {}", telemetry.shutdown(PATIENCE).total().delivered));
}
