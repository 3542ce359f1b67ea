//! Decodes written spans with the protocol's own messages, and compares them with a simple model of a span.

mod story;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as ProtoValue;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, span::Event};
use proptest::prelude::*;
use prost::Message;

use super::*;
#[cfg(feature = "tracing")]
use crate::record::EncodedKey;
use crate::record::attribute::MAX_DEPTH;
use crate::record::frames;
use crate::record::tests::{assert_same, has_empty_keys, in_array, in_map, unframed};
use story::{Story, any_limits, any_story};

/// A limit that no generated story reaches.
const AMPLE: usize = 1 << 20;

fn begun(limits: &SpanLimits, max_bytes: usize) -> SpanRecord {
    let mut record = SpanRecord::default();
    record.limit(limits, max_bytes);
    record.begin(&head("a name"));
    record
}

fn head(name: &str) -> SpanHead<'_> {
    SpanHead {
        trace_id: TraceId([1; 16]),
        span_id: SpanId([2; 8]),
        parent: None,
        parent_is_remote: false,
        trace_flags: 1,
        trace_state: "",
        name,
        kind: SpanKind::Internal,
        start: 1000,
    }
}

fn finished(record: &mut SpanRecord) -> Span {
    Span::decode(unframed(record.finish(2000).expect("not outgrown"))).unwrap()
}

/// Returns the length of the shortest encoding in which times are written even if they are 0, because a record writes
/// them before it knows their values.
fn shortest_len(span: &Span) -> usize {
    let mut span = span.clone();
    let event_times = span.events.iter_mut().map(|event| &mut event.time_unix_nano);
    for time in event_times.chain([&mut span.start_time_unix_nano, &mut span.end_time_unix_nano]) {
        *time = (*time).max(1);
    }
    span.encoded_len()
}

proptest! {
    // Each case takes long, so there are half as many as usual.
    #![proptest_config(ProptestConfig::with_cases(crate::tests::share_of(128)))]

    #[test]
    fn any_span_is_read_back_as_it_was_told(
        stories in prop::collection::vec((any_story(), any_limits()), 1..3),
    ) {
        // One record for all stories, as the pool reuses it: nothing of one span may be left in the next.
        let mut record = SpanRecord::default();
        let mut wire = Vec::new();
        for (story, limits) in &stories {
            wire.extend_from_slice(story.write(&mut record, limits, AMPLE).expect("not outgrown"));
        }
        let framed: Vec<_> = frames(&wire).collect();
        prop_assert_eq!(framed.len(), stories.len());
        for (framed, (story, limits)) in framed.into_iter().zip(&stories) {
            let message = unframed(framed);
            let written = Span::decode(message).unwrap();
            assert_same(&written, &model::span(story, limits))?;
            let attributes = written.events.iter().map(|event| &event.attributes);
            let attributes = attributes.chain(written.links.iter().map(|link| &link.attributes));
            if !attributes.chain([&written.attributes]).any(|attributes| has_empty_keys(attributes)) {
                // No unknown field, no repeated field, no length longer than necessary.
                prop_assert_eq!(message.len(), shortest_len(&written));
            }
        }
    }

    #[test]
    fn a_span_with_too_little_room_is_whole_or_given_up(
        story in any_story(),
        next in any_story(),
        limits in any_limits(),
        max_bytes in 0usize..2000,
    ) {
        let mut record = SpanRecord::default();
        let expected = model::span(&story, &limits);
        match story.write(&mut record, &limits, max_bytes) {
            Some(framed) => {
                prop_assert!(framed.len() <= max_bytes && story.most_room(&limits) <= max_bytes);
                assert_same(&Span::decode(unframed(framed)).unwrap(), &expected)?;
            }
            None => prop_assert!(story.most_room(&limits) > max_bytes),
        }
        let framed = next.write(&mut record, &limits, AMPLE).expect("the old limit is forgotten");
        assert_same(&Span::decode(unframed(framed)).unwrap(), &model::span(&next, &limits))?;
    }
}

