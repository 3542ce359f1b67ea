//! Draws traces as waterfalls: the tree of spans on the left, their bars over time on the right, and log records below
//! their spans.
//!
//! Pure: spans, log records and a [`Style`] in, lines out.

mod details;
mod lane;
mod tree;

use std::collections::{HashMap, HashSet};

pub(crate) use self::details::events;
use self::lane::{Bar, Scale};
use self::tree::Node;
use super::describe::{self, LogView, SpanView};
use super::style::{Ink, Line, Palette, Style};
use super::text;

/// Number of cells between two columns.
const GAP: usize = 2;
/// Minimum width of the durations. Only durations of a minute or more are wider.
const DURATION: usize = 8;
const MAX_SERVICE_WIDTH: usize = 14;
/// Maximum width of a trace id. A valid id has 32 digits; a malformed id may be longer.
const MAX_ID_WIDTH: usize = 32;
/// Width of a shortened trace id, used if the heading contains a note.
const SHORT_ID: usize = 8;
const MIN_NAME_WIDTH: usize = 16;
/// On a terminal narrower than this, services are shown as marks.
const WITH_SERVICES: usize = 80;
/// On a terminal narrower than this, there are no bars.
const WITH_BARS: usize = 60;

#[derive(Debug, Default)]
pub(crate) struct Options {
    /// Whether every span is drawn, with all its details.
    pub(crate) full: bool,
    pub(crate) heading: Heading,
    /// Number of spans that the user has hidden.
    pub(crate) hidden: usize,
    /// Whether earlier spans of the trace may have been forgotten.
    pub(crate) is_cut: bool,
}

#[derive(Debug, Default)]
pub(crate) enum Heading {
    #[default]
    Complete,
    /// An incomplete trace, with a note about what is missing.
    Partial(String),
    /// Late records, whose trace was already drawn; the text says how many there are, such as `1 late span`.
    Late(String),
}

/// Draws the traces of `spans`, the earliest first, then the log records that belong to none of the spans.
///
/// Adds new services to the palette.
pub(crate) fn draw<'a>(
    spans: &[SpanView<'a>],
    logs: &[LogView<'a>],
    options: Options,
    palette: &mut Palette,
    style: &Style,
) -> Vec<String> {
    let mut traces = by_trace(spans);
    // Colors are assigned before spans are folded, so that `--full` does not change the colors.
    traces.iter().flat_map(Trace::in_order).for_each(|(_, view)| palette.assign(view.service));
    logs.iter().for_each(|view| palette.assign(view.service));
    // A span with log records keeps its own row. In a large tree, a span with an error record counts as an error.
    if !options.full {
        let mut logged: HashMap<SpanKey<'a>, bool> = HashMap::new();
        logs.iter().for_each(|view| *logged.entry(span_of(view)).or_default() |= view.is_error());
        traces.iter_mut().for_each(|trace| trace.fold(&logged));
    }
    let (mut drawing, strays) = Drawing::new(&traces, logs, options, palette, style);
    let mut lines = Vec::new();
    let mut is_above_row = true;
    for trace in &traces {
        let begin = lines.len();
        drawing.trace(trace, &mut lines);
        // Traces of one line each need no empty lines between them.
        let is_row = lines.len() == begin + 1;
        if begin > 0 && !(is_row && is_above_row) {
            lines.insert(begin, String::new());
        }
        is_above_row = is_row;
    }
    if !strays.is_empty() {
        lines.extend((!lines.is_empty()).then(String::new));
        drawing.strays(&strays, &mut lines);
    }
    lines
}

/// Trace id and span id of a span.
type SpanKey<'a> = (&'a [u8], &'a [u8]);

/// One trace: its spans as a tree, its start and its duration.
struct Trace<'a> {
    spans: Vec<SpanView<'a>>,
    nodes: Vec<Node>,
    /// Number of spans that are not shown and have no visible ancestor.
    hidden_roots: usize,
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
        let (start, end) = describe::interval(&spans);
        let nodes = tree::grow(&spans);
        Self { spans, nodes, hidden_roots: 0, start, nanos: end.saturating_sub(start) }
    }

    /// Merges the rows of identical siblings, and limits the number of rows. `logged` has each span with log records,
    /// and whether one of these records is an error.
    fn fold(&mut self, logged: &HashMap<SpanKey<'a>, bool>) {
        let spans = &self.spans;
        let is_plain = |view: &SpanView<'a>| {
            let has_more = view.error().is_some() || view.is_past || logged.contains_key(&key_of(view));
            !has_more && view.span.events.is_empty() && view.span.links.is_empty()
        };
        let nodes = tree::fold_siblings(std::mem::take(&mut self.nodes), |node| {
            let view = &spans[node.index];
            (is_plain(view) && !node.is_orphan).then_some((view.service, view.span.name.as_str()))
        });
        let is_error = |view: &SpanView<'a>| {
            view.error().is_some() || logged.get(&key_of(view)).is_some_and(|has_error| *has_error)
        };
        (self.nodes, self.hidden_roots) =
            tree::limit_depth(nodes, |node| spans[node.index].is_wanted, |node| is_error(&spans[node.index]));
    }

    fn id(&self) -> &'a [u8] {
        self.spans.first().map_or(&[], |view| view.span.trace_id.as_slice())
    }

    fn in_order(&self) -> impl Iterator<Item = (&Node, &SpanView<'a>)> {
        self.nodes.iter().map(|node| (node, &self.spans[node.index]))
    }

    /// Returns the duration of a row: the sum over all spans that share it.
    fn nanos_of(&self, node: &Node) -> u64 {
        let all = std::iter::once(&node.index).chain(&node.like);
        all.fold(0, |sum, &index| sum.saturating_add(self.spans[index].nanos()))
    }

    /// Returns the name of a row, with the number of spans that share it.
    fn name_of(&self, node: &Node, style: &Style) -> String {
        let name = text::shorten(&self.spans[node.index].span.name);
        match node.like.len() {
            0 => name.into_owned(),
            others => format!("{name} {}{}", style.glyph("×"), others + 1),
        }
    }
}

