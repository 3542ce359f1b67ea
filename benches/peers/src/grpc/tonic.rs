//! The OTLP client that tonic generates, without an exporter around it.

use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use tokio::runtime::Builder;
use tonic::codec::CompressionEncoding;
use tonic::transport::Endpoint;

use super::spent::Spent;
use super::{ALL, Contender, Order, ready};
use crate::support::Error;

/// Spans prepared at a time, which bounds the memory.
const CHUNK: u64 = 4096;

pub(super) const CONTENDER: Contender = Contender {
    name: "tonic 0.14",
    cases: ALL,
    note: "only the client, on a runtime with one thread, with a timeout of 10 s; building the requests is not \
           counted, but encoding and sending them and reading the responses is; gzip has level 6, which cannot be \
           changed, and standpipe uses level 1",
    send,
};

fn send(order: &Order) -> Result<Spent, Error> {
    let request = ready::request(order.spans)?;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let endpoint = Endpoint::from_shared(order.endpoint.clone())?.timeout(Duration::from_secs(10));
    let mut client = TraceServiceClient::new(runtime.block_on(endpoint.connect())?);
    if order.is_compressed {
        client = client.send_compressed(CompressionEncoding::Gzip);
    }
    let (mut spent, mut left) = (Spent::default(), order.requests);
    while left > 0 {
        let count = left.min(CHUNK / order.spans);
        let requests: Vec<_> = (0..count).map(|_| request.clone()).collect();
        spent += Spent::on(|| {
            runtime.block_on(async {
                for request in requests {
                    client.export(request).await?;
                }
                Ok(())
            })
        })?;
        left -= count;
    }
    Ok(spent)
}
