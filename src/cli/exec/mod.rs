//! `standpipe exec`: runs a command inside a span and exits as the command does.

mod output;
mod process;

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use clap::{Args, ValueHint};
use standpipe::{Context, Propagators, Span, SpanContext, Status};

use super::sender::{self, AsValue, Attributes, Destination, Kind, Parent, Sender};
use super::{Failure, caller, report_error, text};

/// Default maximum time for the delivery after the command has ended.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(1);
/// Exit codes of shells for a command that cannot be executed, and for a command that is not found.
const NOT_EXECUTABLE: i32 = 126;
const NOT_FOUND: i32 = 127;
/// Exit code of the program `timeout` if the command has run too long.
const TIMED_OUT: i32 = 124;
/// Programs that run the text after `-c`.
const SHELLS: [&str; 8] = ["sh", "bash", "dash", "ash", "ksh", "mksh", "zsh", "fish"];
/// Maximum width, in terminal cells, of a span name that is made from the text after a shell's `-c`.
const MAX_TEXT_NAME: usize = 60;
const EXPORTERS: [&str; 3] = ["OTEL_TRACES_EXPORTER", "OTEL_LOGS_EXPORTER", "OTEL_METRICS_EXPORTER"];

/// Runs a command inside a span.
///
/// Runs COMMAND inside a span and exits as COMMAND does. The span continues the trace in TRACEPARENT and TRACESTATE, if
/// they are set. COMMAND gets both variables with the context of the span, so that nested commands form one tree.
/// BAGGAGE is passed on unchanged. OTEL_PROPAGATORS selects other variables, such as B3, or none. Standard input and
/// output belong to COMMAND; standpipe prints only errors and what its options request, on standard error. SIGTERM,
/// SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 and SIGWINCH are forwarded to COMMAND. After COMMAND has ended, SIGTERM,
/// SIGINT, SIGHUP and SIGQUIT end standpipe, and with it the delivery. As process 1 of a container, standpipe also
/// reaps orphaned processes.
///
/// OpenTelemetry's environment variables, such as OTEL_EXPORTER_OTLP_ENDPOINT, set the destination; the default is
/// http://localhost:4318. If the collector is down, nothing is reported, and the exit is delayed by --timeout at most.
///
/// The span has the attributes process.executable.name, process.pid, process.exit.code and, if a signal ended COMMAND,
/// process.exit.signal. If the system reports the usage of resources, the span also has the processor time of COMMAND
/// and of the processes that COMMAND waited for (process.cpu.time.user and process.cpu.time.system, in seconds), and
/// the peak memory of the largest of these processes (process.memory.max_rss, in bytes). A process begins as a copy of
/// standpipe, so the reported peak may be that of this copy: it is left out unless it exceeds the peak of standpipe.
/// An exit code other than 0 sets the status of the span to error. Only the file name of COMMAND is recorded; --args
/// records the whole command line.
#[derive(Debug, Args)]
#[command(override_usage = "standpipe exec [OPTIONS] [--] COMMAND [ARGUMENT]...")]
#[command(after_help = include_str!("../help/exec.txt").trim_ascii_end())]
pub(crate) struct Options {
    /// The command to run, and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_hint = ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
    /// The name of the span; the default is the file name of COMMAND.
    #[arg(short, long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    attributes: Attributes,
    /// The kind of the span; the default is client.
    #[arg(short, long, value_name = "KIND")]
    kind: Option<Kind>,
    #[command(flatten)]
    destination: Destination,
    #[command(flatten)]
    parent: Parent,
    /// Write the span's TRACEPARENT=... to FILE before COMMAND starts; the name stderr stands for standard error.
    #[arg(long, value_name = "FILE")]
    print_to: Option<PathBuf>,
    /// Also emit each line of standard output and error as a log record in the span. COMMAND then writes to pipes
    /// instead of a terminal; processes that it leaves running cannot write after its end.
    #[arg(long)]
    log_output: bool,
    /// Also record the command line as process.command_args, unchanged: passwords and tokens in it are recorded and
    /// sent. The default name of the span of sh -c TEXT is then the beginning of TEXT.
    #[arg(long)]
    args: bool,
    /// End COMMAND after this time, with SIGTERM and, 5 seconds later, SIGKILL; on Windows, terminate it at once. The
    /// exit code is then 124, and the error.type of the span is timeout.
    #[arg(long, value_name = "TIME", value_parser = text::duration)]
    command_timeout: Option<Duration>,
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

