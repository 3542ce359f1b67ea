//! What is kept on disk, and for how long? The settings of the spool.

use std::path::PathBuf;
use std::time::Duration;

use super::kind::{Field, Kind, Unit, field, word};
use super::{POSITIVE, SettingRow, setters, settings, table};
use crate::config::Exporter;
use crate::config::validate as rules;
use crate::config::values::words::{SpoolSync, parse};

settings! {
    /// What survives the process.
    #[derive(Debug, Clone, PartialEq, Eq)]
    SpoolSettings {
        /// `None`: nothing.
        pub(crate) directory: Option<PathBuf> = None,
        pub(crate) bytes: usize = 256 << 20,
        pub(crate) age: Option<Duration> = Some(Duration::from_secs(3 * 24 * 3600)),
        pub(crate) sync: SpoolSync = SpoolSync::EverySecond,
        pub(crate) open_spans: bool = false,
        /// Whether it only delivers what others have left, of exporters of any name.
        pub(crate) drains: bool = false,
    }
}

table! { SPOOLING:
    /// a directory of this user alone, on Linux: records that were accepted survive the death of the process, and requests
    /// that cannot be delivered wait there; needs the feature `spool`
    SPOOL {
        key: "spool",
        kind: Kind::Text {
            set: |exporter, directory, _| exporter.spool.directory = Some(directory.into()),
            show: |exporter| match &exporter.spool.directory {
                Some(directory) => directory.display().to_string(),
                None => "none".to_owned(),
            },
        },
        advice: "write the path of a directory",
        needs_connection: true,
        connection_rule: rules::spool,
    }
    /// most bytes of requests that wait on disk, in equal parts for the signals; what finds no room there waits in the queue
    SPOOL_BYTES {
        key: "spool-bytes",
        kind: Kind::Number {
            field: field!(spool.bytes),
            unit: Unit::Bytes,
            range: 1 << 20..=MAX_SPOOL_BYTES,
            most: "the most a spool may hold",
        },
        advice: "write a size like \"256 MiB\" or a number of bytes",
        needs_connection: true,
        partner: Some(&SPOOL),
    }
    /// how long a request waits on disk at most, or `none` for as long as it takes
    SPOOL_AGE {
        key: "spool-age",
        kind: Kind::Limit { field: field!(spool.age), range: POSITIVE },
        advice: "write a duration like \"3d\", or \"none\"",
        needs_connection: true,
        partner: Some(&SPOOL),
    }
    /// when requests on disk are safe from power loss: `batch` once they are written, `1s` a second later, `none` when the
    /// system gets to it
    SPOOL_SYNC {
        key: "spool-sync",
        kind: word!(SpoolSync, spool.sync, &[]),
        advice: "write \"batch\", \"1s\" or \"none\"",
        needs_connection: true,
        partner: Some(&SPOOL),
    }
    /// whether spans that are open when the process dies are delivered as well, marked as interrupted
    SPOOL_OPEN_SPANS {
        key: "spool-open-spans",
        kind: Kind::Bool { field: field!(spool.open_spans), variables: &[] },
        advice: "write true or false, without quotes",
        needs_connection: true,
        partner: Some(&SPOOL),
    }
}

/// A number of bytes that every machine can count.
const MAX_SPOOL_BYTES: u64 = if cfg!(target_pointer_width = "64") { 1 << 40 } else { 2 << 30 };

setters! {
    /// Bounds the requests that wait on disk in bytes; 256 MiB unless set, at least 1 MiB. What finds no room there waits in
    /// the queue, as if there were no spool.
    spool_bytes(bytes: usize) sets spool.bytes of SPOOL_BYTES;
    /// Decides when requests on disk are safe from power loss; a second after they were written unless set. The death of the
    /// process they survive in any case.
    spool_sync(sync: SpoolSync) sets spool.sync of SPOOL_SYNC;
    /// Delivers spans that were open when the process died as well; not unless set. Such a span has the status `Error`, the
    /// attribute `standpipe.interrupted`, and ends when the process was last known to live. 512 spans at a time can be kept,
    /// of each the first kilobyte; each call that changes a span costs about 70 instructions more.
    spool_open_spans(on: bool) sets spool.open_spans of SPOOL_OPEN_SPANS;
}

impl Exporter {
    /// Keeps in this directory what would be lost otherwise; needs the `spool` feature, and Linux.
    ///
    /// - The queue lies in a file there, in memory that outlives the process: a record whose `end` has returned survives
    ///   `kill -9`, `abort`, `exit` and the OOM killer, and costs its caller no system call for it. A record that finds no
    ///   room in the file is in memory only, which is reported.
    /// - A request that cannot be delivered is written to a file there, and sent when the collector is back, as is what is
    ///   left at the end of a shutdown.
    ///
    /// The next start with the same directory, exporter's name and user delivers what is there, or `standpipe drain`. The
    /// [guide](crate::guide::spool) has the rest.
    #[must_use]
    pub fn spool(mut self, directory: impl Into<PathBuf>) -> Self {
        self.spool.directory = Some(directory.into());
        self.set_in_code(&SPOOL)
    }

    /// Delivers what exporters of any name have left in this directory, which must exist, and keeps nothing there itself: for a
    /// tool that empties spools, as `standpipe drain` does. A [flush](crate::Telemetry::flush) waits until nothing is left. Needs
    /// the `spool` feature, and Linux.
    #[must_use]
    pub fn drain(mut self, directory: impl Into<PathBuf>) -> Self {
        self.spool = SpoolSettings {
            directory: Some(directory.into()),
            age: None,
            drains: true,
            ..SpoolSettings::default()
        };
        self
    }

    /// Bounds how long a request waits on disk, after which it is dropped and counted; 3 days unless set, and with `None`
    /// without limit.
    #[must_use]
    pub fn spool_age(mut self, longest: impl Into<Option<Duration>>) -> Self {
        self.spool.age = longest.into();
        self.set_in_code(&SPOOL_AGE)
    }
}
