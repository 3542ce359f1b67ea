//! Spans from C. A handle points directly to the storage of a detached span, so that a span needs no further
//! allocation.

use std::time::{Duration, SystemTime};

use super::input::{AttributeArray, CArray, CText, each_attribute};
use super::lifecycle::{Pointer, scoped};
use super::{Code, SizeFirst, Versioned};
use crate::context::SpanContext;
use crate::record::{IntoValue, SpanKind, Status};
use crate::trace::{DetachedSpan, EventBuilder, LinkBuilder, OpenSpan, Tracer};

/// `standpipe_span_options`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct SpanOptions<'a> {
    pub(super) size: usize,
    pub(super) name: CText<'a>,
    pub(super) kind: i32,
    pub(super) is_root: u32,
    pub(super) parent: *mut OpenSpan,
    pub(super) traceparent: CText<'a>,
    pub(super) tracestate: CText<'a>,
    pub(super) start_unix_ns: u64,
    pub(super) attributes: AttributeArray<'a>,
    pub(super) attribute_count: usize,
}

// SAFETY: the struct is `repr(C)` and begins with its size. All other fields are numbers and pointers, for which zero
// means unset.
unsafe impl SizeFirst for SpanOptions<'_> {}

exported! {
    fn standpipe_tracer_new(
        handle: Pointer<'_>,
        scope: CText<'_>,
        version: CText<'_>,
    ) -> Option<Box<Tracer>> {
        scoped(&handle, (scope, version), |telemetry, scope| telemetry.tracer(scope))
    }

    fn standpipe_tracer_free(tracer: Option<Box<Tracer>>) {
        drop(tracer);
    }

    fn standpipe_span_start(
        tracer: Option<&Tracer>,
        name: CText<'_>,
        parent: Option<&mut OpenSpan>,
    ) -> Option<Box<OpenSpan>> {
        let name = name.text();
        let span = tracer?.span_builder(&name);
        match parent {
            Some(parent) => span.child_of(parent).detached().into_storage(),
            None => span.detached().into_storage(),
        }
    }

    fn standpipe_span_start_with(
        tracer: Option<&Tracer>,
        options: Versioned<'_, SpanOptions<'_>>,
    ) -> Option<Box<OpenSpan>> {
        let options = options.read();
        let name = options.name.text();
        let mut span = tracer?.span_builder(&name).kind(SpanKind::from_number(options.kind));
        if let Some(start) = time(options.start_unix_ns) {
            span = span.start_time(start);
        }
        // SAFETY: the caller guarantees that the pointer is null, or a span that has not ended and that no other thread
        // uses.
        let parent = unsafe { options.parent.as_mut() };
        let remote = remote(options.traceparent, options.tracestate);
        let span = match (parent, &remote) {
            _ if options.is_root != 0 => span.root(),
            (Some(parent), _) => span.child_of(parent),
            (None, Some(remote)) => span.parent(remote),
            (None, None) => span,
        };
        let mut storage = span.detached().into_storage()?;
        set_all(&mut storage, options.attributes, options.attribute_count);
        Some(storage)
    }

    fn standpipe_span_is_recording(span: Option<&OpenSpan>) -> bool {
        span.is_some_and(OpenSpan::is_recording)
    }

    fn standpipe_span_set_str(span: Option<&mut OpenSpan>, key: CText<'_>, value: CText<'_>) {
        set(span, key, || value.option());
    }

    fn standpipe_span_set_strn(
        span: Option<&mut OpenSpan>,
        key: CText<'_>,
        value: CArray<'_, u8>,
        len: usize,
    ) {
        set(span, key, || value.option(len));
    }

    fn standpipe_span_set_int(span: Option<&mut OpenSpan>, key: CText<'_>, value: i64) {
        set(span, key, || value);
    }

    fn standpipe_span_set_double(span: Option<&mut OpenSpan>, key: CText<'_>, value: f64) {
        set(span, key, || value);
    }

    // Read as a byte: a Rust `bool` must be 0 or 1, but a C `bool` may contain any value after a cast.
    fn standpipe_span_set_bool(span: Option<&mut OpenSpan>, key: CText<'_>, value: u8) {
        set(span, key, || value != 0);
    }

    fn standpipe_span_set(span: Option<&mut OpenSpan>, attributes: AttributeArray<'_>, count: usize) {
        if let Some(span) = span {
            set_all(span, attributes, count);
        }
    }

    fn standpipe_span_event(
        span: Option<&mut OpenSpan>,
        name: CText<'_>,
        attributes: AttributeArray<'_>,
        count: usize,
    ) {
        if let Some(span) = span.and_then(OpenSpan::recorded) {
            let name = name.text();
            let mut event = EventBuilder::new(Some(span), &name, None);
            each_attribute(attributes, count, |key, value| _ = event.set(key, value));
        }
    }

    fn standpipe_span_link(
        span: Option<&mut OpenSpan>,
        traceparent: CText<'_>,
        tracestate: CText<'_>,
        attributes: AttributeArray<'_>,
        count: usize,
    ) -> Code {
        let Some(other) = remote(traceparent, tracestate) else { return Code::INVALID_ARGUMENT };
        if let Some(span) = span.and_then(OpenSpan::recorded) {
            let mut link = LinkBuilder::new(Some(span), &other);
            each_attribute(attributes, count, |key, value| _ = link.set(key, value));
        }
        Code::OK
    }

    fn standpipe_span_status(span: Option<&mut OpenSpan>, status: i32, message: CText<'_>) {
        let Some(span) = span.and_then(OpenSpan::recorded) else { return };
        match status {
            1 => span.record.set_status(Status::Ok),
            2 => span.record.set_status(Status::Error(&message.text())),
            _ => {}
        }
    }

    fn standpipe_span_rename(span: Option<&mut OpenSpan>, name: CText<'_>) {
        if let Some(span) = span.and_then(OpenSpan::recorded) {
            span.rename(&name.text());
        }
    }

    fn standpipe_span_end(span: Option<&mut Option<Box<OpenSpan>>>) {
        drop(span.and_then(Option::take).map(DetachedSpan::from_storage));
    }

    fn standpipe_span_end_at(span: Option<&mut Option<Box<OpenSpan>>>, unix_ns: u64) {
        let Some(span) = span.and_then(Option::take).map(DetachedSpan::from_storage) else { return };
        match time(unix_ns) {
            Some(end) => span.end_at(end),
            None => span.end(),
        }
    }
}

#[inline(always)]
fn set<V: IntoValue>(span: Option<&mut OpenSpan>, key: CText<'_>, value: impl FnOnce() -> V) {
    if let Some(span) = span.and_then(OpenSpan::recorded) {
        let key = key.text();
        value().with_value(|value| span.record.set(&key, value));
    }
}

fn set_all(span: &mut OpenSpan, attributes: AttributeArray<'_>, count: usize) {
    if let Some(span) = span.recorded() {
        each_attribute(attributes, count, |key, value| span.record.set(key, value));
    }
}

/// Returns the span of another process that these headers describe; `None` without a valid `traceparent`.
fn remote(traceparent: CText<'_>, tracestate: CText<'_>) -> Option<SpanContext> {
    let context = SpanContext::from_traceparent(&traceparent.option()?).ok()?;
    Some(match tracestate.option() {
        Some(state) => context.with_tracestate(&state),
        None => context,
    })
}

/// Returns the time, or `None` for zero, which means now.
pub(super) fn time(unix_ns: u64) -> Option<SystemTime> {
    (unix_ns != 0).then(|| SystemTime::UNIX_EPOCH + Duration::from_nanos(unix_ns))
}
