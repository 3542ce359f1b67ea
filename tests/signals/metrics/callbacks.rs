//! Observable instruments.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::sync::mpsc;

use standpipe::config::Temporality;
use standpipe::receiver::Receiver;
use standpipe::{Config, FlushOutcome, ProblemKind};

use super::wait_until;
use crate::support::points::{attributes, float, int, named, newest, numbers};
use crate::support::scene::{A_WHILE, FOR_EVER, LONG, Problems, exporter, start, start_with};

#[test]
fn every_kind_can_be_observed() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).interval(FOR_EVER));
    let meter = telemetry.meter("process");
    meter.build("requests").unit("{request}").observe_counter(|o| o.observe(7, &[("kind", "web")]));
    meter.build("seconds").observe_counter_f64(|o| o.observe(1.5, ()));
    meter.build("queue").observe_up_down_counter(|o| o.observe(-2, ()));
    meter.build("balance").observe_up_down_counter_f64(|o| o.observe(-0.5, ()));
    meter.build("load").observe_gauge(|o| o.observe(0.25, ()));
    meter.build("offset").observe_gauge_i64(|o| o.observe(-1, ()));
    meter.build("memory").observe_gauge_u64(|o| {
        o.observe(1, ());
        o.observe(2, ());
    });
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    assert_eq!(int(&newest(&receiver, "requests")[0]), 7);
    assert_eq!(attributes(&newest(&receiver, "requests")[0].attributes), "kind=web");
    assert_eq!(named(&receiver, "requests")[0].unit, "{request}");
    assert_eq!(float(&newest(&receiver, "seconds")[0]), 1.5);
    assert_eq!(int(&newest(&receiver, "queue")[0]), -2);
    assert_eq!(float(&newest(&receiver, "balance")[0]), -0.5);
    assert_eq!(float(&newest(&receiver, "load")[0]), 0.25);
    assert_eq!(int(&newest(&receiver, "offset")[0]), -1);
    let memory: Vec<_> = newest(&receiver, "memory").iter().map(int).collect();
    assert_eq!(memory, [2], "of two values with the same attributes the last one counts");
}

#[test]
fn a_panicking_callback_is_reported_and_the_rest_is_collected() {
    let receiver = Receiver::start().unwrap();
    let problems = Problems::default();
    let telemetry = problems.start(exporter(&receiver).interval(FOR_EVER));
    let meter = telemetry.meter("shop");
    meter.counter("before").add(1, ());
    meter.build("broken").observe_gauge(|observer| {
        observer.observe(1.0, &[("said", "before the end")]);
        panic!("on purpose");
    });
    meter.counter("after").add(1, ());
    for _ in 0..2 {
        assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    }
    for name in ["before", "broken", "after"] {
        assert_eq!(named(&receiver, name).len(), 2, "{name}");
    }
    let reported = problems.wait_for(ProblemKind::CallbackPanicked);
    assert_eq!(reported.message, "the callback of metric \"broken\" panicked: on purpose");
    assert_eq!(telemetry.shutdown(LONG).lost(), 0);
}

#[test]
fn deltas_of_what_is_observed_are_the_steps_between_two_pushes() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).interval(FOR_EVER).temporality(Temporality::Delta));
    let meter = telemetry.meter("shop");
    let total = Arc::new(AtomicU32::new(10));
    let observed = Arc::clone(&total);
    meter.build("bytes").observe_counter(move |o| o.observe(observed.load(Ordering::SeqCst).into(), ()));
    for value in [10, 15, 15, 40, 3] {
        total.store(value, Ordering::SeqCst);
        assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    }
    let steps: Vec<_> = named(&receiver, "bytes").iter().flat_map(numbers).map(|point| int(&point)).collect();
    assert_eq!(steps, [10, 5, 0, 25, 3], "one that went back was started anew");
}

#[test]
fn a_callback_may_use_the_telemetry_it_belongs_to() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).interval(FOR_EVER));
    let meter = telemetry.meter("shop");
    let (tracer, inner) = (telemetry.tracer("shop"), meter.clone());
    meter.build("asked").observe_gauge(move |observer| {
        inner.counter("made within").add(1, ());
        tracer.span("of the worker").set("lost", true);
        observer.observe(1.0, ());
    });
    for _ in 0..2 {
        assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    }
    assert_eq!(named(&receiver, "asked").len(), 2);
    assert!(int(&newest(&receiver, "made within")[0]) >= 1);
    assert_eq!(
        receiver.span_count(),
        0,
        "what happens on the worker's thread is no telemetry of the program"
    );
}

#[test]
fn a_callback_that_is_stopped_is_called_no_more() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).interval(FOR_EVER));
    let meter = telemetry.meter("shop");
    let asked = Arc::new(AtomicI32::new(0));
    let count = Arc::clone(&asked);
    let observation = meter
        .build("asked")
        .observe_gauge_i64(move |o| o.observe(count.fetch_add(1, Ordering::SeqCst).into(), ()));
    meter.build("other").observe_gauge(|o| o.observe(1.0, ()));
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    observation.stop();
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    assert_eq!(named(&receiver, "other").len(), 2);
}

#[test]
fn a_callback_that_hangs_does_not_hold_up_the_shutdown_or_another_exporter() {
    let (one, other) = (Receiver::start().unwrap(), Receiver::start().unwrap());
    let config = Config::new()
        .exporter(exporter(&one).named("one").interval(FOR_EVER))
        .exporter(exporter(&other).named("other").interval(FOR_EVER).signals([standpipe::Signal::Traces]));
    let telemetry = start_with(config);
    let (let_go, held) = mpsc::channel::<()>();
    let held = std::sync::Mutex::new(held);
    let (begin, begun) = mpsc::channel();
    telemetry.meter("shop").build("slow").observe_gauge(move |_| {
        let _ = begin.send(());
        let _ = held.lock().unwrap().recv_timeout(2 * LONG);
    });
    let _ = telemetry.flush(A_WHILE);
    begun.recv_timeout(LONG).expect("it is called");
    telemetry.tracer("shop").span("work").end();
    wait_until(|| telemetry.ledger().exporters[1].traces.delivered == 1);
    let begun = std::time::Instant::now();
    let ledger = telemetry.shutdown(std::time::Duration::from_millis(300));
    assert!(begun.elapsed() < std::time::Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_eq!(ledger.exporters[1].traces.delivered, 1, "{ledger}");
    drop(let_go);
}
