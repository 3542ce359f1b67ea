//! Invalid measurements and instruments, which must not break a batch, and the limit of series.

use standpipe::config::Temporality;
use standpipe::receiver::Receiver;
use standpipe::{FlushOutcome, ProblemKind};

use crate::support::points::{attributes, float, histograms, int, named, newest, numbers};
use crate::support::scene::{FOR_EVER, LONG, Problems, exporter, start};

#[test]
fn what_is_beyond_the_cardinality_limit_is_put_together_and_reported() {
    let receiver = Receiver::start().unwrap();
    let problems = Problems::default();
    let telemetry = problems.start(exporter(&receiver).interval(FOR_EVER));
    let orders = telemetry.meter("shop").counter("orders");
    for number in 0..3000 {
        orders.add(1, &[("customer", number)]);
    }
    let few = telemetry.meter("shop").build("few").cardinality_limit(2).counter();
    for number in 0..5 {
        few.add(1, &[("customer", number)]);
    }
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    let points: Vec<_> = named(&receiver, "orders").iter().flat_map(numbers).collect();
    assert_eq!(points.len(), 2001, "the overflow series does not count towards the limit");
    assert_eq!(points.iter().map(int).sum::<i64>(), 3000, "nothing is lost");
    let rest: Vec<_> =
        points.iter().filter(|p| attributes(&p.attributes) == "otel.metric.overflow=true").collect();
    assert_eq!(rest.iter().map(|point| int(point)).collect::<Vec<_>>(), [1000]);
    let points: Vec<_> =
        newest(&receiver, "few").iter().map(|p| (attributes(&p.attributes), int(p))).collect();
    let expected = [("customer=0", 1), ("customer=1", 1), ("otel.metric.overflow=true", 3)];
    assert_eq!(points, expected.map(|(set, sum)| (set.to_owned(), sum)));
    let reported = problems.wait_for(ProblemKind::CardinalityLimit);
    assert_eq!(
        reported.message,
        "metric \"orders\" has more than 2000 sets of attributes: further ones are aggregated under \
         otel.metric.overflow; remove attributes with many values, or raise cardinality_limit"
    );
}

#[test]
fn with_deltas_the_limit_holds_for_each_push() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).interval(FOR_EVER).temporality(Temporality::Delta));
    let orders = telemetry.meter("shop").counter("orders");
    let bound = orders.with(&[("customer", "bound")]);
    let pushes = [1500, 900, 1990, 10, 1990];
    for (push, customers) in (0..).zip(pushes) {
        for number in 0..customers {
            orders.add(1, &[("customer", push * 10_000 + number)]);
        }
        bound.add(1);
        assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    }
    let points: Vec<_> = named(&receiver, "orders").iter().flat_map(numbers).collect();
    assert_eq!(points.iter().map(int).sum::<i64>(), pushes.iter().sum::<i64>() + 5);
    assert!(points.iter().all(|point| attributes(&point.attributes) != "otel.metric.overflow=true"));
    let of_bound = points.iter().filter(|point| attributes(&point.attributes) == "customer=bound");
    assert_eq!(of_bound.map(int).collect::<Vec<_>>(), [1; 5]);
}

#[test]
fn observed_series_have_the_same_limit() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).interval(FOR_EVER));
    let builder = telemetry.meter("shop");
    builder.build("seen").cardinality_limit(3).observe_counter(|observer| {
        (0..10).for_each(|number| observer.observe(1, &[("n", number)]));
    });
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    let points: Vec<_> =
        newest(&receiver, "seen").iter().map(|p| (attributes(&p.attributes), int(p))).collect();
    let expected = [("n=0", 1), ("n=1", 1), ("n=2", 1), ("otel.metric.overflow=true", 7)];
    assert_eq!(points, expected.map(|(set, sum)| (set.to_owned(), sum)));
}

#[test]
fn nan_infinities_and_falling_counters_are_left_out_and_reported() {
    let receiver = Receiver::start().unwrap();
    let problems = Problems::default();
    let telemetry = problems.start(exporter(&receiver).interval(FOR_EVER));
    let meter = telemetry.meter("shop");
    let revenue = meter.build("revenue").counter_f64();
    let (level, size) = (meter.gauge("level"), meter.histogram("size"));
    let exponential = meter.build("fine").exponential().histogram();
    let balance = meter.build("balance").up_down_counter_f64();
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        revenue.add(bad, ());
        level.record(bad, ());
        size.record(bad, ());
        exponential.record(bad, ());
        balance.add(bad, ());
    }
    revenue.add(-1.0, ());
    for good in [1.0, 2.0] {
        revenue.add(good, ());
        level.record(good, ());
        size.record(good, ());
        balance.add(-good, ());
    }
    meter.build("asked").observe_gauge(|observer| {
        observer.observe(f64::NAN, &[("bad", true)]);
        observer.observe(3.0, &[("bad", false)]);
    });
    meter.build("fallen").observe_counter_f64(|observer| observer.observe(-1.0, ()));
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    assert!(named(&receiver, "fallen").is_empty(), "a counter below zero is none");
    assert_eq!(float(&newest(&receiver, "revenue")[0]), 3.0);
    assert_eq!(float(&newest(&receiver, "level")[0]), 2.0);
    assert_eq!(float(&newest(&receiver, "balance")[0]), -3.0);
    assert_eq!(float(&newest(&receiver, "asked")[0]), 3.0);
    let point = histograms(&named(&receiver, "size")[0]).pop().unwrap();
    assert_eq!((point.count, point.sum, point.max), (2, Some(3.0), Some(2.0)));
    assert!(named(&receiver, "fine").is_empty(), "nothing good was measured");
    // Each problem is reported once, however often it happens.
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    let mut reported: Vec<_> = problems.reported().into_iter().map(|problem| problem.message).collect();
    reported.sort();
    let expected = [
        ("asked", "NaN or infinite", "a gauge"),
        ("balance", "NaN or infinite", "an up-down counter of floats"),
        ("fallen", "negative", "a counter of floats"),
        ("fine", "NaN or infinite", "a histogram"),
        ("level", "NaN or infinite", "a gauge"),
        ("revenue", "NaN or infinite", "a counter of floats"),
        ("size", "NaN or infinite", "a histogram"),
    ];
    let expected = expected.map(|(name, what, kind)| {
        format!("metric {name:?}: a {what} value is left out: {kind} does not accept it")
    });
    assert_eq!(reported, expected);
}

