//! Telemetry without a thread works as it does with one, but only in the time that the program gives it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use standpipe::ledger::Counts;
use standpipe::receiver::{Answer, Receiver};
use standpipe::{Config, Exporter, FlushOutcome, ProblemKind, Signal, Telemetry, WhenFull};

use crate::support::scene::{A_WHILE, FOR_EVER, LONG, NOISE, closed_address, emit, exporter_to, open_at};

/// Budget of the telemetry in one turn of the main loop.
const TURN: Duration = Duration::from_millis(5);
/// A budget that a failing collector uses up.
const BUDGET: Duration = Duration::from_millis(300);
/// Time by which a shutdown may exceed its budget.
const PROMISED: Duration = Duration::from_millis(50);

fn exporter(receiver: &Receiver) -> Exporter {
    bounded(&receiver.endpoint())
}

/// An exporter of spans only, because metrics would be due all the time.
fn of_spans(receiver: &Receiver) -> Exporter {
    exporter(receiver).signals([Signal::Traces])
}

/// An exporter whose callers wait for as long as a test lasts.
fn bounded(endpoint: &str) -> Exporter {
    exporter_to(endpoint).block_timeout(LONG)
}

fn start(exporter: Exporter) -> Telemetry {
    // Records that a test leaves behind need not be delivered.
    start_with(Config::new().service_name("shop").exporter(exporter).drop_budget(Duration::ZERO))
}

fn start_with(config: Config) -> Telemetry {
    Telemetry::start_manual(config).unwrap()
}

/// Returns the counts, and asserts their equation.
#[track_caller]
fn balanced(telemetry: &Telemetry) -> Counts {
    let counts = telemetry.ledger().total();
    let settled = counts.delivered + counts.rejected + counts.dropped.total() + counts.superseded;
    assert_eq!(counts.accepted, settled + counts.in_flight, "{counts}");
    counts
}

/// Waits like the main loop of a program that is idle.
fn wait_until(due: Instant) {
    let (_sender, silent) = mpsc::channel::<()>();
    let _ = silent.recv_timeout(due.saturating_duration_since(Instant::now()));
}

/// Runs a main loop that pumps when something is due, until `is_over`.
#[track_caller]
fn pump_until(telemetry: &Telemetry, is_over: impl Fn(Counts) -> bool) {
    let deadline = Instant::now() + LONG;
    while !is_over(balanced(telemetry)) {
        assert!(Instant::now() < deadline, "{}", telemetry.ledger());
        if let Some(due) = telemetry.pump(TURN).filter(|_| !is_over(balanced(telemetry))) {
            wait_until(due.min(deadline));
        }
    }
}

fn attempts(telemetry: &Telemetry) -> u64 {
    telemetry.ledger().exporters[0].attempts
}

/// Pumps until an attempt was made in a turn: a busy machine may use up a turn before anything begins. Returns the
/// result of that turn, and its duration.
#[track_caller]
fn pump_for_attempt(telemetry: &Telemetry) -> (Option<Instant>, Duration) {
    let deadline = Instant::now() + LONG;
    loop {
        let begun = Instant::now();
        assert!(begun < deadline, "no attempt was made");
        let due = telemetry.pump(TURN);
        if attempts(telemetry) > 0 {
            return (due, begun.elapsed());
        }
    }
}

#[test]
fn a_main_loop_delivers_all_that_it_emits() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(of_spans(&receiver));
    let tracer = telemetry.tracer("shop");
    assert_eq!(telemetry.pump(TURN), None, "nothing is due before the first record");
    for _ in 0..200 {
        emit(&tracer, 1);
        telemetry.pump(TURN);
        balanced(&telemetry);
    }
    pump_until(&telemetry, |counts| counts.in_flight == 0);
    assert_eq!(telemetry.pump(TURN), None, "all is sent");
    assert_eq!((telemetry.ledger().total().delivered, receiver.span_count()), (200, 200));
}

