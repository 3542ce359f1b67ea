//! Trees of spans: parents and times.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tracing::field::Empty;
use tracing::{Instrument, Level, Span, info_span, span};

use super::{Scenario, Stage, scenarios};

pub(super) const ALL: &[Scenario] = scenarios![
    nested,
    siblings_of_one_name,
    explicit_parent,
    explicit_root,
    a_parent_that_was_never_entered,
    a_parent_that_is_closed_before_its_child,
    entered_out_of_order,
    entered_twice_at_once,
    entered_again,
    never_entered,
    open_after_the_last_exit,
    never_closed,
    cloned,
    follows_from,
    follows_from_before_and_after_the_start,
    follows_one_that_is_closed,
    every_level,
    odd_names,
    odd_targets,
    a_panic_through_spans,
    a_panic_through_a_span_that_is_closed_by_it,
    deep,
    many_one_after_the_other,
    many_at_once,
    another_subscriber_in_between,
    futures_that_take_turns,
    planted,
];

fn nested(_: &Stage<'_>) {
    info_span!("outer").in_scope(|| {
        info_span!("middle").in_scope(|| info_span!("inner").in_scope(|| {}));
        info_span!("second").in_scope(|| {});
    });
}

fn siblings_of_one_name(_: &Stage<'_>) {
    info_span!("outer").in_scope(|| {
        for number in 0..3 {
            info_span!("inner", number).in_scope(|| {});
        }
    });
    info_span!("outer").in_scope(|| {});
}

fn explicit_parent(_: &Stage<'_>) {
    let one = info_span!("one");
    let two = info_span!("two");
    let _entered = two.enter();
    let child = info_span!(parent: &one, "child of one");
    child.in_scope(|| info_span!("grandchild of one").in_scope(|| {}));
    info_span!("child of two").in_scope(|| {});
}

fn explicit_root(_: &Stage<'_>) {
    info_span!("outer").in_scope(|| {
        info_span!(parent: None, "root").in_scope(|| info_span!("below root").in_scope(|| {}));
    });
}

fn a_parent_that_was_never_entered(_: &Stage<'_>) {
    let parent = info_span!("parent");
    info_span!(parent: &parent, "first").in_scope(|| {});
    info_span!(parent: &parent, "second").in_scope(|| {});
}

fn a_parent_that_is_closed_before_its_child(_: &Stage<'_>) {
    let parent = info_span!("parent");
    let child = parent.in_scope(|| info_span!("child"));
    drop(parent);
    child.in_scope(|| {});
}

fn entered_out_of_order(_: &Stage<'_>) {
    let (one, two) = (info_span!("one"), info_span!("two"));
    let first = one.enter();
    let second = two.enter();
    info_span!("in both").in_scope(|| {});
    drop(first);
    info_span!("in two").in_scope(|| {});
    drop(second);
    info_span!("in none").in_scope(|| {});
}

fn entered_twice_at_once(_: &Stage<'_>) {
    let span = info_span!("outer");
    let first = span.enter();
    let second = span.enter();
    info_span!("in both").in_scope(|| {});
    drop(second);
    info_span!("still in").in_scope(|| {});
    drop(first);
    info_span!("outside").in_scope(|| {});
}

fn entered_again(_: &Stage<'_>) {
    let span = info_span!("outer");
    span.in_scope(|| info_span!("first").in_scope(|| {}));
    info_span!("between").in_scope(|| {});
    span.in_scope(|| info_span!("second").in_scope(|| {}));
}

fn never_entered(_: &Stage<'_>) {
    drop(info_span!("never entered", answer = 42));
}

fn open_after_the_last_exit(_: &Stage<'_>) {
    let span = info_span!("outer");
    span.in_scope(|| {});
    info_span!(parent: &span, "after the exit").in_scope(|| {});
    tracing::info!(parent: &span, "event after the exit");
}

fn never_closed(_: &Stage<'_>) {
    info_span!("closed").in_scope(|| {});
    let span = info_span!("never closed");
    span.in_scope(|| {});
    mem::forget(span);
}

fn cloned(_: &Stage<'_>) {
    let span = info_span!("outer");
    let clone = span.clone();
    drop(span);
    clone.in_scope(|| info_span!("in the clone").in_scope(|| {}));
}

fn follows_from(_: &Stage<'_>) {
    let (first, second) = (info_span!("first"), info_span!("second"));
    let joined = info_span!("joined");
    joined.follows_from(&first);
    joined.follows_from(second.id());
    joined.in_scope(|| {});
}

