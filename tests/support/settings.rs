//! Looking at configurations in tests.

use standpipe::{Config, ConfigError, Exporter};

/// A tracer that works, with more keys below.
pub(crate) fn tracer(keys: &str) -> String {
    format!("[tracer.otel]\ntype = \"otel\"\ntransport = \"http\"\n{keys}\n")
}

/// A setting of the first exporter.
pub(crate) fn value(config: &Config, key: &str) -> String {
    let settings = config.exporters()[0].effective();
    settings.into_iter().find(|setting| setting.key == key).map(|setting| setting.value).expect(key)
}

pub(crate) fn diagnostics(config: &Config) -> Vec<String> {
    config.diagnostics().iter().map(ToString::to_string).collect()
}

pub(crate) fn names(config: &Config) -> Vec<&str> {
    config.exporters().iter().map(Exporter::name).collect()
}

pub(crate) fn refused(text: &str) -> ConfigError {
    Config::from_toml_str(text).expect_err(text)
}
