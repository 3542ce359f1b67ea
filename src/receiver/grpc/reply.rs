//! An answer in the terms of gRPC: the header blocks, and what goes between them.

use super::outgoing::Fields;
use crate::receiver::answer::{Answer, Body, GrpcFraming};
use crate::receiver::answer_body::Sendable;
use crate::receiver::rpc;
use crate::transport::base64::encode as encode_base64;

/// What an answer is made of.
pub(super) struct Reply<'a> {
    pub(super) head: Fields,
    /// What stands before a message, if there is one.
    pub(super) prefix: Vec<u8>,
    pub(super) body: Option<Sendable<'a>>,
    pub(super) end: Ending,
}

pub(super) enum Ending {
    /// The head was all.
    Head,
    /// The body is, with nothing behind it.
    Body,
    Trailers(Fields),
}

impl<'a> Reply<'a> {
    pub(super) fn of(answer: &'a Answer) -> Self {
        let is_success = answer.grpc_code() == 0;
        match answer.grpc_framing {
            GrpcFraming::BareHttp => Self::bare(answer),
            GrpcFraming::TrailersOnly => Self::trailers_only(answer),
            GrpcFraming::Usual if !is_success => Self::trailers_only(answer),
            GrpcFraming::HeadersFirst if !is_success => Self {
                head: head(answer, "200"),
                prefix: Vec::new(),
                body: None,
                end: Ending::Trailers(status(answer)),
            },
            GrpcFraming::Usual | GrpcFraming::HeadersFirst => Self::success(answer),
        }
    }

    fn success(answer: &'a Answer) -> Self {
        let body = Sendable::of(&answer.body).at_most(u64::from(u32::MAX));
        let is_packed = matches!(answer.body, Body::GzipBomb(_));
        let mut head = head(answer, "200");
        if is_packed {
            head.push(field("grpc-encoding", "gzip"));
        }
        head.extend(metadata(answer));
        let prefix = message_prefix(is_packed, body.len());
        Self { head, prefix, body: Some(body), end: Ending::Trailers(status(answer)) }
    }

    fn trailers_only(answer: &Answer) -> Self {
        let mut head = head(answer, "200");
        head.extend(status(answer));
        Self { head, prefix: Vec::new(), body: None, end: Ending::Head }
    }

    fn bare(answer: &'a Answer) -> Self {
        let mut head = head(answer, &answer.status.to_string());
        head.extend(metadata(answer));
        let body = Sendable::of(&answer.body);
        match body.len() {
            0 => Self { head, prefix: Vec::new(), body: None, end: Ending::Head },
            _ => Self { head, prefix: Vec::new(), body: Some(body), end: Ending::Body },
        }
    }
}

/// A flag and a length, as they stand before every message.
pub(super) fn message_prefix(is_packed: bool, length: u64) -> Vec<u8> {
    let length = u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
    [&[u8::from(is_packed)][..], &length].concat()
}

fn field(name: &str, value: impl Into<String>) -> (String, String) {
    (name.to_owned(), value.into())
}

fn head(answer: &Answer, status: &str) -> Fields {
    let usual = match answer.grpc_framing {
        GrpcFraming::BareHttp => "application/x-protobuf",
        _ => "application/grpc",
    };
    let set = answer.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    let content_type = set.map_or(usual, |(_, value)| value);
    vec![field(":status", status), field("content-type", content_type)]
}

fn status(answer: &Answer) -> Fields {
    let code = answer.grpc_code();
    let mut fields = vec![field("grpc-status", code.to_string())];
    if let Some(message) = &answer.message {
        fields.push(field("grpc-message", rpc::percent_encoded(message)));
    }
    if answer.retry.is_some() {
        let message = answer.message.as_deref().unwrap_or_default();
        let details = rpc::encode_status(code, message, answer.retry);
        fields.push(field("grpc-status-details-bin", encode_base64(&details)));
    }
    if code != 0 {
        fields.extend(metadata(answer));
    }
    fields
}

/// The headers of an answer, without those that are about HTTP/1 alone.
fn metadata(answer: &Answer) -> impl Iterator<Item = (String, String)> + '_ {
    const OF_HTTP: [&str; 6] = [
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "retry-after",
        "transfer-encoding",
    ];
    let fields = answer.headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone()));
    fields.filter(|(name, _)| !OF_HTTP.contains(&name.as_str()))
}
