//! Bounded in records and in bytes; what does not fit waits or is counted as lost.
//!
//! A caller copies its framed record into the open chunk of its shard, under a lock that it shares
//! with few others; full chunks cross a bounded channel. So a record costs a copy and no allocation,
//! and the worker moves chunks, not records.

mod door;
mod level;
mod shard;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::config::QueueSettings;
use crate::record::{Chunk, Scope, Signal};
use crate::stats::{Books, Refusal};
use door::Door;
pub(crate) use level::WakeAt;
use level::{Float, Level};
use shard::Shards;

/// A chunk is handed over when the next record would make it larger than this.
const CHUNK_BYTES: usize = 32 << 10;
/// Empty chunks that an idle program keeps.
const IDLE_SPARES: usize = 2;

/// The way from the callers to one exporter's worker.
#[derive(Debug)]
pub(crate) struct Queue {
    level: Level,
    float: Float,
    door: Door,
    shards: Shards,
    full: (Sender<Box<Chunk>>, Receiver<Box<Chunk>>),
    spare: (Sender<Box<Chunk>>, Receiver<Box<Chunk>>),
    largest_record: usize,
    closed: AtomicBool,
    /// Accepted from the worker, by signal.
    admitted: [AtomicU64; Signal::COUNT],
    books: Arc<Books>,
}

impl Queue {
    /// A queue for records of at most `largest_record` bytes; `wake` receives a note when the worker
    /// asked to be woken, see [`wake_at`](Self::wake_at).
    pub(crate) fn new(
        settings: &QueueSettings,
        largest_record: usize,
        books: Arc<Books>,
        wake: Sender<()>,
    ) -> Self {
        let shards = Shards::new();
        // two chunks in a row hold more than one chunk's bytes, or the second would not have been begun
        let most_chunks = 2 * (settings.bytes / CHUNK_BYTES + shards.count()) + 2;
        Self {
            level: Level::new(settings.records, settings.bytes),
            float: Float::new(wake),
            door: Door::new(settings.when_full, settings.block_timeout),
            shards,
            full: bounded(most_chunks),
            spare: bounded(most_chunks),
            largest_record: largest_record.min(settings.bytes),
            closed: AtomicBool::new(false),
            admitted: Default::default(),
            books,
        }
    }

    /// Takes in what is framed as one and counts as so many records, or counts why not. Never fails, and waits only if
    /// it was told to.
    #[inline]
    pub(crate) fn push(&self, scope: &Arc<Scope>, frame: &[u8], records: usize) {
        // what will never find room must not wait for it
        if frame.len() > self.largest_record || records > self.most_records() {
            return self.turn_away(scope, Refusal::TooLarge, records);
        }
        let raised = match self.door.is_queued_up() && self.must_line_up(records, frame.len()) {
            false => self.level.rise_by(records, frame.len()),
            true => None,
        };
        match raised.or_else(|| self.wait_for_room(records, frame.len())) {
            Some(raised) => {
                if !self.shards.append(scope, frame, records, self) {
                    self.release(records, frame.len());
                    return self.turn_away(scope, Refusal::AfterShutdown, records);
                }
                self.float.lift(raised);
            }
            None if self.is_closed() => self.turn_away(scope, Refusal::AfterShutdown, records),
            None => self.turn_away(scope, Refusal::QueueFull, records),
        }
    }

    fn turn_away(&self, scope: &Scope, refusal: Refusal, records: usize) {
        self.books.turn_away_all(scope.signal, refusal, records as u64);
    }

    /// Whether records could take the room of those that are in line. If not, their caller goes ahead: everyone in
    /// line is only waking up, and a line that newcomers join would go on for ever, with a wake-up for each record.
    #[cold]
    fn must_line_up(&self, records: usize, bytes: usize) -> bool {
        let (records, bytes) = (self.door.in_line() + records, self.largest_record.saturating_add(bytes));
        !self.level.has_room(records, bytes)
    }

    /// Accepts what the worker has made itself and keeps itself, if there is room: it cannot wait for itself.
    pub(crate) fn admit(&self, signal: Signal, records: usize, bytes: usize) -> bool {
        let has_room = self.level.rise_by(records, bytes).is_some();
        if has_room {
            self.admitted[signal as usize].fetch_add(records as u64, Ordering::SeqCst);
        }
        has_room
    }

