//! Schema URLs, which the receiver does not keep: a small server in this file inspects whole requests.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message;

use super::{Start, all};
use crate::compare::{Difference, facts_differ};
use crate::told::Facts;

/// The programs that use schema URLs.
const PROGRAMS: [&str; 4] = [
    "spans_of_several_scopes",
    "spans_of_a_rich_resource",
    "logs_of_several_scopes",
    "metrics_of_several_scopes",
];

/// Returns the differences between the schema URLs of the usual exporters and those of `others`.
pub(crate) fn schemas_differ(others: Start) -> Vec<Difference> {
    let programs = all().filter(|program| PROGRAMS.contains(&program.name));
    programs
        .flat_map(|program| {
            let recorders = [(); 2].map(|()| Recorder::open());
            let endpoints = recorders.each_ref().map(|recorder| format!("http://{}", recorder.address));
            program.run([&endpoints[0], &endpoints[1]], others);
            let [usual, other] = recorders.each_ref().map(Recorder::schemas);
            assert!(!usual.is_empty(), "nothing came of {}", program.name);
            facts_differ(&format!("{}: schemas", program.name), &usual, &other)
        })
        .collect()
}

/// A server that keeps all requests until it is dropped.
struct Recorder {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
    closed: Arc<AtomicBool>,
}

struct Request {
    path: String,
    body: Vec<u8>,
}

impl Recorder {
    fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::<Mutex<Vec<Request>>>::default();
        let closed = Arc::<AtomicBool>::default();
        let recorder = Self { address, requests: requests.clone(), closed: closed.clone() };
        thread::spawn(move || {
            for client in listener.incoming().take_while(|_| !closed.load(Ordering::Relaxed)) {
                let (client, seen) = (client.unwrap(), requests.clone());
                thread::spawn(move || serve(client, &seen));
            }
        });
        recorder
    }

    /// Returns the schema URL of every resource and scope.
    fn schemas(&self) -> Facts {
        let requests = self.requests.lock().unwrap();
        let all: BTreeSet<(String, String)> = requests.iter().flat_map(schemas).collect();
        all.into_iter().map(|(scope, schemas)| (format!("of {scope}"), schemas)).collect()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Relaxed);
        // A last connection wakes the thread that waits in `accept`.
        let _ = TcpStream::connect(self.address);
    }
}

fn serve(client: TcpStream, seen: &Mutex<Vec<Request>>) {
    let mut answers = client.try_clone().unwrap();
    let mut reader = BufReader::new(client);
    while let Some(request) = read(&mut reader) {
        seen.lock().unwrap().push(request);
        let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";
        answers.write_all(answer.as_bytes()).unwrap();
    }
}

/// The next request of a client, if there is one.
fn read(reader: &mut impl BufRead) -> Option<Request> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let path = head.split(' ').nth(1)?.to_owned();
    let mut fields = head.lines().filter_map(|line| line.split_once(':'));
    let length =
        fields.find(|(name, _)| name.eq_ignore_ascii_case("content-length"))?.1.trim().parse().ok()?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Request { path, body })
}

/// The name of a scope, and the schema URLs of its resource and of the scope.
fn schemas(request: &Request) -> Vec<(String, String)> {
    // All three signals have the same structure.
    macro_rules! of {
        ($message:ty, $resources:ident, $scopes:ident) => {
            <$message>::decode(request.body.as_slice())
                .unwrap()
                .$resources
                .iter()
                .flat_map(|resource| resource.$scopes.iter().map(move |scope| (resource, scope)))
                .map(|(resource, of_scope)| {
                    let scope = of_scope.scope.clone().unwrap_or_default();
                    let name = format!("{:?} {:?} at {}", scope.name, scope.version, request.path);
                    (name, format!("{:?} above {:?}", resource.schema_url, of_scope.schema_url))
                })
                .collect()
        };
    }
    match request.path.as_str() {
        "/v1/traces" => of!(ExportTraceServiceRequest, resource_spans, scope_spans),
        "/v1/logs" => of!(ExportLogsServiceRequest, resource_logs, scope_logs),
        _ => of!(ExportMetricsServiceRequest, resource_metrics, scope_metrics),
    }
}
