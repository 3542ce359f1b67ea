//! Results of an inspection of a spool directory.

use std::time::SystemTime;

use crate::record::Signal;

/// The files of one exporter of one process in a spool directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Instance {
    /// Common part of the file names: 16 hexadecimal digits.
    pub id: String,
    /// Name of the service; `None` if it cannot be read.
    pub service: Option<String>,
    /// Name of the exporter; `None` if it cannot be read.
    pub exporter: Option<String>,
    /// True while the files are in use: their process lives, or another process delivers them.
    pub is_running: bool,
    /// Start of the exporter; `None` if the time cannot be read.
    pub started: Option<SystemTime>,
    /// Undelivered records by signal. Signals without records are left out.
    pub contents: Vec<Contents>,
    /// Number of spans that are open, or were open when the process died and will be delivered as interrupted spans.
    /// `contents` counts these spans, too.
    pub open_spans: u64,
    /// Total size of the files.
    pub bytes: u64,
    /// Files or parts that cannot be read, each with the reason.
    pub problems: Vec<String>,
}

/// Undelivered records of one signal.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Contents {
    /// Kind of the records.
    pub signal: Signal,
    /// Number of spans, log records or data points.
    pub records: u64,
    /// Number of requests that will carry the records.
    pub requests: u64,
    /// Total size of these requests.
    pub bytes: u64,
    /// When the oldest request in a segment was written; `None` if no record is in a segment.
    pub oldest: Option<SystemTime>,
}

impl Instance {
    /// Returns the number of undelivered records of all signals.
    pub fn records(&self) -> u64 {
        self.contents.iter().map(|contents| contents.records).sum()
    }

    pub(super) fn add(&mut self, signal: Signal, records: u64, bytes: u64, time: Option<SystemTime>) {
        let at = self.contents.iter().position(|contents| contents.signal == signal).unwrap_or_else(|| {
            self.contents.push(Contents { signal, records: 0, requests: 0, bytes: 0, oldest: None });
            self.contents.len() - 1
        });
        let contents = &mut self.contents[at];
        contents.records += records;
        contents.requests += 1;
        contents.bytes += bytes;
        contents.oldest = contents.oldest.into_iter().chain(time).min();
    }
}
