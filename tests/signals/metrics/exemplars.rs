//! Exemplars: which measurements are kept, and the exemplars that arrive at a receiver.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use standpipe::config::{ExemplarFilter, Temporality};
use standpipe::receiver::Receiver;
use standpipe::receiver::proto::{Exemplar, ExemplarValue};
use standpipe::{Config, FlushOutcome, Meter, Sampler, Signal, SpanContext, SpanId, Telemetry, Tracer, View};

use crate::support::points::{attributes, exponentials, histograms, named, numbers};
use crate::support::scene::{FOR_EVER, LONG, exporter, start_with};

struct Scene {
    // Dropped before the receiver, which then gets the last collection.
    telemetry: Telemetry,
    receiver: Receiver,
    tracer: Tracer,
    meter: Meter,
}

impl Scene {
    fn new(temporality: Temporality, change: impl FnOnce(Config) -> Config) -> Self {
        let receiver = Receiver::start().unwrap();
        let exporter = exporter(&receiver).interval(FOR_EVER).temporality(temporality);
        let telemetry = start_with(change(Config::new().service_name("shop").exporter(exporter)));
        let (tracer, meter) = (telemetry.tracer("shop"), telemetry.meter("shop"));
        Self { receiver, telemetry, tracer, meter }
    }

    fn with(filter: ExemplarFilter) -> Self {
        Self::new(Temporality::Cumulative, |config| config.exemplars(filter))
    }

    fn usual() -> Self {
        Self::new(Temporality::Cumulative, |config| config)
    }

    fn flush(&self) {
        assert_eq!(self.telemetry.flush(LONG), FlushOutcome::Complete);
    }

    /// Collects, and returns the exemplars of the first point of a counter or gauge.
    fn exemplars(&self, name: &str) -> Vec<Exemplar> {
        self.flush();
        numbers(named(&self.receiver, name).last().unwrap()).remove(0).exemplars
    }
}

fn ids(exemplar: &Exemplar) -> (Vec<u8>, Vec<u8>) {
    (exemplar.trace_id.clone(), exemplar.span_id.clone())
}

fn ids_of(context: &SpanContext) -> (Vec<u8>, Vec<u8>) {
    (context.trace_id().to_bytes().to_vec(), context.span_id().to_bytes().to_vec())
}

fn value(exemplar: &Exemplar) -> f64 {
    match exemplar.value {
        Some(ExemplarValue::AsInt(value)) => value as f64,
        Some(ExemplarValue::AsDouble(value)) => value,
        None => panic!("no value"),
    }
}

fn values(exemplars: &[Exemplar]) -> Vec<f64> {
    exemplars.iter().map(value).collect()
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
}

#[test]
fn keeps_no_exemplar_of_a_remote_trace_that_this_process_does_not_record() {
    let scene = Scene::usual();
    let _job = scene.tracer.span("job");
    let traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let remote = SpanContext::from_traceparent(traceparent).unwrap();
    let idle = standpipe::Telemetry::start(Config::new()).unwrap();
    let _carries_the_remote = idle.tracer("library").span_builder("x").parent(&remote).start();
    scene.meter.counter("sold").add(1, ());
    assert_eq!(scene.exemplars("sold"), []);
}

#[test]
fn keeps_the_value_time_and_span_of_a_measurement_in_a_sampled_span() {
    let scene = Scene::usual();
    let (sold, level) = (scene.meter.counter("sold"), scene.meter.gauge("level"));
    let span = scene.tracer.span("checkout");
    let before = now();
    sold.add(3, &[("shop.country", "SE")]);
    level.record(2.5, ());
    let after = now();
    let expected = ids_of(span.context());
    drop(span);
    for (name, number) in [("sold", ExemplarValue::AsInt(3)), ("level", ExemplarValue::AsDouble(2.5))] {
        let [exemplar] = &scene.exemplars(name)[..] else { panic!("{name}") };
        assert_eq!((ids(exemplar), exemplar.value.clone()), (expected.clone(), Some(number)));
        assert!((before..=after).contains(&exemplar.time_unix_nano));
        assert!(exemplar.filtered_attributes.is_empty());
    }
    let sent = scene.receiver.spans();
    assert_eq!(sent.len(), 1, "the trace of the exemplar can be opened");
    assert_eq!((sent[0].span.trace_id.clone(), sent[0].span.span_id.clone()), expected);
}

