//! Starts this executable again as a child process, which runs only the measured program.
//!
//! The child reports its results as lines of `key=value` on standard output.

use std::process::{Command, Stdio};
use std::{env, fmt};

use super::Error;

/// Results that a child reported.
pub(crate) struct Findings(String);

/// Runs a part in a child process, and returns its results.
///
/// `wrapper` is put before the command, as `valgrind --tool=callgrind` would be on a command line.
///
/// # Errors
/// Returns an error if the child cannot be started or fails.
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

/// Reports a result to the parent process.
pub(crate) fn report(key: &str, value: impl fmt::Display) {
    println!("{key}={value}");
}

impl Findings {
    /// Returns the number reported under `key`, divided by the number reported under `of`.
    pub(crate) fn ratio(&self, key: &str, of: &str) -> Result<f64, Error> {
        Ok(self.number(key)? as f64 / self.number(of)? as f64)
    }

    /// Returns the number reported under `key`.
    pub(crate) fn number(&self, key: &str) -> Result<u64, Error> {
        let value = self.0.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        Ok(value.ok_or_else(|| format!("the child did not report {key}"))?.parse()?)
    }
}
