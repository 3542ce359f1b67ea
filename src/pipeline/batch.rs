//! Batching: chooses the records of the next request, and frames them as OTLP. Pure: no I/O, no clock.
//!
//! A request is a sequence of byte slices: framing (resource, scope, message headers) that is written here, and records
//! that stay in the chunks in which they came through the queue. A record is copied only if not all of its chunk fits
//! into the request, or if the request is divided. Records are grouped by resource and scope; within a scope they keep
//! their order.
//!
//! ```text
//! body():  [resource header, resource, scope header, scope] [records] [records] [scope header, scope] [records] …
//!           framing                                          chunk 0   chunk 1   framing               chunk 1
//! ```

mod limit;

use std::collections::VecDeque;
use std::iter;
use std::ops::Range;
use std::sync::Arc;

use crate::config::BatchSettings;
use crate::pipeline::ledger::Outcome;
use crate::record::wire::encode_varint;
use crate::record::{
    Chunk, RESOURCE_RECORDS, Run, SCOPE_RECORDS, Scope, Signal, field_len, frames, records_in,
};
pub(crate) use limit::RequestLimit;

/// Largest header of a message below 4 GiB: one byte for the tag, five for the length.
const MAX_HEADER_BYTES: usize = 6;

/// Records of one signal that left the queue and wait for a request.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    chunks: VecDeque<Box<Chunk>>,
    /// Metrics that the worker has collected itself. Kept apart, because a newer snapshot may supersede them.
    snapshot: VecDeque<Box<Chunk>>,
}

/// The next batch of the backlog, or records to drop before it.
#[derive(Debug)]
pub(crate) enum Next {
    Batch(Batch),
    /// Records that cannot be sent. `TooLarge`: one record, or one metric with its points, that does not fit into any
    /// request. `Damaged`: a chunk that was lost because the flight recorder's file was truncated.
    Dropped {
        origin: Origin,
        outcome: Outcome,
        records: u64,
        bytes: usize,
    },
}

/// One request. Its records stay in the chunks in which they came through the queue.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) signal: Signal,
    pub(crate) records: u64,
    pub(crate) origin: Origin,
    /// Bytes that the records occupy in the queue.
    pub(crate) queued_bytes: usize,
    groups: Vec<Group>,
    /// The framing of the records: resources, scopes, and the headers of messages.
    framing: Vec<u8>,
    chunks: VecDeque<Box<Chunk>>,
    /// For a half of a divided batch, the chunks of that batch, which all its halves share. The flight recorder keeps
    /// these chunks until the last half is settled. The last half is the one that holds the only reference to them.
    copied_from: Option<Arc<VecDeque<Box<Chunk>>>>,
}

/// Where the records of a batch come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    Queue,
    /// The worker collected the metrics itself.
    Collection,
    /// An entry of the spool. The entry stays on disk until its records are settled.
    Spool {
        /// True if this process accepted the records, false if it recovered them from an earlier process.
        is_own: bool,
    },
}

/// All records of one scope in a request.
#[derive(Debug)]
struct Group {
    scope: Arc<Scope>,
    /// The framing in front of the records: a range of the batch's `framing`.
    framing: Range<usize>,
    pieces: Vec<Piece>,
    bytes: usize,
}

/// Framed records of one scope: the bytes `start..end` of the chunk at index `chunk`.
#[derive(Debug, Clone, Copy)]
struct Piece {
    chunk: usize,
    start: usize,
    end: usize,
}

impl Backlog {
    pub(crate) fn push(&mut self, chunk: Box<Chunk>) {
        self.chunks.push_back(chunk);
    }

