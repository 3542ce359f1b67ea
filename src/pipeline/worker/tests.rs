use std::sync::mpsc;
use std::thread;
#[cfg(all(feature = "spool", target_os = "linux"))]
use std::{cell::Cell, panic::resume_unwind, rc::Rc};

use crossbeam_channel::{Sender, bounded};

use super::attempt::next_step_at_stop;
use super::*;
use crate::config::{Level, PaceSettings, QueueSettings, Signals, SpoolSettings, WhenFull};
#[cfg(all(feature = "spool", target_os = "linux"))]
use crate::pipeline::batch::Batch;
use crate::pipeline::batch::Next;
use crate::pipeline::exporter_handle::{ExporterHandle, ExporterSpec, RecordFilter};
use crate::pipeline::ledger::Counts;
#[cfg(all(feature = "spool", target_os = "linux"))]
use crate::pipeline::ledger::Outcome;
use crate::pipeline::queue::{Queue, Shared, Wait};
use crate::pipeline::retry::{NextStep, Pause};
use crate::pipeline::schedule::Throttle;
use crate::process::Driver;
use crate::record::{Scope, frames};
use crate::transport::Verdict;
use crate::transport::gate::Gate;

/// Longest wait of a test for an event that must happen.
const PATIENCE: Duration = Duration::from_secs(10);

fn spec(gate: &Gate) -> ExporterSpec {
    let gate = gate.clone();
    let throttle = Duration::ZERO;
    ExporterSpec {
        name: "memory".to_owned(),
        filter: RecordFilter { signals: Signals::ALL, level: Level::default() },
        // Several tests fill a queue.
        queue: QueueSettings { records: 2_048, ..QueueSettings::default() },
        batch: BatchSettings::default(),
        pace: PaceSettings { throttle, linger: Duration::ZERO },
        retry: RetrySettings { first_delay: Duration::from_millis(1), ..RetrySettings::default() },
        spool: SpoolSettings::default(),
        attempt_timeout: PATIENCE,
        resource: Arc::new(Vec::new),
        metrics: None,
        hook: None,
        transport: Box::new(move || gate.open_transport()),
        driver: Driver::OwnThread,
        observer: None,
    }
}

/// Returns a worker that is not running, with at most two records in a batch. Its queues wake it through `wake`.
fn worker(gate: &Gate, commands: Commands, wake: Sender<()>) -> Worker {
    let plan = spec(gate);
    let counters = Arc::new(Counters::default());
    let reporter = Arc::new(ProblemReporter::new("memory", None, None));
    let shared = Shared::new(Arc::clone(&counters), Arc::clone(&reporter), wake);
    let queue = Arc::new(Queue::new(&plan.queue, 1024, shared));
    let throttle = Throttle::new(plan.pace);
    Worker {
        deliveries: vec![Delivery::of(Signal::Traces, queue, Arc::clone(&counters), throttle)],
        counters,
        transport: Some(gate.open_transport()),
        owner: None,
        current_attempt: Arc::default(),
        batch: BatchSettings { records: 2, ..plan.batch },
        retry: plan.retry,
        attempt_timeout: PATIENCE,
        resource: Vec::new(),
        reader: None,
        spool: None,
        reporter,
        observer: None,
        commands,
        state: State::default(),
    }
}

fn scope() -> Arc<Scope> {
    Arc::new(Scope::new(Signal::Traces, "shop", ""))
}

/// A framed record of five bytes, of which the last is `number`.
fn record(number: u8) -> [u8; 5] {
    [0x12, 3, 0x0a, 1, number]
}

fn enqueue(handle: &ExporterHandle, numbers: impl IntoIterator<Item = u8>) {
    let scope = scope();
    numbers.into_iter().for_each(|number| {
        handle.enqueue(&scope, &record(number), 1, &Wait::FromNow);
    });
}

/// The numbers of the records in a request, in their order.
fn numbers(body: &[u8]) -> Vec<u8> {
    // Skip the headers of request, resource and scope, which have two bytes each here, then the scope's name.
    let scope_records = &body[2..];
    let records = &scope_records[2 + scope().field().len()..];
    frames(records).map(|frame| frame[frame.len() - 1]).collect()
}

fn counts(handle: &ExporterHandle) -> Counts {
    handle.ledger().traces
}

fn flush(handle: &ExporterHandle) {
    assert!(handle.start_flush().ends_within(PATIENCE), "the flush never ended");
}

