//! Reports refused requests: a line for each kind of refusal, with a remedy.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use standpipe::receiver::{Protocol, RefusalKind, RefusedRequest};

use super::super::text::{self, Charset};

/// Minimum interval between two reports of the same kind.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);
/// Maximum width of a path in a report.
const MAX_PATH_WIDTH: usize = 80;

/// The refused requests of each kind, and where the receiver listens.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    /// The time of the last report and the number of refusals since, for each kind and protocol. The `bool` in the key
    /// is true for CORS preflight requests.
    kinds: BTreeMap<(RefusalKind, &'static str, bool), (Instant, u64)>,
    pub(super) count: u64,
    /// Endpoints of the receiver for HTTP and for gRPC.
    pub(super) http: String,
    pub(super) grpc: String,
}

impl Refusals {
    /// Counts a refusal. If it is to be reported, returns the number of similar refusals since the last report.
    pub(super) fn note(&mut self, refused: &RefusedRequest, now: Instant) -> Option<u64> {
        self.count += 1;
        let kind = (refused.kind, refused.protocol.name(), is_preflight(refused));
        let Some((reported, more)) = self.kinds.get_mut(&kind) else {
            self.kinds.insert(kind, (now, 0));
            return Some(0);
        };
        if now.saturating_duration_since(*reported) < REPORT_INTERVAL {
            *more += 1;
            return None;
        }
        *reported = now;
        Some(std::mem::take(more))
    }

    /// Returns the report: the request, the reason and the remedy. `more` similar refusals were not reported.
    pub(super) fn line(&self, refused: &RefusedRequest, more: u64) -> String {
        let more = if more > 0 { format!(" ({more} more like it)") } else { String::new() };
        let line = format!(
            "refused {} over {} with {}{more}: {}; {}",
            what(refused),
            refused.protocol.name(),
            refused.status,
            refused.message,
            self.advice(refused)
        );
        // The line contains parts of the request, so it is escaped.
        text::printable(&line, Charset::Ascii).into_owned()
    }

    fn advice(&self, refused: &RefusedRequest) -> String {
        advice(refused).replace("{http}", &self.http).replace("{grpc}", &self.grpc)
    }
}

/// Returns a short description of a refused request: `404 POST /v1/trace`.
pub(super) fn summary(refused: &RefusedRequest) -> String {
    format!("{} {}", refused.status, what(refused))
}

fn what(refused: &RefusedRequest) -> String {
    match &refused.request {
        Some(request) => {
            format!("{} {}", request.method, text::cut(path(refused), MAX_PATH_WIDTH, "..."))
        }
        None => "a connection".to_owned(),
    }
}

/// Returns the path of a request without its query, which may contain a secret.
fn path(refused: &RefusedRequest) -> &str {
    let path = refused.request.as_ref().map_or("", |request| &request.path);
    path.split('?').next().unwrap_or_default()
}

/// Returns whether this is a CORS preflight: a browser asks whether a web page may send here.
fn is_preflight(refused: &RefusedRequest) -> bool {
    refused.request.as_ref().is_some_and(|request| request.method == "OPTIONS")
}