    /// Adds a framed metric that the worker has collected itself.
    pub(crate) fn append(&mut self, scope: &Arc<Scope>, frame: &[u8], records: usize) {
        let has_room =
            |chunk: &Chunk| chunk.signal() == scope.signal && chunk.len() + frame.len() <= Chunk::BYTES;
        if !self.snapshot.back().is_some_and(|chunk| has_room(chunk)) {
            let capacity = frame.len().max(Chunk::BYTES);
            self.snapshot.push_back(Box::new(Chunk::with_capacity(scope.signal, capacity)));
        }
        if let Some(chunk) = self.snapshot.back_mut() {
            chunk.append(scope, frame, records);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.chunks.is_empty() && self.snapshot.is_empty()
    }

    /// Returns how many of the records are in the flight recorder.
    pub(crate) fn recorded(&self) -> u64 {
        self.chunks.iter().filter(|chunk| chunk.is_recorded()).map(|chunk| contents(chunk).0).sum()
    }

    /// Removes all chunks. Returns the number of records and of bytes in each chunk.
    pub(crate) fn write_off(&mut self) -> Vec<(u64, usize)> {
        self.snapshot.drain(..).chain(self.chunks.drain(..)).map(|chunk| contents(&chunk)).collect()
    }

    /// Removes the metrics that the worker has collected itself. Returns the number of data points and of bytes per
    /// chunk.
    pub(crate) fn write_off_snapshot(&mut self) -> Vec<(u64, usize)> {
        self.snapshot.drain(..).map(|chunk| contents(&chunk)).collect()
    }

    /// Takes the records of the next request: at most `usual_bytes` of records, and at most `max_bytes` with framing. A
    /// single record may exceed both, up to the configured size. If the first records cannot be sent, takes only these.
    pub(crate) fn next(
        &mut self,
        settings: &BatchSettings,
        usual_bytes: usize,
        max_bytes: usize,
        resource: &[u8],
    ) -> Option<Next> {
        // Records that were queued during a collection are newer than its snapshot, so the snapshot goes first.
        let is_snapshot = !self.snapshot.is_empty();
        let chunks = if is_snapshot { &mut self.snapshot } else { &mut self.chunks };
        let signal = chunks.front()?.signal();
        let mut plan = Plan::new(settings, usual_bytes, max_bytes, resource);
        let mut taken = VecDeque::new();
        while let Some(mut chunk) = chunks.pop_front() {
            if chunk.is_lost() || !plan.take(taken.len(), &mut chunk) {
                taken.extend(plan.copy_part(taken.len(), &chunk));
                chunks.push_front(chunk);
                break;
            }
            taken.push_back(chunk);
        }
        let origin = if is_snapshot { Origin::Collection } else { Origin::Queue };
        if plan.records == 0 {
            let mut chunk = chunks.pop_front()?;
            let (records, bytes) = chunk.first_frame();
            if chunk.is_lost() {
                let (records, bytes) = contents(&chunk);
                return Some(Next::Dropped { origin, outcome: Outcome::Damaged, records, bytes });
            }
            chunk.take_part(records, bytes);
            if !chunk.is_empty() {
                chunks.push_front(chunk);
            }
            let records = records as u64;
            return Some(Next::Dropped { origin, outcome: Outcome::TooLarge, records, bytes });
        }
        Some(Next::Batch(Batch::assemble(signal, origin, plan, taken)))
    }
}

/// Returns the number of records and bytes that are left in a chunk.
fn contents(chunk: &Chunk) -> (u64, usize) {
    let add = |(records, bytes), run: &Run| (records + run.records as u64, bytes + run.end - run.start);
    chunk.runs().iter().fold((0, 0), add)
}

impl Group {
    fn has_resource_of(&self, scope: &Scope) -> bool {
        self.scope.resource() == scope.resource()
    }

    /// Returns the size of the `ScopeSpans`, `ScopeLogs` or `ScopeMetrics` message in bytes, without its header.
    fn len(&self) -> usize {
        self.scope.field().len() + self.bytes
    }
}

impl Batch {
    /// Writes the framing of the records. Protobuf prefixes each message with its length, so all records must
    /// have been chosen before.
    fn assemble(signal: Signal, origin: Origin, plan: Plan<'_>, chunks: VecDeque<Box<Chunk>>) -> Self {
        let Plan { mut groups, resource, records, .. } = plan;
        let (records, mut queued_bytes, mut framing) = (records as u64, 0, Vec::new());
        // The groups of one resource are adjacent. Usually there is one resource.
        for groups in groups.chunk_by_mut(|group, next| group.has_resource_of(&next.scope)) {
            let mut start = framing.len();
            let resource = groups.first().and_then(|group| group.scope.resource()).unwrap_or(resource);
            let scopes: usize = groups.iter().map(|group| field_len(group.len())).sum();
            write_header(&mut framing, RESOURCE_RECORDS, resource.len() + scopes);
            framing.extend_from_slice(resource);
            for group in groups {
                write_header(&mut framing, SCOPE_RECORDS, group.len());
                framing.extend_from_slice(group.scope.field());
                group.framing = start..framing.len();
                start = framing.len();
                queued_bytes += group.bytes;
            }
        }
        Self { signal, records, origin, queued_bytes, groups, framing, chunks, copied_from: None }
    }

    /// Makes a request of all records of a chunk.
    fn of_chunk(origin: Origin, mut chunk: Box<Chunk>, resource: &[u8]) -> Self {
        let no_limits = BatchSettings { records: usize::MAX, bytes: usize::MAX };
        let mut plan = Plan::new(&no_limits, usize::MAX, usize::MAX, resource);
        plan.take(0, &mut chunk);
        Self::assemble(chunk.signal(), origin, plan, VecDeque::from([chunk]))
    }

