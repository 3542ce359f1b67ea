//! The wall clock may jump: only timestamps depend on it, and no wait does. A process that was stopped for a while
//! continues normally.

#![cfg(target_os = "linux")]

use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime};

use standpipe::receiver::proto::Span;
use standpipe::receiver::{Answer, Receiver};
use standpipe::{Config, Exporter, FlushOutcome, ProblemKind, Telemetry};

use crate::support::scene::{Problems, open_at};
use crate::support::scratch::Scratch;
use crate::support::tls::{TestCa, TlsFront};
use crate::support::{figures, process};

const DAY: Duration = Duration::from_secs(24 * 3600);
/// Maximum time for an expected event.
const PATIENCE: Duration = Duration::from_secs(20);

/// Seconds by which this process's wall clock is wrong.
static WRONG_BY: AtomicI32 = AtomicI32::new(0);

/// The system clock of this program: the linker prefers this function to that of the C library.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
extern "C" fn clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> libc::c_int {
    // SAFETY: the arguments are the caller's own, and the kernel checks them.
    let result = unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) };
    if result == 0 && clock == libc::CLOCK_REALTIME {
        // SAFETY: the kernel has just written there.
        unsafe { (*time).tv_sec += libc::time_t::from(WRONG_BY.load(Ordering::SeqCst)) };
    }
    result as libc::c_int
}

/// Replaces the 64-bit variant, which std calls on systems with 32-bit time.
#[cfg(all(target_env = "gnu", target_pointer_width = "32", not(target_arch = "riscv32")))]
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
extern "C" fn __clock_gettime64(clock: libc::clockid_t, time: *mut [i64; 2]) -> libc::c_int {
    let mut short = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let result = clock_gettime(clock, &raw mut short);
    // SAFETY: the caller passes a valid pointer to the result.
    unsafe { *time = [short.tv_sec.into(), short.tv_nsec.into()] };
    result
}

/// Sets this process's wall clock back by a day. Tests that call it run in a separate process.
fn jump_back_a_day() {
    let before = SystemTime::now();
    WRONG_BY.store(-(DAY.as_secs() as i32), Ordering::SeqCst);
    let jump = before.duration_since(SystemTime::now()).expect("the wall clock did not go back");
    assert!(jump > DAY - Duration::from_secs(60), "the wall clock went back by {jump:?} only");
}

fn start(exporter: Exporter) -> Telemetry {
    Telemetry::start(Config::new().exporter(exporter)).unwrap()
}

fn received(receiver: &Receiver, name: &str) -> Span {
    let found = receiver.spans().into_iter().find(|received| received.span.name == name);
    Span::clone(&found.unwrap_or_else(|| panic!("{name} did not arrive")).span)
}

fn nanos(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64
}

#[test]
fn a_wall_clock_that_jumps_back_a_day_delays_nothing() {
    let Some(endpoint) = process::task() else {
        let receiver = Receiver::start().unwrap();
        // After the jump, retries must wait too: one for its back-off, and one for the time that the server asks for.
        receiver.script([Answer::ok(), Answer::status(503), Answer::status(503).retry_after("1")]);
        let took = process::run("a_wall_clock_that_jumps_back_a_day_delays_nothing", &receiver.endpoint());
        figures::show(format!("delivered in {}, 1 s of it asked for by the server", took[0]));
        return assert_eq!(receiver.span_count(), 3);
    };
    let telemetry = start(Exporter::http(endpoint).throttle(Duration::from_millis(200)));
    let tracer = telemetry.tracer("shop");
    tracer.span("before").end();
    assert_eq!(telemetry.flush(PATIENCE), FlushOutcome::Complete);
    let open = tracer.span("across");
    jump_back_a_day();
    let start = Instant::now();
    drop(open);
    tracer.span("after").end();
    // No flush shortens the waits, so the throttle, the back-off and Retry-After must elapse.
    let counts = loop {
        let counts = telemetry.ledger().total();
        if counts.delivered == 3 || start.elapsed() > PATIENCE {
            break counts;
        }
        wait(Duration::from_millis(1));
    };
    assert_eq!(counts.delivered, 3, "{counts}");
    let took = start.elapsed();
    assert!(took >= Duration::from_secs(1), "Retry-After was not honoured: {took:?}");
    assert!(took < PATIENCE, "waited for {took:?}");
    assert_eq!(telemetry.shutdown(PATIENCE).lost(), 0);
    process::report(format!("{took:.2?}"));
}

