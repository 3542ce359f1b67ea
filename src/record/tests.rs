//! Shared test helpers: arbitrary attributes, a simple model of them, and decoders for records.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use opentelemetry_proto::tonic::common::v1::any_value::Value as ProtoValue;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValue, KeyValueList};
use proptest::prelude::*;
use prost::Message;

use super::{Scope, ScopeBuilder, Signal, Value};

/// Returns whether the step `what` must be done wrong, for example with its stores in the wrong order. A test of crash
/// recovery asks for this by an environment variable, to prove that the test detects the mistake.
pub(super) fn is_wrong(what: &str) -> bool {
    static WRONG: LazyLock<String> =
        LazyLock::new(|| std::env::var("STANDPIPE_WRONG_ORDER").unwrap_or_default());
    *WRONG == what
}

/// Stores a word before its turn if a test asks for this wrong order.
pub(super) fn store_early(what: &str, word: &AtomicU32, value: u32) {
    if is_wrong(what) {
        word.store(value, Ordering::Release);
    }
}

impl Scope {
    pub(crate) fn new(signal: Signal, name: &str, version: &str) -> Self {
        ScopeBuilder::new(name).version(version).into_scope(signal, None)
    }
}

/// A key and a value. Values borrow, so the generated ones are leaked: they are few, and the tests are short.
pub(super) type Setting = (String, Value<'static>);

pub(super) fn any_setting() -> impl Strategy<Value = Setting> {
    (any_key(), any_value())
}

/// Few keys, so that they repeat. Some long keys differ only in bytes that the hash ignores.
fn any_key() -> impl Strategy<Value = String> {
    let keys = ["", "a", "b", "é", "http.route", "same head 1 same tail", "same head 2 same tail"];
    let mut keys: Vec<String> = keys.map(str::to_owned).into();
    keys.extend(["x", "y"].map(|middle| format!("same head {} same tail", middle.repeat(120))));
    prop::sample::select(keys)
}

/// Texts: some empty, some short, some with multi-byte characters, some so long that their length takes two bytes.
pub(super) fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        2 => Just(String::new()),
        4 => "[a-zé水🚰]{0,12}",
        1 => any::<String>(),
        1 => (100usize..300).prop_map(|length| "ä".repeat(length)),
    ]
}

pub(super) fn any_time() -> impl Strategy<Value = u64> {
    prop_oneof![1 => Just(0), 1 => Just(u64::MAX), 8 => any::<u64>()]
}

pub(super) fn any_value() -> impl Strategy<Value = Value<'static>> {
    fn list<T: std::fmt::Debug + 'static>(
        element: impl Strategy<Value = T>,
    ) -> impl Strategy<Value = &'static [T]> {
        prop::collection::vec(element, 0..5).prop_map(|list| &*list.leak())
    }
    let text = || any_text().prop_map(|text| &*text.leak());
    let float = || prop::num::f64::ANY;
    let leaf = prop_oneof![
        4 => text().prop_map(Value::Str),
        2 => any::<bool>().prop_map(Value::Bool),
        2 => any::<i64>().prop_map(Value::Int),
        1 => (-2i64..200).prop_map(Value::Int),
        2 => float().prop_map(Value::Float),
        1 => list(any::<u8>()).prop_map(Value::Bytes),
        1 => list(text()).prop_map(Value::Strs),
        1 => list(any::<bool>()).prop_map(Value::Bools),
        1 => list(any::<i64>()).prop_map(Value::Ints),
        1 => list(float()).prop_map(Value::Floats),
    ];
    leaf.prop_recursive(4, 24, 5, move |inner| {
        // Keys of a map may repeat as well.
        let key = any_key().prop_map(|key| &*key.leak());
        prop_oneof![list(inner.clone()).prop_map(Value::Array), list((key, inner)).prop_map(Value::Map),]
    })
}

