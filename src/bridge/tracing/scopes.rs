//! The tracer and the logger of each target.

use std::borrow::Cow;

use tracing::Metadata;

use crate::bridge::scope_cache::ScopeCache;
use crate::logs::Logger;
use crate::telemetry::provider::Provider;
use crate::trace::Tracer;

/// Call sites are part of the program, so there are only as many as it has; large programs have thousands.
const MOST_CALL_SITES: usize = 1 << 16;

/// Where the records of a layer go.
pub(super) struct Scopes {
    provider: Provider,
    fixed: Option<Scope>,
    /// By the address of its metadata: a call site is found without a look at its target.
    by_call_site: ScopeCache<usize, Scope, MOST_CALL_SITES>,
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

    /// Whether all records have one scope, so that it does not name the target.
    pub(super) fn is_fixed(&self) -> bool {
        self.fixed.is_some()
    }

    /// The scope of a call site.
    #[inline]
    pub(super) fn of_metadata(&self, metadata: &'static Metadata<'static>) -> Cow<'_, Scope> {
        if let Some(fixed) = &self.fixed {
            return Cow::Borrowed(fixed);
        }
        let address = std::ptr::from_ref(metadata).addr();
        let make = || (address, self.of_target(metadata.target()).into_owned());
        self.by_call_site.get_or_make_hashed(address as u64, |known| *known == address, make)
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
