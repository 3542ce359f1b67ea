//! The environment's proxies are used as configured. `HTTP_PROXY` is ignored where a request can set it (CGI). No proxy
//! is used if the program disables proxies.
//!
//! Variables belong to the whole process, so each test exports from a child process with its own environment.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{env, thread};

use standpipe::config::Proxy;
use standpipe::probe::probe;
use standpipe::receiver::Receiver;
use standpipe::{Config, Exporter, Signal, Telemetry};

use crate::support::scene::closed_address;
use crate::support::tls::{TestCa, TlsFront};
use crate::support::{process, tunnel};

/// Longer than anything on loopback takes.
const PATIENCE: Duration = Duration::from_secs(20);
/// More than any test here needs.
const MAX_CONNECTIONS: usize = 16;
/// Variables with the task of a child.
const ENDPOINT: &str = "STANDPIPE_TEST_ENDPOINT";
const CA: &str = "STANDPIPE_TEST_CA";
const SWITCHED_OFF: &str = "STANDPIPE_TEST_PROXY_OFF";
const GIVES_UP_SOON: &str = "STANDPIPE_TEST_GIVES_UP_SOON";
const ONLY_ASKS: &str = "STANDPIPE_TEST_ONLY_ASKS";
const SPANS: &str = "STANDPIPE_TEST_SPANS";
const FROM_VARIABLE: &str = "STANDPIPE_TEST_FROM_VARIABLE";
const OVER_GRPC: &str = "STANDPIPE_TEST_OVER_GRPC";
const FLUSHES_BRIEFLY: &str = "STANDPIPE_TEST_FLUSHES_BRIEFLY";
/// Variables that must not be inherited from the environment of the tests.
const VARIABLES: [&str; 9] = [
    "HTTP_PROXY",
    "http_proxy",
    "HTTPS_PROXY",
    "https_proxy",
    "ALL_PROXY",
    "all_proxy",
    "NO_PROXY",
    "no_proxy",
    "REQUEST_METHOD",
];

/// The task that the other tests run in a child process. When it runs as an ordinary test, it exports to its
/// own receiver without a proxy.
#[test]
fn a_span_is_exported_as_the_environment_says() {
    let Ok(endpoint) = env::var(ENDPOINT) else {
        let receiver = Receiver::start().unwrap();
        assert!(export(Exporter::http(receiver.endpoint()).proxy(Proxy::Off)).starts_with("delivered"));
        return;
    };
    log::set_logger(&PrintedLog).unwrap();
    log::set_max_level(log::LevelFilter::Debug);
    let is_over_grpc = env::var(OVER_GRPC).is_ok();
    let mut exporter = if is_over_grpc { Exporter::grpc(endpoint) } else { Exporter::http(endpoint) };
    let (_, url) = exporter.endpoints().remove(0);
    let file = format!("[tracer.otel]\ntype = 'otel'\ntransport = 'http'\nendpoint = '{url}'\n");
    if let Ok(config) = Config::from_toml_str(&file) {
        config.diagnostics().iter().for_each(|diagnostic| println!("diagnostic: {diagnostic}"));
    }
    if env::var(FROM_VARIABLE).is_ok() {
        let file = file.replace(&url, &format!("%{{env:{ENDPOINT}}}%"));
        exporter = Config::from_toml_str(&file).expect("a sound tracer").exporters()[0].clone();
    }
    if let Ok(pem) = env::var(CA) {
        exporter = exporter.ca_pem(pem);
    }
    match env::var(SWITCHED_OFF).as_deref() {
        Ok("in a file") => exporter = switched_off_in_a_file(exporter),
        Ok(_) => exporter = exporter.proxy(Proxy::Off),
        Err(_) => {}
    }
    if env::var(GIVES_UP_SOON).is_ok() {
        exporter = exporter.give_up_after(Duration::from_millis(100));
    }
    if env::var(ONLY_ASKS).is_ok() {
        let asks_about_all = env::var(ONLY_ASKS).is_ok_and(|signals| signals == "all");
        let exporter = if asks_about_all { exporter } else { exporter.signals([Signal::Traces]) };
        let report = probe(&exporter, PATIENCE);
        println!("outcome: {}", report.to_string().trim_end().replace('\n', " / "));
        return;
    }
    println!("outcome: {}", export(exporter));
}

/// Returns the same exporter, read from a file that disables proxies.
fn switched_off_in_a_file(exporter: Exporter) -> Exporter {
    let (_, url) = exporter.endpoints().remove(0);
    let tracer =
        format!("[tracer.otel]\ntype = 'otel'\ntransport = 'http'\nendpoint = '{url}'\nproxy = 'off'\n");
    let config = Config::from_toml_str(&tracer).expect("a sound tracer");
    config.exporters()[0].clone()
}

