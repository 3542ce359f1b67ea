mod enqueued;

use std::time::Duration;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use prost::Message;

use super::*;
use crate::config::{
    BatchSettings, ExemplarFilter, Level, PaceSettings, PeriodicReaderSettings, QueueSettings, RetrySettings,
    Signals, SpoolSettings, Temporality, WhenFull,
};
use crate::metrics::{Meter, Registry};
use crate::pipeline::exporter_handle::{ExporterHandle, ExporterSpec, RecordFilter};
use crate::pipeline::ledger::Counts;
use crate::pipeline::queue::Wait;
use crate::process::Driver;
use crate::transport::Verdict;
use crate::transport::gate::{Gate, Sent};

const PATIENCE: Duration = Duration::from_secs(10);
/// An interval that does not end during a test.
const LONG: Duration = Duration::from_secs(3600);

/// An exporter of metrics whose requests all wait at a gate.
struct World {
    gate: Gate,
    meter: Meter,
    handle: ExporterHandle,
}

impl World {
    fn new(temporality: Temporality, interval: Duration) -> Self {
        Self::with(temporality, interval, |_| {})
    }

    fn with(temporality: Temporality, interval: Duration, adjust: impl Fn(&mut ExporterSpec)) -> Self {
        let gate = Gate::default();
        let push = PeriodicReaderSettings { interval, temporality, ..PeriodicReaderSettings::default() };
        let registry = Arc::new(Registry::new(vec![push], Vec::new(), ExemplarFilter::default()));
        let transport = gate.clone();
        let mut spec = ExporterSpec {
            name: "memory".to_owned(),
            filter: RecordFilter { signals: Signals::ALL, level: Level::default() },
            queue: QueueSettings::default(),
            batch: BatchSettings::default(),
            pace: PaceSettings { throttle: LONG, linger: Duration::ZERO },
            retry: RetrySettings { first_delay: Duration::from_millis(1), ..RetrySettings::default() },
            spool: SpoolSettings::default(),
            attempt_timeout: PATIENCE,
            resource: Arc::new(Vec::new),
            metrics: Some((Reader::new(Arc::clone(&registry), 0), interval)),
            hook: None,
            transport: Box::new(move || transport.open_transport()),
            driver: Driver::OwnThread,
            observer: None,
        };
        adjust(&mut spec);
        let scope = Arc::new(Scope::new(Signal::Metrics, "shop", ""));
        let meter = Meter::new(registry, scope);
        Self { gate, meter, handle: ExporterHandle::start(spec.prepare()).unwrap() }
    }

    fn accept(&self) -> Vec<(String, i64)> {
        sums(&self.gate.answer(Verdict::Accepted))
    }

    fn counts(&self) -> Counts {
        self.handle.ledger().metrics
    }

    /// Stops the worker while `at_the_gate` answers the worker's last requests.
    fn stop(&self, at_the_gate: impl FnOnce()) -> Counts {
        let deadline = Instant::now() + PATIENCE;
        self.handle.start_stop(deadline);
        at_the_gate();
        assert!(self.handle.wait_for_end(deadline), "the worker did not end");
        self.handle.finish_stop();
        let counts = self.counts();
        assert_eq!(counts.in_flight, 0);
        counts
    }
}

/// Names and integer values of all sums in a request.
fn sums(sent: &Sent) -> Vec<(String, i64)> {
    let request = ExportMetricsServiceRequest::decode(&*sent.body).expect("a request");
    let metrics = request.resource_metrics.into_iter().flat_map(|resource| resource.scope_metrics);
    let mut sums = Vec::new();
    for metric in metrics.flat_map(|scope| scope.metrics) {
        let Some(Data::Sum(sum)) = metric.data else { panic!("{metric:?}") };
        for point in sum.data_points {
            let Some(Value::AsInt(value)) = point.value else { panic!("{point:?}") };
            sums.push((metric.name.clone(), value));
        }
    }
    sums
}

fn orders(value: i64) -> Vec<(String, i64)> {
    vec![("orders".to_owned(), value)]
}

fn later() -> Verdict {
    Verdict::TryLater { after: None, reason: "busy".to_owned() }
}

