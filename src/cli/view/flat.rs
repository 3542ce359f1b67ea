//! Lists records: one row for each record or data point, below a heading for each signal of a request.

use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use standpipe::receiver::proto::{self, Metric, Point};
use standpipe::receiver::{Protocol, ReceivedMetric, Records};

use crate::cli::describe::{self, LogView, SpanView};
use crate::cli::metrics_table::bars;
use crate::cli::series::{self, ExemplarPoint, PointValue};
use crate::cli::style::{Ink, Style};
use crate::cli::table::{self, Column, GAP, Text};
use crate::cli::{text, waterfall};

// Widths of the columns.
const TIME: usize = 13;
const SERVICE: usize = 12;
/// Width of a name with [`Layout::Whole`].
const NAME: usize = 28;
/// Maximum width of a name with [`Layout::Cut`].
const MAX_NAME_WIDTH: usize = 40;
/// Minimum width of a name. If the terminal is too narrow for it, the kind is moved to the details.
const MIN_NAME_WIDTH: usize = 8;
const SPAN_KIND: usize = 8;
const DURATION: usize = 8;
const STATUS: usize = 5;
const SEVERITY: usize = 6;
/// Maximum width of a severity, which may be any text of the sender.
const MAX_SEVERITY_WIDTH: usize = 16;
const BODY: usize = 28;
const POINT_KIND: usize = 9;
/// Width of a number, or of a histogram's bars. Most histograms have 16 buckets.
const VALUE: usize = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Lines are cut to the width of the terminal. Details that do not fit into the first line get a second line.
    Cut,
    /// One line for each record, with up to 65,536 characters of each text, for programs such as `grep`.
    Whole,
}

/// Prints the records of a request. Each record is written before the next is drawn, so that a million records need
/// little memory.
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
    let points = count(metrics.iter().map(ReceivedMetric::point_count).sum(), "data point");
    let points = format!("{points} in {}", count(metrics.len(), "metric"));
    let spans_in_rows = spans.iter().map(|received| span_row(&received.into(), layout, full, style));
    let logs_in_rows = logs.iter().map(|received| {
        let view = LogView::from(received);
        log_row(&view, describe::attributes(&view.log.attributes), layout)
    });
    let points_in_rows = metrics
        .iter()
        .flat_map(|received| point_rows(&received.metric, received.service_name(), layout, style));
    let mut print = |content: String, rows: &mut dyn Iterator<Item = Row>| {
        let mut rows = rows.peekable();
        if rows.peek().is_some() {
            writeln!(out, "{}", heading(&content, protocol, now(), style))?;
        }
        rows.try_for_each(|row| row.print(style, out))
    };
    print(count(spans.len(), "span"), &mut { spans_in_rows })?;
    print(count(logs.len(), "log record"), &mut { logs_in_rows })?;
    print(points, &mut { points_in_rows })
}

fn span_row(view: &SpanView<'_>, layout: Layout, full: bool, style: &Style) -> Row {
    let ink = if view.error().is_some() { Ink::BAD } else { Ink::PLAIN };
    let status_ink = if view.error().is_some() { Ink::BAD.bold() } else { Ink::FAINT };
    let duration = format!("{:>DURATION$}", describe::duration(view.nanos(), style));
    let ids =
        format!("{}/{}", describe::short_id(&view.span.trace_id), describe::short_id(&view.span.span_id));
    let mut row = Row::new(Some(view.span.start_time_unix_nano), view.service, layout);
    let end = style.width.saturating_sub(DURATION + GAP + STATUS);
    row.name(ink.bold(), &view.span.name, (view.kind(), SPAN_KIND), end);
    row.cell(ink, &duration, DURATION);
    row.cell(status_ink, view.status(), STATUS);
    row.detail(Ink::FAINT, &ids);
    row.detail(Ink::BAD, view.error().unwrap_or_default());
    row.detail(Ink::FAINT, &describe::attributes(&view.span.attributes));
    for pieces in waterfall::events(view.span, full, style) {
        row.below.push(pieces.iter().map(|(ink, text)| row.fitted(Column::pushing(0), *ink, text)).collect());
    }
    row
}

/// Returns the row of a log record with the given attributes.
pub(crate) fn log_row(view: &LogView<'_>, attributes: String, layout: Layout) -> Row {
    let severity = view.severity();
    let ink = if view.is_error() { Ink::BAD } else { Ink::PLAIN };
    let mut row = Row::new(Some(view.unix_nanos()), view.service, layout);
    row.cell(view.ink(), &severity, text::width(&severity).clamp(SEVERITY, MAX_SEVERITY_WIDTH));
    row.pushing_cell(ink.bold(), &view.log.event_name, 0);
    row.pushing_cell(ink, &view.body(), BODY);
    row.detail(Ink::FAINT, &view.ids());
    row.detail(Ink::FAINT, &attributes);
    row
}

