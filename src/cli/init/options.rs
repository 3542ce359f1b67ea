//! Which file does `init` write, and where? Read from the command line's operands.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::Flavour;
use crate::cli::text;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Options {
    pub(super) flavour: Flavour,
    pub(super) target: Target,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    File(PathBuf),
    Stdout,
}

impl Options {
    /// The options of `init [FLAVOUR] [FILE]`; without a flavour, the file's extension selects it.
    ///
    /// # Errors
    /// When the operands are invalid, with the reason.
    pub(crate) fn new(
        first: Option<OsString>,
        second: Option<OsString>,
        stdout: bool,
    ) -> Result<Self, String> {
        let (flavour, file) = match (first, second) {
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
        let target = match (file, stdout) {
            (Some(file), _) if file == "-" => Target::Stdout,
            (Some(_), true) => return Err("init takes a FILE or --stdout, not both".to_owned()),
            (None, true) => Target::Stdout,
            (None, false) => Target::File(flavour.file().into()),
            (Some(file), false) => Target::File(file.into()),
        };
        if let Target::File(file) = &target {
            suits(flavour, file)?;
        }
        Ok(Self { flavour, target })
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
    let message = text::unknown("flavour", word, &Flavour::WORDS);
    if message.ends_with('?') {
        return message;
    }
    let names = Flavour::ALL.map(Flavour::name);
    format!("{message}; there are {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(words: &[&str], stdout: bool) -> Result<Options, String> {
        let mut words = words.iter().map(OsString::from);
        Options::new(words.next(), words.next(), stdout)
    }

    #[test]
    fn flavour_and_file_may_be_left_out() {
        let file = |flavour, name: &str| Ok(Options { flavour, target: Target::File(name.into()) });
        let stdout = |flavour| Ok(Options { flavour, target: Target::Stdout });
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
            (&["stalwert"][..], false, "unknown flavour \"stalwert\"; did you mean \"stalwart\"?"),
            (
                &["nagios"],
                false,
                "unknown flavour \"nagios\"; there are stalwart, tracetest, qualitytrace, env",
            ),
            (
                &["shop.conf"],
                false,
                "\"shop.conf\" has no ending that names a flavour; write: init FLAVOUR FILE",
            ),
            (&["./shop"], false, "\"./shop\" has no ending that names a flavour; write: init FLAVOUR FILE"),
            (&["ymal", "a.yaml"], false, "unknown flavour \"ymal\"; did you mean \"yaml\"?"),
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