fn stop(handle: &ExporterHandle) -> Counts {
    let deadline = Instant::now() + PATIENCE;
    handle.start_stop(deadline);
    assert!(handle.wait_for_end(deadline), "the worker did not end");
    handle.finish_stop();
    counts(handle)
}

fn later() -> Verdict {
    Verdict::TryLater { after: None, reason: "busy".to_owned() }
}

#[test]
fn a_panic_in_the_transport_costs_its_batch_and_not_the_worker() {
    let gate = Gate::default();
    let (reported, problems) = mpsc::channel();
    let mut spec = spec(&gate);
    spec.hook = Some(Arc::new(move |problem| {
        let _ = reported.send(problem.kind);
    }));
    let handle = ExporterHandle::start(spec.prepare()).unwrap();
    enqueue(&handle, [1]);
    gate.panic();
    flush(&handle);
    enqueue(&handle, [2]);
    assert_eq!(numbers(&gate.answer(Verdict::Accepted).body), [2]);
    let counts = stop(&handle);
    assert_eq!((counts.accepted, counts.delivered, counts.dropped.worker_panicked), (2, 1, 1), "{counts}");
    assert_eq!(problems.try_iter().collect::<Vec<_>>(), [ProblemKind::WorkerPanicked]);
}

#[test]
fn a_caller_that_waits_behind_a_panicking_batch_gets_its_room() {
    let gate = Gate::default();
    let mut spec = spec(&gate);
    spec.queue = QueueSettings { records: 1, when_full: WhenFull::Block, ..spec.queue };
    let handle = Arc::new(ExporterHandle::start(spec.prepare()).unwrap());
    enqueue(&handle, [1]);
    gate.next();
    // Not a scoped thread: a caller that never gets room must fail the test, and not block it.
    let caller = Arc::clone(&handle);
    thread::spawn(move || enqueue(&caller, [2]));
    gate.panic();
    assert_eq!(numbers(&gate.answer(Verdict::Accepted).body), [2]);
    let counts = stop(&handle);
    assert_eq!((counts.delivered, counts.dropped.worker_panicked), (1, 1), "{counts}");
}

#[test]
fn a_request_is_freed_before_a_waiting_caller_gets_its_room() {
    let gate = Gate::default();
    let mut spec = spec(&gate);
    spec.queue = QueueSettings { records: 1, when_full: WhenFull::Block, ..spec.queue };
    let handle = Arc::new(ExporterHandle::start(spec.prepare()).unwrap());
    // If the worker released the room before it freed the request, the assertion would fail in some of these rounds.
    for _ in 0..200 {
        let sent = scope();
        let held = Arc::downgrade(&sent);
        handle.enqueue(&sent, &record(1), 1, &Wait::FromNow);
        drop(sent);
        gate.next();
        let caller = Arc::clone(&handle);
        let (report, reported) = mpsc::channel();
        thread::spawn(move || {
            enqueue(&caller, [2]);
            report.send(held.strong_count()).unwrap();
        });
        gate.answer(Verdict::Accepted);
        assert_eq!(reported.recv_timeout(PATIENCE), Ok(0), "records that hold a scope are in memory");
        gate.answer(Verdict::Accepted);
        flush(&handle);
    }
    stop(&handle);
}

#[test]
fn a_worker_survives_any_number_of_panics() {
    let gate = Gate::default();
    let handle = ExporterHandle::start(spec(&gate).prepare()).unwrap();
    for number in 0..50 {
        enqueue(&handle, [number]);
        gate.panic();
        flush(&handle);
    }
    let counts = stop(&handle);
    assert_eq!((counts.accepted, counts.dropped.worker_panicked), (50, 50), "{counts}");
}

#[test]
fn a_panic_during_shutdown_does_not_keep_it_from_its_end() {
    let gate = Gate::default();
    let handle = ExporterHandle::start(spec(&gate).prepare()).unwrap();
    enqueue(&handle, [1]);
    gate.next();
    thread::scope(|scope| {
        let stopped = scope.spawn(|| stop(&handle));
        gate.panic();
        let counts = stopped.join().unwrap();
        assert_eq!((counts.accepted, counts.dropped.worker_panicked), (1, 1), "{counts}");
    });
}

