//! Keys and values as messages show them.

use std::borrow::Cow;

/// A path as it would be written in a file, with endless parts cut.
pub(super) fn dotted(path: &[&str]) -> String {
    let parts: Vec<String> = path.iter().map(|part| encode(&shortened(part))).collect();
    parts.join(".")
}

/// Text for a message: what is very long helps nobody.
pub(super) fn shortened(text: &str) -> Cow<'_, str> {
    const LONGEST: usize = 60;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

/// A value in quotes; never one that may be a secret.
pub(super) fn quoted(text: &str) -> String {
    format!("{:?}", shortened(text))
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
