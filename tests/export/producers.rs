//! Many producers: every span is counted, no producer starves, and a panic affects only its own producer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier, OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use standpipe::receiver::{Answer, Receiver};
use standpipe::{Config, Exporter, FlushOutcome, ProblemKind, Provider, Telemetry, Tracer, WhenFull};

use crate::support::{figures, size_within};

const PRODUCERS: usize = 64;
/// Maximum time for an expected event.
const PATIENCE: Duration = Duration::from_secs(60);

fn spans_each() -> u64 {
    size_within(80..=200).into()
}

fn all_spans() -> u64 {
    PRODUCERS as u64 * spans_each()
}

fn start(exporter: Exporter) -> Telemetry {
    Telemetry::start(Config::new().exporter(exporter)).unwrap()
}

/// Lets all producers emit at the same time, and calls `all_began` once all of them have begun. Returns how many spans
/// each producer had emitted when the first was done. Threads are not scoped, so that a blocked one makes the test
/// fail instead of hang.
fn produce(telemetry: &Telemetry, all_began: impl FnOnce()) -> Vec<u64> {
    let progress: Arc<Vec<AtomicU32>> = Arc::new((0..PRODUCERS).map(|_| AtomicU32::new(0)).collect());
    let begin = Arc::new(Barrier::new(PRODUCERS));
    let (began, beginnings) = mpsc::channel();
    let (done, ends) = mpsc::channel();
    for number in 0..PRODUCERS {
        let (began, done) = (began.clone(), done.clone());
        let (begin, progress) = (Arc::clone(&begin), Arc::clone(&progress));
        let tracer = telemetry.tracer("shop");
        thread::spawn(move || {
            begin.wait();
            began.send(()).unwrap();
            for _ in 0..spans_each() {
                tracer.span("checkout").end();
                progress[number].fetch_add(1, Ordering::Relaxed);
            }
            let all: Vec<u64> = progress.iter().map(|count| count.load(Ordering::Relaxed).into()).collect();
            done.send(all).unwrap();
        });
    }
    (0..PRODUCERS).for_each(|_| beginnings.recv_timeout(PATIENCE).expect("every producer begins"));
    all_began();
    let mut ends =
        (0..PRODUCERS).map(|_| ends.recv_timeout(PATIENCE).expect("every producer comes to its end"));
    let first = ends.next().unwrap();
    ends.for_each(drop);
    first
}

#[test]
fn of_64_producers_that_wait_for_room_every_span_arrives_and_all_but_a_few_keep_pace() {
    let receiver = Receiver::builder().keep_bytes(0).start().unwrap();
    // The queue has room for one span of each producer, so that producers wait for room all the time.
    let exporter = Exporter::http(receiver.endpoint())
        .block_timeout(None)
        .queue_records(PRODUCERS)
        .throttle(Duration::ZERO);
    let telemetry = start(exporter);
    // While the receiver is paused, no producer gets far before all have begun.
    receiver.pause();
    let mut progress = produce(&telemetry, || {
        assert!(receiver.wait_for_held(1, PATIENCE));
        receiver.resume();
    });
    progress.sort_unstable();
    let slowest = progress[0];
    figures::show(format!("when the first was done with {} spans, the slowest had {slowest}", spans_each()));
    // The slowest eighth of the producers is exempt, because the system may not have scheduled them. The tests of the
    // backpressure show that no waiter is passed over.
    assert!(progress[PRODUCERS / 8] >= spans_each() / 10, "many starve: {progress:?}");
    let ledger = telemetry.shutdown(PATIENCE);
    let counts = ledger.total();
    assert_eq!((counts.accepted, counts.delivered, counts.lost()), (all_spans(), all_spans(), 0), "{ledger}");
    assert_eq!(receiver.span_count(), all_spans());
}

#[test]
fn of_64_producers_that_do_not_wait_every_span_arrives_or_is_counted() {
    let receiver = Receiver::builder().keep_bytes(0).start().unwrap();
    let exporter = Exporter::http(receiver.endpoint())
        .block_timeout(None)
        .queue_records(PRODUCERS)
        .throttle(Duration::ZERO);
    let telemetry = start(exporter.when_full(WhenFull::DropNewest));
    produce(&telemetry, || ());
    let ledger = telemetry.shutdown(PATIENCE);
    let counts = ledger.total();
    assert_eq!(counts.accepted + counts.not_enqueued.queue_full, all_spans(), "{ledger}");
    assert_eq!((counts.delivered, receiver.span_count()), (counts.accepted, counts.accepted), "{ledger}");
    assert!(counts.not_enqueued.queue_full > 0, "the queue was never full: {ledger}");
}

