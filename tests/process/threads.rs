//! The threads of the library: one for each exporter, and one for each name look-up of a connection.
//!
//! Thread counts are per process, so each test exports from a child process.

#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use standpipe::config::Proxy;
use standpipe::receiver::Receiver;
use standpipe::{Config, Exporter, FlushOutcome, Ledger, ProblemKind, Telemetry};

use crate::support::{allocator, figures, process};
use crate::system;

/// Longer than anything on loopback takes.
const PATIENCE: Duration = Duration::from_secs(20);
/// Additional time that an event may take on a busy machine.
const SLACK: Duration = Duration::from_secs(5);
const REQUESTS: u64 = 4;

/// How a test creates its exporter, and the port of its receiver.
struct Kind {
    exporter: fn(String) -> Exporter,
    port: fn(&Receiver) -> u16,
}

const HTTP: Kind = Kind { exporter: Exporter::http, port: |receiver| receiver.address().port() };
const GRPC: Kind = Kind { exporter: Exporter::grpc, port: |receiver| receiver.grpc_address().port() };

impl Kind {
    fn start(&self, endpoint: &str) -> Telemetry {
        let exporter = (self.exporter)(endpoint.to_owned())
            .proxy(Proxy::Off)
            .throttle(Duration::ZERO)
            .retry_delays(Duration::from_millis(1), Duration::from_millis(1));
        Telemetry::start(Config::new().exporter(exporter)).unwrap()
    }
}

/// Makes requests one by one. Returns the number of threads started and names looked up.
fn count(kind: &Kind, endpoint: &str) -> (usize, usize) {
    let before = system::counts();
    let telemetry = kind.start(endpoint);
    for _ in 0..REQUESTS {
        telemetry.tracer("shop").span("checkout").end();
        assert_eq!(telemetry.flush(PATIENCE), FlushOutcome::Complete);
    }
    assert_eq!(telemetry.shutdown(PATIENCE).total().delivered, REQUESTS);
    since(before)
}

fn since(before: (usize, usize)) -> (usize, usize) {
    let now = system::counts();
    (now.0 - before.0, now.1 - before.1)
}

/// Runs the test of this name in a child process, with this host and the receiver's port.
fn run(name: &str, kind: &Kind, host: &str) -> Vec<String> {
    let receiver = Receiver::start().unwrap();
    let reports = process::run(name, &format!("http://{host}:{}", (kind.port)(&receiver)));
    assert_eq!((receiver.request_count(), receiver.connection_count()), (REQUESTS, 1));
    reports
}

#[test]
fn requests_to_an_address_start_no_thread() {
    let Some(endpoint) = process::task() else {
        let reports = run("requests_to_an_address_start_no_thread", &HTTP, "127.0.0.1");
        return assert_eq!(reports, ["(1, 0)"], "threads and look-ups");
    };
    process::report(format!("{:?}", count(&HTTP, &endpoint)));
}

#[test]
fn a_kept_connection_needs_no_second_look_up() {
    let Some(endpoint) = process::task() else {
        let reports = run("a_kept_connection_needs_no_second_look_up", &HTTP, "collector.test");
        return assert_eq!(reports, ["(2, 1)"], "threads and look-ups");
    };
    process::report(format!("{:?}", count(&HTTP, &endpoint)));
}

#[test]
fn a_kept_connection_over_grpc_needs_no_second_look_up() {
    let Some(endpoint) = process::task() else {
        let reports = run("a_kept_connection_over_grpc_needs_no_second_look_up", &GRPC, "collector.test");
        return assert_eq!(reports, ["(2, 1)"], "threads and look-ups");
    };
    process::report(format!("{:?}", count(&GRPC, &endpoint)));
}

/// Makes attempts that all wait for the same look-up, which is answered after the last attempt.
fn wait_for_a_look_up(kind: &Kind, port: &str) -> ((usize, usize), Ledger) {
    let before = system::counts();
    let endpoint = format!("http://{}:{port}", system::SLOW);
    let exporter = (kind.exporter)(endpoint)
        .proxy(Proxy::Off)
        .timeout(Duration::from_millis(20))
        .retry_delays(Duration::from_millis(1), Duration::from_millis(1));
    let telemetry = Telemetry::start(Config::new().exporter(exporter)).unwrap();
    telemetry.tracer("shop").span("checkout").end();
    // A look-up is counted later than its thread, so the loop also waits for the count of look-ups.
    while telemetry.ledger().exporters[0].attempts < 5 || system::counts().1 == before.1 {
        std::thread::park_timeout(Duration::from_millis(1));
    }
    let counts = since(before);
    system::answer();
    assert_eq!(telemetry.flush(PATIENCE), FlushOutcome::Complete);
    (counts, telemetry.shutdown(PATIENCE))
}

