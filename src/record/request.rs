//! A request that is read again: its records, each with the scope and the resource that stand in front of it.

use std::sync::Arc;

use super::{Chunk, Scope, Signal, frames, records_in};

/// Tags of `resource_spans` in a request, of `scope_spans` in a resource, and of a record in a scope; all signals alike.
pub(crate) const RESOURCE_RECORDS: u8 = 0x0a;
pub(crate) const SCOPE_RECORDS: u8 = 0x12;
pub(crate) const RECORD: u8 = 0x12;

impl Chunk {
    /// The records of an `Export…ServiceRequest`; `None` if it is malformed.
    pub(crate) fn of_request(signal: Signal, request: &[u8]) -> Option<Self> {
        let mut chunk = Self::with_capacity(signal, request.len());
        let (of_resources, rest) = divide(request, RESOURCE_RECORDS)?;
        for resource_records in of_resources {
            let (of_scopes, resource) = divide(content(resource_records)?, SCOPE_RECORDS)?;
            let resource: Arc<[u8]> = resource.into();
            for scope_records in of_scopes {
                let (records, scope) = divide(content(scope_records)?, RECORD)?;
                let scope = Arc::new(Scope::of_request(signal, scope, Arc::clone(&resource)));
                records.into_iter().for_each(|frame| chunk.append(&scope, frame, records_in(signal, frame)));
            }
        }
        rest.is_empty().then_some(chunk)
    }
}

/// The fields with this tag, and all others together; `None` if they are not all length-delimited, with a tag of one byte.
fn divide(message: &[u8], tag: u8) -> Option<(Vec<&[u8]>, Vec<u8>)> {
    let (with_tag, others): (Vec<_>, Vec<_>) = frames(message).partition(|frame| frame[0] == tag);
    let is_whole = with_tag.iter().chain(&others).map(|frame| frame.len()).sum::<usize>() == message.len();
    let is_delimited = others.iter().all(|frame| frame[0] & 7 == 2 && frame[0] < 0x80);
    (is_whole && is_delimited).then(|| (with_tag, others.concat()))
}

/// What a length-delimited field with a tag of one byte holds.
pub(crate) fn content(frame: &[u8]) -> Option<&[u8]> {
    let mut behind = frame.get(1..)?;
    super::wire::decode_varint(&mut behind)?;
    Some(behind)
}