    /// Returns the variables for the export, without console exporters: standard output belongs to the command.
    fn variables(&self) -> Vec<(String, OsString)> {
        let mut variables = self.destination.variables(&[]);
        for (_, value) in variables.iter_mut().filter(|(name, _)| EXPORTERS.contains(&name.as_str())) {
            let chosen = value.to_string_lossy().into_owned();
            let prints = |exporter: &&str| ["console", "otlp/stdout"].contains(&exporter.trim());
            let others: Vec<_> = chosen.split(',').filter(|exporter| !prints(exporter)).collect();
            *value = if others.is_empty() { "none".into() } else { others.join(",").into() };
        }
        variables
    }
}

/// Runs the command and exits as it did. Returns only if an error occurs before the command is started.
pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let is_verbose = options.destination.is_verbose();
    let timeout = options.destination.timeout.unwrap_or(DEFAULT_TIMEOUT);
    let from = options.parent.caller(is_verbose);
    // With --log-output, a line waits for up to a quarter of the timeout if the queue is full. This is long enough if
    // the collector is up. If the collector is down, only the first line waits for the whole quarter: after one expired
    // wait, callers do not wait for room any more, until a delivery succeeds.
    let patience = options.log_output.then_some(timeout / 4);
    let sender = Sender::start(&options.destination, options.variables(), patience)?;
    let _baggage = caller::propagators().extract_env().baggage().enter();
    let tracer = sender.telemetry.tracer(sender::scope());
    let kind = options.kind.or_else(|| sender::choice("OTEL_CLI_TRACE_KIND")).unwrap_or(Kind::Client);
    let name = options.name();
    let span = tracer.span_builder(&name).kind(kind.into());
    let mut span = sender::below(span, from.context.as_ref()).start();
    // If the span is sampled but not recorded, there is no exporter for spans. Such a span is not sent, so the command
    // inherits the caller's context unchanged.
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
        Ok(ended) if ended.has_timed_out => record_timeout(&mut span, ended, options.command_timeout),
        Ok(ended) => record_end(&mut span, ended),
        Err(error) => record_failure(&mut span, options.program(), error),
    };
    // The span ends before its last log records: waiting for the output must not change the measured duration.
    span.end();
    copies.into_iter().for_each(output::Copies::finish);
    let delivered = sender.finish(timeout);
    if let (Err(trouble), true) = (delivered, options.fail || sender::is_on("OTEL_CLI_FAIL")) {
        report_error(&trouble);
        code = if code == 0 { 1 } else { code };
    }
    // `end_by` and `exit` end the process, so all other work must be done before.
    let ended = ended.ok().filter(|ended| !ended.has_timed_out);
    if let Some(signal) = ended.and_then(|ended| process::signal_of(ended.status)) {
        process::end_by(signal);
    }
    // An `ExitCode` is not sufficient: it has only 8 bits, and exit codes on Windows have 32 bits.
    std::process::exit(code);
}

/// Builds the command: fills the placeholders in its arguments, and sets the variables for nested commands.
fn command(options: &Options, context: Option<&SpanContext>) -> Command {
    let mut command = Command::new(options.program());
    command.args(options.arguments().iter().map(|argument| fill(argument, context)));
    if let Some(context) = context {
        let propagators = caller::propagators();
        // Inherited variables are removed first, because a context does not set each of them: without a tracestate, an
        // inherited TRACESTATE would remain. BAGGAGE is kept, because `exec` replaces only the span.
        for field in propagators.fields().filter(|field| *field != "baggage") {
            command.env_remove(Propagators::variable(field));
        }
        propagators.inject_env(&Context::from(context.clone()), |name, value| {
            command.env(name, value);
        });
    }
    if let Some(service) = &options.destination.service {
        // OTEL_SERVICE_NAME is not set, because it would also rename the service of COMMAND if COMMAND is instrumented.
        command.env(sender::SERVICE_NAME, service);
    }
    command
}

/// Replaces `{{traceparent}}`, `{{trace_id}}` and `{{span_id}}` in an argument. Without a context, changes nothing.
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

