//! A program whose allocator makes records: whatever a record allocates on its way, no lock that the next one needs is
//! held meanwhile.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(unsafe_code, reason = "an allocator is unsafe to write")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use log::{Level, Log, Record};
use scene::{LONG, exporter, start};
use standpipe::bridge::log::LogBridge;
use standpipe::receiver::Receiver;
use standpipe::{Counts, Exporter, Telemetry, WhenFull};

#[path = "support/scene.rs"]
mod scene;

const THREADS: u64 = 4;

#[global_allocator]
static ALLOCATOR: LoggingAllocator = LoggingAllocator;

/// The system's, with a log record for each step, on threads that have a voice.
struct LoggingAllocator;

/// What speaks for the allocator, and how often it did.
struct Voice {
    say: Box<dyn Fn(&str) + Send + Sync>,
    records: AtomicU64,
}

thread_local! {
    static VOICE: Cell<Option<&'static Voice>> = const { Cell::new(None) };
}

impl Voice {
    /// Makes a record, unless the thread is in the middle of one that the allocator makes.
    fn speak(text: &'static str) {
        let Ok(Some(voice)) = VOICE.try_with(Cell::take) else { return };
        voice.records.fetch_add(1, Ordering::SeqCst);
        (voice.say)(text);
        VOICE.set(Some(voice));
    }
}

// SAFETY: the system's allocator does all the work; a record that is made beside it sees its memory as any code does.
unsafe impl GlobalAlloc for LoggingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Voice::speak("alloc");
        // SAFETY: as the caller promises
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        Voice::speak("dealloc");
        // SAFETY: as the caller promises
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        Voice::speak("realloc");
        // SAFETY: as the caller promises
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// Runs `work` on some threads whose allocator logs by a logger; gives what became of all records, and how many the
/// allocator made.
fn with_logger(exporter: Exporter, work: impl Fn(&Telemetry, u64) + Clone + Send + 'static) -> (Counts, u64) {
    let speak_by = |telemetry: &Telemetry| -> Box<dyn Fn(&str) + Send + Sync> {
        let logger = telemetry.logger("allocator");
        Box::new(move |text| logger.info(text).emit())
    };
    with_voice(exporter, speak_by, work)
}

/// Runs `work` on some threads whose allocator logs; gives what the ledger says, and how many records the allocator made.
fn with_voice(
    exporter: Exporter,
    speak_by: impl FnOnce(&Telemetry) -> Box<dyn Fn(&str) + Send + Sync>,
    work: impl Fn(&Telemetry, u64) + Clone + Send + 'static,
) -> (Counts, u64) {
    let telemetry = Arc::new(start(exporter));
    // never freed: threads may end after the test
    let voice: &'static Voice =
        Box::leak(Box::new(Voice { say: speak_by(&telemetry), records: AtomicU64::new(0) }));
    let (done, ended) = mpsc::channel();
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            let (telemetry, work, done) = (Arc::clone(&telemetry), work.clone(), done.clone());
            thread::spawn(move || {
                VOICE.set(Some(voice));
                work(&telemetry, thread);
                done.send(()).unwrap();
            })
        })
        .collect();
    for _ in &threads {
        // the ledger is not shown: it needs the lock that such a thread would hold
        assert_eq!(ended.recv_timeout(LONG), Ok(()), "a thread waits for itself");
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let ledger = telemetry.shutdown(LONG);
    (ledger.total(), voice.records.load(Ordering::SeqCst))
}

/// Spans of one scope and of many, small ones and some that need a chunk of their own.
fn emit_all_kinds(telemetry: &Telemetry, thread: u64) {
    let tracer = telemetry.tracer("shop");
    let others: Vec<_> = (0..20).map(|scope| telemetry.tracer(&format!("shop {thread} {scope}"))).collect();
    let large = "x".repeat(100 << 10);
    for number in 0..SPANS {
        match number % 100 {
            0 => tracer.span("large").set("text", large.as_str()).set("number", number as i64),
            1..50 => tracer.span("one of many").set("number", number as i64),
            _ => others[number as usize % 20].span("of another scope").set("number", number as i64),
        };
    }
}

const SPANS: u64 = 1000;

#[test]
fn an_allocator_that_logs_stops_no_record() {
    let receiver = Receiver::start().unwrap();
    let (counts, made_by_allocator) = with_logger(exporter(&receiver), emit_all_kinds);
    assert!(made_by_allocator > 0);
    assert_eq!((counts.delivered, counts.lost()), (THREADS * SPANS + made_by_allocator, 0), "{counts}");
    assert_eq!(receiver.span_count(), THREADS * SPANS);
}