#[test]
fn look_ups_that_hang_do_not_pile_up() {
    let Some(port) = process::task() else {
        let receiver = Receiver::start().unwrap();
        let port = receiver.address().port().to_string();
        let reports = process::run("look_ups_that_hang_do_not_pile_up", &port);
        return assert_eq!(reports, ["(2, 1), 1 delivered"], "threads and look-ups");
    };
    let (counts, ledger) = wait_for_a_look_up(&HTTP, &port);
    process::report(format!("{counts:?}, {} delivered", ledger.total().delivered));
}

#[test]
fn look_ups_that_hang_do_not_pile_up_over_grpc() {
    let Some(port) = process::task() else {
        let receiver = Receiver::start().unwrap();
        let port = receiver.grpc_address().port().to_string();
        let reports = process::run("look_ups_that_hang_do_not_pile_up_over_grpc", &port);
        return assert_eq!(reports, ["(2, 1), 1 delivered"], "threads and look-ups");
    };
    let (counts, ledger) = wait_for_a_look_up(&GRPC, &port);
    process::report(format!("{counts:?}, {} delivered", ledger.total().delivered));
}

/// A look-up is not cached: a new connection looks the name up again, and finds the new address of the host.
#[test]
fn a_new_connection_looks_its_host_up_again() {
    let Some(endpoint) = process::task() else {
        let receiver = Receiver::start().unwrap();
        receiver.script([standpipe::receiver::Answer::reset_after_request()]);
        let endpoint = format!("http://collector.test:{}", receiver.address().port());
        let reports = process::run("a_new_connection_looks_its_host_up_again", &endpoint);
        return assert_eq!(reports, ["(3, 2)"], "threads and look-ups");
    };
    process::report(format!("{:?}", count(&HTTP, &endpoint)));
}

/// Once the name can be looked up again, the next attempt delivers; it starts after a single back-off.
#[test]
fn a_name_that_is_known_again_is_delivered_to_after_one_back_off() {
    const BACK_OFF: Duration = Duration::from_millis(300);
    let name = "a_name_that_is_known_again_is_delivered_to_after_one_back_off";
    let Some(port) = process::task() else {
        let receiver = Receiver::start().unwrap();
        process::run(name, &receiver.address().port().to_string()).iter().for_each(figures::show);
        return assert_eq!((receiver.span_count(), receiver.request_count()), (1, 1));
    };
    let (reported, problems) = mpsc::channel();
    let exporter = Exporter::http(format!("http://{}:{port}", system::RETURNING))
        .proxy(Proxy::Off)
        .throttle(Duration::ZERO)
        .retry_delays(BACK_OFF, BACK_OFF);
    let config = Config::new().service_name("shop").exporter(exporter).on_problem(move |problem| {
        // Sets the answer before the worker begins to wait.
        system::answer();
        let _ = reported.send((problem.kind, Instant::now()));
    });
    let telemetry = Telemetry::start(config).unwrap();
    telemetry.tracer("shop").span("checkout").end();
    let (kind, failed) = problems.recv_timeout(PATIENCE).unwrap();
    assert_eq!(kind, ProblemKind::Unavailable);
    while telemetry.ledger().total().delivered == 0 {
        assert!(failed.elapsed() < PATIENCE, "{}", telemetry.ledger());
        std::thread::park_timeout(Duration::from_millis(1));
    }
    let took = failed.elapsed();
    let ledger = telemetry.shutdown(PATIENCE);
    assert_eq!((ledger.exporters[0].attempts, ledger.lost()), (2, 0), "{ledger}");
    assert!(took < BACK_OFF + SLACK, "{took:?}");
    process::report(format!("delivered {took:.0?} after the failure, back-off {BACK_OFF:?}, 2 attempts"));
}

/// A child does not share its parent's pending look-up, and makes its own.
#[test]
fn a_child_forked_in_the_middle_of_a_look_up_can_send() {
    let Some(port) = process::task() else {
        let receiver = Receiver::start().unwrap();
        let port = receiver.address().port().to_string();
        let reports = process::run("a_child_forked_in_the_middle_of_a_look_up_can_send", &port);
        assert_eq!(reports, ["child true, parent 1"]);
        return assert_eq!(receiver.span_count(), 2);
    };
    let telemetry = HTTP.start(&format!("http://{}:{port}", system::SLOW));
    let (_, before) = system::counts();
    telemetry.tracer("shop").span("parent").end();
    while system::counts().1 == before {
        std::thread::yield_now();
    }
    let delivered = process::in_a_fork(|| {
        system::answer();
        telemetry.tracer("shop").span("child").end();
        telemetry.shutdown(PATIENCE).total().delivered == 1
    });
    system::answer();
    let parent = telemetry.shutdown(PATIENCE).total().delivered;
    process::report(format!("child {delivered}, parent {parent}"));
}

/// Number of bytes of the allocation with which ureq initializes a static, in the first request of a process.
const BYTES_OF_THE_STATIC: usize = 10;
/// Maximum time for which a thread in the middle of the initialization waits for the fork.
const A_WHILE: Duration = Duration::from_millis(300);