#[test]
fn what_a_callback_observes_beyond_the_limit_is_reported_as_well() {
    let receiver = Receiver::start().unwrap();
    let problems = Problems::default();
    let telemetry = problems.start(exporter(&receiver).interval(FOR_EVER));
    let meter = telemetry.meter("shop");
    let few = meter.build("few").cardinality_limit(2);
    few.observe_counter(|observer| (0..5).for_each(|number| observer.observe(1, &[("customer", number)])));
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    let reported = problems.wait_for(ProblemKind::CardinalityLimit);
    let expected = "metric \"few\" has more than 2 sets of attributes: further ones are aggregated under \
         otel.metric.overflow; remove attributes with many values, or raise cardinality_limit";
    assert_eq!(reported.message, expected);
}

#[test]
fn a_counter_and_a_callback_of_one_name_are_both_sent_and_reported() {
    let receiver = Receiver::start().unwrap();
    let problems = Problems::default();
    let telemetry = problems.start(exporter(&receiver).interval(FOR_EVER));
    let meter = telemetry.meter("shop");
    meter.counter("orders").add(1, ());
    meter.build("orders").observe_counter(|observer| observer.observe(2, ()));
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    assert_eq!(named(&receiver, "orders").len(), 2);
    let reported = problems.wait_for(ProblemKind::Instrument);
    let expected = "metric \"orders\" is defined twice, as a counter and as a counter with a callback: both are sent; \
                    rename one, for example with \
                    View::new(\"orders\").kind(InstrumentKind::ObservableCounter).rename(\"…\")";
    assert_eq!(reported.message, expected);
}

#[test]
fn instruments_that_contradict_each_other_are_both_sent_and_reported() {
    let receiver = Receiver::start().unwrap();
    let problems = Problems::default();
    let telemetry = problems.start(exporter(&receiver).interval(FOR_EVER));
    let meter = telemetry.meter("shop");
    meter.counter("orders").add(1, ());
    meter.build("orders").unit("ms").histogram().record(1.0, ());
    meter.build("orders").unit("ms").histogram().record(1.0, ());
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    assert_eq!(named(&receiver, "orders").len(), 2);
    let reported = problems.wait_for(ProblemKind::Instrument);
    let expected = "metric \"orders\" is defined twice, as a counter and as a histogram in \"ms\": both are sent; rename \
                    one, for example with View::new(\"orders\").kind(InstrumentKind::Histogram).rename(\"…\")";
    assert_eq!(reported.message, expected);
}

#[test]
fn bounds_that_make_no_sense_are_reported_and_the_default_ones_used() {
    let receiver = Receiver::start().unwrap();
    let problems = Problems::default();
    let telemetry = problems.start(exporter(&receiver).interval(FOR_EVER));
    telemetry.meter("shop").build("size").bounds(&[2.0, 1.0]).histogram().record(1.0, ());
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    assert_eq!(histograms(&named(&receiver, "size")[0])[0].explicit_bounds.len(), 15);
    let reported = problems.wait_for(ProblemKind::Instrument);
    assert!(
        reported.message.starts_with("metric \"size\": the default bounds replace invalid ones: "),
        "{reported}"
    );
}

#[test]
fn a_name_that_is_none_is_sent_as_it_is_and_reported() {
    let receiver = Receiver::start().unwrap();
    let problems = Problems::default();
    let telemetry = problems.start(exporter(&receiver).interval(FOR_EVER));
    telemetry.meter("shop").counter("1 order").add(1, ());
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    assert_eq!(int(&newest(&receiver, "1 order")[0]), 1);
    let reported = problems.wait_for(ProblemKind::Instrument);
    assert!(reported.message.starts_with("metric \"1 order\" has an invalid name: "), "{reported}");
}

#[test]
fn a_series_too_large_for_any_request_is_counted_and_harms_no_other() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).interval(FOR_EVER).batch_bytes(4096));
    let orders = telemetry.meter("shop").counter("orders");
    orders.add(1, &[("note", "x".repeat(8000).as_str())]);
    orders.add(2, &[("note", "short")]);
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    let points: Vec<_> =
        named(&receiver, "orders").iter().flat_map(numbers).map(|point| int(&point)).collect();
    assert_eq!(points, [2]);
    let counts = telemetry.ledger().exporters[0].metrics;
    assert_eq!((counts.delivered, counts.not_enqueued.too_large), (1, 1), "{counts}");
}

#[test]
fn a_part_of_a_metric_leaves_room_for_a_scope_with_a_long_name() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).interval(FOR_EVER).batch_bytes(4096));
    let orders = telemetry.meter(&"x".repeat(500)).counter("orders");
    (0..1000).for_each(|customer| orders.add(1, &[("customer", customer)]));
    let counts = telemetry.shutdown(LONG).exporters[0].metrics;
    assert_eq!((counts.delivered, counts.lost()), (1000, 0), "{counts}");
}
