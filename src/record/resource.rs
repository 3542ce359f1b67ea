//! The source of the telemetry: the resource (attributes of the program, sent with every request) and the scope (a
//! named part of the program).

use std::fmt;
use std::sync::Arc;

use super::attribute::{Attribute, key_of_field};
use super::wire::{Fields, Raw, encode_field};
#[cfg(all(feature = "spool", target_os = "linux"))]
use super::{RESOURCE_TAG, SCOPE_TAG, content, frames};
use super::{Signal, Value};

/// Tag of a `Resource` or an `InstrumentationScope` in the message that contains it, and tags of the fields of
/// `InstrumentationScope`.
const MESSAGE: u8 = 0x0a;
const NAME: u8 = 0x0a;
const VERSION: u8 = 0x12;
/// Tag of `Resource.attributes`.
const ATTRIBUTES: u8 = 0x0a;

/// The attributes of the program. If a key is set twice, the last value counts.
#[derive(Clone, Default, PartialEq)]
pub(crate) struct Resource {
    /// Each attribute as an encoded field of the message.
    attributes: Vec<Vec<u8>>,
}

impl Resource {
    /// Sets one attribute. Empty keys are ignored, and so are values that are nested so deeply that collectors would
    /// refuse every request.
    pub(crate) fn set(&mut self, key: &str, value: Value<'_>) {
        let Some(attribute) = Attribute::new(key, value, None) else { return };
        let field = attribute.to_field(ATTRIBUTES);
        match self.attributes.iter_mut().find(|known| key_of_field(known) == key.as_bytes()) {
            Some(known) => *known = field,
            None => self.attributes.push(field),
        }
    }

    /// Adds the attributes that OTLP expects of every program: the service name, if it is not set, and the name of
    /// this SDK.
    pub(crate) fn with_defaults(mut self) -> Self {
        if self.get_str("service.name").is_none_or(str::is_empty) {
            self.set("service.name", Value::Str(&unknown_service()));
        }
        self.set("telemetry.sdk.language", Value::Str("rust"));
        self.set("telemetry.sdk.name", Value::Str("standpipe"));
        self.set("telemetry.sdk.version", Value::Str(env!("CARGO_PKG_VERSION")));
        self
    }

    /// Encodes the resource as field 1 of `ResourceSpans`.
    pub(crate) fn field(&self) -> Vec<u8> {
        let mut field = Vec::new();
        encode_field(MESSAGE, &self.attributes.concat(), &mut field);
        field
    }

    /// Returns every key with its value as text, for display.
    pub(crate) fn shown(&self) -> impl Iterator<Item = (&str, String)> {
        self.attributes.iter().map(|field| {
            let shown = match value_of_field(field) {
                Some((1, Raw::Bytes(text))) => String::from_utf8_lossy(text).into_owned(),
                Some((2, Raw::Varint(boolean))) => (boolean != 0).to_string(),
                Some((3, Raw::Varint(number))) => (number as i64).to_string(),
                Some((4, Raw::Eight(number))) => f64::from_le_bytes(number).to_string(),
                _ => "…".to_owned(),
            };
            (std::str::from_utf8(key_of_field(field)).unwrap_or_default(), shown)
        })
    }

    /// Returns the value of a key if it is a string.
    pub(crate) fn get_str(&self, key: &str) -> Option<&str> {
        let known = self.attributes.iter().find(|known| key_of_field(known) == key.as_bytes())?;
        match value_of_field(known)? {
            (1, Raw::Bytes(text)) => std::str::from_utf8(text).ok(),
            _ => None,
        }
    }
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.shown()).finish()
    }
}

/// Returns the one field of the `AnyValue` in an attribute.
fn value_of_field(field: &[u8]) -> Option<(u32, Raw<'_>)> {
    let inside = |message, number| {
        Fields::of(message).flatten().find_map(|field| match field {
            (known, Raw::Bytes(bytes)) if known == number => Some(bytes),
            _ => None,
        })
    };
    Fields::of(inside(inside(field, 1)?, 2)?).next()?.ok()
}