#[test]
fn keeps_no_measurement_made_outside_of_a_sampled_and_recorded_span() {
    let scene = Scene::new(Temporality::Cumulative, |config| {
        config.sampler(Sampler::always_off().always_record().parent_based())
    });
    let sold = scene.meter.counter("sold");
    let remote =
        |flags| SpanContext::new("4bf92f3577b34da6a3ce929d0e0e4736".parse().unwrap(), span_id(), flags);
    sold.add(1, ());
    {
        let _only_recorded = scene.tracer.span("root");
        sold.add(1, ());
        let _child = scene.tracer.span("child");
        sold.add(1, ());
    }
    {
        let _of_another_process = remote(1).enter();
        sold.add(1, ());
    }
    {
        let _unsampled = scene.tracer.span_builder("unsampled").parent(&remote(0)).start();
        sold.add(1, ());
    }
    assert!(scene.exemplars("sold").is_empty());
    let _sampled = scene.tracer.span_builder("sampled").parent(&remote(1)).start();
    sold.add(7, ());
    assert_eq!(values(&scene.exemplars("sold")), [7.0]);
}

#[test]
fn names_no_span_of_a_provider_that_sends_none() {
    let scene = Scene::usual();
    let only_metrics = exporter(&scene.receiver).signals([Signal::Metrics]).interval(FOR_EVER);
    let other = start_with(Config::new().exporter(only_metrics));
    let sold = scene.meter.counter("sold");
    let _outer = scene.tracer.span("outer");
    {
        let inner = other.tracer("shop").span("inner");
        assert!(inner.context().is_sampled() && !inner.is_recording());
        sold.add(1, ());
        assert!(scene.exemplars("sold").is_empty());
    }
    sold.add(2, ());
    assert_eq!(values(&scene.exemplars("sold")), [2.0]);
}

fn span_id() -> SpanId {
    "00f067aa0ba902b7".parse().unwrap()
}

#[test]
fn follows_spans_that_end_in_any_order() {
    let scene = Scene::new(Temporality::Delta, |config| config);
    let sold = scene.meter.counter("sold");
    let in_span = || {
        sold.add(1, ());
        scene.exemplars("sold").len() == 1
    };
    let remote = SpanContext::new("4bf92f3577b34da6a3ce929d0e0e4736".parse().unwrap(), span_id(), 0);
    // Two sampled spans; the outer one ends first.
    let (outer, inner) = (scene.tracer.span("outer"), scene.tracer.span("inner"));
    drop(outer);
    assert!(in_span());
    drop(inner);
    assert!(!in_span());
    // A sampled span above an unsampled one, and the reverse.
    let unsampled = scene.tracer.span_builder("unsampled").parent(&remote).start();
    let sampled = scene.tracer.span_builder("sampled").root().start();
    assert!(in_span());
    drop(unsampled);
    assert!(in_span());
    let entered = remote.enter();
    assert!(!in_span());
    drop(sampled);
    assert!(!in_span());
    drop(entered);
    assert!(!in_span());
    // A detached span is current only while it is entered.
    let mut detached = scene.tracer.span_builder("detached").detached();
    assert!(!in_span());
    let guard = detached.enter();
    assert!(in_span());
    drop(guard);
    assert!(!in_span());
}

#[test]
fn keeps_measurements_without_a_span_when_always_on() {
    let scene = Scene::with(ExemplarFilter::AlwaysOn);
    let sold = scene.meter.counter("sold");
    sold.add(5, ());
    let [exemplar] = &scene.exemplars("sold")[..] else { panic!() };
    assert_eq!((value(exemplar), ids(exemplar)), (5.0, Default::default()));
    let remote = SpanContext::new("4bf92f3577b34da6a3ce929d0e0e4736".parse().unwrap(), span_id(), 0);
    let _current = remote.enter();
    sold.add(6, ());
    let [exemplar] = &scene.exemplars("sold")[..] else { panic!() };
    assert_eq!((value(exemplar), ids(exemplar)), (6.0, ids_of(&remote)));
}

