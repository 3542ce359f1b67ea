//! Traces as trees of spans: navigation, assertions and drawing.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ops::Deref;

use super::signals::ReceivedEvent;
use super::value::ReceivedValue;
use super::{ReceivedLog, ReceivedSpan};
use crate::escape;
use crate::record::schema::Span;
use crate::record::{SpanId, SpanKind, Status, TraceId};

/// Maximum characters of an attribute's value in a drawing.
const MAX_VALUE_CHARS: usize = 256;

/// The received part of one trace: its spans as a tree, and its log records.
///
/// Get it from [`Receiver::trace`](super::super::Receiver::trace),
/// [`Receiver::only_trace`](super::super::Receiver::only_trace) or
/// [`Receiver::traces`](super::super::Receiver::traces). `Display` draws the tree with durations, attributes, errors,
/// events and log records, and so do the panic messages of its methods.
///
/// ```
/// use standpipe::Status;
/// use standpipe::receiver::TestTelemetry;
///
/// let test = TestTelemetry::start();
/// let tracer = test.tracer("shop");
/// {
///     let _checkout = tracer.span("checkout");
///     tracer.span("payment").status(Status::Error("card declined"));
///     tracer.span("apology").end();
/// }
/// let trace = test.received().only_trace();
/// trace.assert_tree(
///     "checkout
///        payment
///        apology",
/// );
/// assert_eq!(trace.span("payment").status(), Some(Status::Error("card declined")));
/// println!("{trace}");
/// ```
///
/// ```text
/// trace 4bf92f3577b34da6a3ce929d0e0e4736: 3 spans, 1 error
/// checkout  41.2µs
/// ├─ payment  12.1µs
/// │     ✗ card declined
/// ╰─ apology  1.4µs
/// ```
///
/// Children are in the order of their start. A span whose parent was not received is a root.
#[derive(Debug, Clone)]
pub struct Trace {
    id: TraceId,
    /// Parents before their children, depth first.
    nodes: Vec<Node>,
    /// Log records in the order of time.
    logs: Vec<ReceivedLog>,
}

#[derive(Debug, Clone)]
struct Node {
    span: ReceivedSpan,
    /// Depth in the tree; 0 for a root.
    depth: usize,
}

impl Trace {
    pub(in crate::receiver) fn new(id: TraceId, spans: Vec<ReceivedSpan>, logs: Vec<ReceivedLog>) -> Self {
        let mut trace = Self { id, nodes: grow(spans), logs };
        // Stable, so that records of the same time stay in the order of arrival.
        trace.logs.sort_by_key(ReceivedLog::unix_nanos);
        trace
    }

    /// Groups spans and log records by trace, in the order of each trace's first span.
    pub(in crate::receiver) fn all(spans: Vec<ReceivedSpan>, logs: Vec<ReceivedLog>) -> Vec<Self> {
        let mut numbers = HashMap::new();
        let mut traces: Vec<(TraceId, Vec<ReceivedSpan>, Vec<ReceivedLog>)> = Vec::new();
        for span in spans {
            let id = span.trace_id();
            let number = *numbers.entry(id).or_insert_with(|| {
                traces.push((id, Vec::new(), Vec::new()));
                traces.len() - 1
            });
            traces[number].1.push(span);
        }
        for log in logs {
            if let Some(number) = log.trace_id().and_then(|id| numbers.get(&id)) {
                traces[*number].2.push(log);
            }
        }
        traces.into_iter().map(|(id, spans, logs)| Self::new(id, spans, logs)).collect()
    }

    /// Returns the id.
    pub fn id(&self) -> TraceId {
        self.id
    }

