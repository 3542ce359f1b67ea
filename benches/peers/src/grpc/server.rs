//! The collector: a tonic server in a separate process, so that its work is not measured.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{env, process, thread};

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use standpipe::receiver::Receiver;
use tokio::runtime::Builder;
use tonic::codec::CompressionEncoding;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

use super::SERVER;
use crate::support::Error;

pub(super) const NOTE: &str = "tonic 0.14 on a runtime with one thread, in a separate process that is not measured; it \
    decodes every span and counts requests and spans, all of which must arrive";

/// Handle of the server process. Dropping the handle ends the process.
pub(super) struct Server {
    child: Child,
    /// Standard input of the server. Each line requests the counts.
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    grpc: String,
    http: String,
}

/// Requests and spans received so far.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrived {
    pub(super) requests: u64,
    pub(super) spans: u64,
}

impl Server {
    pub(super) fn start() -> Result<Self, Error> {
        let mut child = Command::new(env::current_exe()?)
            .args(["--play", SERVER])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let questions = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().ok_or("the server has no standard output")?);
        let mut server = Self { child, questions, answers, grpc: String::new(), http: String::new() };
        (server.grpc, server.http) = (server.read_answer()?, server.read_answer()?);
        Ok(server)
    }

    pub(super) fn endpoint(&self, is_http: bool) -> &str {
        if is_http { &self.http } else { &self.grpc }
    }

    pub(super) fn arrived(&mut self) -> Result<Arrived, Error> {
        writeln!(self.questions.as_mut().ok_or("the server has been stopped")?)?;
        let [requests, spans] = [self.read_answer()?.parse()?, self.read_answer()?.parse()?];
        Ok(Arrived { requests, spans })
    }

    fn read_answer(&mut self) -> Result<String, Error> {
        let mut line = String::new();
        match self.answers.read_line(&mut line)? {
            0 => Err("the server has ended".into()),
            _ => Ok(line.trim_end().to_owned()),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The server ends when its standard input is closed.
        self.questions = None;
        let _ = self.child.wait();
    }
}

impl Arrived {
    pub(super) fn since(self, before: Self) -> Self {
        Self { requests: self.requests - before.requests, spans: self.spans - before.spans }
    }
}

/// Serves until standard input is closed.
pub(super) fn play() -> Result<(), Error> {
    let receiver = Receiver::builder().keep_bytes(0).start()?;
    let counts = Arc::new(Counts::default());
    let service =
        TraceServiceServer::new(Counting(Arc::clone(&counts))).accept_compressed(CompressionEncoding::Gzip);
    Builder::new_current_thread().enable_all().build()?.block_on(async {
        let incoming = TcpIncoming::bind(([127, 0, 0, 1], 0).into())?.with_nodelay(Some(true));
        println!("http://{}\n{}", incoming.local_addr()?, receiver.endpoint());
        thread::spawn(move || {
            answer(&counts, &receiver);
            process::exit(0);
        });
        Ok(tonic::transport::Server::builder().serve_with_incoming(service, incoming).await?)
    })
}

/// For each line on standard input, prints the sums of the counts of both protocols.
fn answer(counts: &Counts, receiver: &Receiver) {
    for _ in io::stdin().lines() {
        let requests = counts.requests.load(Ordering::SeqCst) + receiver.request_count();
        let spans = counts.spans.load(Ordering::SeqCst) + receiver.span_count();
        println!("{requests}\n{spans}");
    }
}

#[derive(Default)]
struct Counts {
    requests: AtomicU64,
    spans: AtomicU64,
}

struct Counting(Arc<Counts>);

#[tonic::async_trait]
impl TraceService for Counting {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let resources = &request.get_ref().resource_spans;
        let spans: usize =
            resources.iter().flat_map(|resource| &resource.scope_spans).map(|scope| scope.spans.len()).sum();
        self.0.requests.fetch_add(1, Ordering::SeqCst);
        self.0.spans.fetch_add(spans as u64, Ordering::SeqCst);
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}
