//! Lists records: one entry for each, under a heading for each request.

use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use standpipe::receiver::proto::Point;
use standpipe::receiver::{Protocol, ReceivedMetric, Records};

use crate::cli::describe::{self, SpanView};
use crate::cli::log_view::LogView;
use crate::cli::metrics_table::bars;
use crate::cli::point_view::{self, PointView};
use crate::cli::style::{Ink, Line, Style};
use crate::cli::table::{self, Column, GAP, Text};
use crate::cli::{text, waterfall};

const TIME: usize = 13;
const SERVICE: usize = 12;
/// The column of a name where lines are whole, and the widest where they are cut.
const NAME: usize = 28;
const MAX_NAME_WIDTH: usize = 40;
/// On a narrow screen a name is worth more than what stands behind it.
const MIN_NAME_WIDTH: usize = 8;
const SPAN_KIND: usize = 8;
/// After time, service and name.
const KIND_AT: usize = 3;
const DURATION: usize = 8;
const STATUS: usize = 5;
/// All columns but the name.
const BESIDE_SPAN_NAME: usize = TIME + SERVICE + SPAN_KIND + DURATION + STATUS + 5 * GAP;
const SEVERITY: usize = 6;
/// The severity texts of senders may be longer than this.
const MAX_SEVERITY_WIDTH: usize = 16;
const BODY: usize = 28;
const POINT_KIND: usize = 9;
/// Of a number, or the bars of a histogram: one for each of the 16 buckets that most have.
const VALUE: usize = 16;
/// All columns but the name.
const BESIDE_POINT_NAME: usize = TIME + SERVICE + POINT_KIND + VALUE + 4 * GAP;

/// How a record is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Lines are cut to the width of the terminal, and details that have no room in the first get a second one.
    Cut,
    /// One line for each record, to be searched, with up to 65,536 characters of each text.
    Whole,
}

/// Each record is written before the next is drawn: a batch may have a million of them.
pub(super) fn print(
    records: &Records,
    protocol: Option<Protocol>,
    layout: Layout,
    full: bool,
    style: &Style,
    out: &mut impl Write,
) -> io::Result<()> {
    let Records { spans, logs, metrics, .. } = records;
    let count = |number: usize, what| describe::count(number as u64, what);
    if !spans.is_empty() {
        writeln!(out, "{}", batch_heading(&count(spans.len(), "span"), protocol, style))?;
        let mut rows = spans.iter().map(|received| span_row(&received.into(), layout, full, style));
        rows.try_for_each(|row| row.print(layout, style, out))?;
    }
    if !logs.is_empty() {
        writeln!(out, "{}", batch_heading(&count(logs.len(), "log record"), protocol, style))?;
        let views = logs.iter().map(LogView::from);
        let mut rows = views.map(|view| log_row(&view, describe::attributes(&view.log.attributes)));
        rows.try_for_each(|row| row.print(layout, style, out))?;
    }
    if !metrics.is_empty() {
        let points = count(metrics.iter().map(ReceivedMetric::point_count).sum(), "data point");
        let content = format!("{points} in {}", count(metrics.len(), "metric"));
        writeln!(out, "{}", batch_heading(&content, protocol, style))?;
        let views = metrics.iter().flat_map(point_view::of_received);
        views
            .map(|view| point_row(&view, layout, style))
            .try_for_each(|row| row.print(layout, style, out))?;
    }
    Ok(())
}

