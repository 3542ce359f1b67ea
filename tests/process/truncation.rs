//! A program survives the truncation of its flight recorder, and keeps its own SIGBUS handler.

#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "std neither maps files nor handles signals")]

use std::ffi::{c_int, c_void};
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;
use std::{mem, process, ptr, thread};

use standpipe::receiver::Receiver;
use standpipe::{Config, FlushOutcome, ProblemKind, Telemetry};

use crate::spool::{NOWHERE, deliver, exporter, files, places, private};
use crate::support::process::{Child, in_a_fork, report, run, task};
use crate::support::size_within;

const PATIENCE: Duration = Duration::from_secs(30);
const THREADS: u64 = 4;
const PAGE: usize = 4096;

type Problems = Arc<Mutex<Vec<String>>>;

fn spans() -> u64 {
    size_within(600..=3000).into()
}

/// Starts the telemetry of a child whose task is an endpoint and a directory. Collects the problems of its spool.
fn start(task: &str) -> (Telemetry, Problems) {
    let (endpoint, spool) = task.split_once(' ').unwrap();
    let problems = Problems::default();
    let noted = Arc::clone(&problems);
    let exporter = exporter(endpoint, Path::new(spool)).spool_open_spans(true);
    let config = Config::new().service_name("shop").exporter(exporter).on_problem(move |problem| {
        if problem.kind == ProblemKind::Spool {
            noted.lock().unwrap().push(problem.to_string());
        }
    });
    (Telemetry::start(config).unwrap(), problems)
}

/// Truncates all recorders in the directory of a task, like `truncate -s 0`.
fn truncate(task: &str) {
    let recorders = files(Path::new(task.split_once(' ').unwrap().1));
    let recorders = recorders.iter().filter(|file| file.extension().is_some_and(|end| end == "recorder"));
    let truncated = recorders.map(|file| File::options().write(true).open(file).unwrap().set_len(0).unwrap());
    assert!(truncated.count() > 0);
}

fn emit(telemetry: &Telemetry, name: &str, spans: u64) {
    (0..spans).for_each(|number| {
        telemetry.tracer("shop").span_builder(name).set("number", number as i64).start().end()
    });
}

fn emit_during_truncation(task: &str, telemetry: &Telemetry) {
    let together = Barrier::new(THREADS as usize + 1);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                emit(telemetry, "before", spans() / 2);
                together.wait();
                emit(telemetry, "during", spans() / 2);
            });
        }
        together.wait();
        truncate(task);
    });
}

/// Reports the ledger's counts and the problems of the spool at the end of a child.
fn report_end(telemetry: Telemetry, problems: &Problems) {
    let ledger = telemetry.shutdown(PATIENCE);
    let total = ledger.total();
    report(format!("{} {} {} {}", total.accepted, total.delivered, total.dropped.damaged, total.spooled));
    assert_eq!(total.accepted, total.delivered + total.dropped.damaged + total.spooled, "{ledger}");
    problems.lock().unwrap().iter().for_each(report);
}

/// Reads the counts and problems that a child has reported.
fn read_end(reports: &[String]) -> ([u64; 4], &[String]) {
    let counts: Vec<u64> = reports[0].split(' ').map(|count| count.parse().unwrap()).collect();
    (counts.try_into().unwrap(), &reports[1..])
}

#[test]
fn survives_truncation_under_load_and_delivers_all_later_records() {
    const NAME: &str = "survives_truncation_under_load_and_delivers_all_later_records";
    if let Some(task) = task() {
        let (telemetry, problems) = start(&task);
        let open = telemetry.tracer("shop").span_builder("open").detached();
        emit_during_truncation(&task, &telemetry);
        drop(open);
        assert_eq!(telemetry.flush(PATIENCE), FlushOutcome::Complete);
        emit(&telemetry, "after", spans());
        return report_end(telemetry, &problems);
    }
    for spool in places() {
        let receiver = Receiver::start().unwrap();
        let reports = run(NAME, &format!("{} {}", receiver.endpoint(), spool.path().display()));
        let ([accepted, delivered, damaged, _], problems) = read_end(&reports);
        let names: Vec<String> = receiver.spans().iter().map(|span| span.span.name.clone()).collect();
        let count = |name: &str| names.iter().filter(|found| *found == name).count() as u64;
        assert_eq!(accepted, (THREADS + 1) * spans() + 1);
        assert_eq!((delivered, count("after")), (names.len() as u64, spans()), "{damaged} damaged");
        assert!(problems.len() == 1 && problems[0].contains("truncated"), "{problems:?}");
        assert_eq!(files(spool.path()), Vec::<std::path::PathBuf>::new());
    }
}

