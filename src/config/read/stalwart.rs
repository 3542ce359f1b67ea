//! Reads sections in Stalwart's layout: `[tracer.<id>]` is an exporter of spans and logs, `[metrics.open-telemetry]`
//! one of metrics. Sections with similar names are reported.

use super::Found;
use super::table::{Report, SectionReader, Switch};
use super::value;
use crate::config::error::{DiagnosticSeverity, Fault};
use crate::config::node::{Field, Node, Tree};
use crate::config::section::{
    CHOICES, ENABLE, ENABLE_LOGS, ENABLE_SPANS, EXPORTERS, METRICS, PROGRAM_KEYS, SERVER, Section, TELEMETRY,
    TYPE,
};
use crate::config::settings::general::SELF_OBSERVATION;
use crate::config::settings::{LEVEL, SIGNALS, TRANSPORT};
use crate::config::text::{dotted, quoted};
use crate::config::values::Named;
use crate::config::{Exporter, Level, Signals, Transport, text};
use crate::record::Signal;

const TYPES: [&str; 2] = ["open-telemetry", "otel"];
const TYPE_ADVICE: &str = "write type = \"open-telemetry\"";

/// Maximum number of tracers that become exporters. Each exporter has its own queues and thread, so the limit bounds
/// the cost of a faulty or hostile file.
const MAX_EXPORTERS: usize = 256;

impl Found<'_> {
    pub(super) fn read_tracers(&mut self, root: &Node) {
        let Some(tracers) = root.get("tracer") else { return };
        let Some(fields) = tracers.node.as_table() else {
            let fault = value::wrong_type(&tracers.node, "write tables like [tracer.otel]");
            return self.report.error(None, tracers.node.at, "tracer".to_owned(), fault);
        };
        for field in fields {
            let section = Section::Tracer(field.name.clone());
            let Some(exporter) = self.tracer(&section, field) else { continue };
            if self.exporters.len() >= MAX_EXPORTERS {
                let what = format!("more than {MAX_EXPORTERS} exporters: the other tracers are ignored");
                let (path, fault) = (dotted(&section.path()), Fault::new(what, "remove some"));
                return self.report.error(Some(&section), field.at, path, fault);
            }
            self.exporters.push((field.at, section, exporter));
        }
    }

    /// Returns the exporter that a tracer describes; `None` if the tracer is disabled, belongs to another program, or
    /// selects no signal.
    fn tracer(&mut self, section: &Section, field: &Field) -> Option<Exporter> {
        let mut tracer = SectionReader::new(section, field, &mut self.report)?;
        // A switch that is set twice, such as `enable.log-exporter`, is reported even if the tracer is disabled. Other
        // keys of a disabled tracer are not checked.
        tracer.refuse_duplicate_switches();
        if tracer.is_off() || !tracer.is_ours() || !tracer.has_transport() {
            return None;
        }
        let mut exporter = tracer.exporter();
        tracer.choose_signals(&mut exporter).then_some(exporter)
    }

    /// Reads `[metrics.open-telemetry]`. The rest of `metrics` belongs to other programs.
    pub(super) fn read_metrics(&mut self, root: &Node) -> Option<()> {
        let [first, second] = METRICS;
        let field = root.get(first)?.node.get(second)?;
        let mut reader = SectionReader::new(&Section::Metrics, field, &mut self.report)?;
        match reader.transport() {
            Switch::On => {}
            // An empty table needs no note.
            Switch::Missing if !reader.entries.is_empty() => {
                let fault = Fault::new("not started: it has no transport", "write transport = \"http\"");
                let path = reader.key(TRANSPORT.key);
                reader.report.push(DiagnosticSeverity::Note, reader.declared_at, path, fault);
                return None;
            }
            Switch::Missing | Switch::Off(_) => return None,
        }
        let mut exporter = reader.exporter();
        exporter.signals = Signals::of(&[Signal::Metrics]);
        exporter.record(&SIGNALS, reader.report.source(reader.declared_at), None);
        if let Some((at, on)) = reader.bool(SELF_OBSERVATION.key) {
            self.config.set_self_observation(on, reader.report.source(at));
        }
        self.exporters.push((field.at, Section::Metrics, exporter));
        Some(())
    }
}

