//! Problems at run time, as the program's hook receives them. `pipeline::problems` limits how often they are reported.

use std::fmt;
use std::sync::Arc;

use crate::escape::{escape_all_but, shows_itself};
use crate::record::Signal;

/// A problem at run time. Passed to the hook of [`Config::on_problem`](crate::Config::on_problem). The guide explains
/// [every message](crate::guide::messages).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// The [name](crate::Exporter::name) of the exporter; empty if the problem concerns no exporter, such as a warning
    /// about the configuration.
    pub exporter: String,
    /// The kind of problem. A recurring problem is reported at most once per minute and signal.
    pub kind: ProblemKind,
    /// The signal; `None` if the problem does not concern a single signal, such as a damaged file of a spool. The
    /// limit of one report per minute applies to each signal separately.
    pub signal: Option<Signal>,
    /// The description: lower case, with the cause after a colon. It contains no secret, and control characters, escape
    /// sequences and characters that reorder text are escaped.
    pub message: String,
    /// Number of occurrences of this kind for this signal since the last report, including this one.
    pub occurrences: u64,
    /// True if more records may be lost than the [ledger](crate::ledger) counts: a file of a
    /// [spool](crate::Exporter::spool) is damaged and held an unknown number of records, or a file was left unread.
    pub is_unaccounted: bool,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.exporter.is_empty() {
            write!(f, "exporter {}: ", escape_all_but(shows_itself, &self.exporter))?;
        }
        f.write_str(&self.message)?;
        if self.occurrences > 1 {
            write!(f, " ({} times)", self.occurrences)?;
        }
        Ok(())
    }
}

/// The kind of a [`Problem`].
// The C header numbers the kinds from 1 in this order, so a new kind must be added at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProblemKind {
    /// The collector cannot be reached or is overloaded. The batch is kept and sent again.
    Unavailable,
    /// The collector refused a batch permanently. Its records are lost and counted.
    Refused,
    /// The collector does not accept a signal, such as logs. The signal's records are lost and counted; other signals
    /// are not affected. Reported once per signal, and again only if the collector accepted the signal in between.
    NotTaken,
    /// The collector accepted a batch but rejected some of its records, or returned a warning.
    PartialSuccess,
    /// A batch could not be delivered within `give-up-after`, or was on disk for longer than `spool-age`. Its records
    /// are lost and counted.
    GaveUp,
    /// Callers have been waiting for room in the queue for half a second or longer. The message contains the fill level
    /// and the settings that help.
    CallersWaiting,
    /// The queue was full. Records are lost and counted.
    QueueFull,
    /// A single record was larger than a request may be. It is lost and counted.
    TooLarge,
    /// The worker panicked. The current batch is lost and counted, and the worker continues.
    WorkerPanicked,
    /// A callback of a metric panicked. Values that it had observed before the panic are sent, as are all other
    /// metrics.
    CallbackPanicked,
    /// An instrument has an invalid name, invalid bounds or an invalid measurement. The message contains the metric and
    /// the reason.
    Instrument,
    /// A metric has more sets of attributes than its limit. Further sets are combined in one series.
    CardinalityLimit,
    /// A warning about the configuration, such as an unknown key or variable: one of
    /// [`Config::diagnostics`](crate::Config::diagnostics). Reported once, by
    /// [`Telemetry::start`](crate::Telemetry::start) on the thread that calls it. Also reported if files with
    /// certificates have changed and cannot be used.
    Configuration,
    /// No `service.name` is set, so the name is derived from the program's file. Reported once, by
    /// [`Telemetry::start`](crate::Telemetry::start) on the thread that calls it.
    NoServiceName,
    /// The [spool](crate::Exporter::spool) is full, cannot be read or written, or contains damaged files or files of
    /// another service. Records that cannot be stored stay in memory, as without a spool.
    Spool,
}

impl ProblemKind {
    pub(crate) const COUNT: usize = 15;
}

/// A note about the files of a spool, such as damage. It becomes the message of a problem.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Note {
    pub(crate) message: String,
    /// See [`Problem::is_unaccounted`].
    pub(crate) is_unaccounted: bool,
}

/// The hook of [`Config::on_problem`](crate::Config::on_problem), shared by all workers.
pub(crate) type ProblemHook = Arc<dyn Fn(&Problem) + Send + Sync>;
