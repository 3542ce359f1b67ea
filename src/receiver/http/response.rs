//! Delivery of answers over HTTP/1: whole, slow, cut short or oversized.

use std::borrow::Cow;
use std::io::{self, Write};
use std::time::Duration;

use crate::receiver::answer::{Answer, Body, DeliveryMode};
use crate::receiver::answer_body::{CUT_SHORT_BYTES, PIECE, Sendable, send_repeated, send_slowly};
use crate::receiver::content::{Form, Format};
use crate::transport::status_name;

/// Sends `100 Continue`: the client may send its body.
pub(super) fn send_continue(out: &mut impl Write) -> io::Result<()> {
    out.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")
}

/// Sends `answer`. `pause` waits between the bytes of a slow answer, and returns whether to continue.
pub(in crate::receiver) fn send(
    out: &mut impl Write,
    answer: &Answer,
    form: Form,
    keep_alive: bool,
    mut pause: impl FnMut(Duration) -> bool,
) -> io::Result<()> {
    if let DeliveryMode::Garbage(bytes) = &answer.delivery_mode {
        return out.write_all(bytes);
    }
    let body = match has_no_body(answer.status) {
        true => Sendable::Bytes(Cow::Borrowed(&[])),
        false => Sendable::of(answer, form),
    };
    let head = render_head(answer, form, keep_alive, body.len());
    match (&answer.delivery_mode, body) {
        (DeliveryMode::SlowHead(interval), body) => {
            send_slowly(&mut *out, &head, || pause(*interval))?;
            body.write_to(out)
        }
        (DeliveryMode::SlowBody(interval), Sendable::Bytes(bytes)) => {
            out.write_all(&head)?;
            send_slowly(out, &bytes, || pause(*interval))
        }
        // A usual answer is one write and usually one packet, so a client sees all of it or nothing.
        (_, Sendable::Bytes(bytes)) if answer.header_padding == 0 => {
            out.write_all(&[&head[..], &bytes].concat())
        }
        (_, body) => {
            send_padded(out, &head, answer.header_padding)?;
            body.write_to(out)
        }
    }
}

fn render_head(answer: &Answer, form: Form, keep_alive: bool, body: u64) -> Vec<u8> {
    let mut head =
        format!("HTTP/1.1 {} {}\r\n", answer.status, status_name(answer.status).unwrap_or("Unnamed"));
    let mut field = |name: &str, value: &str| {
        for part in [name, ": ", value, "\r\n"] {
            head.push_str(part);
        }
    };
    let is_set = |name: &str| answer.headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
    if !is_set("content-type") && !has_no_body(answer.status) {
        let is_otlp = matches!(answer.body, Body::Empty | Body::Partial { .. } | Body::Status);
        let is_json = form.format == Format::Json && is_otlp;
        field("content-type", if is_json { "application/json" } else { "application/x-protobuf" });
    }
    if !is_set("content-length") && !has_no_body(answer.status) {
        let missing = if answer.delivery_mode == DeliveryMode::CutShort { CUT_SHORT_BYTES } else { 0 };
        field("content-length", &(body + missing).to_string());
    }
    if matches!(answer.body, Body::GzipBomb(_)) && !is_set("content-encoding") {
        field("content-encoding", "gzip");
    }
    if !keep_alive && !is_set("connection") {
        field("connection", "close");
    }
    for (name, value) in &answer.headers {
        field(name, value);
    }
    head.push_str("\r\n");
    head.into_bytes()
}

/// Sends a head with at least `padding` bytes of additional fields.
fn send_padded(out: &mut impl Write, head: &[u8], padding: u64) -> io::Result<()> {
    // The padding goes before the empty line that ends the head.
    let (fields, empty_line) = head.split_at(head.len() - 2);
    let line = format!("x-padding: {}\r\n", "x".repeat(1000));
    let lines = line.repeat(PIECE / line.len());
    let whole_lines = padding.div_ceil(line.len() as u64) * line.len() as u64;
    out.write_all(fields)?;
    send_repeated(out, lines.as_bytes(), whole_lines)?;
    out.write_all(empty_line)
}

fn has_no_body(status: u16) -> bool {
    matches!(status, 100..200 | 204 | 304)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn sent(answer: &Answer) -> String {
        let mut out = Vec::new();
        send(&mut out, answer, Form::PROTOBUF, true, |_| true).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn an_answer_says_its_type_and_length() {
        assert_eq!(
            sent(&Answer::ok().body("ab")),
            "HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 2\r\n\r\nab"
        );
    }

    #[test]
    fn a_header_of_the_script_replaces_the_receivers_own() {
        let text =
            sent(&Answer::status(502).header("Content-Type", "text/html").retry_after("2").body("<p>"));
        assert!(text.contains("Content-Type: text/html\r\n") && text.contains("retry-after: 2\r\n"));
        assert!(!text.contains("protobuf"));
    }

    #[test]
    fn an_answer_without_body_has_no_length() {
        assert_eq!(sent(&Answer::status(204).body("ignored")), "HTTP/1.1 204 No Content\r\n\r\n");
    }

    #[test]
    fn an_answer_cut_short_announces_more_than_it_sends() {
        let text = sent(&Answer::ok().body("ab").cut_short());
        assert!(text.contains("content-length: 1026\r\n") && text.ends_with("\r\n\r\nab"));
    }

    #[test]
    fn padding_is_made_of_whole_fields() {
        let text = sent(&Answer::oversized_headers(200_000));
        assert!(text.len() >= 200_000 && text.len() < 202_000);
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.split("\r\n").skip(1).all(|line| line.contains(": ")));
        assert_eq!(body, "");
    }

    #[test]
    fn a_slow_answer_pauses_after_each_byte_and_ends_when_told() {
        let interval = Duration::from_secs(7);
        let mut pauses = Vec::new();
        let mut out = Vec::new();
        let result = send(&mut out, &Answer::ok().slow_headers(interval), Form::PROTOBUF, true, |wait| {
            pauses.push(wait);
            pauses.len() < 3
        });
        assert!(result.is_err());
        assert_eq!((out.as_slice(), pauses), (&b"HTT"[..], vec![interval; 3]));
    }
}
