//! One `[tracer.<id>]`: from its keys to an exporter.

use std::borrow::Cow;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::document::dotted;
use super::report::Report;
use super::scan::ENABLE_TABLE;
use super::value::{self, Text, Unusable};
use crate::config::error::Fault;
use crate::config::expand::{self, Surroundings};
use crate::config::key::Key;
use crate::config::{Compression, Exporter, Level, Proxy, Secret, Source, WhenFull, header, suggest};

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

/// The two files of a client certificate, as far as they have been read.
#[derive(Default)]
struct ClientFiles {
    certificate: Option<Vec<u8>>,
    key: Option<String>,
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
        let mut client = ClientFiles::default();
        for entry in &entries {
            self.apply(entry, &mut exporter, &mut client);
        }
        self.pair_client_files(&entries, client, &mut exporter);
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
        let what = format!("not started: {:?} is not a type of OpenTelemetry", text.written);
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

    fn apply(&mut self, entry: &Entry<'_>, exporter: &mut Exporter, client: &mut ClientFiles) {
        if SWITCHES.contains(&entry.name.as_ref()) {
            return;
        }
        let Some(key) = Key::ALL.iter().copied().find(|key| key.name() == entry.name) else {
            return self.unknown(entry);
        };
        match self.set(key, entry, exporter, client) {
            Ok(shown) => exporter.record(key, self.source(entry.value), shown),
            Err(unusable) => self.refuse(entry, key.advice(), unusable),
        }
    }

    /// Takes one value over; returns what to show instead of it, if it should not be shown itself.
    fn set(
        &mut self,
        key: Key,
        entry: &Entry<'_>,
        exporter: &mut Exporter,
        client: &mut ClientFiles,
    ) -> Result<Option<String>, Unusable> {
        let (given, surroundings, advice) = (entry.value.get_ref(), self.surroundings, key.advice());
        let time = || value::span_of_time(given, surroundings);
        match key {
            // has been read before all others
            Key::Transport => {}
            Key::Endpoint => {
                let Text { written, text, is_secret } = value::text(given, surroundings)?;
                exporter.set_endpoint(text, is_secret.then_some(written), self.source(entry.value));
            }
            Key::Headers => self.headers(entry.value, exporter)?,
            Key::Level => exporter.level = value::word(given, surroundings, advice, Level::parse)?,
            Key::Throttle => exporter.pace.throttle = time()?,
            Key::Linger => exporter.pace.linger = time()?,
            Key::Lossy => {
                let lossy = value::truth(given)?;
                exporter.queue.when_full = if lossy { WhenFull::DropNewest } else { WhenFull::Block };
            }
            Key::BlockTimeout => exporter.queue.block_timeout = Some(time()?),
            Key::QueueRecords => exporter.queue.records = value::count(given)?,
            Key::QueueBytes => exporter.queue.bytes = value::bytes(given, surroundings)?,
            Key::BatchRecords => exporter.batch.records = value::count(given)?,
            Key::BatchBytes => exporter.batch.bytes = value::bytes(given, surroundings)?,
            Key::Timeout => exporter.http.timeout = time()?,
            Key::GiveUpAfter => exporter.retry.give_up_after = time()?,
            Key::RetryFirstDelay => exporter.retry.first_delay = time()?,
            Key::RetryMaxDelay => exporter.retry.max_delay = time()?,
            Key::Compression => {
                exporter.http.compression = value::word(given, surroundings, advice, |word| match word {
                    "none" => Some(Compression::None),
                    "gzip" => Some(Compression::Gzip),
                    _ => None,
                })?;
            }
            Key::Proxy => {
                exporter.http.proxy = value::word(given, surroundings, advice, |word| match word {
                    "env" => Some(Proxy::FromEnvironment),
                    "off" => Some(Proxy::Off),
                    _ => None,
                })?;
            }
            Key::CaFile => {
                let (path, pem) = self.file(given)?;
                exporter.http.tls.ca = Some(pem);
                return Ok(Some(path));
            }
            Key::ClientCertificateFile => {
                let (path, pem) = self.file(given)?;
                client.certificate = Some(pem);
                return Ok(Some(path));
            }
            Key::ClientKeyFile => {
                let (path, pem) = self.file(given)?;
                // what is not even text holds no key: the rule for PEM will say so
                client.key = Some(String::from_utf8(pem).unwrap_or_default());
                return Ok(Some(path));
            }
            Key::UserAgent => {
                let Text { text, is_secret, .. } = value::text(given, surroundings)?;
                exporter.http.user_agent = Some(text);
                return Ok(is_secret.then(|| "***".to_owned()));
            }
        }
        Ok(None)
    }

