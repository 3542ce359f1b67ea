//! Valid and invalid gRPC statuses of servers, and answers of proxies.

use std::time::Duration;

use crate::base64::base64;
use crate::server::saying;
use crate::stage::{Fate, Setting, Stage, export};
use crate::wire::*;

/// `google.rpc.Status { code: 14, message: "busy", details: [RetryInfo { retry_delay: 1 s }] }`, encoded.
fn retry_in_a_second() -> Vec<u8> {
    let url = b"type.googleapis.com/google.rpc.RetryInfo";
    let detail = [&[0x0a, url.len() as u8][..], url, &[0x12, 4, 0x0a, 2, 0x08, 1]].concat();
    [&[0x08, 14, 0x12, 4][..], b"busy", &[0x1a, detail.len() as u8], &detail].concat()
}

#[test]
fn each_status_has_its_verdict() {
    for (case, number, fate, name) in [
        ("CANCELLED", "1", Fate::Later, "CANCELLED"),
        ("UNKNOWN", "2", Fate::Refused, "UNKNOWN"),
        ("INVALID_ARGUMENT", "3", Fate::Refused, "INVALID_ARGUMENT"),
        ("DEADLINE_EXCEEDED", "4", Fate::Later, "DEADLINE_EXCEEDED"),
        ("NOT_FOUND", "5", Fate::Refused, "NOT_FOUND"),
        ("ALREADY_EXISTS", "6", Fate::Refused, "ALREADY_EXISTS"),
        ("PERMISSION_DENIED", "7", Fate::Refused, "PERMISSION_DENIED"),
        ("RESOURCE_EXHAUSTED", "8", Fate::Refused, "RESOURCE_EXHAUSTED"),
        ("FAILED_PRECONDITION", "9", Fate::Refused, "FAILED_PRECONDITION"),
        ("ABORTED", "10", Fate::Later, "ABORTED"),
        ("OUT_OF_RANGE", "11", Fate::Later, "OUT_OF_RANGE"),
        ("UNIMPLEMENTED", "12", Fate::NotTaken, "UNIMPLEMENTED"),
        ("INTERNAL", "13", Fate::Refused, "INTERNAL"),
        ("UNAVAILABLE", "14", Fate::Later, "UNAVAILABLE"),
        ("DATA_LOSS", "15", Fate::Later, "DATA_LOSS"),
        ("UNAUTHENTICATED", "16", Fate::Refused, "UNAUTHENTICATED"),
        ("a status of later times", "17", Fate::Refused, "status 17"),
        ("the largest status", "4294967295", Fate::Refused, "status 4294967295"),
    ] {
        let fields = [("grpc-status", number), ("grpc-message", "the reason")];
        let only = status(FIRST, &fields);
        let behind = [head(FIRST), data(FIRST, &message(&[])), trailers(FIRST, &fields)].concat();
        for words in [only, behind] {
            let (outcome, _) = export(case, Setting::default(), saying(words));
            outcome.is(fate, &format!("{name}: the reason"));
        }
    }
}

#[test]
fn a_status_that_is_no_number_is_refused() {
    for number in ["", "ok", "-1", "+0", "0x0", " 0", "4294967296", "1e1"] {
        let words = status(FIRST, &[("grpc-status", number)]);
        let (outcome, _) = export("no number", Setting::default(), saying(words));
        outcome.is(Fate::Refused, "a grpc-status that is not a number");
    }
}

