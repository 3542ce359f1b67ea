//! Measurements of the `metrics` crate's macros arrive unchanged.

use std::collections::BTreeMap;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use metrics::{
    Key, Label, Level, Metadata, Recorder, Unit, counter, describe_counter, describe_gauge,
    describe_histogram, gauge, histogram, with_local_recorder,
};
use standpipe::bridge::metrics::MetricsRecorder;
use standpipe::config::{Histograms, Temporality};
use standpipe::receiver::proto::{Data, ExemplarValue};
use standpipe::receiver::{Receiver, TestTelemetry};
use standpipe::{Application, Config, FlushOutcome, ProblemKind, Signal, Telemetry};

use crate::support::points::{attributes, exponentials, float, histograms, int, named, newest, numbers};
use crate::support::process;
use crate::support::scene::{FOR_EVER, LONG, Problems, exporter, start, start_with};
use crate::support::size_within;

const THREADS: u32 = 8;

fn flush(telemetry: &Telemetry) {
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
}

/// A program that exports on demand, and its recorder.
fn scene(receiver: &Receiver) -> (Telemetry, MetricsRecorder) {
    let telemetry = start(exporter(receiver).interval(FOR_EVER));
    let recorder = MetricsRecorder::new(&telemetry);
    (telemetry, recorder)
}

/// Returns the newest integer values of a metric, by their attributes.
fn ints(receiver: &Receiver, name: &str) -> BTreeMap<String, i64> {
    newest(receiver, name).iter().map(|point| (attributes(&point.attributes), int(point))).collect()
}

fn map<const COUNT: usize>(pairs: [(&str, i64); COUNT]) -> BTreeMap<String, i64> {
    pairs.into_iter().map(|(set, value)| (set.to_owned(), value)).collect()
}

/// Runs `work` on eight threads that start together.
fn on_eight_threads(recorder: &MetricsRecorder, work: impl Fn(u32) + Sync) {
    let ready = Barrier::new(THREADS as usize);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (ready, work) = (&ready, &work);
            scope.spawn(move || {
                ready.wait();
                with_local_recorder(recorder, || work(thread));
            });
        }
    });
}

#[test]
fn one_line_makes_every_macro_of_the_program_arrive() {
    if !process::is_alone("one_line_makes_every_macro_of_the_program_arrive") {
        return;
    }
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).interval(FOR_EVER));
    MetricsRecorder::new(&telemetry).install().unwrap();
    let again = MetricsRecorder::new(&telemetry).scope("second").install().unwrap_err();
    assert!(format!("{:?}", again.into_inner()).contains("second"));
    thread::spawn(|| {
        counter!("orders").increment(2);
        gauge!("baskets").set(3);
        histogram!("duration").record(Duration::from_millis(1500));
    })
    .join()
    .unwrap();
    flush(&telemetry);
    let received = receiver.metrics();
    assert!(received.iter().all(|metric| metric.scope.name == "metrics"), "{received:?}");
    let Some(Data::Sum(sum)) = &named(&receiver, "orders")[0].data else { panic!() };
    assert!(sum.is_monotonic);
    assert_eq!(int(&sum.data_points[0]), 2);
    let Some(Data::Gauge(gauge)) = &named(&receiver, "baskets")[0].data else { panic!() };
    assert_eq!(float(&gauge.data_points[0]), 3.0);
    assert_eq!(histograms(&named(&receiver, "duration")[0])[0].sum, Some(1.5), "in seconds");
}

