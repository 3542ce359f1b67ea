//! Compares sets with a simple model: a sorted map of messages.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::common::v1::any_value::Value as ProtoValue;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValue, KeyValueList};
use proptest::prelude::*;
use prost::Message;

use super::*;
use crate::record::attribute::MAX_DEPTH;

const SEED: u64 = 0x1234_5678_9abc_def0;

/// A key and a value. Values borrow, so the generated ones are leaked: they are few, and the tests are short.
pub(in crate::record) type Pair = (&'static str, Value<'static>);

/// Returns the expected set of these pairs, sorted by key.
pub(in crate::record) fn model(pairs: &[Pair]) -> Vec<KeyValue> {
    let mut last = BTreeMap::new();
    for (key, value) in pairs.iter().filter(|(key, _)| !key.is_empty()) {
        last.insert(*key, any_value(*value));
    }
    let entry = |(key, value): (&str, AnyValue)| key_value(key, value);
    last.into_iter().map(entry).collect()
}

fn key_value(key: &str, value: AnyValue) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(value), ..Default::default() }
}

fn any_value(value: Value<'_>) -> AnyValue {
    fn array<T: Copy>(values: &[T], each: impl Fn(T) -> AnyValue) -> ProtoValue {
        ProtoValue::ArrayValue(ArrayValue { values: values.iter().map(|value| each(*value)).collect() })
    }
    let value = match value {
        Value::Str(text) => ProtoValue::StringValue(text.to_owned()),
        Value::Bool(boolean) => ProtoValue::BoolValue(boolean),
        Value::Int(number) => ProtoValue::IntValue(number),
        Value::Float(number) => ProtoValue::DoubleValue(number),
        Value::Bytes(bytes) => ProtoValue::BytesValue(bytes.to_vec()),
        Value::Array(values) => array(values, any_value),
        Value::Strs(values) => array(values, |text| any_value(Value::Str(text))),
        Value::Bools(values) => array(values, |boolean| any_value(Value::Bool(boolean))),
        Value::Ints(values) => array(values, |number| any_value(Value::Int(number))),
        Value::Floats(values) => array(values, |number| any_value(Value::Float(number))),
        Value::Map(entries) => {
            let is_last =
                |index: usize, key: &str| entries[index + 1..].iter().all(|(later, _)| *later != key);
            let kept = entries.iter().enumerate().filter(|(index, (key, _))| is_last(*index, key));
            let values = kept.map(|(_, (key, value))| key_value(key, any_value(*value))).collect();
            ProtoValue::KvlistValue(KeyValueList { values })
        }
    };
    AnyValue { value: Some(value) }
}

/// Few keys and values, so that they repeat.
pub(in crate::record) fn any_pairs() -> impl Strategy<Value = Vec<Pair>> {
    prop::collection::vec((any_key(), any_attribute_value()), 0..7)
}

fn any_key() -> impl Strategy<Value = &'static str> {
    let long = "a key that is longer than a length of one byte can say, ".repeat(3).leak();
    prop::sample::select(vec!["", "a", "b", "ab", "é", "http.route", "server.address", long])
}

fn any_attribute_value() -> impl Strategy<Value = Value<'static>> {
    let texts = [
        "",
        "GET",
        "1234567",
        "12345678",
        "123456789",
        "/a/path/of/16 b.",
        "/a/path/of 17 by.",
        "/a/path/of/more/than/17",
    ];
    let long: &'static str = "x".repeat(300).leak();
    let text = prop_oneof![
        6 => prop::sample::select(texts.to_vec()),
        1 => Just(long),
        1 => any::<String>().prop_map(|text| &*text.leak()),
    ];
    let int = prop_oneof![-1i64..3, Just(127), Just(128), any::<i64>()];
    let float = prop_oneof![Just(0.0), Just(-0.0), Just(f64::NAN), Just(1.0), prop::num::f64::ANY];
    let other = prop::sample::select(vec![
        Value::Bytes(b""),
        Value::Bytes(b"GET"),
        Value::Strs(&["GET"]),
        Value::Strs(&[]),
        Value::Array(&[Value::Str("GET")]),
        Value::Array(&[Value::Int(1), Value::Bool(true)]),
        Value::Bools(&[true]),
        Value::Ints(&[1, 2]),
        Value::Floats(&[1.0, f64::NAN]),
        Value::Map(&[("GET", Value::Int(1)), ("a", Value::Int(1)), ("GET", Value::Int(2))]),
        Value::Map(&[("GET", Value::Int(2))]),
    ]);
    prop_oneof![
        4 => text.prop_map(Value::Str),
        1 => any::<bool>().prop_map(Value::Bool),
        2 => int.prop_map(Value::Int),
        2 => float.prop_map(Value::Float),
        2 => other,
    ]
}

