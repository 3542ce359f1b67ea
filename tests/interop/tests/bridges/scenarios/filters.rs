//! Per-layer filters: a filtered span is not exported, and its children keep their place in the tree.

use tracing::level_filters::LevelFilter;
use tracing::{Level, debug, debug_span, error, info, info_span, trace_span};
use tracing_subscriber::filter::{Targets, dynamic_filter_fn, filter_fn};

use super::{BoxedFilter, Scenario, Stage};

pub(super) const ALL: &[Scenario] = &[
    Scenario::new("filtered_by_level", by_level).filtered(info_and_above),
    Scenario::new("filtered_by_target", by_target).filtered(only_the_basket),
    Scenario::new("filtered_by_name", by_name).filtered(nothing_private),
    Scenario::new("filtered_parents", parents).filtered(nothing_private),
    Scenario::new("filtered_links", links).filtered(nothing_private),
    Scenario::new("filtered_events_only", events_only).filtered(spans_only),
    Scenario::new("filtered_by_what_it_is_in", by_level).filtered(only_within_spans),
    Scenario::new("filtered_everything", by_level).filtered(nothing),
];

fn info_and_above() -> BoxedFilter {
    Box::new(LevelFilter::INFO)
}

fn only_the_basket() -> BoxedFilter {
    Box::new(Targets::new().with_target("shop::basket", Level::DEBUG).with_target("shop", LevelFilter::ERROR))
}

fn nothing_private() -> BoxedFilter {
    Box::new(filter_fn(|metadata| !metadata.name().starts_with("private")))
}

fn spans_only() -> BoxedFilter {
    Box::new(filter_fn(|metadata| metadata.is_span()))
}

fn only_within_spans() -> BoxedFilter {
    Box::new(dynamic_filter_fn(|metadata, context| {
        metadata.is_span() || context.lookup_current().is_some_and(|span| span.name() == "outer")
    }))
}

fn nothing() -> BoxedFilter {
    Box::new(LevelFilter::OFF)
}

fn by_level(_: &Stage<'_>) {
    info_span!("outer").in_scope(|| {
        debug!("too quiet");
        debug_span!("hidden").in_scope(|| {
            info!("in the hidden");
            info_span!("inner").in_scope(|| info!("in the inner"));
        });
        error!("loud");
    });
}

fn by_target(_: &Stage<'_>) {
    info_span!(target: "shop::basket", "basket").in_scope(|| {
        debug!(target: "shop::basket::eggs", "six");
        info!(target: "shop::till", "hidden");
        error!(target: "shop::till", "shown");
        info_span!(target: "other", "hidden").in_scope(|| {
            trace_span!(target: "shop::basket", "hidden too").in_scope(|| {
                debug_span!(target: "shop::basket", "eggs").in_scope(|| {});
            });
        });
    });
}

fn by_name(_: &Stage<'_>) {
    info_span!("private root").in_scope(|| {
        info!("in nothing that is seen");
        info_span!("seen").in_scope(|| info!("in the seen"));
    });
}

fn parents(_: &Stage<'_>) {
    let private = info_span!("private parent");
    info_span!("outer").in_scope(|| {
        info_span!(parent: &private, "below the private").in_scope(|| {});
        info!(parent: &private, "said in the private");
        private.in_scope(|| info_span!("within the private").in_scope(|| {}));
    });
}

fn links(_: &Stage<'_>) {
    let private = info_span!("private");
    let seen = info_span!("seen");
    seen.follows_from(&private);
    private.follows_from(&seen);
    private.record("unknown", 1);
}

fn events_only(_: &Stage<'_>) {
    info_span!("span").in_scope(|| error!("not seen, so it is no failure"));
}