/// Returns the `service.name` of a resource encoded by [`Resource::field`]; empty if it is not set to a string.
#[cfg(all(feature = "spool", target_os = "linux"))]
pub(crate) fn service_name(field: &[u8]) -> &str {
    let mut attributes = frames(content(field).unwrap_or_default());
    match attributes.find(|field| key_of_field(field) == b"service.name").and_then(value_of_field) {
        Some((1, Raw::Bytes(text))) => std::str::from_utf8(text).unwrap_or_default(),
        _ => "",
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

/// A named part of the program, encoded once and shared by all of its records.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Scope {
    pub(crate) signal: Signal,
    pub(crate) name: String,
    pub(crate) version: String,
    /// The encoded `InstrumentationScope` as field 1 of `ScopeSpans`, and other fields that precede the records.
    pub(super) field: Vec<u8>,
    /// Encoded fields of `ResourceSpans` that replace the exporter's resource, if the scope has its own.
    resource: Option<Arc<[u8]>>,
    /// `field` and `resource`, encoded as the header of a run of records in the flight recorder.
    run_header: Vec<u8>,
}

impl Scope {
    pub(crate) fn new(signal: Signal, name: &str, version: &str) -> Self {
        let mut field = Vec::new();
        encode_field(MESSAGE, &scope_message(name, version), &mut field);
        Self::of_fields(signal, name.to_owned(), version.to_owned(), field, None)
    }

    /// Makes the scope of a request that was read from the spool. It has its encoded fields, but no name.
    pub(super) fn of_request(signal: Signal, field: Vec<u8>, resource: Arc<[u8]>) -> Self {
        Self::of_fields(signal, String::new(), String::new(), field, Some(resource))
    }

    pub(super) fn of_fields(
        signal: Signal,
        name: String,
        version: String,
        field: Vec<u8>,
        resource: Option<Arc<[u8]>>,
    ) -> Self {
        let run_header = run_header(&field, resource.as_deref());
        Self { signal, name, version, field, resource, run_header }
    }

    /// Returns the header of a run of its records in the flight recorder.
    pub(crate) fn run_header(&self) -> &[u8] {
        &self.run_header
    }

    /// Returns the encoded fields that precede its records.
    pub(crate) fn field(&self) -> &[u8] {
        &self.field
    }

    /// Returns the scope's own encoded resource; `None` if the exporter's resource applies.
    pub(crate) fn resource(&self) -> Option<&[u8]> {
        self.resource.as_deref()
    }
}

#[cfg(all(feature = "spool", target_os = "linux"))]
fn run_header(scope: &[u8], resource: Option<&[u8]>) -> Vec<u8> {
    let mut header = Vec::new();
    if let Some(resource) = resource {
        encode_field(RESOURCE_TAG, resource, &mut header);
    }
    encode_field(SCOPE_TAG, scope, &mut header);
    header
}

#[cfg(not(all(feature = "spool", target_os = "linux")))]
fn run_header(_: &[u8], _: Option<&[u8]>) -> Vec<u8> {
    Vec::new()
}

/// Encodes an `InstrumentationScope` with name and version.
pub(super) fn scope_message(name: &str, version: &str) -> Vec<u8> {
    let mut message = Vec::new();
    for (tag, text) in [(NAME, name), (VERSION, version)].into_iter().filter(|(_, text)| !text.is_empty()) {
        encode_field(tag, text.as_bytes(), &mut message);
    }
    message
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::common::v1::any_value::Value as ProtoValue;
    use opentelemetry_proto::tonic::common::v1::{
        AnyValue, ArrayValue, InstrumentationScope, KeyValue, KeyValueList,
    };
    use opentelemetry_proto::tonic::resource::v1 as proto;
    use prost::Message;

    use super::*;
    use crate::record::attribute::MAX_DEPTH;

    /// Reads the attributes back from the field.
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

    #[test]
    fn a_resource_is_shown_as_people_write_it() {
        let mut resource = Resource::default();
        let values =
            [Value::Str("é"), Value::Bool(true), Value::Int(-7), Value::Float(0.5), Value::Ints(&[1])];
        for (key, value) in ["a", "b", "c", "d", "e"].into_iter().zip(values) {
            resource.set(key, value);
        }
        let shown: Vec<_> = resource.shown().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(shown, ["a=é", "b=true", "c=-7", "d=0.5", "e=…"]);
        assert_eq!((resource.get_str("a"), resource.get_str("c")), (Some("é"), None));
    }

    #[test]
    fn a_scope_has_a_name_and_perhaps_a_version() {
        for (name, version) in [("shop", ""), ("shop", "1.2"), ("", "")] {
            let scope = Scope::new(Signal::Traces, name, version);
            let expected =
                InstrumentationScope { name: name.into(), version: version.into(), ..Default::default() };
            assert_eq!(InstrumentationScope::decode_length_delimited(&scope.field()[1..]).unwrap(), expected);
            assert_eq!(scope.field()[0], 0x0a, "the tag of ScopeSpans.scope");
        }
    }
}