#[test]
fn all_is_delivered_to_a_collector_that_comes_late() {
    let address = closed_address();
    let telemetry = start(bounded(&format!("http://{address}")));
    emit(&telemetry.tracer("shop"), 200);
    while attempts(&telemetry) < 5 {
        wait_until(telemetry.pump(TURN).expect("a retry is due"));
        assert_eq!(balanced(&telemetry).in_flight, 200);
    }
    let receiver = open_at(address);
    pump_until(&telemetry, |counts| counts.in_flight == 0);
    assert_eq!((telemetry.ledger().total().delivered, receiver.span_count()), (200, 200));
}

#[test]
fn nothing_is_sent_unless_the_program_gives_it_time() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver));
    emit(&telemetry.tracer("shop"), 5);
    assert!(!receiver.wait_for_requests(1, A_WHILE));
    let due = telemetry.pump(Duration::ZERO).expect("something is due");
    assert!(due <= Instant::now());
    assert_eq!(attempts(&telemetry), 0, "there was no time");
    telemetry.pump(LONG);
    assert_eq!(receiver.span_count(), 5);
}

#[test]
fn a_throttle_is_kept_and_the_time_it_takes_is_given() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(of_spans(&receiver).throttle(FOR_EVER));
    let tracer = telemetry.tracer("shop");
    emit(&tracer, 1);
    telemetry.pump(LONG);
    assert_eq!(receiver.span_count(), 1);
    emit(&tracer, 2);
    let due = telemetry.pump(LONG).expect("two are waiting");
    assert!(due > Instant::now() + FOR_EVER / 2);
    assert_eq!((receiver.span_count(), balanced(&telemetry).in_flight), (1, 2));
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    assert_eq!(receiver.span_count(), 3);
}

#[test]
fn an_incomplete_batch_lingers_and_a_full_one_does_not() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(of_spans(&receiver).linger(FOR_EVER).batch_records(3));
    let tracer = telemetry.tracer("shop");
    emit(&tracer, 2);
    let due = telemetry.pump(LONG).expect("two are waiting");
    assert!(due > Instant::now() + FOR_EVER / 2);
    emit(&tracer, 1);
    assert_eq!(telemetry.pump(LONG), None);
    assert_eq!((receiver.request_count(), receiver.span_count()), (1, 3));
}

#[test]
fn the_pause_that_a_server_asks_for_is_kept() {
    let receiver = Receiver::start().unwrap();
    receiver.script([Answer::status(503).retry_after("60")]);
    let telemetry = start(of_spans(&receiver));
    emit(&telemetry.tracer("shop"), 1);
    let begun = Instant::now();
    let due = telemetry.pump(LONG).expect("a retry is due");
    assert!(due >= begun + Duration::from_secs(60), "{:?}", due - begun);
    assert_eq!(telemetry.pump(LONG), Some(due), "it is not due yet");
    assert_eq!(receiver.request_count(), 1);
}

#[test]
fn after_the_pause_that_a_server_asks_for_it_is_tried_again() {
    let receiver = Receiver::start().unwrap();
    receiver.script([Answer::status(503).retry_after("1")]);
    let telemetry = start(of_spans(&receiver));
    emit(&telemetry.tracer("shop"), 1);
    let begun = Instant::now();
    let due = telemetry.pump(LONG).expect("a retry is due");
    assert!(due >= begun + Duration::from_secs(1), "{:?}", due - begun);
    wait_until(due);
    assert_eq!(telemetry.pump(LONG), None);
    assert_eq!((receiver.request_count(), receiver.span_count()), (2, 1));
}

#[test]
fn metrics_are_not_collected_before_they_are_due() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).interval(FOR_EVER));
    let begun = Instant::now();
    telemetry.meter("shop").counter("orders").add(3, ());
    let due = telemetry.pump(LONG).expect("a collection is due");
    assert!(due > begun + FOR_EVER / 2 && due <= begun + FOR_EVER);
    assert_eq!(receiver.request_count(), 0);
}

