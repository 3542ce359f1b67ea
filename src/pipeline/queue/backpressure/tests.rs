use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;
use std::thread;

use crossbeam_channel::unbounded;

use super::*;

const LONG: Duration = Duration::from_secs(20);

/// Long, not for ever: a test that fails ends, too.
fn blocking() -> Backpressure {
    Backpressure::new(WhenFull::Block, Some(LONG), Arc::default())
}

fn waiting_records(backpressure: &Backpressure) -> usize {
    backpressure.waiting_records.load(Ordering::SeqCst)
}

/// Waits until `count` records wait.
fn until_waiting(backpressure: &Backpressure, count: usize) {
    let deadline = Instant::now() + LONG;
    while waiting_records(backpressure) != count {
        assert!(Instant::now() < deadline, "{} wait instead of {count}", waiting_records(backpressure));
        thread::yield_now();
    }
}

#[test]
fn who_waited_first_enters_first() {
    let backpressure = blocking();
    let open = AtomicBool::new(false);
    let order = Mutex::new(Vec::new());
    let (asked, asks) = unbounded();
    thread::scope(|scope| {
        scope.spawn(|| {
            let enter = || {
                asked.send(()).unwrap();
                open.load(Ordering::SeqCst).then(|| order.lock().unwrap().push("first"))
            };
            backpressure.wait(Instant::now(), 1, || {}, enter, || false, |_| ())
        });
        asks.recv_timeout(LONG).expect("the first tries");
        scope.spawn(|| {
            let enter = || {
                order.lock().unwrap().push("second");
                Some(())
            };
            backpressure.wait(Instant::now(), 1, || {}, enter, || false, |_| ())
        });
        until_waiting(&backpressure, 2);
        assert!(order.lock().unwrap().is_empty(), "there is room for the second, but it is not its turn");
        open.store(true, Ordering::SeqCst);
        backpressure.notify();
    });
    assert_eq!(*order.lock().unwrap(), ["first", "second"]);
    assert!(!backpressure.has_waiters());
}

#[test]
fn each_room_that_is_made_lets_one_caller_in() {
    const CALLERS: usize = 8;
    let backpressure = blocking();
    let (make_room, rooms) = unbounded();
    let (entered, entries) = unbounded();
    thread::scope(|scope| {
        for caller in 0..CALLERS {
            let (backpressure, rooms, entered) = (&backpressure, &rooms, &entered);
            scope.spawn(move || {
                let enter = || rooms.try_recv().ok();
                backpressure.wait(Instant::now(), 1, || {}, enter, || false, |_| ()).unwrap();
                entered.send(caller).unwrap();
            });
        }
        until_waiting(&backpressure, CALLERS);
        for still_waiting in (0..CALLERS).rev() {
            make_room.send(()).unwrap();
            backpressure.notify();
            entries.recv_timeout(LONG).expect("one enters");
            until_waiting(&backpressure, still_waiting);
            assert!(entries.is_empty(), "and only one");
        }
    });
}

#[test]
fn a_caller_wakes_the_worker_only_once_it_waits() {
    let backpressure = blocking();
    let seen = AtomicUsize::new(0);
    let wake = || seen.store(waiting_records(&backpressure), Ordering::SeqCst);
    assert_eq!(
        backpressure.wait(Instant::now(), 1, wake, || Some("entered"), || false, |_| ()),
        Some("entered")
    );
    assert_eq!(seen.load(Ordering::SeqCst), 1);
}

/// Waits for room that there is not, and returns whether it waited as one of the waiters.
fn waits(backpressure: &Backpressure) -> bool {
    let waited = AtomicBool::new(false);
    let wake = || waited.store(backpressure.has_waiters(), Ordering::SeqCst);
    assert_eq!(backpressure.wait(Instant::now(), 1, wake, || None::<()>, || false, |_| ()), None);
    waited.into_inner()
}

fn impatient(of_exporter: &Arc<Latch>) -> Backpressure {
    Backpressure::new(WhenFull::Block, Some(Duration::from_millis(30)), Arc::clone(of_exporter))
}

