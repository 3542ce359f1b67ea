//! Generates arbitrary spans, as sequences of calls.

use proptest::prelude::*;

use super::super::*;
use crate::record::tests::{Setting, any_setting, any_text, any_time};

/// A whole span: its start, the calls on it, and its end.
#[derive(Debug, Clone)]
pub(super) struct Story {
    pub(super) trace_id: [u8; 16],
    pub(super) span_id: [u8; 8],
    pub(super) parent: Option<[u8; 8]>,
    pub(super) parent_is_remote: bool,
    pub(super) trace_flags: u8,
    pub(super) trace_state: String,
    pub(super) name: String,
    pub(super) start: u64,
    pub(super) steps: Vec<Step>,
    pub(super) end: u64,
}

#[derive(Debug, Clone)]
pub(super) enum Step {
    Set(Setting),
    Kind(SpanKind),
    Ok,
    Error(String),
    Name(String),
    Parent(Target),
    Event { name: String, time: u64, settings: Vec<Setting> },
    Link { target: Target, settings: Vec<Setting> },
}

#[derive(Debug, Clone)]
pub(super) struct Target {
    pub(super) trace_id: [u8; 16],
    pub(super) span_id: [u8; 8],
    pub(super) is_remote: bool,
    pub(super) trace_flags: u8,
    pub(super) trace_state: String,
}

impl Story {
    /// Makes all calls, and returns the result of [`SpanRecord::finish`].
    pub(super) fn write<'r>(
        &self,
        record: &'r mut SpanRecord,
        limits: &SpanLimits,
        max_bytes: usize,
    ) -> Option<&'r [u8]> {
        self.tell_watched(record, limits, max_bytes, &mut |_| {});
        record.finish(self.end)
    }

    /// Returns the maximum number of bytes that the buffer ever holds, including the headroom and replaced values.
    pub(super) fn most_room(&self, limits: &SpanLimits) -> usize {
        let mut record = SpanRecord::default();
        let mut most = 0;
        self.tell_watched(&mut record, limits, usize::MAX, &mut |record| {
            most = most.max(record.attributes.buffer.position());
        });
        record.finish(self.end);
        most.max(record.attributes.buffer.position())
    }

    fn tell_watched(
        &self,
        record: &mut SpanRecord,
        limits: &SpanLimits,
        max_bytes: usize,
        watch: &mut dyn FnMut(&SpanRecord),
    ) {
        let head = SpanHead {
            trace_id: TraceId(self.trace_id),
            span_id: SpanId(self.span_id),
            parent: self.parent.map(SpanId),
            parent_is_remote: self.parent_is_remote,
            trace_flags: self.trace_flags,
            trace_state: &self.trace_state,
            name: &self.name,
            kind: SpanKind::Internal,
            start: self.start,
        };
        record.limit(limits, max_bytes);
        record.begin(&head);
        watch(record);
        for step in &self.steps {
            match step {
                Step::Set((key, value)) => record.set(key, *value),
                Step::Kind(kind) => record.set_kind(*kind),
                Step::Ok => record.set_status(Status::Ok),
                Step::Error(message) => record.set_status(Status::Error(message)),
                Step::Name(name) => _ = record.set_name::<1>(name),
                Step::Parent(parent) => record.set_parent(&parent.as_parent()),
                Step::Event { name, time, settings } => {
                    if record.open_event(name, *time) {
                        fill_part(record, settings, watch);
                    }
                }
                Step::Link { target, settings } => {
                    if record.open_link(&target.borrow()) {
                        fill_part(record, settings, watch);
                    }
                }
            }
            watch(record);
        }
    }

    /// Returns a span in which the same key is set twice in each of four places: span, two events and link.
    pub(super) fn with_equal_keys_everywhere() -> Self {
        let setting = |number| ("key".to_owned(), Value::Int(number));
        let settings = vec![setting(1), setting(2)];
        let event = Step::Event { name: String::new(), time: 1, settings: settings.clone() };
        let target = Target {
            trace_id: [3; 16],
            span_id: [4; 8],
            is_remote: true,
            trace_flags: 0,
            trace_state: String::new(),
        };
        let link = Step::Link { target, settings };
        let steps = vec![Step::Set(setting(1)), event.clone(), link, event, Step::Set(setting(2))];
        Self {
            trace_id: [1; 16],
            span_id: [2; 8],
            parent: None,
            parent_is_remote: false,
            trace_flags: 0,
            trace_state: String::new(),
            name: String::new(),
            start: 1,
            steps,
            end: 2,
        }
    }
}