impl SectionReader<'_, '_, '_> {
    /// Returns the exporter with every valid setting, and reports the others.
    fn exporter(&mut self) -> Exporter {
        let (name, path) = (self.section.exporter_id(), dotted(&self.section.path()));
        let mut exporter = Exporter::of_table(name, path, self.report.places.location(self.declared_at));
        self.settings(&mut exporter);
        exporter
    }

    /// Reports switches that are set twice in different forms, such as `enable.log-exporter` and a table `enable`. To
    /// the parser, these are different keys.
    fn refuse_duplicate_switches(&mut self) {
        for name in [ENABLE_LOGS, ENABLE_SPANS] {
            let twins: Vec<usize> = self.all(name).map(|entry| entry.key_at).collect();
            if let [first, second, ..] = twins[..] {
                let fault = Fault::duplicate_key(self.report.places.location(first).line);
                self.report.error(Some(self.section), second, self.key(name), fault);
            }
        }
    }

    fn is_off(&mut self) -> bool {
        let Some(enable) = self.find(ENABLE) else { return false };
        let is_off = enable.node.value == Tree::Bool(false);
        if is_off {
            let path = self.key(ENABLE);
            self.report.note(enable.node.at, path, "not started: enable is false");
        }
        is_off
    }

    fn is_ours(&mut self) -> bool {
        let path = self.key(TYPE);
        let Some(kind) = self.find(TYPE).cloned() else {
            if self.report.is_broken(self.section) {
                // The type may be in a line with a syntax error.
                return true;
            }
            let fault = Fault::new("not started: it has no type", TYPE_ADVICE);
            self.report.warning(self.declared_at, path, fault);
            return false;
        };
        let text = value::text(kind.node, self.report.resolver, TYPE_ADVICE);
        let Ok(text) = text.map_err(|fault| self.refuse(&kind, kind.node, fault)) else { return false };
        if TYPES.contains(&text.text.as_str()) {
            return true;
        }
        let (at, report) = (kind.node.at, &mut self.report);
        let what = format!("not started: {} is not a type of OpenTelemetry", quoted(text.written));
        let is_otlp = text.text.to_ascii_lowercase().starts_with("otlp");
        // A similar type is a mistake; any other type belongs to a tracer of another program.
        match is_otlp || text::nearest(&text.text, &TYPES).is_some() {
            true => report.lone_error(at, path, Fault::new(what, "did you mean \"open-telemetry\"?")),
            false => report.note(at, path, what),
        }
        false
    }

    fn has_transport(&mut self) -> bool {
        match self.transport() {
            Switch::On => {}
            // The transport may be in a line with a syntax error, which is already reported.
            Switch::Missing if self.report.is_broken(self.section) => {}
            Switch::Missing => self.missing(TRANSPORT.key, "write transport = \"http\""),
            Switch::Off(at) => {
                let path = self.key(TRANSPORT.key);
                self.report.note(at, path, "not started: its transport is disabled");
                return false;
            }
        }
        true
    }

    /// Selects spans unless they are disabled, and logs if they are enabled. Returns `false` if no signal remains.
    fn choose_signals(&mut self, exporter: &mut Exporter) -> bool {
        // Called only to report a value that is not a boolean: `is_off` has handled `false`, and `true` is the default.
        self.bool(ENABLE);
        let spans = self.bool(ENABLE_SPANS);
        let logs = self.bool(ENABLE_LOGS);

        let sends_logs = logs.is_some_and(|(_, on)| on) && !self.is_silenced(exporter);
        let mut chosen = Vec::from_iter(spans.is_none_or(|(_, on)| on).then_some(Signal::Traces));
        chosen.extend(sends_logs.then_some(Signal::Logs));
        exporter.signals = Signals::of(&chosen);
        if let Some((at, _)) = logs.or(spans) {
            exporter.record(&SIGNALS, self.report.source(at), None);
        }
        if let (true, Some((at, _))) = (chosen.is_empty(), spans) {
            let path = self.key(ENABLE_SPANS);
            let what = "not started: neither spans nor logs would be sent";
            self.report.warning(at, path, Fault::new(what, "write true, or enable = false"));
        }
        !chosen.is_empty()
    }

    /// Returns whether `level = "disable"` contradicts an enabled log exporter. If so, it warns.
    fn is_silenced(&mut self, exporter: &Exporter) -> bool {
        let level = self.find(LEVEL.key).filter(|_| exporter.level == Level::DISABLE);
        let Some(level) = level else { return false };
        let path = self.key(LEVEL.key);
        let fault = Fault::new("no logs are sent", "write a level, or enable.log-exporter = false");
        self.report.warning(level.node.at, path, fault);
        true
    }
}

/// Warns about every section that was probably meant as one of ours, and returns whether there is one. A section is
/// compared only if it has keys of ours, so that sections of other programs are not reported.
pub(super) fn warn_about_misnamed_sections(root: &Node, report: &mut Report<'_>) -> bool {
    let known = report.diagnostics.count();
    for section in root.as_table().unwrap_or_default() {
        let name = section.name.as_str();
        let fields = section.node.as_table().unwrap_or_default();
        let is_ours = |field: &Field| field.name == EXPORTERS[1] || PROGRAM_KEYS.contains(&&*field.name);
        if ["tracer", TELEMETRY].contains(&name) {
            continue;
        }
        if ![METRICS[0], SERVER[0]].contains(&name) && fields.iter().any(is_ours) {
            if text::nearest(name, &[TELEMETRY]).is_some() {
                warn_of(report, section, &[name], TELEMETRY);
            }
            continue;
        }
        for field in fields {
            let chooses = || CHOICES.iter().any(|(key, _)| field.node.get(key).is_some());
            let meant = match name {
                "server" if field.name == SERVER[1] || !chooses() => continue,
                "server" if text::nearest(&field.name, &[SERVER[1]]).is_none() => continue,
                "server" => dotted(&SERVER),
                "metrics" if field.name == METRICS[1] => continue,
                _ if !is_exporter(&field.node) => continue,
                _ if text::nearest(name, &[METRICS[0]]).is_some() => format!("[{}]", dotted(&METRICS)),
                _ => format!("[{}]", dotted(&["tracer", &field.name])),
            };
            warn_of(report, field, &[name, &field.name], &meant);
        }
    }
    report.diagnostics.count() > known
}

/// Returns whether a table has the type or the transport of an exporter.
fn is_exporter(node: &Node) -> bool {
    let text = |name: &str| node.at(&[name]).and_then(Node::as_text);
    let is_transport = |word: &str| Transport::NAMES.iter().any(|(name, _)| *name == word);
    text(TYPE).is_some_and(|kind| TYPES.contains(&kind))
        || text(TRANSPORT.key).is_some_and(is_transport) && text(TYPE).is_none()
}

fn warn_of(report: &mut Report<'_>, field: &Field, path: &[&str], meant: &str) {
    let path = dotted(path);
    let fault = Fault::new("not read: no section has this name", format!("did you mean {meant}?"));
    report.warning(field.at, path, fault);
}
