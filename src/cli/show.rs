//! `standpipe show`: shows the telemetry in a file of OTLP JSON lines.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use clap::{Args, ValueHint};
use standpipe::receiver::Records;
use standpipe::shared::spawn;

use super::page::Page;
use super::receive::PageOptions;
use super::style::Style;
use super::terminal::{Progress, TerminalInfo};
use super::text::{self, Charset};
use super::view::{self, View};
use super::{Failure, UNUSABLE, cannot_start, describe, live, on_interrupt, report_error};

/// Maximum memory of incomplete traces.
const MAX_TRACE_BYTES: usize = 256 * 1024 * 1024;
/// Maximum length of a line; longer lines are skipped. A request of 64 MiB takes up to six times as many bytes when it
/// is written as JSON, if every character is escaped.
const MAX_LINE_BYTES: u64 = 6 * 64 * 1024 * 1024;
/// Message about JSON that is formatted over several lines.
const SPREAD: &str = "each line must be one request; to convert the file: jq -c .";
/// Some editors write this at the beginning of a file.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();
/// Maximum number of lines that wait between the reading and the drawing thread.
const MAX_QUEUED_LINES: usize = 4;
/// Maximum number of invalid lines that are reported one by one. If there are more, their total is reported, too.
const MAX_REPORTED: u64 = 10;

/// Shows files that receive has saved, or any other files of OTLP JSON lines.
///
/// Each line is one export request of traces, logs or metrics. Such lines are written by standpipe receive --save and
/// --json, standpipe drain --to-stdout, the console exporter, and the file exporter of the OpenTelemetry Collector.
///
/// The output is that of standpipe receive: interactive on a terminal, otherwise a line for each record. With --tree,
/// the traces of files are drawn after all files were read, within 256 MiB of memory. The traces of standard input are
/// drawn as soon as they are complete. A line that cannot be read is reported with its number, and the other lines are
/// shown. If reading a file takes longer than a second, a bar on the terminal shows the progress.
///
/// With --page, the records are shown on a web page instead, until Ctrl-C.
#[derive(Debug, Args)]
#[command(after_help = include_str!("help/show.txt").trim_ascii_end())]
pub(crate) struct Options {
    /// The files to read, in this order; - is standard input.
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    files: Vec<OsString>,
    #[command(flatten)]
    page: PageOptions,
    #[command(flatten)]
    view: view::Options,
}

/// Offset of the end of a line, and its records. `Err` has the line number and the reason why the line cannot be shown.
type Line = (u64, Result<Records, String>);

