//! Reads configuration files: TOML or YAML text is parsed to a document, whose sections become exporters and providers.
//!
//! ```text
//! file, stream, text → Format → Document → program, tracers, metrics, providers → Exporter, ProviderSettings
//!                                   └──────────────────┴───────────────→ diagnostics, each with its location
//! ```

#[cfg(feature = "yaml")]
pub(super) mod declarative;
mod program;
mod stalwart;
mod table;
mod tracetest;
pub(super) mod value;

use std::io::Read;
use std::path::Path;

use self::table::Report;
use self::value::{MAX_FILE_BYTES, ReadError, Resolver, read_at_most, read_bounded, wrong_type};
use super::env::{self, Variables};
use super::error::{ConfigError, Configured, Diagnostic, DiagnosticSeverity, Fault, Location};
use super::node::{Document, Mistake, Node, Places, Tree};
use super::section::{EXPORTERS, FIRST_NAMES, METRICS, Owner, SERVER, Section};
#[cfg(feature = "yaml")]
use super::yaml;
use super::{Config, Exporter, toml, validate};

impl Config {
    /// Reads a file: as YAML if its name ends in `.yaml` or `.yml` (needs the `yaml` feature), otherwise as TOML.
    ///
    /// Three kinds of sections become exporters: every `[tracer.<id>]` of type `open-telemetry` or `otel` (spans and
    /// logs), `[metrics.open-telemetry]`, and each `telemetry.exporters.<name>` that `server.telemetry` selects.
    /// `[telemetry]` describes the program. Other sections are ignored. The [guide](crate::guide::configuration) lists
    /// every key with its default. Settings that are not in the file are filled from the environment, as
    /// [`with_environment`](Self::with_environment) does. Relative paths in the file start at its directory.
    ///
    /// [`diagnostics`](Self::diagnostics) lists warnings and notes, such as an unknown key or a file without any of
    /// these sections.
    ///
    /// # Errors
    ///
    /// Returns an error if the file has an invalid setting or cannot be read. The [`ConfigError`] contains all
    /// diagnostics and the usable exporters. Its [`is_unreadable`](ConfigError::is_unreadable) is true if the file
    /// cannot be read, is not UTF-8, is larger than 1 MiB, or is YAML in a build without the `yaml` feature.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        let path = path.as_ref();
        let name = path.display().to_string();
        let bytes = read_bounded(path).map_err(|error| unreadable(&name, error))?;
        read_bytes(&name, bytes, Some(Format::of(path)), path.parent().unwrap_or(Path::new("")))
    }

    /// Reads a configuration from a stream, such as standard input, as [`from_file`](Self::from_file) does. The format
    /// is detected. Locations are shown as `name:line:column`, and relative paths start at the working directory.
    ///
    /// ```
    /// use standpipe::Config;
    ///
    /// let stdin = "[tracer.otel]\ntype = 'otel'\ntransport = 'http'\n".as_bytes();
    /// let config = Config::from_reader("<stdin>", stdin)?;
    /// assert_eq!(config.exporters()[0].effective()[0].to_string(), "transport = http (<stdin>:3:13)");
    /// # Ok::<(), standpipe::ConfigError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`from_file`](Self::from_file).
    pub fn from_reader(name: &str, mut reader: impl Read) -> Result<Self, ConfigError> {
        let bytes = read_at_most(&mut reader).map_err(|error| unreadable(name, error))?;
        read_bytes(name, bytes, None, Path::new(""))
    }

    /// Reads TOML text, as [`from_file`](Self::from_file) does. Locations are shown as `<toml>:line:column`, and
    /// relative paths start at the working directory. Only references such as `%{env:NAME}%` read the environment.
    ///
    /// ```
    /// use standpipe::Config;
    ///
    /// let config = Config::from_toml_str(
    ///     r#"
    ///     [tracer.otel]
    ///     type = "open-telemetry"
    ///     transport = "http"
    ///     endpoint = "http://localhost:4318"
    ///     throttle = "500ms"
    ///     "#,
    /// )?;
    /// assert_eq!(config.exporters()[0].effective()[4].to_string(), "throttle = 500ms (<toml>:6:16)");
    /// # Ok::<(), standpipe::ConfigError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`from_file`](Self::from_file).
    pub fn from_toml_str(text: &str) -> Result<Self, ConfigError> {
        read_text("<toml>", text, Format::Toml)
    }

    /// Reads YAML text, as [`from_toml_str`](Self::from_toml_str) reads TOML. Locations are shown as
    /// `<yaml>:line:column`.
    ///
    /// ```
    /// use standpipe::Config;
    ///
    /// let config = Config::from_yaml_str(
    ///     "
    ///     telemetry:
    ///       exporters:
    ///         collector:
    ///           serviceName: shop
    ///           sampling: 10
    ///           exporter: { type: collector, collector: { endpoint: 'otel-collector:4317' } }
    ///     server:
    ///       telemetry:
    ///         exporter: collector
    ///     ",
    /// )?;
    /// assert_eq!(config.summaries()[0].endpoints["traces"], "http://otel-collector:4317");
    /// # Ok::<(), standpipe::ConfigError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`from_file`](Self::from_file).
    #[cfg(feature = "yaml")]
    pub fn from_yaml_str(text: &str) -> Result<Self, ConfigError> {
        read_text("<yaml>", text, Format::Yaml)
    }
}

