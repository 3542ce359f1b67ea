//! Finished spans of the OpenTelemetry SDK, encoded and enqueued.

use std::future::{Future, ready};
use std::slice;
use std::time::Duration;

use opentelemetry::trace::{Event, Link, SpanId as SdkSpanId, Status as SdkStatus};
use opentelemetry::{Context, KeyValue, trace};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Span, SpanData, SpanProcessor};

use super::input::{Disposition, SdkInput, pass_to_input, with_value};
use crate::context::unix_nanos;
use crate::pipeline::ledger::NotEnqueuedReason;
use crate::record::{OtherSpan, Pool, Signal, SpanHead, SpanId, SpanKind, SpanRecord, Status, TraceId};
use crate::telemetry::provider::Provider;

thread_local! {
    static POOL: Pool<SpanRecord, 1> = const { Pool::new() };
}

/// Passes finished spans of the OpenTelemetry SDK to a provider. See the [module](super) for how to install it.
#[derive(Debug)]
pub struct SpanExporter {
    input: SdkInput,
}

impl SpanExporter {
    /// Creates an exporter to the main provider of a [`Telemetry`](crate::Telemetry), or to any [`Provider`].
    pub fn new(provider: impl AsRef<Provider>) -> Self {
        Self { input: SdkInput::new(provider.as_ref(), Signal::Traces) }
    }

    fn take(&self, spans: &[SpanData]) -> OTelSdkResult {
        self.input.take(|disposition| match disposition {
            Disposition::Sent { largest } => self.send(spans, largest),
            Disposition::Counted(reason) => {
                spans.iter().for_each(|_| self.input.exporters().count_span_not_enqueued(reason));
            }
        })
    }

    fn send(&self, spans: &[SpanData], largest: usize) {
        let mut record = Pool::take(&POOL).unwrap_or_default();
        for span in spans {
            write(span, &mut record, largest);
            match record.finish(unix_nanos(span.end_time)) {
                Some(framed) => {
                    let scope = self.input.scopes.find(&span.instrumentation_scope, None);
                    self.input.exporters().enqueue_span(&scope, framed);
                }
                None => self.input.exporters().count_span_not_enqueued(NotEnqueuedReason::TooLarge),
            }
        }
        let bytes = record.capacity();
        Pool::keep(&POOL, record, bytes);
    }
}

impl opentelemetry_sdk::trace::SpanExporter for SpanExporter {
    fn export(&self, batch: Vec<SpanData>) -> impl Future<Output = OTelSdkResult> + Send {
        ready(self.take(&batch))
    }

    pass_to_input! { shutdown_with_timeout force_flush set_resource }
}

impl SpanProcessor for SpanExporter {
    fn on_start(&self, _span: &mut Span, _context: &Context) {}

    fn on_end(&self, span: SpanData) {
        // The SDK also passes spans that are recorded but not sampled. The SDK's own processors skip them, too.
        if span.span_context.is_sampled() {
            // This method cannot report that the exporter is shut down.
            let _ = self.take(slice::from_ref(&span));
        }
    }

    pass_to_input! { force_flush shutdown_with_timeout set_resource }
}

/// Writes the whole span except its end time.
fn write(span: &SpanData, record: &mut SpanRecord, largest: usize) {
    let context = &span.span_context;
    let head = SpanHead {
        trace_id: TraceId(context.trace_id().to_bytes()),
        span_id: SpanId(context.span_id().to_bytes()),
        parent: (span.parent_span_id != SdkSpanId::INVALID).then(|| SpanId(span.parent_span_id.to_bytes())),
        parent_is_remote: span.parent_span_is_remote,
        trace_flags: context.trace_flags().to_u8(),
        trace_state: &context.trace_state().header(),
        name: &span.name,
        kind: kind(&span.span_kind),
        start: unix_nanos(span.start_time),
    };
    record.begin_foreign(&head, largest);
    for attribute in &span.attributes {
        with_value(&attribute.value, |value| record.set(attribute.key.as_str(), value));
    }
    span.events.iter().for_each(|event| write_event(event, record));
    span.links.iter().for_each(|link| write_link(link, record));
    match &span.status {
        SdkStatus::Unset => {}
        SdkStatus::Ok => record.set_status(Status::Ok),
        SdkStatus::Error { description } => record.set_status(Status::Error(description)),
    }
    // The SDK has already applied its limits. Its dropped counts are added to those of this crate.
    let (attributes, events, links) = (span.dropped_attributes_count, &span.events, &span.links);
    record.add_dropped(attributes, events.dropped_count, links.dropped_count);
}

fn write_event(event: &Event, record: &mut SpanRecord) {
    record.open_event(&event.name, unix_nanos(event.timestamp));
    close_sub_message(&event.attributes, event.dropped_attributes_count, record);
}

fn write_link(link: &Link, record: &mut SpanRecord) {
    let context = &link.span_context;
    record.open_link(&OtherSpan {
        trace_id: TraceId(context.trace_id().to_bytes()),
        span_id: SpanId(context.span_id().to_bytes()),
        is_remote: context.is_remote(),
        trace_flags: context.trace_flags().to_u8(),
        trace_state: &context.trace_state().header(),
    });
    close_sub_message(&link.attributes, link.dropped_attributes_count, record);
}

fn close_sub_message(attributes: &[KeyValue], dropped: u32, record: &mut SpanRecord) {
    for attribute in attributes {
        with_value(&attribute.value, |value| record.set_in_sub_message(attribute.key.as_str(), value));
    }
    record.close_sub_message_with_dropped(dropped);
}

fn kind(kind: &trace::SpanKind) -> SpanKind {
    match kind {
        trace::SpanKind::Client => SpanKind::Client,
        trace::SpanKind::Server => SpanKind::Server,
        trace::SpanKind::Producer => SpanKind::Producer,
        trace::SpanKind::Consumer => SpanKind::Consumer,
        trace::SpanKind::Internal => SpanKind::Internal,
    }
}

#[cfg(test)]
mod tests;
