//! An example as a process that ends by itself, or when its standard input ends.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::support::{command, examples};

/// Maximum lifetime of a program in any test.
const MAX_LIFETIME: Duration = Duration::from_secs(60);

/// A running program; killed when it is dropped.
pub(crate) struct Program {
    process: Child,
    input: Option<ChildStdin>,
    lines: mpsc::Receiver<String>,
    errors: Option<JoinHandle<String>>,
    deadline: Instant,
}

/// How a program ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    /// The lines of its standard output that were not read before.
    pub(crate) lines: Vec<String>,
    pub(crate) errors: String,
    /// Time between the end of the program's input and the end of the program.
    pub(crate) took: Duration,
}

impl Program {
    pub(crate) fn start(example: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command = Command::new(examples::program(example));
        command::forget_surroundings(&mut command);
        let mut process = command
            .args(arguments)
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the example can be started");
        let (sender, lines) = mpsc::channel();
        let output = process.stdout.take().expect("it is piped");
        thread::spawn(move || {
            // The test may no longer read these lines; then this thread ends.
            BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let mut errors = process.stderr.take().expect("it is piped");
        let errors = thread::spawn(move || {
            let mut text = String::new();
            errors.read_to_string(&mut text).map(|_| text).unwrap_or_default()
        });
        Self {
            input: process.stdin.take(),
            process,
            lines,
            errors: Some(errors),
            deadline: Instant::now() + MAX_LIFETIME,
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// The next line of its standard output; `None` when that has ended.
    pub(crate) fn next_line(&mut self) -> Option<String> {
        match self.lines.recv_timeout(self.deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("the program is not done"),
        }
    }

    /// Closes the program's input, and waits for its end.
    pub(crate) fn end(mut self) -> Ended {
        let begun = Instant::now();
        drop(self.input.take());
        let lines = std::iter::from_fn(|| self.next_line()).collect();
        let status = self.process.wait().expect("a child can be waited for");
        let took = begun.elapsed();
        let errors = self.errors.take().unwrap().join().unwrap();
        Ended { status, lines, errors, took }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // The program may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
