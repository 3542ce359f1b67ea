//! What was given to a command whose `--help` is the table of its options: the parser takes what the help lists, no more and
//! no less.

use std::ffi::{OsStr, OsString};

use lexopt::{Arg, Parser};

use super::help::{OptionHelp, Topic};
use super::text;

/// The options and operands of a command line, as they were found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Given {
    pub(crate) topic: Topic,
    /// Each by its long name, in order.
    options: Vec<(&'static str, Option<OsString>)>,
    pub(crate) operands: Vec<OsString>,
}

impl Given {
    /// Reads what follows the command's name; `None` if help is asked for.
    pub(crate) fn parse(topic: Topic, parser: &mut Parser) -> Result<Option<Self>, String> {
        let known = topic.options();
        let mut given = Self { topic, options: Vec::new(), operands: Vec::new() };
        loop {
            let number = parser.try_raw_args().and_then(|mut words| words.next_if(is_negative));
            if let Some(number) = number {
                given.operands.push(number);
                continue;
            }
            let option = match parser.next().map_err(|error| error.to_string())? {
                None => return Ok(Some(given)),
                Some(Arg::Long("help") | Arg::Short('h')) => return Ok(None),
                Some(Arg::Value(word)) => {
                    given.operands.push(word);
                    // what follows the command of `exec` is that command's
                    if topic == Topic::Exec {
                        given.operands.extend(parser.raw_args().map_err(|error| error.to_string())?);
                    }
                    continue;
                }
                Some(Arg::Long(name)) => {
                    find(&known, |option| &option.long[2..] == name, || format!("--{name}"))?
                }
                Some(Arg::Short(letter)) => {
                    find(&known, |option| option.short == Some(letter), || format!("-{letter}"))?
                }
            };
            let value =
                option.value.map(|_| parser.value()).transpose().map_err(|error| error.to_string())?;
            given.options.push((option.long, value));
        }
    }

    /// The same with a value for an option that was not given.
    pub(crate) fn or(&self, option: &'static str, value: String) -> Self {
        let mut given = self.clone();
        given.options.insert(0, (option, Some(value.into())));
        given
    }

    pub(crate) fn has(&self, option: &str) -> bool {
        self.options.iter().any(|(name, _)| *name == option)
    }

    /// The value of an option; the last one counts.
    pub(crate) fn os_value(&self, option: &str) -> Option<&OsString> {
        self.options.iter().rev().find(|(name, _)| *name == option)?.1.as_ref()
    }

    /// The same as text.
    ///
    /// # Errors
    /// When it is not UTF-8.
    pub(crate) fn value(&self, option: &str) -> Result<Option<&str>, String> {
        self.os_value(option).map(|value| utf8(option, value)).transpose()
    }

    /// All values of an option that may be given more than once.
    ///
    /// # Errors
    /// When one is not UTF-8.
    pub(crate) fn values(&self, option: &str) -> Result<Vec<&str>, String> {
        let values = self.options.iter().filter(|(name, _)| *name == option);
        values.filter_map(|(_, value)| value.as_ref()).map(|value| utf8(option, value)).collect()
    }

    /// The operands as text.
    ///
    /// # Errors
    /// When one is not UTF-8.
    pub(crate) fn words(&self) -> Result<Vec<&str>, String> {
        self.operands.iter().map(|word| utf8("an argument", word)).collect()
    }
}

/// A word like `-1.5` is a value, not an option.
fn is_negative(word: &OsStr) -> bool {
    matches!(word.as_encoded_bytes(), [b'-', first, ..] if first.is_ascii_digit() || *first == b'.')
}

fn find(
    known: &[OptionHelp],
    is_meant: impl Fn(&OptionHelp) -> bool,
    written: impl Fn() -> String,
) -> Result<&OptionHelp, String> {
    known.iter().find(|option| is_meant(option)).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|option| option.long).collect();
        text::unknown("option", &written(), &names)
    })
}

fn utf8<'a>(what: &str, word: &'a OsString) -> Result<&'a str, String> {
    word.to_str().ok_or_else(|| format!("{what}: not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(topic: Topic, words: &[&str]) -> Result<Option<Given>, String> {
        Given::parse(topic, &mut Parser::from_args(words.iter().map(OsString::from)))
    }

    #[test]
    fn the_options_of_the_help_are_taken_with_their_values_and_no_others() {
        let given = parse(Topic::Exec, &["-n", "a", "--attr=b=1", "-v", "ls"]).unwrap().unwrap();
        assert_eq!((given.value("--name"), given.values("--attr")), (Ok(Some("a")), Ok(vec!["b=1"])));
        assert!(given.has("--verbose") && !given.has("--grpc"));
        let refused = |words: &[&str]| parse(Topic::Exec, words).unwrap_err();
        assert_eq!(refused(&["--naem", "a"]), "unknown option \"--naem\"; did you mean \"--name\"?");
        assert_eq!(refused(&["--name"]), "missing argument for option '--name'");
        assert!(parse(Topic::Exec, &["-h"]).unwrap().is_none());
    }

    #[test]
    fn what_follows_the_command_of_exec_is_left_as_it_is() {
        for words in [["-v", "ls", "-l", "--help"], ["-v", "--", "ls", "-l"]] {
            let given = parse(Topic::Exec, &words).unwrap().unwrap();
            assert!(given.words().unwrap().starts_with(&["ls", "-l"]), "{given:?}");
        }
        let given = parse(Topic::Exec, &["--", "--", "-v"]).unwrap().unwrap();
        assert_eq!(given.words(), Ok(vec!["--", "-v"]));
    }
}
