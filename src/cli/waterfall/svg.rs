//! The waterfall as a picture: the same rows as in a terminal, as SVG text, rectangles and lines.
//!
//! It has a background of its own and colours for light and dark pages. Attributes of spans are left out, to keep it
//! within a screen.

use std::fmt::Write;

use super::details::Piece;
use super::lane::{self, Scale};
use super::tree::Node;
use super::{Drawing, GAP, LONGEST_ID, LONGEST_SERVICE, Options, Trace, by_trace};
use crate::cli::describe::{self, SpanView};
use crate::cli::log_view::LogView;
use crate::cli::style::{Ink, Palette, Style, plain_style};
use crate::cli::text;

const WIDTH: f64 = 880.0;
const MARGIN: f64 = 22.0;
/// From a guide of the tree to the next.
const INDENT: f64 = 17.0;
/// Heights of a heading, a ruler, a span and a remark beneath it.
const HEADING: f64 = 24.0;
const RULER: f64 = 18.0;
const ROW: f64 = 20.0;
const REMARK: f64 = 16.0;
/// From the bottom of a row to its text.
const DESCENT: f64 = 6.0;
const BAR: f64 = 11.0;
/// The shortest span is still seen.
const NARROWEST_BAR: f64 = 2.0;
/// The width of a monospace character of 12 px, rounded up.
const CELL: f64 = 7.3;
const DURATION: f64 = 64.0;

