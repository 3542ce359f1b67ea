//! How much one record may carry.

use super::names;
use super::reader::Reader;
use crate::config::few::Few;
use crate::config::{Config, General, Source};

/// Sets the limits where the program did not.
pub(super) fn fill(config: &mut Config, reader: &mut Reader<'_>) {
    let (spans, logs) = (&mut config.span_limits, &mut config.log_limits);
    let mut found = Found { reader, sources: &mut config.sources };
    let counts = [names::SPAN_ATTRIBUTE_COUNT, names::ATTRIBUTE_COUNT];
    found.count(General::SpanAttributes, &mut spans.attributes, &counts);
    found.count(General::SpanEvents, &mut spans.events, &[names::SPAN_EVENT_COUNT]);
    found.count(General::SpanLinks, &mut spans.links, &[names::SPAN_LINK_COUNT]);
    found.count(General::EventAttributes, &mut spans.event_attributes, &[names::EVENT_ATTRIBUTE_COUNT]);
    found.count(General::LinkAttributes, &mut spans.link_attributes, &[names::LINK_ATTRIBUTE_COUNT]);
    let lengths = [names::SPAN_ATTRIBUTE_VALUE_LENGTH, names::ATTRIBUTE_VALUE_LENGTH];
    found.length(General::SpanValueLength, &mut spans.value_length, &lengths);
    let counts = [names::LOG_ATTRIBUTE_COUNT, names::ATTRIBUTE_COUNT];
    found.count(General::LogAttributes, &mut logs.attributes, &counts);
    let lengths = [names::LOG_ATTRIBUTE_VALUE_LENGTH, names::ATTRIBUTE_VALUE_LENGTH];
    found.length(General::LogValueLength, &mut logs.value_length, &lengths);
}

struct Found<'r, 'v> {
    reader: &'r mut Reader<'v>,
    sources: &'r mut Few<General, Source>,
}

impl Found<'_, '_> {
    fn count(&mut self, key: General, limit: &mut u32, names: &[&str]) {
        if let Some(found) = self.first(key, names).and_then(|count| u32::try_from(count).ok()) {
            *limit = found;
        }
    }

    fn length(&mut self, key: General, limit: &mut Option<usize>, names: &[&str]) {
        if let Some(found) = self.first(key, names).and_then(|length| usize::try_from(length).ok()) {
            *limit = Some(found);
        }
    }

    /// Of the variables that mean the same the first one that is set, unless the program has set the limit itself.
    fn first(&mut self, key: General, names: &[&str]) -> Option<u64> {
        if self.sources.get(&key).is_some() {
            return None;
        }
        let most = u64::from(u32::MAX);
        let (name, value) = names.iter().find_map(|name| Some((name, self.reader.count(name, 0..=most)?)))?;
        self.sources.insert(key, Source::Environment((*name).to_owned()));
        Some(value)
    }
}
