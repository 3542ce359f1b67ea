//! Reads the sections of a document into exporters, and reports mistakes.
//!
//! [`SectionReader`] maps the keys of a section, in either layout, to the rows of the settings. [`Report`] collects the
//! diagnostics with their locations, and the sections that have errors.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::config::error::{Advice, Checked, DiagnosticList, DiagnosticSeverity, Fault, Words};
use crate::config::node::{Field, Mistake, Node, Places, Tree};
use crate::config::read::value::{self, Resolver, wrong_type};
use crate::config::section::{ENABLE, ENABLE_TABLE, Owner, Section, is_known_somewhere};
use crate::config::settings::kind::{Kind, SettingValue};
use crate::config::settings::{ENDPOINT, TRANSPORT};
use crate::config::summary::SmallMap;
use crate::config::text::dotted;
use crate::config::values::units::MIN_PLAUSIBLE;
use crate::config::{Credentials, Exporter, HeaderSource, Secret, SettingSource, header, text};

/// Time for which a header that contains the text of a file is used before the file is read again.
const FILE_VALIDITY: Duration = Duration::from_secs(1);

/// Advice for a value where a table is expected.
pub(super) const BELOW_IT: &str = "write its keys below it";

/// Collects the diagnostics about a document.
pub(super) struct Report<'d> {
    /// Expands references such as `%{env:NAME}%` in values.
    pub(super) resolver: &'d Resolver,
    pub(super) places: &'d Places<'d>,
    pub(super) diagnostics: DiagnosticList,
    broken: BTreeSet<Section>,
    /// True after a syntax error that may concern any section.
    all_broken: bool,
    /// Environment variables that have replaced values of the file, by the place of the value.
    pub(super) replaced: SmallMap<usize, String>,
}

impl<'d> Report<'d> {
    /// Makes a report with the syntax errors. Those in sections of other programs become warnings, or stay errors if
    /// the document has no known section (`is_foreign`).
    pub(super) fn new(
        resolver: &'d Resolver,
        places: &'d Places<'d>,
        mistakes: Vec<Mistake>,
        is_foreign: bool,
    ) -> Self {
        let (diagnostics, broken) = (DiagnosticList::default(), BTreeSet::new());
        let mut report =
            Self { resolver, places, diagnostics, broken, all_broken: false, replaced: SmallMap::default() };
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

    /// Reports an error that disables a section, or all sections if `section` is `None`.
    pub(super) fn error(&mut self, section: Option<&Section>, at: usize, key: String, fault: Fault) {
        match section {
            Some(section) => _ = self.broken.insert(section.clone()),
            None => self.all_broken = true,
        }
        self.push(DiagnosticSeverity::Error, at, key, fault);
    }

    /// Reports an error that disables no section.
    pub(super) fn lone_error(&mut self, at: usize, key: impl Into<String>, fault: Fault) {
        self.push(DiagnosticSeverity::Error, at, key.into(), fault);
    }

    pub(super) fn warning(&mut self, at: usize, key: impl Into<String>, fault: Fault) {
        self.push(DiagnosticSeverity::Warning, at, key.into(), fault);
    }

    /// Reports information that requires no action.
    pub(super) fn note(&mut self, at: usize, key: impl Into<String>, what: impl Into<Words>) {
        self.push(DiagnosticSeverity::Note, at, key.into(), Fault::new(what, ""));
    }

    /// Reports an unknown key; `name` is its last part.
    pub(super) fn unknown_key(&mut self, at: usize, key: String, name: &str, known: &[&str]) {
        // Skips the costly search for a similar key if the diagnostic would not be shown.
        let meant = if self.diagnostics.has_room() { text::did_you_mean(name, known) } else { None };
        self.warning(at, key, Fault::new("unknown key", meant.map_or("remove it".into(), Words::from)));
    }

    /// Reports the reason why a variable is ignored.
    pub(super) fn ignore(&mut self, variable: &str, fault: Fault) {
        self.diagnostics.push(fault.of("ignored:").warning(None, variable));
    }

    /// Returns the origin of the value at a place.
    pub(super) fn source(&self, at: usize) -> SettingSource {
        match self.replaced.get(&at) {
            Some(variable) => SettingSource::Environment(variable.clone()),
            None => SettingSource::File(self.places.location(at)),
        }
    }

    pub(super) fn is_broken(&self, section: &Section) -> bool {
        // After an error in `server.telemetry`, it is unknown which exporters that section selects.
        let is_unchosen = matches!(section, Section::Exporter(_)) && self.broken.contains(&Section::Server);
        self.all_broken || is_unchosen || self.broken.contains(section)
    }

    pub(super) fn push(&mut self, severity: DiagnosticSeverity, at: usize, key: String, fault: Fault) {
        // A value with a syntax error is already reported.
        if !self.places.is_spoilt(at) {
            self.diagnostics.push(match self.replaced.get(&at) {
                Some(variable) => fault.found(severity, None, variable.as_str()),
                None => fault.found(severity, Some(self.places.location(at)), key),
            });
        }
    }
}

/// Transports that switch an exporter off.
const OFF: [&str; 2] = ["disable", "disabled"];
/// The only type of exporter in Tracetest's layout.
const COLLECTOR: &str = "collector";

/// Reads one section into an exporter.
pub(super) struct SectionReader<'r, 'd, 't> {
    pub(super) section: &'r Section,
    pub(super) declared_at: usize,
    pub(super) report: &'r mut Report<'d>,
    /// All keys of the section in the order of the file.
    pub(super) entries: Vec<Entry<'t>>,
}

