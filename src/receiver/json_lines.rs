//! Requests as lines of OTLP JSON, a format that file exporters and the console exporter write and collectors read.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, Write};

use serde::de::IgnoredAny;

use super::json;
use super::records::{ReceivedLog, ReceivedMetric, ReceivedSpan, Records};
use crate::record::{Signal, message, schema};
use crate::transport::write_json;

/// Maximum records per line, so that no line is much larger than a usual request.
const MAX_LINE_RECORDS: usize = 4096;
/// Maximum memory of one decoded line.
const MAX_MEMORY_BYTES: usize = 256 * 1024 * 1024;

/// Error of [`Records::from_json`]. `Display` shows the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonError(String);

impl JsonError {
    fn of(error: impl fmt::Display) -> Self {
        // The text is one line, and only the caller knows its number in a file, so the message names only the column.
        Self(error.to_string().replace(" at line 1 column ", " at column "))
    }
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for JsonError {}

impl Records {
    /// Reads an export request in OTLP JSON, of any signal: a line of a file exporter, or of
    /// `standpipe drain --to-stdout`.
    ///
    /// # Errors
    /// Returns an error if the text is not such a request, or would take more than 256 MiB of memory.
    ///
    /// ```
    /// use standpipe::receiver::Records;
    ///
    /// let line = r#"{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"checkout"}]}]}]}"#;
    /// let records = Records::from_json(line.as_bytes())?;
    /// assert_eq!(records.spans[0].name(), "checkout");
    /// assert_eq!(Records::from_json(records.to_json_lines().as_bytes())?, records);
    /// # Ok::<(), standpipe::receiver::JsonError>(())
    /// ```
    pub fn from_json(text: &[u8]) -> Result<Self, JsonError> {
        let mut all = Self::default();
        for signal in signals_in(text)? {
            let request = json::to_protobuf(signal, text).map_err(JsonError::of)?;
            if message::decoded_bytes(signal, &request) > MAX_MEMORY_BYTES {
                return Err(JsonError(format!("takes more than {MAX_MEMORY_BYTES} bytes of memory")));
            }
            let of_signal = Self::decode(signal, &request).map_err(JsonError::of)?;
            all.spans.extend(of_signal.spans);
            all.logs.extend(of_signal.logs);
            all.metrics.extend(of_signal.metrics);
        }
        Ok(all)
    }

    /// Writes the records as OTLP JSON, one line per signal, each terminated by `\n`. More than 4096 records of a
    /// signal take several lines.
    ///
    /// # Errors
    /// Returns an error if a write to `out` fails.
    pub fn write_json_lines(&self, out: &mut impl Write) -> io::Result<()> {
        write_lines(Signal::Traces, &self.spans, ReceivedSpan::encode, out)?;
        write_lines(Signal::Logs, &self.logs, ReceivedLog::encode, out)?;
        write_lines(Signal::Metrics, &self.metrics, ReceivedMetric::encode, out)
    }

