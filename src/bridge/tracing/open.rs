//! The spans of a layer that are open, by their ids.
//!
//! They could lie in the registry, beside what other layers keep there, but that takes an allocation for each span and a
//! look into the registry for each step.

use std::collections::BTreeMap;
use std::mem;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tracing::Id;

use crate::context::{self, SpanContext};
use crate::process::{PerProcess, lock};
use crate::trace::DetachedSpan;

/// More threads than this hardly ever look for spans at once; a power of two.
const SHARDS: usize = 32;
/// Places of a shard; a power of two. Few programs have more than some hundred spans open.
const PLACES: usize = 16;

/// All spans of a layer that are open. A forked child starts with none: those of its parent are the parent's to send.
pub(super) struct OpenSpans(PerProcess<Box<Shards>>);

type Shards = [Shard; SHARDS];

/// Apart from its neighbours in memory, so that threads do not slow each other down.
#[derive(Default)]
#[repr(align(64))]
struct Shard(Mutex<Spans>);

/// Spans by their ids. Each id has its place; a search is needed only where two open spans have the same.
#[derive(Default)]
struct Spans {
    places: [Slot; PLACES],
    /// Those whose place was taken.
    others: BTreeMap<u64, SpanState>,
}

#[derive(Default)]
struct Slot {
    /// Of the span that is or was here; no span has 0.
    id: u64,
    open: Option<SpanState>,
}

/// A span, and what is kept beside it.
pub(super) struct SpanState {
    pub(super) span: DetachedSpan,
    pub(super) activity: Option<Box<Activity>>,
}

impl OpenSpans {
    pub(super) fn new() -> Self {
        Self(PerProcess::new(Box::default()))
    }

    #[inline]
    pub(super) fn insert(&self, id: &Id, open: SpanState) {
        // an id is given to another span only when the first is closed; if not, that is sent after the lock is given back
        let _replaced = self.shard(id).insert(id.into_u64(), open);
    }

    #[inline]
    pub(super) fn remove(&self, id: &Id) -> Option<SpanState> {
        self.shard(id).remove(id.into_u64())
    }

    /// Does something to an open span; `None` if it is not one of this layer. Nothing but the span is touched: no code of
    /// the program runs.
    #[inline]
    pub(super) fn with<T>(&self, id: &Id, work: impl FnOnce(&mut SpanState) -> T) -> Option<T> {
        self.shard(id).get_mut(id.into_u64()).map(work)
    }

    /// What identifies a span to others.
    pub(super) fn context(&self, id: &Id) -> Option<SpanContext> {
        self.with(id, |open| open.span.context().clone())
    }

    #[inline]
    fn shard(&self, id: &Id) -> MutexGuard<'_, Spans> {
        let shards = self.0.get_or_renew(Box::default);
        lock(&shards[shard_of(id)].0)
    }
}

/// A layer may be taken away under a lock that the exporters' threads need to go on, so no caller waits for room here. There
/// is nothing left but by a `reload::Layer`: other subscribers stay until their last span is closed.
impl Drop for OpenSpans {
    fn drop(&mut self) {
        let left = self.0.get().into_iter().flat_map(|shards| shards.iter());
        context::suppress_instrumentation(|| {
            left.for_each(|shard| drop(mem::take(&mut *lock(&shard.0))));
        });
    }
}

impl Spans {
    /// The span that had this id before, if it was not removed.
    #[inline]
    fn insert(&mut self, id: u64, open: SpanState) -> Option<SpanState> {
        let place = &mut self.places[place_of(id)];
        if place.open.is_some() || !self.others.is_empty() {
            return self.insert_beside(id, open);
        }
        *place = Slot { id, open: Some(open) };
        None
    }

    #[inline(never)]
    fn insert_beside(&mut self, id: u64, open: SpanState) -> Option<SpanState> {
        if let Some(before) = self.get_mut(id) {
            return Some(mem::replace(before, open));
        }
        let place = &mut self.places[place_of(id)];
        match place.open {
            Some(_) => self.others.insert(id, open),
            None => {
                *place = Slot { id, open: Some(open) };
                None
            }
        }
    }

    #[inline]
    fn get_mut(&mut self, id: u64) -> Option<&mut SpanState> {
        let place = &mut self.places[place_of(id)];
        match &mut place.open {
            Some(open) if place.id == id => Some(open),
            _ if self.others.is_empty() => None,
            _ => self.others.get_mut(&id),
        }
    }

