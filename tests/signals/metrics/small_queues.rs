//! Queues that are too small for the metrics: measurements stay in their series, and nothing is lost.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use standpipe::config::Temporality;
use standpipe::receiver::proto::NumberDataPoint;
use standpipe::receiver::{Answer, Receiver};
use standpipe::{Counter, Exporter, FlushOutcome, Histogram, Meter, Signal, Telemetry, WhenFull};

use super::wait_until;
use crate::support::points::{attributes, exponentials, float, histograms, int, named, numbers};
use crate::support::scene::{FOR_EVER, LONG, exporter, start};
use crate::support::share_of;

const THREADS: u64 = 4;
const SERIES: u64 = 40;

/// Instruments of all kinds with delta temporality, and what was recorded with them.
struct Shop {
    orders: Counter<u64>,
    revenue: Counter<f64>,
    size: Histogram<f64>,
    time: Histogram<f64>,
    visits: Arc<AtomicU32>,
}

impl Shop {
    fn new(meter: &Meter) -> Self {
        let visits = Arc::new(AtomicU32::new(0));
        let seen = Arc::clone(&visits);
        meter.build("visits").observe_counter(move |observer| {
            (0..SERIES)
                .for_each(|n| observer.observe(seen.load(Ordering::SeqCst).into(), &[("n", n as i64)]));
        });
        Self {
            orders: meter.counter("orders"),
            revenue: meter.build("revenue").counter_f64(),
            size: meter.build("size").bounds(&[1.0, 10.0]).histogram(),
            time: meter.build("time").exponential().histogram(),
            visits,
        }
    }

    fn measure(&self, step: u64) {
        let series = [("n", (step % SERIES) as i64)];
        self.orders.add(1, &series);
        self.revenue.add(0.25, &series);
        self.size.record((step % 20) as f64, &series);
        self.time.record(1.0 + (step % 4) as f64, &series);
        self.visits.fetch_add(1, Ordering::SeqCst);
    }

    /// Asserts that exactly the measurements of this many steps have arrived.
    fn assert_arrived(receiver: &Receiver, steps: u64, what: &str) {
        let points = |name| named(receiver, name).iter().flat_map(numbers).collect::<Vec<_>>();
        let orders: i64 = points("orders").iter().map(int).sum();
        let revenue: f64 = points("revenue").iter().map(float).sum();
        let visits: i64 = points("visits").iter().map(int).sum();
        let size: Vec<_> = named(receiver, "size").iter().flat_map(histograms).collect();
        let time: Vec<_> = named(receiver, "time").iter().flat_map(exponentials).collect();
        let arrived = (
            orders,
            revenue,
            size.iter().map(|point| point.count).sum::<u64>(),
            time.iter().map(|point| point.count).sum::<u64>(),
            visits,
        );
        let steps_of_all = (steps * SERIES) as i64;
        assert_eq!(arrived, (steps as i64, 0.25 * steps as f64, steps, steps, steps_of_all), "{what}");
        assert!(size.iter().all(|point| point.count == point.bucket_counts.iter().sum::<u64>()), "{what}");
        for name in ["orders", "revenue", "visits"] {
            assert_periods_follow_each_other(&points(name), what);
        }
    }
}

/// Asserts that the periods of a series do not overlap, even if the series did not fit into one of the collections.
fn assert_periods_follow_each_other(points: &[NumberDataPoint], what: &str) {
    let mut ends = BTreeMap::new();
    for point in points {
        let (start, end) = (point.start_time_unix_nano, point.time_unix_nano);
        let before = ends.insert(attributes(&point.attributes), end);
        assert!(before.is_none_or(|before| before <= start) && start <= end, "{what}: {points:?}");
    }
}

fn deltas(exporter: Exporter) -> Exporter {
    exporter.temporality(Temporality::Delta).when_full(WhenFull::Block).block_timeout(None)
}

/// Measures on several threads. Each thread also emits a span per step, which fills the queue of spans.
fn work(telemetry: &Telemetry, shop: &Shop, steps: u64) {
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let tracer = telemetry.tracer("shop");
                for step in 0..steps {
                    tracer.span("work").end();
                    shop.measure(step);
                }
            });
        }
    });
}

#[test]
fn deltas_are_exact_whatever_the_size_of_the_queue() {
    // As many steps as series, so that each thread measures every series.
    let steps = u64::from(share_of(200)).max(SERIES);
    for (records, bytes) in [(1, 1 << 20), (2, 1 << 10), (7, 1 << 20), (200, 4 << 10), (30_000, 1 << 10)] {
        let what = format!("{records} records, {bytes} bytes");
        let receiver = Receiver::start().unwrap();
        let exporter = deltas(exporter(&receiver)).queue_records(records).queue_bytes(bytes);
        let telemetry = start(exporter.interval(Duration::from_millis(2)));
        let shop = Shop::new(&telemetry.meter("shop"));
        work(&telemetry, &shop, steps);
        let counts = telemetry.shutdown(LONG).exporters[0].metrics;
        assert_eq!((counts.lost(), counts.in_flight), (0, 0), "{what}: {counts}");
        Shop::assert_arrived(&receiver, THREADS * steps, &what);
    }
}

#[test]
fn deltas_of_an_outage_arrive_after_it() {
    const STEPS: u64 = 100;
    let receiver = Receiver::start().unwrap();
    receiver.always_for(Signal::Metrics, Answer::status(503));
    // A collection has more parts than the queue can hold.
    let exporter = deltas(exporter(&receiver)).queue_records(8).interval(Duration::from_millis(2));
    let telemetry = start(exporter);
    let shop = Shop::new(&telemetry.meter("shop"));
    for attempts in 1..=5 {
        (0..STEPS).for_each(|step| shop.measure(step));
        assert!(receiver.wait_for_requests(attempts, LONG));
    }
    receiver.always_for(Signal::Metrics, Answer::ok());
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    Shop::assert_arrived(&receiver, 5 * STEPS, "after the flush");
    let counts = telemetry.shutdown(LONG).exporters[0].metrics;
    assert_eq!((counts.lost(), counts.in_flight), (0, 0), "{counts}");
}

#[test]
fn what_a_stop_leaves_no_time_for_is_counted() {
    let receiver = Receiver::start().unwrap();
    receiver.always(Answer::hang());
    let telemetry = start(deltas(exporter(&receiver)).queue_records(8).interval(FOR_EVER));
    let orders = telemetry.meter("shop").counter("orders");
    (0..SERIES).for_each(|n| orders.add(1, &[("n", n as i64)]));
    let returned = telemetry.shutdown(Duration::from_millis(200)).total();
    assert!(returned.in_flight == 0 && returned.lost() <= SERIES, "{returned}");
    // The worker counts the last records when the budget is used up, perhaps after `shutdown` has returned.
    wait_until(|| telemetry.ledger().lost() >= SERIES);
    let counts = telemetry.ledger().exporters[0].metrics;
    assert_eq!((counts.lost(), counts.in_flight), (SERIES, 0), "{counts}");
    assert_eq!(counts.dropped.shutdown, counts.accepted, "{counts}");
    assert_eq!(counts.not_enqueued.after_shutdown, SERIES - counts.accepted, "{counts}");
}