    /// Returns the only span without a parent in this trace.
    ///
    /// # Panics
    /// Panics if there is no root, or more than one. The message shows the trace.
    #[track_caller]
    pub fn root(&self) -> TraceSpan<'_> {
        self.only("root", |node| node.depth == 0)
    }

    /// Returns the only span with this name.
    ///
    /// # Panics
    /// Panics if no span, or more than one, has this name. The message shows the trace.
    #[track_caller]
    pub fn span(&self, name: &str) -> TraceSpan<'_> {
        self.only(&format!("span {name:?}"), |node| node.span.name() == name)
    }

    /// Returns the first span with this name, depth first.
    pub fn find(&self, name: &str) -> Option<TraceSpan<'_>> {
        self.spans().into_iter().find(|span| span.name() == name)
    }

    /// Returns all spans, each before its children.
    pub fn spans(&self) -> Vec<TraceSpan<'_>> {
        (0..self.nodes.len()).map(|index| TraceSpan { trace: self, index }).collect()
    }

    /// Returns the names of all spans, each before those of its children.
    pub fn names(&self) -> Vec<&str> {
        self.nodes.iter().map(|node| node.span.name()).collect()
    }

    /// Returns the log records of the trace, in the order of time. See also [`TraceSpan::logs`].
    pub fn logs(&self) -> &[ReceivedLog] {
        &self.logs
    }

    /// Asserts that the tree consists of spans with these names, one per line, children indented below their parent in
    /// the order of their start. Blank lines and common indentation do not count.
    ///
    /// # Panics
    /// Panics if the tree differs. The message shows the expected tree and the trace.
    #[track_caller]
    pub fn assert_tree(&self, expected: &str) {
        let expected = outline(expected);
        let received: Vec<_> = self.nodes.iter().map(|node| (node.depth, node.span.name().trim())).collect();
        if expected != received {
            let same = expected.iter().zip(&received).take_while(|(one, other)| one == other).count();
            let lines: Vec<_> =
                expected.iter().map(|(depth, name)| format!("{}{name}", "   ".repeat(*depth))).collect();
            panic!(
                "the trace differs from span {} on\nexpected:\n{}\nreceived:\n{self}",
                same + 1,
                lines.join("\n")
            );
        }
    }

    #[track_caller]
    fn only(&self, what: &str, is_it: impl Fn(&Node) -> bool) -> TraceSpan<'_> {
        let found: Vec<_> = (0..self.nodes.len()).filter(|index| is_it(&self.nodes[*index])).collect();
        match found[..] {
            [index] => TraceSpan { trace: self, index },
            [] => panic!("no {what} in {self}"),
            _ => panic!("{} times {what} in {self}", found.len()),
        }
    }
}

/// Returns the depth and the name of each line that is not blank.
fn outline(text: &str) -> Vec<(usize, &str)> {
    let mut open: Vec<usize> = Vec::new();
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines
        .map(|line| {
            let indent = line.len() - line.trim_start().len();
            // A line belongs to the nearest line above with less indentation.
            open.retain(|above| *above < indent);
            open.push(indent);
            (open.len() - 1, line.trim())
        })
        .collect()
}

/// Place of a span in the tree of its trace.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct TreeNode {
    /// Index of the span.
    pub index: usize,
    /// Index of the parent's node, which is always smaller.
    pub parent: Option<usize>,
    /// True if the span names a parent that is not among the spans.
    pub is_orphan: bool,
}

