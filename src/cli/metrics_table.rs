//! Draws metrics as a table with a row for each series and a sparkline of its values.
//!
//! Pure: series and a [`Style`] in, lines out.

use std::cmp::Reverse;
use std::collections::HashMap;

use standpipe::receiver::ReceivedMetric;

use super::describe;
use super::series::{self, ExemplarPoint, PointValue, Series, SeriesPoint, SeriesStore};
use super::style::{Ink, Palette, Style};
use super::table::{self, Column, GAP, Table, Text};
use super::text::Charset;

const MAX_SERVICE_WIDTH: usize = 14;
/// Number of cells between a name and its unit.
const UNIT_GAP: usize = 1;
/// Maximum width of a sparkline: a bar for each of the 16 buckets that most histograms have.
const BARS: usize = 16;
/// Index of the sparkline's column in a row of one line. In a row of two lines, the index is one less, because the kind
/// is in the second line.
const BARS_AT: usize = 3;
/// Minimum width of the sparklines' column in rows of one line. If the column would be narrower, rows get two lines.
const MIN_BARS: usize = 8;
/// Shapes of the bars of a sparkline. The first stands for zero only, so that small values differ from zero.
const UNICODE_BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const ASCII_BARS: [char; 8] = ['_', '.', '-', ':', '=', '+', '*', '#'];

/// Maximum number of listed series; the rest is counted.
const MAX_LISTED: usize = 40;

/// On a terminal narrower than this, the ids of exemplars are shortened.
const WITH_IDS: usize = 80;
/// Number of digits of a shortened id.
const SHORT_ID: usize = 8;
/// Maximum number of listed exemplars.
const MAX_EXEMPLARS: usize = 3;

/// Draws a table of up to [`MAX_LISTED`] series of `metrics`, with the services in the order in which the palette
/// assigned their colors. Without series, draws nothing.
pub(crate) fn draw(metrics: &[ReceivedMetric], palette: &mut Palette, style: &Style) -> Vec<String> {
    let mut store = SeriesStore::new(usize::MAX, usize::MAX);
    metrics.iter().for_each(|metric| _ = store.add(metric));
    let all: Vec<&Series> = store.all.values().collect();
    let points: usize = all.iter().map(|series| series.points.len()).sum();
    let points = describe::count(points as u64, "data point");
    let facts = format!("{} series{}{points}", all.len(), style.glyph(" · "));
    draw_series(all, &facts, MAX_LISTED, false, palette, style)
}

/// Draws up to `max_rows` series below a heading with `facts`, then the latest exemplars. With `with_change`, each row
/// shows the last change of its series.
pub(crate) fn draw_series(
    mut all: Vec<&Series>,
    facts: &str,
    max_rows: usize,
    with_change: bool,
    palette: &mut Palette,
    style: &Style,
) -> Vec<String> {
    if all.is_empty() {
        return Vec::new();
    }
    // A series id is the logical time of the first point, so services get their colors in the order of appearance.
    all.sort_by_key(|series| series.id);
    all.iter().for_each(|series| palette.assign(&series.service));
    // Pushes are not counted, so a service is assumed to have made as many pushes as its longest series has points.
    let (mut pushes, mut alike) = (HashMap::<&str, usize>::new(), HashMap::<_, usize>::new());
    for series in &all {
        let most = pushes.entry(&series.service).or_default();
        *most = series.points.len().max(*most);
        *alike.entry((&series.service, label_key(series))).or_default() += 1;
    }
    all.sort_by_cached_key(|series| (palette.place(&series.service), label_key(series)));
    let rest = all.len().saturating_sub(max_rows);
    all.truncate(max_rows);
    let rows: Vec<Row<'_>> = all
        .into_iter()
        .filter_map(|series| {
            let is_ambiguous = alike[&(&series.service, label_key(series))] > 1;
            Row::new(series, is_ambiguous, pushes[&*series.service], with_change)
        })
        .collect();
    let mut lines = vec![style.ruled(&[(Ink::FAINT, "metrics")], &[(Ink::PLAIN, facts)])];
    lines.extend(draw_rows(&rows, palette, style));
    if rest > 0 {
        lines.push(style.line_of(Ink::FAINT, &format!("and {rest} more series")));
    }
    // With `with_change`, only the newest point of a series is new, so only its exemplars are listed.
    lines.extend(draw_exemplars(&rows, if with_change { 1 } else { usize::MAX }, style));
    lines
}