fn set_of(pairs: &[Pair]) -> AttributeSet {
    AttributeSet::new(pairs.iter().copied())
}

fn written(set: &AttributeSet, tag: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    set.write(tag, &mut bytes);
    bytes
}

/// Encodes attributes for a comparison: as values, NaN differs from itself and −0 equals 0.
fn encoded(attributes: &[KeyValue]) -> Vec<Vec<u8>> {
    attributes.iter().map(Message::encode_to_vec).collect()
}

fn has_a_key_twice(pairs: &[Pair]) -> bool {
    let welcome = pairs.iter().filter(|(key, _)| !key.is_empty());
    welcome.count() != model(pairs).len()
}

proptest! {
    #[test]
    fn a_set_is_written_sorted_with_the_last_of_each_key(pairs in any_pairs()) {
        let set = set_of(&pairs);
        let expected = model(&pairs);
        prop_assert_eq!((set.len(), set.is_empty()), (expected.len(), expected.is_empty()));
        for tag in [0x0a, 0x3a, 0x4a] {
            let fields: Vec<_> = expected.iter().flat_map(|attribute| {
                let mut field = vec![tag];
                attribute.encode_length_delimited(&mut field).unwrap();
                field
            }).collect();
            prop_assert_eq!(written(&set, tag), fields);
        }
    }

    #[test]
    fn sets_are_equal_if_the_model_says_so(one in any_pairs(), other in any_pairs()) {
        let are_same = encoded(&model(&one)) == encoded(&model(&other));
        prop_assert_eq!(set_of(&one) == set_of(&other), are_same);
        prop_assert_eq!(set_of(&one).equals(&other), are_same && !has_a_key_twice(&other));
    }

    #[test]
    fn the_order_of_pairs_does_not_matter(
        (pairs, shuffled) in any_pairs().prop_flat_map(|pairs| (Just(pairs.clone()), Just(pairs).prop_shuffle())),
        seed in any::<u64>(),
    ) {
        prop_assert_eq!(AttributeSet::hash(&pairs, seed), AttributeSet::hash(&shuffled, seed));
        if !has_a_key_twice(&pairs) {
            prop_assert!(set_of(&pairs).equals(&shuffled));
            prop_assert_eq!(set_of(&pairs), set_of(&shuffled));
            prop_assert_eq!(set_of(&pairs).hash_of(seed), AttributeSet::hash(&shuffled, seed));
        }
    }

    #[test]
    fn one_changed_pair_makes_another_set(
        pairs in any_pairs(),
        index in any::<prop::sample::Index>(),
        value in any_attribute_value(),
    ) {
        prop_assume!(!pairs.is_empty() && !has_a_key_twice(&pairs));
        let mut changed = pairs.clone();
        index.get_mut(&mut changed).1 = value;
        let are_same = encoded(&model(&pairs)) == encoded(&model(&changed));
        prop_assert_eq!(set_of(&pairs).equals(&changed), are_same);
        let hashes = [&pairs, &changed].map(|pairs| AttributeSet::hash(pairs, SEED));
        prop_assert_eq!(hashes[0] == hashes[1], are_same);
    }
}

/// Returns the hash in the digest of the pairs, and whether the set has their values; `None` without a digest.
fn found_by_digest<const N: usize>(
    set: &AttributeSet,
    pattern: &Pattern,
    pairs: &[Pair],
) -> Option<(u64, bool)> {
    let pairs: &[Pair; N] = pairs.try_into().unwrap();
    pattern.digest(pairs).map(|digest| (digest.hash, set.has(&digest, pairs)))
}

