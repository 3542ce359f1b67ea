//! `standpipe exec`: a command, inside a span.

mod output;
mod process;

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use clap::{Args, ValueHint};
use standpipe::{Baggage, Span, SpanContext, Status};

use super::sender::{self, AsValue, Attributes, Destination, Kind, NAME, Parent, Sender};
use super::{Failure, caller, report_error, text};

/// How long the end of the command is delayed at most, unless an option says otherwise.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(1);
/// As shells have them.
const NOT_EXECUTABLE: i32 = 126;
const NOT_FOUND: i32 = 127;
/// Programs that run the text behind `-c`.
const SHELLS: [&str; 8] = ["sh", "bash", "dash", "ash", "ksh", "mksh", "zsh", "fish"];
/// Longest span name that is made of a shell's text, in terminal cells.
const MAX_TEXT_NAME: usize = 60;
const EXPORTERS: [&str; 3] = ["OTEL_TRACES_EXPORTER", "OTEL_LOGS_EXPORTER", "OTEL_METRICS_EXPORTER"];

/// Runs a command inside a span.
///
/// Runs COMMAND inside a span and ends as it does. The span is part of the trace in TRACEPARENT and TRACESTATE, if they are
/// set, and COMMAND gets both for its own span, and BAGGAGE: nested commands give one tree. Standard input, output and error
/// are those of COMMAND; nothing else is printed. SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 and SIGWINCH are
/// forwarded to COMMAND; after its end they end the delivery. As process 1 of a container, standpipe also reaps orphans.
///
/// OpenTelemetry's environment variables, as OTEL_EXPORTER_OTLP_ENDPOINT, say where to send; http://localhost:4318 if they are
/// not set. If the collector is down, nothing is reported, and the end is delayed by --timeout at most.
///
/// The span has process.executable.name, process.pid, process.exit.code, process.exit.signal, the processor time of COMMAND
/// and of the processes that it waited for (process.cpu.time.user, process.cpu.time.system, in seconds), and its peak memory
/// (process.memory.max_rss, in bytes, if it is more than that of standpipe). An exit code other than 0 is an error. Of the
/// command line only the file name of COMMAND is recorded, unless --args is given.
#[derive(Debug, Args)]
#[command(override_usage = "standpipe exec [OPTIONS] [--] COMMAND [ARGUMENT]...")]
#[command(after_help = "\
{{traceparent}}, {{trace_id}} and {{span_id}} in an ARGUMENT are replaced by those of the span.

Environment:
  OTEL_CLI_SPAN_NAME, OTEL_CLI_TRACE_KIND, OTEL_CLI_ATTRIBUTES (k=v,k=v), OTEL_CLI_SERVICE_NAME,
  OTEL_CLI_CARRIER_FILE, OTEL_CLI_FAIL and OTEL_CLI_VERBOSE are used where the option is not given.

A link to standpipe called standpipe-exec is standpipe exec --, as for RUSTC_WRAPPER=standpipe-exec.

Examples:
  standpipe exec -- make test
  standpipe exec --name backup --attr disk=a --attr level:=2 -- ./backup.sh
  standpipe exec --log-output -- sh -c 'echo one; echo two >&2'
  standpipe exec -- curl -H 'traceparent: {{traceparent}}' http://localhost:8080/
  make SHELL=standpipe .SHELLFLAGS='exec --args -- /bin/sh -c'

Exit code: that of COMMAND, or the signal that ended it, which a shell shows as 128+N (128+N itself
           if it dumps a core); 126 if COMMAND cannot be executed, 127 if it is not found; 1 with
           --fail, or if the file of --print-to cannot be written; 2 if the command line is invalid")]
