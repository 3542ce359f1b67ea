//! The `standpipe` command: arguments → the library's public API → exit code.

mod cli;
#[cfg(test)]
#[allow(dead_code, reason = "the command uses only a part of this")]
mod tests;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run(std::env::args_os())
}
