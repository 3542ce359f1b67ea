//! Received records in a form that does not differ between runs: paths in the tree replace ids, and order replaces
//! times.

mod logs;
mod spans;
mod values;

use std::collections::{BTreeMap, HashMap};

use standpipe::receiver::Receiver;
use standpipe::receiver::proto::{InstrumentationScope, KeyValue, Span};
use standpipe::receiver::{ReceivedLog, ReceivedSpan};

pub(crate) use values::{attributes, hex, of_kind};

/// Facts about one record, by name. Absent values have no entry.
pub(crate) type Facts = BTreeMap<String, String>;

/// The received records of one run, and the facts that the program noted.
#[derive(Clone, Default)]
pub(crate) struct Seen {
    pub(crate) spans: Vec<ReceivedSpan>,
    pub(crate) logs: Vec<ReceivedLog>,
    pub(crate) notes: Vec<(String, String)>,
}

impl Seen {
    pub(crate) fn at(receiver: &Receiver) -> Self {
        Self { spans: receiver.spans(), logs: receiver.logs(), notes: Vec::new() }
    }
}

/// The records and facts of one run, in the form that is compared.
pub(crate) struct Told {
    /// Spans whose parent did not arrive, in the order they started.
    pub(crate) roots: Vec<Node>,
    pub(crate) logs: Vec<Facts>,
    /// Facts about the whole program.
    pub(crate) facts: Facts,
}

/// A span and its children, in the order of their start.
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) facts: Facts,
    pub(crate) children: Vec<Node>,
}

impl Told {
    pub(crate) fn of(seen: &Seen) -> Self {
        let names = Names::of(&seen.spans);
        let mut facts: Facts =
            seen.notes.iter().map(|(what, value)| (format!("note {what}"), names.put_into(value))).collect();
        let resources = seen.spans.iter().map(|span| &span.resource);
        for resource in resources.chain(seen.logs.iter().map(|log| &log.resource)) {
            attributes(&resource.attributes, "resource ", &mut facts);
        }
        Self { roots: spans::forest(&seen.spans, &names), logs: logs::facts(&seen.logs, &names), facts }
    }
}

impl Told {
    /// Describes only the log records.
    pub(crate) fn of_logs(seen: &Seen) -> Self {
        let logs = logs::facts(&seen.logs, &Names::of(&seen.spans));
        Self { roots: Vec::new(), logs, facts: Facts::new() }
    }
}

/// Names that replace random ids.
struct Names {
    /// Paths of spans, by their ids in hexadecimal.
    spans: HashMap<String, String>,
    /// Roots of traces, by trace id in hexadecimal.
    traces: HashMap<String, String>,
    /// Numbers of threads, in the order of appearance.
    threads: HashMap<i64, usize>,
}

impl Names {
    fn of(spans: &[ReceivedSpan]) -> Self {
        let paths = spans::paths(spans);
        let (mut names, mut traces, mut threads) = (HashMap::new(), HashMap::new(), HashMap::new());
        for (received, path) in &paths {
            names.insert(hex(&received.span.span_id), path.clone());
            // A trace that began in another process keeps its id.
            if received.span.parent_span_id.is_empty() {
                traces.entry(hex(&received.span.trace_id)).or_insert_with(|| path.clone());
            }
            if let Some(id) = values::thread(&received.span.attributes) {
                let next = threads.len() + 1;
                threads.entry(id).or_insert(next);
            }
        }
        Self { spans: names, traces, threads }
    }

    fn span(&self, id: &[u8]) -> String {
        self.arrived(id).map_or_else(|| hex(id), str::to_owned)
    }

    /// Returns the path of a span, if it was received.
    fn arrived(&self, id: &[u8]) -> Option<&str> {
        self.spans.get(&hex(id)).map(String::as_str)
    }

    fn trace(&self, id: &[u8]) -> String {
        let id = hex(id);
        self.traces.get(&id).map_or(id, |root| format!("of {root}"))
    }

    /// Returns whether a span is the first of its trace.
    fn is_root(&self, span: &Span) -> bool {
        self.traces.get(&hex(&span.trace_id)) == self.spans.get(&hex(&span.span_id))
    }

    /// Replaces ids by names, in a text such as a `traceparent`.
    fn put_into(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (id, name) in &self.traces {
            text = text.replace(id, &format!("(trace of {name})"));
        }
        for (id, name) in &self.spans {
            text = text.replace(id, &format!("({name})"));
        }
        text
    }

    /// Describes attributes, with placeholders for random values.
    fn attributes(&self, list: &[KeyValue], prefix: &str, facts: &mut Facts) {
        attributes(list, prefix, facts);
        if let Some(id) = values::thread(list) {
            let number = self.threads.get(&id).copied().unwrap_or_default();
            facts.insert(format!("{prefix}attribute thread.id"), format!("that of thread {number}"));
        }
        for key in ["busy_ns", "idle_ns"] {
            let Some(value) = facts.get_mut(&format!("{prefix}attribute {key}")) else { continue };
            if value.strip_prefix("int ").is_some_and(|digits| digits.parse::<u64>().is_ok()) {
                *value = "some time".to_owned();
            }
        }
    }
}

fn scope(scope: &InstrumentationScope, facts: &mut Facts) {
    facts.insert("scope".to_owned(), scope.name.clone());
    if !scope.version.is_empty() {
        facts.insert("scope version".to_owned(), scope.version.clone());
    }
    attributes(&scope.attributes, "scope ", facts);
}

/// Adds a count, unless it is 0.
fn count(number: u32, name: String, facts: &mut Facts) {
    if number > 0 {
        facts.insert(name, number.to_string());
    }
}
