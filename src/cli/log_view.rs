//! How is a log record shown as text? Its severity, its body, its ids.

use standpipe::Severity;
use standpipe::receiver::ReceivedLog;
use standpipe::receiver::proto::{LogRecord, Value};

use super::describe;
use super::style::Ink;

/// A log record with the name of the service that wrote it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogView<'a> {
    pub(crate) log: &'a LogRecord,
    pub(crate) service: &'a str,
}

impl<'a> From<&'a ReceivedLog> for LogView<'a> {
    fn from(received: &'a ReceivedLog) -> Self {
        Self { log: &received.log, service: received.service_name() }
    }
}

impl LogView<'_> {
    /// When it happened, or when it was observed if that is not known.
    pub(crate) fn unix_nanos(&self) -> u64 {
        match self.log.time_unix_nano {
            0 => self.log.observed_time_unix_nano,
            time => time,
        }
    }

    /// `WARN`, `INFO2`; the sender's own text, with the number, if it differs: `notice(10)`.
    pub(crate) fn severity(&self) -> String {
        let (number, text) = (self.log.severity_number, self.log.severity_text.as_str());
        match (name_of(number), text) {
            (Some(name), text) if is_usual(text, name) => name.to_owned(),
            (None, "") if number == 0 => "unset".to_owned(),
            (None, text) if number == 0 => text.to_owned(),
            _ => format!("{text}({number})"),
        }
    }

    pub(crate) fn ink(&self) -> Ink {
        match self.severity_number() {
            1..=8 => Ink::FAINT,
            9..=12 => Ink::GOOD,
            13..=16 => Ink::WARNING.bold(),
            17..=20 => Ink::BAD.bold(),
            21..=24 => Ink::BAD.bold().reversed(),
            _ => Ink::PLAIN,
        }
    }

    pub(crate) fn is_error(&self) -> bool {
        (17..=24).contains(&self.severity_number())
    }

    /// The number of its severity, by its text if it came without; 0 if neither is known.
    pub(crate) fn severity_number(&self) -> i32 {
        let text = self.log.severity_text.as_str();
        let is_meant = |number: &i32| name_of(*number).is_some_and(|name| is_usual(text, name));
        match self.log.severity_number {
            0 if !text.is_empty() => (1..=24).find(is_meant).unwrap_or(0),
            number => number,
        }
    }

    /// A text as it is, anything else as an attribute would be written; empty if there is none.
    pub(crate) fn body(&self) -> String {
        match self.log.body.as_ref().and_then(|body| body.value.as_ref()) {
            None => String::new(),
            Some(Value::StringValue(text)) => text.clone(),
            Some(_) => describe::whole_value(self.log.body.as_ref()),
        }
    }

    /// The beginnings of the ids of its trace and its span, if it has them.
    pub(crate) fn ids(&self) -> String {
        let ids = [&self.log.trace_id, &self.log.span_id];
        let ids: Vec<String> =
            ids.into_iter().filter(|id| !id.is_empty()).map(|id| describe::short_id(id)).collect();
        ids.join("/")
    }
}

/// Returns the name of a severity number from 1 to 24.
fn name_of(number: i32) -> Option<&'static str> {
    let severity = u8::try_from(number).ok().and_then(Severity::from_number)?;
    Some(severity.name())
}

/// Whether `text` means no more than `name`: `warning` for WARN2, or nothing.
fn is_usual(text: &str, name: &str) -> bool {
    let class = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let same = |word: &str| text.eq_ignore_ascii_case(word);
    text.is_empty() || same(name) || same(class) || (class == "WARN" && same("warning"))
}

#[cfg(test)]
mod tests {
    use standpipe::receiver::proto::{AnyValue, ArrayValue};

    use super::*;

    fn severity(number: i32, text: &str) -> String {
        let log =
            LogRecord { severity_number: number, severity_text: text.to_owned(), ..LogRecord::default() };
        LogView { log: &log, service: "" }.severity()
    }

    #[test]
    fn a_severity_is_its_name_unless_the_sender_has_another_word_for_it() {
        let cases = [
            (9, "", "INFO"),
            (10, "", "INFO2"),
            (9, "info", "INFO"),
            (10, "Info", "INFO2"),
            (13, "warning", "WARN"),
            (10, "notice", "notice(10)"),
            (17, "INFO", "INFO(17)"),
            (0, "", "unset"),
            (0, "strange", "strange"),
            (99, "", "(99)"),
            (-1, "odd", "odd(-1)"),
        ];
        for (number, text, expected) in cases {
            assert_eq!(severity(number, text), expected, "{number} {text:?}");
        }
    }

    #[test]
    fn a_severity_without_a_number_is_known_by_its_text() {
        let view = |text: &str| LogRecord { severity_text: text.to_owned(), ..LogRecord::default() };
        let number = |text: &str| LogView { log: &view(text), service: "" }.severity_number();
        let texts = ["ERROR", "error", "Warning", "INFO2", "fatal", "strange", ""];
        assert_eq!(texts.map(number), [17, 17, 13, 10, 21, 0, 0]);
    }

    #[test]
    fn a_body_is_written_whatever_it_is() {
        let body = |value: Option<Value>| {
            let log = LogRecord { body: Some(AnyValue { value }), ..LogRecord::default() };
            LogView { log: &log, service: "" }.body()
        };
        let list = vec![AnyValue { value: Some(Value::IntValue(1)) }; 2];
        assert_eq!(body(Some(Value::StringValue("two words".to_owned()))), "two words");
        assert_eq!(body(Some(Value::BoolValue(true))), "true");
        assert_eq!(body(Some(Value::ArrayValue(ArrayValue { values: list }))), "[1,1]");
        assert_eq!(body(None), "");
        let long = "x".repeat(100_000);
        assert_eq!(body(Some(Value::StringValue(long.clone()))), long);
    }

    #[test]
    fn a_record_without_a_time_has_the_time_it_was_seen_at() {
        let seen = LogRecord { observed_time_unix_nano: 7, ..LogRecord::default() };
        let dated = LogRecord { time_unix_nano: 5, ..seen.clone() };
        let time = |log: &LogRecord| LogView { log, service: "" }.unix_nanos();
        assert_eq!((time(&seen), time(&dated)), (7, 5));
    }
}