    /// Decodes the request in an entry of the spool. Returns `None` if the request is malformed.
    pub(crate) fn of_spool(signal: Signal, origin: Origin, request: &[u8]) -> Option<Self> {
        let chunk = Chunk::of_request(signal, request)?;
        Some(Self::of_chunk(origin, Box::new(chunk), &[]))
    }

    /// Returns whether some records were lost because the flight recorder's file was truncated.
    pub(crate) fn is_lost(&self) -> bool {
        self.chunks.iter().any(|chunk| chunk.is_lost())
    }

    /// Returns whether this is a part of a divided request.
    pub(crate) fn is_half(&self) -> bool {
        self.copied_from.is_some()
    }

    /// Returns how many records of the batch are in the flight recorder.
    pub(crate) fn recorded(&self) -> u64 {
        let pieces = self.groups.iter().flat_map(|group| &group.pieces);
        let recorded = pieces.filter(|piece| self.chunks[piece.chunk].is_recorded());
        let frames =
            recorded.flat_map(|piece| frames(self.chunks[piece.chunk].bytes(piece.start, piece.end)));
        frames.map(|frame| records_in(self.signal, frame) as u64).sum()
    }

    /// Returns the chunks that the flight recorder can drop once this batch is settled: the chunks of the batch and,
    /// for the last unsettled half, the chunks from which the half was copied.
    pub(crate) fn recorded_chunks(&self) -> impl Iterator<Item = &Chunk> {
        let is_last = |chunks: &&Arc<VecDeque<_>>| Arc::strong_count(chunks) == 1;
        let copied_from = self.copied_from.iter().filter(is_last).flat_map(|chunks| chunks.iter());
        self.chunks.iter().chain(copied_from).map(|chunk| &**chunk)
    }

    pub(crate) fn is_spooled(&self) -> bool {
        matches!(self.origin, Origin::Spool { .. })
    }

    /// Returns whether the worker collected the metrics of this batch itself.
    pub(crate) fn is_snapshot(&self) -> bool {
        self.origin == Origin::Collection
    }

    /// Returns the whole `Export…ServiceRequest` message as a list of slices.
    pub(crate) fn body<'a>(&'a self) -> Vec<&'a [u8]> {
        let pieces =
            |group: &'a Group| iter::once(&self.framing[group.framing.clone()]).chain(self.records_of(group));
        self.groups.iter().flat_map(pieces).collect()
    }

    /// Returns the size of the whole request in bytes.
    pub(crate) fn len(&self) -> usize {
        self.framing.len() + self.queued_bytes
    }

    /// Returns the size of the smallest frame (a span, a log record or a metric with its points) in bytes.
    pub(crate) fn smallest_frame(&self) -> usize {
        let frames = self.groups.iter().flat_map(|group| self.records_of(group)).flat_map(frames);
        frames.map(<[u8]>::len).min().unwrap_or(0)
    }

    /// Frees the framing, and returns the chunks of the records for reuse.
    pub(crate) fn into_chunks(self) -> VecDeque<Box<Chunk>> {
        self.chunks
    }

    /// Returns whether the request has more than one frame.
    pub(crate) fn is_divisible(&self) -> bool {
        self.groups.iter().flat_map(|group| self.records_of(group)).flat_map(frames).nth(1).is_some()
    }

    /// Divides a request that is too large into two requests with about half of the records each. Returns the undivided
    /// request if it [is lost](Self::is_lost).
    pub(crate) fn halve(self, resource: &[u8]) -> Vec<Batch> {
        let mut halves = [0, 1].map(|_| (0, Box::new(Chunk::with_capacity(self.signal, 0))));
        let mut bytes_left = self.queued_bytes;
        for group in &self.groups {
            for frame in self.records_of(group).flat_map(frames) {
                let more = records_in(self.signal, frame);
                bytes_left -= frame.len();
                // Neither half may be empty: the first frame goes into the first half whatever its size, and the last
                // frame into the second half.
                let is_second = halves[1].0 > 0
                    || halves[0].0 > 0 && (bytes_left == 0 || (halves[0].0 + more) as u64 > self.records / 2);
                let (records, chunk) = &mut halves[usize::from(is_second)];
                *records += more;
                chunk.append(&group.scope, frame, more);
            }
        }
        // Check after the copy: the flight recorder's file may have been truncated while its bytes were read.
        if self.is_lost() {
            return vec![self];
        }
        let copied_from = self.copied_from.or_else(|| Some(Arc::new(self.chunks)));
        let half = |(_, chunk)| Batch {
            copied_from: copied_from.clone(),
            ..Batch::of_chunk(self.origin, chunk, resource)
        };
        halves.into_iter().map(half).collect()
    }

    fn records_of<'a>(&'a self, group: &'a Group) -> impl Iterator<Item = &'a [u8]> {
        group.pieces.iter().map(|piece| self.chunks[piece.chunk].bytes(piece.start, piece.end))
    }
}

