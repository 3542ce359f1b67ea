//! `standpipe spool` and `standpipe drain`: show, send or print the records that processes left in a spool directory.

use std::collections::HashSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant, SystemTime};

use clap::Args;
use standpipe::ledger::Counts;
use standpipe::probe::probe;
use standpipe::shared::spawn;
use standpipe::spool::{Contents, Instance, inspect};
use standpipe::{Config, Exporter, FlushOutcome, Problem, ProblemKind, Signal, Telemetry};

use super::style::{Ink, Style};
use super::table::{Column, Table, Text};
use super::terminal::{Progress, TICK};
use super::{Failure, cannot_start, describe, on_interrupt, print, report_error, sender, text};

/// Reported once, after the first request that could not be delivered.
const RETRY_MESSAGE: &str = "nothing is lost: the request is retried until it is delivered; press Ctrl-C to stop, or set --timeout TIME";
/// Maximum time for the request in flight, and for the worker to remove delivered requests, when the command ends.
const END_TIMEOUT: Duration = Duration::from_secs(2);
/// Part of [`END_TIMEOUT`] that is granted even if `--timeout` has passed.
const MIN_END_TIMEOUT: Duration = Duration::from_millis(100);
/// Time for an endpoint to answer the probe that precedes the first record.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);
/// Columns: the signal, its records, its requests, their size, and how long the oldest request has waited.
const COLUMNS: [Column; 5] = [
    Column::cut(9).uncut(),
    Column::right(18),
    Column::right(14),
    Column::right(11),
    Column::cut(30).uncut().optional(),
];

