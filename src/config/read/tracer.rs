//! One `[tracer.<id>]`: whether it is started, and whether it sends spans, logs or both.

use super::reader::{Entries, SectionReader, Switch};
use crate::config::key::Key;
use crate::config::node::{Node, Tree};
use crate::config::path::quoted;
use crate::config::section::{ENABLE, ENABLE_LOGS, ENABLE_SPANS, TYPE};
use crate::config::{Exporter, Level, Signals, suggest};
use crate::record::Signal;

pub(super) const TYPES: [&str; 2] = ["open-telemetry", "otel"];
const TYPE_ADVICE: &str = "write type = \"open-telemetry\"";

/// The exporter that a tracer describes; `None` if it is not to be started, whatever else is wrong with it.
pub(super) fn read(mut reader: SectionReader<'_, '_>, tracer: &Node) -> Option<Exporter> {
    let mut tracer = TracerReader { entries: reader.entries(tracer)?, reader };
    tracer.refuse_twins();
    if tracer.is_off() || !tracer.is_ours() || !tracer.has_transport() {
        return None;
    }
    let mut exporter = tracer.reader.exporter(&tracer.entries);
    tracer.choose_signals(&mut exporter).then_some(exporter)
}

struct TracerReader<'r, 'd, 't> {
    reader: SectionReader<'r, 'd>,
    entries: Entries<'t>,
}

impl TracerReader<'_, '_, '_> {
    /// The parser saw two different keys where the file says the same thing twice.
    fn refuse_twins(&mut self) {
        for name in [ENABLE_LOGS, ENABLE_SPANS] {
            let mut twins = self.entries.all(name);
            if let (Some(first), Some(second)) = (twins.next(), twins.next()) {
                self.reader.duplicate(first, second);
            }
        }
    }

    fn is_off(&mut self) -> bool {
        let Some(enable) = self.entries.find(ENABLE) else {
            return false;
        };
        let is_off = enable.node.value == Tree::Bool(false);
        if is_off {
            let path = self.reader.path(ENABLE);
            self.reader.report.note(enable.value_at(), path, "not started: enable is false", "");
        }
        is_off
    }

    fn is_ours(&mut self) -> bool {
        let path = self.reader.path(TYPE);
        let Some(kind) = self.entries.find(TYPE) else {
            if self.reader.is_broken() {
                // it may stand in a line that could not be read
                return true;
            }
            let at = self.reader.declared_at();
            self.reader.report.warning(at, path, "not started: it has no type", TYPE_ADVICE);
            return false;
        };
        let Some(text) = self.reader.text(kind, TYPE_ADVICE) else {
            return false;
        };
        if TYPES.contains(&text.text.as_str()) {
            return true;
        }
        let (at, report) = (kind.value_at(), &mut self.reader.report);
        let what = format!("not started: {} is not a type of OpenTelemetry", quoted(text.written));
        match suggest::did_you_mean(&text.text, &TYPES) {
            Some(advice) => report.warning(at, path, what, advice),
            None => report.note(at, path, what, ""),
        }
        false
    }

    fn has_transport(&mut self) -> bool {
        match self.reader.transport(&self.entries) {
            Switch::On => {}
            // an error, but read on; it may also stand in a line that could not be read
            Switch::Missing if self.reader.is_broken() => {}
            Switch::Missing => self.reader.missing(Key::Transport.name(), "write transport = \"http\""),
            Switch::Off(at) => {
                let path = self.reader.path(Key::Transport.name());
                self.reader.report.note(at, path, "not started: its transport is disabled", "");
                return false;
            }
        }
        true
    }

    /// Spans unless they are switched off, logs if they are switched on; `false` if nothing would ever be sent.
    fn choose_signals(&mut self, exporter: &mut Exporter) -> bool {
        self.reader.truth(&self.entries, ENABLE);
        let spans = self.reader.truth(&self.entries, ENABLE_SPANS);
        let logs = self.reader.truth(&self.entries, ENABLE_LOGS);

        let mut chosen = Vec::new();
        if spans.is_none_or(|(_, on)| on) {
            chosen.push(Signal::Traces);
        }
        if logs.is_some_and(|(_, on)| on) && !self.is_silenced(exporter) {
            chosen.push(Signal::Logs);
        }
        exporter.signals = Signals::of(&chosen);
        if let Some((at, _)) = logs.or(spans) {
            exporter.record(Key::Signals, self.reader.source(at), None);
        }
        if let (true, Some((at, _))) = (chosen.is_empty(), spans) {
            let path = self.reader.path(ENABLE_SPANS);
            let what = "not started: neither spans nor logs would be sent";
            self.reader.report.warning(at, path, what, "write true, or enable = false");
        }
        !chosen.is_empty()
    }

    /// Whether the level lets no log record pass, beside a switch that wants them sent.
    fn is_silenced(&mut self, exporter: &Exporter) -> bool {
        let Some(level) = self.entries.find(Key::Level.name()).filter(|_| exporter.level == Level::DISABLE)
        else {
            return false;
        };
        let path = self.reader.path(Key::Level.name());
        let fix = "write a level, or enable.log-exporter = false";
        self.reader.report.warning(level.value_at(), path, "no logs are sent", fix);
        true
    }
}
