//! Implementation of the layer: what happens at each step of a span or event.

use std::{mem, ptr};

use tracing::span::{Attributes, Record};
use tracing::{Event, Id, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::TracingLayer;
use super::call_site::CallSite;
use super::entered::{self, span_of};
use super::event::{EventRecord, set_thread, severity};
use super::fields::{Fields, FieldsOf, StartingSpan, set_fields};
use super::open::{Activity, SpanState};

use crate::bridge::{OnPanic, shows_credentials};
use crate::context;
use crate::record::SpanRecord;
use crate::trace::{DetachedSpan, Tracer};

impl<S: Subscriber> Layer<S> for TracingLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, _: Context<'_, S>) {
        if context::runs_exporter_code() {
            return;
        }
        entered::leave_dropped_layers();
        let metadata = attributes.metadata();
        let call_site = self.call_site(metadata);
        // Reading fields runs code of the program. If the code panics, `StartingSpan` discards the span.
        let mut starting = StartingSpan::new(self.begin(attributes, &call_site.scope.tracer));
        if let Some(span) = starting.recorded() {
            // `planned` is indexed by this call site's fields. Other fields, which no macro passes, are set by name.
            let is_planned = ptr::eq(attributes.fields(), metadata.fields());
            let planned = if is_planned { &*call_site.fields } else { &[] };
            span.set_at_once(|span| {
                self.describe(&mut span.record, &call_site);
                attributes.record(&mut FieldsOf { span, planned, exceptions: self.exceptions });
            });
        }
        let activity = if self.busy_and_idle { Some(Box::new(Activity::start())) } else { None };
        if let Some(span) = starting.started() {
            self.spans.insert(id, SpanState { span, activity });
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        Fields::read(
            |fields| values.record(fields),
            |fields| {
                self.spans.with(id, |open| {
                    open.span.open_mut().map(|span| set_fields(span, fields, self.exceptions))
                })
            },
        );
    }

    fn on_follows_from(&self, id: &Id, follows: &Id, _: Context<'_, S>) {
        // Only one span is locked at a time: the two may share a shard, or even be the same span.
        if let Some(target) = self.spans.context(follows) {
            self.spans.with(id, |open| drop(open.span.link(&target)));
        }
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if context::runs_exporter_code() {
            return;
        }
        entered::leave_dropped_layers();
        // An event with an explicit parent, or with `parent: None`, does not belong to the thread's span.
        let innermost = if event.is_contextual() { entered::innermost(&self.id) } else { None };
        if !self.is_of_use(event, innermost.as_ref()) {
            return self.count_if_filtered(event, innermost.is_some());
        }
        let span = event.parent().or(innermost.as_ref().map(|(id, _)| id));
        // Reading the fields runs code of the program. If it panics, the event is counted as lost.
        let on_panic = OnPanic(|| self.count_panic(event, span));
        Fields::read(|fields| event.record(fields), |fields| self.set_on(event, fields, span));
        mem::forget(on_panic);
    }

    fn on_enter(&self, id: &Id, _: Context<'_, S>) {
        self.spans.with(id, |open| {
            // The stack of spans is the thread's own, so entering while the shard is locked waits for no other thread.
            open.activity.iter_mut().for_each(|activity| activity.enter());
            open.span.enter_bridged(span_of(&self.id, id));
        });
    }

    fn on_exit(&self, id: &Id, _: Context<'_, S>) {
        context::leave_bridged(span_of(&self.id, id));
        self.spans.with(id, |open| {
            open.activity.iter_mut().for_each(|activity| activity.exit());
            // A span ends when it is last exited; it may be closed much later.
            open.span.end_here();
        });
    }

    fn on_close(&self, id: Id, _: Context<'_, S>) {
        // The span is dropped, and so sent, after the lock is released.
        if let Some(mut open) = self.spans.remove(&id) {
            open.activity.iter().for_each(|activity| activity.set_on(&mut open.span));
        }
    }
}

impl TracingLayer {
    /// Returns whether an event may be sent. If not, its fields are not formatted.
    fn is_of_use(&self, event: &Event<'_>, innermost: Option<&(Id, bool)>) -> bool {
        let goes_to_span =
            self.events.are_of_spans() && innermost.is_some_and(|(_, is_recording)| *is_recording);
        let may_be_logged = innermost.is_none() || self.events.are_logs();
        goes_to_span || event.parent().is_some() || may_be_logged && self.takes_log(event.metadata())
    }

