//! Why does nothing arrive? A line for each kind of refused request, with what to do about it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use standpipe::receiver::{Protocol, RefusalKind, RefusedRequest};

use super::super::text::{self, Charset};

/// How often a kind is reported again while it goes on.
const AGAIN_AFTER: Duration = Duration::from_secs(60);
/// Characters of a path that are shown.
const LONGEST_PATH: usize = 80;

/// Where the receiver takes what.
#[derive(Debug, Clone, Default)]
pub(super) struct Endpoints {
    pub(super) http: String,
    pub(super) grpc: String,
}

/// How many requests of each kind were refused, and when that was reported last.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    kinds: BTreeMap<(RefusalKind, &'static str), Reported>,
    pub(super) count: u64,
}

#[derive(Debug)]
struct Reported {
    at: Instant,
    /// How many came since.
    more: u64,
}

impl Refusals {
    /// Counts a refusal. Returns how many like it were not reported, if it is time to report again.
    pub(super) fn note(&mut self, refused: &RefusedRequest, now: Instant) -> Option<u64> {
        self.count += 1;
        let kind = (refused.kind, refused.protocol.name());
        let Some(reported) = self.kinds.get_mut(&kind) else {
            self.kinds.insert(kind, Reported { at: now, more: 0 });
            return Some(0);
        };
        if now.saturating_duration_since(reported.at) < AGAIN_AFTER {
            reported.more += 1;
            return None;
        }
        reported.at = now;
        Some(std::mem::take(&mut reported.more))
    }
}

/// One line: what was refused, why, and what to do.
pub(super) fn line(refused: &RefusedRequest, more: u64, endpoints: &Endpoints) -> String {
    let what = match &refused.request {
        Some(request) => {
            // a query may hold a secret
            let path = request.path.split('?').next().unwrap_or_default();
            format!("{} {}", request.method, text::cut(path, LONGEST_PATH, "..."))
        }
        None => "a connection".to_owned(),
    };
    let more = if more > 0 { format!(" ({more} more like it)") } else { String::new() };
    let line = format!(
        "refused {what} over {} with {}{more}: {}; {}",
        refused.protocol.name(),
        refused.status,
        refused.message,
        advice(refused.kind, refused.protocol, endpoints)
    );
    // standard error may be a terminal whatever standard output is
    text::printable(&line, Charset::Ascii).into_owned()
}

fn advice(kind: RefusalKind, protocol: Protocol, endpoints: &Endpoints) -> String {
    let Endpoints { http, grpc } = endpoints;
    match (kind, protocol) {
        (RefusalKind::Path, Protocol::Grpc) => "is it an exporter of OTLP?".to_owned(),
        (RefusalKind::Path, _) => {
            format!("set OTEL_EXPORTER_OTLP_ENDPOINT={http}: exporters add the path themselves")
        }
        (RefusalKind::Method, _) => "is it a browser or a health check?".to_owned(),
        (RefusalKind::ContentType, Protocol::Grpc) => {
            format!("does it speak OTLP over HTTP? that is at {http}")
        }
        (RefusalKind::ContentType, _) => "set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf".to_owned(),
        (RefusalKind::Compression, _) => "set OTEL_EXPORTER_OTLP_COMPRESSION=gzip".to_owned(),
        (RefusalKind::Undecodable, _) => {
            "is it OTLP, and of the signal that goes to this path? or was it damaged on its way?".to_owned()
        }
        (RefusalKind::TooLarge, _) => "let the sender make smaller batches".to_owned(),
        (RefusalKind::Busy, _) => "the sender may retry".to_owned(),
        (RefusalKind::Late, _) => "did the sender stop in the middle of it?".to_owned(),
        (RefusalKind::Host, _) => {
            format!("send to {http} or {grpc}; for names of other machines, listen on another --address")
        }
        (RefusalKind::GrpcAtHttpPort, _) => {
            format!("OTLP over gRPC is at {grpc}, or set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf")
        }
        (RefusalKind::HttpAtGrpcPort, _) => {
            format!("OTLP over HTTP is at {http}, or set OTEL_EXPORTER_OTLP_PROTOCOL=grpc")
        }
        (RefusalKind::Tls, _) => {
            "write http:// instead of https:// in the endpoint, or set OTEL_EXPORTER_OTLP_INSECURE=true"
                .to_owned()
        }
        _ => "is it an exporter of OTLP?".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use standpipe::receiver::Receiver;

    use super::*;

    /// What a receiver makes of these bytes at its port for HTTP.
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

    fn endpoints() -> Endpoints {
        Endpoints { http: "http://h".to_owned(), grpc: "http://g".to_owned() }
    }

    #[test]
    fn a_kind_is_reported_once_and_again_after_a_while_with_a_count() {
        let now = Instant::now();
        let (wrong_path, noise) = (refusal(b"POST /x HTTP/1.1\r\nHost: a\r\n\r\n"), refusal(b"\0\0"));
        let mut refusals = Refusals::default();
        assert_eq!(refusals.note(&wrong_path, now), Some(0));
        assert_eq!(refusals.note(&noise, now), Some(0));
        for _ in 0..41 {
            assert_eq!(refusals.note(&wrong_path, now + AGAIN_AFTER / 2), None);
        }
        assert_eq!(refusals.note(&wrong_path, now + AGAIN_AFTER), Some(41));
        assert_eq!(refusals.note(&wrong_path, now + AGAIN_AFTER), None);
        assert_eq!(refusals.count, 45);
        assert!(line(&wrong_path, 41, &endpoints()).contains("with 404 (41 more like it): no such path"));
    }

    #[test]
    fn a_line_shows_no_query_and_cannot_move_the_cursor() {
        let long = "p".repeat(1000);
        let request = format!("POST /\u{202e}{long}?token=hunter2 HTTP/1.1\r\nHost: a\r\n\r\n");
        let line = line(&refusal(request.as_bytes()), 0, &endpoints());
        assert!(!line.contains("hunter2") && line.is_ascii() && line.len() < 400, "{line}");
    }
}
