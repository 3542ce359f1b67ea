//! The `standpipe` command, run like a user runs it.

use std::env;
use std::fmt;
use std::ops::Deref;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use super::scratch::Scratch;

/// Returns the command in an environment that does not depend on that of the test.
pub(crate) fn standpipe(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_standpipe"));
    command.args(arguments).stdin(Stdio::null()).env("LC_ALL", "C.UTF-8");
    forget_surroundings(&mut command);
    command
}

/// Removes the variables that would change the behavior of a command.
pub(crate) fn forget_surroundings(command: &mut Command) {
    let is_of_somebody = |name: &str| {
        let name = name.to_ascii_uppercase();
        name.starts_with("OTEL_") || name.ends_with("_PROXY") || name.starts_with("TRACE")
    };
    for (name, _) in env::vars().filter(|(name, _)| is_of_somebody(name)) {
        command.env_remove(name);
    }
    for variable in ["NO_COLOR", "COLUMNS"] {
        command.env_remove(variable);
    }
}

pub(crate) fn run(arguments: &[&str]) -> Output {
    finish(&mut standpipe(arguments))
}

pub(crate) fn finish(command: &mut Command) -> Output {
    command.output().expect("the binary runs")
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("it prints UTF-8")
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("it complains in UTF-8")
}

/// An output whose reader has closed it before anything was written.
#[cfg(unix)]
pub(crate) fn without_reader() -> Stdio {
    let (stdout, reader) = std::os::unix::net::UnixStream::pair().expect("two sockets");
    drop(reader);
    Stdio::from(std::os::fd::OwnedFd::from(stdout))
}

/// Path of a configuration file in a separate directory, which is removed on drop.
pub(crate) struct ConfigFile {
    path: String,
    pub(crate) directory: Scratch,
}

impl Deref for ConfigFile {
    type Target = str;

    fn deref(&self) -> &str {
        &self.path
    }
}

impl AsRef<Path> for ConfigFile {
    fn as_ref(&self) -> &Path {
        Path::new(&self.path)
    }
}

impl fmt::Display for ConfigFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.path)
    }
}

/// Writes a configuration file that no other test, and no other run of this test, can see.
pub(crate) fn config(name: &str, text: &str) -> ConfigFile {
    let directory = Scratch::new();
    let path = directory.write(name, text);
    ConfigFile { path: path.to_str().expect("its path is UTF-8").to_owned(), directory }
}