#[test]
fn after_a_panic_of_its_own_the_worker_writes_off_all_that_had_left_the_queue() {
    let gate = Gate::default();
    let (wake, woken) = bounded(1);
    let commands = Commands { stop: bounded(1).1, flush: Arc::default(), wake: woken };
    let mut worker = worker(&gate, commands, wake);
    let (scope, queue) = (scope(), Arc::clone(&worker.deliveries[0].queue));
    (0..5).for_each(|number| {
        queue.enqueue(&scope, &record(number), 1, &Wait::No);
    });
    let delivery = &mut worker.deliveries[0];
    delivery.drain_queue(Instant::now());
    let Some(Next::Batch(batch)) = delivery.next_batch(&worker.batch, &[]) else {
        panic!("there is a batch")
    };
    assert_eq!(batch.records, 2);
    // A record that was enqueued meanwhile is still in the queue.
    queue.enqueue(&scope, &record(5), 1, &Wait::No);
    delivery.write_off();
    assert_eq!((delivery.taken, delivery.settled), (5, 5));
    let counts = worker.counters.read("memory", || [queue.accepted(), 0, 0]).traces;
    assert_eq!((counts.accepted, counts.dropped.worker_panicked, counts.in_flight), (6, 5, 1), "{counts}");
    assert_eq!(queue.level(), (1, record(5).len()));
}

#[test]
fn records_of_two_signals_in_turn_make_one_request_each() {
    let gate = Gate::default();
    let handle = ExporterHandle::start(spec(&gate).prepare()).unwrap();
    enqueue(&handle, [0]);
    gate.next();
    let scopes = [Signal::Traces, Signal::Logs].map(|signal| Arc::new(Scope::new(signal, "shop", "")));
    for number in 1..=3 {
        scopes.iter().for_each(|scope| {
            handle.enqueue(scope, &record(number), 1, &Wait::FromNow);
        });
    }
    gate.answer(Verdict::Accepted);
    let sent = [(); 2].map(|()| gate.answer(Verdict::Accepted));
    assert_eq!(sent.map(|sent| numbers(&sent.body)), [[1, 2, 3]; 2]);
    stop(&handle);
    let ledger = handle.ledger();
    assert_eq!((ledger.traces.delivered, ledger.logs.delivered, ledger.attempts), (4, 3, 3));
}

#[test]
fn what_the_transport_refuses_is_dropped_and_the_next_batch_goes() {
    let gate = Gate::default();
    let handle = ExporterHandle::start(spec(&gate).prepare()).unwrap();
    enqueue(&handle, [1]);
    gate.answer(Verdict::Refused { reason: "no".to_owned() });
    enqueue(&handle, [2]);
    assert_eq!(numbers(&gate.answer(Verdict::Accepted).body), [2]);
    let counts = stop(&handle);
    assert_eq!((counts.delivered, counts.dropped.refused), (1, 1), "{counts}");
}

#[test]
fn a_batch_is_sent_again_until_it_is_taken() {
    let gate = Gate::default();
    let handle = ExporterHandle::start(spec(&gate).prepare()).unwrap();
    enqueue(&handle, [1]);
    let first = gate.answer(later());
    gate.answer(later());
    assert_eq!(gate.answer(Verdict::Accepted).body, first.body);
    flush(&handle);
    assert_eq!(handle.ledger().attempts, 3);
    assert_eq!(stop(&handle).delivered, 1);
}

#[test]
fn a_batch_that_is_too_large_is_halved_in_order_and_never_sent_whole_again() {
    let gate = Gate::default();
    let too_large = || Verdict::TooLarge { reason: "413".to_owned() };
    let handle = ExporterHandle::start(spec(&gate).prepare()).unwrap();
    enqueue(&handle, [0]);
    gate.next();
    // These four records become one batch, because the gate is still closed.
    enqueue(&handle, [1, 2, 3, 4]);
    gate.answer(Verdict::Accepted);
    let mut taken = Vec::new();
    for (verdict, expected) in [
        (too_large(), vec![1, 2, 3, 4]),
        (too_large(), vec![1, 2]),
        (Verdict::Accepted, vec![1]),
        (too_large(), vec![2]),
        (Verdict::Accepted, vec![3, 4]),
    ] {
        let accepted = verdict == Verdict::Accepted;
        let sent = numbers(&gate.answer(verdict).body);
        assert_eq!(sent, expected);
        if accepted {
            taken.extend(sent);
        }
    }
    assert_eq!(taken, [1, 3, 4]);
    let counts = stop(&handle);
    assert_eq!((counts.delivered, counts.dropped.too_large), (4, 1), "{counts}");
}

