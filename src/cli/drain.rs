//! `standpipe drain`: what processes have left in a spool is sent, or printed.

use std::collections::HashSet;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use standpipe::ledger::Counts;
use standpipe::probe::probe;
use standpipe::spool::Instance;
use standpipe::{Config, Exporter, FlushOutcome, Problem, ProblemKind, Telemetry};

use super::style::{Ink, Style};
use super::terminal::{Progress, TICK};
use super::{Failure, describe, interrupt, print, report_error, sender, spool, text};

/// Reported once, after the first request that could not be delivered.
const GOES_ON: &str =
    "nothing is lost: it is tried again until it is delivered; Ctrl-C ends that, or --timeout TIME";
/// How long the end waits for the request that is under way, and for the worker to remove what was delivered.
const END_TIMEOUT: Duration = Duration::from_secs(2);
/// The same after the time of `--timeout` is up.
const MIN_END_TIMEOUT: Duration = Duration::from_millis(100);
/// How long the endpoints are asked whether they are a collector.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);
/// What the messages about records that no count includes have in common.
const UNACCOUNTED: [&str; 2] = ["unknown number", "left alone"];

/// Sends the records in a spool to a collector, or prints them.
///
/// Sends the records that ended processes left in the directory of a spool, oldest first, whatever their services and
/// exporters were. Records that the collector has answered for are removed; those that it cannot take now are tried again
/// until it can. First the endpoint is asked with an empty request: if it is not a collector, or does not accept the
/// credentials, nothing is sent. Exporters that run are left alone. On a terminal a bar shows the progress. Ctrl-C or SIGTERM ends it: the
/// rest stays, and the command can be repeated. A request that was under way when the command was killed is sent again.
#[derive(Debug, Args)]
#[command(override_usage = "standpipe drain DIR --endpoint URL [OPTIONS]
       standpipe drain DIR --to-stdout [--timeout TIME]")]
#[command(after_help = "\
Examples:
  standpipe drain /var/spool/shop --endpoint http://localhost:4318
  standpipe drain /dev/shm/shop --endpoint https://collector.example --header \"api-key=$KEY\"
  standpipe drain /var/spool/shop --to-stdout | gzip > left.jsonl.gz

Exit code: 0 if all was delivered, 1 if something is left or was lost")]
pub(crate) struct Options {
    /// The directory of the spool.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Where to send: http://localhost:4318, to which /v1/traces and its like are appended, or with --grpc
    /// http://localhost:4317. Without a scheme gRPC uses TLS, except on this machine.
    #[arg(long, value_name = "URL", value_parser = sender::endpoint)]
    #[arg(required_unless_present = "to_stdout", conflicts_with = "to_stdout")]
    endpoint: Option<String>,
    /// Send over gRPC instead of HTTP.
    #[arg(long, conflicts_with = "to_stdout")]
    grpc: bool,
    /// A header of each request, as for a token; may be given more than once.
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = sender::header, conflicts_with = "to_stdout")]
    headers: Vec<(String, String)>,
    /// Print the records as OTLP JSON instead, one request in one line. Printed records are removed, too; standpipe spool
    /// looks without removing.
    #[arg(long)]
    to_stdout: bool,
    /// End after this time, as 30s or 5m, though something is left.
    #[arg(long, value_name = "TIME", value_parser = text::duration)]
    timeout: Option<Duration>,
}

impl Options {
    fn exporter(&self) -> Exporter {
        let exporter = match &self.endpoint {
            None => return Exporter::console(),
            Some(endpoint) if self.grpc => Exporter::grpc(endpoint),
            Some(endpoint) => Exporter::http(endpoint),
        };
        self.headers.iter().fold(exporter, |exporter, (name, value)| exporter.header(name, value))
    }
}

enum Event {
    Problem(Problem),
    Drained,
    Interrupted,
}