/// Shows the records that processes have left in a spool directory.
///
/// Shows the files that exporters keep in a spool directory (the setting spool = "DIR"): for each exporter its name and
/// service, and whether its process is running or has ended; for each signal the undelivered records, their requests,
/// their size and how long they have waited; the spans that are open or were interrupted; and files that cannot be
/// read. No file is changed.
#[derive(Debug, Args)]
#[command(after_help = include_str!("help/spool.txt").trim_ascii_end())]
pub(crate) struct SpoolOptions {
    /// The spool directory.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

pub(crate) fn show(options: &SpoolOptions, style: &Style) -> Result<ExitCode, Failure> {
    let instances = look(&options.directory)?;
    print(&draw(&options.directory, &instances, SystemTime::now(), style))?;
    Ok(ExitCode::SUCCESS)
}

fn look(directory: &Path) -> Result<Vec<Instance>, Failure> {
    inspect(directory).map_err(|error| Failure::Message(format!("{}: {error}", text::name(directory))))
}

/// Returns the number of undelivered records of processes that have ended.
fn unsent(instances: &[Instance]) -> u64 {
    instances.iter().filter(|instance| !instance.is_running).map(Instance::records).sum()
}

fn draw(directory: &Path, instances: &[Instance], now: SystemTime, style: &Style) -> Vec<String> {
    let ended = instances.iter().filter(|instance| !instance.is_running && instance.records() > 0).count();
    let directory = directory.display().to_string();
    let what = match (ended, instances.is_empty()) {
        (0, true) => ": no spool files".to_owned(),
        (0, false) => ": nothing is left to deliver".to_owned(),
        _ => {
            let (records, processes) = (unsent(instances), describe::count(ended as u64, "process"));
            format!(": {} of {processes} that ended", describe::count(records, "record"))
        }
    };
    let mut lines = vec![style.line().put(Ink::PLAIN.bold(), &directory).put(Ink::PLAIN, &what).finish()];
    for instance in instances {
        lines.push(String::new());
        lines.extend(draw_instance(instance, now, style));
    }
    if ended > 0 {
        let directory = text::shell_word(&directory);
        let command = format!("standpipe drain {directory} --endpoint http://localhost:4318");
        let advice = style.line().put(Ink::FAINT, "to send it: ").put(Ink::PLAIN, &command).finish();
        lines.extend([String::new(), advice]);
    }
    lines
}

fn draw_instance(instance: &Instance, now: SystemTime, style: &Style) -> Vec<String> {
    let mut heading = style.line();
    let exporter = instance.exporter.as_deref().unwrap_or("an unknown exporter");
    heading.put(Ink::PLAIN.bold(), exporter).space(2);
    if let Some(service) = &instance.service {
        heading.put(Ink::PLAIN, &format!("of {service}")).space(2);
    }
    let since = instance.started.map(|started| format!(", started {} ago", age(started, now, style)));
    let (ink, state) = if instance.is_running { (Ink::GOOD, "running") } else { (Ink::WARNING, "ended") };
    let files = format!("{}, {} of files", instance.id, describe::size(instance.bytes));
    heading.put(ink, state).put(Ink::FAINT, &since.unwrap_or_default()).space(2).put(Ink::FAINT, &files);
    let mut lines = vec![heading.finish()];
    let table = Table::new(style, 2, COLUMNS);
    lines.extend(instance.contents.iter().map(|contents| table.row(row(contents, now, style))));
    let remark = |ink, text: &str| style.line().space(2).put(ink, text).finish();
    if instance.open_spans > 0 {
        let state = if instance.is_running { "open now" } else { "interrupted" };
        let spans = describe::count(instance.open_spans, "span");
        lines.push(remark(Ink::PLAIN, &format!("{spans} {state}")));
    }
    lines.extend(instance.problems.iter().map(|problem| remark(Ink::BAD, problem)));
    lines
}

fn row(contents: &Contents, now: SystemTime, style: &Style) -> [Text<'static>; 5] {
    let what = match contents.signal {
        Signal::Traces => "span",
        Signal::Logs => "log record",
        _ => "data point",
    };
    let waits = contents.oldest.map(|oldest| format!("waiting for {}", age(oldest, now, style)));
    [
        Text::new(Ink::PLAIN, contents.signal.name()),
        Text::new(Ink::PLAIN, describe::count(contents.records, what)),
        Text::new(Ink::PLAIN, describe::count(contents.requests, "request")),
        Text::new(Ink::PLAIN, describe::size(contents.bytes)),
        Text::new(Ink::FAINT, waits.unwrap_or_else(|| "in the queue".to_owned())),
    ]
}

fn age(then: SystemTime, now: SystemTime, style: &Style) -> String {
    let age = now.duration_since(then).unwrap_or_default();
    describe::round_duration(u64::try_from(age.as_nanos()).unwrap_or(u64::MAX), style)
}

/// Sends the records in a spool to a collector, or prints them.
///
/// Sends the records that ended processes left in a spool directory, oldest first, of all services and exporters. A
/// record is removed once the collector has accepted or refused its request; a request that the collector cannot accept
/// now is retried. First an empty request probes the endpoint: if the server is not a collector, or rejects the
/// credentials, nothing is sent. Files of running processes are not touched. On a terminal, a bar shows the progress.
/// Ctrl-C or SIGTERM ends the command: the remaining records stay in the directory, and the command can be run again.
/// If the command is killed, the request in flight is sent again by the next run.
#[derive(Debug, Args)]
#[command(override_usage = "standpipe drain DIR --endpoint URL [OPTIONS]
       standpipe drain DIR --to-stdout [--timeout TIME]")]
#[command(after_help = include_str!("help/drain.txt").trim_ascii_end())]
pub(crate) struct DrainOptions {
    /// The spool directory.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// The endpoint, for example http://localhost:4318 for HTTP (/v1/traces, /v1/logs and /v1/metrics are appended), or
    /// http://localhost:4317 with --grpc. A gRPC endpoint without a scheme uses TLS, unless it is on this machine.
    #[arg(long, value_name = "URL", value_parser = sender::endpoint)]
    #[arg(required_unless_present = "to_stdout", conflicts_with = "to_stdout")]
    endpoint: Option<String>,
    /// Send over gRPC instead of HTTP.
    #[arg(long, conflicts_with = "to_stdout")]
    grpc: bool,
    /// A header for each request, for example a token; may be given more than once.
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = sender::header, conflicts_with = "to_stdout")]
    headers: Vec<(String, String)>,
    /// Print the records as OTLP JSON instead, one request per line. Printed records are removed from the directory; to
    /// only look at it, use standpipe spool.
    #[arg(long)]
    to_stdout: bool,
    /// End after this time, for example 30s or 5m, even if records are left.
    #[arg(long, value_name = "TIME", value_parser = text::duration)]
    timeout: Option<Duration>,
}

