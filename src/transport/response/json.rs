//! Pure: an export response in JSON, which some collectors send even to a request in protobuf.

/// Deeper than any answer, and shallow enough for any stack.
const DEEPEST: u32 = 32;

/// What an export answer holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct PartialSuccess {
    pub(super) rejected: u64,
    pub(super) error_message: String,
}

/// Why there is no export answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// It ends before its end. Up to there it may have been one.
    CutShort,
    /// Not JSON, or JSON that says something else.
    Foreign,
}

/// Reads an object that is empty or has a `partialSuccess`, of any signal. Fields of later versions are passed over. Gives what
/// was read, also if that ends with a fault.
pub(super) fn read(body: &[u8]) -> (PartialSuccess, Result<(), Fault>) {
    let mut reader = Reader { rest: body, depth: 0 };
    let (mut partial, mut has_partial, mut has_other) = (PartialSuccess::default(), false, false);
    let read = reader.object(|reader, name| match name {
        "partialSuccess" | "partial_success" => {
            has_partial = true;
            partial = PartialSuccess::default();
            reader.partial_success(&mut partial)
        }
        _ => {
            has_other = true;
            reader.skip()
        }
    });
    // an error of some other service is an object as well
    let is_foreign = has_other && !has_partial;
    (partial, if is_foreign { Err(Fault::Foreign) } else { read.and_then(|()| reader.end()) })
}

/// What is still to be read.
struct Reader<'a> {
    rest: &'a [u8],
    depth: u32,
}

impl<'a> Reader<'a> {
    fn partial_success(&mut self, partial: &mut PartialSuccess) -> Result<(), Fault> {
        if self.peek()? == b'n' {
            return self.skip();
        }
        self.object(|reader, name| {
            let is_set = reader.peek()? != b'n';
            match name {
                "rejectedSpans"
                | "rejectedLogRecords"
                | "rejectedDataPoints"
                | "rejected_spans"
                | "rejected_log_records"
                | "rejected_data_points"
                    if is_set =>
                {
                    partial.rejected = reader.count()?;
                }
                "errorMessage" | "error_message" if is_set => reader.text(&mut partial.error_message)?,
                _ => reader.skip()?,
            }
            Ok(())
        })
    }

    /// A number, or one in quotes, as protobuf writes 64 bits in JSON. One below 0 counts as 0.
    fn count(&mut self) -> Result<u64, Fault> {
        let text = match self.peek()? {
            b'"' => self.string()?,
            _ => self.number()?.to_owned(),
        };
        whole_part(&text).ok_or(Fault::Foreign)
    }

    /// An object; each member is read by the function that is given, behind its name.
    fn object(&mut self, mut member: impl FnMut(&mut Self, &str) -> Result<(), Fault>) -> Result<(), Fault> {
        self.list(b'{', b'}', |reader| {
            let name = reader.string()?;
            reader.expect(b':')?;
            member(reader, &name)
        })
    }

    /// Items between two brackets, with commas between them.
    fn list(
        &mut self,
        open: u8,
        close: u8,
        mut item: impl FnMut(&mut Self) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        self.expect(open)?;
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(Fault::Foreign);
        }
        if self.peek()? != close {
            item(self)?;
            while self.peek()? == b',' {
                self.take(1)?;
                item(self)?;
            }
        }
        self.depth -= 1;
        self.expect(close)
    }

    /// Any value, unread.
    fn skip(&mut self) -> Result<(), Fault> {
        match self.peek()? {
            b'{' => self.object(|reader, _| reader.skip()),
            b'[' => self.list(b'[', b']', Self::skip),
            b'"' => self.string().map(drop),
            b't' => self.word(b"true"),
            b'f' => self.word(b"false"),
            b'n' => self.word(b"null"),
            _ => whole_part(self.number()?).map(drop).ok_or(Fault::Foreign),
        }
    }

    fn word(&mut self, word: &[u8]) -> Result<(), Fault> {
        word.iter().try_for_each(|expected| match self.take(1)? {
            [byte] if byte == expected => Ok(()),
            _ => Err(Fault::Foreign),
        })
    }

    fn number(&mut self) -> Result<&'a str, Fault> {
        self.peek()?;
        let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
        // one that ends with the body was cut: it would be within an object
        let length = self.rest.iter().position(|byte| !is_part(byte)).ok_or(Fault::CutShort)?;
        std::str::from_utf8(self.take(length)?).map_err(|_| Fault::Foreign)
    }

    fn string(&mut self) -> Result<String, Fault> {
        let mut text = String::new();
        self.text(&mut text).map(|()| text)
    }

    /// A string, also if there is only its beginning.
    fn text(&mut self, text: &mut String) -> Result<(), Fault> {
        let mut bytes = Vec::new();
        let read = self.unescape(&mut bytes);
        *text = String::from_utf8_lossy(&bytes).into_owned();
        read
    }

    fn unescape(&mut self, bytes: &mut Vec<u8>) -> Result<(), Fault> {
        self.expect(b'"')?;
        loop {
            match self.take(1)?[0] {
                b'"' => return Ok(()),
                b'\\' => {
                    let character = self.escaped()?;
                    bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                }
                0..0x20 => return Err(Fault::Foreign),
                byte => bytes.push(byte),
            }
        }
    }

    /// The character behind a backslash.
    fn escaped(&mut self) -> Result<char, Fault> {
        Ok(match self.take(1)?[0] {
            byte @ (b'"' | b'\\' | b'/') => char::from(byte),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let first = self.utf16_unit()?;
                let is_high = (0xd800..0xdc00).contains(&first);
                // the other half of a character beyond 16 bits
                let second = match is_high && self.rest.starts_with(b"\\u") {
                    true => self.take(2).and_then(|_| self.utf16_unit()).map(Some)?,
                    false => None,
                };
                let units = [Some(first), second].into_iter().flatten();
                char::decode_utf16(units).next().and_then(Result::ok).unwrap_or(char::REPLACEMENT_CHARACTER)
            }
            _ => return Err(Fault::Foreign),
        })
    }

    fn utf16_unit(&mut self) -> Result<u16, Fault> {
        let digits = std::str::from_utf8(self.take(4)?).map_err(|_| Fault::Foreign)?;
        u16::from_str_radix(digits, 16).map_err(|_| Fault::Foreign)
    }

    fn expect(&mut self, expected: u8) -> Result<(), Fault> {
        match self.peek()? == expected {
            true => self.take(1).map(drop),
            false => Err(Fault::Foreign),
        }
    }

    /// The next byte that is no space.
    fn peek(&mut self) -> Result<u8, Fault> {
        self.rest = self.rest.trim_ascii_start();
        self.rest.first().copied().ok_or(Fault::CutShort)
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Fault> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(Fault::CutShort)?;
        self.rest = rest;
        Ok(taken)
    }

    fn end(&self) -> Result<(), Fault> {
        if self.rest.trim_ascii_start().is_empty() { Ok(()) } else { Err(Fault::Foreign) }
    }
}

