//! Scripted answers of the receiver, including faulty ones.

use std::time::Duration;

use super::answer_body::{code_of, status_of};
use crate::record::wire::encode_field;

/// An answer that the receiver gives instead of the regular one, over HTTP or gRPC.
///
/// Queue answers with [`Receiver::script`](super::Receiver::script), or set one for all requests with
/// [`Receiver::always`](super::Receiver::always). An answer begins with one of the constructors and is refined by the
/// methods. A method that has no meaning for the answer (such as a header on [`Answer::hang`]) has no effect.
///
/// The same answer works over both protocols and usually has the same effect on the connection. Over gRPC, the head is
/// the header block of the response, the body is its message, and the status is translated to a gRPC code, which
/// [`Answer::grpc`] sets directly:
///
/// | HTTP status | gRPC code |
/// |---|---|
/// | 2xx | 0 `OK` |
/// | 400, 411, 412, 414, 417 | 3 `INVALID_ARGUMENT` |
/// | 408, 504 | 4 `DEADLINE_EXCEEDED` |
/// | 403 | 7 `PERMISSION_DENIED` |
/// | 413, 429, 431 | 8 `RESOURCE_EXHAUSTED` |
/// | 404, 405, 415, 501, 505 | 12 `UNIMPLEMENTED` |
/// | 500 | 13 `INTERNAL` |
/// | 502, 503 | 14 `UNAVAILABLE` |
/// | 401 | 16 `UNAUTHENTICATED` |
/// | others | 2 `UNKNOWN` |
///
/// A 2xx status accepts the records of the request, except those that [`Answer::partial`] rejects. Accepted records are
/// counted even if the answer is not delivered completely. No other answer changes the counts of records.
///
/// ```
/// use std::time::Duration;
/// use standpipe::receiver::Answer;
///
/// let busy = Answer::status(503).retry_after("2").message("try again later");
/// let slow = Answer::ok().delay(Duration::from_millis(50));
/// assert!(!busy.accepts());
/// assert!(slow.accepts());
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "an answer has no effect until a receiver gets it, for example by script()"]
pub struct Answer {
    pub(super) delivery_mode: DeliveryMode,
    pub(super) status: u16,
    /// gRPC code; `None` for the code that corresponds to `status`.
    code: Option<u32>,
    pub(super) headers: Vec<(String, String)>,
    /// Error message for people.
    pub(super) message: Option<String>,
    /// Time that the client is asked to wait before it retries.
    pub(super) retry: Option<Duration>,
    pub(super) header_padding: u64,
    pub(super) body: Body,
    pub(super) rejected: u64,
    pub(super) delay: Duration,
    pub(super) closes: bool,
    pub(super) grpc_framing: GrpcFraming,
    pub(super) go_away: GoAwayTiming,
}

/// How an answer is delivered, if at all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum DeliveryMode {
    #[default]
    Whole,
    SlowHead(Duration),
    SlowBody(Duration),
    CutShort,
    Garbage(Vec<u8>),
    Hang,
    Close,
    ResetAfterRequest,
    Reset,
    NeverRead,
    ResetStream(u32),
    GoAway(u32),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Body {
    /// A response message without fields.
    #[default]
    Empty,
    Bytes(Vec<u8>),
    /// A response message with a partial success.
    Partial {
        rejected: u64,
        message: String,
    },
    /// A `google.rpc.Status` with the message of the answer.
    Status,
    /// This many zeros, generated while they are sent.
    Zeros(u64),
    /// A gzip stream that decompresses to at least this many bytes.
    GzipBomb(u64),
}

/// How an answer over gRPC is divided into headers, message and trailers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum GrpcFraming {
    /// Success as headers, message and trailers; an error as trailers only.
    #[default]
    Usual,
    TrailersOnly,
    HeadersFirst,
    /// An HTTP status without a gRPC status.
    BareHttp,
}

/// When GOAWAY is sent with an answer over gRPC.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum GoAwayTiming {
    #[default]
    Never,
    BeforeAnswer,
    AfterAnswer,
}

impl Answer {
    /// Creates a success: 200 with an empty response message.
    pub fn ok() -> Self {
        Self::status(200)
    }

    /// Creates an answer with any status and an empty body. A status that has no body by definition (204, 304) is
    /// always sent without one.
    pub fn status(status: u16) -> Self {
        Self { status, ..Self::default() }
    }