/// Reads the bytes of a file; `format` is the format of its extension, or `None` for a stream.
fn read_bytes(name: &str, bytes: Vec<u8>, format: Option<Format>, directory: &Path) -> Configured {
    let text = to_text(bytes).map_err(|error| unreadable(name, error))?;
    // A stream whose format was guessed wrong is parsed again in the other format. A file with the wrong extension is
    // reported.
    let mut assumed = format.unwrap_or_else(|| Format::guess(&text));
    let mut document = assumed.parse(name, &text)?;
    let is_mistaken = assumed.is_mistaken(&document, &text);
    if is_mistaken && format.is_some() {
        assumed.report_other_format(&mut document);
    } else if is_mistaken {
        assumed = assumed.other();
        document = assumed.parse(name, &text)?;
    }
    assumed.read(document, &Resolver::new(directory), &Variables::of_process())
}

/// Reads the file that `OTEL_CONFIG_FILE` names, which must be OpenTelemetry's declarative configuration.
#[cfg(feature = "yaml")]
pub(super) fn read_declarative(path: &str, variables: &Variables) -> Configured {
    let text = read_bounded(Path::new(path)).and_then(to_text).map_err(|error| unreadable(path, error))?;
    let directory = Path::new(path).parent().unwrap_or(Path::new(""));
    declarative::read(path, &text, &Resolver::new(directory), variables)
}

fn to_text(bytes: Vec<u8>) -> Result<String, ReadError> {
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        ReadError::NotUtf8(error.as_bytes()[..valid].iter().filter(|&&byte| byte == b'\n').count() + 1)
    })
}

/// Reads text without filling settings from the environment. Relative paths start at the working directory.
fn read_text(name: &str, text: &str, format: Format) -> Configured {
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(unreadable(name, ReadError::TooLarge));
    }
    format.read(format.parse(name, text)?, &Resolver::new(""), &Variables::default())
}

/// The section that every configuration of the OpenTelemetry Collector has.
const PIPELINES: [&str; 2] = ["service", "pipelines"];

/// The syntax of a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Toml,
    Yaml,
}

impl Format {
    /// Returns the format of a file by its extension: YAML for `yaml` and `yml`, otherwise TOML.
    fn of(path: &Path) -> Self {
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let is_yaml = ["yaml", "yml"].iter().any(|known| known.eq_ignore_ascii_case(extension));
        if is_yaml { Self::Yaml } else { Self::Toml }
    }

