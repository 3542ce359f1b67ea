//! Parents, roots and links.

use std::collections::HashSet;

use standpipe::bridge::tracing::{Events, TracingLayer};
use standpipe::{Config, SpanContext};
use tracing::{info_span, span::Span};
use tracing_subscriber::prelude::*;

use super::stage::{Arrived, run, run_config, run_telemetry};

#[test]
fn a_span_is_the_child_of_the_one_it_is_made_in() {
    let arrived = run(|| {
        let _outer = info_span!("outer").entered();
        let _middle = info_span!("middle").entered();
        info_span!("inner").in_scope(|| {});
    });
    assert_eq!(arrived.names(), ["inner", "middle", "outer"]);
    arrived.assert_child("inner", "middle");
    arrived.assert_child("middle", "outer");
    arrived.assert_root("outer");
}

#[test]
fn an_explicit_parent_is_the_parent_wherever_the_thread_is() {
    let arrived = run(|| {
        let parent = info_span!("parent");
        let _around = info_span!("around").entered();
        info_span!(parent: &parent, "child").in_scope(|| {});
        info_span!(parent: None, "root").in_scope(|| {});
        info_span!(parent: parent.id(), "by id").in_scope(|| {});
    });
    arrived.assert_child("child", "parent");
    arrived.assert_child("by id", "parent");
    arrived.assert_root("root");
    arrived.assert_root("parent");
}

#[test]
fn what_a_span_follows_from_is_a_link() {
    let arrived = run(|| {
        let (cause, effect) = (info_span!("cause"), info_span!("effect"));
        effect.follows_from(&cause);
        effect.follows_from(&effect);
        effect.in_scope(|| effect.follows_from(cause.id()));
    });
    let (cause, effect) = (&arrived.span("cause").span, &arrived.span("effect").span);
    let targets: Vec<_> = effect.links.iter().map(|link| (&link.trace_id, &link.span_id)).collect();
    let expected = [cause, effect, cause].map(|span| (&span.trace_id, &span.span_id));
    assert_eq!(targets, expected);
}

#[test]
fn spans_of_a_tracer_and_of_tracing_are_parents_of_each_other() {
    let arrived = run_config(
        Config::new(),
        |layer| layer,
        |telemetry| {
            let tracer = telemetry.tracer("native");
            let _outer = tracer.span("outer");
            let middle = info_span!("middle").entered();
            let inner = tracer.span("inner");
            telemetry.logger("native").info("logged").emit();
            drop(inner);
            assert!(SpanContext::current().is_some());
            drop(middle);
        },
    );
    arrived.assert_child("middle", "outer");
    arrived.assert_child("inner", "middle");
    assert_eq!(arrived.logs[0].log.span_id, arrived.span("inner").span.span_id);
}

#[test]
fn a_span_is_sent_when_it_is_closed_and_ends_where_it_was_left_last() {
    let arrived = run(|| {
        let kept = info_span!("kept");
        kept.in_scope(|| {});
        info_span!("between").in_scope(|| {});
        let clone = kept.clone();
        drop(kept);
        info_span!("before the end").in_scope(|| {});
        drop(clone);
    });
    assert_eq!(arrived.names(), ["between", "before the end", "kept"]);
    let (kept, between) = (&arrived.span("kept").span, &arrived.span("between").span);
    assert!(kept.end_time_unix_nano <= between.start_time_unix_nano);
}

#[test]
fn a_span_that_is_never_entered_ends_when_it_is_closed() {
    let arrived = run(|| {
        let waiting = info_span!("waiting");
        info_span!("meanwhile").in_scope(|| {});
        drop(waiting);
    });
    let (waiting, meanwhile) = (&arrived.span("waiting").span, &arrived.span("meanwhile").span);
    assert!(waiting.end_time_unix_nano >= meanwhile.end_time_unix_nano);
}

#[test]
fn a_span_that_is_never_closed_harms_no_other() {
    let arrived = run(|| {
        std::mem::forget(info_span!("leaked"));
        std::mem::forget(info_span!("left entered").entered());
        info_span!("child").in_scope(|| {});
    });
    assert_eq!(arrived.names(), ["child"]);
    assert_eq!(arrived.span("child").span.parent_span_id.len(), 8);
}

#[test]
fn a_scope_is_the_target_or_the_one_that_is_given() {
    let program = || {
        info_span!(target: "shop::cart", "one").in_scope(|| {});
        info_span!(target: "shop::stock", "two").in_scope(|| tracing::info!(parent: None, "three"));
    };
    let arrived = run(program);
    assert_eq!(arrived.span("one").scope.name, "shop::cart");
    assert_eq!(arrived.span("two").scope.name, "shop::stock");
    assert_eq!(arrived.logs[0].scope.name, module_path!());
    assert!(arrived.span("one").attribute("target").is_none());
    let arrived = super::stage::run_with(|layer| layer.scope("shop"), program);
    assert!(arrived.spans.iter().all(|received| received.scope.name == "shop"));
    assert_eq!(super::stage::as_texts(&arrived.span("one").span.attributes), ["target=\"shop::cart\""]);
    assert_eq!(
        super::stage::as_texts(&arrived.logs[0].log.attributes)[0],
        format!("target={:?}", module_path!())
    );
}

#[test]
fn a_disabled_span_is_no_parent() {
    let arrived = run(|| {
        let none = Span::none();
        let _none = none.enter();
        info_span!("alone").in_scope(|| {});
    });
    arrived.assert_root("alone");
}

#[test]
fn keeps_the_trees_of_two_layers_in_one_subscriber_apart() {
    let mut second = None;
    let first = run_telemetry(Config::new(), |first| {
        second = Some(run_telemetry(Config::new(), |second| {
            let layer = |telemetry| TracingLayer::new(telemetry).events(Events::Both);
            let _default =
                tracing_subscriber::registry().with(layer(first)).with(layer(second)).set_default();
            let outer = info_span!("outer").entered();
            let middle = info_span!("middle");
            middle.in_scope(|| {
                tracing::info!("logged");
                info_span!("inner").in_scope(|| {});
            });
            // This span is entered after `outer` and is still entered when `outer` is exited.
            let late = info_span!("late").entered();
            drop(outer);
            info_span!("last").in_scope(|| {});
            drop(late);
            info_span!("alone").in_scope(|| tracing::info!("logged alone"));
        }));
    });
    let second = second.unwrap();
    for arrived in [&first, &second] {
        assert_eq!(arrived.spans.len(), 6, "{:?}", arrived.names());
        for (child, parent) in [("inner", "middle"), ("middle", "outer"), ("late", "outer"), ("last", "late")]
        {
            arrived.assert_child(child, parent);
        }
        ["outer", "alone"].iter().for_each(|root| arrived.assert_root(root));
        for (log, span) in arrived.logs.iter().zip(["middle", "alone"]) {
            assert_eq!(log.log.span_id, arrived.span(span).span.span_id, "a log in {span}");
        }
        assert_eq!(arrived.logs.len(), 2);
    }
    let ids = |arrived: &Arrived| {
        arrived.spans.iter().map(|span| span.span.span_id.clone()).collect::<HashSet<_>>()
    };
    assert!(ids(&first).is_disjoint(&ids(&second)));
}
