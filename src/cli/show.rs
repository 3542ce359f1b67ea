//! `standpipe show`: shows the telemetry of a file of OTLP JSON lines.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::Instant;

use clap::{Args, ValueHint};
use standpipe::receiver::Records;

use super::style::Style;
use super::terminal::{Progress, TerminalInfo};
use super::text::{self, Charset};
use super::view::{self, View};
use super::{Failure, UNUSABLE, describe, report_error};

/// What traces may take that are not complete.
const TRACE_MEMORY: usize = 256 * 1024 * 1024;
/// Longer lines are passed over. A request of 64 MiB may take six times as much in JSON, if all of it is to be escaped.
const MAX_LINE_BYTES: u64 = 6 * 64 * 1024 * 1024;
/// What is said of JSON that was formatted to be read.
const SPREAD: &str = "each line is to be one request; to write it so: jq -c .";
/// What some editors begin a file with.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();
/// Lines that wait to be shown.
const MAX_LINES: usize = 4;
/// Bad lines that are reported; the rest is counted.
const MAX_REPORTED: u64 = 10;

/// Shows what receive has saved, or any other file of OTLP JSON lines.
///
/// Each line is one export request of traces, logs or metrics, as standpipe receive --save and --json, standpipe drain
/// --to-stdout, the console exporter and the file exporter of the OpenTelemetry Collector write it.
///
/// All is shown as standpipe receive would show it: trees on a terminal, elsewhere a line for each record. The traces of a
/// file are drawn when it is read, within 256 MiB of memory; those of standard input as they become complete. A line that
/// cannot be read is reported with its number, and the rest is shown. If a file takes longer than a second, a bar on the
/// terminal shows how much of it was read.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  standpipe show today.jsonl
  standpipe show today.jsonl --trace 36c3ef3e --full
  standpipe show today.jsonl --json --service payments > payments.jsonl
  tail -f collector.jsonl | standpipe show - --errors
  standpipe drain /var/spool/shop --to-stdout | standpipe show - --tree

Exit code: 0; 1 if a line could not be read; 2 if FILE could not be opened or an option is wrong")]
pub(crate) struct Options {
    /// The file to read, or - for standard input.
    #[arg(value_hint = ValueHint::FilePath)]
    file: OsString,
    #[command(flatten)]
    view: view::Options,
}

/// The number of bytes up to the end of a line, and its records, or its place and why it cannot be shown.
type Line = (u64, Result<Records, String>);

/// Shows the lines of a file, or of standard input as they come.
pub(crate) fn run(options: &Options, terminal: &TerminalInfo, style: &Style) -> Result<ExitCode, Failure> {
    let name = if options.file == "-" { "standard input".to_owned() } else { text::name(&options.file) };
    let (source, size): (Box<dyn Read + Send>, u64) = match options.file == "-" {
        true => (Box::new(io::stdin()), 0),
        false => match open(&options.file) {
            Ok((file, size)) => (Box::new(file), size),
            Err(error) => {
                report_error(&format!("{name}: {error}"));
                return Ok(ExitCode::from(UNUSABLE));
            }
        },
    };
    let (sender, lines) = mpsc::sync_channel(MAX_LINES);
    // on a thread of its own: a trace is drawn when it is quiet, though the next line is still to come
    thread::Builder::new()
        .name("standpipe-read".to_owned())
        .spawn(move || read(BufReader::new(source), MAX_LINE_BYTES, &sender))
        .map_err(|error| Failure::Message(format!("cannot start: {error}")))?;
    let view = View::new(&options.view, terminal.is_terminal, TRACE_MEMORY, style.clone());
    // The lines of a file are shown as if all came now, however long they take to be read.
    let read_at = (options.file != "-").then(Instant::now);
    let reading = Reading { progress: Progress::new(style), size, is_file: is_file() };
    let bad = print(&lines, view, read_at, &name, reading).map_err(Failure::Output)?;
    if bad > MAX_REPORTED {
        report_error(&format!("{name}: {} cannot be read", describe::count(bad, "line")));
    }
    Ok(if bad == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The file, and its size.
fn open(file: &OsStr) -> io::Result<(File, u64)> {
    // an open directory is an error on Windows only
    let metadata = fs::metadata(file)?;
    if metadata.is_dir() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a directory"));
    }
    Ok((File::open(file)?, metadata.len()))
}

/// A bar of what was read, and standard output, which it gives way to.
struct Reading<'a> {
    progress: Progress<'a>,
    /// The bytes of the file; 0 if they are not known.
    size: u64,
    /// Whether the output goes to a file: otherwise it is seen by itself, or the program that reads it has the terminal.
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

/// Whether standard output is a file.
fn is_file() -> bool {
    #[cfg(not(windows))]
    let output = std::os::fd::AsFd::as_fd(&io::stdout()).try_clone_to_owned();
    #[cfg(windows)]
    let output = std::os::windows::io::AsHandle::as_handle(&io::stdout()).try_clone_to_owned();
    output.is_ok_and(|output| File::from(output).metadata().is_ok_and(|metadata| metadata.is_file()))
}

/// Returns how many lines could not be shown.
fn print(
    lines: &Receiver<Line>,
    mut view: View,
    read_at: Option<Instant>,
    name: &str,
    mut reading: Reading<'_>,
) -> io::Result<u64> {
    let now = || read_at.unwrap_or_else(Instant::now);
    let (mut bad, mut records_read) = (0, 0);
    loop {
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
                view.add(&records, None, now(), &mut out)?;
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
                view.finish(&mut out)?;
                out.flush()?;
                out.get_mut().progress.end();
                if bad == 0 && !view.has_printed() {
                    let reason = match records_read {
                        0 => "it has no records".to_owned(),
                        records => format!("nothing to show of {}", describe::count(records, "record")),
                    };
                    report_error(&format!("{name}: {reason}"));
                }
                return Ok(bad);
            }
        }
        view.draw_due(now(), &mut out)?;
        out.flush()?;
    }
}

/// Reads lines until there are no more, or until they are not shown any more. Lines without content are passed over.
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
                // Of JSON that is spread over lines, none can be read.
                let is_spread = is_first && matches!(content, b"{" | b"[");
                let line = match content {
                    _ if !is_whole => Err(format!("it is longer than {max_bytes} bytes")),
                    b"" => continue,
                    _ if is_spread => Err(SPREAD.to_owned()),
                    // The error may quote the line.
                    _ => Records::from_json(content)
                        .map_err(|error| text::printable(&error.to_string(), Charset::Ascii).into_owned()),
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
        assert_eq!(outcomes(text, 1000), ["0 records", ":4: expected value at column 1", "0 records"]);
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
        assert_eq!(outcomes("{    }\n{}", 5), [":1: it is longer than 5 bytes", "0 records"]);
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
