//! The ledger as metrics, by the names that OpenTelemetry has for an SDK's own health.

use std::sync::{Arc, Weak};

use crate::config::{Signals, Transport};
use crate::metrics::{Meter, Observer};
use crate::pipeline::exporter_set::ExporterSet;
use crate::pipeline::ledger::Counts;
use crate::record::Signal;

/// The scope of what is observed here.
pub(crate) const SCOPE: &str = "standpipe";

/// What is reported of an exporter beside its ledger.
#[derive(Debug)]
pub(crate) struct Observed {
    pub(crate) name: String,
    pub(crate) signals: Signals,
    pub(crate) transport: Transport,
    /// Records that the queue of a signal can hold.
    pub(crate) capacity: usize,
}

/// Observes the exporters of these sets, as long as they live.
pub(crate) fn observe(exporter_sets: &[Weak<ExporterSet>], meter: &Meter, exporters: Vec<Observed>) {
    let (exporter_sets, exporters): (Arc<[_]>, Arc<[_]>) = (exporter_sets.into(), exporters.into());
    for signal in Signal::ALL {
        let watch =
            Watch { exporter_sets: Arc::clone(&exporter_sets), exporters: Arc::clone(&exporters), signal };
        watch.exported(meter);
        // data points are collected when they are sent: no caller waits for room, and no chunk of theirs is queued
        if signal != Signal::Metrics {
            watch.processed(meter);
            watch.queue_size(meter);
            watch.queue_capacity(meter);
        }
    }
}

/// One signal of all exporters that send it.
#[derive(Clone)]
struct Watch {
    exporter_sets: Arc<[Weak<ExporterSet>]>,
    exporters: Arc<[Observed]>,
    signal: Signal,
}

impl Watch {
    /// What arrived, and what did not.
    fn exported(&self, meter: &Meter) {
        let name = format!("otel.sdk.exporter.{}.exported", self.words().record);
        let description = "records that the collector has, or that are lost";
        let watch = self.clone();
        meter.build(&name).unit(self.words().unit).description(description).observe_counter(
            move |observer| {
                watch.for_each_exporter(|exporter, counts| {
                    let dropped = counts.dropped;
                    let note = Note { name: &exporter.name, kind: &watch.exporter_type(exporter.transport) };
                    note.success(observer, counts.delivered);
                    let failures = [
                        ("rejected", counts.rejected),
                        ("refused", dropped.refused),
                        ("timeout", dropped.gave_up),
                        ("too_large", dropped.too_large),
                        ("shutdown", dropped.shutdown),
                        ("panic", dropped.worker_panicked),
                        ("expired", dropped.expired),
                        ("damaged", dropped.damaged),
                    ];
                    note.failures(observer, &failures);
                });
            },
        );
    }

    /// What is over and done with, and what never got into the queue. What is spooled may yet be sent, and be spooled again.
    fn processed(&self, meter: &Meter) {
        let name = format!("otel.sdk.processor.{}.processed", self.words().record);
        let description = "records whose export is over, or that were not enqueued";
        let watch = self.clone();
        meter.build(&name).unit(self.words().unit).description(description).observe_counter(
            move |observer| {
                watch.for_each_exporter(|exporter, counts| {
                    let not_enqueued = counts.not_enqueued;
                    let note = Note { name: &exporter.name, kind: watch.words().processor };
                    note.success(observer, counts.finished());
                    let failures = [
                        ("queue_full", not_enqueued.queue_full),
                        ("too_large", not_enqueued.too_large),
                        ("already_shutdown", not_enqueued.after_shutdown),
                        ("suppressed", not_enqueued.suppressed),
                        ("no_worker", not_enqueued.no_worker),
                        ("panic", not_enqueued.panicked),
                    ];
                    note.failures(observer, &failures);
                });
            },
        );
    }

    fn queue_size(&self, meter: &Meter) {
        let name = format!("otel.sdk.processor.{}.queue.size", self.words().record);
        let description = "records that are queued or being sent";
        let watch = self.clone();
        let size = meter.build(&name).unit(self.words().unit).description(description);
        size.observe_up_down_counter(move |observer| {
            watch.for_each_exporter(|exporter, counts| {
                let in_flight = i64::try_from(counts.in_flight).unwrap_or(i64::MAX);
                observer.observe(in_flight, &component(&exporter.name, watch.words().processor));
            });
        });
    }

    fn queue_capacity(&self, meter: &Meter) {
        let name = format!("otel.sdk.processor.{}.queue.capacity", self.words().record);
        let description = "records that the queue of this signal can hold";
        let watch = self.clone();
        let capacity = meter.build(&name).unit(self.words().unit).description(description);
        capacity.observe_up_down_counter(move |observer| {
            for exporter in watch.exporters() {
                let records = i64::try_from(exporter.capacity).unwrap_or(i64::MAX);
                observer.observe(records, &component(&exporter.name, watch.words().processor));
            }
        });
    }

    /// The exporters that send the signal.
    fn exporters(&self) -> impl Iterator<Item = &Observed> {
        self.exporters.iter().filter(|exporter| exporter.signals.contain(self.signal))
    }

    fn for_each_exporter(&self, mut look: impl FnMut(&Observed, Counts)) {
        let ledgers = |exporters: Arc<ExporterSet>| exporters.ledger();
        for ledger in self.exporter_sets.iter().filter_map(Weak::upgrade).flat_map(ledgers) {
            if let Some(exporter) = self.exporters().find(|exporter| exporter.name == ledger.name) {
                look(exporter, ledger.of(self.signal));
            }
        }
    }

    /// `otel.component.type` of an exporter of this signal.
    fn exporter_type(&self, transport: Transport) -> String {
        let protocol = match transport {
            Transport::Http => "otlp_http",
            Transport::Grpc => "otlp_grpc",
            Transport::Console => "console",
        };
        format!("{protocol}_{}", self.words().exporter)
    }

    fn words(&self) -> Words {
        match self.signal {
            Signal::Traces => Words {
                record: "span",
                unit: "{span}",
                processor: "batching_span_processor",
                exporter: "span_exporter",
            },
            Signal::Logs => Words {
                record: "log",
                unit: "{log_record}",
                processor: "batching_log_processor",
                exporter: "log_exporter",
            },
            Signal::Metrics => Words {
                record: "metric_data_point",
                unit: "{data_point}",
                processor: "periodic_metric_reader",
                exporter: "metric_exporter",
            },
        }
    }
}

/// What OpenTelemetry calls the components of a signal.
struct Words {
    record: &'static str,
    unit: &'static str,
    processor: &'static str,
    /// What follows the protocol in the type of an exporter.
    exporter: &'static str,
}

fn component<'a>(name: &'a str, kind: &'a str) -> [(&'static str, &'a str); 2] {
    [("otel.component.name", name), ("otel.component.type", kind)]
}

/// Whose counts are noted.
struct Note<'a> {
    name: &'a str,
    kind: &'a str,
}

impl Note<'_> {
    fn success(&self, observer: &mut Observer<'_, u64>, count: u64) {
        observer.observe(count, &component(self.name, self.kind));
    }

    /// Only what has happened.
    fn failures(&self, observer: &mut Observer<'_, u64>, failures: &[(&str, u64)]) {
        let [name, kind] = component(self.name, self.kind);
        for (reason, count) in failures.iter().filter(|(_, count)| *count > 0) {
            observer.observe(*count, &[name, kind, ("error.type", reason)]);
        }
    }
}