    #[inline]
    fn remove(&mut self, id: u64) -> Option<SpanState> {
        let place = &mut self.places[place_of(id)];
        match place.id == id && place.open.is_some() {
            true => place.open.take(),
            false if self.others.is_empty() => None,
            false => self.others.remove(&id),
        }
    }
}

#[inline]
fn shard_of(id: &Id) -> usize {
    place_among_all(id.into_u64()) / PLACES
}

#[inline]
fn place_of(id: u64) -> usize {
    place_among_all(id) % PLACES
}

/// Returns the uppermost bits of a product that spreads all bits of the id: those that differ between threads are high.
#[inline]
fn place_among_all(id: u64) -> usize {
    let spread = id.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (spread >> (u64::BITS - (SHARDS * PLACES).trailing_zeros())) as usize
}

/// How long a span was entered, and how long it was not.
pub(super) struct Activity {
    since: Instant,
    /// How many times it is entered now.
    entered: usize,
    busy: Duration,
    idle: Duration,
}

impl Activity {
    pub(super) fn start() -> Self {
        Self { since: Instant::now(), entered: 0, busy: Duration::ZERO, idle: Duration::ZERO }
    }

    pub(super) fn enter(&mut self) {
        if self.entered == 0 {
            let idle = self.turn();
            self.idle += idle;
        }
        self.entered += 1;
    }

    pub(super) fn exit(&mut self) {
        self.entered = self.entered.saturating_sub(1);
        if self.entered == 0 {
            let busy = self.turn();
            self.busy += busy;
        }
    }

    fn turn(&mut self) -> Duration {
        let now = Instant::now();
        now.saturating_duration_since(mem::replace(&mut self.since, now))
    }

    /// Sets the attributes for it.
    pub(super) fn set_on(&self, span: &mut DetachedSpan) {
        let nanos = |duration: Duration| i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
        span.set("busy_ns", nanos(self.busy)).set("idle_ns", nanos(self.idle));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};
    use std::sync::Barrier;
    use std::thread;

    use tracing::dispatcher::{self, Dispatch};

    use super::*;
    use crate::{Config, Telemetry};

    fn open(telemetry: &Telemetry, name: &str) -> SpanState {
        SpanState { span: telemetry.tracer("shop").span_builder(name).detached(), activity: None }
    }

    #[test]
    fn any_number_of_spans_can_be_open() {
        let (telemetry, spans) = (Telemetry::start(Config::new()).unwrap(), OpenSpans::new());
        let ids = || (1..=(4 * SHARDS * PLACES) as u64).map(Id::from_u64);
        let mut contexts = HashMap::new();
        for id in ids() {
            let mut open = open(&telemetry, "one of many");
            contexts.insert(id.into_u64(), open.span.context().clone());
            spans.insert(&id, open);
        }
        let (odd, even): (Vec<_>, Vec<_>) = ids().partition(|id| id.into_u64() % 2 == 1);
        assert!(odd.iter().all(|id| spans.remove(id).is_some()));
        assert!(odd.iter().all(|id| spans.context(id).is_none() && spans.remove(id).is_none()));
        for id in even {
            assert_eq!(spans.context(&id).as_ref(), contexts.get(&id.into_u64()));
            assert!(spans.remove(&id).is_some());
        }
    }

    #[test]
    fn a_span_takes_the_place_of_one_with_its_id() {
        let (telemetry, spans) = (Telemetry::start(Config::new()).unwrap(), OpenSpans::new());
        for id in (1..=(4 * SHARDS * PLACES) as u64).map(Id::from_u64) {
            spans.insert(&id, open(&telemetry, "first"));
            let mut second = open(&telemetry, "second");
            let context = second.span.context().clone();
            spans.insert(&id, second);
            assert_eq!(spans.context(&id), Some(context));
        }
        for id in (1..=(4 * SHARDS * PLACES) as u64).map(Id::from_u64) {
            assert!(spans.remove(&id).is_some() && spans.remove(&id).is_none());
        }
    }

    #[test]
    fn spans_of_threads_that_do_the_same_lie_apart() {
        const THREADS: usize = 8;
        let (registry, together) = (Dispatch::new(tracing_subscriber::registry()), Barrier::new(THREADS));
        let shard_of_first_span = || {
            dispatcher::with_default(&registry, || {
                let span = tracing::info_span!("first");
                together.wait();
                span.id().map(|id| shard_of(&id))
            })
        };
        let shards: HashSet<_> = thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(shard_of_first_span)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap().unwrap()).collect()
        });
        assert!(shards.len() > THREADS / 2, "{shards:?}");
    }
}
