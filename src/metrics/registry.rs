//! The registry: all instruments of a provider by name, and the state that they share.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};

use super::collection::Collect;
use super::instrument::{Descriptor, Instrument};
use super::observable::Observable;
use crate::config::PeriodicReaderSettings;
use crate::process::{self, lock};
use crate::record::{Scope, random};

/// Maximum number of instruments. A program with more generates names at run time; its further instruments do nothing.
const MAX_INSTRUMENTS: usize = 10_000;

/// The instruments of one [`Telemetry`](crate::Telemetry).
pub(crate) struct Registry {
    pub(super) shared: Arc<MeterShared>,
    // Locked only under the fork lock, because a child continues to use it.
    instruments: Mutex<Instruments>,
}

#[derive(Default)]
struct Instruments {
    /// All instruments, in the order of their creation.
    entries: Vec<Arc<dyn Collect>>,
    /// Indices of the instruments of each name: usually one, several if their descriptors contradict each other.
    by_name: HashMap<Identity, Vec<usize>>,
}

/// Names are compared without regard to case.
type Identity = (Arc<Scope>, String);

impl Instruments {
    fn namesakes(&self, identity: &Identity) -> impl Iterator<Item = &Arc<dyn Collect>> {
        self.by_name.get(identity).into_iter().flatten().map(|&index| &self.entries[index])
    }
}

fn identity(descriptor: &Descriptor) -> Identity {
    (Arc::clone(&descriptor.scope), descriptor.name.to_ascii_lowercase())
}

impl Registry {
    pub(crate) fn new(readers: Vec<PeriodicReaderSettings>) -> Self {
        Self { shared: Arc::new(MeterShared::new(readers)), instruments: Mutex::default() }
    }

    /// Sets the function that the first measurement in a forked child calls.
    pub(crate) fn start_in_child_by(&self, start: impl Fn() + Send + Sync + 'static) {
        // Set once, when the provider starts.
        let _ = self.shared.start_in_child.set(Box::new(start));
    }

    /// Returns the instrument with this descriptor, and makes it if it does not exist.
    pub(super) fn instrument(&self, descriptor: Descriptor) -> Arc<Instrument> {
        let fresh = || Arc::new(Instrument::new(descriptor.clone(), Arc::clone(&self.shared)));
        if self.shared.readers.is_empty() {
            return fresh();
        }
        process::with_fork_lock(|| {
            let mut instruments = lock(&self.instruments);
            let identity = identity(&descriptor);
            let same =
                instruments.namesakes(&identity).filter(|known| is_same(known.descriptor(), &descriptor));
            if let Some(known) = same.cloned().find_map(Collect::synchronous) {
                return known;
            }
            let instrument = fresh();
            self.register(&mut instruments, identity, Arc::clone(&instrument) as _);
            instrument
        })
    }

    /// Registers an observable, whose callback every collection calls. Several callbacks may share a name.
    pub(super) fn observe(&self, observable: Arc<Observable>) {
        if self.shared.readers.is_empty() {
            return;
        }
        process::with_fork_lock(|| {
            let identity = identity(&observable.descriptor);
            self.register(&mut lock(&self.instruments), identity, observable);
        });
    }

    pub(super) fn unregister(&self, observable: &Arc<Observable>) {
        process::with_fork_lock(|| {
            let mut instruments = lock(&self.instruments);
            let it = Arc::as_ptr(observable).cast::<()>();
            instruments.entries.retain(|entry| Arc::as_ptr(entry).cast::<()>() != it);
            let Instruments { entries, by_name } = &mut *instruments;
            by_name.clear();
            for (index, entry) in entries.iter().enumerate() {
                by_name.entry(identity(entry.descriptor())).or_default().push(index);
            }
        });
    }

    fn register(&self, instruments: &mut Instruments, identity: Identity, entry: Arc<dyn Collect>) {
        if instruments.entries.len() >= MAX_INSTRUMENTS {
            let (max, name) = (MAX_INSTRUMENTS, &identity.1);
            let what =
                format!("more than {max} instruments: metric {name:?} is not sent; use attributes instead");
            return self.shared.report_misuse(what);
        }
        let contradicts = |known: &&Arc<dyn Collect>| {
            !is_same(known.descriptor(), entry.descriptor()) || is_observed(known) != is_observed(&entry)
        };
        if let Some(known) = instruments.namesakes(&identity).find(contradicts) {
            self.shared.report_misuse(conflict(known, &entry));
        }
        let index = instruments.entries.len();
        instruments.entries.push(entry);
        instruments.by_name.entry(identity).or_default().push(index);
    }

    /// Returns all instruments that exist now.
    pub(super) fn entries(&self) -> Vec<Arc<dyn Collect>> {
        process::with_fork_lock(|| lock(&self.instruments).entries.clone())
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").field("readers", &self.shared.readers).finish_non_exhaustive()
    }
}

/// Returns whether two descriptors define the same stream of data. If only the description differs, the first one is
/// kept.
fn is_same(known: &Descriptor, new: &Descriptor) -> bool {
    (known.kind, known.number_kind, known.unit(), &known.buckets, known.limit)
        == (new.kind, new.number_kind, new.unit(), &new.buckets, new.limit)
}

fn is_observed(entry: &Arc<dyn Collect>) -> bool {
    Arc::clone(entry).synchronous().is_none()
}

fn conflict(known: &Arc<dyn Collect>, new: &Arc<dyn Collect>) -> String {
    let described = |entry: &Arc<dyn Collect>| {
        let kind = entry.descriptor().kind_name();
        let unit = match entry.descriptor().unit() {
            "" => String::new(),
            unit => format!(" in {unit:?}"),
        };
        let by = if is_observed(known) != is_observed(new) && is_observed(entry) {
            " with a callback"
        } else {
            ""
        };
        format!("{kind}{unit}{by}")
    };
    let (name, known, new) = (&new.descriptor().name, described(known), described(new));
    format!("metric {name:?} is defined twice, as {known} and as {new}: both are sent; rename one")
}

/// Maximum number of different misuses that are reported.
const MAX_MISUSES: usize = 200;

/// State shared by all instruments of a provider: the exporters for which they measure, and the reported misuses.
pub(super) struct MeterShared {
    /// Settings of each exporter of metrics. An instrument has one storage for each.
    pub(super) readers: Vec<PeriodicReaderSettings>,
    /// Random seed of the hashes of attributes, so that an attacker cannot cause collisions.
    pub(super) seed: u64,
    // Locked only under the fork lock, because a child continues to use it.
    misuses: Mutex<Misuses>,
    /// Called at the first measurement in a forked child.
    pub(super) start_in_child: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

/// Wrong uses of instruments. The next collection reports each of them once.
#[derive(Default)]
struct Misuses {
    waiting: Vec<String>,
    known: HashSet<String>,
}

impl MeterShared {
    pub(super) fn new(readers: Vec<PeriodicReaderSettings>) -> Self {
        Self { readers, seed: random(), misuses: Mutex::default(), start_in_child: OnceLock::new() }
    }

    #[cold]
    pub(super) fn report_misuse(&self, what: String) {
        process::with_fork_lock(|| {
            let mut misuses = lock(&self.misuses);
            if misuses.known.len() < MAX_MISUSES && misuses.known.insert(what.clone()) {
                misuses.waiting.push(what);
            }
        });
    }

    pub(super) fn take_misuses(&self) -> Vec<String> {
        process::with_fork_lock(|| std::mem::take(&mut lock(&self.misuses).waiting))
    }
}
