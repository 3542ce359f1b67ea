//! Who speaks, and whether at all.

use super::names;
use super::pairs;
use super::reader::{Reader, what_to_write};
use crate::config::path::quoted;
use crate::config::route::SERVICE_NAME;
use crate::config::{Config, General, Source};

/// Sets what nobody has set: the name, the resource, the switch.
pub(super) fn fill(config: &mut Config, reader: &mut Reader<'_>) {
    fill_resource(config, reader);
    if config.source(General::Disabled) == Source::Default {
        if let Some(disabled) = reader.truth(names::DISABLED) {
            config.disabled = disabled;
            let source = Source::Environment(names::DISABLED.to_owned());
            config.sources.insert(General::Disabled, source);
        }
    }
    check_propagators(reader);
}

fn fill_resource(config: &mut Config, reader: &mut Reader<'_>) {
    let name = reader.text(names::SERVICE_NAME);
    let attributes = resource_attributes(reader);
    for route in [&mut config.main, &mut config.application] {
        let has_name = route.service_name_source() != Source::Default;
        if let Some(name) = name.filter(|_| !has_name) {
            route.set_service_name(name, Source::Environment(names::SERVICE_NAME.to_owned()));
        }
        for (key, value) in &attributes {
            let source = Source::Environment(names::RESOURCE_ATTRIBUTES.to_owned());
            match key.as_str() {
                SERVICE_NAME if has_name || name.is_some() => {}
                SERVICE_NAME => route.set_service_name(value, source),
                key => route.fill_resource(key, value, source),
            }
        }
    }
}

/// One bad pair discards them all: half a resource would be somebody else's.
fn resource_attributes(reader: &mut Reader<'_>) -> Vec<(String, String)> {
    let Some(text) = reader.text(names::RESOURCE_ATTRIBUTES) else {
        return Vec::new();
    };
    pairs::attributes(text).unwrap_or_else(|fault| {
        reader.ignore(
            names::RESOURCE_ATTRIBUTES,
            &format!("{}, so none is set", fault.what),
            fault.fix.clone(),
        );
        Vec::new()
    })
}

/// The program itself hands contexts on, always as W3C has it; so this only says what it must not count on.
fn check_propagators(reader: &mut Reader<'_>) {
    const KNOWN: [&str; 3] = ["tracecontext", "baggage", "none"];
    let text = reader.text(names::PROPAGATORS).unwrap_or_default();
    for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        if !KNOWN.iter().any(|known| known.eq_ignore_ascii_case(word)) {
            let why = format!("{} is not supported", quoted(word));
            reader.ignore(names::PROPAGATORS, &why, what_to_write(word, &KNOWN));
        }
    }
}