#[test]
fn writes_requests_to_segments_after_truncation_while_the_collector_is_away() {
    const NAME: &str = "writes_requests_to_segments_after_truncation_while_the_collector_is_away";
    if let Some(task) = task() {
        let (telemetry, problems) = start(&task);
        emit_during_truncation(&task, &telemetry);
        // This access detects the truncation, unless an access of another thread did before.
        emit(&telemetry, "noticed", 1);
        emit(&telemetry, "after", spans());
        return report_end(telemetry, &problems);
    }
    let spool = private();
    let reports = run(NAME, &format!("{NOWHERE} {}", spool.path().display()));
    let ([accepted, delivered, damaged, spooled], problems) = read_end(&reports);
    assert_eq!((delivered, accepted), (0, damaged + spooled));
    assert!(problems.len() == 1 && problems[0].contains("truncated"), "{problems:?}");
    let receiver = Receiver::start().unwrap();
    assert_eq!(deliver(&receiver, spool.path()).delivered, spooled);
    let after = receiver.spans().iter().filter(|span| span.span.name == "after").count() as u64;
    assert_eq!((receiver.span_count(), after), (spooled, spans()));
}

#[test]
fn survives_truncation_in_a_forked_child_and_in_its_parent() {
    const NAME: &str = "survives_truncation_in_a_forked_child_and_in_its_parent";
    if let Some(task) = task() {
        let (telemetry, _) = start(&task);
        let survives = || {
            emit(&telemetry, "before", 1);
            truncate(&task);
            emit(&telemetry, "noticed", 1);
            telemetry.flush(PATIENCE) == FlushOutcome::Complete
        };
        assert!(in_a_fork(|| survives() && telemetry.shutdown(PATIENCE).total().accepted == 2));
        assert!(survives());
        return report(telemetry.shutdown(PATIENCE).total().accepted);
    }
    let (spool, receiver) = (private(), Receiver::start().unwrap());
    assert_eq!(run(NAME, &format!("{} {}", receiver.endpoint(), spool.path().display())), ["2"]);
}

/// Number of faults that reached the program's own handler, and the page that caused them.
static HANDLED: AtomicUsize = AtomicUsize::new(0);
static FOREIGN_PAGE: AtomicUsize = AtomicUsize::new(0);

/// Maps a page of an empty file.
fn map_empty_page(directory: &Path) {
    let path = directory.join("of-the-program");
    let file = File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
    fs::remove_file(path).unwrap();
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at an address that the system chooses
    let page = unsafe { libc::mmap(ptr::null_mut(), PAGE, access, libc::MAP_SHARED, file.as_raw_fd(), 0) };
    assert_ne!(page, libc::MAP_FAILED);
    FOREIGN_PAGE.store(page as usize, Ordering::SeqCst);
}

fn touch_foreign_page() {
    // SAFETY: the address is mapped, and nothing else uses it. The file behind it is empty, so the write raises SIGBUS.
    unsafe { (FOREIGN_PAGE.load(Ordering::SeqCst) as *mut u8).write_volatile(1) };
}

/// Maps the program's page again, so that the fault does not recur.
fn repair(signal: c_int) {
    assert_eq!(signal, libc::SIGBUS);
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    let page = FOREIGN_PAGE.load(Ordering::SeqCst) as *mut c_void;
    // SAFETY: the page was mapped by this test
    assert_eq!(unsafe { libc::mmap(page, PAGE, access, flags, -1, 0) }, page);
    HANDLED.fetch_add(1, Ordering::SeqCst);
}

extern "C" fn of_one_argument(signal: c_int) {
    repair(signal);
}

extern "C" fn of_three_arguments(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the arguments come from the kernel; the call fills the mask
    unsafe {
        assert_eq!((*info).si_addr() as usize, FOREIGN_PAGE.load(Ordering::SeqCst));
        assert!(!context.is_null());
        let mut mask: libc::sigset_t = mem::zeroed();
        libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), &mut mask);
        assert_eq!(libc::sigismember(&mask, libc::SIGUSR1), 1, "the handler's mask is not applied");
        assert_eq!(libc::sigismember(&mask, libc::SIGBUS), 0, "SA_NODEFER is not applied");
    }
    repair(signal);
}

