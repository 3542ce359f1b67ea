//! How does a file or a text become a configuration?

use std::io::Read;
use std::path::Path;

#[cfg(doc)]
use crate::config::Exporter;
use crate::config::env::Variables;
use crate::config::error::{ConfigError, DiagnosticSeverity, Fault, Location, Words};
use crate::config::node::{Document, Mistake, Node, Tree};
use crate::config::read::expand::{MAX_FILE_BYTES, Surroundings, read_at_most, read_bounded};
use crate::config::section::{FIRST_NAMES, Owner};
#[cfg(feature = "yaml")]
use crate::config::yaml;
use crate::config::{Config, read, toml};

impl Config {
    /// Reads a file: YAML if its name ends in `.yaml` or `.yml`, which needs the `yaml` feature, else TOML.
    ///
    /// Three kinds of sections become exporters, and others are ignored: every `[tracer.<id>]` of type `open-telemetry` or
    /// `otel` (spans and logs), `[metrics.open-telemetry]`, and the `telemetry.exporters.<name>` that `server.telemetry`
    /// chooses. `[telemetry]` names and describes the program. The [guide](crate::guide::configuration) has every key with its
    /// default. What the file leaves open is set as [`with_environment`](Self::with_environment) does. Paths start at the
    /// directory of the file.
    ///
    /// [`diagnostics`](Self::diagnostics) lists what was noticed without being an error, such as an unknown key, or that there
    /// is none of these sections.
    ///
    /// # Errors
    ///
    /// Every error in the file at once, together with what is usable without the broken exporters. A file that
    /// cannot be read, is not UTF-8, is larger than 1 MiB or is YAML in a build without it is [unreadable](ConfigError::is_unreadable).
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        read_file(path.as_ref())
    }

    /// Reads the same from a stream, such as standard input: TOML, or YAML if it is that. Places in it are shown as
    /// `name:line:column`, and paths in it start at the working directory; all else is as for a file.
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
    /// As [`from_file`](Self::from_file).
    pub fn from_reader(name: &str, mut reader: impl Read) -> Result<Self, ConfigError> {
        let cannot = |what: String| unreadable(name, unfit(what));
        let bytes = read_at_most(&mut reader).map_err(|error| cannot(format!("cannot read: {error}")))?;
        let bytes = bytes.ok_or_else(|| cannot("larger than 1 MiB".to_owned()))?;
        read_bytes(name, bytes, None, Path::new(""))
    }

    /// Reads the same from text; places in it are shown as `<toml>:line:column`, and paths in it start at the
    /// working directory. The environment is asked for what `%{env:NAME}%` names, and for nothing else.
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
    /// As [`from_file`](Self::from_file).
    pub fn from_toml_str(text: &str) -> Result<Self, ConfigError> {
        read_text(text, Format::Toml)
    }

    /// Reads the same from YAML, as [`from_toml_str`](Self::from_toml_str); places in it are shown as
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
    /// As [`from_file`](Self::from_file).
    #[cfg(feature = "yaml")]
    pub fn from_yaml_str(text: &str) -> Result<Self, ConfigError> {
        read_text(text, Format::Yaml)
    }
}

/// Reads a file; paths in it start at its directory.
fn read_file(path: &Path) -> Result<Config, ConfigError> {
    let name = path.display().to_string();
    let bytes =
        read_bounded(path).map_err(|cause| unreadable(&name, unfit(format!("cannot read: {cause}"))))?;
    read_bytes(&name, bytes, Some(Format::of(path)), path.parent().unwrap_or(Path::new("")))
}

/// `format` is what the name says, if there is one that says it.
fn read_bytes(
    name: &str,
    bytes: Vec<u8>,
    format: Option<Format>,
    directory: &Path,
) -> Result<Config, ConfigError> {
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..valid].iter().filter(|&&byte| byte == b'\n').count() + 1;
        unreadable(name, unfit(format!("not UTF-8 in line {line}")))
    })?;
    let assumed = format.unwrap_or_else(|| Format::guess(&text));
    let mut document = assumed.parse(name, &text)?;
    if assumed.is_mistaken(&document, &text) {
        match format {
            Some(format) => format.report_other_format(&mut document),
            None => document = assumed.other().parse(name, &text)?,
        }
    }
    read::read(document, &Surroundings::new(directory), &Variables::of_process())
}

