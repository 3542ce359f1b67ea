//! Which traces are kept.

use super::names;
use super::reader::{Reader, what_to_write};
use crate::config::path::quoted;
use crate::config::sampler::Sampler;
use crate::config::{Config, Source};

const WORDS: [&str; 6] = [
    "always_on",
    "always_off",
    "traceidratio",
    "parentbased_always_on",
    "parentbased_always_off",
    "parentbased_traceidratio",
];
/// Those that ask a server, which this crate does not.
const REMOTE: [&str; 3] = ["jaeger_remote", "parentbased_jaeger_remote", "xray"];

/// Sets the sampler of every route that has none.
pub(super) fn fill(config: &mut Config, reader: &mut Reader<'_>) {
    let mut open: Vec<_> = [&mut config.main, &mut config.application]
        .into_iter()
        .filter(|route| *route.sampler_source() == Source::Default)
        .collect();
    // what is not asked for is not judged
    let Some(sampler) = (!open.is_empty()).then(|| read(reader)).flatten() else {
        return;
    };
    for route in &mut open {
        route.set_sampler(sampler, None, Source::Environment(names::SAMPLER.to_owned()));
    }
}

fn read(reader: &mut Reader<'_>) -> Option<Sampler> {
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
            let is_remote = REMOTE.contains(&word.as_str());
            let problem = if is_remote { "not supported" } else { "not known" };
            let fix = if is_remote {
                "write parentbased_traceidratio".to_owned()
            } else {
                what_to_write(&word, &WORDS)
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
