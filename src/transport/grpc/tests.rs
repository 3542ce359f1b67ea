use std::io::ErrorKind;
use std::net::TcpListener;
use std::time::Duration;

use super::*;
use crate::config::Exporter;

#[test]
fn debug_shows_no_header_value() {
    let exporter = Exporter::grpc("http://127.0.0.1:4317").header("authorization", "Bearer hunter2");
    let plan = GrpcPlan::new(&exporter.connection).unwrap();
    assert!(!format!("{plan:?}").contains("hunter2"));
}

#[test]
fn after_an_interruption_nobody_is_connected_to() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let exporter =
        Exporter::grpc(listener.local_addr().unwrap().to_string()).proxy(crate::config::Proxy::Off);
    let mut transport = GrpcPlan::new(&exporter.connection).unwrap().open();
    transport.interrupter()();
    let payload = Payload { signal: Signal::Traces, body: &[] };
    let verdict = transport.send(&payload, Instant::now() + Duration::from_secs(20));
    assert!(matches!(verdict, Verdict::TryLater { .. }), "{verdict:?}");
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
}