/// Arranges the spans of one trace as a tree, depth first, children by their start.
///
/// Every span appears exactly once, even if ids are repeated or parents form a cycle.
#[doc(hidden)]
pub fn tree(spans: &[&Span]) -> Vec<TreeNode> {
    let ids: HashSet<&[u8]> = spans.iter().map(|span| span.span_id.as_slice()).collect();
    let mut by_start: Vec<usize> = (0..spans.len()).collect();
    by_start.sort_by_key(|&index| spans[index].start_time_unix_nano);

    let mut children: HashMap<&[u8], Vec<usize>> = HashMap::new();
    let mut roots = Vec::new();
    for &index in &by_start {
        let parent = spans[index].parent_span_id.as_slice();
        // Some senders write zeros if there is no parent.
        let has_parent = parent.iter().any(|byte| *byte != 0);
        match has_parent && ids.contains(parent) {
            true => children.entry(parent).or_default().push(index),
            false => roots.push((index, has_parent)),
        }
    }
    // A cycle has no root, so its earliest span becomes one.
    roots.extend(by_start.iter().map(|&index| (index, false)));

    let mut nodes = Vec::with_capacity(spans.len());
    let mut is_planted = vec![false; spans.len()];
    for (root, is_orphan) in roots {
        // An explicit stack instead of recursion, because the sender chooses the depth of a trace.
        let mut waiting = vec![(root, None, is_orphan)];
        while let Some((index, parent, is_orphan)) = waiting.pop() {
            if std::mem::replace(&mut is_planted[index], true) {
                continue;
            }
            // The children are removed, so that only the first of two spans with the same id gets them.
            let below = children.remove(spans[index].span_id.as_slice()).unwrap_or_default();
            waiting.extend(below.into_iter().rev().map(|child| (child, Some(nodes.len()), false)));
            nodes.push(TreeNode { index, parent, is_orphan });
        }
    }
    nodes
}

fn grow(spans: Vec<ReceivedSpan>) -> Vec<Node> {
    let messages: Vec<&Span> = spans.iter().map(|received| &*received.span).collect();
    let mut nodes: Vec<Node> = Vec::with_capacity(spans.len());
    for TreeNode { index, parent, .. } in tree(&messages) {
        let depth = parent.map_or(0, |parent| nodes[parent].depth + 1);
        nodes.push(Node { span: spans[index].clone(), depth });
    }
    nodes
}

/// A span in its [`Trace`]: a [`ReceivedSpan`] with access to parent and children.
#[derive(Clone, Copy)]
pub struct TraceSpan<'a> {
    trace: &'a Trace,
    index: usize,
}

impl<'a> TraceSpan<'a> {
    /// Returns the span, which lives as long as the trace.
    pub fn received(self) -> &'a ReceivedSpan {
        &self.node().span
    }

    /// Returns the children, in the order of their start.
    pub fn children(self) -> Vec<TraceSpan<'a>> {
        let depth = self.node().depth;
        let below = (self.index + 1..self.trace.nodes.len()).map(|index| TraceSpan { index, ..self });
        // The nodes are depth first, so the subtree of a span is the run of deeper nodes after its own.
        let below = below.take_while(|span| span.node().depth > depth);
        below.filter(|span| span.node().depth == depth + 1).collect()
    }

    /// Returns the parent; `None` for a root.
    pub fn parent(self) -> Option<TraceSpan<'a>> {
        let depth = self.node().depth;
        let mut above = (0..self.index).rev().map(|index| TraceSpan { index, ..self });
        above.find(|span| span.node().depth < depth)
    }

    /// Returns the log records of the span, in the order of time.
    pub fn logs(self) -> Vec<&'a ReceivedLog> {
        self.trace.logs.iter().filter(|log| log.span_id() == Some(self.span_id())).collect()
    }

    fn node(self) -> &'a Node {
        &self.trace.nodes[self.index]
    }
}

impl Deref for TraceSpan<'_> {
    type Target = ReceivedSpan;

    fn deref(&self) -> &ReceivedSpan {
        self.received()
    }
}

impl fmt::Debug for TraceSpan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.received().fmt(f)
    }
}

