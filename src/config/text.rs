//! Keys and values in messages: masks those that may be secrets, and suggests the known word for a misspelled one.
//!
//! # What may be shown
//!
//! A secret can be anywhere in a file or a variable, because people paste secrets into the wrong place. All messages,
//! and the lines of a file that `standpipe check` quotes, follow one rule, [`is_showable`]: a text is shown if it is
//! *one short word* that does not look like a token. A word consists of letters, digits, and a few signs, such as `/`
//! and `:`. A number and its unit, such as `5 s`, count as one word. `zstd`, `carrier-pigeon` and
//! `http://localhost:4318` are shown; `gzip hunter2`, `password=hunter2` and `*hunter2` are not. [`quoted`] writes
//! `*** (12 characters)` in their place, and [`dotted`] `***`.
//!
//! The value of a setting that was accepted, such as a resource attribute, may consist of several words. [`shown`]
//! masks it only if it contains the name of a credential (`password=…`) or user info, or if [`unshown`] forbids it.
//!
//! Only the beginning of a value is inspected: a value may be as long as a file, and is checked once per exporter.

use std::borrow::Cow;
use std::fmt;

use super::values::header;

/// Stands for text that is not shown.
pub(super) const MASK: &str = "***";
/// The first bytes of every PEM block.
const PEM: &[u8] = b"-----BEGIN";
/// Longest text that is shown, in characters.
const MAX_SHOWN: usize = 60;
/// Number of bytes that are searched for the start of PEM and for the character classes of a token.
const MAX_INSPECTED: usize = 100;
/// Number of bytes that are searched for a line break. It may exceed [`MAX_INSPECTED`], because a search for a single
/// byte is far cheaper per byte.
const MAX_SEARCHED: usize = 4 << 10;
/// Shortest text that is taken for a token.
const MIN_TOKEN_LENGTH: usize = 24;
/// Longest number with its unit, such as `16 MiB`, in bytes.
const MAX_MEASURE: usize = 12;
/// Parts of words that indicate a credential, separated by spaces.
const CREDENTIALS: &str = "passw pwd secret token credential bearer authorization apikey api-key api_key";
/// Further parts of words that indicate a credential if they occur in the name of an unknown key.
const SUSPECT: &str = "auth key pass cred cookie head dsn x-";

/// Returns whether a text of a file or a variable may be shown: the rule of the [module](self).
pub(super) fn is_showable(text: &str) -> bool {
    // A reference such as `%{env:NAME}%` or `${NAME}` only names a secret, so its signs may be shown. `<` is allowed
    // because of `<<`, YAML's merge key.
    let is_reference = text.starts_with("%{") || text.starts_with("${");
    let signs = if is_reference { "-_./:%+[]~<{}$" } else { "-_./:%+[]~<" };
    let is_word =
        || text.chars().all(|c| is_letter(c) || c.is_ascii_digit() || signs.contains(c)) && !has_token(text);
    // The cheap tests first: they bound the length of the text for the others.
    text.chars().nth(MAX_SHOWN).is_none() && unshown(text).is_none() && (is_word() || is_measure(text))
}

/// Returns whether a character is a letter. Every character that is neither ASCII nor a space counts as one, because a
/// table of all alphabets would add 2 KB to a small program.
fn is_letter(c: char) -> bool {
    c.is_ascii_alphabetic() || (!c.is_ascii() && !c.is_whitespace())
}

/// Returns whether a text is a number with or without a unit, such as `5`, `16 MiB` or `1h 30m`.
fn is_measure(text: &str) -> bool {
    let is_digit = |c: char| c.is_ascii_digit() || c == '.';
    let is_unit = |word: &str| word.len() <= 5 && word.chars().all(|c| is_letter(c) || c == '%');
    let is_number = |word: &str| word.starts_with(is_digit) && is_unit(word.trim_start_matches(is_digit));
    text.len() <= MAX_MEASURE
        && match text.split_once(' ') {
            None => is_number(text),
            Some((number, unit)) if number.chars().all(is_digit) => is_unit(unit),
            Some((first, second)) => is_number(first) && is_number(second),
        }
}

/// Returns whether a value is harmless whatever its key means: a number, a size, a time, a short word in lower case or
/// an address without a path, under a name that does not indicate a credential.
pub(super) fn is_plain(key: &str, value: &str) -> bool {
    let host = value.trim_start_matches("https://").trim_start_matches("http://");
    // Removes the port, if there is one.
    let host = host.trim_end_matches(|c: char| c.is_ascii_digit()).strip_suffix(':').unwrap_or(host);
    let is_word = host.len() <= 20 && host.chars().all(|c| c.is_ascii_lowercase() || matches!(c, '-' | '.'));
    let is_suspect = has_any(key, CREDENTIALS) || has_any(key, SUSPECT);
    !value.is_empty() && !is_suspect && (is_measure(value) || is_word)
}

/// Returns whether a word is a token, or a path or an address in which a token is one of the parts.
fn has_token(word: &str) -> bool {
    // Base 64 may contain slashes as well, but no dot, and it rarely begins with a slash.
    let is_path = word.starts_with(['/', '%']) || word.contains('.') || word.contains("://");
    if is_path { word.split(['/', '.', ':', '}']).any(is_token) } else { is_token(word) }
}