    /// Returns the lines that [`write_json_lines`](Self::write_json_lines) writes.
    pub fn to_json_lines(&self) -> String {
        let mut text = Vec::new();
        // Writing to memory cannot fail.
        let _ = self.write_json_lines(&mut text);
        String::from_utf8(text).unwrap_or_default()
    }
}

/// Returns the signals of the records in a text. An export request normally has records of only one signal.
fn signals_in(text: &[u8]) -> Result<Vec<Signal>, JsonError> {
    let members: HashMap<String, IgnoredAny> = serde_json::from_slice(text).map_err(JsonError::of)?;
    let has = |signal: &Signal| {
        let mut names = members.keys();
        names.any(|name| schema::request(*signal).fields[0].json_name().eq(name.bytes()))
    };
    let signals: Vec<Signal> = Signal::ALL.into_iter().filter(has).collect();
    match signals.is_empty() && !members.is_empty() {
        true => Err(JsonError("no resourceSpans, resourceLogs or resourceMetrics".to_owned())),
        false => Ok(signals),
    }
}

/// Writes lines one by one, because all lines together may be large.
fn write_lines<R>(
    signal: Signal,
    records: &[R],
    encode: fn(&[R]) -> Vec<u8>,
    out: &mut impl Write,
) -> io::Result<()> {
    for records in records.chunks(MAX_LINE_RECORDS) {
        let mut line = Vec::new();
        // The decoder limits the nesting of records to the depth that can be written, so `write_json` does not fail.
        if write_json(&mut line, signal, &encode(records)).is_ok() {
            line.push(b'\n');
            out.write_all(&line)?;
        }
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn read(text: &str) -> Records {
        Records::from_json(text.as_bytes()).unwrap()
    }

    #[test]
    fn what_is_written_reads_as_what_was_read() {
        let spans = r#"{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"shop"}}]},
            "scopeSpans":[{"scope":{"name":"a"},"spans":[{"traceId":"5b8efff798038103d269b633813fc60c","name":"one"},
            {"name":"two","startTimeUnixNano":"1700000000000000000"}]},{"scope":{"name":"b"},"spans":[{"name":"three"}]}]}]}"#;
        let logs =
            r#"{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":{"stringValue":"two\nlines"}}]}]}]}"#;
        let metrics = r#"{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"m","gauge":{"dataPoints":[{"asInt":"-3"}]}}]}]}]}"#;
        for text in [spans, logs, metrics] {
            let records = read(text);
            let lines = records.to_json_lines();
            assert_eq!((records.count() > 0, lines.lines().count()), (true, 1), "{lines}");
            assert_eq!(read(&lines), records);
        }
        assert_eq!(read(spans).to_json_lines().matches("shop").count(), 1, "the spans share their resource");
    }

    #[test]
    fn what_protobuf_may_nest_is_read_again_and_no_more() {
        let nested = |levels: usize| {
            let (open, close) = (r#"{"arrayValue":{"values":["#.repeat(levels), "]}}".repeat(levels));
            let value = format!(r#"{{"key":"[{{\"","value":{open}{close}}}"#);
            format!(r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{{"attributes":[{value}]}}]}}]}}]}}"#)
        };
        let deepest = (40..60).rfind(|levels| Records::from_json(nested(*levels).as_bytes()).is_ok());
        assert_eq!(deepest, Some(48));
        let records = read(&nested(48));
        assert_eq!(read(&records.to_json_lines()), records);
        let reason = Records::from_json(nested(100_000).as_bytes()).unwrap_err().to_string();
        assert!(reason.contains("more than 100 levels deep"), "{reason}");
    }

    #[test]
    fn many_records_are_several_lines() {
        let mut records = read(r#"{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"x"}]}]}]}"#);
        records.spans = vec![records.spans[0].clone(); MAX_LINE_RECORDS + 1];
        let lines = records.to_json_lines();
        assert_eq!(
            lines.lines().map(|line| read(line).spans.len()).collect::<Vec<_>>(),
            [MAX_LINE_RECORDS, 1]
        );
    }

    #[test]
    fn what_is_no_request_is_an_error_with_words() {
        let reason = |text: &str| {
            Records::from_json(text.as_bytes()).map(|records| records.count()).unwrap_err().to_string()
        };
        assert!(reason("hello").starts_with("expected value"), "{}", reason("hello"));
        assert_eq!(reason(r#"{"a":1}"#), "no resourceSpans, resourceLogs or resourceMetrics");
        assert!(reason(r#"{"resourceSpans":[{}]"#).starts_with("EOF"));
        assert!(
            reason(r#"{"resourceSpans":3}"#).starts_with("invalid value"),
            "{}",
            reason(r#"{"resourceSpans":3}"#)
        );
        assert_eq!(Records::from_json(b"{}"), Ok(Records::default()));
        let bomb = format!(
            r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{}{{}}]}}]}}]}}"#,
            "{},".repeat(MAX_MEMORY_BYTES / size_of::<crate::record::schema::Span>())
        );
        assert_eq!(reason(&bomb), "takes more than 268435456 bytes of memory");
    }
}
