//! The registry: all instruments of a provider by name, and the state that they share.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};

use super::collection::Collect;
use super::instrument::{Descriptor, Instrument};
use super::observable::Observable;
use crate::config::{ExemplarFilter, PeriodicReaderSettings, View};
use crate::process::{self, lock};
use crate::record::{Scope, random};

/// Maximum number of instruments; further ones are not exported. A program that exceeds it probably generates names.
const MAX_INSTRUMENTS: usize = 10_000;

/// The instruments of one [`Telemetry`](crate::Telemetry).
pub(crate) struct Registry {
    pub(super) shared: Arc<MeterShared>,
    // Locked only under the fork lock, so that a forked child never inherits a locked mutex.
    instruments: Mutex<Instruments>,
}

#[derive(Default)]
struct Instruments {
    /// All instruments, in the order of their creation.
    entries: Vec<Arc<dyn Collect>>,
    /// Indices of the instruments that have this name, or export a metric of this name. There are several if
    /// different instruments share the name, or if several callbacks observe the same metric.
    by_name: HashMap<Identity, Vec<usize>>,
}

/// Scope and name of an instrument. The name is in lower case, because case does not distinguish instruments.
type Identity = (Arc<Scope>, String);

impl Instruments {
    fn namesakes(&self, identity: &Identity) -> impl Iterator<Item = &Arc<dyn Collect>> {
        self.by_name.get(identity).into_iter().flatten().map(|&index| &self.entries[index])
    }

    /// Lists the instrument with this index under its name and under those of its metrics.
    fn list(&mut self, index: usize) {
        let descriptor = self.entries[index].descriptor();
        for name in sent(descriptor).chain([&*descriptor.name]) {
            let indices = self.by_name.entry(identity(descriptor, name)).or_default();
            if indices.last() != Some(&index) {
                indices.push(index);
            }
        }
    }
}

fn identity(descriptor: &Descriptor, name: &str) -> Identity {
    (Arc::clone(&descriptor.scope), name.to_ascii_lowercase())
}

/// Returns the names of the metrics of an instrument, which are the same for all exporters.
fn sent(descriptor: &Descriptor) -> impl Iterator<Item = &str> {
    let streams = descriptor.streams.iter().filter(|stream| stream.exporter == 0);
    streams.map(|stream| stream.name(descriptor))
}

impl Registry {
    pub(crate) fn new(
        readers: Vec<PeriodicReaderSettings>,
        views: Vec<View>,
        exemplars: ExemplarFilter,
    ) -> Self {
        let shared = MeterShared { readers, views, exemplars, seed: random(), ..MeterShared::default() };
        Self { shared: Arc::new(shared), instruments: Mutex::default() }
    }

