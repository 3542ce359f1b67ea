//! Extreme values are refused with a message, or have a defined effect: no overflow, and no huge allocation.

use std::time::Duration;

use standpipe::receiver::{Answer, Receiver};
use standpipe::{Config, Exporter, FlushOutcome, Telemetry, WhenFull};

/// Maximum time for an expected event.
const PATIENCE: Duration = Duration::from_secs(20);
const MAX_RECORDS: usize = (1 << 24) - 1;
const MAX_QUEUE_BYTES: usize = if usize::BITS == 64 { 4 << 30 } else { 1 << 30 };
const MAX_BATCH_BYTES: usize = 64 << 20;

type Setting = fn(Exporter) -> Exporter;

fn start(exporter: Exporter) -> Telemetry {
    Telemetry::start(Config::new().exporter(exporter)).unwrap()
}

fn emit(telemetry: &Telemetry, spans: u64) {
    let tracer = telemetry.tracer("shop");
    (0..spans).for_each(|_| tracer.span("checkout").end());
}

/// Asserts that all spans arrive through an exporter with this setting.
fn works(setting: Setting) {
    const SPANS: u64 = 50;
    let receiver = Receiver::start().unwrap();
    let telemetry = start(setting(Exporter::http(receiver.endpoint())));
    emit(&telemetry, SPANS);
    let ledger = telemetry.shutdown(PATIENCE);
    assert_eq!(
        (ledger.total().delivered, ledger.lost(), receiver.span_count()),
        (SPANS, 0, SPANS),
        "{ledger}"
    );
}

#[test]
fn what_cannot_be_is_refused_at_start_with_the_name_of_the_setting() {
    let refused: [(&str, Setting); 17] = [
        ("queue-records", |exporter| exporter.queue_records(0)),
        ("queue-records", |exporter| exporter.queue_records(MAX_RECORDS + 1)),
        ("queue-records", |exporter| exporter.queue_records(usize::MAX)),
        ("queue-bytes", |exporter| exporter.queue_bytes(0)),
        ("queue-bytes", |exporter| exporter.queue_bytes(MAX_QUEUE_BYTES + 1)),
        ("queue-bytes", |exporter| exporter.queue_bytes(usize::MAX)),
        ("batch-records", |exporter| exporter.batch_records(0)),
        ("batch-records", |exporter| exporter.batch_records(usize::MAX)),
        ("batch-bytes", |exporter| exporter.batch_bytes(0)),
        ("batch-bytes", |exporter| exporter.batch_bytes(MAX_BATCH_BYTES + 1)),
        ("batch-bytes", |exporter| exporter.batch_bytes(usize::MAX)),
        ("throttle", |exporter| exporter.throttle(Duration::MAX)),
        ("linger", |exporter| exporter.linger(Duration::MAX)),
        ("timeout", |exporter| exporter.timeout(Duration::ZERO)),
        ("timeout", |exporter| exporter.timeout(Duration::MAX)),
        ("give-up-after", |exporter| exporter.give_up_after(Duration::MAX)),
        ("block-timeout", |exporter| exporter.block_timeout(Duration::MAX)),
    ];
    for (key, setting) in refused {
        let exporter = setting(Exporter::http("127.0.0.1:4318"));
        let error = Telemetry::start(Config::new().exporter(exporter)).expect_err(key).to_string();
        assert!(error.contains(key), "{key} is not named: {error}");
    }
}

#[test]
fn all_that_is_wrong_is_reported_at_once() {
    let exporter =
        Exporter::http("127.0.0.1:4318").queue_records(0).queue_bytes(usize::MAX).timeout(Duration::ZERO);
    let error = Telemetry::start(Config::new().exporter(exporter)).unwrap_err().to_string();
    for key in ["queue-records", "queue-bytes", "timeout"] {
        assert!(error.contains(key), "{key} is not named: {error}");
    }
}

#[test]
fn a_queue_of_one_record_passes_everything_one_by_one() {
    works(|exporter| exporter.queue_records(1).throttle(Duration::ZERO));
}

