//! What does a value of a file say, and is it of the type that its key has?

use std::time::Duration;

use crate::config::error::{Fault, Words};
use crate::config::node::{Integer, Node, Tree};
use crate::config::read::expand::Surroundings;
use crate::config::text::{quoted, shortened};
use crate::config::{text, units};

pub(in crate::config) const PERCENT_ADVICE: &str = "write a number of percent like 100 or 0.1";

/// Why a value was not taken.
pub(in crate::config) enum Unusable {
    /// Another type than the key has.
    WrongType,
    Faulty(Fault),
}

impl Unusable {
    /// What is wrong; `advice` is for a value of another type.
    pub(in crate::config) fn into_fault(self, node: &Node, advice: &'static str) -> Fault {
        match self {
            Self::WrongType => Fault::new(format!("found {}", node.kind()), advice),
            Self::Faulty(fault) => fault,
        }
    }
}

impl From<Fault> for Unusable {
    fn from(fault: Fault) -> Self {
        Unusable::Faulty(fault)
    }
}

/// A string, with its secrets put in.
pub(in crate::config) struct Text<'v> {
    /// As it stands in the file: the only form that may be shown.
    pub(in crate::config) written: &'v str,
    pub(in crate::config) text: String,
    /// Whether something was put in, so that `text` is not `written`.
    pub(in crate::config) is_secret: bool,
}

impl Text<'_> {
    /// Says something of the text, without showing what was put in.
    pub(in crate::config) fn fault(&self, fault: Fault) -> Fault {
        let has_user_info = self.written.split_once("://").is_some_and(|(_, rest)| rest.contains('@'));
        let shown = if has_user_info { "a URL with user info".to_owned() } else { quoted(self.written) };
        let what = format!("{shown} {}", fault.what);
        fault.saying(what)
    }
}

pub(in crate::config) fn text<'v>(node: &'v Node, surroundings: &Surroundings) -> Result<Text<'v>, Unusable> {
    let written = node.as_text().ok_or(Unusable::WrongType)?;
    let expanded = surroundings.expand(written)?;
    Ok(Text { written, text: expanded.text, is_secret: expanded.is_secret })
}

/// One of the words that a key knows, in any case.
pub(in crate::config) fn word<'k>(
    node: &Node,
    surroundings: &Surroundings,
    advice: &'static str,
    known: &[&'k str],
) -> Result<&'k str, Unusable> {
    let text = text(node, surroundings)?;
    let found = known.iter().find(|known| known.eq_ignore_ascii_case(&text.text));
    found.copied().ok_or_else(|| unknown_word(&text, known, advice))
}

fn unknown_word(text: &Text<'_>, known: &[&str], advice: &'static str) -> Unusable {
    // half a secret is no misspelt word
    let word = if text.is_secret { "" } else { text.text.as_str() };
    let fix = text::did_you_mean(word, known).map_or(advice.into(), Words::from);
    text.fault(Fault::new("is not known", fix)).into()
}

/// Text, or a number that was written without quotes.
pub(in crate::config) fn loose_text<'v>(
    node: &'v Node,
    surroundings: &Surroundings,
) -> Result<Text<'v>, Unusable> {
    match &node.value {
        Tree::Integer(Integer { written, .. }) | Tree::Float { written, .. } => {
            Ok(Text { written, text: written.clone(), is_secret: false })
        }
        _ => text(node, surroundings),
    }
}

/// A number of percent, which an environment variable can only give as text.
pub(in crate::config) fn percent(node: &Node, surroundings: &Surroundings) -> Result<f64, Unusable> {
    const NO_NUMBER: &str = "is not a number";
    match &node.value {
        Tree::Integer(number) => Ok(number.value as f64),
        Tree::Float { value, written } if value.is_nan() => {
            Err(Fault::new(format!("{written} {NO_NUMBER}"), PERCENT_ADVICE).into())
        }
        Tree::Float { value, .. } => Ok(*value),
        _ => {
            let text = text(node, surroundings)?;
            let number = text.text.trim().parse::<f64>().ok().filter(|number| !number.is_nan());
            number.ok_or_else(|| text.fault(Fault::new(NO_NUMBER, PERCENT_ADVICE)).into())
        }
    }
}

/// A duration as Go spells it: always with its units.
pub(in crate::config) fn go_duration(node: &Node, surroundings: &Surroundings) -> Result<Duration, Unusable> {
    if let Tree::Integer(number) = &node.value {
        return units::parse_go_duration(&number.written).map_err(|fault| {
            let what = format!("{} {}", shortened(&number.written), fault.what);
            fault.saying(what).into()
        });
    }
    let text = text(node, surroundings)?;
    units::parse_go_duration(&text.text).map_err(|fault| text.fault(fault).into())
}

pub(in crate::config) fn bool(node: &Node) -> Result<bool, Unusable> {
    match node.value {
        Tree::Bool(value) => Ok(value),
        _ => Err(Unusable::WrongType),
    }
}

/// Milliseconds as a number, or a number with its unit as a string.
pub(in crate::config) fn duration(node: &Node, surroundings: &Surroundings) -> Result<Duration, Unusable> {
    if let Tree::Integer(number) = &node.value {
        return Ok(Duration::from_millis(whole(number)?));
    }
    let text = text(node, surroundings)?;
    units::parse_duration(&text.text).map_err(|fault| text.fault(fault).into())
}

/// Bytes as a number, or a number with its unit as a string.
pub(in crate::config) fn bytes(node: &Node, surroundings: &Surroundings) -> Result<u64, Unusable> {
    if let Tree::Integer(number) = &node.value {
        return Ok(whole(number)?);
    }
    let text = text(node, surroundings)?;
    units::parse_size(&text.text).map_err(|fault| text.fault(fault).into())
}

pub(in crate::config) fn count(node: &Node) -> Result<u64, Unusable> {
    match &node.value {
        Tree::Integer(number) => Ok(whole(number)?),
        _ => Err(Unusable::WrongType),
    }
}

fn whole(number: &Integer) -> Result<u64, Fault> {
    let written = || shortened(&number.written);
    if number.value < 0 {
        return Err(Fault::new(format!("{} is negative", written()), "write a positive number"));
    }
    u64::try_from(number.value)
        .map_err(|_| Fault::new(format!("{} is too large", written()), "write a smaller number"))
}