/// Exports one span, or as many as the variable [`SPANS`] says. Returns the outcome.
fn export(exporter: Exporter) -> String {
    let exporter = exporter
        .header("x-tenant", "seven")
        .retry_delays(Duration::from_millis(1), Duration::from_millis(20));
    let config = Config::new()
        .service_name("shop")
        .exporter(exporter)
        .on_problem(|problem| println!("problem: {problem}"));
    println!("config: {config:?}");
    let telemetry = match Telemetry::start(config) {
        Ok(telemetry) => telemetry,
        Err(error) => return format!("not started: {error}"),
    };
    println!("telemetry: {telemetry:?}");
    let spans: u64 = env::var(SPANS).map_or(1, |spans| spans.parse().expect("a number"));
    let flushes_briefly = env::var(FLUSHES_BRIEFLY).is_ok();
    for _ in 0..spans {
        telemetry.tracer("shop").span("checkout").end();
        if flushes_briefly {
            telemetry.logger("shop").info("paid").emit();
        }
        let _ = telemetry.flush(if flushes_briefly { Duration::from_millis(50) } else { PATIENCE });
    }
    let ledger = telemetry.shutdown(PATIENCE);
    if ledger.total().delivered == spans { "delivered".to_owned() } else { ledger.to_string() }
}

/// A logger that prints its records, so that the parent can search them.
struct PrintedLog;

impl log::Log for PrintedLog {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        println!("log: {}", record.args());
    }

    fn flush(&self) {}
}

/// Exports from a child process. Returns the outcome and the output of the child.
fn export_in_child(endpoint: &str, environment: &[(&str, &str)]) -> (String, String) {
    let mut child = process::command("a_span_is_exported_as_the_environment_says", "export");
    for name in VARIABLES {
        child.env_remove(name);
    }
    child.env(ENDPOINT, endpoint).envs(environment.iter().copied());
    let output = child.output().expect("a test can be run again");
    let printed =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{printed}");
    let outcome = printed.split_once("outcome: ").and_then(|(_, rest)| rest.lines().next());
    (outcome.unwrap_or_else(|| panic!("no outcome: {printed}")).to_owned(), printed)
}

/// An HTTP proxy that forwards every tunnel and every request to one server, whatever the client requested, and notes
/// the requests.
struct TinyProxy {
    address: SocketAddr,
    /// The heads of all requests.
    heads: Arc<Mutex<Vec<String>>>,
}

impl TinyProxy {
    /// Starts a proxy that runs until the process ends.
    fn start(server: SocketAddr) -> Self {
        Self::listen(move |client, heads| serve(client, server, heads))
    }

    /// A proxy that answers every request with this status line.
    fn refusing(status: &'static str) -> Self {
        Self::listen(move |mut client, heads| {
            let mut reader = BufReader::new(client.try_clone()?);
            read_head(&mut reader, heads)?;
            write!(client, "{status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")?;
            client.shutdown(Shutdown::Write)?;
            // If a socket is closed before all input is read, the answer may be lost.
            io::copy(&mut reader, &mut io::sink()).map(drop)
        })
    }

    fn listen(
        serve: impl Fn(TcpStream, &Mutex<Vec<String>>) -> io::Result<()> + Clone + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener.local_addr().expect("a bound listener has an address");
        let heads = Arc::new(Mutex::new(Vec::new()));
        thread::spawn({
            let heads = Arc::clone(&heads);
            move || {
                for client in listener.incoming().take(MAX_CONNECTIONS).flatten() {
                    let (serve, heads) = (serve.clone(), Arc::clone(&heads));
                    // An error ends the connection, which the client must handle.
                    thread::spawn(move || serve(client, &heads));
                }
            }
        });
        Self { address, heads }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn heads(&self) -> Vec<String> {
        self.heads.lock().expect("nobody panics with it").clone()
    }
}

/// Reads the head of a request and notes it.
fn read_head(reader: &mut BufReader<TcpStream>, heads: &Mutex<Vec<String>>) -> io::Result<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") && head.len() < 16 << 10 {
        if reader.read_line(&mut head)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    heads.lock().expect("nobody panics with it").push(head.clone());
    Ok(head)
}

fn serve(mut client: TcpStream, server: SocketAddr, heads: &Mutex<Vec<String>>) -> io::Result<()> {
    let mut reader = BufReader::new(client.try_clone()?);
    let head = read_head(&mut reader, heads)?;
    if head.starts_with("CONNECT ") {
        client.write_all(b"HTTP/1.1 200 Connected\r\n\r\n")?;
        return tunnel::join(reader, server, b"");
    }
    if !head.starts_with("POST http://") {
        return client.write_all(b"HTTP/1.1 405 Method Not Allowed\r\ncontent-length: 0\r\n\r\n");
    }
    // A proxy does not forward headers that are meant for itself.
    let sent_on: String =
        head.split_inclusive('\n').filter(|line| !line.to_ascii_lowercase().starts_with("proxy-")).collect();
    tunnel::join(reader, server, sent_on.as_bytes())
}

/// A receiver, and a proxy that forwards to it.
fn receiver_behind_proxy() -> (Receiver, TinyProxy) {
    let receiver = Receiver::start().expect("loopback has a free port");
    let proxy = TinyProxy::start(receiver.address());
    (receiver, proxy)
}

