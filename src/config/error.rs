//! What is said of trouble? Of a configuration every mistake at once, each with its place, its key and the way out; of an
//! exporter at run time what the program's hook receives, when `pipeline::problems` decides so.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::Config;
use crate::config::escape::{escape_all_but, shows_itself};
use crate::record::Signal;

/// Words for people. Most are known when a program is built, and borrowed: so they cost it no code that copies them.
pub(super) type Words = Cow<'static, str>;

/// A configuration that cannot be used as it is, with everything that was found in it.
///
/// From [`Config::from_file`], [`Config::from_env`] and their like, or from `Telemetry::start`. It displays as one
/// line per diagnostic; warnings and notes among them say so at the start of their line.
///
/// ```
/// use standpipe::Config;
///
/// let error = Config::from_toml_str("[tracer.otel]\ntype = 'otel'\ntransport = 'http'\ntimeout = '0s'").unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "<toml>:4:11: tracer.otel.timeout: 0s is too short; write 1ms to 365d",
/// );
/// ```
#[derive(Clone)]
pub struct ConfigError {
    // boxed, so that a `Result` of it stays small
    details: Box<Details>,
}

#[derive(Clone)]
struct Details {
    diagnostics: Vec<Diagnostic>,
    usable: Config,
    unreadable: bool,
}

impl ConfigError {
    /// `usable` is what remains when everything that is broken has been taken out.
    pub(super) fn new(diagnostics: Vec<Diagnostic>, usable: Config) -> Self {
        Self { details: Box::new(Details { diagnostics, usable, unreadable: false }) }
    }

    /// For a file that could not be read at all, so that nothing is known of its contents.
    pub(super) fn unreadable(diagnostic: Diagnostic) -> Self {
        let details = Details { diagnostics: vec![diagnostic], usable: Config::new(), unreadable: true };
        Self { details: Box::new(details) }
    }

    /// For what only shows when exporters are put together: their names, and why not.
    pub(crate) fn at_start(faults: Vec<(String, String)>, mut usable: Config) -> Self {
        let mut diagnostics = Vec::new();
        for (name, what) in &faults {
            for exporter in usable.exporters.iter().filter(|exporter| exporter.name() == name) {
                let fault = Fault::new(what.clone(), "");
                let place = exporter.location().cloned();
                let diagnostic = fault.found(DiagnosticSeverity::Error, place, exporter.path());
                // an exporter that both providers use is described in one place
                if !diagnostics.contains(&diagnostic) {
                    diagnostics.push(diagnostic);
                }
            }
        }
        usable.exporters.retain(|exporter| faults.iter().all(|(name, _)| name != exporter.name()));
        Self::new(diagnostics, usable)
    }

    /// Everything that was found, warnings and notes included, in the order of the file.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.details.diagnostics
    }

    /// The configuration without its broken exporters: one that is broken never disables another one.
    ///
    /// It may hold no exporter at all; then everything is a no-op, as with [`Config::new`].
    pub fn into_usable(self) -> Config {
        self.details.usable
    }

    /// Whether the file itself could not be read: missing, a directory, no permission, not UTF-8, too large.
    pub fn is_unreadable(&self) -> bool {
        self.details.unreadable
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, diagnostic) in self.diagnostics().iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            diagnostic.fmt(f)?;
        }
        Ok(())
    }
}

/// As it is displayed: a `main` that returns it shows it to people.
impl fmt::Debug for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for ConfigError {}

/// One thing that was found in a configuration.
///
/// It displays as `file:line:column: key: what is wrong; what to write instead`, without the parts that are
/// not known, and with `warning: ` or `note: ` in front if it is no error. It never shows a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: DiagnosticSeverity,
    /// Where it is; `None` for values set in code or by an environment variable.
    pub location: Option<Location>,
    /// The key in full, as `tracer.otel.endpoint` or `exporter "otlp".endpoint`, or a variable's name; empty if it is
    /// not about one key.
    pub key: String,
    /// What is wrong.
    pub what: String,
    /// What to do instead; empty if there is nothing to do.
    pub fix: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.severity {
            DiagnosticSeverity::Error => {}
            DiagnosticSeverity::Warning => f.write_str("warning: ")?,
            DiagnosticSeverity::Note => f.write_str("note: ")?,
        }
        if let Some(location) = &self.location {
            write!(f, "{location}: ")?;
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.what)?;
        if !self.fix.is_empty() {
            write!(f, "; {}", self.fix)?;
        }
        Ok(())
    }
}

/// How bad a [`Diagnostic`] is; the worst comes last in the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DiagnosticSeverity {
    /// Worth knowing, nothing to do.
    Note,
    /// Probably not what was meant, but it works.
    Warning,
    /// The exporter it belongs to cannot be started.
    Error,
}

