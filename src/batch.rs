//! Pure: which records make the next request, and its bytes.

mod plan;

use std::collections::VecDeque;
use std::sync::Arc;

use crate::config::BatchSettings;
use crate::record::{Chunk, Scope, Signal, field_len, frames, records_in};
use plan::Plan;

/// Tag of `resource_spans` in a request, and of `scope_spans` in a resource; all signals alike.
const RESOURCE_RECORDS: u8 = 0x0a;
const SCOPE_RECORDS: u8 = 0x12;
/// A tag and the longest length that a body below 4 GiB can have.
const LONGEST_HEADER: usize = 6;
/// What the worker makes itself is gathered in chunks of this size.
const CHUNK_BYTES: usize = 32 << 10;

/// Records that left the queue and wait for their turn in a request.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    chunks: VecDeque<Box<Chunk>>,
    /// Kept apart, as newer ones may take its place: the metrics that the worker has collected itself.
    snapshot: VecDeque<Box<Chunk>>,
}

/// What the backlog gives next.
#[derive(Debug)]
pub(crate) enum Next {
    Batch(Batch),
    /// What no request can hold: one record, or a metric with its points.
    TooLarge {
        signal: Signal,
        records: u64,
        bytes: usize,
    },
}

/// One request: its body and what is in it.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) signal: Signal,
    pub(crate) records: u64,
    /// Whether the worker has collected them itself.
    pub(crate) is_snapshot: bool,
    /// What the records took of the queue.
    pub(crate) queued_bytes: usize,
    /// A whole `Export…ServiceRequest`.
    pub(crate) body: Vec<u8>,
    groups: Vec<Group>,
}

/// All records of one scope in a request.
#[derive(Debug)]
struct Group {
    scope: Arc<Scope>,
    pieces: Vec<Piece>,
    bytes: usize,
}

/// Framed records of one scope: `bytes[start..end]` of the chunk with this number, or of a body.
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
            |chunk: &Chunk| chunk.signal() == scope.signal && chunk.len() + frame.len() <= CHUNK_BYTES;
        if !self.snapshot.back().is_some_and(|chunk| has_room(chunk)) {
            let capacity = frame.len().max(CHUNK_BYTES);
            self.snapshot.push_back(Box::new(Chunk::with_capacity(scope.signal, capacity)));
        }
        if let Some(chunk) = self.snapshot.back_mut() {
            chunk.append(scope, frame, records);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.chunks.is_empty() && self.snapshot.is_empty()
    }

    /// Bytes of the records that are there.
    pub(crate) fn bytes(&self) -> usize {
        let chunks = self.snapshot.iter().chain(&self.chunks);
        chunks.flat_map(|chunk| chunk.runs()).map(|run| run.end - run.start).sum()
    }

    /// Forgets everything; says what that was, by signal, records and bytes.
    pub(crate) fn write_off(&mut self) -> Vec<(Signal, u64, usize)> {
        self.snapshot.drain(..).chain(self.chunks.drain(..)).map(|chunk| contents(&chunk)).collect()
    }

    /// The same for what the worker has collected itself.
    pub(crate) fn write_off_snapshot(&mut self) -> Vec<(Signal, u64, usize)> {
        self.snapshot.drain(..).map(|chunk| contents(&chunk)).collect()
    }

    /// Takes as many records of one signal as one request may hold, up to `usual_bytes` unless a single one is larger.
    /// `body` is storage to reuse; emptied chunks go to `spare`.
    pub(crate) fn next(
        &mut self,
        settings: &BatchSettings,
        usual_bytes: usize,
        resource: &[u8],
        body: Vec<u8>,
        spare: impl FnMut(Box<Chunk>),
    ) -> Option<Next> {
        // what is queued while metrics are collected comes after them, as it is newer
        let is_snapshot = !self.snapshot.is_empty();
        let chunks = if is_snapshot { &mut self.snapshot } else { &mut self.chunks };
        let signal = chunks.front()?.signal();
        let mut plan = Plan::new(settings, usual_bytes, resource);
        // chunks of other signals are passed over: a program that logs in its spans fills both in turn
        let of_signal = chunks.iter_mut().enumerate().filter(|(_, chunk)| chunk.signal() == signal);
        for (number, chunk) in of_signal {
            if !plan.take(number, chunk) {
                break;
            }
        }
        if plan.records == 0 {
            let chunk = chunks.front_mut()?;
            let (records, bytes) = chunk.first_frame();
            chunk.take_part(records, bytes);
            retire(chunks, spare);
            return Some(Next::TooLarge { signal, records: records as u64, bytes });
        }
        let Plan { groups, records, .. } = plan;
        let batch = Batch::assemble(signal, records as u64, groups, resource, body, |piece| {
            chunks[piece.chunk].bytes(piece.start, piece.end)
        });
        retire(chunks, spare);
        Some(Next::Batch(Batch { is_snapshot, ..batch }))
    }
}