#[test]
fn keeps_nothing_when_always_off_and_nothing_that_a_callback_observes() {
    for filter in [ExemplarFilter::AlwaysOff, ExemplarFilter::AlwaysOn, ExemplarFilter::TraceBased] {
        let scene = Scene::with(filter);
        scene.meter.build("queued").observe_gauge(|observer| observer.observe(1.0, ()));
        let _span = scene.tracer.span("checkout");
        scene.meter.counter("sold").add(1, ());
        assert!(scene.exemplars("queued").is_empty());
        assert_eq!(scene.exemplars("sold").is_empty(), filter == ExemplarFilter::AlwaysOff);
    }
}

#[test]
fn carries_the_attributes_that_a_view_or_the_instrument_removes() {
    for temporality in [Temporality::Cumulative, Temporality::Delta] {
        let scene = Scene::new(temporality, |config| config.view(View::new("viewed").remove(["user.*"])));
        let advised = scene.meter.build("advised").attributes(&["http.route"]).counter();
        let viewed = scene.meter.counter("viewed");
        let bound = scene.meter.build("bound").attributes(&["http.route"]).counter();
        let attributes_of_call = &[("user.name", "Ann"), ("http.route", "/"), ("user.id", "7")];
        let bound = bound.with(attributes_of_call);
        let _span = scene.tracer.span("checkout");
        advised.add(1, attributes_of_call);
        viewed.add(1, attributes_of_call);
        bound.add(1);
        for name in ["advised", "viewed", "bound"] {
            scene.flush();
            let exemplars: Vec<_> = named(&scene.receiver, name)
                .iter()
                .flat_map(numbers)
                .flat_map(|point| {
                    assert_eq!(attributes(&point.attributes), "http.route=/");
                    point.exemplars
                })
                .collect();
            assert_eq!(attributes(&exemplars[0].filtered_attributes), "user.id=7,user.name=Ann", "{name}");
        }
    }
}

#[test]
fn leaves_out_removed_attributes_that_are_very_large() {
    let scene = Scene::usual();
    let sold = scene.meter.build("sold").attributes(&[]).counter();
    let _span = scene.tracer.span("checkout");
    sold.add(1, &[("query", &*"x".repeat(5000))]);
    let [exemplar] = &scene.exemplars("sold")[..] else { panic!() };
    assert!(exemplar.filtered_attributes.is_empty());
}

#[test]
fn repeats_exemplars_of_cumulative_points_and_sends_those_of_deltas_once() {
    use Temporality::{Cumulative, Delta, LowMemory};
    let expected = [
        (Cumulative, [[1.0].as_slice(), &[1.0], &[3.0]], [[1.0].as_slice(), &[1.0], &[3.0]]),
        (Delta, [&[1.0], &[], &[3.0]], [&[1.0], &[1.0], &[3.0]]),
        (LowMemory, [&[1.0], &[], &[3.0]], [&[1.0], &[1.0], &[3.0]]),
    ];
    for (temporality, of_counter, of_up_down) in expected {
        let scene = Scene::new(temporality, |config| config);
        let (sold, open) = (scene.meter.counter("sold"), scene.meter.up_down_counter("open"));
        for (number, is_in_span) in [(1, true), (2, false), (3, true)] {
            let _span = is_in_span.then(|| scene.tracer.span("checkout"));
            sold.add(number, ());
            open.add(number as i64, ());
            scene.flush();
            let at = number as usize - 1;
            let exemplars = |name| numbers(named(&scene.receiver, name).last().unwrap()).remove(0).exemplars;
            assert_eq!(values(&exemplars("sold")), of_counter[at], "{temporality:?} {number}");
            assert_eq!(values(&exemplars("open")), of_up_down[at], "{temporality:?} {number}");
        }
        for name in ["sold", "open"] {
            for point in named(&scene.receiver, name).iter().flat_map(numbers) {
                let times = point.start_time_unix_nano..=point.time_unix_nano;
                assert!(point.exemplars.iter().all(|exemplar| times.contains(&exemplar.time_unix_nano)));
            }
        }
    }
}