    /// Guesses the format of a stream by its first line: TOML begins with `[table]` or `key = value`.
    fn guess(text: &str) -> Self {
        // The value of a YAML key may contain an equals sign, too.
        let is_toml = |(_, line): (usize, &str)| {
            line.starts_with('[') || line.find([':', '=']).is_some_and(|at| line[at..].starts_with('='))
        };
        if first_line(text).is_none_or(is_toml) { Self::Toml } else { Self::Yaml }
    }

    fn other(self) -> Self {
        if self == Self::Toml { Self::Yaml } else { Self::Toml }
    }

    /// Returns whether a text with errors in this format is a valid configuration in the other format.
    fn is_mistaken(self, document: &Document<'_>, text: &str) -> bool {
        if document.mistakes.is_empty() && document.root.as_table().is_some() {
            return false;
        }
        let mut names = FIRST_NAMES.iter().chain(&["file_format"]);
        // A text may be valid in the other format by accident. That format was meant only if the text has a section or
        // key that we know.
        let mut has_sections =
            |it: &Node| it.at(&PIPELINES).is_some() || names.any(|name| it.get(name).is_some());
        self.other().parse("", text).is_ok_and(|other| other.mistakes.is_empty() && has_sections(&other.root))
    }

    /// Replaces all syntax errors by one about the name of the file.
    fn report_other_format(self, document: &mut Document<'_>) {
        let (own, other) = if self == Self::Toml { ("TOML", "YAML") } else { ("YAML", "TOML") };
        let fault = Fault::new(
            format!("the file contains {other}, but its name means {own}"),
            format!("rename it to end in .{}", other.to_ascii_lowercase()),
        );
        let diagnostic = fault.error(Some(document.places.location(0)), "");
        document.mistakes = vec![Mistake { owner: Owner::Unknown, diagnostic }];
        // Nothing is read from the file, so that a few lines that happen to parse do not take effect.
        document.root.value = Tree::Null;
    }

    /// Reads a parsed text. The declarative dialect is parsed again, because only it substitutes `${NAME}` during
    /// parsing.
    fn read(self, document: Document<'_>, resolver: &Resolver, variables: &Variables) -> Configured {
        #[cfg(feature = "yaml")]
        if self == Self::Yaml && document.root.get(declarative::FILE_FORMAT).is_some() {
            return declarative::read(document.places.file, document.places.text, resolver, variables);
        }
        read(document, resolver, variables)
    }

    /// # Errors
    ///
    /// Returns an error if this build cannot read the format, or if the text is a list of environment variables.
    fn parse<'d>(self, file: &'d str, text: &'d str) -> Result<Document<'d>, ConfigError> {
        // Checked first, because the TOML parser would report every line of a shell script.
        let is_shell =
            |first: &str| first.starts_with("export ") || first.starts_with("OTEL_") && first.contains('=');
        if let Some((line, _)) = first_line(text).filter(|(_, first)| is_shell(first)) {
            let location = Location { file: file.to_owned(), line, column: 1 };
            let fix = "set them, and read them with Config::from_env or standpipe check --env";
            let fault = Fault::new("these are environment variables", fix);
            return Err(ConfigError::new(vec![fault.error(Some(location), "")], Config::new()));
        }
        // Some editors write a byte order mark, which must not count as a character of the first line.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        match self {
            Self::Toml => Ok(toml::parse(file, text)),
            #[cfg(feature = "yaml")]
            Self::Yaml => Ok(yaml::parse(file, text)),
            #[cfg(not(feature = "yaml"))]
            Self::Yaml => Err(unreadable(file, ReadError::NoYaml)),
        }
    }
}

