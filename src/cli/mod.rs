//! The command-line tool.
//!
//! | command | files |
//! |---|---|
//! | `standpipe demo` | `demo.rs`; `demo_program.rs` (the program that it runs), `caller.rs` (the caller's trace) |
//! | `standpipe receive` | `receive/`; `view/` (output), `page/` (web page), `interrupt.rs` (Ctrl-C) |
//! | `standpipe show` | `show.rs`; `view/` (output) |
//! | `standpipe check` | `check/`; `snippet.rs` (quotes the line of a problem) |
//! | `standpipe init` | `init/`, with the files that it writes |
//! | `standpipe exec` | `exec/`; `sender.rs` (delivery) |
//! | `standpipe span`, `log`, `metric` | `record/`; `sender.rs` (delivery) |
//! | `standpipe spool`, `drain` | `spool.rs` |
//! | `standpipe completions`, `man` | `manual.rs` |
//!
//! Each command defines its options as a struct in its own module. From these structs, clap derives the parser, the
//! help, the completions and the manual page: a doc comment on an option is its help text.
//!
//! Each command reads its input, turns it into lines with pure code, and prints the lines:
//!
//! | task | files |
//! |---|---|
//! | drawings | `waterfall/` (traces), `metrics_table.rs`, `ledger.rs` |
//! | records as text | `describe.rs` (spans and logs), `series.rs` (metrics) |
//! | layout | `style.rs` (colors, lines), `table.rs` (columns), `text.rs` (safe characters, widths) |
//! | terminal | `terminal.rs` (width, abilities, progress bar) |

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
use standpipe::shared::{escape_all_but, shows_itself};
use style::{ColorChoice, Style};
use terminal::TerminalInfo;

/// Exit code for an invalid command line, and for a file that cannot be read.
const UNUSABLE: u8 = 2;

/// File name of a link to this program that acts as `standpipe exec --`. Some tools, such as cargo with
/// `RUSTC_WRAPPER`, accept the name of a program but no arguments.
const EXEC_LINK: &str = "standpipe-exec";

/// Options whose values may be secrets. Error messages do not repeat these values.
const SECRET_OPTIONS: [&str; 3] = ["--attr", "--endpoint", "--header"];

const AFTER_HELP: &str = "\
Examples:
  standpipe receive
  standpipe exec -- make test
  standpipe check --env

Exit code: 0 on success, 1 on failure, 2 if the command line is invalid; exec exits as its command
           does";

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
    /// Draw with ASCII characters only. This is the default if the locale is not UTF-8.
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
    // `argv[0]` of a link has the name of the link.
    let is_link =
        |program: &OsString| PathBuf::from(program).file_stem().is_some_and(|name| name == EXEC_LINK);
    if words.first().is_some_and(is_link) {
        words.splice(1..1, ["exec".into(), "--".into()]);
    }
    let matches = match Arguments::command().try_get_matches_from(words) {
        Ok(matches) => matches,
        Err(error) => return exit_code(refuse(error)),
    };
    let outcome = Arguments::from_arg_matches(&matches).map_or_else(refuse, run_command);
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

/// Prints the help or the version, if requested. Otherwise reports why the command line is invalid.
///
/// The message does not repeat secrets, and escapes line ends in arguments: they could imitate lines of the message.
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
            // A tip may quote an argument, so tips with line ends are left out.
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
        // A reader that closes the pipe early is normal: `standpipe receive | head`.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => return ExitCode::SUCCESS,
        Err(Failure::Output(error)) => (format!("standard output: {error}"), ExitCode::FAILURE),
        Err(Failure::Message(message)) => (message, ExitCode::FAILURE),
        Err(Failure::Usage(message)) => (message, ExitCode::from(UNUSABLE)),
    };
    report_error(&message);
    code
}

/// Reason why a command failed.
#[derive(Debug)]
enum Failure {
    /// Standard output could not be written.
    Output(io::Error),
    /// The command line is invalid. A hint to run the command with `--help` is appended to the message.
    Usage(String),
    /// Any other reason.
    Message(String),
}

fn cannot_start(error: io::Error) -> Failure {
    Failure::Message(format!("cannot start: {error}"))
}

fn print_text(text: &str) -> Result<ExitCode, Failure> {
    print(&[text])?;
    Ok(ExitCode::SUCCESS)
}

/// Writes lines to standard output in one call.
fn print(lines: &[impl AsRef<str>]) -> Result<(), Failure> {
    let text: String = lines.iter().flat_map(|line| [line.as_ref(), "\n"]).collect();
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(Failure::Output)
}

/// Prints an error to standard error. Escapes all characters that could control a terminal, except for line ends.
fn report_error(message: &str) {
    let message = escape_all_but(|c| c == '\n' || shows_itself(c), message);
    // If standard error cannot be written, there is no other place for the message.
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