fn retire(chunks: &mut VecDeque<Box<Chunk>>, mut spare: impl FnMut(Box<Chunk>)) {
    while chunks.front().is_some_and(|chunk| chunk.is_empty()) {
        chunks.pop_front().into_iter().for_each(&mut spare);
    }
}

/// What a chunk still holds: signal, records and bytes.
fn contents(chunk: &Chunk) -> (Signal, u64, usize) {
    let (records, bytes) = chunk
        .runs()
        .iter()
        .fold((0, 0), |(records, bytes), run| (records + run.records as u64, bytes + run.end - run.start));
    (chunk.signal(), records, bytes)
}

impl Group {
    fn has_resource_of(&self, scope: &Scope) -> bool {
        self.scope.resource() == scope.resource()
    }

    /// Bytes of the `ScopeSpans` message itself.
    fn len(&self) -> usize {
        self.scope.field().len() + self.bytes
    }
}

impl Batch {
    /// Writes the body; the groups' pieces then say where their records stand in it.
    fn assemble<'a>(
        signal: Signal,
        records: u64,
        mut groups: Vec<Group>,
        resource: &[u8],
        mut body: Vec<u8>,
        source: impl Fn(&Piece) -> &'a [u8],
    ) -> Self {
        body.clear();
        body.reserve(of_resources(&mut groups).map(|groups| field_len(resource_len(groups, resource))).sum());
        let mut queued_bytes = 0;
        for groups in of_resources(&mut groups) {
            write_header(&mut body, RESOURCE_RECORDS, resource_len(groups, resource));
            body.extend_from_slice(resource_of(groups, resource));
            for group in groups {
                write_header(&mut body, SCOPE_RECORDS, group.len());
                body.extend_from_slice(group.scope.field());
                let start = body.len();
                for piece in &group.pieces {
                    body.extend_from_slice(source(piece));
                }
                queued_bytes += group.bytes;
                group.pieces.clear();
                group.pieces.push(Piece { chunk: 0, start, end: body.len() });
            }
        }
        Self { signal, records, is_snapshot: false, queued_bytes, body, groups }
    }

    /// Whether there is more than one frame in it.
    pub(crate) fn is_divisible(&self) -> bool {
        let pieces = self.groups.iter().flat_map(|group| &group.pieces);
        pieces.flat_map(|piece| frames(&self.body[piece.start..piece.end])).nth(1).is_some()
    }

    /// Two requests with about half of the records each, for a collector that finds this one too large.
    pub(crate) fn halve(self, resource: &[u8]) -> [Batch; 2] {
        let mut halves = [(0, Vec::new()), (0, Vec::new())];
        for group in &self.groups {
            for piece in &group.pieces {
                let mut start = piece.start;
                for frame in frames(&self.body[piece.start..piece.end]) {
                    let more = records_in(self.signal, frame) as u64;
                    // the first frame goes into the first half however large it is, the last into the second
                    let is_last = start + frame.len() == self.body.len();
                    let is_second = halves[1].0 > 0
                        || halves[0].0 > 0 && (is_last || halves[0].0 + more > self.records / 2);
                    let (records, groups) = &mut halves[usize::from(is_second)];
                    *records += more;
                    let end = start + frame.len();
                    add_piece(groups, &group.scope, Piece { chunk: 0, start, end });
                    start = end;
                }
            }
        }
        halves.map(|(records, groups)| {
            let half = Batch::assemble(self.signal, records, groups, resource, Vec::new(), |piece| {
                &self.body[piece.start..piece.end]
            });
            Batch { is_snapshot: self.is_snapshot, ..half }
        })
    }
}

/// The groups of each resource; usually there is one.
fn of_resources(groups: &mut [Group]) -> impl Iterator<Item = &mut [Group]> {
    groups.chunk_by_mut(|group, next| group.has_resource_of(&next.scope))
}

/// The resource of groups that have the same one, as it stands in front of them.
fn resource_of<'a>(groups: &'a [Group], usual: &'a [u8]) -> &'a [u8] {
    groups.first().and_then(|group| group.scope.resource()).unwrap_or(usual)
}

/// Bytes of the `ResourceSpans` message itself.
fn resource_len(groups: &[Group], usual: &[u8]) -> usize {
    resource_of(groups, usual).len() + groups.iter().map(|group| field_len(group.len())).sum::<usize>()
}

fn add_piece(groups: &mut Vec<Group>, scope: &Arc<Scope>, piece: Piece) {
    let bytes = piece.end - piece.start;
    match groups.last_mut() {
        Some(group) if Arc::ptr_eq(&group.scope, scope) => {
            group.bytes += bytes;
            match group.pieces.last_mut() {
                Some(last) if last.end == piece.start => last.end = piece.end,
                _ => group.pieces.push(piece),
            }
        }
        _ => groups.push(Group { scope: Arc::clone(scope), pieces: vec![piece], bytes }),
    }
}

fn write_header(body: &mut Vec<u8>, tag: u8, len: usize) {
    body.push(tag);
    prost::encoding::encode_varint(len as u64, body);
}

#[cfg(test)]
mod tests;
