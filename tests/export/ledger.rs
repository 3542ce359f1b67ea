//! Every record is counted at every moment, and the receiver has the same count.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use standpipe::ledger::Counts;
use standpipe::receiver::{Answer, Receiver};
use standpipe::{Config, FlushOutcome, Ledger, Severity, Telemetry, WhenFull};

use crate::support::scene::{A_WHILE, LONG, SetWhenDropped, emit, exporter, gathering, start, start_with};
use crate::support::size_within;

const PRODUCERS: u64 = 4;
const QUEUE: usize = 500;

fn spans_each() -> u64 {
    size_within(750..=3000).into()
}

/// Returns successes and failures, twenty times each. No failure delays the exporter by more than a back-off.
fn misbehaviour() -> impl Iterator<Item = Answer> {
    let answers = [
        Answer::ok(),
        Answer::status(503),
        Answer::status(400).message("no"),
        Answer::partial(3, "three are too old"),
        Answer::reset(),
        Answer::status(413),
        Answer::close(),
        Answer::ok().cut_short(),
        Answer::status(429).retry_after("0"),
        Answer::reset_after_request(),
        Answer::empty_partial(),
        Answer::garbage("HTTP/1.1 2"),
        Answer::ok().then_close(),
        Answer::status(500),
    ];
    std::iter::repeat_n(answers, 20).flatten()
}

fn balance(counts: &Counts) -> u64 {
    counts.delivered + counts.rejected + counts.dropped.total() + counts.in_flight
}

/// Numbers of records that producers have begun and finished to emit.
#[derive(Default)]
struct Emitted {
    begun: AtomicU32,
    done: AtomicU32,
}

fn the_ledger_balances_while(when_full: WhenFull) {
    let receiver = Receiver::builder().first_answers(misbehaviour()).start().unwrap();
    let telemetry = start(exporter(&receiver).queue_records(QUEUE).batch_records(100).when_full(when_full));
    let emitted = Emitted::default();
    let (over, samples) = (AtomicBool::new(false), AtomicU32::new(0));
    thread::scope(|scope| {
        let sampler = scope.spawn(|| {
            let mut before = Counts::default();
            while !over.load(Ordering::SeqCst) {
                let done = u64::from(emitted.done.load(Ordering::SeqCst));
                let now = telemetry.ledger().total();
                let begun = u64::from(emitted.begun.load(Ordering::SeqCst));
                let arrived = receiver.span_count();
                assert_eq!(now.accepted, balance(&now), "{now}");
                let known = now.accepted + now.not_enqueued.total();
                assert!((done..=begun).contains(&known), "{done} to {begun} were emitted: {now}");
                assert!(now.in_flight <= QUEUE as u64, "more than the queue may hold: {now}");
                assert!(now.delivered <= arrived, "only {arrived} arrived: {now}");
                assert!(
                    now.accepted >= before.accepted
                        && now.delivered >= before.delivered
                        && now.lost() >= before.lost(),
                    "{before}, then {now}"
                );
                before = now;
                samples.fetch_add(1, Ordering::SeqCst);
            }
        });
        let wait_for_samples = |count| {
            while samples.load(Ordering::SeqCst) < count && !sampler.is_finished() {
                thread::yield_now();
            }
        };
        let sampled_enough = SetWhenDropped(&over);
        wait_for_samples(1);
        let producers: Vec<_> = (0..PRODUCERS)
            .map(|_| {
                let tracer = telemetry.tracer("shop");
                let emitted = &emitted;
                scope.spawn(move || {
                    for number in 0..spans_each() {
                        emitted.begun.fetch_add(1, Ordering::SeqCst);
                        tracer.span("work").set("number", number as i64);
                        emitted.done.fetch_add(1, Ordering::SeqCst);
                    }
                })
            })
            .collect();
        producers.into_iter().for_each(|producer| producer.join().unwrap());
        assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
        wait_for_samples(10);
        drop(sampled_enough);
        sampler.join().unwrap();
    });
    let ledger = telemetry.shutdown(LONG);
    let total = ledger.total();
    assert_eq!(total.in_flight, 0, "{ledger}");
    assert_eq!(total.delivered + ledger.lost(), PRODUCERS * spans_each(), "{ledger}");
    assert_eq!(total.delivered, receiver.span_count(), "{ledger}");
    assert!(total.rejected > 0 && total.dropped.refused > 0, "{ledger}");
    let ids: HashSet<_> = receiver.spans().iter().map(|received| received.span.span_id.clone()).collect();
    assert_eq!(ids.len() as u64, total.delivered, "some arrived twice");
    if when_full == WhenFull::Block {
        assert_eq!(total.accepted, PRODUCERS * spans_each(), "{ledger}");
    }
}

#[test]
fn the_ledger_balances_at_every_moment_while_callers_wait_and_the_collector_misbehaves() {
    the_ledger_balances_while(WhenFull::Block);
}

#[test]
fn the_ledger_balances_at_every_moment_while_records_are_dropped_and_the_collector_misbehaves() {
    the_ledger_balances_while(WhenFull::DropNewest);
}

