//! Reads the sections of a document and reports mistakes. [`SectionReader`] holds what all of Stalwart's sections have in
//! common; [`Report`] collects the diagnostics, each with its place, and knows which sections they break.

use std::borrow::Cow;
use std::collections::BTreeSet;

use crate::config::error::{Diagnostic, DiagnosticSeverity, Fault, Location, Words};
use crate::config::node::{Mistake, Node, Places, Tree};
use crate::config::read::value::{self, Surroundings, Unusable};
use crate::config::section::{ENABLE, ENABLE_TABLE, Owner, Section, is_known_somewhere};
use crate::config::settings::kind::{Kind, SettingValue};
use crate::config::settings::{ENDPOINT, HEADERS, TRANSPORT};
use crate::config::summary::Few;
use crate::config::text::dotted;
use crate::config::values::units::MIN_PLAUSIBLE;
use crate::config::{Exporter, SettingSource, header, text};

/// More diagnostics are only counted: nobody reads them all, and a hostile file must not cost more than it weighs.
const MAX_DIAGNOSTICS: usize = 200;

pub(super) struct Report<'d> {
    /// Where the values of the document get their secrets from.
    pub(super) surroundings: &'d Surroundings,
    places: &'d Places<'d>,
    diagnostics: Vec<Diagnostic>,
    left_out: usize,
    worst_left_out: DiagnosticSeverity,
    broken: BTreeSet<Section>,
    /// Something is wrong that could concern any section.
    all_broken: bool,
    /// Places whose values were replaced by those of environment variables.
    replaced: Few<usize, String>,
}

impl<'d> Report<'d> {
    /// Mistakes in sections of other programs are warnings, as they break nothing, unless `is_foreign`: a document without
    /// any known section has nothing else to report.
    pub(super) fn new(
        surroundings: &'d Surroundings,
        places: &'d Places<'d>,
        mistakes: Vec<Mistake>,
        is_foreign: bool,
    ) -> Self {
        let mut report = Self {
            surroundings,
            places,
            diagnostics: Vec::new(),
            left_out: 0,
            worst_left_out: DiagnosticSeverity::Note,
            broken: BTreeSet::new(),
            all_broken: false,
            replaced: Few::new(),
        };
        for Mistake { owner, mut diagnostic } in mistakes {
            match owner {
                Owner::Section(section) => _ = report.broken.insert(section),
                Owner::Unknown => report.all_broken = true,
                Owner::Other if is_foreign => {}
                Owner::Other => diagnostic.severity = diagnostic.severity.min(DiagnosticSeverity::Warning),
            }
            report.diagnostics.push(diagnostic);
        }
        report
    }

    /// Reports an error that keeps a section from being started, or all of them.
    pub(super) fn error(
        &mut self,
        section: Option<&Section>,
        at: usize,
        key: impl Into<String>,
        fault: Fault,
    ) {
        match section {
            Some(section) => _ = self.broken.insert(section.clone()),
            None => self.all_broken = true,
        }
        self.push(DiagnosticSeverity::Error, at, key.into(), fault);
    }

    /// Reports an error where no exporter can be started anyway.
    pub(super) fn lone_error(&mut self, at: usize, key: impl Into<String>, fault: Fault) {
        self.push(DiagnosticSeverity::Error, at, key.into(), fault);
    }

    pub(super) fn warning(&mut self, at: usize, key: impl Into<String>, fault: Fault) {
        self.push(DiagnosticSeverity::Warning, at, key.into(), fault);
    }

    /// Reports something that needs no change.
    pub(super) fn note(&mut self, at: usize, key: impl Into<String>, what: impl Into<Words>) {
        self.push(DiagnosticSeverity::Note, at, key.into(), Fault::new(what, ""));
    }

    /// Reports a value of another type than the key has.
    pub(super) fn wrong_type(
        &mut self,
        section: Option<&Section>,
        key: impl Into<String>,
        node: &Node,
        advice: &'static str,
    ) {
        self.error(section, node.at, key, Unusable::WrongType.into_fault(node, advice));
    }

    /// Reports a key that is not known where it stands; `name` is its last part.
    pub(super) fn unknown_key(&mut self, at: usize, key: String, name: &str, known: &[&str]) {
        // the search for a similar key is costly, and its result would not be shown
        let meant = if self.has_room() { text::did_you_mean(name, known) } else { None };
        self.warning(at, key, Fault::new("unknown key", meant.map_or("remove it".into(), Words::from)));
    }

    /// Returns the number of diagnostics.
    pub(super) fn count(&self) -> usize {
        self.diagnostics.len()
    }

    fn has_room(&self) -> bool {
        self.diagnostics.len() < MAX_DIAGNOSTICS
    }

    pub(super) fn location(&self, at: usize) -> Location {
        self.places.location(at)
    }

    /// Reports why a variable is ignored.
    pub(super) fn ignore(&mut self, variable: &str, fault: Fault) {
        self.diagnostics.push(fault.of("ignored:").warning(None, variable));
    }

    /// Notes that the value at a place is that of an environment variable.
    pub(super) fn replace(&mut self, at: usize, variable: String) {
        self.replaced.insert(at, variable);
    }