#[test]
fn the_first_push_comes_after_one_interval_and_then_one_each() {
    let interval = Duration::from_millis(200);
    let begun = Instant::now();
    let world = World::new(Temporality::Cumulative, interval);
    let counter = world.meter.counter("orders");
    counter.add(1, ());
    world.gate.next();
    assert!(begun.elapsed() >= interval, "{:?}", begun.elapsed());
    // No second request is made while the first one is at the gate.
    counter.add(1, ());
    assert_eq!(world.accept(), orders(1));
    assert_eq!(world.accept(), orders(2));
    assert!(begun.elapsed() >= 2 * interval, "{:?}", begun.elapsed());
}

#[test]
fn flush_and_stop_push_without_waiting_for_the_interval() {
    let world = World::new(Temporality::Cumulative, LONG);
    let counter = world.meter.counter("orders");
    counter.add(1, ());
    let flushed = world.handle.start_flush();
    assert_eq!(world.accept(), orders(1));
    assert!(flushed.ends_within(PATIENCE));
    counter.add(2, ());
    let counts = world.stop(|| assert_eq!(world.accept(), orders(3)));
    assert_eq!((counts.accepted, counts.delivered), (2, 2));
}

#[test]
fn nothing_is_sent_when_there_is_nothing_to_send() {
    let world = World::new(Temporality::Delta, LONG);
    let _ = world.meter.histogram("unused");
    let _ = world.meter.gauge("unset").with(&[("a", 1)]);
    assert!(world.handle.start_flush().ends_within(PATIENCE));
    assert_eq!(world.stop(|| {}), Counts::default());
}

#[test]
fn a_newer_snapshot_replaces_one_that_could_not_be_delivered() {
    let world = World::new(Temporality::Cumulative, Duration::from_millis(1));
    let counter = world.meter.counter("orders");
    counter.add(1, ());
    assert_eq!(sums(&world.gate.next()), orders(1));
    counter.add(1, ());
    // After the next interval, any of these attempts may be the first with the newer snapshot.
    let newer = (0..100).map(|_| sums(&world.gate.answer(later()))).find(|sums| *sums != orders(1));
    assert_eq!(newer, Some(orders(2)));
    let counts = world.counts();
    assert!(counts.superseded > 0 && counts.in_flight <= 1, "they do not pile up: {counts}");
    assert_eq!(counts.lost(), 0, "{counts}");
}

#[test]
fn a_flush_sends_the_newest_snapshot_instead_of_the_one_that_failed() {
    let world = World::new(Temporality::Cumulative, LONG);
    let counter = world.meter.counter("orders");
    counter.add(1, ());
    let first = world.handle.start_flush();
    world.gate.next();
    counter.add(1, ());
    let second = world.handle.start_flush();
    world.gate.answer(later());
    assert_eq!(world.accept(), orders(2));
    assert!(first.ends_within(PATIENCE));
    assert!(second.ends_within(PATIENCE));
    let counts = world.counts();
    assert_eq!((counts.accepted, counts.delivered, counts.superseded), (2, 1, 1), "{counts}");
}

#[test]
fn what_changed_since_the_last_push_is_sent_until_it_is_delivered() {
    let world = World::new(Temporality::Delta, Duration::from_millis(1));
    let counter = world.meter.counter("orders");
    counter.add(5, ());
    for _ in 0..5 {
        assert_eq!(sums(&world.gate.answer(later())), orders(5));
        counter.add(1, ());
    }
    assert_eq!(world.accept(), orders(5));
    assert_eq!(world.accept(), orders(5), "the five that came meanwhile");
    let counts = world.stop(|| {});
    assert_eq!((counts.accepted, counts.delivered, counts.superseded), (2, 2, 0), "{counts}");
}

#[test]
fn a_stop_sends_the_newest_snapshot_instead_of_the_one_that_failed() {
    let world = World::with(Temporality::Cumulative, LONG, |spec| {
        spec.retry.first_delay = LONG;
        spec.retry.max_delay = LONG;
        spec.retry.give_up_after = 10 * LONG;
    });
    let counter = world.meter.counter("orders");
    counter.add(1, ());
    let flushed = world.handle.start_flush();
    world.gate.answer(later());
    counter.add(1, ());
    let counts = world.stop(|| assert_eq!(world.accept(), orders(2)));
    assert!(flushed.is_over(), "the flush is over as well");
    assert_eq!((counts.accepted, counts.delivered, counts.superseded), (2, 1, 1), "{counts}");
}

