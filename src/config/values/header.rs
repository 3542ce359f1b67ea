//! Headers, and lists such as `name=value,other=value` with percent-encoded values. Messages contain no value, and no
//! name that may be part of a value.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::config::Secret;
use crate::config::error::{Checked, Fault};
use crate::config::text::{MASK, is_token};

/// Headers that a function of the program returns, for
/// [`Exporter::headers_from`](crate::Exporter::headers_from) and [`Exporter::sign_with`](crate::Exporter::sign_with).
/// `Debug` hides their values.
///
/// ```
/// use std::time::Duration;
/// use standpipe::config::Credentials;
///
/// let token = Credentials::new().header("Authorization", "Bearer hunter2").valid_for(Duration::from_secs(3000));
/// assert!(!format!("{token:?}").contains("hunter2"));
/// ```
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct Credentials {
    pub(crate) headers: Vec<(String, Secret)>,
    /// Time for which the headers are used; `None` means one minute.
    pub(crate) valid_for: Option<Duration>,
}

impl Credentials {
    /// Returns credentials without headers, to which [`header`](Self::header) adds headers. The credentials are valid
    /// for one minute, unless [`valid_for`](Self::valid_for) sets another time.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a header. It replaces a configured header of the same name.
    pub fn header(mut self, name: impl Into<String>, value: impl AsRef<str>) -> Self {
        self.headers.push((name.into(), Secret::new(trim(value.as_ref()))));
        self
    }

    /// Sets how long the headers are used before the function is called again. The time should end a little before a
    /// token expires, because a request with the token may still be on its way.
    pub fn valid_for(mut self, time: Duration) -> Self {
        self.valid_for = Some(time);
        self
    }
}

/// A request that is about to be sent, for [`Exporter::sign_with`](crate::Exporter::sign_with). Its method is `POST`.
#[non_exhaustive]
pub struct RequestToSign<'a> {
    /// URL of the request.
    pub url: &'a str,
    /// Headers of the request: names in lower case, with their values. They include `host`, the content type and
    /// encoding, and all configured headers, which may be secret.
    pub headers: &'a [(&'a str, &'a str)],
    /// Body as it is sent, after compression, in pieces.
    pub body: &'a [&'a [u8]],
}

impl fmt::Debug for RequestToSign<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // URL and headers may contain secrets.
        f.debug_struct("RequestToSign").finish_non_exhaustive()
    }
}

pub(crate) type CredentialsResult = Result<Credentials, Box<dyn Error + Send + Sync>>;

/// A source of headers whose values change.
#[derive(Clone)]
pub(crate) struct HeaderSource {
    pub(crate) get: Arc<dyn Fn() -> CredentialsResult + Send + Sync>,
    /// Text of the configuration if the source reads a local file, `None` if it calls a function. Reading a file takes
    /// so little time that the worker waits for it.
    pub(crate) written: Option<Arc<str>>,
}

/// The function of [`Exporter::sign_with`](crate::Exporter::sign_with).
#[derive(Clone)]
pub(crate) struct Signer(pub(crate) Arc<dyn Fn(&RequestToSign<'_>) -> CredentialsResult + Send + Sync>);

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signer")
    }
}

/// Headers that frame or describe the body, which only the transport may write.
const RESERVED: [&str; 5] =
    ["connection", "content-encoding", "content-length", "content-type", "transfer-encoding"];

/// Headers that gRPC writes itself, or that HTTP/2 forbids.
const RESERVED_BY_GRPC: [&str; 5] = ["host", "keep-alive", "proxy-connection", "te", "upgrade"];
/// Prefix of gRPC's own headers.
const GRPC: &str = "grpc-";

/// Maximum number of headers, so that servers accept the request.
const MAX_HEADERS: usize = 128;

/// Longest name that is shown. The names of common headers are shorter.
const MAX_NAME_LENGTH: usize = 40;

/// Longest value. A longer text is not inspected, because each of hundreds of exporters may have a header that was read
/// from a large file.
const MAX_VALUE_BYTES: usize = 64 << 10;
const TOO_LONG: &str = "is longer than 64 KiB";

