//! `standpipe span`, `log` and `metric`: single records from scripts, and JSON lines from standard input.

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
use standpipe::{Telemetry, spawn};

pub(crate) use self::log::{LevelParser, LogOptions, run as log, severity};
pub(crate) use self::metric::{MetricOptions, run as metric};
pub(crate) use self::span::{SpanOptions, run as span};
use super::interrupt::on_interrupt;
use super::sender::{Attribute, Destination, Sender};
use super::text::{self, Charset};
use super::{Failure, report_error};

/// How long to try to deliver, unless an option says otherwise.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);
/// The operand that stands for standard input.
const STDIN: &str = "-";
/// Lines that are read before their turn.
const LINES_AHEAD: usize = 16;
/// Longer lines are refused: no collector takes such a record.
const MAX_LINE: u64 = 4 * 1024 * 1024;

/// Delivers the records that `emit` makes. It returns whether all input was understood, and waits for room in the queue.
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

/// Gives `take` each line of standard input that is not empty, until Ctrl-C or SIGTERM, and reports those that it refuses,
/// with their number, and an error of reading; says whether there were none.
fn each_line(mut take: impl FnMut(&str) -> Result<(), String>) -> Result<bool, Failure> {
    // a thread of its own waits for input, so that an interrupt can end the wait
    let (reader, lines) = mpsc::sync_channel(LINES_AHEAD);
    let interrupt = reader.clone();
    on_interrupt(move || drop(interrupt.send(None)))
        .map_err(|error| Failure::Message(format!("signals: {error}")))?;
    let read = move || while reader.send(next_line()).is_ok() {};
    spawn("standpipe-input", read).map_err(|error| Failure::Message(format!("cannot start: {error}")))?;
    let mut is_whole = true;
    for (number, input) in (1_u64..).zip(lines) {
        let taken = match input {
            None => break,
            Some(Err(error)) => {
                report_error(&format!("standard input: {error}"));
                return Ok(false);
            }
            Some(Ok((_, false))) => Err(format!("it is longer than {MAX_LINE} bytes")),
            Some(Ok((line, true))) => match std::str::from_utf8(&line).map(str::trim) {
                Ok("") => Ok(()),
                Ok(text) => take(text),
                Err(_) => {
                    Err("not UTF-8; convert the input first, as with iconv -f LATIN1 -t UTF-8".to_owned())
                }
            },
        };
        if let Err(error) = taken {
            // what is wrong may quote the line
            report_error(&format!("line {number}: {}", text::printable(&error, Charset::Unicode)));
            is_whole = false;
        }
    }
    Ok(is_whole)
}

/// Reads a line of standard input, and whether that is all of it. `None` at the end.
fn next_line() -> Option<io::Result<(Vec<u8>, bool)>> {
    let mut line = Vec::new();
    match text::read_line(io::stdin().lock(), MAX_LINE, &mut line) {
        Ok((0, _)) => None,
        read => Some(read.map(|(_, is_whole)| (line, is_whole))),
    }
}

/// Reads one line of JSON. `form` describes the object that is expected.
fn from_line<T: DeserializeOwned>(line: &str, form: &str) -> Result<T, String> {
    // serde also reads a struct from a list of its values, which would hide a mistake.
    if !line.starts_with('{') {
        return Err(format!("not a JSON object; write {form}"));
    }
    // serde_json counts each line as its line 1.
    serde_json::from_str(line).map_err(|error| error.to_string().replace(" at line 1 column ", " at column "))
}

/// Of a key that is there twice the last value counts, so that those of a line are behind those of the options.
fn with_own(common: &[Attribute], own: Map<String, Json>) -> Vec<Attribute> {
    common.iter().cloned().chain(own).collect()
}