fn span_row(view: &SpanView<'_>, layout: Layout, full: bool, style: &Style) -> Row {
    let ink = if view.error().is_some() { Ink::BAD } else { Ink::PLAIN };
    let status_ink = if view.error().is_some() { Ink::BAD.bold() } else { Ink::FAINT };
    let duration = format!("{:>DURATION$}", describe::duration(view.nanos(), style));
    let is_tight = is_tight(BESIDE_SPAN_NAME, layout, style);
    let beside = if is_tight { BESIDE_SPAN_NAME - SPAN_KIND - GAP } else { BESIDE_SPAN_NAME };
    let mut cells = vec![
        Cell::new(Ink::FAINT, describe::time_of_day(view.span.start_time_unix_nano), TIME),
        Cell::new(Ink::of_name(view.service), view.service, SERVICE),
        Cell::new(ink.bold(), &view.span.name, name_width(beside, layout, style)),
        Cell::new(ink, duration, DURATION),
        Cell::new(status_ink, view.status(), STATUS),
    ];
    let ids =
        format!("{}/{}", describe::short_id(&view.span.trace_id), describe::short_id(&view.span.span_id));
    let mut details = vec![
        (Ink::FAINT, ids),
        (Ink::BAD, view.error().unwrap_or_default().to_owned()),
        (Ink::FAINT, describe::attributes(&view.span.attributes)),
    ];
    match is_tight {
        true => details.insert(0, (Ink::FAINT, view.kind().to_owned())),
        false => cells.insert(KIND_AT, Cell::new(Ink::FAINT, view.kind(), SPAN_KIND)),
    }
    let below = waterfall::events(view.span, full, style);
    Row { cells, details, below }
}

/// The row of a log record, of whose attributes this is to be shown.
pub(super) fn log_row(view: &LogView<'_>, attributes: String) -> Row {
    let severity = view.severity();
    let severity_width = text::width(&severity).clamp(SEVERITY, MAX_SEVERITY_WIDTH);
    let body_ink = if view.is_error() { Ink::BAD } else { Ink::PLAIN };
    let mut cells = vec![
        Cell::new(Ink::FAINT, describe::time_of_day(view.unix_nanos()), TIME),
        Cell::new(Ink::of_name(view.service), view.service, SERVICE),
        Cell::new(view.ink(), severity, severity_width),
    ];
    if !view.log.event_name.is_empty() {
        cells.push(Cell::pushing(body_ink.bold(), &view.log.event_name, 0));
    }
    cells.push(Cell::pushing(body_ink, view.body(), BODY));
    let details = vec![(Ink::FAINT, view.ids()), (Ink::FAINT, attributes)];
    Row { cells, details, below: Vec::new() }
}

fn point_row(view: &PointView<'_>, layout: Layout, style: &Style) -> Row {
    let is_tight = is_tight(BESIDE_POINT_NAME, layout, style);
    let beside = if is_tight { BESIDE_POINT_NAME - POINT_KIND - GAP } else { BESIDE_POINT_NAME };
    let name_width = name_width(beside, layout, style);
    let kind = view.kind();
    let kind_width = text::width(&kind).max(POINT_KIND);
    // a long kind takes its room from the value
    let value_width = (POINT_KIND + VALUE).saturating_sub(kind_width).min(VALUE);
    let (value, measures) = match view.point {
        Some(Point::Number(_)) | None => (view.value(), String::new()),
        Some(Point::Histogram(_) | Point::Exponential(_) | Point::Summary(_)) => {
            (bars(&view.buckets(), value_width, style), view.value())
        }
    };
    let mut cells = vec![
        Cell::new(Ink::FAINT, view.unix_nanos().map(describe::time_of_day).unwrap_or_default(), TIME),
        Cell::new(Ink::of_name(view.service), view.service, SERVICE),
        Cell::new(Ink::PLAIN.bold(), &view.metric.name, name_width),
        Cell::pushing(Ink::PLAIN, value, value_width),
    ];
    let mut details = vec![(Ink::PLAIN, measures), (Ink::FAINT, describe::attributes(view.attributes()))];
    match is_tight {
        true => details.insert(0, (Ink::FAINT, kind)),
        false => cells.insert(KIND_AT, Cell::new(Ink::FAINT, kind, kind_width)),
    }
    Row { cells, details, below: Vec::new() }
}

fn batch_heading(content: &str, protocol: Option<Protocol>, style: &Style) -> String {
    match protocol {
        Some(protocol) => heading(&format!("{content} over {}", protocol.name()), now(), style),
        None => rule(content, style.line(), style),
    }
}

/// The time as OTLP writes it.
pub(super) fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

