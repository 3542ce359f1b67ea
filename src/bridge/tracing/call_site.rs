//! What a layer knows of a place in the code before its spans start: the scope of its records, the attributes that all its spans
//! have, encoded once, and the keys of its fields with their bits of the filter. A span then copies the attributes as one
//! piece of memory, and none of its keys is hashed or compared with the names of orders.

use std::borrow::Cow;
use std::sync::Arc;

use tracing::Metadata;

use super::TracingLayer;
use super::event::CodeLocation;
use super::fields::is_order;

use crate::logs::Logger;
use crate::record::{EncodedAttributes, HashedKey, SpanRecord, Value};
use crate::telemetry::provider::Provider;
use crate::telemetry::scope_cache::ScopeCache;
use crate::trace::Tracer;

/// Maximum number of call sites that are remembered. Each is a place in the code; large programs have thousands.
const MAX_CALL_SITES: usize = 1 << 16;

/// A place in the code that makes spans or events.
pub(super) struct CallSite {
    pub(super) scope: Scope,
    /// The attributes that all its spans have.
    pub(super) attributes: Box<[(&'static str, Value<'static>)]>,
    /// The same in one piece; `None` if they have to be set one by one.
    pub(super) encoded: Option<EncodedAttributes>,
    /// Its fields, by their indices.
    pub(super) fields: Box<[PlannedField]>,
}

/// A field of a call site.
pub(super) struct PlannedField {
    pub(super) key: HashedKey,
    /// Whether a text in it may be an order rather than an attribute.
    pub(super) is_order: bool,
}

impl TracingLayer {
    /// Returns the call site of a span or event.
    #[inline]
    pub(super) fn call_site(&self, metadata: &'static Metadata<'static>) -> Cow<'_, Arc<CallSite>> {
        let address = std::ptr::from_ref(metadata).addr();
        let make = || (address, Arc::new(self.plan(metadata)));
        self.scopes.by_call_site.get_or_make_hashed(address as u64, |known| *known == address, make)
    }

    fn plan(&self, metadata: &'static Metadata<'static>) -> CallSite {
        let target = || ("target", Value::Str(metadata.target()));
        let level = || ("level", Value::Str(metadata.level().as_str()));
        let location = self.location.then(|| CodeLocation::of(metadata).attributes());
        let others = [self.level.then(level), self.sets_target().then(target)];
        let attributes: Box<[_]> =
            location.into_iter().flatten().chain(others.into_iter().flatten()).collect();
        let field = |name: &'static str| PlannedField { key: HashedKey::new(name), is_order: is_order(name) };
        CallSite {
            scope: self.scopes.of_target(metadata.target()).into_owned(),
            encoded: SpanRecord::encode(&attributes),
            attributes,
            fields: metadata.fields().iter().map(|known| field(known.name())).collect(),
        }
    }
}

/// Where the records of a layer go.
pub(super) struct Scopes {
    provider: Provider,
    /// Scope of all records, which then does not name the target.
    pub(super) fixed: Option<Scope>,
    /// By the address of its metadata: a call site is found without a look at its target.
    by_call_site: ScopeCache<usize, Arc<CallSite>, MAX_CALL_SITES>,
    /// For targets that are values of fields, as in records of the `log` crate.
    by_target: ScopeCache<Box<str>, Scope>,
}

#[derive(Clone)]
pub(super) struct Scope {
    pub(super) tracer: Tracer,
    pub(super) logger: Logger,
}

impl Scopes {
    pub(super) fn new(provider: &Provider) -> Self {
        Self {
            provider: provider.clone(),
            fixed: None,
            by_call_site: ScopeCache::default(),
            by_target: ScopeCache::default(),
        }
    }

    pub(super) fn fix(&mut self, name: &str) {
        self.fixed = Some(self.make(name));
    }

    /// The scope of a target.
    pub(super) fn of_target(&self, target: &str) -> Cow<'_, Scope> {
        if let Some(fixed) = &self.fixed {
            return Cow::Borrowed(fixed);
        }
        let make = || (target.into(), self.make(target));
        self.by_target.get_or_make(target, |known| **known == *target, make)
    }

    fn make(&self, name: &str) -> Scope {
        Scope { tracer: self.provider.tracer(name), logger: self.provider.logger(name) }
    }
}
