//! Traces drawn as waterfalls: the tree of spans on the left, their bars over time on the right.
//!
//! Pure: spans and a [`Look`] in, lines out.

mod lane;
mod tree;

use std::collections::HashMap;

use standpipe::receiver::proto::trace::v1::span::{Event, Link};

use self::lane::{Bar, Scale};
use self::tree::Node;
use super::describe::{self, SpanView};
use super::paint::{Ink, Line, Look};
use super::text;

/// The columns between the name and the duration have two cells of air.
const GAP: usize = 2;
const DURATION: usize = 8;
const LONGEST_SERVICE: usize = 14;
/// A trace id has 32 digits; one that came malformed may have any number.
const LONGEST_ID: usize = 32;
const SHORTEST_NAME: usize = 16;
/// Events and links listed beneath a span; the rest is counted.
const MOST_LISTED: usize = 6;

/// Draws every trace among `spans`, the earliest first.
pub(crate) fn draw(spans: &[SpanView<'_>], look: &Look) -> Vec<String> {
    let traces = by_trace(spans);
    let drawing = Drawing::new(&traces, look);
    let mut lines = Vec::new();
    for trace in &traces {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        drawing.trace(trace, &mut lines);
    }
    lines
}

/// One trace: its spans as a tree, and the time they took together.
struct Trace<'a> {
    spans: Vec<SpanView<'a>>,
    nodes: Vec<Node>,
    start: u64,
    nanos: u64,
}

fn by_trace<'a>(spans: &[SpanView<'a>]) -> Vec<Trace<'a>> {
    let mut groups: HashMap<&[u8], Vec<SpanView<'a>>> = HashMap::new();
    for view in spans {
        groups.entry(view.span.trace_id.as_slice()).or_default().push(*view);
    }
    let mut traces: Vec<Trace<'a>> = groups.into_values().map(Trace::new).collect();
    traces.sort_by(|a, b| (a.start, a.id()).cmp(&(b.start, b.id())));
    traces
}

impl<'a> Trace<'a> {
    fn new(spans: Vec<SpanView<'a>>) -> Self {
        let start = spans.iter().map(|view| view.span.start_time_unix_nano).min().unwrap_or(0);
        let end = spans.iter().map(|view| view.span.end_time_unix_nano).max().unwrap_or(0);
        let nodes = tree::grow(&spans);
        Self { spans, nodes, start, nanos: end.saturating_sub(start) }
    }

    fn id(&self) -> &'a [u8] {
        self.spans.first().map_or(&[], |view| view.span.trace_id.as_slice())
    }

    fn in_order(&self) -> impl Iterator<Item = (&Node, &SpanView<'a>)> {
        self.nodes.iter().map(|node| (node, &self.spans[node.index]))
    }
}

/// What all traces of one drawing share: the columns, and who is who.
struct Drawing<'a> {
    look: &'a Look,
    /// Where the services, the bars and the durations begin; the last one ends the line.
    service_column: usize,
    lane_column: usize,
    lane_cells: usize,
    /// Services in the order they appear, which gives each its colour.
    services: HashMap<&'a str, usize>,
    /// What a link can be resolved to.
    names: HashMap<(&'a [u8], &'a [u8]), &'a str>,
}