#[test]
fn a_metric_of_many_series_is_sent_in_parts_within_the_limits() {
    let world = World::with(Temporality::Cumulative, LONG, |spec| {
        spec.batch = BatchSettings { records: 100, bytes: 4096 };
        spec.queue =
            QueueSettings { records: 150, bytes: 64 << 10, when_full: WhenFull::Block, block_timeout: None };
    });
    let counter = world.meter.counter("orders");
    for number in 0..1000 {
        counter.add(1, &[("customer", number)]);
    }
    let flushed = world.handle.start_flush();
    let mut arrived = 0;
    while arrived < 1000 {
        let sent = world.gate.answer(Verdict::Accepted);
        assert!(sent.body.len() <= 4096, "{}", sent.body.len());
        let points = sums(&sent);
        assert!(points.len() <= 100, "{}", points.len());
        arrived += points.len();
        assert!(world.counts().in_flight <= 150);
    }
    assert!(flushed.ends_within(PATIENCE));
    assert_eq!((arrived, world.counts().delivered, world.counts().lost()), (1000, 1000, 0));
}

#[test]
fn a_collector_that_finds_metrics_too_large_is_sent_fewer_at_once() {
    const METRICS: usize = 8;
    const POINTS: usize = 50;
    const MAX_BYTES: usize = 3000;
    let world = World::new(Temporality::Cumulative, LONG);
    for metric in 0..METRICS {
        let counter = world.meter.counter(&format!("orders.{metric}"));
        (0..POINTS).for_each(|customer| counter.add(1, &[("customer", customer)]));
    }
    let flushed = world.handle.start_flush();
    assert!(world.gate.next().body.len() > MAX_BYTES, "all of them are too large together");
    let mut arrived = 0;
    let deadline = Instant::now() + PATIENCE;
    while !flushed.is_over() {
        assert!(Instant::now() < deadline, "{}", world.counts());
        let Some(sent) = world.gate.next_within(Duration::from_millis(5)) else { continue };
        let fits = sent.body.len() <= MAX_BYTES;
        arrived += if fits { sums(&sent).len() } else { 0 };
        let too_large = Verdict::TooLarge { reason: "too large".to_owned() };
        world.gate.answer(if fits { Verdict::Accepted } else { too_large });
    }
    let counts = world.counts();
    assert_eq!(
        (arrived, counts.delivered, counts.lost()),
        (METRICS * POINTS, (METRICS * POINTS) as u64, 0),
        "{counts}"
    );
}

#[test]
fn a_metric_that_alone_is_too_large_for_the_collector_is_counted_point_by_point() {
    let world = World::new(Temporality::Cumulative, LONG);
    let counter = world.meter.counter("orders");
    (0..50).for_each(|customer| counter.add(1, &[("customer", customer)]));
    let flushed = world.handle.start_flush();
    world.gate.answer(Verdict::TooLarge { reason: "too large".to_owned() });
    assert!(flushed.ends_within(PATIENCE));
    let counts = world.counts();
    assert_eq!((counts.accepted, counts.dropped.too_large, counts.in_flight), (50, 50, 0), "{counts}");
}

#[test]
fn divides_a_metric_that_the_collector_found_too_large_at_the_next_collection() {
    const MAX_BYTES: usize = 3000;
    let world = World::new(Temporality::Cumulative, LONG);
    let counter = world.meter.counter("orders");
    (0..500).for_each(|customer| counter.add(1, &[("customer", customer)]));
    let mut largest = 0;
    for _ in 0..3 {
        let flushed = world.handle.start_flush();
        largest = 0;
        while !flushed.is_over() {
            let Some(sent) = world.gate.next_within(Duration::from_millis(5)) else { continue };
            largest = largest.max(sent.body.len());
            let too_large = Verdict::TooLarge { reason: "too large".to_owned() };
            world.gate.answer(if sent.body.len() > MAX_BYTES { too_large } else { Verdict::Accepted });
        }
    }
    let counts = world.counts();
    assert!(largest <= MAX_BYTES && counts.delivered >= 500, "{largest} bytes at last: {counts}");
}

#[test]
fn spans_keep_their_throttle_while_metrics_are_pushed() {
    let world = World::new(Temporality::Cumulative, Duration::from_millis(20));
    let scope = Arc::new(Scope::new(Signal::Traces, "shop", ""));
    let span = [0x12, 3, 0x0a, 1, 1];
    world.handle.enqueue(&scope, &span, 1, &Wait::FromNow);
    world.gate.answer(Verdict::Accepted);
    // The throttle delays the next span by an hour.
    world.handle.enqueue(&scope, &span, 1, &Wait::FromNow);
    world.meter.counter("orders").add(1, ());
    for _ in 0..5 {
        assert_eq!(world.accept(), orders(1));
    }
    assert_eq!(world.handle.ledger().traces.in_flight, 1);
}

