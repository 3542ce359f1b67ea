//! Records near and above the limits: both stacks keep 128 attributes, events and links by default, and count the
//! others.

use tracing::field::Empty;
use tracing::{Span, info, info_span};

use super::{Scenario, Stage, scenarios};
use crate::stacks::Remote;

pub(super) const ALL: &[Scenario] = scenarios![
    many_fields,
    too_many_fields,
    too_many_fields_of_an_event,
    a_field_recorded_too_often,
    late_fields_without_room,
    too_many_events,
    too_many_events_before_the_start,
    too_many_links,
    too_many_links_before_the_start,
    conventions_without_room,
];

const REMOTE: Remote =
    Remote { traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", tracestate: "" };

/// 140 fields: `f000 = 0` to `f139 = 139`, after the given ones.
macro_rules! with_140_fields {
    ($macro:ident ! ($($first:tt)*)) => {
        $macro!(
            $($first)*
            f000 = 0, f001 = 1, f002 = 2, f003 = 3, f004 = 4, f005 = 5, f006 = 6,
            f007 = 7, f008 = 8, f009 = 9, f010 = 10, f011 = 11, f012 = 12, f013 = 13,
            f014 = 14, f015 = 15, f016 = 16, f017 = 17, f018 = 18, f019 = 19, f020 = 20,
            f021 = 21, f022 = 22, f023 = 23, f024 = 24, f025 = 25, f026 = 26, f027 = 27,
            f028 = 28, f029 = 29, f030 = 30, f031 = 31, f032 = 32, f033 = 33, f034 = 34,
            f035 = 35, f036 = 36, f037 = 37, f038 = 38, f039 = 39, f040 = 40, f041 = 41,
            f042 = 42, f043 = 43, f044 = 44, f045 = 45, f046 = 46, f047 = 47, f048 = 48,
            f049 = 49, f050 = 50, f051 = 51, f052 = 52, f053 = 53, f054 = 54, f055 = 55,
            f056 = 56, f057 = 57, f058 = 58, f059 = 59, f060 = 60, f061 = 61, f062 = 62,
            f063 = 63, f064 = 64, f065 = 65, f066 = 66, f067 = 67, f068 = 68, f069 = 69,
            f070 = 70, f071 = 71, f072 = 72, f073 = 73, f074 = 74, f075 = 75, f076 = 76,
            f077 = 77, f078 = 78, f079 = 79, f080 = 80, f081 = 81, f082 = 82, f083 = 83,
            f084 = 84, f085 = 85, f086 = 86, f087 = 87, f088 = 88, f089 = 89, f090 = 90,
            f091 = 91, f092 = 92, f093 = 93, f094 = 94, f095 = 95, f096 = 96, f097 = 97,
            f098 = 98, f099 = 99, f100 = 100, f101 = 101, f102 = 102, f103 = 103, f104 = 104,
            f105 = 105, f106 = 106, f107 = 107, f108 = 108, f109 = 109, f110 = 110, f111 = 111,
            f112 = 112, f113 = 113, f114 = 114, f115 = 115, f116 = 116, f117 = 117, f118 = 118,
            f119 = 119, f120 = 120, f121 = 121, f122 = 122, f123 = 123, f124 = 124, f125 = 125,
            f126 = 126, f127 = 127, f128 = 128, f129 = 129, f130 = 130, f131 = 131, f132 = 132,
            f133 = 133, f134 = 134, f135 = 135, f136 = 136, f137 = 137, f138 = 138, f139 = 139,
        )
    };
}

/// A span with 70 fields: integers, doubles, bools, strings and empty fields.
fn many_fields(_: &Stage<'_>) {
    info_span!(
        "span",
        g00 = 0,
        g01 = "text",
        g02 = true,
        g03 = 0.5,
        g04 = Empty,
        g05 = 5,
        g06 = "text",
        g07 = true,
        g08 = 0.5,
        g09 = Empty,
        g10 = 10,
        g11 = "text",
        g12 = true,
        g13 = 0.5,
        g14 = Empty,
        g15 = 15,
        g16 = "text",
        g17 = true,
        g18 = 0.5,
        g19 = Empty,
        g20 = 20,
        g21 = "text",
        g22 = true,
        g23 = 0.5,
        g24 = Empty,
        g25 = 25,
        g26 = "text",
        g27 = true,
        g28 = 0.5,
        g29 = Empty,
        g30 = 30,
        g31 = "text",
        g32 = true,
        g33 = 0.5,
        g34 = Empty,
        g35 = 35,
        g36 = "text",
        g37 = true,
        g38 = 0.5,
        g39 = Empty,
        g40 = 40,
        g41 = "text",
        g42 = true,
        g43 = 0.5,
        g44 = Empty,
        g45 = 45,
        g46 = "text",
        g47 = true,
        g48 = 0.5,
        g49 = Empty,
        g50 = 50,
        g51 = "text",
        g52 = true,
        g53 = 0.5,
        g54 = Empty,
        g55 = 55,
        g56 = "text",
        g57 = true,
        g58 = 0.5,
        g59 = Empty,
        g60 = 60,
        g61 = "text",
        g62 = true,
        g63 = 0.5,
        g64 = Empty,
        g65 = 65,
        g66 = "text",
        g67 = true,
        g68 = 0.5,
        g69 = Empty,
    );
}

fn too_many_fields(_: &Stage<'_>) {
    with_140_fields!(info_span!("span",));
}

fn too_many_fields_of_an_event(_: &Stage<'_>) {
    info_span!("span").in_scope(|| with_140_fields!(info!(message = "said",)));
}

fn a_field_recorded_too_often(_: &Stage<'_>) {
    let span = info_span!("span", progress = Empty);
    for progress in 0..200 {
        span.record("progress", progress);
    }
}

fn late_fields_without_room(_: &Stage<'_>) {
    let span = with_140_fields!(info_span!("span", late = Empty,));
    span.in_scope(|| {
        Span::current().record("late", "too late");
    });
}

fn too_many_events(_: &Stage<'_>) {
    info_span!("span").in_scope(|| {
        for number in 0..130 {
            info!(number, "said");
        }
    });
}

fn too_many_events_before_the_start(_: &Stage<'_>) {
    let span = info_span!("span");
    for number in 0..130 {
        info!(parent: &span, number, "said");
    }
}

fn too_many_links(stage: &Stage<'_>) {
    let (span, other) = (info_span!("span"), info_span!("other"));
    span.in_scope(|| {
        for _ in 0..127 {
            span.follows_from(&other);
        }
        stage.add_link(&span, REMOTE);
        stage.add_link(&span, REMOTE);
        span.follows_from(&other);
    });
}

fn too_many_links_before_the_start(_: &Stage<'_>) {
    let (span, other) = (info_span!("span"), info_span!("other"));
    for _ in 0..130 {
        span.follows_from(&other);
    }
}

fn conventions_without_room(_: &Stage<'_>) {
    let span = with_140_fields!(info_span!("static", otel.kind = "server", otel.status_code = Empty,));
    let _entered = span.enter();
    span.record("otel.status_code", "error");
}