#[test]
fn http_proxy_is_obeyed_and_resolves_the_name() {
    for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
        let (receiver, proxy) = receiver_behind_proxy();
        let (outcome, printed) = export_in_child("http://collector.invalid:4318", &[(name, &proxy.url())]);
        assert_eq!(outcome, "delivered", "{name}: {printed}");
        let heads = proxy.heads();
        assert_eq!(heads.len(), 1, "{name}: {heads:?}");
        assert_eq!(receiver.span_count(), 1, "{name}");
        assert_eq!(receiver.requests()[0].header("x-tenant"), Some("seven"), "{name}");
    }
}

/// A tunnel would often fail, because most proxies open tunnels only to port 443.
#[test]
fn plain_http_is_posted_to_the_proxy_in_absolute_form() {
    for (endpoint, line, host) in [
        (
            "http://collector.test:4318",
            "POST http://collector.test:4318/v1/traces HTTP/1.1",
            "collector.test:4318",
        ),
        ("http://collector.test", "POST http://collector.test/v1/traces HTTP/1.1", "collector.test"),
        (
            "http://collector.test:4318/otlp?key=s3cret-of-the-query",
            "POST http://collector.test:4318/otlp/v1/traces?key=s3cret-of-the-query HTTP/1.1",
            "collector.test:4318",
        ),
    ] {
        let (receiver, proxy) = receiver_behind_proxy();
        let url = format!("http://shop:hunter2@{}", proxy.address);
        let (outcome, printed) = export_in_child(endpoint, &[("HTTP_PROXY", &url)]);
        assert!(outcome == "delivered" || endpoint.contains("otlp"), "{outcome}: {printed}");
        let heads = proxy.heads();
        let lines: Vec<&str> = heads[0].lines().collect();
        assert_eq!(lines[0], line, "{printed}");
        assert!(lines.contains(&"proxy-authorization: Basic c2hvcDpodW50ZXIy"), "{lines:?}");
        let hosts: Vec<_> =
            lines.iter().filter(|line| line.to_ascii_lowercase().starts_with("host:")).collect();
        assert!(hosts.len() == 1 && hosts[0].ends_with(&format!(" {host}")), "{hosts:?}");
        let seen = &receiver.requests()[0];
        assert_eq!(seen.header("x-tenant"), Some("seven"));
        assert!(!printed.contains("s3cret") && !printed.contains("hunter2"), "{printed}");
    }
}

#[test]
fn a_proxy_over_tls_is_given_plain_http_in_absolute_form() {
    let (ca, receiver) = (TestCa::new(), Receiver::start().unwrap());
    let proxy = TinyProxy::start(receiver.address());
    let front = TlsFront::start(&ca.leaf("localhost"), proxy.address);
    let environment = [("HTTP_PROXY", front.url()), (CA, ca.pem())];
    let environment = environment.each_ref().map(|(name, value)| (*name, value.as_str()));
    let (outcome, printed) = export_in_child("http://collector.test:4318", &environment);
    assert_eq!(outcome, "delivered", "{printed}");
    assert!(
        proxy.heads()[0].starts_with("POST http://collector.test:4318/v1/traces "),
        "{:?}",
        proxy.heads()
    );
}

#[test]
fn grpc_and_https_go_through_a_tunnel_of_a_proxy_over_tls() {
    let (ca, receiver) = (TestCa::new(), Receiver::start().unwrap());
    let identity = ca.leaf("collector.test");
    let http2 = TlsFront::offering("h2", &identity, receiver.grpc_address());
    let http1 = TlsFront::start(&identity, receiver.address());
    for (is_grpc, endpoint, variable, server) in [
        (true, "http://collector.test:4317", "HTTP_PROXY", receiver.grpc_address()),
        (true, "https://collector.test:4317", "HTTPS_PROXY", http2.address()),
        (false, "https://collector.test:4317", "HTTPS_PROXY", http1.address()),
    ] {
        let proxy = TinyProxy::start(server);
        let proxy_front = TlsFront::start(&ca.leaf("localhost"), proxy.address);
        let (url, ca) = (proxy_front.url().replace("//", "//shop:hunter2@"), ca.pem());
        let mut environment = vec![(variable, &*url), (CA, &*ca)];
        environment.extend(is_grpc.then_some((OVER_GRPC, "yes")));
        let (outcome, printed) = export_in_child(endpoint, &environment);
        assert_eq!(outcome, "delivered", "{endpoint}: {printed}");
        let head = proxy.heads().remove(0);
        assert!(head.starts_with("CONNECT collector.test:4317 "), "{head}");
        assert!(head.contains("\r\nproxy-authorization: Basic c2hvcDpodW50ZXIy\r\n"), "{head}");
        assert!(!printed.contains("hunter2"), "{printed}");
    }
}

