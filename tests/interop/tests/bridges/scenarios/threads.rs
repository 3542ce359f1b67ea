//! Spans on several threads.

use tracing::{Span, error, info, info_span};

use super::{Scenario, Stage, scenarios};

pub(super) const ALL: &[Scenario] = scenarios![
    made_on_another_thread,
    on_a_thread_without_a_name,
    closed_on_another_thread,
    moved_between_threads,
    entered_on_two_threads,
    child_on_another_thread,
    recorded_on_another_thread,
    event_on_another_thread,
    linked_on_another_thread,
];

fn made_on_another_thread(stage: &Stage<'_>) {
    info_span!("here").in_scope(|| {
        stage.on_thread(Some("elsewhere"), || info_span!("there").in_scope(|| {}));
    });
}

fn on_a_thread_without_a_name(stage: &Stage<'_>) {
    info_span!("here").in_scope(|| {});
    stage.on_thread(None, || info_span!("nameless").in_scope(|| info!("said")));
}

fn closed_on_another_thread(stage: &Stage<'_>) {
    let span = info_span!("span");
    span.in_scope(|| {});
    stage.on_thread(Some("elsewhere"), || drop(span));
}

fn moved_between_threads(stage: &Stage<'_>) {
    let span = info_span!("span");
    span.in_scope(|| info_span!("here").in_scope(|| {}));
    stage.on_thread(Some("elsewhere"), || span.in_scope(|| info_span!("there").in_scope(|| {})));
    span.in_scope(|| info_span!("here again").in_scope(|| {}));
}

fn entered_on_two_threads(stage: &Stage<'_>) {
    let span = info_span!("span");
    let _entered = span.enter();
    stage.on_thread(Some("elsewhere"), || {
        span.in_scope(|| info_span!("there").in_scope(|| {}));
        info_span!("there, but in nothing").in_scope(|| {});
    });
    info_span!("here").in_scope(|| {});
}

fn child_on_another_thread(stage: &Stage<'_>) {
    let span = info_span!("span");
    stage.on_thread(Some("elsewhere"), || info_span!(parent: &span, "there").in_scope(|| {}));
}

fn recorded_on_another_thread(stage: &Stage<'_>) {
    let span = info_span!("span", late = tracing::field::Empty);
    let _entered = span.enter();
    stage.on_thread(Some("elsewhere"), || {
        span.record("late", "recorded");
        stage.note("current elsewhere", Span::current().is_none());
    });
}

fn event_on_another_thread(stage: &Stage<'_>) {
    let span = info_span!("span");
    stage.on_thread(Some("elsewhere"), || {
        info!(parent: &span, "by name");
        span.in_scope(|| error!("within"));
    });
}

fn linked_on_another_thread(stage: &Stage<'_>) {
    let (first, second) = (info_span!("first"), info_span!("second"));
    stage.on_thread(Some("elsewhere"), || {
        second.follows_from(&first);
    });
}