/// Reads text; paths in it start at the working directory, and the environment is not asked.
fn read_text(text: &str, format: Format) -> Result<Config, ConfigError> {
    let name = match format {
        Format::Toml => "<toml>",
        Format::Yaml => "<yaml>",
    };
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(unreadable(name, unfit("larger than 1 MiB")));
    }
    read::read(format.parse(name, text)?, &Surroundings::new(""), &Variables::default())
}

/// What a text is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Toml,
    Yaml,
}

impl Format {
    /// YAML is known by its extension; everything else is TOML.
    fn of(path: &Path) -> Self {
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let is_yaml = ["yaml", "yml"].iter().any(|known| known.eq_ignore_ascii_case(extension));
        if is_yaml { Self::Yaml } else { Self::Toml }
    }

    /// Guesses the format of a text without a name: TOML begins with `[table]` or `key = value`.
    fn guess(text: &str) -> Self {
        let is_toml = |(_, line): (usize, &str)| line.starts_with('[') || line.contains('=');
        if first_line(text).is_none_or(is_toml) { Self::Toml } else { Self::Yaml }
    }

    fn other(self) -> Self {
        match self {
            Self::Toml => Self::Yaml,
            Self::Yaml => Self::Toml,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Toml => "TOML",
            Self::Yaml => "YAML",
        }
    }

    /// Whether a text that is wrong in this format is right in the other.
    fn is_mistaken(self, document: &Document<'_>, text: &str) -> bool {
        if document.mistakes.is_empty() && document.root.as_table().is_some() {
            return false;
        }
        let has_sections = |root: &Node| FIRST_NAMES.iter().any(|name| root.get(name).is_some());
        self.other().parse("", text).is_ok_and(|other| other.mistakes.is_empty() && has_sections(&other.root))
    }

    /// One mistake, the name of the file, in place of one in every line.
    fn report_other_format(self, document: &mut Document<'_>) {
        let (own, other) = (self.name(), self.other().name());
        let fault = Fault::new(
            format!("this is {other}, but by its name the file is {own}"),
            format!("let its name end in .{}", other.to_ascii_lowercase()),
        );
        let diagnostic = fault.found(DiagnosticSeverity::Error, Some(document.places.location(0)), "");
        document.mistakes = vec![Mistake { owner: Owner::Unknown, diagnostic }];
        document.root.value = Tree::Null;
    }

    /// # Errors
    ///
    /// If this build cannot read the format, or the text is one of variables.
    fn parse<'d>(self, file: &'d str, text: &'d str) -> Result<Document<'d>, ConfigError> {
        if let Some(line) = line_of_a_shell(text) {
            let location = Location { file: file.to_owned(), line, column: 1 };
            let fix = "set them, and read them with Config::from_env or standpipe check --env";
            let fault = Fault::new("these are environment variables", fix);
            let diagnostic = fault.found(DiagnosticSeverity::Error, Some(location), "");
            return Err(ConfigError::new(vec![diagnostic], Config::new()));
        }
        match self {
            Self::Toml => Ok(toml::parse(file, text)),
            #[cfg(feature = "yaml")]
            Self::Yaml => Ok(yaml::parse(file, text)),
            #[cfg(not(feature = "yaml"))]
            Self::Yaml => {
                let fix = "build standpipe with its feature \"yaml\", or write the same as TOML";
                Err(unreadable(file, Fault::new("this build cannot read YAML", fix)))
            }
        }
    }
}

fn unfit(what: impl Into<Words>) -> Fault {
    Fault::new(what, "name a readable file of TOML or YAML, at most 1 MiB")
}

/// Returns the number and the text of the first line that is neither empty nor a comment.
fn first_line(text: &str) -> Option<(usize, &str)> {
    // files begin with comments, but not for ever
    const MOST_BLANK_LINES: usize = 1_000;
    let is_blank = |line: &str| line.is_empty() || line.starts_with('#');
    let mut lines = (1..).zip(text.lines().map(str::trim)).take(MOST_BLANK_LINES);
    lines.find(|(_, line)| !is_blank(line))
}

/// The first line that says something, if that is what a shell reads: as TOML every line of it would be a mistake.
fn line_of_a_shell(text: &str) -> Option<usize> {
    let (line, first) = first_line(text)?;
    let is_shell = first.starts_with("export ") || first.starts_with("OTEL_") && first.contains('=');
    is_shell.then_some(line)
}

fn unreadable(file: &str, fault: Fault) -> ConfigError {
    let location = Location { file: file.to_owned(), line: 1, column: 1 };
    ConfigError::unreadable(fault.found(DiagnosticSeverity::Error, Some(location), ""))
}
