//! `telemetry.exporters.<name>`: who speaks, how many traces are kept, and where they go.

use std::time::Duration;

use super::{BELOW_IT, given, tell_of_unknown};
use crate::config::error::Fault;
use crate::config::expand::Surroundings;
use crate::config::key::Key;
use crate::config::node::{Field, Node};
use crate::config::path::dotted;
use crate::config::read::report::Report;
use crate::config::read::value::{self, Text, Unusable};
use crate::config::sampler::Sampler;
use crate::config::section::Section;
use crate::config::{Exporter, RouteSettings, Source, Transport};

const SERVICE_NAME: &str = "serviceName";
const SAMPLING: &str = "sampling";
const INTERVAL: &str = "metricsReaderInterval";
const EXPORTER: &str = "exporter";
const TYPE: &str = "type";
const COLLECTOR: &str = "collector";
const ENDPOINT: &str = "endpoint";
const KEYS: [&str; 4] = [SERVICE_NAME, SAMPLING, INTERVAL, EXPORTER];

/// What such a file leaves open is its own default, not ours.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(10);

/// Reads one exporter that a route has chosen.
pub(super) struct ExporterReader<'r, 'd> {
    pub(super) section: &'r Section,
    pub(super) declared_at: usize,
    pub(super) surroundings: &'r Surroundings,
    pub(super) report: &'r mut Report<'d>,
}

impl<'r> ExporterReader<'r, '_> {
    /// The exporter, and what is its route's; `None` if it is no table. What cannot be taken over is reported.
    pub(super) fn read(mut self, node: &Node) -> Option<(Exporter, RouteSettings)> {
        let path = dotted(&self.section.path());
        let Some(fields) = node.as_table() else {
            self.report.wrong_type(Some(self.section), path, node, BELOW_IT);
            return None;
        };
        let declared = self.report.location(self.declared_at);
        let mut exporter = Exporter::of_route(self.section.exporter_id(), path, declared);
        let settings = self.settings(fields);
        self.interval(fields, &mut exporter);
        self.destination(fields, &mut exporter);
        tell_of_unknown(self.report, fields, &self.section.path(), &KEYS);
        Some((exporter, settings))
    }

    fn settings(&mut self, fields: &[Field]) -> RouteSettings {
        let mut settings = RouteSettings::default();
        settings.set_sampler(Sampler::trace_id_ratio(1.0), Some(100.0), Source::Default);
        if let Some(field) = given(fields, SERVICE_NAME) {
            match value::loose_text(&field.node, self.surroundings) {
                Ok(name) if name.text.is_empty() => {}
                Ok(value::Text { written, text, is_secret }) => {
                    let source = self.report.source(field.node.at);
                    match is_secret {
                        true => settings.set_secret_service_name(&text, written, source),
                        false => settings.set_service_name(&text, source),
                    }
                }
                Err(unusable) => {
                    self.refuse(&[SERVICE_NAME], &field.node, "write a name like shop", unusable);
                }
            }
        }
        if let Some(field) = given(fields, SAMPLING) {
            match value::percent(&field.node, self.surroundings) {
                Ok(percent) => {
                    let percent = percent.clamp(0.0, 100.0);
                    // the same division as in the programs that this is read for, so that both keep the same traces
                    let sampler = Sampler::trace_id_ratio(percent / 100.0);
                    settings.set_sampler(sampler, Some(percent), self.report.source(field.node.at));
                }
                Err(unusable) => self.refuse(&[SAMPLING], &field.node, value::PERCENT_ADVICE, unusable),
            }
        }
        settings
    }

    fn interval(&mut self, fields: &[Field], exporter: &mut Exporter) {
        exporter.push.interval = DEFAULT_INTERVAL;
        let Some(field) = given(fields, INTERVAL) else { return };
        match value::go_duration(&field.node, self.surroundings) {
            Ok(interval) => {
                exporter.push.interval = interval;
                exporter.record(Key::Interval, self.report.source(field.node.at), None);
            }
            Err(unusable) => self.refuse(&[INTERVAL], &field.node, "write a duration like 10s", unusable),
        }
    }

    /// `exporter.type` and `exporter.collector.endpoint`.
    fn destination(&mut self, fields: &[Field], exporter: &mut Exporter) {
        exporter.set_transport(Transport::Grpc, Source::Default);
        let inner = self.table(fields, &[EXPORTER]);
        self.kind(inner.unwrap_or_default(), exporter);
        let Some(inner) = inner else { return };
        tell_of_unknown(self.report, inner, &self.below(&[EXPORTER]), &[TYPE, COLLECTOR]);
        let Some(collector) = self.table(inner, &[EXPORTER, COLLECTOR]) else { return };
        tell_of_unknown(self.report, collector, &self.below(&[EXPORTER, COLLECTOR]), &[ENDPOINT]);
        let Some(field) = given(collector, ENDPOINT) else { return };
        match value::text(&field.node, self.surroundings) {
            Ok(Text { written, text, is_secret }) => {
                exporter.set_endpoint(text, is_secret.then_some(written), self.report.source(field.node.at));
            }
            Err(unusable) => {
                let path = [EXPORTER, COLLECTOR, ENDPOINT];
                self.refuse(&path, &field.node, "write an address like localhost:4317", unusable);
            }
        }
    }

    /// `exporter.type`, of which there is one kind that all of these programs know.
    fn kind(&mut self, fields: &[Field], exporter: &mut Exporter) {
        const ADVICE: &str = "write type: collector";
        let path = [EXPORTER, TYPE];
        let Some(field) = given(fields, TYPE) else {
            let path = dotted(&self.below(&path));
            self.report.error(Some(self.section), self.declared_at, path, "missing", ADVICE);
            return;
        };
        match value::text(&field.node, self.surroundings) {
            Ok(text) if text.text == COLLECTOR => {
                exporter.set_transport(Transport::Grpc, self.report.source(field.node.at));
            }
            Ok(text) => {
                let fault = text.fault(Fault::new("is not known", ADVICE));
                self.refuse(&path, &field.node, ADVICE, fault.into());
            }
            Err(unusable) => self.refuse(&path, &field.node, ADVICE, unusable),
        }
    }

    /// The table under the last of some keys.
    fn table<'t>(&mut self, fields: &'t [Field], path: &[&'static str]) -> Option<&'t [Field]> {
        let field = given(fields, path.last()?)?;
        let inner = field.node.as_table();
        if inner.is_none() {
            let path = dotted(&self.below(path));
            self.report.wrong_type(Some(self.section), path, &field.node, BELOW_IT);
        }
        inner
    }

    fn refuse(&mut self, path: &[&'static str], node: &Node, advice: &'static str, unusable: Unusable) {
        self.report.refuse(self.section, dotted(&self.below(path)), node, advice, unusable);
    }

    /// A path of the document.
    fn below(&self, path: &[&'r str]) -> Vec<&'r str> {
        let section: &'r Section = self.section;
        [&section.path()[..], path].concat()
    }
}