/// A key and its value. Nested tables and dotted keys yield the same entry.
#[derive(Clone)]
pub(super) struct Entry<'t> {
    /// Parts of the key below the section.
    path: Vec<&'t str>,
    pub(super) key_at: usize,
    pub(super) node: &'t Node,
}

impl Entry<'_> {
    fn name(&self) -> String {
        self.path.join(".")
    }
}

/// Adds an entry for each field of the table at `path`. Descends into nested tables that are prefixes of a known key.
fn add<'t>(entries: &mut Vec<Entry<'t>>, fields: &'t [Field], path: &[&'t str], known: &[&'static str]) {
    for field in fields {
        // The TOML parser stores a tracer's table `enable` separately from its key `enable`.
        let (parent, name) = match field.name.strip_prefix(ENABLE_TABLE) {
            Some("") => (None, ENABLE),
            Some(leaf) => (Some(ENABLE), leaf),
            None => (None, &*field.name),
        };
        let path: Vec<&'t str> = path.iter().copied().chain(parent).chain([name]).collect();
        match field.node.as_table() {
            // A table below which no key is known becomes one entry, so that it is reported once.
            Some(nested) if leads_on(&path, known) => add(entries, nested, &path, known),
            _ => entries.push(Entry { path, key_at: field.at, node: &field.node }),
        }
    }
}