#[test]
fn the_ledger_balances_when_a_shutdown_interrupts_everything() {
    let receiver = Receiver::start().unwrap();
    receiver.script([Answer::ok(), Answer::ok(), Answer::hang()]);
    let telemetry = start(exporter(&receiver).queue_records(50).batch_records(10));
    let emitted = AtomicU32::new(0);
    thread::scope(|scope| {
        for _ in 0..PRODUCERS {
            let (tracer, emitted) = (telemetry.tracer("shop"), &emitted);
            scope.spawn(move || {
                for _ in 0..100 {
                    emit(&tracer, 1);
                    emitted.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        assert!(receiver.wait_for_requests(3, LONG));
        let total = telemetry.shutdown(A_WHILE).total();
        assert_eq!((total.accepted, total.in_flight), (balance(&total), 0), "{total}");
        assert!(total.dropped.shutdown > 0, "{total}");
    });
    // The scope has joined all callers: none is blocked, although no worker takes their records any more.
    let total = telemetry.ledger().total();
    let emitted = u64::from(emitted.into_inner());
    assert_eq!(total.accepted + total.not_enqueued.after_shutdown, emitted, "{total}");
    assert_eq!(total.delivered, receiver.span_count(), "{total}");
}

#[test]
fn flushes_and_shutdowns_at_the_same_time_are_safe() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).queue_records(200));
    let ledgers: Vec<Ledger> = thread::scope(|scope| {
        for _ in 0..2 {
            let tracer = telemetry.tracer("shop");
            scope.spawn(move || emit(&tracer, 2000));
        }
        for _ in 0..3 {
            scope.spawn(|| (0..20).for_each(|_| assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete)));
        }
        let shutdowns: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    assert!(receiver.wait_for_spans(500, LONG));
                    telemetry.shutdown(LONG)
                })
            })
            .collect();
        shutdowns.into_iter().map(|shutdown| shutdown.join().unwrap()).collect()
    });
    for ledger in ledgers {
        let total = ledger.total();
        assert_eq!((total.delivered, total.dropped.total()), (total.accepted, 0), "{ledger}");
        assert_eq!(total.delivered, receiver.span_count(), "{ledger}");
    }
    let total = telemetry.ledger().total();
    assert_eq!(total.accepted + total.not_enqueued.after_shutdown, 4000, "{total}");
}

#[test]
fn a_second_shutdown_only_gives_the_ledger_again() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver));
    emit(&telemetry.tracer("shop"), 5);
    let first = telemetry.shutdown(LONG);
    assert_eq!(first.total().delivered, 5, "{first}");
    receiver.stop_listening();
    let begun = Instant::now();
    assert_eq!(telemetry.shutdown(LONG), first);
    assert_eq!(telemetry.shutdown(Duration::ZERO), first);
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    assert_eq!(telemetry.ledger(), first);
    assert!(begun.elapsed() < LONG / 2, "{:?}", begun.elapsed());
}

#[test]
fn a_second_shutdown_does_not_cut_the_first_one_short() {
    let receiver = Receiver::start().unwrap();
    receiver.pause();
    let telemetry = start(gathering(&receiver));
    emit(&telemetry.tracer("shop"), 5);
    thread::scope(|scope| {
        let (done, ended) = mpsc::channel();
        let telemetry = &telemetry;
        scope.spawn(move || done.send(telemetry.shutdown(LONG)).unwrap());
        assert!(receiver.wait_for_held(1, LONG));
        let second = telemetry.shutdown(Duration::from_millis(1)).total();
        assert_eq!((second.in_flight, second.lost()), (5, 0), "{second}");
        receiver.resume();
        let first = ended.recv_timeout(LONG).unwrap().total();
        assert_eq!((first.delivered, first.lost()), (5, 0), "{first}");
    });
}

#[test]
fn a_flush_that_runs_out_of_time_says_how_much_is_left() {
    let receiver = Receiver::start().unwrap();
    receiver.pause();
    let telemetry = start(exporter(&receiver));
    emit(&telemetry.tracer("shop"), 5);
    assert_eq!(telemetry.flush(Duration::from_millis(20)), FlushOutcome::TimedOut { left: 5 });
    receiver.resume();
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    assert_eq!(telemetry.ledger().total().delivered, 5);
}

#[test]
fn the_ledger_counts_every_exporter_by_itself_and_adds_them_up() {
    let (willing, unwilling) = (Receiver::start().unwrap(), Receiver::start().unwrap());
    unwilling.always(Answer::status(400));
    let config = Config::new()
        .exporter(gathering(&willing).named("willing"))
        .exporter(gathering(&unwilling).named("unwilling"));
    let telemetry = start_with(config);
    emit(&telemetry.tracer("shop"), 5);
    let ledger = telemetry.shutdown(LONG);
    let [of_willing, of_unwilling] = &ledger.exporters[..] else { panic!("{ledger}") };
    assert_eq!(
        (of_willing.name.as_str(), of_willing.traces.delivered, of_willing.attempts),
        ("willing", 5, 1)
    );
    assert_eq!(
        (of_unwilling.name.as_str(), of_unwilling.traces.dropped.refused, of_unwilling.attempts),
        ("unwilling", 5, 1)
    );
    assert_eq!((ledger.total().accepted, ledger.total().delivered, ledger.lost()), (10, 5, 5));
}

