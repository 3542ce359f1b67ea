//! Where did the spans of a trace come from? A line for each service: its scopes and its resource.

use std::collections::{HashMap, HashSet};

use super::{Drawing, Trace, WITH_BARS, WITH_SERVICES};
use crate::cli::describe::{self, SpanView};
use crate::cli::style::Ink;

/// Scopes named for a service; the rest is counted.
const MOST_SCOPES: usize = 4;

impl<'a> Drawing<'_, 'a> {
    pub(super) fn origins(&self, trace: &Trace<'a>, lines: &mut Vec<String>) {
        let mut services: Vec<(&str, Vec<&SpanView<'a>>)> = Vec::new();
        let mut places: HashMap<&str, usize> = HashMap::new();
        for (_, view) in trace.in_order().filter(|(_, view)| !view.is_past) {
            places.entry(view.service).or_insert_with(|| {
                services.push((view.service, Vec::new()));
                services.len() - 1
            });
        }
        for view in trace.spans.iter().filter(|view| !view.is_past) {
            if let Some(&place) = places.get(view.service) {
                services[place].1.push(view);
            }
        }
        for (service, spans) in services {
            self.origin(service, &spans, lines);
        }
    }

    fn origin(&self, service: &str, spans: &[&SpanView<'a>], lines: &mut Vec<String>) {
        let Some(first) = spans.first() else { return };
        let resource: Vec<_> =
            first.resource.iter().filter(|attribute| attribute.key != "service.name").cloned().collect();
        let ink = self.palette.ink(service);
        let mut pieces = vec![(Ink::FAINT, "from".to_owned(), 0)];
        // where there is no room for names, this is what the marks mean
        if (WITH_BARS..WITH_SERVICES).contains(&self.style.width) {
            pieces.push((ink, self.palette.mark(service, self.style), 0));
        }
        pieces.push((ink, if service.is_empty() { "an unnamed service" } else { service }.to_owned(), 0));
        let named = pieces.len();
        pieces.extend(scopes(spans, self.options.full).into_iter().map(|scope| (Ink::FAINT, scope, 0)));
        let attributes = describe::telling(&resource, self.options.full);
        let has_content = pieces.len() > named || attributes.iter().any(|text| !text.starts_with('+'));
        if has_content || self.style.width < WITH_SERVICES {
            pieces.extend(attributes.into_iter().map(|text| (Ink::FAINT, text, 0)));
            self.flow(&[], &pieces, lines);
        }
    }
}

/// `scope shop 1.4`, or as many as there are.
fn scopes(spans: &[&SpanView<'_>], full: bool) -> Option<String> {
    let mut known = HashSet::new();
    let named = spans.iter().filter(|view| !view.scope.is_empty());
    let new = named.filter(|view| known.insert((view.scope, view.scope_version)));
    let mut scopes: Vec<String> =
        new.map(|view| format!("{} {}", view.scope, view.scope_version).trim_end().to_owned()).collect();
    let what = if scopes.len() == 1 { "scope" } else { "scopes" };
    let listed = if full { scopes.len() } else { MOST_SCOPES };
    let more = scopes.len().checked_sub(listed).filter(|more| *more > 0);
    let more = more.map(|more| format!(" +{more}")).unwrap_or_default();
    scopes.truncate(listed);
    (!scopes.is_empty()).then(|| format!("{what} {}{more}", scopes.join(", ")))
}