impl DrainOptions {
    fn exporter(&self) -> Exporter {
        match &self.endpoint {
            None => Exporter::console(),
            Some(endpoint) if self.grpc => sender::with_headers(Exporter::grpc(endpoint), &self.headers),
            Some(endpoint) => sender::with_headers(Exporter::http(endpoint), &self.headers),
        }
    }
}

enum Event {
    Problem(Problem),
    Drained,
    Interrupted,
}

/// Sends or prints the records of a spool until none are left, the time is up, or the command is interrupted.
pub(crate) fn drain(options: &DrainOptions, style: &Style) -> Result<ExitCode, Failure> {
    let deadline = options.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let before = look(&options.directory)?;
    let total = unsent(&before);
    probe_endpoints(options, &before, deadline)?;
    let (sender, events) = mpsc::channel();
    let (interrupted, problems) = (sender.clone(), sender.clone());
    on_interrupt(move || drop(interrupted.send(Event::Interrupted)))?;
    let hook = move |problem: &Problem| drop(problems.send(Event::Problem(problem.clone())));
    // The throttle is switched off, because the records are old and the user waits.
    let exporter = options.exporter().throttle(Duration::ZERO).drain(&options.directory);
    let telemetry =
        Telemetry::start(Config::new().service_name("standpipe").exporter(exporter).on_problem(hook));
    let telemetry = Arc::new(telemetry.map_err(|error| Failure::Message(error.to_string()))?);
    let flushed = Arc::clone(&telemetry);
    // A flush of a draining exporter blocks until the spool is empty, so another thread calls it.
    let flush = move || {
        if flushed.flush(Duration::MAX) == FlushOutcome::Complete {
            let _ = sender.send(Event::Drained);
        }
    };
    spawn("standpipe-flush", flush).map_err(cannot_start)?;
    let mut draining = Draining {
        to_stdout: options.to_stdout,
        deadline,
        progress: Progress::new(style),
        reported: HashSet::new(),
        retry_message: (!options.to_stdout).then_some(RETRY_MESSAGE),
        is_accounted: true,
    };
    let is_drained = draining.wait(&events, || {
        let counts = telemetry.ledger().total();
        (counts.delivered + counts.lost(), total)
    });
    let end = deadline.map_or(END_TIMEOUT, |deadline| deadline.saturating_duration_since(Instant::now()));
    let counts = telemetry.shutdown(end.clamp(MIN_END_TIMEOUT, END_TIMEOUT)).total();
    for event in events.try_iter() {
        draining.take(event);
    }
    let left = left_of(&before, look(&options.directory)?);
    let summary = summary(&counts, left, is_drained, draining.is_accounted, style);
    // Standard output has the records, so the summary goes to standard error.
    match options.to_stdout {
        true => summary.iter().for_each(|line| drop(writeln!(io::stderr(), "{line}"))),
        false => print(&summary)?,
    }
    let is_whole = left == 0 && counts.lost() == 0 && draining.is_accounted;
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Probes the endpoints with empty requests before the spool is opened.
///
/// A server that is not a collector, or rejects the credentials, would refuse every request, and the records of a
/// refused request are dropped.
fn probe_endpoints(
    options: &DrainOptions,
    before: &[Instance],
    deadline: Option<Instant>,
) -> Result<(), Failure> {
    let ended = before.iter().filter(|instance| !instance.is_running);
    let signals: HashSet<_> =
        ended.flat_map(|instance| &instance.contents).map(|found| found.signal).collect();
    if options.to_stdout || signals.is_empty() {
        return Ok(());
    }
    let left = deadline.map_or(PROBE_TIMEOUT, |deadline| deadline.saturating_duration_since(Instant::now()));
    let report = probe(&options.exporter().signals(signals), left.min(PROBE_TIMEOUT));
    let stages = report.endpoints.iter().flat_map(|it| it.stages.iter().map(|stage| (&it.url, stage)));
    match stages.into_iter().find(|(_, stage)| stage.is_refused) {
        None => Ok(()),
        Some((url, stage)) => Err(Failure::Message(format!(
            "{url}: {stage}; nothing was sent, and all records stay in {}",
            text::name(&options.directory)
        ))),
    }
}

/// Messages and progress of a drain.
struct Draining<'a> {
    to_stdout: bool,
    deadline: Option<Instant>,
    progress: Progress<'a>,
    /// Messages that were printed. Equal messages are printed once.
    reported: HashSet<String>,
    /// Message to print after the first request that could not be delivered.
    retry_message: Option<&'static str>,
    /// False if records may be lost that the ledger does not count.
    is_accounted: bool,
}

