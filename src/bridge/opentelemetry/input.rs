//! The common part of the exporters for the SDK: whether records are sent or counted, the shutdown, and the encoded
//! resource and scopes of the SDK. Also converts values of the SDK to borrowed [`Value`]s.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use opentelemetry::logs::AnyValue;
use opentelemetry::{Array, InstrumentationScope, StringValue};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};

use crate::context::{self, Suppression};
use crate::pipeline::exporter_set::{ExporterSet, FlushOutcome};
use crate::pipeline::ledger::NotEnqueuedReason;
use crate::record::{self, MAX_DEPTH, Scope, ScopeBuilder, Signal, Value};
use crate::telemetry::provider::Provider;
use crate::telemetry::scope_cache::ScopeCache;

/// Budget of a flush for which the SDK gives no timeout.
const FLUSH_BUDGET: Duration = Duration::from_secs(5);

/// Defines methods that the SDK's traits for exporters and processors share. Each calls the exporter's [`SdkInput`].
macro_rules! pass_to_input {
    (force_flush) => {
        fn force_flush(&self) -> OTelSdkResult {
            self.input.force_flush()
        }
    };
    (shutdown_with_timeout) => {
        fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
            self.input.shut_down(timeout)
        }
    };
    (set_resource) => {
        fn set_resource(&mut self, resource: &Resource) {
            self.input.scopes.set_resource(resource);
        }
    };
    ($($method:ident)+) => { $(pass_to_input! { $method })+ };
}
pub(super) use pass_to_input;

/// The connection of one exporter to a provider.
#[derive(Debug)]
pub(super) struct SdkInput {
    provider: Provider,
    signal: Signal,
    pub(super) scopes: Scopes,
    is_shut_down: AtomicBool,
}

/// How to treat records that the SDK exports.
#[derive(Debug, Clone, Copy)]
pub(super) enum Disposition {
    /// Enqueue the records. `largest` is the maximum size of a record.
    Sent {
        largest: usize,
    },
    Counted(NotEnqueuedReason),
}

impl SdkInput {
    pub(super) fn new(provider: &Provider, signal: Signal) -> Self {
        let scopes = Scopes::new(signal);
        Self { provider: provider.clone(), signal, scopes, is_shut_down: AtomicBool::new(false) }
    }

    pub(super) fn exporters(&self) -> &ExporterSet {
        self.provider.exporters()
    }

    /// Returns whether creating a record is of use: an exporter takes the signal, and the current thread does not run
    /// exporter code.
    pub(super) fn is_of_use(&self) -> bool {
        !context::runs_exporter_code() && self.exporters().largest_record(self.signal).is_some()
    }

    /// Calls `send_or_count` with the disposition of the records. Ignores records that no exporter takes, or that code
    /// of an exporter emits. Records are counted instead of sent if this exporter has been shut down, or if the program
    /// emits them on a thread that exports for the same telemetry. All other records are sent.
    pub(super) fn take(&self, send_or_count: impl FnOnce(Disposition)) -> OTelSdkResult {
        // Relaxed: a record that races with the shutdown may be enqueued or counted; both are correct.
        let is_over = self.is_shut_down.load(Ordering::Relaxed);
        let exporters = self.exporters();
        let suppression =
            if context::may_be_suppressed() { exporters.suppression() } else { Suppression::None };
        match (exporters.largest_record(self.signal), suppression) {
            (None, _) | (_, Suppression::Uncounted) => {}
            (Some(_), _) if is_over => send_or_count(Disposition::Counted(NotEnqueuedReason::AfterShutdown)),
            (Some(_), Suppression::Counted) => {
                send_or_count(Disposition::Counted(NotEnqueuedReason::Suppressed))
            }
            (Some(largest), Suppression::None) => send_or_count(Disposition::Sent { largest }),
        }
        if is_over { Err(OTelSdkError::AlreadyShutdown) } else { Ok(()) }
    }

    pub(super) fn force_flush(&self) -> OTelSdkResult {
        if self.is_shut_down.load(Ordering::Relaxed) {
            return Err(OTelSdkError::AlreadyShutdown);
        }
        self.flush(FLUSH_BUDGET)
    }

    /// Flushes the provider and rejects later records. Does not shut down the provider, which may have other users.
    pub(super) fn shut_down(&self, timeout: Duration) -> OTelSdkResult {
        if self.is_shut_down.swap(true, Ordering::Relaxed) {
            return Err(OTelSdkError::AlreadyShutdown);
        }
        self.flush(timeout)
    }

    fn flush(&self, budget: Duration) -> OTelSdkResult {
        // A flush on the thread of a worker would wait for that worker until the timeout.
        if context::may_be_suppressed() {
            return Err(OTelSdkError::InternalFailure(
                "an exporter's thread cannot wait for itself".to_owned(),
            ));
        }
        match self.provider.flush(budget) {
            FlushOutcome::Complete => Ok(()),
            FlushOutcome::TimedOut { .. } => Err(OTelSdkError::Timeout(budget)),
        }
    }
}

