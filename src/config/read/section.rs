//! How does a table of a file become an exporter? What all of Stalwart's sections have in common.

use std::borrow::Cow;

use super::report::Report;
use crate::config::error::{Fault, FaultWords};
use crate::config::node::{Node, Tree};
use crate::config::read::expand::Surroundings;
use crate::config::read::value::{self, Unusable};
use crate::config::section::{ENABLE, ENABLE_TABLE, Section, is_known_somewhere};
use crate::config::settings::kind::{Kind, SettingValue};
use crate::config::settings::{ENDPOINT, HEADERS, TRANSPORT};
use crate::config::text::dotted;
use crate::config::values::units::MIN_PLAUSIBLE;
use crate::config::{Exporter, SettingSource, header};

/// Transports that are none.
const OFF: [&str; 2] = ["disable", "disabled"];
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
    pub(super) node: &'t Node,
}

impl Entry<'_> {
    pub(super) fn value_at(&self) -> usize {
        self.node.at
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
pub(super) enum Switch {
    Missing,
    /// Switched off at this place.
    Off(usize),
    /// Switched on, as far as is known.
    On,
}

impl<'r, 'd> SectionReader<'r, 'd> {
    pub(super) fn new(
        section: &'r Section,
        declared_at: usize,
        surroundings: &'r Surroundings,
        report: &'r mut Report<'d>,
    ) -> Self {
        Self { section, declared_at, surroundings, report }
    }

    /// All keys, those of a tracer's table `enable` by their full name; `None` if the value is no table.
    pub(super) fn entries<'t>(&mut self, node: &'t Node) -> Option<Entries<'t>> {
        let Some(fields) = node.as_table() else {
            let path = dotted(&self.section.path());
            self.report.wrong_type(Some(self.section), path, node, self.section.example());
            return None;
        };
        let mut entries: Vec<Entry<'t>> = Vec::with_capacity(fields.len());
        for field in fields {
            let is_enable = [ENABLE, ENABLE_TABLE].contains(&field.name.as_str());
            match field.node.as_table().filter(|_| is_enable) {
                Some(nested) => entries.extend(nested.iter().map(|leaf| Entry {
                    name: format!("{ENABLE_TABLE}{}", leaf.name).into(),
                    key_at: leaf.at,
                    node: &leaf.node,
                })),
                None => entries.push(Entry {
                    name: field.name.as_str().into(),
                    key_at: field.at,
                    node: &field.node,
                }),
            }
        }
        entries.sort_by_cached_key(|entry| entry.key_at);
        Some(Entries(entries))
    }

    /// Whether the section is switched on by its transport. One that is not known counts as on: it is an error, and
    /// reported with all others.
    pub(super) fn transport(&mut self, entries: &Entries<'_>) -> Switch {
        let Some(transport) = entries.find(TRANSPORT.key) else {
            return Switch::Missing;
        };
        let is_off = |word: &str| OFF.iter().any(|off| off.eq_ignore_ascii_case(word));
        match value::text(transport.node, self.surroundings) {
            Ok(text) if is_off(&text.text) => Switch::Off(transport.value_at()),
            _ => Switch::On,
        }
    }

    /// The exporter with everything that could be taken over; what could not is reported.
    pub(super) fn exporter(&mut self, entries: &Entries<'_>) -> Exporter {
        let path = dotted(&self.section.path());
        let mut exporter =
            Exporter::of_table(self.section.exporter_id(), path, self.report.location(self.declared_at));
        self.apply(entries, &mut exporter);
        self.warn_of_plain_https(entries, &exporter);
        exporter
    }

    /// Takes over everything that can be; what cannot is reported.
    fn apply(&mut self, entries: &Entries<'_>, exporter: &mut Exporter) {
        for entry in entries.0.iter().filter(|entry| !self.section.has_switch(&entry.name)) {
            let Some(row) = self.section.row(&entry.name) else {
                self.unknown(entry);
                continue;
            };
            let source = self.source(entry.value_at());
            let taken = match &row.kind {
                Kind::Headers => {
                    self.headers(entry.node, exporter).map(|()| exporter.record(row, source.clone(), None))
                }
                kind => kind.read(entry.node, self.surroundings, row.advice).map(|value| {
                    self.warn_of_milliseconds(entry, &value);
                    exporter.apply(row, value, source.clone());
                }),
            };
            if let Err(unusable) = taken {
                // it is not set, so that mistakes in the environment are reported as well; but it is not missing either
                if row.partner.is_some() {
                    exporter.record(row, source, None);
                }
                self.refuse(entry, row.advice, unusable);
            }
        }
    }

    /// Warns of a number without a unit that is so small that seconds were probably meant.
    fn warn_of_milliseconds(&mut self, entry: &Entry<'_>, value: &SettingValue) {
        let SettingValue::Duration(duration) = value else { return };
        let is_bare = entry.node.as_text().is_none_or(|text| text.trim().parse::<u64>().is_ok());
        if is_bare && !duration.is_zero() && *duration < MIN_PLAUSIBLE {
            let number = duration.as_millis();
            let what = format!("is {number} ms: a number without a unit is milliseconds");
            let fix = format!("write \"{number}s\" for seconds, or \"{number}ms\"");
            self.report.warning(entry.value_at(), self.path(&entry.name), what, fix);
        }
    }

    /// Reads a list of lines, one line, or a table of names and values.
    fn headers(&mut self, headers: &Node, exporter: &mut Exporter) -> Result<(), Unusable> {
        let count = match &headers.value {
            Tree::List(lines) => lines.len(),
            Tree::Table(fields) => fields.len(),
            _ => 1,
        };
        header::check_count(count)?;
        match &headers.value {
            Tree::Text(_) => self.header_line(headers, exporter),
            Tree::List(lines) => lines.iter().for_each(|line| self.header_line(line, exporter)),
            Tree::Table(fields) => {
                for field in fields {
                    match value::text(&field.node, self.surroundings) {
                        Ok(text) => {
                            exporter.connection.has_secret_header |= text.is_secret;
                            exporter.add_header(&field.name, &text.text, self.source(field.node.at));
                        }
                        Err(unusable) => self.refuse_header(&field.node, unusable),
                    }
                }
            }
            _ => return Err(Unusable::WrongType),
        }
        Ok(())
    }

    fn header_line(&mut self, line: &Node, exporter: &mut Exporter) {
        let text = match value::text(line, self.surroundings) {
            Ok(text) => text,
            Err(unusable) => return self.refuse_header(line, unusable),
        };
        exporter.connection.has_secret_header |= text.is_secret;
        match header::split(&text.text) {
            Ok((name, value)) => exporter.add_header(name, value, self.source(line.at)),
            Err(fault) => self.refuse_header(line, fault.into()),
        }
    }

    fn refuse_header(&mut self, node: &Node, unusable: Unusable) {
        self.refuse_at(node, HEADERS.key, HEADERS.advice, unusable);
    }

    fn unknown(&mut self, entry: &Entry<'_>) {
        let path = self.path(&entry.name);
        if is_known_somewhere(&entry.name) {
            let fix = self.section.advice_on_misplaced(&entry.name);
            return self.report.warning(entry.key_at, path, "has no effect here", fix);
        }
        if let Some(fix) = self.section.advice_on_expected(&entry.name) {
            return self.report.warning(entry.key_at, path, "unknown key", fix);
        }
        self.report.unknown_key(entry.key_at, path, &entry.name, &self.section.names());
    }

    /// `https` as a transport is `http`: whether anything is encrypted is said by the endpoint alone.
    fn warn_of_plain_https(&mut self, entries: &Entries<'_>, exporter: &Exporter) {
        let [transport, endpoint] = [&TRANSPORT, &ENDPOINT].map(|row| entries.find(row.key));
        let (Some(transport), Some(endpoint)) = (transport, endpoint) else { return };
        let says_https = transport.node.as_text().is_some_and(|word| word.eq_ignore_ascii_case("https"));
        if says_https && exporter.connection.parsed().is_ok_and(|endpoint| !endpoint.tls) {
            let what = "is not encrypted, whatever the transport says";
            let path = self.path(ENDPOINT.key);
            self.report.warning(endpoint.value_at(), path, what, "begin it with https://");
        }
    }

    /// Where a switch is set, and to what.
    pub(super) fn bool(&mut self, entries: &Entries<'_>, name: &str) -> Option<(usize, bool)> {
        let entry = entries.find(name)?;
        match value::bool(entry.node) {
            Ok(value) => Some((entry.value_at(), value)),
            Err(unusable) => {
                self.refuse(entry, TRUE_OR_FALSE, unusable);
                None
            }
        }
    }

    /// The text of a key that is no setting of an exporter.
    pub(super) fn text<'t>(&mut self, entry: &Entry<'t>, advice: &'static str) -> Option<value::Text<'t>> {
        value::text(entry.node, self.surroundings)
            .map_err(|unusable| self.refuse(entry, advice, unusable))
            .ok()
    }

    pub(super) fn duplicate(&mut self, first: &Entry<'_>, second: &Entry<'_>) {
        let FaultWords { what, fix } =
            Fault::duplicate_key(self.report.location(first.key_at).line).into_words();
        self.report.error(Some(self.section), second.key_at, self.path(&second.name), what, fix);
    }

    /// Whether something of the section is known to be wrong already.
    pub(super) fn is_broken(&self) -> bool {
        self.report.is_broken(self.section)
    }

    pub(super) fn missing(&mut self, name: &str, fix: &'static str) {
        self.report.error(Some(self.section), self.declared_at, self.path(name), "missing", fix);
    }

    fn refuse(&mut self, entry: &Entry<'_>, advice: &'static str, unusable: Unusable) {
        self.refuse_at(entry.node, &entry.name, advice, unusable);
    }

    fn refuse_at(&mut self, node: &Node, name: &str, advice: &'static str, unusable: Unusable) {
        self.report.refuse(self.section, self.path(name), node, advice, unusable);
    }

    pub(super) fn source(&self, at: usize) -> SettingSource {
        self.report.source(at)
    }

    pub(super) fn declared_at(&self) -> usize {
        self.declared_at
    }

    /// A key in full. The dots in the names of switches are those of the file.
    pub(super) fn path(&self, name: &str) -> String {
        let section = self.section.path();
        match name.strip_prefix(ENABLE_TABLE) {
            Some(leaf) => dotted(&[&section[..], &[ENABLE, leaf]].concat()),
            None => dotted(&[&section[..], &[name]].concat()),
        }
    }
}
