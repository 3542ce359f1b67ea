//! Ends programs in each way that the guide's chapter on exits lists, and checks which records survive.

#[cfg(unix)]
use std::io::{BufRead, BufReader};
use std::panic;
use std::process::{self, Child, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use standpipe::receiver::Receiver;
use standpipe::{Config, Exporter, Telemetry};

use crate::support::process::{command, task};

const BUDGET: Duration = Duration::from_secs(30);
const LONG: Duration = Duration::from_secs(60);
const ENDPOINT: &str = "ENDPOINT_OF_TEST";
#[cfg(unix)]
const READY: &str = "ready";

/// Starts telemetry that sends nothing by itself, with one span in its queue: if the span arrives, the end of the
/// program has sent it.
fn started() -> Telemetry {
    let exporter = Exporter::http(std::env::var(ENDPOINT).unwrap()).linger(10 * LONG);
    let config = Config::new().service_name("shop").exporter(exporter).drop_budget(BUDGET);
    let telemetry = Telemetry::start(config).unwrap();
    telemetry.tracer("shop").span("checkout").end();
    telemetry
}

fn start(name: &str, receiver: &Receiver) -> Child {
    let mut command = command(name, "end");
    command.env(ENDPOINT, receiver.endpoint()).stdin(Stdio::null()).stdout(Stdio::piped());
    command.stderr(Stdio::null()).spawn().unwrap()
}

fn wait(mut child: Child) -> ExitStatus {
    let deadline = Instant::now() + LONG;
    loop {
        match child.try_wait().unwrap() {
            Some(status) => return status,
            None if Instant::now() < deadline => thread::park_timeout(Duration::from_millis(1)),
            None => {
                child.kill().unwrap();
                panic!("the program has not ended: {:?}", child.wait());
            }
        }
    }
}

/// Runs a child process that calls `end`, and then exits. Returns how it ended, and the number of received spans.
fn ended_by(name: &str, end: impl FnOnce(Telemetry)) -> (ExitStatus, u64) {
    if task().is_some() {
        end(started());
        process::exit(0);
    }
    let receiver = Receiver::start().unwrap();
    let status = wait(start(name, &receiver));
    (status, receiver.span_count())
}

#[test]
fn dropped_telemetry_sends_what_is_queued() {
    let (status, spans) = ended_by("dropped_telemetry_sends_what_is_queued", drop);
    assert!(status.success(), "{status}");
    assert_eq!(spans, 1);
}

#[test]
fn process_exit_runs_no_destructor_and_loses_what_is_queued() {
    let (status, spans) = ended_by("process_exit_runs_no_destructor_and_loses_what_is_queued", |telemetry| {
        let _telemetry = telemetry;
        process::exit(3);
    });
    assert_eq!((status.code(), spans), (Some(3), 0));
}

#[test]
fn a_shutdown_before_process_exit_sends_what_is_queued() {
    let (status, spans) = ended_by("a_shutdown_before_process_exit_sends_what_is_queued", |telemetry| {
        let ledger = telemetry.shutdown(BUDGET);
        process::exit(if ledger.lost() == 0 { 3 } else { 4 });
    });
    assert_eq!((status.code(), spans), (Some(3), 1));
}

#[test]
fn a_static_is_never_dropped_and_loses_what_is_queued() {
    static TELEMETRY: OnceLock<Telemetry> = OnceLock::new();
    let (status, spans) = ended_by("a_static_is_never_dropped_and_loses_what_is_queued", |telemetry| {
        TELEMETRY.set(telemetry).unwrap();
    });
    assert!(status.success(), "{status}");
    assert_eq!(spans, 0);
}

#[test]
fn a_static_that_is_shut_down_sends_what_is_queued() {
    static TELEMETRY: OnceLock<Telemetry> = OnceLock::new();
    let (status, spans) = ended_by("a_static_that_is_shut_down_sends_what_is_queued", |telemetry| {
        TELEMETRY.get_or_init(|| telemetry).shutdown(BUDGET);
    });
    assert!(status.success(), "{status}");
    assert_eq!(spans, 1);
}

#[test]
fn a_panic_that_unwinds_through_the_owner_sends_what_is_queued() {
    let name = "a_panic_that_unwinds_through_the_owner_sends_what_is_queued";
    let (status, spans) = ended_by(name, |telemetry| {
        let _telemetry = telemetry;
        panic!("on purpose");
    });
    assert!(!status.success(), "{status}");
    assert_eq!(spans, 1);
}

/// Does what the runtime does after the panic hook if `panic = "abort"` is set.
fn panic_and_abort(hook: impl Fn() + Send + Sync + 'static) {
    panic::set_hook(Box::new(move |_| {
        hook();
        process::abort();
    }));
    panic!("on purpose");
}

#[test]
fn a_panic_that_aborts_loses_what_is_queued() {
    let (status, spans) = ended_by("a_panic_that_aborts_loses_what_is_queued", |telemetry| {
        let _telemetry = telemetry;
        panic_and_abort(|| ());
    });
    assert!(!status.success(), "{status}");
    assert_eq!(spans, 0);
}

#[test]
fn a_panic_hook_that_flushes_sends_what_is_queued_before_the_abort() {
    let name = "a_panic_hook_that_flushes_sends_what_is_queued_before_the_abort";
    let (status, spans) = ended_by(name, |telemetry| {
        panic_and_abort(move || {
            let _ = telemetry.flush(BUDGET);
        });
    });
    assert!(!status.success(), "{status}");
    assert_eq!(spans, 1);
}

#[cfg(unix)]
#[test]
fn a_host_that_is_not_known_does_not_use_up_the_budget() {
    use standpipe::config::Proxy;
    let endpoint = format!("http://{}:4318", crate::system::UNKNOWN);
    for exporter in [Exporter::http(&endpoint), Exporter::grpc(&endpoint)] {
        // Because of the linger, the first attempt is made during the shutdown.
        let exporter = exporter.proxy(Proxy::Off).linger(LONG);
        let telemetry = Telemetry::start(Config::new().exporter(exporter)).unwrap();
        telemetry.tracer("shop").span("checkout").end();
        let ledger = telemetry.shutdown(LONG);
        assert_eq!((ledger.exporters[0].attempts, ledger.total().dropped.shutdown), (2, 1), "{ledger}");
    }
}

/// Sends a signal to a program that is ready. Returns how it ended, and the number of received spans.
#[cfg(unix)]
#[allow(unsafe_code, reason = "std sends no signals")]
fn ended_by_signal(name: &str, signal: libc::c_int) -> (ExitStatus, u64) {
    let receiver = Receiver::start().unwrap();
    let mut child = start(name, &receiver);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains(READY)), "it is never ready");
    let id = libc::pid_t::try_from(child.id()).unwrap();
    // SAFETY: the process is a child of this one that has not been waited for.
    assert_eq!(unsafe { libc::kill(id, signal) }, 0);
    (wait(child), receiver.span_count())
}

