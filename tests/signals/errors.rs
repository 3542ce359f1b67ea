//! An error or a panic is recorded on the span in which it happened, and affects nothing else.

use std::error::Error;
use std::fmt;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use standpipe::receiver::proto::{KeyValue, Value as Received};
use standpipe::receiver::{ReceivedSpan, Receiver};
use standpipe::{Config, Exporter, RecordErr, Status, Telemetry, Tracer};

const PATIENCE: Duration = Duration::from_secs(20);

/// Returns the spans that a program emits with a tracer, sorted by name.
fn sent(work: impl FnOnce(&Tracer)) -> Vec<ReceivedSpan> {
    let receiver = Receiver::start().unwrap();
    let telemetry = Telemetry::start(Config::new().exporter(Exporter::http(receiver.endpoint()))).unwrap();
    work(&telemetry.tracer("shop"));
    assert_eq!(telemetry.shutdown(PATIENCE).lost(), 0);
    let mut spans = receiver.spans();
    spans.sort_by(|one, other| one.span.name.cmp(&other.span.name));
    spans
}

/// Code and message of the status.
fn status(span: &ReceivedSpan) -> (StatusCode, &str) {
    let status = span
        .span
        .status
        .as_ref()
        .map(|status| (StatusCode::try_from(status.code).unwrap(), status.message.as_str()));
    status.unwrap_or((StatusCode::Unset, ""))
}

/// The attributes of all events `exception`, as text.
fn exceptions(span: &ReceivedSpan) -> Vec<Vec<(&str, &str)>> {
    let events = span.span.events.iter().filter(|event| event.name == "exception");
    events.map(|event| event.attributes.iter().map(pair).collect()).collect()
}

fn pair(attribute: &KeyValue) -> (&str, &str) {
    match attribute.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(Received::StringValue(text)) => (&attribute.key, text),
        other => panic!("{other:?} is no text"),
    }
}

/// An error with a cause.
#[derive(Debug)]
struct Outer(io::Error);

impl fmt::Display for Outer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("order not placed")
    }
}

impl Error for Outer {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.0)
    }
}

fn timeout() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "bank is slow")
}

/// A type that contains an error, like `anyhow::Error`, and does not implement `Error` itself.
struct Report(Box<dyn Error + Send + Sync>);

impl std::ops::Deref for Report {
    type Target = dyn Error + Send + Sync;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl std::ops::DerefMut for Report {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut *self.0
    }
}

#[test]
fn an_error_sets_status_type_and_an_event_with_its_causes() {
    let spans = sent(|tracer| {
        tracer.span("span").error(&Outer(timeout())).set("later", 1);
        tracer.span_builder("detached").detached().error(&Outer(timeout())).set("later", 1);
    });
    assert_eq!(spans.len(), 2);
    for span in &spans {
        let type_name = std::any::type_name::<Outer>();
        assert_eq!(status(span), (StatusCode::Error, "order not placed"));
        assert_eq!(span.attribute("error.type"), type_name);
        let expected = [
            ("exception.type", type_name),
            ("exception.message", "order not placed"),
            ("exception.stacktrace", "bank is slow"),
        ];
        assert_eq!(exceptions(span), [expected]);
        assert_eq!(span.attribute("later"), 1);
    }
}

#[test]
fn further_attributes_of_an_error_are_on_its_event_and_win() {
    let spans = sent(|tracer| {
        let more = [("exception.message", "replaced".into()), ("attempt", "3".into())];
        tracer.span("span").error_with(&Outer(timeout()), &more).set("later", 1);
        tracer.span_builder("detached").detached().error_with(&Outer(timeout()), &more).set("later", 1);
    });
    assert_eq!(spans.len(), 2);
    for span in &spans {
        assert_eq!(status(span), (StatusCode::Error, "order not placed"));
        let exceptions = exceptions(span);
        let value = |key: &str| exceptions[0].iter().find(|pair| pair.0 == key).map(|pair| pair.1);
        assert_eq!((value("exception.message"), value("attempt")), (Some("replaced"), Some("3")));
        assert_eq!(value("exception.type"), Some(std::any::type_name::<Outer>()));
        assert!(span.attribute("attempt").is_none());
    }
}

#[test]
fn a_log_record_has_the_same_attributes_of_an_error_as_a_span() {
    let receiver = Receiver::start().unwrap();
    let telemetry = Telemetry::start(Config::new().exporter(Exporter::http(receiver.endpoint()))).unwrap();
    let logger = telemetry.logger("shop");
    logger.error("order lost").exception(&Outer(timeout())).emit();
    let boxed: Box<dyn Error> = Box::new(timeout());
    logger.error("again").set("a", "b").exception(&boxed).set("exception.message", "replaced").emit();
    assert_eq!(telemetry.shutdown(PATIENCE).lost(), 0);
    let logs = receiver.logs();
    let pairs = |index: usize| logs[index].log.attributes.iter().map(pair).collect::<Vec<_>>();
    let expected = [
        ("exception.type", std::any::type_name::<Outer>()),
        ("exception.message", "order not placed"),
        ("exception.stacktrace", "bank is slow"),
    ];
    assert_eq!(pairs(0), expected);
    assert_eq!(logs[1].attribute("a"), "b");
    assert_eq!(logs[1].attribute("exception.message"), "replaced");
    assert!(logs[1].attribute("exception.type").is_none());
}

