//! What was found in a directory.

use std::time::SystemTime;

use crate::record::Signal;

/// What one exporter of one process has in the directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Instance {
    /// What its files are named by.
    pub id: String,
    /// The name of the service whose exporter it is; `None` if it cannot be read.
    pub service: Option<String>,
    /// The exporter's name; `None` if it cannot be read.
    pub exporter: Option<String>,
    /// Whether it is in use: its process lives, or another one delivers it.
    pub is_running: bool,
    /// When its process started it.
    pub started: Option<SystemTime>,
    /// What is to be delivered, by signal; signals without records are left out.
    pub contents: Vec<Contents>,
    /// Spans that are open, or were when the process died: they are among the contents as interrupted ones.
    pub open_spans: u64,
    /// Of its files.
    pub bytes: u64,
    /// What cannot be read, and why.
    pub problems: Vec<String>,
}

/// What is to be delivered of one signal.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Contents {
    /// What kind of records.
    pub signal: Signal,
    /// Spans, log records or data points.
    pub records: u64,
    /// Requests that they will be sent in.
    pub requests: u64,
    /// Of these requests.
    pub bytes: u64,
    /// When the first of the requests that wait on disk came there; `None` if all are in the queue still.
    pub oldest: Option<SystemTime>,
}

impl Instance {
    /// Records of all signals.
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