    /// Returns the origin of the value at a place.
    pub(super) fn source(&self, at: usize) -> SettingSource {
        match self.replaced.get(&at) {
            Some(variable) => SettingSource::Environment(variable.clone()),
            None => SettingSource::File(self.location(at)),
        }
    }

    pub(super) fn is_broken(&self, section: &Section) -> bool {
        let is_unchosen = matches!(section, Section::Exporter(_)) && self.broken.contains(&Section::Server);
        self.all_broken || is_unchosen || self.broken.contains(section)
    }

    pub(super) fn into_diagnostics(mut self) -> Vec<Diagnostic> {
        if self.left_out > 0 {
            let fault = Fault::new(format!("{} more diagnostics are not shown", self.left_out), "");
            self.diagnostics.push(fault.found(self.worst_left_out, None, ""));
        }
        self.diagnostics
    }

    pub(super) fn push(&mut self, severity: DiagnosticSeverity, at: usize, key: String, fault: Fault) {
        if self.places.is_spoilt(at) {
            return;
        }
        if !self.has_room() {
            self.left_out += 1;
            self.worst_left_out = self.worst_left_out.max(severity);
            return;
        }
        let diagnostic = match self.replaced.get(&at) {
            Some(variable) => fault.found(severity, None, variable.as_str()),
            None => fault.found(severity, Some(self.location(at)), key),
        };
        // an exporter that is used twice is read twice
        if !self.diagnostics.contains(&diagnostic) {
            self.diagnostics.push(diagnostic);
        }
    }
}

/// Transports that switch an exporter off.
const OFF: [&str; 2] = ["disable", "disabled"];
const TRUE_OR_FALSE: &str = "write true or false, without quotes";

/// Reads one section.
pub(super) struct SectionReader<'r, 'd> {
    pub(super) section: &'r Section,
    pub(super) declared_at: usize,
    pub(super) report: &'r mut Report<'d>,
}

/// A key and its value, whichever way they were written.
pub(super) struct Entry<'t> {
    name: Cow<'t, str>,
    key_at: usize,
    pub(super) node: &'t Node,
}

/// All keys of a table in the order of the file.
pub(super) struct Entries<'t>(Vec<Entry<'t>>);

impl<'t> Entries<'t> {
    pub(super) fn find(&self, name: &str) -> Option<&Entry<'t>> {
        self.all(name).next()
    }

    /// Returns all entries of a name: one that the file has twice in different forms is two keys to the parser.
    pub(super) fn all(&self, name: &str) -> impl Iterator<Item = &Entry<'t>> {
        self.0.iter().filter(move |entry| entry.name == name)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The transport of a section.
pub(super) enum Switch {
    Missing,
    /// Switched off at this place.
    Off(usize),
    /// Switched on, as far as is known.
    On,
}