/// Checks the number of headers, before any of them is inspected.
pub(crate) fn check_count(count: usize) -> Checked {
    Fault::unless(count <= MAX_HEADERS, format!("{count} headers"), format!("write at most {MAX_HEADERS}"))
}

/// Splits `Name: value` at the first colon and trims both.
pub(crate) fn split(line: &str) -> Result<(&str, &str), Fault> {
    match line.split_once(':') {
        Some((name, value)) => Ok((trim(name), trim(value))),
        None => Fault::err("header without a colon", "write it like \"Name: value\""),
    }
}

/// Removes the white space that HTTP ignores. Line breaks are kept, so that [`check`] refuses them.
pub(crate) fn trim(text: &str) -> &str {
    text.trim_matches([' ', '\t'])
}

/// Checks one header; `number`, from 1, identifies it in messages if the name must not be shown.
pub(crate) fn check(number: usize, name: &str, value: &str) -> Checked {
    Fault::unless(!name.is_empty(), format!("header {number} has no name"), "write it like \"Name: value\"")?;
    if let Some(stray) = name.chars().find(|c| !is_name_character(*c)) {
        // The name may be the first half of a secret that contains a colon, so only the stray character is shown.
        let what = format!("header {number} has {stray:?} in its name");
        return Fault::err(what, "names are letters, digits and -");
    }
    let header = called(number, name);
    let is_reserved = RESERVED.iter().any(|reserved| name.eq_ignore_ascii_case(reserved));
    Fault::unless(!is_reserved, format!("{header} cannot be set"), "remove it: standpipe writes it")?;
    let fix = "write the value or remove the header";
    Fault::unless(!value.is_empty(), format!("{header} has no value"), fix)?;
    Fault::unless(!is_too_long(value), format!("value of {header} {TOO_LONG}"), "write a shorter one")?;
    check_value(value).map_err(|problem| {
        Fault::new(format!("value of {header} {problem}"), "write printable ASCII in one line")
    })
}

/// Returns a header for messages: by its name if it looks like one, else by its number.
pub(crate) fn called(number: usize, name: &str) -> String {
    if is_like_a_name(name) { format!("header {name:?}") } else { format!("header {number}") }
}

/// Returns the name of a header, or a mask if it looks like a value.
pub(crate) fn shown_name(name: &str) -> &str {
    if is_like_a_name(name) { name } else { MASK }
}

/// Returns whether a text looks like the name of a header: a few words. A token is longer, or mixes cases and digits.
pub(crate) fn is_like_a_name(name: &str) -> bool {
    name.len() <= MAX_NAME_LENGTH
        && name.chars().all(is_name_character)
        && name.split(|c: char| !c.is_ascii_alphanumeric()).all(is_like_a_word)
}

/// Returns whether a part of a name looks like a word: `tenant`, `TraceId`, `b3`, `API`.
fn is_like_a_word(word: &str) -> bool {
    const MAX_WORD_LENGTH: usize = 20;
    const MAX_HUMPS: usize = 3;
    let letters = word.trim_end_matches(|c: char| c.is_ascii_digit());
    let (is_lower, is_upper) = (u8::is_ascii_lowercase, u8::is_ascii_uppercase);
    let is_hump = |pair: &[u8]| is_lower(&pair[0]) && is_upper(&pair[1]);
    let humps = letters.as_bytes().windows(2).filter(|pair| is_hump(pair)).count();
    // In a name, a capital letter begins a word, or all letters are capitals.
    let is_mixed = |run: &[u8]| is_upper(&run[0]) && is_upper(&run[1]) && is_lower(&run[2]);
    let is_mixed = letters.len() > 4 && letters.as_bytes().windows(3).any(is_mixed);
    word.len() <= MAX_WORD_LENGTH
        && word.len() - letters.len() <= 4
        && !letters.contains(|c: char| c.is_ascii_digit())
        && humps < MAX_HUMPS
        && !is_mixed
}

/// Returns whether a header is probably a credential, by its name or because its value is a token.
pub(crate) fn is_credential(name: &str, value: &str) -> bool {
    const NAMES: [&str; 8] = ["auth", "token", "key", "secret", "passw", "cookie", "dsn", "honeycomb-team"];
    let name = name.to_ascii_lowercase();
    NAMES.iter().any(|word| name.contains(word)) || is_token(value)
}