#[test]
fn the_ledger_adds_up_at_every_moment() {
    let receiver = Receiver::builder().keep_bytes(0).start().unwrap();
    let exporter = Exporter::http(receiver.endpoint())
        .block_timeout(None)
        .queue_records(PRODUCERS)
        .throttle(Duration::ZERO);
    let telemetry = Arc::new(start(exporter));
    let producers = thread::spawn({
        let telemetry = Arc::clone(&telemetry);
        move || produce(&telemetry, || ())
    });
    while !producers.is_finished() {
        let before = receiver.span_count();
        let counts = telemetry.ledger().total();
        let settled = counts.delivered + counts.rejected + counts.dropped.total();
        assert_eq!(counts.accepted, settled + counts.in_flight, "{counts}");
        assert!(counts.delivered + PRODUCERS as u64 >= before, "{counts} but {before} had arrived");
    }
    producers.join().unwrap();
    let ledger = telemetry.shutdown(PATIENCE);
    assert_eq!(ledger.total().delivered, all_spans(), "{ledger}");
}

fn panic_in_a_span(tracer: &Tracer, name: &str) {
    let result = catch_unwind(AssertUnwindSafe(|| {
        let mut span = tracer.span(name);
        span.set("fate", "panic");
        panic!("on purpose");
    }));
    assert!(result.is_err());
}

#[test]
fn a_span_that_is_open_during_a_panic_arrives_and_is_no_longer_current() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(Exporter::http(receiver.endpoint()));
    let tracer = telemetry.tracer("shop");
    panic_in_a_span(&tracer, "panicked");
    tracer.span("after").end();
    let ledger = telemetry.shutdown(PATIENCE);
    assert_eq!((ledger.total().delivered, ledger.lost()), (2, 0), "{ledger}");
    let spans = receiver.spans();
    let named = |name: &str| spans.iter().find(|received| received.span.name == name).unwrap();
    assert!(named("panicked").attribute("fate").is_some());
    assert!(named("after").span.parent_span_id.is_empty(), "the span of the panic is still current");
}

#[test]
fn a_panic_on_a_thread_without_a_net_costs_only_that_thread() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(Exporter::http(receiver.endpoint()));
    let tracer = telemetry.tracer("shop");
    let panicking = tracer.clone();
    let died = thread::spawn(move || {
        let _outer = panicking.span("outer");
        let _inner = panicking.span("inner");
        panic!("on purpose");
    });
    assert!(died.join().is_err());
    tracer.span("other thread").end();
    let ledger = telemetry.shutdown(PATIENCE);
    assert_eq!((ledger.total().delivered, receiver.span_count()), (3, 3), "{ledger}");
}

/// Emits while it is dropped.
struct EmitsInDrop<'a>(&'a Tracer);

impl Drop for EmitsInDrop<'_> {
    fn drop(&mut self) {
        self.0.span("while unwinding").set("depth", 1);
    }
}

#[test]
fn spans_can_be_made_while_unwinding() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(Exporter::http(receiver.endpoint()));
    let tracer = telemetry.tracer("shop");
    let result = catch_unwind(AssertUnwindSafe(|| {
        let _emits = EmitsInDrop(&tracer);
        let _span = tracer.span("panicked");
        panic!("on purpose");
    }));
    assert!(result.is_err());
    let ledger = telemetry.shutdown(PATIENCE);
    assert_eq!((ledger.total().delivered, receiver.span_count()), (2, 2), "{ledger}");
}

#[test]
fn a_panicking_thread_does_not_wait_for_room() {
    let receiver = Receiver::start().unwrap();
    receiver.pause();
    let telemetry = start(Exporter::http(receiver.endpoint()).block_timeout(None).queue_records(1));
    let tracer = telemetry.tracer("shop");
    tracer.span("fills the queue").end();
    assert!(receiver.wait_for_held(1, PATIENCE));
    let (done, unwound) = mpsc::channel();
    let panicking = thread::spawn({
        let tracer = tracer.clone();
        move || {
            panic_in_a_span(&tracer, "finds it full");
            done.send(()).unwrap();
        }
    });
    unwound.recv_timeout(PATIENCE).expect("the panicking thread waits for room");
    panicking.join().unwrap();
    assert_eq!(telemetry.ledger().total().not_enqueued.queue_full, 1);
    receiver.resume();
    let ledger = telemetry.shutdown(PATIENCE);
    assert_eq!((ledger.total().delivered, receiver.span_count()), (1, 1), "{ledger}");
}

