//! Code of the program runs while a field is formatted: it may trace or panic, and no lock is held meanwhile.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tracing::field::{Empty, debug};
use tracing::{Span, info, info_span};

use super::stage::{as_texts, run};

/// A value that traces while it is formatted.
struct Talkative;

impl fmt::Debug for Talkative {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Span::current().record("late", "by itself");
        info!(of = "its own", "shown");
        info_span!("shown").in_scope(|| info!("inside"));
        f.write_str("talkative")
    }
}

/// A value whose formatting panics.
struct Explosive;

impl fmt::Debug for Explosive {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        std::panic::resume_unwind(Box::new("boom"))
    }
}

#[test]
fn a_value_may_trace_and_record_in_the_same_span_while_it_is_shown() {
    let arrived = run(|| {
        let span = info_span!("span", late = Empty, value = Empty);
        let _entered = span.enter();
        span.record("value", debug(Talkative));
        info!(value = ?Talkative, "event");
        info_span!("child", value = ?Talkative);
    });
    let span = &arrived.span("span").span;
    let names: Vec<_> = span.events.iter().map(|event| event.name.as_str()).collect();
    // `tracing` itself drops events that are emitted while it calls a thread-local subscriber.
    assert_eq!(names, ["shown", "event"]);
    assert_eq!(as_texts(&span.attributes), ["late=\"by itself\"", "value=\"talkative\""]);
    assert_eq!(as_texts(&span.events[1].attributes)[2..], ["value=\"talkative\""]);
    arrived.assert_child("shown", "span");
}

#[test]
fn a_value_that_panics_leaves_everything_in_order() {
    let arrived = run(|| {
        let span = info_span!("span", value = Empty, after = Empty);
        let _entered = span.enter();
        let explode = [
            catch_unwind(AssertUnwindSafe(|| _ = span.record("value", debug(Explosive)))),
            catch_unwind(AssertUnwindSafe(|| info!(value = ?Explosive, "lost"))),
            catch_unwind(AssertUnwindSafe(|| drop(info_span!("lost", value = ?Explosive)))),
        ];
        assert!(explode.iter().all(Result::is_err));
        span.record("after", 1);
        info!("after");
    });
    let span = &arrived.span("span").span;
    assert_eq!((arrived.spans.len(), as_texts(&span.attributes)), (1, vec!["after=1".to_owned()]));
    assert_eq!(span.events.iter().map(|event| event.name.as_str()).collect::<Vec<_>>(), ["after"]);
}

#[test]
fn a_span_whose_values_panic_is_counted() {
    let arrived = run(|| {
        let explode = || drop(info_span!("lost", value = ?Explosive));
        assert!(catch_unwind(explode).is_err());
        info_span!("kept");
    });
    assert_eq!((arrived.names(), arrived.panicked), (vec!["kept"], 1));
}

#[test]
fn a_log_record_whose_values_panic_is_counted_and_an_event_of_a_span_is_none() {
    let arrived = run(|| {
        assert!(catch_unwind(|| info!(value = ?Explosive, "lost")).is_err());
        let span = info_span!("span");
        let _entered = span.enter();
        assert!(catch_unwind(AssertUnwindSafe(|| info!(value = ?Explosive, "of the span"))).is_err());
    });
    assert_eq!((arrived.names(), arrived.logs.len(), arrived.panicked), (vec!["span"], 0, 1));
}