proptest! {
    #[test]
    fn pairs_that_follow_a_pattern_are_known_by_their_values(
        first in any_pairs(),
        values in prop::collection::vec(any_attribute_value(), 7),
        other in any_pairs(),
    ) {
        let set = set_of(&first);
        let pattern = Pattern::of(&set, SEED);
        prop_assert!(pattern.is_of(&set));
        let names: Vec<_> = first.iter().map(|(key, _)| *key).collect();
        let same_keys: Vec<Pair> = names.into_iter().zip(values).collect();
        for pairs in [&first, &same_keys, &other] {
            let follows = pattern.is_of(&set_of(pairs)) && set_of(pairs).len() == pairs.len();
            prop_assert_eq!(pattern.hash(pairs), follows.then(|| AttributeSet::hash(pairs, SEED)));
            if follows {
                prop_assert_eq!(set.has_values(pairs), set.equals(pairs));
            }
            let found = match pairs.len() {
                1 => found_by_digest::<1>(&set, &pattern, pairs),
                2 => found_by_digest::<2>(&set, &pattern, pairs),
                3 => found_by_digest::<3>(&set, &pattern, pairs),
                4 => found_by_digest::<4>(&set, &pattern, pairs),
                _ => continue,
            };
            prop_assert_eq!(found, pattern.hash(pairs).map(|hash| (hash, set.has_values(pairs))));
        }
    }
}

#[test]
fn no_pairs_make_the_empty_set() {
    let empty = AttributeSet::default();
    assert_eq!(set_of(&[]), empty);
    assert!(
        empty.equals(&[]) && empty.equals(&[("", Value::Int(1))]) && !empty.equals(&[("a", Value::Int(1))])
    );
    assert_eq!(empty.hash_of(SEED), AttributeSet::hash(&[], SEED));
}

#[test]
fn a_pair_that_is_given_twice_is_not_taken_for_two() {
    let set = set_of(&[("a", Value::Int(1)), ("b", Value::Int(2))]);
    assert!(!set.equals(&[("a", Value::Int(1)), ("a", Value::Int(1))]));
    assert!(!set.equals(&[("a", Value::Int(1)), ("b", Value::Int(2)), ("b", Value::Int(2))]));
}

#[test]
fn a_text_that_reads_like_another_value_is_not_taken_for_it() {
    let text = std::str::from_utf8(b"\x3a\x03GET").unwrap();
    let set = set_of(&[("a", Value::Str(text))]);
    assert!(set.equals(&[("a", Value::Str(text))]));
    assert_eq!(encode(&Value::Bytes(b"GET")), text.as_bytes());
    assert!(!set.equals(&[("a", Value::Bytes(b"GET"))]));
    assert!(!set_of(&[("a", Value::Bytes(b"GET"))]).equals(&[("a", Value::Str(text))]));
}

#[test]
fn a_value_nested_too_deeply_is_left_out_everywhere() {
    let deepest = (0..MAX_DEPTH).fold(Value::Int(1), |value, _| Value::Array(vec![value].leak()));
    let too_deep = Value::Array(vec![deepest].leak());
    let pairs = [("a", Value::Int(1)), ("b", too_deep), ("c", deepest)];
    let set = set_of(&pairs);
    assert_eq!(set, set_of(&[pairs[0], pairs[2]]));
    assert!(set.equals(&pairs));
    assert_eq!(set.hash_of(SEED), AttributeSet::hash(&pairs, SEED));
    assert_eq!(set_of(&[("a", Value::Int(1)), ("a", too_deep)]), set_of(&[("a", Value::Int(1))]));
}

#[test]
fn hashes_of_similar_sets_are_spread_evenly() {
    // A hash table uses the lowest and the highest bits of a hash.
    let mut lower = [0u32; 256];
    let mut upper = [0u32; 256];
    for number in 0..16_384i64 {
        let name = format!("host-{}", number / 128);
        let pairs = [("shard", Value::Int(number % 128)), ("host", Value::Str(&name))];
        let hash = AttributeSet::hash(&pairs, SEED);
        lower[hash as usize % 256] += 1;
        upper[(hash >> 56) as usize] += 1;
    }
    // The expected count is 64. A good hash exceeds these limits once in millions of seeds.
    assert!(lower.iter().chain(&upper).all(|count| (16..128).contains(count)), "{lower:?}\n{upper:?}");
}

#[test]
fn key_and_value_do_not_run_into_each_other() {
    let hash = |key, value| AttributeSet::hash(&[(key, Value::Str(value))], SEED);
    assert_ne!(hash("ab", "c"), hash("a", "bc"));
    let swapped = [[("a", "x"), ("b", "y")], [("a", "y"), ("b", "x")]]
        .map(|pairs| AttributeSet::hash(&pairs.map(|(key, value)| (key, Value::Str(value))), SEED));
    assert_ne!(swapped[0], swapped[1]);
    let pairs = [("a", Value::Int(1))];
    assert_ne!(AttributeSet::hash(&pairs, 1), AttributeSet::hash(&pairs, 2), "the seed counts");
}
