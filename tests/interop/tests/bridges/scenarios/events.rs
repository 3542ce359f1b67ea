//! Events, in spans and outside.

use std::error::Error;

use tracing::field::Empty;
use tracing::{Level, debug, error, event, info, info_span, trace, warn};

use super::fields::Failure;
use super::{Scenario, Stage, scenarios};

pub(super) const ALL: &[Scenario] = scenarios![
    with_a_message,
    without_a_message,
    with_a_name_of_its_own,
    with_a_target_of_its_own,
    with_a_formatted_message,
    with_a_message_that_is_no_text,
    with_fields_of_every_kind,
    with_fields_that_mean_something_on_spans,
    at_every_level,
    at_every_level_before_the_start,
    with_an_error,
    with_an_error_and_a_message,
    with_an_error_of_another_name,
    with_an_error_that_is_displayed,
    with_an_error_that_is_displayed_and_a_message,
    with_an_error_that_is_a_text,
    with_an_error_that_is_a_number,
    with_two_errors,
    with_an_error_before_the_start,
    with_an_error_below_the_level_of_errors,
    in_nested_spans,
    with_an_explicit_parent,
    with_an_explicit_parent_that_is_closed,
    without_a_parent,
    outside_of_spans,
    before_and_after_the_start,
    with_optional_fields,
];

fn with_a_message(_: &Stage<'_>) {
    info_span!("span").in_scope(|| {
        info!("bought");
        info!(milk = 2, "bought");
        info!("");
        info!("Grüße, 世界 🌍\nin two lines");
    });
}

fn without_a_message(_: &Stage<'_>) {
    info_span!("span").in_scope(|| {
        info!(milk = 2);
        event!(Level::INFO, honey = true);
    });
}

fn with_a_name_of_its_own(_: &Stage<'_>) {
    info_span!("span").in_scope(|| {
        info!(name: "purchase", milk = 2);
        info!(name: "purchase", "bought");
    });
}

fn with_a_target_of_its_own(_: &Stage<'_>) {
    info_span!(target: "shop::basket", "span").in_scope(|| info!(target: "shop::till", "paid"));
}

fn with_a_formatted_message(_: &Stage<'_>) {
    let price = 1.5;
    info_span!("span").in_scope(|| {
        info!("bought {} for {price:.2}", "milk");
        info!(price, "bought for {price}");
    });
}

fn with_a_message_that_is_no_text(_: &Stage<'_>) {
    info_span!("span").in_scope(|| {
        info!(message = "a field");
        info!(message = 42);
        info!(message = true);
        info!(message = 0.5);
        info!(message = 7_u64);
        info!(message = ?Some("debugged"));
        info!(message = %"displayed");
    });
}

