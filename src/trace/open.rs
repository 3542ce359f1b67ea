//! Open spans: their storage, which each thread reuses, and the marks from which the ledger reads their names.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::{mem, thread};

use super::detached::DetachedState;
use super::{TracerShared, span};
use crate::context::{Clock, SpanContext};
use crate::pipeline::ledger::{NotEnqueuedReason, OpenSpans};
use crate::process::atomic::AtomicU64;
use crate::process::{self, PerProcess};
#[cfg(feature = "tracing")]
use crate::record::Status;
use crate::record::{IntoValue, Pool, SpanHead, SpanId, SpanRecord, SpanRef, TraceId};

/// The record of a span, and the tracer that sends it. A thread reuses the storage including the reference to the
/// tracer, so starting another span of the same tracer touches no reference count.
pub(crate) struct OpenSpan {
    pub(crate) record: SpanRecord,
    pub(super) context: SpanContext,
    pub(super) clock: Clock,
    pub(super) shared: Arc<TracerShared>,
    /// Fork generation of the process that uses the storage.
    generation: u32,
    /// Shows the ledger whether the span is open, and its name.
    mark: Arc<OpenMark>,
    /// Id of the last span in this storage that began while its thread was panicking. Such a span is not recorded as
    /// ended by the panic.
    began_in_panic: Option<SpanId>,
    /// State of a detached span.
    pub(super) detached: DetachedState,
}

/// Fork generation stored for a span that is recorded but not sampled. No process has this generation, so the span is
/// treated as one of another process, and is never sent.
const NEVER_SENT: u32 = u32::MAX;

/// Maximum size of the storage of a record that will not be sent. Larger storage is freed.
const LARGE_RECORD: usize = 2 << 10;

thread_local! {
    static POOL: Pool<OpenSpan, 16> = const { Pool::new() };
}

impl OpenSpan {
    #[inline(always)]
    pub(super) fn begin(shared: &Arc<TracerShared>, head: &SpanHead<'_>, clock: Clock) -> Box<Self> {
        let mut open = match Pool::take(&POOL) {
            Some(open) if open.is_of(shared) => open,
            other => Self::for_tracer(other, shared, clock),
        };
        open.clock = clock;
        if thread::panicking() {
            open.began_in_panic = Some(head.span_id);
        }
        open.record.begin(head);
        match open.record.begun_name(head) {
            Some(name) => open.mark.open(name, head.name.len(), head.span_id),
            None => open.mark.open(&first_bytes(head.name), head.name.len(), head.span_id),
        }
        open
    }

    /// Makes storage for a span that is not recorded.
    pub(super) fn unrecorded(shared: &Arc<TracerShared>) -> Box<Self> {
        match Pool::take(&POOL) {
            Some(open) if open.is_of(shared) => open,
            other => Self::for_tracer(other, shared, Clock::start().0),
        }
    }

    /// Returns whether the storage is ready for spans of this tracer, in this process.
    #[inline(always)]
    fn is_of(&self, shared: &Arc<TracerShared>) -> bool {
        Arc::ptr_eq(&self.shared, shared) && self.generation == process::generation()
    }

    /// Prepares used or new storage for spans of this tracer.
    #[cold]
    fn for_tracer(used: Option<Box<Self>>, shared: &Arc<TracerShared>, clock: Clock) -> Box<Self> {
        let (marks, generation) = (&shared.open_marks, process::generation());
        let is_ready =
            |open: &Self| open.generation == generation && Arc::ptr_eq(&marks.0, &open.shared.open_marks.0);
        let used = used.map(|open| (is_ready(&open), open));
        let (is_ready, mut open) = used.unwrap_or_else(|| (false, Self::new(shared, clock)));
        if !is_ready {
            open.mark = marks.add();
            open.record.copy_to(shared.exporters.open_span_slots());
        }
        open.generation = generation;
        open.shared = Arc::clone(shared);
        open.record.set_scope(&shared.scope);
        open.record.limit(&shared.limits, shared.largest.unwrap_or_default());
        open
    }

