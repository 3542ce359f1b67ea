//! Draws metrics as a table with a row for each series, and a sparkline of its values.
//!
//! Pure: data points and a [`Style`] in, lines out.

mod series;

pub(crate) use self::series::Group;
use self::series::Series;
use super::describe;
use super::point_view::PointView;
use super::style::{Ink, Palette, Style};
use super::table::{self, Column, GAP, Table, Text};
use super::text::Charset;

const LONGEST_SERVICE: usize = 14;
/// Cells between a name and its unit.
const UNIT_GAP: usize = 1;
/// One bar for each of the 16 buckets that most histograms have.
const BARS: usize = 16;
/// The column of the bars, in a row of one line; in a row of two there is no kind before it.
const BARS_AT: usize = 3;
/// What the line is shortened to before anything else has to give way.
const FEWEST_BARS: usize = 8;
/// Shapes of the bars of a sparkline. The first is for nothing at all, so that little and nothing look different.
const UNICODE_BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const ASCII_BARS: [char; 8] = ['_', '.', '-', ':', '=', '+', '*', '#'];

/// Series listed; the rest is counted.
const MOST_LISTED: usize = 40;

/// Draws a table of all series among `points`, the services in the order of the palette; nothing if there are none.
pub(crate) fn draw(points: &[PointView<'_>], palette: &mut Palette, style: &Style) -> Vec<String> {
    points.iter().for_each(|view| palette.assign(view.service));
    let all = series::gather(points);
    let points: usize = all.iter().map(Series::point_count).sum();
    let points = describe::count(points as u64, "data point");
    let facts = format!("{} series{}{points}", all.len(), style.glyphs.separator);
    draw_series(all, &facts, MOST_LISTED, palette, style)
}

/// Draws what came lately: up to `most` series with what they changed by, under a heading with these facts.
pub(crate) fn draw_lately(
    groups: Vec<Group<'_>>,
    facts: &str,
    most: usize,
    palette: &mut Palette,
    style: &Style,
) -> Vec<String> {
    let all = series::of_groups(groups);
    all.iter().for_each(|series| palette.assign(series.service));
    draw_series(all, facts, most, palette, style)
}

fn draw_series(
    mut all: Vec<Series<'_>>,
    facts: &str,
    most: usize,
    palette: &Palette,
    style: &Style,
) -> Vec<String> {
    if all.is_empty() {
        return Vec::new();
    }
    all.sort_by_cached_key(|series| (palette.place(series.service), series.label()));
    let rest = all.len().saturating_sub(most);
    all.truncate(most);
    let layout = Layout::new(&all, style);
    let mut lines = vec![heading(facts, style)];
    for series in &all {
        lines.extend(layout.row(series, palette.ink(series.service), style));
    }
    if rest > 0 {
        let mut line = style.line();
        line.put_rest(Ink::FAINT, &format!("and {rest} more series"));
        lines.push(line.finish());
    }
    lines
}

fn heading(facts: &str, style: &Style) -> String {
    let facts = format!(" {facts}");
    let mut line = style.line();
    line.put(Ink::FAINT, "metrics ");
    let rule = style.width.saturating_sub(line.width() + style.width_of(&facts));
    line.put(Ink::FAINT, &style.glyphs.rule.repeat(rule)).put_rest(Ink::PLAIN, &facts);
    line.finish()
}

/// How the rows are laid out.
enum Layout<'a> {
    OneLine(Table<'a>),
    /// The kind, the spread and the attributes are in a second line, below the name.
    TwoLines(Table<'a>, usize),
}

impl<'d> Layout<'d> {
    fn new(all: &[Series<'_>], style: &'d Style) -> Self {
        let longest_label = |with_attributes| {
            all.iter().map(|series| label(series, with_attributes).width(style)).max().unwrap_or(0)
        };
        let service = table::widest(all.iter().map(|series| series.service), style).min(LONGEST_SERVICE);
        let kind = table::widest(all.iter().map(|series| &series.kind), style);
        let newest = table::widest(all.iter().map(Series::newest), style);
        let spread = table::widest(all.iter().map(Series::spread), style);
        let one_line = Table::new(
            style,
            0,
            [
                Column::cut(service),
                Column::cut(longest_label(true)),
                Column::cut(kind).optional(),
                Column::between(FEWEST_BARS, BARS),
                Column::cut(newest),
                Column::cut(spread),
            ],
        );
        if one_line.is_complete() {
            return Self::OneLine(one_line);
        }
        let below = if service == 0 { 0 } else { service + GAP };
        let room = style.width.saturating_sub(below + newest + GAP);
        let bars = (room / 3).min(BARS);
        let label = longest_label(false).min(room.saturating_sub(bars + GAP));
        let columns = [service, label, bars, newest].map(Column::cut);
        Self::TwoLines(Table::new(style, 0, columns), below)
    }

    fn row(&self, series: &Series<'_>, ink: Ink, style: &Style) -> Vec<String> {
        let service = Text::new(ink, series.service);
        let bars = |cells| Text::new(ink, series.bars(cells, style));
        let newest = Text::new(Ink::PLAIN, series.newest());
        match self {
            Self::OneLine(table) => {
                let [kind, spread] =
                    [series.kind.clone(), series.spread()].map(|text| Text::new(Ink::FAINT, text));
                vec![table.row([
                    service,
                    label(series, true),
                    kind,
                    bars(table.width_of(BARS_AT)),
                    newest,
                    spread,
                ])]
            }
            Self::TwoLines(table, below) => {
                let first =
                    table.row([service, label(series, false), bars(table.width_of(BARS_AT - 1)), newest]);
                let mut second = style.line();
                second.space(*below);
                let texts = [&series.kind, &series.spread(), &series.attributes];
                let texts = texts.map(|text| (Column::pushing(0), Text::new(Ink::FAINT, text)));
                table::put(texts, &mut second);
                vec![first, second.finish()]
            }
        }
    }
}

/// The name, its unit and, in a row of one line, the attributes.
fn label<'a>(series: &'a Series<'_>, with_attributes: bool) -> Text<'a> {
    let label = Text::new(Ink::PLAIN.bold(), series.name).and(UNIT_GAP, Ink::FAINT, series.unit);
    if with_attributes { label.and(GAP, Ink::FAINT, series.attributes.as_str()) } else { label }
}

/// A bar for each value, the largest as high as a bar can be; several values share one if there are more than `cells`.
///
/// What is below zero, or no number, counts as zero.
pub(crate) fn bars(values: &[f64], cells: usize, style: &Style) -> String {
    let heights = shared(values, cells);
    let highest = heights.iter().copied().fold(0.0, f64::max);
    let shapes = match style.charset {
        Charset::Unicode => &UNICODE_BARS,
        Charset::Ascii => &ASCII_BARS,
    };
    heights.iter().map(|height| shapes[level(*height, highest, shapes.len() - 1)]).collect()
}

/// The mean of the values that share a cell, for each cell.
fn shared(values: &[f64], cells: usize) -> Vec<f64> {
    let cells = cells.min(values.len());
    let start = |cell: usize| cell * values.len() / cells;
    (0..cells)
        .map(|cell| {
            let sharing = &values[start(cell)..start(cell + 1)];
            // the second bound is for NaN; divided first, so that no sum is too large for a number
            sharing.iter().map(|value| value.clamp(0.0, f64::MAX).max(0.0) / sharing.len() as f64).sum()
        })
        .collect()
}

fn level(height: f64, highest: f64, top: usize) -> usize {
    if height <= 0.0 {
        return 0;
    }
    ((height / highest * top as f64).round() as usize).clamp(1, top)
}

#[cfg(test)]
mod tests;
