//! How is one variable read? By OpenTelemetry's rules: what cannot be understood is reported and as good as not set.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::config::error::{Diagnostic, DiagnosticSeverity, Fault, Words};
use crate::config::text::{listed, quoted, shortened};
use crate::config::{header, text, units};

/// More errors or warnings are only counted: a variable may hold thousands of words, more than anyone reads.
const MAX_OF_A_KIND: usize = 200;

/// Reads variables and remembers what was wrong with them.
pub(super) struct Reader<'v> {
    variables: &'v Variables,
    diagnostics: Vec<Diagnostic>,
    left_out: usize,
}

impl<'v> Reader<'v> {
    pub(super) fn new(variables: &'v Variables) -> Self {
        Self { variables, diagnostics: Vec::new(), left_out: 0 }
    }

    pub(super) fn into_diagnostics(mut self) -> Vec<Diagnostic> {
        if self.left_out > 0 {
            let what = format!("{} more diagnostics are not shown", self.left_out);
            self.diagnostics.push(Fault::new(what, "").found(DiagnosticSeverity::Warning, None, ""));
        }
        self.diagnostics
    }

    /// For what must not be ignored: the fault is the caller's to report. A blank value is as good as none; line breaks
    /// stay, for the caller to refuse.
    pub(super) fn given(&self, name: &str) -> Option<Result<&'v str, Fault>> {
        let given = self.variables.get(name)?.map(header::trim).map_err(Fault::from);
        (given != Ok("")).then_some(given)
    }

    pub(super) fn text(&mut self, name: &str) -> Option<&'v str> {
        let text =
            self.given(name)?.map_err(|fault| self.ignore(name, &fault.what, fault.fix.clone())).ok()?;
        Some(text.trim()).filter(|text| !text.is_empty())
    }

    pub(super) fn count(&mut self, name: &str, range: &RangeInclusive<u64>) -> Option<u64> {
        let text = self.text(name)?;
        let fix = format!("write {} to {}", range.start(), range.end());
        self.number(name, text, range, "a whole number", fix)
    }

    /// Whole milliseconds.
    pub(super) fn duration(&mut self, name: &str, range: &RangeInclusive<Duration>) -> Option<Duration> {
        let text = self.text(name)?;
        let millis = |duration: &Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let (least, most) = (millis(range.start()), millis(range.end()));
        // 5s is meant as 5000
        let fix = match units::parse_duration(text) {
            Ok(meant) if range.contains(&meant) => format!("write {}", millis(&meant)),
            _ => format!("write {least} to {most}"),
        };
        self.number(name, text, &(least..=most), "a whole number of milliseconds", fix)
            .map(Duration::from_millis)
    }

    /// One of these words, in any case, and what it means.
    pub(super) fn word<'w, T: Copy>(&mut self, name: &str, words: &[(&'w str, T)]) -> Option<(&'w str, T)> {
        let text = self.text(name)?;
        let found = words.iter().find(|(word, _)| word.eq_ignore_ascii_case(text));
        if found.is_none() {
            let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            self.ignore(name, &format!("{} is not known", quoted(text)), what_to_write(text, &known));
        }
        found.copied()
    }

    pub(super) fn bool(&mut self, name: &str) -> Option<bool> {
        self.word(name, &[("true", true), ("false", false)]).map(|(_, value)| value)
    }

    /// Says why a value is as good as not set.
    pub(super) fn ignore(&mut self, name: &str, why: &str, fix: impl Into<Words>) {
        self.warn(name, format!("ignored: {why}"), fix);
    }

    pub(super) fn warn(&mut self, name: &str, what: impl Into<Words>, fix: impl Into<Words>) {
        self.report(DiagnosticSeverity::Warning, name, what, fix);
    }

    pub(super) fn note(&mut self, name: &str, what: impl Into<Words>, fix: impl Into<Words>) {
        self.report(DiagnosticSeverity::Note, name, what, fix);
    }

    fn number(
        &mut self,
        name: &str,
        text: &str,
        range: &RangeInclusive<u64>,
        kind: &str,
        fix: String,
    ) -> Option<u64> {
        let is_digits = text.bytes().all(|byte| byte.is_ascii_digit());
        let problem = match text.parse::<u64>() {
            Ok(number) if range.contains(&number) => return Some(number),
            Ok(number) if number < *range.start() => Words::from("too small"),
            Ok(_) => "too large".into(),
            Err(_) if is_digits => "too large".into(),
            Err(_) => format!("not {kind}").into(),
        };
        let shown = if is_digits { shortened(text).into_owned() } else { quoted(text) };
        self.ignore(name, &format!("{shown} is {problem}"), fix);
        None
    }

    /// Once: several signals may ask for the same variable.
    fn report(
        &mut self,
        severity: DiagnosticSeverity,
        name: &str,
        what: impl Into<Words>,
        fix: impl Into<Words>,
    ) {
        let alike = self.diagnostics.iter().filter(|diagnostic| diagnostic.severity == severity).count();
        if alike >= MAX_OF_A_KIND {
            self.left_out += 1;
            return;
        }
        let diagnostic = Fault::new(what, fix).found(severity, None, name);
        if !self.diagnostics.contains(&diagnostic) {
            self.diagnostics.push(diagnostic);
        }
    }
}

/// What to write: the word that was probably meant, or else all that there are.
pub(super) fn what_to_write(text: &str, known: &[&str]) -> String {
    text::did_you_mean(text, known).unwrap_or_else(|| format!("write {}", listed(known, "or")))
}

/// Environment variables: those of the process, or others for a test.
#[derive(Clone, Default)]
pub(in crate::config) struct Variables(BTreeMap<String, OsString>);

impl Variables {
    /// Those of this process that are about telemetry, as they are now.
    pub(in crate::config) fn of_process() -> Self {
        let is_ours = |name: &str| name.starts_with("OTEL_") || name.starts_with("TRACETEST_");
        let named = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value));
        std::env::vars_os().filter_map(named).filter(|(name, _)| is_ours(name)).collect()
    }

    /// The value of a variable; an empty one is as good as none. `Err` if it is not UTF-8.
    pub(in crate::config) fn get(&self, name: &str) -> Option<Result<&str, NotUtf8>> {
        let value = self.0.get(name).filter(|value| !value.is_empty())?;
        Some(value.to_str().ok_or(NotUtf8))
    }

    /// The names of all that are not empty, in the order of the alphabet.
    pub(in crate::config) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|(_, value)| !value.is_empty()).map(|(name, _)| name.as_str())
    }
}

/// Why a variable cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::config) struct NotUtf8;

impl From<NotUtf8> for Fault {
    fn from(_: NotUtf8) -> Self {
        Fault::new("is not UTF-8", "set it to text")
    }
}

impl<N: Into<String>, V: Into<OsString>> FromIterator<(N, V)> for Variables {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        let mut variables = BTreeMap::new();
        // one by one: to build a tree at once takes a sort, which is as much code again
        for (name, value) in pairs {
            variables.insert(name.into(), value.into());
        }
        Self(variables)
    }
}