/// Returns a row for each point of a metric, or a single row if it has no points.
fn point_rows(metric: &Metric, service: &str, layout: Layout, style: &Style) -> Vec<Row> {
    let kind = series::kind(metric);
    let kind_width = text::width(&kind).max(POINT_KIND);
    // A long kind reduces the width of the value.
    let value_width = (POINT_KIND + VALUE).saturating_sub(kind_width).min(VALUE);
    let row = |point: Option<Point<'_>>| {
        let value = point.map(PointValue::from);
        let all = value.as_ref().map(|value| value.text(series::unit(&metric.unit)));
        let (value, measures) = match value.filter(|value| !value.is_number()) {
            Some(value) => (bars(&value.buckets(), value_width, style), all.unwrap_or_default()),
            None => (all.unwrap_or_else(|| "no data points".to_owned()), String::new()),
        };
        let mut row = Row::new(point.map(|point| point.times().1), service, layout);
        let end = style.width.saturating_sub(value_width);
        row.name(Ink::PLAIN.bold(), &metric.name, (&kind, kind_width), end);
        row.pushing_cell(Ink::PLAIN, &value, value_width);
        row.detail(Ink::PLAIN, &measures);
        row.detail(Ink::FAINT, &describe::attributes(point.map_or(&[], Point::attributes)));
        for ExemplarPoint { time, value, trace, span } in point.map(series::exemplars).unwrap_or_default() {
            let time = describe::time_of_day(time * 1_000_000);
            let texts = ["exemplar", &series::number(value), &time, &format!("{trace}/{span}")];
            row.below.push(texts.map(|text| row.fitted(Column::pushing(0), Ink::FAINT, text)).into());
        }
        row
    };
    let points = proto::points(metric);
    if points.is_empty() {
        vec![row(None)]
    } else {
        points.into_iter().map(|point| row(Some(point))).collect()
    }
}

/// Returns the current time in nanoseconds since 1970.
pub(super) fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the heading of a batch: its content and, if it came over the network, the time and the protocol.
fn heading(content: &str, protocol: Option<Protocol>, unix_nanos: u64, style: &Style) -> String {
    let Some(protocol) = protocol else { return style.ruled(&[(Ink::PLAIN.bold(), content)], &[]) };
    let (rule, time) = (style.glyph("─").repeat(2), describe::time_of_day(unix_nanos));
    let content = format!("{content} over {}", protocol.name());
    style.ruled(&[(Ink::FAINT, &rule), (Ink::FAINT, &time), (Ink::PLAIN.bold(), &content)], &[])
}

/// Texts of one record.
pub(crate) struct Row {
    layout: Layout,
    cells: Vec<(Column, Text<'static>)>,
    details: Vec<(Column, Text<'static>)>,
    /// Texts of the events or exemplars. Each gets a line, or with [`Layout::Whole`] is appended to the record's line.
    below: Vec<Vec<(Column, Text<'static>)>>,
}

impl Row {
    fn new(unix_nanos: Option<u64>, service: &str, layout: Layout) -> Self {
        let mut row = Self { layout, cells: Vec::new(), details: Vec::new(), below: Vec::new() };
        row.cell(Ink::FAINT, &unix_nanos.map(describe::time_of_day).unwrap_or_default(), TIME);
        row.cell(Ink::of_name(service), service, SERVICE);
        row
    }

    /// Returns a text in its column. With [`Layout::Whole`], the text is not cut.
    fn fitted(&self, column: Column, ink: Ink, text: &str) -> (Column, Text<'static>) {
        let column = if self.layout == Layout::Whole { column.uncut() } else { column };
        (column, Text::new(ink, text::shorten(text).into_owned()))
    }

    /// Adds a text that is cut to the width of its column.
    fn cell(&mut self, ink: Ink, text: &str, width: usize) {
        self.cells.push(self.fitted(Column::cut(width), ink, text));
    }

    /// Adds a text that pushes the next columns to the right.
    fn pushing_cell(&mut self, ink: Ink, text: &str, width: usize) {
        self.cells.push(self.fitted(Column::pushing(width), ink, text));
    }

    fn detail(&mut self, ink: Ink, text: &str) {
        if !text.is_empty() {
            self.details.push(self.fitted(Column::pushing(0), ink, text));
        }
    }

    /// Adds the name and the kind, which end before column `end`. If there is no room for both, the kind becomes a
    /// detail.
    fn name(&mut self, ink: Ink, name: &str, (kind, kind_width): (&str, usize), end: usize) {
        let others = TIME + SERVICE + 3 * GAP;
        let with_kind = others + kind_width + GAP;
        let is_tight = self.layout == Layout::Cut && end < with_kind + MIN_NAME_WIDTH;
        let room = end.saturating_sub(if is_tight { others } else { with_kind });
        let width = match self.layout {
            Layout::Cut => room.clamp(MIN_NAME_WIDTH, MAX_NAME_WIDTH),
            Layout::Whole => NAME,
        };
        self.cell(ink, name, width);
        if is_tight { self.detail(Ink::FAINT, kind) } else { self.cell(Ink::FAINT, kind, kind_width) }
    }

    pub(super) fn print(self, style: &Style, out: &mut impl Write) -> io::Result<()> {
        self.draw(style).iter().try_for_each(|line| writeln!(out, "{line}"))
    }

    /// Draws the row. With [`Layout::Cut`], adds a line for details that do not fit, and one for each part of `below`.
    pub(crate) fn draw(self, style: &Style) -> Vec<String> {
        let Self { layout, cells, mut details, below: mut next_lines } = self;
        let mut first = style.line();
        let end = table::put(cells, &mut first);
        let width: usize = details.iter().map(|(_, text)| text.width(style) + GAP).sum();
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

#[cfg(test)]
mod tests;