pub(crate) struct Options {
    /// The command to run, and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_hint = ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
    /// The name of the span; the file name of COMMAND if it is not given.
    #[arg(short, long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    attributes: Attributes,
    /// The kind of the span; client if it is not given.
    #[arg(short, long, value_name = "KIND")]
    kind: Option<Kind>,
    #[command(flatten)]
    destination: Destination,
    #[command(flatten)]
    parent: Parent,
    /// Write TRACEPARENT=... of the span to FILE before COMMAND starts; stderr writes it to standard error.
    #[arg(long, value_name = "FILE")]
    print_to: Option<PathBuf>,
    /// Also emit the lines of standard output and error as log records in the span. COMMAND sees pipes then, and no
    /// terminal; processes that it leaves running can write no more after its end.
    #[arg(long)]
    log_output: bool,
    /// Also record the command line as process.command_args, unchanged: a password or token in it is recorded and sent.
    /// Unless --name is given, the span of sh -c TEXT is named after the beginning of TEXT.
    #[arg(long)]
    args: bool,
    /// Exit with 1 if COMMAND succeeded and the telemetry was not delivered.
    #[arg(long)]
    fail: bool,
}

impl Options {
    fn program(&self) -> &OsStr {
        &self.command[0]
    }

    fn arguments(&self) -> &[OsString] {
        &self.command[1..]
    }

    fn name(&self) -> String {
        let text_name = || shell_text(self.program(), self.arguments()).filter(|_| self.args);
        let name = self.name.clone().or_else(|| sender::of_environment("OTEL_CLI_SPAN_NAME"));
        name.or_else(text_name).unwrap_or_else(|| file_name(self.program()))
    }

    /// The variables without exporters that print to standard output, which belongs to the command.
    fn variables(&self) -> Vec<(String, OsString)> {
        let mut variables = self.destination.variables(&[]);
        for (_, value) in variables.iter_mut().filter(|(name, _)| EXPORTERS.contains(&name.as_str())) {
            let chosen = value.to_string_lossy().into_owned();
            let others: Vec<_> = chosen.split(',').filter(|exporter| exporter.trim() != "console").collect();
            *value = if others.is_empty() { "none".into() } else { others.join(",").into() };
        }
        variables
    }
}

/// Runs the command and ends as it did; returns only if it was not started at all.
pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let is_verbose = options.destination.is_verbose();
    let timeout = options.destination.timeout.unwrap_or(DEFAULT_TIMEOUT);
    let from = options.parent.caller(is_verbose);
    // a line of output waits for room in the queue: longer than a collector that is up needs, and once if it is down
    let patience = options.log_output.then_some(timeout / 4);
    let sender = Sender::start(&options.destination, options.variables(), patience)?;
    let _baggage = env::var("BAGGAGE").ok().map(|header| Baggage::from_header(&header).enter());
    let tracer = sender.telemetry.tracer_with_version(NAME, env!("CARGO_PKG_VERSION"));
    let kind = options.kind.or_else(|| sender::choice("OTEL_CLI_TRACE_KIND")).unwrap_or(Kind::Client);
    let name = options.name();
    let span = tracer.span_builder(&name).kind(kind.into());
    let mut span = match &from.context {
        Some(parent) => span.parent(parent).start(),
        None => span.root().start(),
    };
    // A span that is sampled and not recorded has no exporter: the command then sees what this one saw.
    let context = Some(span.context().clone()).filter(|context| span.is_recording() || !context.is_sampled());
    let context = context.or(from.context);
    let command = command(options, context.as_ref());
    describe(&mut span, options, &command);
    if let (Some(file), Some(context)) = (&options.print_to, &context) {
        print_to(file, context)?;
    }
    if let (Some(context), true) = (&context, is_verbose) {
        report_error(&format!("trace {} span {}", context.trace_id(), context.span_id()));
    }
    let (ended, copies) = start(command, options, &sender, &mut span);
    let mut code = match &ended {
        Ok(ended) => record_end(&mut span, ended),
        Err(error) => record_failure(&mut span, options.program(), error),
    };
    span.end();
    copies.into_iter().for_each(output::Copies::finish);
    let delivered = sender.finish(timeout);
    if let (Err(trouble), true) = (delivered, options.fail || sender::is_on("OTEL_CLI_FAIL")) {
        report_error(&trouble);
        code = if code == 0 { 1 } else { code };
    }
    if let Some(signal) = ended.ok().and_then(|(status, _)| process::signal_of(status)) {
        process::end_by(signal);
    }
    // a code of Windows has 32 bits, and an `ExitCode` has 8
    std::process::exit(code);
}

