//! One of the services, as a process that ends when its standard input does.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};
use std::{env, fs};

use standpipe::receiver::Receiver;

use crate::support::command;

/// No service of any test may live longer.
const LONGEST_LIFE: Duration = Duration::from_secs(60);
const GREETING: &str = "listening on ";

/// A running service; killed when it is dropped.
pub(crate) struct Service {
    /// Where it listens.
    pub(crate) url: String,
    process: Child,
    input: Option<ChildStdin>,
    lines: mpsc::Receiver<String>,
    complaints: Option<JoinHandle<String>>,
    deadline: Instant,
}

impl Service {
    pub(crate) fn warehouse(telemetry: &Receiver) -> Self {
        Self::start(telemetry, &["warehouse", "127.0.0.1:0"])
    }

    pub(crate) fn storefront(telemetry: &Receiver, warehouse: &str) -> Self {
        Self::start(telemetry, &["storefront", "127.0.0.1:0", warehouse])
    }

    fn start(telemetry: &Receiver, arguments: &[&str]) -> Self {
        let mut command = Command::new(program());
        command::forget_surroundings(&mut command);
        let mut process = command
            .args(arguments)
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", telemetry.endpoint())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the example can be started");
        let (sender, lines) = mpsc::channel();
        let output = process.stdout.take().expect("it is piped");
        thread::spawn(move || {
            // a reader that has given up needs no lines
            BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let mut errors = process.stderr.take().expect("it is piped");
        let complaints = thread::spawn(move || {
            let mut text = String::new();
            errors.read_to_string(&mut text).map(|_| text).unwrap_or_default()
        });
        let mut service = Self {
            url: String::new(),
            input: process.stdin.take(),
            process,
            lines,
            complaints: Some(complaints),
            deadline: Instant::now() + LONGEST_LIFE,
        };
        let greeting = service.next_line().expect("it says where it listens");
        service.url = greeting.strip_prefix(GREETING).expect(&greeting).to_owned();
        service
    }

    /// The address without what makes it a URL.
    pub(crate) fn address(&self) -> &str {
        self.url.trim_start_matches("http://")
    }

    pub(crate) fn port(&self) -> i64 {
        self.url.rsplit_once(':').unwrap().1.parse().unwrap()
    }

    /// Ends it in good order and gives how much of each signal it has delivered. Panics if it has lost anything or has
    /// complained.
    pub(crate) fn end(mut self) -> Delivered {
        drop(self.input.take());
        let mut ledger = Vec::new();
        while let Some(line) = self.next_line() {
            ledger.push(line);
        }
        let status = self.process.wait().expect("a child can be waited for");
        let complaints = self.complaints.take().unwrap().join().unwrap();
        assert!(status.success() && complaints.is_empty(), "{status}: {complaints}");
        Delivered::read(&ledger)
    }

    /// `None` when it has ended.
    fn next_line(&mut self) -> Option<String> {
        match self.lines.recv_timeout(self.deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("the service at {:?} is not done", self.url),
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // of one that has ended already this is no news
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What a service's ledger says, with nothing lost.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Delivered {
    pub(crate) spans: u64,
    pub(crate) logs: u64,
    pub(crate) points: u64,
}

impl Delivered {
    fn read(ledger: &[String]) -> Self {
        let mut delivered = Self::default();
        for line in ledger {
            let (signal, counts) = line.split_once(": ").expect(line);
            let count: u64 = counts.split(' ').next().unwrap().parse().expect(line);
            assert_eq!(counts, format!("{count} accepted, {count} delivered"), "{ledger:?}");
            *match signal {
                "otlp traces" => &mut delivered.spans,
                "otlp logs" => &mut delivered.logs,
                "otlp metrics" => &mut delivered.points,
                _ => panic!("no line of a ledger: {line}"),
            } = count;
        }
        delivered
    }
}

/// The example, which cargo puts beside the tests. `cargo test` has built it; after `cargo test --test web_service` it may
/// be missing or old, and is built now.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let test = env::current_exe().expect("a test knows its own program");
        let folder = test.parent().and_then(Path::parent).expect("it is in target/debug/deps");
        let program = folder.join("examples").join(format!("web_service{}", env::consts::EXE_SUFFIX));
        if !is_up_to_date(&program) {
            build(folder);
        }
        assert!(is_up_to_date(&program), "{} is not what cargo has built", program.display());
        program
    })
}

/// Whether it is there, and no older than what cargo has noted of its sources.
fn is_up_to_date(program: &Path) -> bool {
    let Some(built) = changed(program) else { return false };
    let sources = fs::read_to_string(program.with_extension("d")).unwrap_or_default();
    !sources.split_whitespace().skip(1).any(|path| changed(Path::new(path)).is_some_and(|at| at > built))
}

/// In the profile that the tests are built in, by which cargo calls the folder.
fn build(folder: &Path) {
    let profile = match folder.file_name().and_then(OsStr::to_str) {
        Some("debug") | None => "dev",
        Some(name) => name,
    };
    let cargo = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--locked", "--example", "web_service", "--profile", profile])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status();
    assert!(cargo.expect("cargo can be started").success(), "the example cannot be built");
}

fn changed(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
}
