//! All records arrive once, or are counted as lost.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use standpipe::receiver::{Answer, Batch, ReceivedSpan, Receiver};
use standpipe::{Compression, Config, FlushOutcome, ProblemKind, Scope, WhenFull};

use crate::support::scene::{
    A_WHILE, FOR_EVER, LONG, Problems, SetWhenDropped, closed_address, emit, emit_in_time, exporter,
    exporter_to, open_at, start, start_with,
};
use crate::support::{figures, size_within};

const BURST: u64 = 100_000;

/// Starts a receiver that keeps only the number of each received span, once for each arrival.
fn counting_receiver() -> (Receiver, Arc<Mutex<Vec<u64>>>) {
    let numbers = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&numbers);
    let note = move |batch: &Batch| seen.lock().unwrap().extend(batch.spans.iter().map(number));
    (Receiver::builder().keep_bytes(0).on_batch(note).start().unwrap(), numbers)
}

fn number(received: &ReceivedSpan) -> u64 {
    u64::try_from(received.attribute("number").as_i64().unwrap()).unwrap()
}

fn distinct(numbers: &[u64]) -> u64 {
    numbers.iter().collect::<HashSet<_>>().len() as u64
}

#[test]
fn a_burst_of_100_000_spans_arrives_whole_and_once_when_callers_wait() {
    let (receiver, numbers) = counting_receiver();
    let telemetry = start(exporter(&receiver).queue_records(10_000));
    let begun = Instant::now();
    emit_in_time(&telemetry.tracer("shop"), BURST);
    let ledger = telemetry.shutdown(LONG);
    figures::show(format!("{BURST} sent, {} arrived in {:.1?}", receiver.span_count(), begun.elapsed()));
    assert_eq!((ledger.total().delivered, ledger.lost()), (BURST, 0), "{ledger}");
    assert_eq!(receiver.span_count(), BURST);
    let numbers = numbers.lock().unwrap();
    assert_eq!((numbers.len() as u64, distinct(&numbers)), (BURST, BURST));
}

#[test]
fn a_burst_of_100_000_spans_is_delivered_or_counted_when_the_queue_is_lossy() {
    let (receiver, numbers) = counting_receiver();
    let telemetry = start(exporter(&receiver).queue_records(1000).when_full(WhenFull::DropNewest));
    // The receiver is paused during a part of the burst, so that some records are certain to be lost.
    receiver.pause();
    let tracer = telemetry.tracer("shop");
    emit_in_time(&tracer, BURST / 2);
    receiver.resume();
    emit_in_time(&tracer, BURST / 2);
    let ledger = telemetry.shutdown(LONG);
    let total = ledger.total();
    figures::show(format!("lossy: {} + {} dropped", total.delivered, total.not_enqueued.queue_full));
    assert!(total.not_enqueued.queue_full >= BURST / 2 - 1000, "{ledger}");
    assert_eq!(total.delivered + total.not_enqueued.queue_full, BURST, "{ledger}");
    assert_eq!((total.delivered, ledger.lost()), (receiver.span_count(), total.not_enqueued.queue_full));
    assert_eq!(numbers.lock().unwrap().len() as u64, total.delivered);
}

#[test]
fn nothing_is_lost_and_callers_wait_while_the_collector_is_down() {
    let address = closed_address();
    let problems = Problems::default();
    let telemetry = problems.start(exporter_to(&format!("http://{address}")).queue_records(100));
    let tracer = telemetry.tracer("shop");
    let (progress, emitted) = mpsc::channel();
    let caller = thread::spawn(move || {
        for number in 0..300 {
            tracer.span("work").set("number", number);
            progress.send(number).unwrap();
        }
    });
    for expected in 0..100 {
        assert_eq!(emitted.recv_timeout(LONG), Ok(expected));
    }
    problems.wait_for(ProblemKind::Unavailable);
    assert_eq!(emitted.recv_timeout(A_WHILE), Err(mpsc::RecvTimeoutError::Timeout), "it did not wait");
    let total = telemetry.ledger().total();
    assert_eq!((total.accepted, total.in_flight, total.lost()), (100, 100, 0));

    let receiver = open_at(address);
    for expected in 100..300 {
        assert_eq!(emitted.recv_timeout(LONG), Ok(expected));
    }
    caller.join().unwrap();
    let ledger = telemetry.shutdown(LONG);
    figures::show(format!("block: {} of 300 arrived", receiver.span_count()));
    assert_eq!((ledger.total().delivered, ledger.lost()), (300, 0), "{ledger}");
    assert_eq!(receiver.span_count(), 300);
}

