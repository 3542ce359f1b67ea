//! tonic's server with OTLP's three services. Writes every message it gets, decoded and encoded again, as one line.
//!
//! `tonic-server PORT FILE LARGEST [CERTIFICATE KEY]`; a message of more than LARGEST bytes is refused.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::collector::{logs::v1 as logs, metrics::v1 as metrics, trace::v1 as trace};
use prost::Message;
use tonic::codec::CompressionEncoding;
use tonic::transport::{Identity, Server, ServerTlsConfig};
use tonic::{Request, Response, Status};

type Error = Box<dyn std::error::Error>;

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (port, file, largest, identity) = match arguments.as_slice() {
        [port, file, largest] => (port, file, largest, None),
        [port, file, largest, certificate, key] => {
            (port, file, largest, Some(Identity::from_pem(fs::read(certificate)?, fs::read(key)?)))
        }
        _ => return Err("usage: tonic-server PORT FILE LARGEST [CERTIFICATE KEY]".into()),
    };
    let largest: usize = largest.parse()?;
    let file = OpenOptions::new().create(true).append(true).open(file)?;
    let book = Book { file: Arc::new(Mutex::new(file)) };

    let mut server = Server::builder();
    if let Some(identity) = identity {
        server = server.tls_config(ServerTlsConfig::new().identity(identity))?;
    }
    macro_rules! service {
        ($server:path) => {{
            use $server as Service;
            Service::new(book.clone())
                .accept_compressed(CompressionEncoding::Gzip)
                // Answers in gzip to clients that accept gzip, because grpc-go does so for compressed requests.
                .send_compressed(CompressionEncoding::Gzip)
                .max_decoding_message_size(largest)
        }};
    }
    server
        .add_service(service!(trace::trace_service_server::TraceServiceServer))
        .add_service(service!(logs::logs_service_server::LogsServiceServer))
        .add_service(service!(metrics::metrics_service_server::MetricsServiceServer))
        .serve(format!("127.0.0.1:{port}").parse()?)
        .await?;
    Ok(())
}

/// File to which every message is written before it is answered.
#[derive(Clone)]
struct Book {
    file: Arc<Mutex<File>>,
}

impl Book {
    fn write(&self, signal: &str, message: &impl Message) -> Result<(), Status> {
        let mut line = format!("{{\"signal\":\"{signal}\",\"protobuf\":\"");
        for byte in message.encode_to_vec() {
            line.extend(
                [byte >> 4, byte & 15].map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)])),
            );
        }
        line.push_str("\"}\n");
        let written = match self.file.lock() {
            Ok(mut file) => file.write_all(line.as_bytes()),
            Err(poisoned) => Err(io::Error::other(poisoned.to_string())),
        };
        written.map_err(|error| Status::internal(error.to_string()))
    }
}

macro_rules! export {
    ($service:path, $signal:literal, $request:path, $response:path) => {
        #[tonic::async_trait]
        impl $service for Book {
            async fn export(&self, request: Request<$request>) -> Result<Response<$response>, Status> {
                self.write($signal, request.get_ref())?;
                Ok(Response::new(<$response>::default()))
            }
        }
    };
}

export!(
    trace::trace_service_server::TraceService,
    "traces",
    trace::ExportTraceServiceRequest,
    trace::ExportTraceServiceResponse
);
export!(
    logs::logs_service_server::LogsService,
    "logs",
    logs::ExportLogsServiceRequest,
    logs::ExportLogsServiceResponse
);
export!(
    metrics::metrics_service_server::MetricsService,
    "metrics",
    metrics::ExportMetricsServiceRequest,
    metrics::ExportMetricsServiceResponse
);
