//! Reads one variable by OpenTelemetry's rules: what cannot be understood is told and as good as not set.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::variables::Variables;
use crate::config::error::{Fault, Finding, FindingSeverity, Words};
use crate::config::path::{listed, quoted, shortened};
use crate::config::validate::LONGEST;
use crate::config::{delivery, duration, header, suggest};

/// More errors or warnings are only counted: a variable may hold thousands of words, and nobody reads so much.
const MAX_OF_A_KIND: usize = 200;

/// Reads variables and remembers what was wrong with them.
pub(super) struct Reader<'v> {
    variables: &'v Variables,
    findings: Vec<Finding>,
    left_out: usize,
}

impl<'v> Reader<'v> {
    pub(super) fn new(variables: &'v Variables) -> Self {
        Self { variables, findings: Vec::new(), left_out: 0 }
    }

    pub(super) fn into_findings(mut self) -> Vec<Finding> {
        if self.left_out > 0 {
            let what = format!("{} more findings are not shown", self.left_out);
            self.findings.push(Fault::new(what, "").found(FindingSeverity::Warning, None, ""));
        }
        self.findings
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

    pub(super) fn count(&mut self, name: &str, range: RangeInclusive<u64>) -> Option<u64> {
        let text = self.text(name)?;
        let fix = format!("write {} to {}", range.start(), range.end());
        self.number(name, text, range, "a whole number", fix)
    }

    /// Whole milliseconds, no fewer than `least`.
    pub(super) fn time(&mut self, name: &str, least: u64) -> Option<Duration> {
        let text = self.text(name)?;
        let most = u64::try_from(LONGEST.as_millis()).unwrap_or(u64::MAX);
        // somebody who writes 5s means 5000
        let fix = match duration::parse(text) {
            Ok(meant) if (u128::from(least)..=u128::from(most)).contains(&meant.as_millis()) => {
                format!("write {}", meant.as_millis() as u64)
            }
            _ => format!("write {least} to {most}"),
        };
        self.number(name, text, least..=most, "a whole number of milliseconds", fix)
            .map(Duration::from_millis)
    }

    /// One of these words, in any case.
    pub(super) fn word<T: Copy>(&mut self, name: &str, words: &[(&str, T)]) -> Option<T> {
        let text = self.text(name)?;
        let meaning = delivery::parse(words, text);
        if meaning.is_none() {
            let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            self.ignore(name, &format!("{} is not known", quoted(text)), what_to_write(text, &known));
        }
        meaning
    }

    pub(super) fn truth(&mut self, name: &str) -> Option<bool> {
        self.word(name, &[("true", true), ("false", false)])
    }

    /// Says why a value is as good as not set.
    pub(super) fn ignore(&mut self, name: &str, why: &str, fix: impl Into<Words>) {
        self.warn(name, format!("ignored: {why}"), fix);
    }

    pub(super) fn warn(&mut self, name: &str, what: impl Into<Words>, fix: impl Into<Words>) {
        self.tell(FindingSeverity::Warning, name, what, fix);
    }

    pub(super) fn error(&mut self, name: &str, what: impl Into<Words>, fix: impl Into<Words>) {
        self.tell(FindingSeverity::Error, name, what, fix);
    }

    fn number(
        &mut self,
        name: &str,
        text: &str,
        range: RangeInclusive<u64>,
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
    fn tell(&mut self, severity: FindingSeverity, name: &str, what: impl Into<Words>, fix: impl Into<Words>) {
        let alike = self.findings.iter().filter(|finding| finding.severity == severity).count();
        if alike >= MAX_OF_A_KIND {
            self.left_out += 1;
            return;
        }
        let finding = Fault::new(what, fix).found(severity, None, name);
        if !self.findings.contains(&finding) {
            self.findings.push(finding);
        }
    }
}

/// What to write: the word that was probably meant, or else all that there are.
pub(super) fn what_to_write(text: &str, known: &[&str]) -> String {
    suggest::did_you_mean(text, known).unwrap_or_else(|| format!("write {}", listed(known, "or")))
}
