//! A test that needs a separate process starts itself again as a child. An environment variable has the child's task.

use std::io::{self, BufRead, BufReader};
use std::panic::Location;
use std::path::Path;
use std::process::{self, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::figures;

const TASK: &str = "STANDPIPE_TEST_TASK";
/// Distinguishes reports from the output of the test harness.
const REPORT: &str = "report> ";
/// Maximum lifetime of a child in any test, except for the time during which it is stopped.
const MAX_LIFETIME: Duration = Duration::from_secs(120);
/// Seconds after which the system ends a forked child that hangs.
const MAX_FORK_SECONDS: u32 = 50;

/// Returns the task of this process; `None` if it is not a child.
pub(crate) fn task() -> Option<String> {
    std::env::var(TASK).ok()
}

/// Reports to the parent.
pub(crate) fn report(text: impl std::fmt::Display) {
    println!("{REPORT}{text}");
}

/// Returns the command that starts the test called `name` in the caller's file again, as a child.
#[track_caller]
pub(crate) fn command(name: &str, task: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("a test knows its own program"));
    for (inherited, _) in std::env::vars_os() {
        let name = inherited.to_string_lossy();
        if name.starts_with("OTEL_") || name.starts_with("TRACETEST_") {
            command.env_remove(inherited);
        }
    }
    let name = format!("{}::{name}", module_of(Location::caller().file()));
    command.args([&name, "--exact", "--nocapture", "--test-threads=1"]).env(TASK, task);
    command
}

/// Returns the module path of `file` in its test binary: that of `tests/export/grpc/fork.rs` is `grpc::fork`.
fn module_of(file: &str) -> String {
    let mut parts = Path::new(file)
        .with_extension("")
        .components()
        .map(|part| part.as_os_str().to_string_lossy().into_owned())
        .collect::<Vec<_>>();
    let binary = parts.iter().rposition(|part| part == "tests").expect("a test is below tests/") + 1;
    parts.drain(..=binary);
    parts.join("::")
}

/// Runs the test called `name` again in a child process. Returns true in the child, which must do the work.
#[track_caller]
pub(crate) fn is_alone(name: &str) -> bool {
    let is_child = task().is_some();
    if !is_child {
        run(name, "in a process of its own");
    }
    is_child
}

/// Runs the test called `name` in a child process and returns its reports. Panics if it fails.
#[track_caller]
pub(crate) fn run(name: &str, task: &str) -> Vec<String> {
    Child::start(name, task).finish()
}

/// Like [`run`], with these environment variables and no other variables that a configuration reads.
#[track_caller]
pub(crate) fn run_with(name: &str, task: &str, variables: &[(&str, &str)]) -> Vec<String> {
    Child::start_with(name, task, variables).finish()
}

/// Runs `work` in a forked child. Returns whether the child succeeded.
#[cfg(unix)]
#[allow(unsafe_code, reason = "std does not fork")]
pub(crate) fn in_a_fork(work: impl FnOnce() -> bool) -> bool {
    // SAFETY: this process has no threads but the library's own, whose behavior in a child is tested here.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: only sets a timer whose signal ends this process.
        unsafe { libc::alarm(MAX_FORK_SECONDS) };
        let good = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or(false);
        // SAFETY: ends this process at once.
        unsafe { libc::_exit(if good { 0 } else { 1 }) }
    }
    assert!(child > 0, "cannot fork: {}", std::io::Error::last_os_error());
    let mut status = 0;
    // SAFETY: the child is ours and has not been waited for; `status` outlives the call. An alarm limits the wait.
    let reaped = unsafe { libc::waitpid(child, &mut status, 0) };
    reaped == child && libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
}

/// A running child; killed when it is dropped.
pub(crate) struct Child {
    process: process::Child,
    reports: mpsc::Receiver<String>,
    /// Reads the output of the child. Returns whether the child found its test.
    reader: Option<JoinHandle<bool>>,
    deadline: Instant,
}

impl Child {
    #[track_caller]
    pub(crate) fn start(name: &str, task: &str) -> Self {
        Self::start_with(name, task, &[])
    }

    #[track_caller]
    pub(crate) fn start_with(name: &str, task: &str, variables: &[(&str, &str)]) -> Self {
        Self::start_command(command(name, task).envs(variables.iter().copied()))
            .expect("a test can be started again")
    }

    pub(crate) fn start_command(command: &mut Command) -> io::Result<Self> {
        let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let stopped = Duration::from_secs(figures::amount("STANDPIPE_STOPPED_SECONDS", 0));
        let stdout = process.stdout.take().expect("it is piped");
        let (sender, reports) = mpsc::channel();
        let reader = Some(thread::spawn(move || pass_on(stdout, &sender)));
        Ok(Self { process, reports, reader, deadline: Instant::now() + MAX_LIFETIME + stopped })
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Returns the next report. Panics if the child ends, or its lifetime is over, before one arrives.
    pub(crate) fn next_report(&mut self) -> String {
        match self.reports.recv_timeout(self.deadline.saturating_duration_since(Instant::now())) {
            Ok(report) => report,
            Err(error) => panic!("no report from the child: {error}"),
        }
    }

    /// Kills the child, as `kill -9` does.
    pub(crate) fn kill(&mut self) {
        self.process.kill().expect("a child can be killed");
        self.process.wait().expect("a child can be waited for");
    }

    /// Waits for the child's end, whatever its result.
    pub(crate) fn wait_for_end(mut self) -> ExitStatus {
        while self.reports.recv_timeout(self.deadline.saturating_duration_since(Instant::now())).is_ok() {}
        assert!(Instant::now() < self.deadline, "the child is not done");
        self.process.wait().expect("a child can be waited for")
    }

    /// Waits for the child's end and returns its remaining reports. Panics if the child fails.
    pub(crate) fn finish(mut self) -> Vec<String> {
        let mut reports = Vec::new();
        loop {
            match self.reports.recv_timeout(self.deadline.saturating_duration_since(Instant::now())) {
                Ok(report) => reports.push(report),
                // Its output has ended, so the child has ended.
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("the child is not done; so far: {reports:?}"),
            }
        }
        let status = self.process.wait().expect("a child can be waited for");
        assert!(status.success(), "the child failed: {status}; its reports: {reports:?}");
        let found = self.reader.take().and_then(|reader| reader.join().ok());
        assert_eq!(found, Some(true), "the child has no such test");
        reports
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // The child may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns the numbers of threads and sockets of this process; `None` if the system does not report them.
pub(crate) fn threads_and_sockets() -> Option<(usize, usize)> {
    // Under Wine, `/proc/self` also shows the threads and sockets of Wine.
    if cfg!(windows) {
        return None;
    }
    let threads = std::fs::read_dir("/proc/self/task").ok()?.count();
    let files = std::fs::read_dir("/proc/self/fd").ok()?.filter_map(Result::ok);
    let is_socket = |target: std::path::PathBuf| target.to_string_lossy().starts_with("socket:");
    let sockets = files.filter(|file| std::fs::read_link(file.path()).is_ok_and(is_socket)).count();
    Some((threads, sockets))
}

/// Forwards the reports. Returns whether a test was run.
fn pass_on(stdout: ChildStdout, reports: &mpsc::Sender<String>) -> bool {
    let mut is_found = false;
    for line in BufReader::new(stdout).lines().map_while(Result::ok) {
        if let Some((_, report)) = line.split_once(REPORT) {
            // Reading goes on after the receiver is dropped, so that the child can write its whole output.
            let _ = reports.send(report.to_owned());
        }
        is_found |= line == "running 1 test";
    }
    is_found
}