    /// Creates a partial success: all but the last `rejected` spans, log records or data points are accepted.
    ///
    /// With 0 rejected records and a message, the answer is a warning. If `rejected` exceeds the number of records, no
    /// record is accepted.
    pub fn partial(rejected: u64, message: impl Into<String>) -> Self {
        let (message, sent) = (message.into(), rejected.min(i64::MAX as u64));
        Self { rejected, body: Body::Partial { rejected: sent, message }, ..Self::ok() }
    }

    /// Creates a success as the OpenTelemetry Collector sends it: a partial success that is present and empty
    /// (`0a 00`).
    pub fn empty_partial() -> Self {
        Self::partial(0, "")
    }

    /// Creates a redirect to `location`, which an exporter must not follow. Over gRPC, add
    /// [`Answer::without_grpc_status`]: otherwise, the client gets a gRPC code instead of `status`.
    pub fn redirect(status: u16, location: impl Into<String>) -> Self {
        Self::status(status).header("location", location)
    }

    /// Creates a 200 with a body of `bytes` zeros, generated while they are sent. Over gRPC, `bytes` is limited to the
    /// maximum length of a message, 4 GiB.
    pub fn oversized(bytes: u64) -> Self {
        Self { body: Body::Zeros(bytes), ..Self::ok() }
    }

    /// Creates a 200 with at least `bytes` bytes of header fields and an empty body.
    pub fn oversized_headers(bytes: u64) -> Self {
        Self { header_padding: bytes, ..Self::ok() }
    }

    /// Creates a 200 with a small gzip body (over gRPC a compressed message) that decompresses to at least `bytes`
    /// bytes.
    pub fn gzip_bomb(bytes: u64) -> Self {
        Self { body: Body::GzipBomb(bytes), ..Self::ok() }
    }

    /// Reads the request and never answers it: the client waits until it gives up or the connection ends, at the
    /// latest when the receiver stops. Over gRPC, other requests of the connection are answered meanwhile.
    pub fn hang() -> Self {
        Self::without_status(DeliveryMode::Hang)
    }

    /// Never reads the request: the connection stays open until the receiver stops.
    ///
    /// The receiver takes this answer for the request whose first byte (over gRPC, whose header block) arrives next. An
    /// unread request is not counted, and nothing else on the connection is read or answered.
    pub fn never_read() -> Self {
        Self::without_status(DeliveryMode::NeverRead)
    }

    /// Resets the connection (RST) at the first byte of a request, over gRPC at its header block, while the client is
    /// still writing.
    ///
    /// The unread request is not counted.
    pub fn reset() -> Self {
        Self::without_status(DeliveryMode::Reset)
    }

    /// Reads the whole request, then resets the connection (RST) instead of answering.
    pub fn reset_after_request() -> Self {
        Self::without_status(DeliveryMode::ResetAfterRequest)
    }

    /// Reads the whole request, then closes the connection normally (FIN) instead of answering.
    pub fn close() -> Self {
        Self::without_status(DeliveryMode::Close)
    }

    /// Answers with these bytes, which need not be HTTP, then closes the connection.
    pub fn garbage(bytes: impl Into<Vec<u8>>) -> Self {
        Self::without_status(DeliveryMode::Garbage(bytes.into()))
    }

    /// Adds a header field. It replaces a field of the same name that the receiver would send, such as `content-type`.
    ///
    /// Over gRPC, the field is metadata: in the headers of a success, in the trailers of an error. Fields that only
    /// concern HTTP/1 (`connection`, `content-encoding`, `content-length`, `retry-after`, `transfer-encoding`) are left
    /// out.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Adds `Retry-After`: seconds, a date, or an invalid value. Over gRPC, seconds are sent as `RetryInfo`; other
    /// values are not sent.
    pub fn retry_after(mut self, value: impl Into<String>) -> Self {
        let value = value.into();
        self.retry = value.parse().ok().map(Duration::from_secs);
        self.header("retry-after", value)
    }

    /// Asks the client to wait for `delay`: over gRPC by `RetryInfo`, over HTTP by `Retry-After` in whole seconds.
    pub fn retry_delay(self, delay: Duration) -> Self {
        let seconds = delay.as_secs().saturating_add(u64::from(delay.subsec_nanos() > 0));
        Self { retry: Some(delay), ..self.header("retry-after", seconds.to_string()) }
    }

