//! Shared test helpers: arbitrary scopes, resources and attributes, and functions that make the messages of the bridge
//! and of `opentelemetry-proto` comparable.

use opentelemetry::{InstrumentationScope, KeyValue, StringValue, Value};
use opentelemetry_proto::tonic::common::v1::any_value::Value as ProtoValue;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue as Attribute};
use opentelemetry_sdk::Resource;
use proptest::prelude::*;

use crate::record::Scope;
pub(super) use crate::record::tests::assert_same;

pub(super) fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![2 => Just(String::new()), 4 => "[a-zé水🚰]{0,12}", 1 => any::<String>()]
}

/// Few keys, so that they repeat. One of them is empty.
pub(super) fn any_key() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["", "a", "b", "http.route", "é"]).prop_map(str::to_owned)
}

pub(super) fn any_value() -> impl Strategy<Value = Value> {
    let text = || any_text().prop_map(StringValue::from);
    let float = || prop::num::f64::ANY;
    prop_oneof![
        3 => text().prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        2 => any::<i64>().prop_map(Value::from),
        1 => float().prop_map(Value::from),
        1 => prop::collection::vec(any::<bool>(), 0..4).prop_map(|list| Value::Array(list.into())),
        1 => prop::collection::vec(any::<i64>(), 0..4).prop_map(|list| Value::Array(list.into())),
        1 => prop::collection::vec(float(), 0..4).prop_map(|list| Value::Array(list.into())),
        1 => prop::collection::vec(text(), 0..4).prop_map(|list| Value::Array(list.into())),
    ]
}

pub(super) fn any_attributes() -> impl Strategy<Value = Vec<KeyValue>> {
    let attribute = (any_key(), any_value()).prop_map(|(key, value)| KeyValue::new(key, value));
    prop::collection::vec(attribute, 0..6)
}

pub(super) fn any_scope() -> impl Strategy<Value = InstrumentationScope> {
    (any_text(), prop::option::of(any_text()), prop::option::of(any_text()), any_attributes()).prop_map(
        |(name, version, schema_url, attributes)| {
            let mut scope = InstrumentationScope::builder(name).with_attributes(attributes);
            if let Some(version) = version {
                scope = scope.with_version(version);
            }
            if let Some(schema_url) = schema_url {
                scope = scope.with_schema_url(schema_url);
            }
            scope.build()
        },
    )
}

/// A resource that is not the SDK's default, without empty keys.
pub(super) fn any_resource() -> impl Strategy<Value = Resource> {
    (any_attributes(), any_text()).prop_map(|(attributes, schema_url)| {
        let attributes = attributes.into_iter().filter(|attribute| !attribute.key.as_str().is_empty());
        Resource::builder_empty().with_schema_url(attributes, schema_url).with_service_name("shop").build()
    })
}

/// Frames a record with its scope and resource: `ResourceSpans` or its counterpart.
pub(super) fn with_surroundings(scope: &Scope, framed: &[u8]) -> Vec<u8> {
    let mut message = scope.resource().expect("a resource of its own").to_vec();
    let of_scope = [scope.field(), framed].concat();
    prost::encoding::bytes::encode(2, &of_scope, &mut message);
    message
}

/// Applies the rules of the bridge: the last value of a key counts, and an empty key is dropped. Returns the number of
/// dropped attributes.
pub(super) fn put_right(attributes: &mut Vec<Attribute>) -> u32 {
    let (mut kept, mut dropped): (Vec<Attribute>, u32) = (Vec::new(), 0);
    for attribute in attributes.drain(..) {
        if attribute.key.is_empty() {
            dropped += 1;
            continue;
        }
        kept.retain(|earlier| earlier.key != attribute.key);
        kept.push(attribute);
    }
    *attributes = kept;
    dropped
}

/// Sorts maps, because those of the SDK have no order.
pub(super) fn sort(attributes: &mut [Attribute]) {
    attributes.sort_by(|one, other| one.key.cmp(&other.key));
    attributes.iter_mut().filter_map(|attribute| attribute.value.as_mut()).for_each(sort_within);
}

pub(super) fn sort_within(value: &mut AnyValue) {
    match &mut value.value {
        Some(ProtoValue::ArrayValue(array)) => array.values.iter_mut().for_each(sort_within),
        Some(ProtoValue::KvlistValue(list)) => sort(&mut list.values),
        _ => {}
    }
}
