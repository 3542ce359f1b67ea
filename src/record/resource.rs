//! What produces the telemetry: one set of attributes, sent with every request.

use opentelemetry_proto::tonic::common::v1::any_value::Value as ProtoValue;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValue, KeyValueList};

use super::Value;

/// The attributes of the program itself; of a key set twice the last value counts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Resource {
    attributes: Vec<KeyValue>,
}

impl Resource {
    /// Sets one attribute; an empty key is ignored.
    pub fn set(&mut self, key: &str, value: Value<'_>) {
        if key.is_empty() {
            return;
        }
        let value = Some(owned(value));
        match self.attributes.iter_mut().find(|known| known.key == key) {
            Some(known) => known.value = value,
            None => self.attributes.push(KeyValue { key: key.to_owned(), value, ..Default::default() }),
        }
    }

    /// The value of a key, if it is set to a string.
    pub fn get_str(&self, key: &str) -> Option<&str> {
        let known = self.attributes.iter().find(|known| known.key == key)?;
        match known.value.as_ref()?.value.as_ref()? {
            ProtoValue::StringValue(text) => Some(text),
            _ => None,
        }
    }
}

fn owned(value: Value<'_>) -> AnyValue {
    fn array<T: Copy>(values: &[T], wrap: impl Fn(T) -> ProtoValue) -> ProtoValue {
        let values = values.iter().map(|value| AnyValue { value: Some(wrap(*value)) }).collect();
        ProtoValue::ArrayValue(ArrayValue { values })
    }
    let value = match value {
        Value::Str(text) => ProtoValue::StringValue(text.to_owned()),
        Value::Bool(truth) => ProtoValue::BoolValue(truth),
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
