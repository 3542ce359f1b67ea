use proptest::prelude::*;

use super::*;

const TARGET: &str = "http://localhost:4317";

fn fields(fields: &[(&str, &str)]) -> Vec<Field> {
    let field = |(name, value): &(&str, &str)| Field { name: (*name).into(), value: (*value).into() };
    fields.iter().map(field).collect()
}

fn judge(answer: &Response, target: &str) -> Verdict {
    super::judge(read(answer), answer, target)
}

/// Returns the verdict on a trailers-only response.
fn trailers(pairs: &[(&str, &str)]) -> Verdict {
    judge(&Response { status: 200, head: fields(pairs), ..Response::default() }, TARGET)
}

/// Returns the verdict on this body with status 0.
fn success(body: &[u8]) -> Verdict {
    let head = fields(&[("content-type", "application/grpc")]);
    let trailers = fields(&[("grpc-status", "0")]);
    judge(&Response { status: 200, head, body: body.to_vec(), trailers }, TARGET)
}

fn later(reason: &str) -> Verdict {
    later_by(None, reason)
}

fn later_by(after: Option<Duration>, reason: &str) -> Verdict {
    Verdict::TryLater { after, reason: format!("call {TARGET}: {reason}") }
}

fn refused(reason: &str) -> Verdict {
    Verdict::Refused { reason: format!("call {TARGET}: {reason}") }
}

fn not_taken(reason: &str) -> Verdict {
    Verdict::NotTaken { reason: format!("call {TARGET}: {reason}") }
}

fn too_large(reason: &str) -> Verdict {
    Verdict::TooLarge { reason: format!("call {TARGET}: {reason}") }
}

fn warned(message: &str) -> Verdict {
    Verdict::AcceptedPartly { rejected: 0, message: format!("call {TARGET}: {message}") }
}

/// Returns `Status { details: [RetryInfo { retry_delay: 2.5 s }] }`, encoded by hand.
fn details_with_delay() -> Vec<u8> {
    let delay = b"\x08\x02\x10\x80\xca\xb5\xee\x01";
    let info = [&[0x0a, delay.len() as u8][..], delay].concat();
    let url = b"type.googleapis.com/google.rpc.RetryInfo";
    let detail = [&[0x0a, url.len() as u8][..], url, &[0x12, info.len() as u8], &info].concat();
    [&[0x08, 0x08, 0x1a, detail.len() as u8][..], &detail].concat()
}

#[test]
fn every_status_has_its_verdict() {
    for (status, expected) in [
        ("1", later("CANCELLED: words")),
        ("2", refused("UNKNOWN: words")),
        ("3", refused("INVALID_ARGUMENT: words")),
        ("4", later("DEADLINE_EXCEEDED: words")),
        ("5", refused("NOT_FOUND: words")),
        ("6", refused("ALREADY_EXISTS: words")),
        ("7", refused("PERMISSION_DENIED: words")),
        ("8", refused("RESOURCE_EXHAUSTED: words")),
        ("9", refused("FAILED_PRECONDITION: words")),
        ("10", later("ABORTED: words")),
        ("11", later("OUT_OF_RANGE: words")),
        ("12", not_taken("UNIMPLEMENTED: words")),
        ("13", refused("INTERNAL: words")),
        ("14", later("UNAVAILABLE: words")),
        ("15", later("DATA_LOSS: words")),
        ("16", refused("UNAUTHENTICATED: words")),
        ("17", refused("status 17: words")),
        ("4294967295", refused("status 4294967295: words")),
    ] {
        assert_eq!(trailers(&[("grpc-status", status), ("grpc-message", "words")]), expected);
    }
    assert_eq!(trailers(&[("grpc-status", "14")]), later("UNAVAILABLE"), "it need not say why");
}

/// A server that cannot decompress answers UNIMPLEMENTED, although it accepts the signal.
#[test]
fn a_server_that_cannot_unpack_is_no_server_without_the_signal() {
    for said in [
        "grpc: Decompressor is not installed for grpc-encoding \"gzip\"",
        "Content is compressed with `gzip` which isn't supported",
    ] {
        let expected =
            format!("UNIMPLEMENTED: {said}; does the server accept gzip? try compression = \"none\"");
        assert_eq!(trailers(&[("grpc-status", "12"), ("grpc-message", said)]), refused(&expected));
    }
}

#[test]
fn a_status_that_is_no_number_is_refused() {
    for status in ["", "-1", "+1", "x", "1x", " 1", "4294967296"] {
        let expected = refused("a grpc-status that is not a number");
        assert_eq!(trailers(&[("grpc-status", status)]), expected, "{status:?}");
    }
}

