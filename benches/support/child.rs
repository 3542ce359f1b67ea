//! This program again, as the one that is measured: it says what it found in lines of `key=value`.

use std::process::{Command, Stdio};
use std::{env, fmt};

use super::Error;

/// What a child said.
pub(crate) struct Findings(String);

/// Starts this program in a part of its own and waits for what it says. `wrapper` is put in front of the
/// command, as `valgrind --tool=callgrind` would be on a command line.
///
/// # Errors
/// When it cannot be started or does not succeed.
pub(crate) fn play(
    wrapper: &[String],
    part: &str,
    settings: &[(&str, &dyn fmt::Display)],
) -> Result<Findings, Error> {
    let program = env::current_exe()?;
    let mut command = match wrapper.split_first() {
        Some((first, rest)) => {
            let mut command = Command::new(first);
            command.args(rest).arg(program);
            command
        }
        None => Command::new(program),
    };
    command.args(["--play", part]).args(settings.iter().map(|(key, value)| format!("{key}={value}")));
    let output = command.stdin(Stdio::null()).output()?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{part}: {}\n{}", output.status, message.trim_end()).into());
    }
    Ok(Findings(String::from_utf8(output.stdout)?))
}

/// Says something to the parent.
pub(crate) fn report(key: &str, value: impl fmt::Display) {
    println!("{key}={value}");
}

impl Findings {
    /// How many times one number is in another.
    ///
    /// # Errors
    /// When one of them was not reported, or is no number.
    pub(crate) fn ratio(&self, key: &str, of: &str) -> Result<f64, Error> {
        Ok(self.number(key)? as f64 / self.number(of)? as f64)
    }

    /// The number that was reported under this key.
    ///
    /// # Errors
    /// When nothing was, or no number.
    pub(crate) fn number(&self, key: &str) -> Result<u64, Error> {
        let value = self.0.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        Ok(value.ok_or_else(|| format!("the child did not report {key}"))?.parse()?)
    }
}