    /// Reads a list of lines, one line, or a table of names and values.
    fn headers(&mut self, headers: &Spanned<DeValue<'_>>, exporter: &mut Exporter) -> Result<(), Unusable> {
        match headers.get_ref() {
            DeValue::String(_) => self.header_line(headers, exporter),
            DeValue::Array(lines) => lines.iter().for_each(|line| self.header_line(line, exporter)),
            DeValue::Table(table) => {
                let mut fields: Vec<_> = table.iter().collect();
                fields.sort_by_key(|(name, _)| name.span().start);
                for (name, value) in fields {
                    match value::text(value.get_ref(), self.surroundings) {
                        Ok(text) => exporter.add_header(name.get_ref(), &text.text, self.source(value)),
                        Err(unusable) => self.refuse_header(value, unusable),
                    }
                }
            }
            _ => return Err(Unusable::WrongType),
        }
        Ok(())
    }

    fn header_line(&mut self, line: &Spanned<DeValue<'_>>, exporter: &mut Exporter) {
        let text = match value::text(line.get_ref(), self.surroundings) {
            Ok(text) => text,
            Err(unusable) => return self.refuse_header(line, unusable),
        };
        match header::split(&text.text) {
            Ok((name, value)) => exporter.add_header(name, value, self.source(line)),
            Err(fault) => self.refuse_header(line, fault.into()),
        }
    }

    fn refuse_header(&mut self, value: &Spanned<DeValue<'_>>, unusable: Unusable) {
        self.refuse_at(value, Key::Headers.name(), Key::Headers.advice(), unusable);
    }

    /// A file that a key names: its path for display, and its contents.
    fn file(&self, value: &DeValue<'_>) -> Result<(String, Vec<u8>), Unusable> {
        let path = value::text(value, self.surroundings)?;
        let contents =
            self.surroundings.read(&path.text).map_err(|cause| expand::unreadable(path.written, &cause))?;
        Ok((path.written.to_owned(), contents))
    }

    fn pair_client_files(&mut self, entries: &[Entry<'_>], client: ClientFiles, exporter: &mut Exporter) {
        let names = (Key::ClientCertificateFile.name(), Key::ClientKeyFile.name());
        let (given, missing) = match (find(entries, names.0), find(entries, names.1)) {
            (Some(given), None) => (given, names.1),
            (None, Some(given)) => (given, names.0),
            (Some(_), Some(_)) => {
                let pair = client.certificate.zip(client.key.map(Secret::new));
                exporter.http.tls.client = pair;
                return;
            }
            (None, None) => return,
        };
        let what = format!("missing beside {}", given.name);
        let at = given.value.span().start;
        self.report.error(Some(self.id), at, self.path(missing), what, "write both or neither");
    }

    fn unknown(&mut self, entry: &Entry<'_>) {
        let known = Key::ALL.iter().map(|key| key.name()).chain(SWITCHES);
        let meant = if self.report.has_room() { suggest::nearest(&entry.name, known) } else { None };
        let fix = meant.map_or_else(|| "remove it".to_owned(), |meant| format!("did you mean {meant:?}?"));
        self.report.warning(entry.key_at, self.path(&entry.name), "unknown key", fix);
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
