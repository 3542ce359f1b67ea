//! Messages without the secrets that a server may have repeated in them.

/// Shorter words of a secret, such as `Basic` and `Bearer`, may be said.
const SECRET_WORD: usize = 8;
/// So much of a longer word is concealed, too, where a message was cut.
const SECRET_PART: usize = 3;

/// The text without these secrets, or words of them.
pub(super) fn conceal<'a>(text: String, secrets: impl Iterator<Item = &'a str>) -> String {
    secrets.flat_map(words).filter(|word| word.len() >= SECRET_WORD).fold(text, |text, word| {
        let mut text = text.replace(word, "***");
        // a message that was cut to its length may end within a word
        let mut parts = (SECRET_PART..word.len()).rev().filter(|length| word.is_char_boundary(*length));
        if let Some(length) = parts.find(|length| text.ends_with(&word[..*length])) {
            text.replace_range(text.len() - length.., "***");
        }
        text
    })
}

/// What a server could repeat: a token, or a single value of a query or a cookie.
fn words(secret: &str) -> impl Iterator<Item = &str> {
    secret.split_ascii_whitespace().chain(secret.split([' ', '\t', '/', '?', '&', ';', '=']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_that_a_server_repeats_is_concealed_whole_or_cut() {
        let secrets = ["Bearer s3cret-and-long", "/v1/traces?key=of-the-kingdom", "schlüssel-für-ä"];
        for (said, shown) in [
            ("bad token s3cret-and-long.", "bad token ***."),
            ("Bearer s3cret-and-long", "Bearer ***"),
            ("who is s3cret-and", "who is ***"),
            ("who is s3c", "who is ***"),
            ("no such key: of-the-kingdom", "no such key: ***"),
            ("wrong: schlüssel-f", "wrong: ***"),
            ("nothing to hide", "nothing to hide"),
        ] {
            assert_eq!(conceal(said.to_owned(), secrets.into_iter()), shown);
        }
    }
}
