//! The spans of a layer that are open, by their ids.
//!
//! They could lie in the registry, beside what other layers keep there, but that takes an allocation for each span and a
//! look into the registry for each step.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::Id;

use crate::context::{self, SpanContext};
use crate::fork::PerProcess;
use crate::tracer::DetachedSpan;

/// More threads than this hardly ever look for spans at once; a power of two.
const SHARDS: usize = 32;

/// All spans of a layer that are open. A forked child starts with none: those of its parent are the parent's to send.
pub(super) struct OpenSpans(PerProcess<Shards>);

type Shards = [Shard; SHARDS];

/// Apart from its neighbours in memory, so that threads do not slow each other down.
#[derive(Default)]
#[repr(align(64))]
struct Shard(Mutex<HashMap<u64, OpenSpan, BuildHasherDefault<IdHasher>>>);

/// A span, and what is kept beside it.
pub(super) struct OpenSpan {
    pub(super) span: DetachedSpan,
    pub(super) activity: Option<Box<Activity>>,
}

impl OpenSpans {
    pub(super) fn new() -> Self {
        Self(PerProcess::new(Shards::default()))
    }

    #[inline]
    pub(super) fn insert(&self, id: &Id, open: OpenSpan) {
        // an id is given to another span only when the first is closed; if not, that is sent after the lock is given back
        let _replaced = self.shard(id).insert(id.into_u64(), open);
    }

    #[inline]
    pub(super) fn remove(&self, id: &Id) -> Option<OpenSpan> {
        self.shard(id).remove(&id.into_u64())
    }

    /// Does something to an open span; `None` if it is not one of this layer. Nothing but the span is touched: no code of
    /// the program runs.
    #[inline]
    pub(super) fn with<T>(&self, id: &Id, work: impl FnOnce(&mut OpenSpan) -> T) -> Option<T> {
        self.shard(id).get_mut(&id.into_u64()).map(work)
    }

    /// What identifies a span to others.
    pub(super) fn context(&self, id: &Id) -> Option<SpanContext> {
        self.with(id, |open| open.span.context().clone())
    }

    #[inline]
    fn shard(&self, id: &Id) -> MutexGuard<'_, HashMap<u64, OpenSpan, BuildHasherDefault<IdHasher>>> {
        let shards = self.0.get_or_renew(Shards::default);
        shards[shard_of(id)].0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A layer may be taken away under a lock that the exporters' threads need to go on, so nobody waits for room here. There
/// is nothing left but by a `reload::Layer`: other subscribers stay until their last span is closed.
impl Drop for OpenSpans {
    fn drop(&mut self) {
        let left = self.0.get().into_iter().flatten();
        context::quietly(|| {
            left.for_each(|shard| {
                drop(mem::take(&mut *shard.0.lock().unwrap_or_else(PoisonError::into_inner)))
            });
        });
    }
}

/// By the uppermost bits of the product, to which all bits of the id are spread: those that tell threads apart are high.
#[inline]
fn shard_of(id: &Id) -> usize {
    (spread(id.into_u64()) >> (u64::BITS - SHARDS.trailing_zeros())) as usize
}

/// Ids are numbers already; they only need to be spread.
#[derive(Default)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    #[inline]
    fn write_u64(&mut self, id: u64) {
        self.0 = spread(id);
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, byte| spread(hash ^ u64::from(*byte)));
    }

    #[inline]
    fn finish(&self) -> u64 {
        // a map looks at the lower bits, and to those the upper ones are not spread
        self.0.rotate_left(20)
    }
}

#[inline]
fn spread(id: u64) -> u64 {
    id.wrapping_mul(0x9e37_79b9_7f4a_7c15)
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

    /// Tells the attributes for it.
    pub(super) fn tell(&self, span: &mut DetachedSpan) {
        let nanos = |duration: Duration| i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
        span.set("busy_ns", nanos(self.busy)).set("idle_ns", nanos(self.idle));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Barrier;
    use std::thread;

    use tracing::dispatcher::{self, Dispatch};

    use super::*;

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
