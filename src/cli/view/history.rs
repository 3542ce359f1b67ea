//! Which metrics changed, and from what? The last pushes of each service.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use standpipe::receiver::ReceivedMetric;

use super::super::describe;
use super::super::metrics_table::{self, Group};
use super::super::point_view::{self, PointView};
use super::super::style::{Palette, Style};
use super::flat;

/// Pushes that are kept of a service: one for each bar of a small line.
const MOST_PUSHES: usize = 16;
/// What all pushes may take; the oldest are forgotten first.
const MOST_BYTES: usize = 16 * 1024 * 1024;
/// What a point takes beside its own bytes: its places here.
const OVERHEAD: usize = 128;
/// Series whose last value is known; beyond that all values count as new.
const MOST_SERIES: usize = 100_000;
/// Series listed at a time; the rest is counted.
const MOST_LISTED: usize = 12;

/// What was measured lately.
#[derive(Debug, Default)]
pub(super) struct History {
    pushes: VecDeque<Push>,
    /// How many pushes there ever were.
    pushed: u64,
    bytes: usize,
    /// The points that are kept of each series, by its identity, the newest last.
    series: HashMap<u64, VecDeque<KeptPoint>>,
    /// A hash of the last value of each series.
    values: HashMap<u64, u64>,
}

#[derive(Debug)]
struct Push {
    number: u64,
    service: String,
    /// The series that it has points of.
    series: HashSet<u64>,
    bytes: usize,
}

/// A point, as its place in a metric.
#[derive(Debug)]
struct KeptPoint {
    push: u64,
    metric: ReceivedMetric,
    index: usize,
}

impl History {
    /// Takes a push and draws a row for each series that is new or has changed; nothing if there is none.
    pub(super) fn add(
        &mut self,
        metrics: &[ReceivedMetric],
        full: bool,
        palette: &mut Palette,
        style: &Style,
    ) -> Vec<String> {
        let (changed, series) = self.keep(metrics);
        if changed.is_empty() {
            return Vec::new();
        }
        let groups = changed.iter().filter_map(|key| self.series.get(key)).map(|kept| Group {
            resource: kept.back().map_or(&[], |newest| &newest.metric.resource.attributes),
            points: kept.iter().filter_map(|kept| point_view::nth(&kept.metric, kept.index)).collect(),
        });
        let separator = style.glyphs.separator;
        let time = describe::time_of_day(time_of(metrics));
        let facts = match changed.len() == series {
            true => format!("{time}{separator}{series} series"),
            false => format!("{time}{separator}{} of {series} series changed", changed.len()),
        };
        let most = if full { usize::MAX } else { MOST_LISTED };
        metrics_table::draw_lately(groups.collect(), &facts, most, palette, style)
    }

    /// Returns which series have another value than before, and how many there are in all.
    fn keep(&mut self, metrics: &[ReceivedMetric]) -> (HashSet<u64>, usize) {
        if self.values.len() > MOST_SERIES {
            self.values.clear();
        }
        self.pushed += 1;
        let mut changed = HashSet::new();
        let mut push = Push {
            number: self.pushed,
            service: metrics.first().map_or("", ReceivedMetric::service_name).to_owned(),
            series: HashSet::new(),
            bytes: 0,
        };
        let mut last_scope = None;
        for metric in metrics {
            let origin = point_view::origin_identity(metric);
            push.bytes += metric.memory_bytes();
            // successive metrics share their resource and their scope
            if last_scope.replace(&metric.scope).is_none_or(|last| !Arc::ptr_eq(last, &metric.scope)) {
                push.bytes += metric.origin_bytes();
            }
            let points = point_view::of_received(metric).into_iter().enumerate();
            for (index, view) in points.filter(|(_, view)| view.point.is_some()) {
                let key = view.identity(origin);
                push.series.insert(key);
                push.bytes += OVERHEAD;
                // the same increment once more is a change
                let value = point_view::hash(&(view.value(), view.is_delta().then(|| view.unix_nanos())));
                if self.values.insert(key, value) != Some(value) {
                    changed.insert(key);
                }
                let point = KeptPoint { push: push.number, metric: metric.clone(), index };
                self.series.entry(key).or_default().push_back(point);
            }
        }
        let series = push.series.len();
        self.make_room(&push);
        self.bytes += push.bytes;
        self.pushes.push_back(push);
        (changed, series)
    }

