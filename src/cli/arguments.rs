//! Arguments → what to do. Pure: the words come in as an argument.

use std::ffi::OsString;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use lexopt::{Arg, Parser, ValueExt};

use super::help::Topic;
use super::paint::ColorChoice;

/// Where OTLP over HTTP is expected.
const DEFAULT_ADDRESS: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 4318);

const COMMANDS: [&str; 4] = ["demo", "receive", "check", "help"];
const OPTIONS: [&str; 5] = ["--color", "--ascii", "--help", "--version", "--address"];

/// Everything that was asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Arguments {
    pub(crate) command: Command,
    pub(crate) color: ColorChoice,
    /// Draw with ASCII only, whatever the locale says.
    pub(crate) ascii: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Command {
    Demo,
    Receive { address: SocketAddr },
    Check { file: PathBuf },
    Help(Topic),
    Version,
}

/// Words that make no sense, and what was probably meant.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UsageError(String);

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<lexopt::Error> for UsageError {
    fn from(error: lexopt::Error) -> Self {
        Self(error.to_string())
    }
}

/// Reads the words after the program's name.
pub(crate) fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Arguments, UsageError> {
    let mut parser = Parser::from_args(words);
    let mut given = Given::default();
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Long("help") | Arg::Short('h') => given.help = true,
            Arg::Long("version") | Arg::Short('V') => given.version = true,
            Arg::Long("ascii") => given.ascii = true,
            Arg::Long("color") => given.color = color(&parser.value()?.string()?)?,
            Arg::Long("address") => given.address = Some(address(&parser.value()?.string()?)?),
            Arg::Value(word) if given.command.is_none() => given.command = Some(command(word)?),
            Arg::Value(word) if given.operand.is_none() => given.operand = Some(word),
            Arg::Value(word) => return Err(too_much(&word)),
            Arg::Long(name) => return Err(unknown("option", &format!("--{name}"), &OPTIONS)),
            Arg::Short(letter) => return Err(unknown("option", &format!("-{letter}"), &[])),
        }
    }
    given.into_arguments()
}

/// The words as they were found, before they are seen together.
#[derive(Default)]
struct Given {
    command: Option<String>,
    operand: Option<OsString>,
    address: Option<SocketAddr>,
    color: ColorChoice,
    ascii: bool,
    help: bool,
    version: bool,
}

impl Given {
    fn into_arguments(self) -> Result<Arguments, UsageError> {
        let (color, ascii) = (self.color, self.ascii);
        let command = self.into_command()?;
        Ok(Arguments { command, color, ascii })
    }

    fn into_command(self) -> Result<Command, UsageError> {
        if self.version {
            return Ok(Command::Version);
        }
        let command = self.command.as_deref();
        if self.help {
            return Ok(Command::Help(command.and_then(Topic::of).unwrap_or(Topic::Overview)));
        }
        if self.address.is_some() && command != Some("receive") {
            return Err(UsageError("--address is an option of receive only".to_owned()));
        }
        // An empty word is most often a variable of the shell that was never set.
        match (command, self.operand.filter(|word| !word.is_empty())) {
            (Some("check"), Some(file)) => Ok(Command::Check { file: file.into() }),
            (Some("check"), None) => Err(UsageError("check needs a FILE".to_owned())),
            (Some("help"), Some(topic)) => {
                let topic = topic.to_string_lossy();
                Topic::of(&topic).map(Command::Help).ok_or_else(|| unknown("command", &topic, &COMMANDS))
            }
            (Some("help"), None) => Ok(Command::Help(Topic::Overview)),
            (_, Some(word)) => Err(too_much(&word)),
            (Some("demo"), None) => Ok(Command::Demo),
            (Some("receive"), None) => {
                Ok(Command::Receive { address: self.address.unwrap_or(DEFAULT_ADDRESS) })
            }
            _ => Err(UsageError("no command given".to_owned())),
        }
    }
}

fn command(word: OsString) -> Result<String, UsageError> {
    let word = word.to_string_lossy().into_owned();
    if COMMANDS.contains(&word.as_str()) { Ok(word) } else { Err(unknown("command", &word, &COMMANDS)) }
}

fn color(word: &str) -> Result<ColorChoice, UsageError> {
    match word {
        "auto" => Ok(ColorChoice::Auto),
        "always" => Ok(ColorChoice::Always),
        "never" => Ok(ColorChoice::Never),
        _ => Err(UsageError(format!("--color {word:?}: write auto, always or never"))),
    }
}

fn address(word: &str) -> Result<SocketAddr, UsageError> {
    let numeric = word.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    let address = numeric.as_deref().unwrap_or(word).parse();
    address.map_err(|_| {
        UsageError(format!("--address {word:?}: write an IP address and a port, as 127.0.0.1:4318"))
    })
}