#[test]
fn the_ledger_serialises_with_the_names_of_its_fields() {
    let receiver = Receiver::start().unwrap();
    receiver.script([Answer::partial(2, "two")]);
    let telemetry = start(gathering(&receiver));
    emit(&telemetry.tracer("shop"), 5);
    let ledger = telemetry.shutdown(LONG);
    emit(&telemetry.tracer("shop"), 1);
    let written = toml::Table::try_from(telemetry.ledger()).unwrap();
    let exporter = &written["exporters"][0];
    assert_eq!((exporter["name"].as_str(), exporter["attempts"].as_integer()), (Some("otlp"), Some(1)));
    let traces = &exporter["traces"];
    for (name, count) in [("accepted", 5), ("delivered", 3), ("rejected", 2), ("in_flight", 0)] {
        assert_eq!(traces[name].as_integer(), Some(count), "{name}");
    }
    for name in ["refused", "gave_up", "too_large", "shutdown", "worker_panicked"] {
        assert_eq!(traces["dropped"][name].as_integer(), Some(0), "{name}");
    }
    for (name, count) in [("queue_full", 0), ("too_large", 0), ("after_shutdown", 1)] {
        assert_eq!(traces["not_enqueued"][name].as_integer(), Some(count), "{name}");
    }
    for name in ["suppressed", "no_worker", "panicked"] {
        assert_eq!(traces["not_enqueued"][name].as_integer(), Some(0), "{name}");
    }
    assert_eq!(ledger.total().rejected, 2);
}

/// Runs a program whose first request fails, and whose hook then calls `hook` on the exporter's thread.
///
/// Returns the final ledger.
fn with_hook(hook: impl Fn(&Telemetry) + Send + Sync + 'static) -> Ledger {
    let receiver = Receiver::start().unwrap();
    receiver.script([Answer::status(503)]);
    let program = Arc::new(OnceLock::<Telemetry>::new());
    let of_hook = Arc::clone(&program);
    let config = Config::new()
        .service_name("shop")
        .exporter(exporter(&receiver).level(Severity::Info))
        .on_problem(move |_| hook(of_hook.get().unwrap()));
    let telemetry = program.get_or_init(|| start_with(config));
    emit(&telemetry.tracer("shop"), 1);
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    let ledger = telemetry.shutdown(LONG);
    assert_eq!((ledger.total().accepted, ledger.total().delivered), (1, 1), "{ledger}");
    ledger
}

#[test]
fn what_a_hook_records_is_counted_as_suppressed() {
    let ledger = with_hook(|telemetry| {
        let (tracer, logger) = (telemetry.tracer("hook"), telemetry.logger("hook"));
        let outer = tracer.span("outer");
        assert!(!outer.is_recording() && !logger.is_enabled(Severity::Info));
        tracer.span("inner").end();
        drop(outer);
        tracer.span_builder("detached").detached().end();
        logger.info("said").emit();
        logger.debug("not taken by any exporter").emit();
    });
    let of_exporter = &ledger.exporters[0];
    let (traces, logs) = (of_exporter.traces.not_enqueued, of_exporter.logs.not_enqueued);
    assert_eq!((traces.suppressed, traces.total()), (3, 3), "{ledger}");
    assert_eq!((logs.suppressed, logs.total()), (1, 1), "{ledger}");
}

#[test]
fn a_hook_may_record_for_another_telemetry() {
    let receiver = Receiver::start().unwrap();
    let other = Arc::new(start(gathering(&receiver)));
    let of_hook = Arc::clone(&other);
    let ledger = with_hook(move |_| {
        let (tracer, logger) = (of_hook.tracer("hook"), of_hook.logger("hook"));
        assert!(logger.is_enabled(Severity::Info));
        let _outer = tracer.span("outer");
        tracer.span("inner").end();
        tracer.span_builder("detached").detached().end();
        logger.info("said").emit();
    });
    assert_eq!(ledger.lost(), 0, "{ledger}");
    let ledger = other.shutdown(LONG);
    assert_eq!((receiver.span_count(), receiver.log_count(), ledger.lost()), (3, 1, 0), "{ledger}");
}

#[test]
fn what_a_callback_records_is_counted_as_suppressed() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(gathering(&receiver));
    let tracer = telemetry.tracer("callback");
    telemetry.meter("shop").build("stock").observe_gauge(move |observer| {
        tracer.span("counting").end();
        observer.observe(7.0, ());
    });
    let ledger = telemetry.shutdown(LONG);
    let not_enqueued = ledger.exporters[0].traces.not_enqueued;
    assert_eq!((not_enqueued.suppressed, ledger.lost()), (1, 1), "{ledger}");
}
