//! Which file does `init` write, and where? Read from the command line's operands.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};

use super::Flavour;

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
pub(super) struct Plan {
    pub(super) flavour: Flavour,
    pub(super) target: Target,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    File(PathBuf),
    Stdout,
}

impl Options {
    /// Without a flavour, the file's extension selects it.
    ///
    /// # Errors
    /// When the operands are invalid, with the reason.
    pub(super) fn plan(&self) -> Result<Plan, String> {
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
    format!("unknown flavour {word:?}; there are {}", Flavour::ALL.map(Flavour::name).join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