#[test]
fn labels_are_attributes_and_their_order_makes_no_difference() {
    let receiver = Receiver::start().unwrap();
    let (telemetry, recorder) = scene(&receiver);
    with_local_recorder(&recorder, || {
        let country = String::from("NO");
        counter!("orders").increment(1);
        counter!("orders", "country" => "SE", "kind" => "web").increment(2);
        counter!("orders", "kind" => "web", "country" => "SE").increment(4);
        counter!("orders", "country" => country.clone(), "kind" => "web").increment(8);
        counter!("orders", "kind" => "web", "country" => country).increment(16);
        // If a key occurs twice, its last value is used.
        counter!("orders", "country" => "DK", "country" => "SE", "kind" => "web").increment(32);
    });
    flush(&telemetry);
    let expected = map([("", 1), ("country=SE,kind=web", 38), ("country=NO,kind=web", 24)]);
    assert_eq!(ints(&receiver, "orders"), expected);
}

#[test]
fn an_absolute_value_never_makes_a_counter_fall() {
    let receiver = Receiver::start().unwrap();
    let (telemetry, recorder) = scene(&receiver);
    with_local_recorder(&recorder, || {
        let reported = |value| {
            counter!("orders").absolute(value);
            flush(&telemetry);
            int(&newest(&receiver, "orders")[0])
        };
        assert_eq!(reported(0), 0);
        assert_eq!(reported(10), 10);
        assert_eq!(reported(7), 10);
        counter!("orders").increment(5);
        assert_eq!(reported(12), 15, "increments count as well");
        assert_eq!(reported(20), 20);
        assert_eq!(reported(u64::MAX), i64::MAX, "OTLP has no larger number");
        counter!("orders").increment(u64::MAX);
        assert_eq!(reported(1), i64::MAX);
    });
}

#[test]
fn counters_are_exact_from_eight_threads_however_they_are_counted() {
    // Each of the 500 new counters is counted equally often.
    let steps = 500 * u64::from(size_within(5..=40));
    let receiver = Receiver::start().unwrap();
    let (telemetry, recorder) = scene(&receiver);
    on_eight_threads(&recorder, |thread| {
        let kept = counter!("kept");
        for step in 0..steps {
            counter!("found").increment(1);
            counter!("new", "step" => (step % 500).to_string()).increment(1);
            kept.increment(2);
            counter!("absolute").absolute(step);
            match thread % 2 {
                0 => counter!("mixed").increment(1),
                _ => counter!("mixed").absolute(step),
            }
        }
    });
    flush(&telemetry);
    let all = i64::from(THREADS) * steps as i64;
    assert_eq!(ints(&receiver, "found"), map([("", all)]));
    assert_eq!(ints(&receiver, "kept"), map([("", 2 * all)]));
    assert_eq!(ints(&receiver, "absolute"), map([("", steps as i64 - 1)]));
    let new = ints(&receiver, "new");
    assert_eq!((new.len(), new.values().all(|sum| *sum == all / 500)), (500, true), "{new:?}");
    let mixed = ints(&receiver, "mixed")[""];
    assert!((all / 2..=all / 2 + steps as i64).contains(&mixed), "{mixed}");
}

#[test]
fn gauges_are_exact_from_eight_threads() {
    let steps = size_within(10_000..=50_000);
    let receiver = Receiver::start().unwrap();
    let (telemetry, recorder) = scene(&receiver);
    with_local_recorder(&recorder, || gauge!("open", "door" => "front").set(100.0));
    on_eight_threads(&recorder, |_| {
        let kept = gauge!("open", "door" => "front");
        for _ in 0..steps {
            kept.increment(3);
            gauge!("open", "door" => "front").decrement(1.5);
            gauge!("from zero").decrement(0.25);
        }
    });
    flush(&telemetry);
    let all = f64::from(THREADS * steps);
    assert_eq!(float(&newest(&receiver, "open")[0]), 100.0 + 1.5 * all);
    assert_eq!(float(&newest(&receiver, "from zero")[0]), -0.25 * all);
    with_local_recorder(&recorder, || {
        gauge!("open", "door" => "front").set(-1.0);
        gauge!("open", "door" => "front").increment(f64::MAX);
        gauge!("open", "door" => "front").increment(f64::MAX);
        drop(gauge!("never set"));
    });
    flush(&telemetry);
    assert_eq!(float(&newest(&receiver, "open")[0]), f64::MAX, "at the end of the scale it stays there");
    assert!(named(&receiver, "never set").is_empty());
}

