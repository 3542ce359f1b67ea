//! A program whose allocator emits records. If emitting a record allocates memory, the allocator emits another record
//! on the same thread, so the first record must not hold a lock that the other one needs.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use log::{Level, Log, Record};
use standpipe::bridge::log::LogBridge;
use standpipe::ledger::Counts;
use standpipe::receiver::Receiver;
use standpipe::{Exporter, Telemetry, WhenFull};

use crate::support::allocator::{Hook, set_hook};
#[cfg(unix)]
use crate::support::process;
use crate::support::scene::{LONG, exporter, start};
use crate::support::size_within;

const THREADS: u64 = 4;

/// The function with which the allocator emits records, and the number of its calls.
struct Voice {
    say: Box<dyn Fn(&str) + Send + Sync>,
    records: AtomicU32,
}

impl Voice {
    /// Creates a value that is never freed, because threads may end after the test.
    fn new(say: Box<dyn Fn(&str) + Send + Sync>) -> &'static Self {
        Box::leak(Box::new(Self { say, records: AtomicU32::new(0) }))
    }

    /// Returns the function that the allocator calls at each step.
    fn hook(&'static self) -> &'static Hook {
        Box::leak(Box::new(|step, _| {
            self.records.fetch_add(1, Ordering::SeqCst);
            (self.say)(step);
        }))
    }
}

/// Runs `work` on some threads whose allocator logs through a logger. Returns the counts of all records, and the number
/// of the allocator's records.
fn with_logger(exporter: Exporter, work: impl Fn(&Telemetry, u64) + Clone + Send + 'static) -> (Counts, u64) {
    let speak_by = |telemetry: &Telemetry| -> Box<dyn Fn(&str) + Send + Sync> {
        let logger = telemetry.logger("allocator");
        Box::new(move |text| logger.info(text).emit())
    };
    with_voice(exporter, speak_by, work)
}

/// Runs `work` on some threads whose allocator logs. Returns the counts of the ledger, and the number of the
/// allocator's records.
fn with_voice(
    exporter: Exporter,
    speak_by: impl FnOnce(&Telemetry) -> Box<dyn Fn(&str) + Send + Sync>,
    work: impl Fn(&Telemetry, u64) + Clone + Send + 'static,
) -> (Counts, u64) {
    let telemetry = Arc::new(start(exporter));
    let voice = Voice::new(speak_by(&telemetry));
    let (done, ended) = mpsc::channel();
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            let (telemetry, work, done) = (Arc::clone(&telemetry), work.clone(), done.clone());
            thread::spawn(move || {
                set_hook(Some(voice.hook()));
                work(&telemetry, thread);
                done.send(()).unwrap();
            })
        })
        .collect();
    for _ in &threads {
        // The ledger is not shown: it needs the lock that a blocked thread would hold.
        assert_eq!(ended.recv_timeout(LONG), Ok(()), "a thread waits for itself");
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let ledger = telemetry.shutdown(LONG);
    (ledger.total(), voice.records.load(Ordering::SeqCst).into())
}

/// Emits small spans of one scope, small spans of many scopes, and spans that need a separate chunk.
fn emit_all_kinds(telemetry: &Telemetry, thread: u64) {
    let tracer = telemetry.tracer("shop");
    let others: Vec<_> = (0..20).map(|scope| telemetry.tracer(&format!("shop {thread} {scope}"))).collect();
    let large = "x".repeat(100 << 10);
    for number in 0..SPANS {
        match number % 100 {
            0 => _ = tracer.span("large").set("text", large.as_str()).set("number", number as i64),
            1..50 => _ = tracer.span("one of many").set("number", number as i64),
            _ => _ = others[number as usize % 20].span("of another scope").set("number", number as i64),
        }
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
    let spans_each = u64::from(size_within(25..=100));
    let (counts, made_by_allocator) = with_logger(blocking, move |telemetry, _| {
        let tracer = telemetry.tracer("shop");
        (0..spans_each).for_each(|_| drop(tracer.span("work")));
    });
    assert_eq!(receiver.span_count(), THREADS * spans_each, "what the program makes waits and is not lost");
    let all = THREADS * spans_each + made_by_allocator;
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
        // Each text is a target: for a new target, the bridge requests a logger from the provider, and caches it.
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

/// Runs `work` in a forked child whose allocator logs. Returns false if it deadlocks, or if `work` returns false.
#[cfg(unix)]
fn in_child(telemetry: &Telemetry, work: impl FnOnce() -> bool) -> bool {
    let logger = telemetry.logger("allocator");
    let voice = Voice::new(Box::new(move |text| logger.info(text).emit()));
    process::in_a_fork(|| {
        set_hook(Some(voice.hook()));
        work()
    })
}

#[cfg(unix)]
#[test]
fn an_allocator_that_logs_stops_no_child_that_measures_first() {
    if !process::is_alone("an_allocator_that_logs_stops_no_child_that_measures_first") {
        return;
    }
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

#[cfg(unix)]
#[test]
fn an_allocator_that_logs_stops_no_child_of_a_program_that_has_shut_down() {
    if !process::is_alone("an_allocator_that_logs_stops_no_child_of_a_program_that_has_shut_down") {
        return;
    }
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver));
    let tracer = telemetry.tracer("shop");
    // The thread has its buffer from now on: the next span allocates nothing before it reaches the exporters.
    tracer.span("work").end();
    let _ = telemetry.shutdown(LONG);
    let emit = || {
        tracer.span("late").end();
        let traces = telemetry.ledger().exporters[0].traces;
        (traces.accepted, traces.not_enqueued.after_shutdown) == (0, 1)
    };
    assert!(in_child(&telemetry, emit), "the child waits for itself, or does not count");
}