#[test]
fn without_a_grpc_status_the_http_status_counts() {
    for (status, expected) in [
        (400, refused("INTERNAL: HTTP status 400 without a gRPC status")),
        (431, refused("INTERNAL: HTTP status 431 without a gRPC status")),
        (401, refused("UNAUTHENTICATED: HTTP status 401 without a gRPC status")),
        (403, refused("PERMISSION_DENIED: HTTP status 403 without a gRPC status")),
        (404, not_taken("UNIMPLEMENTED: HTTP status 404 without a gRPC status")),
        (405, not_taken("UNKNOWN: HTTP status 405 without a gRPC status")),
        (501, not_taken("UNKNOWN: HTTP status 501 without a gRPC status")),
        (413, too_large("UNKNOWN: HTTP status 413 without a gRPC status")),
        (429, later("UNAVAILABLE: HTTP status 429 without a gRPC status")),
        (502, later("UNAVAILABLE: HTTP status 502 without a gRPC status")),
        (503, later("UNAVAILABLE: HTTP status 503 without a gRPC status")),
        (504, later("UNAVAILABLE: HTTP status 504 without a gRPC status")),
        (200, refused("UNKNOWN: HTTP status 200 without a gRPC status")),
        (302, refused("UNKNOWN: HTTP status 302 without a gRPC status")),
        (500, refused("UNKNOWN: HTTP status 500 without a gRPC status")),
    ] {
        assert_eq!(judge(&Response { status, ..Response::default() }, TARGET), expected);
    }
}

#[test]
fn what_speaks_instead_of_grpc_is_named_and_its_delay_kept() {
    let answer = |status, pairs: &[(&str, &str)]| {
        judge(&Response { status, head: fields(pairs), ..Response::default() }, TARGET)
    };
    let html = answer(503, &[("content-type", "text/html\u{7}"), ("retry-after", "7")]);
    let expected = "UNAVAILABLE: HTTP status 503 with text/html  instead of gRPC";
    assert_eq!(html, later_by(Some(Duration::from_secs(7)), expected));
    let silent = answer(200, &[("content-type", "application/grpc+proto")]);
    assert_eq!(silent, refused("UNKNOWN: the answer has no grpc-status"));
}

#[test]
fn resets_have_a_status() {
    for (code, status) in [
        (Code::REFUSED_STREAM, Status::UNAVAILABLE),
        (Code::CANCEL, Status::CANCELLED),
        (Code::ENHANCE_YOUR_CALM, Status::RESOURCE_EXHAUSTED),
        (Code::INADEQUATE_SECURITY, Status::PERMISSION_DENIED),
        (Code::NO_ERROR, Status::INTERNAL),
        (Code::PROTOCOL, Status::INTERNAL),
        (Code(99), Status::INTERNAL),
    ] {
        assert_eq!(Status::of_reset(code), status, "{code}");
    }
}

#[test]
fn a_status_of_0_is_success_whatever_the_message_looks_like() {
    assert_eq!(success(&[0; 5]), Verdict::Accepted);
    assert_eq!(success(b"\0\0\0\0\x02\x0a\x00"), Verdict::Accepted);
    let partly = Verdict::AcceptedPartly { rejected: 7, message: "old".to_owned() };
    assert_eq!(success(b"\0\0\0\0\x09\x0a\x07\x08\x07\x12\x03old"), partly);
    // A second message changes nothing.
    assert_eq!(success(&[0; 10]), Verdict::Accepted);
    for (body, warning) in [
        (&b""[..], "the answer has no message"),
        (b"\0\0\0\0", "the answer has no message"),
        (b"\x01\0\0\0\x01x", "the answer is compressed in a way that was not asked for"),
        (b"\x02\0\0\0\x01x", "the answer is compressed in a way that was not asked for"),
        (b"\x01\0\0\0\x02x", "the answer was cut short"),
        (b"\0\0\0\0\x02\x0a", "the answer was cut short"),
        (b"\0\xff\xff\xff\xff\x0a", "the answer was cut short"),
        (b"\0\0\0\0\x01\x0a", "the answer cannot be read"),
    ] {
        assert_eq!(success(body), warned(warning), "{body:?}");
    }
}

/// Of a long response, only the first 64 KiB are kept, compressed or not.
#[test]
#[cfg(feature = "gzip")]
fn what_a_long_answer_rejects_is_counted() {
    crate::config::demand::GZIP.raise();
    // One compressible and one incompressible message.
    let random = (0..40_000_u32).map(|n| format!("old {}", n.wrapping_mul(2_654_435_761).rotate_left(n)));
    for (is_packed, text) in
        [(false, "old ".repeat(25_000)), (true, "old ".repeat(25_000)), (true, random.collect())]
    {
        let length = |bytes: usize| {
            let mut length = Vec::new();
            crate::record::wire::encode_varint(bytes as u64, &mut length);
            length
        };
        let partial = [&b"\x08\xb8\x17\x12"[..], &length(text.len()), text.as_bytes()].concat();
        let message = [&b"\x0a"[..], &length(partial.len()), &partial].concat();
        let packed = super::super::super::gzip::Compressor::default().compress(&[&message]).to_vec();
        let sent = if is_packed { packed } else { message };
        let mut body = [&[u8::from(is_packed)][..], &(sent.len() as u32).to_be_bytes(), &sent].concat();
        body.truncate(MAX_KEPT_BYTES);
        let head = fields(&[("grpc-encoding", "gzip")]);
        let answer = Response { status: 200, head, body, trailers: fields(&[("grpc-status", "0")]) };
        let Verdict::AcceptedPartly { rejected: 3000, message } = judge(&answer, TARGET) else {
            panic!("{:?}", judge(&answer, TARGET))
        };
        assert_eq!((&message[..4], message.len()), ("old ", 512));
    }
}

