//! Secrets reach only the server: they are in no `Debug` text, error, problem or ledger, and in no log record at
//! `debug` or a coarser level. At `trace`, ureq logs requests and answers to the program's own logger, which the guide
//! mentions.

use std::fmt::Debug;
use std::sync::{Mutex, Once, mpsc};
use std::time::Duration;

use standpipe::receiver::{Answer, Receiver};
use standpipe::{Config, Exporter, FlushOutcome, Problem, ProblemKind, Telemetry};

#[cfg(target_os = "linux")]
use crate::support::process;
use crate::support::tls::{TestCa, TlsFront};

/// Longer than anything on loopback takes.
const PATIENCE: Duration = Duration::from_secs(20);
/// This many consecutive characters of a secret count as a leak.
const LEAK: usize = 6;

/// All records of the `log` crate.
static LOG: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Capture;

impl log::Log for Capture {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let line = format!("{} {} {}", record.level(), record.target(), record.args());
        LOG.lock().expect("no thread panics with it").push(line);
    }

    fn flush(&self) {}
}

/// Captures the log from now on, at the finest level that shows no secret.
fn listen() {
    static LISTENING: Once = Once::new();
    LISTENING.call_once(|| {
        log::set_logger(&Capture).expect("the first logger");
        log::set_max_level(log::LevelFilter::Debug);
    });
}

fn logged() -> String {
    LOG.lock().expect("no thread panics with it").join("\n")
}

/// Asserts that no part of the secret is in the text.
#[track_caller]
fn assert_hidden(secret: &str, what: &str, text: &str) {
    // Short pieces of a long random secret occur by chance.
    let len = if secret.len() > 100 { 2 * LEAK } else { LEAK };
    let leak = (0..=secret.len() - len).map(|at| &secret[at..at + len]).find(|part| text.contains(part));
    if let Some(part) = leak {
        let at = text.find(part).unwrap_or_default();
        let start = text[..at].char_indices().rev().nth(60).map_or(0, |(index, _)| index);
        let near: String = text[start..].chars().take(160).collect();
        panic!("{part:?} of the secret is in {what}: …{near}…");
    }
}

#[track_caller]
fn assert_debug_hides(secret: &str, what: &str, value: &impl Debug) {
    assert_hidden(secret, what, &format!("{value:?}\n{value:#?}"));
}

fn with_problems(config: Config) -> (Telemetry, mpsc::Receiver<Problem>) {
    let (report, reported) = mpsc::channel();
    let config = config.default_service_name("shop").on_problem(move |problem| {
        let _ = report.send(problem.clone());
    });
    (Telemetry::start(config).expect("a sound configuration"), reported)
}

#[test]
fn no_debug_text_shows_a_secret() {
    const HEADER: &str = "Bearer Xq7RtV9zKp3LmW8s";
    const KEY: &str = "kD4Yw9ZbQ6nHj2Gf";
    let secret_endpoint = format!("http://127.0.0.1:1/v1/traces?api-key={KEY}");
    let exporter = Exporter::http(secret_endpoint).header("Authorization", HEADER);
    assert_debug_hides(&HEADER[7..], "Exporter", &exporter);
    assert_debug_hides(KEY, "Exporter", &exporter);
    let effective: String =
        exporter.effective().iter().map(|setting| format!("{setting}{setting:?}")).collect();
    assert!(effective.contains("Authorization"), "{effective}");
    assert_hidden(&HEADER[7..], "Exporter::effective", &effective);
    assert_hidden(KEY, "Exporter::effective", &effective);

    let config = Config::new().exporter(exporter);
    assert_debug_hides(&HEADER[7..], "Config", &config);
    assert_debug_hides(KEY, "Config", &config);

    let telemetry = Telemetry::start(config).unwrap();
    let tracer = telemetry.tracer("shop");
    let span = tracer.span("checkout");
    for secret in [&HEADER[7..], KEY] {
        assert_debug_hides(secret, "Telemetry", &telemetry);
        assert_debug_hides(secret, "Tracer", &tracer);
        assert_debug_hides(secret, "Span", &span);
        assert_debug_hides(secret, "Ledger", &telemetry.ledger());
        assert_hidden(secret, "Ledger", &telemetry.ledger().to_string());
    }
    drop(span);
    telemetry.shutdown(Duration::ZERO);
}

