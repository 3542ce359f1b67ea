//! Which data points of successive pushes are one series, and what is its newest value?

use std::collections::HashMap;

use standpipe::receiver::proto::{Data, KeyValue, Number, NumberDataPoint, Point};

use crate::cli::describe;
use crate::cli::point_view::{self, Measures, PointView};
use crate::cli::style::Style;

/// What tells the replicas of a service apart.
const INSTANCE: &str = "service.instance.id";

/// The points of one series, with the attributes of its resource.
pub(crate) struct Group<'a> {
    pub(crate) resource: &'a [KeyValue],
    pub(crate) points: Vec<PointView<'a>>,
}

/// One service's metric with one set of attributes.
#[derive(Debug)]
pub(super) struct Series<'a> {
    pub(super) service: &'a str,
    pub(super) name: &'a str,
    pub(super) unit: &'a str,
    pub(super) kind: String,
    pub(super) attributes: String,
    /// One for each push that it was in, the newest last.
    points: Vec<PointView<'a>>,
    /// How many pushes of its service came in all.
    pushes: usize,
    /// Whether it says by how much it changed with the last push.
    pub(super) shows_change: bool,
}

/// The series among `points`, in no order.
pub(super) fn gather<'a>(points: &[PointView<'a>]) -> Vec<Series<'a>> {
    let mut by_time: Vec<PointView<'a>> = points.to_vec();
    by_time.retain(|view| view.point.is_some());
    by_time.sort_by_key(|view| view.unix_nanos());

    let mut found: HashMap<(&str, &str, String, String), Vec<PointView<'a>>> = HashMap::new();
    for view in by_time {
        let attributes = describe::attributes(view.attributes());
        let key = (view.service, view.metric.name.as_str(), view.kind(), attributes);
        found.entry(key).or_default().push(view);
    }
    let mut all = found.into_values().filter_map(Series::new).collect();
    count_pushes(&mut all);
    all
}

/// The series of these points, which are known to be one each.
pub(super) fn of_groups<'a>(groups: Vec<Group<'a>>) -> Vec<Series<'a>> {
    let mut all = Vec::with_capacity(groups.len());
    let mut alike: HashMap<_, Vec<usize>> = HashMap::new();
    let mut resources = Vec::new();
    for Group { resource, mut points } in groups {
        points.sort_by_key(PointView::unix_nanos);
        if let Some(series) = Series::new(points) {
            alike.entry((series.service, series.label())).or_default().push(all.len());
            all.push(Series { shows_change: true, ..series });
            resources.push(resource);
        }
    }
    // replicas of a service measure the same
    for place in alike.into_values().filter(|places| places.len() > 1).flatten() {
        let instance = describe::value_of(resources[place], INSTANCE);
        if !instance.is_empty() {
            let attributes = &mut all[place].attributes;
            *attributes = format!("{INSTANCE}={instance} {attributes}").trim_end().to_owned();
        }
    }
    count_pushes(&mut all);
    all
}

fn count_pushes(all: &mut Vec<Series<'_>>) {
    let mut most: HashMap<&str, usize> = HashMap::new();
    for series in all.iter() {
        let pushes = most.entry(series.service).or_default();
        *pushes = series.points.len().max(*pushes);
    }
    for series in all.iter_mut() {
        series.pushes = most[series.service];
    }
}

impl<'a> Series<'a> {
    /// `None` without points, the newest of which is the last.
    fn new(points: Vec<PointView<'a>>) -> Option<Self> {
        let newest = points.last()?;
        Some(Self {
            service: newest.service,
            name: &newest.metric.name,
            unit: point_view::unit(&newest.metric.unit),
            kind: newest.kind(),
            attributes: describe::attributes(newest.attributes()),
            points,
            pushes: 0,
            shows_change: false,
        })
    }

    /// What its service's series are ordered by.
    pub(super) fn label(&self) -> (&'a str, String, String) {
        (self.name, self.kind.clone(), self.attributes.clone())
    }

    /// The newest value of a number, the mean of many.
    pub(super) fn newest(&self) -> String {
        let newest = self.points.last();
        if let Some(PointView { point: Some(Point::Number(_)), .. }) = newest {
            return newest.and_then(PointView::number).unwrap_or_else(|| "no value".to_owned());
        }
        match self.measures() {
            Some(Measures { count, sum: Some(sum), .. }) if count > 0 => {
                format!("mean {}", rounded(sum / count as f64))
            }
            _ => "no mean".to_owned(),
        }
    }

