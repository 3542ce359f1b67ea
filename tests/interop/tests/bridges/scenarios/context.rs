//! Traces that continue in other processes, and spans of the stack's own tracer.

use tracing::{info, info_span};

use super::{Scenario, Stage, scenarios};
use crate::stacks::Remote;

pub(super) const ALL: &[Scenario] = scenarios![
    a_remote_parent,
    a_remote_parent_with_a_state,
    a_remote_parent_that_is_not_sampled,
    a_remote_parent_that_is_nonsense,
    a_remote_parent_instead_of_a_local_one,
    a_remote_parent_twice,
    a_remote_parent_after_entering,
    a_remote_parent_after_a_child,
    a_remote_parent_after_a_look_at_the_context,
    links_to_other_processes,
    links_to_nonsense,
    injected_of_a_root,
    injected_below_a_remote_parent,
    injected_of_a_disabled_span,
    a_span_goes_on_after_it_was_injected,
    native_in_traced,
    traced_in_native,
];

const REMOTE: Remote =
    Remote { traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", tracestate: "" };
const REMOTE_WITH_STATE: Remote = Remote { tracestate: "vendor=one,other=two", ..REMOTE };
const NOT_SAMPLED: Remote =
    Remote { traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00", tracestate: "" };
const ANOTHER: Remote = Remote {
    traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-03",
    tracestate: "vendor=three",
};
const NONSENSE: Remote =
    Remote { traceparent: "00-00000000000000000000000000000000-00f067aa0ba902b7-01", tracestate: "" };

fn a_remote_parent(stage: &Stage<'_>) {
    let span = info_span!("request");
    stage.note("set", stage.set_parent(&span, REMOTE));
    span.in_scope(|| info_span!("inner").in_scope(|| {}));
}

fn a_remote_parent_with_a_state(stage: &Stage<'_>) {
    let span = info_span!("request");
    stage.note("set", stage.set_parent(&span, REMOTE_WITH_STATE));
    span.in_scope(|| info_span!("inner").in_scope(|| {}));
}

fn a_remote_parent_that_is_not_sampled(stage: &Stage<'_>) {
    let span = info_span!("request");
    stage.note("set", stage.set_parent(&span, NOT_SAMPLED));
    span.in_scope(|| info_span!("inner").in_scope(|| info!("said")));
    info_span!("afterwards").in_scope(|| {});
}

fn a_remote_parent_that_is_nonsense(stage: &Stage<'_>) {
    let span = info_span!("request");
    stage.set_parent(&span, NONSENSE);
    span.in_scope(|| info_span!("inner").in_scope(|| {}));
}

fn a_remote_parent_instead_of_a_local_one(stage: &Stage<'_>) {
    info_span!("outer").in_scope(|| {
        let span = info_span!("request");
        stage.note("set", stage.set_parent(&span, REMOTE));
        span.in_scope(|| info_span!("inner").in_scope(|| {}));
    });
}

fn a_remote_parent_twice(stage: &Stage<'_>) {
    let span = info_span!("request");
    stage.note("set", stage.set_parent(&span, REMOTE));
    stage.note("set again", stage.set_parent(&span, ANOTHER));
    span.in_scope(|| {});
}

fn a_remote_parent_after_entering(stage: &Stage<'_>) {
    let span = info_span!("request");
    let _entered = span.enter();
    stage.note("set", stage.set_parent(&span, REMOTE));
}

fn a_remote_parent_after_a_child(stage: &Stage<'_>) {
    let span = info_span!("request");
    info_span!(parent: &span, "child").in_scope(|| {});
    stage.note("set", stage.set_parent(&span, REMOTE));
}

fn a_remote_parent_after_a_look_at_the_context(stage: &Stage<'_>) {
    let span = info_span!("request");
    stage.note("injected", stage.inject(&span).0);
    stage.note("set", stage.set_parent(&span, REMOTE));
}

fn links_to_other_processes(stage: &Stage<'_>) {
    let span = info_span!("batch");
    stage.add_link(&span, REMOTE_WITH_STATE);
    span.in_scope(|| stage.add_link(&span, ANOTHER));
    stage.add_link(&span, NOT_SAMPLED);
}

fn links_to_nonsense(stage: &Stage<'_>) {
    let span = info_span!("batch");
    stage.add_link(&span, NONSENSE);
    span.in_scope(|| stage.add_link(&span, NONSENSE));
}

fn injected_of_a_root(stage: &Stage<'_>) {
    let span = info_span!("request");
    let (traceparent, tracestate) = stage.inject(&span);
    stage.note("traceparent", traceparent);
    stage.note("tracestate", tracestate);
}

fn injected_below_a_remote_parent(stage: &Stage<'_>) {
    let span = info_span!("request");
    stage.set_parent(&span, REMOTE_WITH_STATE);
    let inner = span.in_scope(|| info_span!("inner"));
    let (traceparent, tracestate) = stage.inject(&inner);
    stage.note("traceparent", traceparent);
    stage.note("tracestate", tracestate);
}

fn injected_of_a_disabled_span(stage: &Stage<'_>) {
    let (traceparent, tracestate) = stage.inject(&tracing::Span::none());
    stage.note("traceparent", traceparent);
    stage.note("tracestate", tracestate);
    stage.note("set", stage.set_parent(&tracing::Span::none(), REMOTE));
}

fn a_span_goes_on_after_it_was_injected(stage: &Stage<'_>) {
    let span = info_span!("request", late = tracing::field::Empty);
    stage.inject(&span);
    span.record("late", "recorded");
    tracing::error!(parent: &span, "failed");
}

fn native_in_traced(stage: &Stage<'_>) {
    info_span!("traced").in_scope(|| {
        stage.native_span("native", || info_span!("traced in native").in_scope(|| {}));
        info_span!("afterwards").in_scope(|| {});
    });
}

fn traced_in_native(stage: &Stage<'_>) {
    stage.native_span("native", || {
        info_span!("traced").in_scope(|| stage.native_span("native in traced", || {}));
        info!("in the native span only");
        info_span!(parent: None, "root").in_scope(|| {});
    });
}
