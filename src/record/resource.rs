//! The source of the telemetry: the resource (attributes of the program, sent with every request) and the scope (a
//! named part of the program).

use std::fmt;
use std::sync::Arc;

use super::attribute::{Attribute, key_of_field};
use super::schema::tag;
use super::slot::{RESOURCE_TAG, SCOPE_TAG};
use super::wire::{Fields, Raw, encode_field};
use super::{IntoValue, Signal, Value, instance_id};
#[cfg(all(feature = "spool", target_os = "linux"))]
use super::{content, frames};

const INSTANCE_ID: &str = "service.instance.id";

/// The attributes of the program. If a key is set twice, the last value counts.
#[derive(Clone, Default, PartialEq)]
pub(crate) struct Resource {
    /// Each attribute as an encoded field of the message.
    attributes: Vec<Vec<u8>>,
    /// Schema to which the attributes conform; empty if unknown.
    pub(crate) schema_url: String,
}

/// Sets one attribute in a list of encoded fields. Empty keys are ignored, and so are values that are nested so deeply
/// that collectors would refuse every request.
fn set(attributes: &mut Vec<Vec<u8>>, tag: u8, key: &str, value: Value<'_>) {
    let Some(attribute) = Attribute::new(key, value, None) else { return };
    let field = attribute.to_field(tag);
    // A linear search suffices: a resource has few attributes, and each process encodes it once.
    match attributes.iter_mut().find(|known| key_of_field(known) == key.as_bytes()) {
        Some(known) => *known = field,
        None => attributes.push(field),
    }
}

impl Resource {
    /// Sets one attribute, unless its key is empty or its value is nested too deeply.
    pub(crate) fn set(&mut self, key: &str, value: Value<'_>) {
        set(&mut self.attributes, tag::Resource::attributes, key, value);
    }

    /// Sets an attribute unless its key is already set.
    pub(crate) fn set_default(&mut self, key: &str, value: Value<'_>) {
        if !self.attributes.iter().any(|known| key_of_field(known) == key.as_bytes()) {
            self.set(key, value);
        }
    }

    /// Sets the attributes that OTLP expects of every program: the service name if it is missing or empty, the id of
    /// this process if it is missing, and the attributes of this SDK. Removes an empty id, so that no id is sent.
    pub(crate) fn with_defaults(mut self) -> Self {
        if self.get_str("service.name").is_none_or(str::is_empty) {
            self.set("service.name", Value::Str(&unknown_service()));
        }
        match self.get_str(INSTANCE_ID) {
            Some("") => self.attributes.retain(|known| key_of_field(known) != INSTANCE_ID.as_bytes()),
            _ => self.set_default(INSTANCE_ID, Value::Str(&instance_id())),
        }
        // Set even if the program has set them: these attributes name the library that made the records.
        self.set("telemetry.sdk.language", Value::Str("rust"));
        self.set("telemetry.sdk.name", Value::Str("standpipe"));
        self.set("telemetry.sdk.version", Value::Str(env!("CARGO_PKG_VERSION")));
        self
    }

    /// Encodes the resource as field 1 of `ResourceSpans`, followed by its schema URL.
    pub(crate) fn field(&self) -> Vec<u8> {
        with_schema(&self.attributes.concat(), &self.schema_url)
    }

    /// Returns every key with its value as text, for display: `…` for bytes, arrays and maps.
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
        text_of(self.attributes.iter().map(Vec::as_slice), key)
    }
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.shown()).finish()
    }
}

/// Returns the value of the attribute with this key, if it is a string.
fn text_of<'f>(mut attributes: impl Iterator<Item = &'f [u8]>, key: &str) -> Option<&'f str> {
    match value_of_field(attributes.find(|field| key_of_field(field) == key.as_bytes())?)? {
        (1, Raw::Bytes(text)) => std::str::from_utf8(text).ok(),
        _ => None,
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
    text_of(frames(content(field).unwrap_or_default()), "service.name").unwrap_or_default()
}

fn unknown_service() -> String {
    program_name().map_or_else(|| "unknown_service".to_owned(), |name| format!("unknown_service:{name}"))
}

/// Returns the name of the program's file.
pub(crate) fn program_name() -> Option<String> {
    let name = std::env::current_exe().ok()?.file_name()?.to_string_lossy().into_owned();
    // Linux marks the path of a program whose file was replaced or deleted since the start.
    Some(name.strip_suffix(" (deleted)").map(str::to_owned).unwrap_or(name))
}

/// A named part of the program, encoded once and shared by all of its records.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Scope {
    pub(crate) signal: Signal,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) schema_url: String,
    /// The encoded `InstrumentationScope` as field 1 of `ScopeSpans`, and other fields that precede the records.
    pub(super) field: Vec<u8>,
    /// Encoded fields of `ResourceSpans` that replace the exporter's resource, if the scope has its own.
    resource: Option<Arc<[u8]>>,
    /// `field` and `resource`, encoded as the header of a run of records in the flight recorder.
    run_header: Vec<u8>,
}

impl Scope {
    /// Makes a scope of a request that was read from the spool: the scope has encoded fields, but no name.
    pub(super) fn of_request(signal: Signal, field: Vec<u8>, resource: Arc<[u8]>) -> Self {
        Self::of_fields(signal, <[String; 3]>::default(), field, Some(resource))
    }

