//! Errors of a configuration: all diagnostics at once, each with its location, its key and a fix.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

use super::Config;
use crate::escape::{escape_all_but, shows_itself};

/// Text of a message. Most texts are constants, which a `Cow` borrows: no caller needs code that copies them.
pub(super) type Words = Cow<'static, str>;

/// An invalid configuration, with all diagnostics.
///
/// Returned by [`Config::from_file`], [`Config::from_env`] and similar functions, and by `Telemetry::start`. It
/// displays as one line per diagnostic. The lines of warnings and notes begin with `warning: ` or `note: `. The guide
/// explains [every message](crate::guide::messages).
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
    // Boxed to keep `Result<_, ConfigError>` small.
    details: Box<Details>,
}

#[derive(Clone)]
struct Details {
    diagnostics: Vec<Diagnostic>,
    usable: Config,
    /// The reason why the file could not be read.
    unreadable: Option<Arc<dyn Error + Send + Sync>>,
}

impl ConfigError {
    /// Makes an error; `usable` is the configuration without its broken exporters.
    pub(super) fn new(diagnostics: Vec<Diagnostic>, usable: Config) -> Self {
        Self { details: Box::new(Details { diagnostics, usable, unreadable: None }) }
    }

    /// Makes the error of a file that could not be read at all.
    pub(super) fn unreadable(diagnostic: Diagnostic, source: impl Error + Send + Sync + 'static) -> Self {
        let mut error = Self::new(vec![diagnostic], Config::new());
        error.details.unreadable = Some(Arc::new(source));
        error
    }

    /// Makes the error for exporters that could not be assembled: `faults` contains their names and the reasons.
    pub(crate) fn at_start(faults: Vec<(String, String)>, mut usable: Config) -> Self {
        let mut diagnostics = Vec::new();
        for (name, what) in &faults {
            for exporter in usable.exporters.iter().filter(|exporter| exporter.name() == name) {
                let fault = Fault::new(what.clone(), "");
                // Both providers may use the same section of the file, which yields two exporters with the same
                // location and path, and so equal diagnostics.
                add_new(&mut diagnostics, fault.error(exporter.location().cloned(), exporter.path()));
            }
        }
        usable.exporters.retain(|exporter| faults.iter().all(|(name, _)| name != exporter.name()));
        Self::new(diagnostics, usable)
    }

    /// Returns all diagnostics, including warnings and notes, in the order of the file.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.details.diagnostics
    }

    /// Returns the configuration without its broken exporters, so that a broken exporter does not disable the others.
    ///
    /// If all exporters are broken, the configuration has none, and all telemetry is a no-op, as with [`Config::new`].
    pub fn into_usable(self) -> Config {
        self.details.usable
    }

    /// Returns whether the file itself could not be read: missing, a directory, no permission, not UTF-8, too large.
    pub fn is_unreadable(&self) -> bool {
        self.details.unreadable.is_some()
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.diagnostics().iter().map(ToString::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

/// Formats as `Display` does, because a `main` that returns the error prints its `Debug` form.
impl fmt::Debug for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The source is the reason why the file could not be read, such as an [`io::Error`](std::io::Error).
impl Error for ConfigError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.details.unreadable.as_ref().map(|source| &**source as &(dyn Error + 'static))
    }
}

/// An error, a warning or a note about a configuration.
///
/// It displays as `file:line:column: key: what is wrong; what to write instead`. Unknown parts are left out, and a
/// warning or a note begins with `warning: ` or `note: `. It never shows a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Diagnostic {
    /// The severity.
    pub severity: DiagnosticSeverity,
    /// The place in the file; `None` for values set in code or by an environment variable.
    pub location: Option<Location>,
    /// The full key, such as `tracer.otel.endpoint` or `exporter "otlp".endpoint`, or the name of a variable; empty if
    /// the diagnostic is not about one key. Parts that may be secrets are `***`.
    pub key: String,
    /// What is wrong.
    pub what: String,
    /// What to write or to do instead; empty if nothing needs to be done.
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

/// The severity of a [`Diagnostic`], in ascending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum DiagnosticSeverity {
    /// Information that requires no action.
    Note,
    /// Works, but is probably a mistake.
    Warning,
    /// The exporter to which the setting belongs cannot be started.
    Error,
}

/// A place in a configuration file; line and column count from 1, the column in characters.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Location {
    /// The name of the file as the program gave it; `<toml>` or `<yaml>` for text.
    pub file: String,
    /// The number of the line.
    pub line: usize,
    /// The number of the character in the line.
    pub column: usize,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", escape_all_but(shows_itself, &self.file), self.line, self.column)
    }
}

