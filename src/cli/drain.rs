//! `standpipe drain`: what processes have left in a spool is sent, or printed.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use standpipe::ledger::Counts;
use standpipe::{Config, Exporter, FlushOutcome, Problem, ProblemKind, Telemetry, Transport};

use super::style::{Ink, Style};
use super::{Failure, describe, interrupt, print, report_error, spool};

/// How often the progress is drawn, after the first second.
const TICK: Duration = Duration::from_millis(100);
const QUIET: Duration = Duration::from_secs(1);
/// How long the end waits for the request that is under way.
const END: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) directory: PathBuf,
    pub(crate) target: Target,
    /// When it ends though something is left.
    pub(crate) timeout: Option<Duration>,
}

/// Where the records go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    Collector { transport: Transport, endpoint: String, headers: Vec<(String, String)> },
    Stdout,
}

impl Target {
    fn exporter(&self) -> Exporter {
        match self {
            Self::Stdout => Exporter::console(),
            Self::Collector { transport, endpoint, headers } => {
                let exporter = match transport {
                    Transport::Grpc => Exporter::grpc(endpoint),
                    _ => Exporter::http(endpoint),
                };
                headers.iter().fold(exporter, |exporter, (name, value)| exporter.header(name, value))
            }
        }
    }
}

enum Event {
    Problem(Problem),
    Drained,
    Interrupted,
}

/// Sends what is left, until nothing is, or until it is interrupted: then it can be repeated.
pub(crate) fn run(options: &Options, style: &Style) -> Result<ExitCode, Failure> {
    let total = spool::left(&spool::look(&options.directory)?);
    let (sender, events) = mpsc::channel();
    let (interrupted, problems) = (sender.clone(), sender.clone());
    interrupt::on_interrupt(move || drop(interrupted.send(Event::Interrupted)))
        .map_err(|error| Failure::Message(format!("cannot start: {error}")))?;
    let hook = move |problem: &Problem| drop(problems.send(Event::Problem(problem.clone())));
    let exporter = options.target.exporter().throttle(Duration::ZERO).drain(&options.directory);
    let telemetry =
        Telemetry::start(Config::new().service_name("standpipe").exporter(exporter).on_problem(hook));
    let telemetry = Arc::new(telemetry.map_err(|error| Failure::Message(error.to_string()))?);
    let flushed = Arc::clone(&telemetry);
    thread::spawn(move || {
        if flushed.flush(Duration::MAX) == FlushOutcome::Complete {
            let _ = sender.send(Event::Drained);
        }
    });
    let mut progress = Progress::new(total, style);
    let is_drained = wait(&events, options, &telemetry, &mut progress);
    progress.clear();
    let counts = telemetry.shutdown(if is_drained { Duration::ZERO } else { END }).total();
    let left = spool::left(&spool::look(&options.directory)?);
    let summary = summary(&counts, left, style);
    match options.target {
        Target::Stdout => summary.iter().for_each(|line| drop(writeln!(io::stderr(), "{line}"))),
        Target::Collector { .. } => print(&summary)?,
    }
    Ok(if left == 0 && counts.lost() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Whether all was delivered in the end.
fn wait(
    events: &mpsc::Receiver<Event>,
    options: &Options,
    telemetry: &Telemetry,
    progress: &mut Progress<'_>,
) -> bool {
    let until = options.timeout.map(|timeout| Instant::now() + timeout);
    while until.is_none_or(|until| Instant::now() < until) {
        match events.recv_timeout(TICK) {
            Ok(Event::Drained) => return true,
            Ok(Event::Interrupted) | Err(mpsc::RecvTimeoutError::Disconnected) => return false,
            Ok(Event::Problem(problem)) => {
                progress.clear();
                report_error(&problem.message);
                // output that is not read any more does not come back
                if options.target == Target::Stdout && problem.kind == ProblemKind::Unavailable {
                    return false;
                }
            }
            Err(mpsc::RecvTimeoutError::Timeout) => progress.draw(&telemetry.ledger().total()),
        }
    }
    progress.clear();
    report_error("the time is up");
    false
}

/// A line on standard error that is drawn again and again, if that is a terminal.
struct Progress<'a> {
    total: u64,
    style: &'a Style,
    began: Instant,
    is_terminal: bool,
    is_drawn: bool,
}

impl<'a> Progress<'a> {
    fn new(total: u64, style: &'a Style) -> Self {
        let is_terminal = io::stderr().is_terminal();
        Self { total, style, began: Instant::now(), is_terminal, is_drawn: false }
    }

    fn draw(&mut self, counts: &Counts) {
        if self.is_terminal && self.began.elapsed() >= QUIET {
            let _ = write!(
                io::stderr(),
                "\r{}\x1b[K",
                bar(counts.delivered + counts.lost(), self.total, self.style)
            );
            self.is_drawn = true;
        }
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.is_drawn) {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

/// `[=====     ]  50 %  500 of 1000 records`.
fn bar(done: u64, total: u64, style: &Style) -> String {
    const CELLS: usize = 30;
    // the directory may have changed since it was looked at
    let share = if total == 0 { 1.0 } else { (done as f64 / total as f64).min(1.0) };
    let filled = (share * CELLS as f64) as usize;
    let mut line = style.line();
    line.put(Ink::FAINT, "[").put(Ink::GOOD, &"=".repeat(filled)).space(CELLS - filled).put(Ink::FAINT, "]");
    let figures = format!("{:.0} %", share * 100.0);
    line.space(1).put(Ink::PLAIN, &figures);
    line.space(2).put_rest(Ink::FAINT, &format!("{done} of {total} records"));
    line.finish()
}

fn summary(counts: &Counts, left: u64, style: &Style) -> Vec<String> {
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
    match left {
        0 => line(Ink::GOOD, check, "nothing is left"),
        _ => {
            let (records, are) = (describe::count(left, "record"), if left == 1 { "is" } else { "are" });
            line(Ink::WARNING, cross, &format!("{records} {are} left: run it again"));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::style::plain_style;
    use super::*;

    #[test]
    fn the_bar_shows_the_share_that_is_done_and_never_more_than_all() {
        let style = plain_style(80);
        assert_eq!(bar(0, 10, &style), "[                              ] 0 %  0 of 10 records");
        assert_eq!(bar(5, 10, &style), "[===============               ] 50 %  5 of 10 records");
        assert!(bar(20, 10, &style).contains("] 100 %"));
        assert!(bar(1, 0, &style).contains("] 100 %"));
    }
}
