//! The command line of a benchmark.

use std::env;

use super::Error;

/// Argument that writes the tables to `benches/README.md`, too.
const README: &str = "--readme";

/// Returns whether this process has the argument `--readme`.
pub(crate) fn is_for_readme() -> bool {
    env::args().any(|argument| argument == README)
}

/// The task of this process.
pub(crate) enum Task {
    /// Measure and print the table. A smoke run only checks that everything works.
    Measure { smoke: bool },
    /// Run the measured program.
    Play(Part),
}

/// The part of a child process, with its settings.
pub(crate) struct Part {
    pub(crate) name: String,
    settings: Vec<String>,
}

impl Task {
    /// Reads the command line.
    ///
    /// Without `--bench`, as in `cargo test --benches`, the run is a smoke run.
    ///
    /// # Errors
    /// Returns an error if this benchmark does not support an argument.
    pub(crate) fn from_command_line() -> Result<Self, Error> {
        if is_for_readme() {
            return Err(format!("{README}: benches/README.md has no place for this").into());
        }
        Ok(Self::with_choice(&[])?.0)
    }

    /// Reads a command line that may select one of several tables.
    ///
    /// # Errors
    /// Returns an error if an argument is unknown.
    pub(crate) fn with_choice(tables: &[&'static str]) -> Result<(Self, Option<&'static str>), Error> {
        Self::read(env::args().skip(1), tables)
    }

    /// Parses these arguments.
    ///
    /// # Errors
    /// Returns an error if an argument is unknown, or if the arguments exclude each other.
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
                    let name = arguments.next().ok_or("--play: which part?")?;
                    return Ok((Self::Play(Part { name, settings: arguments.collect() }), None));
                }
                other => match tables.iter().find(|table| **table == other) {
                    Some(table) => chosen = Some(*table),
                    None => {
                        let known = [&["--smoke", README], tables].concat().join(" and ");
                        return Err(format!("{other}: unknown argument; there is only {known}").into());
                    }
                },
            }
        }
        if smoke && readme {
            return Err("what a smoke run finds is not for benches/README.md".into());
        }
        Ok((Self::Measure { smoke: smoke || !bench }, chosen))
    }
}

impl Part {
    /// Returns the text after `key=`.
    ///
    /// # Errors
    /// Returns an error if the setting is missing.
    pub(crate) fn text(&self, key: &str) -> Result<&str, Error> {
        let value = self.settings.iter().find_map(|setting| setting.strip_prefix(key)?.strip_prefix('='));
        value.ok_or_else(|| format!("part {}: {key} is not set", self.name).into())
    }

    /// Returns the number after `key=`.
    ///
    /// # Errors
    /// Returns an error if the setting is missing or is not a number.
    pub(crate) fn number(&self, key: &str) -> Result<u64, Error> {
        Ok(self.text(key)?.parse()?)
    }
}