/// A request while its records are being chosen.
struct Plan<'a> {
    /// Groups of the same resource are adjacent.
    groups: Vec<Group>,
    /// The exporter's resource, for scopes without their own.
    resource: &'a [u8],
    records: usize,
    max_records: usize,
    /// Bytes by which the body may still grow.
    room: usize,
    /// Bytes that the first record may use. Only the configured size of a request limits them, so that a large record
    /// is sent alone and not dropped.
    first_room: usize,
}

impl<'a> Plan<'a> {
    fn new(settings: &BatchSettings, usual_bytes: usize, max_bytes: usize, resource: &'a [u8]) -> Self {
        let first_room = settings.bytes;
        // `usual_bytes` limits the records only, so the resource is added.
        let usual_bytes = usual_bytes.saturating_add(MAX_HEADER_BYTES + resource.len());
        let room = first_room.min(usual_bytes).min(max_bytes);
        let max_records = settings.records;
        Self { groups: Vec::new(), resource, records: 0, max_records, room, first_room }
    }

    /// Takes records of a chunk until one does not fit. Returns true if the whole chunk was taken.
    fn take(&mut self, number: usize, chunk: &mut Chunk) -> bool {
        while let Some(run) = chunk.runs().first() {
            let known = self.groups.iter().position(|group| Arc::ptr_eq(&group.scope, &run.scope));
            let overhead = if known.is_some() { 0 } else { self.overhead(&run.scope) };
            let max_records = self.max_records - self.records;
            let mut fitting = chunk.fitting(run, max_records, self.room.saturating_sub(overhead));
            if fitting.0 == 0 && self.records == 0 {
                // The first record exceeds the usual limit. If possible, its frame becomes a request by itself.
                let alone = chunk.first_frame().0.min(max_records);
                fitting = chunk.fitting(run, alone, self.first_room.saturating_sub(overhead));
            }
            let (records, bytes) = fitting;
            if records == 0 {
                return false;
            }
            let index = known.unwrap_or_else(|| self.begin_group(&run.scope));
            let piece = Piece { chunk: number, start: run.start, end: run.start + bytes };
            self.groups[index].pieces.push(piece);
            self.groups[index].bytes += bytes;
            self.records += records;
            self.room = self.room.saturating_sub(overhead + bytes);
            let whole = records == run.records;
            chunk.take_part(records, bytes);
            if !whole {
                return false;
            }
        }
        true
    }

    /// Copies the records that were taken from a chunk, if any. The chunk itself stays in the backlog with the rest.
    fn copy_part(&mut self, number: usize, chunk: &Chunk) -> Option<Box<Chunk>> {
        let pieces = self.groups.iter_mut().flat_map(|group| &mut group.pieces);
        let mut pieces: Vec<_> = pieces.filter(|piece| piece.chunk == number).collect();
        let start = pieces.iter().map(|piece| piece.start).min()?;
        let end = pieces.iter().map(|piece| piece.end).max()?;
        for piece in &mut pieces {
            piece.start -= start;
            piece.end -= start;
        }
        Some(Box::new(chunk.copy_bytes(start, end)))
    }

    /// Returns the number of framing bytes that a new scope adds, with its resource if the request does not have it
    /// yet.
    fn overhead(&self, scope: &Scope) -> usize {
        let of_scope = MAX_HEADER_BYTES + scope.field().len();
        match self.groups.iter().any(|group| group.has_resource_of(scope)) {
            true => of_scope,
            false => of_scope + MAX_HEADER_BYTES + scope.resource().unwrap_or(self.resource).len(),
        }
    }

    /// Inserts an empty group after the other groups of the same resource. Returns its index.
    fn begin_group(&mut self, scope: &Arc<Scope>) -> usize {
        let last_of_resource = self.groups.iter().rposition(|group| group.has_resource_of(scope));
        let index = last_of_resource.map_or(self.groups.len(), |last| last + 1);
        self.groups
            .insert(index, Group { scope: Arc::clone(scope), framing: 0..0, pieces: Vec::new(), bytes: 0 });
        index
    }
}

fn write_header(body: &mut Vec<u8>, tag: u8, len: usize) {
    body.push(tag);
    encode_varint(len as u64, body);
}

#[cfg(test)]
#[cfg(feature = "opentelemetry")]
mod tests;