    /// Counts a record that was too large to be finished.
    pub(crate) fn turn_away_too_large(&self, signal: Signal) {
        self.books.turn_away(signal, Refusal::TooLarge);
    }

    #[cold]
    fn wait_for_room(&self, records: usize, bytes: usize) -> Option<level::Raised> {
        let enter = || self.level.rise_by(records, bytes);
        self.door.wait(records, || self.float.press(), enter, || self.is_closed())
    }

    /// All records that were accepted, by signal.
    pub(crate) fn accepted(&self) -> [u64; Signal::COUNT] {
        let mut accepted = self.shards.accepted();
        for (accepted, admitted) in accepted.iter_mut().zip(&self.admitted) {
            *accepted += admitted.load(Ordering::SeqCst);
        }
        accepted
    }

    /// Records and bytes that are queued or in the worker's hands.
    pub(crate) fn level(&self) -> (usize, usize) {
        self.level.read()
    }

    /// Asks for a note when the queue reaches a level; true if it is there already or callers wait.
    pub(crate) fn wake_at(&self, wake_at: WakeAt) -> bool {
        self.float.set(wake_at);
        wake_at.is_reached(self.level.read()) || self.door.is_queued_up()
    }

    /// Whether a wait now would end in a stall or a loss.
    pub(crate) fn is_pressing(&self) -> bool {
        self.pressure().is_reached(self.level.read()) || self.door.is_queued_up()
    }

    /// Three quarters full.
    pub(crate) fn pressure(&self) -> WakeAt {
        let (records, bytes) = self.level.capacity();
        WakeAt { records: (records / 4 * 3).max(1), bytes: (bytes / 4 * 3).max(1) }
    }

    /// The most records that can be queued.
    pub(crate) fn most_records(&self) -> usize {
        self.level.capacity().0
    }

    /// What several records together may take in a request, which is a second copy of them: an eighth, or
    /// with the record that a caller is writing, memory would rise too far above what the queue may take.
    pub(crate) fn most_bytes_of_a_request(&self) -> usize {
        (self.level.capacity().1 / 8).max(CHUNK_BYTES)
    }

    /// Moves all that is queued now to the worker.
    pub(crate) fn drain(&self, mut take: impl FnMut(Box<Chunk>)) {
        // the open chunks before the full ones are counted: one that changes hands in between is not missed
        let mut open = Vec::with_capacity(self.shards.count());
        self.shards.take_open(|chunk| open.push(chunk));
        // callers go on filling chunks meanwhile: those are for the next round
        let full = self.full.1.len();
        self.full.1.try_iter().take(full).chain(open).for_each(&mut take);
    }

    /// Gives an emptied chunk back to the callers.
    pub(crate) fn give_back(&self, mut chunk: Box<Chunk>) {
        if chunk.fits_in(CHUNK_BYTES) {
            chunk.recycle(chunk.signal());
            let _ = self.spare.0.try_send(chunk);
        }
    }

    /// Frees the chunks that a burst has left behind.
    pub(crate) fn trim(&self) {
        let surplus = self.spare.1.len().saturating_sub(IDLE_SPARES);
        self.spare.1.try_iter().take(surplus).for_each(drop);
    }

    /// Makes room for new records, once these are settled.
    pub(crate) fn release(&self, records: usize, bytes: usize) {
        self.level.fall(records, bytes);
        self.door.room_made();
    }

    /// From now on records are turned away, and blocked callers go on.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.door.room_made();
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// An empty chunk, used before if possible.
    fn fresh_chunk(&self, signal: Signal) -> Box<Chunk> {
        match self.spare.1.try_recv() {
            Ok(mut chunk) => {
                chunk.recycle(signal);
                chunk
            }
            Err(_) => Box::new(Chunk::with_capacity(signal, CHUNK_BYTES)),
        }
    }

    /// Hands a chunk over; gives it back if there is no place, to be filled further.
    fn hand_over(&self, chunk: Box<Chunk>) -> Option<Box<Chunk>> {
        self.full.0.try_send(chunk).err().map(crossbeam_channel::TrySendError::into_inner)
    }
}

#[cfg(test)]
mod tests;