#[test]
fn metrics_are_collected_when_they_are_due() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).interval(A_WHILE));
    telemetry.meter("shop").counter("orders").add(3, ());
    let due = telemetry.pump(Duration::ZERO).expect("a collection is due");
    wait_until(due);
    let next = telemetry.pump(LONG).expect("the next collection is due");
    assert!(next > due);
    // If the machine is slower than the interval, there is more than one collection.
    assert!(receiver.point_count() >= 1);
}

/// A collector that never completes a request.
fn hanging() -> Receiver {
    let receiver = Receiver::start().unwrap();
    receiver.always(Answer::hang());
    receiver
}

#[test]
fn an_attempt_ends_at_its_timeout_and_a_turn_begins_no_second_one() {
    let receiver = hanging();
    let telemetry = start(exporter(&receiver).timeout(A_WHILE));
    emit(&telemetry.tracer("shop"), 1);
    let (due, took) = pump_for_attempt(&telemetry);
    assert!(took >= A_WHILE && took < TURN + A_WHILE + NOISE, "{took:?}");
    assert!(due.is_some(), "it is to be tried again");
    assert_eq!((attempts(&telemetry), balanced(&telemetry).in_flight), (1, 1));
}

#[test]
fn a_flush_keeps_its_budget_whatever_the_collector_does() {
    let (hanging, down) = (hanging(), format!("http://{}", closed_address()));
    for endpoint in [hanging.endpoint(), down] {
        let telemetry = start(bounded(&endpoint));
        emit(&telemetry.tracer("shop"), 7);
        let begun = Instant::now();
        assert_eq!(telemetry.flush(BUDGET), FlushOutcome::TimedOut { left: 7 });
        let took = begun.elapsed();
        assert!(took < BUDGET + NOISE, "{took:?}");
        assert_eq!(balanced(&telemetry).in_flight, 7);
    }
}

#[test]
fn a_shutdown_keeps_its_budget_whatever_the_collector_does() {
    let (hanging, down) = (hanging(), format!("http://{}", closed_address()));
    for endpoint in [hanging.endpoint(), down] {
        let telemetry = start(bounded(&endpoint));
        emit(&telemetry.tracer("shop"), 7);
        telemetry.meter("shop").counter("orders").add(1, ());
        let begun = Instant::now();
        let ledger = telemetry.shutdown(BUDGET);
        let took = begun.elapsed();
        assert!(took < BUDGET + PROMISED + NOISE, "{took:?}");
        assert_eq!((ledger.total().accepted, ledger.total().dropped.shutdown), (8, 8), "{ledger}");
        emit(&telemetry.tracer("shop"), 1);
        assert_eq!(telemetry.ledger().total().not_enqueued.after_shutdown, 1);
        assert_eq!(telemetry.pump(TURN), None, "nothing is left to do");
    }
}

#[test]
fn a_collector_that_hangs_leaves_the_others_their_share_of_a_budget() {
    let (bad, good) = (hanging(), Receiver::start().unwrap());
    let config = || {
        let exporter = |receiver, name| exporter(receiver).named(name);
        let config = Config::new().drop_budget(Duration::ZERO);
        config.exporter(exporter(&bad, "bad")).exporter(exporter(&good, "good"))
    };
    // An exporter's share of this budget must suffice for a delivery on a busy machine.
    let budget = NOISE;
    thread::scope(|scope| {
        scope.spawn(|| {
            let telemetry = start_with(config());
            emit(&telemetry.tracer("shop"), 7);
            assert_eq!(telemetry.flush(budget), FlushOutcome::TimedOut { left: 7 });
            assert_eq!(telemetry.ledger().exporters[1].traces.delivered, 7);
        });
        let telemetry = start_with(config());
        emit(&telemetry.tracer("shop"), 7);
        let ledger = telemetry.shutdown(budget);
        let delivered = ledger.exporters.iter().map(|exporter| exporter.traces.delivered);
        assert_eq!(delivered.collect::<Vec<_>>(), [0, 7]);
    });
    assert_eq!(good.span_count(), 14);
}