impl Target {
    fn borrow(&self) -> OtherSpan<'_> {
        OtherSpan {
            trace_id: TraceId(self.trace_id),
            span_id: SpanId(self.span_id),
            is_remote: self.is_remote,
            trace_flags: self.trace_flags,
            trace_state: &self.trace_state,
        }
    }

    fn as_parent(&self) -> OtherSpan<'_> {
        OtherSpan {
            trace_id: TraceId(self.trace_id),
            span_id: SpanId(self.span_id),
            is_remote: self.is_remote,
            trace_flags: self.trace_flags,
            trace_state: &self.trace_state,
        }
    }
}

fn fill_part(record: &mut SpanRecord, settings: &[Setting], watch: &mut dyn FnMut(&SpanRecord)) {
    for (key, value) in settings {
        record.set_in_sub_message(key, *value);
        watch(record);
    }
    record.close_sub_message();
}

pub(super) fn any_story() -> impl Strategy<Value = Story> {
    let ids = (any::<[u8; 16]>(), any::<[u8; 8]>(), any::<Option<[u8; 8]>>());
    let flags = (any::<bool>(), any::<u8>(), any_text());
    let steps = prop::collection::vec(any_step(), 0..16);
    (ids, flags, any_text(), any_time(), steps, any_time()).prop_map(
        |((trace_id, span_id, parent), flags, name, start, steps, end)| {
            let (parent_is_remote, trace_flags, trace_state) = flags;
            Story {
                trace_id,
                span_id,
                parent,
                parent_is_remote,
                trace_flags,
                trace_state,
                name,
                start,
                steps,
                end,
            }
        },
    )
}

/// Small limits, which the stories reach, and large ones, which they do not.
pub(super) fn any_limits() -> impl Strategy<Value = SpanLimits> {
    let count = || prop_oneof![0u32..4, Just(128), Just(u32::MAX)];
    let counts = (count(), count(), count(), count(), count());
    (counts, prop::option::of(0usize..12)).prop_map(|(counts, value_length)| {
        let (attributes, events, links, event_attributes, link_attributes) = counts;
        SpanLimits { attributes, events, links, event_attributes, link_attributes, value_length }
    })
}

fn any_step() -> impl Strategy<Value = Step> {
    let settings = || prop::collection::vec(any_setting(), 0..6);
    let event = (any_text(), any_time(), settings());
    let link = (any_target(), settings());
    prop_oneof![
        6 => any_setting().prop_map(Step::Set),
        1 => any_kind().prop_map(Step::Kind),
        1 => Just(Step::Ok),
        3 => any_text().prop_map(Step::Error),
        1 => any_text().prop_map(Step::Name),
        1 => any_target().prop_map(Step::Parent),
        2 => event.prop_map(|(name, time, settings)| Step::Event { name, time, settings }),
        2 => link.prop_map(|(target, settings)| Step::Link { target, settings }),
    ]
}

fn any_kind() -> impl Strategy<Value = SpanKind> {
    use SpanKind::{Client, Consumer, Internal, Producer, Server};
    prop::sample::select(vec![Internal, Server, Client, Producer, Consumer])
}

fn any_target() -> impl Strategy<Value = Target> {
    (any::<[u8; 16]>(), any::<[u8; 8]>(), any::<bool>(), any::<u8>(), any_text()).prop_map(
        |(trace_id, span_id, is_remote, trace_flags, trace_state)| Target {
            trace_id,
            span_id,
            is_remote,
            trace_flags,
            trace_state,
        },
    )
}
