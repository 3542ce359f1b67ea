//! Spans as trees.

use std::collections::HashMap;

use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use standpipe::receiver::ReceivedSpan;
use standpipe::receiver::proto::{Event, Link, Span, Status};

use super::{Facts, Names, Node, count, hex, scope};

/// Returns all spans with their paths, parents first, siblings in the order of their start: `shop/checkout/pay 2` is
/// the second span called "pay" below the first "checkout".
pub(super) fn paths(spans: &[ReceivedSpan]) -> Vec<(&ReceivedSpan, String)> {
    let families = Families::of(spans);
    let mut paths = Vec::new();
    families.walk(&families.roots, "", &mut paths);
    paths
}

/// The trees of the spans.
pub(super) fn forest(spans: &[ReceivedSpan], names: &Names) -> Vec<Node> {
    let families = Families::of(spans);
    families.roots.iter().map(|root| families.node(root, None, names)).collect()
}

/// Parents and children.
struct Families<'a> {
    roots: Vec<&'a ReceivedSpan>,
    children: HashMap<&'a [u8], Vec<&'a ReceivedSpan>>,
}

impl<'a> Families<'a> {
    fn of(spans: &'a [ReceivedSpan]) -> Self {
        let mut spans: Vec<&ReceivedSpan> = spans.iter().collect();
        spans.sort_by_key(|received| received.span.start_time_unix_nano);
        let (mut roots, mut children) = (Vec::new(), HashMap::<_, Vec<_>>::new());
        for received in &spans {
            let parent = received.span.parent_span_id.as_slice();
            if spans.iter().any(|other| other.span.span_id == parent) {
                children.entry(parent).or_default().push(*received);
            } else {
                roots.push(*received);
            }
        }
        Self { roots, children }
    }

    fn children(&self, of: &ReceivedSpan) -> &[&'a ReceivedSpan] {
        self.children.get(of.span.span_id.as_slice()).map_or(&[], Vec::as_slice)
    }

    fn walk(&self, siblings: &[&'a ReceivedSpan], above: &str, paths: &mut Vec<(&'a ReceivedSpan, String)>) {
        let mut seen = HashMap::<&str, usize>::new();
        for received in siblings {
            let name = received.span.name.as_str();
            let number = seen.entry(name).and_modify(|number| *number += 1).or_insert(1);
            let number = if *number > 1 { format!(" {number}") } else { String::new() };
            let path = format!("{above}{name}{number}");
            paths.push((received, path.clone()));
            self.walk(self.children(received), &format!("{path}/"), paths);
        }
    }

    fn node(&self, received: &ReceivedSpan, parent: Option<&Span>, names: &Names) -> Node {
        let span = &*received.span;
        let mut facts = Facts::new();
        scope(&received.scope, &mut facts);
        origin(span, parent, names, &mut facts);
        facts.insert("kind".to_owned(), kind(span.kind));
        facts.insert("flags".to_owned(), format!("{:#x}", span.flags));
        facts.insert("status".to_owned(), status(span.status.as_ref()));
        if !span.trace_state.is_empty() {
            facts.insert("trace state".to_owned(), span.trace_state.clone());
        }
        names.attributes(&span.attributes, "", &mut facts);
        for (index, event) in span.events.iter().enumerate() {
            tell_event(event, span, &format!("event {}", index + 1), names, &mut facts);
        }
        for (index, link) in span.links.iter().enumerate() {
            tell_link(link, &format!("link {}", index + 1), names, &mut facts);
        }
        count(span.dropped_attributes_count, "dropped attributes".to_owned(), &mut facts);
        count(span.dropped_events_count, "dropped events".to_owned(), &mut facts);
        count(span.dropped_links_count, "dropped links".to_owned(), &mut facts);
        let children = self.children(received);
        let children = children.iter().map(|child| self.node(child, Some(span), names)).collect();
        Node { name: span.name.clone(), facts, children }
    }
}

/// Adds facts: the trace, the parent if it did not arrive, and whether the span starts and ends within its parent.
fn origin(span: &Span, parent: Option<&Span>, names: &Names, facts: &mut Facts) {
    let trace = match parent {
        Some(parent) if parent.trace_id == span.trace_id => "that of its parent".to_owned(),
        None if names.is_root(span) => "its own".to_owned(),
        _ => names.trace(&span.trace_id),
    };
    facts.insert("trace".to_owned(), trace);
    if parent.is_none() && !span.parent_span_id.is_empty() {
        facts.insert("parent".to_owned(), hex(&span.parent_span_id));
    }
    let (start, end) = (span.start_time_unix_nano, span.end_time_unix_nano);
    if start > end {
        facts.insert("start".to_owned(), "after its end".to_owned());
    }
    if let Some(parent) = parent {
        let within = |time| place(time, parent.start_time_unix_nano, parent.end_time_unix_nano);
        facts.insert("start".to_owned(), format!("{} its parent", within(start)));
        facts.insert("end".to_owned(), format!("{} its parent", within(end)));
    }
}

fn tell_event(event: &Event, span: &Span, name: &str, names: &Names, facts: &mut Facts) {
    facts.insert(name.to_owned(), event.name.clone());
    let place = place(event.time_unix_nano, span.start_time_unix_nano, span.end_time_unix_nano);
    facts.insert(format!("{name} time"), format!("{place} its span"));
    names.attributes(&event.attributes, &format!("{name} "), facts);
    count(event.dropped_attributes_count, format!("{name} dropped attributes"), facts);
    let earlier = span.events.iter().take_while(|other| !std::ptr::eq(*other, event));
    if earlier.into_iter().any(|other| other.time_unix_nano > event.time_unix_nano) {
        facts.insert(format!("{name} order"), "before an earlier one".to_owned());
    }
}

fn tell_link(link: &Link, name: &str, names: &Names, facts: &mut Facts) {
    let target = format!("{}, trace {}", names.span(&link.span_id), names.trace(&link.trace_id));
    facts.insert(name.to_owned(), target);
    facts.insert(format!("{name} flags"), format!("{:#x}", link.flags));
    if !link.trace_state.is_empty() {
        facts.insert(format!("{name} trace state"), link.trace_state.clone());
    }
    names.attributes(&link.attributes, &format!("{name} "), facts);
    count(link.dropped_attributes_count, format!("{name} dropped attributes"), facts);
}

fn place(time: u64, start: u64, end: u64) -> &'static str {
    match time {
        time if time < start => "before",
        time if time > end => "after",
        _ => "inside",
    }
}

fn kind(number: i32) -> String {
    SpanKind::try_from(number).map_or_else(|_| number.to_string(), |kind| kind.as_str_name().to_owned())
}

fn status(status: Option<&Status>) -> String {
    // A missing status and an unset one are equal.
    let Some(status) = status else { return "unset".to_owned() };
    let code = match StatusCode::try_from(status.code) {
        Ok(StatusCode::Unset) => "unset",
        Ok(StatusCode::Ok) => "ok",
        Ok(StatusCode::Error) => "error",
        Err(_) => "unknown",
    };
    if status.message.is_empty() { code.to_owned() } else { format!("{code} {:?}", status.message) }
}
