//! The ledger as metrics, by the names that OpenTelemetry has for an SDK's own health.

use std::sync::Weak;

use crate::meter::{Meter, Observer};
use crate::outlet::Outlet;
use crate::record::Signal;
use crate::stats::Counts;

/// The scope of what is observed here.
pub(crate) const SCOPE: &str = "standpipe";

const PROCESSOR_TYPE: &str = "batching_processor";
const EXPORTER_TYPE: &str = "otlp_http_exporter";

/// Observes the exporters of `outlet`, as long as it lives. `capacities` are those of their queues, by id.
pub(crate) fn observe(outlet: &Weak<Outlet>, meter: &Meter, capacities: Vec<(String, usize)>) {
    for signal in Signal::ALL {
        observe_exported(outlet, meter, signal);
        // data points are collected when they are sent: they pass no queue
        if signal != Signal::Metrics {
            observe_processed(outlet, meter, signal);
            observe_queue(outlet, meter, signal, capacities.clone());
        }
    }
}

/// What left the queue, and what never got into it.
fn observe_processed(outlet: &Weak<Outlet>, meter: &Meter, signal: Signal) {
    let name = format!("otel.sdk.processor.{}.processed", singular(signal));
    let description = "records that were handed to the exporter, or turned away";
    let outlet = outlet.clone();
    meter.build(&name).unit(unit(signal)).description(description).observe_counter(move |observer| {
        for_each_exporter(&outlet, signal, |id, counts| {
            let turned_away = counts.turned_away;
            let note = Note { id, component: PROCESSOR_TYPE };
            note.success(observer, counts.accepted - counts.in_flight);
            note.failures(
                observer,
                &[
                    ("queue_full", turned_away.queue_full),
                    ("too_large", turned_away.too_large),
                    ("already_shutdown", turned_away.after_shutdown),
                ],
            );
        });
    });
}

/// What arrived, and what did not.
fn observe_exported(outlet: &Weak<Outlet>, meter: &Meter, signal: Signal) {
    let name = format!("otel.sdk.exporter.{}.exported", singular(signal));
    let description = "records that the collector has, or that are lost";
    let outlet = outlet.clone();
    meter.build(&name).unit(unit(signal)).description(description).observe_counter(move |observer| {
        for_each_exporter(&outlet, signal, |id, counts| {
            let dropped = counts.dropped;
            let note = Note { id, component: EXPORTER_TYPE };
            note.success(observer, counts.delivered);
            note.failures(
                observer,
                &[
                    ("rejected", counts.rejected),
                    ("refused", dropped.refused),
                    ("timeout", dropped.gave_up),
                    ("too_large", dropped.too_large),
                    ("shutdown", dropped.shutdown),
                    ("panic", dropped.worker_panicked),
                ],
            );
        });
    });
}

/// How full the queue is, and how full it can be.
fn observe_queue(outlet: &Weak<Outlet>, meter: &Meter, signal: Signal, capacities: Vec<(String, usize)>) {
    let name = format!("otel.sdk.processor.{}.queue", singular(signal));
    let outlet = outlet.clone();
    let size = format!("{name}.size");
    let description = "records that are queued or being sent";
    meter.build(&size).unit(unit(signal)).description(description).observe_up_down_counter(move |observer| {
        for_each_exporter(&outlet, signal, |id, counts| {
            let in_flight = i64::try_from(counts.in_flight).unwrap_or(i64::MAX);
            observer.observe(in_flight, &component(id, PROCESSOR_TYPE));
        });
    });
    let capacity = format!("{name}.capacity");
    let description = "records that the queue can hold, of all signals together";
    meter.build(&capacity).unit(unit(signal)).description(description).observe_up_down_counter(
        move |observer| {
            for (id, records) in &capacities {
                let records = i64::try_from(*records).unwrap_or(i64::MAX);
                observer.observe(records, &component(id, PROCESSOR_TYPE));
            }
        },
    );
}

fn for_each_exporter(outlet: &Weak<Outlet>, signal: Signal, mut look: impl FnMut(&str, Counts)) {
    let Some(outlet) = outlet.upgrade() else { return };
    for exporter in outlet.ledger().exporters {
        look(&exporter.id, exporter.of(signal));
    }
}

fn component<'a>(id: &'a str, kind: &'a str) -> [(&'static str, &'a str); 2] {
    [("otel.component.name", id), ("otel.component.type", kind)]
}

/// Whose counts are noted.
struct Note<'a> {
    id: &'a str,
    component: &'a str,
}

impl Note<'_> {
    fn success(&self, observer: &mut Observer<'_, u64>, count: u64) {
        observer.observe(count, &component(self.id, self.component));
    }

    /// Only what has happened.
    fn failures(&self, observer: &mut Observer<'_, u64>, failures: &[(&str, u64)]) {
        let [name, kind] = component(self.id, self.component);
        for (reason, count) in failures.iter().filter(|(_, count)| *count > 0) {
            observer.observe(*count, &[name, kind, ("error.type", reason)]);
        }
    }
}

fn singular(signal: Signal) -> &'static str {
    match signal {
        Signal::Traces => "span",
        Signal::Logs => "log",
        Signal::Metrics => "metric_data_point",
    }
}

fn unit(signal: Signal) -> &'static str {
    match signal {
        Signal::Traces => "{span}",
        Signal::Logs => "{log_record}",
        Signal::Metrics => "{data_point}",
    }
}