#[test]
fn a_gauge_goes_on_from_where_it_was_also_where_it_is_reported_only_when_it_changes() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).interval(FOR_EVER).temporality(Temporality::Delta));
    let recorder = MetricsRecorder::new(&telemetry);
    with_local_recorder(&recorder, || {
        for step in [5.0, -2.0, 0.5] {
            gauge!("open").increment(step);
            flush(&telemetry);
            flush(&telemetry);
        }
    });
    let reported: Vec<_> = named(&receiver, "open").iter().map(|metric| float(&numbers(metric)[0])).collect();
    assert_eq!(reported, [5.0, 3.0, 3.5]);
}

#[test]
fn histograms_have_the_default_bounds_or_their_own() {
    let receiver = Receiver::start().unwrap();
    let problems = Problems::default();
    let telemetry = problems.start(exporter(&receiver).interval(FOR_EVER));
    let recorder = MetricsRecorder::new(&telemetry).bounds("own", &[0.5, 1.0]).bounds("falling", &[2.0, 1.0]);
    with_local_recorder(&recorder, || {
        let _span = telemetry.tracer("t").span("exemplars belong to it");
        for name in ["default", "own", "falling"] {
            histogram!(name).record(0.25);
            histogram!(name).record_many(1.0, 3);
            histogram!(name).record_many(7.0, 0);
        }
    });
    flush(&telemetry);
    for (name, bounds) in [("default", 15), ("falling", 15), ("own", 2)] {
        let [point] = &histograms(&named(&receiver, name)[0])[..] else { panic!("{name}") };
        assert_eq!(point.explicit_bounds.len(), bounds, "{name}");
        let totals = (point.count, point.sum, point.min, point.max);
        assert_eq!(totals, (4, Some(3.25), Some(0.25), Some(1.0)), "{name}");
        let exemplars: Vec<_> =
            point.exemplars.iter().filter_map(|exemplar| exemplar.value.as_ref()).collect();
        assert!(!exemplars.is_empty() && !exemplars.contains(&&ExemplarValue::AsDouble(7.0)), "{name}");
    }
    assert_eq!(histograms(&named(&receiver, "own")[0])[0].bucket_counts, [1, 3, 0]);
    let reported = problems.wait_for(ProblemKind::Instrument);
    assert!(
        reported.message.starts_with("metric \"falling\": the default bounds replace invalid ones: "),
        "{reported}"
    );
}

#[test]
fn a_histogram_described_or_named_in_seconds_has_bounds_that_fit_seconds() {
    let test = TestTelemetry::start();
    let recorder = MetricsRecorder::new(&test).bounds("own.seconds", &[1.0]);
    with_local_recorder(&recorder, || {
        describe_histogram!("described", Unit::Seconds, "before its first use");
        describe_histogram!("other_seconds", Unit::Milliseconds, "a unit says more than a name");
        for name in ["described", "wait.seconds", "wait_seconds", "own.seconds", "other_seconds", "late"] {
            histogram!(name).record(Duration::from_millis(30));
        }
        describe_histogram!("late", Unit::Seconds, "after its first use");
        histogram!("late").record(Duration::from_millis(30));
    });
    let received = test.received();
    let summary = |name: &str| {
        let metric = received.metric(name).unwrap();
        let point = metric.point(()).unwrap();
        (metric.unit().to_owned(), point.bounds().len(), point.bounds().last().copied())
    };
    for (name, unit) in [("described", "s"), ("wait.seconds", ""), ("wait_seconds", "")] {
        assert_eq!(summary(name), (unit.to_owned(), 14, Some(10.0)), "{name}");
    }
    assert_eq!(summary("own.seconds"), (String::new(), 1, Some(1.0)));
    assert_eq!(summary("other_seconds"), ("ms".to_owned(), 15, Some(10_000.0)));
    assert_eq!(summary("late"), ("s".to_owned(), 15, Some(10_000.0)), "the bounds stay as they were");
}

