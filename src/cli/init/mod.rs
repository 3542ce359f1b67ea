//! `standpipe init`: writes a commented configuration file as a starting point.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueHint};

use super::style::{Ink, Style};
use super::text::shell_word;
use super::{Failure, print, print_text};

/// Writes a commented configuration file as a starting point.
///
/// Writes the file and shows how to use it. The command is not interactive and never overwrites a file. If only FILE is
/// given, its extension selects the flavor.
#[derive(Debug, Args)]
#[command(after_help = include_str!("../help/init.txt").trim_ascii_end())]
pub(crate) struct Options {
    /// The flavor of the file: stalwart, tracetest, qualitytrace, otel or env.
    flavor: Option<OsString>,
    /// The file to write; - prints it instead.
    #[arg(value_hint = ValueHint::FilePath)]
    file: Option<OsString>,
    /// Print the file instead of writing it.
    #[arg(long)]
    stdout: bool,
    /// Write the file for this backend.
    #[arg(long = "for", value_name = "BACKEND", value_parser = PossibleValuesParser::new(recipes().map(|it| it.0)))]
    backend: Option<String>,
}

impl Options {
    /// Returns the flavor, and the file to write; `None` to print it.
    ///
    /// # Errors
    /// Returns a message if the operands are invalid.
    fn plan(&self) -> Result<(Flavor, Option<PathBuf>), String> {
        let (flavor, file) = match (&self.flavor, &self.file) {
            (None, _) => (Flavor::default(), None),
            (Some(word), Some(file)) => (Flavor::named(word).ok_or_else(|| unknown(word))?, Some(file)),
            (Some(word), None) => match Flavor::named(word) {
                Some(flavor) => (flavor, None),
                None => (by_file(word)?, Some(word)),
            },
        };
        if self.backend.is_some() && flavor != Flavor::Stalwart {
            return Err(
                "init --for writes TOML; leave out the flavor, and use a name that ends in .toml".to_owned()
            );
        }
        let (name, _, usual_file, ending, _) = flavor.row();
        let file = match (file, self.stdout) {
            (Some(file), _) if file == "-" => None,
            (Some(_), true) => return Err("init takes a FILE or --stdout, not both".to_owned()),
            (None, true) => None,
            (None, false) => Some(PathBuf::from(usual_file)),
            (Some(file), false) => Some(PathBuf::from(file)),
        };
        match &file {
            Some(file) if !flavor.suits(file) => {
                let file = file.display().to_string();
                Err(format!("{file:?} would not be read as flavor {name}; use a name that ends in .{ending}"))
            }
            _ => Ok((flavor, file)),
        }
    }
}

fn by_file(word: &OsString) -> Result<Flavor, String> {
    let file = Path::new(word);
    if word == "-" {
        return Ok(Flavor::default());
    }
    // A single word is more likely a flavor than a file.
    let is_word = file.extension().is_none() && file.components().count() == 1;
    Flavor::by_ending(file).ok_or_else(|| match is_word {
        true => unknown(word),
        false => format!("the extension of {word:?} does not select a flavor; write: init FLAVOR FILE"),
    })
}

fn unknown(word: &OsString) -> String {
    format!("unknown flavor {word:?}; write one of {}", FLAVORS.map(|(name, ..)| name).join(", "))
}

/// Writes a new file and prints the next steps, or prints the file. Fails if the file to write exists.
pub(crate) fn run(options: &Options, style: &Style) -> Result<ExitCode, Failure> {
    let (flavor, file) = options.plan().map_err(Failure::Usage)?;
    let (.., starter) = flavor.row();
    let text = options.backend.as_deref().and_then(recipe).unwrap_or_else(|| starter.to_owned());
    let Some(file) = file else { return print_text(text.trim_end()) };
    write_new(&file, &text).map_err(|error| cannot_write(&file, &error))?;
    print(&next_steps(flavor, &file.display().to_string(), style))?;
    Ok(ExitCode::SUCCESS)
}

