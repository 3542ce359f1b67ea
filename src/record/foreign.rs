//! What records that another SDK has made say beyond the program's own: a resource and a scope in full, and how much
//! was dropped before they came here.

use std::sync::Arc;

use opentelemetry_proto::tonic::common::v1::{InstrumentationScope, KeyValue};

use super::resource::owned;
use super::{Resource, Scope, Signal, Value};

/// Field number of `schema_url`, of a resource and of a scope alike.
const SCHEMA_URL: u32 = 3;

/// A resource that goes with its records, whatever the exporter's is.
#[derive(Debug, Clone)]
pub(crate) struct ForeignResource(Arc<[u8]>);

impl ForeignResource {
    /// The address of its schema may be empty.
    pub(crate) fn new(resource: &Resource, schema_url: &str) -> Self {
        let mut fields = resource.field();
        write_schema(schema_url, &mut fields);
        Self(fields.into())
    }
}

/// All that can be said about a scope.
#[derive(Clone, Copy)]
pub(crate) struct ForeignScope<'a> {
    pub(crate) name: &'a str,
    /// Empty if there is none.
    pub(crate) version: &'a str,
    /// Empty if there is none.
    pub(crate) schema_url: &'a str,
    pub(crate) attributes: &'a [(&'a str, Value<'a>)],
    /// `None` for the exporter's.
    pub(crate) resource: Option<&'a ForeignResource>,
}

impl Scope {
    pub(crate) fn foreign(signal: Signal, scope: ForeignScope<'_>) -> Self {
        let attribute = |(key, value): &(&str, Value<'_>)| KeyValue {
            key: (*key).to_owned(),
            value: Some(owned(*value)),
            ..Default::default()
        };
        let message = InstrumentationScope {
            name: scope.name.to_owned(),
            version: scope.version.to_owned(),
            attributes: scope.attributes.iter().map(attribute).collect(),
            ..Default::default()
        };
        let mut field = Vec::new();
        prost::encoding::message::encode(1, &message, &mut field);
        write_schema(scope.schema_url, &mut field);
        let resource = scope.resource.map(|resource| Arc::clone(&resource.0));
        Self { signal, name: message.name, version: message.version, field, resource }
    }
}

fn write_schema(url: &str, fields: &mut Vec<u8>) {
    if !url.is_empty() {
        prost::encoding::string::encode(SCHEMA_URL, &url.to_owned(), fields);
    }
}
