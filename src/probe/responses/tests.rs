use super::*;

fn reply(status: u16, name: &str, content_type: &str, body: Result<String, Oddity>) -> ProbeResponse {
    ProbeResponse {
        status,
        status_text: format!("{status} {name}"),
        content_type: content_type.to_owned(),
        location: None,
        body,
    }
}

fn says(text: &str) -> Result<String, Oddity> {
    Ok(text.to_owned())
}

fn sent<'a>(path: &'a str, signals: &'a [Signal], headers: &'a [&'a str]) -> Sent<'a> {
    Sent { path, signals, headers, is_compressed: false }
}

/// Returns the outcome in one line: `+` passed, `~` noted, `-` failed.
fn judged(reply: &ProbeResponse, sent: &Sent<'_>) -> String {
    match judge(reply, sent) {
        Outcome::Passed { detail } => format!("+ {detail}"),
        Outcome::Noted { detail } => format!("~ {detail}"),
        Outcome::Failed { what, advice } => format!("- {what} | {advice}"),
    }
}

const TRACES: &[Signal] = &[Signal::Traces];
const PROTOBUF: &str = "application/x-protobuf";

#[test]
fn a_success_is_one_only_if_a_collector_would_say_it_so() {
    let sent = sent("/v1/traces", TRACES, &[]);
    let page = "- 200 OK: the answer is not from a collector: content type text/html \
                | are host, port and path right? the usual path is /v1/traces";
    for (content_type, body, expected) in [
        (PROTOBUF, Ok(String::new()), "+ 200 OK"),
        ("", Ok(String::new()), "+ 200 OK"),
        (PROTOBUF, Err(Oddity::Odd("the answer was cut short")), "~ 200 OK, but the answer was cut short"),
        (PROTOBUF, says("use v2"), "+ 200 OK, and the collector says: use v2"),
        ("application/json", Ok(String::new()), "+ 200 OK"),
        ("text/html", Err(Oddity::Foreign), page),
        (
            PROTOBUF,
            Err(Oddity::TooLong),
            "- 200 OK: the response is longer than response-bytes | are host, port and path right? the usual path is /v1/traces",
        ),
    ] {
        assert_eq!(judged(&reply(200, "OK", content_type, body), &sent), expected);
    }
}

#[test]
fn a_success_on_the_path_of_another_signal_is_noted() {
    let sent = sent("/v1/traces", &[Signal::Traces, Signal::Metrics], &[]);
    assert_eq!(
        judged(&reply(200, "OK", PROTOBUF, Ok(String::new())), &sent),
        "~ 200 OK, but metrics are posted to /v1/traces, the path of traces: write the endpoint without a path, or \
         give each signal a separate exporter"
    );
}

#[test]
fn the_usual_path_is_not_put_in_question() {
    let sent = sent("/v1/traces", TRACES, &[]);
    for (status, name, expected) in [
        (
            404,
            "Not Found",
            "- 404 Not Found: no telemetry is accepted at /v1/traces | is it a collector, and does it accept this signal at this path?",
        ),
        (
            405,
            "Method Not Allowed",
            "- 405 Method Not Allowed: POST is not allowed at /v1/traces | is it a collector?",
        ),
    ] {
        assert_eq!(judged(&reply(status, name, "", Ok(String::new())), &sent), expected);
    }
}

#[test]
fn each_refusal_has_its_advice() {
    let sent = sent("/v1/foo", TRACES, &[]);
    for (status, name, body, expected) in [
        (
            404,
            "Not Found",
            Ok(String::new()),
            "- 404 Not Found: no telemetry is accepted at /v1/foo | is the path right? the usual path is /v1/traces",
        ),
        (
            501,
            "Not Implemented",
            Ok(String::new()),
            "- 501 Not Implemented: no telemetry is accepted at /v1/foo | is the path right? the usual path is /v1/traces",
        ),
        (
            405,
            "Method Not Allowed",
            Ok(String::new()),
            "- 405 Method Not Allowed: POST is not allowed at /v1/foo | is it a collector? is the path right? the \
             usual path is /v1/traces",
        ),
        (
            413,
            "Content Too Large",
            Ok(String::new()),
            "- 413 Content Too Large | even an empty request is too large: check the server's limits",
        ),
        (
            415,
            "Unsupported Media Type",
            says("json only"),
            "- 415 Unsupported Media Type: json only | does the server accept OTLP as protobuf, application/x-protobuf?",
        ),
        (
            429,
            "Too Many Requests",
            Ok(String::new()),
            "- 429 Too Many Requests | the server refuses requests for now: try again later",
        ),
        (
            500,
            "Internal Server Error",
            says("disk full"),
            "- 500 Internal Server Error: disk full | the server failed to process the request: check its log",
        ),
        (
            502,
            "Bad Gateway",
            Ok(String::new()),
            "- 502 Bad Gateway | a gateway answers, but the collector behind it does not",
        ),
        (400, "Bad Request", says("what?"), "- 400 Bad Request: what? | is it a collector?"),
    ] {
        assert_eq!(judged(&reply(status, name, "text/plain", body), &sent), expected);
    }
}

#[test]
fn a_compressed_request_that_is_not_taken_may_be_taken_uncompressed() {
    let sent = Sent { is_compressed: true, ..sent("/v1/traces", TRACES, &[]) };
    assert_eq!(
        judged(&reply(415, "Unsupported Media Type", "", Ok(String::new())), &sent),
        "- 415 Unsupported Media Type | does the server accept gzip, and OTLP as protobuf? try compression = \"none\""
    );
}

#[test]
fn a_page_of_html_is_not_repeated() {
    let shown =
        judged(&reply(503, "Service Unavailable", "text/html", says("<html>")), &sent("/", TRACES, &[]));
    assert!(shown.starts_with("- 503 Service Unavailable |"), "{shown}");
}

#[test]
fn who_is_not_let_in_learns_which_headers_were_sent() {
    for (headers, advice) in [
        (&[][..], "no authorization header is sent: set headers"),
        (
            &["Api-Key", "x-tenant"],
            "no authorization header is sent, only api-key, x-tenant: is that what the server wants?",
        ),
        (
            &["x-tenant", "Authorization"],
            "an authorization header is sent: is its value right, with a scheme such as Bearer, and not expired?",
        ),
    ] {
        for (status, name) in [(401, "Unauthorized"), (403, "Forbidden")] {
            let judged = judged(
                &reply(status, name, "text/plain", says("go away")),
                &sent("/v1/traces", TRACES, headers),
            );
            assert_eq!(judged, format!("- {status} {name}: go away | {advice}"));
        }
    }
}

#[test]
fn a_path_that_is_lost_is_explained_by_itself() {
    let not_found = reply(404, "Not Found", "", Ok(String::new()));
    assert_eq!(
        judged(&not_found, &sent("/v1/traces/v1/traces", TRACES, &[])),
        "- 404 Not Found: the path /v1/traces/v1/traces names a signal twice | write only one signal path in the \
         endpoint"
    );
    assert_eq!(
        judged(&not_found, &sent("/v1/traces", &[Signal::Metrics], &[])),
        "- 404 Not Found: metrics are posted to /v1/traces, the path of traces | write the endpoint without a path, \
         or give each signal a separate exporter"
    );
    // A server that refuses access says nothing about the path.
    let closed =
        judged(&reply(401, "Unauthorized", "", Ok(String::new())), &sent("/v1/logs/v1/logs", TRACES, &[]));
    assert!(closed.starts_with("- 401 Unauthorized |"), "{closed}");
}

#[test]
fn a_redirect_says_where_to() {
    let advice = "redirects are not followed: set the endpoint to the final URL";
    let mut moved = reply(308, "Permanent Redirect", "", Ok(String::new()));
    let sent = sent("/v1/traces", TRACES, &[]);
    assert_eq!(judged(&moved, &sent), format!("- 308 Permanent Redirect | {advice}"));
    moved.location = Some("https://a.example/v1/traces".to_owned());
    assert_eq!(
        judged(&moved, &sent),
        format!("- 308 Permanent Redirect to https://a.example/v1/traces | {advice}")
    );
}

#[test]
fn the_usual_servers_words_for_a_missing_tls_are_known() {
    for text in [
        "Client sent an HTTP request to an HTTPS server.",
        "<html><title>400 The plain HTTP request was sent to HTTPS port</title></html>",
        "Reason: You're speaking plain HTTP to an SSL-enabled server port.",
    ] {
        let judged =
            judged(&reply(400, "Bad Request", "text/html", says(text)), &sent("/v1/traces", TRACES, &[]));
        assert_eq!(judged, "- this port speaks TLS | write https:// instead of http://");
    }
}

mod calls {
    use super::*;

    const UNIMPLEMENTED: u32 = 12;
    const INTERNAL: u32 = 13;
    const UNAVAILABLE: u32 = 14;
    const UNAUTHENTICATED: u32 = 16;
    const NAMES: [(u32, &str); 5] = [
        (OK, "OK"),
        (INTERNAL, "INTERNAL"),
        (UNIMPLEMENTED, "UNIMPLEMENTED"),
        (UNAVAILABLE, "UNAVAILABLE"),
        (UNAUTHENTICATED, "UNAUTHENTICATED"),
    ];

    fn reply(code: u32, message: &str) -> CallResponse {
        let (_, name) = NAMES.iter().find(|(known, _)| *known == code).expect("a known code");
        CallResponse {
            code,
            name: (*name).to_owned(),
            message: message.to_owned(),
            odd: None,
            is_retryable: false,
        }
    }

    fn judged(replies: [CallResponse; 3], is_compressed: bool) -> String {
        let replies: Vec<_> = Signal::ALL.into_iter().zip(replies).collect();
        match judge_calls(&replies, &Sent { is_compressed, ..sent("", &Signal::ALL, &[]) }) {
            Outcome::Passed { detail } => detail,
            Outcome::Failed { what, advice } => format!("{what} | {advice}"),
            Outcome::Noted { detail } => format!("note: {detail}"),
        }
    }

    #[test]
    fn what_is_good_for_all_signals_is_reported_once() {
        let ok = || reply(OK, "");
        assert_eq!(judged([ok(), ok(), ok()], false), "OK");
        assert_eq!(judged([ok(), reply(OK, "too old"), ok()], false), "OK, and the collector says: too old");
        let odd = CallResponse { odd: Some("the answer has no message"), ..ok() };
        assert_eq!(judged([ok(), ok(), odd], false), "note: OK, but the answer has no message");
        let no = || reply(UNAUTHENTICATED, "who are you?");
        assert_eq!(
            judged([no(), no(), no()], false),
            "UNAUTHENTICATED: who are you? | no authorization header is sent: set headers"
        );
        let no = || reply(UNIMPLEMENTED, "");
        assert_eq!(
            judged([no(), no(), no()], false),
            "UNIMPLEMENTED | is it the gRPC port of a collector, usually 4317?"
        );
    }

    #[test]
    fn a_signal_that_alone_is_not_taken_is_named() {
        let ok = || reply(OK, "");
        let no = || reply(UNIMPLEMENTED, "unknown service");
        assert_eq!(
            judged([ok(), no(), ok()], false),
            "UNIMPLEMENTED: the server does not accept logs | \
         give the collector a pipeline for logs, or do not send them there"
        );
        assert_eq!(
            judged([no(), ok(), no()], false),
            "UNIMPLEMENTED: the server does not accept traces and metrics | \
         give the collector a pipeline for traces and metrics, or do not send them there"
        );
        assert_eq!(
            judged([ok(), ok(), reply(UNAVAILABLE, "full")], false),
            "metrics: UNAVAILABLE: full | the server answers, but is not ready, or cannot reach the collector behind it"
        );
    }

    #[test]
    fn what_is_taken_is_named_only_beside_what_is_not() {
        let named = |codes: [u32; 3]| {
            let replies = codes.map(|code| reply(code, ""));
            signals_with(OK, &Signal::ALL.into_iter().zip(replies).collect::<Vec<_>>())
        };
        assert_eq!(named([OK, UNIMPLEMENTED, OK]).as_deref(), Some("traces and metrics"));
        assert_eq!(named([UNIMPLEMENTED, OK, UNAVAILABLE]).as_deref(), Some("logs"));
        assert_eq!((named([OK; 3]), named([INTERNAL; 3])), (None, None));
    }

    #[test]
    fn a_server_that_cannot_unpack_is_recognized() {
        let none = "does the server accept gzip? try compression = \"none\"";
        let no = || reply(UNIMPLEMENTED, "Content is compressed with `gzip` which isn't supported");
        let judgement = judged([no(), no(), no()], true);
        assert!(judgement.ends_with(none), "{judgement}");
        let no = || reply(INTERNAL, "");
        assert_eq!(judged([no(), no(), no()], true), format!("INTERNAL | {none}"));
        assert!(judged([no(), no(), no()], false).ends_with("check its log"));
    }
}