    fn of_fields(signal: Signal, texts: [String; 3], field: Vec<u8>, resource: Option<Arc<[u8]>>) -> Self {
        let [name, version, schema_url] = texts;
        let run_header = run_header(&field, resource.as_deref());
        Self { signal, name, version, schema_url, field, resource, run_header }
    }

    /// Returns the header of a run of the scope's records in the flight recorder.
    pub(crate) fn run_header(&self) -> &[u8] {
        &self.run_header
    }

    /// Returns the encoded fields that precede the scope's records.
    pub(crate) fn field(&self) -> &[u8] {
        &self.field
    }

    /// Returns the scope's own encoded resource; `None` if the exporter's resource applies.
    pub(crate) fn resource(&self) -> Option<&[u8]> {
        self.resource.as_deref()
    }
}

/// Returns the scope and its own resource as they precede its records in a slot of the flight recorder.
fn run_header(scope: &[u8], resource: Option<&[u8]>) -> Vec<u8> {
    let mut header = Vec::new();
    if cfg!(all(feature = "spool", target_os = "linux")) {
        resource.into_iter().for_each(|resource| encode_field(RESOURCE_TAG, resource, &mut header));
        encode_field(SCOPE_TAG, scope, &mut header);
    }
    header
}

/// A part of the program, by convention a crate, for which a tracer, a logger or a meter makes records. A plain name is
/// sufficient in most cases.
///
/// ```
/// use standpipe::{Config, Scope, Telemetry};
///
/// let telemetry = Telemetry::start(Config::new())?;
/// let scope = Scope::new("shop.cart")
///     .version("1.2.0")
///     .schema_url("https://opentelemetry.io/schemas/1.37.0")
///     .set("shop.team", "checkout");
/// let (tracer, logger, meter) = (telemetry.tracer(&scope), telemetry.logger(&scope), telemetry.meter(&scope));
/// let plain = telemetry.tracer("shop.cart"); // another scope, without a version
/// # let _ = (tracer, logger, meter, plain);
/// # Ok::<(), standpipe::ConfigError>(())
/// ```
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct ScopeBuilder<'a> {
    pub(crate) name: &'a str,
    pub(crate) version: &'a str,
    pub(crate) schema_url: &'a str,
    /// Each attribute as an encoded field of `InstrumentationScope`.
    pub(crate) attributes: Vec<Vec<u8>>,
}

impl<'a> ScopeBuilder<'a> {
    /// Returns a scope with this name.
    pub fn new(name: &'a str) -> Self {
        Self { name, ..Self::default() }
    }

    /// Sets the version of this part of the program.
    pub fn version(self, version: &'a str) -> Self {
        Self { version, ..self }
    }

    /// Sets the URL of the schema to which the names of the records conform.
    pub fn schema_url(self, schema_url: &'a str) -> Self {
        Self { schema_url, ..self }
    }

    /// Sets an attribute, which is sent once with each group of records of this scope. A second value for the same key
    /// replaces the first.
    pub fn set(mut self, key: &str, value: impl IntoValue) -> Self {
        value
            .with_value(|value| set(&mut self.attributes, tag::InstrumentationScope::attributes, key, value));
        self
    }

    /// Adds an attribute of another SDK, which has applied its own rules.
    #[cfg(feature = "opentelemetry")]
    pub(crate) fn put(&mut self, key: &str, value: Value<'_>) {
        self.attributes
            .push(Attribute::unchecked(key, value, None).to_field(tag::InstrumentationScope::attributes));
    }

    /// Encodes the scope. Its records are sent with `resource`; `None` means the exporter's resource.
    pub(crate) fn into_scope(self, signal: Signal, resource: Option<Arc<[u8]>>) -> Scope {
        let mut message = Vec::new();
        let texts = [
            (tag::InstrumentationScope::name, self.name),
            (tag::InstrumentationScope::version, self.version),
        ];
        for (tag, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
            encode_field(tag, text.as_bytes(), &mut message);
        }
        message.extend(self.attributes.concat());
        let field = with_schema(&message, self.schema_url);
        let texts = [self.name, self.version, self.schema_url].map(str::to_owned);
        Scope::of_fields(signal, texts, field, resource)
    }
}

/// A scope with only a name, which may be any kind of text.
impl<'a, T: AsRef<str> + ?Sized> From<&'a T> for ScopeBuilder<'a> {
    fn from(name: &'a T) -> Self {
        Self::new(name.as_ref())
    }
}

impl<'a> From<&ScopeBuilder<'a>> for ScopeBuilder<'a> {
    fn from(scope: &ScopeBuilder<'a>) -> Self {
        scope.clone()
    }
}

/// Encodes a resource or a scope as a field, followed by its schema URL.
fn with_schema(message: &[u8], schema_url: &str) -> Vec<u8> {
    let mut fields = Vec::new();
    encode_field(tag::ResourceSpans::resource, message, &mut fields);
    if !schema_url.is_empty() {
        encode_field(tag::ResourceSpans::schema_url, schema_url.as_bytes(), &mut fields);
    }
    fields
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