/// Draws the latest exemplars in the last `points` of each series, with the ids of their traces.
fn draw_exemplars(rows: &[Row<'_>], points: usize, style: &Style) -> Vec<String> {
    let mut all: Vec<(&Series, &ExemplarPoint)> = Vec::new();
    for Row { series, .. } in rows {
        let newest = series.points.iter().rev().take(points);
        all.extend(newest.flat_map(|point| &point.exemplars).map(|exemplar| (*series, exemplar)));
    }
    all.sort_by_key(|(_, exemplar)| Reverse(exemplar.time));
    all.truncate(MAX_EXEMPLARS);
    let line = |(series, exemplar): &(&Series, &ExemplarPoint)| {
        let value = format!("{} {}", rounded(exemplar.value), series.unit);
        let time = describe::time_of_day(exemplar.time * 1_000_000);
        let mut line = style.line();
        line.put(Ink::FAINT, "exemplar").space(GAP);
        // On a narrow terminal, only the beginning of the id is shown, to leave room for the value.
        let id = exemplar.trace.get(..SHORT_ID).filter(|_| style.width < WITH_IDS).unwrap_or(&exemplar.trace);
        line.put(Ink::FAINT, &time).space(GAP).put(Ink::FAINT, id).space(GAP);
        line.put_rest(Ink::PLAIN, value.trim_end()).space(GAP).put_rest(Ink::PLAIN, &series.name);
        line.finish()
    };
    all.iter().map(line).collect()
}

fn label_key(series: &Series) -> (&str, &str, &str) {
    (&series.name, &series.kind, &series.attributes)
}

/// Draws each row in one line. On a narrow terminal, the kind, spread and attributes are in a second line.
fn draw_rows(rows: &[Row<'_>], palette: &Palette, style: &Style) -> Vec<String> {
    let label_width =
        |with_attributes| rows.iter().map(|row| row.label(with_attributes).width(style)).max().unwrap_or(0);
    let service = table::widest(rows.iter().map(|row| &row.series.service), style).min(MAX_SERVICE_WIDTH);
    let kind = table::widest(rows.iter().map(|row| &row.series.kind), style);
    let newest = table::widest(rows.iter().map(|row| &row.newest), style);
    let spread = table::widest(rows.iter().map(|row| &row.spread), style);
    let columns = [
        Column::cut(service),
        Column::cut(label_width(true)),
        Column::cut(kind).optional(),
        Column::between(MIN_BARS, BARS),
        Column::cut(newest),
        Column::cut(spread),
    ];
    let table = Table::new(style, 0, columns);
    if table.is_complete() {
        let bars = table.width_of(BARS_AT);
        let line = |row: &Row<'_>| {
            let [service, bars, newest] = row.texts(bars, palette, style);
            let [kind, spread] =
                [&row.series.kind, &row.spread].map(|text| Text::new(Ink::FAINT, text.as_str()));
            table.row([service, row.label(true), kind, bars, newest, spread])
        };
        return rows.iter().map(line).collect();
    }
    let indent = if service == 0 { 0 } else { service + GAP };
    let room = style.width.saturating_sub(indent + newest + GAP);
    let bars = (room / 3).min(BARS);
    let label = label_width(false).min(room.saturating_sub(bars + GAP));
    let table = Table::new(style, 0, [service, label, bars, newest].map(Column::cut));
    let lines = |row: &Row<'_>| {
        let [service, bars, newest] = row.texts(table.width_of(BARS_AT - 1), palette, style);
        let mut second = style.line();
        second.space(indent);
        let texts = [&row.series.kind, &row.spread, &row.attributes];
        let texts = texts.map(|text| (Column::pushing(0), Text::new(Ink::FAINT, text.as_str())));
        table::put(texts, &mut second);
        [table.row([service, row.label(false), bars, newest]), second.finish()]
    };
    rows.iter().flat_map(lines).collect()
}

struct Row<'s> {
    series: &'s Series,
    attributes: String,
    newest: String,
    spread: String,
    /// Values of the sparkline.
    values: Vec<f64>,
    /// Number of values that the series would have if each push contained it; for a histogram, the number of buckets.
    pushes: usize,
}

impl<'s> Row<'s> {
    /// Returns the texts of a series, or `None` if it has no points.
    ///
    /// Series with the same name, kind and attributes belong to replicas of a service. If `is_ambiguous`, the texts
    /// contain the instance id, which distinguishes these series.
    fn new(series: &'s Series, is_ambiguous: bool, pushes: usize, with_change: bool) -> Option<Self> {
        let newest = &series.points.back()?.value;
        let attributes = match series.instance.as_str() {
            instance if is_ambiguous && !instance.is_empty() => {
                format!("service.instance.id={instance} {}", series.attributes).trim_end().to_owned()
            }
            _ => series.attributes.clone(),
        };
        let change = Some(change(series)).filter(|_| with_change).unwrap_or_default();
        let values = sparkline(series, newest);
        // The sparkline of a histogram shows buckets, not pushes.
        let pushes = if newest.is_number() { pushes.max(values.len()) } else { values.len() };
        Some(Self {
            series,
            attributes,
            newest: mean(newest),
            spread: spread(newest, &change),
            values,
            pushes,
        })
    }

