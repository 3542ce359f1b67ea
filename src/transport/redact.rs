//! Redaction of secrets in messages. Servers and proxies may repeat a secret as it was sent or in another form (JSON,
//! URL, base64, hex).

use std::fmt::Write;
use std::ops::Range;

use super::base64;

/// Length of a part of a secret: messages are searched for these parts. A part may begin at any character of the
/// secret. Shorter words, such as `Basic` and `Bearer`, may be shown.
const PART: usize = 8;
/// Minimum length of a password that is searched for as a whole, and of a cut-off secret at the end of a message.
const CUT: usize = 3;
const HIDDEN: &str = "***";

/// The secrets to redact. Case does not matter, because a server may change it.
#[derive(Clone, Default)]
pub(super) struct Secrets {
    /// All parts of all words.
    parts: Vec<[u8; PART]>,
    /// Complete tokens, and their forms in JSON, URLs, base64 and hexadecimal digits.
    wholes: Vec<Vec<u8>>,
    /// Complete tokens in lower case; a message that was cut off may end with the beginning of one.
    beginnings: Vec<Vec<u8>>,
}

impl Secrets {
    pub(super) fn new<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Self {
        Self::default().with(secrets)
    }

    /// Adds secrets.
    pub(super) fn with<'a>(mut self, secrets: impl IntoIterator<Item = &'a str>) -> Self {
        for secret in secrets {
            // A server may decode Basic credentials and repeat the password alone.
            if let Some(password) = base64::basic_password(secret) {
                self.add(&password);
                if password.len() >= CUT {
                    // A password may be too short to be searched for in parts.
                    self.wholes.extend(forms(&password));
                }
            }
            self.add(secret);
        }
        self
    }

    fn add(&mut self, secret: &str) {
        // A word is a token, or a single value of a query or a cookie.
        let words = secret.split([' ', '\t', '/', '?', '&', ';', '=']);
        for word in words.filter(|word| word.len() >= PART) {
            forms(word).iter().for_each(|form| self.add_parts(form));
        }
        let tokens = secret.split_ascii_whitespace().filter(|token| token.len() >= PART);
        for token in tokens {
            self.wholes.extend(forms(token));
            self.beginnings.push(token.to_ascii_lowercase().into_bytes());
        }
    }

    /// Returns the text with its secrets replaced.
    pub(super) fn redact(&self, text: String) -> String {
        let lower = text.to_ascii_lowercase();
        let mut found = self.find(lower.as_bytes());
        found.extend(self.find_cut(lower.as_bytes()));
        if found.is_empty() {
            return text;
        }
        let mut is_hidden = vec![false; text.len()];
        found.into_iter().for_each(|range| is_hidden[range].fill(true));
        let mut redacted = String::with_capacity(text.len());
        let mut follows_hidden = false;
        for (at, character) in text.char_indices() {
            // A character with any hidden byte is hidden.
            let hides = is_hidden[at..at + character.len_utf8()].contains(&true);
            match hides {
                true if !follows_hidden => redacted.push_str(HIDDEN),
                true => {}
                false => redacted.push(character),
            }
            follows_hidden = hides;
        }
        redacted
    }

    fn add_parts(&mut self, form: &[u8]) {
        // A part that begins inside a character would match unrelated text of the same script.
        let begins_a_character = |part: &&[u8]| part[0] & 0b1100_0000 != 0b1000_0000;
        let parts = form.windows(PART).filter(begins_a_character);
        self.parts.extend(parts.filter_map(|part| <[u8; PART]>::try_from(part).ok()));
    }

    /// Returns the ranges of secrets in a lower-case text.
    fn find(&self, lower: &[u8]) -> Vec<Range<usize>> {
        let mut found: Vec<Range<usize>> = Vec::new();
        for (at, part) in lower.windows(PART).enumerate() {
            let is_known = self.parts.iter().any(|known| known == part);
            match found.last_mut() {
                _ if !is_known => {}
                // Overlapping parts are one range.
                Some(last) if last.end >= at => last.end = at + PART,
                _ => found.push(at..at + PART),
            }
        }
        for whole in &self.wholes {
            let places = lower.windows(whole.len()).enumerate().filter(|(_, window)| window == whole);
            found.extend(places.map(|(at, _)| at..at + whole.len()));
        }
        found
    }

    /// Returns the beginning of a secret at the end of a message, which may have been cut there.
    fn find_cut(&self, lower: &[u8]) -> Option<Range<usize>> {
        let cut =
            |token: &Vec<u8>| (CUT..token.len()).rev().find(|length| lower.ends_with(&token[..*length]));
        let longest = self.beginnings.iter().filter_map(cut).max();
        longest.map(|length| lower.len() - length..lower.len())
    }
}