#[test]
fn a_waiter_that_times_out_lets_the_others_go() {
    let backpressure = impatient(&Arc::default());
    let wait = |since| backpressure.wait(since, 1, || {}, || None::<()>, || false, |_| ());
    let begun = Instant::now();
    // their time is up long after that of the one behind them
    let patient = begun + 2 * LONG;
    thread::scope(|scope| {
        (0..2).for_each(|_| _ = scope.spawn(|| wait(patient)));
        until_waiting(&backpressure, 2);
        scope.spawn(|| wait(begun));
    });
    assert!(begun.elapsed() < LONG, "{:?}", begun.elapsed());
    assert!(!backpressure.has_waiters());
}

#[test]
fn after_a_wait_that_timed_out_no_caller_waits_until_something_was_delivered() {
    let backpressure = impatient(&Arc::default());
    assert!(waits(&backpressure));
    assert!(!waits(&backpressure));
    assert!(!waits(&backpressure));
    backpressure.note_delivery();
    assert!(waits(&backpressure));
    assert!(!waits(&backpressure));
}

#[test]
fn an_outage_of_the_collector_costs_one_wait_for_all_signals() {
    let of_exporter = Arc::default();
    let [spans, logs] = [impatient(&of_exporter), impatient(&of_exporter)];
    assert!(waits(&spans));
    assert!(!waits(&logs));
    logs.note_delivery();
    assert!(waits(&logs));
}

#[test]
fn deliveries_of_another_signal_do_not_make_callers_wait_again() {
    let of_exporter = Arc::default();
    let [spans, logs] = [impatient(&of_exporter), impatient(&of_exporter)];
    assert!(waits(&spans));
    logs.note_delivery();
    assert!(!waits(&spans));
    spans.note_delivery();
    assert!(waits(&spans));
}

#[test]
fn a_delivery_during_the_last_attempt_of_a_wait_is_not_overlooked() {
    let backpressure = impatient(&Arc::default());
    let try_reserve = || {
        backpressure.note_delivery();
        None::<()>
    };
    assert_eq!(backpressure.wait(Instant::now(), 1, || {}, try_reserve, || false, |_| ()), None);
    assert!(waits(&backpressure));
}

#[test]
fn a_long_wait_is_reported_once_while_it_lasts() {
    let backpressure = blocking();
    let open = AtomicBool::new(false);
    let ((report, reported), (tried, tries)) = (unbounded(), unbounded());
    thread::scope(|scope| {
        scope.spawn(|| {
            let enter = || {
                tried.send(()).unwrap();
                open.load(Ordering::SeqCst).then_some(())
            };
            let report = |waited| report.send(waited).unwrap();
            backpressure.wait(Instant::now(), 1, || {}, enter, || false, report)
        });
        let waited = reported.recv_timeout(LONG).expect("it is reported");
        assert!(waited >= LONG_WAIT, "{waited:?}");
        // woken for nothing, it tries and waits on; what follows the first try is over at the second
        tries.try_iter().for_each(drop);
        for _ in 0..2 {
            backpressure.notify();
            tries.recv_timeout(LONG).expect("it tries again");
        }
        open.store(true, Ordering::SeqCst);
        backpressure.notify();
    });
    assert!(reported.is_empty());
}

#[test]
fn the_closing_ends_every_wait() {
    let backpressure = blocking();
    let closed = AtomicBool::new(false);
    let (left, leaves) = unbounded();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let entered = backpressure.wait(
                    Instant::now(),
                    1,
                    || {},
                    || None::<()>,
                    || closed.load(Ordering::SeqCst),
                    |_| (),
                );
                left.send(entered).unwrap();
            });
        }
        until_waiting(&backpressure, 4);
        assert!(leaves.is_empty());
        closed.store(true, Ordering::SeqCst);
        backpressure.notify();
        for _ in 0..4 {
            assert_eq!(leaves.recv_timeout(LONG), Ok(None));
        }
    });
}

