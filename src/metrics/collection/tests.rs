use std::collections::BTreeMap;
use std::sync::Mutex;

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{Metric, ScopeMetrics, number_data_point};
use proptest::prelude::*;
use prost::Message;

use super::*;
use crate::config::{ExemplarFilter, PeriodicReaderSettings};

use crate::metrics::{Counter, Gauge, Histogram, Meter};
use crate::record::Signal;

/// So low that some attribute sets fall into the overflow series, and can get their own series after an export.
const LIMIT: usize = 5;

/// An operation on the instruments.
#[derive(Debug, Clone)]
enum Step {
    /// Measures with all instruments.
    Measure { series: i64, value: u8 },
    /// Lets the callback observe a counter that has risen, was restarted, or is gone.
    Observe { series: i64, value: Option<u8> },
    /// Collects parts of `points` points each, with room for `room` parts.
    Collect { points: u64, room: usize },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..7i64, any::<u8>()).prop_map(|(series, value)| Step::Measure { series, value }),
        2 => (0..7i64, any::<Option<u8>>()).prop_map(|(series, value)| Step::Observe { series, value }),
        3 => (1..4u64, 0..8usize).prop_map(|(points, room)| Step::Collect { points, room }),
    ];
    prop::collection::vec(step, 0..60)
}

struct World {
    reader: Reader,
    orders: Counter<u64>,
    revenue: Counter<f64>,
    level: Gauge<f64>,
    size: Histogram<f64>,
    time: Histogram<f64>,
    /// The values that the callback observes.
    visits: Arc<Mutex<BTreeMap<i64, u64>>>,
    arrived: Arrived,
    /// End of the last period of each series, by metric and attributes.
    ends: BTreeMap<(String, String), u64>,
}

/// Sums of measured or delivered values over all series of an instrument, including the overflow series.
#[derive(Debug, Default, PartialEq)]
struct Arrived {
    orders: i64,
    revenue: f64,
    size: (u64, f64, Vec<u64>),
    time: (u64, f64, u64),
    visits: i64,
}

impl World {
    fn new() -> Self {
        let push =
            PeriodicReaderSettings { temporality: Temporality::Delta, ..PeriodicReaderSettings::default() };
        let registry = Arc::new(Registry::new(vec![push], Vec::new(), ExemplarFilter::default()));
        let reader = Reader::new(Arc::clone(&registry), 0);
        let meter = Meter::new(registry, Arc::new(Scope::new(Signal::Metrics, "shop", "")));
        let visits = Arc::new(Mutex::new(BTreeMap::<i64, u64>::new()));
        let seen = Arc::clone(&visits);
        meter.build("visits").observe_counter(move |observer| {
            for (series, value) in &*seen.lock().unwrap() {
                observer.observe(*value, &[("n", *series)]);
            }
        });
        let build = |name| meter.build(name).cardinality_limit(LIMIT);
        Self {
            reader,
            orders: build("orders").counter(),
            revenue: build("revenue").counter_f64(),
            level: build("level").gauge(),
            size: build("size").bounds(&[10.0, 100.0]).histogram(),
            time: build("time").exponential().histogram(),
            visits,
            arrived: Arrived { size: (0, 0.0, vec![0; 3]), ..Arrived::default() },
            ends: BTreeMap::new(),
        }
    }

    fn measure(&self, series: i64, value: u8) {
        let series = &[("n", series)];
        self.orders.add(value.into(), series);
        // Multiples of a quarter are added without rounding.
        self.revenue.add(f64::from(value) / 4.0, series);
        self.level.record(f64::from(value), series);
        self.size.record(f64::from(value), series);
        self.time.record(f64::from(value), series);
    }

    fn collect(&mut self, points: u64, mut room: usize) {
        let limits = FrameLimits { bytes: usize::MAX, points, largest: usize::MAX };
        let reader = self.reader.clone();
        let mut is_refused = false;
        reader.collect(limits, &|| false, &mut |collected| {
            let Collected::Frame { bytes, .. } = collected else { return SinkStatus::Accepted };
            assert!(!is_refused, "nothing more is offered where there is no room");
            if room == 0 {
                is_refused = true;
                return SinkStatus::Full;
            }
            room -= 1;
            for metric in ScopeMetrics::decode(bytes).unwrap().metrics {
                self.arrive(metric);
            }
            SinkStatus::Accepted
        });
    }

