use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;
use std::thread;

use crossbeam_channel::unbounded;

use super::*;

const LONG: Duration = Duration::from_secs(20);

/// Callers wait long, but not forever, so that a failing test ends.
fn blocking() -> Backpressure {
    Backpressure::new(WhenFull::Block, Some(LONG), Arc::default())
}

fn waiting_records(backpressure: &Backpressure) -> usize {
    backpressure.waiting_records.load(Ordering::SeqCst)
}

/// Waits until callers wait for room for `count` records in total.
fn until_waiting(backpressure: &Backpressure, count: usize) {
    let deadline = Instant::now() + LONG;
    while waiting_records(backpressure) != count {
        assert!(Instant::now() < deadline, "{} wait instead of {count}", waiting_records(backpressure));
        thread::yield_now();
    }
}

#[test]
fn serves_waiters_in_order_of_arrival() {
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
fn each_release_admits_one_caller() {
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
fn caller_joins_waiters_before_it_wakes_the_worker() {
    let backpressure = blocking();
    let seen = AtomicUsize::new(0);
    let wake = || seen.store(waiting_records(&backpressure), Ordering::SeqCst);
    assert_eq!(
        backpressure.wait(Instant::now(), 1, wake, || Some("entered"), || false, |_| ()),
        Some("entered")
    );
    assert_eq!(seen.load(Ordering::SeqCst), 1);
}

/// Waits for room that never comes, and returns whether the caller joined the waiters.
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
fn timeout_of_one_waiter_ends_all_waits() {
    let backpressure = impatient(&Arc::default());
    let wait = |since| backpressure.wait(since, 1, || {}, || None::<()>, || false, |_| ());
    let begun = Instant::now();
    // The timeouts of the first two waiters end long after the timeout of the third.
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
fn no_caller_waits_after_a_timeout_until_the_next_delivery() {
    let backpressure = impatient(&Arc::default());
    assert!(waits(&backpressure));
    assert!(!waits(&backpressure));
    assert!(!waits(&backpressure));
    backpressure.note_delivery();
    assert!(waits(&backpressure));
    assert!(!waits(&backpressure));
}

#[test]
fn outage_costs_one_wait_for_all_signals() {
    let of_exporter = Arc::default();
    let [spans, logs] = [impatient(&of_exporter), impatient(&of_exporter)];
    assert!(waits(&spans));
    assert!(!waits(&logs));
    logs.note_delivery();
    assert!(waits(&logs));
}

#[test]
fn delivery_of_another_signal_does_not_reopen_the_latch() {
    let of_exporter = Arc::default();
    let [spans, logs] = [impatient(&of_exporter), impatient(&of_exporter)];
    assert!(waits(&spans));
    logs.note_delivery();
    assert!(!waits(&spans));
    spans.note_delivery();
    assert!(waits(&spans));
}

#[test]
fn delivery_during_the_last_attempt_keeps_the_latch_open() {
    let backpressure = impatient(&Arc::default());
    let try_reserve = || {
        backpressure.note_delivery();
        None::<()>
    };
    assert_eq!(backpressure.wait(Instant::now(), 1, || {}, try_reserve, || false, |_| ()), None);
    assert!(waits(&backpressure));
}

#[test]
fn reports_a_long_wait_once() {
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
        // A waiter that is woken without room tries again and continues to wait. The second try shows that the waiter
        // has finished the first try.
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
fn close_ends_every_wait() {
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
fn keeps_order_when_the_list_of_waiters_grows() {
    let backpressure = blocking();
    let waiters: Vec<_> = (0..100).map(|_| backpressure.join(1)).collect();
    assert_eq!(waiting_records(&backpressure), 100);
    for (number, waiter) in waiters.into_iter().enumerate() {
        assert!(backpressure.is_first(&waiter), "{number} is not the first");
        drop(waiter);
        // A caller that joins last does not overtake the others.
        let late = backpressure.join(1);
        assert!(number == 99 || !backpressure.is_first(&late), "it is not its turn");
    }
    assert!(!backpressure.has_waiters());
}

#[test]
fn keeps_a_wake_up_that_precedes_the_wait() {
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

/// Returns how often the worker was woken and a reservation was tried, for a caller that finds no room.
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
fn lossy_queue_wakes_the_worker_and_never_waits() {
    assert_eq!(tries(&Backpressure::new(WhenFull::DropNewest, None, Arc::default())), (1, 1));
}

#[test]
fn exporting_thread_does_not_wait() {
    thread::spawn(|| {
        context::suppress_for_ever();
        assert_eq!(tries(&blocking()), (1, 1));
    })
    .join()
    .unwrap();
}

#[test]
fn waits_without_limit_only_for_a_worker_that_has_begun() {
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
fn panicking_thread_does_not_wait() {
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