#[test]
fn an_answer_without_a_status_is_judged_by_its_http_status() {
    for (status, fate, name) in [
        ("200", Fate::Refused, "UNKNOWN"),
        ("204", Fate::Refused, "UNKNOWN"),
        ("301", Fate::Refused, "UNKNOWN"),
        ("302", Fate::Refused, "UNKNOWN"),
        ("308", Fate::Refused, "UNKNOWN"),
        ("400", Fate::Refused, "INTERNAL"),
        ("401", Fate::Refused, "UNAUTHENTICATED"),
        ("403", Fate::Refused, "PERMISSION_DENIED"),
        ("404", Fate::NotTaken, "UNIMPLEMENTED"),
        ("405", Fate::NotTaken, "UNKNOWN"),
        ("407", Fate::Refused, "UNKNOWN"),
        ("408", Fate::Refused, "UNKNOWN"),
        ("411", Fate::Refused, "UNKNOWN"),
        ("413", Fate::TooLarge, "UNKNOWN"),
        ("415", Fate::Refused, "UNKNOWN"),
        ("421", Fate::Refused, "UNKNOWN"),
        ("429", Fate::Later, "UNAVAILABLE"),
        ("431", Fate::Refused, "INTERNAL"),
        ("500", Fate::Refused, "UNKNOWN"),
        ("501", Fate::NotTaken, "UNKNOWN"),
        ("502", Fate::Later, "UNAVAILABLE"),
        ("503", Fate::Later, "UNAVAILABLE"),
        ("504", Fate::Later, "UNAVAILABLE"),
        ("511", Fate::Refused, "UNKNOWN"),
    ] {
        let fields = [(":status", status), ("content-type", "text/html")];
        let page = [headers(FIRST, &fields), frame(DATA, END_STREAM, FIRST, b"<html>nothing here</html>")];
        for words in [trailers(FIRST, &fields), page.concat()] {
            let (outcome, _) = export("HTTP status", Setting::default(), saying(words));
            outcome.is(fate, &format!("{name}: HTTP status {status} with text/html instead of gRPC"));
        }
    }
}

#[test]
fn an_answer_that_ends_without_trailers_is_refused() {
    let words = [head(FIRST), frame(DATA, END_STREAM, FIRST, &message(&[]))].concat();
    let (outcome, _) = export("no trailers", Setting::default(), saying(words));
    outcome.is(Fate::Refused, "the answer has no grpc-status");
    let words = [head(FIRST), data(FIRST, &message(&[])), trailers(FIRST, &[("x", "y")])].concat();
    let (outcome, _) = export("other trailers", Setting::default(), saying(words));
    outcome.is(Fate::Refused, "the answer has no grpc-status");
}

#[test]
fn what_a_server_took_is_delivered_whatever_its_answer_looks_like() {
    let body = |body: Vec<u8>| [data(FIRST, &body), trailers(FIRST, &[("grpc-status", "0")])].concat();
    let cut_short = [&[0][..], &9_u32.to_be_bytes(), b"abc"].concat();
    for (case, words, fate, text) in [
        ("one message", body(message(&[])), Fate::Delivered, ""),
        ("two messages", body([message(&[]), message(b"more")].concat()), Fate::Delivered, ""),
        ("no message", trailers(FIRST, &[("grpc-status", "0")]), Fate::Warned, "the answer has no message"),
        ("half a prefix", body(vec![0, 0]), Fate::Warned, "the answer has no message"),
        ("a message cut short", body(cut_short), Fate::Warned, "the answer was cut short"),
        (
            "a message of 4 GiB",
            body(vec![0, 255, 255, 255, 255, 1]),
            Fate::Warned,
            "the answer was cut short",
        ),
        ("nonsense", body(message(b"\xff\xff\xff")), Fate::Warned, "the answer cannot be read"),
        ("a warning", body(message(b"\x0a\x05\x12\x03old")), Fate::Warned, "the collector warns: old"),
        (
            "a rejected record",
            body(message(b"\x0a\x07\x08\x01\x12\x03bad")),
            Fate::Rejected,
            "1 record rejected: bad",
        ),
        (
            "too many rejected",
            body(message(b"\x0a\x04\x08\xff\xff\x03")),
            Fate::Rejected,
            "65535 records rejected",
        ),
    ] {
        let words = [headers(FIRST, &[(":status", "100")]), head(FIRST), words].concat();
        let (outcome, heard) = export(case, Setting::default(), saying(words));
        outcome.is(fate, text);
        assert_eq!(heard.requests(), 1, "{case}");
    }
    let (outcome, _) =
        export("all in one", Setting::default(), saying(status(FIRST, &[("grpc-status", "0")])));
    outcome.is(Fate::Warned, "the answer has no message");
}

