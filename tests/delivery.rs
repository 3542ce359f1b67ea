//! Records arrive, all of them, once.

use std::time::Duration;

use standpipe::receiver::Receiver;
use standpipe::{Config, Exporter, Telemetry, WhenFull};

const SECONDS: Duration = Duration::from_secs(20);

fn start(exporter: Exporter) -> Telemetry {
    Telemetry::start(Config::new().service_name("shop").exporter(exporter)).unwrap()
}

#[test]
fn a_span_arrives() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(Exporter::http(receiver.endpoint()));
    let tracer = telemetry.tracer("shop");
    {
        let mut span = tracer.span("checkout");
        span.set("order.id", 4711);
        let mut child = tracer.span("child");
        child.event("hello").set("a", 1);
    }
    assert!(receiver.wait_for_spans(2, SECONDS));
    let ledger = telemetry.shutdown(Duration::from_secs(2));
    assert_eq!((ledger.total().delivered, ledger.lost()), (2, 0), "{ledger}");
    println!("{ledger} {:?}", receiver.spans());
}

#[test]
fn a_burst_of_100_000_spans_arrives_whole_in_block_mode() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(Exporter::http(receiver.endpoint()));
    let tracer = telemetry.tracer("shop");
    for number in 0..100_000 {
        tracer.span("burst").set("number", number);
    }
    let ledger = telemetry.shutdown(SECONDS);
    assert_eq!((ledger.total().delivered, ledger.lost()), (100_000, 0), "{ledger}");
    assert_eq!(receiver.span_count(), 100_000);
}

#[test]
fn a_burst_of_100_000_spans_is_delivered_or_counted_in_lossy_mode() {
    let receiver = Receiver::start().unwrap();
    let telemetry =
        start(Exporter::http(receiver.endpoint()).when_full(WhenFull::DropNewest).queue_records(1000));
    let tracer = telemetry.tracer("shop");
    for number in 0..100_000 {
        tracer.span("burst").set("number", number);
    }
    let ledger = telemetry.shutdown(SECONDS);
    let total = ledger.total();
    assert_eq!(total.delivered + total.turned_away.queue_full, 100_000, "{ledger}");
    assert_eq!(receiver.span_count(), total.delivered);
    println!("{ledger}");
}
