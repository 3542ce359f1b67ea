//! The instrumentation scope: who in the program speaks.

use std::sync::Arc;

use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use prost::Message;

use super::Signal;

/// A named part of the program, encoded once and shared by all of its records.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Scope {
    pub(crate) signal: Signal,
    pub(crate) name: String,
    pub(crate) version: String,
    /// `InstrumentationScope` as field 1 of `ScopeSpans`, and what else stands in front of its records.
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

    /// The scope as it stands in front of its records.
    pub(crate) fn field(&self) -> &[u8] {
        &self.field
    }

    /// Its own resource; `None` if it has the exporter's.
    pub(crate) fn resource(&self) -> Option<&[u8]> {
        self.resource.as_deref()
    }
}
