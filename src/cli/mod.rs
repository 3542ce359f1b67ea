//! The command-line tool: where is the code of each command?
//!
//! | command | files |
//! |---|---|
//! | `standpipe demo` | `demo.rs`, the program that it runs in `demo_program.rs`, the caller's trace in `caller.rs` |
//! | `standpipe receive` | `receive/`, what it shows in `view/`, its page in `page/`, Ctrl-C in `interrupt.rs` |
//! | `standpipe show` | `show.rs`, and `view/` again |
//! | `standpipe check` | `check/`, the quoted line of a problem in `snippet.rs` |
//! | `standpipe init` | `init/`, with the files that it writes |
//! | `standpipe exec` | `exec/` |
//! | `standpipe span`, `log`, `metric` | `record/`; where they and `exec` send: `sender.rs`, attributes: `attribute.rs` |
//! | `standpipe spool` | `spool.rs` |
//! | `standpipe drain` | `drain.rs` |
//! | `standpipe completions`, `man` | `completions.rs`, `man.rs` |
//! | `--help`, options | `help.rs`, `arguments.rs`; `given.rs` of commands whose help is their table |
//!
//! Each command reads its input, draws lines by pure code and prints them. What is drawn: `waterfall/`,
//! `metrics_table/`, `ledger.rs`; how records are shown as text: `describe.rs` (spans), `log_view.rs`,
//! `point_view.rs`; what all drawings share: `style.rs`, `table.rs`, `text.rs`;
//! the bar of what takes long: `progress.rs`.

mod arguments;
mod attribute;
mod caller;
mod check;
mod completions;
mod demo;
mod demo_program;
mod describe;
mod drain;
mod exec;
mod given;
mod help;
mod init;
mod interrupt;
mod ledger;
mod log_view;
mod man;
mod metrics_table;
mod page;
mod point_view;
mod progress;
mod receive;
mod record;
mod sender;
mod show;
mod snippet;
mod spool;
mod style;
mod table;
mod terminal;
mod text;
mod view;
mod waterfall;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use arguments::Command;
use caller::Caller;
use given::Given;
use help::Topic;
use standpipe::escape::{escape_all_but, shows_itself};
use style::{Style, TerminalInfo};

/// The exit code for an invalid command line, and for a file that cannot be read.
const UNUSABLE: u8 = 2;

/// The name of a link to this program that is `standpipe exec --`: for tools that take the name of a program and nothing
/// else, as `RUSTC_WRAPPER` of cargo.
const EXEC_LINK: &str = "standpipe-exec";

/// Runs the command that the program's name and its arguments select.
pub(crate) fn run(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut words = words.into_iter();
    let program = words.next().map(PathBuf::from).unwrap_or_default();
    let is_link = program.file_stem().is_some_and(|name| name == EXEC_LINK);
    let before: &[&str] = if is_link { &["exec", "--"] } else { &[] };
    let arguments: Vec<OsString> = before.iter().map(OsString::from).chain(words).collect();
    let command = arguments.iter().find_map(|word| Topic::of(word.to_str()?));
    let arguments = match arguments::parse(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            let command = command.map(|topic| format!("{} ", topic.command())).unwrap_or_default();
            return exit_code(Err(Failure::Usage(format!("{error}\ntry: standpipe {command}--help"))));
        }
    };
    let terminal = match &arguments.command {
        // These draw nothing, and the terminal is asked by a process, which would be a second child of `exec`.
        Command::Given(_) => TerminalInfo::default(),
        _ => TerminalInfo::of_stdout(),
    };
    let style = Style::decide(arguments.color, arguments.ascii, &terminal);
    let outcome = match arguments.command {
        Command::Demo(order) => demo::run(&order, &Caller::of_process(), &style),
        Command::Receive(options) => receive::run(&options, &terminal, &style),
        Command::Show(options) => show::run(&options, &terminal, &style),
        Command::Check(options) => check::run(&options, &style),
        Command::Init(options) => init::run(&options, &style),
        Command::Spool(directory) => spool::run(&directory, &style),
        Command::Drain(options) => drain::run(&options, &style),
        Command::Given(given) => run_given(&given),
        Command::Help(topic) => print_text(topic.text().trim_end()),
        Command::Version => print_text(concat!("standpipe ", env!("CARGO_PKG_VERSION"))),
    };
    exit_code(outcome)
}

fn run_given(given: &Given) -> Result<ExitCode, Failure> {
    let outcome = match given.topic {
        Topic::Exec => exec::run(given),
        Topic::Completions => completions::run(given),
        Topic::Man => man::run(),
        _ => record::run(given),
    };
    outcome.map_err(|failure| match failure {
        Failure::Usage(message) => {
            Failure::Usage(format!("{message}\ntry: standpipe {} --help", given.topic.command()))
        }
        other => other,
    })
}

fn exit_code(outcome: Result<ExitCode, Failure>) -> ExitCode {
    match outcome {
        Ok(code) => code,
        // The reader has read enough: `standpipe receive | head`.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(Failure::Output(error)) => {
            report_error(&format!("standard output: {error}"));
            ExitCode::FAILURE
        }
        Err(Failure::Message(message)) => {
            report_error(&message);
            ExitCode::FAILURE
        }
        Err(Failure::Usage(message)) => {
            report_error(&message);
            ExitCode::from(UNUSABLE)
        }
    }
}

/// Why a command could not do its work.
#[derive(Debug)]
enum Failure {
    /// Standard output could not be written.
    Output(io::Error),
    /// The command line is invalid: how, and which help explains it.
    Usage(String),
    /// Anything else, as a message.
    Message(String),
}

fn print_text(text: &str) -> Result<ExitCode, Failure> {
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

/// Prints an error to standard error, with everything escaped that a terminal would obey, but for line ends. If that fails there
/// is no place left to report it.
fn report_error(message: &str) {
    let message = escape_all_but(|c| c == '\n' || shows_itself(c), message);
    let _ = writeln!(io::stderr(), "standpipe: {message}");
}
