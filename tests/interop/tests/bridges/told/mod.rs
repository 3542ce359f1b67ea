//! What arrived, told without what no two runs share: ids become places in the tree, times become order.

mod logs;
mod spans;
mod values;

use std::collections::{BTreeMap, HashMap};

use standpipe::receiver::Receiver;
use standpipe::receiver::proto::{InstrumentationScope, KeyValue, Span};
use standpipe::receiver::{ReceivedLog, ReceivedSpan};

pub(crate) use values::{attributes, hex, of_kind};

/// What is known of one thing, by name. What is left out is not there.
pub(crate) type Facts = BTreeMap<String, String>;

/// What arrived of one run of a program, and what the program noted itself.
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

/// The same, to be compared.
pub(crate) struct Told {
    /// Spans whose parent did not arrive, in the order they started.
    pub(crate) roots: Vec<Node>,
    pub(crate) logs: Vec<Facts>,
    /// Of the program as a whole.
    pub(crate) facts: Facts,
}

/// A span and those below it, in the order they started.
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
    /// The log records alone.
    pub(crate) fn of_logs(seen: &Seen) -> Self {
        let logs = logs::facts(&seen.logs, &Names::of(&seen.spans));
        Self { roots: Vec::new(), logs, facts: Facts::new() }
    }
}

/// What random ids stand for.
struct Names {
    /// The paths of spans, by their ids in hexadecimal digits.
    spans: HashMap<String, String>,
    /// The roots of traces, likewise.
    traces: HashMap<String, String>,
    /// Numbers of threads, in the order in which they come up.
    threads: HashMap<i64, usize>,
}

impl Names {
    fn of(spans: &[ReceivedSpan]) -> Self {
        let paths = spans::paths(spans);
        let (mut names, mut traces, mut threads) = (HashMap::new(), HashMap::new(), HashMap::new());
        for (received, path) in &paths {
            names.insert(hex(&received.span.span_id), path.clone());
            // a trace that came from elsewhere keeps its id
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

    /// The path of a span that arrived.
    fn arrived(&self, id: &[u8]) -> Option<&str> {
        self.spans.get(&hex(id)).map(String::as_str)
    }

    fn trace(&self, id: &[u8]) -> String {
        let id = hex(id);
        self.traces.get(&id).map_or(id, |root| format!("of {root}"))
    }

    /// Whether it is the first span of its trace.
    fn is_root(&self, span: &Span) -> bool {
        self.traces.get(&hex(&span.trace_id)) == self.spans.get(&hex(&span.span_id))
    }

    /// Puts names in the place of ids, in a text such as a `traceparent`.
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

    /// Attributes, with what is random in them told as well as it can be.
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

/// A count that is told only if there is anything to tell.
fn count(number: u32, name: String, facts: &mut Facts) {
    if number > 0 {
        facts.insert(name, number.to_string());
    }
}