const STYLE: &str = "\
text { font: 12px ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace; fill: #1f2328 }
.bold { font-weight: 600 }
.paper { fill: #ffffff; stroke: #d1d9e0 } .guide { fill: none; stroke: #b8c0c8 } .grid { fill: none; stroke: #e6eaee }
.event { fill: #ffffff } .c244 { fill: #69717a } .c28 { fill: #1a7f37 } .c136 { fill: #9a6700 } .c167 { fill: #cf222e }
.c67 { fill: #2f6fb5 } .c30 { fill: #0b7d7d } .c97 { fill: #7c4dba } .c130 { fill: #b35900 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 }
.paper { fill: #0d1117; stroke: #30363d } .guide { stroke: #4a525b } .grid { stroke: #21262d }
.event { fill: #0d1117 } .c244 { fill: #8b949e } .c28 { fill: #3fb950 } .c136 { fill: #d29922 } .c167 { fill: #f85149 }
.c67 { fill: #58a6ff } .c30 { fill: #39c5bb } .c97 { fill: #b083f0 } .c130 { fill: #f0883e }
}
";

/// Draws every trace among `spans`, the earliest first, with the log records of its spans.
pub(crate) fn draw_svg(spans: &[SpanView<'_>], logs: &[LogView<'_>]) -> String {
    let traces = by_trace(spans);
    let mut palette = Palette::default();
    traces.iter().flat_map(Trace::in_order).for_each(|(_, view)| palette.assign(view.service));
    let style = plain_style(((WIDTH - 2.0 * MARGIN) / CELL) as usize);
    let mut drawing = Drawing::new(&traces, Options::default(), &palette, &style);
    drawing.place(logs, &traces);
    let mut picture = Picture::new(&drawing, &traces);
    for trace in &traces {
        picture.trace(trace);
    }
    picture.finish()
}

struct Picture<'p, 'a> {
    drawing: &'p Drawing<'p, 'a>,
    style: &'p Style,
    service_left: f64,
    lane_left: f64,
    lane_width: f64,
    body: String,
    /// Where the next row begins.
    top: f64,
}

impl<'p, 'a> Picture<'p, 'a> {
    fn new(drawing: &'p Drawing<'p, 'a>, traces: &[Trace<'a>]) -> Self {
        let style = drawing.style;
        let rows = || traces.iter().flat_map(Trace::in_order);
        let name =
            |(node, view): (&Node, &SpanView<'a>)| indent(node) + cells(style.width_of(&view.span.name));
        let longest_name = rows().map(name).fold(0.0, f64::max).min(WIDTH * 0.4);
        let longest_service = rows().map(|(_, view)| style.width_of(view.service)).max().unwrap_or(0);
        let service_left = MARGIN + longest_name + cells(GAP);
        let lane_left = service_left + cells(longest_service.min(LONGEST_SERVICE) + GAP);
        let lane_width = WIDTH - MARGIN - DURATION - lane_left;
        Self { drawing, style, service_left, lane_left, lane_width, body: String::new(), top: MARGIN / 2.0 }
    }

    fn trace(&mut self, trace: &Trace<'a>) {
        self.heading(trace);
        let (rows, top) = (self.body.len(), self.top);
        self.top += RULER;
        for (node, view) in trace.in_order() {
            self.row(node, view, trace);
            for pieces in self.drawing.remarks(node, view) {
                self.remark(node, &pieces);
            }
        }
        // behind the bars, now that it is known how far down they go
        let ruler = self.ruler(trace, top);
        self.body.insert_str(rows, &ruler);
        self.top += ROW / 2.0;
    }

    fn heading(&mut self, trace: &Trace<'a>) {
        self.top += HEADING;
        let baseline = self.top - DESCENT;
        let errors = trace.spans.iter().filter(|view| view.error().is_some()).count() as u64;
        let spans = describe::count(trace.spans.len() as u64, "span");
        let duration = describe::duration(trace.nanos, self.style);
        let (ink, errors) = match errors {
            0 => (Ink::FAINT, "no errors".to_owned()),
            _ => (Ink::BAD.bold(), describe::count(errors, "error")),
        };
        self.text((MARGIN, baseline), Ink::FAINT, "trace");
        let id = self.cut(&describe::id(trace.id()), LONGEST_ID as f64);
        self.text((MARGIN + cells(6), baseline), Ink::PLAIN.bold(), &id);
        let right = WIDTH - MARGIN;
        self.text_before((right, baseline), ink, &errors);
        let separator = self.style.glyphs.separator;
        let facts = format!("{spans}{separator}{duration}{separator}");
        self.text_before((right - cells(errors.len() + 1), baseline), Ink::PLAIN, facts.trim_end());
        let _ = writeln!(self.body, r#"<path class="guide" d="M{MARGIN} {}H{}"/>"#, self.top, WIDTH - MARGIN);
    }

    /// Lines through the whole trace, with their times above.
    fn ruler(&self, trace: &Trace<'a>, top: f64) -> String {
        let mut svg = String::new();
        let scale = Scale { start: 0, nanos: trace.nanos, cells: (self.lane_width / CELL / 1.5) as usize };
        let step = lane::step(&scale, self.style);
        let times = std::iter::successors(Some(0u64), |time| time.checked_add(step));
        let right = self.lane_left + self.lane_width;
        for time in times.take_while(|time| *time < trace.nanos.max(1)) {
            let x = self.x(trace, trace.start.saturating_add(time));
            let _ = writeln!(svg, r#"<path class="grid" d="M{x:.1} {:.1}V{:.1}"/>"#, top + 4.0, self.top);
            let label = if time == 0 { "0".to_owned() } else { describe::round_duration(time, self.style) };
            let (x, y) = (x + 4.0, top + RULER - 4.0);
            if x + cells(label.len()) <= right {
                let _ = writeln!(svg, r#"<text class="c244" x="{x:.1}" y="{y:.1}">{label}</text>"#);
            }
        }
        svg
    }

    fn row(&mut self, node: &Node, view: &SpanView<'a>, trace: &Trace<'a>) {
        let (top, middle) = (self.top, self.top + ROW / 2.0);
        self.top += ROW;
        let baseline = self.top - DESCENT;
        if let Some((&has_sibling_below, above)) = node.trunks.split_last() {
            self.guides(above, top);
            let x = guide(above.len());
            let end = if has_sibling_below { self.top } else { middle };
            let branch = format!("M{x} {top}V{end}M{x} {middle}H{}", MARGIN + indent(node) - 3.0);
            let _ = writeln!(self.body, r#"<path class="guide" d="{branch}"/>"#);
        }
        let is_error = view.error().is_some();
        let service = self.drawing.palette.ink(view.service);
        let (name, color) = if is_error { (Ink::BAD, Ink::BAD) } else { (Ink::PLAIN, service) };
        let name_left = MARGIN + indent(node);
        let room = (self.service_left - name_left) / CELL - GAP as f64;
        self.text((name_left, baseline), name.bold(), &self.cut(&view.span.name, room));
        let service_name = self.cut(view.service, LONGEST_SERVICE as f64);
        self.text((self.service_left, baseline), service, &service_name);
        let left = self.x(trace, view.span.start_time_unix_nano);
        let left = left.min(self.lane_left + self.lane_width - NARROWEST_BAR);
        let width = (self.x(trace, view.span.end_time_unix_nano) - left).max(NARROWEST_BAR);
        let (y, class) = (middle - BAR / 2.0, class(color));
        let _ = writeln!(
            self.body,
            r#"<rect{class} x="{left:.1}" y="{y}" width="{width:.1}" height="{BAR}" rx="2"/>"#
        );
        for event in &view.span.events {
            let last = self.lane_left + self.lane_width - 4.0;
            let x = self.x(trace, event.time_unix_nano).clamp(self.lane_left + 4.0, last);
            let diamond = format!("M{:.1} {middle}l4 -4l4 4l-4 4z", x - 4.0);
            let _ = writeln!(self.body, r#"<path class="event" d="{diamond}"/>"#);
        }
        let duration = describe::duration(view.nanos(), self.style);
        self.text_before((WIDTH - MARGIN, baseline), name, &duration);
    }

    /// A line beneath a span.
    fn remark(&mut self, node: &Node, pieces: &[Piece]) {
        let trunks: Vec<bool> = node.trunks.iter().copied().chain([node.has_children]).collect();
        let (top, left) = (self.top, MARGIN + INDENT * trunks.len() as f64);
        self.top += REMARK;
        self.guides(&trunks, top);
        let mut room = (WIDTH - MARGIN - left) / CELL;
        let _ = write!(self.body, r#"<text x="{left:.1}" y="{:.1}">"#, self.top - DESCENT + 1.0);
        for (ink, text, _) in pieces.iter().filter(|(_, text, _)| !text.is_empty()) {
            let text = self.cut(text, room);
            room -= (text::width(&text) + GAP) as f64;
            let _ = write!(self.body, "<tspan{}>{}</tspan>", class(*ink), escaped(&format!("{text}  ")));
        }
        self.body.push_str("</text>\n");
    }

    fn guides(&mut self, trunks: &[bool], top: f64) {
        for (level, _) in trunks.iter().enumerate().filter(|(_, goes_on)| **goes_on) {
            let _ = writeln!(self.body, r#"<path class="guide" d="M{} {top}V{}"/>"#, guide(level), self.top);
        }
    }

    /// Where a time is in the lane.
    fn x(&self, trace: &Trace<'a>, time: u64) -> f64 {
        let elapsed = time.saturating_sub(trace.start).min(trace.nanos) as f64;
        self.lane_left + self.lane_width * elapsed / trace.nanos.max(1) as f64
    }

    fn cut(&self, text: &str, cells: f64) -> String {
        let text = text::printable(text, self.style.charset);
        text::cut(&text, cells.max(0.0).round() as usize, self.style.glyphs.ellipsis).into_owned()
    }

    fn text(&mut self, (x, y): (f64, f64), ink: Ink, text: &str) {
        let _ = writeln!(self.body, r#"<text{} x="{x:.1}" y="{y:.1}">{}</text>"#, class(ink), escaped(text));
    }

    /// A text that ends at `x`.
    fn text_before(&mut self, (x, y): (f64, f64), ink: Ink, text: &str) {
        let class = class(ink);
        let text = escaped(text);
        let _ = writeln!(self.body, r#"<text{class} x="{x:.1}" y="{y:.1}" text-anchor="end">{text}</text>"#);
    }

    fn finish(self) -> String {
        let height = self.top + MARGIN / 2.0;
        let (inner_width, inner_height) = (WIDTH - 1.0, height - 1.0);
        format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img">
<title>The traces that "standpipe demo" draws: spans over time, with their events, log records and errors</title>
<style>
{STYLE}</style>
<rect class="paper" x="0.5" y="0.5" width="{inner_width}" height="{inner_height}" rx="8"/>
{}</svg>
"#,
            self.body
        )
    }
}

fn indent(node: &Node) -> f64 {
    INDENT * node.trunks.len() as f64
}

/// Where the guide of a level is, below the first letters of the name above it.
fn guide(level: usize) -> f64 {
    MARGIN + INDENT * level as f64 + 5.0
}

fn cells(number: usize) -> f64 {
    number as f64 * CELL
}

fn class(ink: Ink) -> String {
    match ink.classes() {
        classes if classes.is_empty() => classes,
        classes => format!(" class=\"{classes}\""),
    }
}

/// Fit for XML, which has no U+FFFE and U+FFFF, with spaces that are not run together.
fn escaped(text: &str) -> String {
    let text = text.replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}");
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace("  ", "\u{a0}\u{a0}")
}
