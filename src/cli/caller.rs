//! Which trace was this command started in? Read from the environment.

use std::env;
use std::ffi::OsString;

use standpipe::SpanContext;

const PARENT: &str = "TRACEPARENT";
const STATE: &str = "TRACESTATE";

/// The caller's span, and what of it could not be read.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Caller {
    pub(crate) context: Option<SpanContext>,
    pub(crate) complaints: Vec<String>,
}

impl Caller {
    /// From `TRACEPARENT` and `TRACESTATE` of this process.
    pub(crate) fn of_process() -> Self {
        Self::read(env::var_os(PARENT), env::var_os(STATE))
    }

    /// What cannot be used is reported and ignored, as W3C Trace Context requires.
    fn read(parent: Option<OsString>, state: Option<OsString>) -> Self {
        let mut caller = Self::default();
        let parent = caller.text(PARENT, parent);
        let state = caller.text(STATE, state);
        let Some(parent) = parent else {
            if state.is_some() {
                caller.report_error(STATE, "means nothing without TRACEPARENT");
            }
            return caller;
        };
        match SpanContext::from_traceparent(&parent) {
            Ok(context) => caller.context = Some(caller.with_state(context, state.as_deref())),
            Err(error) => {
                // the error names the header, which has the variable's name
                let error = error.to_string();
                let reason = error.strip_prefix("traceparent: ").unwrap_or(&error);
                caller.report_error(PARENT, reason);
            }
        }
        caller
    }

    fn with_state(&mut self, context: SpanContext, state: Option<&str>) -> SpanContext {
        let Some(state) = state else { return context };
        let context = context.with_tracestate(state);
        if context.tracestate().is_empty() {
            self.report_error(STATE, "not a list like key=value,key=value");
        }
        context
    }

    /// An empty variable is as good as none.
    fn text(&mut self, name: &str, value: Option<OsString>) -> Option<String> {
        let value = value.filter(|value| !value.is_empty())?;
        let text = value.into_string().ok();
        if text.is_none() {
            self.report_error(name, "not UTF-8");
        }
        text
    }

    fn report_error(&mut self, name: &str, reason: &str) {
        self.complaints.push(format!("{name}: {reason}; it is ignored"));
    }
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
        assert_eq!(read("4bf92f", "a=1"), (None, reported("TRACEPARENT: too short; it is ignored")));
        let without_parent = "TRACESTATE: means nothing without TRACEPARENT; it is ignored";
        assert_eq!(read("", "a=1"), (None, reported(without_parent)));
        let (context, complaints) = read(PARENT, "what?");
        assert_eq!(context, Some((PARENT.to_owned(), String::new())));
        assert_eq!(complaints, reported("TRACESTATE: not a list like key=value,key=value; it is ignored"));
    }

    #[cfg(unix)]
    #[test]
    fn what_is_not_utf_8_is_told_and_ignored() {
        use std::os::unix::ffi::OsStringExt;
        let caller = Caller::read(Some(OsString::from_vec(vec![0xff])), None);
        assert_eq!((caller.context, caller.complaints.len()), (None, 1));
    }
}