/// A configuration, or the error with all diagnostics.
pub(super) type Configured = Result<Config, ConfigError>;

/// What to write instead of an invalid value.
pub(crate) type Advice = &'static str;

/// A value that was read, or the reason why it cannot be used. A check that yields no value returns `Checked<()>`.
pub(crate) type Checked<T = ()> = Result<T, Fault>;

/// The part of a [`Diagnostic`] that does not depend on the origin of the value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(super) what: Words,
    pub(super) fix: Words,
}

impl Fault {
    pub(super) fn new(what: impl Into<Words>, fix: impl Into<Words>) -> Self {
        Self { what: what.into(), fix: fix.into() }
    }

    /// Returns a fault as the `Err` of a check.
    pub(super) fn err<T>(what: impl Into<Words>, fix: impl Into<Words>) -> Checked<T> {
        Err(Self::new(what, fix))
    }

    /// Returns the fault as an error unless a condition is met.
    pub(super) fn unless(is_met: bool, what: impl Into<Words>, fix: impl Into<Words>) -> Checked {
        if is_met { Ok(()) } else { Self::err(what, fix) }
    }

    /// Prepends a subject, such as the quoted value, to the message.
    pub(super) fn of(self, subject: impl fmt::Display) -> Self {
        Self { what: format!("{subject} {}", self.what).into(), ..self }
    }

    /// Makes the fault of a key that an earlier line has already set.
    pub(super) fn duplicate_key(first_line: usize) -> Self {
        Self::new("duplicate key", format!("it is already set in line {first_line}; remove one of the two"))
    }

    pub(super) fn error(self, location: Option<Location>, key: impl Into<String>) -> Diagnostic {
        self.found(DiagnosticSeverity::Error, location, key)
    }

    pub(super) fn warning(self, location: Option<Location>, key: impl Into<String>) -> Diagnostic {
        self.found(DiagnosticSeverity::Warning, location, key)
    }

    pub(super) fn found(
        self,
        severity: DiagnosticSeverity,
        location: Option<Location>,
        key: impl Into<String>,
    ) -> Diagnostic {
        // Text from a file or a variable may be printed on a terminal, which must not obey its control characters.
        let safe = |text: Words| match escape_all_but(shows_itself, &text) {
            Cow::Borrowed(_) => text.into_owned(),
            Cow::Owned(escaped) => escaped,
        };
        let key = safe(Words::Owned(key.into()));
        Diagnostic { severity, location, key, what: safe(self.what), fix: safe(self.fix) }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.what, self.fix)
    }
}

/// Adds a diagnostic to a list, unless the list already contains an equal one.
pub(super) fn add_new(diagnostics: &mut Vec<Diagnostic>, diagnostic: Diagnostic) {
    if !diagnostics.contains(&diagnostic) {
        diagnostics.push(diagnostic);
    }
}

/// Collects diagnostics without duplicates, up to a maximum. The maximum bounds the cost of hostile input, because each
/// new diagnostic is compared with all earlier ones.
#[derive(Default)]
pub(super) struct DiagnosticList {
    shown: Vec<Diagnostic>,
    /// Number of diagnostics beyond the maximum, and the highest severity among them.
    left_out: usize,
    worst_left_out: Option<DiagnosticSeverity>,
}

impl DiagnosticList {
    /// Maximum number of diagnostics that are shown. Further ones are only counted.
    const MAX: usize = 200;

    pub(super) fn push(&mut self, diagnostic: Diagnostic) {
        // Beyond the maximum, duplicates are counted as well: to bound the cost, nothing is compared any more.
        if !self.has_room() {
            self.left_out += 1;
            self.worst_left_out = self.worst_left_out.max(Some(diagnostic.severity));
        } else {
            add_new(&mut self.shown, diagnostic);
        }
    }

    pub(super) fn has_room(&self) -> bool {
        self.shown.len() < Self::MAX
    }

    /// Returns the number of diagnostics that will be shown.
    pub(super) fn count(&self) -> usize {
        self.shown.len()
    }

    pub(super) fn into_diagnostics(mut self) -> Vec<Diagnostic> {
        if let Some(worst) = self.worst_left_out {
            let fault = Fault::new(format!("{} more diagnostics are not shown", self.left_out), "");
            self.shown.push(fault.found(worst, None, ""));
        }
        self.shown
    }
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
