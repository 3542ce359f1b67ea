//! strace makes the worker's system calls fail, or counts them.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};

use standpipe::config::SpoolSync;
use standpipe::receiver::{Answer, Receiver};
use standpipe::{Config, Problem, ProblemKind, Telemetry};

use super::PATIENCE;
use crate::spool::{arrived, emit, exporter, files, private};
use crate::support::{figures, process, size_within, skip};

/// Watches one thread of this process.
struct Strace {
    process: Child,
    output: PathBuf,
}

impl Strace {
    /// Attaches to the worker of the exporter with this name, or returns why that is impossible.
    fn attach(exporter: &str, arguments: &[&str], output: PathBuf) -> Result<Self, String> {
        let worker = worker_of(exporter);
        let mut command = Command::new("strace");
        command.args(["-q", "-ttt", "-p", &worker, "-o"]).arg(&output).args(arguments);
        allow_tracing_by(libc::c_ulong::MAX);
        let process = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn();
        let process = process.map_err(|error| format!("there is no strace: {error}"))?;
        let mut strace = Self { process, output };
        let by = Instant::now() + PATIENCE;
        while !is_traced(&worker) {
            if strace.process.try_wait().unwrap().is_some() || Instant::now() > by {
                let mut said = String::new();
                let mut stderr = strace.process.stderr.take().unwrap();
                std::io::Read::read_to_string(&mut stderr, &mut said).unwrap();
                return Err(format!("strace cannot attach: {}", said.trim()));
            }
            thread::park_timeout(Duration::from_millis(1));
        }
        allow_tracing_by(0);
        Ok(strace)
    }

    /// Returns the calls so far, one per line.
    fn seen(&self) -> Vec<String> {
        fs::read_to_string(&self.output).unwrap_or_default().lines().map(str::to_owned).collect()
    }
}