#[test]
fn a_collector_that_hangs_leaves_the_others_their_turn() {
    let (bad, good) = (hanging(), Receiver::start().unwrap());
    let (bad, good_exporter) = (exporter(&bad).timeout(A_WHILE).named("bad"), exporter(&good).named("good"));
    let telemetry =
        start_with(Config::new().drop_budget(Duration::ZERO).exporter(bad).exporter(good_exporter));
    emit(&telemetry.tracer("shop"), 7);
    telemetry.logger("shop").info("paid").emit();
    // One signal of the bad exporter uses up this turn. The exporter's other signal must not use up the next turn.
    pump_for_attempt(&telemetry);
    let deadline = Instant::now() + LONG;
    let mut was_bad = true;
    while good.request_count() == 0 {
        assert!(Instant::now() < deadline, "it has no turn");
        // With a budget of zero, `pump` only returns a time, so this call is not a turn.
        telemetry.pump(Duration::ZERO);
        let before = attempts(&telemetry);
        telemetry.pump(TURN);
        // If the machine is so busy that a turn ends before an attempt, the turn counts for neither exporter.
        let is_bad = attempts(&telemetry) > before && good.request_count() == 0;
        assert!(!was_bad || !is_bad, "the one that hangs had two turns, one after the other");
        was_bad = is_bad;
    }
}

#[test]
fn a_drop_sends_what_is_there() {
    let receiver = Receiver::start().unwrap();
    let exporter = exporter(&receiver).throttle(FOR_EVER);
    let telemetry = start_with(Config::new().exporter(exporter).drop_budget(LONG));
    emit(&telemetry.tracer("shop"), 20);
    telemetry.meter("shop").counter("orders").add(1, ());
    drop(telemetry);
    assert_eq!((receiver.span_count(), receiver.point_count()), (20, 1));
}

#[test]
fn a_caller_that_finds_no_room_sends() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).queue_records(4).throttle(FOR_EVER));
    emit(&telemetry.tracer("shop"), 50);
    let counts = balanced(&telemetry);
    assert_eq!((counts.accepted, counts.not_enqueued.total()), (50, 0));
    assert!(counts.in_flight <= 4 && receiver.span_count() >= 46, "{counts}");
}

#[test]
fn a_caller_that_finds_no_room_waits_no_longer_than_it_may() {
    let (hanging, down) = (hanging(), format!("http://{}", closed_address()));
    for endpoint in [hanging.endpoint(), down] {
        let telemetry = start(bounded(&endpoint).block_timeout(BUDGET).queue_records(4));
        let begun = Instant::now();
        emit(&telemetry.tracer("shop"), 50);
        let took = begun.elapsed();
        // Only the first record that finds the queue full waits. Until something has been delivered, later records do
        // not wait.
        assert!(took >= BUDGET && took < BUDGET + NOISE, "{took:?}");
        let counts = balanced(&telemetry);
        assert_eq!((counts.accepted, counts.not_enqueued.queue_full), (4, 46), "{counts}");
    }
}

#[test]
fn a_lossy_queue_drops_what_finds_no_room() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).queue_records(4).when_full(WhenFull::DropNewest));
    emit(&telemetry.tracer("shop"), 50);
    assert_eq!(balanced(&telemetry).not_enqueued.queue_full, 46);
    assert_eq!(receiver.request_count(), 0);
}

#[test]
fn callers_that_would_wait_without_limit_are_refused() {
    let error = Telemetry::start_manual(Config::new().exporter(exporter_to("localhost"))).unwrap_err();
    let expected = "exporter \"otlp\": without threads, callers must not wait without limit for room in the queue: set \
                    block-timeout, or lossy = true to drop records when it is full (Exporter::block_timeout, \
                    WhenFull::DropNewest)";
    assert_eq!(error.to_string(), expected);
    let lossy = exporter_to("localhost").when_full(WhenFull::DropNewest);
    let of_metrics = exporter_to("localhost").signals([Signal::Metrics]);
    for exporter in [lossy, of_metrics] {
        assert!(Telemetry::start_manual(Config::new().exporter(exporter)).is_ok());
    }
}

/// Notes made by hooks and callbacks of the program.
type Seen = Arc<Mutex<Vec<String>>>;