    fn arrive(&mut self, metric: Metric) {
        let name = metric.name.as_str();
        let mut note = |attributes: &[KeyValue], start: u64, end: u64| {
            let before = self.ends.insert((name.to_owned(), format!("{attributes:?}")), end);
            assert!(start <= end && before.is_none_or(|before| before <= start), "{name}: {start} to {end}");
        };
        match metric.data.unwrap() {
            Data::Gauge(_) => {}
            Data::Sum(sum) => {
                for point in sum.data_points {
                    note(&point.attributes, point.start_time_unix_nano, point.time_unix_nano);
                    match (name, point.value.unwrap()) {
                        ("orders", number_data_point::Value::AsInt(value)) => self.arrived.orders += value,
                        ("visits", number_data_point::Value::AsInt(value)) => self.arrived.visits += value,
                        (_, number_data_point::Value::AsDouble(value)) => self.arrived.revenue += value,
                        other => panic!("{other:?}"),
                    }
                }
            }
            Data::Histogram(histogram) => {
                for point in histogram.data_points {
                    note(&point.attributes, point.start_time_unix_nano, point.time_unix_nano);
                    let (count, sum, counts) = &mut self.arrived.size;
                    *count += point.count;
                    *sum += point.sum.unwrap();
                    counts.iter_mut().zip(&point.bucket_counts).for_each(|(count, more)| *count += more);
                }
            }
            Data::ExponentialHistogram(histogram) => {
                for point in histogram.data_points {
                    note(&point.attributes, point.start_time_unix_nano, point.time_unix_nano);
                    let (count, sum, zeros) = &mut self.arrived.time;
                    *count += point.count;
                    *sum += point.sum.unwrap();
                    *zeros += point.zero_count;
                    let counted = point.positive.map_or(0, |positive| positive.bucket_counts.iter().sum());
                    assert_eq!(counted + point.zero_count, point.count);
                }
            }
            other => panic!("{other:?}"),
        }
    }
}

/// A simple model that adds up all measurements.
#[derive(Default)]
struct Oracle {
    values: Vec<u8>,
    /// The values that the callback observes: the current ones, and those at its last call.
    visits: (BTreeMap<i64, u64>, BTreeMap<i64, u64>),
    visited: i64,
}

impl Oracle {
    fn observe(&mut self, series: i64, value: Option<u8>) {
        match value {
            // A value lower than before means that the counter was restarted.
            Some(value) => _ = self.visits.0.insert(series, value.into()),
            None => _ = self.visits.0.remove(&series),
        }
    }

    /// Notes a call of the callback, which happens even if there is no room.
    fn asked(&mut self) {
        for (series, now) in &self.visits.0 {
            let before = self.visits.1.get(series).copied().filter(|before| before <= now);
            self.visited += (now - before.unwrap_or(0)) as i64;
        }
        self.visits.1 = self.visits.0.clone();
    }

    fn expected(&self) -> Arrived {
        let values = || self.values.iter().copied();
        let between = |least, most| values().filter(|value| (least..=most).contains(value)).count() as u64;
        let (count, sum) = (self.values.len() as u64, values().map(u64::from).sum::<u64>());
        Arrived {
            orders: sum as i64,
            revenue: sum as f64 / 4.0,
            size: (count, sum as f64, vec![between(0, 10), between(11, 100), between(101, u8::MAX)]),
            time: (count, sum as f64, between(0, 0)),
            visits: self.visited,
        }
    }
}

proptest! {
    #[test]
    fn what_finds_no_room_is_told_later_and_nothing_twice(steps in steps()) {
        let (mut world, mut oracle) = (World::new(), Oracle::default());
        for step in steps {
            match step {
                Step::Measure { series, value } => {
                    world.measure(series, value);
                    oracle.values.push(value);
                }
                Step::Observe { series, value } => {
                    oracle.observe(series, value);
                    *world.visits.lock().unwrap() = oracle.visits.0.clone();
                }
                Step::Collect { points, room } => {
                    // The observed instrument is collected first, so its callback is called even if the queue has no
                    // room for points.
                    oracle.asked();
                    world.collect(points, room);
                }
            }
        }
        oracle.asked();
        world.collect(100, usize::MAX);
        prop_assert_eq!(&world.arrived, &oracle.expected());
        let before = world.arrived.orders;
        world.collect(100, usize::MAX);
        prop_assert_eq!(world.arrived.orders, before, "nothing is left");
    }
}

#[test]
fn a_gauge_that_found_no_room_tells_its_newest_value_next_time() {
    let world = World::new();
    let exported = |room: bool| {
        let mut values = Vec::new();
        let limits = FrameLimits { bytes: usize::MAX, points: 10, largest: usize::MAX };
        world.reader.collect(limits, &|| false, &mut |collected| {
            if let (true, Collected::Frame { bytes, .. }) = (room, collected) {
                let metric = ScopeMetrics::decode(bytes).unwrap().metrics.pop().unwrap();
                let Some(Data::Gauge(gauge)) = metric.data else { panic!("{metric:?}") };
                values.extend(gauge.data_points.into_iter().map(|point| point.value.unwrap()));
            }
            if room { SinkStatus::Accepted } else { SinkStatus::Full }
        });
        values
    };
    world.level.record(1.0, ());
    assert_eq!(exported(false), []);
    assert_eq!(exported(true), [number_data_point::Value::AsDouble(1.0)]);
    world.level.record(2.0, ());
    assert_eq!(exported(false), []);
    world.level.record(3.0, ());
    assert_eq!(exported(true), [number_data_point::Value::AsDouble(3.0)]);
    assert_eq!(exported(true), []);
}