/// Returns the forms that a word may have in a response, in lower case.
fn forms(word: &str) -> Vec<Vec<u8>> {
    let mut percent = String::new();
    let mut hexadecimal = String::new();
    for byte in word.bytes() {
        // Writing to memory cannot fail.
        let _ = match byte {
            _ if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => percent.write_char(byte.into()),
            _ => write!(percent, "%{byte:02x}"),
        };
        let _ = write!(hexadecimal, "{byte:02x}");
    }
    let json = word.replace('\\', "\\\\").replace('"', "\\\"");
    // Some JSON encoders escape the slash.
    let slashed = json.replace('/', "\\/");
    let encoded = base64::encode(word.as_bytes());
    let mut forms = Vec::new();
    for form in [word, &percent, &hexadecimal, &json, &slashed, encoded.trim_end_matches('=')] {
        let form = form.to_ascii_lowercase().into_bytes();
        if !forms.contains(&form) {
            forms.push(form);
        }
    }
    forms
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(said: &str, secrets: &[&str]) -> String {
        Secrets::new(secrets.iter().copied()).redact(said.to_owned())
    }

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
            ("", ""),
        ] {
            assert_eq!(redacted(said, &secrets), shown);
        }
    }

    #[test]
    fn a_secret_in_another_form_is_concealed() {
        let secrets = ["Bearer aB3/dE\"fG5+hI7jK", "ä-token-ö-ü"];
        for (said, shown) in [
            ("AB3/DE\"FG5+HI7JK", "***"),
            (r#"{"token":"aB3\/dE\"fG5+hI7jK"}"#, r#"{"token":"***"}"#),
            (r#"{"token":"aB3/dE\"fG5+hI7jK"}"#, r#"{"token":"***"}"#),
            ("?t=aB3%2FdE%22fG5%2bhI7jK&u", "?t=***&u"),
            ("hex 644522664735 2b", "hex *** 2b"),
            ("base64 YUIzL2RFImZHNStoSTdqSw==", "base64 ***=="),
            ("the middle, fG5+hI7j, of it", "the middle, ***, of it"),
            ("ä-token-ö-ü!", "***!"),
            ("Ä-TOKEN-ö-ü!", "Ä***!"),
        ] {
            assert_eq!(redacted(said, &secrets), shown, "{said}");
        }
    }

    #[test]
    fn a_password_is_concealed_that_a_server_has_read_from_basic_credentials() {
        // base64 of `shop:open-sesame-4711`
        for scheme in ["Basic", "basic"] {
            let secrets = [format!("{scheme} c2hvcDpvcGVuLXNlc2FtZS00NzEx")];
            let said = "shop:open-sesame-4711 is unknown, and so is c2hvcDpvcGVuLXNlc2FtZS00NzEx";
            assert_eq!(redacted(said, &[&secrets[0]]), "shop:*** is unknown, and so is ***");
        }
        // base64 of `shop:hunter2` and of `shop:x`
        let secrets = ["Basic c2hvcDpodW50ZXIy", "Basic c2hvcDp4"];
        assert_eq!(redacted("Hunter2 of shop, 68756e74657232", &secrets), "*** of shop, ***");
        assert_eq!(redacted("a box", &secrets), "a box");
    }
}