    /// Sets the bytes of the body; over gRPC, sets the bytes of the message of a successful response.
    pub fn body(self, bytes: impl Into<Vec<u8>>) -> Self {
        Self { body: Body::Bytes(bytes.into()), ..self }
    }

    /// Sets the body to a `google.rpc.Status` with this message, as OTLP demands for errors. Over gRPC, the message is
    /// sent as `grpc-message`.
    pub fn message(self, message: impl Into<String>) -> Self {
        Self { message: Some(message.into()), body: Body::Status, ..self }
    }

    /// Waits before answering. The request is counted when it has arrived, its records after the delay.
    pub fn delay(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    /// Sends the head one byte per `interval`.
    pub fn slow_headers(self, interval: Duration) -> Self {
        Self { delivery_mode: DeliveryMode::SlowHead(interval), ..self }
    }

    /// Sends the body one byte per `interval`, over gRPC one frame per byte. An empty body is filled with a field that
    /// decoders skip.
    pub fn slow_body(mut self, interval: Duration) -> Self {
        self.delivery_mode = DeliveryMode::SlowBody(interval);
        if self.body == Body::Empty {
            let mut filling = Vec::new();
            // No OTLP message has a field with this number, so clients skip it.
            encode_field(15 << 3 | 2, &[0; SLOW_BODY_FILLING], &mut filling);
            self.body = Body::Bytes(filling);
        }
        self
    }

    /// Announces a longer body than it sends, then closes the connection.
    pub fn cut_short(self) -> Self {
        Self { delivery_mode: DeliveryMode::CutShort, ..self }
    }

    /// Closes the connection after the answer. The close is not announced (over gRPC, no GOAWAY is sent), so the
    /// client keeps a stale connection.
    pub fn then_close(self) -> Self {
        Self { closes: true, ..self }
    }

    /// Creates an answer with any gRPC code. Over HTTP, the answer has the corresponding status, such as 503 for 14.
    ///
    /// ```
    /// use standpipe::receiver::Answer;
    ///
    /// let busy = Answer::grpc(14).message("try again later");
    /// assert!(!busy.accepts());
    /// ```
    pub fn grpc(code: u32) -> Self {
        Self { code: Some(code), ..Self::status(status_of(code)) }
    }

    /// Over gRPC, resets the request's stream (RST_STREAM) with this HTTP/2 error code; the connection stays open. Over
    /// HTTP, which has no streams, closes the connection.
    pub fn reset_stream(code: u32) -> Self {
        Self::without_status(DeliveryMode::ResetStream(code))
    }

    /// Over gRPC, sends GOAWAY with this HTTP/2 error code and closes the connection. The GOAWAY says that the request
    /// was not processed, so a client may send the request again on another connection. Over HTTP, closes the
    /// connection.
    pub fn go_away(code: u32) -> Self {
        Self::without_status(DeliveryMode::GoAway(code))
    }

    /// Over gRPC, announces the end of the connection by GOAWAY, answers this request as the last one, then closes the
    /// connection. No effect over HTTP.
    pub fn go_away_before(self) -> Self {
        Self { go_away: GoAwayTiming::BeforeAnswer, ..self }
    }

    /// Over gRPC, sends GOAWAY after the answer, then closes the connection. No effect over HTTP.
    pub fn go_away_after(self) -> Self {
        Self { go_away: GoAwayTiming::AfterAnswer, ..self }
    }

    /// Over gRPC, sends only the status, even for a success: one header block that ends the response. No effect over
    /// HTTP.
    pub fn trailers_only(self) -> Self {
        Self { grpc_framing: GrpcFraming::TrailersOnly, ..self }
    }

    /// Over gRPC, sends an error as headers and trailers, like a server that fails late. No effect over HTTP.
    pub fn headers_first(self) -> Self {
        Self { grpc_framing: GrpcFraming::HeadersFirst, ..self }
    }

    /// Over gRPC, sends the HTTP status without a gRPC status and the body as it is, as a proxy does. No effect over
    /// HTTP.
    pub fn without_grpc_status(self) -> Self {
        Self { grpc_framing: GrpcFraming::BareHttp, ..self }
    }

    /// Returns the message for people, which may be empty.
    pub(super) fn status_message(&self) -> &str {
        self.message.as_deref().unwrap_or_default()
    }

    /// Returns the gRPC code of the answer.
    pub(super) fn grpc_code(&self) -> u32 {
        self.code.unwrap_or_else(|| code_of(self.status))
    }

    /// Returns the gRPC code that is sent, or `None` if no code is sent.
    pub(super) fn grpc_code_sent(&self) -> Option<u32> {
        (self.status != NO_STATUS && self.grpc_framing != GrpcFraming::BareHttp).then(|| self.grpc_code())
    }

    /// Returns whether the records of a request with this answer count as accepted.
    pub fn accepts(&self) -> bool {
        (200..300).contains(&self.status)
    }

    fn without_status(delivery_mode: DeliveryMode) -> Self {
        Self { delivery_mode, ..Self::status(NO_STATUS) }
    }

    /// Returns the status that is sent, or `None` if no status is sent.
    pub(super) fn status_sent(&self) -> Option<u16> {
        (self.status != NO_STATUS).then_some(self.status)
    }

    /// Returns how many of a request's records are accepted.
    pub(super) fn accepted_of(&self, records: usize) -> usize {
        match self.accepts() {
            true => records.saturating_sub(usize::try_from(self.rejected).unwrap_or(usize::MAX)),
            false => 0,
        }
    }

    /// Returns whether the answer must be known before the request is read.
    pub(super) fn precedes_reading(&self) -> bool {
        matches!(
            self.delivery_mode,
            DeliveryMode::NeverRead | DeliveryMode::Reset | DeliveryMode::ResetAfterRequest
        )
    }
}

const NO_STATUS: u16 = 0;
const SLOW_BODY_FILLING: usize = 1024;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceResponse;
    use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceResponse;
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
    use prost::Message;