#[test]
fn no_configuration_error_shows_a_secret() {
    const SECRET: &str = "mZ8rT3vNx5Qk7Wb2";
    let ca = TestCa::new();
    let client = ca.client("shop.example");
    let broken_key = format!("-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----\n");
    let unmarked_key = SECRET.to_owned();
    let here = || Exporter::http("https://127.0.0.1:1");
    for (what, exporter) in [
        ("value with a line break", here().header("Authorization", format!("{SECRET}\r\n{SECRET}"))),
        ("value with a control character", here().header("Authorization", format!("{SECRET}\0"))),
        ("value beside an unknown name", here().header("Authorization:", SECRET)),
        ("value put into the name", here().header(format!("Authorization: {SECRET}"), "x")),
        ("value of a header not to be set", here().header("Content-Length", SECRET)),
        ("value beside other mistakes", here().header("Authorization", SECRET).timeout(Duration::ZERO)),
        ("user info", Exporter::http(format!("http://user:{SECRET}@127.0.0.1:1"))),
        ("user info without a scheme", Exporter::http(format!("user:{SECRET}@127.0.0.1:1"))),
        ("user info beside a bad port", Exporter::http(format!("http://{SECRET}@127.0.0.1:99999/"))),
        ("query", Exporter::http(format!("ftp://127.0.0.1:1/?key={SECRET}"))),
        ("key that is none", here().client_pem(client.certificate_pem.as_str(), broken_key.as_str())),
        ("key without a frame", here().client_pem(client.certificate_pem.as_str(), unmarked_key.as_str())),
    ] {
        let error = Telemetry::start(Config::new().exporter(exporter)).expect_err(what);
        assert_hidden(SECRET, what, &error.to_string());
        assert_debug_hides(SECRET, what, &error);
        assert_debug_hides(SECRET, what, &error.diagnostics());
        assert_debug_hides(SECRET, what, &error.into_usable());
    }
}

/// Sends spans one by one, more than the receiver's script has answers. Every request must have the headers.
fn export(exporter: Exporter, receiver: &Receiver, headers: &[(&str, &str)]) -> Vec<Problem> {
    let exporter = headers.iter().fold(exporter, |exporter, (name, value)| exporter.header(*name, *value));
    let exporter =
        exporter.retry_delays(Duration::from_millis(1), Duration::from_millis(2)).throttle(Duration::ZERO);
    let (telemetry, reported) = with_problems(Config::new().exporter(exporter));
    let tracer = telemetry.tracer("shop");
    for _ in 0..6 {
        tracer.span("checkout").end();
        assert_eq!(telemetry.flush(PATIENCE), FlushOutcome::Complete);
    }
    let ledger = telemetry.shutdown(PATIENCE);
    assert!(ledger.total().delivered >= 1, "{ledger}");

    for request in receiver.requests() {
        for (name, value) in headers {
            assert_eq!(request.header(name), Some(*value), "the server must have it");
        }
    }
    for (_, secret) in headers {
        assert_hidden(secret, "the ledger", &format!("{ledger}{ledger:?}"));
    }
    reported.try_iter().collect()
}

fn assert_problems_hide(secret: &str, problems: &[Problem]) {
    for problem in problems {
        assert_hidden(secret, "a problem", &problem.to_string());
        assert_debug_hides(secret, "a problem", problem);
    }
}

#[test]
fn over_plain_http_the_server_gets_the_headers_and_the_log_does_not() {
    const TOKEN: &str = "Jw5PzXc8VtL2nRq9Yk4G";
    const API_KEY: &str = "h7Tq!vB3~xM9w(Zr6Kd1)";
    listen();
    let receiver = Receiver::start().unwrap();
    receiver.script([
        Answer::status(503).retry_after("0").message("later"),
        Answer::reset_after_request(),
        Answer::status(401).message("who are you"),
        Answer::redirect(307, "http://127.0.0.1:1/"),
        Answer::garbage("nothing of HTTP"),
    ]);
    let bearer = format!("Bearer {TOKEN}");
    let headers = [("authorization", bearer.as_str()), ("x-api-key", API_KEY)];
    let problems = export(Exporter::http(receiver.endpoint()), &receiver, &headers);

    assert!(receiver.request_count() >= 8, "{} requests", receiver.request_count());
    assert!(problems.len() >= 2, "{problems:?}");
    let log = logged();
    assert!(log.contains("DEBUG ureq::run POST http://127.0.0.1:"), "ureq does not log its requests: {log}");
    for secret in [TOKEN, API_KEY] {
        assert_hidden(secret, "the log", &log);
        assert_problems_hide(secret, &problems);
    }
}

