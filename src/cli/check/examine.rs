//! What does a configuration come to, before an endpoint is probed?

use std::io::{self, Read};
use std::time::Duration;

use standpipe::config::{
    Diagnostic, DiagnosticSeverity, ExporterSummary, ProviderName, Setting, SettingSource,
};
use standpipe::{Config, ConfigError, Exporter, Telemetry};

use super::{STDIN, Subject};

/// What the name of a service begins with if it is not set.
const UNNAMED: &str = "unknown_service";
const SERVICE_NAME: &str = "service-name";
const APPLICATION: &str = "application.";
const SPAN_LIMITS: &str = "span-limits.";
const LOG_LIMITS: &str = "log-limits.";

/// A configuration, read and tried.
#[derive(Debug)]
pub(super) struct Examined {
    /// What is not of one exporter.
    pub(super) general: Vec<General>,
    /// Those that can be used, in their order.
    pub(super) exporters: Vec<(Exporter, ExporterSummary)>,
    pub(super) diagnostics: Vec<Diagnostic>,
    /// What was handed in, to quote from; empty if nothing was.
    pub(super) handed_in: String,
}

/// A setting that is not of one exporter.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct General {
    pub(super) scope: Scope,
    pub(super) setting: Setting,
}

/// What a general setting is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    Everything,
    Provider(ProviderName),
}

impl Examined {
    pub(super) fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(|diagnostic| diagnostic.severity == DiagnosticSeverity::Error)
    }
}

/// Reads the subject and tries what it describes.
///
/// # Errors
/// What was found, if the subject cannot be read at all.
pub(super) fn examine(subject: &Subject) -> Result<Examined, Vec<Diagnostic>> {
    let mut handed_in = Vec::new();
    let read = match subject {
        Subject::File(file) => Config::from_file(file),
        Subject::Stdin => {
            Config::from_reader(STDIN, TeeReader { reader: io::stdin().lock(), kept: &mut handed_in })
        }
        Subject::Environment => Config::from_env(),
    };
    let (config, mut diagnostics) = match read {
        Ok(config) => {
            let diagnostics = config.diagnostics().to_vec();
            (config, diagnostics)
        }
        Err(error) if error.is_unreadable() => return Err(error.diagnostics().to_vec()),
        Err(error) => with_diagnostics(error),
    };
    let mut exporters: Vec<_> = config.exporters().iter().cloned().zip(config.summaries()).collect();
    if let Err(error) = try_out(&exporters) {
        let (usable, more) = with_diagnostics(error);
        diagnostics.extend(more);
        exporters.retain(|(exporter, _)| holds(&usable, exporter));
    }
    let general = general(&config);
    if is_disabled(&general) {
        exporters.clear();
    }
    for (_, summary) in &mut exporters {
        name_honestly(summary, &general);
    }
    let handed_in = String::from_utf8(handed_in).unwrap_or_default();
    Ok(Examined { general, exporters, diagnostics, handed_in })
}

/// A reader that keeps what it reads.
struct TeeReader<'k, R> {
    reader: R,
    kept: &'k mut Vec<u8>,
}

impl<R: Read> Read for TeeReader<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(into)?;
        self.kept.extend_from_slice(&into[..count]);
        Ok(count)
    }
}

fn with_diagnostics(error: ConfigError) -> (Config, Vec<Diagnostic>) {
    let diagnostics = error.diagnostics().to_vec();
    (error.into_usable(), diagnostics)
}

/// Finds what only shows when everything is put together: a certificate that is none, a thread too many.
fn try_out(exporters: &[(Exporter, ExporterSummary)]) -> Result<(), ConfigError> {
    let all = exporters.iter();
    let config = all.fold(Config::new(), |config, (exporter, _)| config.exporter(exporter.clone()));
    Telemetry::start(config)?.shutdown(Duration::ZERO);
    Ok(())
}

fn holds(config: &Config, exporter: &Exporter) -> bool {
    config.exporters().iter().any(|other| other.name() == exporter.name())
}

fn general(config: &Config) -> Vec<General> {
    config.effective().into_iter().map(General::from).collect()
}

impl From<Setting> for General {
    fn from(mut setting: Setting) -> Self {
        let application = setting.key.strip_prefix(APPLICATION);
        let scope = match (application, setting.key) {
            (Some(_), _) => Scope::Provider(ProviderName::Application),
            (None, "disabled" | "self-observation" | "drop-budget") => Scope::Everything,
            (None, key) if key.starts_with(SPAN_LIMITS) || key.starts_with(LOG_LIMITS) => Scope::Everything,
            (None, _) => Scope::Provider(ProviderName::Internal),
        };
        setting.key = application.unwrap_or(setting.key);
        if setting.key == SERVICE_NAME && setting.source == SettingSource::Default {
            // The default is the name of this program, which is not the one that will send.
            setting.value = format!("{UNNAMED}:<your program>");
        }
        Self { scope, setting }
    }
}

/// Whether the environment switches everything off, so that no exporter will be started.
fn is_disabled(general: &[General]) -> bool {
    general.iter().any(|general| general.setting.key == "disabled" && general.setting.value == "true")
}

fn name_honestly(summary: &mut ExporterSummary, general: &[General]) {
    let route = match summary.route {
        Some("application") => ProviderName::Application,
        _ => ProviderName::Internal,
    };
    let is_unnamed = general.iter().any(|General { scope, setting }| {
        *scope == Scope::Provider(route)
            && setting.key == SERVICE_NAME
            && setting.source == SettingSource::Default
    });
    if is_unnamed {
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
        let shown: Vec<(Scope, &str, &str)> = general
            .iter()
            .map(|found| (found.scope, found.setting.key, found.setting.value.as_str()))
            .collect();
        let (internal, own) =
            (Scope::Provider(ProviderName::Internal), Scope::Provider(ProviderName::Application));
        assert!(shown.contains(&(internal, "service-name", "unknown_service:<your program>")), "{shown:?}");
        assert!(shown.contains(&(own, "service-name", "shop")), "{shown:?}");
        assert!(shown.contains(&(Scope::Everything, "self-observation", "true")), "{shown:?}");
        assert!(!is_disabled(&general));
    }

    #[test]
    fn the_name_of_this_tool_is_never_taken_for_the_name_of_the_service() {
        let exporter = Exporter::http("localhost").proxy(Proxy::Off);
        for (config, name) in
            [(Config::new(), "unknown_service"), (Config::new().service_name("shop"), "shop")]
        {
            let config = config.exporter(exporter.clone());
            let mut summary = config.summaries().remove(0);
            name_honestly(&mut summary, &general(&config));
            assert_eq!(summary.service_name, name);
        }
    }
}