#[test]
fn histograms_are_exponential_if_the_exporter_wants_them_to_be() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).interval(FOR_EVER).histograms(Histograms::Exponential));
    let recorder = MetricsRecorder::new(&telemetry).bounds("own", &[1.0]);
    with_local_recorder(&recorder, || {
        histogram!("duration").record(8.0);
        histogram!("duration").record_many(8.0, u32::MAX as usize);
        histogram!("duration").record_many(0.0, 2);
        histogram!("own").record(8.0);
    });
    flush(&telemetry);
    let [point] = &exponentials(&named(&receiver, "duration")[0])[..] else { panic!() };
    let positive = point.positive.as_ref().unwrap();
    assert_eq!((point.count, point.zero_count), ((1 << 32) + 2, 2));
    assert_eq!(positive.bucket_counts, [1 << 32]);
    assert_eq!(point.sum, Some(8.0 * (1_u64 << 32) as f64));
    assert_eq!(histograms(&named(&receiver, "own")[0])[0].bucket_counts, [0, 1]);
}

#[test]
fn histograms_are_exact_from_eight_threads() {
    let steps = u64::from(size_within(2_000..=10_000));
    let receiver = Receiver::start().unwrap();
    let (telemetry, recorder) = scene(&receiver);
    on_eight_threads(&recorder, |_| {
        for _ in 0..steps {
            histogram!("size").record(1.0);
            histogram!("size").record_many(100.0, 2);
        }
    });
    flush(&telemetry);
    let [point] = &histograms(&named(&receiver, "size")[0])[..] else { panic!() };
    let all = u64::from(THREADS) * steps;
    assert_eq!((point.count, point.sum), (3 * all, Some(201.0 * all as f64)));
    assert_eq!((point.bucket_counts[1], point.bucket_counts[6]), (all, 2 * all));
}

#[test]
fn a_description_counts_whether_it_comes_before_or_after_the_first_use() {
    let receiver = Receiver::start().unwrap();
    let (telemetry, recorder) = scene(&receiver);
    let words = |name: &str| {
        let metric = named(&receiver, name).pop().unwrap();
        (metric.unit, metric.description)
    };
    let said = |unit: &str, description: &str| (unit.to_owned(), description.to_owned());
    with_local_recorder(&recorder, || {
        describe_counter!("before.counter", Unit::Bytes, "sent");
        describe_gauge!("before.gauge", Unit::Percent, "full");
        describe_histogram!("before.histogram", Unit::Milliseconds, "late");
        describe_counter!("only.text", "no unit");
        describe_gauge!("never.used", "nobody sees it");
        // This describes a gauge, but the instrument of this name is a counter, so the description is not used.
        describe_gauge!("after.counter", Unit::Seconds, "no gauge of this name");
        for when in ["before", "after"] {
            counter!(format!("{when}.counter")).increment(1);
            gauge!(format!("{when}.gauge")).set(1.0);
            histogram!(format!("{when}.histogram")).record(1.0);
        }
        counter!("only.text").increment(1);
        flush(&telemetry);
        assert_eq!(words("before.counter"), said("By", "sent"));
        assert_eq!(words("before.gauge"), said("%", "full"));
        assert_eq!(words("before.histogram"), said("ms", "late"));
        assert_eq!(words("only.text"), said("", "no unit"));
        assert_eq!(words("after.counter"), said("", ""));

        describe_counter!("after.counter", Unit::Count, String::from("made up"));
        describe_gauge!("after.gauge", Unit::Kibibytes, "full");
        describe_histogram!("after.histogram", Unit::Seconds, "late");
        describe_counter!("before.counter", Unit::Seconds, "what is said first counts");
        counter!("after.counter").increment(1);
        flush(&telemetry);
        assert_eq!(words("after.counter"), said("{count}", "made up"));
        assert_eq!(words("after.gauge"), said("KiBy", "full"));
        assert_eq!(words("after.histogram"), said("s", "late"));
        assert_eq!(words("before.counter"), said("By", "sent"));
    });
    assert_eq!(int(&newest(&receiver, "after.counter")[0]), 2, "it is the same counter as before");
    assert!(named(&receiver, "never.used").is_empty());
}