impl Drop for Strace {
    fn drop(&mut self) {
        // The thread may have ended, and strace with it.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns the worker's thread, which sets its own name once it runs.
fn worker_of(exporter: &str) -> String {
    // The system keeps 15 bytes of the name.
    let name: String = format!("standpipe-{exporter}").chars().take(15).collect();
    let is_it = |task: &Path| fs::read_to_string(task.join("comm")).is_ok_and(|comm| comm.trim() == name);
    let by = Instant::now() + PATIENCE;
    loop {
        let mut tasks = fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap());
        if let Some(task) = tasks.find(|task| is_it(&task.path())) {
            return task.file_name().into_string().unwrap();
        }
        assert!(Instant::now() < by, "no thread {name}");
        thread::park_timeout(Duration::from_millis(1));
    }
}

fn is_traced(task: &str) -> bool {
    let status = fs::read_to_string(format!("/proc/self/task/{task}/status")).unwrap_or_default();
    status.lines().any(|line| line.strip_prefix("TracerPid:").is_some_and(|by| by.trim() != "0"))
}

/// Allows a process to trace this one on systems where only ancestors may. A value with all bits set allows any
/// process, 0 allows none.
#[allow(unsafe_code)]
fn allow_tracing_by(process: libc::c_ulong) {
    // SAFETY: the call takes only numbers, and fails on systems without this rule
    unsafe { libc::prctl(libc::PR_SET_PTRACER, process, 0, 0, 0) };
}

/// Calls of the worker that fail: name of the fault, names of the system call on all architectures, error, and which
/// calls fail, in the syntax of strace.
const FAULTS: [(&str, &str, &str, &str); 8] = [
    ("create", "?rename,?renameat,?renameat2", "EIO", "1"),
    ("append", "write", "ENOSPC", "2+3"),
    ("mark", "?pwrite64", "EIO", "2+3"),
    ("sync", "fdatasync,fsync", "EIO", "2+3"),
    ("remove", "?unlink,?unlinkat", "EIO", "1+2"),
    ("open", "openat", "EMFILE", "2..8+3"),
    // After this error, the worker waits for five seconds before it reads again.
    ("read", "?read,?pread64", "EIO", "2"),
    // The first rename, which gives a segment its name, succeeds.
    (AT_THE_END, "?rename,?renameat,?renameat2", "EIO", "2+"),
];

/// Name of the fault of a call that the worker makes only at the end, if the spool still has requests.
const AT_THE_END: &str = "replace";

fn records() -> u64 {
    size_within(600..=3000).into()
}

#[test]
fn system_calls_that_fail_cost_no_record() {
    const NAME: &str = "system_calls_that_fail_cost_no_record";
    if let Some(task) = process::task() {
        return emit_while_calls_fail(&task);
    }
    let records = records();
    for (name, _, error, _) in FAULTS {
        let (spool, receiver) = (private(), Receiver::start().unwrap());
        receiver.always(Answer::status(503));
        // A child process, because files that a process cannot remove stay locked until the process ends.
        let task = format!("{name} {} {}", receiver.endpoint(), spool.path().display());
        let mut child = process::Child::start(NAME, &task);
        let report = child.next_report();
        if let Some(reason) = report.strip_prefix("SKIPPED: ") {
            return skip(reason);
        }
        assert_eq!(report, "emitted", "{name}");
        if name != AT_THE_END {
            receiver.behave();
        }
        let injected = child.finish().remove(0);
        // A request that the shutdown cut off may still arrive at the first receiver.
        let later = Receiver::start().unwrap();
        let next = start(name, &later.endpoint(), spool.path(), &Arc::default()).shutdown(PATIENCE);
        assert_eq!(files(spool.path()), Vec::<PathBuf>::new(), "{name}: {next}");
        let arrived = arrived(&[&receiver, &later]);
        assert_eq!((arrived.len() as u64, next.lost()), (records, 0), "{name}: {next}");
        // Requests that could not be removed or marked are sent again.
        let again = arrived.values().map(|times| times - 1).sum::<u64>();
        assert!(again == 0 || matches!(name, "mark" | "remove" | "open"), "{name}: {again} sent twice");
        figures::show(format!("{name}: {error} {injected} ×, 0 of {records} lost, {again} sent twice"));
    }
}

fn emit_while_calls_fail(task: &str) {
    let words: Vec<&str> = task.split(' ').collect();
    let [name, endpoint, spool] = words[..] else { panic!("{task}") };
    let (_, calls, error, when) = FAULTS.into_iter().find(|fault| fault.0 == name).unwrap();
    let problems = Arc::new(AtomicUsize::new(0));
    let telemetry = start(name, endpoint, Path::new(spool), &problems);
    let fault = format!("inject={calls}:error={error}:when={when}");
    let output = Path::new(spool).with_extension("strace");
    let arguments = ["-e", &format!("trace={calls}"), "-e", &fault];
    let strace = match Strace::attach(name, &arguments, output.clone()) {
        Ok(strace) => strace,
        Err(why) => return process::report(format!("SKIPPED: {why}")),
    };
    emit(&telemetry.tracer("shop"), 0, 0..records());
    process::report("emitted");
    let ledger = telemetry.shutdown(if name == AT_THE_END { Duration::from_millis(100) } else { PATIENCE });
    let total = ledger.total();
    assert_eq!((total.delivered + total.spooled, ledger.lost()), (records(), 0), "{name}: {ledger}");
    assert_eq!(total.spooled > 0, name == AT_THE_END, "{name}: {ledger}");
    assert!(problems.load(Ordering::SeqCst) > 0 || name == "remove" || name == AT_THE_END, "{name}");
    let injected = || strace.seen().iter().filter(|line| line.contains("(INJECTED)")).count();
    // On a slow disk, the worker makes its last call after the shutdown's deadline.
    wait_until(name, || injected() > 0);
    let injected = injected();
    drop(strace);
    fs::remove_file(output).unwrap();
    process::report(injected);
}

fn start(name: &str, endpoint: &str, spool: &Path, problems: &Arc<AtomicUsize>) -> Telemetry {
    let exporter = exporter(endpoint, spool)
        .named(name)
        .queue_records(100)
        .block_timeout(None)
        .retry_delays(Duration::from_millis(1), Duration::from_millis(20))
        .spool_sync(SpoolSync::EveryBatch);
    let problems = Arc::clone(problems);
    let hook = move |problem: &Problem| {
        problems.fetch_add(usize::from(problem.kind == ProblemKind::Spool), Ordering::SeqCst);
    };
    Telemetry::start(Config::new().service_name("shop").exporter(exporter).on_problem(hook)).unwrap()
}

#[test]
fn a_request_is_synced_by_the_clock_though_no_other_follows() {
    let (spool, receiver) = (private(), Receiver::start().unwrap());
    receiver.always(Answer::status(503));
    // With these delays, no retry wakes the worker; only the sync does.
    let exporter =
        exporter(&receiver.endpoint(), spool.path()).named("synced").retry_delays(PATIENCE, PATIENCE);
    let telemetry = crate::spool::start(exporter);
    let output = spool.path().with_extension("strace");
    let strace = match Strace::attach("synced", &["-e", "trace=fdatasync"], output.clone()) {
        Ok(strace) => strace,
        Err(why) => return skip(format_args!("{why}")),
    };
    let tracer = telemetry.tracer("shop");
    let mut written = Vec::new();
    // The first request is synced at once, the second after the interval.
    for records in 1..=2 {
        emit(&tracer, 0, records - 1..records);
        wait_until("spooled", || telemetry.ledger().total().spooled == records);
        written.push(Instant::now());
        wait_until("synced", || strace.seen().len() as u64 == records);
    }
    let took = written[1].elapsed();
    figures::show(format!("two requests, two calls of fdatasync, the last {took:.2?} after its request"));
    assert!(took < Duration::from_secs(10), "{took:?}");
    drop(telemetry.shutdown(Duration::ZERO));
    drop(strace);
    fs::remove_file(output).unwrap();
}

#[track_caller]
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let by = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < by, "{what}: it does not come about");
        thread::sleep(Duration::from_millis(1));
    }
}