/// Telemetry that its own hook can use.
fn start_with_hook(
    exporter: Exporter,
    hook: impl Fn(&Telemetry, ProblemKind) + Send + Sync + 'static,
) -> Arc<Telemetry> {
    let known: Arc<OnceLock<std::sync::Weak<Telemetry>>> = Arc::default();
    let own = Arc::clone(&known);
    let config = Config::new().service_name("shop").exporter(exporter).on_problem(move |problem| {
        if let Some(telemetry) = own.get().and_then(std::sync::Weak::upgrade) {
            hook(&telemetry, problem.kind);
        }
    });
    let telemetry = Arc::new(start_with(config));
    known.set(Arc::downgrade(&telemetry)).unwrap();
    telemetry
}

#[test]
fn code_that_is_called_in_a_turn_may_use_the_telemetry() {
    let receiver = Receiver::start().unwrap();
    receiver.script([Answer::status(503)]);
    let seen = Seen::default();
    let heard = Arc::clone(&seen);
    let telemetry = start_with_hook(exporter(&receiver).queue_records(4), move |telemetry, _| {
        emit(&telemetry.tracer("shop"), 10);
        let (pumped, flushed) = (telemetry.pump(LONG), telemetry.flush(LONG));
        let outcome = format!("{pumped:?}, {flushed:?}, {:?}", telemetry.ledger().total().not_enqueued);
        heard.lock().unwrap().push(outcome);
        telemetry.shutdown(LONG);
    });
    emit(&telemetry.tracer("shop"), 2);
    telemetry.pump(LONG);
    let seen = seen.lock().unwrap().clone();
    assert!(seen[0].starts_with("None, TimedOut { left: 2 }"), "{seen:?}");
    // The shutdown that the hook called has only begun; this call completes it.
    assert_eq!(telemetry.shutdown(LONG).total().delivered, 2);
    assert_eq!(telemetry.ledger().total().not_enqueued.suppressed, 10);
}

#[test]
fn a_callback_of_a_metric_may_use_the_telemetry() {
    let receiver = Receiver::start().unwrap();
    let telemetry = Arc::new(start(exporter(&receiver)));
    let own = Arc::downgrade(&telemetry);
    let _stock = telemetry.meter("shop").build("stock").observe_gauge(move |observer| {
        let telemetry = own.upgrade().unwrap();
        emit(&telemetry.tracer("shop"), 1);
        telemetry.pump(LONG);
        observer.observe(1.5, ());
    });
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    assert_eq!((receiver.point_count(), balanced(&telemetry).not_enqueued.suppressed), (1, 1));
}

#[test]
fn a_callback_that_panics_costs_its_metric_and_not_the_program() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver));
    let _stock = telemetry.meter("shop").build("stock").observe_gauge(|_| panic!("expected"));
    emit(&telemetry.tracer("shop"), 3);
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    assert_eq!((receiver.span_count(), balanced(&telemetry).in_flight), (3, 0));
}

#[test]
fn a_caller_that_sends_calls_no_code_of_the_program() {
    let lock = Arc::new(Mutex::new(()));
    let (for_hook, for_callback) = (Arc::clone(&lock), Arc::clone(&lock));
    // Only tries the lock: a hook or callback would wait forever for a lock that its own thread holds.
    let is_free = |lock: &Mutex<()>| lock.try_lock().is_ok();
    let seen = Seen::default();
    let (heard, collected) = (Arc::clone(&seen), Arc::clone(&seen));
    let exporter = bounded(&format!("http://{}", closed_address()))
        // A wait is reported after half a second. This one is much longer, because a busy machine may report late.
        .block_timeout(12 * BUDGET)
        .queue_records(4)
        .interval(Duration::from_millis(1));
    let telemetry = start_with_hook(exporter, move |_, kind| {
        heard.lock().unwrap().push(format!("{kind:?} {}", is_free(&for_hook)));
    });
    let _stock = telemetry.meter("shop").build("stock").observe_gauge(move |observer| {
        collected.lock().unwrap().push(format!("callback {}", is_free(&for_callback)));
        observer.observe(1.5, ());
    });
    let held = lock.lock().unwrap();
    emit(&telemetry.tracer("shop"), 5);
    assert!(seen.lock().unwrap().is_empty(), "its caller holds a lock");
    assert!(attempts(&telemetry) > 1);
    drop(held);
    // A slow machine may need more than one turn for all records.
    let is_collected = || seen.lock().unwrap().iter().any(|called| called.starts_with("callback"));
    for _ in 0..1000 {
        telemetry.pump(TURN);
        if is_collected() {
            break;
        }
    }
    let seen = seen.lock().unwrap().clone();
    for called in ["Unavailable true", "CallersWaiting true", "QueueFull true", "callback true"] {
        assert!(seen.iter().any(|other| other == called), "no {called} in {seen:?}");
    }
    assert!(seen.iter().all(|called| called.ends_with(" true")), "{seen:?}");
}

