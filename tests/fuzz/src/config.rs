//! Invariants of every configuration, whatever text it was read from.

use standpipe::config::{Diagnostic, DiagnosticSeverity};
use standpipe::{Config, ConfigError};

/// Text that no output may contain. It is only used in the place of secrets.
pub const SECRET: &str = "hunter2secret";
/// A variable that holds the secret, for `%{env:FUZZ}%`.
const VARIABLE: &str = "FUZZ";
/// The tracer in the part of a text that is not fuzzed, with a header `Authorization`.
pub const KEPT: &str = "kept";

/// Inputs up to this length are also tried as single values.
pub const MAX_VALUE_LEN: usize = 200;

/// The part of a text that is not fuzzed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Frame {
    Nothing,
    /// The tracer [`KEPT`]. Whatever text surrounds this tracer, it must not be started without its header.
    Tracer,
}

/// How the lines of a text are counted.
#[derive(Clone, Copy)]
pub enum Lines {
    /// As in TOML: a line ends with a line feed.
    Toml,
    /// As in YAML: a line ends with a line feed or a carriage return.
    Yaml,
    /// There is no text, so a diagnostic has no location.
    None,
}

/// Checks that the variable holds the secret; must be called before any configuration is read.
pub fn prepare() {
    let is_set = std::env::var(VARIABLE).is_ok_and(|value| value == SECRET);
    assert!(is_set, "start with the variable {VARIABLE}={SECRET}, as tests/fuzz/run does");
}

/// Returns the text of an input, unless it would make the reader wait for a device, or contains the secret.
pub fn text_of(input: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(input).ok()?;
    let is_shown_already = text.to_ascii_lowercase().contains(SECRET);
    let leads_to_devices = ["/proc", "/sys", "/dev"].iter().any(|place| text.contains(place));
    (!is_shown_already && !leads_to_devices).then_some(text)
}

/// Returns any text as a string that is valid in TOML, JSON and YAML.
pub fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            _ if character.is_control() || !character.is_ascii() => {
                quoted += &format!("\\U{:08X}", u32::from(character));
            }
            _ => quoted.push(character),
        }
    }
    quoted + "\""
}

/// Reads a text twice and checks the results.
pub fn check(text: &str, frame: Frame, lines: Lines, read: impl Fn() -> Result<Config, ConfigError>) {
    let first = read();
    let told = said(&first);
    // One comparison for each input is enough.
    if frame == Frame::Nothing {
        assert!(told == said(&read()), "read twice, told differently: {told}");
    }
    assert!(!told.contains(SECRET), "shows a secret: {told}");
    let diagnostics = match &first {
        Ok(config) => config.diagnostics(),
        Err(error) => error.diagnostics(),
    };
    check_diagnostics(diagnostics, text, lines);
    let has_error = diagnostics.iter().any(|diagnostic| diagnostic.severity == DiagnosticSeverity::Error);
    assert_eq!(has_error, first.is_err(), "an error without an error, or the reverse");
    // Without the broken exporters there may be new diagnostics.
    check_usable(first.unwrap_or_else(ConfigError::into_usable), frame, has_error);
}

/// Asserts that every location is in the text, or at the end of one of its lines.
fn check_diagnostics(diagnostics: &[Diagnostic], text: &str, counted: Lines) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines: Vec<&str> = match counted {
        Lines::Toml => text.split('\n').collect(),
        Lines::Yaml => {
            let unix = text.replace("\r\n", " \n");
            return check_places(diagnostics, &unix.split(['\n', '\r']).collect::<Vec<_>>());
        }
        Lines::None => Vec::new(),
    };
    check_places(diagnostics, &lines);
}

fn check_places(diagnostics: &[Diagnostic], lines: &[&str]) {
    for diagnostic in diagnostics {
        assert!(!diagnostic.what.is_empty(), "says nothing: {diagnostic:?}");
        let Some(place) = &diagnostic.location else { continue };
        let is_in_text = place
            .line
            .checked_sub(1)
            .and_then(|line| lines.get(line))
            .is_some_and(|line| (1..=line.chars().count() + 1).contains(&place.column));
        assert!(is_in_text, "not in the text: {diagnostic}");
    }
}

/// Asserts that the configuration can be started, if necessary without its broken exporters.
fn check_usable(config: Config, frame: Frame, may_tell_more: bool) {
    for summary in config.summaries() {
        let json = serde_json::to_string(&summary).expect("a summary is plain data");
        assert!(!json.contains(SECRET), "shows a secret: {json}");
        let is_kept = frame == Frame::Tracer && summary.id == KEPT && summary.route.is_none();
        let has_lost_header = is_kept && !summary.headers.iter().any(|name| name == "authorization");
        assert!(!has_lost_header, "would be started without its headers: {json}");
        assert!(!summary.signals.is_empty(), "sends nothing: {json}");
    }
    let told = config.diagnostics().len();
    match config.with_environment() {
        Ok(again) => {
            let is_told = may_tell_more || again.diagnostics().len() == told;
            assert!(is_told, "told something new: {:?}", again.diagnostics());
        }
        Err(error) => panic!("what is usable is not: {error}"),
    }
}

/// Returns everything that is shown of a configuration.
fn said(outcome: &Result<Config, ConfigError>) -> String {
    let mut said = String::new();
    let config = match outcome {
        Ok(config) => config.clone(),
        Err(error) => {
            said += &format!("{error}\n{error:?}\n{:?}\n{}\n", error.diagnostics(), error.is_unreadable());
            error.clone().into_usable()
        }
    };
    said += &format!(
        "{config:?}\n{:?}\n{:?}\n{:?}\n",
        config.diagnostics(),
        config.effective(),
        config.summaries()
    );
    for exporter in config.exporters() {
        said += &format!("{exporter:?}\n{:?}\n{:?}\n", exporter.effective(), exporter.endpoints());
    }
    said
}
