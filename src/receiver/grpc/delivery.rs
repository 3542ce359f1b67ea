//! Delivery of answers over gRPC: whole, slow, cut short, oversized, or not at all.

use std::io::{self, Write};

use super::session::{Fields, Gone};
use super::shared_connection::SharedConnection;
use crate::http2::frame::{self, Code, MAX_STREAM, MIN_MAX_FRAME, flag, kind};
use crate::http2::hpack;
use crate::receiver::answer::{Answer, Body, DeliveryMode, GoAwayTiming, GrpcFraming};
use crate::receiver::answer_body::{CUT_SHORT_BYTES, Sendable, encode_status, percent_encoded, send_slowly};
use crate::receiver::content::Form;
use crate::transport::base64::encode as encode_base64;

pub(super) fn deliver(connection: &SharedConnection<'_>, stream: u32, answer: &Answer) -> Result<(), Gone> {
    let delivery = Delivery { connection, stream, answer };
    match &answer.delivery_mode {
        DeliveryMode::Hang | DeliveryMode::NeverRead => Ok(()),
        DeliveryMode::Close | DeliveryMode::Reset | DeliveryMode::ResetAfterRequest => delivery.hang_up(),
        DeliveryMode::Garbage(bytes) => {
            connection.write_raw(|_| Ok(Vec::new()), |_, out| out.write_all(bytes))?;
            delivery.hang_up()
        }
        DeliveryMode::ResetStream(code) => connection.send(|session| session.send_reset(stream, Code(*code))),
        DeliveryMode::GoAway(code) => {
            // GOAWAY names the stream before this one as the last processed stream, so the client knows that this call
            // was not processed.
            connection.send_go_away(stream.saturating_sub(2), Code(*code))?;
            delivery.hang_up()
        }
        DeliveryMode::CutShort => {
            delivery.send_cut_short()?;
            delivery.hang_up()
        }
        DeliveryMode::Whole | DeliveryMode::SlowHead(_) | DeliveryMode::SlowBody(_) => {
            delivery.send_to_its_end()
        }
    }
}

struct Delivery<'a> {
    connection: &'a SharedConnection<'a>,
    stream: u32,
    answer: &'a Answer,
}

impl Delivery<'_> {
    fn hang_up(&self) -> Result<(), Gone> {
        self.connection.hang_up();
        Ok(())
    }

    fn send_to_its_end(&self) -> Result<(), Gone> {
        if self.answer.closes || self.answer.go_away != GoAwayTiming::Never {
            // `is_leaving` is set before the answer is sent: otherwise, a call that the client begins as soon as it
            // has the answer would be counted but never answered.
            self.connection.send(|session| {
                session.is_leaving = true;
                Ok(())
            })?;
        }
        if self.answer.go_away == GoAwayTiming::BeforeAnswer {
            // The first GOAWAY of a graceful shutdown names the highest possible stream (RFC 9113, section 6.8).
            self.connection.send_go_away(MAX_STREAM, Code::NO_ERROR)?;
        }
        self.send(&Reply::of(self.answer))?;
        if self.answer.go_away != GoAwayTiming::Never {
            self.connection.send_go_away(self.stream, Code::NO_ERROR)?;
            return self.hang_up();
        }
        if self.answer.closes { self.hang_up() } else { Ok(()) }
    }

    /// Sends an answer. A usual answer takes one write, so a client sees all of it or nothing.
    fn send(&self, reply: &Reply<'_>) -> Result<(), Gone> {
        self.send_head(reply)?;
        if let Some(body) = &reply.body {
            let (mut writer, shared) = (self, self.connection.shared);
            match (&self.answer.delivery_mode, body) {
                (DeliveryMode::SlowBody(interval), Sendable::Bytes(bytes)) => {
                    writer.write_all(&reply.prefix)?;
                    send_slowly(writer, bytes, || shared.rest(*interval))?;
                }
                (_, Sendable::Bytes(bytes)) => writer.write_all(&[&reply.prefix[..], bytes].concat())?,
                _ => {
                    writer.write_all(&reply.prefix)?;
                    body.write_to(&mut writer)?;
                }
            }
        }
        self.connection.send(|session| match &reply.end {
            Ending::Head => Ok(()),
            Ending::Body => session.send_end(self.stream),
            Ending::Trailers(fields) => session.send_headers(self.stream, fields, true),
        })
    }

    fn send_head(&self, reply: &Reply<'_>) -> Result<(), Gone> {
        // Padding is added only to a head that is followed by another part.
        let (shared, ends_stream) = (self.connection.shared, matches!(reply.end, Ending::Head));
        match self.answer.delivery_mode {
            DeliveryMode::SlowHead(interval) => self.connection.write_raw(
                |session| {
                    session.send_headers(self.stream, &reply.head, ends_stream)?;
                    Ok(session.take_out())
                },
                |bytes, out| send_slowly(out, bytes, || shared.rest(interval)),
            ),
            _ if self.answer.header_padding > 0 && !ends_stream => self.connection.write_raw(
                |session| {
                    session.unanswered(self.stream)?;
                    Ok(session.encode(&reply.head))
                },
                |block, out| self.write_padded(block, out),
            ),
            _ => self.connection.queue(|session| session.send_headers(self.stream, &reply.head, ends_stream)),
        }
    }

    /// Writes a header block with additional padding fields, which are generated while they are sent.
    fn write_padded(&self, block: &[u8], out: &mut dyn Write) -> io::Result<()> {
        let mut field = Vec::new();
        hpack::encode("x-padding", "x".repeat(1000).as_bytes(), &mut field);
        // Each frame contains whole fields, so that all frames are the same.
        let fields = field.repeat(MIN_MAX_FRAME / field.len());
        let mut frame = Vec::new();
        frame::write_head(kind::HEADERS, 0, self.stream, block.len(), &mut frame);
        out.write_all(&[&frame, block].concat())?;
        for left in (0..self.answer.header_padding.div_ceil(fields.len() as u64)).rev() {
            let ends_block = if left == 0 { flag::END_HEADERS } else { 0 };
            frame.clear();
            frame::write_head(kind::CONTINUATION, ends_block, self.stream, fields.len(), &mut frame);
            out.write_all(&[&frame, &fields[..]].concat())?;
        }
        Ok(())
    }

    fn send_cut_short(&self) -> Result<(), Gone> {
        let reply = Reply::of(self.answer);
        let Some(body) = &reply.body else {
            // There is no message to cut short, so the headers are sent without the end of the stream.
            return self.connection.send(|session| session.send_headers(self.stream, &reply.head, false));
        };
        self.send_head(&reply)?;
        self.connection.send_data(self.stream, &message_prefix(false, body.len() + CUT_SHORT_BYTES))?;
        let mut writer = self;
        body.write_to(&mut writer)?;
        Ok(writer.flush()?)
    }
}

