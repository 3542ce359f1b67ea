//! `standpipe completions` and `standpipe man`, tested with real shells and the real formatter.

use std::process::Command;

use crate::support::command::{run, stderr, stdout};
use crate::support::scratch::Scratch;
use crate::support::skip;

/// Runs a program; `None` if it is not installed.
fn output_of(program: &str, arguments: &[&str]) -> Option<(String, String)> {
    match Command::new(program).args(arguments).output() {
        Ok(output) => Some((stdout(&output), stderr(&output))),
        Err(_) => {
            skip(format_args!("there is no {program} here"));
            None
        }
    }
}

fn script(shell: &str) -> (Scratch, String) {
    let scratch = Scratch::new();
    let output = run(&["completions", shell]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let file = scratch.write("script", output.stdout);
    (scratch, file.to_str().unwrap().to_owned())
}

#[test]
fn bash_completes_commands_options_values_and_the_command_of_exec() {
    let (_scratch, file) = script("bash");
    let complete = "source \"$0\"; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); \
        _standpipe_or_command standpipe \"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD - 1]}\"; \
        echo ${COMPREPLY[*]}";
    for (words, expected) in [
        (&["ex"][..], "exec"),
        (&["exec", "--a"], "--attr --args --ascii"),
        (&["exec", "-k", "c"], "client consumer"),
        (&["exec", "--", "mkfif"], "mkfifo"),
        (&["exec", "--", "ls", "--n"], ""),
        (&["span", "st"], "start"),
        (&["log", "--level", "e"], "error"),
        (&["receive", "--level", "f"], "fatal"),
        (&["--co"], "--color"),
        (&["check", "--of"], "--offline"),
        (&["help", "dr"], "drain"),
    ] {
        let arguments = [&["-c", complete, &file, "standpipe"], words].concat();
        let Some((completed, errors)) = output_of("bash", &arguments) else { return };
        // A command may be in several directories of PATH; bash then lists it several times.
        let mut completed: Vec<&str> = completed.split_whitespace().collect();
        completed.dedup();
        assert_eq!((completed.join(" ").as_str(), errors.as_str()), (expected, ""), "{words:?}");
    }
}

#[test]
fn zsh_and_fish_can_read_their_scripts() {
    let (_scratch, file) = script("zsh");
    if let Some((_, errors)) = output_of("zsh", &["-n", &file]) {
        assert_eq!(errors, "");
    }
    let (_scratch, file) = script("fish");
    let complete =
        format!("source {file}; complete -C 'standpipe exec --na'; complete -C 'standpipe log --level e'");
    if let Some((completed, errors)) = output_of("fish", &["--no-config", "-c", &complete]) {
        // Each candidate is followed by a tab and its description.
        let completed: Vec<&str> = completed.lines().filter_map(|line| line.split('\t').next()).collect();
        assert_eq!((completed, errors.as_str()), (vec!["--name", "error"], ""));
    }
}

#[test]
fn a_shell_that_is_not_known_is_a_usage_mistake() {
    let output = run(&["completions", "bahs"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("a similar value exists: 'bash'"), "{}", stderr(&output));
}

#[test]
fn the_manual_page_is_formatted_without_a_warning() {
    let scratch = Scratch::new();
    let output = run(&["man"]);
    assert_eq!(output.status.code(), Some(0));
    let file = scratch.write("standpipe.1", output.stdout);
    let arguments = ["-man", "-Tascii", "-ww", "-P-c", file.to_str().unwrap()];
    if let Some((page, warnings)) = output_of("groff", &arguments) {
        assert_eq!(warnings, "");
        // The formatter justifies lines with additional spaces.
        let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
        for expected in ["standpipe(1)", "standpipe-exec(1)", "--log-output", "Exit code: that of COMMAND"] {
            assert!(page.contains(expected), "no {expected:?} in\n{page}");
        }
    }
}
