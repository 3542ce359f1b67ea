//! What produces the telemetry? The resource, attributes of the program sent with every request, and the scope, a named
//! part of the program.

use opentelemetry_proto::tonic::common::v1::any_value::Value as ProtoValue;
use std::sync::Arc;

use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, InstrumentationScope, KeyValue, KeyValueList,
};
use prost::Message;

use opentelemetry_proto::tonic::resource::v1 as proto;

use super::attribute::is_too_deep;
use super::{Signal, Value};

/// The attributes of the program itself; of a key set twice the last value counts.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Resource {
    attributes: Vec<KeyValue>,
}

impl Resource {
    /// Sets one attribute. An empty key is ignored, and so is a value nested so deeply that collectors would refuse
    /// every request for it.
    pub(crate) fn set(&mut self, key: &str, value: Value<'_>) {
        if key.is_empty() || is_too_deep(&value) {
            return;
        }
        let value = Some(owned(value));
        match self.attributes.iter_mut().find(|known| known.key == key) {
            Some(known) => known.value = value,
            None => self.attributes.push(KeyValue { key: key.to_owned(), value, ..Default::default() }),
        }
    }

    /// Adds what OTLP expects of every program: a service name, if it has none, and the name of this SDK.
    pub(crate) fn with_defaults(mut self) -> Self {
        if self.get_str("service.name").is_none_or(str::is_empty) {
            self.set("service.name", Value::Str(&unknown_service()));
        }
        self.set("telemetry.sdk.language", Value::Str("rust"));
        self.set("telemetry.sdk.name", Value::Str("standpipe"));
        self.set("telemetry.sdk.version", Value::Str(env!("CARGO_PKG_VERSION")));
        self
    }

    /// The resource as field 1 of `ResourceSpans`.
    pub(crate) fn field(&self) -> Vec<u8> {
        let resource = proto::Resource { attributes: self.attributes.clone(), ..Default::default() };
        let mut field = Vec::new();
        prost::encoding::message::encode(1, &resource, &mut field);
        field
    }

    /// Every key with its value, for people.
    pub(crate) fn shown(&self) -> impl Iterator<Item = (&str, String)> {
        self.attributes.iter().map(|attribute| {
            let value = attribute.value.as_ref().and_then(|value| value.value.as_ref());
            let shown = match value {
                Some(ProtoValue::StringValue(text)) => text.clone(),
                Some(ProtoValue::BoolValue(boolean)) => boolean.to_string(),
                Some(ProtoValue::IntValue(number)) => number.to_string(),
                Some(ProtoValue::DoubleValue(number)) => number.to_string(),
                _ => "…".to_owned(),
            };
            (attribute.key.as_str(), shown)
        })
    }

    /// The value of a key, if it is set to a string.
    pub(crate) fn get_str(&self, key: &str) -> Option<&str> {
        let known = self.attributes.iter().find(|known| known.key == key)?;
        match known.value.as_ref()?.value.as_ref()? {
            ProtoValue::StringValue(text) => Some(text),
            _ => None,
        }
    }
}

fn unknown_service() -> String {
    let program = std::env::current_exe().ok();
    let name = program.as_deref().and_then(|path| path.file_name());
    match name {
        Some(name) => format!("unknown_service:{}", name.to_string_lossy()),
        None => "unknown_service".to_owned(),
    }
}

pub(super) fn owned(value: Value<'_>) -> AnyValue {
    fn array<T: Copy>(values: &[T], wrap: impl Fn(T) -> ProtoValue) -> ProtoValue {
        let values = values.iter().map(|value| AnyValue { value: Some(wrap(*value)) }).collect();
        ProtoValue::ArrayValue(ArrayValue { values })
    }
    let value = match value {
        Value::Str(text) => ProtoValue::StringValue(text.to_owned()),
        Value::Bool(boolean) => ProtoValue::BoolValue(boolean),
        Value::Int(number) => ProtoValue::IntValue(number),
        Value::Float(number) => ProtoValue::DoubleValue(number),
        Value::Bytes(bytes) => ProtoValue::BytesValue(bytes.to_vec()),
        Value::Array(values) => {
            ProtoValue::ArrayValue(ArrayValue { values: values.iter().map(|value| owned(*value)).collect() })
        }
        Value::Strs(values) => array(values, |text: &str| ProtoValue::StringValue(text.to_owned())),
        Value::Bools(values) => array(values, ProtoValue::BoolValue),
        Value::Ints(values) => array(values, ProtoValue::IntValue),
        Value::Floats(values) => array(values, ProtoValue::DoubleValue),
        Value::Map(entries) => {
            let mut list: Vec<KeyValue> = Vec::with_capacity(entries.len());
            for (key, value) in entries {
                list.retain(|known| known.key != *key);
                list.push(KeyValue {
                    key: (*key).to_owned(),
                    value: Some(owned(*value)),
                    ..Default::default()
                });
            }
            ProtoValue::KvlistValue(KeyValueList { values: list })
        }
    };
    AnyValue { value: Some(value) }
}