/// Checks that gRPC allows the name as metadata.
pub(crate) fn check_metadata(name: &str) -> Checked {
    let what = format!("header {:?} cannot be set over gRPC", shown_name(name));
    Fault::unless(!is_reserved_by_grpc(name), what, "remove it: gRPC writes it or forbids it")
}

pub(crate) fn is_reserved_by_grpc(name: &str) -> bool {
    let is_of_grpc = name.get(..GRPC.len()).is_some_and(|start| start.eq_ignore_ascii_case(GRPC));
    is_of_grpc || RESERVED_BY_GRPC.iter().any(|reserved| name.eq_ignore_ascii_case(reserved))
}

/// Returns whether a value exceeds the limit for a single header.
pub(crate) fn is_too_long(value: &str) -> bool {
    value.len() > MAX_VALUE_BYTES
}

/// Checks the characters of a header's value. The error continues the sentence "the value …".
pub(crate) fn check_value(value: &str) -> Result<(), &'static str> {
    let is_allowed = |byte| matches!(byte, b'\t' | b' '..=b'~');
    match value {
        _ if is_too_long(value) => Err(TOO_LONG),
        // Two searches for single bytes, which the standard library vectorizes.
        _ if value.contains('\r') || value.contains('\n') => Err("holds a line break"),
        _ if !value.bytes().all(is_allowed) => Err("holds a character that headers cannot carry"),
        _ => Ok(()),
    }
}

fn is_name_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c)
}

/// Maximum number of resource attributes, which are sent with every request. Collectors keep far fewer.
pub(crate) const MAX_ATTRIBUTES: usize = 1_000;

/// Parses a list of headers. For a repeated name, the last value is used. The values are checked later.
pub(crate) fn read_pairs(text: &str) -> Result<Vec<(String, Secret)>, Fault> {
    let is_quoted = text.trim_start().starts_with(['"', '\'']);
    Fault::unless(!is_quoted, "has quotes around it", "remove them")?;
    let pairs: Vec<&str> = pieces(text).collect();
    check_count(pairs.len())?;
    let mut headers: Vec<(String, Secret)> = Vec::with_capacity(pairs.len());
    for (number, pair) in (1..).zip(pairs) {
        let fault = |what: &str| Fault::new(format!("header {number} {what}"), "write it like name=value");
        let (name, value) = pair.split_once('=').ok_or_else(|| fault("has no ="))?;
        let name = Some(trim(name)).filter(|name| !name.is_empty()).ok_or_else(|| fault("has no name"))?;
        // In a base 64 token, a trailing `=` is padding and not a separator.
        if value.bytes().all(|byte| byte == b'=') && !is_like_a_name(name) {
            return Err(fault("is a value without a name"));
        }
        let value = decoded(trim(value)).map_err(|fault| {
            // An invalid name is reported before an invalid value. As `x` is a valid value, `check` tests the name.
            let of_name = check(number, name, "x").err();
            of_name.unwrap_or_else(|| fault.of(format_args!("value of {}", called(number, name))))
        })?;
        // Names of headers are not case-sensitive.
        headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        headers.push((name.to_owned(), Secret::new(value)));
    }
    Ok(headers)
}

/// Parses a list of attributes. One malformed attribute makes the whole list invalid.
pub(crate) fn read_attributes(text: &str) -> Result<Vec<(String, String)>, Fault> {
    let count = pieces(text).count();
    let (what, fix) = (format!("{count} attributes"), format!("write at most {MAX_ATTRIBUTES}"));
    Fault::unless(count <= MAX_ATTRIBUTES, what, fix)?;
    let read = |(index, pair): (usize, &str)| {
        let numbered = |fault: Fault| fault.of(format_args!("attribute {}", index + 1));
        let missing = |what: &'static str| numbered(Fault::new(what, "write it like key=value"));
        let (key, value) = pair.split_once('=').ok_or_else(|| missing("has no ="))?;
        let decode = |text: &str| decoded(text.trim()).map_err(numbered);
        let key = Some(decode(key)?).filter(|key| !key.is_empty());
        Ok((key.ok_or_else(|| missing("has no key"))?, decode(value)?))
    };
    pieces(text).enumerate().map(read).collect()
}

