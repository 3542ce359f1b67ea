//! Values as the parser hands them over: which type they have, and what they say.

use std::time::Duration;

use toml::de::{DeInteger, DeValue};

use super::document::shortened;
use crate::config::error::Fault;
use crate::config::expand::Surroundings;
use crate::config::{duration, size};

/// Why a value was not taken.
pub(super) enum Unusable {
    /// Another type than the key has.
    WrongType,
    Faulty(Fault),
}

impl From<Fault> for Unusable {
    fn from(fault: Fault) -> Self {
        Unusable::Faulty(fault)
    }
}

/// A string, with its secrets put in.
pub(super) struct Text<'v> {
    /// As it stands in the file: the only form that may be shown.
    pub(super) written: &'v str,
    pub(super) text: String,
    /// Whether something was put in, so that `text` is not `written`.
    pub(super) is_secret: bool,
}

impl Text<'_> {
    /// Says something of the text, without showing what was put in.
    pub(super) fn fault(&self, fault: Fault) -> Fault {
        Fault::new(format!("{:?} {}", shortened(self.written), fault.what), fault.fix)
    }
}

pub(super) fn text<'v>(value: &'v DeValue<'_>, surroundings: &Surroundings) -> Result<Text<'v>, Unusable> {
    let written = value.as_str().ok_or(Unusable::WrongType)?;
    let expanded = surroundings.expand(written)?;
    Ok(Text { written, text: expanded.text, is_secret: expanded.is_secret })
}

/// One of the words that a key knows.
pub(super) fn word<T>(
    value: &DeValue<'_>,
    surroundings: &Surroundings,
    advice: &str,
    meaning: impl Fn(&str) -> Option<T>,
) -> Result<T, Unusable> {
    let text = text(value, surroundings)?;
    meaning(&text.text).ok_or_else(|| text.fault(Fault::new("is not known", advice)).into())
}

pub(super) fn truth(value: &DeValue<'_>) -> Result<bool, Unusable> {
    value.as_bool().ok_or(Unusable::WrongType)
}

/// Milliseconds as a number, or a number with its unit as a string.
pub(super) fn span_of_time(value: &DeValue<'_>, surroundings: &Surroundings) -> Result<Duration, Unusable> {
    if let DeValue::Integer(number) = value {
        return Ok(Duration::from_millis(whole(number)?));
    }
    let text = text(value, surroundings)?;
    duration::parse(&text.text).map_err(|fault| text.fault(fault).into())
}

/// Bytes as a number, or a number with its unit as a string.
pub(super) fn bytes(value: &DeValue<'_>, surroundings: &Surroundings) -> Result<usize, Unusable> {
    if let DeValue::Integer(number) = value {
        return Ok(pinned(whole(number)?));
    }
    let text = text(value, surroundings)?;
    size::parse(&text.text).map(pinned).map_err(|fault| text.fault(fault).into())
}

pub(super) fn count(value: &DeValue<'_>) -> Result<usize, Unusable> {
    let number = value.as_integer().ok_or(Unusable::WrongType)?;
    Ok(pinned(whole(number)?))
}

fn whole(number: &DeInteger<'_>) -> Result<u64, Fault> {
    let digits = number.as_str();
    if digits.starts_with('-') {
        return Err(Fault::new(format!("{} is negative", shortened(digits)), "write a positive number"));
    }
    u64::from_str_radix(digits.trim_start_matches('+'), number.radix())
        .map_err(|_| Fault::new(format!("{} is too large", shortened(digits)), "write a smaller number"))
}

/// What does not fit is far above every bound, and stays so.
fn pinned(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