#[test]
fn only_a_delay_makes_an_exhausted_resource_something_that_passes() {
    let details = base64::encode(&details_with_delay());
    let delay = Some(Duration::from_millis(2_500));
    let with =
        |status, details: &str| trailers(&[("grpc-status", status), ("grpc-status-details-bin", details)]);
    assert_eq!(with("8", &details), later_by(delay, "RESOURCE_EXHAUSTED"));
    assert_eq!(with("8", details.trim_end_matches('=')), later_by(delay, "RESOURCE_EXHAUSTED"), "unpadded");
    assert_eq!(with("14", &details), later_by(delay, "UNAVAILABLE"));
    let full = [
        ("grpc-status", "8"),
        ("grpc-message", "the queue is too large"),
        ("grpc-status-details-bin", details.as_str()),
    ];
    let expected = later_by(delay, "RESOURCE_EXHAUSTED: the queue is too large");
    assert_eq!(trailers(&full), expected, "whoever names a delay knows better than its words");
    assert_eq!(with("3", &details), refused("INVALID_ARGUMENT"), "no delay helps this one");
    assert_eq!(with("8", "?"), refused("RESOURCE_EXHAUSTED"));
    assert_eq!(with("8", ""), refused("RESOURCE_EXHAUSTED"));
}

#[test]
fn what_the_details_say_stands_in_for_a_message_that_is_missing() {
    // Status { message: "inner" }
    let details = base64::encode(b"\x08\x03\x12\x05inner");
    let only = trailers(&[("grpc-status", "3"), ("grpc-status-details-bin", &details)]);
    assert_eq!(only, refused("INVALID_ARGUMENT: inner"));
    let both =
        trailers(&[("grpc-status", "3"), ("grpc-message", "outer"), ("grpc-status-details-bin", &details)]);
    assert_eq!(both, refused("INVALID_ARGUMENT: outer"));
}

/// Real messages of servers for a request that is too large.
#[test]
fn a_request_that_is_too_large_is_distinguished_from_one_that_comes_too_early() {
    for (status, said_by, message) in [
        (
            "11",
            "tonic",
            "Error, decoded message length too large: found 5242880 bytes, the limit is: 4194304 bytes",
        ),
        ("11", "tonic", "Error, message length too large: found 5242880 bytes, the limit is: 4194304 bytes"),
        ("8", "grpcio", "Received message larger than max (5242880 vs. 4194304)"),
        ("8", "grpcio", "SERVER: Received message larger than max (5242880 vs. 4194304)"),
        ("8", "grpc-go", "grpc: received message larger than max (5242880 vs. 4194304)"),
        ("8", "grpc-go", "grpc: received message after decompression larger than max 4194304"),
        ("8", "grpc-java", "gRPC message exceeds maximum size 4194304: 5242880"),
        ("8", "grpc-java", "Decompressed gRPC message exceeds maximum size 4194304"),
    ] {
        let verdict = trailers(&[("grpc-status", status), ("grpc-message", message)]);
        assert!(matches!(verdict, Verdict::TooLarge { .. }), "{said_by}: {verdict:?}");
    }
    for (status, message) in [
        ("11", "offset is out of range"),
        ("8", "quota exceeded, try again in a minute"),
        ("14", "message larger than max"),
    ] {
        let verdict = trailers(&[("grpc-status", status), ("grpc-message", message)]);
        assert!(!matches!(verdict, Verdict::TooLarge { .. }), "{verdict:?}");
    }
}

proptest! {
    #[test]
    fn judging_anything_never_panics(status: u16, value: Vec<u8>, body: Vec<u8>, choice in 0usize..4) {
        let names = ["grpc-status", "grpc-message", "grpc-status-details-bin", "content-type"];
        let field = |name: &str, value: &[u8]| Field { name: name.into(), value: value.to_vec() };
        let head = vec![field(names[choice], &value), field("grpc-status", b"8"), field("retry-after", &value)];
        judge(&Response { status, head, body, trailers: Vec::new() }, TARGET);
    }
}

#[test]
fn messages_are_decoded_as_far_as_they_are_encoded() {
    for (value, text) in [
        (&b"plain words"[..], "plain words"),
        (b"100%25", "100%"),
        (b"%C3%A4%c3%a4", "ää"),
        (b"%", "%"),
        (b"50%", "50%"),
        (b"%4", "%4"),
        (b"%zz%41", "%zzA"),
        (b"%%41", "%A"),
        (b"line%0Aend%1b[31m", "line end [31m"),
        (b"raw \xff", "raw \u{fffd}"),
        (b"%ff", "\u{fffd}"),
    ] {
        assert_eq!(message_text(value), text, "{value:?}");
    }
    assert_eq!(message_text("x".repeat(10_000).as_bytes()).len(), 512);
}