impl SectionReader<'_, '_> {
    /// Returns all keys, those of a tracer's table `enable` by their full name; `None` if the value is not a table.
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
                None => {
                    entries.push(Entry { name: (&*field.name).into(), key_at: field.at, node: &field.node });
                }
            }
        }
        entries.sort_by_cached_key(|entry| entry.key_at);
        Some(Entries(entries))
    }

    /// Returns whether the transport switches the section on. An unknown transport counts as on: it is reported with all
    /// other errors.
    pub(super) fn transport(&mut self, entries: &Entries<'_>) -> Switch {
        let Some(transport) = entries.find(TRANSPORT.key) else {
            return Switch::Missing;
        };
        let is_off = |word: &str| OFF.iter().any(|off| off.eq_ignore_ascii_case(word));
        match value::text(transport.node, self.report.surroundings) {
            Ok(text) if is_off(&text.text) => Switch::Off(transport.node.at),
            _ => Switch::On,
        }
    }

    /// Returns the exporter with every usable setting; others are reported.
    pub(super) fn exporter(&mut self, entries: &Entries<'_>) -> Exporter {
        let path = dotted(&self.section.path());
        let mut exporter =
            Exporter::of_table(self.section.exporter_id(), path, self.report.location(self.declared_at));
        for entry in entries.0.iter().filter(|entry| !self.section.has_switch(&entry.name)) {
            self.apply(entry, &mut exporter);
        }
        self.warn_of_plain_https(entries, &exporter);
        exporter
    }

    fn apply(&mut self, entry: &Entry<'_>, exporter: &mut Exporter) {
        let Some(row) = self.section.row(&entry.name) else {
            return self.unknown(entry);
        };
        let source = self.report.source(entry.node.at);
        let taken = match &row.kind {
            Kind::Headers => {
                self.headers(entry.node, exporter).map(|()| exporter.record(row, source.clone(), None))
            }
            kind => kind.read(entry.node, self.report.surroundings, row.advice).map(|value| {
                self.warn_of_milliseconds(entry, &value);
                exporter.apply(row, value, source.clone());
            }),
        };
        if let Err(unusable) = taken {
            // it is not set, so that mistakes in the environment are reported as well; but it is not missing either
            if row.partner.is_some() {
                exporter.record(row, source, None);
            }
            self.refuse(entry.node, &entry.name, row.advice, unusable);
        }
    }

    /// Warns of a number without a unit that is so small that seconds were probably meant.
    fn warn_of_milliseconds(&mut self, entry: &Entry<'_>, value: &SettingValue) {
        let SettingValue::Duration(duration) = value else { return };
        let is_bare = entry.node.as_text().is_none_or(|text| text.trim().parse::<u64>().is_ok());
        if is_bare && !duration.is_zero() && *duration < MIN_PLAUSIBLE {
            let number = duration.as_millis();
            let what = format!("is {number} ms: a number without a unit is milliseconds");
            let fault = Fault::new(what, format!("write \"{number}s\" for seconds, or \"{number}ms\""));
            self.report.warning(entry.node.at, self.path(&entry.name), fault);
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
            Tree::Text(_) => self.header(None, headers, exporter),
            Tree::List(lines) => lines.iter().for_each(|line| self.header(None, line, exporter)),
            Tree::Table(fields) => {
                fields.iter().for_each(|field| self.header(Some(&field.name), &field.node, exporter));
            }
            _ => return Err(Unusable::WrongType),
        }
        Ok(())
    }

    /// Reads the value of a header, or `Name: value` if it has no name yet.
    fn header(&mut self, name: Option<&str>, node: &Node, exporter: &mut Exporter) {
        let added = value::text(node, self.report.surroundings).and_then(|text| {
            exporter.connection.has_secret_header |= text.is_secret;
            let (name, value) = match name {
                Some(name) => (name, &*text.text),
                None => header::split(&text.text)?,
            };
            exporter.add_header(name, value, self.report.source(node.at));
            Ok(())
        });
        if let Err(unusable) = added {
            self.refuse(node, HEADERS.key, HEADERS.advice, unusable);
        }
    }

    fn unknown(&mut self, entry: &Entry<'_>) {
        let path = self.path(&entry.name);
        let fault = if is_known_somewhere(&entry.name) {
            Fault::new("has no effect here", self.section.advice_on_misplaced(&entry.name))
        } else if let Some(fix) = self.section.advice_on_expected(&entry.name) {
            Fault::new("unknown key", fix)
        } else {
            return self.report.unknown_key(entry.key_at, path, &entry.name, &self.section.names());
        };
        self.report.warning(entry.key_at, path, fault);
    }

    /// Warns of `https` as a transport, which is `http`: the endpoint alone decides whether requests are encrypted.
    fn warn_of_plain_https(&mut self, entries: &Entries<'_>, exporter: &Exporter) {
        let [transport, endpoint] = [&TRANSPORT, &ENDPOINT].map(|row| entries.find(row.key));
        let (Some(transport), Some(endpoint)) = (transport, endpoint) else { return };
        let says_https = transport.node.as_text().is_some_and(|word| word.eq_ignore_ascii_case("https"));
        if says_https && exporter.connection.parsed().is_ok_and(|endpoint| !endpoint.tls) {
            let fault = Fault::new("is not encrypted, whatever the transport says", "begin it with https://");
            self.report.warning(endpoint.node.at, self.path(ENDPOINT.key), fault);
        }
    }

    /// Returns the place and the value of a switch.
    pub(super) fn bool(&mut self, entries: &Entries<'_>, name: &str) -> Option<(usize, bool)> {
        let entry = entries.find(name)?;
        match value::bool(entry.node) {
            Ok(value) => Some((entry.node.at, value)),
            Err(unusable) => {
                self.refuse(entry.node, name, TRUE_OR_FALSE, unusable);
                None
            }
        }
    }

    /// Returns the text of a key that is not a setting of an exporter.
    pub(super) fn text<'t>(&mut self, entry: &Entry<'t>, advice: &'static str) -> Option<value::Text<'t>> {
        let text = value::text(entry.node, self.report.surroundings);
        text.map_err(|unusable| self.refuse(entry.node, &entry.name, advice, unusable)).ok()
    }

    pub(super) fn duplicate(&mut self, first: &Entry<'_>, second: &Entry<'_>) {
        let fault = Fault::duplicate_key(self.report.location(first.key_at).line);
        self.report.error(Some(self.section), second.key_at, self.path(&second.name), fault);
    }

    /// Returns whether an error of the section is known already.
    pub(super) fn is_broken(&self) -> bool {
        self.report.is_broken(self.section)
    }

    pub(super) fn missing(&mut self, name: &str, fix: &'static str) {
        let fault = Fault::new("missing", fix);
        self.report.error(Some(self.section), self.declared_at, self.path(name), fault);
    }

    fn refuse(&mut self, node: &Node, name: &str, advice: &'static str, unusable: Unusable) {
        let fault = unusable.into_fault(node, advice);
        self.report.error(Some(self.section), node.at, self.path(name), fault);
    }

    /// Returns a key in full. The dots in the names of switches are those of the file.
    pub(super) fn path(&self, name: &str) -> String {
        let section = self.section.path();
        match name.strip_prefix(ENABLE_TABLE) {
            Some(leaf) => dotted(&[&section[..], &[ENABLE, leaf]].concat()),
            None => dotted(&[&section[..], &[name]].concat()),
        }
    }
}