/// Model of `set`: a known key is replaced and moves to the end, even if the limit is reached.
pub(super) fn set(
    attributes: &mut Vec<KeyValue>,
    (key, value): &Setting,
    most: u32,
    longest: Option<usize>,
) -> bool {
    let known = attributes.iter().position(|attribute| attribute.key == *key);
    if key.is_empty() || (known.is_none() && attributes.len() >= most as usize) {
        return false;
    }
    if let Some(index) = known {
        attributes.remove(index);
    }
    attributes.push(entry(key, *value, longest));
    true
}

fn entry(key: &str, value: Value<'_>, longest: Option<usize>) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(proto_value(value, longest)), ..Default::default() }
}

pub(super) fn proto_value(value: Value<'_>, longest: Option<usize>) -> AnyValue {
    let text = |text: &str| text.chars().take(longest.unwrap_or(usize::MAX)).collect();
    let value = match value {
        Value::Str(string) => ProtoValue::StringValue(text(string)),
        Value::Bool(boolean) => ProtoValue::BoolValue(boolean),
        Value::Int(number) => ProtoValue::IntValue(number),
        Value::Float(number) => ProtoValue::DoubleValue(number),
        Value::Bytes(bytes) => {
            ProtoValue::BytesValue(bytes[..bytes.len().min(longest.unwrap_or(usize::MAX))].to_vec())
        }
        Value::Array(values) => array(values, |value| proto_value(value, longest)),
        Value::Strs(values) => array(values, |string| proto_value(Value::Str(string), longest)),
        Value::Bools(values) => array(values, |boolean| proto_value(Value::Bool(boolean), longest)),
        Value::Ints(values) => array(values, |number| proto_value(Value::Int(number), longest)),
        Value::Floats(values) => array(values, |number| proto_value(Value::Float(number), longest)),
        Value::Map(entries) => {
            let mut values: Vec<KeyValue> = Vec::new();
            for (key, value) in entries {
                values.retain(|earlier| earlier.key != *key);
                values.push(entry(key, *value, longest));
            }
            ProtoValue::KvlistValue(KeyValueList { values })
        }
    };
    AnyValue { value: Some(value) }
}

fn array<T: Copy>(values: &[T], element: impl Fn(T) -> AnyValue) -> ProtoValue {
    ProtoValue::ArrayValue(ArrayValue { values: values.iter().copied().map(element).collect() })
}

/// Returns the message in a frame, and checks the frame itself.
pub(super) fn unframed(framed: &[u8]) -> &[u8] {
    let mut rest = framed;
    assert_eq!(prost::encoding::decode_varint(&mut rest).unwrap(), 0x12, "the tag of ScopeSpans.spans");
    let length = prost::encoding::decode_varint(&mut rest).unwrap();
    assert_eq!(length, rest.len() as u64);
    rest
}

pub(super) fn in_map(value: Value<'static>) -> Value<'static> {
    Value::Map(vec![("key", value)].leak())
}

pub(super) fn in_array(value: Value<'static>) -> Value<'static> {
    Value::Array(vec![value].leak())
}

/// Returns whether an attribute, or an entry of a map, has an empty key. Records write the empty key of an entry, so
/// their encoding is then not the shortest.
pub(super) fn has_empty_keys(attributes: &[KeyValue]) -> bool {
    fn within(value: Option<&AnyValue>) -> bool {
        match value.and_then(|value| value.value.as_ref()) {
            Some(ProtoValue::ArrayValue(array)) => array.values.iter().any(|value| within(Some(value))),
            Some(ProtoValue::KvlistValue(list)) => has_empty_keys(&list.values),
            _ => false,
        }
    }
    attributes.iter().any(|attribute| attribute.key.is_empty() || within(attribute.value.as_ref()))
}

/// Compares the encoded bytes, because NaN differs from itself and −0 equals 0. Prints the messages if they differ.
pub(crate) fn assert_same<M: Message + std::fmt::Debug>(
    written: &M,
    expected: &M,
) -> Result<(), TestCaseError> {
    let same = written.encode_to_vec() == expected.encode_to_vec();
    prop_assert!(same, "written: {written:#?}\nexpected: {expected:#?}");
    Ok(())
}