/// Returns a path of keys as a file would spell it. Parts that may not be shown, and all parts after the name of a
/// header, are masked.
pub(super) fn dotted(path: &[&str]) -> String {
    // The first two parts name the section, which may itself be called `headers`.
    let headers = path.iter().skip(2).position(|part| *part == "headers").map_or(path.len(), |at| at + 2);
    let is_shown = |index: usize, part: &str| match index.checked_sub(headers) {
        None | Some(0) => is_showable(part),
        Some(below) => below == 1 && header::is_like_a_name(part),
    };
    let shown = |(at, part): (usize, &&str)| if is_shown(at, part) { encode(part) } else { MASK.to_owned() };
    let parts: Vec<String> = path.iter().enumerate().map(shown).collect();
    parts.join(".")
}

/// Returns at most the first [`MAX_SHOWN`] characters of a text, with an ellipsis if there are more.
pub(super) fn shortened(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

/// Returns a value for a message: in quotes, or described if it may not be shown.
pub(super) fn quoted(text: &str) -> String {
    match unshown(text) {
        Some(description) => description.to_owned(),
        None if has_user_info(text) => "a URL with user info".to_owned(),
        None if is_showable(text) => format!("{text:?}"),
        None => format!("{MASK} ({} characters)", text.chars().count()),
    }
}

/// Returns the text that the list of settings shows for a valid value: a mask if the value names a credential.
pub(super) fn shown(text: &str) -> Cow<'_, str> {
    let is_secret = unshown(text).is_some() || has_user_info(text) || has_credential(text);
    if is_secret { MASK.into() } else { shortened(text) }
}

fn has_user_info(text: &str) -> bool {
    text.split_once("://").is_some_and(|(_, rest)| rest.contains('@'))
}

/// Returns whether a text contains the name of a credential, followed by a separator: `password=…`, `Bearer …`.
fn has_credential(text: &str) -> bool {
    let beginning = text.chars().take(MAX_SHOWN).collect::<String>().to_ascii_lowercase();
    CREDENTIALS.split(' ').any(|word| {
        let mut rests = beginning.split(word).skip(1);
        // Non-ASCII characters count as letters, as in `passwörter=…`: Unicode's tables would make programs larger.
        let is_letter = |c: char| c.is_ascii_alphanumeric() || !c.is_ascii();
        rests.any(|rest| rest.trim_start_matches(is_letter).starts_with(['=', ':', ' ']))
    })
}

/// Returns whether a name indicates a credential, such as `db.password`.
pub(super) fn is_credential_name(name: &str) -> bool {
    has_any(name, CREDENTIALS)
}

/// Returns whether a name contains one of these words, ignoring case.
fn has_any(name: &str, words: &str) -> bool {
    let name = name.to_ascii_lowercase();
    words.split(' ').any(|word| name.contains(word))
}

/// Returns a description of a text that must not be shown, such as a key or a certificate that was written where its
/// path belongs. Returns `None` for any other text.
pub(super) fn unshown(text: &str) -> Option<&'static str> {
    if is_pem(text) {
        return Some("PEM text");
    }
    let searched = &text.as_bytes()[..text.len().min(MAX_SEARCHED)];
    if searched.contains(&b'\n') || searched.contains(&b'\r') {
        return Some("a text of several lines");
    }
    // The base 64 of DER begins with M: the first byte is the tag of a sequence.
    let is_der = text.starts_with('M') && text.len() >= MAX_SHOWN;
    let is_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b' ');
    (is_der && searched[..MAX_SHOWN].iter().all(is_base64)).then_some("base 64")
}

fn is_pem(text: &str) -> bool {
    let beginning = &text.as_bytes()[..text.len().min(MAX_INSPECTED)];
    // The search for a single byte is fast, and most texts have no dash.
    beginning.contains(&PEM[0]) && beginning.windows(PEM.len()).any(|window| window == PEM)
}

/// Returns whether a name is more likely a token: long, with letters of both cases, and digits or signs of base 64.
pub(super) fn is_token(name: &str) -> bool {
    let has = |kind: fn(&u8) -> bool| name.bytes().take(MAX_INSPECTED).any(|byte| kind(&byte));
    name.len() >= MIN_TOKEN_LENGTH
        && has(u8::is_ascii_lowercase)
        && has(u8::is_ascii_uppercase)
        && has(|byte| byte.is_ascii_digit() || matches!(byte, b'+' | b'/' | b'='))
        && !has(|byte| *byte == b' ')
}

/// Joins words to `a`, `a or b` or `a, b or c`.
pub(super) fn listed(words: &[impl AsRef<str>], last_joint: &str) -> String {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    match words.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} {last_joint} {last}", others.join(", ")),
        _ => words.concat(),
    }
}

/// Returns a part of a key as TOML spells it: quoted only if necessary.
pub(super) fn encode(part: &str) -> String {
    if !part.is_empty() && part.chars().all(is_bare) { part.to_owned() } else { quote(part) }
}

