//! Memory stays within its bounds, whatever the collector answers and whatever the program emits.
//!
//! Each measurement runs in a separate process, without other tests. The receiver stays in the parent, so that its
//! memory is not measured. Linux reports the memory in use.

#![cfg(target_os = "linux")]

use std::time::Duration;

use standpipe::ledger::Counts;
use standpipe::receiver::{Answer, Receiver};
use standpipe::{Config, Exporter, FlushOutcome, Telemetry, WhenFull};

use crate::support::{allocator, figures, memory, process, size_within};

const MIB: u64 = 1 << 20;
const QUEUE_BYTES: u64 = 16 * MIB;
/// Memory that may be used besides the queue, for a record of 1 MiB. The caller encodes the record in a buffer that is
/// an eighth larger than the record. The record's chunk is allocated before the queue has room for it. The last eighth
/// is for small allocations of the worker.
const BESIDE_THE_QUEUE: u64 = MIB + MIB / 8 + MIB + MIB / 8;
/// Maximum time for an expected event.
const PATIENCE: Duration = Duration::from_secs(20);

/// Returns a number of records of 1 MiB each: at least twice the capacity of the queue.
fn large_records() -> u64 {
    size_within(32..=64).into()
}

/// Runs `work`. Returns the result, and the peak increase of memory during the call.
fn rise_during<T>(work: impl FnOnce() -> T) -> (T, u64) {
    assert!(memory::forget_peak(), "the kernel cannot forget a peak");
    let before = memory::resident().expect("the kernel says what is held");
    let result = work();
    let peak = memory::resident_peak().expect("the kernel says what was held");
    (result, peak.saturating_sub(before))
}

/// The child's part: exports once to warm up, then once to get the hostile answer.
fn export_twice(endpoint: &str) {
    let telemetry = Telemetry::start(Config::new().exporter(Exporter::http(endpoint))).unwrap();
    let export = || {
        telemetry.tracer("shop").span("checkout").end();
        telemetry.flush(PATIENCE)
    };
    assert_eq!(export(), FlushOutcome::Complete);
    let (flushed, rise) = rise_during(export);
    assert_eq!(flushed, FlushOutcome::Complete);
    let ledger = telemetry.shutdown(PATIENCE);
    process::report(rise);
    process::report(ledger.exporters[0].attempts);
}

/// Asserts that this answer, whatever its size, costs less than 1 MiB and causes no retry.
fn costs_no_memory(name: &str, answer: Answer) {
    if let Some(endpoint) = process::task() {
        return export_twice(&endpoint);
    }
    let receiver = Receiver::start().unwrap();
    receiver.script([Answer::ok()]);
    receiver.always(answer);
    let reports = process::run(name, &receiver.endpoint());
    let [rise, attempts] = &reports[..] else { panic!("{reports:?}") };
    let rise: u64 = rise.parse().unwrap();
    figures::show_most(u128::from(rise / 1024), "KiB more memory");
    assert!(rise <= MIB, "memory rose by {rise} bytes");
    assert_eq!((attempts.as_str(), receiver.request_count()), ("2", 2));
}

#[test]
fn an_answer_of_a_gigabyte_costs_no_memory() {
    costs_no_memory("an_answer_of_a_gigabyte_costs_no_memory", Answer::oversized(1 << 30));
}

#[test]
fn headers_of_200_megabytes_cost_no_memory() {
    costs_no_memory("headers_of_200_megabytes_cost_no_memory", Answer::oversized_headers(200_000_000));
}

#[test]
fn an_error_of_16_megabytes_costs_no_memory() {
    let error = Answer::status(400).body(vec![b'x'; 16 << 20]).header("content-type", "text/plain");
    costs_no_memory("an_error_of_16_megabytes_costs_no_memory", error);
}

#[test]
fn a_gzip_bomb_as_answer_costs_no_memory() {
    costs_no_memory("a_gzip_bomb_as_answer_costs_no_memory", Answer::gzip_bomb(1 << 30));
}

/// The child's part: emits large records as fast as it can, and reports the increase of memory and the counts.
/// Counts allocated bytes instead of resident memory, because the system's allocator may keep freed blocks.
fn emit_large(exporter: Exporter, records: u64, attribute_bytes: usize, budget: Duration) {
    let telemetry = Telemetry::start(Config::new().exporter(exporter)).unwrap();
    let tracer = telemetry.tracer("shop");
    tracer.span("warm up").end();
    assert_eq!(telemetry.flush(PATIENCE), FlushOutcome::Complete);
    let value = vec![0x5a_u8; attribute_bytes];
    let marked = allocator::mark();
    for _ in 0..records {
        tracer.span("large").set("value", &value[..]);
    }
    let ledger = telemetry.shutdown(budget);
    let rise = allocator::rise(marked);
    let Counts { delivered, dropped, not_enqueued, .. } = ledger.total();
    process::report(rise);
    process::report(delivered - 1);
    process::report(dropped.shutdown);
    process::report(not_enqueued.queue_full);
    process::report(not_enqueued.too_large);
}

/// Runs the child against this receiver and asserts the bound on memory. Returns the numbers of records that were
/// delivered, lost to the shutdown, not enqueued because the queue was full, and not enqueued because of their size.
fn stays_within_the_queues_bytes(name: &str, receiver: &Receiver) -> [u64; 4] {
    let reports = process::run(name, &receiver.endpoint());
    let numbers: Vec<u64> = reports.iter().map(|report| report.parse().unwrap()).collect();
    let numbers: [u64; 5] = numbers.try_into().expect("five reports");
    let [rise, counts @ ..] = numbers;
    println!("delivered, lost, not enqueued, too large: {counts:?}");
    figures::show_most(u128::from(rise / 1024), format!("KiB more memory, queue of {}", QUEUE_BYTES / 1024));
    let most = QUEUE_BYTES + BESIDE_THE_QUEUE;
    assert!(rise <= most, "memory rose by {} KiB, {} are the bound", rise / 1024, most / 1024);
    counts
}