#[test]
fn every_form_of_an_error_is_taken() {
    let spans = sent(|tracer| {
        let plain: &dyn Error = &timeout();
        let boxed: Box<dyn Error> = Box::new(timeout());
        let shared: Arc<dyn Error + Send + Sync> = Arc::new(timeout());
        let sendable: Box<dyn Error + Send + Sync> = Box::new(timeout());
        tracer.span("concrete").error(&timeout()).error(&&timeout()).error(&Box::new(timeout()));
        tracer.span("dyn").error(plain).error(&plain).error(&boxed).error(&*boxed).error(&shared);
        tracer.span("dyn with Send").error(&sendable).error(&*sendable).error(&Report(sendable));
    });
    let [concrete, plain, sendable] = &spans[..] else { panic!("{spans:?}") };
    for (span, count) in [(concrete, 3), (plain, 5), (sendable, 3)] {
        assert_eq!(status(span), (StatusCode::Error, "bank is slow"));
        assert_eq!(exceptions(span).len(), count);
        let is_typed = |exception: &Vec<_>| exception.iter().any(|(key, _)| *key == "exception.type");
        assert_eq!(exceptions(span).iter().any(is_typed), span.span.name == "concrete", "{span:?}");
        assert!(exceptions(span).iter().all(|pairs| pairs.contains(&("exception.message", "bank is slow"))));
    }
}

#[test]
fn a_result_passes_through_and_leaves_its_error_on_the_span() {
    let spans = sent(|tracer| {
        let (mut failed, mut detached) = (tracer.span("failed"), tracer.span_builder("detached").detached());
        let result = Err::<i32, _>(timeout()).record_err(&mut failed).record_err(&mut detached);
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::TimedOut);
        let report = Err::<i32, _>(Report(timeout().into())).record_err(&mut failed);
        assert_eq!(report.unwrap_err().to_string(), "bank is slow");
        let mut good = tracer.span("good");
        assert_eq!(Ok::<_, io::Error>(7).record_err(&mut good).unwrap(), 7);
    });
    let counts: Vec<_> = spans.iter().map(|span| exceptions(span).len()).collect();
    assert_eq!(counts, [1, 2, 0]);
    assert_eq!(status(&spans[2]), (StatusCode::Unset, ""));
}

#[test]
fn an_error_whose_display_panics_leaves_the_span_as_it_was() {
    #[derive(Debug)]
    struct Explosive;

    impl fmt::Display for Explosive {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            panic!("no words")
        }
    }

    impl Error for Explosive {}

    let spans = sent(|tracer| {
        let mut span = tracer.span("survivor");
        let caught = panic::catch_unwind(AssertUnwindSafe(|| drop(span.error(&Explosive))));
        assert!(caught.is_err());
        span.set("later", 1);
    });
    assert_eq!((status(&spans[0]), exceptions(&spans[0]).len()), ((StatusCode::Unset, ""), 0));
    assert_eq!(spans[0].attribute("later"), 1);
}

#[test]
fn a_span_that_a_panic_ends_is_an_error_unless_its_status_says_otherwise() {
    let spans = sent(|tracer| {
        let tracer = tracer.clone();
        let work = thread::spawn(move || {
            let _plain = tracer.span("a, plain");
            let _detached = tracer.span_builder("b, detached").detached();
            let mut named = tracer.span("c, with a status");
            named.status(Status::Error("out of stock"));
            tracer.span("d, ended before").end();
            panic!("on purpose");
        });
        assert!(work.join().is_err());
    });
    let found: Vec<_> = spans.iter().map(|span| (status(span), exceptions(span).len())).collect();
    let error = |message| ((StatusCode::Error, message), 1);
    assert_eq!(
        found,
        [error("panicked"), error("panicked"), error("out of stock"), ((StatusCode::Unset, ""), 0)]
    );
    let event = [("exception.type", "panic"), ("exception.message", "the thread panicked")];
    assert_eq!(exceptions(&spans[0]), [event]);
    assert_eq!(spans[0].span.events[0].time_unix_nano, spans[0].span.end_time_unix_nano);
}

#[test]
fn a_span_of_a_destructor_that_a_panic_runs_is_no_error() {
    struct RollsBack<'t>(&'t Tracer);

    impl Drop for RollsBack<'_> {
        fn drop(&mut self) {
            assert!(thread::panicking());
            self.0.span("roll back").end();
        }
    }

    let spans = sent(|tracer| {
        let caught = panic::catch_unwind(AssertUnwindSafe(|| {
            let _guard = RollsBack(tracer);
            panic!("on purpose");
        }));
        assert!(caught.is_err());
    });
    assert_eq!((status(&spans[0]), exceptions(&spans[0]).len()), ((StatusCode::Unset, ""), 0));
}
