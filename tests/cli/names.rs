//! Names of files and commands in messages are escaped, so that they cannot control the terminal.

#![cfg(unix)]

use crate::support::command::{run, stderr, stdout};

/// A name that clears the screen, reverses the text after it, and imitates a line.
const NAME: &str = "a\u{1b}[2J\u{9b}1A\u{202e}b\nstandpipe: forged";

#[test]
fn names_that_are_repeated_are_escaped() {
    let below = |directory: &str| format!("{directory}/{NAME}");
    let (nowhere, option) = (below("/nowhere"), format!("--{NAME}"));
    let toml = format!("{nowhere}.toml");
    for arguments in [
        &["exec", "--endpoint", "http://127.0.0.1:9", "--", NAME][..],
        &["exec", "--endpoint", "http://127.0.0.1:9", "--print-to", &nowhere, "--", "true"],
        &["span", "start", "--file", &nowhere, "work"],
        &["span", "event", "--file", NAME, "step"],
        &["span", "end", "--file", NAME],
        &["receive", "--address", "127.0.0.1:0", "--save", &nowhere],
        &["receive", "--address", NAME],
        &["metric", "counter", NAME, "-1"],
        &["metric", "counter", NAME, "0"],
        &["show", NAME],
        &["check", NAME],
        &["init", "stalwart", &toml],
        &["spool", NAME],
        &["drain", NAME, "--endpoint", "http://127.0.0.1:9"],
        &[NAME],
        &["help", NAME],
        &["receive", &option],
        &["exec", &option, "--", "true"],
        &["receive", "--color", NAME],
    ] {
        let output = run(arguments);
        let printed = stdout(&output) + &stderr(&output);
        assert!(printed.contains("[2J"), "{arguments:?} repeats no name: {printed:?}");
        let is_obeyed = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
        assert!(!printed.contains(is_obeyed), "{arguments:?}: {printed:?}");
        assert!(
            !printed.lines().any(|line| line.starts_with("standpipe: forged")),
            "{arguments:?}: {printed:?}"
        );
    }
}
