//! Settings of exporters that write files, and certificates: PEM texts, or PEM files that are read again on change.

use std::fmt;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::connection::{CA_FILE, CLIENT_CERTIFICATE_FILE, CLIENT_KEY_FILE, EXTRA_CA_FILE};
use super::delivery::{bytes, number};
use super::kind::{Field, Kind, SettingValue, field};
use super::{POSITIVE, SettingRow, setters, settings, table};
use crate::config::read::value::{ReadError, read_bounded};
use crate::config::validate as rules;
use crate::config::{Exporter, Roots, SettingSource, Transport, demand};

settings! {
    /// The file of an exporter, and its rotation.
    #[derive(Debug, Clone, PartialEq, Eq)]
    FileSettings {
        pub(crate) path: PathBuf = PathBuf::new(),
        pub(crate) bytes: usize = 100 << 20,
        pub(crate) age: Option<Duration> = None,
        /// Number of rotated files that are kept.
        pub(crate) backups: usize = 5,
    }
}

table! { FILES from WRITTEN:
    /// file to which `transport = "file"` appends one line of OTLP JSON per request; needs the feature `json`
    FILE "file" {
        kind: Kind::Text {
            set: |exporter, path, _| exporter.connection.file.path = path.into(),
            show: |exporter| match &exporter.connection.file.path {
                path if path.as_os_str().is_empty() => "none".to_owned(),
                path => path.display().to_string(),
            },
        },
        advice: "write the path of a file like \"/var/log/shop/otlp.jsonl\"",
        rule: rules::file,
    }
    /// size above which the file is renamed and a new one is begun
    FILE_BYTES "file-bytes" {
        kind: bytes(field!(connection.file.bytes), 1 << 10..=1 << 31, "the most a file may hold"),
        advice: "write a size like \"100 MiB\" or a number of bytes",
    }
    /// age above which the file is renamed and a new one is begun, or `none` for no limit
    FILE_AGE "file-age" {
        kind: Kind::Limit { field: field!(connection.file.age), range: POSITIVE },
        advice: "write a duration like \"1d\", or \"none\"",
    }
    /// number of renamed files that are kept; older ones are deleted
    FILE_BACKUPS "file-backups" {
        kind: number(field!(connection.file.backups), 1..=10_000, "the most files that are kept"),
        advice: "write a whole number, without quotes",
    }
}

setters! {
    /// Sets the size above which the [file](Self::file) is renamed and a new one is begun; 100 MiB unless set, 1 KiB to
    /// 2 GiB.
    file_bytes(bytes: usize) sets connection.file.bytes of FILE_BYTES;
    /// Sets how many renamed [files](Self::file) are kept; 5 unless set, 1 to 10,000. Older ones are deleted.
    file_backups(backups: usize) sets connection.file.backups of FILE_BACKUPS;
}

/// PEM text, and the file that contains it.
#[derive(Clone, Default, PartialEq)]
pub(crate) struct Pem {
    text: Vec<u8>,
    /// Absolute path of the file from which `text` was read. `None` if the file cannot be read again.
    path: Option<PathBuf>,
}

impl Pem {
    /// Keeps a text and the file from which it was read. The path of a pipe is not kept, because a pipe can be read
    /// only once.
    pub(crate) fn of_file(text: Vec<u8>, path: PathBuf) -> Self {
        Self { text, path: Some(path).filter(|path| path.is_file()) }
    }

    /// Reads the file again. Returns whether the text has changed.
    fn reread(&mut self) -> Result<bool, ReadError> {
        let Some(path) = &self.path else { return Ok(false) };
        let before = std::mem::replace(&mut self.text, read_bounded(path)?);
        Ok(before != self.text)
    }
}

impl<T: Into<Vec<u8>>> From<T> for Pem {
    fn from(text: T) -> Self {
        Self { text: text.into(), path: None }
    }
}

// Written by hand, because the text may be a private key.
impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pem")
    }
}

impl Deref for Pem {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.text
    }
}

/// Certificates, as PEM text.
#[derive(Debug, Clone, Default)]
pub(crate) struct TlsSettings {
    /// Certificate authorities that replace the other roots.
    pub(crate) ca: Option<Pem>,
    /// Certificate authorities that are trusted in addition.
    pub(crate) extra_ca: Option<Pem>,
    /// Roots that are trusted unless `ca` is set.
    pub(crate) roots: Roots,
    pub(crate) client_certificate: Option<Pem>,
    pub(crate) client_key: Option<Pem>,
}

impl TlsSettings {
    /// Returns certificate chain and private key if both are set.
    pub(crate) fn client(&self) -> Option<(&[u8], &[u8])> {
        self.client_certificate.as_deref().zip(self.client_key.as_deref())
    }