/// Builds the command: with the place-holders in its arguments filled in, and the span and service for nested commands.
fn command(options: &Options, context: Option<&SpanContext>) -> Command {
    let mut command = Command::new(options.program());
    command.args(options.arguments().iter().map(|argument| fill(argument, context)));
    if let Some(context) = context {
        command.env_remove("TRACESTATE");
        context.inject(|name, value| {
            command.env(name.to_ascii_uppercase(), value);
        });
    }
    if let Some(service) = &options.destination.service {
        // OTEL_SERVICE_NAME would rename programs that have telemetry of their own
        command.env(sender::SERVICE_NAME, service);
    }
    command
}

/// An argument with the ids of the span in place of `{{traceparent}}` and the like.
fn fill(argument: &OsStr, context: Option<&SpanContext>) -> OsString {
    match (argument.to_str(), context) {
        (Some(text), Some(context)) if text.contains("{{") => text
            .replace("{{traceparent}}", &context.traceparent())
            .replace("{{trace_id}}", &context.trace_id().to_string())
            .replace("{{span_id}}", &context.span_id().to_string())
            .into(),
        _ => argument.to_owned(),
    }
}

/// Starts it and waits for its end; what it printed may still be on its way, if that is logged.
fn start(
    mut command: Command,
    options: &Options,
    sender: &Sender,
    span: &mut Span,
) -> (io::Result<process::Ended>, Option<output::Copies>) {
    let logger = sender.telemetry.logger_with_version(NAME, env!("CARGO_PKG_VERSION"));
    let context = span.context().clone();
    let copies = options.log_output.then(|| output::Copies::start(&mut command, &logger, &context));
    if let (Some(Err(error)), true) = (&copies, options.destination.is_verbose()) {
        report_error(&format!("the output is not logged: {error}"));
    }
    let mut copies = copies.and_then(Result::ok);
    let ended = process::run(&mut command, |child| {
        span.set("process.pid", child.id());
        copies.iter_mut().for_each(|copies| copies.copy(child));
    });
    (ended, copies)
}

fn describe(span: &mut Span, options: &Options, command: &Command) {
    span.set("process.executable.name", file_name(options.program()));
    if options.args {
        let arguments = [command.get_program()].into_iter().chain(command.get_args());
        let arguments: Vec<_> = arguments.map(OsStr::to_string_lossy).collect();
        let arguments: Vec<&str> = arguments.iter().map(AsRef::as_ref).collect();
        span.set("process.command_args", arguments.as_slice());
    }
    for (key, value) in &options.attributes.all() {
        span.set(key, AsValue(value));
    }
}

/// Records how the command ended, and returns the exit code that a shell would show.
fn record_end(span: &mut Span, (status, usage): &process::Ended) -> i32 {
    if let Some(usage) = usage {
        span.set("process.cpu.time.user", usage.user.as_secs_f64());
        span.set("process.cpu.time.system", usage.system.as_secs_f64());
        span.set("process.memory.max_rss", usage.max_rss.and_then(|bytes| i64::try_from(bytes).ok()));
    }
    let signal = process::signal_of(*status);
    let code = status.code().or(signal.map(|signal| 128 + signal)).unwrap_or(1);
    span.set("process.exit.code", code);
    if let Some(signal) = signal {
        let name = process::signal_name(*status, signal);
        span.set("process.exit.signal", name.as_str()).set("error.type", name.as_str());
        span.status(Status::Error(&format!("ended by {name}")));
    } else if code != 0 {
        span.set("error.type", code.to_string()).status(Status::Error(&format!("exit code {code}")));
    }
    code
}