#[test]
fn a_flood_of_10_megabyte_attributes_is_not_enqueued_and_costs_no_memory() {
    if let Some(endpoint) = process::task() {
        return emit_large(Exporter::http(endpoint), 200, 10 << 20, PATIENCE);
    }
    let receiver = Receiver::builder().keep_bytes(0).start().unwrap();
    let name = "a_flood_of_10_megabyte_attributes_is_not_enqueued_and_costs_no_memory";
    assert_eq!(stays_within_the_queues_bytes(name, &receiver), [0, 0, 0, 200]);
}

#[test]
fn a_flood_of_1_megabyte_attributes_is_delivered_within_the_queues_bytes() {
    if let Some(endpoint) = process::task() {
        return emit_large(Exporter::http(endpoint), large_records(), 1 << 20, PATIENCE);
    }
    let receiver = Receiver::builder().keep_bytes(0).start().unwrap();
    let name = "a_flood_of_1_megabyte_attributes_is_delivered_within_the_queues_bytes";
    assert_eq!(stays_within_the_queues_bytes(name, &receiver), [large_records(), 0, 0, 0]);
    assert_eq!(receiver.span_count(), large_records() + 1);
}

#[test]
fn requests_larger_than_the_queue_do_not_double_its_bytes() {
    if let Some(endpoint) = process::task() {
        return emit_large(
            Exporter::http(endpoint).batch_bytes(64 << 20),
            large_records(),
            1 << 20,
            PATIENCE,
        );
    }
    let receiver = Receiver::builder().keep_bytes(0).start().unwrap();
    let name = "requests_larger_than_the_queue_do_not_double_its_bytes";
    assert_eq!(stays_within_the_queues_bytes(name, &receiver), [large_records(), 0, 0, 0]);
    assert_eq!(receiver.span_count(), large_records() + 1);
}

#[test]
fn a_flood_at_a_collector_that_hangs_stays_within_the_queues_bytes() {
    if let Some(endpoint) = process::task() {
        let exporter = Exporter::http(endpoint).when_full(WhenFull::DropNewest);
        return emit_large(exporter, large_records(), 1 << 20, Duration::from_millis(300));
    }
    let receiver = Receiver::builder().keep_bytes(0).first_answers([Answer::ok()]).start().unwrap();
    receiver.always(Answer::hang());
    let name = "a_flood_at_a_collector_that_hangs_stays_within_the_queues_bytes";
    let [delivered, lost, not_enqueued, too_large] = stays_within_the_queues_bytes(name, &receiver);
    assert_eq!((delivered, too_large), (0, 0));
    assert_eq!(lost + not_enqueued, large_records());
    // Sixteen records of slightly more than 1 MiB do not fit into 16 MiB.
    assert_eq!(lost, 15);
}

#[test]
fn flushes_without_patience_cost_no_memory_while_a_collector_hangs() {
    // With fewer flushes, a few bytes that each one keeps would not exceed the bound.
    let flushes = 50_000;
    if let Some(endpoint) = process::task() {
        let exporter = Exporter::http(endpoint).timeout(PATIENCE).throttle(Duration::ZERO);
        let telemetry = Telemetry::start(Config::new().exporter(exporter)).unwrap();
        telemetry.tracer("shop").span("checkout").end();
        let flush = |times| (0..times).for_each(|_| _ = telemetry.flush(Duration::ZERO));
        while telemetry.ledger().exporters[0].attempts == 0 {
            flush(100);
        }
        let ((), rise) = rise_during(|| flush(flushes));
        telemetry.shutdown(Duration::ZERO);
        return process::report(rise);
    }
    let receiver = Receiver::start().unwrap();
    receiver.always(Answer::hang());
    let name = "flushes_without_patience_cost_no_memory_while_a_collector_hangs";
    let reports = process::run(name, &receiver.endpoint());
    let rise: u64 = reports[0].parse().unwrap();
    assert!(rise <= MIB, "memory rose by {rise} bytes");
}

#[test]
fn the_largest_queue_is_not_allocated_before_it_is_needed() {
    if let Some(endpoint) = process::task() {
        let start = |exporter| Telemetry::start(Config::new().exporter(exporter)).unwrap();
        // The first start is not measured, because the kernel loads pages of the program at their first use.
        drop(start(Exporter::http(&endpoint)));
        let most_bytes = if usize::BITS == 64 { 4 << 30 } else { 1 << 30 };
        let largest = Exporter::http(endpoint).queue_records((1 << 24) - 1).queue_bytes(most_bytes);
        let (telemetry, rise) = rise_during(|| start(largest));
        telemetry.tracer("shop").span("checkout").end();
        assert_eq!(telemetry.shutdown(PATIENCE).total().delivered, 1);
        return process::report(rise);
    }
    let receiver = Receiver::start().unwrap();
    let name = "the_largest_queue_is_not_allocated_before_it_is_needed";
    let reports = process::run(name, &receiver.endpoint());
    let rise: u64 = reports[0].parse().unwrap();
    println!("memory rose by {} KiB", rise / 1024);
    assert!(rise <= 16 * MIB, "memory rose by {rise} bytes");
}