/// What a number is without its fraction, as far as a count goes; `None` if it is no number. To read a float, which has more
/// digits than it needs here, would take 15 KiB.
fn whole_part(number: &str) -> Option<u64> {
    let (is_negative, number) = number.strip_prefix('-').map_or((false, number), |rest| (true, rest));
    let (mantissa, exponent) = match number.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (number, 0),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((_, "")) => return None,
        Some(split) => split,
        None => (mantissa, ""),
    };
    let digits = || whole.bytes().chain(fraction.bytes());
    if whole.is_empty() || !digits().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // how many of the digits are in front of the point, once it has moved; 20 more fill any count
    let count = (whole.len() as i64 + i64::from(exponent)).clamp(0, mantissa.len() as i64 + 20);
    let append = |value: u64, digit: u8| value.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
    let value = digits().chain(std::iter::repeat(b'0')).take(count as usize).fold(0, append);
    Some(if is_negative { 0 } else { value })
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
            (r#"{"partialSuccess":{"rejectedSpans":"1e30"}}"#, partly(u64::MAX, "")),
            (r#"{"partialSuccess":{"rejectedSpans":1.25e1}}"#, partly(12, "")),
            (r#"{"partialSuccess":{"rejectedSpans":125E-1}}"#, partly(12, "")),
            (r#"{"partialSuccess":{"rejectedSpans":0.9e-3}}"#, partly(0, "")),
            (r#"{"partialSuccess":{"rejectedSpans":0e999999999}}"#, partly(0, "")),
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
            "{,}",
            "{partialSuccess:{}}",
            r#"{"partialSuccess"}"#,
            r#"{"partialSuccess":[]}"#,
            r#"{"partialSuccess":7}"#,
            r#"{"partialSuccess":{},}"#,
            r#"{"partialSuccess":{"rejectedSpans":"many"}}"#,
            r#"{"partialSuccess":{"rejectedSpans":"NaN"}}"#,
            r#"{"partialSuccess":{"rejectedSpans":{}}}"#,
            r#"{"partialSuccess":{"errorMessage":7}}"#,
            r#"{"partialSuccess":{"errorMessage":"\x"}}"#,
            "{\"partialSuccess\":{\"errorMessage\":\"a\nb\"}}",
            r#"{"error":"who are you?"}"#,
            r#"{"partialSuccess":{},"more":nothing}"#,
            r#"{"partialSuccess":{},"more":1-2}"#,
            r#"{"partialSuccess":{},"more":1e}"#,
            r#"{"partialSuccess":{},"more":.5}"#,
            r#"{"partialSuccess":{},"more":5.}"#,
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
        // what has named itself is known, wherever it is cut
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
            (r#"\"\\\/\b\f\n\r\t"#, "\"\\/\u{8}\u{c}\n\r\t"),
            (r"\ud83d", "\u{fffd}"),
            (r"\ude00", "\u{fffd}"),
            (r"\ud83d\u0041", "\u{fffd}"),
            ("ä", "ä"),
        ] {
            let text = format!(r#"{{"partialSuccess":{{"errorMessage":"{written}"}}}}"#);
            assert_eq!(read(text.as_bytes()), partly(0, expected), "{written}");
        }
        let broken = b"{\"partialSuccess\":{\"errorMessage\":\"\xff\"}}";
        assert_eq!(read(broken), partly(0, "\u{fffd}"));
    }

    #[test]
    fn nesting_ends_where_no_answer_goes() {
        let nested = |depth: usize| {
            format!("{{\"partialSuccess\":{{}},\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth))
        };
        assert_eq!(read(nested(31).as_bytes()), partly(0, ""));
        assert_eq!(read(nested(32).as_bytes()), Err(Fault::Foreign));
        assert_eq!(read(&[b'['; 64 << 10]), Err(Fault::Foreign));
        assert_eq!(
            read(format!("{{\"partialSuccess\":{}", "{\"a\":".repeat(10_000)).as_bytes()),
            Err(Fault::Foreign)
        );
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