#[test]
fn over_tls_the_server_gets_the_headers_and_the_log_does_not() {
    const TOKEN: &str = "c4NfQx8TbW6yJv3HzR7m";
    listen();
    let (ca, receiver) = (TestCa::new(), Receiver::start().unwrap());
    let client = ca.client("shop.example");
    let front = TlsFront::requiring_client_certificate(&ca.leaf("localhost"), &ca, receiver.address());
    receiver.script([Answer::status(503).retry_after("0"), Answer::status(401)]);
    let exporter = Exporter::http(front.url())
        .ca_pem(ca.pem())
        .client_pem(client.certificate_pem.as_str(), client.key_pem.as_str());
    let bearer = format!("Bearer {TOKEN}");
    let key: String = client.key_pem.lines().filter(|line| !line.starts_with('-')).collect();
    assert_debug_hides(&key, "Exporter", &exporter);
    let problems = export(exporter, &receiver, &[("authorization", &bearer)]);

    let log = logged();
    assert!(log.contains("rustls"), "TLS does not speak to the log any more");
    assert!(problems.len() >= 2, "{problems:?}");
    for secret in [TOKEN, &key] {
        assert_hidden(secret, "the log", &log);
        assert_problems_hide(secret, &problems);
    }
}

#[test]
fn the_log_names_no_request_that_was_not_made() {
    listen();
    let receiver = Receiver::start().unwrap();
    export(Exporter::http(receiver.endpoint()), &receiver, &[]);

    let log = logged();
    let mut named = log.lines().filter_map(|line| line.strip_prefix("DEBUG ureq::run "));
    assert!(
        named.clone().any(|line| line.starts_with("POST http://127.0.0.1:")),
        "requests are not logged any more"
    );
    let invented = named.find(|line| line.starts_with("GET ") || line.contains(".invalid"));
    assert_eq!(invented, None, "nobody made this request");
}

#[test]
fn a_key_in_the_query_reaches_the_server_and_neither_log_nor_problems() {
    const KEY: &str = "Vp9XkT4bRz7LqN2wHc6D";
    listen();
    let receiver = Receiver::start().unwrap();
    receiver.script([Answer::status(503).retry_after("0"), Answer::status(401), Answer::redirect(308, "/")]);
    let endpoint = format!("{}/v1/traces?api-key={KEY}", receiver.endpoint());
    let problems = export(Exporter::http_verbatim(endpoint), &receiver, &[]);

    let targets: Vec<String> = receiver.requests().into_iter().map(|request| request.path).collect();
    assert!(targets.iter().all(|target| *target == format!("/v1/traces?api-key={KEY}")), "{targets:?}");
    // The first warning is that all signals share one path.
    let [warning, answers @ ..] = &problems[..] else { panic!("no problem") };
    assert_eq!(warning.kind, ProblemKind::Configuration, "{warning}");
    assert!(answers.len() >= 2, "{problems:?}");
    assert!(answers[0].message.contains(&receiver.endpoint()), "it does not say where: {}", answers[0]);
    assert_problems_hide(KEY, &problems);
    assert_hidden(KEY, "the log", &logged());
}