/// All scopes of an exporter, with their resource.
#[derive(Debug)]
pub(super) struct Scopes {
    signal: Signal,
    resource: Option<Arc<[u8]>>,
    /// Keyed by the SDK's scope and by the target of a log record. The target replaces the name of the scope.
    known: ScopeCache<(InstrumentationScope, Option<String>), Arc<Scope>>,
}

impl Scopes {
    pub(super) fn new(signal: Signal) -> Self {
        Self { signal, resource: None, known: ScopeCache::default() }
    }

    /// Sets the resource of later records. A default resource is ignored in favor of the provider's own.
    pub(super) fn set_resource(&mut self, resource: &Resource) {
        self.resource = (!is_default(resource)).then(|| encoded(resource));
        // Cached scopes contain the previous resource.
        self.known = ScopeCache::default();
    }

    /// Returns the scope, named after the target if there is one.
    pub(super) fn find(&self, scope: &InstrumentationScope, target: Option<&str>) -> Arc<Scope> {
        let is_it = |known: &(InstrumentationScope, Option<String>)| {
            known.0 == *scope && known.1.as_deref() == target
        };
        let make = || ((scope.clone(), target.map(str::to_owned)), Arc::new(self.make(scope, target)));
        self.known.get_or_make((scope, target), is_it, make).into_owned()
    }

    fn make(&self, scope: &InstrumentationScope, target: Option<&str>) -> Scope {
        let name = target.unwrap_or_else(|| scope.name());
        let (version, schema_url) = (scope.version().unwrap_or_default(), scope.schema_url());
        let mut made = ScopeBuilder::new(name).version(version).schema_url(schema_url.unwrap_or_default());
        for attribute in scope.attributes() {
            with_value(&attribute.value, |value| made.put(attribute.key.as_str(), value));
        }
        made.into_scope(self.signal, self.resource.clone())
    }
}

/// Returns whether the program has not set a resource: the SDK then sets only `telemetry.sdk.*` and a `service.name`
/// that begins with `unknown_service`.
fn is_default(resource: &Resource) -> bool {
    resource.iter().all(|(key, value)| match key.as_str() {
        "service.name" => value.as_str().starts_with("unknown_service"),
        key => key.starts_with("telemetry.sdk."),
    })
}

/// Encodes a resource in the order of its keys, so that equal resources have equal bytes.
fn encoded(resource: &Resource) -> Arc<[u8]> {
    let mut attributes: Vec<_> = resource.iter().collect();
    attributes.sort_unstable_by_key(|(key, _)| *key);
    let mut encoded = record::Resource::default();
    for (key, value) in attributes {
        with_value(value, |value| encoded.set(key.as_str(), value));
    }
    encoded.schema_url = resource.schema_url().unwrap_or_default().to_owned();
    encoded.field().into()
}

/// Calls `see` with an attribute value of a span, a scope or a resource.
pub(super) fn with_value<T>(value: &opentelemetry::Value, see: impl FnOnce(Value<'_>) -> T) -> T {
    see(ConvertedValue::new(value).value())
}

/// A converted value of the SDK, with the memory that it borrows.
pub(super) enum ConvertedValue<'a> {
    Value(Value<'a>),
    Texts(Vec<&'a str>),
    /// A variant that this code does not know, as text. The SDK may add variants.
    Text(Cow<'a, str>),
}

impl<'a> ConvertedValue<'a> {
    pub(super) fn new(value: &'a opentelemetry::Value) -> Self {
        Self::Value(match value {
            opentelemetry::Value::Bool(truth) => Value::Bool(*truth),
            opentelemetry::Value::I64(number) => Value::Int(*number),
            opentelemetry::Value::F64(number) => Value::Float(*number),
            opentelemetry::Value::String(text) => Value::Str(text.as_str()),
            opentelemetry::Value::Array(Array::Bool(truths)) => Value::Bools(truths),
            opentelemetry::Value::Array(Array::I64(numbers)) => Value::Ints(numbers),
            opentelemetry::Value::Array(Array::F64(numbers)) => Value::Floats(numbers),
            opentelemetry::Value::Array(Array::String(texts)) => {
                return Self::Texts(texts.iter().map(StringValue::as_str).collect());
            }
            other => return Self::Text(other.as_str()),
        })
    }

    pub(super) fn value(&self) -> Value<'_> {
        match self {
            Self::Value(value) => *value,
            Self::Texts(texts) => Value::Strs(texts),
            Self::Text(text) => Value::Str(text),
        }
    }
}

/// Calls `see` with the body or an attribute value of a log record.
pub(super) fn with_any_value<T>(value: &AnyValue, see: impl FnOnce(Value<'_>) -> T) -> T {
    let places = std::iter::repeat_with(OnceCell::new).take(lists_in(value, 0)).collect();
    let arena = ListArena { places, taken: Cell::new(0) };
    see(arena.value(value, 0))
}

/// Arena for the lists of nested values. Each list has its own cell, because outer lists borrow inner ones.
struct ListArena<'a> {
    places: Vec<OnceCell<List<'a>>>,
    taken: Cell<usize>,
}

enum List<'a> {
    Array(Vec<Value<'a>>),
    Map(Vec<(&'a str, Value<'a>)>),
    Text(String),
}

impl<'a> ListArena<'a> {
    fn value(&'a self, value: &'a AnyValue, depth: usize) -> Value<'a> {
        match value {
            AnyValue::Int(number) => Value::Int(*number),
            AnyValue::Double(number) => Value::Float(*number),
            AnyValue::String(text) => Value::Str(text.as_str()),
            AnyValue::Boolean(truth) => Value::Bool(*truth),
            AnyValue::Bytes(bytes) => Value::Bytes(bytes),
            // The value is nested too deep to be written, so its contents are not converted.
            AnyValue::ListAny(_) | AnyValue::Map(_) if depth > MAX_DEPTH => Value::Array(&[]),
            AnyValue::ListAny(values) => {
                let values = values.iter().map(|value| self.value(value, depth + 1));
                self.keep(List::Array(values.collect()))
            }
            AnyValue::Map(entries) => {
                let entries = entries.iter().map(|(key, value)| (key.as_str(), self.value(value, depth + 1)));
                self.keep(List::Map(entries.collect()))
            }
            // A variant that this code does not know is sent as text. The SDK may add variants.
            other => self.keep(List::Text(format!("{other:?}"))),
        }
    }

    fn keep(&'a self, list: List<'a>) -> Value<'a> {
        // `lists_in` counted one cell for each call, so the index is always valid.
        let place = self.taken.replace(self.taken.get() + 1);
        match self.places[place].get_or_init(|| list) {
            List::Array(values) => Value::Array(values),
            List::Map(entries) => Value::Map(entries),
            List::Text(text) => Value::Str(text),
        }
    }
}