    use super::super::answer_body::Sendable;
    use super::super::content::Form;
    use super::*;

    fn body(answer: &Answer) -> Vec<u8> {
        let mut body = Vec::new();
        Sendable::of(answer, Form::PROTOBUF).write_to(&mut body).unwrap();
        body
    }

    #[test]
    fn only_2xx_accepts_and_partial_success_accepts_the_rest() {
        assert_eq!(Answer::ok().accepted_of(5), 5);
        assert_eq!(Answer::status(204).accepted_of(5), 5);
        assert_eq!(Answer::partial(2, "two").accepted_of(5), 3);
        assert_eq!(Answer::partial(7, "all").accepted_of(5), 0);
        for answer in [Answer::status(503), Answer::redirect(308, "/"), Answer::hang(), Answer::garbage("x")]
        {
            assert_eq!(answer.accepted_of(5), 0, "{answer:?}");
        }
    }

    #[test]
    fn the_longest_delay_can_be_asked_for() {
        let answer = Answer::grpc(14).retry_delay(Duration::MAX);
        assert_eq!(answer.headers, [("retry-after".to_owned(), u64::MAX.to_string())]);
    }

    #[test]
    fn a_partial_success_reads_the_same_for_every_signal() {
        let body = body(&Answer::partial(2, "too old"));
        let traces = ExportTraceServiceResponse::decode(&body[..]).unwrap().partial_success.unwrap();
        let logs = ExportLogsServiceResponse::decode(&body[..]).unwrap().partial_success.unwrap();
        let metrics = ExportMetricsServiceResponse::decode(&body[..]).unwrap().partial_success.unwrap();
        assert_eq!((traces.rejected_spans, traces.error_message.as_str()), (2, "too old"));
        assert_eq!((logs.rejected_log_records, logs.error_message.as_str()), (2, "too old"));
        assert_eq!((metrics.rejected_data_points, metrics.error_message.as_str()), (2, "too old"));
    }

    #[test]
    fn bodies_are_the_bytes_of_the_specification() {
        assert_eq!(body(&Answer::empty_partial()), [0x0a, 0x00]);
        assert_eq!(body(&Answer::status(503).message("no")), [0x08, 14, 0x12, 2, b'n', b'o']);
        let slow = body(&Answer::ok().slow_body(Duration::ZERO));
        assert!(slow.len() > SLOW_BODY_FILLING);
        let decoded = ExportTraceServiceResponse::decode(&slow[..]).unwrap();
        assert_eq!(decoded, ExportTraceServiceResponse::default());
    }
}
