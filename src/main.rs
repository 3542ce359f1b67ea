//! The `standpipe` command.

mod cli;

fn main() {}
