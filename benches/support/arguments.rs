//! How a benchmark was started.

use std::env;

use super::Error;

/// Says that the tables go into `benches/README.md` as well.
const README: &str = "--readme";

/// Whether this process has the argument.
pub(crate) fn is_for_readme() -> bool {
    env::args().any(|argument| argument == README)
}

/// What this process is to do.
pub(crate) enum Task {
    /// Measure and print the table; a smoke run only shows that everything works.
    Measure { smoke: bool },
    /// Be the program that is measured.
    Play(Part),
}

/// The part of a child, with its settings.
pub(crate) struct Part {
    pub(crate) name: String,
    settings: Vec<String>,
}

impl Task {
    /// Reads the command line. Without cargo's `--bench`, as in `cargo test --benches`, it is a smoke run.
    ///
    /// # Errors
    /// When there is an argument that means nothing here.
    pub(crate) fn from_command_line() -> Result<Self, Error> {
        if is_for_readme() {
            return Err(format!("{README}: benches/README.md has no table of this benchmark").into());
        }
        Ok(Self::with_choice(&[])?.0)
    }

    /// Reads a command line that may name one of several tables.
    ///
    /// # Errors
    /// When there is an argument that means nothing.
    pub(crate) fn with_choice(tables: &[&'static str]) -> Result<(Self, Option<&'static str>), Error> {
        Self::read(env::args().skip(1), tables)
    }

    /// Reads these arguments.
    ///
    /// # Errors
    /// When there is one that means nothing.
    pub(crate) fn read(
        arguments: impl IntoIterator<Item = String>,
        tables: &[&'static str],
    ) -> Result<(Self, Option<&'static str>), Error> {
        let mut arguments = arguments.into_iter();
        let (mut bench, mut smoke, mut readme, mut chosen) = (false, false, false, None);
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--bench" => bench = true,
                "--smoke" => smoke = true,
                README => readme = true,
                "--play" => {
                    let name = arguments.next().ok_or("--play needs the name of a part")?;
                    return Ok((Self::Play(Part { name, settings: arguments.collect() }), None));
                }
                other => match tables.iter().find(|table| **table == other) {
                    Some(table) => chosen = Some(*table),
                    None => {
                        let known = [&["--smoke", README], tables].concat().join(" and ");
                        return Err(format!("{other}: unknown argument; known are {known}").into());
                    }
                },
            }
        }
        if smoke && readme {
            return Err("a smoke run has no figures for benches/README.md".into());
        }
        Ok((Self::Measure { smoke: smoke || !bench }, chosen))
    }
}

impl Part {
    /// The text after `key=`.
    ///
    /// # Errors
    /// When the setting is not there.
    pub(crate) fn text(&self, key: &str) -> Result<&str, Error> {
        let value = self.settings.iter().find_map(|setting| setting.strip_prefix(key)?.strip_prefix('='));
        value.ok_or_else(|| format!("part {}: {key} is not set", self.name).into())
    }

    /// The number after `key=`.
    ///
    /// # Errors
    /// When the setting is not there or is no number.
    pub(crate) fn number(&self, key: &str) -> Result<u64, Error> {
        Ok(self.text(key)?.parse()?)
    }
}
