//! Collects the records of each trace until the trace is complete or has waited long enough.
//!
//! Programs send the spans of a trace in several requests and in any order. A trace is due to be drawn after a time
//! without records, at the latest 30 s after its first record. The time is shorter for a complete trace: no parent is
//! missing, and either the root has ended or a part of the trace was drawn before. `due` is a priority queue of open
//! traces by the time at which they are due. The spans of drawn traces are remembered, as ancestors of late spans.
//!
//! This module is pure: it takes records and times, and returns the blocks to draw.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use standpipe::receiver::{ReceivedLog, ReceivedSpan};

use crate::cli::describe;

/// Time without records after which a complete trace is drawn. Another service may send its spans a little later.
const QUIET_IF_COMPLETE: Duration = Duration::from_secs(1);
/// Time without records after which any other trace is drawn. Most SDKs send a batch every 5 s.
const QUIET_IF_INCOMPLETE: Duration = Duration::from_secs(6);
/// Maximum time that a trace is open.
const MAX_OPEN_TIME: Duration = Duration::from_secs(30);
/// Estimated memory that the collections of this module need for a record, in addition to the record itself.
const OVERHEAD: usize = 256;
/// Estimated memory for a trace without its records.
const TRACE_OVERHEAD: usize = 1024;

/// Maximum memory of drawn traces. Resources are counted for each span, even if spans share them. The oldest traces are
/// forgotten first.
const MAX_DRAWN_BYTES: usize = 32 * 1024 * 1024;
/// Maximum number of spans that are remembered for one drawn trace.
const MAX_DRAWN_SPANS: usize = 1000;

type TraceId = Arc<[u8]>;
type SpanId = Box<[u8]>;

/// Open traces, and the spans of drawn traces.
#[derive(Default)]
pub(crate) struct Assembler {
    pub(super) open: HashMap<TraceId, OpenTrace>,
    /// Open traces by the time at which they are due, then by their number.
    due: BTreeMap<(Instant, u64), TraceId>,
    /// Number of traces that were ever opened.
    opened: u64,
    /// Number of spans in all open traces.
    pub(super) spans: usize,
    bytes: usize,
    max_bytes: usize,
    max_drawn_bytes: usize,
    /// Drawn traces, and their ids in the order of their first drawing.
    drawn: HashMap<TraceId, DrawnTrace>,
    drawn_order: VecDeque<TraceId>,
    drawn_bytes: usize,
}

/// Records of a trace that are drawn together.
pub(crate) struct Block {
    /// Empty if only log records of the trace arrived.
    pub(crate) spans: Vec<ReceivedSpan>,
    pub(crate) logs: Vec<ReceivedLog>,
    /// Spans that were drawn before: ancestors of late spans and log records.
    pub(crate) ancestors: Vec<ReceivedSpan>,
    pub(crate) state: State,
}

/// Completeness of a trace when it is drawn.
pub(crate) enum State {
    /// The root has ended and no parent is missing, or only log records arrived.
    Complete,
    Partial {
        root: Root,
        missing_parents: usize,
        cause: Cause,
    },
    /// The trace was drawn before.
    Late {
        /// False if the filter did not match the trace.
        was_shown: bool,
        /// Whether ancestors may have been forgotten.
        is_cut: bool,
    },
}

/// State of the root span of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Root {
    Missing,
    /// The root arrived without an end time: it is still running.
    Open,
    Ended,
}

/// Reason why a trace is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    Quiet,
    Age,
    /// All open traces together exceed the memory limit.
    Memory,
    /// The end of the input.
    End,
}

pub(super) struct OpenTrace {
    spans: Vec<ReceivedSpan>,
    logs: Vec<ReceivedLog>,
    bytes: usize,
    number: u64,
    opened_at: Instant,
    due: Instant,
    root: Root,
    ids: HashSet<SpanId>,
    missing: HashSet<SpanId>,
    is_late: bool,
}

impl Assembler {
    /// Returns an assembler for about `max_bytes` of records. If the records exceed this limit, the traces that are due
    /// next are drawn early.
    pub(crate) fn new(max_bytes: usize) -> Self {
        Self { max_bytes, max_drawn_bytes: MAX_DRAWN_BYTES, ..Self::default() }
    }