fn follows_from_before_and_after_the_start(_: &Stage<'_>) {
    let (first, second) = (info_span!("first"), info_span!("second"));
    first.in_scope(|| {});
    let joined = info_span!("joined");
    joined.follows_from(&first);
    joined.in_scope(|| {
        Span::current().follows_from(&second);
    });
    joined.follows_from(&first);
}

fn follows_one_that_is_closed(_: &Stage<'_>) {
    let first = info_span!("first");
    let id = first.id();
    drop(first);
    let second = info_span!("second");
    second.follows_from(id);
    second.in_scope(|| {});
}

fn every_level(_: &Stage<'_>) {
    span!(Level::ERROR, "error").in_scope(|| {});
    span!(Level::WARN, "warn").in_scope(|| {});
    span!(Level::INFO, "info").in_scope(|| {});
    span!(Level::DEBUG, "debug").in_scope(|| {});
    span!(Level::TRACE, "trace").in_scope(|| {});
}

fn odd_names(_: &Stage<'_>) {
    info_span!("").in_scope(|| {});
    info_span!("with spaces, commas and \"quotes\"").in_scope(|| {});
    info_span!("Grüße, 世界 🌍").in_scope(|| {});
    info_span!("two\nlines\tand a zero\0").in_scope(|| {});
}

fn odd_targets(_: &Stage<'_>) {
    info_span!(target: "shop::basket", "as a module").in_scope(|| {});
    info_span!(target: "", "empty").in_scope(|| {});
    info_span!(target: "Kasse für alle 🛒", "unicode").in_scope(|| {});
}

fn a_panic_through_spans(stage: &Stage<'_>) {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let outer = info_span!("outer");
        let _outer = outer.enter();
        let inner = info_span!("inner", answer = 42);
        let _inner = inner.enter();
        resume_unwind(Box::new("thrown without a message"));
    }));
    stage.note("panicked", outcome.is_err());
    info_span!("afterwards").in_scope(|| {});
}

fn a_panic_through_a_span_that_is_closed_by_it(stage: &Stage<'_>) {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let _outer = info_span!("outer").entered();
        let _inner = info_span!("inner").entered();
        resume_unwind(Box::new("thrown without a message"));
    }));
    stage.note("panicked", outcome.is_err());
    info_span!("afterwards").in_scope(|| {});
}

fn deep(_: &Stage<'_>) {
    let spans: Vec<_> = (0..100).map(|number| info_span!("span", number).entered()).collect();
    tracing::info!("at the bottom");
    // Closes the outermost span first.
    drop(spans);
}

fn many_one_after_the_other(_: &Stage<'_>) {
    for number in 0..500 {
        info_span!("span", number).in_scope(|| tracing::info!(number, "said"));
    }
}

fn many_at_once(_: &Stage<'_>) {
    let spans: Vec<_> = (0..500).map(|number| info_span!("span", number, late = Empty)).collect();
    for (number, span) in spans.iter().enumerate().rev() {
        span.record("late", number as i64);
        info_span!(parent: span, "child", number = number as i64).in_scope(|| {});
    }
}

fn another_subscriber_in_between(_: &Stage<'_>) {
    info_span!("outer").in_scope(|| {
        tracing::subscriber::with_default(tracing_subscriber::registry(), || {
            info_span!("elsewhere").in_scope(|| info_span!("also elsewhere").in_scope(|| {}));
            tracing::info!("said elsewhere");
        });
        info_span!("inner").in_scope(|| {});
    });
}

fn futures_that_take_turns(_: &Stage<'_>) {
    async fn step(rest: Rest) {
        info_span!("before").in_scope(|| {});
        rest.await;
        tracing::info!("after the rest");
        info_span!("after").in_scope(|| {});
    }
    let mut futures = [("one", 1), ("two", 2)].map(|(otel_name, number)| {
        Box::pin(step(Rest::default()).instrument(info_span!("future", otel.name = otel_name, number)))
    });
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..2 {
        for future in &mut futures {
            let _ = future.as_mut().poll(&mut context);
        }
    }
}

/// A future that is ready at the second poll.
#[derive(Default)]
struct Rest {
    is_over: bool,
}

impl Future for Rest {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if mem::replace(&mut self.is_over, true) { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// A program that uses every feature, for the tests of the comparison.
fn planted(_: &Stage<'_>) {
    let (first, second) = (info_span!("first"), info_span!("second"));
    first.in_scope(|| {
        info_span!("child", answer = 42).in_scope(|| {
            tracing::info!("said");
            tracing::info!("said again");
        });
    });
    let joined = info_span!("joined");
    joined.follows_from(&first);
    joined.follows_from(&second);
    joined.follows_from(&first);
}
