//! The command-line tool.
//!
//! | command | files |
//! |---|---|
//! | `standpipe demo` | `demo.rs`; `demo_program.rs` (the program that it runs), `caller.rs` (the caller's trace) |
//! | `standpipe receive` | `receive/`; `live/` (on a terminal), `view/` (other output), `page/` (web page), `interrupt.rs` |
//! | `standpipe show` | `show.rs`; `live/` (on a terminal), `view/` (other output) |
//! | `standpipe check` | `check/`; `snippet.rs` (quotes the line of a problem) |
//! | `standpipe init` | `init/`, with the files that it writes |
//! | `standpipe exec` | `exec/`; `sender.rs` (delivery) |
//! | `standpipe span`, `log`, `metric` | `record/`; `sender.rs` (delivery) |
//! | `standpipe spool`, `drain` | `spool.rs` |
//! | `standpipe completions`, `man` | this file: both are derived from the definitions of the options |
//!
//! Each command defines its options as a struct in its own module. From these structs, clap derives the parser, the
//! help, the completions and the manual page: a doc comment on an option is its help text. The files in `help/` contain
//! the examples and exit codes that the help lists below the options, and the keys of the interactive view.
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
mod live;
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
use std::iter;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;

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

/// Options of otel-cli that this command does not have, and what replaces them.
const OTEL_CLI_OPTIONS: [(&str, &str); 23] = [
    ("--attrs", "--attr KEY=VALUE, once for each attribute"),
    ("--config", "OpenTelemetry's environment variables"),
    ("--force-parent-span-id", "--parent TRACEPARENT"),
    ("--force-span-id", "no option: each span gets a new random id"),
    ("--force-trace-id", "--parent TRACEPARENT"),
    ("--insecure", "an endpoint that begins with http://"),
    ("--otlp-blocking", "no option: each command waits until its records are delivered"),
    ("--otlp-headers", "--header NAME=VALUE, once for each header"),
    ("--protocol", "--grpc"),
    ("--sockdir", "span start --file FILE"),
    ("--status-code", "--status"),
    ("--status-description", "--message"),
    ("--tls-ca-cert", "--ca-file"),
    ("--tls-client-cert", "--client-certificate-file"),
    ("--tls-client-key", "--client-key-file"),
    ("--tls-no-verify", "--ca-file FILE, with the certificate of the server"),
    ("--tp-carrier", "--parent FILE"),
    ("--tp-disable-inject", "OTEL_PROPAGATORS=none"),
    ("--tp-export", "exec --print-to FILE"),
    ("--tp-ignore-env", "env -u TRACEPARENT standpipe"),
    ("--tp-print", "exec --print-to stderr"),
    ("--tp-required", "test -n \"$TRACEPARENT\" before the command"),
    ("--traces-endpoint", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"),
];

/// Bash code that completes the command after `exec --` like any other command line.
const BASH_EXEC: &str = include_str!("complete_exec.bash");

/// Fish code that completes the command after `exec --` like any other command line.
const FISH_EXEC: &str =
    "complete -c standpipe -n '__fish_seen_subcommand_from exec' -x -a '(__fish_complete_subcommand)'\n";

/// OTLP export for programs without an async runtime.
#[derive(Debug, Parser)]
#[command(name = "standpipe", version, max_term_width = 100)]
#[command(after_help = include_str!("help/standpipe.txt").trim_ascii_end())]
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
    /// Prints a script that completes command lines of standpipe in a shell.
    ///
    /// The script completes commands, options and their values and, after exec --, the command that exec runs.
    #[command(after_help = include_str!("help/completions.txt").trim_ascii_end())]
    Completions {
        #[arg(value_name = "SHELL")]
        shell: Shell,
    },
    /// Prints the manual page, with the help of each command.
    #[command(after_help = include_str!("help/man.txt").trim_ascii_end())]
    Man,
}

/// Runs the command that the program's name and its arguments select.
pub(crate) fn run(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut words: Vec<OsString> = words.into_iter().collect();
    // If this program is started through a link, `argv[0]` is the name or the path of the link.
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
        Command::Completions { shell } => print_completions(shell),
        Command::Man => print_manual(),
    }
}

/// Prints the help or the version, if requested. Otherwise reports why the command line is invalid.
///
/// The message does not repeat secrets, and escapes line ends in arguments, which could imitate lines of the message.
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
            // A tip may quote an argument that contains line ends, so tips with line ends are left out.
            ContextValue::StyledStrs(tips) => {
                let is_line = |tip: &StyledStr| !tip.to_string().contains('\n');
                ContextValue::StyledStrs(tips.into_iter().filter(is_line).collect())
            }
            other => other,
        };
        error.insert(kind, harmless);
    }
    let message = error.to_string();
    let message = message.strip_prefix("error: ").unwrap_or(&message).trim_end();
    // For an option of otel-cli, the message names our replacement, after clap's guess of a similar option, if any.
    let is_meant = |(name, _): &&(&str, &str)| error.kind() == ErrorKind::UnknownArgument && *name == option;
    let tip = OTEL_CLI_OPTIONS.iter().find(is_meant);
    let tip = tip.map(|(name, ours)| format!("tip: instead of {name} of otel-cli, use {ours}"));
    let message = [message].into_iter().chain(tip.as_deref()).collect::<Vec<_>>().join("\n\n  ");
    report_error(&message);
    Ok(ExitCode::from(UNUSABLE))
}

fn exit_code(outcome: Result<ExitCode, Failure>) -> ExitCode {
    let (message, code) = match outcome {
        Ok(code) => return code,
        // A reader that closes the pipe early is normal: `standpipe receive | head`.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => return ExitCode::SUCCESS,
        Err(Failure::Output(error)) => (format!("write to stdout: {error}"), ExitCode::FAILURE),
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
    Failure::Message(format!("a thread cannot be started: {error}; raise the limit of processes (ulimit -u)"))
}

/// Calls `on_first` at the first Ctrl-C or SIGTERM. The same signal a second time ends the process at once.
fn on_interrupt(on_first: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    let handled = interrupt::on_interrupt(on_first);
    handled.map_err(|error| Failure::Message(format!("Ctrl-C cannot be handled: {error}")))
}

fn print_completions(shell: Shell) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "standpipe", &mut script);
    let mut script = String::from_utf8_lossy(&script).into_owned();
    match shell {
        Shell::Bash => script += BASH_EXEC,
        Shell::Fish => script += FISH_EXEC,
        _ => {}
    }
    print_text(script.trim_end())
}

/// Prints the manual page of the program, followed by those of its commands.
fn print_manual() -> Result<ExitCode, Failure> {
    let mut page = Vec::new();
    let mut program = Arguments::command().disable_help_subcommand(true);
    program.build();
    for command in iter::once(&program).chain(program.get_subcommands()) {
        clap_mangen::Man::new(command.clone()).render(&mut page).map_err(Failure::Output)?;
    }
    print_text(String::from_utf8_lossy(&page).trim_end())
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
