//! With a global subscriber, values that trace while they are formatted re-enter the layer in the middle of an event or
//! a new span: no lock is held, and nothing is lost.

use std::fmt;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use standpipe::bridge::tracing::{Events, TracingLayer};
use standpipe::receiver::Receiver;
use standpipe::{Config, Exporter, Telemetry};
use tracing::field::{Empty, debug};
use tracing::{Span, info, info_span};
use tracing_subscriber::prelude::*;

use crate::support::process;

const PATIENCE: Duration = Duration::from_secs(20);

/// A value that traces while it is formatted. The values in these traces do the same, to this depth.
struct Talkative(u32);

impl fmt::Debug for Talkative {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(deeper) = self.0.checked_sub(1) {
            Span::current().record("late", deeper);
            info!(value = ?Talkative(deeper), "event");
            info_span!("span", value = ?Talkative(deeper)).in_scope(|| info!("inside"));
        }
        write!(f, "talkative {}", self.0)
    }
}

#[test]
fn values_may_trace_wherever_they_are_shown() {
    if !process::is_alone("values_may_trace_wherever_they_are_shown") {
        return;
    }
    let receiver = Receiver::start().unwrap();
    let telemetry = Telemetry::start(Config::new().exporter(Exporter::http(receiver.endpoint()))).unwrap();
    tracing_subscriber::registry()
        .with(TracingLayer::new(&telemetry).events(Events::Both).location(false).threads(false))
        .init();
    let (done, ended) = mpsc::channel();
    thread::spawn(move || {
        let root = info_span!("root", late = Empty, value = Empty);
        root.in_scope(|| {
            root.record("value", debug(Talkative(2)));
            info!(value = ?Talkative(2), "event");
            info_span!("span", value = ?Talkative(2)).in_scope(|| {});
        });
        drop(root);
        done.send(()).unwrap();
    });
    ended.recv_timeout(PATIENCE).expect("nothing waits for itself");
    let ledger = telemetry.shutdown(PATIENCE);
    assert_eq!(ledger.lost(), 0, "{ledger}");
    // The program formats three values of depth two. Each formats two of depth one, each of which formats two of depth
    // zero.
    let spans = receiver.spans();
    let named = |name: &str| spans.iter().filter(|received| received.span.name == name).count();
    assert_eq!((named("root"), named("span")), (1, 1 + 3 * 3));
    let events: usize = spans.iter().map(|received| received.span.events.len()).sum();
    assert_eq!((events as u64, receiver.log_count()), (1 + 2 * 3 * 3, 1 + 2 * 3 * 3));
    let root = spans.iter().find(|received| received.span.name == "root").unwrap();
    assert_eq!(root.span.attributes.len(), 2);
}
