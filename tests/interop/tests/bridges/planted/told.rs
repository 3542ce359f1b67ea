//! Planted changes in the records of a scenario.

use std::sync::Arc;

use standpipe::receiver::ReceivedSpan;
use standpipe::receiver::proto::{InstrumentationScope, Span};

use crate::compare::differences;
use crate::scenarios;
use crate::stacks::Usual;
use crate::table::covers;
use crate::told::{Seen, Told};

/// The change, and the name and values of the difference that must be found.
type Plant = (fn(&mut Seen), &'static str, &'static str, &'static str);

const PLANTS: [Plant; 21] = [
    (|seen| span(seen, "first").name.push('!'), "planted: first: name", "first", "first!"),
    (|seen| span(seen, "first").kind = 3, "planted: first: kind", "SPAN_KIND_INTERNAL", "SPAN_KIND_CLIENT"),
    (|seen| span(seen, "first").flags = 0, "planted: first: flags", "0x101", "0x0"),
    (|seen| span(seen, "first").trace_state.push_str("a=b"), "planted: first: trace state", "–", "a=b"),
    (|seen| status(seen, 2, ""), "planted: first: status", "unset", "error"),
    (|seen| status(seen, 0, "no milk"), "planted: first: status", "unset", "unset \"no milk\""),
    (
        |seen| drop(span(seen, "first").attributes.pop()),
        "planted: first: attribute idle_ns",
        "some time",
        "–",
    ),
    (|seen| twice(seen), "planted: first: attribute code.file.path", "*.rs\"", "*.rs\" and *.rs\""),
    (|seen| span(seen, "first").trace_id[0] ^= 1, "planted: first/child: trace", "that of its parent", "*"),
    (|seen| span(seen, "first").dropped_links_count = 1, "planted: first: dropped links", "–", "1"),
    (
        |seen| span(seen, "joined").links[0].span_id[0] ^= 1,
        "planted: joined: link 1",
        "first, trace of first",
        "*, trace of first",
    ),
    (|seen| drop(span(seen, "joined").links.pop()), "planted: joined: link 3", "first, *", "–"),
    (|seen| span(seen, "joined").links.swap(0, 1), "planted: joined: link 2", "second, *", "first, *"),
    (|seen| span(seen, "child").parent_span_id.clear(), "planted: first/child: there", "a span", "–"),
    (
        |seen| span(seen, "child").end_time_unix_nano += 60_000_000_000,
        "planted: first/child: end",
        "inside*",
        "after*",
    ),
    (
        |seen| span(seen, "child").start_time_unix_nano = 1,
        "planted: first/child: start",
        "inside*",
        "before*",
    ),
    (|seen| span(seen, "child").events[0].name.clear(), "planted: first/child: event 1", "said", ""),
    (
        |seen| span(seen, "child").events[1].time_unix_nano = 1,
        "planted: first/child: event 2 order",
        "–",
        "before*",
    ),
    (
        |seen| drop(span(seen, "child").events[0].attributes.remove(0)),
        "planted: first/child: event 1 attribute level",
        "\"INFO\"",
        "–",
    ),
    (
        |seen| seen.spans.retain(|kept| kept.span.name != "child"),
        "planted: first/child: there",
        "a span",
        "–",
    ),
    (|seen| scope(seen).name.push('!'), "planted: first: scope", "shop", "shop!"),
];

#[test]
fn whatever_is_changed_is_found() {
    let scenario = scenarios::all().find(|scenario| scenario.name == "planted").unwrap();
    let usual = scenario.run(Usual::start);
    for (change, name, was, is) in PLANTS {
        let mut changed = usual.clone();
        change(&mut changed);
        let found = differences("planted", &Told::of(&usual), &Told::of(&changed));
        let case = (name, was, is);
        assert!(found.iter().any(|difference| covers(&case, difference)), "{name}: {found:#?}");
    }
}

fn span<'a>(seen: &'a mut Seen, name: &str) -> &'a mut Span {
    Arc::make_mut(&mut received(seen, name).span)
}

fn scope(seen: &mut Seen) -> &mut InstrumentationScope {
    Arc::make_mut(&mut received(seen, "first").scope)
}

fn received<'a>(seen: &'a mut Seen, name: &str) -> &'a mut ReceivedSpan {
    seen.spans.iter_mut().find(|received| received.span.name == name).unwrap()
}

fn status(seen: &mut Seen, code: i32, message: &str) {
    let status = span(seen, "first").status.as_mut().unwrap();
    (status.code, status.message) = (code, message.to_owned());
}

fn twice(seen: &mut Seen) {
    let attributes = &mut span(seen, "first").attributes;
    attributes.push(attributes[0].clone());
}
