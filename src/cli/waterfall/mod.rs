//! How are traces drawn? As waterfalls: the tree of spans on the left, their bars over time on the right, and what was logged
//! beneath the span that it was logged in.
//!
//! Pure: spans, log records and a [`Style`] in, lines out.

mod details;
mod lane;
mod svg;
mod tree;

use std::collections::HashMap;

use self::lane::{Bar, Scale};
pub(crate) use self::svg::draw_svg;
use self::tree::Node;
use super::describe::{self, SpanView};
use super::log_view::LogView;
use super::style::{Ink, Line, Palette, Style};

/// The columns between the name and the duration have two cells of air.
const GAP: usize = 2;
/// Only hours take more.
const DURATION: usize = 8;
const LONGEST_SERVICE: usize = 14;
/// A trace id has 32 digits; one that came malformed may have any number.
const LONGEST_ID: usize = 32;
const SHORTEST_NAME: usize = 16;

/// Draws every trace among `spans`, the earliest first, and after them the log records that belong to none of the
/// spans. Services without a colour get one.
pub(crate) fn draw<'a>(
    spans: &[SpanView<'a>],
    logs: &[LogView<'a>],
    palette: &mut Palette<'a>,
    style: &Style,
) -> Vec<String> {
    let traces = by_trace(spans);
    traces.iter().flat_map(Trace::in_order).for_each(|(_, view)| palette.assign(view.service));
    logs.iter().for_each(|view| palette.assign(view.service));
    let mut drawing = Drawing::new(&traces, palette, style);
    let strays = drawing.place(logs);
    let mut lines = Vec::new();
    for trace in &traces {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        drawing.trace(trace, &mut lines);
    }
    if !strays.is_empty() {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        drawing.strays(&strays, &mut lines);
    }
    lines
}

/// A span is known by the id of its trace and its own.
type SpanKey<'a> = (&'a [u8], &'a [u8]);

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

/// What all traces of one drawing share: the columns, the colours, and the names of spans.
struct Drawing<'d, 'a> {
    style: &'d Style,
    palette: &'d Palette<'a>,
    /// Where the services, the bars and the durations begin; the last one ends the line.
    service_column: usize,
    lane_column: usize,
    lane_cells: usize,
    /// What a link can be resolved to.
    names: HashMap<SpanKey<'a>, &'a str>,
    /// What was logged in each span, in the order of time.
    logs: HashMap<SpanKey<'a>, Vec<LogView<'a>>>,
}

impl<'d, 'a> Drawing<'d, 'a> {
    fn new(traces: &[Trace<'a>], palette: &'d Palette<'a>, style: &'d Style) -> Self {
        let mut names = HashMap::new();
        let mut longest_name = SHORTEST_NAME;
        let mut longest_service = 0;
        let mut longest_duration = DURATION;
        for (node, view) in traces.iter().flat_map(Trace::in_order) {
            names.insert(key_of(view), view.span.name.as_str());
            longest_name = longest_name.max(node.trunks.len() * 3 + style.width_of(&view.span.name));
            longest_service = longest_service.max(style.width_of(view.service));
            longest_duration = longest_duration.max(style.width_of(&describe::duration(view.nanos(), style)));
        }
        let service_column = longest_name.min(style.width * 2 / 5) + GAP;
        let lane_column = service_column + longest_service.min(LONGEST_SERVICE) + GAP;
        let lane_cells = style.width.saturating_sub(lane_column + GAP + longest_duration);
        let logs = HashMap::new();
        Self { style, palette, service_column, lane_column, lane_cells, names, logs }
    }

    /// Puts each log record where its span is. Returns those without one, in the order of time.
    fn place(&mut self, logs: &[LogView<'a>]) -> Vec<LogView<'a>> {
        let mut by_time = logs.to_vec();
        by_time.sort_by_key(LogView::unix_nanos);
        let mut strays = Vec::new();
        for view in by_time {
            let key = (view.log.trace_id.as_slice(), view.log.span_id.as_slice());
            if self.names.contains_key(&key) {
                self.logs.entry(key).or_default().push(view);
            } else {
                strays.push(view);
            }
        }
        strays
    }

    fn trace(&self, trace: &Trace<'a>, lines: &mut Vec<String>) {
        let scale = Scale { start: trace.start, nanos: trace.nanos, cells: self.lane_cells };
        lines.push(self.header(trace));
        let mut ruler = self.style.line();
        ruler.pad_to(self.lane_column);
        lane::ruler(&scale, self.style, &mut ruler);
        lines.push(ruler.finish());
        for (node, view) in trace.in_order() {
            lines.push(self.row(node, view, &scale));
            self.details(node, view, lines);
        }
    }

    fn header(&self, trace: &Trace<'a>) -> String {
        let errors = trace.spans.iter().filter(|view| view.error().is_some()).count() as u64;
        let spans = describe::count(trace.spans.len() as u64, "span");
        let duration = describe::duration(trace.nanos, self.style);
        let separator = self.style.glyphs.separator;
        let facts = format!(" {spans}{separator}{duration}{separator}");
        let errors_text = if errors == 0 { "no errors".to_owned() } else { describe::count(errors, "error") };
        let facts_width = self.style.width_of(&facts) + errors_text.len();

        let mut line = self.style.line();
        line.put(Ink::FAINT, "trace ");
        let room = self.style.width.saturating_sub(line.width() + 1 + facts_width).min(LONGEST_ID);
        line.put_within(Ink::PLAIN.bold(), &describe::id(trace.id()), room).space(1);
        let rule = self.style.width.saturating_sub(line.width() + facts_width);
        line.put(Ink::FAINT, &self.style.glyphs.rule.repeat(rule)).put(Ink::PLAIN, &facts);
        line.put(if errors == 0 { Ink::FAINT } else { Ink::BAD.bold() }, &errors_text);
        line.finish()
    }

    fn row(&self, node: &Node, view: &SpanView<'a>, scale: &Scale) -> String {
        let is_error = view.error().is_some();
        let service = self.palette.ink(view.service);
        let events: Vec<u64> = view.span.events.iter().map(|event| event.time_unix_nano).collect();
        let bar = Bar {
            ink: if is_error { Ink::BAD } else { service },
            start: view.span.start_time_unix_nano,
            end: view.span.end_time_unix_nano,
            events: &events,
        };

        let mut line = self.style.line();
        if let Some((&has_sibling_below, above)) = node.trunks.split_last() {
            self.guides(above, &mut line);
            let glyphs = self.style.glyphs;
            line.put(Ink::FAINT, if has_sibling_below { glyphs.branch } else { glyphs.last_branch });
        }
        let room = (self.service_column - GAP).saturating_sub(line.width());
        line.put_within(if is_error { Ink::BAD.bold() } else { Ink::PLAIN.bold() }, &view.span.name, room);
        line.pad_to(self.service_column);
        line.put_within(service, view.service, self.lane_column - self.service_column - GAP);
        line.pad_to(self.lane_column);
        bar.draw(scale, self.style, &mut line);
        let duration = describe::duration(view.nanos(), self.style);
        line.pad_to(self.style.width.saturating_sub(self.style.width_of(&duration)));
        line.put_rest(if is_error { Ink::BAD } else { Ink::PLAIN }, &duration);
        line.finish()
    }

    fn guides(&self, trunks: &[bool], line: &mut Line<'_>) {
        for &goes_on in trunks {
            if goes_on {
                line.put(Ink::FAINT, self.style.glyphs.trunk);
            } else {
                line.space(3);
            }
        }
    }
}

fn key_of<'a>(view: &SpanView<'a>) -> SpanKey<'a> {
    (view.span.trace_id.as_slice(), view.span.span_id.as_slice())
}

#[cfg(test)]
mod tests;
