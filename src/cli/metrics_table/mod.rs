//! Metrics drawn as a table: a row for each series, with a small line of what it did.
//!
//! Pure: data points and a [`Look`] in, lines out.

mod series;

use self::series::Series;
use super::paint::{Ink, Line, Look, Palette};
use super::points::PointView;
use super::{describe, spark};

const GAP: usize = 2;
const LONGEST_SERVICE: usize = 14;
/// Cells between a name and its unit.
const UNIT_GAP: usize = 1;
/// One bar for each of the 16 buckets that most histograms have.
const BARS: usize = 16;
/// What the line is shortened to before anything else has to give way.
const FEWEST_BARS: usize = 8;
/// Series listed; the rest is counted.
const MOST_LISTED: usize = 40;

/// Draws a table of all series among `points`, the services in the order of the palette; nothing if there are none.
pub(crate) fn draw<'a>(points: &[PointView<'a>], palette: &mut Palette<'a>, look: &Look) -> Vec<String> {
    points.iter().for_each(|view| palette.meet(view.service));
    let mut all = series::gather(points);
    all.sort_by_cached_key(|series| (palette.place(series.service), series.label()));
    if all.is_empty() {
        return Vec::new();
    }
    let table = Table::new(&all, palette, look);
    let mut lines = vec![heading(&all, look)];
    for series in all.iter().take(MOST_LISTED) {
        lines.extend(table.row(series));
    }
    if let Some(rest) = all.len().checked_sub(MOST_LISTED).filter(|rest| *rest > 0) {
        let mut line = look.line();
        line.put_rest(Ink::FAINT, &format!("and {rest} more series"));
        lines.push(line.finish());
    }
    lines
}

fn heading(all: &[Series<'_>], look: &Look) -> String {
    let points: usize = all.iter().map(Series::point_count).sum();
    let points = describe::count(points as u64, "data point");
    let facts = format!(" {} series{}{points}", all.len(), look.glyphs.separator);
    let mut line = look.line();
    line.put(Ink::FAINT, "metrics ");
    let rule = look.width.saturating_sub(line.width() + look.width_of(&facts));
    line.put(Ink::FAINT, &look.glyphs.rule.repeat(rule)).put_rest(Ink::PLAIN, &facts);
    line.finish()
}

/// How the rows are divided: the widths of the columns.
struct Table<'d, 'a> {
    look: &'d Look,
    palette: &'d Palette<'a>,
    service: usize,
    /// The name, its unit and, in a row of one line, the attributes.
    label: usize,
    bars: usize,
    newest: usize,
    /// The columns that only a row of one line has; without them there is a second line.
    beside: Option<Beside>,
}

struct Beside {
    kind: usize,
    spread: usize,
}

/// A text, what it is written with, and how wide its column is.
type Cell<'a> = (Ink, &'a str, usize);

impl<'d, 'a> Table<'d, 'a> {
    fn new(all: &[Series<'a>], palette: &'d Palette<'a>, look: &'d Look) -> Self {
        let widest = |width: &dyn Fn(&Series<'a>) -> usize| all.iter().map(width).max().unwrap_or(0);
        let service = widest(&|series| look.width_of(series.service)).min(LONGEST_SERVICE);
        let newest = widest(&|series| look.width_of(&series.newest()));
        let beside = Beside {
            kind: widest(&|series| look.width_of(&series.kind)),
            spread: widest(&|series| look.width_of(&series.spread())),
        };

        let label = widest(&|series| label_width(series, &series.attributes, look));
        let columns = [service, label, beside.kind, newest, beside.spread];
        let room = look.width.saturating_sub(columns.into_iter().map(with_gap).sum());
        if room >= FEWEST_BARS {
            return Self {
                look,
                palette,
                service,
                label,
                bars: room.min(BARS),
                newest,
                beside: Some(beside),
            };
        }
        let room = look.width.saturating_sub(with_gap(service) + newest + GAP);
        let bars = (room / 3).min(BARS);
        let label = widest(&|series| label_width(series, "", look)).min(room.saturating_sub(bars + GAP));
        Self { look, palette, service, label, bars, newest, beside: None }
    }

    fn row(&self, series: &Series<'a>) -> Vec<String> {
        let ink = self.palette.ink(series.service);
        let bars = spark::bars(&series.line(), self.bars, self.look);
        let (newest, spread) = (series.newest(), series.spread());
        let (kind, attributes) = (series.kind.as_str(), series.attributes.as_str());
        let values = [(ink, bars.as_str(), self.bars), (Ink::PLAIN, newest.as_str(), self.newest)];

        let mut line = self.look.line();
        line.put_within(ink, series.service, self.service).pad_to(with_gap(self.service));
        let Some(beside) = &self.beside else {
            self.put_label(series, "", &mut line);
            self.put_cells(&values, &mut line);
            let rest = [kind, &spread, attributes].map(|text| (Ink::FAINT, text, self.look.width_of(text)));
            let mut second = self.look.line();
            second.pad_to(with_gap(self.service));
            self.put_cells(&rest, &mut second);
            return vec![line.finish(), second.finish()];
        };
        self.put_label(series, attributes, &mut line);
        self.put_cells(&[(Ink::FAINT, kind, beside.kind)], &mut line);
        self.put_cells(&values, &mut line);
        self.put_cells(&[(Ink::FAINT, &spread, beside.spread)], &mut line);
        vec![line.finish()]
    }

    fn put_label(&self, series: &Series<'a>, attributes: &str, line: &mut Line<'_>) {
        let end = line.width() + self.label;
        line.put_within(Ink::PLAIN.bold(), series.name, self.label);
        for (gap, text) in [(UNIT_GAP, series.unit), (GAP, attributes)] {
            let room = end.saturating_sub(line.width() + gap);
            if room > 0 && !text.is_empty() {
                line.space(gap).put_within(Ink::FAINT, text, room);
            }
        }
        line.pad_to(end + GAP);
    }

    fn put_cells(&self, cells: &[Cell<'_>], line: &mut Line<'_>) {
        for &(ink, text, width) in cells {
            let end = line.width() + with_gap(width);
            let room = self.look.width.saturating_sub(line.width());
            line.put_within(ink, text, width.min(room)).pad_to(end);
        }
    }
}

fn label_width(series: &Series<'_>, attributes: &str, look: &Look) -> usize {
    let beside = [(UNIT_GAP, series.unit), (GAP, attributes)];
    let beside = beside.iter().filter(|(_, text)| !text.is_empty());
    look.width_of(series.name) + beside.map(|(gap, text)| gap + look.width_of(text)).sum::<usize>()
}

/// A column that nothing is in takes no room.
fn with_gap(width: usize) -> usize {
    if width == 0 { 0 } else { width + GAP }
}

#[cfg(test)]
mod tests;
