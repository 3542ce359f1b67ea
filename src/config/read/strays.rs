//! Sections that look like ours and have another name, so that nobody reads them.

use super::report::Report;
use super::tracer;
use crate::config::key::Key;
use crate::config::node::{Field, Node};
use crate::config::path::dotted;
use crate::config::section::{EXPORTERS, METRICS, SERVER, TYPE};
use crate::config::{Transport, suggest};

/// Warns of every section that was probably meant to be read. Sections of others are left alone: only what has our
/// keys in it is looked at.
pub(super) fn tell(root: &Node, report: &mut Report<'_>) {
    for section in root.as_table().unwrap_or_default() {
        let fields = section.node.as_table().unwrap_or_default();
        match section.name.as_str() {
            "tracer" | "telemetry" => {}
            "metrics" => tell_of_metrics(fields, report),
            "server" => tell_of_choice(fields, report),
            name if fields.iter().any(|field| field.name == EXPORTERS[1]) => {
                if suggest::nearest(name, &[EXPORTERS[0]]).is_some() {
                    tell_of(report, section, &[name], EXPORTERS[0]);
                }
            }
            name => {
                for field in fields.iter().filter(|field| is_exporter(&field.node)) {
                    let is_metrics = suggest::nearest(name, &[METRICS[0]]).is_some();
                    let meant = if is_metrics { dotted(&METRICS) } else { dotted(&["tracer", &field.name]) };
                    tell_of(report, field, &[name, &field.name], &format!("[{meant}]"));
                }
            }
        }
    }
}

fn tell_of_metrics(fields: &[Field], report: &mut Report<'_>) {
    let is_ours = |field: &&Field| field.name == METRICS[1];
    for field in fields.iter().filter(|field| !is_ours(field) && is_exporter(&field.node)) {
        tell_of(report, field, &[METRICS[0], &field.name], &format!("[{}]", dotted(&METRICS)));
    }
}

fn tell_of_choice(fields: &[Field], report: &mut Report<'_>) {
    for field in fields.iter().filter(|field| field.name != SERVER[1]) {
        let chooses = field.node.get("exporter").or(field.node.get("applicationExporter")).is_some();
        if chooses && suggest::nearest(&field.name, &[SERVER[1]]).is_some() {
            tell_of(report, field, &[SERVER[0], &field.name], &dotted(&SERVER));
        }
    }
}

/// Whether somebody wrote an exporter here.
fn is_exporter(node: &Node) -> bool {
    let text = |name: &str| node.get(name).and_then(|field| field.node.as_text());
    let is_transport = |word: &str| Transport::NAMES.iter().any(|(name, _)| *name == word);
    text(TYPE).is_some_and(|kind| tracer::TYPES.contains(&kind))
        || text(Key::Transport.name()).is_some_and(is_transport) && text(TYPE).is_none()
}

fn tell_of(report: &mut Report<'_>, field: &Field, path: &[&str], meant: &str) {
    let path = dotted(path);
    report.warning(field.at, path, "not read: no section has this name", format!("did you mean {meant}?"));
}