#[test]
fn a_proxy_over_tls_that_is_not_trusted_is_named_and_gets_no_password() {
    let (ca, receiver) = (TestCa::new(), Receiver::start().unwrap());
    for (is_grpc, endpoint, variable) in [
        (false, "http://collector.test:4318", "HTTP_PROXY"),
        (false, "https://collector.test:4318", "HTTPS_PROXY"),
        (true, "http://collector.test:4317", "HTTP_PROXY"),
    ] {
        let proxy = TinyProxy::start(receiver.address());
        let front = TlsFront::start(&TestCa::new().leaf("localhost"), proxy.address);
        let (url, ca) = (front.url().replace("//", "//shop:hunter2@"), ca.pem());
        let mut environment = vec![(variable, &*url), (CA, &*ca)];
        environment.extend(is_grpc.then_some((OVER_GRPC, "yes")));
        let (outcome, printed) = export_in_child(endpoint, &environment);
        assert!(outcome.contains("refused"), "{outcome}: {printed}");
        let words = format!("proxy localhost:{} ({variable}): tls: the server's certificate", front.port());
        assert!(printed.contains(&words), "{printed}");
        assert!(proxy.heads().is_empty() && !printed.contains("hunter2"), "{printed}");
    }
}

/// Every request on a kept connection has the form that the proxy needs, and no body is changed.
#[test]
fn a_connection_to_the_proxy_is_kept() {
    let (receiver, proxy) = receiver_behind_proxy();
    let environment = [("HTTP_PROXY", proxy.url()), (SPANS, "3".to_owned())];
    let environment = environment.each_ref().map(|(name, value)| (*name, value.as_str()));
    let (outcome, printed) = export_in_child("http://collector.test:4318", &environment);
    assert_eq!(outcome, "delivered", "{printed}");
    let requests = receiver.requests();
    let seen: Vec<_> = requests.iter().map(|request| (request.connection, request.path.as_str())).collect();
    assert_eq!(seen, [(1, "http://collector.test:4318/v1/traces"); 3]);
    assert_eq!(receiver.span_count(), 3);
    assert!(receiver.spans().iter().all(|span| span.span.name == "checkout"));
}

/// Accounts are locked after a few attempts with a wrong password, so ten flushes and a shutdown must make only one.
#[test]
fn sends_a_password_once_to_a_proxy_that_refuses_it() {
    let wrong_password = "HTTP/1.1 407 Proxy Authentication Required";
    let forbidden = "HTTP/1.1 403 Forbidden";
    for (endpoint, is_over_grpc, variable, status, advice) in [
        ("http://collector.test:4318", false, "HTTP_PROXY", wrong_password, "password in HTTP_PROXY"),
        ("https://collector.test", false, "HTTPS_PROXY", wrong_password, "password in HTTPS_PROXY"),
        ("https://collector.test", false, "ALL_PROXY", forbidden, "the proxy in ALL_PROXY"),
        ("http://collector.test:4317", true, "HTTP_PROXY", wrong_password, "password in HTTP_PROXY"),
        ("https://collector.test:4317", true, "HTTPS_PROXY", forbidden, "the proxy in HTTPS_PROXY"),
    ] {
        let proxy = TinyProxy::refusing(status);
        let url = format!("http://shop:hunter2@{}", proxy.address);
        let mut environment = vec![(variable, url.as_str()), (SPANS, "10"), (FLUSHES_BRIEFLY, "yes")];
        environment.extend(is_over_grpc.then_some((OVER_GRPC, "yes")));
        let (outcome, printed) = export_in_child(endpoint, &environment);
        assert_eq!(proxy.heads().len(), 1, "{variable} {status}: {:?}: {printed}", proxy.heads());
        assert!(proxy.heads()[0].contains(": Basic c2hvcDpodW50ZXIy\r\n"), "{:?}", proxy.heads());
        assert!(outcome.contains("shutdown"), "{outcome}: {printed}");
        let problems: Vec<_> = printed.lines().filter(|line| line.starts_with("problem: ")).collect();
        assert!(problems[0].contains(&status[9..]) && problems[0].contains(advice), "{problems:?}");
        assert!(problems[0].ends_with("nothing is sent for 60 s"), "{problems:?}");
        assert!(!printed.contains("hunter2") && !printed.contains("c2hvcDpodW50ZXIy"), "{printed}");
    }
}

/// A proxy may end lines with a bare line feed. It may repeat the password, so the error does not quote its answer.
#[test]
fn a_refusal_over_grpc_with_bare_line_feeds_is_understood_and_not_quoted() {
    let proxy = TinyProxy::refusing("HTTP/1.0 407 hunter2\nproxy-authenticate: Basic realm=hunter2\n\n");
    let url = format!("http://shop:hunter2@{}", proxy.address);
    let environment = [("HTTP_PROXY", url.as_str()), (OVER_GRPC, "yes"), (FLUSHES_BRIEFLY, "yes")];
    let (_, printed) = export_in_child("http://collector.test:4317", &environment);
    let refusal = format!(
        "proxy {} (HTTP_PROXY): 407 Proxy Authentication Required; the proxy refused the user and password in HTTP_PROXY",
        proxy.address
    );
    assert!(printed.contains(&refusal), "{printed}");
    assert!(!printed.contains("hunter2"), "{printed}");
    assert_eq!(proxy.heads().len(), 1);
}

