//! Keys and values in messages: shortened, without text that may be a secret, and with the word that was probably meant.
//!
//! A value may be as long as a file and be judged once for every exporter, so only its beginning is looked at.

use std::borrow::Cow;
use std::fmt;

/// Stands for what is not shown.
pub(super) const MASK: &str = "***";
/// What begins every block of PEM.
const PEM: &[u8] = b"-----BEGIN";
/// Characters of a value that are shown.
const LONGEST: usize = 60;
/// Bytes of a value that are looked at one by one …
const LOOKED_AT: usize = 100;
/// … and those that are searched for a line break, which takes far less.
const SEARCHED: usize = 4 << 10;
/// Shorter names are hardly tokens.
const MIN_TOKEN_LENGTH: usize = 24;

/// A path as it would be written in a file, with endless parts cut, and without those that are no known key.
pub(super) fn dotted(path: &[&str]) -> String {
    let shown = |part: &&str| match is_pem(part) || is_token(part) {
        true => MASK.to_owned(),
        false => encode(&shortened(part)),
    };
    let parts: Vec<String> = path.iter().map(shown).collect();
    parts.join(".")
}

/// Text for a message: what is very long does not help.
pub(super) fn shortened(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

/// A value in quotes, or what it is if it must not be shown; never one that may be a secret.
pub(super) fn quoted(text: &str) -> String {
    unshown(text).map_or_else(|| format!("{:?}", shortened(text)), str::to_owned)
}

/// A value as a setting, or a mask.
pub(super) fn shown(text: &str) -> Cow<'_, str> {
    if unshown(text).is_some() { MASK.into() } else { shortened(text) }
}

/// What a value is that must not be shown: keys and certificates are injected where their paths belong. `None` for all
/// others.
pub(super) fn unshown(text: &str) -> Option<&'static str> {
    if is_pem(text) {
        return Some("PEM text");
    }
    let searched = &text.as_bytes()[..text.len().min(SEARCHED)];
    if searched.contains(&b'\n') || searched.contains(&b'\r') {
        return Some("a text of several lines");
    }
    // the base 64 of DER, whose first byte is that of a sequence
    let is_der = text.starts_with('M') && text.len() >= LONGEST;
    let is_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b' ');
    (is_der && searched[..LONGEST].iter().all(is_base64)).then_some("base 64")
}

fn is_pem(text: &str) -> bool {
    let beginning = &text.as_bytes()[..text.len().min(LOOKED_AT)];
    // a dash is found much faster than it could be compared at every place
    beginning.contains(&PEM[0]) && beginning.windows(PEM.len()).any(|window| window == PEM)
}

/// Whether a name is more likely a token that stands where a name belongs.
pub(super) fn is_token(name: &str) -> bool {
    let has = |kind: fn(&u8) -> bool| name.bytes().take(LOOKED_AT).any(|byte| kind(&byte));
    name.len() >= MIN_TOKEN_LENGTH
        && has(u8::is_ascii_lowercase)
        && has(u8::is_ascii_uppercase)
        && has(|byte| byte.is_ascii_digit() || matches!(byte, b'+' | b'/' | b'='))
        && !has(|byte| *byte == b' ')
}

/// `a`, `a or b`, `a, b or c`.
pub(super) fn listed(words: &[impl AsRef<str>], last_joint: &str) -> String {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    match words.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} {last_joint} {last}", others.join(", ")),
        _ => words.concat(),
    }
}

/// A part of a key as it has to be written: quoted only if it must be.
pub(super) fn encode(part: &str) -> String {
    if !part.is_empty() && part.chars().all(is_bare) { part.to_owned() } else { quote(part) }
}

/// Returns whether a character can stand in a key or a host name without quotes.
pub(super) fn is_bare(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_')
}

/// Any text as a TOML basic string.
pub(super) fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            _ if character.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(character))),
            _ => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

/// A value that only leaves the program in a request: `Debug` writes `***`.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(String);

impl Secret {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for the one place that sends it.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Words longer than this are not compared: no known one is, and the comparison is quadratic.
const MAX_WORD_LENGTH: usize = 64;

/// Advice for an unknown word, if a person could have meant a known one.
pub(super) fn did_you_mean(word: &str, known: &[&str]) -> Option<String> {
    nearest(word, known).map(|meant| format!("did you mean {meant:?}?"))
}

/// The nearest of the known words, if a person could have meant it.
pub(super) fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    // a third of the letters may be wrong: enough for slips of the hand, too few for another word
    within(word, known, |letters| letters / 3).or_else(|| same_start(word, known))
}