#[test]
fn spans_go_between_the_attempts_of_metrics_that_cannot_be_delivered() {
    let world = World::with(Temporality::Cumulative, Duration::from_millis(1), |spec| {
        spec.pace.throttle = Duration::ZERO;
        spec.retry.max_delay = Duration::from_millis(1);
    });
    world.meter.counter("orders").add(1, ());
    world.gate.next();
    let scope = Arc::new(Scope::new(Signal::Traces, "shop", ""));
    let span = [0x12, 3, 0x0a, 1, 1];
    world.handle.enqueue(&scope, &span, 1, &Wait::FromNow);
    let is_span = |sent: &Sent| sent.body.windows(span.len()).any(|window| window == span);
    let attempts = (0..100).map(|_| world.gate.answer(later()));
    assert!(attempts.into_iter().any(|sent| is_span(&sent)), "the span was never tried");
}

#[test]
fn a_flush_is_over_when_its_metrics_are_not_when_they_make_way_for_newer_ones() {
    let world = World::with(Temporality::Cumulative, Duration::from_millis(1), |spec| {
        spec.retry.max_delay = Duration::from_millis(1);
    });
    world.meter.counter("orders").add(1, ());
    world.gate.next();
    let flushed = world.handle.start_flush();
    let before = world.counts().superseded;
    while world.counts().superseded < before + 3 {
        world.gate.answer(later());
    }
    world.gate.next();
    assert!(!flushed.is_over(), "nothing was delivered yet");
    world.accept();
    assert!(flushed.ends_within(PATIENCE));
}

#[test]
fn a_stop_without_time_counts_what_was_measured_as_lost() {
    for temporality in [Temporality::Cumulative, Temporality::Delta] {
        let world = World::new(temporality, LONG);
        let counter = world.meter.counter("orders");
        counter.add(1, &[("shop.country", "SE")]);
        counter.add(1, &[("shop.country", "FI")]);
        // The stop leaves no time to call this callback.
        world.meter.build("asked").observe_counter(|observer| observer.observe(1, ()));
        world.handle.start_stop(Instant::now());
        assert!(world.handle.wait_for_end(Instant::now() + PATIENCE));
        world.handle.finish_stop();
        let counts = world.counts();
        assert_eq!((counts.accepted, counts.dropped.shutdown), (2, 2), "{temporality:?}: {counts}");
    }
}

#[test]
fn a_snapshot_that_made_way_for_a_stop_without_time_is_not_lost_unseen() {
    let world = World::with(Temporality::Cumulative, LONG, |spec| {
        spec.retry.first_delay = LONG;
        spec.retry.max_delay = LONG;
        spec.retry.give_up_after = 10 * LONG;
    });
    world.meter.counter("orders").add(1, ());
    let _flushed = world.handle.start_flush();
    world.gate.next();
    world.handle.start_stop(Instant::now());
    world.gate.answer(later());
    assert!(world.handle.wait_for_end(Instant::now() + PATIENCE));
    world.handle.finish_stop();
    let counts = world.counts();
    assert_eq!((counts.superseded, counts.dropped.shutdown), (1, 1), "{counts}");
}

#[test]
fn nothing_is_accepted_after_the_books_are_closed() {
    let world = World::new(Temporality::Cumulative, LONG);
    let (asked, was_asked) = crossbeam_channel::bounded(1);
    let (go_on, may_go_on) = crossbeam_channel::bounded::<()>(1);
    world.meter.build("slow").observe_counter(move |observer| {
        let _ = asked.try_send(());
        let _ = may_go_on.recv_timeout(PATIENCE);
        observer.observe(1, ());
    });
    world.meter.build("next").observe_counter(|observer| observer.observe(1, ()));
    let _flushed = world.handle.start_flush();
    was_asked.recv_timeout(PATIENCE).unwrap();
    world.handle.start_stop(Instant::now());
    world.handle.finish_stop();
    drop(go_on);
    assert!(world.handle.wait_for_end(Instant::now() + PATIENCE));
    let counts = world.counts();
    assert_eq!((counts.accepted, counts.in_flight), (0, 0), "{counts}");
    assert_eq!(counts.not_enqueued.after_shutdown, 1, "{counts}");
}