#[test]
fn reasons_are_decoded_and_broken_ones_stay_as_they_are() {
    for (said, shown) in [
        ("plain", "INVALID_ARGUMENT: plain"),
        ("50%25 of it", "INVALID_ARGUMENT: 50% of it"),
        ("%C3%A4%c3%b6", "INVALID_ARGUMENT: äö"),
        ("100%", "INVALID_ARGUMENT: 100%"),
        ("%2", "INVALID_ARGUMENT: %2"),
        ("%zz and %%41", "INVALID_ARGUMENT: %zz and %A"),
        ("%FF%FE", "INVALID_ARGUMENT: \u{fffd}\u{fffd}"),
        ("%1b[31m%0d%0a%00", "INVALID_ARGUMENT:  [31m   "),
    ] {
        let words = status(FIRST, &[("grpc-status", "3"), ("grpc-message", said)]);
        let (outcome, _) = export("reason", Setting::default(), saying(words));
        outcome.is(Fate::Refused, shown);
        assert!(!outcome.words.contains(|c: char| c.is_control()), "{said}: {outcome:?}");
    }
}

#[test]
fn a_reason_in_the_details_is_shown_padded_or_not() {
    let refusal = b"\x08\x03\x12\x06bad id";
    for (case, details, words) in [
        ("padded", base64(refusal, true), "INVALID_ARGUMENT: bad id"),
        ("unpadded", base64(refusal, false), "INVALID_ARGUMENT: bad id"),
        ("one more", base64(b"\x08\x03\x12\x07bad ids", true), "INVALID_ARGUMENT: bad ids"),
        ("one more, unpadded", base64(b"\x08\x03\x12\x07bad ids", false), "INVALID_ARGUMENT: bad ids"),
        ("no base64", "!!!!".to_owned(), "INVALID_ARGUMENT"),
        ("half a digit", "A".to_owned(), "INVALID_ARGUMENT"),
        ("only padding", "====".to_owned(), "INVALID_ARGUMENT"),
        ("no status", base64(b"\xff\xff\xff\xff", true), "INVALID_ARGUMENT"),
    ] {
        let words_of_it = status(FIRST, &[("grpc-status", "3"), ("grpc-status-details-bin", &details)]);
        let (outcome, _) = export(case, Setting::default(), saying(words_of_it));
        outcome.is(Fate::Refused, words);
    }
}

#[test]
fn the_delay_that_a_server_asks_for_is_kept() {
    for (case, number, is_padded) in [
        ("UNAVAILABLE", "14", true),
        ("UNAVAILABLE, unpadded", "14", false),
        // This status is retried only if the server sends a delay.
        ("RESOURCE_EXHAUSTED", "8", false),
    ] {
        let details = base64(&retry_in_a_second(), is_padded);
        let mut stage = Stage::set(case, Setting::retrying(), move |peer| {
            peer.greet(&[])?;
            let request = peer.request()?;
            let fields = [("grpc-status", number), ("grpc-status-details-bin", details.as_str())];
            peer.say(&status(request.stream, &fields))?;
            peer.behave()
        });
        let outcome = stage.export(1);
        outcome.is(Fate::Delivered, "");
        assert!(outcome.took >= Duration::from_secs(1), "{case}: {outcome:?}");
        assert_eq!(stage.attempts(), 2, "{case}");
        assert_eq!(stage.end().0.len(), 1, "{case}");
    }
}

#[test]
fn the_delay_that_a_proxy_asks_for_is_kept() {
    let mut stage = Stage::set("retry-after", Setting::retrying(), |peer| {
        peer.greet(&[])?;
        let request = peer.request()?;
        peer.say(&trailers(request.stream, &[(":status", "503"), ("retry-after", "1")]))?;
        peer.behave()
    });
    let outcome = stage.export(1);
    outcome.is(Fate::Delivered, "");
    assert!(outcome.took >= Duration::from_secs(1), "{outcome:?}");
    assert_eq!(stage.attempts(), 2);
    stage.end();
}

