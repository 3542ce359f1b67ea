use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;
use std::thread;

use crossbeam_channel::unbounded;

use super::*;

const LONG: Duration = Duration::from_secs(20);

/// Long, not for ever: a test that fails ends, too.
fn blocking() -> Door {
    Door::new(WhenFull::Block, Some(LONG))
}

fn in_line(door: &Door) -> usize {
    door.in_line.load(Ordering::SeqCst)
}

/// Waits until so many callers are in line.
fn until_in_line(door: &Door, count: usize) {
    let deadline = Instant::now() + LONG;
    while in_line(door) != count {
        assert!(Instant::now() < deadline, "{} in line instead of {count}", in_line(door));
        thread::yield_now();
    }
}

#[test]
fn who_waited_first_enters_first() {
    let door = blocking();
    let open = AtomicBool::new(false);
    let order = Mutex::new(Vec::new());
    let (asked, asks) = unbounded();
    thread::scope(|scope| {
        scope.spawn(|| {
            let enter = || {
                asked.send(()).unwrap();
                open.load(Ordering::SeqCst).then(|| order.lock().unwrap().push("first"))
            };
            door.wait(1, || {}, enter, || false)
        });
        asks.recv_timeout(LONG).expect("the first is at the head of the line");
        scope.spawn(|| {
            let enter = || {
                order.lock().unwrap().push("second");
                Some(())
            };
            door.wait(1, || {}, enter, || false)
        });
        until_in_line(&door, 2);
        assert!(order.lock().unwrap().is_empty(), "there is room for the second, but it is not its turn");
        open.store(true, Ordering::SeqCst);
        door.room_made();
    });
    assert_eq!(*order.lock().unwrap(), ["first", "second"]);
    assert!(!door.is_queued_up());
}

#[test]
fn each_room_that_is_made_lets_one_caller_in() {
    const CALLERS: usize = 8;
    let door = blocking();
    let rooms = AtomicUsize::new(0);
    let (entered, entries) = unbounded();
    thread::scope(|scope| {
        for caller in 0..CALLERS {
            let (door, rooms, entered) = (&door, &rooms, &entered);
            scope.spawn(move || {
                let take = |count: usize| count.checked_sub(1);
                let enter = || rooms.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).ok();
                door.wait(1, || {}, enter, || false).unwrap();
                entered.send(caller).unwrap();
            });
        }
        until_in_line(&door, CALLERS);
        for still_waiting in (0..CALLERS).rev() {
            rooms.fetch_add(1, Ordering::SeqCst);
            door.room_made();
            entries.recv_timeout(LONG).expect("one enters");
            until_in_line(&door, still_waiting);
            assert!(entries.is_empty(), "and only one");
        }
    });
}

#[test]
fn a_caller_presses_only_once_it_is_in_line() {
    let door = blocking();
    let seen = AtomicUsize::new(0);
    let press = || seen.store(in_line(&door), Ordering::SeqCst);
    assert_eq!(door.wait(1, press, || Some("entered"), || false), Some("entered"));
    assert_eq!(seen.load(Ordering::SeqCst), 1);
}

#[test]
fn who_has_waited_long_enough_gives_up_at_the_head_and_behind_it() {
    let timeout = Duration::from_millis(30);
    let door = Door::new(WhenFull::Block, Some(timeout));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let begun = Instant::now();
                assert_eq!(door.wait(1, || {}, || None::<()>, || false), None);
                assert!(begun.elapsed() >= timeout);
            });
        }
    });
    assert!(!door.is_queued_up());
}

#[test]
fn the_closing_sends_everyone_in_line_home() {
    let door = blocking();
    let closed = AtomicBool::new(false);
    let (left, leaves) = unbounded();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let entered = door.wait(1, || {}, || None::<()>, || closed.load(Ordering::SeqCst));
                left.send(entered).unwrap();
            });
        }
        until_in_line(&door, 4);
        assert!(leaves.is_empty());
        closed.store(true, Ordering::SeqCst);
        door.room_made();
        for _ in 0..4 {
            assert_eq!(leaves.recv_timeout(LONG), Ok(None));
        }
    });
}

#[test]
fn a_line_that_grows_keeps_its_order() {
    let door = blocking();
    let places: Vec<_> = (0..100).map(|_| door.line_up(1)).collect();
    assert_eq!(in_line(&door), 100);
    for (number, place) in places.iter().enumerate() {
        assert!(door.is_head(place), "{number} is not at the head");
        door.leave(place, 1);
        // the caller that comes last does not push in
        let late = door.line_up(1);
        assert!(number == 99 || !door.is_head(&late), "it is not its turn");
        door.leave(&late, 1);
    }
    assert!(!door.is_queued_up());
}

#[test]
fn a_call_before_the_wait_is_not_lost() {
    let door = blocking();
    let place = door.line_up(1);
    door.room_made();
    let begun = Instant::now();
    place.seat.wait_for(LONG);
    assert!(begun.elapsed() < LONG, "it has waited though it was called");
    door.leave(&place, 1);
}

/// How often the worker was woken and the way in was tried, for a caller that finds no room.
fn tries(door: &Door) -> (usize, usize) {
    let (pressed, tried) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let press = || _ = pressed.fetch_add(1, Ordering::SeqCst);
    let enter = || {
        tried.fetch_add(1, Ordering::SeqCst);
        None::<()>
    };
    assert_eq!(door.wait(1, press, enter, || false), None);
    (pressed.into_inner(), tried.into_inner())
}

#[test]
fn a_lossy_door_wakes_the_worker_and_never_waits() {
    assert_eq!(tries(&Door::new(WhenFull::DropNewest, None)), (1, 1));
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
    let (door, start) = (blocking(), Arc::new(Start::due(Instant::now())));
    door.expect(Arc::clone(&start));
    assert_eq!(tries(&door), (1, 1), "it is due and has not begun");
    start.begin();
    let open = AtomicBool::new(false);
    thread::scope(|scope| {
        let caller =
            scope.spawn(|| door.wait(1, || {}, || open.load(Ordering::SeqCst).then_some(()), || false));
        until_in_line(&door, 1);
        open.store(true, Ordering::SeqCst);
        door.room_made();
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
