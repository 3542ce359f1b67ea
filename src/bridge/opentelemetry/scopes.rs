//! The SDK's resource and scopes, each encoded once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use opentelemetry::InstrumentationScope;
use opentelemetry_sdk::Resource;

use super::value::with_value;
use crate::fork::PerProcess;
use crate::record::{self, ForeignResource, ForeignScope, Scope, Signal};

/// Scopes beyond this many are not remembered: their names are made up at run time.
const MOST_SCOPES: usize = 1024;

/// All scopes of an exporter, with the resource that goes with them.
#[derive(Debug)]
pub(super) struct Scopes {
    signal: Signal,
    resource: Option<ForeignResource>,
    /// A child must not wait for a lock that another thread held during the fork.
    known: PerProcess<Mutex<Known>>,
}

#[derive(Debug, Default)]
struct Known {
    scopes: HashMap<InstrumentationScope, Targets>,
    count: usize,
}

/// A scope under its own name, and under the names that log records give it.
#[derive(Debug, Default)]
struct Targets {
    plain: Option<Arc<Scope>>,
    named: HashMap<String, Arc<Scope>>,
}

impl Scopes {
    pub(super) fn new(signal: Signal) -> Self {
        Self { signal, resource: None, known: PerProcess::new(Mutex::default()) }
    }

    /// From now on records go with this resource; with the route's own if it says nothing.
    pub(super) fn set_resource(&mut self, resource: &Resource) {
        self.resource = (!says_nothing(resource)).then(|| encoded(resource));
        self.known = PerProcess::new(Mutex::default());
    }

    /// The scope, by the name of the target if there is one.
    pub(super) fn find(&self, scope: &InstrumentationScope, target: Option<&str>) -> Arc<Scope> {
        let known = self.known.get_or_renew(Mutex::default);
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.scopes.get(scope).and_then(|targets| targets.get(target)) {
            return Arc::clone(found);
        }
        let made = Arc::new(self.make(scope, target));
        if known.count < MOST_SCOPES {
            known.count += 1;
            known.scopes.entry(scope.clone()).or_default().insert(target, &made);
        }
        made
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

impl Targets {
    fn get(&self, target: Option<&str>) -> Option<&Arc<Scope>> {
        match target {
            Some(target) => self.named.get(target),
            None => self.plain.as_ref(),
        }
    }

    fn insert(&mut self, target: Option<&str>, scope: &Arc<Scope>) {
        let scope = Arc::clone(scope);
        match target {
            Some(target) => _ = self.named.insert(target.to_owned(), scope),
            None => self.plain = Some(scope),
        }
    }
}

/// Whether nobody has told the SDK what it runs in: it then names itself and a service that it does not know.
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