/// Sends the records that are left until none is, or until it is interrupted: then it can be repeated.
pub(crate) fn run(options: &Options, style: &Style) -> Result<ExitCode, Failure> {
    let deadline = options.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let before = spool::look(&options.directory)?;
    let total = spool::left(&before);
    refuse_foreign(options, &before, deadline)?;
    let (sender, events) = mpsc::channel();
    let (interrupted, problems) = (sender.clone(), sender.clone());
    interrupt::on_interrupt(move || drop(interrupted.send(Event::Interrupted))).map_err(cannot_start)?;
    let hook = move |problem: &Problem| drop(problems.send(Event::Problem(problem.clone())));
    let exporter = options.exporter().throttle(Duration::ZERO).drain(&options.directory);
    let telemetry =
        Telemetry::start(Config::new().service_name("standpipe").exporter(exporter).on_problem(hook));
    let telemetry = Arc::new(telemetry.map_err(|error| Failure::Message(error.to_string()))?);
    let flushed = Arc::clone(&telemetry);
    let flush = move || {
        if flushed.flush(Duration::MAX) == FlushOutcome::Complete {
            let _ = sender.send(Event::Drained);
        }
    };
    thread::Builder::new().name("standpipe-flush".to_owned()).spawn(flush).map_err(cannot_start)?;
    let mut draining = Draining::new(options, style);
    let is_drained = draining.wait(&events, deadline, || {
        let counts = telemetry.ledger().total();
        (counts.delivered + counts.lost(), total)
    });
    let end = deadline.map_or(END_TIMEOUT, |deadline| deadline.saturating_duration_since(Instant::now()));
    let counts = telemetry.shutdown(end.clamp(MIN_END_TIMEOUT, END_TIMEOUT)).total();
    for event in events.try_iter() {
        draining.take(event);
    }
    let left = left(&before, spool::look(&options.directory)?);
    let summary = summary(&counts, left, is_drained, &draining.unaccounted, style);
    match options.to_stdout {
        true => summary.iter().for_each(|line| drop(writeln!(io::stderr(), "{line}"))),
        false => print(&summary)?,
    }
    let is_whole = left == 0 && counts.lost() == 0 && draining.unaccounted.is_empty();
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn cannot_start(error: io::Error) -> Failure {
    Failure::Message(format!("cannot start: {error}"))
}

/// Asks the endpoints with requests that hold no records, before the spool is opened: a server that is not a collector, or
/// does not accept the credentials, would refuse all records, and they would be lost.
fn refuse_foreign(options: &Options, before: &[Instance], deadline: Option<Instant>) -> Result<(), Failure> {
    let ended = before.iter().filter(|instance| !instance.is_running);
    let signals: HashSet<_> =
        ended.flat_map(|instance| &instance.contents).map(|found| found.signal).collect();
    if options.to_stdout || signals.is_empty() {
        return Ok(());
    }
    let budget = deadline.map_or(PROBE_TIMEOUT, |deadline| {
        deadline.saturating_duration_since(Instant::now()).min(PROBE_TIMEOUT)
    });
    let report = probe(&options.exporter().signals(signals), budget);
    for endpoint in &report.endpoints {
        if let Some(stage) = endpoint.stages.iter().find(|stage| stage.is_refused) {
            return Err(Failure::Message(format!(
                "{}: {stage}; nothing was sent, and all records stay in {}",
                endpoint.url,
                text::name(&options.directory)
            )));
        }
    }
    Ok(())
}

/// The messages and the progress of a drain.
struct Draining<'a> {
    to_stdout: bool,
    progress: Progress<'a>,
    reported: HashSet<String>,
    /// What is said after the first request that could not be delivered.
    goes_on: Option<&'static str>,
    /// Messages about records that no count includes.
    unaccounted: Vec<String>,
}

impl<'a> Draining<'a> {
    fn new(options: &Options, style: &'a Style) -> Self {
        Self {
            to_stdout: options.to_stdout,
            progress: Progress::new(style),
            reported: HashSet::new(),
            goes_on: (!options.to_stdout).then_some(GOES_ON),
            unaccounted: Vec::new(),
        }
    }

