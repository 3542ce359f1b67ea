//! The command-line tool. Each command reads its input, hands it to pure code that draws lines, and prints them.

mod arguments;
mod check;
mod describe;
mod help;
mod ledger;
mod paint;
mod receive;
mod snippet;
mod text;
mod waterfall;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use arguments::Command;
use paint::{Look, Surroundings};

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
        Command::Help(topic) => print(&[topic.text().trim_end()]).map(|()| ExitCode::SUCCESS),
        Command::Version => {
            print(&[concat!("standpipe ", env!("CARGO_PKG_VERSION"))]).map(|()| ExitCode::SUCCESS)
        }
        _ => Ok(ExitCode::SUCCESS),
    };
    match outcome {
        Ok(code) => code,
        // Whoever read has read enough: `standpipe receive | head`.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            complain(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

/// Writes lines to standard output, all at once.
fn print(lines: &[impl AsRef<str>]) -> io::Result<()> {
    let mut text = String::new();
    for line in lines {
        text.push_str(line.as_ref());
        text.push('\n');
    }
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// Says on standard error what went wrong. If even that fails there is nobody left to tell.
fn complain(message: &str) {
    let _ = writeln!(io::stderr(), "standpipe: {message}");
}
