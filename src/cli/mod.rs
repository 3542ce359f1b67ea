//! The command-line tool.
//!
//! | command | files |
//! |---|---|
//! | `standpipe demo` | `demo.rs`, the program that it runs in `demo_program.rs`, the caller's trace in `caller.rs` |
//! | `standpipe receive` | `receive/`, what it shows in `view/`, its page in `page/`, Ctrl-C in `interrupt.rs` |
//! | `standpipe show` | `show.rs`, and `view/` again |
//! | `standpipe check` | `check/`, the quoted line of a problem in `snippet.rs` |
//! | `standpipe init` | `init/`, with the files that it writes |
//! | `standpipe exec` | `exec/` |
//! | `standpipe span`, `log`, `metric` | `record/`; what they share with `exec`: `sender.rs` |
//! | `standpipe spool`, `drain` | `spool.rs` |
//! | `standpipe completions`, `man` | `manual.rs` |
//!
//! The options of a command are a struct beside the command, from which clap derives the parser, the help, the completions
//! and the manual page.
//!
//! Each command reads its input, draws lines by pure code and prints them. What is drawn: `waterfall/`,
//! `metrics_table.rs`, `ledger.rs`; how records are shown as text: `describe.rs` (spans and logs),
//! `series.rs` (metrics); what all drawings share: `style.rs`, `table.rs`, `text.rs`;
//! the terminal, and the bar of what takes long: `terminal.rs`.

mod caller;
mod check;
mod demo;
mod demo_program;
mod describe;
mod exec;
mod init;
mod interrupt;
mod ledger;
mod manual;
mod metrics_table;
mod page;
mod receive;
mod record;
mod sender;
mod series;
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

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use caller::Caller;
use standpipe::escape::{escape_all_but, shows_itself};
use style::{ColorChoice, Style};
use terminal::TerminalInfo;

/// The exit code for an invalid command line, and for a file that cannot be read.
const UNUSABLE: u8 = 2;

/// The name of a link to this program that is `standpipe exec --`: for tools that take the name of a program and nothing
/// else, as `RUSTC_WRAPPER` of cargo.
const EXEC_LINK: &str = "standpipe-exec";

/// Options whose values may be secrets, which no message repeats.
const SECRET_OPTIONS: [&str; 3] = ["--attr", "--endpoint", "--header"];

const AFTER_HELP: &str = "\
Examples:
  standpipe receive
  standpipe exec -- make test
  standpipe check --env

Exit code: 0 if all went well, 1 if not, 2 if the command line is invalid; exec ends as its command";

/// OTLP export for programs without an async runtime.
#[derive(Debug, Parser)]
#[command(name = "standpipe", version, after_help = AFTER_HELP, max_term_width = 100)]
#[command(arg_required_else_help = false, args_override_self = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// When to use colors; auto uses them on a terminal unless NO_COLOR is set.
    #[arg(long, value_name = "WHEN", value_enum, default_value_t, global = true, display_order = 100)]
    color: ColorChoice,
    /// Draw with ASCII only, as is done in a locale other than UTF-8.
    #[arg(long, global = true, display_order = 100)]
    ascii: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Options),
    Receive(receive::Options),
    Show(show::Options),
    Check(check::Options),
    Init(init::Options),
    Exec(exec::Options),
    Span(Box<record::SpanOptions>),
    Log(record::LogOptions),
    Metric(record::MetricOptions),
    Spool(spool::SpoolOptions),
    Drain(spool::DrainOptions),
    Completions(manual::CompletionsOptions),
    Man(manual::ManOptions),
}