/// Splits a list at its commas. Empty pieces are ignored.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(trim).filter(|piece| !piece.is_empty())
}

/// Decodes percent-encoded text. The message of a fault continues the sentence "the value …".
fn decoded(text: &str) -> Result<String, Fault> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => hex_byte(rest.next(), rest.next()).ok_or_else(|| {
                Fault::new("has a % without two hexadecimal digits after it", "write %25 for a percent sign")
            })?,
            _ => byte,
        });
    }
    String::from_utf8(bytes)
        .map_err(|_| Fault::new("is not UTF-8 when it is decoded", "percent-encode UTF-8 bytes"))
}

fn hex_byte(high: Option<u8>, low: Option<u8>) -> Option<u8> {
    let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
    u8::try_from(digit(high)? << 4 | digit(low)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_split_at_its_first_colon_and_trimmed() {
        assert_eq!(split("Authorization: Basic a:b"), Ok(("Authorization", "Basic a:b")));
        assert_eq!(split(" X-Scope\t:\tone "), Ok(("X-Scope", "one")));
        assert_eq!(split("Authorization: x\r\n"), Ok(("Authorization", "x\r\n")));
        assert_eq!(split("Bearer hunter2").expect_err("no colon").what, "header without a colon");
    }

    #[test]
    fn a_token_is_not_taken_for_a_name() {
        for name in [
            "Authorization",
            "authorization",
            "X-Honeycomb-Team",
            "DD-API-KEY",
            "x-scope-orgid",
            "X-Scope-OrgID",
            "Lightstep-Access-Token",
            "signoz-access-token",
            "api_key",
            "X-B3-TraceId",
            "x-tenant-2",
            "uptrace-dsn",
            "CF-Access-Client-Secret",
            "x!#$%&'*+-.^_`|~9",
        ] {
            assert_eq!(shown_name(name), name);
        }
        for token in [
            "c2VjcmV0LXRva2VuLWh1bnRlcjI",
            "eyJhbGciOiJIUzI1NiJ9",
            "glc_eyJvIjoiMTIzNDU2Iiwi",
            "0123456789abcdef",
            "550e8400-e29b-41d4-a716-446655440000",
            "dXNlcjpwYXNzd29yZA",
            "kqzxvwpmtrbncdfghjklsa",
            "a-very-long-name-that-goes-on-and-on-and-on",
            "Bearer hunter2",
            "ghp_AbCdEfGhIjKlMnOp",
        ] {
            assert_eq!(shown_name(token), MASK, "{token}");
        }
    }

    #[test]
    fn headers_that_cannot_be_sent_are_refused_without_showing_the_value() {
        for (name, value, what) in [
            ("", "hunter2", "header 3 has no name"),
            ("Bearer hunter2", "x", "header 3 has ' ' in its name"),
            ("Näme", "x", "header 3 has 'ä' in its name"),
            ("X\r\nY", "x", "header 3 has '\\r' in its name"),
            ("content-LENGTH", "5", "header \"content-LENGTH\" cannot be set"),
            ("Authorization", "", "header \"Authorization\" has no value"),
            ("Authorization", "hunter2\r\nX: y", "value of header \"Authorization\" holds a line break"),
            ("Authorization", "hunter2\n", "value of header \"Authorization\" holds a line break"),
            ("A", "hünter2", "value of header \"A\" holds a character that headers cannot carry"),
            ("A", "hunter2\0", "value of header \"A\" holds a character that headers cannot carry"),
        ] {
            assert_eq!(check(3, name, value).expect_err(what).what, what);
        }
        assert_eq!(check(1, "Authorization", "Bearer <place_auth_here>\t=~"), Ok(()));
        let full = "x".repeat(MAX_VALUE_BYTES);
        assert_eq!(check(1, "A", &full), Ok(()));
        let fault = check(1, "A", &(full + "\n")).expect_err("too long");
        assert_eq!(fault.what, "value of header \"A\" is longer than 64 KiB");
    }
}