    /// Returns the name with its unit and, if `with_attributes`, the attributes.
    fn label(&self, with_attributes: bool) -> Text<'_> {
        let name = Text::new(Ink::PLAIN.bold(), self.series.name.as_str());
        let label = name.and(UNIT_GAP, Ink::FAINT, self.series.unit.as_str());
        if with_attributes { label.and(GAP, Ink::FAINT, self.attributes.as_str()) } else { label }
    }

    /// Returns the service, the sparkline with up to `cells` bars, and the newest value.
    ///
    /// Sparklines are aligned to the right, so a series that began later has a shorter sparkline with the same end.
    fn texts(&self, cells: usize, palette: &Palette, style: &Style) -> [Text<'_>; 3] {
        let ink = palette.ink(&self.series.service);
        let cells = cells.min(self.pushes);
        let own = (self.values.len() * cells).div_ceil(self.pushes.max(1));
        let bars = " ".repeat(cells - own) + &bars(&self.values, own, style);
        let service = self.series.service.as_str();
        [Text::new(ink, service), Text::new(ink, bars), Text::new(Ink::PLAIN, self.newest.as_str())]
    }
}

/// Formats a number, or the mean of a histogram or summary; `no mean` if it is unknown.
fn mean(newest: &PointValue) -> String {
    match newest {
        PointValue::Int { .. } | PointValue::Double { .. } => newest.text(""),
        PointValue::Histogram { count, sum: Some(sum), .. } | PointValue::Summary { count, sum, .. }
            if *count > 0 =>
        {
            format!("mean {}", rounded(sum / *count as f64))
        }
        _ => "no mean".to_owned(),
    }
}

/// Returns the count of a histogram or summary with its change, and the range of a histogram if known. For a number,
/// returns only the change.
fn spread(newest: &PointValue, change: &str) -> String {
    let (PointValue::Histogram { count, .. } | PointValue::Summary { count, .. }) = newest else {
        return change.to_owned();
    };
    let change = if change.is_empty() { String::new() } else { format!(" ({change})") };
    let range = match newest {
        PointValue::Histogram { min: Some(min), max: Some(max), .. } => {
            format!(", {}..{}", rounded(*min), rounded(*max))
        }
        _ => String::new(),
    };
    format!("n={count}{change}{range}")
}

/// Returns the change between the last two points, such as `+6`; empty for fewer points, and for deltas.
fn change(series: &Series) -> String {
    let amount = |back: usize| series.points.iter().rev().nth(back).and_then(|point| point.value.amount());
    match amount(1).zip(amount(0)).filter(|_| !series.is_delta()) {
        Some((before, now)) if now >= before => format!("+{}", rounded(now - before)),
        Some((before, now)) => rounded(now - before),
        None => String::new(),
    }
}

/// Returns the values of a sparkline: the buckets of a histogram, the increments of a counter, or the values of any
/// other number. A summary has no sparkline.
fn sparkline(series: &Series, newest: &PointValue) -> Vec<f64> {
    if !newest.is_number() {
        return newest.buckets();
    }
    let amount = |point: &SeriesPoint| point.value.amount().filter(|_| point.value.is_number());
    let values: Vec<f64> = series.points.iter().filter_map(amount).collect();
    if series.kind == "counter" { rises(&values) } else { values }
}

/// Returns the increments between totals, the first from 0. A decrease means that the counter was reset to 0.
fn rises(totals: &[f64]) -> Vec<f64> {
    let before = std::iter::once(&0.0).chain(totals);
    totals.iter().zip(before).map(|(now, before)| if now < before { *now } else { now - before }).collect()
}

/// Formats a measured value with three digits, unless it is tiny or huge. Integers have no decimals.
fn rounded(value: f64) -> String {
    match value.abs() {
        size if !size.is_finite() || size >= 1e15 || (size > 0.0 && size < 1e-3) => series::number(value),
        size if size > 0.0 && size < 0.9995 => format!("{value:.3}"),
        _ => describe::three_digits(value, value.fract() == 0.0),
    }
}

/// Draws a bar for each value. If there are more values than `cells`, several values share a bar, which shows their
/// mean. The highest bar has the full height.
///
/// Negative values and NaN count as zero.
pub(crate) fn bars(values: &[f64], cells: usize, style: &Style) -> String {
    let heights = shared(values, cells);
    let highest = heights.iter().copied().fold(0.0, f64::max);
    let shapes = match style.charset {
        Charset::Unicode => &UNICODE_BARS,
        Charset::Ascii => &ASCII_BARS,
    };
    let top = shapes.len() - 1;
    let level = |height: &f64| match *height > 0.0 {
        true => ((height / highest * top as f64).round() as usize).clamp(1, top),
        false => 0,
    };
    heights.iter().map(|height| shapes[level(height)]).collect()
}

/// Returns for each cell the mean of the values that share it.
fn shared(values: &[f64], cells: usize) -> Vec<f64> {
    let cells = cells.min(values.len());
    let start = |cell: usize| cell * values.len() / cells;
    let mean = |cell: usize| {
        let sharing = &values[start(cell)..start(cell + 1)];
        // `max` replaces NaN, which `clamp` keeps. Dividing before summing avoids an overflow to infinity.
        sharing.iter().map(|value| value.clamp(0.0, f64::MAX).max(0.0) / sharing.len() as f64).sum()
    };
    (0..cells).map(mean).collect()
}

#[cfg(test)]
mod tests;
