//! What produces the telemetry: one set of attributes, sent with every request.

use opentelemetry_proto::tonic::common::v1::any_value::Value as ProtoValue;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValue, KeyValueList};

use opentelemetry_proto::tonic::resource::v1 as proto;

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

    /// Adds what OTLP expects of every program, where it is not set: a service name and who exports.
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

    /// The value of a key, if it is set to a string.
    pub fn get_str(&self, key: &str) -> Option<&str> {
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
