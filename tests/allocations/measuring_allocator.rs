//! A program whose allocator records measurements.
//!
//! While a measurement allocates, it holds no lock that the allocator's measurement needs.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use standpipe::config::Temporality;
use standpipe::receiver::Receiver;
use standpipe::receiver::proto::{Data, Number};
use standpipe::{Counter, Histogram};

use crate::support::allocator::{Hook, set_hook};
use crate::support::scene::{LONG, exporter, start};
use crate::support::share_of;

const THREADS: u64 = 4;
/// Limit of the series of an instrument: so low that new series evict idle ones.
const LIMIT: usize = 40;

/// The program's instruments, with which the allocator measures.
struct Voice {
    orders: Counter<u64>,
    revenue: Counter<f64>,
    time: Histogram<f64>,
    calls: AtomicU32,
}

impl Voice {
    fn measure(&self, number: u64) {
        let attributes = &[("n", (number % 100) as i64)];
        self.orders.add(1, attributes);
        self.revenue.add(0.5, attributes);
        // Values of all sizes, so that the number of buckets grows.
        self.time.record(1.1_f64.powi((number % 500) as i32), attributes);
    }
}

/// Number of measurements of each thread.
fn steps() -> u64 {
    share_of(500).into()
}

#[test]
fn an_allocator_that_measures_stops_no_measurement() {
    for temporality in [Temporality::Cumulative, Temporality::Delta] {
        let receiver = Receiver::start().unwrap();
        let exporter = exporter(&receiver).temporality(temporality).interval(Duration::from_millis(2));
        let telemetry = Arc::new(start(exporter));
        let meter = telemetry.meter("shop");
        let build = |name| meter.build(name).cardinality_limit(LIMIT);
        // Never freed, because threads may end after the test.
        let voice: &'static Voice = Box::leak(Box::new(Voice {
            orders: build("orders").counter(),
            revenue: build("revenue").counter_f64(),
            time: build("time").exponential().histogram(),
            calls: AtomicU32::new(0),
        }));
        let hook: &'static Hook =
            Box::leak(Box::new(|_, _| voice.measure(voice.calls.fetch_add(1, Ordering::SeqCst).into())));
        let is_over = Arc::new(AtomicU32::new(0));
        let over = Arc::clone(&is_over);
        // From this callback on, the allocator of the exporter's thread measures while that thread collects.
        meter.build("voice").observe_gauge(move |_| {
            set_hook((over.load(Ordering::SeqCst) == 0).then_some(hook));
        });
        let (done, ended) = mpsc::channel();
        for _ in 0..THREADS {
            let done = done.clone();
            let tracer = telemetry.tracer("shop");
            thread::spawn(move || {
                // Its measurements become exemplars.
                let span = tracer.span("work");
                set_hook(Some(hook));
                (0..steps()).for_each(|step| voice.measure(step));
                set_hook(None);
                drop(span);
                done.send(()).unwrap();
            });
        }
        for _ in 0..THREADS {
            assert_eq!(ended.recv_timeout(LONG), Ok(()), "a thread waits for itself: {temporality:?}");
        }
        is_over.store(1, Ordering::SeqCst);
        let ledger = telemetry.shutdown(LONG);
        assert_eq!(ledger.lost(), 0, "{ledger}");
        let calls = u64::from(voice.calls.load(Ordering::SeqCst));
        assert!(calls > 0);
        let arrived = orders_in(&receiver, temporality);
        // During its last collection, the exporter's thread may still add measurements to a series that it has already
        // collected; these do not arrive.
        let made = THREADS * steps() + calls;
        assert!(arrived >= THREADS * steps() && arrived <= made, "{temporality:?}: {arrived} of {made}");
    }
}

/// Returns the sum of the received points of `orders`; for a cumulative counter, of the newest point of each series.
fn orders_in(receiver: &Receiver, temporality: Temporality) -> u64 {
    let mut newest = std::collections::BTreeMap::new();
    let mut sum = 0;
    for received in receiver.metrics().iter().filter(|received| received.metric.name == "orders") {
        let Some(Data::Sum(orders)) = &received.metric.data else { panic!("{received:?}") };
        for point in &orders.data_points {
            let Some(Number::AsInt(value)) = point.value else { panic!("{point:?}") };
            sum += value as u64;
            newest.insert(format!("{:?}", point.attributes), value as u64);
        }
    }
    if temporality == Temporality::Delta { sum } else { newest.values().sum() }
}
