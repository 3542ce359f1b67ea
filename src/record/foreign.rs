//! Fields that only records of another SDK have: their own resource, scopes with attributes and schema URLs, the
//! number of items that the other SDK dropped, and unknown severities and times.

use std::sync::Arc;

use super::attribute::Attribute;
use super::resource::scope_message;
use super::wire::encode_field;
use super::{
    LogEnd, LogLimits, LogRecord, Resource, Scope, Severity, Signal, SpanHead, SpanLimits, SpanRecord, Value,
};

/// Tags of `schema_url` (the same for a resource and a scope) and of `InstrumentationScope.attributes`.
const SCHEMA_URL: u8 = 0x1a;
const ATTRIBUTES: u8 = 0x1a;
/// Tag of `ScopeSpans.scope`, `ScopeLogs.scope` and `ScopeMetrics.scope`.
const SCOPE: u8 = 0x0a;

/// No limits: the other SDK has already applied its own.
const NO_LIMITS: SpanLimits = SpanLimits {
    attributes: u32::MAX,
    events: u32::MAX,
    links: u32::MAX,
    event_attributes: u32::MAX,
    link_attributes: u32::MAX,
    value_length: None,
};
const NO_LOG_LIMITS: LogLimits = LogLimits { attributes: u32::MAX, value_length: None };

/// A resource that is sent with its records instead of the exporter's resource.
#[derive(Debug, Clone)]
pub(crate) struct ForeignResource(Arc<[u8]>);

impl ForeignResource {
    /// Encodes a resource. `schema_url` may be empty.
    pub(crate) fn new(resource: &Resource, schema_url: &str) -> Self {
        let mut fields = resource.field();
        write_schema(schema_url, &mut fields);
        Self(fields.into())
    }
}

/// A scope with all its fields.
#[derive(Debug, Default)]
pub(crate) struct ForeignScope {
    name: String,
    version: String,
    /// The encoded `InstrumentationScope`.
    message: Vec<u8>,
    schema_url: String,
}

impl ForeignScope {
    /// Makes a scope. `version` and `schema_url` may be empty.
    pub(crate) fn new(name: &str, version: &str, schema_url: &str) -> Self {
        Self {
            name: name.to_owned(),
            version: version.to_owned(),
            message: scope_message(name, version),
            schema_url: schema_url.to_owned(),
        }
    }

    /// Adds an attribute.
    pub(crate) fn set(&mut self, key: &str, value: Value<'_>) {
        self.message.extend(Attribute::unchecked(key, value, None).to_field(ATTRIBUTES));
    }

    /// Finishes the scope. Its records are sent with `resource`, or with the exporter's resource if it is `None`.
    pub(crate) fn into_scope(self, signal: Signal, resource: Option<&ForeignResource>) -> Scope {
        let Self { name, version, message, schema_url } = self;
        let mut field = Vec::new();
        encode_field(SCOPE, &message, &mut field);
        write_schema(&schema_url, &mut field);
        Scope::of_fields(signal, name, version, field, resource.map(|resource| Arc::clone(&resource.0)))
    }
}

fn write_schema(url: &str, fields: &mut Vec<u8>) {
    if !url.is_empty() {
        encode_field(SCHEMA_URL, url.as_bytes(), fields);
    }
}

/// Numbers of items that another SDK dropped from a span because of its limits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DroppedBefore {
    pub(crate) attributes: u32,
    pub(crate) events: u32,
    pub(crate) links: u32,
}

impl SpanRecord {
    /// Like [`begin`](Self::begin), but without limits.
    pub(crate) fn begin_foreign(&mut self, head: &SpanHead<'_>, max_bytes: usize) {
        self.limit(&NO_LIMITS, max_bytes);
        self.begin(head);
    }

    /// Adds the numbers of items that the other SDK dropped. Must be the last call before the end of a span.
    pub(crate) fn add_dropped(&mut self, before: DroppedBefore) {
        let DroppedBefore { attributes, events, links } = before;
        self.attributes.dropped = self.attributes.dropped.saturating_add(attributes);
        self.dropped_events = self.dropped_events.saturating_add(events);
        self.dropped_links = self.dropped_links.saturating_add(links);
    }

    /// Ends the open event or link, from which the other SDK dropped this number of `attributes`.
    pub(crate) fn close_sub_message_with_dropped(&mut self, attributes: u32) {
        if let Some(part) = &mut self.attributes.sub_message {
            part.dropped = part.dropped.saturating_add(attributes);
        }
        self.close_sub_message();
    }
}

impl LogRecord {
    /// Like [`begin`](Self::begin), but without limits. The body is optional.
    pub(crate) fn begin_foreign(&mut self, body: Option<Value<'_>>, max_bytes: usize) {
        self.begin(&NO_LOG_LIMITS, max_bytes);
        if let Some(body) = body {
            self.set_body(body);
        }
    }

    /// Like [`finish`](Self::finish), for a record whose severity may be unknown. A time of 0 means that the time is
    /// unknown.
    pub(crate) fn finish_foreign(&mut self, severity: Option<Severity>, end: &LogEnd) -> Option<&[u8]> {
        self.write_end(severity.map_or(0, Severity::number), end)
    }
}
