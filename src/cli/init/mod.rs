//! `standpipe init`: writes a commented configuration file to start with.

use std::ffi::{OsStr, OsString};
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

/// What to write, and where.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    flavour: Flavour,
    target: Target,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Target {
    File(PathBuf),
    Stdout,
}

impl Options {
    /// Without a flavour, the file's extension selects it.
    ///
    /// # Errors
    /// When the operands are invalid, with the reason.
    fn plan(&self) -> Result<Plan, String> {
        let (flavour, file) = match (self.flavour.clone(), self.file.clone()) {
            (None, _) => (Flavour::default(), None),
            (Some(word), None) => match Flavour::named(&word.to_string_lossy()) {
                Some(flavour) => (flavour, None),
                None => (by_file(&word)?, Some(word)),
            },
            (Some(word), file) => {
                let word = word.to_string_lossy();
                (Flavour::named(&word).ok_or_else(|| unknown(&word))?, file)
            }
        };
        let target = match (file, self.stdout) {
            (Some(file), _) if file == "-" => Target::Stdout,
            (Some(_), true) => return Err("init takes a FILE or --stdout, not both".to_owned()),
            (None, true) => Target::Stdout,
            (None, false) => Target::File(flavour.file().into()),
            (Some(file), false) => Target::File(file.into()),
        };
        if let Target::File(file) = &target {
            suits(flavour, file)?;
        }
        Ok(Plan { flavour, target })
    }
}

fn by_file(word: &OsString) -> Result<Flavour, String> {
    let file = Path::new(word);
    if word == "-" {
        return Ok(Flavour::default());
    }
    // a single word is more likely a flavour than a file
    let is_word = file.extension().is_none() && file.components().count() == 1;
    Flavour::by_ending(file).ok_or_else(|| {
        let shown = word.to_string_lossy();
        if is_word {
            unknown(&shown)
        } else {
            format!("{shown:?} has no ending that names a flavour; write: init FLAVOUR FILE")
        }
    })
}

fn suits(flavour: Flavour, file: &Path) -> Result<(), String> {
    flavour.suits(file).map_err(|ending| {
        let name = flavour.name();
        let file = file.display().to_string();
        format!("{file:?} is no name for the flavour {name}; let it end in {ending}")
    })
}

fn unknown(word: &str) -> String {
    format!("unknown flavour {word:?}; there are {}", FLAVOURS.map(|(_, name, ..)| name).join(", "))
}

/// Writes the file, unless it exists, and prints the next steps.
pub(crate) fn run(options: &Options, style: &Style) -> Result<ExitCode, Failure> {
    let plan = options.plan().map_err(Failure::Usage)?;
    let starter = plan.flavour.starter();
    let file = match &plan.target {
        Target::Stdout => return print_text(starter.trim_end()),
        Target::File(file) => file,
    };
    write_new(file, starter).map_err(|error| cannot_write(file, &error))?;
    print(&next_steps(plan.flavour, &file.display().to_string(), style))?;
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
    let file = file.display().to_string();
    Failure::Message(match error.kind() {
        io::ErrorKind::AlreadyExists => {
            format!(
                "{file:?} exists already and is left as it is; give another name, or --stdout to look at it"
            )
        }
        io::ErrorKind::NotFound => format!("{file:?}: there is no such directory"),
        io::ErrorKind::PermissionDenied => format!("{file:?}: permission denied"),
        _ => format!("{file:?}: {error}"),
    })
}