#[test]
fn a_queue_of_one_record_is_not_held_up_by_throttle_and_linger() {
    let minute = Duration::from_secs(60);
    let receiver = Receiver::start().unwrap();
    let telemetry = start(
        Exporter::http(receiver.endpoint())
            .block_timeout(None)
            .queue_records(1)
            .throttle(minute)
            .linger(minute),
    );
    emit(&telemetry, 10);
    assert!(receiver.wait_for_spans(10, PATIENCE), "{}", telemetry.ledger());
}

#[test]
fn the_largest_queue_passes_everything() {
    works(|exporter| exporter.queue_records(MAX_RECORDS).queue_bytes(MAX_QUEUE_BYTES));
}

#[test]
fn the_smallest_queue_and_batch_in_bytes_pass_small_records() {
    works(|exporter| exporter.queue_bytes(1 << 10).batch_bytes(1 << 10).throttle(Duration::ZERO));
}

#[test]
fn a_record_larger_than_the_smallest_queue_is_turned_away_and_counted() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(Exporter::http(receiver.endpoint()).queue_bytes(1 << 10));
    let tracer = telemetry.tracer("shop");
    let filling = "x".repeat(1 << 10);
    tracer.span("large").set("filling", &filling);
    tracer.span("small").end();
    let ledger = telemetry.shutdown(PATIENCE);
    let counts = ledger.total();
    assert_eq!((counts.delivered, counts.not_enqueued.too_large), (1, 1), "{ledger}");
    assert_eq!(receiver.spans()[0].span.name, "small");
}

#[test]
fn a_resource_larger_than_a_request_turns_every_record_away_and_counts_it() {
    let receiver = Receiver::start().unwrap();
    let exporter = Exporter::http(receiver.endpoint()).batch_bytes(1 << 10);
    let filling = "x".repeat(2 << 10);
    let config = Config::new().resource("filling", &filling).exporter(exporter);
    let telemetry = Telemetry::start(config).unwrap();
    emit(&telemetry, 10);
    let ledger = telemetry.shutdown(PATIENCE);
    assert_eq!((ledger.lost(), receiver.request_count()), (10, 0), "{ledger}");
}

#[test]
fn batches_larger_than_the_queue_are_as_large_as_the_queue_allows() {
    works(|exporter| exporter.queue_records(4).batch_records(MAX_RECORDS).throttle(Duration::ZERO));
    works(|exporter| exporter.queue_bytes(4 << 10).batch_bytes(MAX_BATCH_BYTES).throttle(Duration::ZERO));
}

#[test]
fn batches_of_one_record_pass_everything_one_by_one() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(Exporter::http(receiver.endpoint()).batch_records(1));
    emit(&telemetry, 10);
    let ledger = telemetry.shutdown(PATIENCE);
    assert_eq!((ledger.total().delivered, receiver.request_count()), (10, 10), "{ledger}");
}

#[test]
fn several_records_together_take_an_eighth_of_the_queue_and_a_larger_one_goes_alone() {
    const QUEUE: usize = 1 << 20;
    let receiver = Receiver::start().unwrap();
    receiver.pause();
    let telemetry =
        start(Exporter::http(receiver.endpoint()).queue_bytes(QUEUE).batch_bytes(MAX_BATCH_BYTES));
    let tracer = telemetry.tracer("shop");
    let emit = |bytes: usize| {
        tracer.span("large").set("filling", &vec![0_u8; bytes][..]);
    };
    emit(1);
    assert!(receiver.wait_for_held(1, PATIENCE));
    // These records wait while the receiver holds the first one.
    (0..8).for_each(|_| emit(50 << 10));
    emit(500 << 10);
    receiver.resume();
    let ledger = telemetry.shutdown(PATIENCE);
    assert_eq!((ledger.total().delivered, ledger.lost()), (10, 0), "{ledger}");
    let sizes: Vec<(usize, usize)> =
        receiver.requests().iter().map(|request| (request.records, request.body_bytes)).collect();
    for (spans, bytes) in &sizes {
        assert!(*spans == 1 || *bytes <= QUEUE / 8, "{sizes:?}");
    }
    assert!(sizes.iter().any(|(spans, _)| *spans > 1), "nothing went together: {sizes:?}");
    assert!(sizes.iter().any(|(spans, bytes)| *spans == 1 && *bytes > QUEUE / 8), "{sizes:?}");
}

