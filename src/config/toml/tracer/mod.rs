//! One `[tracer.<id>]`: from its keys to an exporter.

mod keys;

use std::borrow::Cow;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::document::{dotted, shortened};
use super::report::Report;
use super::scan::ENABLE_TABLE;
use super::value::{self, Unusable};
use crate::config::error::Fault;
use crate::config::expand::Surroundings;
use crate::config::key::Key;
use crate::config::{Exporter, Signals, Source, suggest};
use crate::record::Signal;

/// The keys that decide whether there is an exporter at all.
const TYPE: &str = "type";
const ENABLE: &str = "enable";
const ENABLE_LOGS: &str = "enable.log-exporter";
const ENABLE_SPANS: &str = "enable.span-exporter";
const SWITCHES: [&str; 4] = [TYPE, ENABLE, ENABLE_LOGS, ENABLE_SPANS];

const TYPES: [&str; 2] = ["open-telemetry", "otel"];
const TYPE_ADVICE: &str = "write type = \"open-telemetry\"";
const TRUE_OR_FALSE: &str = "write true or false, without quotes";

/// Reads one tracer.
pub(super) struct TracerReader<'r, 'd> {
    id: &'r str,
    declared_at: usize,
    tracer: &'r Spanned<DeValue<'r>>,
    surroundings: &'r Surroundings,
    report: &'r mut Report<'d>,
}

/// A key and its value, whichever way they were written.
struct Entry<'t> {
    name: Cow<'t, str>,
    key_at: usize,
    value: &'t Spanned<DeValue<'t>>,
}

impl<'r, 'd> TracerReader<'r, 'd> {
    pub(super) fn new(
        id: &'r Spanned<DeString<'r>>,
        tracer: &'r Spanned<DeValue<'r>>,
        surroundings: &'r Surroundings,
        report: &'r mut Report<'d>,
    ) -> Self {
        Self { id: id.get_ref(), declared_at: id.span().start, tracer, surroundings, report }
    }

    /// The exporter that the tracer describes; `None` if it is not to be started, whatever else is wrong with it.
    pub(super) fn read(mut self) -> Option<Exporter> {
        let Some(table) = self.tracer.get_ref().as_table() else {
            let path = dotted(["tracer", self.id]);
            self.report.wrong_type(Some(self.id), path, self.tracer, "write a table like [tracer.otel]");
            return None;
        };
        let entries = self.entries(table);
        if self.is_off(&entries) || !self.is_ours(&entries) || !self.has_transport(&entries) {
            return None;
        }
        let exports = self.exports(&entries);
        let source = Source::File(self.report.location(self.declared_at));
        let mut exporter = Exporter::declared_at(self.id, source);
        exporter.signals = Signals::of(&[Signal::Traces]);
        self.apply(&entries, &mut exporter);
        exports.then_some(exporter)
    }

