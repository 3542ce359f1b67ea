//! Fields with a meaning: `otel.name`, `otel.kind`, `otel.status_code`, `otel.status_description`.

use tracing::field::Empty;
use tracing::{error, info_span};

use super::{Scenario, Stage, scenarios};

pub(super) const ALL: &[Scenario] = scenarios![
    a_name,
    a_name_that_is_displayed,
    a_name_that_is_a_number,
    a_name_recorded_before_entering,
    a_name_recorded_after_entering,
    a_name_recorded_after_a_child,
    every_kind,
    kinds_in_any_case,
    wrong_kinds,
    a_kind_recorded_before_entering,
    a_kind_recorded_after_entering,
    every_status_code,
    wrong_status_codes,
    a_status_recorded_before_entering,
    a_status_recorded_after_entering,
    a_description,
    a_description_with_a_code,
    a_code_after_a_description,
    a_description_recorded_late,
    a_code_and_a_description_recorded_late,
    a_status_message,
    a_better_status_later,
    a_worse_status_later,
    a_worse_status_before_entering,
    unset_after_an_error,
    a_status_and_an_event_of_level_error,
];

fn a_name(_: &Stage<'_>) {
    info_span!("static", otel.name = "GET /milk").in_scope(|| info_span!("inner").in_scope(|| {}));
}

fn a_name_that_is_displayed(_: &Stage<'_>) {
    info_span!("static", otel.name = %format!("GET /milk/{}", 7));
    info_span!("debugged", otel.name = ?"quoted");
    info_span!("empty", otel.name = "");
}

fn a_name_that_is_a_number(_: &Stage<'_>) {
    info_span!(
        "static",
        otel.name = 7,
        otel.kind = 3,
        otel.status_code = true,
        otel.status_description = 0.5
    );
}

fn a_name_recorded_before_entering(_: &Stage<'_>) {
    let span = info_span!("static", otel.name = Empty);
    span.record("otel.name", "renamed");
    span.in_scope(|| {});
}

fn a_name_recorded_after_entering(_: &Stage<'_>) {
    let span = info_span!("static", otel.name = Empty);
    let _entered = span.enter();
    span.record("otel.name", "renamed");
}

fn a_name_recorded_after_a_child(_: &Stage<'_>) {
    let span = info_span!("static", otel.name = Empty);
    info_span!(parent: &span, "child").in_scope(|| {});
    span.record("otel.name", "renamed");
}

fn every_kind(_: &Stage<'_>) {
    for kind in ["server", "client", "producer", "consumer", "internal"] {
        info_span!("span", otel.kind = kind).in_scope(|| {});
    }
}

fn kinds_in_any_case(_: &Stage<'_>) {
    for kind in ["SERVER", "Client", "pRODUCER"] {
        info_span!("span", otel.kind = kind).in_scope(|| {});
    }
    #[derive(Debug)]
    struct Consumer;
    info_span!("debugged", otel.kind = ?Consumer);
    info_span!("displayed", otel.kind = %"server");
}

fn wrong_kinds(_: &Stage<'_>) {
    for kind in ["", "servant", " server", "unspecified"] {
        info_span!("span", otel.kind = kind).in_scope(|| {});
    }
    info_span!("quoted", otel.kind = ?"server");
}

fn a_kind_recorded_before_entering(_: &Stage<'_>) {
    let span = info_span!("span", otel.kind = Empty);
    span.record("otel.kind", "client");
    span.in_scope(|| {});
}

fn a_kind_recorded_after_entering(_: &Stage<'_>) {
    let span = info_span!("span", otel.kind = Empty);
    let _entered = span.enter();
    span.record("otel.kind", "client");
}

fn every_status_code(_: &Stage<'_>) {
    for code in ["ok", "OK", "Ok", "error", "ERROR", "Error"] {
        info_span!("span", otel.status_code = code).in_scope(|| {});
    }
}

fn wrong_status_codes(_: &Stage<'_>) {
    for code in ["", "unset", "Unset", "okay", "500"] {
        info_span!("span", otel.status_code = code).in_scope(|| {});
    }
}

fn a_status_recorded_before_entering(_: &Stage<'_>) {
    let span = info_span!("span", otel.status_code = Empty);
    span.record("otel.status_code", "error");
    span.in_scope(|| {});
}

fn a_status_recorded_after_entering(_: &Stage<'_>) {
    let span = info_span!("span", otel.status_code = Empty);
    let _entered = span.enter();
    span.record("otel.status_code", "ok");
}

fn a_description(_: &Stage<'_>) {
    info_span!("span", otel.status_description = "no milk");
    info_span!("displayed", otel.status_description = %"no milk");
    info_span!("empty", otel.status_description = "");
}

fn a_description_with_a_code(_: &Stage<'_>) {
    info_span!("error", otel.status_code = "error", otel.status_description = "no milk");
    info_span!("ok", otel.status_code = "ok", otel.status_description = "no milk");
    info_span!("wrong", otel.status_code = "wrong", otel.status_description = "no milk");
}

fn a_code_after_a_description(_: &Stage<'_>) {
    info_span!("error", otel.status_description = "no milk", otel.status_code = "error");
    info_span!("ok", otel.status_description = "no milk", otel.status_code = "ok");
    info_span!("wrong", otel.status_description = "no milk", otel.status_code = "wrong");
}

fn a_description_recorded_late(_: &Stage<'_>) {
    let span = info_span!("span", otel.status_description = Empty);
    let _entered = span.enter();
    span.record("otel.status_description", "no milk");
}

fn a_code_and_a_description_recorded_late(_: &Stage<'_>) {
    let span = info_span!("span", otel.status_code = Empty, otel.status_description = Empty);
    let _entered = span.enter();
    span.record("otel.status_code", "error");
    span.record("otel.status_description", "no milk");
}

fn a_status_message(_: &Stage<'_>) {
    info_span!("alone", otel.status_message = "no milk");
    info_span!("with a code", otel.status_code = "error", otel.status_message = "no milk");
    let span = info_span!("late", otel.status_code = Empty, otel.status_message = Empty);
    let _entered = span.enter();
    span.record("otel.status_code", "error");
    span.record("otel.status_message", "no milk");
}

fn a_better_status_later(_: &Stage<'_>) {
    let span = info_span!("span", otel.status_code = "error");
    let _entered = span.enter();
    span.record("otel.status_code", "ok");
}

fn a_worse_status_later(_: &Stage<'_>) {
    let span = info_span!("span", otel.status_code = "ok");
    let _entered = span.enter();
    span.record("otel.status_code", "error");
}

fn a_worse_status_before_entering(_: &Stage<'_>) {
    let span = info_span!("span", otel.status_code = "ok");
    span.record("otel.status_code", "error");
}

fn unset_after_an_error(_: &Stage<'_>) {
    let span = info_span!("early", otel.status_code = "error");
    span.record("otel.status_code", "unset");
    let span = info_span!("late", otel.status_code = "error");
    let _entered = span.enter();
    span.record("otel.status_code", "unset");
}

fn a_status_and_an_event_of_level_error(_: &Stage<'_>) {
    info_span!("ok", otel.status_code = "ok").in_scope(|| error!("failed"));
    info_span!("described", otel.status_description = "no milk").in_scope(|| error!("failed"));
    let span = info_span!("ok afterwards", otel.status_code = Empty);
    let _entered = span.enter();
    error!("failed");
    span.record("otel.status_code", "ok");
}