#[test]
fn describing_while_others_measure_loses_nothing() {
    let receiver = Receiver::start().unwrap();
    let (telemetry, recorder) = scene(&receiver);
    on_eight_threads(&recorder, |thread| {
        for metric in 0..200 {
            match thread {
                0 => describe_counter!(format!("metric.{metric}"), Unit::Bytes, "described"),
                _ => counter!(format!("metric.{metric}")).increment(1),
            }
        }
    });
    flush(&telemetry);
    for metric in 0..200 {
        let [metric] = &named(&receiver, &format!("metric.{metric}"))[..] else { panic!("{metric}") };
        assert_eq!((metric.unit.as_str(), metric.description.as_str()), ("By", "described"));
        assert_eq!(int(&numbers(metric)[0]), i64::from(THREADS) - 1);
    }
}

#[test]
fn a_name_for_a_counter_and_a_gauge_is_sent_as_both_and_reported() {
    let receiver = Receiver::start().unwrap();
    let problems = Problems::default();
    let telemetry = problems.start(exporter(&receiver).interval(FOR_EVER));
    let recorder = MetricsRecorder::new(&telemetry);
    with_local_recorder(&recorder, || {
        counter!("orders").increment(1);
        gauge!("orders").set(2.5);
    });
    flush(&telemetry);
    let [counter, gauge] = &named(&receiver, "orders")[..] else { panic!() };
    assert_eq!((int(&numbers(counter)[0]), float(&numbers(gauge)[0])), (1, 2.5));
    let reported = problems.wait_for(ProblemKind::Instrument);
    let expected = "metric \"orders\" is defined twice, as a counter and as a gauge: both are sent; rename one, for example \
         with View::new(\"orders\").kind(InstrumentKind::Gauge).rename(\"…\")";
    assert_eq!(reported.message, expected);
}

#[test]
fn nan_and_infinities_are_left_out_and_reported_once() {
    let receiver = Receiver::start().unwrap();
    let problems = Problems::default();
    let telemetry = problems.start(exporter(&receiver).interval(FOR_EVER));
    let recorder = MetricsRecorder::new(&telemetry);
    with_local_recorder(&recorder, || {
        gauge!("level").set(4.0);
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            gauge!("level").set(bad);
            gauge!("level").increment(bad);
            gauge!("level").decrement(bad);
            histogram!("size").record(bad);
            histogram!("size").record_many(bad, 3);
        }
        histogram!("size").record(1.0);
    });
    flush(&telemetry);
    flush(&telemetry);
    assert_eq!(float(&newest(&receiver, "level")[0]), 4.0);
    assert_eq!(histograms(&named(&receiver, "size")[0])[0].count, 1);
    let reported: Vec<_> = problems.reported().into_iter().map(|problem| problem.message).collect();
    let expected = [("level", "a gauge"), ("size", "a histogram")].map(|(name, kind)| {
        format!("metric {name:?}: a NaN or infinite value is left out: {kind} does not accept it")
    });
    assert_eq!(reported, expected);
}