#[test]
fn several_threads_send_for_each_other() {
    const THREADS: u64 = 4;
    const SPANS: u64 = 100;
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).queue_records(2));
    let (done, ended) = mpsc::channel();
    for _ in 0..THREADS {
        let (tracer, done) = (telemetry.tracer("shop"), done.clone());
        // Not scoped, so that a caller that waits forever makes the test fail instead of hang.
        thread::spawn(move || {
            emit(&tracer, SPANS);
            done.send(())
        });
    }
    for _ in 0..THREADS {
        assert_eq!(ended.recv_timeout(LONG), Ok(()), "a caller was not let go: {}", telemetry.ledger());
    }
    let ledger = telemetry.shutdown(LONG);
    assert_eq!((ledger.total().delivered, ledger.lost()), (THREADS * SPANS, 0), "{ledger}");
}

#[test]
fn a_thread_that_finds_another_at_it_waits_within_its_budget() {
    let receiver = Receiver::start().unwrap();
    receiver.pause();
    let telemetry = start(exporter(&receiver).queue_records(1));
    emit(&telemetry.tracer("shop"), 1);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let pumping = scope.spawn(|| {
            pump_for_attempt(&telemetry);
            is_over.store(true, Ordering::SeqCst);
        });
        assert!(receiver.wait_for_held(1, LONG));
        let begun = Instant::now();
        let due = telemetry.pump(A_WHILE).expect("it is to ask again");
        assert!(due >= begun + A_WHILE);
        assert_eq!(telemetry.flush(A_WHILE), FlushOutcome::TimedOut { left: 1 });
        assert!(!is_over.load(Ordering::SeqCst), "the other is still at it");
        receiver.resume();
        // Both calls wait for the other thread's attempt, and then drive the worker themselves.
        emit(&telemetry.tracer("shop"), 1);
        assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
        pumping.join().unwrap();
    });
    assert_eq!(receiver.span_count(), 2);
}

#[test]
fn a_shutdown_ends_what_another_thread_has_under_way() {
    let receiver = hanging();
    let telemetry = start(exporter(&receiver).timeout(LONG));
    emit(&telemetry.tracer("shop"), 1);
    thread::scope(|scope| {
        let pumping = scope.spawn(|| pump_for_attempt(&telemetry));
        assert!(receiver.wait_for_requests(1, LONG));
        let begun = Instant::now();
        let ledger = telemetry.shutdown(BUDGET);
        let took = begun.elapsed();
        assert!(took < BUDGET + PROMISED + NOISE, "{took:?}");
        assert_eq!(ledger.total().dropped.shutdown, 1, "{ledger}");
        pumping.join().unwrap();
    });
}

#[test]
fn with_threads_there_is_nothing_to_pump() {
    let receiver = Receiver::start().unwrap();
    let telemetry = Telemetry::start(Config::new().exporter(exporter(&receiver))).unwrap();
    emit(&telemetry.tracer("shop"), 5);
    assert_eq!(telemetry.pump(LONG), None);
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    assert_eq!(receiver.span_count(), 5);
}
