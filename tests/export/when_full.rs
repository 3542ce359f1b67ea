//! If the queue is full, the caller waits, or the record is dropped. In both cases the record is counted.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver as Progress, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use standpipe::receiver::Receiver;
use standpipe::{Config, FlushOutcome, ProblemKind, Signal, Tracer, WhenFull};

use crate::support::scene::{
    A_WHILE, LONG, NOISE, Problems, emit, emit_in_time, exporter, start, start_with,
};

/// A receiver that holds its requests: nothing is settled before it is resumed.
fn shut_gate() -> Receiver {
    let receiver = Receiver::start().unwrap();
    receiver.pause();
    receiver
}

/// Starts a thread that emits spans one by one, and reports the number of each once it is enqueued or counted.
fn caller(tracer: &Tracer, spans: u64) -> (JoinHandle<()>, Progress<u64>) {
    let (progress, emitted) = mpsc::channel();
    let tracer = tracer.clone();
    let thread = thread::spawn(move || {
        for number in 0..spans {
            tracer.span("work").set("number", number as i64);
            progress.send(number).unwrap();
        }
    });
    (thread, emitted)
}

/// Emits spans with a text of this many bytes. Fails if the caller waits forever.
fn emit_large_in_time(tracer: &Tracer, bytes: usize, spans: u64) {
    let (done, ended) = mpsc::channel();
    let tracer = tracer.clone();
    thread::spawn(move || {
        let text = "x".repeat(bytes);
        for _ in 0..spans {
            tracer.span("large").set("text", text.as_str());
        }
        done.send(())
    });
    assert_eq!(ended.recv_timeout(LONG), Ok(()), "the caller was not let go");
}

fn assert_waiting(emitted: &Progress<u64>) {
    assert_eq!(emitted.recv_timeout(A_WHILE), Err(RecvTimeoutError::Timeout), "the caller did not wait");
}

#[test]
fn a_caller_waits_for_room_and_loses_nothing() {
    let receiver = shut_gate();
    let telemetry = start(exporter(&receiver).queue_records(4));
    let (thread, emitted) = caller(&telemetry.tracer("shop"), 10);
    for number in 0..4 {
        assert_eq!(emitted.recv_timeout(LONG), Ok(number));
    }
    assert_waiting(&emitted);
    let total = telemetry.ledger().total();
    assert_eq!((total.accepted, total.in_flight, total.lost()), (4, 4, 0));
    receiver.resume();
    for number in 4..10 {
        assert_eq!(emitted.recv_timeout(LONG), Ok(number));
    }
    thread.join().unwrap();
    let ledger = telemetry.shutdown(LONG);
    assert_eq!((ledger.total().delivered, ledger.lost()), (10, 0), "{ledger}");
    assert_eq!(receiver.span_count(), 10);
}

#[test]
fn a_queue_is_full_by_its_bytes_too() {
    let receiver = shut_gate();
    let telemetry = start(exporter(&receiver).queue_bytes(4096).when_full(WhenFull::DropNewest));
    let tracer = telemetry.tracer("shop");
    emit_large_in_time(&tracer, 1000, 10);
    // Three records of slightly more than 1000 bytes; a small one still fits.
    let total = telemetry.ledger().total();
    assert_eq!((total.accepted, total.not_enqueued.queue_full), (3, 7));
    emit_in_time(&tracer, 1);
    assert_eq!(telemetry.ledger().total().accepted, 4);
    receiver.resume();
    let ledger = telemetry.shutdown(LONG);
    assert_eq!((ledger.total().delivered, ledger.lost()), (4, 7), "{ledger}");
    assert_eq!(receiver.span_count(), 4);
}

#[test]
fn a_lossy_queue_drops_the_newest_and_counts_each() {
    let receiver = shut_gate();
    let problems = Problems::default();
    let telemetry = problems.start(exporter(&receiver).queue_records(4).when_full(WhenFull::DropNewest));
    let tracer = telemetry.tracer("shop");
    emit_in_time(&tracer, 10);
    let total = telemetry.ledger().total();
    assert_eq!((total.accepted, total.in_flight, total.not_enqueued.queue_full), (4, 4, 6));
    receiver.resume();
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    // There is room again for one more span.
    tracer.span("work").set("number", 10);
    let ledger = telemetry.shutdown(LONG);
    let total = ledger.total();
    assert_eq!((total.delivered, total.not_enqueued.queue_full, ledger.lost()), (5, 6, 6), "{ledger}");
    let spans = receiver.spans();
    let numbers: Vec<_> =
        spans.iter().map(|received| received.attribute("number").as_i64().unwrap()).collect();
    assert_eq!(numbers, [0, 1, 2, 3, 10]);
    problems.wait_for(ProblemKind::QueueFull);
}

