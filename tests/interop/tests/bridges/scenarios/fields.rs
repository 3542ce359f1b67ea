//! Fields of spans: values of every type, at creation and later.

use std::error::Error;
use std::fmt;
use std::num::NonZeroU32;

use tracing::field::{self, Empty};
use tracing::{Span, info_span};

use super::{Scenario, Stage, scenarios};

pub(super) const ALL: &[Scenario] = scenarios![
    truths,
    whole_numbers,
    unsigned_numbers,
    huge_numbers,
    floating_numbers,
    texts,
    debugged_and_displayed,
    bytes,
    optional_values,
    boxed_values,
    an_error_without_a_cause,
    an_error_with_causes,
    two_errors,
    an_error_that_is_displayed,
    recorded_late,
    never_recorded,
    recorded_before_it_is_entered,
    recorded_after_it_was_left,
    recorded_twice,
    recorded_again_and_again,
    recorded_over_a_first_value,
    recorded_but_unknown,
    recorded_errors,
    names_that_others_use,
    names_with_dots_and_quotes,
    no_room_for_more,
];

/// An error and its source.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) message: &'static str,
    pub(super) source: Option<Box<Failure>>,
}

impl Failure {
    pub(super) fn plain() -> Self {
        Self { message: "no milk", source: None }
    }

    pub(super) fn chained() -> Self {
        let root = Self { message: "connection refused", source: None };
        let middle = Self { message: "cannot reach the dairy", source: Some(Box::new(root)) };
        Self { message: "no milk", source: Some(Box::new(middle)) }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message)
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

fn truths(_: &Stage<'_>) {
    info_span!("span", yes = true, no = false);
}

fn whole_numbers(_: &Stage<'_>) {
    info_span!(
        "span",
        zero = 0,
        one = 1_i8,
        less = -1_i16,
        least = i64::MIN,
        most = i64::MAX,
        size = -5_isize
    );
}

fn unsigned_numbers(_: &Stage<'_>) {
    info_span!(
        "span",
        zero = 0_u64,
        small = 42_u8,
        port = 4318_u16,
        nonzero = NonZeroU32::MIN,
        size = 7_usize
    );
}

fn huge_numbers(_: &Stage<'_>) {
    let above = i64::MAX as u64 + 1;
    info_span!("span", last = i64::MAX as u64, above, most = u64::MAX);
    info_span!("wide", small = 1_i128, least = i128::MIN, unsigned = 2_u128, most = u128::MAX);
}

fn floating_numbers(_: &Stage<'_>) {
    info_span!(
        "span",
        half = 0.5,
        single = 0.1_f32,
        nothing = -0.0,
        most = f64::MAX,
        tiny = f64::MIN_POSITIVE
    );
    info_span!("special", none = f64::NAN, infinite = f64::INFINITY, negative = f64::NEG_INFINITY);
}

fn texts(_: &Stage<'_>) {
    let owned = String::from("owned");
    info_span!(
        "span",
        plain = "text",
        empty = "",
        owned,
        unicode = "Grüße, 世界 🌍",
        lines = "a\nb\t\"c\"\\\0"
    );
}

fn debugged_and_displayed(_: &Stage<'_>) {
    let path = std::path::Path::new("/tmp/a \"b\"");
    let list = [1, 2, 3];
    info_span!("span", ?path, list = ?list, text = ?"quoted", shown = %"not quoted", nothing = ?None::<u8>);
    info_span!("by hand", debug = field::debug("quoted"), display = field::display(format_args!("{}!", 4)));
    info_span!("arguments", text = format_args!("{} and {}", 1, 2));
}

fn bytes(_: &Stage<'_>) {
    info_span!("span", bytes = &b"a\x00\xff"[..], none = &b""[..]);
}

fn optional_values(_: &Stage<'_>) {
    info_span!("span", some = Some(1), none = None::<i64>, text = Some("text"), no_text = None::<&str>);
}

fn boxed_values(_: &Stage<'_>) {
    let mut changeable = 6;
    info_span!("span", boxed = Box::new(5), text = Box::new("text"), changeable = &mut changeable);
}

fn an_error_without_a_cause(_: &Stage<'_>) {
    let failure = Failure::plain();
    info_span!("span", failure = &failure as &(dyn Error + 'static), answer = 42);
}

fn an_error_with_causes(_: &Stage<'_>) {
    let failure = Failure::chained();
    info_span!("span", error = &failure as &(dyn Error + 'static));
}

fn two_errors(_: &Stage<'_>) {
    let (one, two) = (Failure::plain(), Failure::chained());
    info_span!("span", one = &one as &(dyn Error + 'static), two = &two as &(dyn Error + 'static));
}

fn an_error_that_is_displayed(_: &Stage<'_>) {
    let failure = Failure::chained();
    info_span!("span", error = %failure, failure = ?Failure::plain());
}

fn recorded_late(_: &Stage<'_>) {
    let span =
        info_span!("span", number = Empty, text = Empty, truth = Empty, float = Empty, debugged = Empty);
    let _entered = span.enter();
    span.record("number", -42).record("text", "late");
    Span::current().record("truth", true).record("float", 0.25).record("debugged", field::debug(Some("x")));
}

fn never_recorded(_: &Stage<'_>) {
    info_span!("span", answer = 42, never = Empty).in_scope(|| {});
}

fn recorded_before_it_is_entered(_: &Stage<'_>) {
    let span = info_span!("span", early = Empty);
    span.record("early", "recorded");
    span.in_scope(|| {});
}

fn recorded_after_it_was_left(_: &Stage<'_>) {
    let span = info_span!("span", late = Empty);
    span.in_scope(|| {});
    span.record("late", "recorded");
}

fn recorded_twice(_: &Stage<'_>) {
    let span = info_span!("span", twice = Empty);
    span.record("twice", 1);
    span.record("twice", 2);
}

fn recorded_again_and_again(_: &Stage<'_>) {
    let span = info_span!("span", progress = 0, other = "untouched");
    span.in_scope(|| {
        for progress in 1..=3 {
            span.record("progress", progress);
        }
        span.record("progress", "done");
    });
}

fn recorded_over_a_first_value(_: &Stage<'_>) {
    let span = info_span!("span", state = "first");
    let _entered = span.enter();
    span.record("state", "second");
}

fn recorded_but_unknown(_: &Stage<'_>) {
    let span = info_span!("span", known = Empty);
    span.record("unknown", 1);
    span.record("known", 1);
}

fn recorded_errors(_: &Stage<'_>) {
    let span = info_span!("span", failure = Empty);
    let _entered = span.enter();
    let failure = Failure::chained();
    span.record("failure", &failure as &(dyn Error + 'static));
}

fn names_that_others_use(_: &Stage<'_>) {
    info_span!("span", target = "mine", level = "mine", name = "mine", message = "mine", error = "mine");
    info_span!("code", "code.file.path" = "mine", "thread.name" = "mine", busy_ns = -1, idle_ns = -1);
    info_span!("log", "log.target" = "mine", "log.line" = 1);
}

fn names_with_dots_and_quotes(_: &Stage<'_>) {
    info_span!("span", http.request.method = "GET", r#type = "raw", "with spaces" = 1, "Ümläut" = 2, "" = 3);
}

fn no_room_for_more(_: &Stage<'_>) {
    let long = "milk and honey ".repeat(10_000);
    info_span!("span", long = %long);
}