#[test]
fn losses_are_counted_exactly_while_the_collector_is_down_and_the_queue_lossy() {
    let address = closed_address();
    let problems = Problems::default();
    let lossy = exporter_to(&format!("http://{address}")).queue_records(100).when_full(WhenFull::DropNewest);
    let telemetry = problems.start(lossy);
    emit_in_time(&telemetry.tracer("shop"), 300);
    problems.wait_for(ProblemKind::Unavailable);
    let total = telemetry.ledger().total();
    assert_eq!((total.accepted, total.in_flight, total.not_enqueued.queue_full), (100, 100, 200));

    let receiver = open_at(address);
    assert!(receiver.wait_for_spans(100, LONG));
    let ledger = telemetry.shutdown(LONG);
    figures::show(format!("lossy: {} arrived, {} dropped", receiver.span_count(), ledger.lost()));
    assert_eq!((ledger.total().delivered, ledger.lost()), (100, 200), "{ledger}");
    let kept: Vec<u64> = receiver.spans().iter().map(number).collect();
    assert_eq!(kept, (0..100).collect::<Vec<_>>(), "the newest are to be dropped, not the oldest");
}

#[test]
fn every_exporter_gets_every_record_and_none_waits_for_another() {
    let receivers = [(); 3].map(|()| Receiver::start().unwrap());
    receivers[2].pause();
    let named = |(index, receiver)| exporter(receiver).named(format!("to-{index}"));
    let config = receivers.iter().enumerate().map(named).fold(Config::new(), Config::exporter);
    let telemetry = start_with(config);
    emit(&telemetry.tracer("shop"), 500);
    for receiver in &receivers[..2] {
        assert!(receiver.wait_for_spans(500, LONG), "it waited for the one that is held");
    }
    assert_eq!(receivers[2].span_count(), 0);
    receivers[2].resume();
    let ledger = telemetry.shutdown(LONG);
    let names: Vec<&str> = ledger.exporters.iter().map(|exporter| exporter.name.as_str()).collect();
    assert_eq!(names, ["to-0", "to-1", "to-2"]);
    for (exporter, receiver) in ledger.exporters.iter().zip(&receivers) {
        assert_eq!((exporter.traces.delivered, exporter.traces.lost()), (500, 0), "{ledger}");
        let numbers: Vec<u64> = receiver.spans().iter().map(number).collect();
        assert_eq!((numbers.len(), distinct(&numbers)), (500, 500));
    }
}

#[test]
fn no_request_holds_more_records_than_it_may() {
    let receiver = Receiver::start().unwrap();
    receiver.pause();
    let telemetry = start(exporter(&receiver).batch_records(64));
    let tracer = telemetry.tracer("shop");
    // The first request is held while the other records are queued.
    emit(&tracer, 1);
    assert!(receiver.wait_for_held(1, LONG));
    emit(&tracer, 200);
    receiver.resume();
    let ledger = telemetry.shutdown(LONG);
    assert_eq!((ledger.total().delivered, ledger.lost()), (201, 0), "{ledger}");
    let sizes: Vec<usize> = receiver.requests().iter().map(|request| request.records).collect();
    assert_eq!(sizes, [1, 64, 64, 64, 8]);
}