    /// Adds a span of `bytes`.
    pub(crate) fn add_span(&mut self, received: &ReceivedSpan, bytes: usize, now: Instant) {
        self.spans += 1;
        self.update(&received.span.trace_id, bytes, now, |trace, drawn| trace.add_span(received, drawn));
    }

    /// Adds a log record with a trace id.
    pub(crate) fn add_log(&mut self, received: &ReceivedLog, bytes: usize, now: Instant) {
        self.update(&received.log.trace_id, bytes, now, |trace, _| trace.logs.push(received.clone()));
    }

    fn update(
        &mut self,
        id: &[u8],
        bytes: usize,
        now: Instant,
        add: impl FnOnce(&mut OpenTrace, Option<&DrawnTrace>),
    ) {
        let drawn = self.drawn.get(id);
        // `open` and `due` share one allocation of the id.
        let id = self.open.get_key_value(id).map_or_else(|| TraceId::from(id), |(id, _)| id.clone());
        let trace = self.open.entry(id.clone()).or_insert_with(|| {
            self.opened += 1;
            self.bytes += TRACE_OVERHEAD;
            OpenTrace::new(self.opened, drawn.is_some(), now)
        });
        // The old entry is removed, because its key contains the due time, which is about to change.
        self.due.remove(&(trace.due, trace.number));
        add(trace, drawn);
        trace.bytes += bytes + OVERHEAD;
        self.bytes += bytes + OVERHEAD;
        // Each record postpones the drawing, up to the maximum.
        trace.due = (now + trace.patience()).min(trace.opened_at + MAX_OPEN_TIME);
        self.due.insert((trace.due, trace.number), id);
    }

    /// Closes and returns the next trace that is due. Call this function until it returns `None`.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<Block> {
        let (&(due, number), id) = self.due.first_key_value()?;
        let opened_at = self.open.get(id)?.opened_at;
        let cause = match due <= now {
            true if due >= opened_at + MAX_OPEN_TIME => Cause::Age,
            true => Cause::Quiet,
            // The open traces exceed the memory limit, so the trace that is due next is drawn early.
            false if self.bytes > self.max_bytes => Cause::Memory,
            false => return None,
        };
        let id = self.due.remove(&(due, number))?;
        self.close(&id, cause)
    }

    /// Returns all open traces, ordered by the start of their first span.
    pub(crate) fn finish(&mut self) -> Vec<Block> {
        let ids: Vec<TraceId> = mem::take(&mut self.due).into_values().collect();
        let mut blocks: Vec<Block> = ids.iter().filter_map(|id| self.close(id, Cause::End)).collect();
        blocks.sort_by_key(|block| block.spans.iter().map(|span| span.span.start_time_unix_nano).min());
        blocks
    }

    /// Returns when the next trace is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.due.first_key_value().map(|(&(due, _), _)| due)
    }

    /// Notes whether a drawn trace matched the filter.
    pub(crate) fn set_shown(&mut self, id: &[u8], is_shown: bool) {
        if let Some(drawn) = self.drawn.get_mut(id) {
            drawn.is_unshown = !is_shown;
        }
    }

    fn close(&mut self, id: &TraceId, cause: Cause) -> Option<Block> {
        let trace = self.open.remove(id)?;
        self.bytes -= trace.bytes;
        self.spans -= trace.spans.len();
        let mut ancestors = Vec::new();
        let state = match self.drawn.get(id) {
            Some(drawn) if trace.is_late => {
                let parents = trace.spans.iter().map(|received| &received.span.parent_span_id);
                let parents = parents.chain(trace.logs.iter().map(|received| &received.log.span_id));
                ancestors = drawn.ancestors(parents.map(Vec::as_slice), &trace.ids);
                State::Late { was_shown: !drawn.is_unshown, is_cut: drawn.is_cut }
            }
            _ if trace.is_complete() || trace.spans.is_empty() => State::Complete,
            _ => State::Partial { root: trace.root, missing_parents: trace.missing.len(), cause },
        };
        if !trace.spans.is_empty() {
            self.remember(id, &trace.spans);
        }
        Some(Block { spans: trace.spans, logs: trace.logs, ancestors, state })
    }

    fn remember(&mut self, id: &TraceId, spans: &[ReceivedSpan]) {
        let drawn = self.drawn.entry(id.clone()).or_insert_with(|| {
            self.drawn_order.push_back(id.clone());
            DrawnTrace::default()
        });
        // `add` changes `drawn.bytes`, so the old value is subtracted before and the new one is added afterwards.
        self.drawn_bytes -= drawn.bytes;
        spans.iter().for_each(|received| drawn.add(received));
        self.drawn_bytes += drawn.bytes;
        while self.drawn_bytes > self.max_drawn_bytes {
            let Some(oldest) = self.drawn_order.pop_front() else { break };
            self.drawn_bytes -= self.drawn.remove(&oldest).map_or(0, |drawn| drawn.bytes);
        }
    }
}

