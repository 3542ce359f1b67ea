//! Collects what is found in a document, and who is broken by it.

use std::collections::{BTreeMap, BTreeSet};

use crate::config::Source;
use crate::config::document::Mistake;
use crate::config::error::{Finding, FindingSeverity, Location};
use crate::config::node::{Node, Places};
use crate::config::section::{Owner, Section};

/// More findings are only counted: nobody reads them, and a hostile file must not cost more than it weighs.
const MAX_FINDINGS: usize = 200;

pub(super) struct Report<'d> {
    places: &'d dyn Places,
    findings: Vec<Finding>,
    left_out: usize,
    broken: BTreeSet<Section>,
    /// Something is wrong that could concern anybody.
    all_broken: bool,
    /// Places whose values were replaced by those of environment variables.
    replaced: BTreeMap<usize, String>,
}

impl<'d> Report<'d> {
    pub(super) fn new(places: &'d dyn Places, mistakes: Vec<Mistake>) -> Self {
        let mut report = Self {
            places,
            findings: Vec::new(),
            left_out: 0,
            broken: BTreeSet::new(),
            all_broken: false,
            replaced: BTreeMap::new(),
        };
        for Mistake { owner, mut finding } in mistakes {
            match owner {
                Owner::Section(section) => report.broken.extend([section]),
                Owner::Unknown => report.all_broken = true,
                // what nobody here reads can break nothing
                Owner::Other => finding.severity = finding.severity.min(FindingSeverity::Warning),
            }
            report.findings.push(finding);
        }
        report
    }

    /// An error that keeps a section from being started, or all of them.
    pub(super) fn error(
        &mut self,
        section: Option<&Section>,
        at: usize,
        key: impl Into<String>,
        what: impl Into<String>,
        fix: impl Into<String>,
    ) {
        match section {
            Some(section) => self.broken.extend([section.clone()]),
            None => self.all_broken = true,
        }
        self.push(FindingSeverity::Error, at, key.into(), what.into(), fix.into());
    }

    pub(super) fn warning(
        &mut self,
        at: usize,
        key: impl Into<String>,
        what: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.push(FindingSeverity::Warning, at, key.into(), what.into(), fix.into());
    }

    pub(super) fn note(
        &mut self,
        at: usize,
        key: impl Into<String>,
        what: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.push(FindingSeverity::Note, at, key.into(), what.into(), fix.into());
    }

    /// A warning about an environment variable that replaces nothing.
    pub(super) fn ignored_variable(&mut self, variable: &str, why: &str, fix: &str) {
        self.findings.push(Finding {
            severity: FindingSeverity::Warning,
            location: None,
            key: variable.to_owned(),
            what: format!("ignored: {why}"),
            fix: fix.to_owned(),
        });
    }

    /// A value of another type than the key has.
    pub(super) fn wrong_type(
        &mut self,
        section: Option<&Section>,
        key: impl Into<String>,
        node: &Node,
        fix: &str,
    ) {
        self.error(section, node.at, key, format!("found {}", node.kind()), fix);
    }

    /// Whether another finding would still be shown; what is costly to word can be left out if not.
    pub(super) fn has_room(&self) -> bool {
        self.findings.len() < MAX_FINDINGS
    }

    pub(super) fn location(&self, at: usize) -> Location {
        self.places.location(at)
    }

    /// Remembers that the value at a place is that of an environment variable.
    pub(super) fn replace(&mut self, at: usize, variable: String) {
        self.replaced.insert(at, variable);
    }

    /// Where the value at a place came from.
    pub(super) fn source(&self, at: usize) -> Source {
        match self.replaced.get(&at) {
            Some(variable) => Source::Environment(variable.clone()),
            None => Source::File(self.location(at)),
        }
    }

    pub(super) fn is_broken(&self, section: &Section) -> bool {
        let is_unchosen = matches!(section, Section::Exporter(_)) && self.broken.contains(&Section::Server);
        self.all_broken || is_unchosen || self.broken.contains(section)
    }

    pub(super) fn into_findings(mut self) -> Vec<Finding> {
        if self.left_out > 0 {
            let severity = if self.all_broken || !self.broken.is_empty() {
                FindingSeverity::Error
            } else {
                FindingSeverity::Warning
            };
            let what = format!("{} more findings are not shown", self.left_out);
            self.findings.push(Finding {
                severity,
                location: None,
                key: String::new(),
                what,
                fix: String::new(),
            });
        }
        self.findings
    }

    fn push(&mut self, severity: FindingSeverity, at: usize, key: String, what: String, fix: String) {
        if self.places.is_spoilt(at) {
            return;
        }
        if !self.has_room() {
            self.left_out += 1;
            return;
        }
        let finding = match self.replaced.get(&at) {
            Some(variable) => Finding { severity, location: None, key: variable.clone(), what, fix },
            None => Finding { severity, location: Some(self.location(at)), key, what, fix },
        };
        // an exporter that is used twice is read twice
        if !self.findings.contains(&finding) {
            self.findings.push(finding);
        }
    }
}
