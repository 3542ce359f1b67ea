//! Spans as trees.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use standpipe::SpanContext;
use standpipe::receiver::ReceivedSpan;

/// All spans of a trace.
pub(crate) struct Trace(Vec<ReceivedSpan>);

/// The traces, in no particular order.
pub(crate) fn traces(spans: &[ReceivedSpan]) -> Vec<Trace> {
    let mut traces: BTreeMap<&[u8], Vec<ReceivedSpan>> = BTreeMap::new();
    for received in spans {
        traces.entry(&received.span.trace_id).or_default().push(received.clone());
    }
    traces.into_values().map(Trace).collect()
}

/// The trace, if there is only one.
#[track_caller]
pub(crate) fn only_trace(spans: &[ReceivedSpan]) -> Trace {
    let mut traces = traces(spans);
    assert_eq!(traces.len(), 1, "these are not of one trace");
    traces.remove(0)
}

impl Trace {
    pub(crate) fn spans(&self) -> &[ReceivedSpan] {
        &self.0
    }

    pub(crate) fn id(&self) -> String {
        hex(&self.0[0].span.trace_id)
    }

    /// The span of this service and name.
    #[track_caller]
    pub(crate) fn span(&self, service: &str, name: &str) -> &ReceivedSpan {
        let is_it = |received: &&ReceivedSpan| service_of(received) == service && received.span.name == name;
        let found: Vec<_> = self.0.iter().filter(is_it).collect();
        let [span] = found[..] else { panic!("{} spans are called {name:?} at {service}", found.len()) };
        span
    }

    /// A line for each span, with service, kind and name, and below it its children in the order they began.
    pub(crate) fn draw(&self) -> Vec<String> {
        let is_in_here = |id: &[u8]| self.0.iter().any(|received| received.span.span_id == id);
        let mut lines = Vec::new();
        for top in self.0.iter().filter(|received| !is_in_here(&received.span.parent_span_id)) {
            self.draw_below(top, 0, &mut lines);
        }
        lines
    }

    fn draw_below(&self, top: &ReceivedSpan, depth: usize, lines: &mut Vec<String>) {
        let kind = SpanKind::try_from(top.span.kind).unwrap().as_str_name();
        let kind = kind.trim_start_matches("SPAN_KIND_").to_lowercase();
        let mark = if is_error(top) { " (error)" } else { "" };
        lines.push(format!("{}{} {kind} {}{mark}", "  ".repeat(depth), service_of(top), top.span.name));
        let mut children: Vec<_> =
            self.0.iter().filter(|received| received.span.parent_span_id == top.span.span_id).collect();
        children.sort_by_key(|received| received.span.start_time_unix_nano);
        children.into_iter().for_each(|child| self.draw_below(child, depth + 1, lines));
    }
}

pub(crate) fn service_of(received: &ReceivedSpan) -> &str {
    received.service_name()
}

pub(crate) fn is_error(received: &ReceivedSpan) -> bool {
    received.span.status.as_ref().is_some_and(|status| status.code == StatusCode::Error as i32)
}

/// Returns whether the span's flags say that its parent is in another process.
pub(crate) fn has_remote_parent(received: &ReceivedSpan) -> bool {
    // SpanFlags: bit 0x100 says that it is known whether the parent is remote, and bit 0x200 that the parent is
    // remote.
    let flags = received.span.flags & 0x300;
    assert!(flags & 0x100 != 0, "{} does not know", received.span.name);
    flags == 0x300
}

pub(crate) fn is_child_of(received: &ReceivedSpan, parent: &SpanContext) -> bool {
    received.span.trace_id == parent.trace_id().to_bytes()
        && received.span.parent_span_id == parent.span_id().to_bytes()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