    fn new(shared: &Arc<TracerShared>, clock: Clock) -> Box<Self> {
        let unset = SpanRef { trace_id: TraceId([0; 16]), span_id: SpanId([0; 8]), trace_flags: 0 };
        Box::new(Self {
            record: SpanRecord::default(),
            context: SpanContext::of(unset, None),
            clock,
            shared: Arc::clone(shared),
            generation: process::generation(),
            began_in_panic: None,
            mark: Arc::default(),
            detached: DetachedState::default(),
        })
    }

    /// Ends the span, now or at the given time, and enqueues it if this process is to send it.
    #[inline(always)]
    pub(super) fn finish(mut self: Box<Self>, end: Option<u64>) {
        // Closed before `enqueue`, where the caller may wait for room in the queue: the span has already ended.
        self.mark.close();
        // A span that was open at a fork is sent by the parent.
        if self.generation == process::generation() {
            let end = end.unwrap_or_else(|| self.clock.now());
            if thread::panicking() && self.began_in_panic != Some(self.context.span_id) {
                span::record_panic(&mut self, end);
            }
            match self.record.finish(end) {
                Some(record) => self.shared.exporters.enqueue_span(&self.shared.scope, record),
                None => self.shared.exporters.count_span_not_enqueued(NotEnqueuedReason::TooLarge),
            }
        } else if let (NEVER_SENT, Some(counts)) = (self.generation, &self.shared.counts) {
            counts.record_only_ended();
        }
        self.keep();
    }

    /// Makes the span record-only: it is not sent, not in the ledger, and not in the flight recorder.
    #[cold]
    pub(super) fn never_send(&mut self) {
        self.generation = NEVER_SENT;
        self.mark.close();
        self.mark = Arc::default();
        self.record.clear_copies();
        self.record.copy_to(Vec::new());
    }

    /// Makes several changes that are copied to the flight recorder together.
    #[inline(always)]
    pub(crate) fn set_at_once(&mut self, set: impl FnOnce(&mut Self)) {
        self.record.pause_copies();
        set(self);
        self.record.resume_copies();
    }

    /// Sets an attribute. The fast path is inlined at the call site if the value is available without conversion.
    #[inline(always)]
    pub(super) fn set_inlined(&mut self, key: &str, value: impl IntoValue) {
        match value.as_value() {
            Some(value) => self.record.set_inlined(key, value),
            None => value.with_value(|value| self.record.set(key, value)),
        }
    }

    /// Changes the name of the span, in the record and in the mark.
    pub(crate) fn rename(&mut self, name: &str) {
        let written = self.record.set_name(name);
        match written {
            Some(bytes) => self.mark.rename(bytes, name.len()),
            None => self.mark.rename(&first_bytes(name), name.len()),
        }
    }

    /// Sets the status, unless one was set.
    #[cfg(feature = "tracing")]
    pub(crate) fn status_unless_set(&mut self, status: Status<'_>) {
        if !self.record.has_status() {
            self.record.set_status(status);
        }
    }

    /// Closes the mark and clears the flight recorders' copies of a record that will not be sent. Frees a large record.
    pub(super) fn abandon_record(&mut self) {
        self.mark.close();
        self.record.clear_copies();
        if self.record.capacity() > LARGE_RECORD {
            self.record.free();
            self.record.limit(&self.shared.limits, self.shared.largest.unwrap_or_default());
        }
    }

    /// Keeps the storage for the next span, and discards the record.
    #[inline(always)]
    pub(super) fn keep(mut self: Box<Self>) {
        self.context.clear_state();
        self.record.clear_copies();
        let bytes = self.record.capacity();
        Pool::keep(&POOL, self, bytes);
    }
}

/// Number of bytes of a name that a mark keeps.
pub(crate) const MARK_NAME_BYTES: usize = 32;
/// Initial capacity of the list of marks.
const MIN_MARKS: usize = 16;

