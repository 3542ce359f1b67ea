//! Cached data of a call site: the scope of its records; the attributes that all its spans have in common, encoded in
//! advance if possible; and the keys of its fields, encoded and hashed for the Bloom filter that finds repeated keys.
//!
//! A span then copies the attributes as one slice, and its keys are neither hashed nor compared with the names of
//! special fields.

use std::borrow::Cow;
use std::sync::Arc;

use tracing::Metadata;

use super::TracingLayer;
use super::event::CodeLocation;
use super::fields::Role;

use crate::bridge::MAX_CALL_SITES;
use crate::logs::Logger;
use crate::record::{EncodedAttributes, EncodedKey, SpanRecord, Value};
use crate::telemetry::provider::Provider;
use crate::telemetry::scope_cache::ScopeCache;
use crate::trace::Tracer;

/// A place in the source code that creates spans or events.
pub(super) struct CallSite {
    pub(super) scope: Scope,
    /// Attributes that all its spans have in common.
    pub(super) attributes: Box<[(&'static str, Value<'static>)]>,
    /// The same attributes, encoded; `None` without attributes, or if they must be set one by one.
    pub(super) encoded: Option<EncodedAttributes>,
    /// Fields, by their indices.
    pub(super) fields: Box<[PlannedField]>,
}

/// A field of a call site.
pub(super) struct PlannedField {
    pub(super) key: EncodedKey,
    pub(super) role: Role,
}

impl TracingLayer {
    /// Returns the cached data of a call site.
    #[inline]
    pub(super) fn call_site(&self, metadata: &'static Metadata<'static>) -> Cow<'_, Arc<CallSite>> {
        // Metadata is `'static`, so its address identifies the call site.
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
        let field = |name: &'static str| PlannedField { key: EncodedKey::new(name), role: Role::of(name) };
        CallSite {
            scope: self.scopes.of_target(metadata.target()).into_owned(),
            // Not encoded if empty: the loop in `describe` takes fewer instructions than copying an empty slice.
            encoded: if attributes.is_empty() { None } else { SpanRecord::encode(&attributes) },
            attributes,
            fields: metadata.fields().iter().map(|known| field(known.name())).collect(),
        }
    }
}

/// The scopes of a layer's records.
pub(super) struct Scopes {
    provider: Provider,
    /// Scope of all records, if the program has set one. Otherwise each target is a scope.
    pub(super) fixed: Option<Scope>,
    /// Cached call sites by the address of their metadata, so that targets are not compared.
    by_call_site: ScopeCache<usize, Arc<CallSite>, MAX_CALL_SITES>,
    /// Scopes by target. A record of the `log` crate is looked up here, because its call site is not known.
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

    /// Returns the scope of a target.
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
