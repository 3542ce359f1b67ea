//! Answers in the terms of gRPC, and their delivery: whole, slow, cut short, far too large, or not at all.

use std::io::{self, Write};
use std::time::Duration;

use super::session::{Fields, Gone};
use super::shared_connection::SharedConnection;
use crate::http2::frame::{self, Code, MAX_STREAM, MIN_MAX_FRAME, flag, kind};
use crate::http2::hpack;
use crate::receiver::answer::{Answer, Body, DeliveryMode, GoAwayTiming, GrpcFraming};
use crate::receiver::answer_body::Sendable;
use crate::receiver::rpc;
use crate::transport::base64::encode as encode_base64;

/// How much more than it sends an answer announces that is cut short.
const MISSING: u64 = 1024;

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
            delivery.send_go_away(stream.saturating_sub(2), Code(*code))?;
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

    fn send_go_away(&self, last_stream: u32, code: Code) -> Result<(), Gone> {
        self.connection.send(|session| {
            session.send_go_away(last_stream, code);
            Ok(())
        })
    }

    fn send_to_its_end(&self) -> Result<(), Gone> {
        if self.answer.closes || self.answer.go_away != GoAwayTiming::Never {
            // as soon as the client has its answer, it may begin another call, which would count and never be answered
            self.connection.send(|session| {
                session.take_no_more();
                Ok(())
            })?;
        }
        if self.answer.go_away == GoAwayTiming::BeforeAnswer {
            self.send_go_away(MAX_STREAM, Code::NO_ERROR)?;
        }
        self.send(&Reply::of(self.answer))?;
        if self.answer.go_away != GoAwayTiming::Never {
            self.send_go_away(self.stream, Code::NO_ERROR)?;
            return self.hang_up();
        }
        if self.answer.closes { self.hang_up() } else { Ok(()) }
    }

    fn send(&self, reply: &Reply<'_>) -> Result<(), Gone> {
        let usual = self.answer.delivery_mode == DeliveryMode::Whole && self.answer.header_padding == 0;
        match &reply.body {
            Some(Sendable::Bytes(body)) if usual => return self.send_at_once(reply, body),
            None if usual => return self.send_at_once(reply, &[]),
            _ => {}
        }
        self.send_head(reply)?;
        if let Some(body) = &reply.body {
            match self.answer.delivery_mode {
                DeliveryMode::SlowBody(interval) => self.send_slowly(&reply.prefix, body, interval)?,
                _ => {
                    self.connection.send_data(self.stream, &reply.prefix)?;
                    body.write_to(&mut self.writer())?;
                }
            }
        }
        self.send_end(reply)
    }

    /// The usual answer is one write: a client sees all of it or nothing.
    fn send_at_once(&self, reply: &Reply<'_>, body: &[u8]) -> Result<(), Gone> {
        let content = [&reply.prefix, body].concat();
        let sent = self.connection.send(|session| {
            session.send_headers(self.stream, &reply.head, matches!(reply.end, Ending::Head))?;
            if matches!(reply.end, Ending::Head) {
                return Ok(None);
            }
            let sent = session.send_data(self.stream, &content)?;
            match (&reply.end, sent == content.len()) {
                (Ending::Trailers(fields), true) => session.send_headers(self.stream, fields, true)?,
                (Ending::Body, true) => session.send_end(self.stream)?,
                _ => return Ok(Some(sent)),
            }
            Ok(None)
        })?;
        let Some(sent) = sent else { return Ok(()) };
        self.connection.send_data(self.stream, &content[sent..])?;
        self.send_end(reply)
    }

    fn send_end(&self, reply: &Reply<'_>) -> Result<(), Gone> {
        match &reply.end {
            Ending::Head => Ok(()),
            Ending::Body => self.connection.send(|session| session.send_end(self.stream)),
            Ending::Trailers(fields) => {
                self.connection.send(|session| session.send_headers(self.stream, fields, true))
            }
        }
    }

    fn send_head(&self, reply: &Reply<'_>) -> Result<(), Gone> {
        // padding is for heads that are not the end
        let ends_stream = matches!(reply.end, Ending::Head);
        match self.answer.delivery_mode {
            DeliveryMode::SlowHead(interval) => self.connection.write_raw(
                |session| {
                    session.send_headers(self.stream, &reply.head, ends_stream)?;
                    Ok(session.take_out())
                },
                |bytes, out| self.drip(bytes, interval, out),
            ),
            _ if self.answer.header_padding > 0 && !ends_stream => self.connection.write_raw(
                |session| {
                    session.unanswered(self.stream)?;
                    Ok(session.encode(&reply.head))
                },
                |block, out| self.write_padded(block, out),
            ),
            _ => self.connection.send(|session| session.send_headers(self.stream, &reply.head, ends_stream)),
        }
    }

    fn drip(&self, bytes: &[u8], interval: Duration, out: &mut dyn Write) -> io::Result<()> {
        for byte in bytes {
            out.write_all(&[*byte])?;
            if !self.connection.shared.rest(interval) {
                return Err(io::ErrorKind::Interrupted.into());
            }
        }
        Ok(())
    }

    /// A header block with this many bytes of further fields, in frames that are made while they are sent.
    fn write_padded(&self, block: &[u8], out: &mut dyn Write) -> io::Result<()> {
        let mut field = Vec::new();
        hpack::encode("x-padding", "x".repeat(1000).as_bytes(), &mut field);
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

    fn send_slowly(&self, prefix: &[u8], body: &Sendable<'_>, interval: Duration) -> Result<(), Gone> {
        self.connection.send_data(self.stream, prefix)?;
        let Sendable::Bytes(bytes) = body else { return Ok(body.write_to(&mut self.writer())?) };
        for byte in *bytes {
            self.connection.send_data(self.stream, &[*byte])?;
            if !self.connection.shared.rest(interval) {
                return Err(Gone);
            }
        }
        Ok(())
    }

    fn send_cut_short(&self) -> Result<(), Gone> {
        let reply = Reply::of(self.answer);
        let Some(body) = &reply.body else {
            // no message at all, where one must be
            return self.connection.send(|session| session.send_headers(self.stream, &reply.head, false));
        };
        self.send_head(&reply)?;
        self.connection.send_data(self.stream, &message_prefix(false, body.len() + MISSING))?;
        Ok(body.write_to(&mut self.writer())?)
    }

    fn writer(&self) -> Writer<'_> {
        Writer { connection: self.connection, stream: self.stream }
    }
}

/// Takes bytes and sends frames.
struct Writer<'a> {
    connection: &'a SharedConnection<'a>,
    stream: u32,
}

impl Write for Writer<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.connection.send_data(self.stream, bytes) {
            Ok(()) => Ok(bytes.len()),
            Err(Gone) => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The parts of an answer.
struct Reply<'a> {
    head: Fields,
    /// Flag and length of the message, if there is one.
    prefix: Vec<u8>,
    body: Option<Sendable<'a>>,
    end: Ending,
}

enum Ending {
    /// The head was the last part.
    Head,
    /// The body was the last part.
    Body,
    Trailers(Fields),
}

impl<'a> Reply<'a> {
    fn of(answer: &'a Answer) -> Self {
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

/// Returns flag and length, which precede every message.
fn message_prefix(is_packed: bool, length: u64) -> Vec<u8> {
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
