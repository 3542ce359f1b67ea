//! Tests with many callers, and with a worker that sleeps until it is woken, like the real worker.

use std::collections::HashSet;
use std::sync::atomic::AtomicUsize;

use super::*;

const CALLERS: u64 = 4;
const EACH: u64 = 2000;
/// Bounds of a queue that is nearly always full, and of a queue that is rarely full.
const LIMITS: [(usize, usize); 2] = [(7, 400), (700, 40_000)];

/// Runs callers that enqueue `EACH` records each, and `work` at the same time, until the callers are done.
fn with_callers(fixture: &Fixture, work: impl FnOnce(&dyn Fn() -> bool)) {
    let running = AtomicUsize::new(CALLERS as usize);
    thread::scope(|scope| {
        for caller in 0..CALLERS {
            let running = &running;
            scope.spawn(move || {
                for number in 0..EACH {
                    fixture.enqueue(caller * EACH + number, 16 + (number % 50) as usize);
                }
                running.fetch_sub(1, Ordering::SeqCst);
            });
        }
        // If the worker fails, the callers must not wait for it forever.
        let _closes = CloseAtEnd(&fixture.queue);
        work(&|| running.load(Ordering::SeqCst) == 0);
    });
}

struct CloseAtEnd<'a>(&'a Queue);

impl Drop for CloseAtEnd<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// One round of the worker: sleeps until there are records, unless it may not sleep, and settles the records.
fn round(fixture: &Fixture, may_sleep: bool, limits: (usize, usize)) -> Vec<(u64, usize)> {
    if !fixture.queue.wake_at(WakeAt::ANYTHING) && may_sleep {
        fixture.woken.recv_timeout(LONG).expect("a record or a waiting caller wakes the worker");
    }
    fixture.queue.wake_at(WakeAt::NEVER);
    let taken = fixture.drain();
    let (records, bytes) = fixture.queue.level();
    assert!(records <= limits.0 && bytes <= limits.1, "{records} records and {bytes} bytes");
    fixture.release(&taken);
    taken
}

fn distinct(records: &[(u64, usize)]) -> usize {
    records.iter().map(|(number, _)| number).collect::<HashSet<_>>().len()
}

#[test]
fn blocking_callers_lose_no_record_and_the_worker_no_wake_up() {
    for limits in LIMITS {
        let fixture = blocking(limits.0, limits.1);
        let mut arrived = Vec::new();
        with_callers(&fixture, |_| {
            let mut last_arrival = Instant::now();
            while arrived.len() < (CALLERS * EACH) as usize {
                assert!(last_arrival.elapsed() < LONG, "only {} have arrived", arrived.len());
                let records = round(&fixture, true, limits);
                if !records.is_empty() {
                    last_arrival = Instant::now();
                }
                arrived.extend(records);
            }
        });
        assert_eq!(distinct(&arrived) as u64, CALLERS * EACH);
        let counts = fixture.counts();
        assert_eq!((counts.accepted, counts.not_enqueued.total()), (CALLERS * EACH, 0));
        assert_eq!(fixture.queue.level(), (0, 0));
    }
}

#[test]
fn waiting_does_not_consume_the_programs_park_token() {
    let fixture = blocking(1, 1000);
    fixture.enqueue(0, 20);
    thread::scope(|scope| {
        let caller = scope.spawn(|| {
            fixture.enqueue(1, 20);
            let begun = Instant::now();
            thread::park_timeout(LONG);
            begun.elapsed()
        });
        fixture.until_queued_up();
        caller.thread().unpark();
        fixture.release(&fixture.drain());
        let parked = caller.join().expect("a caller");
        assert!(parked < LONG / 2, "parked for {parked:?} although it was unparked");
    });
    assert_eq!(fixture.counts().accepted, 2);
}

#[test]
fn lossy_callers_lose_exactly_the_counted_records() {
    for limits in LIMITS {
        let fixture = lossy(limits.0, limits.1);
        let mut arrived = Vec::new();
        with_callers(&fixture, |done| {
            while !done() {
                arrived.extend(round(&fixture, false, limits));
            }
        });
        arrived.extend(fixture.drain());
        let counts = fixture.counts();
        assert_eq!(distinct(&arrived), arrived.len(), "nothing twice");
        assert_eq!(arrived.len() as u64, counts.accepted);
        assert_eq!(counts.accepted + counts.not_enqueued.queue_full, CALLERS * EACH);
    }
}

#[test]
fn last_drain_after_close_sees_every_accepted_record() {
    for round in 0..40 {
        let fixture = lossy(1 << 20, 16 << 20);
        let mut seen = 0;
        with_callers(&fixture, |_| {
            while fixture.queue.level().0 < round * 10 {
                thread::yield_now();
            }
            fixture.queue.close();
            seen = fixture.drain().len() as u64;
        });
        let counts = fixture.counts();
        assert_eq!(counts.accepted, seen, "none came in behind the last look");
        assert_eq!(counts.accepted + counts.not_enqueued.after_shutdown, CALLERS * EACH);
        assert_eq!(fixture.queue.level().0 as u64, seen);
    }
}

#[test]
fn level_never_exceeds_the_records_that_callers_began() {
    let fixture = lossy(1 << 20, 64 << 20);
    let begun = AtomicUsize::new(0);
    thread::scope(|scope| {
        let callers: Vec<_> = (0..CALLERS)
            .map(|caller| {
                let (fixture, begun) = (&fixture, &begun);
                scope.spawn(move || {
                    for number in 0..5 * EACH {
                        begun.fetch_add(1, Ordering::SeqCst);
                        fixture.enqueue(caller * 5 * EACH + number, 16 + (number % 50) as usize);
                    }
                })
            })
            .collect();
        while !callers.iter().all(thread::ScopedJoinHandle::is_finished) {
            let (level, begun) = (fixture.queue.level().0, begun.load(Ordering::SeqCst));
            assert!(level <= begun, "{level} records, but {begun} were begun");
        }
    });
    assert_eq!(fixture.queue.level().0 as u64, 5 * CALLERS * EACH);
}

#[test]
fn callers_fill_the_queue_completely() {
    for _ in 0..20 {
        let fixture = lossy((CALLERS * EACH) as usize, 16 << 20);
        with_callers(&fixture, |done| {
            while !done() {
                thread::yield_now();
            }
        });
        let counts = fixture.counts();
        assert_eq!((counts.accepted, counts.not_enqueued.queue_full), (CALLERS * EACH, 0));
    }
}
