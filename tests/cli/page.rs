//! `receive --page`: the answers of the page's server, and refused requests. `tests/page/run` tests the page in a
//! browser.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::Value;
use standpipe::config::Proxy;
use standpipe::receiver::Records;
use standpipe::{Config, Exporter, Status, Telemetry};

use crate::support::command::{run, standpipe, stderr};

const PATIENCE: Duration = Duration::from_secs(20);

/// A running `receive --page`; its process ends when this value is dropped.
struct Page {
    process: Child,
    endpoint: String,
    /// Host and port.
    address: String,
}

impl Page {
    fn start() -> Self {
        let options = ["receive", "--address", "127.0.0.1:0", "--page-address", "127.0.0.1:0"];
        let mut process = standpipe(&options).stdout(Stdio::piped()).spawn().unwrap();
        let mut greeting = BufReader::new(process.stdout.take().unwrap());
        let mut url = || {
            let mut line = String::new();
            greeting.read_line(&mut line).unwrap();
            line.split_whitespace().find(|word| word.starts_with("http://")).expect(&line).to_owned()
        };
        let (endpoint, _grpc, page) = (url(), url(), url());
        let address =
            page.strip_prefix("http://").and_then(|rest| rest.strip_suffix('/')).unwrap().to_owned();
        // The rest of the output is discarded, so that a full pipe does not block the command.
        std::thread::spawn(move || std::io::copy(&mut greeting, &mut std::io::sink()));
        Self { process, endpoint, address }
    }

    /// Sends a trace of two spans, one of them with an error, a log record and a counter. Returns the trace id.
    fn send_a_trace(&self) -> String {
        let exporter = Exporter::http(&self.endpoint).proxy(Proxy::Off);
        let telemetry = Telemetry::start(Config::new().service_name("shop").exporter(exporter)).unwrap();
        let tracer = telemetry.tracer("shop");
        let mut checkout = tracer.span("checkout");
        checkout.set("http.route", "/checkout").set("html", "<script>alert(1)</script>");
        let id = checkout.context().trace_id().to_string();
        telemetry.logger("shop").warn("running low").emit();
        tracer.span("payment").status(Status::Error("card declined"));
        checkout.end();
        telemetry.meter("shop").counter("orders").add(3, &[("country", "SE")]);
        assert_eq!(telemetry.shutdown(PATIENCE).total().lost(), 0);
        id
    }

