//! The steps of a span or event in the layer, and the scopes that its records go to.

use std::borrow::Cow;
use std::mem;

use tracing::span::{Attributes, Record};
use tracing::{Event, Id, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::TracingLayer;
use super::entered::{self, Innermost};
use super::event::{CodeLocation, EventRecord, SpanOf, set_thread, severity};
use super::fields::{Fields, FieldsOf, StartingSpan, set_fields};
use super::open::{Activity, SpanState};

use crate::bridge::{OnPanic, shows_credentials};
use crate::context;
use crate::logs::Logger;
use crate::record::Value;
use crate::telemetry::provider::Provider;
use crate::telemetry::scope_cache::ScopeCache;
use crate::trace::{DetachedSpan, Tracer};

impl<S: Subscriber> Layer<S> for TracingLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, _: Context<'_, S>) {
        if context::runs_exporter_code() {
            return;
        }
        entered::tidy_up();
        // the program's own code runs while fields are read, and it may panic
        let mut starting = StartingSpan::new(self.begin(attributes));
        if let Some(span) = starting.recording() {
            span.set_at_once(|span| {
                if self.describes_spans() {
                    self.describe(span, attributes.metadata());
                }
                attributes.record(&mut FieldsOf { span, exceptions: self.exceptions });
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
            |fields| self.spans.with(id, |open| set_fields(&mut open.span, fields, self.exceptions)),
        );
    }

    fn on_follows_from(&self, id: &Id, follows: &Id, _: Context<'_, S>) {
        // one after the other: a span may follow from itself
        if let Some(target) = self.spans.context(follows) {
            self.spans.with(id, |open| drop(open.span.link(&target)));
        }
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if context::runs_exporter_code() {
            return;
        }
        entered::tidy_up();
        let innermost = if event.is_contextual() { entered::innermost(self.id.0) } else { None };
        if !self.is_of_use(event, innermost.as_ref()) {
            return self.count_if_filtered(event, innermost.is_some());
        }
        let span = event.parent().or(innermost.as_ref().map(|span| &span.id));
        let on_panic = OnPanic(|| self.count_panic(event, span));
        Fields::read(|fields| event.record(fields), |fields| self.set_on(event, fields, span));
        mem::forget(on_panic);
    }

    fn on_enter(&self, id: &Id, _: Context<'_, S>) {
        let entered = self.spans.with(id, |open| {
            open.activity.iter_mut().for_each(|activity| activity.enter());
            let guard = open.span.enter();
            (open.span.is_recording(), guard)
        });
        if let Some((is_recording, guard)) = entered {
            entered::push(self.id.0, id, is_recording, guard);
        }
    }

    fn on_exit(&self, id: &Id, _: Context<'_, S>) {
        entered::remove(self.id.0, id);
        self.spans.with(id, |open| {
            open.activity.iter_mut().for_each(|activity| activity.exit());
            open.span.end_here();
        });
    }

    fn on_close(&self, id: Id, _: Context<'_, S>) {
        // sent when it is dropped, after the lock is given back
        if let Some(mut open) = self.spans.remove(&id) {
            open.activity.iter().for_each(|activity| activity.set_on(&mut open.span));
        }
    }
}

impl TracingLayer {
    /// Whether an event goes anywhere: if not, its fields need not be formatted.
    fn is_of_use(&self, event: &Event<'_>, innermost: Option<&Innermost>) -> bool {
        let goes_to_span = self.events.are_of_spans() && innermost.is_some_and(|span| span.is_recording);
        let may_be_logged = innermost.is_none() || self.events.are_logs();
        goes_to_span || event.parent().is_some() || may_be_logged && self.takes_log(event.metadata())
    }

    /// Counts an event that is of no use, if it would be a log record but for the exporters' level.
    fn count_if_filtered(&self, event: &Event<'_>, is_of_span: bool) {
        if self.is_log(is_of_span) {
            let metadata = event.metadata();
            self.scopes.of_metadata(metadata).logger.count_if_filtered(severity(metadata.level()));
        }
    }

    /// Counts an event whose fields could not be read, if it would have become a log record.
    #[cold]
    fn count_panic(&self, event: &Event<'_>, span: Option<&Id>) {
        let metadata = event.metadata();
        if self.is_log(span.is_some_and(|id| self.spans.with(id, |_| ()).is_some())) {
            self.scopes.of_metadata(metadata).logger.count_panic(severity(metadata.level()));
        }
    }

    /// Adds an event to its span, to a logger, or to both.
    fn set_on(&self, event: &Event<'_>, fields: &Fields, span: Option<&Id>) {
        let record = EventRecord::new(event.metadata(), fields);
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

    /// Whether an event becomes a log record, be its span one of this layer or not.
    fn is_log(&self, is_of_span: bool) -> bool {
        !is_of_span || self.events.are_logs()
    }

    fn log(&self, event: &Event<'_>, record: &EventRecord<'_>) {
        let _own = entered::has_other_layers().then(|| entered::enter_apart_from_other_layers(self.id.0));
        let elsewhere = event.parent().and_then(|id| self.spans.context(id));
        let span = match &elsewhere {
            Some(context) => SpanOf::Event(context),
            None if event.is_contextual() => SpanOf::Thread,
            None => SpanOf::NoSpan,
        };
        let scope = match record.target_of_log() {
            Some(target) => self.scopes.of_target(target),
            None => self.scopes.of_metadata(event.metadata()),
        };
        record.emit_log(&scope.logger, span, self);
    }

    fn takes_log(&self, metadata: &'static Metadata<'static>) -> bool {
        self.scopes.of_metadata(metadata).logger.is_of_use(severity(metadata.level()))
    }

    /// A span below its explicit parent, or below what this thread is in: another span of this layer, one of a
    /// [`Tracer`](crate::Tracer), or a context that was entered.
    #[inline]
    fn begin(&self, attributes: &Attributes<'_>) -> DetachedSpan {
        let metadata = attributes.metadata();
        if !attributes.is_contextual() {
            return self.begin_elsewhere(metadata, attributes.parent());
        }
        if entered::has_other_layers() {
            return self.begin_apart(metadata);
        }
        self.scopes.of_metadata(metadata).tracer.span_builder(metadata.name()).detached()
    }

    /// As [`begin`](Self::begin), where the thread's current span may be one of another layer.
    #[cold]
    #[inline(never)]
    fn begin_apart(&self, metadata: &'static Metadata<'static>) -> DetachedSpan {
        let _own = entered::enter_apart_from_other_layers(self.id.0);
        self.scopes.of_metadata(metadata).tracer.span_builder(metadata.name()).detached()
    }

    #[inline(never)]
    fn begin_elsewhere(&self, metadata: &'static Metadata<'static>, parent: Option<&Id>) -> DetachedSpan {
        let parent = parent.and_then(|parent| self.spans.context(parent));
        let scope = self.scopes.of_metadata(metadata);
        let builder = scope.tracer.span_builder(metadata.name());
        match &parent {
            Some(parent) => builder.parent(parent).detached(),
            // a parent that a filter has kept from this layer is none
            None => builder.root().detached(),
        }
    }

    /// Whether spans have attributes beside their fields.
    #[inline]
    fn describes_spans(&self) -> bool {
        self.location | self.threads | self.level || self.sets_target()
    }

    fn describe(&self, span: &mut DetachedSpan, metadata: &Metadata<'_>) {
        if self.location {
            CodeLocation::of(metadata).set_on(|key, value| _ = span.set(key, value));
        }
        if self.threads {
            set_thread(|key, value| _ = span.set(key, value));
        }
        if self.level {
            span.set("level", Value::Str(metadata.level().as_str()));
        }
        if self.sets_target() {
            span.set("target", Value::Str(metadata.target()));
        }
    }
}

/// Maximum number of call sites that are remembered. Each is a place in the code; large programs have thousands.
const MAX_CALL_SITES: usize = 1 << 16;

/// Where the records of a layer go.
pub(super) struct Scopes {
    provider: Provider,
    /// Scope of all records, which then does not name the target.
    pub(super) fixed: Option<Scope>,
    /// By the address of its metadata: a call site is found without a look at its target.
    by_call_site: ScopeCache<usize, Scope, MAX_CALL_SITES>,
    /// For targets that are values of fields, as in records of the `log` crate.
    by_target: ScopeCache<Box<str>, Scope>,
}

#[derive(Clone)]
pub(super) struct Scope {
    pub(super) tracer: Tracer,
    pub(super) logger: Logger,
}

impl Scopes {
    pub(super) fn new(provider: &Provider) -> Self {
        Self {
            provider: provider.clone(),
            fixed: None,
            by_call_site: ScopeCache::default(),
            by_target: ScopeCache::default(),
        }
    }

    pub(super) fn fix(&mut self, name: &str) {
        self.fixed = Some(self.make(name));
    }

    /// The scope of a call site.
    #[inline]
    pub(super) fn of_metadata(&self, metadata: &'static Metadata<'static>) -> Cow<'_, Scope> {
        if let Some(fixed) = &self.fixed {
            return Cow::Borrowed(fixed);
        }
        let address = std::ptr::from_ref(metadata).addr();
        let make = || (address, self.of_target(metadata.target()).into_owned());
        self.by_call_site.get_or_make_hashed(address as u64, |known| *known == address, make)
    }

    /// The scope of a target.
    pub(super) fn of_target(&self, target: &str) -> Cow<'_, Scope> {
        if let Some(fixed) = &self.fixed {
            return Cow::Borrowed(fixed);
        }
        let make = || (target.into(), self.make(target));
        self.by_target.get_or_make(target, |known| **known == *target, make)
    }

    fn make(&self, name: &str) -> Scope {
        Scope { tracer: self.provider.tracer(name), logger: self.provider.logger(name) }
    }
}
