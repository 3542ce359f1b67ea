use super::*;

fn io(kind: ErrorKind, text: &str) -> Failure {
    Failure::Io { kind, text: text.to_owned() }
}

fn tls(kind: TlsFaultKind, what: &str) -> Failure {
    Failure::Tls(TlsFault { kind, what: what.to_owned() })
}

fn line(words: &Words) -> String {
    format!("{} | {}", words.what, words.advice)
}

#[test]
fn a_name_without_an_address_is_told_apart_from_a_silent_name_server() {
    for (failure, expected) in [
        (
            io(ErrorKind::Other, "failed to lookup address information: Name or service not known"),
            "no address was found for \"collector\" | is the name right? in a container, is it on the same network?",
        ),
        (
            io(
                ErrorKind::Other,
                "failed to lookup address information: Temporary failure in name resolution",
            ),
            "no name server knows \"collector\" at the moment | is the name right? in a container, is it \
             on the same network? is there a network at all?",
        ),
        (
            Failure::TimedOut,
            "no name server answered in time for \"collector\" | is there a network? is the name right?",
        ),
    ] {
        assert_eq!(line(&unresolved("\"collector\"", &failure)), expected);
    }
}

#[test]
fn each_way_not_to_connect_has_its_words() {
    let direct = Target { addresses: "127.0.0.1:4318".to_owned(), proxy: None, transport: Transport::Http };
    let refused = io(ErrorKind::ConnectionRefused, "connection refused");
    let unreachable = io(ErrorKind::NetworkUnreachable, "network is unreachable");
    for (failure, expected) in [
        (&refused, "connection refused by 127.0.0.1:4318 | is a collector running? try: standpipe receive"),
        (
            &Failure::TimedOut,
            "no answer in time from 127.0.0.1:4318 | are host and port right? does a firewall stand between?",
        ),
        (&unreachable, "there is no way to 127.0.0.1:4318 | is the network up? is a VPN needed?"),
    ] {
        assert_eq!(line(&unconnected(&direct, failure)), expected);
    }
    let proxied = Target { proxy: Some("proxy:3128"), ..direct };
    for (failure, expected) in [
        (
            &refused,
            "connection refused by the proxy proxy:3128 | is the proxy running? set proxy = \"off\" or NO_PROXY to go \
             without it",
        ),
        (
            &Failure::Proxy("403 Forbidden".to_owned()),
            "the proxy proxy:3128 opens no way to the collector: 403 Forbidden | does it allow this \
             host and port? set proxy = \"off\" or NO_PROXY to go without it",
        ),
    ] {
        assert_eq!(line(&unconnected(&proxied, failure)), expected);
    }
}

#[test]
fn an_unknown_issuer_is_named_when_it_is_known_who_it_is() {
    let url = "https://localhost:4318/v1/traces";
    let place = Place::parse(url, url).unwrap();
    let failure = tls(TlsFaultKind::UnknownIssuer, "the server's certificate has an unknown issuer");
    let certificate = |subject: &str| Certificate {
        subject: subject.to_owned(),
        issuer: "Test CA".to_owned(),
        until: "2027-01-01".to_owned(),
    };
    for (certificate, has_ca, expected) in [
        (
            None,
            false,
            "the server's certificate has an unknown issuer | set ca-file to the certificate of its issuer",
        ),
        (
            Some(certificate("collector.test")),
            false,
            "the server's certificate has an unknown issuer: \"Test CA\" | set ca-file to the certificate of \"Test CA\"",
        ),
        (
            Some(certificate("collector.test")),
            true,
            "the server's certificate has an unknown issuer: \"Test CA\" | ca-file does not hold the certificate of \
             \"Test CA\"",
        ),
        (
            Some(certificate("Test CA")),
            false,
            "the server's certificate has an unknown issuer: it is signed by itself, \"Test CA\" | set ca-file to the \
             certificate of \"Test CA\"",
        ),
    ] {
        assert_eq!(line(&unsecured(&failure, &place, has_ca, certificate.as_ref())), expected);
    }
}

#[test]
fn a_host_that_is_not_to_be_seen_is_not_named_by_its_certificate_fault() {
    let place = Place::parse("https://hidden.example/", "https://%{env:HOST}%/").unwrap();
    let failure =
        tls(TlsFaultKind::WrongHost, "the server's certificate is not valid for host hidden.example");
    let words = unsecured(&failure, &place, false, None);
    assert_eq!(words.what, "the server's certificate is not valid for host ***");
}

#[test]
fn who_speaks_something_else_is_told_what_to_write() {
    let (grpc, https) = ("this port speaks gRPC (HTTP/2)", "this port speaks TLS");
    for (speech, failure, what) in [
        (Speech::Http2, Failure::NotHttp, grpc),
        (Speech::Http2, Failure::Closed, grpc),
        (Speech::Http2, Failure::TimedOut, grpc),
        (Speech::Tls, Failure::NotHttp, https),
        (Speech::Tls, Failure::Closed, https),
        (Speech::Nothing, Failure::TimedOut, "nothing was answered in time"),
        (Speech::Nothing, Failure::Closed, "the server closed the connection without an answer"),
        (Speech::Unknown, Failure::NotHttp, "something answers, but not in HTTP"),
    ] {
        assert_eq!(unanswered(&failure, speech, false).what, what, "{speech:?} {failure:?}");
    }
    for (speech, failure, what) in [
        (Speech::Http1, Failure::Closed, "this port speaks HTTP/1"),
        (Speech::Tls, Failure::Closed, https),
        (Speech::Unknown, Failure::Closed, "something answers, but not in HTTP/2"),
        (Speech::Nothing, Failure::TimedOut, "nothing was answered in time"),
        (Speech::Nothing, Failure::Closed, "the server closed the connection without an answer"),
    ] {
        assert_eq!(no_grpc(&failure, speech).what, what, "{speech:?} {failure:?}");
    }
}
