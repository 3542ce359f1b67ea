//! What do variables set that is not of one exporter? The resource, the sampler, the limits and the switch.

use std::ops::RangeInclusive;

use super::names;
use super::reader::{Reader, what_to_write};
use crate::config::provider::SERVICE_NAME;
use crate::config::sampler::Sampler;
use crate::config::settings::ANY;
use crate::config::settings::general::{self, GeneralKind, GeneralRow};
use crate::config::text::quoted;
use crate::config::values::pairs;
use crate::config::{Config, SettingSource};

const SAMPLERS: [&str; 6] = [
    "always_on",
    "always_off",
    "traceidratio",
    "parentbased_always_on",
    "parentbased_always_off",
    "parentbased_traceidratio",
];
/// Those that ask a server, which this crate does not.
const REMOTE_SAMPLERS: [&str; 3] = ["jaeger_remote", "parentbased_jaeger_remote", "xray"];

/// Sets what neither the program nor a file has set.
pub(super) fn fill(config: &mut Config, reader: &mut Reader<'_>) {
    fill_resource(config, reader);
    check_propagators(reader);
    fill_sampler(config, reader);
    for row in general::rows().filter(|row| config.source(row) == SettingSource::Default).collect::<Vec<_>>()
    {
        let set = row.variables.iter().find(|variable| set(row, variable, config, reader));
        if let Some(variable) = set {
            config.sources.insert(row, SettingSource::Environment((*variable).to_owned()));
        }
    }
}

/// Whether the variable says something that can be used.
fn set(row: &GeneralRow, variable: &str, config: &mut Config, reader: &mut Reader<'_>) -> bool {
    const COUNTS: RangeInclusive<u64> = 0..=u32::MAX as u64;
    let done = match &row.kind {
        GeneralKind::Bool(field) => reader.bool(variable).map(|value| (field.set)(config, value)),
        GeneralKind::Count(field) => {
            let count = reader.count(variable, &COUNTS).and_then(|count| u32::try_from(count).ok());
            count.map(|count| (field.set)(config, count))
        }
        GeneralKind::Length(field) => {
            let length = reader.count(variable, &COUNTS).and_then(|length| usize::try_from(length).ok());
            length.map(|length| (field.set)(config, Some(length)))
        }
        GeneralKind::Duration(field) => {
            reader.duration(variable, &ANY).map(|value| (field.set)(config, value))
        }
    };
    done.is_some()
}

fn fill_resource(config: &mut Config, reader: &mut Reader<'_>) {
    let name = reader.text(names::SERVICE_NAME);
    let attributes = resource_attributes(reader);
    for provider in [&mut config.main, &mut config.application] {
        let has_name = provider.service_name_source() != SettingSource::Default;
        if let Some(name) = name.filter(|_| !has_name) {
            let source = SettingSource::Environment(names::SERVICE_NAME.to_owned());
            provider.set_service_name(name, None, source);
        }
        for (key, value) in &attributes {
            let source = SettingSource::Environment(names::RESOURCE_ATTRIBUTES.to_owned());
            match key.as_str() {
                SERVICE_NAME if has_name || name.is_some() => {}
                SERVICE_NAME => provider.set_service_name(value, None, source),
                key => provider.fill_resource(key, value, source),
            }
        }
    }
}

/// One bad pair discards them all: half a resource would be another one.
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

/// A context reads and writes the headers of W3C wherever the program uses one; so this only says what it must not count on.
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

/// Sets the sampler of every provider that has none.
fn fill_sampler(config: &mut Config, reader: &mut Reader<'_>) {
    let mut open: Vec<_> = [&mut config.main, &mut config.application]
        .into_iter()
        .filter(|provider| *provider.sampler_source() == SettingSource::Default)
        .collect();
    // what is not asked for is not judged
    let Some(sampler) = (!open.is_empty()).then(|| sampler(reader)).flatten() else {
        return;
    };
    for provider in &mut open {
        provider.set_sampler(sampler, None, SettingSource::Environment(names::SAMPLER.to_owned()));
    }
}

fn sampler(reader: &mut Reader<'_>) -> Option<Sampler> {
    let Some(text) = reader.text(names::SAMPLER) else {
        if reader.text(names::SAMPLER_ARG).is_some() {
            let fix = format!("set {} to parentbased_traceidratio", names::SAMPLER);
            reader.warn(names::SAMPLER_ARG, format!("has no effect without {}", names::SAMPLER), fix);
        }
        return None;
    };
    let word = text.to_ascii_lowercase();
    let rule = word.strip_prefix("parentbased_").unwrap_or(&word);
    let sampler = match rule {
        "always_on" => Sampler::always_on(),
        "always_off" => Sampler::always_off(),
        "traceidratio" => Sampler::trace_id_ratio(ratio(reader)),
        _ => {
            let is_remote = REMOTE_SAMPLERS.contains(&word.as_str());
            let problem = if is_remote { "not supported" } else { "not known" };
            let fix = if is_remote {
                "write parentbased_traceidratio".to_owned()
            } else {
                what_to_write(&word, &SAMPLERS)
            };
            reader.ignore(names::SAMPLER, &format!("{} is {problem}", quoted(text)), fix);
            return None;
        }
    };
    Some(if rule == word { sampler } else { sampler.parent_based() })
}

/// All traces unless something else is said.
fn ratio(reader: &mut Reader<'_>) -> f64 {
    let Some(text) = reader.text(names::SAMPLER_ARG) else {
        return 1.0;
    };
    text.parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio)).unwrap_or_else(|| {
        let why = format!("{} is not a share of all traces", quoted(text));
        reader.ignore(names::SAMPLER_ARG, &why, "write 0 to 1, like 0.25");
        1.0
    })
}