    /// Sends a request. Returns the status, head and body of the answer.
    fn request(&self, head: &str) -> (u16, String, String) {
        let mut socket = TcpStream::connect(&self.address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.write_all(format!("{head}\r\nConnection: close\r\n\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").expect("an answer");
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, head.to_owned(), body.to_owned())
    }

    fn get(&self, path: &str) -> (u16, String, String) {
        self.request(&format!("GET {path} HTTP/1.1\r\nHost: {}", self.address))
    }

    #[track_caller]
    fn json(&self, path: &str) -> Value {
        let (status, _, body) = self.get(path);
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).unwrap()
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_trace_is_listed_and_shown_with_its_spans_and_logs() {
    let page = Page::start();
    let id = page.send_a_trace();

    let list = page.json("/api/traces");
    let row = &list["rows"][0];
    assert_eq!((list["matched"].as_u64(), row["id"].as_str()), (Some(1), Some(id.as_str())));
    assert_eq!((row["name"].as_str(), row["spans"].as_u64()), (Some("checkout"), Some(2)));
    assert_eq!((row["errors"].as_u64(), row["logs"].as_u64()), (Some(1), Some(1)));

    let trace = page.json(&format!("/api/trace/{id}"));
    let names = &trace["names"];
    let by_name = |name: &str| {
        let number = names.as_array().unwrap().iter().position(|one| one == name).unwrap() as u64;
        trace["name"].as_array().unwrap().iter().position(|one| one.as_u64() == Some(number)).unwrap()
    };
    let (root, child) = (by_name("checkout"), by_name("payment"));
    assert_eq!(trace["parent"][child].as_u64(), Some(root as u64));
    assert_eq!((trace["parent"][root].as_i64(), trace["flags"][child].as_u64()), (Some(-1), Some(1)));

    let span = page.json(&format!("/api/trace/{id}/span/{root}"));
    assert_eq!(span["attributes"][0], serde_json::json!(["http.route", "text", "/checkout"]));
    assert_eq!(span["logs"][0]["body"], "running low");
    assert_eq!(page.json(&format!("/api/trace/{id}/span/{child}"))["message"], "card declined");

    let (_, _, whole) = page.get(&format!("/api/trace/{id}/text"));
    assert!(
        whole.contains("checkout") && whole.contains("card declined") && whole.contains("running low"),
        "{whole}"
    );
    let (_, _, part) = page.get(&format!("/api/trace/{id}/text?span={child}"));
    assert!(part.contains("payment") && !part.contains("running low"), "{part}");

    let (_, _, lines) = page.get(&format!("/api/trace/{id}/otlp"));
    let copied: Vec<Records> =
        lines.lines().map(|line| Records::from_json(line.as_bytes()).unwrap()).collect();
    assert_eq!((copied[0].spans.len(), copied[1].logs.len()), (2, 1));
    let (_, _, line) = page.get(&format!("/api/trace/{id}/otlp?span={child}"));
    let copied = Records::from_json(line.as_bytes()).unwrap();
    assert_eq!((copied.spans.len(), copied.spans[0].name(), copied.logs.len()), (1, "payment", 0));

    assert_eq!(page.get("/api/trace/00000000000000000000000000000001").0, 404);
    assert_eq!(page.get("/api/trace/xyz").0, 400);
    assert_eq!(page.get(&format!("/api/trace/{id}/span/9")).0, 404);
}

#[test]
fn the_search_finds_traces_and_logs_and_says_what_it_does_not_understand() {
    let page = Page::start();
    page.send_a_trace();
    let matched = |path: &str| page.json(path)["matched"].as_u64().unwrap();
    for (query, expected) in [
        ("checkout", 1),
        ("refund", 0),
        ("service:shop", 1),
        ("name:pay", 1),
        ("err", 1),
        ("-err", 0),
        ("http.route=/checkout", 1),
        ("http.route!=/checkout", 0),
        ("no.such.key!=x", 0),
        ("has:html", 1),
        ("dur%3C1h", 1),
        ("spans%3E2", 0),
        ("refund+or+checkout", 1),
        ("checkout+refund", 0),
    ] {
        assert_eq!(matched(&format!("/api/traces?q={query}")), expected, "{query}");
    }
    for (query, expected) in [("low", 1), ("sev%3E%3Dwarn", 1), ("sev%3E%3Derror", 0), ("body~running", 1)] {
        assert_eq!(matched(&format!("/api/logs?q={query}")), expected, "{query}");
    }
    let (status, _, body) = page.get("/api/traces?q=dur%3E5");
    assert!(status == 400 && body.contains("dur>100ms"), "{status} {body}");
}

#[test]
fn metrics_services_and_refusals_are_listed() {
    let page = Page::start();
    page.send_a_trace();
    let metrics = page.json("/api/metrics");
    assert_eq!((metrics[0]["name"].as_str(), metrics[0]["kind"].as_str()), (Some("orders"), Some("counter")));
    let series = page.json("/api/series?name=orders");
    assert_eq!(
        (series[0]["attributes"].as_str(), series[0]["points"][0]["value"].as_f64()),
        (Some("country=SE"), Some(3.0))
    );
    assert_eq!(page.json("/api/services")["nodes"][0]["name"], "shop");

    let mut socket = TcpStream::connect(page.endpoint.strip_prefix("http://").unwrap()).unwrap();
    socket.write_all(b"POST /v1/trace HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n").unwrap();
    let mut answer = [0; 12];
    socket.read_exact(&mut answer).unwrap();
    let refused = page.json("/api/requests");
    let what = refused[0]["what"].as_str().unwrap();
    assert!(what.contains("/v1/trace") && what.contains("OTEL_EXPORTER_OTLP_ENDPOINT"), "{what}");
    assert_eq!(page.json("/api/state")["counts"]["refused"], 1);
}

#[test]
fn every_answer_forbids_scripts_of_others() {
    let page = Page::start();
    for path in [
        "/",
        "/trace/4bf92f3577b34da6a3ce929d0e0e4736",
        "/assets/app.js",
        "/api/state",
        "/nowhere",
        "/api/nothing",
    ] {
        let (_, head, _) = page.get(path);
        for field in [
            "content-security-policy: default-src 'none'; script-src 'self'",
            "require-trusted-types-for 'script'",
            "x-content-type-options: nosniff",
            "cross-origin-resource-policy: same-origin",
            "referrer-policy: no-referrer",
        ] {
            assert!(head.contains(field), "{path}: {head}");
        }
        assert!(!head.to_ascii_lowercase().contains("access-control"), "{path}: {head}");
    }
    assert!(page.get("/").2.contains("<title>standpipe</title>"));
    assert_eq!((page.get("/nowhere").0, page.get("/assets/../Cargo.toml").0), (404, 404));
}

#[test]
fn a_browser_keeps_files_and_asks_whether_they_are_the_same() {
    let page = Page::start();
    let (_, head, _) = page.get("/assets/style.css");
    let etag = head.lines().find_map(|line| line.strip_prefix("etag: ")).expect(&head);
    let again = |known: &str| {
        let head =
            format!("GET /assets/style.css HTTP/1.1\r\nHost: {}\r\nIf-None-Match: {known}", page.address);
        let (status, _, body) = page.request(&head);
        (status, body.is_empty())
    };
    for known in [etag, &format!("W/{etag}"), &format!("\"old\", W/{etag} ,\"other\""), "*"] {
        assert_eq!(again(known), (304, true), "{known}");
    }
    assert_eq!(again(&format!("\"old\"\r\nIf-None-Match: {etag}")), (304, true), "two headers are one list");
    for other in ["\"old\"", "W/\"old\"", &etag[1..]] {
        assert_eq!(again(other), (200, false), "{other}");
    }
    assert!(page.get("/api/state").1.contains("cache-control: no-store"));
}

#[test]
fn a_rebound_name_and_another_site_are_answered_nothing() {
    let page = Page::start();
    let port = page.address.rsplit(':').next().unwrap();
    let evil = page.request(&format!("GET /api/state HTTP/1.1\r\nHost: evil.test:{port}"));
    assert!(evil.0 == 403 && !evil.2.contains("services"), "{evil:?}");
    let absolute = format!("GET http://evil.test:{port}/api/state HTTP/1.1\r\nHost: {}", page.address);
    assert_eq!(page.request(&absolute).0, 403);
    let site = format!("GET /api/state HTTP/1.1\r\nHost: {}\r\nSec-Fetch-Site: cross-site", page.address);
    assert_eq!(page.request(&site).0, 403);
    for path in ["/", "/api/state", "/assets/app.js"] {
        let get = format!("GET {path} HTTP/1.1\r\nHost: {}\r\nOrigin: http://evil.test", page.address);
        assert_eq!(page.request(&get).0, 403, "{path}");
    }
    let form = format!("POST /api/demo HTTP/1.1\r\nHost: {}\r\nOrigin: http://evil.test", page.address);
    assert_eq!(page.request(&form).0, 403);
    assert_eq!(page.json("/api/state")["counts"]["requests"], 0);
}

#[test]
fn a_malformed_request_is_refused_and_its_connection_closed() {
    let page = Page::start();
    let (host, origin) = (format!("Host: {}", page.address), format!("Origin: http://{}", page.address));
    let hidden = format!("GET /api/state HTTP/1.1\r\n{host}\r\nConnection: close\r\n\r\n");
    for (what, head, status) in [
        ("bare LF", format!("GET / HTTP/1.1\n{host}\n\n"), 400),
        ("bare LF in a field", format!("GET / HTTP/1.1\r\n{host}\r\nX: a\nY: b\r\n\r\n"), 400),
        ("no host", "GET / HTTP/1.1\r\n\r\n".to_owned(), 400),
        ("two hosts", format!("GET / HTTP/1.1\r\n{host}\r\n{host}\r\n\r\n"), 400),
        ("a folded line", format!("GET / HTTP/1.1\r\n{host}\r\n x\r\n\r\n"), 400),
        (
            "two lengths",
            format!("GET / HTTP/1.1\r\n{host}\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n"),
            400,
        ),
        (
            "a length and chunks",
            format!("GET / HTTP/1.1\r\n{host}\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n"),
            400,
        ),
        (
            "a body",
            format!("POST /api/demo HTTP/1.1\r\n{host}\r\n{origin}\r\nContent-Length: 5\r\n\r\nhello"),
            413,
        ),
        ("HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), 505),
        ("a long head", format!("GET /{} HTTP/1.1\r\n", "x".repeat(20_000)), 431),
    ] {
        let mut socket = TcpStream::connect(&page.address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.write_all(format!("{head}{hidden}").as_bytes()).unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{what}: {answer}");
        assert!(answer.contains("content-security-policy: default-src 'none'"), "{what}: {answer}");
        assert_eq!(
            answer.matches("content-length: ").count(),
            1,
            "{what}: a second request was answered: {answer}"
        );
    }
    for second in [origin.as_str(), "Origin: http://evil.test"] {
        let head = format!("POST /api/demo HTTP/1.1\r\n{host}\r\n{origin}\r\n{second}");
        assert_eq!(page.request(&head).0, 400, "{second}");
    }
    assert_eq!(page.json("/api/state")["counts"]["requests"], 0, "no demo was started");
}

#[test]
fn answers_to_head_have_no_body() {
    let page = Page::start();
    let host = format!("Host: {}", page.address);
    let (status, head, body) = page.request(&format!("HEAD /api/events HTTP/1.1\r\n{host}"));
    assert_eq!((status, body.as_str()), (200, ""));
    assert!(head.contains("content-type: text/event-stream") && !head.contains("content-length"), "{head}");
    let (status, head, body) = page.request(&format!("HEAD / HTTP/1.1\r\n{host}\r\nContent-Length: 5"));
    assert_eq!((status, body.as_str()), (413, ""), "{head}");
    let (status, head, body) = page.request(&format!("HEAD /nowhere HTTP/1.1\r\n{host}"));
    assert_eq!((status, body.as_str()), (404, ""), "{head}");
}

#[test]
fn idle_connections_make_room_for_a_browser() {
    let page = Page::start();
    let idle: Vec<_> = (0..130).map(|_| TcpStream::connect(&page.address).unwrap()).collect();
    assert_eq!(page.get("/api/state").0, 200);
    // A connection that has made a request is not closed to make room for idle connections.
    let mut browser = BufReader::new(TcpStream::connect(&page.address).unwrap());
    browser.get_ref().set_read_timeout(Some(PATIENCE)).unwrap();
    let mut ask = || {
        let request = format!("HEAD / HTTP/1.1\r\nHost: {}\r\n\r\n", page.address);
        browser.get_mut().write_all(request.as_bytes()).unwrap();
        let head: Vec<String> =
            browser.by_ref().lines().map(Result::unwrap).take_while(|line| !line.is_empty()).collect();
        assert_eq!(head[0], "HTTP/1.1 200 OK");
        assert!(head.iter().any(|line| line.starts_with("content-length: ")), "{head:?}");
    };
    ask();
    let more: Vec<_> = (0..130).map(|_| TcpStream::connect(&page.address).unwrap()).collect();
    assert_eq!(page.get("/api/state").0, 200);
    ask();
    drop((idle, more));
}

#[test]
fn news_come_by_a_stream_of_which_there_are_four() {
    let page = Page::start();
    let stream = || {
        let mut socket = TcpStream::connect(&page.address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let head = format!("GET /api/events HTTP/1.1\r\nHost: {}\r\n\r\n", page.address);
        socket.write_all(head.as_bytes()).unwrap();
        let mut lines = BufReader::new(socket).lines().map(Result::unwrap);
        let status = lines.next().unwrap();
        (status, lines)
    };
    let mut open: Vec<_> = (0..4).map(|_| stream()).collect();
    assert!(
        open.iter().all(|(status, _)| status.contains("200")),
        "{:?}",
        open.iter().map(|(status, _)| status).collect::<Vec<_>>()
    );
    assert!(stream().0.contains("503"));
    let (_, lines) = &mut open[0];
    assert_eq!(lines.find(|line| line.starts_with("data: ")), Some("data: 0".to_owned()));
    page.send_a_trace();
    let news = lines.find(|line| line.starts_with("data: ")).unwrap();
    assert_ne!(news, "data: 0");
}

#[test]
fn requests_for_news_hold_no_connection_that_others_need() {
    let page = Page::start();
    let head = format!("GET /api/events HTTP/1.1\r\nHost: {}\r\n\r\n", page.address);
    let ask = |_| {
        let mut socket = TcpStream::connect(&page.address).unwrap();
        socket.write_all(head.as_bytes()).unwrap();
        socket
    };
    let asking: Vec<TcpStream> = (0..70).map(ask).collect();
    // Four requests get a stream of events. The server refuses the others at once, because a request that waited for a
    // stream would occupy a connection.
    let refused = asking.iter().filter(|socket| {
        let mut status = [0; 12];
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        (&mut &**socket).read_exact(&mut status).is_ok() && status.ends_with(b"503")
    });
    assert!(refused.count() >= 60 - 4);
    assert_eq!(page.get("/api/state").0, 200);
}

#[test]
fn a_taken_address_is_reported_with_what_to_do() {
    let page = Page::start();
    let output = run(&["receive", "--address", "127.0.0.1:0", "--page-address", &page.address]);
    let complaint = stderr(&output);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        complaint.contains(&page.address) && complaint.contains("--page-address 127.0.0.1:0"),
        "{complaint}"
    );
}

#[test]
fn a_file_is_loaded_up_to_its_bad_lines_and_removed_by_clear() {
    let page = Page::start();
    let line = r#"{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b174","name":"loaded"}]}]}]}"#;
    let post = |path: &str, body: &str, origin: &str| {
        let length = body.len();
        let fields = format!("Content-Type: application/x-ndjson\r\nContent-Length: {length}\r\n{origin}");
        let head = format!("POST {path} HTTP/1.1\r\nHost: {}\r\n{fields}", page.address);
        let mut socket = TcpStream::connect(&page.address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.write_all(format!("{head}Connection: close\r\n\r\n{body}").as_bytes()).unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").expect("an answer");
        (head[9..12].to_owned(), body.to_owned())
    };
    let own = format!("Origin: http://{}\r\n", page.address);
    let (status, body) = post("/api/load", &format!("{line}\n\nbad\n"), &own);
    let answer: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        (status.as_str(), &answer["records"], &answer["problems"][0][0]),
        ("200", &1.into(), &3.into())
    );
    assert_eq!(page.json("/api/traces?q=name:loaded")["matched"], 1);
    for path in ["/api/load", "/api/clear"] {
        assert_eq!(post(path, line, "Origin: http://evil.example\r\n").0, "403", "{path}");
    }
    assert_eq!(page.json("/api/traces")["matched"], 1, "another site cannot clear the page");
    assert_eq!(post("/api/clear", "", &own).0, "200");
    assert_eq!(page.json("/api/traces")["matched"], 0);
}

#[test]
fn lists_are_sorted_limited_to_a_time_range_and_exported() {
    let page = Page::start();
    let id = page.send_a_trace();
    let start = page.json("/api/traces")["rows"][0]["start"].as_f64().unwrap();
    let matched = |range: &str| page.json(&format!("/api/traces?{range}"))["matched"].as_u64();
    assert_eq!(matched(&format!("from={}", start - 1000.0)), Some(1));
    assert_eq!(matched(&format!("to={}", start - 1000.0)), Some(0));
    assert_eq!(matched(&format!("from={}", start + 60_000.0)), Some(0));
    assert_eq!(matched("before=0"), Some(0), "a page that was paused before the first record");
    let around = page.json(&format!("/api/traces?sort=errors&points=1&around={id}"));
    assert_eq!(
        (&around["at"], &around["offset"], &around["points"][0][3]),
        (&0.into(), &0.into(), &id.clone().into())
    );
    let logs = page.json("/api/logs?level=13");
    assert_eq!(logs["bars"].as_array().unwrap().iter().filter(|bar| bar[0] == 1).count(), 1);
    let found = |query: &str| page.json(&format!("/api/trace/{id}/find?q={query}")).as_array().unwrap().len();
    assert_eq!((found("http.route=/checkout"), found("err"), found("low"), found("dur%3C1ns")), (1, 1, 1, 0));
    let (_, _, lines) = page.get("/api/export/traces?q=err");
    let exported: Vec<_> = lines.lines().map(|line| Records::from_json(line.as_bytes()).unwrap()).collect();
    assert_eq!(exported.iter().map(Records::count).sum::<usize>(), 3);
    assert_eq!(page.get("/api/export/traces?q=name:nothing").2, "");
}
