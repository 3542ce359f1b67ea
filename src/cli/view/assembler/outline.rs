//! What is remembered of a trace that was drawn? Enough to show where spans belong that come later.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use standpipe::receiver::ReceivedSpan;
use standpipe::receiver::proto::Span;

use super::{SpanId, TraceId};

/// What all outlines may take. The oldest are forgotten first.
const MOST_BYTES: usize = 8 * 1024 * 1024;
/// Spans of one trace that are remembered.
const MOST_SPANS: usize = 1000;
/// Characters of a name.
const LONGEST_NAME: usize = 80;
/// What a span takes beside its name.
const OVERHEAD: usize = 512;

/// A span that was drawn before: its name, its service, its place and its time.
#[derive(Debug, Clone)]
pub(crate) struct Ancestor {
    pub(crate) span: Arc<Span>,
    pub(crate) service: Arc<str>,
}

/// The spans of one trace that were drawn.
#[derive(Debug, Default)]
pub(super) struct Outline {
    spans: HashMap<SpanId, Ancestor>,
    bytes: usize,
    /// Whether spans were forgotten.
    pub(super) is_cut: bool,
    /// Whether the filter kept it back.
    pub(super) is_unshown: bool,
}

impl Outline {
    pub(super) fn has(&self, id: &[u8]) -> bool {
        self.spans.contains_key(id)
    }

    /// The spans from `parents` up to the root, each once. Those of `new` are drawn anyway.
    pub(super) fn ancestors<'p>(
        &self,
        parents: impl Iterator<Item = &'p [u8]>,
        new: &HashSet<SpanId>,
    ) -> Vec<Ancestor> {
        let mut found: HashMap<&[u8], Ancestor> = HashMap::new();
        for parent in parents {
            let mut next = self.spans.get_key_value(parent);
            while let Some((id, ancestor)) = next.filter(|(id, _)| !new.contains(*id)) {
                // parents may go round in a circle
                if found.insert(id, ancestor.clone()).is_some() {
                    break;
                }
                next = self.spans.get_key_value(ancestor.span.parent_span_id.as_slice());
            }
        }
        found.into_values().collect()
    }

    /// Returns the bytes that it takes more.
    fn add(&mut self, received: &ReceivedSpan) -> usize {
        let span = &received.span;
        if self.has(&span.span_id) {
            return 0;
        }
        if self.spans.len() == MOST_SPANS {
            self.is_cut = true;
            return 0;
        }
        let stripped = Span {
            trace_id: span.trace_id.clone(),
            span_id: span.span_id.clone(),
            parent_span_id: span.parent_span_id.clone(),
            name: span.name.chars().take(LONGEST_NAME).collect(),
            start_time_unix_nano: span.start_time_unix_nano,
            end_time_unix_nano: span.end_time_unix_nano,
            ..Span::default()
        };
        let service: String = received.service_name().chars().take(LONGEST_NAME).collect();
        let bytes = OVERHEAD + stripped.name.len() + service.len() + 3 * span.span_id.len();
        self.spans.insert(
            span.span_id.as_slice().into(),
            Ancestor { span: Arc::new(stripped), service: service.into() },
        );
        self.bytes += bytes;
        bytes
    }
}

/// The outlines of the traces that were drawn last.
#[derive(Debug, Default)]
pub(super) struct Outlines {
    traces: HashMap<TraceId, Outline>,
    /// In the order they were drawn.
    order: VecDeque<TraceId>,
    bytes: usize,
}

impl Outlines {
    pub(super) fn get(&self, id: &[u8]) -> Option<&Outline> {
        self.traces.get(id)
    }

    pub(super) fn set_shown(&mut self, id: &[u8], is_shown: bool) {
        if let Some(outline) = self.traces.get_mut(id) {
            outline.is_unshown = !is_shown;
        }
    }

    pub(super) fn add(&mut self, id: &TraceId, spans: &[ReceivedSpan]) {
        if !self.traces.contains_key(id) {
            self.order.push_back(id.clone());
        }
        let outline = self.traces.entry(id.clone()).or_default();
        self.bytes += spans.iter().map(|received| outline.add(received)).sum::<usize>();
        while self.bytes > MOST_BYTES {
            let Some(oldest) = self.order.pop_front() else { break };
            self.bytes -= self.traces.remove(&oldest).map_or(0, |outline| outline.bytes);
        }
    }

    #[cfg(test)]
    pub(super) fn is_bounded(&self) -> bool {
        self.bytes <= MOST_BYTES
            && self.bytes == self.traces.values().map(|outline| outline.bytes).sum::<usize>()
            && self.order.len() == self.traces.len()
    }
}