/// Returns the number of cells that a value needs.
fn lists_in(value: &AnyValue, depth: usize) -> usize {
    match value {
        AnyValue::Int(_) | AnyValue::Double(_) | AnyValue::String(_) => 0,
        AnyValue::Boolean(_) | AnyValue::Bytes(_) => 0,
        AnyValue::ListAny(_) | AnyValue::Map(_) if depth > MAX_DEPTH => 0,
        AnyValue::ListAny(values) => 1 + values.iter().map(|value| lists_in(value, depth + 1)).sum::<usize>(),
        AnyValue::Map(entries) => 1 + entries.values().map(|value| lists_in(value, depth + 1)).sum::<usize>(),
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry::KeyValue;

    use super::*;
    use crate::telemetry::scope_cache::MAX_SCOPES;

    fn named(name: &'static str) -> InstrumentationScope {
        InstrumentationScope::builder(name).build()
    }

    #[test]
    fn a_scope_is_made_once_for_each_of_its_targets() {
        let scopes = Scopes::new(Signal::Logs);
        let (plain, cart) = (scopes.find(&named("shop"), None), scopes.find(&named("shop"), Some("cart")));
        assert_eq!((plain.name.as_str(), cart.name.as_str()), ("shop", "cart"));
        assert!(Arc::ptr_eq(&plain, &scopes.find(&named("shop"), None)));
        assert!(Arc::ptr_eq(&cart, &scopes.find(&named("shop"), Some("cart"))));
        let other = InstrumentationScope::builder("shop").with_version("2").build();
        assert!(!Arc::ptr_eq(&plain, &scopes.find(&other, None)));
    }

    #[test]
    fn names_that_are_made_up_are_not_remembered_for_ever_and_get_their_scope_all_the_same() {
        let scopes = Scopes::new(Signal::Logs);
        for number in 0..MAX_SCOPES {
            let target = format!("cart {number}");
            assert_eq!(scopes.find(&named("shop"), Some(&target)).name, target);
        }
        let beyond = || scopes.find(&named("shop"), Some("beyond"));
        assert_eq!(beyond().name, "beyond");
        assert!(!Arc::ptr_eq(&beyond(), &beyond()));
    }

    #[test]
    fn a_new_resource_goes_with_scopes_that_were_known_before() {
        let mut scopes = Scopes::new(Signal::Traces);
        assert!(scopes.find(&named("shop"), None).resource().is_none());
        let bank = |key| Resource::builder_empty().with_attribute(KeyValue::new(key, 1)).build();
        scopes.set_resource(&bank("branch"));
        let first = scopes.find(&named("shop"), None);
        assert!(first.resource().is_some());
        scopes.set_resource(&bank("till"));
        assert_ne!(scopes.find(&named("shop"), None).resource(), first.resource());
        scopes.set_resource(&Resource::builder_empty().build());
        assert!(scopes.find(&named("shop"), None).resource().is_none());
    }

    #[test]
    fn the_same_resource_is_the_same_bytes_in_whatever_order_it_was_given() {
        let bytes = |keys: [&'static str; 3]| {
            let attributes = keys.map(|key| KeyValue::new(key, key));
            let mut scopes = Scopes::new(Signal::Traces);
            scopes.set_resource(&Resource::builder_empty().with_attributes(attributes).build());
            scopes.find(&named("shop"), None).resource().unwrap().to_vec()
        };
        assert_eq!(bytes(["a", "b", "c"]), bytes(["c", "a", "b"]));
    }
}
