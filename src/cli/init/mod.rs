//! `standpipe init`: writes a commented configuration file to start with.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueHint};

use super::style::{Ink, Style};
use super::text::shell_word;
use super::{Failure, print, print_text};

/// Writes a commented configuration file to begin with.
///
/// Writes the file and shows how to use it. It is not interactive and never overwrites a file. If only FILE is given, its
/// extension selects the flavour.
#[derive(Debug, Args)]
#[command(after_help = "\
Flavours:
  stalwart       TOML with [tracer.<id>] and [metrics.open-telemetry]; telemetry.toml if no FILE
                 is given. This is the default; toml is an alias
  tracetest      YAML with telemetry.exporters and server.telemetry; tracetest.yaml. yaml is
                 an alias
  qualitytrace   the same with Qualitytrace's names; qualitytrace.yaml
  env            OpenTelemetry's environment variables, for a shell, docker or systemd;
                 telemetry.env

Examples:
  standpipe init
  standpipe init env /etc/shop/telemetry.env
  standpipe init tracetest --stdout

Exit code: 0, or 1 if the file exists or cannot be written")]
pub(crate) struct Options {
    /// The flavour of the file: stalwart, tracetest, qualitytrace or env.
    flavour: Option<OsString>,
    /// The file to write; - prints it.
    #[arg(value_hint = ValueHint::FilePath)]
    file: Option<OsString>,
    /// Print the file instead.
    #[arg(long)]
    stdout: bool,
}

impl Options {
    /// Returns the flavour, and the file to write unless it is to be printed.
    ///
    /// # Errors
    /// When the operands are invalid, with the reason.
    fn plan(&self) -> Result<(Flavour, Option<PathBuf>), String> {
        let (flavour, file) = match (&self.flavour, &self.file) {
            (None, _) => (Flavour::default(), None),
            (Some(word), Some(file)) => (Flavour::named(word).ok_or_else(|| unknown(word))?, Some(file)),
            (Some(word), None) => match Flavour::named(word) {
                Some(flavour) => (flavour, None),
                None => (by_file(word)?, Some(word)),
            },
        };
        let (name, _, usual_file, ending, _) = flavour.row();
        let file = match (file, self.stdout) {
            (Some(file), _) if file == "-" => None,
            (Some(_), true) => return Err("init takes a FILE or --stdout, not both".to_owned()),
            (None, true) => None,
            (None, false) => Some(PathBuf::from(usual_file)),
            (Some(file), false) => Some(PathBuf::from(file)),
        };
        match &file {
            Some(file) if !flavour.suits(file) => {
                let file = file.display().to_string();
                Err(format!("{file:?} is no name for the flavour {name}; let it end in .{ending}"))
            }
            _ => Ok((flavour, file)),
        }
    }
}

fn by_file(word: &OsString) -> Result<Flavour, String> {
    let file = Path::new(word);
    if word == "-" {
        return Ok(Flavour::default());
    }
    // A single word is more likely a flavour than a file.
    let is_word = file.extension().is_none() && file.components().count() == 1;
    Flavour::by_ending(file).ok_or_else(|| match is_word {
        true => unknown(word),
        false => format!("{word:?} has no ending that names a flavour; write: init FLAVOUR FILE"),
    })
}

fn unknown(word: &OsString) -> String {
    format!("unknown flavour {word:?}; there are {}", FLAVOURS.map(|(name, ..)| name).join(", "))
}

/// Writes the file, unless it exists, and prints the next steps.
pub(crate) fn run(options: &Options, style: &Style) -> Result<ExitCode, Failure> {
    let (flavour, file) = options.plan().map_err(Failure::Usage)?;
    let (.., starter) = flavour.row();
    let Some(file) = file else { return print_text(starter.trim_end()) };
    write_new(&file, starter).map_err(|error| cannot_write(&file, &error))?;
    print(&next_steps(flavour, &file.display().to_string(), style))?;
    Ok(ExitCode::SUCCESS)
}

