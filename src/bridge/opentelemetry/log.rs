//! Log records of the OpenTelemetry SDK, encoded and enqueued.

use std::borrow::Cow;
use std::future::{Future, ready};
use std::time::{Duration, SystemTime};

use opentelemetry::InstrumentationScope;
use opentelemetry::logs::{AnyValue, Severity as SdkSeverity};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::logs::{LogBatch, LogProcessor, SdkLogRecord, TraceContext};

use super::input::{Disposition, SdkInput, pass_to_input, with_any_value};
use crate::bridge::shows_credentials;
use crate::context::unix_nanos;
use crate::pipeline::ledger::NotEnqueuedReason;
use crate::record::{LogEnd, LogLimits, LogRecord, Pool, Severity, Signal, SpanId, SpanRef, TraceId};
use crate::telemetry::provider::Provider;

thread_local! {
    static POOL: Pool<LogRecord, 1> = const { Pool::new() };
}

/// Passes log records of the OpenTelemetry SDK to a provider. See the [module](super) for how to install it.
///
/// Each exporter of the provider gets the records that its level includes, and every record without a severity number.
/// Records that ureq, an HTTP client, logs at `trace` are ignored: they contain whole requests with credentials.
#[derive(Debug)]
pub struct LogExporter {
    input: SdkInput,
}

type ScopedRecord<'l> = (&'l SdkLogRecord, &'l InstrumentationScope);

impl LogExporter {
    /// Creates an exporter to the main provider of a [`Telemetry`](crate::Telemetry), or to any [`Provider`].
    pub fn new(provider: impl AsRef<Provider>) -> Self {
        Self { input: SdkInput::new(provider.as_ref(), Signal::Logs) }
    }

    fn take<'l>(&self, logs: impl IntoIterator<Item = ScopedRecord<'l>>) -> OTelSdkResult {
        self.input.take(|disposition| match disposition {
            Disposition::Sent { largest } => self.send(logs, largest),
            Disposition::Counted(reason) => logs.into_iter().for_each(|(log, _)| {
                self.input.exporters().count_log_not_enqueued(filter_severity(log), reason);
            }),
        })
    }

    fn send<'l>(&self, logs: impl IntoIterator<Item = ScopedRecord<'l>>, largest: usize) {
        let exporters = self.input.exporters();
        let mut record = Pool::take(&POOL).unwrap_or_default();
        for (log, scope) in logs {
            let (severity, filter_severity) = (log.severity_number().map(severity), filter_severity(log));
            if !exporters.takes_log(filter_severity) {
                exporters.count_log_filtered(filter_severity);
                continue;
            }
            // At `trace`, ureq logs credentials; see `shows_credentials`.
            if filter_severity <= Severity::Trace4 && is_of_ureq(log) {
                continue;
            }
            write(log, &mut record, largest);
            match record.finish_foreign(severity, &end(log)) {
                Some(framed) => {
                    let scope = self.input.scopes.find(scope, log.target().map(Cow::as_ref));
                    exporters.enqueue_log(&scope, filter_severity, framed);
                }
                None => exporters.count_log_not_enqueued(filter_severity, NotEnqueuedReason::TooLarge),
            }
        }
        let bytes = record.capacity();
        Pool::keep(&POOL, record, bytes);
    }

    fn is_enabled(&self, level: SdkSeverity, target: &str) -> bool {
        let level = severity(level);
        let shows_credentials = shows_credentials(level <= Severity::Trace4, target);
        self.input.is_of_use() && self.input.exporters().takes_log(level) && !shows_credentials
    }
}

impl opentelemetry_sdk::logs::LogExporter for LogExporter {
    fn export(&self, batch: LogBatch<'_>) -> impl Future<Output = OTelSdkResult> + Send {
        ready(self.take(batch.iter()))
    }

    fn event_enabled(&self, level: SdkSeverity, target: &str, _name: Option<&str>) -> bool {
        self.is_enabled(level, target)
    }

    pass_to_input! { shutdown_with_timeout set_resource }
}

impl LogProcessor for LogExporter {
    fn emit(&self, log: &mut SdkLogRecord, scope: &InstrumentationScope) {
        // This method cannot report that the exporter is shut down.
        let _ = self.take([(&*log, scope)]);
    }

    fn event_enabled(&self, level: SdkSeverity, target: &str, _name: Option<&str>) -> bool {
        self.is_enabled(level, target)
    }

    pass_to_input! { force_flush shutdown_with_timeout set_resource }
}

/// Returns whether a record at `trace` comes from ureq. If the record came through `tracing-log`, an attribute
/// contains the target.
fn is_of_ureq(log: &SdkLogRecord) -> bool {
    let of_tracing = log.attributes_iter().filter(|(key, _)| key.as_str() == "log.target");
    let mut targets = of_tracing.filter_map(|(_, value)| match value {
        AnyValue::String(target) => Some(target.as_str()),
        _ => None,
    });
    let is_shown = |target: &str| shows_credentials(true, target);
    log.target().is_some_and(|target| is_shown(target)) || targets.any(is_shown)
}

/// Writes all fields except those that [`end`] returns.
fn write(log: &SdkLogRecord, record: &mut LogRecord, largest: usize) {
    // The SDK has already applied its limits.
    record.begin(&LogLimits::of_each(u32::MAX), largest);
    if let Some(body) = log.body() {
        with_any_value(body, |body| record.set_body(body));
    }
    for (key, value) in log.attributes_iter() {
        with_any_value(value, |value| record.set(key.as_str(), value));
    }
    if let Some(text) = log.severity_text() {
        record.set_severity_text(text);
    }
    if let Some(name) = log.event_name() {
        record.set_event_name(name);
    }
}

fn end(log: &SdkLogRecord) -> LogEnd {
    let span = |context: &TraceContext| SpanRef {
        trace_id: TraceId(context.trace_id.to_bytes()),
        span_id: SpanId(context.span_id.to_bytes()),
        trace_flags: context.trace_flags.unwrap_or_default().to_u8(),
    };
    LogEnd {
        time: log.timestamp().map_or(0, unix_nanos),
        observed: unix_nanos(log.observed_timestamp().unwrap_or_else(SystemTime::now)),
        span: log.trace_context().map(span),
    }
}

/// Returns the severity that is compared with the exporters' levels. As the specification of loggers requires, a record
/// without a severity passes every level.
fn filter_severity(log: &SdkLogRecord) -> Severity {
    log.severity_number().map_or(Severity::Fatal4, severity)
}

/// Converts a severity. Both types use OpenTelemetry's numbers.
fn severity(severity: SdkSeverity) -> Severity {
    Severity::from_number(severity as u8).unwrap_or(Severity::Info)
}

#[cfg(test)]
mod tests;