/// Starts the command and waits for its end. With `--log-output`, the returned threads may still have output to read.
fn start(
    mut command: Command,
    options: &Options,
    sender: &Sender,
    span: &mut Span,
) -> (io::Result<process::Ended>, Option<output::Copies>) {
    let logger = sender.telemetry.logger(sender::scope());
    let context = span.context().clone();
    let copies = options.log_output.then(|| output::Copies::start(&mut command, &logger, &context));
    if let (Some(Err(error)), true) = (&copies, options.destination.is_verbose()) {
        report_error(&format!("the output of the command is not logged: {error}"));
    }
    let mut copies = copies.and_then(Result::ok);
    let ended = process::run(&mut command, options.command_timeout, |child| {
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

/// Records the end of the command on the span. Returns the exit code that a shell would show.
fn record_end(span: &mut Span, process::Ended { status, usage, .. }: &process::Ended) -> i32 {
    if let Some(usage) = usage {
        span.set("process.cpu.time.user", usage.user.as_secs_f64());
        span.set("process.cpu.time.system", usage.system.as_secs_f64());
        span.set("process.memory.max_rss", usage.max_rss.and_then(|bytes| i64::try_from(bytes).ok()));
    }
    let signal = process::signal_of(*status);
    // `status.code()` is `None` if a signal ended the command.
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

/// Records and reports that the command was ended after its timeout. Returns [`TIMED_OUT`].
fn record_timeout(span: &mut Span, ended: &process::Ended, timeout: Option<Duration>) -> i32 {
    record_end(span, ended);
    let message = format!("timed out after {:?}", timeout.unwrap_or_default());
    report_error(&message);
    span.set("process.exit.code", TIMED_OUT).set("error.type", "timeout").status(Status::Error(&message));
    TIMED_OUT
}

/// Records and reports that the command could not be started. Returns the exit code that a shell would use.
fn record_failure(span: &mut Span, program: &OsStr, error: &io::Error) -> i32 {
    let (path, description) = (Path::new(program), error.to_string());
    let (code, kind, reason) = match error.kind() {
        // If the path exists, the file that was not found is the interpreter or the dynamic loader.
        io::ErrorKind::NotFound if path.components().count() > 1 && path.exists() => {
            (NOT_EXECUTABLE, "command_not_executable", "its interpreter is not found")
        }
        io::ErrorKind::NotFound => (NOT_FOUND, "command_not_found", "command not found"),
        _ => {
            // Omits the number at the end of the description, such as "(os error 13)".
            let reason = description.split(" (os error").next().unwrap_or_default();
            (NOT_EXECUTABLE, "command_not_executable", reason)
        }
    };
    report_error(&format!("{}: {reason}", text::name(program)));
    span.set("process.exit.code", code).set("error.type", kind).status(Status::Error(reason));
    code
}

/// Writes the context to a file, as lines that a shell can read.
fn print_to(file: &Path, context: &SpanContext) -> Result<(), Failure> {
    let lines = caller::shell_lines(context);
    // The standard streams are not opened by their paths: if such a stream is a file, a newly opened file descriptor
    // would have its own offset, and the command would overwrite these lines.
    let written = match file.to_str() {
        Some("stderr" | "/dev/stderr") => io::Write::write_all(&mut io::stderr(), lines.as_bytes()),
        Some("/dev/stdout") => io::Write::write_all(&mut io::stdout(), lines.as_bytes()),
        _ => caller::write_private(file, &lines),
    };
    written.map_err(|error| Failure::Message(format!("write {}: {error}", text::name(file))))
}

/// Returns the file name of the program up to the first white space or equals sign.
///
/// The rest is left out, because it may contain secrets: `program` may be a whole command line in one word, as in `exec
/// -- "sh -c TEXT"`, or an assignment, as in `exec -- TOKEN=TEXT make`.
fn file_name(program: &OsStr) -> String {
    let is_end = |c: char| c.is_whitespace() || c == '=';
    let first_word = |text: &str| text.trim_start().split(is_end).next().unwrap_or_default().to_owned();
    let whole = program.to_string_lossy();
    let path = if Path::new(program).exists() { whole.into_owned() } else { first_word(&whole) };
    first_word(&Path::new(&path).file_name().unwrap_or(path.as_ref()).to_string_lossy())
}

/// Returns the shortened TEXT of `sh -c TEXT`, for the [`SHELLS`]; otherwise `None`. Other options may precede TEXT.
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
                // In `-o pipefail`, the next word is the name of an option and not the text.
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