/// Reports a command that could not be started, as a shell does.
fn record_failure(span: &mut Span, program: &OsStr, error: &io::Error) -> i32 {
    let (path, description) = (Path::new(program), error.to_string());
    let (code, kind, reason) = match error.kind() {
        io::ErrorKind::NotFound if path.components().count() > 1 && path.exists() => {
            (NOT_EXECUTABLE, "command_not_executable", "its interpreter is not found")
        }
        io::ErrorKind::NotFound => (NOT_FOUND, "command_not_found", "command not found"),
        _ => {
            let reason = description.split(" (os error").next().unwrap_or_default();
            (NOT_EXECUTABLE, "command_not_executable", reason)
        }
    };
    report_error(&format!("{}: {reason}", text::name(program)));
    span.set("process.exit.code", code).set("error.type", kind).status(Status::Error(reason));
    code
}

/// Writes the context as lines of a shell.
fn print_to(file: &Path, context: &SpanContext) -> Result<(), Failure> {
    let lines = caller::shell_lines(context);
    // a file that is opened anew has a place of its own, where the command would write over it
    let written = match file.to_str() {
        Some("stderr" | "/dev/stderr") => io::Write::write_all(&mut io::stderr(), lines.as_bytes()),
        Some("/dev/stdout") => io::Write::write_all(&mut io::stdout(), lines.as_bytes()),
        _ => caller::write_private(file, &lines),
    };
    written.map_err(|error| Failure::Message(format!("write {}: {error}", text::name(file))))
}

/// Returns the file name of the program up to the first white space. A command line that is given as one word, as
/// `exec -- "sh -c TEXT"`, may hold secrets, so that only its first word is looked at.
fn file_name(program: &OsStr) -> String {
    let first_word = |text: &str| text.split_whitespace().next().unwrap_or_default().to_owned();
    let whole = program.to_string_lossy();
    let path = if Path::new(program).exists() { whole.into_owned() } else { first_word(&whole) };
    first_word(&Path::new(&path).file_name().unwrap_or(path.as_ref()).to_string_lossy())
}

/// Returns the shortened TEXT of `sh -c TEXT`, for the shells in [`SHELLS`] and with any other options, as `-eo pipefail -c`.
fn shell_text(program: &OsStr, arguments: &[OsString]) -> Option<String> {
    let mut words = arguments.iter().map_while(|word| word.to_str());
    if !SHELLS.contains(&file_name(program).as_str()) {
        return None;
    }
    let mut has_text = false;
    while let Some(word) = words.next() {
        match word.strip_prefix(['-', '+']) {
            None => {
                let line = word.split_whitespace().collect::<Vec<_>>().join(" ");
                let is_named = has_text && !line.is_empty();
                return is_named.then(|| text::cut(&line, MAX_TEXT_NAME, "…").into_owned());
            }
            Some(long) if long.starts_with('-') => {}
            Some(letters) => {
                has_text |= letters.contains('c');
                // `-o pipefail`: the next word is the name of the option
                if letters.ends_with('o') {
                    words.next();
                }
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_text_of_a_shell_whatever_its_other_options_are() {
        let name = |line: &[&str]| {
            let words: Vec<OsString> = line.iter().map(OsString::from).collect();
            shell_text(&words[0], &words[1..])
        };
        for line in [
            &["sh", "-c", "make  all\n"][..],
            &["/bin/bash", "-ec", "make all", "argument"],
            &["bash", "--norc", "-euo", "pipefail", "-c", "make all"],
            &["dash", "-c", "-e", "--", "make all"],
        ] {
            assert_eq!(name(line).as_deref(), Some("make all"), "{line:?}");
        }
        for line in [
            &["sh", "script", "-c", "x"][..],
            &["sh", "-c"],
            &["sh", "-c", " "],
            &["tar", "-c", "x"],
            &["bash", "-o", "errexit", "x"],
        ] {
            assert_eq!(name(line), None, "{line:?}");
        }
        let long = name(&["sh", "-c", &"x".repeat(100)]).unwrap();
        assert_eq!((text::width(&long), long.ends_with("x…")), (MAX_TEXT_NAME, true));
    }
}
