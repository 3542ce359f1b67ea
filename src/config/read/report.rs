//! What was found in a document, and which exporters does that break?

use std::collections::BTreeSet;

use crate::config::error::{Diagnostic, DiagnosticSeverity, Fault, FaultWords, Location, Words};
use crate::config::node::Mistake;
use crate::config::node::{Node, Places};
use crate::config::read::value::Unusable;
use crate::config::section::{Owner, Section};
use crate::config::summary::Few;
use crate::config::{SettingSource, text};

/// More diagnostics are only counted: no one reads them all, and a hostile file must not cost more than it weighs.
const MAX_DIAGNOSTICS: usize = 200;

pub(super) struct Report<'d> {
    places: &'d dyn Places,
    diagnostics: Vec<Diagnostic>,
    left_out: usize,
    worst_left_out: DiagnosticSeverity,
    broken: BTreeSet<Section>,
    /// Something is wrong that could concern anybody.
    all_broken: bool,
    /// Places whose values were replaced by those of environment variables.
    replaced: Few<usize, String>,
}

/// What becomes of mistakes in sections of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Others {
    /// What is not read here can break nothing.
    Spared,
    /// Nothing else was found, so this is all that can be said.
    Counted,
}

impl<'d> Report<'d> {
    pub(super) fn new(places: &'d dyn Places, mistakes: Vec<Mistake>, others: Others) -> Self {
        let mut report = Self {
            places,
            diagnostics: Vec::new(),
            left_out: 0,
            worst_left_out: DiagnosticSeverity::Note,
            broken: BTreeSet::new(),
            all_broken: false,
            replaced: Few::new(),
        };
        for Mistake { owner, mut diagnostic } in mistakes {
            match owner {
                Owner::Section(section) => _ = report.broken.insert(section),
                Owner::Unknown => report.all_broken = true,
                Owner::Other if others == Others::Counted => {}
                Owner::Other => diagnostic.severity = diagnostic.severity.min(DiagnosticSeverity::Warning),
            }
            report.diagnostics.push(diagnostic);
        }
        report
    }

    /// An error that keeps a section from being started, or all of them.
    pub(super) fn error(
        &mut self,
        section: Option<&Section>,
        at: usize,
        key: impl Into<String>,
        what: impl Into<Words>,
        fix: impl Into<Words>,
    ) {
        match section {
            Some(section) => _ = self.broken.insert(section.clone()),
            None => self.all_broken = true,
        }
        self.push(DiagnosticSeverity::Error, at, key.into(), Fault::new(what, fix));
    }

    /// An error in what no exporter can be started from anyway.
    pub(super) fn lone_error(&mut self, at: usize, key: impl Into<String>, fault: Fault) {
        self.push(DiagnosticSeverity::Error, at, key.into(), fault);
    }

    pub(super) fn warning(
        &mut self,
        at: usize,
        key: impl Into<String>,
        what: impl Into<Words>,
        fix: impl Into<Words>,
    ) {
        self.push(DiagnosticSeverity::Warning, at, key.into(), Fault::new(what, fix));
    }

    pub(super) fn note(
        &mut self,
        at: usize,
        key: impl Into<String>,
        what: impl Into<Words>,
        fix: impl Into<Words>,
    ) {
        self.push(DiagnosticSeverity::Note, at, key.into(), Fault::new(what, fix));
    }

    /// A value of another type than the key has.
    pub(super) fn wrong_type(
        &mut self,
        section: Option<&Section>,
        key: impl Into<String>,
        node: &Node,
        fix: &'static str,
    ) {
        self.error(section, node.at, key, format!("found {}", node.kind()), fix);
    }

    /// A value that cannot be taken; `advice` is for one of another type.
    pub(super) fn refuse(
        &mut self,
        section: &Section,
        key: String,
        node: &Node,
        advice: &'static str,
        unusable: Unusable,
    ) {
        let FaultWords { what, fix } = unusable.into_fault(node, advice).into_words();
        self.error(Some(section), node.at, key, what, fix);
    }

    /// A key that is none of those that are known where it stands; `name` is the last part of it.
    pub(super) fn unknown_key(&mut self, at: usize, key: String, name: &str, known: &[&str]) {
        // to find what was meant is costly, and would not be shown
        let meant = if self.has_room() { text::did_you_mean(name, known) } else { None };
        self.warning(at, key, "unknown key", meant.map_or("remove it".into(), Words::from));
    }

    /// How many diagnostics there are.
    pub(super) fn count(&self) -> usize {
        self.diagnostics.len()
    }

    /// Whether another diagnostic would still be shown.
    fn has_room(&self) -> bool {
        self.diagnostics.len() < MAX_DIAGNOSTICS
    }

    pub(super) fn location(&self, at: usize) -> Location {
        self.places.location(at)
    }

    /// Says why a variable is as good as not set.
    pub(super) fn ignore(&mut self, variable: &str, fault: Fault) {
        let what = format!("ignored: {}", fault.what);
        self.diagnostics.push(fault.saying(what).found(DiagnosticSeverity::Warning, None, variable));
    }

    /// Remembers that the value at a place is that of an environment variable.
    pub(super) fn replace(&mut self, at: usize, variable: String) {
        self.replaced.insert(at, variable);
    }

    /// Where the value at a place came from.
    pub(super) fn source(&self, at: usize) -> SettingSource {
        match self.replaced.get(&at) {
            Some(variable) => SettingSource::Environment(variable.clone()),
            None => SettingSource::File(self.location(at)),
        }
    }

    pub(super) fn is_broken(&self, section: &Section) -> bool {
        let is_unchosen = matches!(section, Section::Exporter(_)) && self.broken.contains(&Section::Server);
        self.all_broken || is_unchosen || self.broken.contains(section)
    }

    pub(super) fn into_diagnostics(mut self) -> Vec<Diagnostic> {
        if self.left_out > 0 {
            let severity = self.worst_left_out;
            let fault = Fault::new(format!("{} more diagnostics are not shown", self.left_out), "");
            self.diagnostics.push(fault.found(severity, None, ""));
        }
        self.diagnostics
    }

    fn push(&mut self, severity: DiagnosticSeverity, at: usize, key: String, fault: Fault) {
        if self.places.is_spoilt(at) {
            return;
        }
        if !self.has_room() {
            self.left_out += 1;
            self.worst_left_out = self.worst_left_out.max(severity);
            return;
        }
        let diagnostic = match self.replaced.get(&at) {
            Some(variable) => fault.found(severity, None, variable.as_str()),
            None => fault.found(severity, Some(self.location(at)), key),
        };
        // an exporter that is used twice is read twice
        if !self.diagnostics.contains(&diagnostic) {
            self.diagnostics.push(diagnostic);
        }
    }
}