#[test]
fn each_exporter_is_reported_in_its_own_way() {
    let (one, other) = (Receiver::start().unwrap(), Receiver::start().unwrap());
    let config = Config::new()
        .exporter(exporter(&one).named("one").interval(FOR_EVER))
        .exporter(exporter(&other).named("other").interval(FOR_EVER).temporality(Temporality::Delta));
    let telemetry = start_with(config);
    let recorder = MetricsRecorder::new(&telemetry);
    with_local_recorder(&recorder, || {
        for (step, total) in [(1, 5), (2, 5), (3, 9)] {
            counter!("steps").increment(step);
            counter!("total").absolute(total);
            histogram!("size").record(1.0);
            gauge!("open").increment(1.0);
            flush(&telemetry);
        }
    });
    let sums = |receiver, name| -> Vec<_> {
        named(receiver, name).iter().map(|metric| int(&numbers(metric)[0])).collect()
    };
    assert_eq!((sums(&one, "steps"), sums(&other, "steps")), (vec![1, 3, 6], vec![1, 2, 3]));
    assert_eq!((sums(&one, "total"), sums(&other, "total")), (vec![5, 5, 9], vec![5, 0, 4]));
    let counts = |receiver| -> Vec<_> {
        named(receiver, "size").iter().map(|metric| histograms(metric)[0].count).collect()
    };
    assert_eq!((counts(&one), counts(&other)), (vec![1, 2, 3], vec![1, 1, 1]));
    for receiver in [&one, &other] {
        let values: Vec<_> =
            named(receiver, "open").iter().map(|metric| float(&numbers(metric)[0])).collect();
        assert_eq!(values, [1.0, 2.0, 3.0]);
    }
}

#[test]
fn what_is_beyond_the_limit_is_put_together_and_reported() {
    for temporality in [Temporality::Cumulative, Temporality::Delta] {
        let receiver = Receiver::start().unwrap();
        let problems = Problems::default();
        let telemetry = problems.start(exporter(&receiver).interval(FOR_EVER).temporality(temporality));
        let recorder = MetricsRecorder::new(&telemetry).cardinality_limit(3);
        with_local_recorder(&recorder, || {
            for customer in 0..10_u32 {
                let customer_of = || customer.to_string();
                counter!("orders", "customer" => customer_of()).increment(1);
                counter!("orders", "customer" => customer_of()).increment(1);
                counter!("total", "customer" => customer_of()).absolute(u64::from(customer) + 1);
                gauge!("open", "customer" => customer_of()).set(customer);
            }
        });
        flush(&telemetry);
        let rest = "otel.metric.overflow=true";
        assert_eq!(
            ints(&receiver, "orders"),
            map([("customer=0", 2), ("customer=1", 2), ("customer=2", 2), (rest, 14)])
        );
        assert_eq!(
            ints(&receiver, "total"),
            map([("customer=0", 1), ("customer=1", 2), ("customer=2", 3), (rest, 10)])
        );
        let open: Vec<_> = newest(&receiver, "open").iter().map(float).collect();
        assert_eq!(open, [0.0, 1.0, 2.0, 9.0]);
        let reported = problems.wait_for(ProblemKind::CardinalityLimit);
        assert!(
            reported.message.starts_with("metric \"orders\" has more than 3 sets of attributes"),
            "{reported}"
        );
    }
}

#[test]
fn two_thousand_sets_of_labels_are_distinguished_unless_another_limit_is_set() {
    let receiver = Receiver::start().unwrap();
    let (telemetry, recorder) = scene(&receiver);
    with_local_recorder(&recorder, || {
        for customer in 0..3000 {
            counter!("orders", "customer" => customer.to_string()).increment(1);
        }
    });
    flush(&telemetry);
    let points: Vec<_> = named(&receiver, "orders").iter().flat_map(numbers).collect();
    assert_eq!((points.len(), points.iter().map(int).sum::<i64>()), (2001, 3000));
}

