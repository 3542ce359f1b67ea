//! gRPC connections go through a tunnel of the environment's proxy.
//!
//! Variables belong to the whole process, so each test exports from a child process with its own environment.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use standpipe::Exporter;
use standpipe::config::Proxy;
use standpipe::receiver::Receiver;

use super::export;
use crate::support::scene::LONG;
use crate::support::{process, tunnel};

const YES: &str = "HTTP/1.1 200 Connected\r\n\r\n";
/// Name of the test that runs again as a child.
const CHILD: &str = "a_span_goes_the_way_that_the_environment_says";

/// The task that the other tests run in a child process. When it runs as an ordinary test, it uses no proxy.
#[test]
fn a_span_goes_the_way_that_the_environment_says() {
    let Some(endpoint) = process::task() else {
        let receiver = Receiver::start().unwrap();
        let (ledger, _) = export(Exporter::grpc(receiver.grpc_endpoint()).proxy(Proxy::Off));
        assert_eq!(ledger.total().delivered, 1, "{ledger}");
        return;
    };
    let exporter = Exporter::grpc(endpoint).retry_delays(Duration::from_millis(1), Duration::from_millis(20));
    let (ledger, problems) = export(exporter);
    process::report(format!("delivered {}", ledger.total().delivered));
    problems.iter().for_each(process::report);
}

/// Exports one span through this proxy. Returns the child's reports.
fn export_through(proxy: &str) -> Vec<String> {
    let variables = [
        ("http_proxy", proxy),
        ("HTTP_PROXY", proxy),
        // The `REQUEST_METHOD` below counts as CGI, although it is empty. Under CGI, `HTTP_PROXY` is ignored (on
        // Windows, `http_proxy` too), so `ALL_PROXY` is set as well.
        ("all_proxy", proxy),
        ("ALL_PROXY", proxy),
        ("no_proxy", ""),
        ("NO_PROXY", ""),
        ("REQUEST_METHOD", ""),
    ];
    process::run_with(CHILD, "http://collector.invalid:4317", &variables)
}

/// Starts a proxy that gives each client the next of these answers. After an answer that accepts, the proxy forwards
/// the client to the server.
fn proxy(
    answers: impl IntoIterator<Item = &'static str>,
    server: SocketAddr,
) -> (SocketAddr, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = listener.local_addr().expect("a bound listener has an address");
    let (report, heads) = mpsc::channel();
    let answers: Vec<_> = answers.into_iter().collect();
    thread::spawn(move || {
        for (client, answer) in listener.incoming().flatten().zip(answers) {
            let report = report.clone();
            // An error ends the connection, which the client must handle.
            thread::spawn(move || serve(client, answer, server, &report));
        }
    });
    (address, heads)
}

fn serve(
    mut client: TcpStream,
    answer: &str,
    server: SocketAddr,
    heads: &mpsc::Sender<String>,
) -> io::Result<()> {
    let mut reader = BufReader::new(client.try_clone()?);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head)? > 0 {}
    let _ = heads.send(head);
    client.write_all(answer.as_bytes())?;
    if !answer.contains(" 200 ") {
        return Ok(());
    }
    tunnel::join(reader, server, b"")
}

#[test]
fn a_proxy_leads_to_the_server_whose_name_it_resolves() {
    let receiver = Receiver::start().unwrap();
    let (proxy, heads) = proxy([YES], receiver.grpc_address());
    assert_eq!(export_through(&format!("http://{proxy}")), ["delivered 1"]);
    let head = heads.recv_timeout(LONG).unwrap();
    assert_eq!(head, "CONNECT collector.invalid:4317 HTTP/1.1\r\nhost: collector.invalid:4317\r\n\r\n");
    assert_eq!(receiver.span_count(), 1);
    assert_eq!(receiver.requests()[0].header("host"), Some("collector.invalid:4317"));
}

#[test]
fn credentials_are_for_the_proxy_alone() {
    let receiver = Receiver::start().unwrap();
    let (proxy, heads) = proxy([YES], receiver.grpc_address());
    assert_eq!(export_through(&format!("http://ali:open-sesame@{proxy}")), ["delivered 1"]);
    let head = heads.recv_timeout(LONG).unwrap();
    assert!(head.contains("\r\nproxy-authorization: Basic YWxpOm9wZW4tc2VzYW1l\r\n"), "{head}");
    assert_eq!(receiver.requests()[0].header("proxy-authorization"), None);
}

#[test]
fn a_proxy_that_fails_is_named_without_its_words_and_asked_again() {
    let no = "HTTP/1.1 502 Not YWxpOnNlc2FtZQ==, sesame\n\n";
    let receiver = Receiver::start().unwrap();
    let (proxy, heads) = proxy([no, no, YES], receiver.grpc_address());
    let reports = export_through(&format!("http://ali:sesame@{proxy}"));
    assert_eq!(reports[0], "delivered 1", "it may change its mind");
    assert!(reports[1].ends_with(&format!(": proxy {proxy} (http_proxy): 502 Bad Gateway")), "{reports:?}");
    assert!(!reports.concat().contains("sesame") && !reports.concat().contains("YWxp"), "{reports:?}");
    assert_eq!(heads.try_iter().count(), 3);
}