    /// Reads the files again. Returns the new settings if a file has changed.
    ///
    /// # Errors
    /// Returns a message that names the setting whose file cannot be read.
    pub(crate) fn reread(&self) -> Result<Option<Self>, String> {
        let (mut new, mut has_changed) = (self.clone(), false);
        for (row, pem) in [
            (&CA_FILE, &mut new.ca),
            (&EXTRA_CA_FILE, &mut new.extra_ca),
            (&CLIENT_CERTIFICATE_FILE, &mut new.client_certificate),
            (&CLIENT_KEY_FILE, &mut new.client_key),
        ] {
            let Some(pem) = pem else { continue };
            has_changed |= pem.reread().map_err(|cause| format!("{}: {cause}", row.key))?;
        }
        Ok(has_changed.then_some(new))
    }
}

impl Exporter {
    /// Returns an exporter that appends all [signals](Self::signals) to a file as OTLP JSON, one line per request, like
    /// OpenTelemetry's file exporter. `standpipe show` and the receiver `otlp_json_file` of the OpenTelemetry Collector
    /// read such files. Needs the `json` feature.
    ///
    /// - Only the user of the program may read the file (mode 0600). Its directory must exist.
    /// - Several exporters and processes can write to the same file. Each line is appended by one write.
    /// - A line has less than 1 MiB, because the Collector cannot read longer ones. A record whose JSON is longer is
    ///   counted as too large.
    /// - The file is renamed when it is full: see [`file_bytes`](Self::file_bytes), [`file_age`](Self::file_age) and
    ///   [`file_backups`](Self::file_backups). With the defaults, all files together have at most 600 MiB.
    /// - A line that cannot be written, for example because the disk is full, is written later, just as a request is
    ///   repeated while a collector is down. Written lines are not synchronized to disk.
    ///
    /// ```no_run
    /// use standpipe::{Config, Exporter, Telemetry};
    ///
    /// let exporter = Exporter::file("/var/log/shop/otlp.jsonl").file_bytes(20 << 20);
    /// let telemetry = Telemetry::start(Config::new().service_name("shop").exporter(exporter))?;
    /// # Ok::<(), standpipe::ConfigError>(())
    /// ```
    pub fn file(path: impl Into<PathBuf>) -> Self {
        let mut exporter = Self::console().named("file");
        exporter.set_transport(Transport::File);
        exporter.connection.file.path = path.into();
        exporter.set_in_code(&FILE)
    }

    /// Sets the age above which the [file](Self::file) is renamed and a new one is begun. There is no limit unless set.
    /// The age counts from the creation of the file, or from its last change if the file system does not store the time
    /// of creation.
    pub fn file_age(mut self, longest: impl Into<Option<Duration>>) -> Self {
        self.connection.file.age = longest.into();
        self.set_in_code(&FILE_AGE)
    }

    /// Trusts the certificate authorities in this PEM text instead of the [roots](Self::roots).
    pub fn ca_pem(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.connection.tls.ca = Some(pem.into().into());
        self.set_in_code(&CA_FILE)
    }

    /// Trusts the certificate authorities in this PEM file instead of the [roots](Self::roots). The file is read again
    /// when a connection is opened, so a replaced file takes effect without a restart. If the new text cannot be used,
    /// the problem [`Configuration`](crate::ProblemKind::Configuration) is reported, and the old text is used.
    pub fn ca_file(self, path: impl AsRef<Path>) -> Self {
        self.set_file(&CA_FILE, path.as_ref())
    }

    /// Trusts the certificate authorities in this PEM text in addition to the [roots](Self::roots).
    pub fn extra_ca_pem(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.connection.tls.extra_ca = Some(pem.into().into());
        self.set_in_code(&EXTRA_CA_FILE)
    }

    /// Sets the client certificate and its private key: two PEM files, which are read again like
    /// [`ca_file`](Self::ca_file).
    pub fn client_files(self, certificate: impl AsRef<Path>, key: impl AsRef<Path>) -> Self {
        self.set_file(&CLIENT_CERTIFICATE_FILE, certificate.as_ref()).set_file(&CLIENT_KEY_FILE, key.as_ref())
    }

    fn set_file(mut self, row: &'static SettingRow, path: &Path) -> Self {
        demand::CREDENTIALS.raise();
        let value = SettingValue::File { path: path.display().to_string(), pem: None };
        match value.load() {
            Ok(value) => self.apply(row, value, SettingSource::Code),
            Err(fault) => self.refuse(row, SettingSource::Code, fault),
        }
        self
    }

    /// Sets the client certificate: a chain and its private key, both as PEM text. The key is never shown.
    pub fn client_pem(mut self, certificate: impl Into<Vec<u8>>, key: impl Into<String>) -> Self {
        self.connection.tls.client_certificate = Some(certificate.into().into());
        self.connection.tls.client_key = Some(key.into().into_bytes().into());
        self.set_in_code(&CLIENT_CERTIFICATE_FILE).set_in_code(&CLIENT_KEY_FILE)
    }
}