#[test]
fn a_caller_waits_no_longer_than_its_time_out() {
    let receiver = shut_gate();
    let longest = Duration::from_millis(80);
    let telemetry = start(exporter(&receiver).queue_records(2).block_timeout(longest));
    let tracer = telemetry.tracer("shop");
    emit(&tracer, 2);
    let begun = Instant::now();
    emit_in_time(&tracer, 1);
    let waited = begun.elapsed();
    assert!(waited >= longest, "{waited:?}");
    let total = telemetry.ledger().total();
    assert_eq!((total.accepted, total.not_enqueued.queue_full), (2, 1));
    receiver.resume();
    let ledger = telemetry.shutdown(LONG);
    assert_eq!((ledger.total().delivered, ledger.lost()), (2, 1), "{ledger}");
}

#[test]
fn after_a_wait_that_timed_out_callers_go_on_until_something_is_delivered() {
    let receiver = shut_gate();
    // A thousand waits of this length would outlast the test.
    let longest = LONG / 100;
    let telemetry = start(exporter(&receiver).queue_records(2).block_timeout(longest));
    let tracer = telemetry.tracer("shop");
    emit_in_time(&tracer, 1_000);
    let total = telemetry.ledger().total();
    assert_eq!((total.accepted, total.not_enqueued.queue_full), (2, 998));
    receiver.resume();
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    // After a delivery, callers wait for room again.
    receiver.pause();
    emit_in_time(&tracer, 2);
    let begun = Instant::now();
    emit_in_time(&tracer, 1);
    assert!(begun.elapsed() >= longest, "{:?}", begun.elapsed());
    receiver.resume();
    let ledger = telemetry.shutdown(LONG);
    assert_eq!((ledger.total().delivered, ledger.lost()), (4, 999), "{ledger}");
}

#[test]
fn a_caller_waits_for_all_exporters_at_the_same_time() {
    let (first, second) = (shut_gate(), shut_gate());
    // Even on a busy machine, one wait takes less than twice this time.
    let longest = NOISE;
    let impatient = |receiver: &Receiver| exporter(receiver).queue_records(1).block_timeout(longest);
    let config = Config::new().exporter(impatient(&first).named("first"));
    let telemetry = start_with(config.exporter(impatient(&second).named("second")));
    let tracer = telemetry.tracer("shop");
    emit(&tracer, 1);
    let begun = Instant::now();
    emit_in_time(&tracer, 1);
    let waited = begun.elapsed();
    assert!(waited >= longest && waited < 2 * longest, "{waited:?}");
    assert_eq!(telemetry.ledger().total().not_enqueued.queue_full, 2);
    first.resume();
    second.resume();
    assert_eq!(telemetry.shutdown(LONG).total().delivered, 2);
}

#[test]
fn callers_that_wait_are_reported_while_the_worker_is_in_the_middle_of_an_attempt() {
    let receiver = shut_gate();
    let problems = Problems::default();
    let telemetry = problems.start(exporter(&receiver).queue_records(2).timeout(LONG));
    let (thread, emitted) = caller(&telemetry.tracer("shop"), 3);
    assert_eq!((emitted.recv_timeout(LONG), emitted.recv_timeout(LONG)), (Ok(0), Ok(1)));
    let problem = problems.wait_for(ProblemKind::CallersWaiting);
    assert_eq!(problem.signal, Some(Signal::Traces));
    let (how_long, how_full) = problem.message.split_once(" s: ").unwrap();
    let waited = how_long.strip_prefix("callers are waiting for room in the queue, the first for ").unwrap();
    assert!((0.5..10.0).contains(&waited.parse::<f64>().unwrap()), "{problem}");
    let advice = "it has 2 of 2 records and 1 of 16384 KiB; set WhenFull::DropNewest (lossy) to drop records instead, \
                  block_timeout to limit the wait, or queue_records and queue_bytes for a larger queue";
    assert_eq!(how_full, advice);
    receiver.resume();
    assert_eq!(emitted.recv_timeout(LONG), Ok(2));
    thread.join().unwrap();
    assert_eq!(telemetry.shutdown(LONG).total().delivered, 3);
}

