//! All instruments of a program, by their names.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::ground::Ground;
use super::instrument::{Description, Instrument};
use super::observe::Observable;
use crate::config::PeriodicReaderSettings;
use crate::process;
use crate::record::Scope;

/// More instruments than this are made up at run time; they measure nothing.
const MOST_INSTRUMENTS: usize = 10_000;

/// The instruments of one [`Telemetry`](crate::Telemetry).
pub(crate) struct Registry {
    pub(super) ground: Arc<Ground>,
    // locked only while no fork can happen, as a child goes on using it
    book: Mutex<Book>,
}

#[derive(Default)]
struct Book {
    entries: Vec<Entry>,
    /// Usually one; more if they contradict each other.
    by_name: HashMap<Identity, Vec<usize>>,
}

/// Names are the same in any case.
type Identity = (Arc<Scope>, String);

/// One instrument, in the order they were made.
#[derive(Debug, Clone)]
pub(super) enum Entry {
    Measured(Arc<Instrument>),
    Observed(Arc<Observable>),
}

impl Entry {
    pub(super) fn description(&self) -> &Description {
        match self {
            Entry::Measured(instrument) => &instrument.description,
            Entry::Observed(observable) => &observable.description,
        }
    }
}

impl Book {
    fn namesakes(&self, identity: &Identity) -> impl Iterator<Item = &Entry> {
        self.by_name.get(identity).into_iter().flatten().map(|&index| &self.entries[index])
    }
}

fn identity(scope: &Arc<Scope>, name: &str) -> Identity {
    (Arc::clone(scope), name.to_ascii_lowercase())
}

impl Registry {
    pub(crate) fn new(pushes: Vec<PeriodicReaderSettings>) -> Self {
        Self { ground: Arc::new(Ground::new(pushes)), book: Mutex::default() }
    }

    /// What to do at the first measurement in a forked child.
    pub(crate) fn start_in_child_by(&self, start: impl Fn() + Send + Sync + 'static) {
        self.ground.start_in_child_by(start);
    }

    /// The instrument of this description: the one that is there already, or a new one.
    pub(super) fn instrument(&self, scope: &Arc<Scope>, description: Description) -> Arc<Instrument> {
        let fresh =
            || Arc::new(Instrument::new(description.clone(), Arc::clone(scope), Arc::clone(&self.ground)));
        if self.ground.pushes.is_empty() {
            return fresh();
        }
        process::with_fork_lock(|| {
            let mut book = self.book();
            let identity = identity(scope, &description.name);
            for known in book.namesakes(&identity) {
                match known {
                    Entry::Measured(known) if is_same(&known.description, &description) => {
                        return Arc::clone(known);
                    }
                    _ => {}
                }
            }
            let instrument = fresh();
            self.enter(&mut book, identity, Entry::Measured(Arc::clone(&instrument)));
            instrument
        })
    }

    /// From now on it is asked with every collection. Several callbacks may share a name.
    pub(super) fn observe(&self, observable: Arc<Observable>) {
        if self.ground.pushes.is_empty() {
            return;
        }
        process::with_fork_lock(|| {
            let identity = identity(&observable.scope, &observable.description.name);
            self.enter(&mut self.book(), identity, Entry::Observed(observable));
        });
    }

    pub(super) fn forget(&self, observable: &Arc<Observable>) {
        process::with_fork_lock(|| {
            let mut book = self.book();
            let is_it =
                |entry: &Entry| matches!(entry, Entry::Observed(known) if Arc::ptr_eq(known, observable));
            book.entries.retain(|entry| !is_it(entry));
            let Book { entries, by_name } = &mut *book;
            by_name.clear();
            for (index, entry) in entries.iter().enumerate() {
                let scope = match entry {
                    Entry::Measured(instrument) => &instrument.scope,
                    Entry::Observed(observable) => &observable.scope,
                };
                by_name.entry(identity(scope, &entry.description().name)).or_default().push(index);
            }
        });
    }

    fn enter(&self, book: &mut Book, identity: Identity, entry: Entry) {
        if book.entries.len() >= MOST_INSTRUMENTS {
            let what =
                format!("more than {MOST_INSTRUMENTS} instruments: metric {:?} is not sent", identity.1);
            return self.ground.complain_undisturbed(what);
        }
        let contradicted = book.namesakes(&identity).map(Entry::description);
        if let Some(known) = contradicted.into_iter().find(|known| !is_same(known, entry.description())) {
            self.ground.complain_undisturbed(conflict(known, entry.description()));
        }
        let index = book.entries.len();
        book.entries.push(entry);
        book.by_name.entry(identity).or_default().push(index);
    }

    /// All instruments as they are now.
    pub(super) fn entries(&self) -> Vec<Entry> {
        process::with_fork_lock(|| self.book().entries.clone())
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").field("ground", &self.ground).finish_non_exhaustive()
    }
}

/// Whether two descriptions mean the same stream of data; the first description in words counts.
fn is_same(known: &Description, new: &Description) -> bool {
    (known.kind, known.measured, &known.words.unit, &known.division, known.limit)
        == (new.kind, new.measured, &new.words.unit, &new.division, new.limit)
}

fn conflict(known: &Description, new: &Description) -> String {
    let in_unit = |description: &Description| match description.words.unit.as_str() {
        "" => description.kind_name().to_owned(),
        unit => format!("{} in {unit:?}", description.kind_name()),
    };
    let (known, name) = (in_unit(known), &new.name);
    format!("metric {name:?} is there twice, as {known} and as {}: both are sent; rename one", in_unit(new))
}