#[test]
fn an_attempt_has_its_time_out_or_what_is_left_of_the_batch_if_that_is_less() {
    let gate = Gate::default();
    let mut spec = spec(&gate);
    spec.attempt_timeout = 3 * PATIENCE;
    let handle = ExporterHandle::start(spec.prepare()).unwrap();
    enqueue(&handle, [1]);
    let sent = gate.answer(Verdict::Accepted);
    let left = sent.deadline.saturating_duration_since(Instant::now());
    assert!(left > 2 * PATIENCE && left <= 3 * PATIENCE, "{left:?}");
    stop(&handle);

    spec.retry.give_up_after = PATIENCE;
    let handle = ExporterHandle::start(spec.prepare()).unwrap();
    enqueue(&handle, [1]);
    let sent = gate.answer(Verdict::Accepted);
    assert!(sent.deadline <= Instant::now() + PATIENCE);
}

#[test]
fn an_attempt_that_begins_after_the_batchs_time_is_made_with_its_time_out() {
    let gate = Gate::default();
    let (wake, woken) = bounded(1);
    let (_stop, stop) = bounded(1);
    let mut worker = worker(&gate, Commands { stop, flush: Arc::default(), wake: woken }, wake);
    let now = Instant::now();
    let delivery = &mut worker.deliveries[0];
    delivery.queue.enqueue(&scope(), &record(1), 1, &Wait::No);
    delivery.drain_queue(now);
    delivery.give_up = Some(now);
    thread::scope(|scope| {
        scope.spawn(|| worker.try_once(0));
        assert!(gate.answer(Verdict::Accepted).deadline >= now + PATIENCE, "it has no time");
    });
    assert_eq!(worker.deliveries[0].queue.level(), (0, 0));
}

#[test]
fn a_batch_whose_time_is_up_is_given_up_and_the_next_one_goes() {
    let gate = Gate::default();
    let mut spec = spec(&gate);
    spec.retry.give_up_after = Duration::from_millis(50);
    let handle = ExporterHandle::start(spec.prepare()).unwrap();
    enqueue(&handle, [1]);
    // The gate stays closed until the time is up.
    flush(&handle);
    assert_eq!(counts(&handle).dropped.gave_up, 1);
    gate.answer_in_advance(Verdict::Accepted);
    enqueue(&handle, [2]);
    flush(&handle);
    let counts = stop(&handle);
    assert_eq!((counts.delivered, counts.dropped.gave_up), (1, 1), "{counts}");
}

#[test]
fn a_send_that_is_interrupted_at_shutdown_is_counted_as_lost_to_it() {
    let gate = Gate::default();
    let handle = ExporterHandle::start(spec(&gate).prepare()).unwrap();
    enqueue(&handle, [1, 2, 3]);
    gate.next();
    let deadline = Instant::now();
    handle.start_stop(deadline);
    assert!(!handle.wait_for_end(deadline));
    handle.interrupt();
    assert!(handle.wait_for_end(Instant::now() + PATIENCE), "the worker was not interrupted");
    handle.finish_stop();
    let counts = counts(&handle);
    assert_eq!((counts.accepted, counts.dropped.shutdown, counts.in_flight), (3, 3, 0), "{counts}");
}

#[test]
fn a_server_that_is_found_in_a_stop_gets_what_was_given_up_for_want_of_one() {
    let gate = Gate::default();
    let handle = ExporterHandle::start(spec(&gate).prepare()).unwrap();
    let unreachable = || Verdict::Unreachable { reason: "connection refused".to_owned() };
    enqueue(&handle, [1]);
    gate.next();
    handle.enqueue(&Arc::new(Scope::new(Signal::Logs, "shop", "")), &record(2), 1, &Wait::FromNow);
    handle.start_stop(Instant::now() + PATIENCE);
    gate.answer(unreachable());
    // Runs until one of the signals has had its two attempts.
    let mut attempts = Vec::new();
    while !attempts.iter().any(|body| attempts.iter().filter(|other| *other == body).count() == 2) {
        attempts.push(gate.answer(unreachable()).body);
        assert!(attempts.len() < 4, "a signal was tried more than twice: {attempts:?}");
    }
    let (found, given_up) = (gate.answer(Verdict::Accepted), gate.answer(Verdict::Accepted));
    assert_eq!(Some(&given_up.body), attempts.iter().find(|body| **body != found.body));
    assert!(handle.wait_for_end(Instant::now() + PATIENCE));
    let ledger = handle.ledger();
    assert_eq!((ledger.traces.delivered, ledger.logs.delivered), (1, 1), "{ledger:?}");
}