    /// Counts an event that would be a log record if an exporter's level included it.
    fn count_if_filtered(&self, event: &Event<'_>, is_of_span: bool) {
        if self.is_log(is_of_span) {
            let metadata = event.metadata();
            self.call_site(metadata).scope.logger.count_if_filtered(severity(metadata.level()));
        }
    }

    /// Counts an event whose fields could not be read, if it would have become a log record.
    #[cold]
    fn count_panic(&self, event: &Event<'_>, span: Option<&Id>) {
        let metadata = event.metadata();
        if self.is_log(span.is_some_and(|id| self.spans.with(id, |_| ()).is_some())) {
            self.call_site(metadata).scope.logger.count_panic(severity(metadata.level()));
        }
    }

    /// Adds an event to its span, emits it as a log record, or both.
    fn set_on(&self, event: &Event<'_>, fields: &Fields, span: Option<&Id>) {
        let record = EventRecord::new(event, fields);
        let is_trace = *event.metadata().level() == Level::TRACE;
        if record.target_of_log().is_some_and(|target| shows_credentials(is_trace, target)) {
            return;
        }
        let add_to_span = |open: &mut SpanState| {
            if self.events.are_of_spans() {
                record.add_to_span(&mut open.span, self);
            }
        };
        let is_known = span.is_some_and(|id| self.spans.with(id, add_to_span).is_some());
        if self.is_log(is_known) {
            self.log(event, &record);
        }
    }

    /// Returns whether an event becomes a log record. `is_of_span` is true if the event's span belongs to this layer.
    fn is_log(&self, is_of_span: bool) -> bool {
        !is_of_span || self.events.are_logs()
    }

    fn log(&self, event: &Event<'_>, record: &EventRecord<'_>) {
        // The record must carry the ids of this layer's span, even if another layer's span is current.
        let _own = entered::has_other_layers().then(|| entered::enter_without_other_layers(&self.id));
        let parent = event.parent().and_then(|id| self.spans.context(id));
        let parent = parent.as_ref();
        match record.target_of_log() {
            Some(target) => record.emit_log(&self.scopes.of_target(target).logger, parent, self),
            None => record.emit_log(&self.call_site(event.metadata()).scope.logger, parent, self),
        }
    }

    fn takes_log(&self, metadata: &'static Metadata<'static>) -> bool {
        self.call_site(metadata).scope.logger.is_of_use(severity(metadata.level()))
    }

    /// Starts a span. Its parent is the explicit one or the thread's current context: a span of this layer, a span of a
    /// [`Tracer`](crate::Tracer), or an entered context.
    #[inline]
    fn begin(&self, attributes: &Attributes<'_>, tracer: &Tracer) -> DetachedSpan {
        let name = attributes.metadata().name();
        if !attributes.is_contextual() {
            return self.begin_elsewhere(tracer, name, attributes.parent());
        }
        if entered::has_other_layers() {
            return self.begin_without_other_layers(tracer, name);
        }
        tracer.span_builder(name).detached()
    }

    /// Like [`begin`](Self::begin), if the thread's current span may belong to another layer.
    #[cold]
    #[inline(never)]
    fn begin_without_other_layers(&self, tracer: &Tracer, name: &str) -> DetachedSpan {
        let _own = entered::enter_without_other_layers(&self.id);
        tracer.span_builder(name).detached()
    }

    #[inline(never)]
    fn begin_elsewhere(&self, tracer: &Tracer, name: &str, parent: Option<&Id>) -> DetachedSpan {
        let parent = parent.and_then(|parent| self.spans.context(parent));
        let builder = tracer.span_builder(name);
        match &parent {
            Some(parent) => builder.parent(parent).detached(),
            // The span is explicitly a root, or a filter excluded its parent from this layer.
            None => builder.root().detached(),
        }
    }

    /// Sets the attributes of a span that are not fields: those of its call site and of its thread.
    #[inline]
    fn describe(&self, record: &mut SpanRecord, call_site: &CallSite) {
        match &call_site.encoded {
            Some(encoded) if record.set_encoded_at_start(encoded) => {}
            _ => call_site.attributes.iter().for_each(|(key, value)| record.set(key, *value)),
        }
        if self.threads {
            set_thread(record);
        }
    }
}
