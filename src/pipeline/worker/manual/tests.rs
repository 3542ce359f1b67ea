use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::*;
use crate::config::{
    BatchSettings, Level, PaceSettings, QueueSettings, RetrySettings, Signals, SpoolSettings,
};
use crate::pipeline::exporter_handle::{ExporterHandle, ExporterSpec, RecordFilter};
use crate::pipeline::queue::Wait;
use crate::problem::ProblemKind;
use crate::process::Driver;
use crate::record::{Scope, Signal};
use crate::transport::Verdict;
use crate::transport::gate::Gate;

/// Longest wait of a test for an event that must happen.
const PATIENCE: Duration = Duration::from_secs(10);

fn spec(gate: &Gate) -> ExporterSpec {
    let gate = gate.clone();
    ExporterSpec {
        name: "memory".to_owned(),
        filter: RecordFilter { signals: Signals::ALL, level: Level::default() },
        queue: QueueSettings { records: 2, ..QueueSettings::default() },
        batch: BatchSettings::default(),
        pace: PaceSettings { throttle: Duration::ZERO, linger: Duration::ZERO },
        retry: RetrySettings { first_delay: Duration::from_millis(1), ..RetrySettings::default() },
        spool: SpoolSettings::default(),
        attempt_timeout: PATIENCE,
        resource: Arc::new(Vec::new),
        metrics: None,
        hook: None,
        transport: Box::new(move || gate.open_transport()),
        driver: Driver::Caller,
        observer: None,
    }
}

fn start(spec: &ExporterSpec) -> ExporterHandle {
    ExporterHandle::start(spec.prepare()).unwrap()
}

fn scope() -> Arc<Scope> {
    Arc::new(Scope::new(Signal::Traces, "shop", ""))
}

fn enqueue(handle: &ExporterHandle) {
    handle.enqueue(&scope(), &[0x12, 0], 1, &Wait::FromNow);
}

fn soon() -> Instant {
    Instant::now() + PATIENCE
}

/// Pumps the exporter on a second thread, which makes one attempt. Meanwhile `decide` determines the verdict.
fn pump(handle: &ExporterHandle, decide: impl FnOnce()) {
    let pumped = handle.manual().unwrap();
    thread::scope(|scope| {
        let pumping = scope.spawn(|| super::pump(&[pumped], soon()));
        decide();
        pumping.join().unwrap();
    });
}

#[test]
fn a_panic_in_the_transport_costs_its_batch_and_not_the_caller() {
    let gate = Gate::default();
    let (reported, problems) = mpsc::channel();
    let mut spec = spec(&gate);
    spec.hook = Some(Arc::new(move |problem| {
        let _ = reported.send(problem.kind);
    }));
    let handle = start(&spec);
    enqueue(&handle);
    pump(&handle, || drop(gate.panic()));
    enqueue(&handle);
    pump(&handle, || drop(gate.answer(Verdict::Accepted)));
    let counts = handle.ledger().traces;
    assert_eq!((counts.accepted, counts.delivered, counts.dropped.worker_panicked), (2, 1, 1), "{counts}");
    assert_eq!(problems.try_iter().collect::<Vec<_>>(), [ProblemKind::WorkerPanicked]);
}

#[test]
fn a_turn_gives_an_attempt_its_own_timeout_and_a_flush_no_more_than_is_left() {
    let gate = Gate::default();
    let handle = start(&spec(&gate));
    enqueue(&handle);
    let earliest = soon();
    pump(&handle, || {
        assert!(gate.next().deadline >= earliest, "it was cut short");
        gate.answer(Verdict::Accepted);
    });
    enqueue(&handle);
    let flushed = handle.start_flush();
    // Long enough for a busy machine to begin the attempt.
    let deadline = Instant::now() + Duration::from_secs(2);
    thread::scope(|scope| {
        let driving =
            scope.spawn(|| drive(handle.goal(&flushed.0).into_iter().collect(), deadline, deadline));
        assert!(gate.next().deadline <= deadline);
        driving.join().unwrap();
    });
    assert!(!flushed.is_over());
    assert!(Instant::now() >= deadline);
}

