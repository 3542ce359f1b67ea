//! Per-layer filters, next to other layers, and a layer that is reloaded.

use std::sync::mpsc;
use std::thread;

use standpipe::bridge::tracing::TracingLayer;
use standpipe::receiver::Receiver;
use standpipe::{Config, Exporter, Telemetry, WhenFull};
use tracing::{debug, debug_span, info, info_span};
use tracing_subscriber::filter::{LevelFilter, Targets, filter_fn};
use tracing_subscriber::prelude::*;
use tracing_subscriber::reload;

use super::stage::{Arrived, PATIENCE, run_telemetry};

fn under<F>(filter: F, program: impl FnOnce()) -> Arrived
where
    F: tracing_subscriber::layer::Filter<tracing_subscriber::Registry> + Send + Sync + 'static,
{
    run_telemetry(Config::new(), |telemetry| {
        let layer = TracingLayer::new(telemetry).with_filter(filter);
        // another layer that sees everything
        let everything =
            tracing_subscriber::fmt::layer().with_writer(std::io::sink).with_filter(LevelFilter::TRACE);
        let _default = tracing_subscriber::registry().with(layer).with(everything).set_default();
        program();
    })
}

#[test]
fn a_span_below_one_that_is_filtered_out_belongs_to_the_one_above() {
    let arrived = under(LevelFilter::INFO, || {
        let _outer = info_span!("outer").entered();
        let _hidden = debug_span!("hidden").entered();
        let _inner = info_span!("inner").entered();
        debug!("hidden");
        info!("seen");
    });
    assert_eq!(arrived.names(), ["inner", "outer"]);
    arrived.assert_child("inner", "outer");
    assert_eq!(arrived.span("inner").span.events.len(), 1);
}

#[test]
fn an_event_in_a_filtered_span_belongs_to_the_one_above() {
    let arrived = under(LevelFilter::INFO, || {
        let _outer = info_span!("outer").entered();
        let _hidden = debug_span!("hidden").entered();
        info!("seen");
    });
    assert_eq!(arrived.span("outer").span.events[0].name, "seen");
}

#[test]
fn a_filtered_explicit_parent_is_none() {
    let arrived = under(filter_fn(|metadata| metadata.name() != "hidden"), || {
        let hidden = info_span!("hidden");
        let _around = info_span!("around").entered();
        info_span!(parent: &hidden, "child").follows_from(&hidden);
    });
    arrived.assert_root("child");
    assert!(arrived.span("child").span.links.is_empty());
}

#[test]
fn targets_can_be_filtered() {
    let filter = Targets::new().with_target("shop", LevelFilter::DEBUG);
    let arrived = under(filter, || {
        info_span!(target: "other", "hidden").in_scope(|| {
            debug_span!(target: "shop", "seen").in_scope(|| {});
        });
    });
    assert_eq!(arrived.names(), ["seen"]);
}

#[test]
fn a_layer_that_is_taken_away_inside_a_span_leaves_nothing_behind() {
    let arrived = run_telemetry(Config::new(), |telemetry| {
        let layer = || Some(TracingLayer::new(telemetry));
        let (reloaded, handle) = reload::Layer::new(layer());
        let _default = tracing_subscriber::registry().with(reloaded).set_default();
        info_span!("old").in_scope(|| handle.reload(None).unwrap());
        handle.reload(layer()).unwrap();
        info!("outside");
        info_span!("new").in_scope(|| info_span!("inner").in_scope(|| {}));
    });
    assert_eq!(arrived.names(), ["old", "inner", "new"]);
    arrived.assert_root("new");
    arrived.assert_child("inner", "new");
    assert!(arrived.logs[0].log.span_id.is_empty(), "it was outside of all spans");
}

#[test]
fn a_layer_is_taken_away_at_once_though_the_queue_is_full() {
    let receiver = Receiver::start().unwrap();
    receiver.pause();
    let exporter =
        Exporter::http(receiver.endpoint()).block_timeout(None).queue_records(1).when_full(WhenFull::Block);
    let telemetry = Telemetry::start(Config::new().exporter(exporter)).unwrap();
    telemetry.tracer("shop").span("fills the queue").end();
    let (reloaded, handle) = reload::Layer::new(Some(TracingLayer::new(&telemetry)));
    let _default = tracing_subscriber::registry().with(reloaded).set_default();
    let _open = info_span!("open");
    let (report, reported) = mpsc::channel();
    // The reload must not wait for room in the queue: during a reload, every other thread that traces waits, even a
    // thread that could make room.
    thread::spawn(move || report.send(handle.reload(None).is_ok()));
    let at_once = reported.recv_timeout(PATIENCE);
    receiver.resume();
    assert_eq!(at_once, Ok(true));
    let total = telemetry.shutdown(PATIENCE).total();
    assert_eq!((total.delivered, total.not_enqueued.queue_full), (1, 1));
}