impl Draining<'_> {
    /// Waits until all deliverable records are delivered. Returns false if the wait was ended earlier.
    fn wait(&mut self, events: &mpsc::Receiver<Event>, done_of_total: impl Fn() -> (u64, u64)) -> bool {
        let is_drained = loop {
            let left =
                self.deadline.map_or(TICK, |deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                self.progress.clear();
                report_error("--timeout has passed; undelivered records stay in the directory");
                break false;
            }
            // The channel stays connected, because the telemetry holds a sender: an error can only be a timeout.
            let ended = events.recv_timeout(TICK.min(left)).map(|event| self.take(event));
            if let Ok(Some(is_drained)) = ended {
                break is_drained;
            }
            let (done, total) = done_of_total();
            self.progress.draw(done, total, || format!("{done} of {total} records"));
        };
        self.progress.clear();
        is_drained
    }

    /// Handles an event. If the event ends the wait, returns whether all deliverable records were delivered.
    fn take(&mut self, event: Event) -> Option<bool> {
        let problem = match event {
            Event::Drained => return Some(true),
            Event::Interrupted => return Some(false),
            Event::Problem(problem) => problem,
        };
        let is_unavailable = problem.kind == ProblemKind::Unavailable;
        self.is_accounted &= !problem.is_unaccounted;
        let words = if self.to_stdout { problem.message } else { sender::in_words(&problem) };
        if self.reported.insert(words.clone()) {
            self.progress.clear();
            report_error(&words);
            self.retry_message.take_if(|_| is_unavailable).iter().for_each(|words| report_error(words));
        }
        // A closed pipe cannot be reopened, so retries are useless.
        (self.to_stdout && is_unavailable).then_some(false)
    }
}

/// Returns the number of records of ended processes that are still in the directory.
fn left_of(before: &[Instance], mut now: Vec<Instance>) -> u64 {
    // If this command's worker has not ended in time, it still holds the locks on the files of ended processes, so
    // these processes seem to be running.
    let had_ended = |id: &str| before.iter().any(|instance| instance.id == id && !instance.is_running);
    now.iter_mut().for_each(|instance| instance.is_running &= !had_ended(&instance.id));
    unsent(&now)
}

fn summary(counts: &Counts, left: u64, is_drained: bool, is_accounted: bool, style: &Style) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = |ink: Ink, mark: &str, text: &str| {
        lines.push(style.line().put(ink.bold(), mark).space(1).put(Ink::PLAIN, text).finish());
    };
    let (check, cross) = (style.glyph("✓"), style.glyph("✗"));
    if counts.delivered > 0 {
        line(Ink::GOOD, check, &format!("delivered {}", describe::count(counts.delivered, "record")));
    }
    let dropped = &counts.dropped;
    for (lost, why) in [
        (counts.rejected, "rejected by the collector in a partial success"),
        (dropped.refused, "in requests that the collector refused"),
        (dropped.too_large, "larger than a request may be"),
        (dropped.damaged, "damaged"),
        (dropped.total() - dropped.refused - dropped.too_large - dropped.damaged, "lost"),
    ] {
        if lost > 0 {
            line(Ink::BAD, cross, &format!("{}: {why}", describe::count(lost, "record")));
        }
    }
    if !is_accounted {
        line(Ink::BAD, cross, "an unknown number of records was lost, or files were left alone: see above");
    }
    match left {
        0 if !is_accounted => {}
        0 => line(Ink::GOOD, check, "nothing is left"),
        _ => {
            let (records, are) = (describe::count(left, "record"), if left == 1 { "is" } else { "are" });
            let advice = if is_drained { "standpipe spool shows why" } else { "run it again" };
            line(Ink::WARNING, cross, &format!("{records} {are} left: {advice}"));
        }
    }
    lines
}