/// The proxy is asked only once. Over HTTP, its refusal is reported for the URL of each of the three signals.
#[test]
fn a_probe_sends_a_password_once_to_a_proxy_that_refuses_it() {
    for (endpoint, variable, is_over_grpc) in [
        ("http://collector.test:4318", "HTTP_PROXY", false),
        ("https://collector.test", "HTTPS_PROXY", false),
        ("https://collector.test:4317", "HTTPS_PROXY", true),
    ] {
        let proxy = TinyProxy::refusing("HTTP/1.1 407 Proxy Authentication Required");
        let url = format!("http://shop:hunter2@{}", proxy.address);
        let mut environment = vec![(ONLY_ASKS, "all"), (variable, url.as_str())];
        environment.extend(is_over_grpc.then_some((OVER_GRPC, "yes")));
        let (outcome, printed) = export_in_child(endpoint, &environment);
        assert_eq!(proxy.heads().len(), 1, "{endpoint}: {printed}");
        let refusal = format!(
            "407 Proxy Authentication Required; the proxy refused the user and password in {variable}"
        );
        let reported = outcome.matches(&refusal).count();
        assert_eq!(reported, if is_over_grpc { 1 } else { 3 }, "{endpoint}: {outcome}");
    }
}

#[test]
fn a_proxy_that_is_down_is_named_with_its_variable() {
    let gone = closed_address();
    let url = format!("http://shop:hunter2@{gone}");
    for (endpoint, variable, is_over_grpc) in [
        ("http://collector.test:4318", "HTTP_PROXY", false),
        ("https://collector.test", "ALL_PROXY", false),
        ("http://collector.test:4317", "HTTP_PROXY", true),
    ] {
        let mut environment = vec![(variable, url.as_str()), (GIVES_UP_SOON, "yes")];
        environment.extend(is_over_grpc.then_some((OVER_GRPC, "yes")));
        let (_, printed) = export_in_child(endpoint, &environment);
        let problem = format!(": proxy {gone} ({variable}): connection refused");
        assert!(
            printed.lines().any(|line| line.starts_with("problem: ") && line.contains(&problem)),
            "{printed}"
        );
        assert!(!printed.contains("hunter2"), "{printed}");
    }
}

#[test]
fn a_proxy_that_opens_no_tunnel_is_quoted_with_the_name_of_its_status() {
    // For this server, `CONNECT` is a request for an unknown path.
    let proxy = Receiver::start().unwrap();
    let environment = [(ONLY_ASKS, "yes"), ("HTTPS_PROXY", &proxy.endpoint())];
    let (outcome, printed) = export_in_child("https://collector.test", &environment);
    assert!(outcome.contains("404 Not Found") && !outcome.contains("404/404"), "{printed}");
}

#[cfg(target_os = "linux")]
#[test]
fn hosts_that_no_proxy_names_are_reached_directly() {
    for no_proxy in ["10.0.0.0/8 collector.test", "a.example:80,collector.test:{port}", "x, .test"] {
        let (receiver, proxy) = receiver_behind_proxy();
        let port = receiver.address().port().to_string();
        let no_proxy = no_proxy.replace("{port}", &port);
        let environment = [("HTTP_PROXY", proxy.url()), ("NO_PROXY", no_proxy.clone())];
        let environment = environment.each_ref().map(|(name, value)| (*name, value.as_str()));
        let (outcome, printed) = export_in_child(&format!("http://collector.test:{port}"), &environment);
        assert_eq!(outcome, "delivered", "{no_proxy}: {printed}");
        assert_eq!(proxy.heads(), [""; 0], "{no_proxy}: the proxy was asked");
        assert_eq!(receiver.span_count(), 1, "{no_proxy}");
    }
}

/// Returns whether `text` contains `name`: the name of a variable, alone or in a message. On Windows, names of
/// variables are not case-sensitive, and the library looks up the lower-case name first, so case is ignored there.
fn names(text: &str, name: &str) -> bool {
    text.contains(name) || cfg!(windows) && text.to_ascii_uppercase().contains(&name.to_ascii_uppercase())
}

#[test]
fn loopback_is_reached_directly_whatever_the_proxy() {
    for host in ["127.0.0.1", "localhost"] {
        let (receiver, proxy) = receiver_behind_proxy();
        let endpoint = format!("http://{host}:{}", receiver.address().port());
        let (outcome, printed) = export_in_child(&endpoint, &[("ALL_PROXY", &proxy.url())]);
        assert_eq!(outcome, "delivered", "{host}: {printed}");
        assert_eq!(proxy.heads(), [""; 0], "{host}: the proxy was asked");
        assert_eq!(receiver.span_count(), 1, "{host}");
    }
}