#[test]
fn a_caller_in_line_behind_others_keeps_to_its_time_out() {
    let receiver = shut_gate();
    let longest = Duration::from_millis(80);
    let telemetry = start(exporter(&receiver).queue_records(1).block_timeout(longest));
    let tracer = telemetry.tracer("shop");
    emit(&tracer, 1);
    let callers: Vec<_> = (0..4).map(|_| caller(&tracer, 1)).collect();
    for (thread, emitted) in callers {
        assert_eq!(emitted.recv_timeout(LONG), Ok(0));
        thread.join().unwrap();
    }
    assert_eq!(telemetry.ledger().total().not_enqueued.queue_full, 4);
    receiver.resume();
    assert_eq!(telemetry.shutdown(LONG).total().delivered, 1);
}

#[test]
fn room_in_time_is_used() {
    let receiver = shut_gate();
    let telemetry = start(exporter(&receiver).queue_records(2).block_timeout(LONG));
    let tracer = telemetry.tracer("shop");
    let (thread, emitted) = caller(&tracer, 3);
    assert_eq!((emitted.recv_timeout(LONG), emitted.recv_timeout(LONG)), (Ok(0), Ok(1)));
    assert_waiting(&emitted);
    receiver.resume();
    assert_eq!(emitted.recv_timeout(LONG), Ok(2));
    thread.join().unwrap();
    let ledger = telemetry.shutdown(LONG);
    assert_eq!((ledger.total().delivered, ledger.lost()), (3, 0), "{ledger}");
}

#[test]
fn what_is_emitted_after_the_shutdown_is_counted_and_not_waited_for() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).queue_records(2));
    let tracer = telemetry.tracer("shop");
    emit(&tracer, 1);
    let open = tracer.span("still open");
    assert_eq!(telemetry.shutdown(LONG).total().delivered, 1);
    drop(open);
    emit_in_time(&tracer, 9);
    let total = telemetry.ledger().total();
    assert_eq!((total.accepted, total.not_enqueued.after_shutdown, total.lost()), (1, 10, 10));
    assert_eq!(receiver.span_count(), 1);
}

#[test]
fn a_record_larger_than_a_request_is_counted_and_the_others_pass() {
    for when_full in [WhenFull::Block, WhenFull::DropNewest] {
        let receiver = Receiver::start().unwrap();
        let problems = Problems::default();
        let telemetry = problems.start(exporter(&receiver).batch_bytes(4096).when_full(when_full));
        let tracer = telemetry.tracer("shop");
        for _ in 0..10 {
            emit_large_in_time(&tracer, 5000, 1);
            emit_in_time(&tracer, 2);
        }
        let ledger = telemetry.shutdown(LONG);
        let total = ledger.total();
        assert_eq!((total.delivered, total.not_enqueued.too_large, ledger.lost()), (20, 10, 10), "{ledger}");
        assert_eq!(receiver.span_count(), 20);
        problems.wait_for(ProblemKind::TooLarge);
    }
}

#[test]
fn a_record_larger_than_the_queue_is_counted_and_its_caller_does_not_wait_for_ever() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).queue_bytes(2000));
    let tracer = telemetry.tracer("shop");
    emit_large_in_time(&tracer, 3000, 1);
    emit_in_time(&tracer, 1);
    let ledger = telemetry.shutdown(LONG);
    assert_eq!((ledger.total().delivered, ledger.total().not_enqueued.too_large), (1, 1), "{ledger}");
}

#[test]
fn a_record_too_large_for_one_exporter_goes_to_the_other() {
    let (small, large) = (Receiver::start().unwrap(), Receiver::start().unwrap());
    let telemetry = start_with(
        Config::new()
            .exporter(exporter(&small).named("small").batch_bytes(2000))
            .exporter(exporter(&large).named("large")),
    );
    let tracer = telemetry.tracer("shop");
    emit_large_in_time(&tracer, 3000, 1);
    emit_in_time(&tracer, 1);
    let ledger = telemetry.shutdown(LONG);
    let [of_small, of_large] = [&ledger.exporters[0].traces, &ledger.exporters[1].traces];
    assert_eq!((of_small.delivered, of_small.not_enqueued.too_large), (1, 1), "{ledger}");
    assert_eq!((of_large.delivered, of_large.lost()), (2, 0), "{ledger}");
}