fn next_steps(flavour: Flavour, file: &str, style: &Style) -> Vec<String> {
    let (commands, load) = match flavour {
        Flavour::Environment => (
            vec![format!("set -a; . {}; set +a", in_shell(file, "./")), "standpipe check --env".to_owned()],
            "standpipe::Config::from_env()?".to_owned(),
        ),
        _ => (
            vec![format!("standpipe check {}", in_shell(file, ""))],
            format!("standpipe::Config::from_file({file:?})?"),
        ),
    };
    let mut title = style.line();
    title.put(Ink::GOOD.bold(), style.glyph("✓")).space(1);
    title.put(Ink::PLAIN.bold(), file).put(Ink::PLAIN, " is written; read it, then check it:");
    let indented = |text: &str| {
        let mut line = style.line();
        line.space(4).put(Ink::PLAIN, text);
        line.finish()
    };
    let mut lines = vec![title.finish(), String::new()];
    lines.extend(commands.iter().map(|command| indented(command)));
    let with = match flavour {
        Flavour::Tracetest | Flavour::Qualitytrace => ", which needs the feature \"yaml\" of the crate:",
        Flavour::Stalwart | Flavour::Environment => ":",
    };
    lines.extend([String::new(), format!("and in the program{with}"), String::new()]);
    lines.push(indented(&format!("let config = {load};")));
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

/// Each flavour with its name, another name for it if there is one, the name of its file, and the commented file to start with.
const FLAVOURS: [(Flavour, &str, Option<&str>, &str, &str); 4] = [
    (Flavour::Stalwart, "stalwart", Some("toml"), "telemetry.toml", include_str!("telemetry.toml")),
    (Flavour::Tracetest, "tracetest", Some("yaml"), "tracetest.yaml", include_str!("tracetest.yaml")),
    (Flavour::Qualitytrace, "qualitytrace", None, "qualitytrace.yaml", include_str!("qualitytrace.yaml")),
    (Flavour::Environment, "env", None, "telemetry.env", include_str!("telemetry.env")),
];

impl Flavour {
    fn named(word: &str) -> Option<Self> {
        let is_named = |alias: Option<&str>, name| word == name || alias == Some(word);
        FLAVOURS.iter().find(|(_, name, alias, ..)| is_named(*alias, *name)).map(|(flavour, ..)| *flavour)
    }

    fn name(self) -> &'static str {
        FLAVOURS[self as usize].1
    }

    /// The name of its file unless another one is given.
    fn file(self) -> &'static str {
        FLAVOURS[self as usize].3
    }

    fn starter(self) -> &'static str {
        FLAVOURS[self as usize].4
    }

    /// The one that a file of this name most likely is.
    fn by_ending(file: &Path) -> Option<Self> {
        match Ending::of(file) {
            Ending::Toml => Some(Self::Stalwart),
            Ending::Yaml => Some(Self::Tracetest),
            Ending::Env => Some(Self::Environment),
            Ending::Other => None,
        }
    }

    /// Refuses a name by which the file would not be read as what it is: the ending decides.
    ///
    /// # Errors
    /// What it would have to end in.
    fn suits(self, file: &Path) -> Result<(), &'static str> {
        match (self, Ending::of(file)) {
            (Self::Stalwart, Ending::Yaml) => Err(".toml"),
            (Self::Tracetest | Self::Qualitytrace, ending) if ending != Ending::Yaml => Err(".yaml"),
            (Self::Environment, Ending::Toml | Ending::Yaml) => Err(".env"),
            _ => Ok(()),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Toml,
    Yaml,
    Env,
    Other,
}

impl Ending {
    fn of(file: &Path) -> Self {
        let is = |ending: &OsStr, names: &[&str]| names.iter().any(|name| ending.eq_ignore_ascii_case(name));
        match file.extension() {
            Some(ending) if is(ending, &["toml"]) => Self::Toml,
            Some(ending) if is(ending, &["yaml", "yml"]) => Self::Yaml,
            Some(ending) if is(ending, &["env"]) => Self::Env,
            // a file of only that name has no ending, as far as Rust is concerned
            None if file.file_name() == Some(OsStr::new(".env")) => Self::Env,
            _ => Self::Other,
        }
    }
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

    fn options(words: &[&str], stdout: bool) -> Result<Plan, String> {
        let mut words = words.iter().map(OsString::from);
        Options { flavour: words.next(), file: words.next(), stdout }.plan()
    }

    #[test]
    fn flavour_and_file_may_be_left_out() {
        let file = |flavour, name: &str| Ok(Plan { flavour, target: Target::File(name.into()) });
        let stdout = |flavour| Ok(Plan { flavour, target: Target::Stdout });
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
        for (index, (flavour, ..)) in FLAVOURS.into_iter().enumerate() {
            assert_eq!(flavour as usize, index);
            assert_eq!(Flavour::named(flavour.name()), Some(flavour));
            assert_eq!(flavour.suits(Path::new(flavour.file())), Ok(()));
            assert!(Flavour::by_ending(Path::new(flavour.file())).is_some());
        }
    }

    #[test]
    fn a_name_that_would_be_read_as_something_else_does_not_suit() {
        for (flavour, file, suits) in [
            (Flavour::Stalwart, "a.yml", Err(".toml")),
            (Flavour::Stalwart, "a.conf", Ok(())),
            (Flavour::Tracetest, "a.toml", Err(".yaml")),
            (Flavour::Tracetest, "a", Err(".yaml")),
            (Flavour::Qualitytrace, "a.YAML", Ok(())),
            (Flavour::Environment, ".env", Ok(())),
            (Flavour::Environment, "/etc/default/shop", Ok(())),
            (Flavour::Environment, "a.toml", Err(".env")),
        ] {
            assert_eq!(flavour.suits(Path::new(file)), suits, "{flavour:?} in {file}");
        }
    }
}
