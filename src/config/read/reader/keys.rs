//! The settings of a section: each key to its place in the exporter.

use super::{Entries, Entry, SectionReader};
use crate::config::expand;
use crate::config::key::Key;
use crate::config::node::{Node, Tree};
use crate::config::read::value::{self, Text, Unusable};
use crate::config::section::is_known_somewhere;
use crate::config::{
    Compression, Exporter, Histograms, Level, Proxy, Secret, Temporality, Transport, WhenFull, header,
};

/// The two files of a client certificate, as far as they have been read.
#[derive(Default)]
struct ClientFiles {
    certificate: Option<Vec<u8>>,
    key: Option<String>,
}

impl SectionReader<'_, '_> {
    /// Takes over everything that can be; what cannot is reported.
    pub(super) fn apply(&mut self, entries: &Entries<'_>, exporter: &mut Exporter) {
        let mut client = ClientFiles::default();
        for entry in entries.0.iter().filter(|entry| !self.section.has_switch(&entry.name)) {
            let Some(key) = self.section.key(&entry.name) else {
                self.unknown(entry);
                continue;
            };
            match self.set(key, entry, exporter, &mut client) {
                Ok(shown) => exporter.record(key, self.source(entry.value_at()), shown),
                Err(unusable) => self.refuse(entry, key.advice(), unusable),
            }
        }
        self.pair_client_files(entries, client, exporter);
    }

    /// Takes one value over; returns what to show instead of it, if it should not be shown itself.
    fn set(
        &mut self,
        key: Key,
        entry: &Entry<'_>,
        exporter: &mut Exporter,
        client: &mut ClientFiles,
    ) -> Result<Option<String>, Unusable> {
        let (given, surroundings, advice) = (entry.node, self.surroundings, key.advice());
        let time = || value::span_of_time(given, surroundings);
        match key {
            Key::Transport => {
                let transport = value::word(given, surroundings, advice, &Transport::NAMES)?;
                exporter.set_transport(transport, self.source(entry.value_at()));
            }
            // no section has it
            Key::Signals => {}
            Key::Endpoint => {
                let Text { written, text, is_secret } = value::text(given, surroundings)?;
                exporter.set_endpoint(text, is_secret.then_some(written), self.source(entry.value_at()));
            }
            Key::Headers => self.headers(entry.node, exporter)?,
            Key::Level => exporter.level = value::word(given, surroundings, advice, &Level::NAMES)?,
            Key::Interval => exporter.push.interval = time()?,
            Key::Temporality => {
                exporter.push.temporality = value::word(given, surroundings, advice, &Temporality::NAMES)?;
            }
            Key::Histograms => {
                exporter.push.histograms = value::word(given, surroundings, advice, &Histograms::NAMES)?;
            }
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
                exporter.http.compression = value::word(given, surroundings, advice, &Compression::NAMES)?;
            }
            Key::Proxy => exporter.http.proxy = value::word(given, surroundings, advice, &Proxy::NAMES)?,
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
                exporter.http.hides_user_agent = is_secret;
                return Ok(is_secret.then(|| "***".to_owned()));
            }
        }
        Ok(None)
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
                        Ok(text) => exporter.add_header(&field.name, &text.text, self.source(field.node.at)),
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
        match header::split(&text.text) {
            Ok((name, value)) => exporter.add_header(name, value, self.source(line.at)),
            Err(fault) => self.refuse_header(line, fault.into()),
        }
    }

    fn refuse_header(&mut self, node: &Node, unusable: Unusable) {
        self.refuse_at(node, Key::Headers.name(), Key::Headers.advice(), unusable);
    }

    /// A file that a key names: its path for display, and its contents.
    fn file(&self, node: &Node) -> Result<(String, Vec<u8>), Unusable> {
        let path = value::text(node, self.surroundings)?;
        let contents = self
            .surroundings
            .read(&path.text)
            .map_err(|cause| expand::unreadable(path.written, &path.text, &cause))?;
        Ok((path.written.to_owned(), contents))
    }

    fn pair_client_files(&mut self, entries: &Entries<'_>, client: ClientFiles, exporter: &mut Exporter) {
        let names = (Key::ClientCertificateFile.name(), Key::ClientKeyFile.name());
        let (given, missing) = match (entries.find(names.0), entries.find(names.1)) {
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
        let at = given.value_at();
        self.report.error(Some(self.section), at, self.path(missing), what, "write both or neither");
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
}