/// Fails if there is anything of that name, be it a link to nowhere.
fn write_new(file: &Path, text: &str) -> io::Result<()> {
    let mut new = OpenOptions::new().write(true).create_new(true).open(file)?;
    let written = new.write_all(text.as_bytes());
    if written.is_err() {
        // half a file would be in the way of the next attempt; it is ours, we made it
        let _ = fs::remove_file(file);
    }
    written
}

fn cannot_write(file: &Path, error: &io::Error) -> Failure {
    let reason = match error.kind() {
        io::ErrorKind::AlreadyExists => {
            " exists already and is left as it is; give another name, or --stdout to look at it"
        }
        io::ErrorKind::NotFound => ": there is no such directory",
        io::ErrorKind::PermissionDenied => ": permission denied",
        _ => &format!(": {error}"),
    };
    Failure::Message(format!("{:?}{reason}", file.display().to_string()))
}

fn next_steps(flavour: Flavour, file: &str, style: &Style) -> Vec<String> {
    let (commands, load) = match flavour {
        Flavour::Environment => {
            let source = format!("set -a; . {}; set +a", in_shell(file, "./"));
            (vec![source, "standpipe check --env".to_owned()], "from_env()".to_owned())
        }
        _ => (vec![format!("standpipe check {}", in_shell(file, ""))], format!("from_file({file:?})")),
    };
    let feature = match flavour {
        Flavour::Tracetest | Flavour::Qualitytrace => ", which needs the feature \"yaml\" of the crate",
        Flavour::Stalwart | Flavour::Environment => "",
    };
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

/// The file as one argument in a shell; `here` is put before a name without a directory.
fn in_shell(file: &str, here: &str) -> String {
    let here = if file.starts_with('-') { "./" } else { here };
    shell_word(&if file.contains('/') { file.to_owned() } else { format!("{here}{file}") })
}

/// The program whose configuration layout the file follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Flavour {
    #[default]
    Stalwart,
    Tracetest,
    Qualitytrace,
    Environment,
}

