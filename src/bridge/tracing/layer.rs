//! What the subscriber tells the layer, step by step.

use tracing::span::{Attributes, Record};
use tracing::{Event, Id, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use super::TracingLayer;
use super::event::Happened;
use super::fields::Fields;
use super::place::{Place, tell_thread};
use super::slot::{self, Activity, Slot};
use super::span::set_fields;
use crate::context::{self, SpanContext};
use crate::record::Value;
use crate::tracer::DetachedSpan;

impl<S> Layer<S> for TracingLayer
where
    S: Subscriber + for<'l> LookupSpan<'l>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, subscriber: Context<'_, S>) {
        let Some(registered) = subscriber.span(id) else { return };
        if context::silenced() {
            return;
        }
        let explicit = attributes.parent().and_then(|parent| self.context_of(parent, &subscriber));
        // a value that panics while it is shown is met before there is a span
        let span = Fields::read(
            |fields| attributes.record(fields),
            |fields| {
                let mut span = self.begin(attributes, explicit.as_ref());
                self.describe(&mut span, attributes.metadata(), fields);
                span
            },
        );
        let activity = self.busy_and_idle.then(Activity::start);
        let mut extensions = registered.extensions_mut();
        match extensions.get_mut::<Slot>() {
            None => extensions.insert(Slot::new(self.number, span, activity)),
            Some(_) => span.discard(),
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, subscriber: Context<'_, S>) {
        let Some(slot) = self.slot_of(id, &subscriber) else { return };
        Fields::read(
            |fields| values.record(fields),
            |fields| {
                if let Some(span) = &mut slot.lock().span {
                    set_fields(span, fields, self.exceptions);
                }
            },
        );
    }

    fn on_follows_from(&self, id: &Id, follows: &Id, subscriber: Context<'_, S>) {
        // one lock after the other: a span may follow from itself
        let Some(target) = self.context_of(follows, &subscriber) else { return };
        let Some(slot) = self.slot_of(id, &subscriber) else { return };
        if let Some(span) = &mut slot.lock().span {
            span.link(&target);
        }
    }

    fn on_event(&self, event: &Event<'_>, subscriber: Context<'_, S>) {
        if context::silenced() {
            return;
        }
        let explicit = event.parent().and_then(|id| self.slot_of(id, &subscriber));
        let current = if event.is_contextual() { slot::current(self.number) } else { None };
        let span = explicit.as_ref().or(current.as_ref());
        let is_logged = span.is_none() || self.events.are_logs();
        Fields::read(
            |fields| event.record(fields),
            |fields| {
                let happened = Happened::new(event.metadata(), fields);
                if let Some(slot) = span.filter(|_| self.events.are_of_spans()) {
                    happened.tell_span(slot, self);
                }
                if is_logged {
                    let context = explicit.as_ref().and_then(Slot::context);
                    let scope = self.scopes.of_target(happened.target());
                    happened.tell_log(&scope.logger, context.as_ref(), self);
                }
            },
        );
    }

    fn on_enter(&self, id: &Id, subscriber: Context<'_, S>) {
        if let Some(slot) = self.slot_of(id, &subscriber) {
            slot::enter(id, slot);
        }
    }

    fn on_exit(&self, id: &Id, _: Context<'_, S>) {
        slot::exit(self.number, id);
    }

    fn on_close(&self, id: Id, subscriber: Context<'_, S>) {
        let Some(registered) = subscriber.span(&id) else { return };
        let mut extensions = registered.extensions_mut();
        if !extensions.get_mut::<Slot>().is_some_and(|slot| slot.is_of(self.number)) {
            return;
        }
        let Some(slot) = extensions.remove::<Slot>() else { return };
        drop(extensions);
        let mut content = slot.lock();
        let activity = content.activity.take();
        let Some(mut span) = content.span.take() else { return };
        drop(content);
        if let Some(activity) = activity {
            let nanos =
                |duration: std::time::Duration| i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
            span.set("busy_ns", nanos(activity.busy)).set("idle_ns", nanos(activity.idle));
        }
    }
}

impl TracingLayer {
    /// A span below its explicit parent, or below what this thread is in: another span of this layer, one of a
    /// [`Tracer`](crate::Tracer), or a context that was entered.
    fn begin(&self, attributes: &Attributes<'_>, explicit: Option<&SpanContext>) -> DetachedSpan {
        let metadata = attributes.metadata();
        self.scopes.of_metadata(self.number, metadata, |scope| {
            let builder = scope.tracer.build(metadata.name());
            match explicit {
                Some(parent) => builder.parent(parent).detached(),
                None if attributes.is_contextual() => builder.detached(),
                // a parent that a filter has kept from this layer is none
                None => builder.root().detached(),
            }
        })
    }

    fn describe(&self, span: &mut DetachedSpan, metadata: &Metadata<'_>, fields: &Fields) {
        if !span.is_recording() {
            return;
        }
        if self.location {
            Place::of(metadata).tell(|key, value| _ = span.set(key, value));
        }
        if self.threads {
            tell_thread(|key, value| _ = span.set(key, value));
        }
        if self.level {
            span.set("level", Value::Str(metadata.level().as_str()));
        }
        if self.scopes.is_fixed() {
            span.set("target", Value::Str(metadata.target()));
        }
        set_fields(span, fields, self.exceptions);
    }

    /// What this layer knows of a span.
    fn slot_of<S>(&self, id: &Id, subscriber: &Context<'_, S>) -> Option<Slot>
    where
        S: Subscriber + for<'l> LookupSpan<'l>,
    {
        Slot::find(&subscriber.span(id)?.extensions()).filter(|slot| slot.is_of(self.number))
    }

    fn context_of<S>(&self, id: &Id, subscriber: &Context<'_, S>) -> Option<SpanContext>
    where
        S: Subscriber + for<'l> LookupSpan<'l>,
    {
        self.slot_of(id, subscriber)?.context()
    }
}