#[test]
fn an_allocator_that_logs_waits_for_no_room_that_its_own_thread_holds() {
    let receiver = Receiver::start().unwrap();
    let blocking = exporter(&receiver).queue_records(1).block_timeout(2 * LONG);
    let (counts, made_by_allocator) = with_logger(blocking, |telemetry, _| {
        let tracer = telemetry.tracer("shop");
        (0..SPANS / 10).for_each(|_| drop(tracer.span("work")));
    });
    assert_eq!(receiver.span_count(), THREADS * SPANS / 10, "what the program makes waits and is not lost");
    let all = THREADS * SPANS / 10 + made_by_allocator;
    assert_eq!(counts.delivered + counts.not_enqueued.queue_full, all, "{counts}");
}

#[test]
fn an_allocator_that_logs_into_a_full_lossy_queue_is_counted() {
    let receiver = Receiver::start().unwrap();
    let lossy = exporter(&receiver).queue_bytes(300 << 10).when_full(WhenFull::DropNewest);
    let (counts, made_by_allocator) = with_logger(lossy, emit_all_kinds);
    let all = THREADS * SPANS + made_by_allocator;
    assert_eq!(counts.delivered + counts.not_enqueued.queue_full, all, "{counts}");
}

#[test]
fn an_allocator_that_asks_for_loggers_stops_no_other_that_does() {
    const SCOPES: u64 = 100;
    let receiver = Receiver::start().unwrap();
    let speak_by = |telemetry: &Telemetry| -> Box<dyn Fn(&str) + Send + Sync> {
        // each word is a target; the bridge remembers its logger, and asks the route for it first
        let bridge = LogBridge::new(telemetry);
        Box::new(move |text| log_by(&bridge, text))
    };
    let (counts, made_by_allocator) = with_voice(exporter(&receiver), speak_by, |telemetry, thread| {
        let bridge = LogBridge::new(telemetry);
        for scope in 0..SCOPES {
            telemetry.logger(&format!("shop {}", scope / 2)).info("by a logger").emit();
            log_by(&bridge, &format!("shop {thread} {scope}"));
        }
    });
    assert!(made_by_allocator > 0);
    let all = THREADS * 2 * SCOPES + made_by_allocator;
    assert_eq!((counts.delivered, counts.lost()), (all, 0), "{counts}");
}

fn log_by(bridge: &LogBridge, target: &str) {
    bridge.log(
        &Record::builder().level(Level::Info).target(target).args(format_args!("by the bridge")).build(),
    );
}

/// Runs `work` in a forked child whose allocator logs; false if it waits for itself, or `work` says so.
fn in_child(telemetry: &Telemetry, work: impl FnOnce() -> bool) -> bool {
    let logger = Box::leak(Box::new(telemetry.logger("allocator")));
    let say = Box::new(|text: &str| logger.info(text).emit());
    let voice: &'static Voice = Box::leak(Box::new(Voice { say, records: AtomicU64::new(0) }));
    // SAFETY: the child leaves by `_exit`, and has an alarm against waiting for ever
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: as above
        unsafe { libc::alarm(LONG.as_secs() as u32) };
        VOICE.set(Some(voice));
        let is_well = work();
        // SAFETY: as above
        unsafe { libc::_exit(i32::from(!is_well)) };
    }
    let mut status = 0;
    // SAFETY: the child is this process's own, and the status is its
    let reaped = unsafe { libc::waitpid(child, &raw mut status, 0) };
    reaped == child && libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
}

#[test]
fn an_allocator_that_logs_stops_no_child_that_measures_first() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver));
    let counter = telemetry.meter("shop").counter("orders");
    let measure = || {
        counter.add(1, &[("country", "SE")]);
        let metrics = telemetry.shutdown(LONG).exporters[0].metrics;
        (metrics.delivered, metrics.lost()) == (1, 0)
    };
    assert!(in_child(&telemetry, measure), "the child waits for itself, or loses what it measured");
}

#[test]
fn an_allocator_that_logs_stops_no_child_of_a_program_that_has_shut_down() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver));
    let tracer = telemetry.tracer("shop");
    // the thread has its buffer from now on: the next span allocates nothing before it gets to the exporters
    tracer.span("work").end();
    let _ = telemetry.shutdown(LONG);
    let emit = || {
        tracer.span("late").end();
        let traces = telemetry.ledger().exporters[0].traces;
        (traces.accepted, traces.not_enqueued.after_shutdown) == (0, 1)
    };
    assert!(in_child(&telemetry, emit), "the child waits for itself, or does not count");
}