    /// What else is known of many values: how many they are, the least and the greatest. Of a number, its change.
    pub(super) fn spread(&self) -> String {
        let Some(measures) = self.measures() else { return self.change(number) };
        let change = self.change(|view| view.measures().map(|measures| measures.count as f64));
        let change = if change.is_empty() { change } else { format!(" ({change})") };
        let count = format!("n={}{change}", measures.count);
        match (measures.min, measures.max) {
            (Some(min), Some(max)) => format!("{count}, {}..{}", rounded(min), rounded(max)),
            _ => count,
        }
    }

    /// `+6`, between the last two pushes. What counts from push to push is a change itself.
    fn change(&self, value: impl Fn(&PointView<'a>) -> Option<f64>) -> String {
        let [.., before, now] = self.points.as_slice() else { return String::new() };
        if now.is_delta() {
            return String::new();
        }
        match value(before).zip(value(now)) {
            Some((before, now)) if self.shows_change && now >= before => {
                format!("+{}", rounded(now - before))
            }
            Some((before, now)) if self.shows_change => rounded(now - before),
            _ => String::new(),
        }
    }

    /// What is drawn as a line: the buckets of a histogram; the rise of a counter with each push, and what it was with
    /// each push for everything else.
    fn line(&self) -> Vec<f64> {
        if let Some(newest) = self.points.last().filter(|view| !matches!(view.point, Some(Point::Number(_))))
        {
            return newest.buckets();
        }
        let values: Vec<f64> = self.points.iter().filter_map(number).collect();
        if self.is_rising_total() { rises(&values) } else { values }
    }

    /// The line in up to `cells`. What is measured later than the rest of its service ends together with it.
    pub(super) fn bars(&self, cells: usize, style: &Style) -> String {
        let line = self.line();
        let is_number = matches!(self.points.last(), Some(PointView { point: Some(Point::Number(_)), .. }));
        let pushes = if is_number { self.pushes.max(line.len()) } else { line.len() };
        let cells = cells.min(pushes);
        let own = (line.len() * cells).div_ceil(pushes.max(1));
        " ".repeat(cells - own) + &super::bars(&line, own, style)
    }

    pub(super) fn point_count(&self) -> usize {
        self.points.len()
    }

    fn is_rising_total(&self) -> bool {
        let newest = self.points.last().filter(|view| !view.is_delta());
        newest.is_some_and(|view| matches!(&view.metric.data, Some(Data::Sum(sum)) if sum.is_monotonic))
    }

    fn measures(&self) -> Option<Measures> {
        self.points.last()?.measures()
    }
}

fn number(view: &PointView<'_>) -> Option<f64> {
    match view.point {
        Some(Point::Number(NumberDataPoint { value: Some(Number::AsInt(value)), .. })) => Some(*value as f64),
        Some(Point::Number(NumberDataPoint { value: Some(Number::AsDouble(value)), .. })) => Some(*value),
        _ => None,
    }
}

/// How much each total is above the one before; one that is below was begun anew.
fn rises(totals: &[f64]) -> Vec<f64> {
    let before = std::iter::once(&0.0).chain(totals);
    totals.iter().zip(before).map(|(now, before)| if now < before { *now } else { now - before }).collect()
}

/// Three digits are enough for what was measured; whole numbers stay whole.
fn rounded(value: f64) -> String {
    let digits = match value.abs() {
        size if !size.is_finite() || size >= 1e15 || (size > 0.0 && size < 1e-3) => {
            return point_view::number(value);
        }
        size if size >= 99.95 || value.fract() == 0.0 => 0,
        size if size >= 9.995 => 1,
        size if size >= 0.9995 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_begins_anew_rises_by_all_it_has() {
        assert_eq!(rises(&[2.0, 2.0, 5.0, 1.0, 4.0]), [2.0, 0.0, 3.0, 1.0, 3.0]);
        assert!(rises(&[]).is_empty());
    }

    #[test]
    fn measured_values_keep_three_digits() {
        let cases = [
            (0.0, "0"),
            (2.0, "2"),
            (-7.0, "-7"),
            (0.0123, "0.012"),
            (3.456, "3.46"),
            (34.56, "34.6"),
            (345.6, "346"),
            (12_345.6, "12346"),
            (1e-9, "1e-9"),
            (1e300, "1e300"),
            (f64::NAN, "NaN"),
        ];
        for (value, text) in cases {
            assert_eq!(rounded(value), text);
        }
    }
}
