//! The open spans of a layer, by id.
//!
//! A sharded table of fixed slots, with a map for collisions. The subscriber's registry could also store the spans, but
//! that takes an allocation per span and a registry lookup per step.

use std::collections::BTreeMap;
use std::mem;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tracing::Id;

use crate::context::{self, SpanContext};
use crate::process::{PerProcess, lock};
use crate::trace::DetachedSpan;

/// Number of shards, a power of two. Programs rarely access spans on more threads than this at the same time.
const SHARDS: usize = 32;
/// Slots per shard, a power of two. Few programs have more than a few hundred open spans.
const PLACES: usize = 16;

/// All open spans of a layer. A forked child starts without spans, because the parent sends the inherited ones.
pub(super) struct OpenSpans(PerProcess<Box<Shards>>);

type Shards = [Shard; SHARDS];

/// Aligned to a cache line, so that threads do not slow each other down (false sharing).
#[derive(Default)]
#[repr(align(64))]
struct Shard(Mutex<Spans>);

/// Spans by id. Each id belongs to one slot; the map is searched only while it contains spans.
#[derive(Default)]
struct Spans {
    places: [Slot; PLACES],
    /// Spans whose slot was in use when they were inserted.
    others: BTreeMap<u64, SpanState>,
}

#[derive(Default)]
struct Slot {
    /// Id of the span that is or was in the slot; 0 if the slot was never used.
    id: u64,
    open: Option<SpanState>,
}

/// An open span, and how long it was busy.
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
        // Ids are unique among open spans. If an id is reused nevertheless, the replaced span is sent here, after the
        // lock is released.
        let _replaced = self.shard(id).insert(id.into_u64(), open);
    }

    #[inline]
    pub(super) fn remove(&self, id: &Id) -> Option<SpanState> {
        self.shard(id).remove(id.into_u64())
    }

    /// Runs `work` on an open span. Returns `None` if the span does not belong to this layer. `work` must not run code
    /// of the program, because the shard is locked.
    #[inline]
    pub(super) fn with<T>(&self, id: &Id, work: impl FnOnce(&mut SpanState) -> T) -> Option<T> {
        self.shard(id).get_mut(id.into_u64()).map(work)
    }

    pub(super) fn context(&self, id: &Id) -> Option<SpanContext> {
        self.with(id, |open| open.span.context().clone())
    }

    #[inline]
    fn shard(&self, id: &Id) -> MutexGuard<'_, Spans> {
        let shards = self.0.get_or_renew(Box::default);
        lock(&shards[shard_of(id)].0)
    }
}

/// Sends the spans that are still open. A layer may be dropped under a lock that the exporters' threads need, so this
/// code suppresses instrumentation: a full queue then drops the span instead of making the caller wait. Only a
/// `reload::Layer` leaves spans open: other subscribers live until their last span is closed.
impl Drop for OpenSpans {
    fn drop(&mut self) {
        let left = self.0.get().into_iter().flat_map(|shards| shards.iter());
        context::suppress_instrumentation(|| {
            // The spans are dropped after the lock is released: the end of a span takes other locks.
            left.map(|shard| mem::take(&mut *lock(&shard.0))).for_each(drop);
        });
    }
}

impl Spans {
    /// Inserts a span. Returns the span that had the same id, if there was one.
    #[inline]
    fn insert(&mut self, id: u64, open: SpanState) -> Option<SpanState> {
        let place = &mut self.places[place_of(id)];
        // If the map is not empty, it may have a span with the same id.
        if place.open.is_some() || !self.others.is_empty() {
            return self.insert_colliding(id, open);
        }
        *place = Slot { id, open: Some(open) };
        None
    }

    #[inline(never)]
    fn insert_colliding(&mut self, id: u64, open: SpanState) -> Option<SpanState> {
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

/// Returns the upper bits of a product. They depend on all bits of the id, even the high bits, which name the thread.
#[inline]
fn place_among_all(id: u64) -> usize {
    // Fibonacci hashing: the multiplier is 2^64 divided by the golden ratio.
    let spread = id.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (spread >> (u64::BITS - (SHARDS * PLACES).trailing_zeros())) as usize
}

/// How long a span was entered, and how long it was not.
pub(super) struct Activity {
    since: Instant,
    /// Number of times the span is entered now.
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
        // Counted, because a span can be entered again, by this thread or another, before it is exited.
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

    /// Sets the attributes `busy_ns` and `idle_ns`.
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
