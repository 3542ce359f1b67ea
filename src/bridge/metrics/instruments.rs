//! All metrics of one kind: what is known of each by its name, and the handles by their keys.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use metrics::{Key, SharedString};

use super::handle::{Handle, Instrument};
use crate::bridge::append_map::AppendMap;
use crate::process;

/// More names than this are made up at run time: they are not remembered.
const MOST_NAMES: usize = 10_000;

pub(super) struct Instruments<I: Instrument> {
    families: AppendMap<Family<I>>,
    names: AtomicUsize,
    hasher: RandomState,
    /// Those that a program asks for again and again; of each family no more than it may have series.
    handles: AppendMap<Arc<Handle<I>>>,
}

/// What a metric measures in, and what it means.
pub(super) struct Description {
    pub(super) unit: &'static str,
    pub(super) text: SharedString,
}

/// All handles of one name. Whatever is set is set while no fork can happen: a child goes on using it.
struct Family<I: Instrument> {
    name: String,
    description: OnceLock<Description>,
    instrument: OnceLock<I>,
    handles: AtomicUsize,
    /// For everything beyond the limit.
    rest: OnceLock<Arc<Handle<I>>>,
}

impl<I: Instrument> Instruments<I> {
    /// The handle of a key. A name has at most `limit` keys, as many as it may have series; `make` makes its instrument,
    /// of the unit that it was described with so far.
    #[inline]
    pub(super) fn handle(&self, key: &Key, limit: usize, make: impl FnOnce(&str) -> I) -> Arc<Handle<I>> {
        match self.handles.find(key.get_hash(), |handle| handle.has(key)) {
            Some(handle) => Arc::clone(handle),
            None => self.new_handle(key, limit, make),
        }
    }

    #[cold]
    fn new_handle(&self, key: &Key, limit: usize, make: impl FnOnce(&str) -> I) -> Arc<Handle<I>> {
        let Some(family) = self.family(key.name()) else {
            return Arc::new(Handle::new(make(""), Some(key)));
        };
        let instrument = family.instrument(make);
        // one place is kept for the rest
        if family.handles.load(Ordering::Relaxed) + 1 >= limit {
            return Arc::clone(family.rest(instrument));
        }
        let fresh = Arc::new(Handle::new(instrument.clone(), Some(key)));
        let (kept, is_new) = self.handles.insert(key.get_hash(), fresh, |handle| handle.has(key));
        if is_new {
            family.handles.fetch_add(1, Ordering::Relaxed);
        }
        Arc::clone(kept)
    }

    /// Notes what a metric means, whether or not it is used already. The first description counts.
    pub(super) fn describe(&self, name: &str, described: Description) {
        let Some(family) = self.family(name) else { return };
        if family.description.get().is_none() {
            set_once(&family.description, described);
            family.describe();
        }
    }

    fn family(&self, name: &str) -> Option<&Family<I>> {
        let hash = self.hasher.hash_one(name);
        let is_it = |family: &Family<I>| family.name == name;
        if let Some(family) = self.families.find(hash, is_it) {
            return Some(family);
        }
        if self.names.fetch_add(1, Ordering::Relaxed) >= MOST_NAMES {
            self.names.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let (family, is_new) = self.families.insert(hash, Family::new(name), is_it);
        if !is_new {
            self.names.fetch_sub(1, Ordering::Relaxed);
        }
        Some(family)
    }
}

impl<I: Instrument> Default for Instruments<I> {
    fn default() -> Self {
        Self {
            families: AppendMap::default(),
            names: AtomicUsize::new(0),
            hasher: RandomState::new(),
            handles: AppendMap::default(),
        }
    }
}

impl<I: Instrument> Family<I> {
    fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            description: OnceLock::new(),
            instrument: OnceLock::new(),
            handles: AtomicUsize::new(0),
            rest: OnceLock::new(),
        }
    }

    fn instrument(&self, make: impl FnOnce(&str) -> I) -> &I {
        if let Some(instrument) = self.instrument.get() {
            return instrument;
        }
        let unit = self.description.get().map_or("", |described| described.unit);
        let instrument = set_once(&self.instrument, make(unit));
        self.describe();
        instrument
    }

    /// Called after either of the two was set: the second call finds the other's.
    fn describe(&self) {
        if let (Some(instrument), Some(described)) = (self.instrument.get(), self.description.get()) {
            instrument.describe(described.unit, &described.text);
        }
    }

    fn rest(&self, instrument: &I) -> &Arc<Handle<I>> {
        match self.rest.get() {
            Some(rest) => rest,
            None => set_once(&self.rest, Arc::new(Handle::new(instrument.clone(), None))),
        }
    }
}

/// What was made before, as making it may need the same lock; of two threads the first one's stays.
fn set_once<T>(place: &OnceLock<T>, value: T) -> &T {
    process::with_fork_lock(|| place.get_or_init(|| value))
}