/// Whether the span in a storage is open, and its name.
///
/// A seqlock with one writer at a time, which costs the writer a few plain stores. The span id is the sequence number,
/// since no two spans have the same id.
#[derive(Debug, Default)]
pub(crate) struct OpenMark {
    /// Sequence number; 0 while no span is open.
    sequence: AtomicU64,
    len: AtomicUsize,
    name: [AtomicU64; MARK_NAME_BYTES / 8],
}

impl OpenMark {
    /// Marks a span as open. `name` has the first bytes of its name, and `len` is the length of the whole name.
    #[inline(always)]
    pub(crate) fn open(&self, name: &[u8; MARK_NAME_BYTES], len: usize, span_id: SpanId) {
        self.write(name, len, u64::from_ne_bytes(span_id.0));
    }

    pub(crate) fn rename(&self, name: &[u8; MARK_NAME_BYTES], len: usize) {
        let sequence = self.sequence.load(Ordering::Relaxed);
        self.close();
        self.write(name, len, sequence.wrapping_add(1));
    }

    #[inline(always)]
    fn write(&self, name: &[u8; MARK_NAME_BYTES], len: usize, sequence: u64) {
        // Pairs with the acquire fence in `read`: a reader that sees a store below also sees that the previous span has
        // ended.
        fence(Ordering::Release);
        self.len.store(len, Ordering::Relaxed);
        // Copies a fixed length, which is faster than copying only the bytes of the name.
        for (word, bytes) in self.name.iter().zip(name.chunks_exact(8)) {
            word.store(bytes.try_into().map_or(0, u64::from_ne_bytes), Ordering::Relaxed);
        }
        self.sequence.store(sequence, Ordering::Release);
    }

    /// Marks the span as ended.
    #[inline(always)]
    pub(crate) fn close(&self) {
        self.sequence.store(0, Ordering::Relaxed);
    }

    /// Returns the name of the open span; `None` if no span is open.
    fn read(&self) -> Option<String> {
        loop {
            let sequence = self.sequence.load(Ordering::Acquire);
            if sequence == 0 {
                return None;
            }
            let len = self.len.load(Ordering::Relaxed);
            let words = self.name.each_ref().map(|word| word.load(Ordering::Relaxed).to_ne_bytes());
            fence(Ordering::Acquire);
            if self.sequence.load(Ordering::Relaxed) == sequence {
                return Some(shown(len, words.as_flattened()));
            }
        }
    }
}

/// Returns the first bytes of a name, for [`OpenMark::open`].
#[cold]
pub(crate) fn first_bytes(name: &str) -> [u8; MARK_NAME_BYTES] {
    let mut bytes = [0; MARK_NAME_BYTES];
    bytes.iter_mut().zip(name.bytes()).for_each(|(place, byte)| *place = byte);
    bytes
}

/// Returns a name for display, given its length and its first bytes. A shortened name ends in `…`.
fn shown(len: usize, kept: &[u8]) -> String {
    let kept = &kept[..len.min(MARK_NAME_BYTES)];
    // The cut may be in the middle of a character.
    let whole = std::str::from_utf8(kept).map_or_else(|cut| cut.valid_up_to(), str::len);
    let mut name = String::from_utf8_lossy(&kept[..whole]).into_owned();
    if len > MARK_NAME_BYTES {
        name.push('…');
    }
    name
}

/// The marks of all storage that spans of one telemetry use. A forked child starts without marks, because the parent
/// reports the spans that were open at the fork.
#[derive(Debug, Clone)]
pub(crate) struct OpenMarks(Arc<PerProcess<Mutex<Marks>>>);

type Marks = Vec<Weak<OpenMark>>;

impl OpenMarks {
    pub(crate) fn new() -> Self {
        Self(Arc::new(PerProcess::new(Mutex::default())))
    }

