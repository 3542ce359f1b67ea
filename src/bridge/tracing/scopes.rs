//! The tracers and loggers of the targets.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use tracing::Metadata;

use crate::logs::Logger;
use crate::process::PerProcess;
use crate::telemetry::provider::Provider;
use crate::trace::Tracer;

/// Targets beyond this many are not remembered: their names are made up at run time.
const MOST_TARGETS: usize = 1024;
/// Places of a thread's own memory; a power of two.
const PLACES: usize = 64;

/// Where the records of a layer go.
pub(super) struct Scopes {
    provider: Provider,
    fixed: Option<Scope>,
    // a child born while another thread holds the lock would find it locked for ever
    by_target: PerProcess<RwLock<HashMap<String, Scope>>>,
}

#[derive(Clone)]
pub(super) struct Scope {
    pub(super) tracer: Tracer,
    pub(super) logger: Logger,
}

/// What a thread remembers of a place in the code: no other thread is asked.
struct Remembered {
    layer: u64,
    metadata: *const Metadata<'static>,
    scope: Scope,
}

thread_local! {
    static REMEMBERED: RefCell<[Option<Remembered>; PLACES]> = const { RefCell::new([const { None }; PLACES]) };
}

impl Scopes {
    pub(super) fn new(provider: &Provider) -> Self {
        Self { provider: provider.clone(), fixed: None, by_target: PerProcess::new(RwLock::default()) }
    }

    pub(super) fn fix(&mut self, name: &str) {
        self.fixed = Some(self.make(name));
    }

    /// Whether one scope is everybody's, so that it says nothing of the target.
    pub(super) fn is_fixed(&self) -> bool {
        self.fixed.is_some()
    }

    /// Hands on the scope of a place in the code.
    #[inline]
    pub(super) fn of_metadata<T>(
        &self,
        layer: u64,
        metadata: &'static Metadata<'static>,
        hand_on: impl FnOnce(&Scope) -> T,
    ) -> T {
        if let Some(fixed) = &self.fixed {
            return hand_on(fixed);
        }
        let mut hand_on = Some(hand_on);
        let remembered = REMEMBERED.try_with(|all| {
            let mut all = all.try_borrow_mut().ok()?;
            let address: *const Metadata<'static> = metadata;
            let place = &mut all[(address as usize >> 4) % PLACES];
            if !place.as_ref().is_some_and(|known| known.layer == layer && known.metadata == address) {
                let scope = self.of_target(metadata.target());
                *place = Some(Remembered { layer, metadata: address, scope });
            }
            Some(hand_on.take()?(&place.as_ref()?.scope))
        });
        match (remembered, hand_on) {
            (Ok(Some(result)), _) => result,
            // while a thread ends it remembers nothing
            (_, Some(hand_on)) => hand_on(&self.of_target(metadata.target())),
            (_, None) => unreachable!("it was handed on"),
        }
    }

    /// The scope of a target.
    pub(super) fn of_target(&self, target: &str) -> Scope {
        if let Some(fixed) = &self.fixed {
            return fixed.clone();
        }
        let by_target = self.by_target.get_or_renew(RwLock::default);
        if let Some(known) = by_target.read().unwrap_or_else(PoisonError::into_inner).get(target) {
            return known.clone();
        }
        let scope = self.make(target);
        let mut by_target = by_target.write().unwrap_or_else(PoisonError::into_inner);
        if by_target.len() < MOST_TARGETS {
            by_target.insert(target.to_owned(), scope.clone());
        }
        scope
    }

    fn make(&self, name: &str) -> Scope {
        Scope { tracer: self.provider.tracer(name), logger: self.provider.logger(name) }
    }
}
