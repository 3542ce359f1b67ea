//! Command line of the benchmarks.

use std::env;

use super::Error;

/// Argument that also writes the tables into `benches/README.md`.
const README: &str = "--readme";

/// Returns whether the tables are also written into `benches/README.md`.
pub(crate) fn is_for_readme() -> bool {
    env::args().any(|argument| argument == README)
}

/// Task of this process.
pub(crate) enum Task {
    /// Measure and print the tables. A smoke run only checks that the benchmark works.
    Measure { smoke: bool },
    /// Run the measured program, as a child.
    Play(Part),
}

/// Program that a child runs, with its settings.
pub(crate) struct Part {
    pub(crate) name: String,
    settings: Vec<String>,
}

impl Task {
    /// Reads the command line of a benchmark without tables in `benches/README.md`.
    ///
    /// Without cargo's `--bench`, as in `cargo test --benches`, the run is a smoke run.
    pub(crate) fn from_command_line() -> Result<Self, Error> {
        if is_for_readme() {
            return Err(format!("{README}: benches/README.md has no table of this benchmark").into());
        }
        Ok(Self::with_choice(&[])?.0)
    }

    /// Reads a command line that may name one of several tables.
    pub(crate) fn with_choice(tables: &[&'static str]) -> Result<(Self, Option<&'static str>), Error> {
        Self::read(env::args().skip(1), tables)
    }

    /// Reads the given arguments.
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
    /// Returns the text after `key=`.
    pub(crate) fn text(&self, key: &str) -> Result<&str, Error> {
        let value = self.settings.iter().find_map(|setting| setting.strip_prefix(key)?.strip_prefix('='));
        value.ok_or_else(|| format!("part {}: {key} is not set", self.name).into())
    }

    /// Returns the number after `key=`.
    pub(crate) fn number(&self, key: &str) -> Result<u64, Error> {
        Ok(self.text(key)?.parse()?)
    }
}
