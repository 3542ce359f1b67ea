//! `standpipe span`, `log` and `metric`: single records from scripts, and JSON lines from standard input.

mod log;
mod metric;
mod span;
mod span_file;
mod time;

use std::io::{self, BufRead};
use std::process::ExitCode;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json};

use super::attribute::Attribute;
use super::given::Given;
use super::help::Topic;
use super::sender::{self, Sender};
use super::{Failure, report_error};

/// How long to try, unless an option says otherwise.
const BUDGET: Duration = Duration::from_secs(5);
/// The operand that stands for standard input.
const STDIN: &str = "-";

/// Sends what the command line, or standard input, describes.
pub(crate) fn run(given: &Given) -> Result<ExitCode, Failure> {
    match given.topic {
        Topic::Log => log::run(given),
        Topic::Metric => metric::run(given),
        _ => span::run(given),
    }
}

/// Starts the telemetry of a command whose callers wait for room in the queue: it has nothing else to do.
fn start(given: &Given, presets: &[(&str, &str)]) -> Result<(Sender, Duration), Failure> {
    let budget = sender::budget(given, BUDGET).map_err(Failure::Usage)?;
    Ok((Sender::start(given, presets, Some(budget))?, budget))
}

/// Delivers what was made; `is_whole` is whether all input was understood.
fn finish(sender: Sender, budget: Duration, is_whole: bool) -> Result<ExitCode, Failure> {
    sender.finish(budget).map_err(Failure::Message)?;
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Gives `take` each line of standard input that is not empty, and reports those that it refuses, with their number; says
/// whether there were none.
fn each_line(mut take: impl FnMut(&str) -> Result<(), String>) -> Result<bool, Failure> {
    let (mut is_whole, mut line) = (true, Vec::new());
    let mut input = io::stdin().lock();
    for number in 1_u64.. {
        line.clear();
        let read = input.read_until(b'\n', &mut line);
        if read.map_err(|error| Failure::Message(format!("standard input: {error}")))? == 0 {
            break;
        }
        let taken = match std::str::from_utf8(&line).map(str::trim) {
            Ok("") => Ok(()),
            Ok(text) => take(text),
            Err(_) => Err("not UTF-8".to_owned()),
        };
        if let Err(error) = taken {
            report_error(&format!("line {number}: {error}"));
            is_whole = false;
        }
    }
    Ok(is_whole)
}

/// Reads one line of JSON, which is its own line 1.
fn from_line<T: DeserializeOwned>(line: &str) -> Result<T, String> {
    serde_json::from_str(line).map_err(|error| error.to_string().replace(" at line 1 column ", " at column "))
}

/// Of a key that is there twice the last value counts, so that those of a line are behind those of the options.
fn with_own(common: &[Attribute], own: Map<String, Json>) -> Vec<Attribute> {
    common.iter().cloned().chain(own).collect()
}
