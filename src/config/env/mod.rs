//! OpenTelemetry's environment variables.

mod variables;

pub(super) use variables::Variables;

use super::error::{ConfigError, Finding};
use super::{Config, validate};

/// The exporters that the variables describe.
pub(super) fn read(variables: &Variables) -> Result<Config, ConfigError> {
    let mut config = Config::new();
    let findings = fill(&mut config, variables);
    validate::validate(config, findings, &[])
}

/// Sets what neither code nor a file has set; makes no exporter.
pub(super) fn fill(_config: &mut Config, variables: &Variables) -> Vec<Finding> {
    let _ = variables.get("OTEL_SDK_DISABLED");
    Vec::new()
}