#[test]
fn a_panic_in_the_problem_hook_costs_neither_the_batch_nor_the_worker() {
    let receiver = Receiver::start().unwrap();
    receiver.script([Answer::status(503), Answer::partial(0, "a warning"), Answer::status(400)]);
    let (reported, problems) = mpsc::channel();
    let config = Config::new().service_name("shop").exporter(Exporter::http(receiver.endpoint())).on_problem(
        move |problem| {
            let _ = reported.send(problem.kind);
            panic!("on purpose");
        },
    );
    let telemetry = Telemetry::start(config).unwrap();
    let tracer = telemetry.tracer("shop");
    // The first span is retried and accepted with a warning, the second is refused, and the third is accepted.
    for _ in 0..3 {
        tracer.span("checkout").end();
        assert_eq!(telemetry.flush(PATIENCE), FlushOutcome::Complete);
    }
    let ledger = telemetry.shutdown(PATIENCE);
    let counts = ledger.total();
    assert_eq!((counts.delivered, counts.dropped.refused), (2, 1), "{ledger}");
    assert_eq!(counts.dropped.worker_panicked, 0, "{ledger}");
    assert_eq!(receiver.span_count(), 2);
    let reported: Vec<ProblemKind> = problems.try_iter().collect();
    assert_eq!(reported, [ProblemKind::Unavailable, ProblemKind::PartialSuccess, ProblemKind::Refused]);
}

#[test]
fn a_flush_in_the_problem_hook_does_not_wait_for_itself() {
    let receiver = Receiver::start().unwrap();
    receiver.script([Answer::status(400)]);
    let provider: Arc<OnceLock<Provider>> = Arc::default();
    let of_hook = Arc::clone(&provider);
    let (reported, flushes) = mpsc::channel();
    let config = Config::new().service_name("shop").exporter(Exporter::http(receiver.endpoint())).on_problem(
        move |_| {
            let _ = reported.send(of_hook.get().unwrap().flush(10 * PATIENCE));
        },
    );
    let telemetry = Telemetry::start(config).unwrap();
    provider.set(telemetry.as_ref().clone()).unwrap();
    telemetry.tracer("shop").span("refused").end();
    assert!(matches!(flushes.recv_timeout(PATIENCE), Ok(FlushOutcome::TimedOut { .. })));
    assert_eq!(telemetry.flush(PATIENCE), FlushOutcome::Complete);
}

/// A panic payload that panics again when it is dropped.
struct Grenade;

impl Drop for Grenade {
    fn drop(&mut self) {
        panic!("on purpose, again");
    }
}

#[test]
fn a_panic_in_the_problem_hook_that_panics_again_in_its_payload_does_not_kill_the_worker() {
    let receiver = Receiver::start().unwrap();
    receiver.script([Answer::status(503)]);
    let hook = |_: &_| std::panic::panic_any(Grenade);
    let config =
        Config::new().service_name("shop").exporter(Exporter::http(receiver.endpoint())).on_problem(hook);
    let telemetry = Telemetry::start(config).unwrap();
    let tracer = telemetry.tracer("shop");
    for _ in 0..2 {
        tracer.span("checkout").end();
        assert_eq!(telemetry.flush(PATIENCE), FlushOutcome::Complete);
    }
    let ledger = telemetry.shutdown(PATIENCE);
    assert_eq!((ledger.total().delivered, receiver.span_count()), (2, 2), "{ledger}");
}

#[test]
fn producers_may_outlive_the_telemetry() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(Exporter::http(receiver.endpoint()));
    let tracer = telemetry.tracer("shop");
    let (go, gone) = mpsc::channel::<()>();
    let late = Arc::new(AtomicU32::new(0));
    let producer = thread::spawn({
        let late = Arc::clone(&late);
        move || {
            let open = tracer.span("open all the time");
            // Waits until the telemetry has been dropped.
            let _ = gone.recv_timeout(PATIENCE);
            for _ in 0..spans_each() {
                tracer.span("late").end();
                late.fetch_add(1, Ordering::Relaxed);
            }
            drop(open);
        }
    });
    drop(telemetry);
    drop(go);
    producer.join().unwrap();
    assert_eq!((u64::from(late.load(Ordering::Relaxed)), receiver.span_count()), (spans_each(), 0));
}
