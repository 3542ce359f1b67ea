//! Reader of responses in JSON, which some collectors send even to a protobuf request. Pure.
//!
//! It reads only the count and the message of a `partialSuccess`, checks brackets and strings, and skips the rest: a
//! collector that answers with a success status has the batch, so a small JSON error must not count as a refusal.

/// The fields of an export response.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct PartialSuccess {
    pub(super) rejected: u64,
    pub(super) error_message: String,
}

/// Why a body is not an export response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// The body ends too early, but is valid up to its end.
    CutShort,
    /// Not a JSON object, or an object of another service.
    Foreign,
}

/// Reads an object that is empty or has a `partialSuccess`, of any signal. Fields before a fault are returned, too.
pub(super) fn read(body: &[u8]) -> (PartialSuccess, Result<(), Fault>) {
    let mut reader = Reader { rest: body, ..Reader::default() };
    let read = reader.object();
    let is_foreign = reader.has_other && !reader.has_partial;
    // An error object of another service has none of the known fields.
    (reader.partial, if is_foreign { Err(Fault::Foreign) } else { read })
}

/// Returns the message of a `google.rpc.Status`, or its beginning if the body is cut off.
pub(in crate::transport) fn status_message(body: &[u8]) -> Option<String> {
    let mut reader = Reader { rest: body, ..Reader::default() };
    // A fault is ignored, because the message may have been read before it.
    let _ = reader.object();
    Some(reader.status_message).filter(|message| !message.is_empty())
}

#[derive(Default)]
struct Reader<'a> {
    rest: &'a [u8],
    /// Number of open objects and lists.
    depth: usize,
    /// Name of the member whose value follows; empty before a name and in a list.
    name: Vec<u8>,
    /// True within a `partialSuccess`.
    is_inside: bool,
    has_partial: bool,
    has_other: bool,
    partial: PartialSuccess,
    status_message: String,
}

