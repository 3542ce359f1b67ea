//! The `standpipe` command, run as a user runs it.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::{env, fs};

/// The command in surroundings that do not depend on who runs the test.
pub(crate) fn standpipe(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_standpipe"));
    command.args(arguments).stdin(Stdio::null()).env("LC_ALL", "C.UTF-8");
    forget_surroundings(&mut command);
    command
}

/// Takes all from a command that would have it behave otherwise elsewhere.
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

/// A reader that has left before anything was written.
#[cfg(unix)]
pub(crate) fn without_reader() -> Stdio {
    let (stdout, reader) = std::os::unix::net::UnixStream::pair().expect("two sockets");
    drop(reader);
    Stdio::from(std::os::fd::OwnedFd::from(stdout))
}

/// A configuration file in the place cargo keeps for the files of tests.
pub(crate) fn config(name: &str, text: &str) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, text).expect("the place is writable");
    path.to_str().expect("its path is UTF-8").to_owned()
}