/// Shows the records of files, and those of standard input as they arrive.
pub(crate) fn run(options: &Options, terminal: &TerminalInfo, style: &Style) -> Result<ExitCode, Failure> {
    let mut inputs = Vec::new();
    for file in &options.files {
        let name = if file == "-" { "standard input".to_owned() } else { text::name(file) };
        let (source, size) = match open(file) {
            Ok(opened) => opened,
            Err(error) => {
                report_error(&format!("{name}: {error}"));
                return Ok(ExitCode::from(UNUSABLE));
            }
        };
        let (sender, lines) = mpsc::sync_channel(MAX_QUEUED_LINES);
        // Another thread reads, so that traces of standard input are drawn in time even if no further line arrives.
        spawn("standpipe-read", move || read(BufReader::new(source), MAX_LINE_BYTES, &sender))
            .map_err(cannot_start)?;
        inputs.push((name, file != "-", size, lines));
    }
    let page = options.page.start()?;
    if page.is_none() && live::is_possible(&options.view, terminal) {
        let inputs = inputs.into_iter().map(|(name, _, _, lines)| (name, lines)).collect();
        return show_live(inputs, options, style);
    }
    let mut view = View::new(&options.view, terminal.is_terminal, MAX_TRACE_BYTES, style.clone());
    // All lines of files count as read at this time. Otherwise, slow reading could make traces appear incomplete.
    let started = Instant::now();
    let (mut all_bad, mut all_records, mut names) = (0, 0, Vec::new());
    for (name, is_regular, size, lines) in inputs {
        let reading = Reading { progress: Progress::new(style), size, is_file: is_file() };
        let target = (&mut view, page.as_deref());
        let printed = print(&lines, target, is_regular.then_some(started), &name, reading);
        let (bad, records) = printed.map_err(Failure::Output)?;
        end_of(bad, &name);
        (all_bad, all_records) = (all_bad + bad, all_records + records);
        names.push(name);
    }
    match page {
        Some(page) => page.show_until_interrupt(style)?,
        None => {
            let mut out = BufWriter::new(io::stdout());
            view.finish(&mut out).and_then(|()| out.flush()).map_err(Failure::Output)?;
            if all_bad == 0 && !view.has_printed() {
                let reason = match all_records {
                    0 => "no records".to_owned(),
                    records => format!("{} read, none shown", describe::count(records, "record")),
                };
                report_error(&format!("{}: {reason}", names.join(", ")));
            }
        }
    }
    Ok(if all_bad == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Shows the records of all lines in the interactive view, while they are read. Each input has a name.
fn show_live(
    inputs: Vec<(String, Receiver<Line>)>,
    options: &Options,
    style: &Style,
) -> Result<ExitCode, Failure> {
    let page = Page::without_server(SocketAddr::from(([0; 4], 0)));
    let (end, ended) = mpsc::channel();
    on_interrupt(move || _ = end.send(()))?;
    let names: Vec<String> = inputs.iter().map(|(name, _)| name.clone()).collect();
    let bad = Arc::new(Mutex::new(Vec::new()));
    let (kept, reported) = (page.clone(), bad.clone());
    let add = move || {
        for (name, (_, line)) in
            inputs.iter().flat_map(|(name, lines)| lines.iter().map(move |line| (name, line)))
        {
            match line {
                Ok(records) => kept.load(&records),
                Err(reason) => {
                    reported.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{name}{reason}"));
                }
            }
        }
    };
    spawn("standpipe-keep", add).map_err(cannot_start)?;
    live::run(&page, &options.view, style, || ended.try_recv().is_ok()).map_err(Failure::Output)?;
    let bad = bad.lock().unwrap_or_else(PoisonError::into_inner);
    bad.iter().take(MAX_REPORTED as usize).for_each(|reason| report_error(reason));
    Ok(end_of(bad.len() as u64, &names.join(", ")))
}

/// Reports the number of invalid lines, unless each of them was reported. Returns the exit code.
fn end_of(bad: u64, name: &str) -> ExitCode {
    if bad > MAX_REPORTED {
        report_error(&format!("{name}: {} cannot be read", describe::count(bad, "line")));
    }
    if bad == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A file or standard input, with its size.
type Source = (Box<dyn Read + Send>, u64);

/// Opens a file, or standard input.
fn open(file: &OsStr) -> io::Result<Source> {
    if file == "-" {
        return Ok((Box::new(io::stdin()), 0));
    }
    // Checked here, because except on Windows, a directory can be opened like a file.
    let metadata = fs::metadata(file)?;
    if metadata.is_dir() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "is a directory"));
    }
    Ok((Box::new(File::open(file)?), metadata.len()))
}

/// Standard output with a progress bar, which ends before the first output that may appear on the bar's terminal.
struct Reading<'a> {
    progress: Progress<'a>,
    /// Size of the file in bytes; 0 if it is unknown.
    size: u64,
    /// Whether standard output is a regular file. Otherwise the bar ends before output is written, because the output,
    /// or a pager that reads the output, may use the terminal of the bar.
    is_file: bool,
}

impl Reading<'_> {
    fn draw(&mut self, read: u64) {
        if self.size > 0 {
            let figures = || format!("{} of {}", describe::size(read), describe::size(self.size));
            self.progress.draw(read, self.size, figures);
        }
    }
}

impl Write for Reading<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.is_file {
            self.progress.end();
        }
        io::stdout().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().flush()
    }
}

/// Returns whether standard output is a regular file.
fn is_file() -> bool {
    #[cfg(not(windows))]
    let output = std::os::fd::AsFd::as_fd(&io::stdout()).try_clone_to_owned();
    #[cfg(windows)]
    let output = std::os::windows::io::AsHandle::as_handle(&io::stdout()).try_clone_to_owned();
    output.is_ok_and(|output| File::from(output).metadata().is_ok_and(|metadata| metadata.is_file()))
}

