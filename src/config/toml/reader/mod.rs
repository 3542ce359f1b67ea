//! A table of a file and the exporter that it describes: what all sections have in common.

mod keys;

use std::borrow::Cow;

use toml::Spanned;
use toml::de::{DeString, DeValue};

use super::document::dotted;
use super::report::Report;
use super::scan::ENABLE_TABLE;
use super::section::{ENABLE, Section};
use super::value::{self, Unusable};
use crate::config::error::Fault;
use crate::config::expand::Surroundings;
use crate::config::key::Key;
use crate::config::{Exporter, Source};

const TRUE_OR_FALSE: &str = "write true or false, without quotes";

/// Reads one section.
pub(super) struct SectionReader<'r, 'd> {
    section: &'r Section,
    declared_at: usize,
    surroundings: &'r Surroundings,
    pub(super) report: &'r mut Report<'d>,
}

/// A key and its value, whichever way they were written.
pub(super) struct Entry<'t> {
    name: Cow<'t, str>,
    key_at: usize,
    pub(super) value: &'t Spanned<DeValue<'t>>,
}

impl Entry<'_> {
    pub(super) fn value_at(&self) -> usize {
        self.value.span().start
    }
}

/// All keys of a table in the order of the file.
pub(super) struct Entries<'t>(Vec<Entry<'t>>);

impl<'t> Entries<'t> {
    pub(super) fn find(&self, name: &str) -> Option<&Entry<'t>> {
        self.all(name).next()
    }

    /// Twins included: what the file says twice in different forms are two keys to the parser.
    pub(super) fn all(&self, name: &str) -> impl Iterator<Item = &Entry<'t>> {
        self.0.iter().filter(move |entry| entry.name == name)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// What a section says of its transport.
pub(super) enum Transport {
    Missing,
    /// Switched off at this place.
    Off(usize),
    /// Switched on; if it is not one that exists, that has been reported.
    On,
}

impl<'r, 'd> SectionReader<'r, 'd> {
    pub(super) fn new(
        section: &'r Section,
        key: &Spanned<DeString<'_>>,
        surroundings: &'r Surroundings,
        report: &'r mut Report<'d>,
    ) -> Self {
        Self { section, declared_at: key.span().start, surroundings, report }
    }

    /// All keys, those of a tracer's table `enable` by their full name; `None` if the value is no table.
    pub(super) fn entries<'t>(&mut self, value: &'t Spanned<DeValue<'t>>) -> Option<Entries<'t>> {
        let Some(table) = value.get_ref().as_table() else {
            let path = dotted(self.section.path());
            self.report.wrong_type(Some(self.section), path, value, self.section.example());
            return None;
        };
        let mut entries: Vec<Entry<'t>> = Vec::with_capacity(table.len());
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
        Some(Entries(entries))
    }

    /// Whether the section is switched on by its transport; one that is not known is an error, but read on.
    pub(super) fn transport(&mut self, entries: &Entries<'_>) -> Transport {
        let Some(transport) = entries.find(Key::Transport.name()) else {
            return Transport::Missing;
        };
        let text = match value::text(transport.value.get_ref(), self.surroundings) {
            Ok(text) => text,
            Err(unusable) => {
                self.refuse(transport, Key::Transport.advice(), unusable);
                return Transport::On;
            }
        };
        let fault = match text.text.as_str() {
            "http" | "https" => return Transport::On,
            "disable" | "disabled" => return Transport::Off(transport.value_at()),
            "grpc" => return Transport::On,
            _ => text.fault(Fault::new("is not known", Key::Transport.advice())),
        };
        self.refuse(transport, Key::Transport.advice(), fault.into());
        Transport::On
    }

    /// The exporter with everything that could be taken over; what could not is reported.
    pub(super) fn exporter(&mut self, entries: &Entries<'_>) -> Exporter {
        let path = dotted(self.section.path());
        let mut exporter =
            Exporter::of_table(self.section.exporter_id(), path, self.report.location(self.declared_at));
        self.apply(entries, &mut exporter);
        exporter
    }

    /// Where a switch is set, and to what.
    pub(super) fn truth(&mut self, entries: &Entries<'_>, name: &str) -> Option<(usize, bool)> {
        let entry = entries.find(name)?;
        match value::truth(entry.value.get_ref()) {
            Ok(truth) => Some((entry.value_at(), truth)),
            Err(unusable) => {
                self.refuse(entry, TRUE_OR_FALSE, unusable);
                None
            }
        }
    }

    /// The text of a key that is no setting of an exporter.
    pub(super) fn text<'t>(&mut self, entry: &Entry<'t>, advice: &str) -> Option<value::Text<'t>> {
        value::text(entry.value.get_ref(), self.surroundings)
            .map_err(|unusable| self.refuse(entry, advice, unusable))
            .ok()
    }

    pub(super) fn duplicate(&mut self, first: &Entry<'_>, second: &Entry<'_>) {
        let line = self.report.location(first.key_at).line;
        let fix = format!("it is already set in line {line}; remove one of the two");
        self.report.error(Some(self.section), second.key_at, self.path(&second.name), "duplicate key", fix);
    }

    pub(super) fn missing(&mut self, name: &str, fix: &str) {
        self.report.error(Some(self.section), self.declared_at, self.path(name), "missing", fix);
    }

    fn refuse(&mut self, entry: &Entry<'_>, advice: &str, unusable: Unusable) {
        self.refuse_at(entry.value, &entry.name, advice, unusable);
    }

    fn refuse_at(&mut self, value: &Spanned<DeValue<'_>>, name: &str, advice: &str, unusable: Unusable) {
        let path = self.path(name);
        match unusable {
            Unusable::WrongType => self.report.wrong_type(Some(self.section), path, value, advice),
            Unusable::Faulty(fault) => {
                self.report.error(Some(self.section), value.span().start, path, fault.what, fault.fix);
            }
        }
    }

    pub(super) fn source(&self, at: usize) -> Source {
        Source::File(self.report.location(at))
    }

    pub(super) fn declared_at(&self) -> usize {
        self.declared_at
    }

    /// A key in full. The dots in the names of switches are those of the file.
    pub(super) fn path(&self, name: &str) -> String {
        let parts = self.section.path().into_iter();
        match name.strip_prefix(ENABLE_TABLE) {
            Some(leaf) => dotted(parts.chain([ENABLE, leaf])),
            None => dotted(parts.chain([name])),
        }
    }
}
