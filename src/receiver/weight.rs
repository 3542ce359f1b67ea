//! How much memory a message will take once it is decoded, found without decoding it.
//!
//! Two bytes on the wire can be a whole empty span: a body within its limit could unfold to a hundred times its size. So
//! the messages within are counted first, which takes no memory at all.

use opentelemetry_proto::tonic::common::v1::{AnyValue, EntityRef, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::DecodeError;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

use super::store::ReceivedSpan;

/// The decoder goes no deeper either.
const MAX_DEPTH: usize = 100;

/// The bytes of memory that a decoded `ExportTraceServiceRequest` takes, about.
///
/// What cannot be decoded weighs as much as the decoder would have built when it gave up.
pub(super) fn of_traces(body: &[u8]) -> usize {
    let mut weight = body.len();
    // the decoder meets the same error and says it better
    let _ = add(&mut weight, Part::Request, body, 0);
    weight
}

/// What can come many times, or contains what can.
#[derive(Clone, Copy)]
enum Part {
    Request,
    ResourceSpans,
    Resource,
    EntityRef,
    ScopeSpans,
    Scope,
    Span,
    Event,
    Link,
    KeyValue,
    AnyValue,
    Array,
    KeyValueList,
    Text,
}

impl Part {
    /// The part that the field `tag` of this one holds.
    fn within(self, tag: u32) -> Option<Part> {
        Some(match (self, tag) {
            (Part::Request, 1) => Part::ResourceSpans,
            (Part::ResourceSpans, 1) => Part::Resource,
            (Part::ResourceSpans, 2) => Part::ScopeSpans,
            (Part::Resource, 3) => Part::EntityRef,
            (Part::EntityRef, 3 | 4) => Part::Text,
            (Part::ScopeSpans, 1) => Part::Scope,
            (Part::ScopeSpans, 2) => Part::Span,
            (Part::Span, 11) => Part::Event,
            (Part::Span, 13) => Part::Link,
            (Part::Resource | Part::KeyValueList, 1) => Part::KeyValue,
            (Part::Scope | Part::Event, 3) | (Part::Link, 4) | (Part::Span, 9) => Part::KeyValue,
            (Part::KeyValue, 2) | (Part::Array, 1) => Part::AnyValue,
            (Part::AnyValue, 5) => Part::Array,
            (Part::AnyValue, 6) => Part::KeyValueList,
            _ => return None,
        })
    }

    fn is_message(self) -> bool {
        !matches!(self, Part::Text)
    }

    /// The memory of one, without what it points to.
    fn size(self) -> usize {
        match self {
            Part::ResourceSpans => size_of::<ResourceSpans>(),
            Part::Resource => size_of::<Resource>(),
            Part::EntityRef => size_of::<EntityRef>(),
            Part::ScopeSpans => size_of::<ScopeSpans>(),
            Part::Scope => size_of::<InstrumentationScope>(),
            Part::Span => size_of::<Span>() + size_of::<ReceivedSpan>(),
            Part::Event => size_of::<Event>(),
            Part::Link => size_of::<Link>(),
            Part::KeyValue => size_of::<KeyValue>(),
            Part::AnyValue => size_of::<AnyValue>(),
            Part::Text => size_of::<String>(),
            // these lie within what holds them
            Part::Request | Part::Array | Part::KeyValueList => 0,
        }
    }
}

fn add(weight: &mut usize, part: Part, mut bytes: &[u8], depth: usize) -> Result<(), DecodeError> {
    if depth > MAX_DEPTH {
        return Ok(());
    }
    while !bytes.is_empty() {
        let (tag, wire_type) = decode_key(&mut bytes)?;
        match part.within(tag).filter(|_| wire_type == WireType::LengthDelimited) {
            Some(inner) => {
                let length = decode_varint(&mut bytes)?.min(bytes.len() as u64) as usize;
                let (content, rest) = bytes.split_at(length);
                *weight += inner.size();
                if inner.is_message() {
                    add(weight, inner, content, depth + 1)?;
                }
                bytes = rest;
            }
            None => skip_field(wire_type, tag, &mut bytes, DecodeContext::default())?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use opentelemetry_proto::tonic::common::v1::any_value::Value;
    use opentelemetry_proto::tonic::common::v1::{ArrayValue, KeyValueList};
    use prost::Message;

    use super::*;

    fn request(spans: Vec<Span>) -> Vec<u8> {
        let scope_spans = vec![ScopeSpans { spans, ..Default::default() }];
        let resource_spans = vec![ResourceSpans { scope_spans, ..Default::default() }];
        ExportTraceServiceRequest { resource_spans }.encode_to_vec()
    }

    #[test]
    fn empty_spans_weigh_what_they_will_take() {
        let body = request(vec![Span::default(); 1000]);
        assert!(body.len() < 2100);
        assert!(of_traces(&body) > 1000 * size_of::<Span>());
    }

    #[test]
    fn everything_that_can_be_repeated_is_weighed() {
        let empty = of_traces(&request(vec![Span::default()]));
        let pairs = vec![KeyValue::default(); 1000];
        let value = |value| KeyValue { value: Some(AnyValue { value: Some(value) }), ..Default::default() };
        let list = value(Value::KvlistValue(KeyValueList { values: pairs.clone() }));
        let array = value(Value::ArrayValue(ArrayValue { values: vec![AnyValue::default(); 1000] }));
        for span in [
            Span { attributes: pairs.clone(), ..Default::default() },
            Span { attributes: vec![list], ..Default::default() },
            Span { attributes: vec![array], ..Default::default() },
            Span { events: vec![Event::default(); 1000], ..Default::default() },
            Span { links: vec![Link::default(); 1000], ..Default::default() },
            Span {
                events: vec![Event { attributes: pairs.clone(), ..Default::default() }],
                ..Default::default()
            },
            Span {
                links: vec![Link { attributes: pairs.clone(), ..Default::default() }],
                ..Default::default()
            },
        ] {
            let weight = of_traces(&request(vec![span.clone()]));
            assert!(weight > empty + 1000 * size_of::<AnyValue>(), "{weight}: {span:?}");
        }
    }

    #[test]
    fn what_follows_something_else_is_weighed_too() {
        let unknown_group = [0x7b, 0x08, 0x01, 0x7c];
        let entity = EntityRef { id_keys: vec!["not a message".into()], ..Default::default() };
        let resource = Resource { entity_refs: vec![entity], ..Default::default() };
        let resource_spans = vec![ResourceSpans { resource: Some(resource), ..Default::default() }];
        let entities = ExportTraceServiceRequest { resource_spans }.encode_to_vec();
        for first in [&unknown_group[..], &entities] {
            let body = [first, &request(vec![Span::default(); 1000])].concat();
            assert!(of_traces(&body) > 1000 * size_of::<Span>());
        }
    }

    #[test]
    fn broken_and_bottomless_messages_are_weighed_without_harm() {
        let body = request(vec![Span { attributes: vec![KeyValue::default(); 9], ..Default::default() }; 9]);
        for end in 0..body.len() {
            of_traces(&body[..end]);
        }
        let mut nested = Vec::new();
        for _ in 0..10_000 {
            // an array within a value within an array
            nested.splice(0..0, prost_message(1, &nested));
            nested.splice(0..0, prost_message(5, &nested));
        }
        add(&mut 0, Part::AnyValue, &nested, 0).expect("too deep is no error");
    }

    /// The key and length that make the following bytes a field.
    fn prost_message(tag: u32, content: &[u8]) -> Vec<u8> {
        let mut start = Vec::new();
        prost::encoding::encode_key(tag, WireType::LengthDelimited, &mut start);
        prost::encoding::encode_varint(content.len() as u64, &mut start);
        start
    }
}