#[test]
fn a_shutdown_releases_callers_that_wait() {
    let receiver = shut_gate();
    let telemetry = start(exporter(&receiver).queue_records(4));
    let tracer = telemetry.tracer("shop");
    emit(&tracer, 4);
    let callers: Vec<_> = (0..3).map(|_| caller(&tracer, 2)).collect();
    for (_, emitted) in &callers {
        assert_waiting(emitted);
    }
    let ledger = telemetry.shutdown(A_WHILE);
    for (thread, emitted) in callers {
        assert_eq!((emitted.recv_timeout(LONG), emitted.recv_timeout(LONG)), (Ok(0), Ok(1)));
        thread.join().unwrap();
    }
    assert_eq!((ledger.total().accepted, ledger.total().dropped.shutdown), (4, 4), "{ledger}");
    assert_eq!(telemetry.ledger().total().not_enqueued.after_shutdown, 6);
}

#[test]
fn a_span_that_ends_in_a_panic_does_not_wait() {
    let receiver = shut_gate();
    let telemetry = start(exporter(&receiver).queue_records(2));
    let tracer = telemetry.tracer("shop");
    emit(&tracer, 2);
    let (done, ended) = mpsc::channel();
    thread::spawn(move || {
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _span = tracer.span("unlucky");
            std::panic::resume_unwind(Box::new("on purpose"));
        }));
        done.send(panicked.is_err()).unwrap();
    });
    assert_eq!(ended.recv_timeout(LONG), Ok(true));
    assert_eq!(telemetry.ledger().total().not_enqueued.queue_full, 1);
    receiver.resume();
    assert_eq!(telemetry.shutdown(LONG).total().delivered, 2);
}

#[test]
fn a_full_queue_of_one_exporter_costs_another_nothing_when_it_is_lossy() {
    let (full, free) = (shut_gate(), Receiver::start().unwrap());
    let config = Config::new()
        .exporter(exporter(&full).named("full").queue_records(3).when_full(WhenFull::DropNewest))
        .exporter(exporter(&free).named("free"));
    let telemetry = start_with(config);
    emit_in_time(&telemetry.tracer("shop"), 50);
    assert!(free.wait_for_spans(50, LONG));
    full.resume();
    let ledger = telemetry.shutdown(LONG);
    let [of_full, of_free] = [&ledger.exporters[0].traces, &ledger.exporters[1].traces];
    assert_eq!((of_full.delivered, of_full.not_enqueued.queue_full), (3, 47), "{ledger}");
    assert_eq!((of_free.delivered, of_free.lost()), (50, 0), "{ledger}");
}

#[test]
fn a_dead_exporter_keeps_no_record_from_the_healthy_one_behind_it() {
    let (dead, healthy) = (shut_gate(), Receiver::start().unwrap());
    let config = Config::new()
        // The caller waits for longer than this test observes the healthy exporter.
        .exporter(exporter(&dead).named("dead").queue_records(1).block_timeout(2 * LONG))
        .exporter(exporter(&healthy).named("healthy"));
    let telemetry = start_with(config);
    let (thread, emitted) = caller(&telemetry.tracer("shop"), 2);
    assert_eq!(emitted.recv_timeout(LONG), Ok(0));
    assert!(healthy.wait_for_spans(2, LONG / 4), "only {} arrived", healthy.span_count());
    assert_waiting(&emitted);
    dead.resume();
    assert_eq!(emitted.recv_timeout(LONG), Ok(1));
    thread.join().unwrap();
    let ledger = telemetry.shutdown(LONG);
    assert_eq!((ledger.total().delivered, ledger.lost()), (4, 0), "{ledger}");
}

#[test]
fn a_record_waits_for_all_exporters_that_have_no_room_and_is_lost_to_none() {
    let (first, second, third) = (shut_gate(), Receiver::start().unwrap(), shut_gate());
    let config = Config::new()
        .exporter(exporter(&first).named("first").queue_records(1).block_timeout(2 * LONG))
        .exporter(exporter(&second).named("second"))
        .exporter(exporter(&third).named("third").queue_records(1).block_timeout(2 * LONG));
    let telemetry = start_with(config);
    let (thread, emitted) = caller(&telemetry.tracer("shop"), 3);
    assert_eq!(emitted.recv_timeout(LONG), Ok(0));
    assert!(second.wait_for_spans(2, LONG / 4), "only {} arrived", second.span_count());
    third.resume();
    assert_waiting(&emitted);
    first.resume();
    assert_eq!((emitted.recv_timeout(LONG), emitted.recv_timeout(LONG)), (Ok(1), Ok(2)));
    thread.join().unwrap();
    let ledger = telemetry.shutdown(LONG);
    assert_eq!((ledger.total().delivered, ledger.lost()), (9, 0), "{ledger}");
}