#[test]
fn a_status_that_found_no_room_can_be_followed_by_another() {
    let mut record = begun(&SpanLimits::default(), 200);
    record.set_status(Status::Error("short"));
    record.set_status(Status::Error(&"long".repeat(200)));
    record.set_status(Status::Error("short"));
    record.set_status(Status::Ok);
    assert!(record.finish(2000).is_none(), "a part of it was lost");
}

#[test]
fn a_nan_keeps_its_bits() {
    let odd = f64::from_bits(0x7ff0_dead_beef_0001);
    let mut record = begun(&SpanLimits::default(), AMPLE);
    record.set("odd", Value::Float(odd));
    match finished(&mut record).attributes[0].value.as_ref().unwrap().value {
        Some(ProtoValue::DoubleValue(read)) => assert_eq!(read.to_bits(), odd.to_bits()),
        ref other => panic!("{other:?}"),
    }
}

#[test]
fn a_span_that_ends_before_it_starts_ends_at_its_start() {
    let mut record = begun(&SpanLimits::default(), AMPLE);
    let span = Span::decode(unframed(record.finish(999).unwrap())).unwrap();
    assert_eq!((span.start_time_unix_nano, span.end_time_unix_nano), (1000, 1000));
}

#[test]
fn keys_that_differ_only_in_the_middle_are_distinguished() {
    let mut record = begun(&SpanLimits::default(), AMPLE);
    for middle in ["one", "two", "one"] {
        record.set(&format!("same head {middle} same tail"), Value::Str(middle));
    }
    let keys: Vec<_> = finished(&mut record).attributes.into_iter().map(|attribute| attribute.key).collect();
    assert_eq!(keys, ["same head two same tail", "same head one same tail"]);
}