/// Returns whether a path is the beginning of a longer known key.
fn leads_on(path: &[&str], known: &[&'static str]) -> bool {
    let start = path.join(".") + ".";
    known.iter().any(|known| known.starts_with(&start))
}

/// The transport of a section.
pub(super) enum Switch {
    Missing,
    /// Disabled by the value at this place.
    Off(usize),
    /// Enabled, or set to an invalid value, which is reported later.
    On,
}

impl<'r, 'd, 't> SectionReader<'r, 'd, 't> {
    /// Begins to read a section. Keys in nested tables get their path as name. Returns `None` if the value is not a
    /// table.
    pub(super) fn new(section: &'r Section, field: &'t Field, report: &'r mut Report<'d>) -> Option<Self> {
        let Some(fields) = field.node.as_table() else {
            let fault = wrong_type(&field.node, section.example());
            report.error(Some(section), field.node.at, dotted(&section.path()), fault);
            return None;
        };
        let mut entries = Vec::with_capacity(fields.len());
        add(&mut entries, fields, &[], &section.names());
        // A nested table may follow later in the file, but diagnostics must be in the order of the file.
        entries.sort_by_cached_key(|entry| entry.key_at);
        Some(Self { section, declared_at: field.at, report, entries })
    }

    pub(super) fn find(&self, name: &str) -> Option<&Entry<'t>> {
        self.all(name).next()
    }

    /// Returns all entries with this name. A switch may occur twice: the parser accepts it as a dotted key and in a
    /// table `enable`.
    pub(super) fn all(&self, name: &str) -> impl Iterator<Item = &Entry<'t>> {
        self.entries.iter().filter(move |entry| entry.path.iter().copied().eq(name.split('.')))
    }

    /// Returns whether the transport is missing, disabled or enabled. An unknown transport counts as enabled, so that
    /// it is reported with all other errors.
    pub(super) fn transport(&self) -> Switch {
        let Some(transport) = self.find(TRANSPORT.key) else { return Switch::Missing };
        let is_off = |word: &str| OFF.iter().any(|off| off.eq_ignore_ascii_case(word));
        match value::text(transport.node, self.report.resolver, "") {
            Ok(text) if is_off(&text.text) => Switch::Off(transport.node.at),
            _ => Switch::On,
        }
    }

    /// Sets every valid setting of an exporter, and reports the others.
    pub(super) fn settings(&mut self, exporter: &mut Exporter) {
        // Cloned, because reports borrow `self` mutably.
        let mut entries = self.entries.clone();
        entries.retain(|entry| !self.section.switches().contains(&&*entry.name()));
        entries.iter().for_each(|entry| self.apply(entry, exporter));
        self.warn_of_plain_https(exporter);
    }

    fn apply(&mut self, entry: &Entry<'_>, exporter: &mut Exporter) {
        let name = entry.name();
        let is_of_tracetest = self.section.is_of_tracetest();
        // In Tracetest's files, a key without a value counts as absent.
        let is_open = is_of_tracetest && entry.node.value == Tree::Null;
        let Some(row) = self.section.row(&name) else {
            return match leads_on(&entry.path, &self.section.names()) {
                true if is_open => {}
                true => self.refuse(entry, entry.node, wrong_type(entry.node, BELOW_IT)),
                false => self.unknown(entry, &name),
            };
        };
        if is_open {
            return;
        }
        let (source, resolver) = (self.report.source(entry.node.at), self.report.resolver);
        exporter.nodes.insert(row.key, entry.node.clone());
        let (_, advice) = self.section.spelling(row);
        let read = match &row.kind {
            Kind::Headers => self.headers(entry, exporter, advice).map(|()| None),
            _ if is_of_tracetest && row.key == TRANSPORT.key => {
                let check = |text: &str| Fault::unless(text == COLLECTOR, "is not known", advice);
                value::text(entry.node, resolver, advice).and_then(|text| text.parse(check)).map(|()| None)
            }
            // Tracetest is written in Go, where `10` without a unit is an error and not milliseconds.
            Kind::Duration { .. } if is_of_tracetest => value::go_duration(entry.node, resolver, advice)
                .map(|time| Some(SettingValue::Duration(time))),
            kind => kind.read(entry.node, resolver, advice).map(Some),
        };
        match read {
            Ok(Some(value)) => {
                self.warn_of_milliseconds(entry, &value);
                exporter.apply(row, value, source);
            }
            Ok(None) => exporter.record(row, source, None),
            Err(fault) => {
                // The setting stays unset, so that mistakes in its environment variable are reported as well. But a
                // setting with a partner counts as set: otherwise, `check_partner` would report it as missing.
                if row.partner.is_some() {
                    exporter.record(row, source, None);
                }
                self.refuse(entry, entry.node, fault);
            }
        }
    }

    /// Warns about a number without a unit that is so small that seconds were probably meant.
    fn warn_of_milliseconds(&mut self, entry: &Entry<'_>, value: &SettingValue) {
        let SettingValue::Duration(duration) = value else { return };
        let is_bare = entry.node.as_text().is_none_or(|text| text.trim().parse::<u64>().is_ok());
        if is_bare && !duration.is_zero() && *duration < MIN_PLAUSIBLE {
            let number = duration.as_millis();
            let what = format!("is {number} ms: a number without a unit is milliseconds");
            let fault = Fault::new(what, format!("write \"{number}s\" for seconds, or \"{number}ms\""));
            self.report.warning(entry.node.at, self.path(entry), fault);
        }
    }

    /// Reads headers from a list of lines, a single line, or a table of names and values.
    fn headers(&mut self, entry: &Entry<'_>, exporter: &mut Exporter, advice: Advice) -> Checked {
        let lines: Vec<(Option<&str>, &Node)> = match &entry.node.value {
            Tree::Text(_) => vec![(None, entry.node)],
            Tree::List(lines) => lines.iter().map(|line| (None, line)).collect(),
            Tree::Table(fields) => fields.iter().map(|field| (Some(&*field.name), &field.node)).collect(),
            _ => return Err(wrong_type(entry.node, advice)),
        };
        // Checked before any text is expanded, because each line may name a large file.
        header::check_count(lines.len())?;
        for (name, node) in lines {
            let added = value::text(node, self.report.resolver, advice).and_then(|text| {
                exporter.connection.has_secret_header |= text.is_secret;
                let is_line = name.is_none();
                let (name, value) =
                    name.map_or_else(|| header::split(&text.text), |it| Ok((it, &*text.text)))?;
                // Validation checks this value, even if the source below replaces it at run time.
                exporter.add_header(name, value, self.report.source(node.at));
                let name = name.to_owned();
                let read = move |text: &str| {
                    let value = if is_line { header::split(text)?.1 } else { text };
                    Ok(vec![(name.clone(), Secret::new(header::trim(value)))])
                };
                exporter.connection.header_sources.extend(changing_headers(node, self.report.resolver, read));
                Ok(())
            });
            if let Err(fault) = added {
                self.refuse(entry, node, fault);
            }
        }
        Ok(())
    }

    fn unknown(&mut self, entry: &Entry<'_>, name: &str) {
        let path = self.path(entry);
        if self.section.is_of_tracetest() {
            let Some((last, parents)) = entry.path.split_last() else { return };
            let start: String = parents.iter().flat_map(|part| [part, "."]).collect();
            let names = self.section.names();
            // In YAML, each level is a table. Only names of the same level are suggested.
            let below = names.iter().filter_map(|name| name.strip_prefix(&start)?.split('.').next());
            return self.report.unknown_key(entry.key_at, path, last, &below.collect::<Vec<_>>());
        }
        let fault = if is_known_somewhere(name) {
            Fault::new("has no effect here", self.section.advice_on_misplaced(name))
        } else if let Some(fix) = self.section.advice_on_expected(name) {
            Fault::new("unknown key", fix)
        } else {
            return self.report.unknown_key(entry.key_at, path, name, &self.section.names());
        };
        self.report.warning(entry.key_at, path, fault);
    }

    /// Warns about the transport `https` with a plaintext endpoint: only the endpoint decides whether TLS is used.
    fn warn_of_plain_https(&mut self, exporter: &Exporter) {
        let [transport, endpoint] = [&TRANSPORT, &ENDPOINT].map(|row| self.find(row.key));
        let (Some(transport), Some(endpoint)) = (transport, endpoint) else { return };
        let says_https = transport.node.as_text().is_some_and(|word| word.eq_ignore_ascii_case("https"));
        if says_https && exporter.connection.parsed().is_ok_and(|endpoint| !endpoint.tls) {
            let fault = Fault::new("is not encrypted, whatever the transport says", "begin it with https://");
            self.report.warning(endpoint.node.at, self.key(ENDPOINT.key), fault);
        }
    }

    /// Returns the place and the value of a switch.
    pub(super) fn bool(&mut self, name: &str) -> Option<(usize, bool)> {
        let entry = self.find(name)?.clone();
        let read = value::bool(entry.node).map(|value| (entry.node.at, value));
        read.map_err(|fault| self.refuse(&entry, entry.node, fault)).ok()
    }

    pub(super) fn missing(&mut self, name: &str, fix: &'static str) {
        self.report.error(Some(self.section), self.declared_at, self.key(name), Fault::new("missing", fix));
    }

    /// Reports that the value of an entry, or the part of it at `node`, cannot be used.
    pub(super) fn refuse(&mut self, entry: &Entry<'_>, node: &Node, fault: Fault) {
        self.report.error(Some(self.section), node.at, self.path(entry), fault);
    }

    /// Returns the path of an entry in the document.
    fn path(&self, entry: &Entry<'_>) -> String {
        dotted(&[&self.section.path()[..], &entry.path].concat())
    }

    /// Returns the path of a key of the section in the document.
    pub(super) fn key(&self, name: &str) -> String {
        dotted(&self.section.path().into_iter().chain(name.split('.')).collect::<Vec<_>>())
    }
}

/// Returns the source of headers whose text contains `%{file:…}%`, so that the file is read again. `read` returns the
/// headers of the expanded text.
pub(super) fn changing_headers(
    node: &Node,
    resolver: &Resolver,
    read: impl Fn(&str) -> Checked<Vec<(String, Secret)>> + Send + Sync + 'static,
) -> Option<HeaderSource> {
    // A text with `${NAME}` is `Tree::Inserted`. It is not expanded, because a variable must not name files.
    let Tree::Text(written) = &node.value else { return None };
    let (written, directory) = (Arc::<str>::from(&**written), resolver.absolute(""));
    let is_changing = written.contains("%{file:");
    is_changing.then(|| HeaderSource {
        written: Some(Arc::clone(&written)),
        // A new resolver for each read, because a resolver limits the bytes of all its reads together.
        get: Arc::new(move || {
            let headers = Resolver::new(&directory).expand(&written).and_then(|text| read(&text.text));
            let headers = headers.map_err(|fault| fault.what.to_string())?;
            Ok(Credentials { headers, valid_for: Some(FILE_VALIDITY) })
        }),
    })
}
