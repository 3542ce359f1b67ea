//! Problems of a running exporter, as the hook of the program receives them. `pipeline::problems` decides when.

use std::fmt;
use std::sync::Arc;

use crate::escape::{escape_all_but, shows_itself};
use crate::record::Signal;

/// What went wrong, and for which exporter. Received by [`Config::on_problem`](crate::Config::on_problem).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// The exporter's [name](crate::Exporter::name); empty if it is about none, as the configuration's.
    pub exporter: String,
    /// The kind of trouble; each kind is reported once per period and signal, or less often if it says so.
    pub kind: ProblemKind,
    /// The signal that it is about, if it is about one: trouble with one signal does not hide that of another.
    pub signal: Option<Signal>,
    /// In words, lower case, the cause after a colon; never a secret. What a terminal would obey, such as escape
    /// sequences and characters that reorder text, is escaped.
    pub message: String,
    /// How often this kind occurred for this signal since it was last reported, this time included.
    pub occurrences: u64,
    /// Whether records may be missing that no count of the [ledger](crate::ledger) includes: a damaged file of a
    /// [spool](crate::Exporter::spool) does not show how many records it had, or a file in the spool is left unread.
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

/// The kinds of trouble an exporter can have.
// The C header numbers them from 1 in this order: a new kind comes last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProblemKind {
    /// The collector cannot be reached or asks for patience; the batch is kept and tried again.
    Unavailable,
    /// The collector refused a batch for good; its records are lost and counted.
    Refused,
    /// The collector has no place for a signal, such as logs; they are lost and counted, the other signals are not
    /// touched. Reported once for each signal, and again only after the signal had been taken in between.
    NotTaken,
    /// The collector took a batch but rejected some of its records, or had something to say about it.
    PartialSuccess,
    /// A batch could not be delivered in its time, or was on disk for longer than `spool-age`; its records are lost and
    /// counted.
    GaveUp,
    /// Callers wait for room in the queue, for half a second by now; the message says how full it is and what to set.
    CallersWaiting,
    /// The queue was full; records are lost and counted.
    QueueFull,
    /// A single record was larger than a request may be; it is lost and counted.
    TooLarge,
    /// The worker panicked; the batch in its hands is lost and counted, and it goes on.
    WorkerPanicked,
    /// A callback of a metric panicked; what it had observed before is sent, and so is everything else.
    CallbackPanicked,
    /// A metric is called, divided or used in a way that it should not be; the message says which and why.
    Instrument,
    /// A metric has more sets of attributes than it may have; the rest is put together.
    CardinalityLimit,
    /// Something in the configuration is probably not what was meant, such as an unknown key or variable: each warning
    /// of [`Config::diagnostics`](crate::Config::diagnostics). Reported once, by
    /// [`Telemetry::start`](crate::Telemetry::start) on the thread that calls it.
    Configuration,
    /// No `service.name` is set, so records are sent under a name that is made of the program's file. Reported once, by
    /// [`Telemetry::start`](crate::Telemetry::start) on the thread that calls it.
    NoServiceName,
    /// The [spool](crate::Exporter::spool) could not do its part: it has no room, cannot be read, or found something
    /// that is not its own. What it cannot take stays in memory, as if there were none.
    Spool,
}

impl ProblemKind {
    pub(crate) const COUNT: usize = 15;
}

/// A finding of a spool, for the message of a problem.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Note {
    pub(crate) message: String,
    /// See [`Problem::is_unaccounted`].
    pub(crate) is_unaccounted: bool,
}

/// The hook of [`Config::on_problem`](crate::Config::on_problem), shared by all workers.
pub(crate) type ProblemHook = Arc<dyn Fn(&Problem) + Send + Sync>;