/// The template of the files, followed by the recipes. A recipe begins with a line `#: name = title`. The next lines
/// describe its pitfalls, and its tables follow after a blank line.
const RECIPES: &str = include_str!("recipes.toml");

/// Returns name, title and text of each recipe.
fn recipes() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    RECIPES.split("#: ").filter_map(|recipe| {
        let (head, text) = recipe.split_once('\n')?;
        let (name, title) = head.split_once(" = ")?;
        Some((name, title, text.trim_end()))
    })
}

/// Returns the text of the file for a backend.
fn recipe(backend: &str) -> Option<String> {
    let (name, title, text) = recipes().find(|(name, ..)| *name == backend)?;
    let (pitfalls, tables) = text.split_once("\n\n")?;
    // The tables are inserted last, so that a word in them, such as `NAME`, is not replaced as a placeholder.
    let parts = [("TITLE", title), ("NAME", name), ("PITFALLS", pitfalls), ("TABLES", tables)];
    let template = RECIPES.split("#: ").next()?.trim_end().to_owned() + "\n";
    Some(parts.into_iter().fold(template, |text, (place, part)| text.replace(place, part)))
}

/// Writes a new file. Fails if the name exists, even as a dangling symbolic link.
fn write_new(file: &Path, text: &str) -> io::Result<()> {
    let mut new = OpenOptions::new().write(true).create_new(true).open(file)?;
    let written = new.write_all(text.as_bytes());
    if written.is_err() {
        // An incomplete file would prevent the next attempt. It is safe to remove, because `create_new` has created it.
        let _ = fs::remove_file(file);
    }
    written
}

fn cannot_write(file: &Path, error: &io::Error) -> Failure {
    let reason = match error.kind() {
        io::ErrorKind::AlreadyExists => {
            " already exists and is not overwritten; give another name, or --stdout to print the file"
        }
        io::ErrorKind::NotFound => ": there is no such directory",
        io::ErrorKind::PermissionDenied => ": permission denied",
        _ => &format!(": {error}"),
    };
    Failure::Message(format!("{:?}{reason}", file.display().to_string()))
}

fn next_steps(flavor: Flavor, file: &str, style: &Style) -> Vec<String> {
    let (commands, load) = match flavor {
        Flavor::Environment => {
            let source = format!("set -a; . {}; set +a", in_shell(file, "./"));
            (vec![source, "standpipe check --env".to_owned()], "from_env()".to_owned())
        }
        _ => (vec![format!("standpipe check {}", in_shell(file, ""))], format!("from_file({file:?})")),
    };
    let is_yaml = matches!(flavor.row(), (_, _, _, "yaml", _));
    let feature = if is_yaml { ", which needs the feature \"yaml\" of the crate" } else { "" };
    let mut title = style.line();
    title.put(Ink::GOOD.bold(), style.glyph("✓")).space(1);
    title.put(Ink::PLAIN.bold(), file).put(Ink::PLAIN, " is written; read it, then check it:");
    let indented = |text: &str| style.line().space(4).put(Ink::PLAIN, text).finish();
    let mut lines = vec![title.finish(), String::new()];
    lines.extend(commands.iter().map(|command| indented(command)));
    lines.extend([String::new(), format!("and in the program{feature}:"), String::new()]);
    lines.push(indented(&format!("let config = standpipe::Config::{load}?;")));
    lines.push(indented("let telemetry = standpipe::Telemetry::start(config)?;"));
    lines
}

/// Returns the file as one argument for a shell. `here` is put before a name without a directory.
fn in_shell(file: &str, here: &str) -> String {
    // A name such as `-x.toml` would be taken for an option.
    let here = if file.starts_with('-') { "./" } else { here };
    shell_word(&if file.contains('/') { file.to_owned() } else { format!("{here}{file}") })
}

/// Format of the file: that of the program that the variant names, OpenTelemetry's YAML, or environment variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Flavor {
    #[default]
    Stalwart,
    Tracetest,
    Qualitytrace,
    Declarative,
    Environment,
}

