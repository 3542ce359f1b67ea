//! The same span as plain messages with plain vectors: slow, short, and obviously right.

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::trace::v1::{Span, Status, span};

use super::super::{SpanKind, SpanLimits};
use super::story::{Step, Story, Target};
use crate::record::tests::{Setting, set};

/// What must arrive when the story is told under these limits.
pub(super) fn span(story: &Story, limits: &SpanLimits) -> Span {
    let mut span = Span {
        trace_id: story.trace_id.to_vec(),
        span_id: story.span_id.to_vec(),
        trace_state: story.trace_state.clone(),
        parent_span_id: story.parent.map_or(Vec::new(), |parent| parent.to_vec()),
        flags: flags(story.trace_flags, story.parent_is_remote),
        name: story.name.clone(),
        kind: span::SpanKind::Internal.into(),
        start_time_unix_nano: story.start,
        end_time_unix_nano: story.end.max(story.start),
        ..Default::default()
    };
    for step in &story.steps {
        add(&mut span, step, limits);
    }
    span
}

fn add(span: &mut Span, step: &Step, limits: &SpanLimits) {
    let longest = limits.value_length;
    match step {
        Step::Set(setting) => {
            if !set(&mut span.attributes, setting, limits.attributes, longest) {
                span.dropped_attributes_count += 1;
            }
        }
        Step::Kind(kind) => span.kind = proto_kind(*kind).into(),
        Step::Ok | Step::Error(_) => {
            if span.status.as_ref().is_none_or(|status| status.code != 1) {
                span.status = Some(status(step));
            }
        }
        Step::Name(name) => span.name = name.clone(),
        Step::Parent(parent) => {
            span.trace_id = parent.trace_id.to_vec();
            span.parent_span_id = parent.span_id.to_vec();
            span.trace_state = parent.trace_state.clone();
            span.flags = flags(parent.trace_flags, parent.is_remote);
        }
        Step::Event { .. } if span.events.len() >= limits.events as usize => span.dropped_events_count += 1,
        Step::Event { name, time, settings } => {
            let (attributes, dropped) = set_all(settings, limits.event_attributes, longest);
            span.events.push(span::Event {
                time_unix_nano: *time,
                name: name.clone(),
                attributes,
                dropped_attributes_count: dropped,
            });
        }
        Step::Link { .. } if span.links.len() >= limits.links as usize => span.dropped_links_count += 1,
        Step::Link { target, settings } => {
            let (attributes, dropped) = set_all(settings, limits.link_attributes, longest);
            span.links.push(link(target, attributes, dropped));
        }
    }
}

fn link(target: &Target, attributes: Vec<KeyValue>, dropped: u32) -> span::Link {
    span::Link {
        trace_id: target.trace_id.to_vec(),
        span_id: target.span_id.to_vec(),
        trace_state: target.trace_state.clone(),
        attributes,
        dropped_attributes_count: dropped,
        flags: flags(target.trace_flags, target.is_remote),
    }
}

fn status(step: &Step) -> Status {
    match step {
        Step::Error(message) => Status { code: 2, message: message.clone() },
        _ => Status { code: 1, message: String::new() },
    }
}

/// The trace's flags, "it is known whether the context is remote", and "it is".
fn flags(trace_flags: u8, is_remote: bool) -> u32 {
    u32::from(trace_flags) + 256 + if is_remote { 512 } else { 0 }
}

fn proto_kind(kind: SpanKind) -> span::SpanKind {
    match kind {
        SpanKind::Internal => span::SpanKind::Internal,
        SpanKind::Server => span::SpanKind::Server,
        SpanKind::Client => span::SpanKind::Client,
        SpanKind::Producer => span::SpanKind::Producer,
        SpanKind::Consumer => span::SpanKind::Consumer,
    }
}

fn set_all(settings: &[Setting], most: u32, longest: Option<usize>) -> (Vec<KeyValue>, u32) {
    let mut attributes = Vec::new();
    let dropped = settings.iter().filter(|setting| !set(&mut attributes, setting, most, longest)).count();
    (attributes, dropped as u32)
}
