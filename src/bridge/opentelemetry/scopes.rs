//! The SDK's resource and scopes, each encoded once.

use std::sync::Arc;

use opentelemetry::InstrumentationScope;
use opentelemetry_sdk::Resource;

use super::value::with_value;
use crate::bridge::scope_cache::ScopeCache;
use crate::record::{self, ForeignResource, ForeignScope, Scope, Signal};

/// All scopes of an exporter, with the resource that goes with them.
#[derive(Debug)]
pub(super) struct Scopes {
    signal: Signal,
    resource: Option<ForeignResource>,
    /// By the SDK's scope and the target that a log record names in place of its name.
    known: ScopeCache<(InstrumentationScope, Option<String>), Arc<Scope>>,
}

impl Scopes {
    pub(super) fn new(signal: Signal) -> Self {
        Self { signal, resource: None, known: ScopeCache::default() }
    }

    /// From now on records go with this resource; with the provider's own if it says nothing.
    pub(super) fn set_resource(&mut self, resource: &Resource) {
        self.resource = (!says_nothing(resource)).then(|| encoded(resource));
        self.known = ScopeCache::default();
    }

    /// The scope, by the name of the target if there is one.
    pub(super) fn find(&self, scope: &InstrumentationScope, target: Option<&str>) -> Arc<Scope> {
        let is_it = |known: &(InstrumentationScope, Option<String>)| {
            known.0 == *scope && known.1.as_deref() == target
        };
        let make = || ((scope.clone(), target.map(str::to_owned)), Arc::new(self.make(scope, target)));
        self.known.get_or_make((scope, target), is_it, make).into_owned()
    }

    fn make(&self, scope: &InstrumentationScope, target: Option<&str>) -> Scope {
        let name = target.unwrap_or_else(|| scope.name());
        let (version, schema_url) = (scope.version(), scope.schema_url());
        let mut made = ForeignScope::new(name, version.unwrap_or_default(), schema_url.unwrap_or_default());
        for attribute in scope.attributes() {
            with_value(&attribute.value, |value| made.set(attribute.key.as_str(), value));
        }
        made.into_scope(self.signal, self.resource.as_ref())
    }
}

/// Whether the program has not given the SDK a resource: the SDK then names itself and a service that it does not know.
fn says_nothing(resource: &Resource) -> bool {
    resource.iter().all(|(key, value)| match key.as_str() {
        "service.name" => value.as_str().starts_with("unknown_service"),
        key => key.starts_with("telemetry.sdk."),
    })
}

/// In the order of its keys, so that the same resource is always the same bytes.
fn encoded(resource: &Resource) -> ForeignResource {
    let mut attributes: Vec<_> = resource.iter().collect();
    attributes.sort_unstable_by_key(|(key, _)| *key);
    let mut encoded = record::Resource::default();
    for (key, value) in attributes {
        with_value(value, |value| encoded.set(key.as_str(), value));
    }
    ForeignResource::new(&encoded, resource.schema_url().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use opentelemetry::KeyValue;

    use super::*;
    use crate::bridge::scope_cache::MOST_SCOPES;

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
        for number in 0..MOST_SCOPES {
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
