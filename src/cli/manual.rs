//! `standpipe completions` and `standpipe man`: both are derived from the definitions of the options.

use std::iter;
use std::process::ExitCode;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::{Arguments, Failure, print_text};

/// Bash code that completes the command after `exec --` like any other command line.
const BASH_EXEC: &str = include_str!("complete_exec.bash");

/// Fish code that completes the command after `exec --` like any other command line.
const FISH_EXEC: &str =
    "complete -c standpipe -n '__fish_seen_subcommand_from exec' -x -a '(__fish_complete_subcommand)'\n";

/// Prints a script that completes command lines of standpipe in a shell.
///
/// The script completes commands, options and their values and, after exec --, the command that exec runs.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  source <(standpipe completions bash)
  standpipe completions bash > ~/.local/share/bash-completion/completions/standpipe
  standpipe completions zsh > ~/.zfunc/_standpipe
  standpipe completions fish > ~/.config/fish/completions/standpipe.fish

Exit code: 0, or 2 if the shell is not known")]
pub(crate) struct CompletionsOptions {
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Prints the manual page, with the help of each command.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  standpipe man | man -l -
  standpipe man > /usr/local/share/man/man1/standpipe.1

Exit code: 0")]
pub(crate) struct ManOptions {}

pub(crate) fn print_completions(options: &CompletionsOptions) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut Arguments::command(), "standpipe", &mut script);
    let mut script = String::from_utf8_lossy(&script).into_owned();
    match options.shell {
        Shell::Bash => script += BASH_EXEC,
        Shell::Fish => script += FISH_EXEC,
        _ => {}
    }
    print_text(script.trim_end())
}

/// Prints the manual page of the program, followed by those of its commands.
pub(crate) fn print_page() -> Result<ExitCode, Failure> {
    let mut page = Vec::new();
    let mut program = Arguments::command().disable_help_subcommand(true);
    program.build();
    for command in iter::once(&program).chain(program.get_subcommands()) {
        clap_mangen::Man::new(command.clone()).render(&mut page).map_err(Failure::Output)?;
    }
    print_text(String::from_utf8_lossy(&page).trim_end())
}
