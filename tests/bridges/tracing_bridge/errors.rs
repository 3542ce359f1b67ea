//! Errors: status, exceptions, causes.

use std::error::Error;
use std::fmt;

use tracing::{error, info, info_span, instrument};

use super::stage::{as_texts, run, run_with};

#[derive(Debug)]
struct Failure(&'static str, Option<Box<Failure>>);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.1.as_deref().map(|cause| cause as &(dyn Error + 'static))
    }
}

fn failure() -> Failure {
    Failure("no tea", Some(Box::new(Failure("no water", Some(Box::new(Failure("no well", None)))))))
}

#[test]
fn an_error_event_sets_the_status_unless_there_is_one() {
    let arrived = run(|| {
        info_span!("plain").in_scope(|| error!("it broke"));
        info_span!("known", otel.status_message = "before").in_scope(|| error!("it broke"));
        info_span!("fine", otel.status_code = "ok").in_scope(|| error!("it broke"));
        info_span!("quiet").in_scope(|| info!("all is well"));
    });
    let status = |name: &str| {
        let status = arrived.span(name).span.status.clone();
        status.map(|status| (status.code, status.message))
    };
    assert_eq!(status("plain"), Some((2, String::new())));
    assert_eq!(status("known"), Some((2, "before".to_owned())));
    assert_eq!(status("fine"), Some((1, String::new())));
    assert_eq!(status("quiet"), None);
}

#[test]
fn an_error_value_is_an_exception_with_its_causes() {
    let failure = failure();
    let arrived = run(|| {
        let error: &(dyn Error + 'static) = &failure;
        info_span!("of span", error);
        info_span!("of event").in_scope(|| info!(reason = error, "no luck"));
    });
    let expected = [
        "exception.message=\"no tea\"",
        "exception.stacktrace=\"no water\\nno well\"",
        "error=\"no tea\"",
        "error.chain=[\"no water\", \"no well\"]",
    ];
    assert_eq!(as_texts(&arrived.span("of span").span.attributes), expected);
    let span = &arrived.span("of event").span;
    assert_eq!(as_texts(&span.attributes), expected[..2]);
    let event = as_texts(&span.events[0].attributes);
    assert_eq!(event[2..4], expected[..2]);
    assert_eq!(event[4..], ["reason=\"no tea\"", "reason.chain=[\"no water\", \"no well\"]"]);
}

#[test]
fn an_error_without_a_cause_has_no_stacktrace() {
    let failure = Failure("alone", None);
    let arrived = run(|| {
        info_span!("span", error = &failure as &(dyn Error + 'static));
    });
    let expected = ["exception.message=\"alone\"", "error=\"alone\"", "error.chain=[]"];
    assert_eq!(as_texts(&arrived.span("span").span.attributes), expected);
}

#[instrument(err)]
fn brews() -> Result<(), Failure> {
    Err(failure())
}

#[instrument(ret, skip_all)]
fn serves(_cup: &str) -> u32 {
    7
}

#[test]
fn a_function_that_fails_has_an_exception_and_a_status() {
    let arrived = run(|| {
        brews().unwrap_err();
        serves("tea");
    });
    let span = &arrived.span("brews").span;
    let status = span.status.as_ref().unwrap();
    assert_eq!((status.code, status.message.as_str()), (2, "no tea"));
    assert_eq!(span.events[0].name, "exception");
    assert_eq!(as_texts(&span.events[0].attributes)[2..], ["exception.message=\"no tea\""]);
    assert_eq!(as_texts(&arrived.span("serves").span.events[0].attributes)[2..], ["return=\"7\""]);
}

#[test]
fn a_failure_outside_of_spans_is_a_log_record_that_says_what_failed() {
    let arrived = run(|| error!(error = %failure()));
    let log = &arrived.logs[0].log;
    assert_eq!(super::stage::text(log.body.as_ref().unwrap().value.as_ref().unwrap()), "\"no tea\"");
    assert_eq!(as_texts(&log.attributes), ["exception.message=\"no tea\""]);
}

#[test]
fn exceptions_can_be_switched_off() {
    let failure = failure();
    let arrived = run_with(
        |layer| layer.exceptions(false),
        || {
            info_span!("span", error = &failure as &(dyn Error + 'static));
            brews().unwrap_err();
        },
    );
    assert_eq!(as_texts(&arrived.span("span").span.attributes)[0], "error=\"no tea\"");
    let span = &arrived.span("brews").span;
    assert_eq!(span.status.as_ref().unwrap().message, "no tea");
    assert_eq!(as_texts(&span.events[0].attributes)[2..], ["error=\"no tea\""]);
    assert!(span.events[0].name.starts_with("event "));
}

#[test]
fn a_panic_through_spans_sends_them() {
    let arrived = run(|| {
        let unwound = std::panic::catch_unwind(|| {
            let _outer = info_span!("outer").entered();
            let _inner = info_span!("inner").entered();
            std::panic::resume_unwind(Box::new("gone"));
        });
        assert!(unwound.is_err());
        info_span!("after").in_scope(|| {});
    });
    arrived.assert_child("inner", "outer");
    arrived.assert_root("after");
}