/// Returns the number and the text of the first line that is neither empty nor a comment.
fn first_line(text: &str) -> Option<(usize, &str)> {
    // Bounds the search in a file that contains only comments.
    const MAX_BLANK_LINES: usize = 1_000;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = (1..).zip(text.lines().map(str::trim)).take(MAX_BLANK_LINES);
    lines.find(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

fn unreadable(file: &str, error: ReadError) -> ConfigError {
    let (what, line, fix) = match &error {
        #[cfg(not(feature = "yaml"))]
        ReadError::NoYaml => {
            (error.to_string(), 1, "build standpipe with its feature \"yaml\", or write the file as TOML")
        }
        ReadError::NotUtf8(line) => (error.to_string(), *line, "save the file as UTF-8"),
        _ => (format!("cannot read: {error}"), 1, "name a readable file of TOML or YAML, at most 1 MiB"),
    };
    let location = Location { file: file.to_owned(), line, column: 1 };
    ConfigError::unreadable(Fault::new(what, fix).error(Some(location), ""), error)
}

/// Returns the configuration that a document describes. Unset settings are filled from the variables.
pub(super) fn read(document: Document<'_>, resolver: &Resolver, variables: &Variables) -> Configured {
    let Document { mut root, mistakes, places } = document;
    let has_mistakes = !mistakes.is_empty();
    // If the document has no known section, a syntax error may have hidden one. Such a syntax error is reported as an
    // error, not as a warning about a section of another program.
    let is_ours = FIRST_NAMES.iter().any(|name| root.get(name).is_some());
    let mut report = Report::new(resolver, &places, mistakes, !is_ours);
    if !matches!(root.value, Tree::Table(_) | Tree::Null) {
        report.error(None, root.at, String::new(), wrong_type(&root, "write keys and their values"));
    }
    // Variables replace values first, so that a diagnostic about such a value names the variable.
    tracetest::apply_overrides(&mut root, variables, &mut report);
    let mut found = Found { report, config: Config::new(), exporters: Vec::new() };
    found.read_tracers(&root);
    found.read_metrics(&root);
    found.read_program(&root);
    found.read_providers(&root);
    let has_misnamed_sections = stalwart::warn_about_misnamed_sections(&root, &mut found.report);
    // The functions above read one kind of section each. Restore the order of the file.
    found.exporters.sort_by_cached_key(|(at, ..)| *at);

    let Found { report, mut config, exporters } = found;
    let is_broken = |index: &usize| report.is_broken(&exporters[*index].1);
    let broken: Vec<usize> = (0..exporters.len()).filter(is_broken).collect();
    config.exporters = exporters.into_iter().map(|(_, _, exporter)| exporter).collect();
    let mut diagnostics = report.diagnostics.into_diagnostics();
    // A missing exporter needs no diagnostic if a syntax error or a misnamed section explains its absence.
    let is_error = |diagnostic: &Diagnostic| diagnostic.severity == DiagnosticSeverity::Error;
    let is_explained = has_mistakes || has_misnamed_sections || diagnostics.iter().any(is_error);
    let has_tracers = root.at(&["tracer"]).and_then(Node::as_table).is_some_and(|all| !all.is_empty());
    // A section for an exporter counts even if it is disabled.
    let is_described = has_tracers || [METRICS, EXPORTERS, SERVER].iter().any(|path| root.at(path).is_some());
    if !is_explained && !is_described {
        diagnostics.push(nothing_described(&root, &places));
    }
    diagnostics.extend(env::fill(&mut config, variables));
    validate::validate(config, diagnostics, &broken)
}

fn nothing_described(root: &Node, places: &Places<'_>) -> Diagnostic {
    if root.at(&PIPELINES).is_some() {
        let what =
            "this is a configuration of the OpenTelemetry Collector, which receives what programs send";
        let fix = "configure the program: standpipe init writes a file, whose endpoint is the Collector's otlp receiver";
        return Fault::new(what, fix).error(Some(places.location(0)), "");
    }
    let what = "describes no exporter: there is no tracer.<id> with type = \"open-telemetry\", no \
                metrics.open-telemetry, and no telemetry.exporters with server.telemetry";
    Fault::new(what, "standpipe init writes a file to begin with").warning(Some(places.location(0)), "")
}

/// The state of reading a document.
struct Found<'d> {
    report: Report<'d>,
    /// Configuration without exporters.
    config: Config,
    /// Exporters with their places and sections.
    exporters: Vec<(usize, Section, Exporter)>,
}
