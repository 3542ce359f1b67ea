//! The caller's span context, read from the environment, an option or a file.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;
use std::{env, fs};

use standpipe::{Config, Propagator, Propagators, SpanContext, Telemetry};

use super::text;

const PARENT: &str = "TRACEPARENT";
const STATE: &str = "TRACESTATE";
const PROPAGATORS: &str = "OTEL_PROPAGATORS";

/// The caller's span context, if any, and messages about values that were ignored.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Caller {
    pub(crate) context: Option<SpanContext>,
    pub(crate) complaints: Vec<String>,
}

impl Caller {
    /// Reads the environment with the selected [`propagators`]. Reports problems of TRACEPARENT and TRACESTATE only.
    pub(crate) fn of_process() -> Self {
        let propagators = propagators();
        let mut caller = Self::default();
        if propagators.iter().any(|propagator| propagator == Propagator::TraceContext) {
            caller = Self::read(env::var_os(PARENT), env::var_os(STATE));
        }
        caller.context = propagators.extract_env().span().cloned();
        caller
    }

    /// Reads the context from `parent`: a `traceparent`, or the path of a file with a line `TRACEPARENT=...`.
    ///
    /// If the file cannot be read, the error is reported, and the environment is read instead.
    pub(crate) fn of(parent: &str) -> Self {
        if SpanContext::from_traceparent(parent).is_ok() {
            return Self::read(Some(parent.into()), None);
        }
        match fs::read_to_string(parent) {
            Ok(text) => Self::of_lines(&text),
            Err(error) => {
                let mut caller = Self::of_process();
                caller.report_error(&text::name(parent), &error.to_string());
                caller
            }
        }
    }

    /// Reads the lines `TRACEPARENT=...` and `TRACESTATE=...` of a file.
    pub(crate) fn of_lines(text: &str) -> Self {
        Self::read(variable(text, PARENT), variable(text, STATE))
    }

    /// Reads the context from both values. Invalid values are ignored, as W3C Trace Context requires, and reported.
    fn read(parent: Option<OsString>, state: Option<OsString>) -> Self {
        let mut caller = Self::default();
        let (parent, state) = (caller.text(PARENT, parent), caller.text(STATE, state));
        match (parent.as_deref().map(SpanContext::from_traceparent), state) {
            (None, None) => {}
            (None, Some(_)) => caller.report_error(STATE, "set without TRACEPARENT"),
            (Some(Err(error)), _) => {
                // The report begins with `TRACEPARENT`, so the prefix `traceparent: ` of the error is removed.
                let error = error.to_string();
                caller.report_error(PARENT, error.strip_prefix("traceparent: ").unwrap_or(&error));
            }
            (Some(Ok(context)), None) => caller.context = Some(context),
            (Some(Ok(context)), Some(state)) => {
                let context = context.with_tracestate(&state);
                if context.tracestate().is_empty() {
                    caller.report_error(STATE, "not a list like key=value,key=value");
                }
                caller.context = Some(context);
            }
        }
        caller
    }

    /// Returns the text of a variable; `None` if it is unset, empty or not UTF-8. Reports text that is not UTF-8.
    fn text(&mut self, name: &str, value: Option<OsString>) -> Option<String> {
        let value = value.filter(|value| !value.is_empty())?;
        let text = value.into_string().ok();
        if text.is_none() {
            self.report_error(name, "not UTF-8");
        }
        text
    }

    fn report_error(&mut self, name: &str, reason: &str) {
        self.complaints.push(format!("{name}: {reason}; the variable is ignored"));
    }
}

/// Returns the propagators that OTEL_PROPAGATORS selects, by default those of W3C Trace Context and Baggage.
pub(crate) fn propagators() -> Propagators {
    let selection = env::var_os(PROPAGATORS).unwrap_or_default();
    let variables = [(PROPAGATORS, selection), ("OTEL_SDK_DISABLED", "true".into())];
    let telemetry = Config::from_variables(variables).and_then(Telemetry::start);
    telemetry.map_or_else(|_| Propagators::default(), |telemetry| telemetry.propagators())
}

/// Writes a context as lines that a shell and [`Caller::of_lines`] can read.
///
/// The tracestate is quoted, because it may contain characters that a shell interprets. A tracestate that contains a
/// quote is left out.
pub(crate) fn shell_lines(context: &SpanContext) -> String {
    let (traceparent, state) = (context.traceparent(), context.tracestate());
    match state.is_empty() || state.contains('\'') {
        true => format!("{PARENT}={traceparent}\n"),
        false => format!("{PARENT}={traceparent}\n{STATE}='{state}'\n"),
    }
}