static IS_IN_THE_MIDDLE: AtomicBool = AtomicBool::new(false);
static IS_FORKED: AtomicBool = AtomicBool::new(false);

/// A logger that makes a thread pause when it begins a request.
struct Herald;

impl log::Log for Herald {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        if record.target() == "ureq::run" && !IS_IN_THE_MIDDLE.load(Ordering::SeqCst) {
            allocator::set_hook(Some(&pause));
        }
    }

    fn flush(&self) {}
}

/// Pauses in the middle of the initialization of the static.
fn pause(step: &'static str, size: usize) {
    let is_the_static = step == "alloc" && size == BYTES_OF_THE_STATIC;
    if is_the_static && !IS_IN_THE_MIDDLE.swap(true, Ordering::SeqCst) {
        let begun = Instant::now();
        while !IS_FORKED.load(Ordering::SeqCst) && begun.elapsed() < A_WHILE {
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_child_forked_in_the_middle_of_the_first_request_can_send() {
    let Some(endpoint) = process::task() else {
        let receiver = Receiver::start().unwrap();
        let name = "a_child_forked_in_the_middle_of_the_first_request_can_send";
        assert_eq!(process::run(name, &receiver.endpoint()), ["child true, parent 1"]);
        return assert_eq!(receiver.span_count(), 2);
    };
    log::set_logger(&Herald).unwrap();
    log::set_max_level(log::LevelFilter::Debug);
    let telemetry = HTTP.start(&endpoint);
    telemetry.tracer("shop").span("parent").end();
    let begun = Instant::now();
    while !IS_IN_THE_MIDDLE.load(Ordering::SeqCst) {
        assert!(begun.elapsed() < PATIENCE, "ureq's static is another: this test proves nothing");
        std::thread::yield_now();
    }
    let delivered = process::in_a_fork(|| {
        IS_FORKED.store(true, Ordering::SeqCst);
        telemetry.tracer("shop").span("child").end();
        telemetry.shutdown(PATIENCE / 2).total().delivered == 1
    });
    let parent = telemetry.shutdown(PATIENCE).total().delivered;
    process::report(format!("child {delivered}, parent {parent}"));
}

/// Signals that no thread can block: KILL, STOP, and two that the C library reserves.
const NEVER_BLOCKED: u64 = 1 << 8 | 1 << 18 | 1 << 31 | 1 << 32;
/// Signals that a thread raises itself.
const SYNCHRONOUS: [i32; 7] =
    [libc::SIGILL, libc::SIGTRAP, libc::SIGABRT, libc::SIGFPE, libc::SIGSEGV, libc::SIGBUS, libc::SIGSYS];

/// Returns the signals that a thread can receive.
fn not_blocked(task: &Path) -> Option<u64> {
    // A thread of another test may end meanwhile.
    let status = fs::read_to_string(task.join("status")).ok()?;
    let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
    Some(!u64::from_str_radix(blocked.trim(), 16).unwrap() & !NEVER_BLOCKED)
}

/// Returns the threads of this process whose names begin with `start`, and the signals that they can receive.
fn threads_named(start: &str) -> Vec<(String, u64)> {
    let tasks = fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    let named = tasks.filter_map(|task| Some((fs::read_to_string(task.join("comm")).ok()?, task)));
    let ours = named.filter(|(name, _)| name.starts_with(start));
    ours.filter_map(|(name, task)| Some((name.trim().to_owned(), not_blocked(&task)?))).collect()
}

#[test]
fn blocks_all_but_synchronous_signals_on_every_thread_of_the_library() {
    let receiver = Receiver::start().unwrap();
    let before = not_blocked(Path::new("/proc/thread-self"));
    let config = Config::new()
        .exporter(Exporter::http(receiver.endpoint()).named("http"))
        .exporter(Exporter::grpc(receiver.grpc_endpoint()).named("grpc"));
    let telemetry = Telemetry::start(config).unwrap();
    telemetry.tracer("shop").span("checkout").end();
    // A thread sets its own name when it begins, so every thread that has worked has its name.
    assert_eq!(telemetry.flush(PATIENCE), FlushOutcome::Complete);
    let threads = threads_named("standpipe-");
    let synchronous = SYNCHRONOUS.iter().fold(0, |signals, signal| signals | 1 << (signal - 1));
    for name in ["standpipe-http", "standpipe-grpc", "standpipe-recv", "standpipe-in-"] {
        let is_blocked =
            |(thread, signals): &(String, u64)| thread.starts_with(name) && *signals == synchronous;
        assert!(threads.iter().any(is_blocked), "no {name} in {threads:?}");
    }
    for (name, signals) in threads {
        // The C library blocks all signals while a thread begins or ends, as threads of other tests may do now.
        assert!(signals == synchronous || signals == 0, "{name} can be given {signals:#x}");
    }
    assert_eq!(not_blocked(Path::new("/proc/thread-self")), before, "the caller's own signals changed");
}
