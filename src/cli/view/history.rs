//! Which metrics changed, and from what? The last pushes of each service.

use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{Hash, Hasher};

use standpipe::receiver::ReceivedMetric;

use super::super::describe;
use super::super::metrics_table;
use super::super::point_view::{self, PointView};
use super::super::style::{Palette, Style};
use super::flat;

/// Pushes that are kept of a service: one for each bar of a small line.
const MOST_PUSHES: usize = 16;
/// What all pushes may take; the oldest are forgotten first.
const MOST_BYTES: usize = 16 * 1024 * 1024;
/// Series whose last value is known; beyond that all values count as new.
const MOST_SERIES: usize = 100_000;
/// Series listed at a time; the rest is counted.
const MOST_LISTED: usize = 12;

/// What was measured lately.
#[derive(Debug, Default)]
pub(super) struct History {
    pushes: VecDeque<Push>,
    bytes: usize,
    /// A hash of the last value of each series, by a hash of its name, its service and its attributes.
    values: HashMap<u64, u64>,
}

#[derive(Debug)]
struct Push {
    metrics: Vec<ReceivedMetric>,
    bytes: usize,
}

impl Push {
    fn service(&self) -> &str {
        self.metrics.first().map_or("", ReceivedMetric::service_name)
    }
}

impl History {
    /// Takes a push and draws a row for each series that is new or has changed; nothing if there is none.
    pub(super) fn add(
        &mut self,
        metrics: Vec<ReceivedMetric>,
        bytes: usize,
        full: bool,
        palette: &mut Palette,
        style: &Style,
    ) -> Vec<String> {
        let (changed, series) = self.note(&metrics);
        self.keep(Push { metrics, bytes });
        if changed.is_empty() {
            return Vec::new();
        }
        let points = self.pushes.iter().flat_map(|push| &push.metrics).flat_map(point_view::of_received);
        let points: Vec<PointView<'_>> = points.filter(|view| changed.contains(&key(view))).collect();
        let separator = style.glyphs.separator;
        let time = describe::time_of_day(flat::now());
        let facts = match changed.len() == series {
            true => format!("{time}{separator}{series} series"),
            false => format!("{time}{separator}{} of {series} series changed", changed.len()),
        };
        let most = if full { usize::MAX } else { MOST_LISTED };
        metrics_table::draw_lately(&points, &facts, most, palette, style)
    }

    /// Which series have another value than before, and how many there are in all.
    fn note(&mut self, metrics: &[ReceivedMetric]) -> (HashSet<u64>, usize) {
        if self.values.len() > MOST_SERIES {
            self.values.clear();
        }
        let mut series = HashSet::new();
        let mut changed = HashSet::new();
        for view in metrics.iter().flat_map(point_view::of_received) {
            let key = key(&view);
            series.insert(key);
            let value = hash(&view.value());
            if self.values.insert(key, value) != Some(value) {
                changed.insert(key);
            }
        }
        (changed, series.len())
    }

    fn keep(&mut self, push: Push) {
        let is_same = |other: &Push| other.service() == push.service();
        if self.pushes.iter().filter(|other| is_same(other)).count() >= MOST_PUSHES {
            let oldest = self.pushes.iter().position(is_same);
            self.bytes -= oldest.and_then(|oldest| self.pushes.remove(oldest)).map_or(0, |push| push.bytes);
        }
        self.bytes += push.bytes;
        self.pushes.push_back(push);
        while self.bytes > MOST_BYTES && self.pushes.len() > 1 {
            self.bytes -= self.pushes.pop_front().map_or(0, |push| push.bytes);
        }
    }
}

fn key(view: &PointView<'_>) -> u64 {
    hash(&(view.service, &view.metric.name, view.kind(), describe::attributes(view.attributes())))
}

fn hash(what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use standpipe::receiver::Records;

    use super::super::super::style::plain_style;
    use super::*;

    fn push(values: &[(&str, i64)]) -> Vec<ReceivedMetric> {
        let metric = |(name, value): &(&str, i64)| {
            format!(
                r#"{{"name":"{name}","sum":{{"isMonotonic":true,"aggregationTemporality":2,
                "dataPoints":[{{"timeUnixNano":"{value}","asInt":"{value}"}}]}}}}"#
            )
        };
        let metrics = values.iter().map(metric).collect::<Vec<_>>().join(",");
        let text = format!(r#"{{"resourceMetrics":[{{"scopeMetrics":[{{"metrics":[{metrics}]}}]}}]}}"#);
        Records::from_json(text.as_bytes()).expect("it is OTLP").metrics
    }

    fn drawn(history: &mut History, values: &[(&str, i64)]) -> Vec<String> {
        history.add(push(values), 100, false, &mut Palette::default(), &plain_style(80))
    }

    #[test]
    fn only_series_that_changed_are_drawn_with_what_they_were_before() {
        let mut history = History::default();
        let lines = drawn(&mut history, &[("orders", 3), ("errors", 0)]);
        assert!(lines[0].ends_with("Z · 2 series") && lines.len() == 3, "{lines:?}");
        let lines = drawn(&mut history, &[("orders", 9), ("errors", 0)]);
        assert!(lines[0].ends_with("Z · 1 of 2 series changed") && lines.len() == 2, "{lines:?}");
        assert!(
            lines[1].starts_with("orders  counter")
                && lines[1].contains("  ▅█  ")
                && lines[1].ends_with("  9  +6"),
            "{lines:?}"
        );
        assert_eq!(drawn(&mut history, &[("orders", 9), ("errors", 0)]), [""; 0]);
    }

    #[test]
    fn many_series_are_counted_instead_of_listed() {
        let names: Vec<String> = (0..40).map(|number| format!("m{number}")).collect();
        let values: Vec<(&str, i64)> = names.iter().map(|name| (name.as_str(), 1)).collect();
        let lines = drawn(&mut History::default(), &values);
        assert_eq!((lines.len(), lines[13].as_str()), (14, "and 28 more series"));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut history = History::default();
        for value in 0..100 {
            drawn(&mut history, &[("orders", value)]);
        }
        assert_eq!((history.pushes.len(), history.bytes), (MOST_PUSHES, 1600));
        history.add(push(&[("orders", 1)]), 2 * MOST_BYTES, false, &mut Palette::default(), &plain_style(80));
        assert_eq!(history.pushes.len(), 1);
    }
}