#[test]
fn without_a_throttle_everything_arrives_and_the_worker_still_rests() {
    const SPANS: u64 = 5_000;
    let receiver = Receiver::start().unwrap();
    let telemetry = start(Exporter::http(receiver.endpoint()).throttle(Duration::ZERO));
    emit(&telemetry, SPANS);
    assert_eq!(telemetry.flush(PATIENCE), FlushOutcome::Complete);
    let ledger = telemetry.shutdown(PATIENCE);
    assert_eq!(
        (ledger.total().delivered, ledger.lost(), receiver.span_count()),
        (SPANS, 0, SPANS),
        "{ledger}"
    );
    assert!(
        receiver.request_count() < SPANS / 5,
        "{} requests: one for each span?",
        receiver.request_count()
    );
}

#[test]
fn the_longest_waits_that_are_allowed_do_not_overflow_the_clock() {
    let year = Duration::from_secs(365 * 24 * 3600);
    let receiver = Receiver::start().unwrap();
    let exporter = Exporter::http(receiver.endpoint())
        .throttle(year)
        .linger(year)
        .timeout(year)
        .give_up_after(year)
        .block_timeout(year)
        .retry_delays(Duration::from_millis(1), year);
    let telemetry = start(exporter);
    receiver.script([Answer::status(503)]);
    emit(&telemetry, 10);
    assert_eq!(telemetry.flush(Duration::MAX), FlushOutcome::Complete);
    let ledger = telemetry.shutdown(Duration::MAX);
    assert_eq!((ledger.total().delivered, ledger.lost()), (10, 0), "{ledger}");
}

#[test]
fn a_bounded_wait_for_room_ends_and_is_counted() {
    let receiver = Receiver::start().unwrap();
    receiver.pause();
    let bound = Duration::from_millis(20);
    let telemetry = start(Exporter::http(receiver.endpoint()).queue_records(1).block_timeout(bound));
    emit(&telemetry, 1);
    assert!(receiver.wait_for_held(1, PATIENCE));
    let start = std::time::Instant::now();
    emit(&telemetry, 3);
    // Only the first of the three records waits for room. Until a record is delivered, later records do not wait.
    assert!(start.elapsed() >= bound, "{:?}", start.elapsed());
    assert_eq!(telemetry.ledger().total().not_enqueued.queue_full, 3);
    receiver.resume();
    assert_eq!(telemetry.shutdown(PATIENCE).total().delivered, 1);
}

#[test]
fn no_exporter_at_all_is_a_no_op() {
    let telemetry = Telemetry::start(Config::new()).unwrap();
    emit(&telemetry, 10);
    assert_eq!(telemetry.flush(PATIENCE), FlushOutcome::Complete);
    let ledger = telemetry.shutdown(PATIENCE);
    assert!(ledger.exporters.is_empty() && ledger.lost() == 0, "{ledger}");
}

#[test]
fn dropping_at_the_door_never_lets_more_in_than_the_queue_holds() {
    let receiver = Receiver::start().unwrap();
    receiver.pause();
    let telemetry = start(
        Exporter::http(receiver.endpoint())
            .block_timeout(None)
            .queue_records(1)
            .when_full(WhenFull::DropNewest),
    );
    emit(&telemetry, 1);
    assert!(receiver.wait_for_held(1, PATIENCE));
    emit(&telemetry, 10);
    let counts = telemetry.ledger().total();
    assert_eq!((counts.accepted, counts.not_enqueued.queue_full), (1, 10), "{counts}");
    receiver.resume();
    assert_eq!(telemetry.shutdown(PATIENCE).total().delivered, 1);
}