/// Name of a flavor, its alias, the default name and the extension of its files, and the text that `init` writes.
type Row = (&'static str, Option<&'static str>, &'static str, &'static str, &'static str);

const FLAVORS: [Row; 5] = [
    ("stalwart", Some("toml"), "telemetry.toml", "toml", include_str!("telemetry.toml")),
    ("tracetest", Some("yaml"), "tracetest.yaml", "yaml", include_str!("tracetest.yaml")),
    ("qualitytrace", None, "qualitytrace.yaml", "yaml", include_str!("qualitytrace.yaml")),
    ("otel", None, "otel.yaml", "yaml", include_str!("otel.yaml")),
    ("env", None, "telemetry.env", "env", include_str!("telemetry.env")),
];

impl Flavor {
    const ALL: [Self; 5] =
        [Self::Stalwart, Self::Tracetest, Self::Qualitytrace, Self::Declarative, Self::Environment];

    fn row(self) -> Row {
        FLAVORS[self as usize]
    }

    fn named(word: &OsString) -> Option<Self> {
        Self::ALL.into_iter().find(|flavor| {
            let (name, alias, ..) = flavor.row();
            word == name || alias.is_some_and(|alias| word == alias)
        })
    }

    /// Returns the first flavor with the extension of this file.
    fn by_ending(file: &Path) -> Option<Self> {
        Self::ALL.into_iter().find(|flavor| flavor.row().3 == ending(file))
    }

    /// Returns whether the extension of the file fits the flavor. A configuration file is read according to its
    /// extension.
    fn suits(self, file: &Path) -> bool {
        let ending = ending(file);
        match self {
            Self::Stalwart => ending != "yaml",
            Self::Tracetest | Self::Qualitytrace | Self::Declarative => ending == "yaml",
            Self::Environment => ending != "toml" && ending != "yaml",
        }
    }
}

/// Returns the extension of a file name in lower case, and `yaml` for `yml`.
fn ending(file: &Path) -> String {
    // For std, `.env` is a name without an extension.
    let ending = if file.ends_with(".env") { Some("env".as_ref()) } else { file.extension() };
    let ending = ending.unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    if ending == "yml" { "yaml".to_owned() } else { ending }
}

#[cfg(test)]
mod tests {
    use super::super::style::plain_style;
    use super::*;

    #[test]
    fn what_to_do_next_can_be_copied() {
        let expected = [
            "✓ telemetry.toml is written; read it, then check it:",
            "",
            "    standpipe check telemetry.toml",
            "",
            "and in the program:",
            "",
            "    let config = standpipe::Config::from_file(\"telemetry.toml\")?;",
            "    let telemetry = standpipe::Telemetry::start(config)?;",
        ];
        assert_eq!(next_steps(Flavor::Stalwart, "telemetry.toml", &plain_style(80)), expected);
        let of_yaml = next_steps(Flavor::Tracetest, "tracetest.yaml", &plain_style(80));
        assert_eq!(of_yaml[4], "and in the program, which needs the feature \"yaml\" of the crate:");
        let of_environment = next_steps(Flavor::Environment, "telemetry.env", &plain_style(80));
        assert_eq!(
            of_environment[2..4],
            ["    set -a; . ./telemetry.env; set +a", "    standpipe check --env"]
        );
        assert_eq!(of_environment[7], "    let config = standpipe::Config::from_env()?;");
    }

    #[test]
    fn every_name_is_one_word_of_a_shell() {
        for (file, word) in [
            ("a.toml", "a.toml"),
            ("-a.toml", "./-a.toml"),
            ("/etc/my shop/a.toml", "'/etc/my shop/a.toml'"),
            ("it's.toml", r"'it'\''s.toml'"),
        ] {
            assert_eq!(in_shell(file, ""), word);
        }
        assert_eq!(in_shell("/etc/a.env", "./"), "/etc/a.env");
    }

    fn options(words: &[&str], stdout: bool) -> Result<(Flavor, Option<PathBuf>), String> {
        let mut words = words.iter().map(OsString::from);
        Options { flavor: words.next(), file: words.next(), stdout, backend: None }.plan()
    }

    #[test]
    fn flavor_and_file_may_be_left_out() {
        let file = |flavor, name: &str| Ok((flavor, Some(PathBuf::from(name))));
        let stdout = |flavor| Ok((flavor, None));
        for (words, is_stdout, expected) in [
            (&[][..], false, file(Flavor::Stalwart, "telemetry.toml")),
            (&["toml"], false, file(Flavor::Stalwart, "telemetry.toml")),
            (&["yaml"], false, file(Flavor::Tracetest, "tracetest.yaml")),
            (&["qualitytrace"], false, file(Flavor::Qualitytrace, "qualitytrace.yaml")),
            (&["env", "shop"], false, file(Flavor::Environment, "shop")),
            (&["shop.toml"], false, file(Flavor::Stalwart, "shop.toml")),
            (&["conf/shop.yml"], false, file(Flavor::Tracetest, "conf/shop.yml")),
            (&[".env"], false, file(Flavor::Environment, ".env")),
            (&[], true, stdout(Flavor::Stalwart)),
            (&["-"], false, stdout(Flavor::Stalwart)),
            (&["env", "-"], false, stdout(Flavor::Environment)),
            (&["env", "-"], true, stdout(Flavor::Environment)),
        ] {
            assert_eq!(options(words, is_stdout), expected, "{words:?}");
        }
    }

    #[test]
    fn mistakes_are_named_and_mended() {
        for (words, is_stdout, message) in [
            (
                &["nagios"][..],
                false,
                "unknown flavor \"nagios\"; write one of stalwart, tracetest, qualitytrace, otel, env",
            ),
            (
                &["shop.conf"],
                false,
                "the extension of \"shop.conf\" does not select a flavor; write: init FLAVOR FILE",
            ),
            (
                &["./shop"],
                false,
                "the extension of \"./shop\" does not select a flavor; write: init FLAVOR FILE",
            ),
            (
                &["ymal", "a.yaml"],
                false,
                "unknown flavor \"ymal\"; write one of stalwart, tracetest, qualitytrace, otel, env",
            ),
            (&["env", "a.env"], true, "init takes a FILE or --stdout, not both"),
            (
                &["toml", "a.yaml"],
                false,
                "\"a.yaml\" would not be read as flavor stalwart; use a name that ends in .toml",
            ),
            (
                &["tracetest", "a"],
                false,
                "\"a\" would not be read as flavor tracetest; use a name that ends in .yaml",
            ),
        ] {
            assert_eq!(options(words, is_stdout), Err(message.to_owned()), "{words:?}");
        }
    }

    #[test]
    fn every_flavor_is_known_by_its_name_and_by_its_file() {
        for flavor in Flavor::ALL {
            let (name, _, file, ..) = flavor.row();
            assert_eq!(Flavor::named(&name.into()), Some(flavor));
            assert!(flavor.suits(file.as_ref()) && Flavor::by_ending(file.as_ref()).is_some(), "{file}");
        }
    }

    #[test]
    fn a_name_that_would_be_read_as_something_else_does_not_suit() {
        for (flavor, file, suits) in [
            (Flavor::Stalwart, "a.yml", false),
            (Flavor::Stalwart, "a.conf", true),
            (Flavor::Tracetest, "a.toml", false),
            (Flavor::Tracetest, "a", false),
            (Flavor::Qualitytrace, "a.YAML", true),
            (Flavor::Environment, ".env", true),
            (Flavor::Environment, "/etc/default/shop", true),
            (Flavor::Environment, "a.toml", false),
        ] {
            assert_eq!(flavor.suits(Path::new(file)), suits, "{flavor:?} in {file}");
        }
    }
}
