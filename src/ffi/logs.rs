//! Log records from C.

use super::input::{AnyValue, Arena, AttributeArray, CText, each_attribute};
use super::lifecycle::{Pointer, scoped};
use super::spans::time;
use super::{SizeFirst, Versioned};
use crate::logs::{Log, Logger};
use crate::record::Severity;
use crate::trace::OpenSpan;

/// `standpipe_log_options`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct LogOptions<'a> {
    pub(super) size: usize,
    pub(super) severity: i32,
    pub(super) reserved: u32,
    pub(super) body: AnyValue<'a>,
    pub(super) event_name: CText<'a>,
    pub(super) severity_text: CText<'a>,
    pub(super) unix_ns: u64,
    pub(super) span: *mut OpenSpan,
    pub(super) attributes: AttributeArray<'a>,
    pub(super) attribute_count: usize,
}

// SAFETY: the struct is `repr(C)` and begins with its size. All other fields are numbers and pointers, for which zero
// means unset.
unsafe impl SizeFirst for LogOptions<'_> {}

exported! {
    fn standpipe_logger_new(
        handle: Pointer<'_>,
        scope: CText<'_>,
        version: CText<'_>,
    ) -> Option<Box<Logger>> {
        scoped(&handle, (scope, version), |telemetry, scope| telemetry.logger(scope))
    }

    fn standpipe_logger_free(logger: Option<Box<Logger>>) {
        drop(logger);
    }

    fn standpipe_log_enabled(logger: Option<&Logger>, severity: i32) -> bool {
        logger.is_some_and(|logger| logger.is_enabled(nearest(severity)))
    }

    fn standpipe_log(
        logger: Option<&Logger>,
        severity: i32,
        body: CText<'_>,
        span: Option<&mut OpenSpan>,
        attributes: AttributeArray<'_>,
        count: usize,
    ) {
        let Some(logger) = logger else { return };
        let severity = nearest(severity);
        // The body of a record below the level is not read, because the record is only counted.
        let body = if logger.is_enabled(severity) { body.option() } else { None };
        emit(logger.record(severity, body), span, attributes, count);
    }

    fn standpipe_log_with(logger: Option<&Logger>, options: Versioned<'_, LogOptions<'_>>) {
        let Some(logger) = logger else { return };
        let options = options.read();
        let arena = Arena::default();
        let mut log = logger.record(nearest(options.severity), arena.value(&options.body));
        if let Some(name) = options.event_name.option() {
            log = log.event_name(&name);
        }
        if let Some(text) = options.severity_text.option() {
            log = log.severity_text(&text);
        }
        if let Some(time) = time(options.unix_ns) {
            log = log.time(time);
        }
        // SAFETY: the caller guarantees that the pointer is null, or a span that has not ended and that no other thread
        // uses.
        let span = unsafe { options.span.as_mut() };
        emit(log, span, options.attributes, options.attribute_count);
    }
}

fn emit(mut log: Log<'_>, span: Option<&mut OpenSpan>, attributes: AttributeArray<'_>, count: usize) {
    each_attribute(attributes, count, |key, value| log.set_in_place(key, value));
    match span {
        Some(span) => log.context(span.settled_context()).emit(),
        None => log.emit(),
    }
}

/// Returns the severity of this number, or the nearest one. Zero means `Info`.
fn nearest(number: i32) -> Severity {
    if number == 0 {
        return Severity::Info;
    }
    let number = number.clamp(Severity::Trace.number().into(), Severity::Fatal4.number().into());
    u8::try_from(number).ok().and_then(Severity::from_number).unwrap_or(Severity::Info)
}