#[test]
fn the_deepest_value_that_is_written_can_be_read_in_a_whole_request() {
    for nest in [in_map as fn(Value<'static>) -> Value<'static>, in_array] {
        let deepest = (0..MAX_DEPTH).fold(Value::Strs(&["leaf"]), |value, _| nest(value));
        let mut record = begun(&SpanLimits::default(), AMPLE);
        assert!(record.open_event("the place with most messages around it", 1));
        record.set_in_sub_message("deep", deepest);
        record.set_in_sub_message("too deep", nest(deepest));
        record.close_sub_message();
        let span = finished(&mut record);
        let keys: Vec<_> = span.events[0].attributes.iter().map(|attribute| attribute.key.as_str()).collect();
        assert_eq!((keys, span.events[0].dropped_attributes_count), (vec!["deep"], 1));
        let scope_spans = vec![ScopeSpans { spans: vec![span], ..Default::default() }];
        let resource_spans = vec![ResourceSpans { scope_spans, ..Default::default() }];
        let request = ExportTraceServiceRequest { resource_spans }.encode_to_vec();
        ExportTraceServiceRequest::decode(&*request).expect("decoders stop at 100 nested messages");
    }
}

#[test]
fn a_part_that_is_never_closed_ends_where_something_else_begins() {
    let mut record = begun(&SpanLimits::default(), AMPLE);
    let forget_an_event = |record: &mut SpanRecord| {
        assert!(record.open_event("forgotten", 1));
        record.set_in_sub_message("key", Value::Str(&"long".repeat(50)));
        record.set_in_sub_message("", Value::Int(1));
    };
    record.set("key", Value::Int(1));
    record.set_status(Status::Error("replaced"));
    forget_an_event(&mut record);
    record.set("key", Value::Int(2));
    forget_an_event(&mut record);
    record.set_status(Status::Error("last"));
    forget_an_event(&mut record);
    forget_an_event(&mut record);
    let span = finished(&mut record);
    assert_eq!((span.name.as_str(), span.end_time_unix_nano), ("a name", 2000));
    assert_eq!((span.attributes.len(), span.status.unwrap().message.as_str()), (1, "last"));
    let counts = |event: &Event| (event.attributes.len(), event.dropped_attributes_count);
    assert_eq!(span.events.iter().map(counts).collect::<Vec<_>>(), [(1, 1); 4]);
}

#[test]
fn a_large_record_gives_its_storage_back_to_be_weighed() {
    let mut record = begun(&SpanLimits::default(), AMPLE);
    let before = record.capacity();
    record.set("large", Value::Str(&"x".repeat(100_000)));
    assert!(before < 2048 && record.capacity() > 100_000, "{before} then {}", record.capacity());
}

#[test]
fn numbers_that_otlp_cannot_hold_are_pinned() {
    assert_eq!(Value::from(u64::MAX), Value::Int(i64::MAX));
    assert_eq!(Value::from(u64::from(u32::MAX)), Value::Int(i64::from(u32::MAX)));
    assert_eq!(Value::from(usize::MAX), Value::Int(i64::try_from(usize::MAX).unwrap_or(i64::MAX)));
}

/// The attributes that bridges set on every span and log record.
#[cfg(feature = "tracing")]
const DESCRIPTION: [(&str, Value<'_>); 7] = [
    ("code.file.path", Value::Str("src/orders.rs")),
    ("code.module.name", Value::Str("shop::orders")),
    ("code.line.number", Value::Int(4711)),
    ("thread.id", Value::Int(1)),
    ("thread.name", Value::Str("main")),
    ("level", Value::Str("INFO")),
    ("target", Value::Str("shop")),
];

#[cfg(feature = "tracing")]
#[test]
fn encoded_attributes_are_those_that_are_set_one_by_one() {
    let encoded = SpanRecord::encode(&DESCRIPTION).expect("no two of these keys share a bit");
    let (mut at_once, mut one_by_one) =
        (begun(&SpanLimits::default(), AMPLE), begun(&SpanLimits::default(), AMPLE));
    assert!(at_once.set_encoded_at_start(&encoded));
    DESCRIPTION.iter().for_each(|(key, value)| one_by_one.set(key, *value));
    for record in [&mut at_once, &mut one_by_one] {
        record.set("thread.id", Value::Int(2));
        record.set("http.route", Value::Str("/"));
    }
    assert_eq!(finished(&mut at_once), finished(&mut one_by_one));
}

#[cfg(feature = "tracing")]
#[test]
fn encoded_attributes_are_refused_where_each_has_to_be_looked_at() {
    let encoded = SpanRecord::encode(&DESCRIPTION).expect("no two of these keys share a bit");
    let few = SpanLimits { attributes: 6, ..SpanLimits::default() };
    let short = SpanLimits { value_length: Some(12), ..SpanLimits::default() };
    assert!(!begun(&few, AMPLE).set_encoded_at_start(&encoded));
    assert!(!begun(&short, AMPLE).set_encoded_at_start(&encoded));
    let mut set_before = begun(&SpanLimits::default(), AMPLE);
    set_before.set("level", Value::Str("WARN"));
    assert!(!set_before.set_encoded_at_start(&encoded));
    assert_eq!(finished(&mut set_before).attributes.len(), 1);
}

#[cfg(feature = "tracing")]
#[test]
fn attributes_behind_an_encoded_key_are_those_behind_any_key() {
    // Up to 28 bytes of a key are copied at once.
    let keys = [
        "",
        "k",
        "cache.hit",
        "a.key.with.twenty.and.eight.",
        "a.key.with.twenty.and.eight..",
        "http.response.header.content-type",
    ];
    let texts = [0, 1, 60, 90, 120, 127, 128, 200].map(|len| "t".repeat(len));
    let texts = texts.iter().map(|text| Value::Str(text));
    let numbers = [0, 0x7f, 0x80, 0x3fff, 0x4000, -1].map(Value::Int).into_iter();
    let values: Vec<_> = texts.chain(numbers).chain([Value::Bool(true), Value::Float(0.5)]).collect();
    let short = SpanLimits { value_length: Some(12), ..SpanLimits::default() };
    for limits in [SpanLimits::default(), short] {
        let (mut encoded, mut plain) = (begun(&limits, AMPLE), begun(&limits, AMPLE));
        for value in &values {
            [&mut encoded, &mut plain].into_iter().for_each(|record| record.begin(&head("a name")));
            // The last two keys repeat earlier ones, so their values are replaced.
            for key in keys.iter().chain(&keys[1..3]) {
                encoded.set_at_start(&EncodedKey::new(key), *value);
                plain.set(key, *value);
            }
            assert_eq!(finished(&mut encoded), finished(&mut plain), "{value:?}");
        }
    }
}

#[test]
fn inlined_attributes_are_those_that_are_not_inlined() {
    let values = [0, 0x7f, 0x80, 0x3fff, 0x4000, -1].map(Value::Int);
    let long = "ä".repeat(100);
    let values =
        values.into_iter().chain([Value::Bool(true), Value::Float(0.5), Value::Str(&long), Value::Str("")]);
    for value in values.chain([Value::Ints(&[1])]) {
        let (mut inlined, mut other) =
            (begun(&SpanLimits::default(), AMPLE), begun(&SpanLimits::default(), AMPLE));
        for _ in 0..2 {
            inlined.set_inlined("a key", value);
            other.set("a key", value);
        }
        assert_eq!(inlined.finish(2000), other.finish(2000), "{value:?}");
    }
}

#[test]
fn a_span_is_renamed_in_place() {
    for name in ["", "b", "a name", "another name", &"long ".repeat(100)] {
        let mut record = begun(&SpanLimits::default(), AMPLE);
        record.set("before", Value::Int(1));
        let written = record.set_name::<1>(name).copied();
        record.set("after", Value::Int(2));
        record.set("before", Value::Int(3));
        assert_eq!(written, name.bytes().next().map(|first| [first]));
        let span = finished(&mut record);
        assert_eq!((&*span.name, span.attributes.len()), (name, 2));
    }
}

#[test]
fn two_parts_with_the_same_keys_do_not_touch_each_other() {
    let story = Story::with_equal_keys_everywhere();
    let mut record = SpanRecord::default();
    let limits = SpanLimits::default();
    let framed = story.write(&mut record, &limits, AMPLE).unwrap();
    let span = Span::decode(unframed(framed)).unwrap();
    let counts = [&span.attributes, &span.events[0].attributes, &span.events[1].attributes];
    assert_eq!(counts.map(Vec::len), [1, 1, 1]);
    assert_eq!(span.links[0].attributes.len(), 1);
}

#[test]
fn exactly_as_many_attributes_are_kept_as_the_limit_says_and_the_last_value_of_each() {
    for most in [0, 1, 5, 61, 62, 63, 64, 65, 90, 125, 126, 127, 128, 200, 300] {
        let limits = SpanLimits { attributes: most, event_attributes: most, ..SpanLimits::default() };
        let mut record = begun(&limits, AMPLE);
        record.open_event("half way", 1500);
        for number in 0..250 {
            record.set_in_sub_message(&format!("of.event.{number}"), Value::Int(number));
        }
        record.close_sub_message();
        for (round, number) in (0..3).flat_map(|round| (0..250).map(move |number| (round, number))) {
            record.set(&format!("key.{number}"), Value::Int(1000 * round + number));
        }
        let span = finished(&mut record);
        let kept = most.min(250);
        assert_eq!(span.attributes.len() as u32, kept, "limit {most}");
        assert_eq!(span.dropped_attributes_count, 3 * (250 - kept), "limit {most}");
        for (number, attribute) in (0i64..).zip(&span.attributes) {
            assert_eq!(attribute.key, format!("key.{number}"), "limit {most}");
            let value = attribute.value.as_ref().and_then(|value| value.value.clone());
            assert_eq!(value, Some(ProtoValue::IntValue(2000 + number)), "limit {most}");
        }
        let event = &span.events[0];
        assert_eq!((event.attributes.len() as u32, event.dropped_attributes_count), (kept, 250 - kept));
    }
}

/// A model of the encoder, which builds plain messages with plain vectors: slow, short, and obviously correct.
mod model {
    use opentelemetry_proto::tonic::common::v1::KeyValue;
    use opentelemetry_proto::tonic::trace::v1::{Span, Status, span};

    use super::super::{SpanKind, SpanLimits};
    use super::story::{Step, Story, Target};
    use crate::record::tests::{Setting, set};

    /// Returns the expected span for the story under these limits.
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
            Step::Event { .. } if span.events.len() >= limits.events as usize => {
                span.dropped_events_count += 1
            }
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

    /// Returns the trace flags, with the bits `REMOTE_KNOWN` and, for a remote context, `REMOTE`.
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
}