/// A program that waits to be ended, and ends itself after a while.
#[cfg(unix)]
fn wait_for_the_end() {
    println!("{READY}");
    thread::park_timeout(LONG);
}

#[cfg(unix)]
#[test]
fn the_default_action_of_sigterm_loses_what_is_queued() {
    use std::os::unix::process::ExitStatusExt;
    if task().is_some() {
        let _telemetry = started();
        return wait_for_the_end();
    }
    let (status, spans) =
        ended_by_signal("the_default_action_of_sigterm_loses_what_is_queued", libc::SIGTERM);
    assert_eq!((status.signal(), spans), (Some(libc::SIGTERM), 0));
}

/// Like signal-hook: the handler writes a byte, for which the program waits.
#[cfg(unix)]
#[allow(unsafe_code, reason = "std handles no signals")]
fn sigterm() -> std::os::unix::net::UnixStream {
    use std::os::fd::IntoRawFd;
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::{AtomicI32, Ordering};

    static TO_PROGRAM: AtomicI32 = AtomicI32::new(-1);
    extern "C" fn handle(_: libc::c_int) {
        // SAFETY: writing is async-signal-safe, and the descriptor is never closed.
        unsafe { libc::write(TO_PROGRAM.load(Ordering::SeqCst), c"!".as_ptr().cast(), 1) };
    }

    let (from_handler, to_program) = UnixStream::pair().unwrap();
    from_handler.set_read_timeout(Some(LONG)).unwrap();
    TO_PROGRAM.store(to_program.into_raw_fd(), Ordering::SeqCst);
    // SAFETY: the handler only makes async-signal-safe calls.
    unsafe { libc::signal(libc::SIGTERM, handle as extern "C" fn(libc::c_int) as libc::sighandler_t) };
    from_handler
}

#[cfg(unix)]
#[test]
fn a_program_that_catches_sigterm_and_shuts_down_sends_what_is_queued() {
    use std::io::Read;
    let name = "a_program_that_catches_sigterm_and_shuts_down_sends_what_is_queued";
    if task().is_some() {
        let mut sigterm = sigterm();
        let telemetry = started();
        println!("{READY}");
        sigterm.read_exact(&mut [0]).unwrap();
        process::exit(if telemetry.shutdown(BUDGET).lost() == 0 { 0 } else { 1 });
    }
    let (status, spans) = ended_by_signal(name, libc::SIGTERM);
    assert!(status.success(), "{status}");
    assert_eq!(spans, 1);
}