impl OpenTrace {
    fn new(number: u64, is_late: bool, now: Instant) -> Self {
        Self {
            spans: Vec::new(),
            logs: Vec::new(),
            bytes: TRACE_OVERHEAD,
            number,
            opened_at: now,
            due: now,
            root: Root::Missing,
            ids: HashSet::new(),
            missing: HashSet::new(),
            is_late,
        }
    }

    fn add_span(&mut self, received: &ReceivedSpan, drawn: Option<&DrawnTrace>) {
        let span = &received.span;
        let parent = span.parent_span_id.as_slice();
        // This span may be the missing parent of a span that arrived earlier.
        self.missing.remove(span.span_id.as_slice());
        self.ids.insert(span.span_id.as_slice().into());
        if !describe::is_id(parent) {
            self.root = match (span.end_time_unix_nano, self.root) {
                // A root may arrive twice: without its end while it is running, and complete. The order does not
                // matter: the result is `Ended`.
                (0, Root::Missing | Root::Open) => Root::Open,
                _ => Root::Ended,
            };
        } else if !self.ids.contains(parent)
            // If spans of the trace were forgotten, the parent may be one of them and will not arrive again.
            && !drawn.is_some_and(|drawn| drawn.spans.contains_key(parent) || drawn.is_cut)
        {
            self.missing.insert(parent.into());
        }
        self.spans.push(received.clone());
    }

    fn is_complete(&self) -> bool {
        (self.root == Root::Ended || self.is_late) && self.missing.is_empty()
    }

    fn patience(&self) -> Duration {
        if self.is_complete() { QUIET_IF_COMPLETE } else { QUIET_IF_INCOMPLETE }
    }
}

/// Spans of a drawn trace.
#[derive(Default)]
struct DrawnTrace {
    spans: HashMap<SpanId, ReceivedSpan>,
    bytes: usize,
    /// Whether spans were forgotten.
    is_cut: bool,
    /// Whether the trace did not match the filter.
    is_unshown: bool,
}

impl DrawnTrace {
    /// Returns the spans from `parents` up to the root, each once. Spans in `new` are left out: they are drawn anyway.
    fn ancestors<'p>(
        &self,
        parents: impl Iterator<Item = &'p [u8]>,
        new: &HashSet<SpanId>,
    ) -> Vec<ReceivedSpan> {
        let mut found: HashMap<&[u8], ReceivedSpan> = HashMap::new();
        for parent in parents {
            let mut next = self.spans.get_key_value(parent);
            while let Some((id, ancestor)) = next.filter(|(id, _)| !new.contains(*id)) {
                // If `found` has the ancestor already, another path contains it, or the parents form a cycle.
                if found.insert(id, ancestor.clone()).is_some() {
                    break;
                }
                next = self.spans.get_key_value(ancestor.span.parent_span_id.as_slice());
            }
        }
        found.into_values().collect()
    }

    fn add(&mut self, received: &ReceivedSpan) {
        let id = received.span.span_id.as_slice();
        if self.spans.contains_key(id) {
            return;
        }
        if self.spans.len() == MAX_DRAWN_SPANS {
            self.is_cut = true;
            return;
        }
        self.bytes += OVERHEAD + received.memory_bytes_after(None);
        self.spans.insert(id.into(), received.clone());
    }
}

#[cfg(test)]
mod tests;