#[test]
fn pauses_for_100_ms_in_a_stop_and_tries_one_last_time_halfway_to_its_end() {
    let millis = Duration::from_millis;
    let pause = |time, is_last| Pause { time: millis(time), by_server: false, is_last };
    for (asked, left, next) in [
        (0, 1000, pause(100, false)),
        (250, 1000, pause(250, false)),
        (0, 202, pause(100, false)),
        (0, 200, pause(100, true)),
        (250, 120, pause(60, true)),
        (60_000, 120, pause(60, true)),
    ] {
        for step in [NextStep::TryAgain(pause(asked, false)), NextStep::GiveUp(pause(asked, false))] {
            assert_eq!(next_step_at_stop(step, false, millis(left)), NextStep::TryAgain(next), "{left}");
        }
        let last = NextStep::GiveUp(pause(asked, false));
        assert_eq!(next_step_at_stop(last, true, millis(left)), last, "after the last attempt");
    }
    for step in [NextStep::Done { rejected: 1 }, NextStep::Divide, NextStep::DropRefused] {
        assert_eq!(next_step_at_stop(step, false, millis(1000)), step);
    }
}

#[test]
fn what_is_settled_after_the_books_are_closed_changes_nothing() {
    let gate = Gate::default();
    let handle = ExporterHandle::start(spec(&gate).prepare()).unwrap();
    enqueue(&handle, [1]);
    gate.next();
    handle.start_stop(Instant::now());
    handle.finish_stop();
    let closed = counts(&handle);
    gate.answer(Verdict::Accepted);
    assert!(handle.wait_for_end(Instant::now() + PATIENCE));
    assert_eq!(counts(&handle), closed);
    assert_eq!((closed.delivered, closed.dropped.shutdown), (0, 1), "{closed}");
}

#[test]
fn a_worker_whose_owner_is_gone_ends() {
    let gate = Gate::default();
    let (running, ended) = bounded::<()>(0);
    let mut spec = spec(&gate);
    // The hook owns `running`, so the channel is connected as long as the worker lives.
    spec.hook = Some(Arc::new(move |_| {
        let _ = &running;
    }));
    let handle = ExporterHandle::start(spec.prepare()).unwrap();
    drop(spec);
    drop(handle);
    assert!(ended.recv_timeout(PATIENCE).is_err_and(|error| error.is_disconnected()), "the worker lives on");
}

#[test]
fn a_wake_up_after_its_record_was_sent_does_not_deafen_an_idle_worker() {
    let (wake, woken) = bounded(1);
    let (_stop, stop) = bounded(1);
    let mut worker =
        worker(&Gate::default(), Commands { stop, flush: Arc::default(), wake: woken }, wake.clone());
    wake.send(()).unwrap();
    let (done, heard) = mpsc::channel();
    let now = Instant::now();
    thread::spawn(move || done.send(matches!(worker.wait(now, now + NO_DEADLINE), Command::Woken)));
    assert_eq!(heard.recv_timeout(PATIENCE), Ok(true), "it went back to sleep without setting a level");
}

#[test]
fn a_flush_is_kept_as_long_as_its_caller_waits_for_it() {
    let (wake, woken) = bounded(1);
    let (_stop, stop) = bounded(1);
    let mut worker =
        worker(&Gate::default(), Commands { stop, flush: Arc::default(), wake: woken }, wake.clone());
    worker.deliveries[0].queue.enqueue(&scope(), &record(1), 1, &Wait::No);
    let awaited = worker.commands.flush.request();
    worker.receive_commands();
    for _ in 0..1000 {
        drop(worker.commands.flush.request());
        worker.receive_commands();
        worker.report_flushed();
        assert_eq!(worker.state.flushes.len(), 1);
    }
    assert!(!awaited.is_over(), "its record is not settled");
    worker.deliveries[0].write_off();
    worker.report_flushed();
    assert!(awaited.is_over() && worker.state.flushes.is_empty());
}

#[test]
fn begins_one_flush_for_all_callers_that_requested_one_since_its_last_step() {
    let (wake, woken) = bounded(1);
    let (_stop, stop) = bounded(1);
    let commands = Commands { stop, flush: Arc::default(), wake: woken };
    let mut worker = worker(&Gate::default(), commands, wake);
    worker.deliveries[0].queue.enqueue(&scope(), &record(1), 1, &Wait::No);
    (0..1000).for_each(|_| drop(worker.commands.flush.request()));
    let awaited = [(); 1000].map(|()| worker.commands.flush.request());
    worker.receive_commands();
    assert_eq!(worker.state.flushes.len(), 1);
    worker.report_flushed();
    assert!(awaited.iter().all(|flush| !flush.is_over()), "the record is not settled");
    worker.deliveries[0].write_off();
    worker.report_flushed();
    assert!(awaited.iter().all(PendingFlush::is_over));
}