/// The line over a batch: when it came, and what is in it.
fn heading(content: &str, received_unix_nanos: u64, style: &Style) -> String {
    let mut line = style.line();
    line.put(Ink::FAINT, &style.glyphs.rule.repeat(2)).space(1);
    line.put(Ink::FAINT, &describe::time_of_day(received_unix_nanos)).space(1);
    rule(content, line, style)
}

fn rule(content: &str, mut line: Line<'_>, style: &Style) -> String {
    line.put(Ink::PLAIN.bold(), content).space(1);
    let rest = style.width.saturating_sub(line.width());
    line.put(Ink::FAINT, &style.glyphs.rule.repeat(rest));
    line.finish()
}

/// What is known about one record.
pub(crate) struct Row {
    cells: Vec<Cell>,
    details: Vec<Detail>,
    /// What happened in it: a line each, or where lines are whole the end of its line.
    below: Vec<Vec<Detail>>,
}

/// A text, and what it is written with.
type Detail = (Ink, String);

/// A text in a column.
struct Cell {
    column: Column,
    ink: Ink,
    text: String,
}

impl Cell {
    /// A text that is cut to its column.
    fn new(ink: Ink, text: impl Into<String>, width: usize) -> Self {
        Self { column: Column::cut(width), ink, text: text.into() }
    }

    /// A text that pushes what is behind it to the right.
    fn pushing(ink: Ink, text: impl Into<String>, width: usize) -> Self {
        Self { column: Column::pushing(width), ink, text: text.into() }
    }
}

/// Whether a name that has to share the line with `beside` other terminal cells has too little left.
fn is_tight(beside: usize, layout: Layout, style: &Style) -> bool {
    layout == Layout::Cut && style.width < beside + MIN_NAME_WIDTH
}

/// The width of a name that has to share the line with `beside` other terminal cells.
fn name_width(beside: usize, layout: Layout, style: &Style) -> usize {
    match layout {
        Layout::Cut => style.width.saturating_sub(beside).clamp(MIN_NAME_WIDTH, MAX_NAME_WIDTH),
        Layout::Whole => NAME,
    }
}

impl Row {
    pub(super) fn print(&self, layout: Layout, style: &Style, out: &mut impl Write) -> io::Result<()> {
        self.draw(layout, style).iter().try_for_each(|line| writeln!(out, "{line}"))
    }

    /// One line; where lines are cut a second if the details have no room behind the columns, and one for each of those below.
    fn draw(&self, layout: Layout, style: &Style) -> Vec<String> {
        let mut first = style.line();
        let cells = self.cells.iter().map(|cell| fitted(cell.column, cell.ink, &cell.text, layout));
        let end = table::put(cells, &mut first);
        let mut details = all_fitted(&self.details, layout);
        let width: usize = details.iter().map(|(_, text)| text.width(style) + GAP).sum();
        let mut next_lines: Vec<_> = self.below.iter().map(|details| all_fitted(details, layout)).collect();
        if layout == Layout::Whole {
            details.extend(next_lines.drain(..).flatten());
        }
        if layout == Layout::Whole || details.is_empty() || end + width <= style.width + GAP {
            first.pad_to(end);
            table::put(details, &mut first);
        } else {
            next_lines.insert(0, details);
        }
        let next_lines = next_lines.into_iter().map(|details| {
            let mut line = style.line();
            line.space(TIME + GAP);
            table::put(details, &mut line);
            line.finish()
        });
        std::iter::once(first.finish()).chain(next_lines).collect()
    }
}

/// A text in its column, which cuts nothing where lines are whole.
fn fitted(column: Column, ink: Ink, text: &str, layout: Layout) -> (Column, Text<'_>) {
    let column = if layout == Layout::Whole { column.uncut() } else { column };
    (column, Text::new(ink, text::shorten(text)))
}

fn all_fitted(details: &[Detail], layout: Layout) -> Vec<(Column, Text<'_>)> {
    let details = details.iter().filter(|(_, text)| !text.is_empty());
    details.map(|(ink, text)| fitted(Column::pushing(0), *ink, text, layout)).collect()
}

#[cfg(test)]
mod tests;