#[test]
fn a_point_too_large_for_a_request_is_reported_without_a_flush() {
    let (report, reported) = crossbeam_channel::unbounded();
    let world = World::with(Temporality::Cumulative, Duration::from_millis(1), |spec| {
        spec.batch.bytes = 4096;
        let report = report.clone();
        spec.hook = Some(Arc::new(move |problem| _ = report.send(problem.kind)));
    });
    world.meter.counter("orders").add(1, &[("customer", "x".repeat(8192).as_str())]);
    assert_eq!(reported.recv_timeout(PATIENCE), Ok(crate::problem::ProblemKind::TooLarge));
}

#[test]
fn a_series_larger_than_a_part_is_sent_by_itself() {
    let world = World::new(Temporality::Cumulative, LONG);
    let counter = world.meter.counter("orders");
    for (number, length) in [1, 200 << 10, 1].into_iter().enumerate() {
        counter.add(1, &[("note", "x".repeat(length + number).as_str())]);
    }
    let flushed = world.handle.start_flush();
    let mut arrived = 0;
    while arrived < 3 {
        arrived += world.accept().len();
    }
    assert!(flushed.ends_within(PATIENCE));
    let counts = world.counts();
    assert_eq!((counts.delivered, counts.lost()), (3, 0), "{counts}");
}

#[test]
fn a_flush_of_metrics_that_no_collector_takes_is_given_up_like_a_batch() {
    let world = World::with(Temporality::Cumulative, Duration::from_millis(1), |spec| {
        spec.retry.max_delay = Duration::from_millis(1);
        spec.retry.give_up_after = Duration::from_millis(300);
    });
    world.meter.counter("orders").add(1, ());
    let flushed = world.handle.start_flush();
    let begun = Instant::now();
    while !flushed.is_over() {
        assert!(begun.elapsed() < PATIENCE, "the flush never ends");
        world.gate.answer(later());
    }
}

#[test]
fn a_stop_that_comes_while_a_flush_sends_spans_pushes_once() {
    let world = World::new(Temporality::Cumulative, LONG);
    world.meter.counter("orders").add(1, ());
    let scope = Arc::new(Scope::new(Signal::Traces, "shop", ""));
    let span = [0x12, 3, 0x0a, 1, 1];
    world.handle.enqueue(&scope, &span, 1, &Wait::FromNow);
    world.gate.answer(Verdict::Accepted);
    // The throttle delays this span, so the flush must send it.
    world.handle.enqueue(&scope, &span, 1, &Wait::FromNow);
    let flushed = world.handle.start_flush();
    world.gate.next();
    let counts = world.stop(|| {
        // The worker notices the stop when this attempt ends.
        world.gate.answer(later());
        // Either signal may be first.
        let sent = [(); 2].map(|()| world.gate.answer(Verdict::Accepted));
        let is_span = |sent: &&Sent| sent.body.windows(span.len()).any(|window| window == span);
        let pushed: Vec<_> = sent.iter().filter(|sent| !is_span(sent)).map(sums).collect();
        assert_eq!(pushed, [orders(1)]);
    });
    assert!(flushed.is_over());
    assert_eq!((counts.accepted, counts.delivered), (1, 1), "{counts}");
}

#[test]
fn in_a_stop_an_attempt_has_all_the_time_unless_another_signal_waits() {
    for has_metrics in [false, true] {
        let world = World::new(Temporality::Cumulative, LONG);
        let scope = Arc::new(Scope::new(Signal::Traces, "shop", ""));
        let span = [0x12, 3, 0x0a, 1, 1];
        world.handle.enqueue(&scope, &span, 1, &Wait::FromNow);
        world.gate.answer(Verdict::Accepted);
        // The throttle delays this span, so the stop must send it.
        world.handle.enqueue(&scope, &span, 1, &Wait::FromNow);
        if has_metrics {
            world.meter.counter("orders").add(1, ());
        }
        let by = Instant::now() + PATIENCE;
        world.handle.start_stop(by);
        // The span or the metrics may be first.
        let first = world.gate.answer(Verdict::Accepted);
        let left_for_others = by.saturating_duration_since(first.deadline);
        assert_eq!(left_for_others > Duration::ZERO, has_metrics, "{left_for_others:?}");
        if has_metrics {
            assert!(world.gate.answer(Verdict::Accepted).deadline >= by, "the last one has the rest");
        }
        assert!(world.handle.wait_for_end(Instant::now() + PATIENCE), "the worker did not end");
    }
}