#[test]
fn an_entry_of_no_proxy_that_means_nothing_is_found() {
    let (_receiver, proxy) = receiver_behind_proxy();
    let environment = [("HTTP_PROXY", proxy.url()), ("NO_PROXY", "10.0.0.0/33,user:hunter2@a".to_owned())];
    let environment = environment.each_ref().map(|(name, value)| (*name, value.as_str()));
    let (outcome, printed) = export_in_child("http://collector.test:4318", &environment);
    assert_eq!(outcome, "delivered", "{printed}");
    assert!(
        names(&printed, "diagnostic: warning: NO_PROXY: entry 1, \"10.0.0.0/33\", is not a host"),
        "{printed}"
    );
    assert!(names(&printed, "diagnostic: warning: NO_PROXY: entry 2 is not a host"), "{printed}");
    assert!(!printed.contains("hunter2"), "{printed}");
}

#[cfg(target_os = "linux")]
#[test]
fn http_proxy_is_ignored_where_a_request_can_set_it() {
    for method in ["GET", "POST", ""] {
        let (receiver, attacker) = receiver_behind_proxy();
        let environment = [("HTTP_PROXY", attacker.url()), ("REQUEST_METHOD", method.to_owned())];
        let environment = environment.each_ref().map(|(name, value)| (*name, value.as_str()));
        let endpoint = format!("http://collector.test:{}", receiver.address().port());
        let (outcome, printed) = export_in_child(&endpoint, &environment);
        assert_eq!(outcome, "delivered", "{method:?}: {printed}");
        assert_eq!(attacker.heads(), [""; 0], "{method:?}: the attacker was asked");
        assert_eq!(receiver.span_count(), 1);
    }
}

/// Under CGI, the headers of a request become variables in upper case, so the lower-case variable can be trusted,
/// except on Windows, which does not distinguish the two.
#[cfg(not(windows))]
#[test]
fn the_variable_in_small_letters_is_obeyed_even_there() {
    let (_receiver, proxy) = receiver_behind_proxy();
    let environment = [("http_proxy", proxy.url()), ("REQUEST_METHOD", "GET".to_owned())];
    let environment = environment.each_ref().map(|(name, value)| (*name, value.as_str()));
    let (outcome, printed) = export_in_child("http://collector.invalid:4318", &environment);
    assert_eq!(outcome, "delivered", "{printed}");
    assert_eq!(proxy.heads().len(), 1);
}