    fn make_room(&mut self, push: &Push) {
        let is_same = |other: &Push| other.service == push.service;
        if self.pushes.iter().filter(|other| is_same(other)).count() >= MOST_PUSHES {
            let oldest = self.pushes.iter().position(is_same).and_then(|oldest| self.pushes.remove(oldest));
            oldest.iter().for_each(|push| self.forget(push));
        }
        while self.bytes + push.bytes > MOST_BYTES {
            let Some(oldest) = self.pushes.pop_front() else { break };
            self.forget(&oldest);
        }
    }

    fn forget(&mut self, push: &Push) {
        self.bytes -= push.bytes;
        for key in &push.series {
            if let Some(kept) = self.series.get_mut(key) {
                kept.retain(|point| point.push != push.number);
                if kept.is_empty() {
                    self.series.remove(key);
                }
            }
        }
    }
}

/// The time of the newest point, or now if none has a time.
fn time_of(metrics: &[ReceivedMetric]) -> u64 {
    let points = metrics.iter().flat_map(point_view::of_received);
    points
        .filter_map(|view: PointView<'_>| view.unix_nanos())
        .max()
        .filter(|time| *time > 0)
        .unwrap_or_else(flat::now)
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
        history.add(&push(values), false, &mut Palette::default(), &plain_style(80))
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
        assert_eq!((history.pushes.len(), history.series.len()), (MOST_PUSHES, 1));
        assert!(history.series.values().all(|kept| kept.len() == MOST_PUSHES));
        let name = "m".repeat(2 * MOST_BYTES);
        drawn(&mut history, &[(&name, 1)]);
        assert_eq!((history.pushes.len(), history.series.len()), (1, 1));
    }

    fn of_text(history: &mut History, text: &str) -> Vec<String> {
        let metrics = Records::from_json(text.as_bytes()).expect("it is OTLP").metrics;
        history.add(&metrics, false, &mut Palette::default(), &plain_style(80))
    }

    #[test]
    fn replicas_of_a_service_are_series_of_their_own() {
        let mut history = History::default();
        let mut push = |instance: &str, value: u64| {
            of_text(
                &mut history,
                &format!(
                    r#"{{"resourceMetrics":[{{"resource":{{"attributes":[
                    {{"key":"service.name","value":{{"stringValue":"shop"}}}},
                    {{"key":"service.instance.id","value":{{"stringValue":"{instance}"}}}}]}},
                    "scopeMetrics":[{{"metrics":[{{"name":"orders","gauge":{{"dataPoints":[{{"asInt":"{value}"}}]}}}}]}}]}}]}}"#
                ),
            )
        };
        assert_eq!([push("a", 3).len(), push("b", 700).len()], [2, 2]);
        assert_eq!((push("a", 3), push("b", 700)), (vec![], vec![]));
        assert!(push("a", 4)[1].ends_with("  4  +1"));
    }

    #[test]
    fn the_same_increment_again_is_a_change_and_has_no_difference() {
        let mut history = History::default();
        let mut push = |time: u64| {
            of_text(
                &mut history,
                &format!(
                    r#"{{"resourceMetrics":[{{"scopeMetrics":[{{"metrics":[{{"name":"orders","sum":{{"isMonotonic":true,
                    "aggregationTemporality":1,"dataPoints":[{{"timeUnixNano":"{time}","asInt":"5"}}]}}}}]}}]}}]}}"#
                ),
            )
        };
        push(1);
        let lines = push(2);
        assert!(lines.len() == 2 && lines[1].ends_with("  5"), "{lines:?}");
    }

    #[test]
    fn a_metric_without_points_is_no_series_and_the_heading_has_the_time_of_the_points() {
        let text = r#"{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"none"},
            {"name":"orders","gauge":{"dataPoints":[{"timeUnixNano":"3600000000000","asInt":"5"}]}}]}]}]}"#;
        let lines = of_text(&mut History::default(), text);
        assert!(lines.len() == 2 && lines[0].ends_with(" 01:00:00.000Z · 1 series"), "{lines:?}");
    }

    #[test]
    fn what_each_push_shares_counts_once() {
        let bytes = |metrics: &[ReceivedMetric]| {
            let mut history = History::default();
            history.keep(metrics);
            history.bytes
        };
        let alone = bytes(&push(&[("orders", 1)]));
        let mut metrics = push(&[("orders", 1), ("errors", 2)]);
        let shared = bytes(&metrics);
        metrics.iter_mut().for_each(|metric| metric.scope = Arc::new((*metric.scope).clone()));
        let apart = bytes(&metrics);
        assert!(shared < 2 * alone && apart == 2 * alone, "{alone} {shared} {apart}");
    }
}
