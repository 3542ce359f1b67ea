//! The `standpipe` command: arguments → the library's public API → exit code.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run(std::env::args_os())
}