/// A place in a configuration file; line and column count from 1, the column in characters.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Location {
    /// The file as it was named by the program; `<toml>` or `<yaml>` for text.
    pub file: String,
    /// The line.
    pub line: usize,
    /// The character in the line.
    pub column: usize,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", escape_all_but(shows_itself, &self.file), self.line, self.column)
    }
}

/// What is wrong with one value: the part of a [`Diagnostic`] that does not depend on where the value came from.
/// A pointer to its words, so that a `Result` of it stays small: most of what reads a configuration hands them on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault(Box<FaultWords>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FaultWords {
    pub(super) what: Words,
    pub(super) fix: Words,
}

impl Fault {
    pub(super) fn new(what: impl Into<Words>, fix: impl Into<Words>) -> Self {
        Self::of(what.into(), fix.into())
    }

    fn of(what: Words, fix: Words) -> Self {
        Self(Box::new(FaultWords { what, fix }))
    }

    /// The same with other words for what is wrong.
    pub(super) fn saying(mut self, what: impl Into<Words>) -> Self {
        self.0.what = what.into();
        self
    }

    pub(super) fn into_words(self) -> FaultWords {
        *self.0
    }

    /// A key that stands in that line already.
    pub(super) fn duplicate_key(first_line: usize) -> Self {
        Self::new("duplicate key", format!("it is already set in line {first_line}; remove one of the two"))
    }

    pub(super) fn found(
        self,
        severity: DiagnosticSeverity,
        location: Option<Location>,
        key: impl Into<String>,
    ) -> Diagnostic {
        let FaultWords { what, fix } = self.into_words();
        // what a file or a variable holds may end up on a terminal
        let safe = |text: Words| match escape_all_but(shows_itself, &text) {
            Cow::Borrowed(_) => text.into_owned(),
            Cow::Owned(escaped) => escaped,
        };
        let key = safe(Words::Owned(key.into()));
        Diagnostic { severity, location, key, what: safe(what), fix: safe(fix) }
    }
}

impl Deref for Fault {
    type Target = FaultWords;

    fn deref(&self) -> &FaultWords {
        &self.0
    }
}

/// What [`Config::on_problem`](crate::Config::on_problem) was given, shared by all workers.
pub(crate) type ProblemHook = Arc<dyn Fn(&Problem) + Send + Sync>;

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
    /// A batch could not be delivered in its time, or was on disk for longer than `spool-age`; its records are lost and counted.
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
    /// Something in the configuration is probably not what was meant, such as an unknown key or variable: each warning of
    /// [`Config::diagnostics`](crate::Config::diagnostics). Reported once, by
    /// [`Telemetry::start`](crate::Telemetry::start) on the thread that calls it.
    Configuration,
    /// No `service.name` is set, so records are sent under a name that is made of the program's file. Reported once, by
    /// [`Telemetry::start`](crate::Telemetry::start) on the thread that calls it.
    NoServiceName,
    /// The [spool](crate::Exporter::spool) could not do its part: it has no room, cannot be read, or found something that is
    /// not its own. What it cannot take stays in memory, as if there were none.
    Spool,
}

impl ProblemKind {
    pub(crate) const COUNT: usize = 15;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diagnostic(
        severity: DiagnosticSeverity,
        location: Option<Location>,
        key: &str,
        fix: &str,
    ) -> Diagnostic {
        Diagnostic {
            severity,
            location,
            key: key.to_owned(),
            what: "unknown key".to_owned(),
            fix: fix.to_owned(),
        }
    }

    #[test]
    fn a_diagnostic_says_severity_place_key_and_fix_and_leaves_out_what_it_does_not_know() {
        let place = Location { file: "otlp.toml".to_owned(), line: 7, column: 1 };
        let fix = "did you mean \"endpoint\"?";
        let shown = diagnostic(DiagnosticSeverity::Error, Some(place.clone()), "tracer.otel.endpont", fix)
            .to_string();
        assert_eq!(shown, "otlp.toml:7:1: tracer.otel.endpont: unknown key; did you mean \"endpoint\"?");
        let shown = diagnostic(DiagnosticSeverity::Warning, Some(place), "x", "").to_string();
        assert_eq!(shown, "warning: otlp.toml:7:1: x: unknown key");
        assert_eq!(diagnostic(DiagnosticSeverity::Note, None, "", "").to_string(), "note: unknown key");
    }

    #[test]
    fn an_error_has_one_line_for_each_diagnostic() {
        let diagnostics = vec![
            diagnostic(DiagnosticSeverity::Error, None, "a", ""),
            diagnostic(DiagnosticSeverity::Note, None, "b", ""),
        ];
        let error = ConfigError::new(diagnostics, Config::new());
        assert_eq!(error.to_string(), "a: unknown key\nnote: b: unknown key");
        assert!(!error.is_unreadable());
    }
}