#[test]
fn a_caller_that_waits_goes_on_when_the_thread_that_drives_stops() {
    let gate = Gate::default();
    let mut spec = spec(&gate);
    spec.queue.block_timeout = None;
    let handle = Arc::new(start(&spec));
    (0..2).for_each(|_| enqueue(&handle));
    // Pretend that the wait began a second ago, so that it is reported at once. After that, only a wake-up ends the
    // wait.
    let since = Instant::now().checked_sub(Duration::from_secs(1)).unwrap();
    let (done, ended) = mpsc::channel();
    pump(&handle, || {
        gate.next();
        let caller = Arc::clone(&handle);
        // Not a scoped thread: a caller that never gets room must fail the test, and not block it.
        thread::spawn(move || {
            caller.enqueue(&scope(), &[0x12, 0], 1, &Wait::Since(since));
            done.send(())
        });
        let deadline = soon();
        while !matches!(&*lock(&handle.manual().unwrap().place), Place::Taken { is_wanted: true }) {
            assert!(Instant::now() < deadline, "the caller does not want the worker");
            thread::yield_now();
        }
        // With this delay, the next attempt is due after the thread that drives the worker has stopped.
        let after = Some(Duration::from_millis(500));
        gate.answer(Verdict::TryLater { after, reason: "busy".to_owned() });
    });
    // From here on, only the caller drives the worker.
    gate.answer(Verdict::Accepted);
    assert_eq!(ended.recv_timeout(PATIENCE), Ok(()), "the caller was not let go");
    assert_eq!(handle.ledger().traces.delivered, 2);
}

#[test]
fn a_worker_that_has_ended_is_waited_for_by_none() {
    let gate = Gate::default();
    let handle = start(&spec(&gate));
    let manual = handle.manual().unwrap();
    handle.start_stop(soon());
    drive(handle.end_goal().into_iter().collect(), soon(), soon());
    assert!(handle.is_stopped() && handle.wait_for_end(Instant::now()));
    assert_eq!(super::pump(&[manual], soon()), None);
    assert!(manual.wait_for_return(Instant::now()));
    // A flush of the ended worker is over at once.
    assert!(handle.start_flush().ends_within(PATIENCE));
}

#[cfg(feature = "receiver")]
mod freeze {
    use std::rc::Rc;

    use super::*;
    use crate::config::{Config, Exporter, Proxy};
    use crate::pipeline::clock::simulated;
    use crate::receiver::{Answer, Receiver};
    use crate::telemetry::Telemetry;

    /// A world in which only the clock moves.
    struct Clock;

    impl simulated::World for Clock {
        fn pass(&self, until: Option<Instant>, is_over: &dyn Fn() -> bool) {
            if !is_over() {
                simulated::set(until.expect("something waits forever"));
            }
        }
    }

    #[test]
    fn after_hours_of_freeze_retries_once_and_pushes_metrics_once() {
        let receiver = Receiver::start().unwrap();
        receiver.script_for(Signal::Traces, [Answer::status(503)]);
        let start = Instant::now();
        let _time = simulated::Simulated::start(Rc::new(Clock), start);
        let exporter =
            Exporter::http(receiver.endpoint()).proxy(Proxy::Off).throttle(Duration::from_secs(3600));
        let telemetry =
            Telemetry::start_manual(Config::new().service_name("frozen").exporter(exporter)).unwrap();
        let counter = telemetry.meter("shop").counter("calls");
        counter.add(1, ());
        telemetry.tracer("shop").span("before").end();
        let pump = || telemetry.pump(PATIENCE);
        pump();
        assert_eq!((receiver.request_count(), receiver.span_count(), receiver.point_count()), (1, 0, 0));
        // The freeze exceeds the back-off, the throttle, the interval and the time after which a batch is given up.
        simulated::set(start + Duration::from_secs(6 * 3600));
        telemetry.tracer("shop").span("after").end();
        for _ in 0..3 {
            pump();
        }
        assert_eq!((receiver.span_count(), receiver.point_count()), (2, 1));
        assert_eq!(receiver.request_count(), 4, "one retry, one request of spans and one of metrics");
        simulated::set(start + Duration::from_secs(6 * 3600 + 61));
        counter.add(1, ());
        for _ in 0..3 {
            pump();
        }
        assert_eq!((receiver.request_count(), receiver.point_count()), (5, 2));
        assert_eq!(telemetry.shutdown(PATIENCE).lost(), 0);
    }
}
