//! How much one record may carry.

use super::names;
use super::reader::Reader;
use crate::config::{Config, General, Source};

/// Sets the limits where the program did not.
pub(super) fn fill(config: &mut Config, reader: &mut Reader<'_>) {
    if config.source(General::SpanLimits) == Source::Default {
        let limits = &mut config.span_limits;
        let mut found = Found { reader, variable: None };
        found.count(&mut limits.attributes, &[names::SPAN_ATTRIBUTE_COUNT, names::ATTRIBUTE_COUNT]);
        found.count(&mut limits.events, &[names::SPAN_EVENT_COUNT]);
        found.count(&mut limits.links, &[names::SPAN_LINK_COUNT]);
        found.count(&mut limits.event_attributes, &[names::EVENT_ATTRIBUTE_COUNT]);
        found.count(&mut limits.link_attributes, &[names::LINK_ATTRIBUTE_COUNT]);
        let lengths = [names::SPAN_ATTRIBUTE_VALUE_LENGTH, names::ATTRIBUTE_VALUE_LENGTH];
        found.length(&mut limits.value_length, &lengths);
        let source = found.variable.map(Source::Environment);
        config.sources.extend(source.map(|source| (General::SpanLimits, source)));
    }
    if config.source(General::LogLimits) == Source::Default {
        let limits = &mut config.log_limits;
        let mut found = Found { reader, variable: None };
        found.count(&mut limits.attributes, &[names::LOG_ATTRIBUTE_COUNT, names::ATTRIBUTE_COUNT]);
        let lengths = [names::LOG_ATTRIBUTE_VALUE_LENGTH, names::ATTRIBUTE_VALUE_LENGTH];
        found.length(&mut limits.value_length, &lengths);
        let source = found.variable.map(Source::Environment);
        config.sources.extend(source.map(|source| (General::LogLimits, source)));
    }
}

struct Found<'r, 'v> {
    reader: &'r mut Reader<'v>,
    /// The last one that set something.
    variable: Option<String>,
}

impl Found<'_, '_> {
    fn count(&mut self, limit: &mut u32, names: &[&str]) {
        if let Some(found) = self.first(names).and_then(|count| u32::try_from(count).ok()) {
            *limit = found;
        }
    }

    fn length(&mut self, limit: &mut Option<usize>, names: &[&str]) {
        if let Some(found) = self.first(names).and_then(|length| usize::try_from(length).ok()) {
            *limit = Some(found);
        }
    }

    /// Of the variables that mean the same the first one that is set.
    fn first(&mut self, names: &[&str]) -> Option<u64> {
        let most = u64::from(u32::MAX);
        let (name, value) = names.iter().find_map(|name| Some((name, self.reader.count(name, 0..=most)?)))?;
        self.variable = Some((*name).to_owned());
        Some(value)
    }
}
