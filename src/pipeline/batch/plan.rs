//! Which records go into the next request.

use std::sync::Arc;

use super::{Group, LONGEST_HEADER, Piece};
use crate::config::BatchSettings;
use crate::record::{Chunk, Scope};

/// A request while its records are being chosen.
pub(super) struct Plan<'a> {
    /// Those of one resource stand together.
    pub(super) groups: Vec<Group>,
    /// Of every scope that has none of its own.
    pub(super) resource: &'a [u8],
    pub(super) records: usize,
    most_records: usize,
    /// The bytes that the body may still grow by.
    room: usize,
    /// What it may grow by for its first record.
    first_room: usize,
}

impl<'a> Plan<'a> {
    pub(super) fn new(
        settings: &BatchSettings,
        usual_bytes: usize,
        most_bytes: usize,
        resource: &'a [u8],
    ) -> Self {
        let first_room = settings.bytes;
        // what is usual is said of scopes and records
        let usual_bytes = usual_bytes.saturating_add(LONGEST_HEADER + resource.len());
        let room = first_room.min(usual_bytes).min(most_bytes);
        let most_records = settings.records;
        Self { groups: Vec::new(), resource, records: 0, most_records, room, first_room }
    }

    /// Takes what fits; true if that was all of the chunk.
    pub(super) fn take(&mut self, number: usize, chunk: &mut Chunk) -> bool {
        while let Some(run) = chunk.runs().first() {
            let known = self.groups.iter().position(|group| Arc::ptr_eq(&group.scope, &run.scope));
            let overhead = if known.is_some() { 0 } else { self.overhead(&run.scope) };
            let most_records = self.most_records - self.records;
            let mut fitting = chunk.fitting(run, most_records, self.room.saturating_sub(overhead));
            if fitting.0 == 0 && self.records == 0 {
                let alone = chunk.first_frame().0.min(most_records);
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

    /// Copies what was taken of a chunk that is not empty yet: the rest of it is for the next request.
    pub(super) fn copy_part(&mut self, number: usize, chunk: &Chunk) -> Option<Box<Chunk>> {
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

    /// What a new scope takes beside its records: itself, and its resource if that is new as well.
    fn overhead(&self, scope: &Scope) -> usize {
        let of_scope = LONGEST_HEADER + scope.field().len();
        match self.groups.iter().any(|group| group.has_resource_of(scope)) {
            true => of_scope,
            false => of_scope + LONGEST_HEADER + scope.resource().unwrap_or(self.resource).len(),
        }
    }

    /// Gives the new group's place.
    fn begin_group(&mut self, scope: &Arc<Scope>) -> usize {
        let last_of_resource = self.groups.iter().rposition(|group| group.has_resource_of(scope));
        let index = last_of_resource.map_or(self.groups.len(), |last| last + 1);
        self.groups
            .insert(index, Group { scope: Arc::clone(scope), framing: 0..0, pieces: Vec::new(), bytes: 0 });
        index
    }
}