#[test]
fn no_request_is_longer_than_it_may_be() {
    const LIMIT: usize = 4096;
    let receiver = Receiver::start().unwrap();
    receiver.pause();
    let telemetry = start(exporter(&receiver).batch_bytes(LIMIT));
    // Several scopes, because each adds a header to the request.
    let tracers = ["a", "shop", "a scope with a rather long name"].map(|scope| telemetry.tracer(scope));
    // The first request is held while the other records are queued.
    tracers[0].span("first").end();
    assert!(receiver.wait_for_held(1, LONG));
    for number in 0..600 {
        let text = "x".repeat(number % 500);
        tracers[number % 3].span("work").set("number", number as i64).set("text", text.as_str());
    }
    receiver.resume();
    let ledger = telemetry.shutdown(LONG);
    assert_eq!((ledger.total().delivered, ledger.lost()), (601, 0), "{ledger}");
    let requests = receiver.requests();
    let longest = requests.iter().map(|request| request.body_bytes).max().unwrap();
    assert!(longest <= LIMIT, "{longest}");
    let bytes: usize = requests.iter().map(|request| request.body_bytes).sum();
    assert!(requests.len() <= 2 + bytes / (LIMIT * 3 / 4), "{bytes} bytes in {} requests", requests.len());
}

#[test]
fn large_records_stay_below_what_every_collector_accepts_by_default() {
    // 4 MiB is the usual limit of collectors, over HTTP and gRPC.
    let receiver = Receiver::builder().max_body_bytes(4 << 20).start().unwrap();
    receiver.pause();
    let telemetry = start(exporter(&receiver));
    let tracer = telemetry.tracer("shop");
    let large = "x".repeat(1 << 20);
    for number in 0..14 {
        tracer.span("work").set("number", number).set("text", large.as_str());
    }
    receiver.resume();
    let ledger = telemetry.shutdown(LONG);
    assert_eq!((ledger.total().delivered, ledger.lost()), (14, 0), "{ledger}");
    assert!(receiver.requests().iter().all(|request| request.status == Some(200)));
}

#[test]
fn a_record_near_the_limit_is_sent_whole_or_counted() {
    const LIMIT: usize = 1024;
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).batch_bytes(LIMIT));
    let tracer = telemetry.tracer("a scope whose name takes some room, too");
    let lengths = 500..1100;
    for length in lengths.clone() {
        tracer.span("work").set("text", "x".repeat(length).as_str());
    }
    let ledger = telemetry.shutdown(LONG);
    let total = ledger.total();
    let too_large = total.not_enqueued.too_large + total.dropped.too_large;
    assert_eq!(total.delivered + too_large, lengths.len() as u64, "{ledger}");
    assert_eq!(total.delivered, receiver.span_count());
    assert!(total.delivered > 0 && too_large > 0, "{ledger}");
    let longest = receiver.requests().iter().map(|request| request.body_bytes).max().unwrap();
    assert!((LIMIT - 32..=LIMIT).contains(&longest), "{longest}");
}

#[test]
fn one_connection_serves_many_requests_whatever_is_answered() {
    let receiver = Receiver::start().unwrap();
    receiver.script([
        Answer::ok(),
        Answer::status(503).message("wait"),
        Answer::status(400).message("no"),
        Answer::partial(1, "one"),
        Answer::status(429).retry_after("0").message("slower"),
        Answer::empty_partial(),
    ]);
    let telemetry = start(exporter(&receiver));
    let tracer = telemetry.tracer("shop");
    for _ in 0..20 {
        emit(&tracer, 1);
        assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    }
    // Two requests were sent twice.
    assert_eq!((receiver.request_count(), receiver.connection_count()), (22, 1));
}

#[test]
fn gzip_requests_decode_to_the_same_spans() {
    let receivers = [(); 2].map(|()| Receiver::start().unwrap());
    let [plain, zipped] = &receivers;
    let config = Config::new()
        .exporter(exporter(plain).named("plain"))
        .exporter(exporter(zipped).named("zipped").compression(Compression::Gzip));
    let telemetry = start_with(config);
    let tracer = telemetry.tracer(Scope::new("shop").version("1.2"));
    for number in 0..200 {
        let mut span = tracer.span("checkout");
        span.set("number", number).set("text", "all the same ".repeat(20).as_str());
        span.event("paid").set("amount", 12.5);
    }
    let ledger = telemetry.shutdown(LONG);
    assert_eq!((ledger.total().delivered, ledger.lost()), (400, 0), "{ledger}");
    assert_eq!(plain.spans(), zipped.spans());
    let bytes = |receiver: &Receiver| receiver.requests().iter().map(|r| r.body_bytes).sum::<usize>();
    assert!(bytes(zipped) < bytes(plain) / 4, "{} {}", bytes(zipped), bytes(plain));
    let encodings = |receiver: &Receiver, encoding: Option<&str>| {
        receiver.requests().iter().all(|request| request.header("content-encoding") == encoding)
    };
    assert!(encodings(plain, None) && encodings(zipped, Some("gzip")));
}