/// Installs the program's SIGBUS action before its telemetry starts.
fn install(kind: &str) {
    // SAFETY: the handlers only do what a signal handler may do
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        let one: extern "C" fn(c_int) = of_one_argument;
        let three: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = of_three_arguments;
        (action.sa_sigaction, action.sa_flags) = match kind {
            "default" => (libc::SIG_DFL, 0),
            "ignored" => (libc::SIG_IGN, 0),
            "one argument" => (one as usize, 0),
            "once" => (one as usize, libc::SA_RESETHAND),
            "three arguments" => (three as usize, libc::SA_SIGINFO | libc::SA_NODEFER),
            // Keeps the handler of Rust's standard library, which detects stack overflows.
            _ => return,
        };
        libc::sigaddset(&mut action.sa_mask, libc::SIGUSR1);
        assert_eq!(libc::sigaction(libc::SIGBUS, &action, ptr::null_mut()), 0);
    }
}

/// Runs a child that has this `kind` of handler, survives a truncation, and then does `what`. Returns the signal that
/// ends the child.
fn ended_by(name: &str, kind: &str, what: &str) -> Option<c_int> {
    let spool = private();
    let task = format!("{NOWHERE} {}|{kind}|{what}", spool.path().display());
    let status = Child::start(name, &task).wait_for_end();
    assert!(status.success() || status.signal().is_some(), "{kind}, {what}: {status}");
    status.signal()
}

#[test]
fn passes_faults_of_the_program_on_to_what_it_had_for_them() {
    const NAME: &str = "passes_faults_of_the_program_on_to_what_it_had_for_them";
    if let Some(task) = task() {
        let words: Vec<&str> = task.split('|').collect();
        let [task, kind, what] = words[..] else { panic!("{task}") };
        install(kind);
        let (telemetry, _) = start(task);
        map_empty_page(Path::new(env!("CARGO_TARGET_TMPDIR")));
        truncate(task);
        emit(&telemetry, "noticed", 1);
        assert_eq!(HANDLED.load(Ordering::SeqCst), 0, "the program was given a fault of the recorder");
        match what {
            // SAFETY: sends a signal to this thread
            "sent" => assert_eq!(unsafe { libc::raise(libc::SIGBUS) }, 0),
            "fault" => touch_foreign_page(),
            _ => {
                touch_foreign_page();
                map_empty_page(Path::new(env!("CARGO_TARGET_TMPDIR")));
                touch_foreign_page();
            }
        }
        let handled = HANDLED.load(Ordering::SeqCst);
        // An exit code that the test harness does not use.
        process::exit(if handled == usize::from(what == "fault") + 2 * usize::from(what == "faults") {
            0
        } else {
            9
        });
    }
    for (kind, what, expected) in [
        ("default", "fault", Some(libc::SIGBUS)),
        ("default", "sent", Some(libc::SIGBUS)),
        ("ignored", "fault", Some(libc::SIGBUS)),
        ("ignored", "sent", None),
        ("of the standard library", "fault", Some(libc::SIGBUS)),
        ("one argument", "faults", None),
        ("three arguments", "faults", None),
        ("once", "fault", None),
        ("once", "faults", Some(libc::SIGBUS)),
    ] {
        assert_eq!(ended_by(NAME, kind, what), expected, "{kind}, {what}");
    }
}

#[test]
fn survives_truncation_after_a_signal_whose_handler_restored_the_default_action() {
    const NAME: &str = "survives_truncation_after_a_signal_whose_handler_restored_the_default_action";
    // SAFETY: sends a signal to this thread
    let send = || assert_eq!(unsafe { libc::raise(libc::SIGBUS) }, 0);
    if let Some(task) = task() {
        let (telemetry, _) = start(&task);
        // The handler of the standard library takes the first signal, and the default action the second one.
        send();
        truncate(&task);
        emit(&telemetry, "noticed", 1);
        report("survived");
        return send();
    }
    let spool = private();
    let mut child = Child::start(NAME, &format!("{NOWHERE} {}", spool.path().display()));
    assert_eq!(child.next_report(), "survived");
    assert_eq!(child.wait_for_end().signal(), Some(libc::SIGBUS));
}