/// Sends written bytes as DATA frames.
impl Write for &Delivery<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.connection.send_data(self.stream, bytes);
        sent.map(|()| bytes.len()).map_err(|Gone| io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.connection.send(|_| Ok(())).map_err(|Gone| io::ErrorKind::BrokenPipe.into())
    }
}

/// The parts of an answer.
struct Reply<'a> {
    head: Fields,
    /// Prefix of the message (flag and length), if there is one.
    prefix: Vec<u8>,
    body: Option<Sendable<'a>>,
    end: Ending,
}

enum Ending {
    /// The head is the last part.
    Head,
    /// The body is the last part.
    Body,
    Trailers(Fields),
}

impl<'a> Reply<'a> {
    fn of(answer: &'a Answer) -> Self {
        let is_error = answer.grpc_code() != 0;
        let (mut head, prefix) = (head(answer), Vec::new());
        match answer.grpc_framing {
            GrpcFraming::BareHttp => {
                head.extend(metadata(answer));
                let body = Some(Sendable::of(answer, Form::PROTOBUF)).filter(|body| body.len() > 0);
                let end = if body.is_some() { Ending::Body } else { Ending::Head };
                Self { head, prefix, body, end }
            }
            GrpcFraming::HeadersFirst if is_error => {
                Self { head, prefix, body: None, end: Ending::Trailers(status(answer)) }
            }
            framing if is_error || framing == GrpcFraming::TrailersOnly => {
                head.extend(status(answer));
                Self { head, prefix, body: None, end: Ending::Head }
            }
            _ => {
                let body = match Sendable::of(answer, Form::PROTOBUF) {
                    // The prefix has 32 bits for the length. Only a body of zeros, which is generated while it is sent,
                    // can be longer.
                    Sendable::Zeros(length) => Sendable::Zeros(length.min(u64::from(u32::MAX))),
                    body => body,
                };
                let is_packed = matches!(answer.body, Body::GzipBomb(_));
                if is_packed {
                    head.push(field("grpc-encoding", "gzip"));
                }
                head.extend(metadata(answer));
                let prefix = message_prefix(is_packed, body.len());
                Self { head, prefix, body: Some(body), end: Ending::Trailers(status(answer)) }
            }
        }
    }
}

/// Returns the prefix of a message: flag and length.
fn message_prefix(is_packed: bool, length: u64) -> Vec<u8> {
    let length = u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
    [&[u8::from(is_packed)][..], &length].concat()
}

fn field(name: &str, value: impl Into<String>) -> (String, String) {
    (name.to_owned(), value.into())
}

fn head(answer: &Answer) -> Fields {
    let (status, usual) = match answer.grpc_framing {
        GrpcFraming::BareHttp => (answer.status, "application/x-protobuf"),
        _ => (200, "application/grpc"),
    };
    let set = answer.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    let content_type = set.map_or(usual, |(_, value)| value);
    vec![field(":status", status.to_string()), field("content-type", content_type)]
}

fn status(answer: &Answer) -> Fields {
    let code = answer.grpc_code();
    let mut fields = vec![field("grpc-status", code.to_string())];
    if let Some(message) = &answer.message {
        fields.push(field("grpc-message", percent_encoded(message)));
    }
    if answer.retry.is_some() {
        let details = encode_status(code, answer.status_message(), answer.retry);
        fields.push(field("grpc-status-details-bin", encode_base64(&details)));
    }
    if code != 0 || answer.grpc_framing == GrpcFraming::TrailersOnly {
        fields.extend(metadata(answer));
    }
    fields
}

/// Returns the headers of an answer, except those that only concern HTTP/1, and except `content-type`, which `head`
/// returns.
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