/// State that all traces of a drawing share: the columns, the colors and the names of spans.
struct Drawing<'d, 'a> {
    style: &'d Style,
    palette: &'d mut Palette,
    options: Options,
    /// Column in which the services begin.
    service_column: usize,
    /// Column in which the bars begin.
    lane_column: usize,
    /// Width of the bars.
    lane_cells: usize,
    /// Names of all spans, to resolve links.
    names: HashMap<SpanKey<'a>, &'a str>,
    /// Log records of each span, ordered by time.
    logs: HashMap<SpanKey<'a>, Vec<LogView<'a>>>,
    /// Number of error log records in each trace.
    error_logs: HashMap<&'a [u8], u64>,
}

impl<'d, 'a> Drawing<'d, 'a> {
    /// Decides the columns, and assigns log records to spans. Returns the log records without a span, ordered by time.
    fn new(
        traces: &[Trace<'a>],
        logs: &[LogView<'a>],
        options: Options,
        palette: &'d mut Palette,
        style: &'d Style,
    ) -> (Self, Vec<LogView<'a>>) {
        let mut names = HashMap::new();
        let mut longest_name = MIN_NAME_WIDTH;
        let mut longest_service = 0;
        let mut longest_duration = DURATION;
        for trace in traces {
            names.extend(trace.spans.iter().map(|view| (key_of(view), view.span.name.as_str())));
            for (node, view) in trace.in_order() {
                let name = trace.name_of(node, style);
                let duration = describe::duration(trace.nanos_of(node), style);
                longest_name = longest_name.max(node.trunks.len() * 3 + style.width_of(&name));
                longest_service = longest_service.max(style.width_of(view.service));
                longest_duration = longest_duration.max(style.width_of(&duration));
            }
        }
        let (service_width, name_share) = match style.width {
            WITH_SERVICES.. => (longest_service.min(MAX_SERVICE_WIDTH) + GAP, style.width * 2 / 5),
            WITH_BARS.. => (1 + GAP, style.width * 2 / 5),
            _ => (0, style.width.saturating_sub(longest_duration + 2 * GAP)),
        };
        let service_column = longest_name.min(name_share) + GAP;
        let lane_column = service_column + service_width;
        let lane_cells = match style.width {
            WITH_BARS.. => style.width.saturating_sub(lane_column + GAP + longest_duration),
            _ => 0,
        };
        let rows = traces.iter().flat_map(Trace::in_order).map(|(_, view)| key_of(view));
        let rows: HashSet<SpanKey<'a>> = rows.collect();
        let mut by_time = logs.to_vec();
        by_time.sort_by_key(LogView::unix_nanos);
        let mut error_logs: HashMap<&[u8], u64> = HashMap::new();
        let errors = logs.iter().filter(|view| view.is_error());
        errors.for_each(|view| *error_logs.entry(span_of(view).0).or_default() += 1);
        let (placed, strays): (Vec<_>, _) =
            by_time.into_iter().partition(|view| rows.contains(&span_of(view)));
        let mut logs: HashMap<SpanKey<'a>, Vec<LogView<'a>>> = HashMap::new();
        placed.into_iter().for_each(|view| logs.entry(span_of(&view)).or_default().push(view));
        let drawing = Self {
            style,
            palette,
            options,
            service_column,
            lane_column,
            lane_cells,
            names,
            logs,
            error_logs,
        };
        (drawing, strays)
    }

    fn trace(&mut self, trace: &Trace<'a>, lines: &mut Vec<String>) {
        let is_complete = matches!(self.options.heading, Heading::Complete) && self.options.hidden == 0;
        if let ([view], [node], true) = (&*trace.spans, &*trace.nodes, is_complete && !self.options.full) {
            self.single(trace, node, view, lines);
            return self.origins(trace, lines);
        }
        let scale = Scale { start: trace.start, nanos: trace.nanos, cells: self.lane_cells };
        self.header(trace, lines);
        if self.lane_cells > 0 {
            let mut ruler = self.style.line();
            ruler.pad_to(self.lane_column);
            lane::ruler(&scale, self.style, &mut ruler);
            lines.push(ruler.finish());
        }
        for node in &trace.nodes {
            lines.push(self.row(trace, node, &scale));
            self.details(trace, node, lines);
        }
        if trace.hidden_roots > 0 {
            let spans = describe::count(trace.hidden_roots as u64, "span");
            lines.push(self.style.line_of(Ink::FAINT, &format!("and {spans} more")));
        }
        self.origins(trace, lines);
    }

    /// Draws a trace of one span in one line, above the span's events, log records and links.
    fn single(&self, trace: &Trace<'a>, node: &Node, view: &SpanView<'a>, lines: &mut Vec<String>) {
        let style = self.style;
        let error = view.error().map(|message| details::error(message, style));
        let mut facts = describe::duration(trace.nanos, style);
        if style.width >= WITH_SERVICES {
            facts = format!("{}{}{facts}", describe::time_of_day(trace.start), style.glyph(" · "));
        }
        let ink = if error.is_some() { Ink::BAD } else { Ink::PLAIN };
        let pieces =
            [(ink.bold(), trace.name_of(node, style)), (self.palette.ink(view.service), view.service.into())];
        // The second element has the ids. They are shown only with `--full`, which draws even a single span as a tree.
        let [first, _] = self.first_lines(trace, node, view);
        let pieces =
            pieces.into_iter().chain(error.clone()).chain(first).filter(|(_, text)| !text.is_empty());
        let pieces: Vec<_> = pieces.map(|(ink, text)| (ink, format!(" {text}"))).collect();
        let id = describe::short_id(trace.id());
        let left = [(Ink::FAINT, "trace"), (Ink::PLAIN.bold(), &*id)].into_iter();
        let left: Vec<_> = left.chain(pieces.iter().map(|(ink, text)| (*ink, &**text))).collect();
        lines.push(style.ruled(&left, &[(ink, &facts)]));
        // The first remark is the error, which is in the heading already.
        for pieces in self.remarks(node, view).into_iter().skip(usize::from(error.is_some())) {
            self.flow(&[false], &pieces, lines);
        }
    }

    fn header(&self, trace: &Trace<'a>, lines: &mut Vec<String>) {
        let style = self.style;
        let separator = style.glyph(" · ");
        let id = describe::id(trace.id());
        let short_id = &id[..id.len().min(SHORT_ID)];
        let note = match &self.options.heading {
            Heading::Complete => String::new(),
            Heading::Partial(note) => format!("partial{separator}{note}"),
            Heading::Late(note) => {
                let note = format!("+{note}");
                let left = [(Ink::FAINT, "trace"), (Ink::PLAIN.bold(), short_id), (Ink::WARNING, &note)];
                return lines.push(style.ruled(&left, &[]));
            }
        };
        let spans = describe::count(trace.spans.len() as u64, "span");
        let hidden = match self.options.hidden {
            0 => String::new(),
            hidden => format!(" (+{hidden} hidden)"),
        };
        let duration = describe::duration(trace.nanos, style);
        let facts = format!("{spans}{hidden}{separator}{duration}{separator}");
        let with_time = format!("{}{separator}{facts}", describe::time_of_day(trace.start));
        let errors = trace.spans.iter().filter(|view| view.error().is_some()).count() as u64;
        let (errors_ink, errors) = match (errors, self.error_logs.get(trace.id())) {
            (0, None) => (Ink::FAINT, "no errors".to_owned()),
            (0, Some(logs)) => (Ink::BAD.bold(), describe::count(*logs, "error log")),
            (spans, _) => (Ink::BAD.bold(), describe::count(spans, "error")),
        };

        // Room for the id and the note. If the time of day does not fit, it is left out in favor of the id.
        let room = |facts: &str| {
            style.width.saturating_sub("trace ".len() + 2 + style.width_of(facts) + errors.len())
        };
        let min_id_width = if note.is_empty() { id.len().min(MAX_ID_WIDTH) } else { SHORT_ID };
        let has_time = style.width >= WITH_SERVICES && min_id_width <= room(&with_time);
        let facts = if has_time { with_time } else { facts };
        let room = room(&facts);
        let note_width = if note.is_empty() { 0 } else { 1 + style.width_of(&note) };
        let id = if note.is_empty() || id.len() + note_width <= room { &id } else { short_id };
        // The note is in the line of the id if there is room, otherwise in the next line.
        let is_in_line = id.len() + note_width <= room;
        let id = text::cut(id, room.min(MAX_ID_WIDTH), style.glyph("…"));
        let note_in_line = if is_in_line { note.as_str() } else { "" };
        let left = [(Ink::FAINT, "trace"), (Ink::PLAIN.bold(), &*id), (Ink::WARNING, note_in_line)];
        lines.push(style.ruled(&left, &[(Ink::PLAIN, &facts), (errors_ink, &errors)]));
        if !is_in_line && !note.is_empty() {
            lines.push(style.line_of(Ink::WARNING, &note));
        }
    }

    fn row(&self, trace: &Trace<'a>, node: &Node, scale: &Scale) -> String {
        let view = &trace.spans[node.index];
        let is_error = view.error().is_some();
        let service = if view.is_past { Ink::FAINT } else { self.palette.ink(view.service) };
        let events = view.span.events.iter().filter(|_| !view.is_past);
        let events: Vec<u64> = events.map(|event| event.time_unix_nano).collect();
        // A row of several spans has a bar from the start of the first to the end of the last.
        let ends = node.like.iter().map(|&index| trace.spans[index].span.end_time_unix_nano);
        let bar = Bar {
            ink: if is_error { Ink::BAD } else { service },
            start: view.span.start_time_unix_nano,
            end: ends.fold(view.span.end_time_unix_nano, u64::max),
            events: &events,
        };
        let (name_ink, ink) = match (view.is_past, is_error) {
            (true, _) => (Ink::FAINT, Ink::FAINT),
            (false, true) => (Ink::BAD.bold(), Ink::BAD),
            (false, false) => (Ink::PLAIN.bold(), Ink::PLAIN),
        };

        let mut line = self.style.line();
        if let Some((&has_sibling_below, above)) = node.trunks.split_last() {
            self.guides(above, &mut line);
            line.put(Ink::FAINT, self.style.glyph(if has_sibling_below { "├─ " } else { "╰─ " }));
        }
        let room = (self.service_column - GAP).saturating_sub(line.width());
        line.put_within(name_ink, &trace.name_of(node, self.style), room);
        line.pad_to(self.service_column);
        let mark = self.palette.mark(view.service, self.style);
        let name = if self.style.width < WITH_SERVICES { &mark } else { view.service };
        line.put_within(service, name, (self.lane_column - self.service_column).saturating_sub(GAP));
        line.pad_to(self.lane_column);
        bar.draw(scale, self.style, &mut line);
        let duration = describe::duration(trace.nanos_of(node), self.style);
        line.pad_to(self.style.width.saturating_sub(self.style.width_of(&duration)));
        line.put_rest(ink, &duration);
        line.finish()
    }

    fn guides(&self, trunks: &[bool], line: &mut Line<'_>) {
        for &goes_on in trunks {
            line.put(Ink::FAINT, if goes_on { self.style.glyph("│  ") } else { "   " });
        }
    }
}

fn span_of<'a>(view: &LogView<'a>) -> SpanKey<'a> {
    (view.log.trace_id.as_slice(), view.log.span_id.as_slice())
}

fn key_of<'a>(view: &SpanView<'a>) -> SpanKey<'a> {
    (view.span.trace_id.as_slice(), view.span.span_id.as_slice())
}

#[cfg(test)]
mod tests;
