use super::super::http2::conn::Conn;
use super::*;

const TARGET: &str = "http://localhost:4317";

fn later(reason: &str) -> Verdict {
    Verdict::TryLater { after: None, reason: format!("call {TARGET}: {reason}") }
}

fn refused(reason: &str) -> Verdict {
    Verdict::Refused { reason: format!("call {TARGET}: {reason}") }
}

#[test]
fn trouble_on_the_way_is_for_trying_again() {
    let refusal = || io::Error::new(ErrorKind::ConnectionRefused, "Connection refused");
    // the system's words
    let no_file = lower_first(&io::Error::from_raw_os_error(24).to_string());
    let passing = TlsFault {
        kind: TlsFaultKind::Passing,
        what: "the server ended the handshake: InternalError".to_owned(),
    };
    let wanted = TlsFault {
        kind: TlsFaultKind::ClientCertificateWanted,
        what: "client certificate required".to_owned(),
    };
    for (failure, expected) in [
        (Failure::TimedOut, later("no answer in time")),
        (Failure::Tls(passing), later("tls: the server ended the handshake: InternalError")),
        (Failure::HostNotFound, later("host not found")),
        (Failure::Io(refusal()), later("connection refused")),
        (Failure::Proxy(refusal()), later("proxy: connection refused")),
        (Failure::left(None), later("the server closed the connection")),
        (Failure::unprocessed(None), later("the server takes no calls")),
        (Failure::Reset(Code::CANCEL), later("CANCELLED: the server broke the call off: CANCEL")),
        (Failure::of_lookup(ErrorKind::NotFound.into()), later("host not found")),
        (Failure::of_lookup(ErrorKind::TimedOut.into()), later("no answer in time")),
        (Failure::Io(io::Error::from_raw_os_error(24)).broken_off(), later("no answer in time")),
        (Failure::left(None).broken_off(), later("no answer in time")),
        (Failure::Proxy(ErrorKind::InvalidData.into()).broken_off(), later("no answer in time")),
        (Failure::Tls(wanted).broken_off(), later("no answer in time")),
        (Failure::of_lookup(io::Error::from_raw_os_error(24)), later(&no_file)),
        (Failure::of_proxy(ErrorKind::TimedOut.into()), later("no answer in time")),
        (Failure::of_stream(ErrorKind::TimedOut.into()), later("no answer in time")),
    ] {
        assert_eq!(failure.verdict(TARGET), expected);
    }
}

#[test]
fn trouble_with_certificates_or_with_what_speaks_there_is_for_good() {
    let expired =
        TlsFault { kind: TlsFaultKind::Expired, what: "the server's certificate has expired".to_owned() };
    for (failure, expected) in [
        (Failure::Tls(expired), refused("tls: the server's certificate has expired")),
        (Failure::NoHttp2, refused("tls: the server offers no HTTP/2, which gRPC needs")),
        (
            Failure::Fault(Fault::protocol("the peer speaks HTTP/1: is this the HTTP port, 4318?")),
            refused("no HTTP/2 as it should be: the peer speaks HTTP/1: is this the HTTP port, 4318?"),
        ),
        (
            Failure::HeadTooLong(HeadTooLong { limit: 99 }),
            refused("the headers are too long: the server takes 99 bytes of them"),
        ),
        (Failure::Reset(Code::PROTOCOL), refused("INTERNAL: the server broke the call off: PROTOCOL_ERROR")),
        (Failure::TooLong("the answer is longer than 4 MiB"), refused("the answer is longer than 4 MiB")),
        (Failure::Malformed("a second head"), refused("a second head")),
    ] {
        assert_eq!(failure.verdict(TARGET), expected);
    }
}

#[test]
fn a_server_that_leaves_is_quoted_on_one_line() {
    let farewell = |text: &[u8]| {
        let mut conn = Conn::new();
        let length = 8 + text.len() as u8;
        let script =
            [&[0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, length, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 11][..], text]
                .concat();
        conn.receive(&script).expect("it is a greeting and a farewell");
        Failure::left(conn.farewell()).verdict(TARGET)
    };
    assert_eq!(farewell(b""), later("the server closed the connection: ENHANCE_YOUR_CALM"));
    let expected = "the server closed the connection: ENHANCE_YOUR_CALM: too many pings";
    assert_eq!(farewell(b"too\nmany\x1bpings"), later(expected));
}

#[test]
fn only_a_call_that_failed_by_itself_spares_its_connection() {
    let spares = [
        Failure::unprocessed(None),
        Failure::Reset(Code::CANCEL),
        Failure::TooLong(""),
        Failure::Malformed(""),
    ];
    assert!(spares.iter().all(|failure| failure.spares_connection() && !failure.is_break()));
    let breaks = [Failure::Io(ErrorKind::BrokenPipe.into()), Failure::left(None)];
    assert!(breaks.iter().all(|failure| failure.is_break() && !failure.spares_connection()));
    let neither = [Failure::TimedOut, Failure::Fault(Fault::protocol("")), Failure::NoHttp2];
    assert!(!neither.iter().any(|failure| failure.is_break() || failure.spares_connection()));
}
