//! Answers that only gRPC has, and what they are over HTTP.

use super::{Answer, DeliveryMode, NO_STATUS};
use crate::receiver::rpc;

/// How an answer over gRPC is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::receiver) enum GrpcFraming {
    /// Success as headers, message and trailers; an error as trailers alone.
    Usual,
    TrailersOnly,
    HeadersFirst,
    /// A status of HTTP and none of gRPC.
    BareHttp,
}

/// Whether an answer over gRPC is the last one, and when the client learns of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::receiver) enum GoAwayTiming {
    Never,
    BeforeAnswer,
    AfterAnswer,
}

impl Answer {
    /// Any gRPC code. Over HTTP it is the status that goes with it: 503 for 14, for instance.
    ///
    /// ```
    /// use standpipe::receiver::Answer;
    ///
    /// let busy = Answer::grpc(14).message("try again later");
    /// assert!(!busy.accepts());
    /// ```
    pub fn grpc(code: u32) -> Self {
        Self { code: Some(code), ..Self::status(rpc::status_of(code)) }
    }

    /// Over gRPC, resets the request's stream (RST_STREAM) with this error code of HTTP/2; the connection goes on. Over
    /// HTTP, where there are no streams, it closes the connection.
    pub fn reset_stream(code: u32) -> Self {
        Self::without_status(DeliveryMode::ResetStream(code))
    }

    /// Over gRPC, sends GOAWAY with this error code of HTTP/2, which shows that the request was not looked at, then
    /// closes: a client may send it again elsewhere. Over HTTP it only closes the connection.
    pub fn go_away(code: u32) -> Self {
        Self::without_status(DeliveryMode::GoAway(code))
    }

    /// Over gRPC, says that no more requests will be taken (GOAWAY) before it answers this one, then closes. Over HTTP
    /// nothing changes.
    pub fn go_away_before(mut self) -> Self {
        self.go_away = GoAwayTiming::BeforeAnswer;
        self
    }

    /// Over gRPC, says after the answer that no more requests will be taken (GOAWAY), then closes. Over HTTP nothing
    /// changes.
    pub fn go_away_after(mut self) -> Self {
        self.go_away = GoAwayTiming::AfterAnswer;
        self
    }

    /// Over gRPC, sends the status alone, also of a success: one block of headers that ends the answer. Over HTTP
    /// nothing changes.
    pub fn trailers_only(mut self) -> Self {
        self.grpc_framing = GrpcFraming::TrailersOnly;
        self
    }

    /// Over gRPC, sends an error in two blocks, headers and trailers, as a server does that fails late. Over HTTP
    /// nothing changes.
    pub fn headers_first(mut self) -> Self {
        self.grpc_framing = GrpcFraming::HeadersFirst;
        self
    }

    /// Over gRPC, sends the HTTP status and no status of gRPC, as a proxy in the way does. The body is sent as it is. Over
    /// HTTP nothing changes.
    pub fn without_grpc_status(mut self) -> Self {
        self.grpc_framing = GrpcFraming::BareHttp;
        self
    }

    /// The code that goes with it over gRPC.
    pub(in crate::receiver) fn grpc_code(&self) -> u32 {
        self.code.unwrap_or_else(|| rpc::code_of(self.status))
    }

    /// The code that goes over the wire of gRPC, if one does.
    pub(in crate::receiver) fn grpc_code_sent(&self) -> Option<u32> {
        (self.status != NO_STATUS && self.grpc_framing != GrpcFraming::BareHttp).then(|| self.grpc_code())
    }
}