impl<'a> Drawing<'a> {
    fn new(traces: &[Trace<'a>], look: &'a Look) -> Self {
        let mut services = HashMap::new();
        let mut names = HashMap::new();
        let mut longest_name = SHORTEST_NAME;
        let mut longest_service = 0;
        for (node, view) in traces.iter().flat_map(Trace::in_order) {
            let next = services.len();
            services.entry(view.service).or_insert(next);
            names.insert(
                (view.span.trace_id.as_slice(), view.span.span_id.as_slice()),
                view.span.name.as_str(),
            );
            longest_name = longest_name.max(node.trunks.len() * 3 + shown_width(&view.span.name, look));
            longest_service = longest_service.max(shown_width(view.service, look));
        }
        let service_column = longest_name.min(look.width * 2 / 5) + GAP;
        let lane_column = service_column + longest_service.min(LONGEST_SERVICE) + GAP;
        let lane_cells = look.width.saturating_sub(lane_column + GAP + DURATION);
        Self { look, service_column, lane_column, lane_cells, services, names }
    }

    fn trace(&self, trace: &Trace<'a>, lines: &mut Vec<String>) {
        let scale = Scale { start: trace.start, nanos: trace.nanos, cells: self.lane_cells };
        lines.push(self.header(trace));
        let mut ruler = self.look.line();
        ruler.pad_to(self.lane_column);
        lane::ruler(&scale, self.look, &mut ruler);
        lines.push(ruler.finish());
        for (node, view) in trace.in_order() {
            lines.push(self.row(node, view, &scale));
            self.details(node, view, lines);
        }
    }

    fn header(&self, trace: &Trace<'a>) -> String {
        let errors = trace.spans.iter().filter(|view| view.error().is_some()).count() as u64;
        let spans = describe::count(trace.spans.len() as u64, "span");
        let duration = describe::duration(trace.nanos, self.look);
        let separator = self.look.glyphs.separator;
        let facts = format!(" {spans}{separator}{duration}{separator}");
        let errors_text = if errors == 0 { "no errors".to_owned() } else { describe::count(errors, "error") };
        let facts_width = shown_width(&facts, self.look) + errors_text.len();

        let mut line = self.look.line();
        line.put(Ink::FAINT, "trace ");
        let room = self.look.width.saturating_sub(line.width() + 1 + facts_width).min(LONGEST_ID);
        line.put_within(Ink::PLAIN.bold(), &describe::id(trace.id()), room).space(1);
        let rule = self.look.width.saturating_sub(line.width() + facts_width);
        line.put(Ink::FAINT, &self.look.glyphs.rule.repeat(rule)).put(Ink::PLAIN, &facts);
        line.put(if errors == 0 { Ink::FAINT } else { Ink::BAD.bold() }, &errors_text);
        line.finish()
    }

    fn row(&self, node: &Node, view: &SpanView<'a>, scale: &Scale) -> String {
        let is_error = view.error().is_some();
        let service = Ink::of_service(self.services.get(view.service).copied().unwrap_or(0));
        let events: Vec<u64> = view.span.events.iter().map(|event| event.time_unix_nano).collect();
        let bar = Bar {
            ink: if is_error { Ink::BAD } else { service },
            start: view.span.start_time_unix_nano,
            end: view.span.end_time_unix_nano,
            events: &events,
        };

        let mut line = self.look.line();
        if let Some((&has_sibling_below, above)) = node.trunks.split_last() {
            self.guides(above, &mut line);
            let glyphs = self.look.glyphs;
            line.put(Ink::FAINT, if has_sibling_below { glyphs.branch } else { glyphs.last_branch });
        }
        let room = (self.service_column - GAP).saturating_sub(line.width());
        line.put_within(if is_error { Ink::BAD.bold() } else { Ink::PLAIN.bold() }, &view.span.name, room);
        line.pad_to(self.service_column);
        line.put_within(service, view.service, self.lane_column - self.service_column - GAP);
        line.pad_to(self.lane_column);
        bar.draw(scale, self.look, &mut line);
        let duration = describe::duration(view.nanos(), self.look);
        line.put_right(if is_error { Ink::BAD } else { Ink::PLAIN }, &duration, self.look.width);
        line.finish()
    }

    /// What is known of a span beyond its name and its time, beneath it.
    fn details(&self, node: &Node, view: &SpanView<'a>, lines: &mut Vec<String>) {
        let span = view.span;
        let glyphs = self.look.glyphs;
        let mut add = |mark: (Ink, &str), text: &[(Ink, &str)]| {
            let mut line = self.look.line();
            self.guides(&node.trunks, &mut line);
            self.guides(&[node.has_children], &mut line);
            if !mark.1.is_empty() {
                line.put(mark.0, mark.1).space(1);
            }
            for (ink, text) in text.iter().filter(|(_, text)| !text.is_empty()) {
                line.put_rest(*ink, text).space(2);
            }
            lines.push(line.finish());
        };
        const NO_MARK: (Ink, &str) = (Ink::PLAIN, "");

        let origin = [view.kind(), view.scope].into_iter().filter(|part| !part.is_empty());
        let origin = origin.collect::<Vec<_>>().join(glyphs.separator);
        let attributes = describe::attributes(&span.attributes);
        add(NO_MARK, &[(Ink::FAINT, &origin), (Ink::FAINT, &attributes)]);

        if let Some(message) = view.error() {
            let message = if message.is_empty() { "error" } else { message };
            add((Ink::BAD, glyphs.cross), &[(Ink::BAD, message)]);
        }
        for event in span.events.iter().take(MOST_LISTED) {
            let after = event_offset(event, span.start_time_unix_nano, self.look);
            let ink = if event.name == "exception" { Ink::BAD } else { Ink::PLAIN };
            let attributes = event_attributes(event);
            add((ink, glyphs.event), &[(ink, &event.name), (Ink::FAINT, &after), (Ink::FAINT, &attributes)]);
        }
        for link in span.links.iter().take(MOST_LISTED) {
            let trace = format!("in trace {}", describe::short_id(&link.trace_id));
            add((Ink::PLAIN, glyphs.link), &[(Ink::PLAIN, &self.target(link)), (Ink::FAINT, &trace)]);
        }
        let unlisted = [(span.events.len(), "event"), (span.links.len(), "link")];
        let unlisted = unlisted.map(|(number, what)| (number.saturating_sub(MOST_LISTED) as u64, what));
        if let Some(rest) = counts(&unlisted) {
            add(NO_MARK, &[(Ink::FAINT, &format!("and {rest} more"))]);
        }
        let dropped = [
            (u64::from(span.dropped_attributes_count), "attribute"),
            (u64::from(span.dropped_events_count), "event"),
            (u64::from(span.dropped_links_count), "link"),
        ];
        if let Some(dropped) = counts(&dropped) {
            add(NO_MARK, &[(Ink::WARNING, &format!("{dropped} above the limits, dropped"))]);
        }
        if node.is_orphan {
            let parent = describe::short_id(&span.parent_span_id);
            add(NO_MARK, &[(Ink::FAINT, &format!("its parent {parent} is not here"))]);
        }
    }

    fn guides(&self, trunks: &[bool], line: &mut Line<'_>) {
        for &goes_on in trunks {
            if goes_on {
                line.put(Ink::FAINT, self.look.glyphs.trunk);
            } else {
                line.space(3);
            }
        }
    }

    /// The name of the span a link points to, or its id if it is not here.
    fn target(&self, link: &Link) -> String {
        match self.names.get(&(link.trace_id.as_slice(), link.span_id.as_slice())) {
            Some(name) => (*name).to_owned(),
            None => format!("span {}", describe::short_id(&link.span_id)),
        }
    }
}

fn shown_width(text: &str, look: &Look) -> usize {
    text::width(&text::printable(text, look.charset))
}

fn event_offset(event: &Event, span_start: u64, look: &Look) -> String {
    match event.time_unix_nano.checked_sub(span_start) {
        Some(after) => format!("at {}", describe::duration(after, look)),
        None => "before it began".to_owned(),
    }
}

/// All but the stack trace, which would push everything else off the line.
fn event_attributes(event: &Event) -> String {
    let shown = event.attributes.iter().filter(|attribute| attribute.key != "exception.stacktrace").cloned();
    describe::attributes(&shown.collect::<Vec<_>>())
}

/// `2 events, 1 link`, or nothing if there are none.
fn counts(counts: &[(u64, &str)]) -> Option<String> {
    let some: Vec<String> = counts
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, what)| describe::count(*number, what))
        .collect();
    (!some.is_empty()).then(|| some.join(", "))
}

#[cfg(test)]
mod tests;