#[test]
fn spans_of_a_request_are_grouped_by_scope() {
    let groups = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&groups);
    let receiver = Receiver::builder()
        .on_batch(move |batch| {
            // The spans of each group in a request share one pointer, so the number of pointers is the number of
            // groups.
            let scopes: HashSet<_> = batch.spans.iter().map(|span| Arc::as_ptr(&span.scope)).collect();
            let names: HashSet<_> = batch.spans.iter().map(|span| span.scope.name.clone()).collect();
            let resources: HashSet<_> = batch.spans.iter().map(|span| Arc::as_ptr(&span.resource)).collect();
            seen.lock().unwrap().push((scopes.len(), names.len(), resources.len()));
        })
        .start()
        .unwrap();
    let telemetry = start(exporter(&receiver).linger(FOR_EVER).batch_records(300));
    let tracers = ["cart", "till", "stock"].map(|scope| telemetry.tracer(scope));
    for number in 0..300 {
        tracers[number % 3].span("work").set("number", number as i64);
    }
    assert!(receiver.wait_for_spans(300, LONG));
    assert_eq!(telemetry.shutdown(LONG).lost(), 0);
    assert_eq!(*groups.lock().unwrap(), [(3, 3, 1)]);
}

#[test]
fn a_span_keeps_the_scope_of_its_tracer() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver));
    for (scope, version) in [("cart", "1"), ("till", ""), ("cart", "2")] {
        telemetry.tracer(Scope::new(scope).version(version)).span(&format!("{scope} {version}")).end();
    }
    assert_eq!(telemetry.shutdown(LONG).lost(), 0);
    let spans = receiver.spans();
    assert_eq!(spans.len(), 3);
    for received in spans {
        assert_eq!(received.span.name, format!("{} {}", received.scope.name, received.scope.version));
    }
}

#[test]
fn a_flush_covers_all_that_was_emitted_before_it_while_others_emit() {
    let (receiver, numbers) = counting_receiver();
    let telemetry = start(exporter(&receiver).queue_bytes(256 << 10));
    let tracer = telemetry.tracer("shop");
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let _stop = SetWhenDropped(&stop);
        // With four threads, callers always wait for room, and full chunks reach the worker all the time.
        for _ in 0..4 {
            scope.spawn(|| {
                let text = "x".repeat(5000);
                while !stop.load(Ordering::Relaxed) {
                    tracer.span("noise").set("number", 0).set("text", text.as_str());
                }
            });
        }
        for number in 1..=u64::from(size_within(20..=200)) {
            tracer.span("mine").set("number", number as i64);
            assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
            assert!(numbers.lock().unwrap().contains(&number), "{number} was passed over");
        }
    });
}

#[test]
fn a_flush_is_read_while_callers_are_always_waiting_for_room() {
    let receiver = Receiver::builder().keep_bytes(0).start().unwrap();
    // Answers are so slow that the callers emit for ten seconds.
    receiver.always(Answer::ok().delay(Duration::from_millis(10)));
    // A full queue needs eight requests: while the worker sends the last one, callers fill the room that the first one
    // released.
    let telemetry = start(exporter(&receiver).queue_records(64).batch_records(8));
    let tracer = telemetry.tracer("shop");
    let (callers, spans_each) = (16, 500);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let _stop = SetWhenDropped(&stop);
        for _ in 0..callers {
            scope.spawn(|| {
                (0..spans_each).filter(|_| !stop.load(Ordering::Relaxed)).for_each(|_| emit(&tracer, 1))
            });
        }
        assert!(receiver.wait_for_spans(50, LONG));
        assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
        assert!(
            receiver.span_count() < callers * spans_each,
            "it was not heard before the last caller had gone"
        );
    });
}