#[test]
fn flushes_leave_a_tenth_of_a_second_of_a_back_off_and_all_that_the_server_asked_for() {
    const TENTH: Duration = Duration::from_millis(100);
    let (wake, woken) = bounded(1);
    let (_stop, stop) = bounded(1);
    let mut worker =
        worker(&Gate::default(), Commands { stop, flush: Arc::default(), wake: woken }, wake.clone());
    let now = Instant::now();
    for (time, by_server, left) in
        [(PATIENCE, false, TENTH), (TENTH / 2, false, TENTH / 2), (PATIENCE, true, PATIENCE)]
    {
        worker.deliveries[0].pause_for(now, Pause { time, by_server, is_last: false });
        for _ in 0..3 {
            drop(worker.commands.flush.request());
            worker.receive_commands();
            let is_paused = |after| worker.deliveries[0].is_paused(now + after);
            assert!(is_paused(left - Duration::from_nanos(1)) && !is_paused(left), "{time:?}");
        }
    }
}

#[test]
fn a_worker_sleeps_while_a_signal_waits_in_its_back_off_though_its_queue_is_full() {
    let (wake, woken) = bounded(1);
    let (_stop, stop) = bounded(1);
    let mut worker =
        worker(&Gate::default(), Commands { stop, flush: Arc::default(), wake: woken }, wake.clone());
    let (queue, scope) = (Arc::clone(&worker.deliveries[0].queue), scope());
    (0..queue.max_records()).for_each(|number| {
        queue.enqueue(&scope, &record(number as u8), 1, &Wait::No);
    });
    let now = Instant::now();
    worker.deliveries[0].drain_queue(now);
    worker.deliveries[0]
        .pause_for(now, Pause { time: Duration::from_millis(300), by_server: false, is_last: false });
    let mut rests = 0;
    while worker.deliveries[0].is_paused(Instant::now()) {
        worker.rest();
        rests += 1;
    }
    // One rest is enough, but a sleep may end slightly too early, and then another rest follows.
    assert!(rests <= 3, "it woke {rests} times");
}

#[test]
fn frees_the_chunks_of_all_signals_that_callers_did_not_need_for_ten_seconds() {
    let (wake, woken) = bounded(1);
    let (_stop, stop) = bounded(1);
    let commands = Commands { stop, flush: Arc::default(), wake: woken };
    let mut worker = worker(&Gate::default(), commands, wake.clone());
    let (counters, reporter) = (Arc::clone(&worker.counters), Arc::clone(&worker.reporter));
    let of_logs = Queue::new(&QueueSettings::default(), 1024, Shared::new(counters, reporter, wake));
    let throttle = Throttle::new(PaceSettings::default());
    let counters = Arc::clone(&worker.counters);
    worker.deliveries.push(Delivery::of(Signal::Logs, Arc::new(of_logs), counters, throttle));
    let queues = worker.deliveries.iter().map(|delivery| Arc::clone(&delivery.queue)).collect::<Vec<_>>();
    let burst = || {
        for queue in &queues {
            (0..300).for_each(|_| _ = queue.enqueue(&scope(), &[0; 1000], 1, &Wait::No));
            queue.drain(|chunk| queue.give_back(chunk));
        }
    };
    let spares = || queues.iter().map(|queue| queue.spare_chunks()).collect::<Vec<_>>();
    let begun = Instant::now();
    // The guard ends the simulated time, in case the thread runs another test.
    let _simulated = clock::simulated::Simulated;
    let mut work = |time| {
        clock::simulated::set(time);
        worker.work();
        spares()
    };
    assert_eq!(work(begun), [0, 0]);
    burst();
    let needed = spares();
    assert!(needed.iter().all(|needed| *needed > 2), "{needed:?}");
    let kept = [IDLE, 2 * IDLE - Duration::from_nanos(1)].map(|after| work(begun + after));
    assert_eq!(kept, [needed.clone(), needed.clone()], "a worker with work to do");
    assert_eq!(work(begun + 2 * IDLE), [2, 2]);
    burst();
    assert_eq!(spares(), needed);
    // For a wait in the past, no time passes.
    clock::simulated::set(begun + 9 * IDLE);
    worker.wait(begun + 2 * IDLE, begun + 3 * IDLE);
    assert_eq!(spares(), needed, "a wait of ten seconds");
    worker.wait(begun + 3 * IDLE, begun + 6 * IDLE);
    assert_eq!(spares(), [2, 2], "a longer wait");
}