/// Returns the remedy for a refusal, with the placeholders `{http}` and `{grpc}` for the endpoints.
fn advice(refused: &RefusedRequest) -> &'static str {
    if is_preflight(refused) {
        return "a browser asks whether a web page may send here (CORS preflight); to allow it, start receive with \
                --allow-origin and the origin of the page, for example --allow-origin https://shop.example";
    }
    match (refused.kind, refused.protocol) {
        (RefusalKind::Path, Protocol::Http) => match path(refused) {
            "" | "/" => {
                "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT and the variables for other signals are used unchanged: write {http}/v1/traces there, \
                 or set OTEL_EXPORTER_OTLP_ENDPOINT={http}: exporters add the path themselves"
            }
            path if path.matches("/v1/").count() > 1 => {
                "the endpoint contains the path twice; set OTEL_EXPORTER_OTLP_ENDPOINT={http}: exporters add the path themselves"
            }
            _ => {
                "set OTEL_EXPORTER_OTLP_ENDPOINT={http}: exporters add the path themselves; \
                 OTEL_EXPORTER_OTLP_TRACES_ENDPOINT needs the path: {http}/v1/traces"
            }
        },
        (RefusalKind::Method, _) => "is the sender a browser or a health check?",
        (RefusalKind::ContentType, Protocol::Grpc) => "OTLP over HTTP is at {http}",
        (RefusalKind::ContentType, _) => "set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
        (RefusalKind::Compression, _) => "set OTEL_EXPORTER_OTLP_COMPRESSION=gzip",
        (RefusalKind::Undecodable, _) => {
            "is the body OTLP for the signal of this path? was the body damaged in transit?"
        }
        (RefusalKind::TooLarge, _) => {
            "make the batches of the sender smaller, for example with OTEL_BSP_MAX_EXPORT_BATCH_SIZE"
        }
        (RefusalKind::Busy, _) => "the sender may retry",
        (RefusalKind::Late, _) => "did the sender stop before the end of the request?",
        (RefusalKind::Host, _) => {
            "send to {http} or {grpc}; to accept other host names, listen on an --address that is not loopback"
        }
        (RefusalKind::GrpcAtHttpPort, _) => {
            "OTLP over gRPC is at {grpc}, or set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf"
        }
        (RefusalKind::HttpAtGrpcPort, _) => {
            "OTLP over HTTP is at {http}, or set OTEL_EXPORTER_OTLP_PROTOCOL=grpc"
        }
        (RefusalKind::Tls, _) => {
            "write http:// instead of https:// in the endpoint, or set OTEL_EXPORTER_OTLP_INSECURE=true"
        }
        _ => "is the sender an OTLP exporter?",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use standpipe::receiver::Receiver;

    use super::*;

    /// Returns the refusal that a receiver reports if it gets these bytes at its HTTP port.
    fn refusal(bytes: &[u8]) -> RefusedRequest {
        use std::io::{Read, Write};

        let (show, shown) = mpsc::channel();
        let receiver = Receiver::builder().on_refusal(move |refused| {
            let _ = show.send(refused.clone());
        });
        let receiver = receiver.start().expect("a free port");
        let mut socket = std::net::TcpStream::connect(receiver.address()).expect("it listens");
        socket.write_all(bytes).expect("it reads");
        socket.shutdown(std::net::Shutdown::Write).expect("it is connected");
        let _ = socket.read_to_end(&mut Vec::new());
        shown.recv_timeout(Duration::from_secs(10)).expect("it is refused")
    }

    fn refusals() -> Refusals {
        Refusals { http: "http://h".to_owned(), grpc: "http://g".to_owned(), ..Refusals::default() }
    }

    #[test]
    fn a_kind_is_reported_once_and_again_after_a_while_with_a_count() {
        let now = Instant::now();
        let (wrong_path, noise) = (refusal(b"POST /x HTTP/1.1\r\nHost: a\r\n\r\n"), refusal(b"\0\0"));
        let mut refusals = refusals();
        assert_eq!(refusals.note(&wrong_path, now), Some(0));
        assert_eq!(refusals.note(&noise, now), Some(0));
        for _ in 0..41 {
            assert_eq!(refusals.note(&wrong_path, now + REPORT_INTERVAL / 2), None);
        }
        assert_eq!(refusals.note(&wrong_path, now + REPORT_INTERVAL), Some(41));
        assert_eq!(refusals.note(&wrong_path, now + REPORT_INTERVAL), None);
        assert_eq!(refusals.count, 45);
        assert!(refusals.line(&wrong_path, 41).contains("with 404 (41 more like it): no such path"));
    }

    #[test]
    fn each_mistake_has_its_own_advice() {
        let advised = |request: &[u8]| refusals().advice(&refusal(request));
        let post = |path: &str| advised(format!("POST {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
        assert!(post("/").starts_with(
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT and the variables for other signals are used unchanged"
        ));
        assert!(post("/").contains("write http://h/v1/traces there"));
        assert!(
            post("/v1/traces/v1/traces")
                .starts_with("the endpoint contains the path twice; set OTEL_EXPORTER_OTLP_ENDPOINT=")
        );
        assert!(post("/v1/trace").starts_with("set OTEL_EXPORTER_OTLP_ENDPOINT=http://h: "));
        let plain =
            b"POST /v1/traces HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\nContent-Length: 1\r\n\r\nx";
        assert_eq!(advised(plain), "set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf");
        let preflight = b"OPTIONS /v1/traces HTTP/1.1\r\nHost: a\r\nOrigin: http://localhost:3000\r\n\r\n";
        assert!(
            advised(preflight).starts_with("a browser asks whether a web page may send here"),
            "{}",
            advised(preflight)
        );
        let large = b"POST /v1/traces HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-protobuf\r\n\
                      Content-Length: 9999999999\r\n\r\n";
        assert!(advised(large).contains("OTEL_BSP_MAX_EXPORT_BATCH_SIZE"), "{}", advised(large));
        assert!(refusals().line(&refusal(large), 0).contains("the limit is "));
        assert!(advised(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").starts_with("OTLP over gRPC is at http://g"));
        assert!(
            advised(&[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3])
                .starts_with("write http:// instead of https://")
        );
    }

    #[test]
    fn what_browsers_ask_is_reported_beside_other_methods() {
        let now = Instant::now();
        let mut refusals = refusals();
        for method in ["GET", "OPTIONS"] {
            let refused = refusal(format!("{method} /v1/traces HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
            assert_eq!(refusals.note(&refused, now), Some(0), "{method}");
            assert_eq!(refusals.note(&refused, now), None, "{method}");
        }
    }

    #[test]
    fn a_line_shows_no_query_and_cannot_move_the_cursor() {
        let long = "p".repeat(1000);
        let request = format!("POST /\u{202e}{long}?token=hunter2 HTTP/1.1\r\nHost: a\r\n\r\n");
        let line = refusals().line(&refusal(request.as_bytes()), 0);
        assert!(!line.contains("hunter2") && line.is_ascii() && line.len() < 400, "{line}");
    }
}