impl Reader<'_> {
    fn object(&mut self) -> Result<(), Fault> {
        if self.peek()? != b'{' {
            return Err(Fault::Foreign);
        }
        loop {
            match self.peek()? {
                b'[' if self.is_inside && self.depth == 1 => return Err(Fault::Foreign),
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => self.depth -= 1,
                b',' => {}
                _ => {
                    self.token()?;
                    continue;
                }
            }
            self.rest = &self.rest[1..];
            self.name.clear();
            if self.depth == 0 {
                return if self.rest.trim_ascii().is_empty() { Ok(()) } else { Err(Fault::Foreign) };
            }
        }
    }

    /// Reads a string, a number or a word: the name of a member, or a value.
    fn token(&mut self) -> Result<(), Fault> {
        let mut token = Vec::new();
        let is_text = self.rest.starts_with(b"\"");
        let read = if is_text { self.string(&mut token) } else { self.word(&mut token) };
        let is_message = matches!(&self.name[..], b"errorMessage" | b"error_message");
        if self.is_inside && self.depth == 2 && is_message && token != b"null" {
            // The token may be the beginning of a message that is cut off.
            self.partial.error_message = String::from_utf8_lossy(&token).into_owned();
        }
        if self.depth == 1 && self.name == b"message" && is_text {
            self.status_message = String::from_utf8_lossy(&token).into_owned();
        }
        read?;
        if self.peek()? == b':' {
            self.rest = &self.rest[1..];
            self.name = token;
            if self.depth == 1 {
                self.is_inside = matches!(&self.name[..], b"partialSuccess" | b"partial_success");
                self.has_partial |= self.is_inside;
                self.has_other |= !self.is_inside;
            }
        } else if self.is_inside && self.depth == 2 && self.name.starts_with(b"rejected") && token != b"null"
        {
            let count =
                std::str::from_utf8(&token).ok().and_then(|text| text.split('.').next()?.parse().ok());
            self.partial.rejected = count.map(|count: i64| count.max(0) as u64).ok_or(Fault::Foreign)?;
        } else if self.is_inside && self.depth == 1 && token != b"null" {
            return Err(Fault::Foreign);
        }
        Ok(())
    }

    fn word(&mut self, token: &mut Vec<u8>) -> Result<(), Fault> {
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
        // Inside an object, a delimiter follows each word, so a word at the end of the body was cut off.
        let length = self.rest.iter().position(|byte| !is_part(byte)).ok_or(Fault::CutShort)?;
        token.extend_from_slice(&self.rest[..length]);
        self.rest = &self.rest[length..];
        if length == 0 { Err(Fault::Foreign) } else { Ok(()) }
    }

    fn string(&mut self, token: &mut Vec<u8>) -> Result<(), Fault> {
        self.take()?; // The opening quote.
        loop {
            match self.take()? {
                b'"' => return Ok(()),
                b'\\' => match self.take()? {
                    b'u' => token.extend_from_slice(self.utf16()?.as_bytes()),
                    // Control characters become spaces, so that the message is one line.
                    b'n' | b'r' | b't' | b'b' | b'f' => token.push(b' '),
                    byte => token.push(byte),
                },
                byte => token.push(byte),
            }
        }
    }

    /// Reads the digits after `\u` and all directly following `\u` escapes: a surrogate pair takes two escapes.
    fn utf16(&mut self) -> Result<String, Fault> {
        let mut units = Vec::new();
        loop {
            let (digits, rest) = self.rest.split_at_checked(4).ok_or(Fault::CutShort)?;
            self.rest = rest;
            let digits = std::str::from_utf8(digits).map_err(|_| Fault::Foreign)?;
            units.push(u16::from_str_radix(digits, 16).map_err(|_| Fault::Foreign)?);
            match rest.strip_prefix(b"\\u") {
                Some(rest) => self.rest = rest,
                None => return Ok(String::from_utf16_lossy(&units)),
            }
        }
    }

    /// Returns the next non-whitespace byte without taking it.
    fn peek(&mut self) -> Result<u8, Fault> {
        self.rest = self.rest.trim_ascii_start();
        self.rest.first().copied().ok_or(Fault::CutShort)
    }

    fn take(&mut self) -> Result<u8, Fault> {
        let (first, rest) = self.rest.split_first().ok_or(Fault::CutShort)?;
        self.rest = rest;
        Ok(*first)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(body: &[u8]) -> Result<PartialSuccess, Fault> {
        let (partial, read) = super::read(body);
        read.map(|()| partial)
    }

    fn partly(rejected: u64, error_message: &str) -> Result<PartialSuccess, Fault> {
        Ok(PartialSuccess { rejected, error_message: error_message.to_owned() })
    }

    #[test]
    fn an_export_answer_is_an_object_that_is_empty_or_has_a_partial_success() {
        for (text, expected) in [
            ("{}", partly(0, "")),
            (" {\t\r\n} ", partly(0, "")),
            (r#"{"partialSuccess":{}}"#, partly(0, "")),
            (r#"{"partialSuccess":null}"#, partly(0, "")),
            (r#"{"partialSuccess":{"rejectedSpans":"7","errorMessage":"old"}}"#, partly(7, "old")),
            (r#"{"partialSuccess":{"rejectedLogRecords":7}}"#, partly(7, "")),
            (r#"{ "partial_success" : { "rejected_data_points" : 7 } }"#, partly(7, "")),
            (r#"{"partialSuccess":{"rejectedSpans":null,"errorMessage":null}}"#, partly(0, "")),
            (r#"{"partialSuccess":{"rejectedSpans":-7}}"#, partly(0, "")),
            (r#"{"partialSuccess":{"rejectedSpans":7.0}}"#, partly(7, "")),
            (r#"{"later":[1,-2.5e3,{"a":[true,false,null]},"b"],"partialSuccess":{}}"#, partly(0, "")),
            (r#"{"partialSuccess":{"later":{},"errorMessage":"x"}}"#, partly(0, "x")),
        ] {
            assert_eq!(read(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_export_answer_is_foreign() {
        for text in [
            "<html>",
            "[]",
            "null",
            "7",
            "\"partialSuccess\"",
            "{} {}",
            "{}x",
            r#"{"partialSuccess":[]}"#,
            r#"{"partialSuccess":7}"#,
            r#"{"partialSuccess":{"rejectedSpans":"many"}}"#,
            r#"{"partialSuccess":{"rejectedSpans":"NaN"}}"#,
            r#"{"error":"who are you?"}"#,
        ] {
            assert_eq!(read(text.as_bytes()), Err(Fault::Foreign), "{text}");
        }
    }

    #[test]
    fn an_answer_that_is_cut_anywhere_is_one_that_was_cut_short() {
        let text =
            r#"{"partialSuccess":{"rejectedSpans":"7","errorMessage":"\u00e4 \ud83d\ude00"},"later":[true]}"#;
        assert_eq!(read(text.as_bytes()), partly(7, "ä 😀"));
        for end in 0..text.len() {
            assert_eq!(read(&text.as_bytes()[..end]), Err(Fault::CutShort), "cut at {end}");
        }
        // An object with a member, but without `partialSuccess`, is foreign even if it is cut off.
        assert_eq!(read(br#"{"error":"#), Err(Fault::Foreign));
    }

    #[test]
    fn what_was_read_before_the_cut_is_whole_numbers_and_the_beginning_of_a_text() {
        let text = r#"{"partialSuccess":{"rejectedSpans":300,"errorMessage":"too old"}}"#;
        for end in 0..text.len() {
            let (partial, _) = super::read(&text.as_bytes()[..end]);
            let has_count = end >= "{\"partialSuccess\":{\"rejectedSpans\":300,".len();
            assert_eq!(partial.rejected, if has_count { 300 } else { 0 }, "cut at {end}");
            assert!("too old".starts_with(&partial.error_message), "cut at {end}: {partial:?}");
        }
        assert_eq!(super::read(&text.as_bytes()[..text.len() - 7]).0.error_message, "too");
    }

    #[test]
    fn texts_are_read_as_they_were_meant() {
        for (written, expected) in [
            (r#"\"\\\/\b\f\n\r\t"#, "\"\\/     "),
            (r"\ud83d", "\u{fffd}"),
            (r"\ude00", "\u{fffd}"),
            (r"\ud83d\u0041", "\u{fffd}A"),
            ("ä", "ä"),
        ] {
            let text = format!(r#"{{"partialSuccess":{{"errorMessage":"{written}"}}}}"#);
            assert_eq!(read(text.as_bytes()), partly(0, expected), "{written}");
        }
        let broken = b"{\"partialSuccess\":{\"errorMessage\":\"\xff\"}}";
        assert_eq!(read(broken), partly(0, "\u{fffd}"));
    }

    #[test]
    fn deep_nesting_is_passed_over() {
        let nested =
            format!("{{\"partialSuccess\":{{}},\"a\":{}{}}}", "[".repeat(30_000), "]".repeat(30_000));
        assert_eq!(read(nested.as_bytes()), partly(0, ""));
        assert_eq!(read(&[b'['; 64 << 10]), Err(Fault::Foreign));
    }

    #[test]
    fn only_members_of_the_partial_success_count() {
        for text in [
            r#"{"partialSuccess":{"rejectedSpans":7,"errorMessage":"x","a":{"rejectedSpans":9,"errorMessage":"y"},"b":"z"}}"#,
            r#"{"a":{"rejectedSpans":9,"errorMessage":"y"},"partialSuccess":{"errorMessage":"x","rejectedSpans":"7","c":["w"]}}"#,
        ] {
            assert_eq!(read(text.as_bytes()), partly(7, "x"), "{text}");
        }
    }

    proptest! {
        #[test]
        fn reading_anything_never_panics(body: Vec<u8>, text in "[{}\\[\\]:,\"\\\\u0-9a-f eE+.-]{0,40}") {
            let _ = read(&body);
            let _ = read(text.as_bytes());
            let _ = read(format!("{{\"partialSuccess\":{text}").as_bytes());
        }
    }
}
