//! `standpipe span`, `log` and `metric`: send single records from scripts, or JSON lines from standard input.

mod log;
mod metric;
mod span;
mod span_file;
mod time;

use std::io;
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json};
use standpipe::Telemetry;
use standpipe::shared::spawn;

pub(crate) use self::log::{LevelParser, LogOptions, run as log, severity};
pub(crate) use self::metric::{MetricOptions, run as metric};
pub(crate) use self::span::{SpanOptions, run as span};
use super::sender::{Attribute, Destination, Sender};
use super::text::{self, Charset};
use super::{Failure, cannot_start, on_interrupt, report_error};

/// Default of `--timeout`.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);
/// Operand that stands for standard input.
const STDIN: &str = "-";
/// Capacity of the channel between the reading thread and the main thread.
const MAX_QUEUED_LINES: usize = 16;
/// Maximum bytes of a line. Collectors do not accept such large records.
const MAX_LINE_BYTES: u64 = 4 * 1024 * 1024;

/// Delivers the records that `emit` creates. `emit` returns whether all input was valid. If the queue is full, `emit`
/// waits for up to the timeout.
fn deliver(
    destination: &Destination,
    presets: &[(&str, &str)],
    emit: impl FnOnce(&Telemetry) -> Result<bool, Failure>,
) -> Result<ExitCode, Failure> {
    let timeout = destination.timeout.unwrap_or(DEFAULT_TIMEOUT);
    let sender = Sender::start(destination, destination.variables(presets), Some(timeout))?;
    let is_whole = emit(&sender.telemetry)?;
    sender.finish(timeout).map_err(Failure::Message)?;
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Calls `take` with each non-empty line of standard input, until its end, a read error, Ctrl-C or SIGTERM.
///
/// Reports invalid lines with their numbers, and read errors. Returns true if there were no invalid lines or errors.
fn each_line(mut take: impl FnMut(&str) -> Result<(), String>) -> Result<bool, Failure> {
    // A read cannot be interrupted, so another thread reads, and this one waits for a line or an interrupt.
    let (reader, lines) = mpsc::sync_channel(MAX_QUEUED_LINES);
    let interrupt = reader.clone();
    on_interrupt(move || drop(interrupt.send(None)))?;
    let read = move || while reader.send(next_line()).is_ok() {};
    spawn("standpipe-input", read).map_err(cannot_start)?;
    let mut is_whole = true;
    for (number, input) in (1_u64..).zip(lines) {
        let taken = match input {
            None => break,
            Some(Err(error)) => {
                report_error(&format!("read standard input: {error}"));
                return Ok(false);
            }
            Some(Ok((_, false))) => Err(format!("longer than {MAX_LINE_BYTES} bytes")),
            Some(Ok((line, true))) => match std::str::from_utf8(&line).map(str::trim) {
                Ok("") => Ok(()),
                Ok(text) => take(text),
                Err(_) => Err("not UTF-8; convert the input first: iconv -f LATIN1 -t UTF-8".to_owned()),
            },
        };
        if let Err(error) = taken {
            // The message may quote the line, so it is escaped.
            report_error(&format!("line {number}: {}", text::printable(&error, Charset::Unicode)));
            is_whole = false;
        }
    }
    Ok(is_whole)
}

/// Reads a line of standard input; `None` at the end of the input. The `bool` is false if the line was too long.
fn next_line() -> Option<io::Result<(Vec<u8>, bool)>> {
    let mut line = Vec::new();
    match text::read_line(io::stdin().lock(), MAX_LINE_BYTES, &mut line) {
        Ok((0, _)) => None,
        read => Some(read.map(|(_, is_whole)| (line, is_whole))),
    }
}

/// Reads one line of JSON. `form` describes the object that is expected.
fn from_line<T: DeserializeOwned>(line: &str, form: &str) -> Result<T, String> {
    // Without this check, serde would accept a list of the values instead of an object.
    if !line.starts_with('{') {
        return Err(format!("not a JSON object; write {form}"));
    }
    // serde_json gets each line alone and always reports line 1, so this number is removed.
    serde_json::from_str(line).map_err(|error| error.to_string().replace(" at line 1 column ", " at column "))
}

/// Appends the attributes of a line to those of the options. The last value of a key takes precedence.
fn with_own(common: &[Attribute], own: Map<String, Json>) -> Vec<Attribute> {
    common.iter().cloned().chain(own).collect()
}