#[test]
fn a_span_open_while_the_wall_clock_jumps_back_has_its_true_duration() {
    let Some(endpoint) = process::task() else {
        let receiver = Receiver::start().unwrap();
        let name = "a_span_open_while_the_wall_clock_jumps_back_has_its_true_duration";
        process::run(name, &receiver.endpoint());
        let (parent, child) = (received(&receiver, "across"), received(&receiver, "child"));
        let duration = Duration::from_nanos(parent.end_time_unix_nano - parent.start_time_unix_nano);
        assert!(duration >= Duration::from_millis(50) && duration < PATIENCE, "{duration:?}");
        let [event] = &parent.events[..] else { panic!("{parent:?}") };
        // A trace uses one clock, so events and children are within the times of the span.
        let within = parent.start_time_unix_nano..=parent.end_time_unix_nano;
        for time in [event.time_unix_nano, child.start_time_unix_nano, child.end_time_unix_nano] {
            assert!(within.contains(&time), "{time} is not within {within:?}");
        }
        // A new trace reads the wall clock again.
        let later = received(&receiver, "later");
        assert!(later.start_time_unix_nano < parent.start_time_unix_nano);
        return;
    };
    let telemetry = start(Exporter::http(endpoint));
    let tracer = telemetry.tracer("shop");
    let mut across = tracer.span("across");
    jump_back_a_day();
    wait(Duration::from_millis(50));
    across.event("jumped").set("by", "a day");
    tracer.span("child").end();
    across.end();
    tracer.span("later").end();
    assert_eq!(telemetry.shutdown(PATIENCE).total().delivered, 3);
}

#[test]
fn an_end_before_the_start_counts_as_the_start() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(Exporter::http(receiver.endpoint()));
    let tracer = telemetry.tracer("shop");
    let noon = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    tracer.span_builder("backwards").start_time(noon).start().end_at(noon - DAY);
    tracer.span_builder("forwards").start_time(noon - DAY).start().end_at(noon);
    assert_eq!(telemetry.shutdown(PATIENCE).total().delivered, 2);
    let backwards = received(&receiver, "backwards");
    assert_eq!((backwards.start_time_unix_nano, backwards.end_time_unix_nano), (nanos(noon), nanos(noon)));
    let forwards = received(&receiver, "forwards");
    assert_eq!(
        (forwards.start_time_unix_nano, forwards.end_time_unix_nano),
        (nanos(noon - DAY), nanos(noon))
    );
}

#[test]
fn a_start_in_the_future_never_ends_before_it() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(Exporter::http(receiver.endpoint()));
    let tomorrow = SystemTime::now() + DAY;
    telemetry.tracer("shop").span_builder("tomorrow").start_time(tomorrow).start().end();
    assert_eq!(telemetry.shutdown(PATIENCE).total().delivered, 1);
    let span = received(&receiver, "tomorrow");
    assert_eq!((span.start_time_unix_nano, span.end_time_unix_nano), (nanos(tomorrow), nanos(tomorrow)));
}

#[test]
fn times_before_1970_and_beyond_the_format_are_pinned_to_its_ends() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(Exporter::http(receiver.endpoint()));
    let tracer = telemetry.tracer("shop");
    let ancient = SystemTime::UNIX_EPOCH - DAY;
    let remote = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 40);
    tracer.span_builder("ancient").start_time(ancient).start().end_at(ancient);
    tracer.span_builder("remote").start_time(remote).start().end_at(remote);
    assert_eq!(telemetry.shutdown(PATIENCE).total().delivered, 2);
    assert_eq!(received(&receiver, "ancient").end_time_unix_nano, 0);
    assert_eq!(received(&receiver, "remote").start_time_unix_nano, u64::MAX);
}