/// The name of each flavour, another name, the name of its file, the ending that such files have, and the commented file to
/// start with.
type Row = (&'static str, Option<&'static str>, &'static str, &'static str, &'static str);

const FLAVOURS: [Row; 4] = [
    ("stalwart", Some("toml"), "telemetry.toml", "toml", include_str!("telemetry.toml")),
    ("tracetest", Some("yaml"), "tracetest.yaml", "yaml", include_str!("tracetest.yaml")),
    ("qualitytrace", None, "qualitytrace.yaml", "yaml", include_str!("qualitytrace.yaml")),
    ("env", None, "telemetry.env", "env", include_str!("telemetry.env")),
];

impl Flavour {
    const ALL: [Self; 4] = [Self::Stalwart, Self::Tracetest, Self::Qualitytrace, Self::Environment];

    fn row(self) -> Row {
        FLAVOURS[self as usize]
    }

    fn named(word: &OsString) -> Option<Self> {
        Self::ALL.into_iter().find(|flavour| {
            let (name, alias, ..) = flavour.row();
            word == name || alias.is_some_and(|alias| word == alias)
        })
    }

    /// Returns the first flavour whose files have the ending of this one.
    fn by_ending(file: &Path) -> Option<Self> {
        let ending = ending(file);
        Self::ALL.into_iter().find(|flavour| matches!(flavour.row(), (_, _, _, own, _) if own == ending))
    }

    /// Returns false for a name by which the file would be read as another flavour: the ending decides.
    fn suits(self, file: &Path) -> bool {
        let ending = ending(file);
        match self {
            Self::Stalwart => ending != "yaml",
            Self::Tracetest | Self::Qualitytrace => ending == "yaml",
            Self::Environment => ending != "toml" && ending != "yaml",
        }
    }
}

/// Returns the ending of a file name in lower case, `yaml` for `yml`.
fn ending(file: &Path) -> String {
    // For std, `.env` is a name without an ending.
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
        assert_eq!(next_steps(Flavour::Stalwart, "telemetry.toml", &plain_style(80)), expected);
        let of_yaml = next_steps(Flavour::Tracetest, "tracetest.yaml", &plain_style(80));
        assert_eq!(of_yaml[4], "and in the program, which needs the feature \"yaml\" of the crate:");
        let of_environment = next_steps(Flavour::Environment, "telemetry.env", &plain_style(80));
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

    fn options(words: &[&str], stdout: bool) -> Result<(Flavour, Option<PathBuf>), String> {
        let mut words = words.iter().map(OsString::from);
        Options { flavour: words.next(), file: words.next(), stdout }.plan()
    }

    #[test]
    fn flavour_and_file_may_be_left_out() {
        let file = |flavour, name: &str| Ok((flavour, Some(PathBuf::from(name))));
        let stdout = |flavour| Ok((flavour, None));
        for (words, is_stdout, expected) in [
            (&[][..], false, file(Flavour::Stalwart, "telemetry.toml")),
            (&["toml"], false, file(Flavour::Stalwart, "telemetry.toml")),
            (&["yaml"], false, file(Flavour::Tracetest, "tracetest.yaml")),
            (&["qualitytrace"], false, file(Flavour::Qualitytrace, "qualitytrace.yaml")),
            (&["env", "shop"], false, file(Flavour::Environment, "shop")),
            (&["shop.toml"], false, file(Flavour::Stalwart, "shop.toml")),
            (&["conf/shop.yml"], false, file(Flavour::Tracetest, "conf/shop.yml")),
            (&[".env"], false, file(Flavour::Environment, ".env")),
            (&[], true, stdout(Flavour::Stalwart)),
            (&["-"], false, stdout(Flavour::Stalwart)),
            (&["env", "-"], false, stdout(Flavour::Environment)),
            (&["env", "-"], true, stdout(Flavour::Environment)),
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
                "unknown flavour \"nagios\"; there are stalwart, tracetest, qualitytrace, env",
            ),
            (
                &["shop.conf"],
                false,
                "\"shop.conf\" has no ending that names a flavour; write: init FLAVOUR FILE",
            ),
            (&["./shop"], false, "\"./shop\" has no ending that names a flavour; write: init FLAVOUR FILE"),
            (
                &["ymal", "a.yaml"],
                false,
                "unknown flavour \"ymal\"; there are stalwart, tracetest, qualitytrace, env",
            ),
            (&["env", "a.env"], true, "init takes a FILE or --stdout, not both"),
            (
                &["toml", "a.yaml"],
                false,
                "\"a.yaml\" is no name for the flavour stalwart; let it end in .toml",
            ),
            (&["tracetest", "a"], false, "\"a\" is no name for the flavour tracetest; let it end in .yaml"),
        ] {
            assert_eq!(options(words, is_stdout), Err(message.to_owned()), "{words:?}");
        }
    }

    #[test]
    fn every_flavour_is_known_by_its_name_and_by_its_file() {
        for flavour in Flavour::ALL {
            let (name, _, file, ..) = flavour.row();
            assert_eq!(Flavour::named(&name.into()), Some(flavour));
            assert!(flavour.suits(file.as_ref()) && Flavour::by_ending(file.as_ref()).is_some(), "{file}");
        }
    }

    #[test]
    fn a_name_that_would_be_read_as_something_else_does_not_suit() {
        for (flavour, file, suits) in [
            (Flavour::Stalwart, "a.yml", false),
            (Flavour::Stalwart, "a.conf", true),
            (Flavour::Tracetest, "a.toml", false),
            (Flavour::Tracetest, "a", false),
            (Flavour::Qualitytrace, "a.YAML", true),
            (Flavour::Environment, ".env", true),
            (Flavour::Environment, "/etc/default/shop", true),
            (Flavour::Environment, "a.toml", false),
        ] {
            assert_eq!(flavour.suits(Path::new(file)), suits, "{flavour:?} in {file}");
        }
    }
}