/// Draws the tree, with the events, errors and log records of each span below it.
impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_error = |node: &&Node| matches!(node.span.status(), Some(Status::Error(_)));
        let errors = self.nodes.iter().filter(is_error).count();
        write!(f, "trace {}: {}, {}", self.id, count(self.nodes.len(), "span"), count(errors, "error"))?;

        let services: HashSet<&str> = self.nodes.iter().map(|node| node.span.service_name()).collect();
        // For each level from the root down to the current span: whether a later sibling follows at that level.
        let mut trunks: Vec<bool> = Vec::new();
        for (index, node) in self.nodes.iter().enumerate() {
            trunks.truncate(node.depth);
            let guides: String = trunks.iter().skip(1).map(|goes_on| trunk(*goes_on)).collect();
            let mut below = self.nodes[index + 1..].iter().map(|below| below.depth);
            let has_sibling_below = below.find(|depth| *depth <= node.depth) == Some(node.depth);
            let branch = match (node.depth, has_sibling_below) {
                (0, _) => "",
                (_, true) => "├─ ",
                (_, false) => "╰─ ",
            };
            write!(f, "\n{guides}{branch}{}", node.span.name())?;
            trunks.push(has_sibling_below);
            if services.len() > 1 {
                write!(f, "  {}", node.span.service_name())?;
            }
            if node.span.kind() != SpanKind::Internal {
                write!(f, "  {}", format!("{:?}", node.span.kind()).to_lowercase())?;
            }
            write!(f, "  {:.1?}{}", node.span.duration(), key_values(&node.span.attributes()))?;

            let has_children = self.nodes.get(index + 1).is_some_and(|next| next.depth > node.depth);
            let guides: String =
                trunks.iter().skip(1).chain([&has_children]).map(|goes_on| trunk(*goes_on)).collect();
            for remark in remarks(TraceSpan { trace: self, index }) {
                write!(f, "\n{guides}{remark}")?;
            }
        }
        let ids: HashSet<SpanId> = self.nodes.iter().map(|node| node.span.span_id()).collect();
        let is_stray = |log: &&ReceivedLog| log.span_id().is_none_or(|id| !ids.contains(&id));
        self.logs
            .iter()
            .filter(is_stray)
            .try_for_each(|log| write!(f, "\noutside of these spans: {}", log_line(log)))
    }
}

fn trunk(goes_on: bool) -> &'static str {
    if goes_on { "│  " } else { "   " }
}

/// Returns the lines below a span: error, events and log records by time, links, and a missing or misplaced parent.
fn remarks(span: TraceSpan<'_>) -> Vec<String> {
    let mut remarks = Vec::new();
    if let Some(Status::Error(message)) = span.status() {
        remarks.push(format!("✗ {}", if message.is_empty() { "error" } else { message }));
    }
    let events = span.received().events().into_iter().map(|event| (event.unix_nanos(), event_line(event)));
    let logs = span.logs().into_iter().map(|log| (log.unix_nanos(), log_line(log)));
    let mut moments: Vec<_> = events.chain(logs).collect();
    moments.sort_by_key(|(unix_nanos, _)| *unix_nanos);
    remarks.extend(moments.into_iter().map(|(_, line)| line));
    let links = span.received().links().into_iter();
    remarks.extend(links.map(|link| format!("↗ span {} in trace {}", link.span_id(), link.trace_id())));
    if let Some(parent) = span.parent_id().filter(|_| span.parent().is_none()) {
        let is_here = span.trace.nodes.iter().any(|node| node.span.span_id() == parent);
        remarks.push(format!("parent {parent} is {}", if is_here { "below this span" } else { "missing" }));
    }
    remarks
}

fn event_line(event: ReceivedEvent<'_>) -> String {
    let mut attributes = event.attributes();
    // A stack trace is too long for a drawing.
    attributes.retain(|(key, _)| *key != "exception.stacktrace");
    format!("◆ {}{}", event.name(), key_values(&attributes))
}

fn log_line(log: &ReceivedLog) -> String {
    let severity = log.severity().map_or(log.severity_text(), |severity| severity.name());
    format!("{severity} {}{}", log.body(), key_values(&log.attributes()))
}

/// Returns `key=value` for each attribute, with two spaces before each.
fn key_values(attributes: &[(&str, ReceivedValue<'_>)]) -> String {
    let pair = |(key, value): &(&str, ReceivedValue<'_>)| {
        format!("  {key}={}", escape::beginning(format!("{value:?}"), MAX_VALUE_CHARS))
    };
    attributes.iter().map(pair).collect()
}

/// Returns a count with its noun: `3 spans`, `1 span`, `no spans`.
fn count(number: usize, one: &str) -> String {
    if number == 0 { format!("no {one}s") } else { escape::count(number as u64, one) }
}
