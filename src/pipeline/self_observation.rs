//! Exports the ledger as metrics, with the names of OpenTelemetry's semantic conventions for SDK metrics
//! (`otel.sdk.*`).

use std::sync::{Arc, Weak};

use crate::config::{Exporter, Transport};
use crate::metrics::{InstrumentBuilder, Meter};
use crate::pipeline::exporter_set::ExporterSet;
use crate::pipeline::ledger::Counts;
use crate::record::Signal;

/// Instrumentation scope of the metrics.
pub(crate) const SCOPE: &str = "standpipe";

/// Registers the metrics of the exporters of these sets. They are observed for as long as the sets live.
pub(crate) fn observe(exporter_sets: &[Weak<ExporterSet>], meter: &Meter, exporters: &[Exporter]) {
    let (exporter_sets, exporters): (Arc<[_]>, Arc<[_]>) = (exporter_sets.into(), exporters.into());
    for signal in Signal::ALL {
        let [record, unit, processor, exporter] = match signal {
            Signal::Traces => ["span", "{span}", "batching_span_processor", "span_exporter"],
            Signal::Logs => ["log", "{log_record}", "batching_log_processor", "log_exporter"],
            Signal::Metrics => {
                ["metric_data_point", "{data_point}", "periodic_metric_reader", "metric_exporter"]
            }
        };
        let watch = Watch {
            exporter_sets: Arc::clone(&exporter_sets),
            exporters: Arc::clone(&exporters),
            signal,
            processor,
            exporter,
        };
        watch.exported(meter.build(&format!("otel.sdk.exporter.{record}.exported")).unit(unit));
        // Most data points are collected when they are sent, and do not wait in a queue that could be observed.
        if signal != Signal::Metrics {
            watch.processed(meter.build(&format!("otel.sdk.processor.{record}.processed")).unit(unit));
            let queue = format!("otel.sdk.processor.{record}.queue");
            let (size, capacity) = (format!("{queue}.size"), format!("{queue}.capacity"));
            let size = meter.build(&size).unit(unit).description("records that are queued or being sent");
            watch.observe_level(size, |_, counts| counts.in_flight);
            let description = "records that the queue of this signal can hold";
            let capacity = meter.build(&capacity).unit(unit).description(description);
            watch.observe_level(capacity, |exporter, _| exporter.queue.records as u64);
        }
    }
}

/// Number of successes, and of failures by reason.
type Outcomes = (u64, Vec<(&'static str, u64)>);

/// One signal of all exporters that export it.
#[derive(Clone)]
struct Watch {
    exporter_sets: Arc<[Weak<ExporterSet>]>,
    exporters: Arc<[Exporter]>,
    signal: Signal,
    /// `otel.component.type` of the queue.
    processor: &'static str,
    /// Suffix of an exporter's `otel.component.type`, after the protocol.
    exporter: &'static str,
}

impl Watch {
    /// Observes the records that were exported, and those that failed.
    fn exported(&self, builder: InstrumentBuilder<'_>) {
        let builder = builder.description("records that the collector has, or that are lost");
        self.observe_outcomes(builder, Self::exporter_type, |counts| {
            let dropped = counts.dropped;
            let failures = vec![
                ("rejected", counts.rejected),
                ("refused", dropped.refused),
                ("timeout", dropped.gave_up),
                ("too_large", dropped.too_large),
                ("shutdown", dropped.shutdown),
                ("panic", dropped.worker_panicked),
                ("expired", dropped.expired),
                ("damaged", dropped.damaged),
            ];
            (counts.delivered, failures)
        });
    }

    /// Observes the records whose outcome is final, and those that were not enqueued. Spooled records are not
    /// included: they may be sent later, and a counter must not decrease.
    fn processed(&self, builder: InstrumentBuilder<'_>) {
        let builder = builder.description("records whose export is over, or that were not enqueued");
        self.observe_outcomes(
            builder,
            |watch, _| watch.processor.to_owned(),
            |counts| {
                let not_enqueued = counts.not_enqueued;
                let failures = vec![
                    ("queue_full", not_enqueued.queue_full),
                    ("too_large", not_enqueued.too_large),
                    ("already_shutdown", not_enqueued.after_shutdown),
                    ("suppressed", not_enqueued.suppressed),
                    ("no_worker", not_enqueued.no_worker),
                    ("panic", not_enqueued.panicked),
                ];
                (counts.finished(), failures)
            },
        );
    }

    /// Makes a counter of successes, and of failures by reason. Reasons without failures have no series.
    fn observe_outcomes(
        &self,
        builder: InstrumentBuilder<'_>,
        component_type: fn(&Self, &Exporter) -> String,
        outcomes: fn(&Counts) -> Outcomes,
    ) {
        let watch = self.clone();
        builder.observe_counter(move |observer| {
            watch.for_each_exporter(|exporter, counts| {
                let component_type = component_type(&watch, exporter);
                let component = component(exporter, &component_type);
                let (successes, failures) = outcomes(counts);
                observer.observe(successes, &component);
                for (reason, count) in failures.into_iter().filter(|(_, count)| *count > 0) {
                    observer.observe(count, &[component[0], component[1], ("error.type", reason)]);
                }
            });
        });
    }

    fn observe_level(&self, builder: InstrumentBuilder<'_>, level: fn(&Exporter, &Counts) -> u64) {
        let watch = self.clone();
        builder.observe_up_down_counter(move |observer| {
            watch.for_each_exporter(|exporter, counts| {
                let level = i64::try_from(level(exporter, counts)).unwrap_or(i64::MAX);
                observer.observe(level, &component(exporter, watch.processor));
            });
        });
    }

    fn for_each_exporter(&self, mut look: impl FnMut(&Exporter, &Counts)) {
        let ledgers = |exporters: Arc<ExporterSet>| exporters.ledger();
        for ledger in self.exporter_sets.iter().filter_map(Weak::upgrade).flat_map(ledgers) {
            let is_it = |exporter: &&Exporter| {
                exporter.signals.contain(self.signal) && exporter.name() == ledger.name
            };
            if let Some(exporter) = self.exporters.iter().find(is_it) {
                look(exporter, &ledger.of(self.signal));
            }
        }
    }

    /// Returns the `otel.component.type` of an exporter of this signal.
    fn exporter_type(&self, exporter: &Exporter) -> String {
        let protocol = match exporter.connection.transport {
            Transport::Http => "otlp_http",
            Transport::Grpc => "otlp_grpc",
            Transport::Console => "console",
        };
        format!("{protocol}_{}", self.exporter)
    }
}

fn component<'a>(exporter: &'a Exporter, component_type: &'a str) -> [(&'static str, &'a str); 2] {
    [("otel.component.name", exporter.name()), ("otel.component.type", component_type)]
}