#[test]
#[allow(unsafe_code)]
fn a_process_that_was_stopped_sends_on_without_a_failed_attempt() {
    let stopped = Duration::from_secs(figures::amount("STANDPIPE_STOPPED_SECONDS", 2));
    let name = "a_process_that_was_stopped_sends_on_without_a_failed_attempt";
    let Some(endpoint) = process::task() else {
        let before = Receiver::start().unwrap();
        let child = process::Child::start(name, &before.endpoint());
        let pid = child.id() as libc::pid_t;
        let mut status = 0;
        // SAFETY: the child is ours; `status` outlives the call.
        assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, libc::WUNTRACED) }, pid);
        assert!(libc::WIFSTOPPED(status), "{status}");
        // The connection becomes stale while the process is stopped.
        before.stop_listening();
        let after = open_at(before.address());
        wait(stopped);
        // SAFETY: the child is ours and not reaped yet, so the process id is still its own.
        assert_eq!(unsafe { libc::kill(pid, libc::SIGCONT) }, 0);
        let reports = child.finish();
        figures::show(format!("stopped for {stopped:?}: {}", reports[0]));
        assert_eq!(reports, ["2 delivered in 2 attempts, 0 problems"]);
        for receiver in [before, after] {
            assert_eq!((receiver.span_count(), receiver.connection_count()), (1, 1));
        }
        return;
    };
    let (reported, problems) = mpsc::channel();
    let config =
        Config::new().service_name("shop").exporter(Exporter::http(endpoint)).on_problem(move |problem| {
            let _ = reported.send(problem.clone());
        });
    let telemetry = Telemetry::start(config).unwrap();
    let tracer = telemetry.tracer("shop");
    tracer.span("before").end();
    assert_eq!(telemetry.flush(PATIENCE), FlushOutcome::Complete);
    // SAFETY: stops this process until the parent continues it; this thread does nothing meanwhile.
    assert_eq!(unsafe { libc::raise(libc::SIGSTOP) }, 0);
    tracer.span("after").end();
    assert_eq!(telemetry.flush(PATIENCE), FlushOutcome::Complete);
    let ledger = telemetry.shutdown(PATIENCE).exporters.remove(0);
    let (delivered, attempts) = (ledger.traces.delivered, ledger.attempts);
    let problems = problems.try_iter().count();
    process::report(format!("{delivered} delivered in {attempts} attempts, {problems} problems"));
}

#[test]
fn an_idle_connection_from_before_a_suspension_is_replaced() {
    let name = "an_idle_connection_from_before_a_suspension_is_replaced";
    let Some(task) = process::task() else {
        let receiver = Receiver::start().unwrap();
        for (protocol, url, connections) in
            [("http", receiver.endpoint(), 2), ("grpc", receiver.grpc_endpoint(), 4)]
        {
            assert_eq!(process::run(name, &format!("{protocol} {url}")), ["4 delivered in 4 attempts"]);
            assert_eq!(receiver.connection_count(), connections);
        }
        return;
    };
    let exporter = match task.split_once(' ') {
        Some(("grpc", url)) => Exporter::grpc(url),
        other => Exporter::http(other.expect("a protocol and a URL").1),
    };
    let telemetry = start(exporter);
    for is_suspended in [false, false, true, false] {
        if is_suspended {
            // The wall clock goes on while a machine is suspended, and the monotonic clock does not.
            WRONG_BY.store(6 * 3600, Ordering::SeqCst);
        }
        telemetry.tracer("shop").span("work").end();
        assert_eq!(telemetry.flush(PATIENCE), FlushOutcome::Complete);
    }
    let ledger = telemetry.shutdown(PATIENCE).exporters.remove(0);
    process::report(format!("{} delivered in {} attempts", ledger.traces.delivered, ledger.attempts));
}