    /// Adds a mark. Nothing is allocated or freed under the lock, because the program's allocator may start a span.
    pub(crate) fn add(&self) -> Arc<OpenMark> {
        let mark = Arc::new(OpenMark::default());
        let mut others = Marks::new();
        loop {
            let mut marks = self.lock();
            if marks.len() == marks.capacity() {
                let needed = (2 * marks.iter().filter(|mark| is_used(mark)).count()).max(MIN_MARKS);
                if others.capacity() < needed {
                    drop(marks);
                    others = Marks::with_capacity(needed);
                    continue;
                }
                // Marks of storage that was dropped are left in the old list, and freed after the lock is released.
                mem::swap(&mut *marks, &mut others);
                marks.extend(others.iter_mut().filter(|mark| is_used(mark)).map(mem::take));
            }
            marks.push(Arc::downgrade(&mark));
            drop(marks);
            return mark;
        }
    }

    /// Returns the number of open spans.
    pub(crate) fn count(&self) -> u64 {
        let is_open = |mark: &Weak<OpenMark>| mark.upgrade().is_some_and(|mark| mark.read().is_some());
        self.snapshot().iter().filter(|mark| is_open(mark)).count() as u64
    }

    /// Returns the names of the open spans, with the number of spans of each name.
    pub(crate) fn read(&self) -> OpenSpans {
        let mut names = HashMap::new();
        for name in self.snapshot().iter().filter_map(|mark| mark.upgrade()?.read()) {
            *names.entry(name).or_default() += 1;
        }
        OpenSpans::new(names)
    }

    fn snapshot(&self) -> Marks {
        let mut snapshot = Marks::new();
        loop {
            let marks = self.lock();
            if marks.len() <= snapshot.capacity() {
                snapshot.extend_from_slice(&marks);
                return snapshot;
            }
            let needed = marks.len();
            drop(marks);
            snapshot = Marks::with_capacity(needed);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Marks> {
        self.0.get_or_renew(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_used(mark: &Weak<OpenMark>) -> bool {
    mark.strong_count() > 0
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};
    use std::{hint, thread};

    use super::*;

    #[test]
    fn marks_of_storage_that_is_gone_make_room() {
        let marks = OpenMarks::new();
        let kept: Vec<_> = (0..100).map(|_| marks.add()).collect();
        (0..10_000).for_each(|_| drop(marks.add()));
        assert!(marks.lock().capacity() <= 2 * kept.len(), "{}", marks.lock().capacity());
        kept.iter().for_each(|mark| mark.open(&first_bytes("kept"), 4, SpanId([1; 8])));
        assert_eq!(marks.read(), OpenSpans::new([("kept".to_owned(), 100)]));
    }

    #[test]
    fn a_name_is_read_whole_or_not_at_all() {
        let names = ["a".repeat(32), "b".repeat(31), "c".repeat(16), "d".repeat(9), "e".repeat(3)];
        let (mark, mut seen) = (Arc::new(OpenMark::default()), 0);
        let (written, is_read) = (Arc::clone(&mark), Arc::new(()));
        let reader = Arc::downgrade(&is_read);
        let writer = thread::spawn({
            let names = names.clone();
            move || {
                for (number, name) in (1_u64..).zip(names.iter().cycle()) {
                    written.open(&first_bytes(name), name.len(), SpanId(number.to_ne_bytes()));
                    if reader.strong_count() == 0 {
                        return;
                    }
                    // Stay open for about as long as a read takes; otherwise readers would hardly ever see an open
                    // span.
                    (0..100).for_each(|_| hint::spin_loop());
                    written.close();
                }
            }
        });
        let deadline = Instant::now() + Duration::from_secs(60);
        while seen < 10_000 {
            assert!(Instant::now() < deadline, "{seen} names were read");
            if let Some(name) = mark.read() {
                assert!(names.contains(&name), "{name}");
                seen += 1;
            }
        }
        drop(is_read);
        writer.join().expect("it only writes");
        assert!(mark.read().is_some());
    }
}
