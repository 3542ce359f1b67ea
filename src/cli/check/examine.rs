//! Reads a configuration and starts it on trial, before any endpoint is probed.

use std::io::{self, Read};
use std::time::Duration;

use standpipe::config::{
    Diagnostic, DiagnosticSeverity, ExporterSummary, ProviderName, Setting, SettingSource,
};
use standpipe::{Config, ConfigError, Exporter, Telemetry};

use super::{STDIN, Subject};

/// Prefix of the default service name.
const UNNAMED: &str = "unknown_service";
pub(super) const SERVICE_NAME: &str = "service-name";
/// Prefix of the settings of the application's provider.
const APPLICATION: &str = "application.";
/// Maximum bytes read from standard input. The library's limit is lower, so the library refuses input that is cut here.
const MAX_HANDED_IN: u64 = 2 << 20;
/// Prefixes of the keys that apply to the exporters of both providers.
const OF_BOTH_PROVIDERS: [&str; 5] =
    ["disabled", "self-observation", "drop-budget", "span-limits.", "log-limits."];

/// Provider that a setting belongs to; `None` if the setting applies to both providers.
pub(super) type Scope = Option<ProviderName>;

/// A configuration that was read and started on trial.
#[derive(Debug)]
pub(super) struct Examined {
    /// Settings that do not belong to a single exporter.
    pub(super) general: Vec<(Scope, Setting)>,
    /// Usable exporters, in the order of the configuration.
    pub(super) exporters: Vec<(Exporter, ExporterSummary)>,
    pub(super) diagnostics: Vec<Diagnostic>,
    /// Text of standard input, for quotations; empty for other subjects.
    pub(super) handed_in: String,
}

impl Examined {
    pub(super) fn count(&self, severity: DiagnosticSeverity) -> usize {
        self.diagnostics.iter().filter(|diagnostic| diagnostic.severity == severity).count()
    }
}

/// Reads the subject and starts the configuration on trial.
///
/// # Errors
/// Returns the diagnostics if the subject cannot be read.
pub(super) fn examine(subject: &Subject) -> Result<Examined, Vec<Diagnostic>> {
    let mut handed_in = Vec::new();
    let (config, mut diagnostics) = match read(subject, &mut handed_in) {
        Ok(config) => {
            let diagnostics = config.diagnostics().to_vec();
            (config, diagnostics)
        }
        Err(error) if error.is_unreadable() => return Err(error.diagnostics().to_vec()),
        Err(error) => with_diagnostics(error),
    };
    let mut exporters: Vec<_> = config.exporters().iter().cloned().zip(config.summaries()).collect();
    // Exporters that cannot be started are reported and removed.
    if let Err(error) = try_out(&exporters) {
        let (usable, more) = with_diagnostics(error);
        diagnostics.extend(more);
        exporters.retain(|(exporter, _)| usable.exporters().iter().any(|it| it.name() == exporter.name()));
    }
    let general = general(&config);
    // OTEL_SDK_DISABLED prevents the start of all exporters.
    if general.iter().any(|(_, setting)| setting.key == "disabled" && setting.value == "true") {
        exporters.clear();
    }
    for (_, summary) in &mut exporters {
        hide_own_name(summary, &general);
    }
    let handed_in = String::from_utf8(handed_in).unwrap_or_default();
    Ok(Examined { general, exporters, diagnostics, handed_in })
}

/// Reads the subject. Standard input is copied to `handed_in`.
pub(super) fn read(subject: &Subject, handed_in: &mut Vec<u8>) -> Result<Config, ConfigError> {
    match subject {
        Subject::File(file) => Config::from_file(file),
        Subject::Stdin => {
            let mut stdin = io::stdin().lock();
            match stdin.by_ref().take(MAX_HANDED_IN).read_to_end(handed_in) {
                Ok(_) => Config::from_reader(STDIN, &handed_in[..]),
                // `from_reader` reads again, gets the same error, and reports it as a diagnostic.
                Err(_) => Config::from_reader(STDIN, stdin),
            }
        }
        Subject::Environment => Config::from_env(),
    }
}

fn with_diagnostics(error: ConfigError) -> (Config, Vec<Diagnostic>) {
    let diagnostics = error.diagnostics().to_vec();
    (error.into_usable(), diagnostics)
}

/// Finds problems that occur only when telemetry starts, such as an invalid certificate or a failed thread start.
fn try_out(exporters: &[(Exporter, ExporterSummary)]) -> Result<(), ConfigError> {
    let all = exporters.iter();
    let config = all.fold(Config::new(), |config, (exporter, _)| config.exporter(exporter.clone()));
    Telemetry::start(config)?.shutdown(Duration::ZERO);
    Ok(())
}

/// Returns the settings that do not belong to a single exporter, with their scopes. The prefix `application.` is
/// removed from the keys.
pub(super) fn general(config: &Config) -> Vec<(Scope, Setting)> {
    let scoped = |mut setting: Setting| {
        let application = setting.key.strip_prefix(APPLICATION);
        let scope = match application {
            Some(_) => Some(ProviderName::Application),
            None if OF_BOTH_PROVIDERS.iter().any(|key| setting.key.starts_with(key)) => None,
            None => Some(ProviderName::Internal),
        };
        setting.key = application.unwrap_or(setting.key);
        if is_unnamed(&setting) {
            // The default name is derived from the running program, which is `standpipe` and not the user's program.
            setting.value = format!("{UNNAMED}:<your program>");
        }
        (scope, setting)
    };
    config.effective().into_iter().map(scoped).collect()
}

fn is_unnamed(setting: &Setting) -> bool {
    setting.key == SERVICE_NAME && setting.source == SettingSource::Default
}

/// Replaces a default service name, which is derived from this program, with [`UNNAMED`].
fn hide_own_name(summary: &mut ExporterSummary, general: &[(Scope, Setting)]) {
    let route = match summary.route {
        Some("application") => ProviderName::Application,
        _ => ProviderName::Internal,
    };
    if general.iter().any(|(scope, setting)| *scope == Some(route) && is_unnamed(setting)) {
        UNNAMED.clone_into(&mut summary.service_name);
    }
}

#[cfg(test)]
mod tests {
    use standpipe::Application;
    use standpipe::config::Proxy;

    use super::*;

    #[test]
    fn settings_are_sorted_by_their_scope() {
        let application = Application::new().service_name("shop").exporter(Exporter::http("localhost"));
        let config = Config::new().self_observation(true).application(application);
        let general = general(&config);
        let shown: Vec<(Scope, &str, &str)> =
            general.iter().map(|(scope, setting)| (*scope, setting.key, setting.value.as_str())).collect();
        for expected in [
            (Some(ProviderName::Internal), "service-name", "unknown_service:<your program>"),
            (Some(ProviderName::Application), "service-name", "shop"),
            (None, "self-observation", "true"),
        ] {
            assert!(shown.contains(&expected), "{shown:?}");
        }
    }

    #[test]
    fn the_name_of_this_tool_is_never_taken_for_the_name_of_the_service() {
        let exporter = Exporter::http("localhost").proxy(Proxy::Off);
        for (config, name) in
            [(Config::new(), "unknown_service"), (Config::new().service_name("shop"), "shop")]
        {
            let config = config.exporter(exporter.clone());
            let mut summary = config.summaries().remove(0);
            hide_own_name(&mut summary, &general(&config));
            assert_eq!(summary.service_name, name);
        }
    }
}
