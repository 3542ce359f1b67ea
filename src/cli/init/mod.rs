//! What does `standpipe init` do? It writes a commented configuration file to start with.

mod flavour;
mod options;

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

pub(crate) use self::flavour::Flavour;
pub(crate) use self::options::Options;
use self::options::Target;
use super::style::{Ink, Style};
use super::{Failure, print, print_text};

/// Writes the file, unless it exists, and prints the next steps.
pub(crate) fn run(options: &Options, style: &Style) -> Result<ExitCode, Failure> {
    let plan = options.plan().map_err(Failure::Usage)?;
    let starter = plan.flavour.starter();
    let file = match &plan.target {
        Target::Stdout => return print_text(starter.trim_end()),
        Target::File(file) => file,
    };
    write_new(file, starter).map_err(|error| cannot_write(file, &error))?;
    print(&next_steps(plan.flavour, &file.display().to_string(), style))?;
    Ok(ExitCode::SUCCESS)
}

/// Fails if there is anything of that name, be it a link to nowhere.
fn write_new(file: &Path, text: &str) -> io::Result<()> {
    let mut new = OpenOptions::new().write(true).create_new(true).open(file)?;
    let written = new.write_all(text.as_bytes());
    if written.is_err() {
        // half a file would be in the way of the next attempt; it is ours, we made it
        let _ = fs::remove_file(file);
    }
    written
}

fn cannot_write(file: &Path, error: &io::Error) -> Failure {
    let file = file.display().to_string();
    Failure::Message(match error.kind() {
        io::ErrorKind::AlreadyExists => {
            format!(
                "{file:?} exists already and is left as it is; give another name, or --stdout to look at it"
            )
        }
        io::ErrorKind::NotFound => format!("{file:?}: there is no such directory"),
        io::ErrorKind::PermissionDenied => format!("{file:?}: permission denied"),
        _ => format!("{file:?}: {error}"),
    })
}

fn next_steps(flavour: Flavour, file: &str, style: &Style) -> Vec<String> {
    let (commands, load) = match flavour {
        Flavour::Environment => (
            vec![format!("set -a; . {}; set +a", in_shell(file, "./")), "standpipe check --env".to_owned()],
            "standpipe::Config::from_env()?".to_owned(),
        ),
        _ => (
            vec![format!("standpipe check {}", in_shell(file, ""))],
            format!("standpipe::Config::from_file({file:?})?"),
        ),
    };
    let mut title = style.line();
    title.put(Ink::GOOD.bold(), style.glyphs.check).space(1);
    title.put(Ink::PLAIN.bold(), file).put(Ink::PLAIN, " is written; read it, then check it:");
    let indented = |text: &str| {
        let mut line = style.line();
        line.space(4).put(Ink::PLAIN, text);
        line.finish()
    };
    let mut lines = vec![title.finish(), String::new()];
    lines.extend(commands.iter().map(|command| indented(command)));
    let with = match flavour {
        Flavour::Tracetest | Flavour::Qualitytrace => ", which needs the feature \"yaml\" of the crate:",
        Flavour::Stalwart | Flavour::Environment => ":",
    };
    lines.extend([String::new(), format!("and in the program{with}"), String::new()]);
    lines.push(indented(&format!("let config = {load};")));
    lines.push(indented("let telemetry = standpipe::Telemetry::start(config)?;"));
    lines
}

/// The file as one argument in a shell; `here` is put before a name without a directory.
fn in_shell(file: &str, here: &str) -> String {
    let here = if file.starts_with('-') { "./" } else { here };
    let file = if file.contains('/') { file.to_owned() } else { format!("{here}{file}") };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/');
    if file.chars().all(is_plain) { file } else { format!("'{}'", file.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::super::style::plain_style;
    use super::*;

    #[test]
    fn what_to_do_next_can_be_copied() {
        let expected = [
            "✓ telemetry.toml is written; read it, then check it:",
            "",
            "    standpipe check telemetry.toml",
            "",
            "and in the program:",
            "",
            "    let config = standpipe::Config::from_file(\"telemetry.toml\")?;",
            "    let telemetry = standpipe::Telemetry::start(config)?;",
        ];
        assert_eq!(next_steps(Flavour::Stalwart, "telemetry.toml", &plain_style(80)), expected);
        let of_yaml = next_steps(Flavour::Tracetest, "tracetest.yaml", &plain_style(80));
        assert_eq!(of_yaml[4], "and in the program, which needs the feature \"yaml\" of the crate:");
        let of_environment = next_steps(Flavour::Environment, "telemetry.env", &plain_style(80));
        assert_eq!(
            of_environment[2..4],
            ["    set -a; . ./telemetry.env; set +a", "    standpipe check --env"]
        );
        assert_eq!(of_environment[7], "    let config = standpipe::Config::from_env()?;");
    }

    #[test]
    fn every_name_is_one_word_of_a_shell() {
        for (file, word) in [
            ("a.toml", "a.toml"),
            ("-a.toml", "./-a.toml"),
            ("/etc/my shop/a.toml", "'/etc/my shop/a.toml'"),
            ("it's.toml", r"'it'\''s.toml'"),
        ] {
            assert_eq!(in_shell(file, ""), word);
        }
        assert_eq!(in_shell("/etc/a.env", "./"), "/etc/a.env");
    }
}