#[test]
fn a_line_that_grows_keeps_its_order() {
    let backpressure = blocking();
    let waiters: Vec<_> = (0..100).map(|_| backpressure.join(1)).collect();
    assert_eq!(waiting_records(&backpressure), 100);
    for (number, waiter) in waiters.into_iter().enumerate() {
        assert!(backpressure.is_first(&waiter), "{number} is not the first");
        drop(waiter);
        // the caller that comes last does not push in
        let late = backpressure.join(1);
        assert!(number == 99 || !backpressure.is_first(&late), "it is not its turn");
    }
    assert!(!backpressure.has_waiters());
}

#[test]
fn a_call_before_the_wait_is_not_lost() {
    let backpressure = blocking();
    let waiter = backpressure.join(1);
    backpressure.notify();
    let begun = Instant::now();
    waiter.parker.wait_for(LONG);
    assert!(begun.elapsed() < LONG, "it has waited though it was woken");
}

#[test]
fn lets_the_next_caller_in_when_a_waiter_unwinds() {
    let backpressure = blocking();
    let open = AtomicBool::new(false);
    let (entered, entries) = unbounded();
    thread::scope(|scope| {
        let unwound = scope.spawn(|| {
            let enter = || {
                if open.load(Ordering::SeqCst) {
                    std::panic::resume_unwind(Box::new("on purpose"));
                }
                None::<()>
            };
            backpressure.wait(Instant::now(), 1, || {}, enter, || false, |_| ())
        });
        until_waiting(&backpressure, 1);
        scope.spawn(|| {
            backpressure.wait(Instant::now(), 1, || {}, || Some(()), || false, |_| ());
            entered.send(()).unwrap();
        });
        until_waiting(&backpressure, 2);
        open.store(true, Ordering::SeqCst);
        backpressure.notify();
        assert!(unwound.join().is_err());
        entries.recv_timeout(LONG / 2).expect("the caller behind it waits for its turn");
    });
    assert!(!backpressure.has_waiters());
}

/// How often the worker was woken and the way in was tried, for a caller that finds no room.
fn tries(backpressure: &Backpressure) -> (usize, usize) {
    let (woken, tried) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let wake = || _ = woken.fetch_add(1, Ordering::SeqCst);
    let enter = || {
        tried.fetch_add(1, Ordering::SeqCst);
        None::<()>
    };
    assert_eq!(backpressure.wait(Instant::now(), 1, wake, enter, || false, |_| ()), None);
    (woken.into_inner(), tried.into_inner())
}

#[test]
fn a_lossy_queue_wakes_the_worker_and_never_waits() {
    assert_eq!(tries(&Backpressure::new(WhenFull::DropNewest, None, Arc::default())), (1, 1));
}

#[test]
fn a_worker_does_not_wait_for_itself() {
    thread::spawn(|| {
        context::suppress_for_ever();
        assert_eq!(tries(&blocking()), (1, 1));
    })
    .join()
    .unwrap();
}

#[test]
fn callers_wait_only_for_a_worker_that_has_begun_to_run() {
    let (backpressure, start) = (blocking(), Arc::new(WorkerStart::due(Instant::now())));
    backpressure.expect(Arc::clone(&start));
    assert_eq!(tries(&backpressure), (1, 1), "it is due and has not begun");
    start.begin();
    let open = AtomicBool::new(false);
    thread::scope(|scope| {
        let caller = scope.spawn(|| {
            backpressure.wait(
                Instant::now(),
                1,
                || {},
                || open.load(Ordering::SeqCst).then_some(()),
                || false,
                |_| (),
            )
        });
        until_waiting(&backpressure, 1);
        open.store(true, Ordering::SeqCst);
        backpressure.notify();
        assert_eq!(caller.join().unwrap(), Some(()));
    });
}

#[test]
fn a_thread_that_panics_does_not_wait() {
    struct TriesWhenDropped<'a>(&'a Mutex<Option<(usize, usize)>>);
    impl Drop for TriesWhenDropped<'_> {
        fn drop(&mut self) {
            *self.0.lock().unwrap() = Some(tries(&blocking()));
        }
    }
    let tried = Mutex::new(None);
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        let _tries = TriesWhenDropped(&tried);
        std::panic::resume_unwind(Box::new("suppress_instrumentation"));
    }));
    assert!(unwound.is_err());
    assert_eq!(*tried.lock().unwrap(), Some((1, 1)));
}
