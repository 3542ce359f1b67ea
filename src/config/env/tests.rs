//! What a variable is set to, and what comes of it.

mod filling;
mod mistakes;
mod program;
mod sharing;
mod values;

use std::time::Duration;

use super::*;
use crate::config::Exporter;
use crate::config::sampler::Sampler;
use crate::record::{LogLimits, Signal, SpanLimits};

fn ids(config: &Config) -> Vec<&str> {
    config.exporters().iter().map(Exporter::name).collect()
}

fn findings(config: &Config) -> Vec<String> {
    config.findings().iter().map(ToString::to_string).collect()
}

/// Everything that can be seen of a configuration, a line for each setting.
fn settings(config: &Config) -> Vec<String> {
    let of_exporter = |exporter: &Exporter| {
        let id = exporter.name().to_owned();
        exporter.effective().into_iter().map(move |setting| format!("{id}: {setting}"))
    };
    let general = config.effective().into_iter().map(|setting| setting.to_string());
    config.exporters().iter().flat_map(of_exporter).chain(general).collect()
}

#[track_caller]
fn sound(variables: &[(&str, &str)]) -> Config {
    match Config::from_variables(variables.iter().copied()) {
        Ok(config) => config,
        Err(error) => panic!("{variables:?}: {error}"),
    }
}

#[track_caller]
fn refused(variables: &[(&str, &str)]) -> ConfigError {
    Config::from_variables(variables.iter().copied()).expect_err("a broken exporter")
}

/// Without a word about it, each of these settings is there.
#[track_caller]
fn assert_set(variables: &[(&str, &str)], expected: &[&str]) {
    let config = sound(variables);
    let settings = settings(&config);
    for line in expected {
        assert!(settings.iter().any(|setting| setting == line), "{variables:?}: {line} not in {settings:#?}");
    }
    assert_eq!(findings(&config), [""; 0], "{variables:?}");
}

/// The variable is as good as not set, and that is said.
#[track_caller]
fn assert_ignored(name: &str, value: &str, message: &str) {
    let config = sound(&[(name, value)]);
    assert_eq!(findings(&config), [format!("warning: {name}: {message}")], "{value:?}");
    let (with, without) = (settings(&config), settings(&sound(&[])));
    assert_eq!(with, without, "{name}={value}");
}