#[test]
fn keeps_one_measurement_of_each_bucket_of_a_histogram() {
    for temporality in [Temporality::Cumulative, Temporality::Delta] {
        let scene = Scene::new(temporality, |config| {
            config.view(View::new("items").bounds(&[1.0, 10.0])).view(View::new("one").bounds(&[]))
        });
        let total = scene.meter.build("total").bounds(&[10.0, 100.0, 1000.0]).histogram();
        // Measurements of integers in a histogram, and a histogram with one bucket.
        let (items, one) = (scene.meter.counter("items"), scene.meter.histogram("one"));
        let _span = scene.tracer.span("checkout");
        for number in 0..2000i32 {
            let value = if number % 500 == 0 { 0 } else { number };
            total.record(value.min(150).into(), ());
            items.add(value.unsigned_abs().into(), ());
            one.record(value.into(), ());
        }
        scene.flush();
        let point = |name| histograms(named(&scene.receiver, name).last().unwrap()).remove(0);
        let bucket = |value: f64, bounds: &[f64]| bounds.iter().filter(|bound| **bound < value).count();
        for name in ["total", "items", "one"] {
            let point = point(name);
            let buckets: Vec<_> = values(&point.exemplars)
                .into_iter()
                .map(|value| bucket(value, &point.explicit_bounds))
                .collect();
            let used: Vec<_> =
                (0..point.bucket_counts.len()).filter(|at| point.bucket_counts[*at] > 0).collect();
            assert_eq!(buckets, used, "{name}");
        }
        assert!(matches!(point("items").exemplars[0].value, Some(ExemplarValue::AsInt(_))));
        assert_eq!(point("one").exemplars.len(), 1);
    }
}

#[test]
fn keeps_up_to_twenty_measurements_of_an_exponential_histogram_and_one_of_a_sum() {
    let scene = Scene::usual();
    let (total, revenue) =
        (scene.meter.build("total").exponential().histogram(), scene.meter.build("revenue").counter_f64());
    let _span = scene.tracer.span("checkout");
    let kept = |count: u32| {
        (0..count).for_each(|number| total.record(number.into(), ()));
        revenue.add(0.5, ());
        scene.flush();
        exponentials(named(&scene.receiver, "total").last().unwrap()).remove(0).exemplars
    };
    assert_eq!(values(&kept(5)), [0.0, 1.0, 2.0, 3.0, 4.0]);
    let mut of_many = values(&kept(10_000));
    of_many.sort_by(f64::total_cmp);
    of_many.dedup();
    assert_eq!(of_many.len(), 20);
    assert!(of_many.iter().any(|value| *value > 1000.0));
    assert_eq!(values(&scene.exemplars("revenue")), [0.5]);
}

#[test]
fn keeps_sampling_while_many_threads_measure() {
    let scene = Scene::new(Temporality::Delta, |config| config);
    let (sold, time) = (scene.meter.counter("sold"), scene.meter.histogram("time"));
    for _ in 0..3 {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let _span = scene.tracer.span("work");
                    (0..5000).for_each(|number| {
                        sold.add(1, &[("n", i64::from(number % 3))]);
                        time.record((number % 7).into(), ());
                    });
                });
            }
        });
        scene.flush();
        let metric = named(&scene.receiver, "sold").pop().unwrap();
        let points = numbers(&metric);
        assert_eq!(points.len(), 3);
        assert!(points.iter().all(|point| point.exemplars.len() == 1));
        let point = histograms(named(&scene.receiver, "time").last().unwrap()).remove(0);
        assert_eq!(point.exemplars.len(), 3, "0, up to 5, and 6");
    }
    assert_eq!(scene.telemetry.shutdown(Duration::from_secs(10)).lost(), 0);
}