    /// Sets the function that the first measurement in a forked child calls.
    pub(crate) fn start_in_child_by(&self, start: impl Fn() + Send + Sync + 'static) {
        // Cannot fail: this is called only once, when the provider starts.
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
            let identity = identity(&descriptor, &descriptor.name);
            let same =
                instruments.namesakes(&identity).filter(|known| is_same(known.descriptor(), &descriptor));
            if let Some(known) = same.cloned().find_map(Collect::synchronous) {
                if differs_in_advice(&known.descriptor, &descriptor) {
                    let what = "is built again with other bounds, attributes or limit: the first are kept";
                    self.shared.report_misuse(format!("metric {:?} {what}", descriptor.name));
                }
                return known;
            }
            let instrument = fresh();
            self.register(&mut instruments, Arc::clone(&instrument) as _);
            instrument
        })
    }

    /// Registers an observable, whose callback every collection calls. Several callbacks may share a name.
    pub(super) fn observe(&self, observable: Arc<Observable>) {
        if self.shared.readers.is_empty() {
            return;
        }
        process::with_fork_lock(|| {
            self.register(&mut lock(&self.instruments), observable);
        });
    }

    pub(super) fn unregister(&self, observable: &Arc<Observable>) {
        process::with_fork_lock(|| {
            let mut instruments = lock(&self.instruments);
            let it = Arc::as_ptr(observable).cast::<()>();
            instruments.entries.retain(|entry| Arc::as_ptr(entry).cast::<()>() != it);
            instruments.by_name.clear();
            (0..instruments.entries.len()).for_each(|index| instruments.list(index));
        });
    }

    fn register(&self, instruments: &mut Instruments, entry: Arc<dyn Collect>) {
        let descriptor = entry.descriptor();
        if instruments.entries.len() >= MAX_INSTRUMENTS {
            let (max, name) = (MAX_INSTRUMENTS, &descriptor.name);
            let what =
                format!("more than {max} instruments: metric {name:?} is not sent; use attributes instead");
            return self.shared.report_misuse(what);
        }
        for (count, name) in sent(descriptor).enumerate() {
            let is_it = |other: &str| other.eq_ignore_ascii_case(name);
            let contradicts = |known: &&Descriptor| sent(known).any(is_it) && !is_same(known, descriptor);
            let identity = identity(descriptor, name);
            let mut known = instruments.namesakes(&identity).map(|known| known.descriptor());
            if let Some(known) = known.find(contradicts) {
                self.shared.report_misuse(conflict(name, known, descriptor));
            } else if sent(descriptor).take(count).any(is_it) {
                let what =
                    "two views make metrics of the same name: both are sent; rename one with View::rename";
                self.shared.report_misuse(format!("metric {name:?}: {what}"));
            }
        }
        instruments.entries.push(entry);
        instruments.list(instruments.entries.len() - 1);
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

/// Returns whether two descriptors define the same instrument. Descriptions may differ: the first one is kept.
fn is_same(known: &Descriptor, new: &Descriptor) -> bool {
    let is_namesake = known.name.eq_ignore_ascii_case(&new.name);
    is_namesake && (known.kind, known.number_kind, known.unit()) == (new.kind, new.number_kind, new.unit())
}

/// Returns whether a builder asks for buckets, attribute keys or a limit that differ from those of the existing
/// instrument.
fn differs_in_advice(known: &Descriptor, new: &Descriptor) -> bool {
    new.buckets.is_some() && new.buckets != known.buckets
        || new.keys.is_some() && new.keys != known.keys
        || new.limit.is_some() && new.limit != known.limit
}

/// Returns the message about two instruments whose metrics have the same name. It suggests a view that renames one.
fn conflict(name: &str, known: &Descriptor, new: &Descriptor) -> String {
    let described = |one: &Descriptor, other: &Descriptor| {
        let unit = match one.unit() {
            "" => String::new(),
            unit => format!(" in {unit:?}"),
        };
        let differs = one.kind.is_observable() && !other.kind.is_observable();
        format!("{}{unit}{}", one.kind_name(), if differs { " with a callback" } else { "" })
    };
    let conditions = [
        (known.kind != new.kind, format!(".kind(InstrumentKind::{:?})", new.kind)),
        (known.unit() != new.unit(), format!(".unit({:?})", new.unit())),
        (!known.name.eq_ignore_ascii_case(&new.name), String::new()),
    ];
    let view = |condition| format!(", for example with View::new({:?}){condition}.rename(\"…\")", new.name);
    let recipe = conditions.into_iter().find(|(differs, _)| *differs);
    let recipe = recipe.map_or_else(String::new, |(_, condition)| view(condition));
    let (known, new) = (described(known, new), described(new, known));
    format!("metric {name:?} is defined twice, as {known} and as {new}: both are sent; rename one{recipe}")
}

/// Maximum number of different misuses that are reported.
const MAX_MISUSES: usize = 200;

/// State shared by all instruments of a provider: the exporters for which they measure, and the reported misuses.
#[derive(Default)]
pub(super) struct MeterShared {
    /// Settings of each exporter of metrics.
    pub(super) readers: Vec<PeriodicReaderSettings>,
    pub(super) views: Vec<View>,
    pub(super) exemplars: ExemplarFilter,
    /// Random seed of the hashes of attributes, so that an attacker cannot cause collisions.
    pub(super) seed: u64,
    // Locked only under the fork lock, so that a forked child never inherits a locked mutex.
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