/// Makes a worker with a spool in a new directory, and returns both.
#[cfg(all(feature = "spool", target_os = "linux"))]
fn worker_with_spool(name: &str) -> (Worker, std::path::PathBuf) {
    let directory = std::env::temp_dir().join(format!("standpipe-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    let settings = SpoolSettings { directory: Some(directory.clone()), ..SpoolSettings::default() };
    let (wake, woken) = bounded(1);
    let commands = Commands { stop: bounded(1).1, flush: Arc::default(), wake: woken };
    let mut worker = worker(&Gate::default(), commands, wake);
    worker.spool = Spool::open(&settings, "memory", &[], 0, 1).unwrap();
    (worker, directory)
}

#[cfg(all(feature = "spool", target_os = "linux"))]
fn batch_of(worker: &mut Worker, number: u8) -> Batch {
    let delivery = &mut worker.deliveries[0];
    delivery.queue.enqueue(&scope(), &record(number), 1, &Wait::No);
    delivery.drain_queue(clock::now());
    let Some(Next::Batch(batch)) = delivery.next_batch(&worker.batch, &[]) else {
        panic!("there is a record")
    };
    batch
}

#[cfg(all(feature = "spool", target_os = "linux"))]
fn enqueue_until_it_is_pressing(queue: &Queue, number: u8) {
    while !queue.is_pressing(queue.level()) {
        queue.enqueue(&scope(), &record(number), 1, &Wait::No);
    }
}

#[cfg(all(feature = "spool", target_os = "linux"))]
#[test]
fn sends_a_batch_from_memory_though_the_disk_cannot_read_its_copy() {
    let (mut worker, directory) = worker_with_spool("unread");
    let mut sent = batch_of(&mut worker, 1);
    enqueue_until_it_is_pressing(&worker.deliveries[0].queue, 2);
    worker.relieve_queues(0, &sent);
    crate::spool::faults::set(Some(Box::new(|| true)));
    worker.adopt_entry(0, &mut sent);
    assert!(sent.is_spooled() && numbers(&sent.body().concat()) == [1]);
    let level = worker.deliveries[0].queue.level();
    assert_eq!(level, (0, 0), "the batch takes room in the queue, though the spool has it");
    crate::spool::faults::set(None);
    worker.settle_part(0, sent, Outcome::Delivered);
    worker.load_spooled(0);
    let next = worker.deliveries[0].parts.last().expect("what is behind it");
    assert_eq!(numbers(&next.body().concat()), [2, 2]);
    drop(worker);
    std::fs::remove_dir_all(directory).unwrap();
}

#[cfg(all(feature = "spool", target_os = "linux"))]
#[test]
fn the_answer_to_a_request_is_not_taken_for_that_of_an_older_one_on_disk() {
    let (mut worker, directory) = worker_with_spool("answer");
    let older = batch_of(&mut worker, 1);
    worker.spool.as_mut().unwrap().append(Signal::Traces, 1, &older.body(), &|_, _| ()).unwrap();
    worker.deliveries[0].note_spooled(older);
    // Simulates a disk that could not be read when this batch was sent, but works again before the answer arrives.
    let mut sent = batch_of(&mut worker, 2);
    enqueue_until_it_is_pressing(&worker.deliveries[0].queue, 3);
    worker.relieve_queues(0, &sent);
    worker.adopt_entry(0, &mut sent);
    assert!(!sent.is_spooled() && numbers(&sent.body().concat()) == [2]);
    drop(worker);
    std::fs::remove_dir_all(directory).unwrap();
}

fn proxy_refused() -> Verdict {
    Verdict::ProxyRefused { reason: "proxy: 407".to_owned() }
}

#[test]
fn sends_nothing_of_any_signal_after_the_proxy_refused_one_whatever_is_flushed() {
    let gate = Gate::default();
    let (reported, problems) = mpsc::channel();
    let mut spec = spec(&gate);
    spec.hook = Some(Arc::new(move |problem| {
        let _ = reported.send(problem.message.clone());
    }));
    let handle = ExporterHandle::start(spec.prepare()).unwrap();
    enqueue(&handle, [1]);
    gate.answer(proxy_refused());
    for number in 2..10 {
        handle.enqueue(&Arc::new(Scope::new(Signal::Logs, "shop", "")), &record(number), 1, &Wait::FromNow);
        enqueue(&handle, [number]);
        let flush = handle.start_flush();
        assert!(flush.0.recv_timeout(Duration::from_millis(20)).is_err(), "a flush has cut the pause short");
    }
    assert!(gate.next_within(Duration::from_millis(200)).is_none(), "the proxy got another request");
    let ledger = handle.ledger();
    assert_eq!((ledger.traces.in_flight, ledger.logs.in_flight), (9, 8), "{ledger:?}");
    // A stop ends at once, because the pause is longer than the stop's budget.
    assert_eq!(stop(&handle).dropped.shutdown, 9);
    assert_eq!(handle.ledger().attempts, 1);
    assert_eq!(problems.try_iter().collect::<Vec<_>>(), ["proxy: 407; nothing is sent for 60 s"]);
}

#[test]
fn gives_records_up_at_the_end_of_their_time_without_another_attempt_while_the_proxy_pauses() {
    let gate = Gate::default();
    let mut spec = spec(&gate);
    spec.retry.give_up_after = Duration::from_millis(300);
    let handle = ExporterHandle::start(spec.prepare()).unwrap();
    let begun = Instant::now();
    enqueue(&handle, [1]);
    gate.answer(proxy_refused());
    flush(&handle);
    assert!(begun.elapsed() >= Duration::from_millis(300), "after {:?}", begun.elapsed());
    assert_eq!(counts(&handle).dropped.gave_up, 1);
    // Later records wait for the end of the pause.
    enqueue(&handle, [2]);
    assert!(gate.next_within(Duration::from_millis(200)).is_none(), "the proxy got another request");
    assert_eq!(stop(&handle).dropped.shutdown, 1);
    assert_eq!(handle.ledger().attempts, 1);
}

#[test]
fn makes_one_attempt_in_a_stop_if_the_proxy_refuses_it() {
    let gate = Gate::default();
    let mut spec = spec(&gate);
    spec.pace.linger = PATIENCE * 10;
    let handle = ExporterHandle::start(spec.prepare()).unwrap();
    enqueue(&handle, [1, 2]);
    handle.enqueue(&Arc::new(Scope::new(Signal::Logs, "shop", "")), &record(3), 1, &Wait::FromNow);
    handle.start_stop(Instant::now() + PATIENCE);
    gate.answer(proxy_refused());
    assert!(handle.wait_for_end(Instant::now() + PATIENCE / 2), "the worker uses its budget up");
    handle.finish_stop();
    let ledger = handle.ledger();
    assert_eq!((ledger.attempts, ledger.traces.dropped.shutdown, ledger.logs.dropped.shutdown), (1, 2, 1));
}

#[cfg(all(feature = "spool", target_os = "linux"))]
#[test]
fn counts_every_record_once_when_the_disk_panics_during_an_attempt() {
    // Let the first call to the disk panic, then the second call, and so on.
    for calls in 0..20_u32 {
        let (mut worker, directory) = worker_with_spool("panics");
        let mut sent = batch_of(&mut worker, 1);
        let queue = Arc::clone(&worker.deliveries[0].queue);
        enqueue_until_it_is_pressing(&queue, 2);
        let (left, has_panicked) = (Cell::new(calls), Rc::new(Cell::new(false)));
        let panics = Rc::clone(&has_panicked);
        crate::spool::faults::set(Some(Box::new(move || {
            if left.replace(left.get().saturating_sub(1)) == 0 && !panics.replace(true) {
                resume_unwind(Box::new("on purpose"));
            }
            false
        })));
        worker.relieve_queues(0, &sent);
        crate::spool::faults::set(None);
        worker.adopt_entry(0, &mut sent);
        worker.settle_part(0, sent, Outcome::Delivered);
        let counts = worker.counters.read("memory", || [queue.accepted(), 0, 0]).traces;
        assert_eq!((counts.delivered, counts.in_flight), (1, queue.level().0 as u64), "{calls}: {counts}");
        let is_drained = queue.level().0 == 0;
        assert!(
            has_panicked.get() && is_drained == (counts.dropped.worker_panicked > 0),
            "{calls}: {counts}"
        );
        drop(worker);
        std::fs::remove_dir_all(directory).unwrap();
    }
}