/// Prints the records of all lines of a file, or adds them to the page. Returns the numbers of invalid lines and of
/// records.
fn print(
    lines: &Receiver<Line>,
    (view, page): (&mut View, Option<&Page>),
    read_at: Option<Instant>,
    name: &str,
    mut reading: Reading<'_>,
) -> io::Result<(u64, u64)> {
    let now = || read_at.unwrap_or_else(Instant::now);
    let (mut bad, mut records_read) = (0, 0);
    loop {
        // Only the wait for standard input has a timeout: its traces become due even if no further line arrives.
        let line = match (read_at, view.next_due()) {
            (None, Some(due)) => lines.recv_timeout(due.saturating_duration_since(Instant::now())),
            _ => lines.recv().map_err(RecvTimeoutError::from),
        };
        if let Ok((bytes_read, _)) = line {
            reading.draw(bytes_read);
        }
        let mut out = BufWriter::new(&mut reading);
        match line {
            Ok((_, Ok(records))) => {
                records_read += records.count() as u64;
                match page {
                    Some(page) => page.load(&records),
                    None => view.add(&records, None, now(), &mut out)?,
                }
            }
            Ok((_, Err(reason))) => {
                bad += 1;
                if bad <= MAX_REPORTED {
                    out.get_mut().progress.clear();
                    report_error(&format!("{name}{reason}"));
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                out.flush()?;
                out.get_mut().progress.end();
                return Ok((bad, records_read));
            }
        }
        view.draw_due(now(), &mut out)?;
        out.flush()?;
    }
}

/// Reads lines until the input ends, no further line can be read, or the receiver is dropped. Skips empty lines.
fn read(mut source: impl BufRead, max_bytes: u64, lines: &SyncSender<Line>) {
    let (mut text, mut position, mut is_first) = (Vec::new(), 0, true);
    for number in 1.. {
        let (line, is_last) = match text::read_line(&mut source, max_bytes, &mut text) {
            Ok((0, _)) => return,
            Err(error) => (Err(format!(": {error}")), true),
            Ok((bytes, is_whole)) => {
                position += bytes;
                let content = text.strip_prefix(BYTE_ORDER_MARK).filter(|_| number == 1).unwrap_or(&text);
                let content = content.trim_ascii();
                // If the first line is a single bracket, the JSON is formatted over several lines, none of which can be
                // read.
                let is_spread = is_first && matches!(content, b"{" | b"[");
                let line = match content {
                    _ if !is_whole => Err(format!("longer than {max_bytes} bytes")),
                    b"" => continue,
                    _ if is_spread => Err(SPREAD.to_owned()),
                    // The error may quote the line, so it is escaped.
                    _ => Records::from_json(content).map_err(|error| {
                        format!("not OTLP JSON: {}", text::printable(&error.to_string(), Charset::Ascii))
                    }),
                };
                is_first = false;
                (line.map_err(|reason| format!(":{number}: {reason}")), is_spread)
            }
        };
        if lines.send((position, line)).is_err() || is_last {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_lines_have_their_number_and_empty_ones_are_passed_over() {
        let text = "\u{feff}{}\n\n  \nhello\n{\"resourceSpans\":[]}";
        assert_eq!(
            outcomes(text, 1000),
            ["0 records", ":4: not OTLP JSON: expected value at column 1", "0 records"]
        );
        for spread in ["{\n  \"resourceSpans\": []\n}", "\n[\n{}\n]"] {
            let line = 1 + usize::from(spread.starts_with('\n'));
            assert_eq!(outcomes(spread, 1000), [format!(":{line}: {SPREAD}")]);
        }
    }

    #[test]
    fn only_a_line_that_is_too_long_is_passed_over() {
        let longest = "{   }";
        for end in ["\n{}\n{}", "\n"] {
            let all = outcomes(&format!("{longest}{end}"), 5);
            assert!(all.iter().all(|outcome| outcome == "0 records"), "{all:?}");
        }
        assert_eq!(outcomes("{    }\n{}", 5), [":1: longer than 5 bytes", "0 records"]);
    }

    fn outcomes(text: &str, longest: u64) -> Vec<String> {
        let (sender, lines) = mpsc::sync_channel(10);
        read(text.as_bytes(), longest, &sender);
        drop(sender);
        lines
            .iter()
            .map(|(_, line)| {
                line.map_or_else(|error| error, |records| format!("{} records", records.count()))
            })
            .collect()
    }
}