/// Returns options for opening files. On Unix, a file that is created with these options gets mode 0600.
pub(crate) fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Writes a file. On Unix, a new file gets mode 0600, and an existing file keeps its mode.
pub(crate) fn write_private(file: &Path, text: &str) -> io::Result<()> {
    private_file().write(true).create(true).truncate(true).open(file)?.write_all(text.as_bytes())
}

/// Returns the last value that the lines of a shell script assign to a variable.
fn variable(text: &str, name: &str) -> Option<OsString> {
    let value = text.lines().rev().find_map(|line| {
        let line = line.trim_start();
        line.strip_prefix("export ").unwrap_or(line).trim_start().strip_prefix(name)?.strip_prefix('=')
    });
    value.map(|value| value.trim().trim_matches(['"', '\'']).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn read(parent: &str, state: &str) -> (Option<(String, String)>, Vec<String>) {
        let caller = Caller::read(Some(parent.into()), Some(state.into()));
        let context = caller.context.map(|context| (context.traceparent(), context.tracestate().to_owned()));
        (context, caller.complaints)
    }

    #[test]
    fn a_good_caller_is_taken_as_it_is() {
        let taken = |state: &str| (Some((PARENT.to_owned(), state.to_owned())), Vec::new());
        assert_eq!(read(PARENT, ""), taken(""));
        assert_eq!(read(PARENT, "a=1,b=2"), taken("a=1,b=2"));
        assert_eq!(Caller::read(None, None), Caller::default());
        assert_eq!(read("", ""), (None, Vec::new()));
    }

    #[test]
    fn what_cannot_be_used_is_told_and_ignored() {
        let reported = |message: &str| vec![message.to_owned()];
        assert_eq!(
            read("4bf92f", "a=1"),
            (None, reported("TRACEPARENT: too short; the variable is ignored"))
        );
        let without_parent = "TRACESTATE: set without TRACEPARENT; the variable is ignored";
        assert_eq!(read("", "a=1"), (None, reported(without_parent)));
        let (context, complaints) = read(PARENT, "what?");
        assert_eq!(context, Some((PARENT.to_owned(), String::new())));
        assert_eq!(
            complaints,
            reported("TRACESTATE: not a list like key=value,key=value; the variable is ignored")
        );
    }

    #[test]
    fn a_state_cannot_run_anything_in_a_shell() {
        let lines = |state: &str| {
            let context = SpanContext::from_traceparent(PARENT).expect("it is right");
            shell_lines(&context.with_tracestate(state))
        };
        assert_eq!(lines(""), format!("TRACEPARENT={PARENT}\n"));
        assert_eq!(lines("a=$(ls);`ls`"), format!("TRACEPARENT={PARENT}\nTRACESTATE='a=$(ls);`ls`'\n"));
        assert_eq!(lines("a=';ls;'"), format!("TRACEPARENT={PARENT}\n"));
    }

    #[test]
    fn a_file_of_a_shell_is_read_and_the_last_line_counts() {
        let text = format!("# deploy\nTRACEPARENT=old\n export TRACEPARENT=\"{PARENT}\"\nTRACESTATE='a=1'\n");
        assert_eq!(variable(&text, "TRACEPARENT"), Some(PARENT.into()));
        assert_eq!(variable(&text, "TRACESTATE"), Some("a=1".into()));
        assert_eq!(variable(&text, "BAGGAGE"), None);
        let given = Caller::of(PARENT).context.map(|context| context.traceparent());
        assert_eq!(given, Some(PARENT.to_owned()));
    }

    #[test]
    fn escapes_the_name_of_a_carrier_that_cannot_be_read() {
        let caller = Caller::of("no such\nfile \x1b[31m\r\u{9b}");
        let complaint = caller.complaints.last().expect("it is reported");
        assert!(complaint.starts_with("no such\\") && !complaint.contains(char::is_control), "{complaint:?}");
    }

    #[cfg(unix)]
    #[test]
    fn what_is_not_utf_8_is_told_and_ignored() {
        use std::os::unix::ffi::OsStringExt;
        let caller = Caller::read(Some(OsString::from_vec(vec![0xff])), None);
        assert_eq!((caller.context, caller.complaints.len()), (None, 1));
    }
}
