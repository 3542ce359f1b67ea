//! What a scalar means: the core schema of YAML 1.2.

use std::borrow::Cow;

use granit_parser::{ScalarStyle, Tag};

use crate::config::error::Fault;
use crate::config::node::{Integer, Tree};

/// The type that a tag asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Whatever it looks like.
    Any,
    Text,
    Integer,
    Float,
    Bool,
    Null,
    List,
    Table,
    /// The key of a merge.
    Merge,
}

impl Wanted {
    /// # Errors
    ///
    /// Tags make types of other programs: what they mean is not known here.
    pub(super) fn by(tag: Option<&Tag>) -> Result<Self, Fault> {
        const CORE: &str = "tag:yaml.org,2002:";
        let Some(tag) = tag else {
            return Ok(Self::Any);
        };
        match tag.suffix_in_namespace(CORE).as_deref() {
            Some("str") => return Ok(Self::Text),
            Some("int") => return Ok(Self::Integer),
            Some("float") => return Ok(Self::Float),
            Some("bool") => return Ok(Self::Bool),
            Some("null") => return Ok(Self::Null),
            Some("seq") => return Ok(Self::List),
            Some("map") => return Ok(Self::Table),
            Some("merge") => return Ok(Self::Merge),
            _ => {}
        }
        match (tag.handle(), tag.suffix()) {
            // the tag that says "do not guess"
            ("", "!") | ("!", "") => Ok(Self::Text),
            _ => {
                Err(Fault::new("a tag of another program", "remove it; text that begins with ! needs quotes"))
            }
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Any => "anything",
            Self::Text => "text",
            Self::Integer => "an integer",
            Self::Float => "a float",
            Self::Bool => "a boolean",
            Self::Null => "nothing",
            Self::List => "a list",
            Self::Table => "a table",
            Self::Merge => "the key <<",
        }
    }

    /// Whether a list or a table may stand here; `!` asks nothing of them.
    ///
    /// # Errors
    ///
    /// What stands here instead.
    pub(super) fn allows(self, collection: Self) -> Result<(), Fault> {
        if matches!(self, Self::Any | Self::Text) || self == collection {
            return Ok(());
        }
        Err(self.mismatch(collection.name()))
    }

    fn mismatch(self, found: &str) -> Fault {
        Fault::new(format!("the tag asks for {}, found {found}", self.name()), "remove the tag")
    }
}

/// Reads a scalar; only plain ones mean anything but text, unless a tag says so.
///
/// # Errors
///
/// If it is not what its tag asks for.
pub(super) fn read(text: Cow<'_, str>, style: ScalarStyle, wanted: Wanted) -> Result<Tree, Fault> {
    let is_text = wanted == Wanted::Text || wanted == Wanted::Any && style != ScalarStyle::Plain;
    if is_text {
        return Ok(Tree::Text(text.into_owned()));
    }
    let found = plain(text);
    match (wanted, found) {
        (Wanted::Any, found)
        | (Wanted::Integer, found @ Tree::Integer(_))
        | (Wanted::Float, found @ Tree::Float { .. })
        | (Wanted::Bool, found @ Tree::Bool(_))
        | (Wanted::Null, found @ Tree::Null) => Ok(found),
        (Wanted::Float, Tree::Integer(integer)) => {
            let value = integer.value as f64;
            Ok(Tree::Float { written: integer.written, value })
        }
        (Wanted::Merge, Tree::Text(text)) if text == "<<" => Ok(Tree::Text(text)),
        _ => Err(wanted.mismatch("something else")),
    }
}

fn plain(text: Cow<'_, str>) -> Tree {
    match &*text {
        "" | "~" | "null" | "Null" | "NULL" => return Tree::Null,
        "true" | "True" | "TRUE" => return Tree::Bool(true),
        "false" | "False" | "FALSE" => return Tree::Bool(false),
        _ => {}
    }
    if let Some(value) = integer(&text) {
        return Tree::Integer(Integer { written: text.into_owned(), value });
    }
    match float(&text) {
        Some(value) => Tree::Float { written: text.into_owned(), value },
        None => Tree::Text(text.into_owned()),
    }
}

fn integer(text: &str) -> Option<i128> {
    let (digits, radix, end) = if let Some(octal) = text.strip_prefix("0o") {
        (octal, 8, i128::MAX)
    } else if let Some(hexadecimal) = text.strip_prefix("0x") {
        (hexadecimal, 16, i128::MAX)
    } else if let Some(negative) = text.strip_prefix('-') {
        (negative, 10, i128::MIN)
    } else {
        (text.strip_prefix('+').unwrap_or(text), 10, i128::MAX)
    };
    let is_number = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix));
    if !is_number {
        return None;
    }
    // with its sign, because the lowest number has no positive twin; only what is beyond the scale fails now
    let signed = if radix == 10 { text } else { digits };
    Some(i128::from_str_radix(signed, radix).unwrap_or(end))
}

fn float(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    match unsigned {
        ".inf" | ".Inf" | ".INF" if text.starts_with('-') => return Some(f64::NEG_INFINITY),
        ".inf" | ".Inf" | ".INF" => return Some(f64::INFINITY),
        ".nan" | ".NaN" | ".NAN" if unsigned == text => return Some(f64::NAN),
        _ => {}
    }
    // Rust knows words like `inf` and `infinity`, which are text in YAML
    let is_number = unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    if is_number { text.parse().ok() } else { None }
}