#[test]
fn a_server_that_repeats_the_secret_makes_no_problem_that_shows_it() {
    const SECRET: &str = "Gd8ZwY5nKt3QvX7rBm2J";
    let said = format!("no tenant for Bearer {SECRET} here");
    let cut = format!("{}{SECRET}", "x".repeat(505));
    for (what, answer) in [
        ("status", Answer::status(400).message(&said)),
        ("status cut to its length", Answer::status(400).message(&cut)),
        ("text", Answer::status(403).header("content-type", "text/plain").body(said.as_bytes())),
        (
            "text cut to its length",
            Answer::status(403).header("content-type", "text/plain").body(&cut[315..]),
        ),
        ("later", Answer::status(503).retry_after("0").message(&said)),
        ("too large", Answer::status(413).message(&said)),
        ("partial success", Answer::partial(1, &said)),
        ("redirect", Answer::redirect(302, format!("http://127.0.0.1:1/?{SECRET}"))),
        ("type", Answer::ok().header("content-type", format!("text/{SECRET}")).body("welcome")),
        ("garbage", Answer::garbage(format!("HTTP/1.1 {SECRET}\r\n\r\n"))),
    ] {
        let receiver = Receiver::start().unwrap();
        receiver.script([answer]);
        let bearer = format!("Bearer {SECRET}");
        let problems = export(Exporter::http(receiver.endpoint()), &receiver, &[("authorization", &bearer)]);
        assert!(!problems.is_empty(), "{what}: nothing is reported");
        assert_problems_hide(SECRET, &problems);
    }
}

#[test]
fn a_secret_in_an_answer_that_comes_byte_by_byte_is_not_in_the_log() {
    const SECRET: &str = "Kb6WxM9pTz4RvQ2nJd8L";
    listen();
    let receiver = Receiver::start().unwrap();
    let interval = Duration::from_millis(1);
    let answer = || Answer::status(400).message(format!("who is {SECRET}"));
    let redirect = Answer::redirect(302, format!("http://u:{SECRET}@127.0.0.1:1/?{SECRET}"));
    receiver.script([
        answer().slow_headers(interval),
        answer().slow_body(interval),
        redirect.slow_headers(interval),
    ]);
    let bearer = format!("Bearer {SECRET}");
    let problems = export(Exporter::http(receiver.endpoint()), &receiver, &[("authorization", &bearer)]);
    assert!(!problems.is_empty(), "nothing is reported");
    assert_problems_hide(SECRET, &problems);
    assert_hidden(SECRET, "the log", &logged());
}

/// Asserts that none of the forms of a secret is in `text`, although an answer of the server may contain them.
fn assert_never_shown(forms: &[&str], what: &str, text: &str) {
    let text = text.to_ascii_lowercase();
    for form in forms {
        assert!(!text.contains(&form.to_ascii_lowercase()), "{what}: {form} is in {text}");
    }
}

#[test]
fn a_secret_that_a_server_repeats_in_another_form_is_masked() {
    const SECRET: &str = "qX7/kT\"4bRz+Lq9NwHc6";
    const FORMS: [&str; 7] = [
        "QX7/KT\"4BRZ+LQ9NWHC6",
        r#"qX7\/kT\"4bRz+Lq9NwHc6"#,
        "qX7%2FkT%224bRz%2BLq9NwHc6",
        "4bRz+Lq9Nw",
        "Rz+Lq9Nw",
        "cVg3L2tUIjRiUnorTHE5TndIYzY",
        "7158372f6b542234",
    ];
    listen();
    for form in FORMS {
        let said = format!("no tenant for <{form}> here");
        let text = || Answer::status(403).header("content-type", "text/plain").body(said.as_bytes());
        for answer in [text(), Answer::status(400).message(&said), Answer::partial(1, &said)] {
            let receiver = Receiver::start().unwrap();
            receiver.script([answer]);
            let bearer = format!("Bearer {SECRET}");
            let headers = [("authorization", bearer.as_str())];
            let problems = export(Exporter::http(receiver.endpoint()), &receiver, &headers);
            assert!(!problems.is_empty(), "{form}: nothing is reported");
            let reported: String = problems.iter().map(|problem| format!("{problem}{problem:?}")).collect();
            assert!(reported.contains("no tenant for"), "{reported}");
            assert_never_shown(&[form], "a problem", &reported);
        }
        let receiver = Receiver::start().unwrap();
        receiver.script([text()]);
        let exporter =
            Exporter::http(receiver.endpoint()).header("authorization", format!("Bearer {SECRET}"));
        let report =
            standpipe::probe::probe(&exporter.signals([standpipe::Signal::Traces]), PATIENCE).to_string();
        assert!(report.contains("no tenant for"), "{report}");
        assert_never_shown(&[form], "a report", &report);
    }
    assert_never_shown(&FORMS, "the log", &logged());
}