#[test]
fn what_passes_is_tried_again_on_the_same_connection() {
    for number in ["1", "4", "10", "11", "14", "15"] {
        let mut stage = Stage::set("passes", Setting::retrying(), move |peer| {
            peer.greet(&[])?;
            for _ in 0..3 {
                let request = peer.request()?;
                peer.say(&status(request.stream, &[("grpc-status", number)]))?;
            }
            peer.behave()
        });
        stage.export(5).is(Fate::Delivered, "");
        assert_eq!(stage.attempts(), 4, "{number}");
        assert_eq!(stage.end().0.len(), 1, "{number}");
    }
}

#[test]
fn a_message_that_is_too_large_is_halved_whichever_side_finds_it_so() {
    for (case, number, words) in [
        (
            "tonic",
            "11",
            "Error, decoded message length too large: found 5000000 bytes, the limit is: 4194304 bytes",
        ),
        (
            "tonic, another",
            "11",
            "Error, message length too large: found 5000000 bytes, the limit is: 4194304 bytes",
        ),
        ("grpcio", "8", "Received message larger than max (5000000 vs. 4194304)"),
        ("grpcio, another", "8", "CLIENT: Received message larger than max (5000000 vs. 4194304)"),
        ("go", "8", "grpc: received message larger than max (5000000 vs. 4194304)"),
        ("go, unpacked", "8", "grpc: received message after decompression larger than max 4194304"),
        ("java", "8", "gRPC message exceeds maximum size 4194304: 5000000"),
        (".NET", "8", "Received message exceeds the maximum configured message size."),
    ] {
        let mut stage = Stage::set(case, Setting::default(), move |peer| {
            peer.greet(&[])?;
            loop {
                // Four and two spans are too large; one is not.
                let request = peer.request()?;
                let is_large = request.body.len() > 3000;
                let refusal = [("grpc-status", number), ("grpc-message", words)];
                peer.say(&if is_large { status(request.stream, &refusal) } else { well(request.stream) })?;
            }
        });
        stage.export_large(4, 2000).is(Fate::Delivered, "");
        assert_eq!(stage.attempts(), 1 + 2 + 4, "{case}");
        assert_eq!(stage.end().0.len(), 1, "{case}");
    }
}

/// nginx accepts 1 MiB by default, and refuses more with an HTTP status.
#[test]
fn a_request_too_large_for_a_proxy_is_halved_as_over_http() {
    let mut stage = Stage::set("413 of a proxy", Setting::default(), |peer| {
        peer.greet(&[])?;
        loop {
            // Four and two spans are too large; one is not.
            let request = peer.request()?;
            let fields = [(":status", "413"), ("content-type", "text/html")];
            let page = frame(DATA, END_STREAM, request.stream, b"<html>413 Request Entity Too Large</html>");
            let refusal = [headers(request.stream, &fields), page].concat();
            peer.say(&if request.body.len() > 3000 { refusal } else { well(request.stream) })?;
        }
    });
    stage.export_large(4, 2000).is(Fate::Delivered, "");
    assert_eq!(stage.attempts(), 1 + 2 + 4);
    assert_eq!(stage.end().0.len(), 1);
}

#[test]
fn one_record_that_is_too_large_is_lost_and_reported() {
    let words = status(
        FIRST,
        &[("grpc-status", "11"), ("grpc-message", "decoded message length too large: found 9")],
    );
    let (outcome, heard) = export("one record", Setting::default(), saying(words));
    outcome.is(Fate::TooLarge, "OUT_OF_RANGE: decoded message length too large");
    assert_eq!(heard.requests(), 1);
}

#[test]
fn out_of_range_for_another_reason_is_tried_again() {
    let mut stage = Stage::set("out of range", Setting::retrying(), |peer| {
        peer.greet(&[])?;
        let request = peer.request()?;
        let fields = [("grpc-status", "11"), ("grpc-message", "the clock is behind")];
        peer.say(&status(request.stream, &fields))?;
        peer.behave()
    });
    stage.export(4).is(Fate::Delivered, "");
    assert_eq!(stage.attempts(), 2);
    stage.end();
}
