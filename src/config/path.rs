//! Keys and values as messages show them: short, and never what looks like a key or a token.
//!
//! A value may be as long as a file and be judged once for every exporter, so only its beginning is looked at.

use std::borrow::Cow;

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
const SHORTEST_TOKEN: usize = 24;

/// A path as it would be written in a file, with endless parts cut, and without those that are no known key.
pub(super) fn dotted(path: &[&str]) -> String {
    let shown = |part: &&str| match is_pem(part) || is_token(part) {
        true => MASK.to_owned(),
        false => encode(&shortened(part)),
    };
    let parts: Vec<String> = path.iter().map(shown).collect();
    parts.join(".")
}

/// Text for a message: what is very long helps nobody.
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
fn is_token(name: &str) -> bool {
    let has = |kind: fn(&u8) -> bool| name.bytes().take(LOOKED_AT).any(|byte| kind(&byte));
    name.len() >= SHORTEST_TOKEN
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
    let is_bare =
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
    if is_bare { part.to_owned() } else { quote(part) }
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