#[cfg(target_os = "linux")]
#[test]
fn proxies_that_are_switched_off_are_not_used() {
    for place in ["in code", "in a file"] {
        let (receiver, proxy) = receiver_behind_proxy();
        let url = proxy.url();
        let mut environment: Vec<(&str, &str)> =
            VARIABLES[..6].iter().map(|name| (*name, url.as_str())).collect();
        environment.push((SWITCHED_OFF, place));
        let endpoint = format!("http://collector.test:{}", receiver.address().port());
        let (outcome, printed) = export_in_child(&endpoint, &environment);
        assert_eq!(outcome, "delivered", "{place}: {printed}");
        assert_eq!(proxy.heads(), [""; 0], "{place}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn no_proxy_is_respected() {
    for (name, exceptions) in
        [("NO_PROXY", "collector.test"), ("no_proxy", "elsewhere.invalid, collector.test"), ("NO_PROXY", "*")]
    {
        let (receiver, proxy) = receiver_behind_proxy();
        let endpoint = format!("http://collector.test:{}", receiver.address().port());
        let (outcome, printed) =
            export_in_child(&endpoint, &[("HTTP_PROXY", &proxy.url()), (name, exceptions)]);
        assert_eq!(outcome, "delivered", "{exceptions}: {printed}");
        assert_eq!(proxy.heads(), [""; 0], "{exceptions}: the proxy was asked");
        assert_eq!(receiver.span_count(), 1);
    }
}

#[test]
fn hosts_that_no_proxy_does_not_name_go_through_the_proxy() {
    let (receiver, proxy) = receiver_behind_proxy();
    let environment = [("HTTP_PROXY", proxy.url()), ("NO_PROXY", "elsewhere.invalid,192.0.2.11".to_owned())];
    let environment = environment.each_ref().map(|(name, value)| (*name, value.as_str()));
    let (outcome, printed) = export_in_child("http://192.0.2.1:4318", &environment);
    assert_eq!(outcome, "delivered", "{printed}");
    assert!(proxy.heads()[0].starts_with("POST http://192.0.2.1:4318/"), "{:?}", proxy.heads());
    assert_eq!(receiver.span_count(), 1);
}

#[test]
fn https_goes_through_its_own_proxy_and_is_verified_from_end_to_end() {
    let (ca, receiver) = (TestCa::new(), Receiver::start().unwrap());
    let front = TlsFront::start(&ca.leaf("collector.invalid"), receiver.address());
    let (plain, secure) = (TinyProxy::start(receiver.address()), TinyProxy::start(front.address()));
    let environment = [("HTTP_PROXY", plain.url()), ("HTTPS_PROXY", secure.url()), (CA, ca.pem())];
    let environment = environment.each_ref().map(|(name, value)| (*name, value.as_str()));
    let (outcome, printed) = export_in_child("https://collector.invalid", &environment);
    assert_eq!(outcome, "delivered", "{printed}");
    assert_eq!(plain.heads(), [""; 0]);
    assert!(secure.heads()[0].starts_with("CONNECT collector.invalid:443 "), "{:?}", secure.heads());

    let impostor = TlsFront::start(&ca.leaf("elsewhere.invalid"), receiver.address());
    let misled = TinyProxy::start(impostor.address());
    let (outcome, printed) =
        export_in_child("https://collector.invalid", &[("HTTPS_PROXY", &misled.url()), (CA, &ca.pem())]);
    assert!(outcome.contains("refused"), "{outcome}: {printed}");
    assert!(printed.contains("not valid for host collector.invalid"), "{printed}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_server_whose_name_is_not_to_be_shown_is_reached_by_it() {
    let (ca, receiver) = (TestCa::new(), Receiver::start().unwrap());
    let front = TlsFront::start(&ca.leaf("hidden.test"), receiver.address());
    let (secure, plain) = (TinyProxy::start(front.address()), TinyProxy::start(receiver.address()));
    let (pem, secure_url, plain_url) = (ca.pem(), secure.url(), plain.url());
    let common = [(FROM_VARIABLE, "yes"), (CA, pem.as_str())];
    for (endpoint, proxy) in [
        (format!("https://hidden.test:{}", front.address().port()), None),
        ("https://hidden.test:4318".to_owned(), Some(("HTTPS_PROXY", secure_url.as_str()))),
        ("http://hidden.test:4318".to_owned(), Some(("HTTP_PROXY", plain_url.as_str()))),
        ("hidden.test".to_owned(), Some(("HTTP_PROXY", plain_url.as_str()))),
    ] {
        let environment: Vec<_> = common.into_iter().chain(proxy).collect();
        let (outcome, printed) = export_in_child(&endpoint, &environment);
        assert_eq!(outcome, "delivered", "{endpoint}: {printed}");
        // ureq logs the host at `debug`; standpipe shows it nowhere.
        let shown = printed.lines().filter(|line| !line.starts_with("log: ") && line.contains("hidden.test"));
        assert_eq!(shown.count(), 0, "{printed}");
    }
    assert!(secure.heads()[0].starts_with("CONNECT hidden.test:4318 "), "{:?}", secure.heads());
    for head in plain.heads() {
        assert!(head.starts_with("POST http://hidden.test:4318/v1/traces "), "{head}");
        assert!(head.contains("\r\nhost: hidden.test:4318\r\n"), "{head}");
    }
    assert_eq!((plain.heads().len(), receiver.span_count()), (2, 4));
}

#[test]
fn a_proxys_password_reaches_the_proxy_and_is_shown_nowhere() {
    const PASSWORD: &str = "Wq7ZkR4vXt9N";
    const ENCODED: &str = "c2hvcDpXcTdaa1I0dlh0OU4=";
    let (_receiver, proxy) = receiver_behind_proxy();
    let url = format!("http://shop:{PASSWORD}@{}", proxy.address);
    let (outcome, printed) = export_in_child("http://collector.invalid:4318", &[("HTTP_PROXY", &url)]);
    assert_eq!(outcome, "delivered", "{printed}");
    assert!(
        proxy.heads()[0].contains(&format!("proxy-authorization: Basic {ENCODED}\r\n")),
        "{:?}",
        proxy.heads()
    );
    assert!(printed.contains("log: "), "the child does not log any more");
    for secret in [PASSWORD, &ENCODED[8..20]] {
        assert!(!printed.contains(secret), "{printed}");
    }
}

#[test]
fn a_proxy_that_is_down_is_not_bypassed() {
    let receiver = Receiver::start().unwrap();
    let environment = [("HTTP_PROXY", "http://127.0.0.1:1"), (GIVES_UP_SOON, "1")];
    let endpoint = format!("http://collector.test:{}", receiver.address().port());
    let (outcome, printed) = export_in_child(&endpoint, &environment);
    assert!(outcome.contains("0 delivered"), "{outcome}: {printed}");
    assert_eq!(receiver.connection_count(), 0);
}

#[test]
fn a_proxy_that_cannot_be_used_is_an_error_at_start_and_is_not_bypassed() {
    let receiver = Receiver::start().unwrap();
    for address in ["socks5://shop:hunter2@127.0.0.1:1080", "http://", "gopher://hunter2@127.0.0.1"] {
        let endpoint = format!("http://collector.test:{}", receiver.address().port());
        let (outcome, printed) = export_in_child(&endpoint, &[("ALL_PROXY", address)]);
        assert!(outcome.starts_with("not started") && names(&outcome, "ALL_PROXY"), "{printed}");
        assert!(!printed.contains("hunter2"), "{printed}");
    }
    assert_eq!(receiver.connection_count(), 0);
}

#[test]
fn a_probe_goes_by_way_of_the_proxy_and_says_so() {
    let (receiver, proxy) = receiver_behind_proxy();
    let environment = [(ONLY_ASKS, "yes"), ("HTTP_PROXY", &proxy.url())];
    let (outcome, printed) = export_in_child("http://collector.invalid:4318", &environment);
    let at = "exporter otlp: http://collector.invalid:4318/v1/traces: ";
    let address = proxy.address;
    assert_eq!(
        outcome,
        format!(
            "{at}resolve: proxy {address} / {at}connect: by way of the proxy {address} / {at}export: 200 OK"
        ),
        "{printed}"
    );
    assert_eq!((receiver.request_count(), receiver.span_count()), (1, 0));
}

#[test]
fn a_probe_over_grpc_goes_by_way_of_the_proxy_and_calls_through_it() {
    let receiver = Receiver::start().unwrap();
    let proxy = TinyProxy::start(receiver.grpc_address());
    let environment = [(ONLY_ASKS, "yes"), (OVER_GRPC, "yes"), ("HTTP_PROXY", &proxy.url())];
    let (outcome, printed) = export_in_child("http://collector.invalid:4317", &environment);
    let at = "exporter otlp: http://collector.invalid:4317: ";
    let address = proxy.address;
    assert_eq!(
        outcome,
        format!(
            "{at}resolve: proxy {address} / {at}connect: by way of the proxy {address} / \
             {at}http/2: speaks HTTP/2 / {at}export: OK"
        ),
        "{printed}"
    );
    assert_eq!((receiver.request_count(), receiver.span_count(), proxy.heads().len()), (1, 0, 1));

    let misled = TinyProxy::start(receiver.address());
    let environment = [(ONLY_ASKS, "yes"), (OVER_GRPC, "yes"), ("HTTP_PROXY", &misled.url())];
    let (outcome, printed) = export_in_child("http://collector.invalid:4317", &environment);
    assert!(outcome.contains("http/2: failed: this port speaks HTTP/1"), "{printed}");
}

#[test]
fn a_probe_over_grpc_goes_through_a_proxy_to_tls() {
    let (ca, receiver) = (TestCa::new(), Receiver::start().unwrap());
    let front = TlsFront::offering("h2", &ca.leaf("collector.test"), receiver.grpc_address());
    let proxy = TinyProxy::start(front.address());
    let environment =
        [(ONLY_ASKS, "yes"), (OVER_GRPC, "yes"), ("HTTPS_PROXY", &proxy.url()), (CA, &ca.pem())];
    let (outcome, printed) = export_in_child("https://collector.test", &environment);
    assert!(outcome.contains("tls: TLS 1.3, certificate of \"standpipe test server\""), "{printed}");
    assert!(
        outcome.ends_with("http/2: speaks HTTP/2 / exporter otlp: https://collector.test:443: export: OK"),
        "{printed}"
    );
    let unconcerned = TlsFront::start(&ca.leaf("collector.test"), receiver.grpc_address());
    let proxy = TinyProxy::start(unconcerned.address());
    let environment =
        [(ONLY_ASKS, "yes"), (OVER_GRPC, "yes"), ("HTTPS_PROXY", &proxy.url()), (CA, &ca.pem())];
    let (outcome, printed) = export_in_child("https://collector.test", &environment);
    assert!(outcome.contains("http/2: failed: the server offers no HTTP/2"), "{printed}");
}

#[test]
fn a_probe_goes_through_a_proxy_to_tls_and_sees_what_is_wrong_behind_it() {
    let (ca, receiver) = (TestCa::new(), Receiver::start().unwrap());
    let front = TlsFront::start(&ca.leaf("collector.test"), receiver.address());
    let proxy = TinyProxy::start(front.address());
    let environment = [(ONLY_ASKS, "yes"), ("HTTPS_PROXY", &proxy.url()), (CA, &ca.pem())];
    let (outcome, printed) = export_in_child("https://collector.test", &environment);
    assert!(outcome.contains("tls: TLS 1.3, certificate of \"standpipe test server\""), "{printed}");
    assert!(outcome.ends_with("https://collector.test/v1/traces: export: 200 OK"), "{printed}");
    let (outcome, printed) = export_in_child("https://elsewhere.test", &environment);
    let why =
        "tls: failed: the server's certificate is not valid for host elsewhere.test, only for collector.test";
    assert!(outcome.contains(why), "{printed}");
}

#[test]
fn a_probe_tells_of_a_proxy_that_is_not_there_or_not_willing_without_its_password() {
    let gone = closed_address();
    let unwilling = Receiver::start().unwrap();
    for (address, why) in [
        (gone, format!("connect: failed: connection refused by the proxy {gone}; is the proxy running?")),
        (
            unwilling.address(),
            format!("connect: failed: the proxy {} does not connect to the collector: ", unwilling.address()),
        ),
    ] {
        let url = format!("http://shop:hunter2-the-second@{address}");
        let environment = [(ONLY_ASKS, "yes"), ("ALL_PROXY", url.as_str())];
        let (outcome, printed) = export_in_child("https://collector.invalid:4318", &environment);
        assert!(outcome.contains(&why), "{printed}");
        assert!(!outcome.contains("hunter2"), "{printed}");
    }
}