/// Returns whether a character may occur in a key without quotes. Labels of host names consist of the same characters.
pub(super) fn is_bare(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_')
}

/// Returns a text as a basic string of TOML, which is also a string of JSON.
pub(crate) fn quote(text: &str) -> String {
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

/// A value that is sent in requests but never shown: `Debug` writes `***`.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(String);

impl Secret {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text, for the code that sends or checks it.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Longest word that is compared with known words, because the comparison takes quadratic time. All known words are
/// shorter.
const MAX_WORD_LENGTH: usize = 64;

/// Returns the words of a list that is separated by commas.
pub(super) fn words(list: &str) -> Vec<&str> {
    list.split(',').map(str::trim).filter(|word| !word.is_empty()).collect()
}

/// Returns the advice for an unknown word: the word that was probably meant, or else all known words.
pub(super) fn what_to_write(word: &str, known: &[&str]) -> String {
    did_you_mean(word, known).unwrap_or_else(|| format!("write {}", listed(known, "or")))
}

/// Returns the advice for an unknown word, if a known word is similar.
pub(super) fn did_you_mean(word: &str, known: &[&str]) -> Option<String> {
    nearest(word, known).map(|meant| format!("did you mean {meant:?}?"))
}

/// Returns the most similar known word, if it is similar enough to be the intended one.
pub(super) fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    // A third of the letters may differ, which allows typing errors but rarely matches another word.
    within(word, known, |letters| letters / 3).or_else(|| same_start(word, known))
}

/// Returns the most similar known word if at most two letters differ. For names that are usually correct even if they
/// are unknown, such as environment variables of other programs.
pub(super) fn slip<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    within(word, known, |_| 2)
}

/// Returns a known word that is the beginning of this word, such as `warn` for `warning`, or that begins with this
/// word, such as `http/protobuf` for `http`.
fn same_start<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let begins = |long: &str, start: &str| {
        start.len() >= 4 && long.get(..start.len()).is_some_and(|begun| begun.eq_ignore_ascii_case(start))
    };
    let alike = known.iter().copied().filter(|known| begins(word, known) || begins(known, word));
    // The longest match is the most specific one.
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

/// Returns the Damerau-Levenshtein distance (optimal string alignment): the number of letters to insert, remove,
/// replace or swap with their neighbor. Returns `None` if the distance exceeds `most`, which is usually known after a
/// few rows of the matrix.
fn distance(word: &[char], candidate: &str, most: usize) -> Option<usize> {
    let candidate: Vec<char> = candidate.chars().map(|c| c.to_ascii_lowercase()).collect();
    if word.len().abs_diff(candidate.len()) > most {
        return None;
    }
    // Only three rows of the matrix are kept. The one before the last is needed for swapped neighbors.
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
        // A swap in the next row continues from `last`, so both `last` and `current` must exceed the maximum.
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

    #[test]
    fn shows_one_word_or_a_number_with_its_unit() {
        for text in [
            "",
            "zstd",
            "carrier-pigeon",
            "http://localhost:4318",
            "/etc/ssl/certs/MyCompanyCA2024.pem",
            "100%",
            "5 s",
            "16 MiB",
            "1h 30m",
            "%{env:TOKEN}%",
            "Größe",
            "%{env:OTEL_TOKEN_2024}%",
        ] {
            assert_eq!(quoted(text), format!("{text:?}"));
        }
        for text in [
            "gzip hunter2",
            "password=hunter2",
            "0s hunter2",
            "0s hunt",
            "5 hunter2",
            "*hunter2",
            "%{env:c2VjcmV0LXRva2VuLWh1bnRlcjI}%",
            "{hunter2}",
            "me:hunter2@host",
            "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
            "/in/c2VjcmV0LXRva2VuLWh1bnRlcjI",
            &"x".repeat(MAX_SHOWN + 1),
        ] {
            assert_eq!(quoted(text), format!("*** ({} characters)", text.chars().count()));
            assert_eq!(dotted(&["tracer", "a", text]), "tracer.a.***");
        }
    }

    #[test]
    fn shows_names_of_headers_and_nothing_below_them() {
        for (path, shown) in [
            (&["tracer", "a", "headers", "X-Tenant"][..], "tracer.a.headers.X-Tenant"),
            (&["tracer", "a", "headers", "X-Tenant", "x"], "tracer.a.headers.X-Tenant.***"),
            (&["tracer", "a", "headers", "eyJhbGciOiJIUzI1NiJ9"], "tracer.a.headers.***"),
            (&["tracer", "headers", "enable", "x"], "tracer.headers.enable.x"),
        ] {
            assert_eq!(dotted(path), shown);
        }
    }

    #[test]
    fn masks_a_setting_that_names_a_credential() {
        for text in [
            "password=hunter2",
            "Passwörter: hunter2",
            "Bearer hunter2",
            "x api_key: hunter2",
            "postgres://me:hunter2@db",
        ] {
            assert_eq!(shown(text), MASK);
        }
        for text in ["shop", "token-service", "Debian GNU/Linux 12", "a=b"] {
            assert_eq!(shown(text), text);
        }
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