    /// Waits until all records that can be delivered are, and returns true; false if the wait ends before.
    fn wait(
        &mut self,
        events: &mpsc::Receiver<Event>,
        deadline: Option<Instant>,
        done_of_total: impl Fn() -> (u64, u64),
    ) -> bool {
        let is_drained = loop {
            let left = deadline.map_or(TICK, |deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                self.progress.clear();
                report_error("the time is up");
                break false;
            }
            match events.recv_timeout(TICK.min(left)) {
                Ok(event) => {
                    if let Some(is_drained) = self.take(event) {
                        break is_drained;
                    }
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => break false,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    let (done, total) = done_of_total();
                    self.progress.draw(done, total, || format!("{done} of {total} records"));
                }
            }
        };
        self.progress.clear();
        is_drained
    }

    /// Reports a problem, once for each message. Returns whether all is delivered, if the wait is over.
    fn take(&mut self, event: Event) -> Option<bool> {
        let problem = match event {
            Event::Drained => return Some(true),
            Event::Interrupted => return Some(false),
            Event::Problem(problem) => problem,
        };
        let is_unavailable = problem.kind == ProblemKind::Unavailable;
        let words = if self.to_stdout { problem.message } else { sender::in_words(&problem) };
        if !self.reported.contains(&words) {
            self.progress.clear();
            report_error(&words);
            self.goes_on.take_if(|_| is_unavailable).iter().for_each(|words| report_error(words));
            if problem.kind == ProblemKind::Spool && UNACCOUNTED.iter().any(|part| words.contains(part)) {
                self.unaccounted.push(words.clone());
            }
            self.reported.insert(words);
        }
        // output that is not read any more does not come back
        (self.to_stdout && is_unavailable).then_some(false)
    }
}

/// Records that are there still.
fn left(before: &[Instance], mut now: Vec<Instance>) -> u64 {
    // a worker that has not ended in time holds them as the process did that they are of
    let had_ended = |id: &str| before.iter().any(|instance| instance.id == id && !instance.is_running);
    now.iter_mut().for_each(|instance| instance.is_running &= !had_ended(&instance.id));
    spool::left(&now)
}

fn summary(
    counts: &Counts,
    left: u64,
    is_drained: bool,
    unaccounted: &[String],
    style: &Style,
) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = |ink: Ink, mark: &str, text: &str| {
        let mut line = style.line();
        line.put(ink.bold(), mark).space(1).put(Ink::PLAIN, text);
        lines.push(line.finish());
    };
    let (check, cross) = (style.glyphs.check, style.glyphs.cross);
    if counts.delivered > 0 {
        line(Ink::GOOD, check, &format!("delivered {}", describe::count(counts.delivered, "record")));
    }
    let dropped = &counts.dropped;
    for (lost, why) in [
        (counts.rejected, "rejected by the collector, one by one"),
        (dropped.refused, "in requests that the collector refused"),
        (dropped.too_large, "larger than a request may be"),
        (dropped.damaged, "damaged"),
        (dropped.total() - dropped.refused - dropped.too_large - dropped.damaged, "lost"),
    ] {
        if lost > 0 {
            line(Ink::BAD, cross, &format!("{}: {why}", describe::count(lost, "record")));
        }
    }
    if !unaccounted.is_empty() {
        line(Ink::BAD, cross, "records of unknown number were lost, or files were left alone: see above");
    }
    match left {
        0 if !unaccounted.is_empty() => {}
        0 => line(Ink::GOOD, check, "nothing is left"),
        _ => {
            let (records, are) = (describe::count(left, "record"), if left == 1 { "is" } else { "are" });
            let advice = if is_drained { "standpipe spool shows why" } else { "run it again" };
            line(Ink::WARNING, cross, &format!("{records} {are} left: {advice}"));
        }
    }
    lines
}