/// The same where most words that are not known are meant so: only one or two letters may be wrong.
pub(super) fn slip<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    within(word, known, |_| 2)
}

/// A word that only goes on too long, like `warning` for `warn`, or ends too early, like `http` for `http/protobuf`.
fn same_start<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let begins = |long: &str, start: &str| {
        start.len() >= 4 && long.get(..start.len()).is_some_and(|begun| begun.eq_ignore_ascii_case(start))
    };
    let alike = known.iter().copied().filter(|known| begins(word, known) || begins(known, word));
    alike.max_by_key(|known| known.len())
}

fn within<'k>(word: &str, known: &[&'k str], most_steps: fn(usize) -> usize) -> Option<&'k str> {
    let letters: Vec<char> = word.chars().take(MAX_WORD_LENGTH + 1).map(|c| c.to_ascii_lowercase()).collect();
    if letters.len() > MAX_WORD_LENGTH {
        return None;
    }
    let steps_to = |candidate: &'k str| {
        let most = most_steps(letters.len().max(candidate.len()));
        distance(&letters, candidate, most).map(|steps| (steps, candidate))
    };
    known.iter().copied().filter_map(steps_to).min().map(|(_, best)| best)
}

/// How many letters must be inserted, removed, replaced or swapped with their neighbour; `None` if more than `most`,
/// which is mostly seen after a few letters.
fn distance(word: &[char], candidate: &str, most: usize) -> Option<usize> {
    let candidate: Vec<char> = candidate.chars().map(|c| c.to_ascii_lowercase()).collect();
    if word.len().abs_diff(candidate.len()) > most {
        return None;
    }
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=candidate.len()).collect();
    for (row, &letter) in word.iter().enumerate() {
        let mut current = Vec::with_capacity(last.len());
        current.push(row + 1);
        for (column, &wanted) in candidate.iter().enumerate() {
            let replaced = last[column] + usize::from(letter != wanted);
            let mut steps = replaced.min(last[column + 1] + 1).min(current[column] + 1);
            let swapped = row > 0 && column > 0 && letter == candidate[column - 1] && word[row - 1] == wanted;
            if swapped {
                steps = steps.min(before_last[column - 1] + 1);
            }
            current.push(steps);
        }
        // a swap goes on from the row before
        if last.iter().chain(&current).all(|steps| *steps > most) {
            return None;
        }
        before_last = std::mem::replace(&mut last, current);
    }
    Some(last[candidate.len()]).filter(|steps| *steps <= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_formatted() {
        let secret = Secret::new("hunter2");
        assert_eq!(format!("{secret:?} {:?}", Some(&secret)), "*** Some(***)");
        assert_eq!(secret.expose(), "hunter2");
    }

    const KNOWN: [&str; 6] = ["endpoint", "timeout", "throttle", "lossy", "enable.log-exporter", "DROP"];

    #[test]
    fn slips_of_the_hand_are_recognised() {
        for (word, meant) in [
            ("endpont", "endpoint"),
            ("endpiont", "endpoint"),
            ("Timeout", "timeout"),
            ("drpo", "DROP"),
            ("trottle", "throttle"),
            ("losy", "lossy"),
            ("enable-log-exporter", "enable.log-exporter"),
        ] {
            assert_eq!(nearest(word, &KNOWN), Some(meant), "{word:?}");
        }
    }

    #[test]
    fn a_slip_is_one_or_two_letters_in_a_word_of_any_length() {
        assert_eq!(slip("enable.lgo-exporte", &KNOWN), Some("enable.log-exporter"));
        assert_eq!(slip("enable.log-expo", &KNOWN), None);
        assert_eq!(nearest("enable.log-expo", &KNOWN), Some("enable.log-exporter"));
    }

    #[test]
    fn as_many_letters_as_may_be_wrong_may_be_too_many() {
        assert_eq!(slip("lossy-and", &KNOWN), None);
        assert_eq!(slip("lossyxy", &KNOWN), Some("lossy"));
        assert_eq!(nearest("lossyxy", &KNOWN), Some("lossy"));
    }

    #[test]
    fn other_words_are_left_alone() {
        for word in ["", "colour", "x", "url", &"e".repeat(1_000_000)] {
            assert_eq!(nearest(word, &KNOWN), None, "{:?}", word.get(..8));
        }
        assert_eq!(nearest("word", &[]), None);
    }
}