/// A named part of the program, encoded once and shared by all of its records.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Scope {
    pub(crate) signal: Signal,
    pub(crate) name: String,
    pub(crate) version: String,
    /// `InstrumentationScope` as field 1 of `ScopeSpans`, and the other fields in front of its records.
    pub(super) field: Vec<u8>,
    /// What goes with its records instead of the exporter's resource: fields of `ResourceSpans`.
    pub(super) resource: Option<Arc<[u8]>>,
}

impl Scope {
    pub(crate) fn new(signal: Signal, name: &str, version: &str) -> Self {
        let scope =
            InstrumentationScope { name: name.to_owned(), version: version.to_owned(), ..Default::default() };
        let mut field = Vec::new();
        prost::encoding::message::encode(1, &scope, &mut field);
        debug_assert!(field.len() > scope.encoded_len());
        Self { signal, name: name.to_owned(), version: version.to_owned(), field, resource: None }
    }

    /// The fields in front of its records.
    pub(crate) fn field(&self) -> &[u8] {
        &self.field
    }

    /// Its own resource; `None` if it has the exporter's.
    pub(crate) fn resource(&self) -> Option<&[u8]> {
        self.resource.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;
    use crate::record::attribute::MAX_DEPTH;

    /// The attributes in the field, read back.
    fn decoded(resource: &Resource) -> Vec<KeyValue> {
        let field = resource.field();
        assert_eq!(field[0], 0x0a, "the tag of ResourceSpans.resource");
        proto::Resource::decode_length_delimited(&field[1..]).unwrap().attributes
    }

    fn keys(resource: &Resource) -> Vec<String> {
        decoded(resource).into_iter().map(|attribute| attribute.key).collect()
    }

    #[test]
    fn of_a_key_set_twice_the_last_value_counts() {
        let mut resource = Resource::default();
        resource.set("a", Value::Int(1));
        resource.set("b", Value::Bool(true));
        resource.set("a", Value::Str("last"));
        assert_eq!((keys(&resource), resource.get_str("a")), (vec!["a".into(), "b".into()], Some("last")));
    }

    #[test]
    fn values_that_would_spoil_every_request_are_ignored() {
        let mut resource = Resource::default();
        let deepest = (0..MAX_DEPTH).fold(Value::Int(1), |value, _| Value::Array(vec![value].leak()));
        resource.set("deepest", deepest);
        resource.set("too deep", Value::Array(&[deepest]));
        resource.set("", Value::Int(1));
        assert_eq!(keys(&resource), ["deepest"]);
    }

    #[test]
    fn every_kind_of_value_is_kept() {
        let mut resource = Resource::default();
        let inner = [("k", Value::Int(1)), ("k", Value::Floats(&[0.5, f64::INFINITY]))];
        resource.set("map", Value::Map(&inner));
        resource.set("array", Value::Array(&[Value::Bytes(&[0, 255]), Value::Bools(&[true, false])]));
        resource.set("strings", Value::Strs(&["", "é"]));
        resource.set("integers", Value::Ints(&[i64::MIN, i64::MAX]));
        let any = |value| AnyValue { value: Some(value) };
        let list = |values| ProtoValue::ArrayValue(ArrayValue { values });
        let floats = [0.5, f64::INFINITY].map(|float| any(ProtoValue::DoubleValue(float)));
        let entry = KeyValue { key: "k".into(), value: Some(any(list(floats.into()))), ..Default::default() };
        let bools = [true, false].map(|boolean| any(ProtoValue::BoolValue(boolean)));
        let expected = [
            ProtoValue::KvlistValue(KeyValueList { values: vec![entry] }),
            list(vec![any(ProtoValue::BytesValue(vec![0, 255])), any(list(bools.into()))]),
            list(["", "é"].map(|text| any(ProtoValue::StringValue(text.into()))).into()),
            list([i64::MIN, i64::MAX].map(|number| any(ProtoValue::IntValue(number))).into()),
        ];
        let values: Vec<_> = decoded(&resource).into_iter().filter_map(|entry| entry.value?.value).collect();
        assert_eq!(values, expected);
    }
}
