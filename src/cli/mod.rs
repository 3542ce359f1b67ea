//! The command-line tool. Each command reads its input, hands it to pure code that draws lines, and prints them.

mod arguments;
mod caller;
mod check;
mod demo;
mod describe;
#[path = "../config/escape.rs"]
mod escape;
mod help;
mod init;
mod interrupt;
mod ledger;
mod logs;
mod metrics_table;
mod paint;
mod points;
mod receive;
mod shop;
mod snippet;
mod spark;
mod suggest;
mod text;
mod waterfall;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use arguments::Command;
use caller::Caller;
use paint::{Look, Surroundings};
use receive::Layout;

/// What a command line that makes no sense exits with, and a file that cannot be read.
const UNUSABLE: u8 = 2;

/// Does what the words after the program's name ask for.
pub(crate) fn run(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments = match arguments::parse(words) {
        Ok(arguments) => arguments,
        Err(error) => {
            complain(&format!("{error}\ntry: standpipe --help"));
            return ExitCode::from(UNUSABLE);
        }
    };
    let surroundings = Surroundings::of_stdout();
    let look = Look::decide(arguments.color, arguments.ascii, &surroundings);
    let outcome = match arguments.command {
        Command::Demo(order) => demo::run(&order, &Caller::of_process(), &look),
        Command::Receive(addresses) => {
            let layout = if surroundings.is_terminal { Layout::Cut } else { Layout::Whole };
            receive::run(addresses, layout, &look)
        }
        Command::Check(order) => check::run(&order, &look),
        Command::Init(order) => init::run(&order, &look),
        Command::Help(topic) => say(topic.text().trim_end()),
        Command::Version => say(concat!("standpipe ", env!("CARGO_PKG_VERSION"))),
    };
    match outcome {
        Ok(code) => code,
        // Whoever read has read enough: `standpipe receive | head`.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(Failure::Output(error)) => {
            complain(&format!("standard output: {error}"));
            ExitCode::FAILURE
        }
        Err(Failure::Message(message)) => {
            complain(&message);
            ExitCode::FAILURE
        }
    }
}

/// Why a command could not do its work.
#[derive(Debug)]
enum Failure {
    /// What it had to say could not be written.
    Output(io::Error),
    /// Anything else, in words.
    Message(String),
}

fn say(text: &str) -> Result<ExitCode, Failure> {
    print(&[text])?;
    Ok(ExitCode::SUCCESS)
}

/// Writes lines to standard output, all at once.
fn print(lines: &[impl AsRef<str>]) -> Result<(), Failure> {
    let mut text = String::new();
    for line in lines {
        text.push_str(line.as_ref());
        text.push('\n');
    }
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(Failure::Output)
}

/// Says on standard error what went wrong. If even that fails there is nobody left to tell.
fn complain(message: &str) {
    let _ = writeln!(io::stderr(), "standpipe: {message}");
}