fn too_much(word: &OsString) -> UsageError {
    UsageError(format!("unexpected argument {:?}", word.to_string_lossy()))
}

fn unknown(what: &str, word: &str, known: &[&str]) -> UsageError {
    match closest(word, known) {
        Some(meant) => UsageError(format!("unknown {what} {word:?}; did you mean {meant:?}?")),
        None => UsageError(format!("unknown {what} {word:?}")),
    }
}

/// The known word that a typing mistake or two could have made into `word`.
fn closest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    // Nothing this long is a typing mistake, and the distance takes the square of the length.
    let word: Vec<char> = word.chars().take(32).collect();
    let near = known.iter().map(|&candidate| (distance(&word, candidate), candidate));
    near.filter(|&(distance, candidate)| distance <= candidate.len().div_ceil(3))
        .min()
        .map(|(_, found)| found)
}

/// How many letters have to be added, removed or replaced.
fn distance(word: &[char], candidate: &str) -> usize {
    let mut row: Vec<usize> = (0..=word.len()).collect();
    for (number, letter) in candidate.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = number + 1;
        for (column, &other) in word.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != other);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[word.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<Arguments, String> {
        parse(words.iter().map(OsString::from)).map_err(|error| error.to_string())
    }

    fn command(words: &[&str]) -> Result<Command, String> {
        parsed(words).map(|arguments| arguments.command)
    }

    #[test]
    fn every_command_is_understood() {
        assert_eq!(command(&["demo"]), Ok(Command::Demo));
        assert_eq!(command(&["receive"]), Ok(Command::Receive { address: DEFAULT_ADDRESS }));
        let zero = "127.0.0.1:0".parse().expect("an address");
        assert_eq!(command(&["receive", "--address", "localhost:0"]), Ok(Command::Receive { address: zero }));
        assert_eq!(command(&["--address=127.0.0.1:0", "receive"]), Ok(Command::Receive { address: zero }));
        assert_eq!(command(&["check", "a.toml"]), Ok(Command::Check { file: "a.toml".into() }));
        assert_eq!(command(&["check", "--", "-a.toml"]), Ok(Command::Check { file: "-a.toml".into() }));
        assert_eq!(command(&["--version"]), Ok(Command::Version));
        assert_eq!(command(&["-V"]), Ok(Command::Version));
    }

    #[test]
    fn help_is_found_wherever_it_is_looked_for() {
        assert_eq!(command(&["--help"]), Ok(Command::Help(Topic::Overview)));
        assert_eq!(command(&["help"]), Ok(Command::Help(Topic::Overview)));
        assert_eq!(command(&["help", "check"]), Ok(Command::Help(Topic::Check)));
        assert_eq!(command(&["check", "-h"]), Ok(Command::Help(Topic::Check)));
        assert_eq!(command(&["--help", "demo"]), Ok(Command::Help(Topic::Demo)));
    }

    #[test]
    fn drawing_options_stand_before_or_after_the_command() {
        for words in [["--color", "always", "--ascii", "demo"], ["demo", "--ascii", "--color", "always"]] {
            let arguments = parsed(&words).expect("it parses");
            assert_eq!(
                arguments,
                Arguments { command: Command::Demo, color: ColorChoice::Always, ascii: true }
            );
        }
    }

    #[test]
    fn mistakes_are_named_and_mended() {
        let cases: [(&[&str], &str); 13] = [
            (&[], "no command given"),
            (&["recieve"], "unknown command \"recieve\"; did you mean \"receive\"?"),
            (&["frobnicate"], "unknown command \"frobnicate\""),
            (&["help", "chekc"], "unknown command \"chekc\"; did you mean \"check\"?"),
            (&["demo", "--colour", "never"], "unknown option \"--colour\"; did you mean \"--color\"?"),
            (&["demo", "-x"], "unknown option \"-x\""),
            (&["demo", "now"], "unexpected argument \"now\""),
            (&["check"], "check needs a FILE"),
            (&["check", ""], "check needs a FILE"),
            (&["check", "a", "b"], "unexpected argument \"b\""),
            (&["demo", "--color", "pink"], "--color \"pink\": write auto, always or never"),
            (&["demo", "--address", "127.0.0.1:0"], "--address is an option of receive only"),
            (
                &["receive", "--address", "4318"],
                "--address \"4318\": write an IP address and a port, as 127.0.0.1:4318",
            ),
        ];
        for (words, message) in cases {
            assert_eq!(command(words), Err(message.to_owned()), "{words:?}");
        }
        assert!(command(&[&"x".repeat(1_000_000)]).is_err());
    }
}