/// Runs the command that the program's name and its arguments select.
pub(crate) fn run(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut words: Vec<OsString> = words.into_iter().collect();
    let is_link =
        |program: &OsString| PathBuf::from(program).file_stem().is_some_and(|name| name == EXEC_LINK);
    if words.first().is_some_and(is_link) {
        words.splice(1..1, ["exec".into(), "--".into()]);
    }
    let matches = match Arguments::command().try_get_matches_from(words) {
        Ok(matches) => matches,
        Err(error) => return exit_code(refuse(error)),
    };
    let outcome = match Arguments::from_arg_matches(&matches) {
        Ok(arguments) => run_command(arguments),
        Err(error) => refuse(error),
    };
    exit_code(outcome.map_err(|failure| match failure {
        Failure::Usage(message) => {
            let command = matches.subcommand_name().unwrap_or_default();
            Failure::Usage(format!("{message}\ntry: standpipe {command} --help"))
        }
        other => other,
    }))
}

fn run_command(arguments: Arguments) -> Result<ExitCode, Failure> {
    let terminal = TerminalInfo::of_stdout();
    let style = Style::decide(arguments.color, arguments.ascii, &terminal);
    match arguments.command {
        Command::Demo(options) => demo::run(&options, &Caller::of_process(), &style),
        Command::Receive(options) => receive::run(&options, &terminal, &style),
        Command::Show(options) => show::run(&options, &terminal, &style),
        Command::Check(options) => check::run(&options, &style),
        Command::Init(options) => init::run(&options, &style),
        Command::Exec(options) => exec::run(&options),
        Command::Span(options) => record::span(*options),
        Command::Log(options) => record::log(&options),
        Command::Metric(options) => record::metric(&options),
        Command::Spool(options) => spool::show(&options, &style),
        Command::Drain(options) => spool::drain(&options, &style),
        Command::Completions(options) => manual::print_completions(&options),
        Command::Man(_) => manual::print_page(),
    }
}

/// Prints the help or the version if that is what was asked for; otherwise reports why the command line is invalid, without
/// secrets and without words that would forge lines of the message.
fn refuse(mut error: clap::Error) -> Result<ExitCode, Failure> {
    if !error.use_stderr() {
        return print_text(error.to_string().trim_end());
    }
    let option = error.get(ContextKind::InvalidArg).map(ToString::to_string).unwrap_or_default();
    let is_secret = SECRET_OPTIONS.iter().any(|secret| option.starts_with(secret));
    let repeated: Vec<_> = error.context().map(|(kind, value)| (kind, value.clone())).collect();
    for (kind, value) in repeated {
        let harmless = match value {
            ContextValue::String(_) if is_secret && kind == ContextKind::InvalidValue => {
                ContextValue::String("***".to_owned())
            }
            ContextValue::String(word) => ContextValue::String(text::name(word)),
            ContextValue::StyledStrs(tips) => {
                let is_line = |tip: &StyledStr| !tip.to_string().contains('\n');
                ContextValue::StyledStrs(tips.into_iter().filter(is_line).collect())
            }
            other => other,
        };
        error.insert(kind, harmless);
    }
    let message = error.to_string();
    report_error(message.strip_prefix("error: ").unwrap_or(&message).trim_end());
    Ok(ExitCode::from(UNUSABLE))
}

fn exit_code(outcome: Result<ExitCode, Failure>) -> ExitCode {
    let (message, code) = match outcome {
        Ok(code) => return code,
        // The reader has read enough: `standpipe receive | head`.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => return ExitCode::SUCCESS,
        Err(Failure::Output(error)) => (format!("standard output: {error}"), ExitCode::FAILURE),
        Err(Failure::Message(message)) => (message, ExitCode::FAILURE),
        Err(Failure::Usage(message)) => (message, ExitCode::from(UNUSABLE)),
    };
    report_error(&message);
    code
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
    let text: String = lines.iter().flat_map(|line| [line.as_ref(), "\n"]).collect();
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(Failure::Output)
}

/// Prints an error to standard error, with everything escaped that a terminal would obey, but for line ends. If that fails there
/// is no place left to report it.
fn report_error(message: &str) {
    let message = escape_all_but(|c| c == '\n' || shows_itself(c), message);
    let _ = writeln!(io::stderr(), "standpipe: {message}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definitions_of_all_options_are_consistent() {
        Arguments::command().debug_assert();
    }
}