/// A device without a battery-backed clock starts in 1970. Later, NTP corrects its clock.
#[test]
fn a_device_that_starts_in_1970_delivers_over_tls_from_its_spool_once_its_clock_is_set() {
    let name = "a_device_that_starts_in_1970_delivers_over_tls_from_its_spool_once_its_clock_is_set";
    let Some(task) = process::task() else {
        let (ca, receiver, scratch) = (TestCa::new(), Receiver::start().unwrap(), Scratch::new());
        let front = TlsFront::start(&ca.leaf("localhost"), receiver.address());
        let pem = scratch.write("ca.pem", ca.pem());
        let task = format!("{} {} {}", front.url(), pem.display(), scratch.path().join("spool").display());
        assert_eq!(process::run(name, &task), ["3 delivered, 0 lost"]);
        let (before, across, after) =
            (received(&receiver, "before"), received(&receiver, "across"), received(&receiver, "after"));
        let year = 365 * nanos(SystemTime::UNIX_EPOCH + DAY);
        assert!(before.end_time_unix_nano < year, "{before:?}");
        assert!(across.start_time_unix_nano < year, "{across:?}");
        let duration = Duration::from_nanos(across.end_time_unix_nano - across.start_time_unix_nano);
        assert!(duration < PATIENCE, "{duration:?}");
        assert!(after.start_time_unix_nano > 50 * year, "{after:?}");
        return;
    };
    let [endpoint, ca, spool] = task.split(' ').collect::<Vec<_>>()[..] else { panic!("{task}") };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    WRONG_BY.store(60 - i32::try_from(now).unwrap(), Ordering::SeqCst);
    let delay = Duration::from_millis(1);
    let exporter = Exporter::http(endpoint)
        .ca_pem(std::fs::read_to_string(ca).unwrap())
        .retry_delays(delay, 20 * delay)
        .spool(spool);
    let problems = Problems::default();
    let telemetry = problems.start(exporter);
    let tracer = telemetry.tracer("router");
    let across = tracer.span("across");
    tracer.span_builder("before").root().start().end();
    let problem = problems.wait_for(ProblemKind::Unavailable);
    assert!(problem.message.contains("not valid yet"), "{problem}");
    WRONG_BY.store(0, Ordering::SeqCst);
    across.end();
    tracer.span_builder("after").root().start().end();
    let ledger = telemetry.shutdown(PATIENCE);
    process::report(format!("{} delivered, {} lost", ledger.total().delivered, ledger.lost()));
}

#[test]
#[allow(unsafe_code)]
fn a_function_that_is_frozen_between_calls_delivers_each_call_before_its_answer() {
    let name = "a_function_that_is_frozen_between_calls_delivers_each_call_before_its_answer";
    let Some(endpoint) = process::task() else {
        let receiver = Receiver::start().unwrap();
        let child = process::Child::start(name, &receiver.endpoint());
        let pid = child.id() as libc::pid_t;
        for call in 1..=3 {
            let mut status = 0;
            // SAFETY: the child is ours; `status` outlives the call.
            assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, libc::WUNTRACED) }, pid);
            assert!(libc::WIFSTOPPED(status), "{status}");
            assert_eq!(receiver.span_count(), call);
            assert_eq!(receiver.metric("calls").unwrap().value(()), call as i64);
            // The pause exceeds throttle and interval, but must cause no additional request when the child continues.
            wait(Duration::from_millis(300));
            // SAFETY: the child is ours and not reaped yet, so the process id is still its own.
            assert_eq!(unsafe { libc::kill(pid, libc::SIGCONT) }, 0);
        }
        assert_eq!(child.finish(), ["3 delivered, 0 lost"]);
        // Two requests for each call, for spans and for metrics, and one for the last metrics at the shutdown.
        assert!(receiver.request_count() <= 7, "{}", receiver.request_count());
        return;
    };
    let exporter = Exporter::http(endpoint).interval(Duration::from_millis(200));
    let telemetry =
        Telemetry::start_manual(Config::new().service_name("function").exporter(exporter)).unwrap();
    for _ in 0..3 {
        telemetry.tracer("function").span("call").end();
        telemetry.meter("function").counter("calls").add(1, ());
        assert_eq!(telemetry.flush(PATIENCE), FlushOutcome::Complete);
        // The function has answered, and the platform freezes the process.
        // SAFETY: stops this process until the parent continues it; it has no other thread that works.
        assert_eq!(unsafe { libc::raise(libc::SIGSTOP) }, 0);
    }
    let ledger = telemetry.shutdown(PATIENCE);
    process::report(format!("{} delivered, {} lost", ledger.exporters[0].traces.delivered, ledger.lost()));
}

/// Waits, for tests that need time to elapse.
fn wait(time: Duration) {
    let (_never, nothing) = mpsc::channel::<()>();
    assert!(nothing.recv_timeout(time).is_err());
}