#[test]
fn names_made_up_at_run_time_are_counted_beyond_any_number_but_sent_only_to_a_limit() {
    let receiver = Receiver::start().unwrap();
    let problems = Problems::default();
    let telemetry = problems.start(exporter(&receiver).interval(FOR_EVER));
    let recorder = MetricsRecorder::new(&telemetry);
    with_local_recorder(&recorder, || {
        for name in 0..10_010 {
            counter!(format!("metric.{name}")).increment(1);
        }
        describe_counter!("metric.10009", "too late");
        counter!("metric.9999").increment(1);
    });
    flush(&telemetry);
    assert_eq!(receiver.point_count(), 10_000);
    assert_eq!(int(&newest(&receiver, "metric.9999")[0]), 2);
    let reported = problems.wait_for(ProblemKind::Instrument);
    assert!(
        reported.message.starts_with("more than 10000 instruments: metric \"metric.10000\""),
        "{reported}"
    );
}

#[test]
fn a_recorder_has_its_scope_and_its_route() {
    let (main, application) = (Receiver::start().unwrap(), Receiver::start().unwrap());
    let config = Config::new()
        .exporter(exporter(&main).interval(FOR_EVER))
        .application(Application::new().exporter(exporter(&application).interval(FOR_EVER)));
    let telemetry = start_with(config);
    let of_main = MetricsRecorder::new(&telemetry).scope("shop");
    let of_application = MetricsRecorder::new(telemetry.application());
    with_local_recorder(&of_main, || counter!("orders").increment(1));
    with_local_recorder(&of_application, || counter!("orders").increment(2));
    telemetry.meter("shop").counter("orders").add(10, ());
    flush(&telemetry);
    for (receiver, scope, sum) in [(&main, "shop", 11), (&application, "metrics", 2)] {
        let received = receiver.metrics();
        assert_eq!((received.len(), received[0].scope.name.as_str()), (1, scope));
        assert_eq!(int(&newest(receiver, "orders")[0]), sum);
    }
}

#[test]
fn handles_outlive_their_telemetry() {
    let receiver = Receiver::start().unwrap();
    let (telemetry, recorder) = scene(&receiver);
    with_local_recorder(&recorder, || {
        let (orders, open) = (counter!("orders"), gauge!("open"));
        orders.increment(1);
        open.set(1.0);
        let ledger = telemetry.shutdown(LONG);
        assert_eq!((ledger.total().delivered, ledger.lost()), (2, 0), "{ledger}");
        orders.increment(1);
        open.increment(1.0);
        counter!("late").increment(1);
        histogram!("late.size", "new" => "label").record(1.0);
        describe_counter!("orders", Unit::Count, "late");
    });
    assert_eq!(receiver.point_count(), 2);
    assert_eq!(int(&newest(&receiver, "orders")[0]), 1);
}

#[test]
fn without_an_exporter_of_metrics_nothing_is_measured() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).signals([Signal::Traces]));
    let recorder = MetricsRecorder::new(&telemetry);
    with_local_recorder(&recorder, || {
        describe_counter!("orders", "paid ones");
        counter!("orders", "country" => "SE").increment(1);
        gauge!("open").increment(1.0);
        histogram!("size").record_many(1.0, 2);
    });
    flush(&telemetry);
    assert_eq!((telemetry.shutdown(LONG).total().accepted, receiver.request_count()), (0, 0));
}

#[test]
fn keys_with_any_number_of_labels_are_distinguished() {
    let receiver = Receiver::start().unwrap();
    let (telemetry, recorder) = scene(&receiver);
    let metadata = Metadata::new(module_path!(), Level::INFO, None);
    for round in 0..2 {
        for count in 0..12_usize {
            let mut labels: Vec<_> =
                (0..count).map(|number| Label::new(format!("label.{number:02}"), "value")).collect();
            if round == 1 {
                labels.reverse();
            }
            recorder.register_counter(&Key::from_parts("orders", labels), &metadata).increment(1);
        }
    }
    flush(&telemetry);
    let sums = ints(&receiver, "orders");
    assert_eq!((sums.len(), sums.values().all(|sum| *sum == 2)), (12, true), "{sums:?}");
}