fn with_fields_of_every_kind(_: &Stage<'_>) {
    info_span!("span").in_scope(|| {
        info!(
            truth = true,
            number = -42,
            float = 0.5,
            none = f64::NAN,
            text = "text",
            owned = String::from("x"),
            "said"
        );
        info!(small = 42_u64, most = u64::MAX, wide = 1_i128, unsigned = u128::MAX, "unsigned");
        info!(debugged = ?[1, 2], displayed = %"shown", arguments = format_args!("{}", 1), "formatted");
        info!(bytes = &b"a\x00"[..], never = Empty, "rare");
        info!(http.method = "GET", "with spaces" = 1, r#type = "raw", "named");
    });
}

fn with_fields_that_mean_something_on_spans(_: &Stage<'_>) {
    info_span!("span").in_scope(|| {
        info!(otel.name = "mine", otel.kind = "server", otel.status_code = "error", "said");
        info!(level = "mine", target = "mine", "code.line.number" = 0, "said");
        info!(log.target = "mine", log.line = 1, logs = 2, "said");
    });
}

fn at_every_level(_: &Stage<'_>) {
    info_span!("error").in_scope(|| error!("said"));
    info_span!("warn").in_scope(|| warn!("said"));
    info_span!("info").in_scope(|| info!("said"));
    info_span!("debug").in_scope(|| debug!("said"));
    info_span!("trace").in_scope(|| trace!("said"));
}

fn at_every_level_before_the_start(_: &Stage<'_>) {
    let span = info_span!("span");
    warn!(parent: &span, "said");
    error!(parent: &span, "said");
}

fn with_an_error(_: &Stage<'_>) {
    let failure = Failure::chained();
    info_span!("span").in_scope(|| error!(error = &failure as &(dyn Error + 'static)));
}

fn with_an_error_and_a_message(_: &Stage<'_>) {
    let failure = Failure::chained();
    info_span!("span").in_scope(|| error!(error = &failure as &(dyn Error + 'static), "failed"));
}

fn with_an_error_of_another_name(_: &Stage<'_>) {
    let failure = Failure::plain();
    info_span!("span").in_scope(|| error!(cause = &failure as &(dyn Error + 'static), "failed"));
}

fn with_an_error_that_is_displayed(_: &Stage<'_>) {
    let failure = Failure::chained();
    info_span!("displayed").in_scope(|| error!(error = %failure));
    info_span!("debugged").in_scope(|| error!(error = ?failure, number = 1));
}

fn with_an_error_that_is_displayed_and_a_message(_: &Stage<'_>) {
    let failure = Failure::chained();
    info_span!("displayed").in_scope(|| error!(error = %failure, "failed"));
    info_span!("late message").in_scope(|| error!(error = %failure, message = "failed"));
}

fn with_an_error_that_is_a_text(_: &Stage<'_>) {
    info_span!("span").in_scope(|| error!(error = "no \"milk\""));
    info_span!("with a message").in_scope(|| error!(error = "no \"milk\"", "failed"));
}

fn with_an_error_that_is_a_number(_: &Stage<'_>) {
    info_span!("span").in_scope(|| {
        error!(error = 404);
        error!(error = true);
        error!(error = 404_u64);
    });
}

fn with_two_errors(_: &Stage<'_>) {
    let (one, two) = (Failure::plain(), Failure::chained());
    info_span!("span").in_scope(|| {
        error!(one = &one as &(dyn Error + 'static), two = &two as &(dyn Error + 'static), "failed");
        error!(error = %one, "failed again");
    });
    info_span!("displayed").in_scope(|| {
        error!(error = %one);
        error!(error = %"another");
    });
}

fn with_an_error_before_the_start(_: &Stage<'_>) {
    let span = info_span!("recorded", answer = 42);
    error!(parent: &span, error = &Failure::chained() as &(dyn Error + 'static), "failed");
    let span = info_span!("displayed");
    error!(parent: &span, error = %Failure::plain());
}

fn with_an_error_below_the_level_of_errors(_: &Stage<'_>) {
    info_span!("displayed").in_scope(|| warn!(error = %Failure::plain()));
    info_span!("recorded")
        .in_scope(|| info!(error = &Failure::plain() as &(dyn Error + 'static), "went wrong"));
}

fn in_nested_spans(_: &Stage<'_>) {
    info_span!("outer").in_scope(|| {
        info!("in the outer");
        info_span!("inner").in_scope(|| error!("in the inner"));
        info!("in the outer again");
    });
}

fn with_an_explicit_parent(_: &Stage<'_>) {
    let other = info_span!("other");
    info_span!("outer").in_scope(|| {
        info!(parent: &other, "in the other");
        info!(parent: other.id(), "by its id");
    });
}

fn with_an_explicit_parent_that_is_closed(_: &Stage<'_>) {
    let closed = info_span!("closed");
    let id = closed.id();
    drop(closed);
    info_span!("outer").in_scope(|| info!(parent: id, "too late"));
}

fn without_a_parent(_: &Stage<'_>) {
    info_span!("span").in_scope(|| info!(parent: None, milk = 2, "in no span"));
}

fn outside_of_spans(_: &Stage<'_>) {
    info!("before");
    info_span!("span").in_scope(|| {});
    error!(error = %Failure::plain(), number = 1);
}

fn before_and_after_the_start(_: &Stage<'_>) {
    let span = info_span!("span");
    info!(parent: &span, "before entering");
    span.in_scope(|| info!("within"));
    span.in_scope(|| info!("within again"));
}

fn with_optional_fields(_: &Stage<'_>) {
    info_span!("span").in_scope(|| info!(some = Some(1), none = None::<i64>, text = Some("text"), "said"));
}