    /// All keys in the order of the file, those of a table `enable` by their full name.
    fn entries(&mut self, table: &'r DeTable<'r>) -> Vec<Entry<'r>> {
        let mut entries: Vec<Entry<'r>> = Vec::with_capacity(table.len());
        for (key, value) in table {
            match value.get_ref().as_table().filter(|_| key.get_ref() == ENABLE_TABLE) {
                Some(nested) => entries.extend(nested.iter().map(|(leaf, value)| Entry {
                    name: format!("{ENABLE_TABLE}{}", leaf.get_ref()).into(),
                    key_at: leaf.span().start,
                    value,
                })),
                None => entries.push(Entry {
                    name: key.get_ref().as_ref().into(),
                    key_at: key.span().start,
                    value,
                }),
            }
        }
        entries.sort_by_key(|entry| entry.key_at);
        // the parser saw two different keys where the file says the same thing twice
        for name in [ENABLE_LOGS, ENABLE_SPANS] {
            let mut twins = entries.iter().filter(|entry| entry.name == name);
            if let (Some(first), Some(second)) = (twins.next(), twins.next()) {
                let line = self.report.location(first.key_at).line;
                let fix = format!("it is already set in line {line}; remove one of the two");
                self.report.error(Some(self.id), second.key_at, self.path(name), "duplicate key", fix);
            }
        }
        entries
    }

    fn is_off(&mut self, entries: &[Entry<'_>]) -> bool {
        let Some(enable) = find(entries, ENABLE) else {
            return false;
        };
        let is_off = enable.value.get_ref().as_bool() == Some(false);
        if is_off {
            self.report.note(
                enable.value.span().start,
                self.path(ENABLE),
                "not started: enable is false",
                "",
            );
        }
        is_off
    }

    fn is_ours(&mut self, entries: &[Entry<'_>]) -> bool {
        let Some(kind) = find(entries, TYPE) else {
            self.report.warning(
                self.declared_at,
                self.path(TYPE),
                "not started: it has no type",
                TYPE_ADVICE,
            );
            return false;
        };
        let at = kind.value.span().start;
        let text = match value::text(kind.value.get_ref(), self.surroundings) {
            Ok(text) => text,
            Err(unusable) => {
                self.refuse(kind, TYPE_ADVICE, unusable);
                return false;
            }
        };
        if TYPES.contains(&text.text.as_str()) {
            return true;
        }
        let what = format!("not started: {:?} is not a type of OpenTelemetry", shortened(text.written));
        match suggest::nearest(&text.text, TYPES) {
            Some(meant) => self.report.warning(at, self.path(TYPE), what, format!("did you mean {meant:?}?")),
            None => self.report.note(at, self.path(TYPE), what, ""),
        }
        false
    }

    /// Whether the tracer is switched on by its transport; one that is not known is an error, but read on.
    fn has_transport(&mut self, entries: &[Entry<'_>]) -> bool {
        let path = self.path(Key::Transport.name());
        let Some(transport) = find(entries, Key::Transport.name()) else {
            self.report.error(Some(self.id), self.declared_at, path, "missing", "write transport = \"http\"");
            return true;
        };
        let at = transport.value.span().start;
        let text = match value::text(transport.value.get_ref(), self.surroundings) {
            Ok(text) => text,
            Err(unusable) => {
                self.refuse(transport, Key::Transport.advice(), unusable);
                return true;
            }
        };
        match text.text.as_str() {
            "http" | "https" => {}
            "disable" | "disabled" => {
                self.report.note(at, path, "not started: its transport is disabled", "");
                return false;
            }
            "grpc" => {
                let fix = "write transport = \"http\" and the collector's HTTP port, usually 4318";
                self.report.error(Some(self.id), at, path, "grpc is not in this version", fix);
            }
            _ => {
                let fault = text.fault(Fault::new("is not known", Key::Transport.advice()));
                self.report.error(Some(self.id), at, path, fault.what, fault.fix);
            }
        }
        true
    }

    /// Whether anything would ever be sent.
    fn exports(&mut self, entries: &[Entry<'_>]) -> bool {
        self.truth(entries, ENABLE);
        if let Some((logs, true)) = self.truth(entries, ENABLE_LOGS) {
            let fix = "spans are sent; remove the key until a version sends logs";
            self.report.warning(logs, self.path(ENABLE_LOGS), "this version sends no logs", fix);
        }
        if let Some((spans, false)) = self.truth(entries, ENABLE_SPANS) {
            let what = "not started: this version sends nothing but spans";
            self.report.warning(spans, self.path(ENABLE_SPANS), what, "write true, or enable = false");
            return false;
        }
        true
    }

    /// Where a switch is set, and to what.
    fn truth(&mut self, entries: &[Entry<'_>], name: &str) -> Option<(usize, bool)> {
        let entry = find(entries, name)?;
        match value::truth(entry.value.get_ref()) {
            Ok(truth) => Some((entry.value.span().start, truth)),
            Err(unusable) => {
                self.refuse(entry, TRUE_OR_FALSE, unusable);
                None
            }
        }
    }

    fn refuse(&mut self, entry: &Entry<'_>, advice: &str, unusable: Unusable) {
        self.refuse_at(entry.value, &entry.name, advice, unusable);
    }

    fn refuse_at(&mut self, value: &Spanned<DeValue<'_>>, name: &str, advice: &str, unusable: Unusable) {
        let path = self.path(name);
        match unusable {
            Unusable::WrongType => self.report.wrong_type(Some(self.id), path, value, advice),
            Unusable::Faulty(fault) => {
                self.report.error(Some(self.id), value.span().start, path, fault.what, fault.fix);
            }
        }
    }

    fn source(&self, value: &Spanned<DeValue<'_>>) -> Source {
        Source::File(self.report.location(value.span().start))
    }

    /// A key in full. The dots in the names of switches are those of the file.
    fn path(&self, name: &str) -> String {
        let parts = ["tracer", self.id].into_iter();
        match name.strip_prefix(ENABLE_TABLE) {
            Some(leaf) => dotted(parts.chain([ENABLE, leaf])),
            None => dotted(parts.chain([name])),
        }
    }
}

fn find<'e, 't>(entries: &'e [Entry<'t>], name: &str) -> Option<&'e Entry<'t>> {
    entries.iter().find(|entry| entry.name == name)
}