#[test]
fn the_query_of_a_location_is_not_shown() {
    const KEY: &str = "t0ken-of-someone-else";
    listen();
    let location = format!("http://user:{KEY}@127.0.0.1:1/login?next={KEY}#{KEY}");
    let receiver = Receiver::start().unwrap();
    receiver.script([Answer::redirect(302, &location)]);
    let problems = export(Exporter::http(receiver.endpoint()), &receiver, &[]);
    assert!(problems[0].message.contains("127.0.0.1:1/login"), "{problems:?}");
    assert_problems_hide(KEY, &problems);

    receiver.script([Answer::redirect(302, &location)]);
    let exporter = Exporter::http(receiver.endpoint()).signals([standpipe::Signal::Traces]);
    let report = standpipe::probe::probe(&exporter, PATIENCE).to_string();
    assert!(report.contains("127.0.0.1:1/login"), "{report}");
    assert_hidden(KEY, "a report", &report);
    assert_hidden(KEY, "the log", &logged());
}

/// User agent and host that the variables of a child contain.
#[cfg(target_os = "linux")]
const AGENT: &str = "vessel-Kq8Zr4Xw/9.7";
#[cfg(target_os = "linux")]
const HOST: &str = "harbour-j7pw2kx9.test";

#[cfg(target_os = "linux")]
#[test]
fn a_user_agent_or_host_from_a_variable_is_not_shown() {
    let Some(endpoint) = process::task() else {
        let name = "a_user_agent_or_host_from_a_variable_is_not_shown";
        for (transport, port) in [
            ("http", (|receiver| receiver.address().port()) as fn(&Receiver) -> u16),
            ("grpc", |receiver| receiver.grpc_address().port()),
        ] {
            let receiver = Receiver::start().unwrap();
            receiver.script([
                Answer::status(503).retry_after("0").message(format!("who is {AGENT} of {HOST}")),
                Answer::status(400).message(format!("who is {AGENT} of {HOST}")),
            ]);
            let authority = format!("{HOST}:{}", port(&receiver));
            let variables = [("TEST_AGENT", AGENT), ("TEST_AUTHORITY", authority.as_str())];
            let reports = process::run_with(name, transport, &variables);
            assert_eq!(reports, ["hidden"], "{transport}");
            let requests = receiver.requests();
            assert!(requests.len() >= 3, "{transport}: {requests:?}");
            let full = format!("{AGENT} standpipe/{} (rust)", env!("CARGO_PKG_VERSION"));
            let agents: Vec<_> = requests.iter().map(|request| request.header("user-agent")).collect();
            assert!(agents.iter().all(|agent| *agent == Some(full.as_str())), "{transport}: {agents:?}");
            if transport == "http" {
                let hosts: Vec<_> = requests.iter().map(|request| request.header("host")).collect();
                assert!(hosts.iter().all(|host| *host == Some(authority.as_str())), "{hosts:?}");
            }
        }
        return;
    };
    let file = format!(
        "[tracer.otel]\ntype = 'otel'\ntransport = '{endpoint}'\nendpoint = 'http://%{{env:TEST_AUTHORITY}}%'\n\
         user-agent = '%{{env:TEST_AGENT}}%'\nthrottle = '1ms'\nretry-first-delay = '1ms'\nproxy = 'off'\n"
    );
    let config = Config::from_toml_str(&file).unwrap();
    let mut said = format!("{config:?}{:?}", config.exporters()[0].effective());
    let exporter = config.exporters()[0].clone();
    let (telemetry, reported) = with_problems(config);
    for _ in 0..2 {
        telemetry.tracer("shop").span("checkout").end();
        assert_eq!(telemetry.flush(PATIENCE), FlushOutcome::Complete);
    }
    let ledger = telemetry.shutdown(PATIENCE);
    assert_eq!(ledger.total().delivered, 1, "{ledger}");
    let problems: Vec<_> = reported.try_iter().map(|problem| format!("{problem}{problem:?}")).collect();
    assert!(problems.len() >= 2, "{problems:?}");
    said += &format!("{problems:?}{ledger}{}", standpipe::probe::probe(&exporter, PATIENCE));
    for secret in [AGENT, HOST] {
        assert_hidden(secret, "what is shown", &said);
    }
    process::report("hidden");
}
