//! Headers that change: from functions, from files, and signatures.

mod sigv4;

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use standpipe::config::Credentials;
use standpipe::probe::probe;
use standpipe::receiver::{Answer, Receiver};
use standpipe::{Compression, Config, Exporter, FlushOutcome, ProblemKind, Signal, Telemetry};

use crate::support::process;
use crate::support::scene::{
    FOR_EVER, LONG, NOISE, Problems, emit, exporter, exporter_to, gathering, gathering_to, start, start_with,
};
use crate::support::scratch::Scratch;

/// A request as the server reads it.
struct Request {
    target: String,
    /// Names in lower case.
    headers: HashMap<String, String>,
    body: Vec<u8>,
}

/// Starts an HTTP server that answers with the status and the body that `answer` returns. Returns its address.
fn serve(answer: impl Fn(&Request) -> (u16, String) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let answer = Arc::new(answer);
    thread::spawn(move || {
        for client in listener.incoming() {
            let answer = Arc::clone(&answer);
            thread::spawn(move || {
                let mut client = BufReader::new(client.unwrap());
                while let Ok(request) = read(&mut client) {
                    let (status, body) = answer(&request);
                    let length = body.len();
                    let head = format!("HTTP/1.1 {status} x\r\ncontent-length: {length}\r\n\r\n{body}");
                    client.get_mut().write_all(head.as_bytes()).unwrap();
                }
            });
        }
    });
    address
}

fn read(client: &mut BufReader<TcpStream>) -> io::Result<Request> {
    let mut line = || {
        let mut line = String::new();
        match client.read_line(&mut line)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => io::Result::Ok(line.trim_end().to_owned()),
        }
    };
    let target = line()?.split(' ').nth(1).unwrap().to_owned();
    let mut headers = HashMap::new();
    loop {
        let line = line()?;
        let Some((name, value)) = line.split_once(": ") else { break };
        assert!(headers.insert(name.to_lowercase(), value.to_owned()).is_none(), "{name} occurs twice");
    }
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    client.read_exact(&mut body)?;
    Ok(Request { target, headers, body })
}

/// Fetches a token, as a program would from a metadata server.
fn fetch(server: &str) -> io::Result<String> {
    let mut client = TcpStream::connect(server)?;
    client.write_all(b"GET /token HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")?;
    client.shutdown(std::net::Shutdown::Write)?;
    let mut answer = String::new();
    client.read_to_string(&mut answer)?;
    Ok(answer.rsplit("\r\n").next().unwrap().to_owned())
}

/// Returns a function that returns `token-1-of-the-collector`, then `token-2-…`, and the number of its calls.
fn numbered() -> (Arc<AtomicUsize>, impl Fn() -> Credentials + Send + Sync + 'static) {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let next = move || {
        let number = counted.fetch_add(1, Ordering::SeqCst) + 1;
        Credentials::new().header("Authorization", format!("Bearer token-{number}-of-the-collector"))
    };
    (calls, next)
}

fn authorizations(receiver: &Receiver) -> Vec<String> {
    let requests = receiver.requests();
    let all = requests.iter().map(|request| request.header("authorization").unwrap_or_default().to_owned());
    all.collect()
}

#[test]
fn delivers_everything_while_tokens_expire_every_second() {
    const LIFETIME: Duration = Duration::from_secs(1);
    let issued: Arc<Mutex<HashMap<String, Instant>>> = Arc::default();
    let issuing = Arc::clone(&issued);
    let token_server = serve(move |_| {
        let mut issued = issuing.lock().unwrap();
        let token = format!("token-{}-of-the-server", issued.len());
        issued.insert(token.clone(), Instant::now());
        (200, token)
    });
    let (checked, known) = (Arc::new(AtomicUsize::new(0)), Arc::clone(&issued));
    let accepted = Arc::clone(&checked);
    let collector = serve(move |request| {
        let token = request.headers["authorization"].strip_prefix("Bearer ").unwrap();
        let is_valid = known.lock().unwrap().get(token).is_some_and(|since| since.elapsed() < LIFETIME);
        accepted.fetch_add(usize::from(is_valid), Ordering::SeqCst);
        (if is_valid { 200 } else { 401 }, String::new())
    });
    let exporter = exporter_to(&format!("http://{collector}")).headers_from(move || {
        let token = fetch(&token_server)?;
        Ok(Credentials::new().header("authorization", format!("Bearer {token}")).valid_for(LIFETIME))
    });
    let telemetry = start(exporter);
    let begun = Instant::now();
    let mut flushes = 0;
    while begun.elapsed() < 3 * LIFETIME {
        emit(&telemetry.tracer("shop"), 1);
        assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
        flushes += 1;
        // Pauses, so that tokens expire during the test.
        thread::park_timeout(Duration::from_millis(50));
    }
    let ledger = telemetry.shutdown(LONG);
    assert_eq!((ledger.lost(), checked.load(Ordering::SeqCst)), (0, flushes), "{ledger}");
    let tokens = issued.lock().unwrap().len();
    assert!((3..=4 + flushes / 10).contains(&tokens), "{tokens} tokens for {flushes} requests");
}

#[test]
fn renews_once_at_once_after_a_refusal_over_http_and_grpc() {
    for (refusal, is_grpc) in
        [(Answer::status(401), false), (Answer::status(403), false), (Answer::status(401), true)]
    {
        let receiver = Receiver::start().unwrap();
        receiver.script([refusal]);
        let (_, next) = numbered();
        let exporter = if is_grpc {
            Exporter::grpc(receiver.grpc_endpoint())
        } else {
            Exporter::http(receiver.endpoint())
                .header("authorization", "Bearer replaced")
                .compression(Compression::Gzip)
        };
        let problems = Problems::default();
        let telemetry = problems.start(exporter.linger(FOR_EVER).headers_from(move || Ok(next())));
        emit(&telemetry.tracer("shop"), 2);
        assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
        emit(&telemetry.tracer("shop"), 1);
        let ledger = telemetry.shutdown(LONG);
        assert_eq!((ledger.lost(), receiver.span_count()), (0, 3), "{ledger}");
        let used = [1, 2, 2].map(|number| format!("Bearer token-{number}-of-the-collector"));
        assert_eq!(authorizations(&receiver), used);
        assert_eq!(problems.reported().len(), 0, "{:?}", problems.reported());
    }
}

#[test]
fn repeats_json_after_a_renewal() {
    let receiver = Receiver::start().unwrap();
    receiver.script([Answer::status(401)]);
    let (_, next) = numbered();
    let telemetry = start(Exporter::http(receiver.endpoint()).json().headers_from(move || Ok(next())));
    emit(&telemetry.tracer("shop"), 2);
    let ledger = telemetry.shutdown(LONG);
    assert_eq!((ledger.lost(), receiver.span_count()), (0, 2), "{ledger}");
}

#[test]
fn backs_off_while_the_server_refuses_all_headers() {
    let receiver = Receiver::start().unwrap();
    receiver.always(Answer::status(401).message("who is token-1-of-the-collector?"));
    let (calls, next) = numbered();
    let problems = Problems::default();
    let exporter = gathering(&receiver).give_up_after(Duration::from_millis(300));
    let telemetry = problems.start(exporter.headers_from(move || Ok(next())));
    emit(&telemetry.tracer("shop"), 2);
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    problems.wait_for(ProblemKind::GaveUp);
    let total = telemetry.shutdown(LONG).total();
    assert_eq!((total.dropped.gave_up, total.dropped.refused), (2, 0));
    let (calls, requests) = (calls.load(Ordering::SeqCst) as u64, receiver.request_count());
    assert!(calls >= 3 && requests <= 2 * calls, "{calls} calls, {requests} requests");
    let reported = problems.reported();
    assert!(reported.iter().all(|problem| !problem.message.contains("of-the-collector")), "{reported:?}");
}

#[test]
fn reports_a_function_that_fails_and_loses_nothing() {
    type Failing = fn() -> Result<Credentials, Box<dyn std::error::Error + Send + Sync>>;
    let failures: [(Failing, &str); 4] = [
        (|| Err("the metadata server is away".into()), "the metadata server is away"),
        (|| panic!("on purpose"), "the function panicked: on purpose"),
        (|| Ok(Credentials::new().header("authorization", "hunter2\r\nx: y")), "holds a line break"),
        (|| Ok(Credentials::new().header("content-length", "7")), "cannot be set"),
    ];
    for (failing, expected) in failures {
        for is_grpc in [false, true] {
            let receiver = Receiver::start().unwrap();
            let is_repaired = Arc::new(AtomicUsize::new(0));
            let repaired = Arc::clone(&is_repaired);
            let to = if is_grpc { Exporter::grpc(receiver.grpc_endpoint()) } else { exporter(&receiver) };
            let to = to.retry_delays(Duration::from_millis(1), Duration::from_millis(20));
            let problems = Problems::default();
            let telemetry = problems.start(to.headers_from(move || match repaired.load(Ordering::SeqCst) {
                0 => failing(),
                _ => Ok(Credentials::new().header("x-token", "good")),
            }));
            emit(&telemetry.tracer("shop"), 2);
            let problem = problems.wait_for(ProblemKind::Unavailable);
            let start = "the headers of the exporter cannot be renewed: ";
            assert!(problem.message.starts_with(start) && problem.message.contains(expected), "{problem}");
            assert!(!problem.message.contains("hunter2"), "{problem}");
            assert_eq!(receiver.request_count(), 0);
            is_repaired.store(1, Ordering::SeqCst);
            let ledger = telemetry.shutdown(LONG);
            assert_eq!((ledger.lost(), receiver.span_count()), (0, 2), "{ledger}");
            assert_eq!(receiver.requests()[0].header("x-token"), Some("good"));
        }
    }
}

#[test]
fn a_function_that_hangs_delays_no_deadline_and_is_called_once() {
    let receiver = Receiver::start().unwrap();
    let (open, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let problems = Problems::default();
    let exporter = exporter(&receiver).timeout(Duration::from_millis(50)).headers_from(move || {
        counted.fetch_add(1, Ordering::SeqCst);
        let _ = gate.lock().unwrap().recv();
        Ok(Credentials::new().header("x-token", "late"))
    });
    let telemetry = problems.start(exporter);
    emit(&telemetry.tracer("shop"), 1);
    let problem = problems.wait_for(ProblemKind::Unavailable);
    assert!(problem.message.ends_with("the function did not return in time"), "{problem}");
    open.send(()).unwrap();
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    assert_eq!((receiver.span_count(), calls.load(Ordering::SeqCst)), (1, 1));
    assert_eq!(telemetry.shutdown(LONG).lost(), 0);
}

#[test]
fn without_threads_the_function_runs_on_the_calling_thread() {
    let receiver = Receiver::start().unwrap();
    let (seen, threads) = mpsc::channel();
    let exporter = exporter(&receiver).block_timeout(LONG).headers_from(move || {
        seen.send(thread::current().id()).unwrap();
        Ok(Credentials::new().header("x-token", "good"))
    });
    let telemetry = Telemetry::start_manual(Config::new().service_name("shop").exporter(exporter)).unwrap();
    emit(&telemetry.tracer("shop"), 1);
    assert_eq!(telemetry.shutdown(LONG).lost(), 0);
    assert_eq!(threads.try_iter().collect::<Vec<_>>(), [thread::current().id()]);
}

/// Publishes a token as the kubelet does: in a new directory, to which the link `..data` points from now on. The link
/// `token` points to `..data/token`.
#[cfg(unix)]
fn publish(scratch: &Scratch, token: &str) {
    let (directory, link) = (scratch.path().join(token), scratch.path().join("token"));
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(directory.join("token"), format!("{token}\n")).unwrap();
    let new = scratch.path().join("..new");
    std::os::unix::fs::symlink(&directory, &new).unwrap();
    std::fs::rename(new, scratch.path().join("..data")).unwrap();
    if !link.exists() {
        std::os::unix::fs::symlink("..data/token", link).unwrap();
    }
}

/// Reads a configuration with an exporter of spans whose header `Authorization` has the text of the file `token`.
fn with_token_file(scratch: &Scratch, dialect: &str, endpoint: &str) -> Config {
    let toml = |transport: &str, headers: &str| {
        let delays = "throttle = '0s'\nretry-first-delay = '1ms'\nretry-max-delay = '20ms'";
        let exporter = format!("type = 'otel'\ntransport = '{transport}'\nendpoint = '{endpoint}'\n{delays}");
        ("otlp.toml", format!("[tracer.otel]\n{exporter}\nheaders = {headers}\n"))
    };
    let declarative = |exporter: &str, headers: &str| {
        let processor = format!("{{batch: {{exporter: {{{exporter}: {{{headers}}}}}}}}}");
        ("otlp.yaml", format!("file_format: '1.0'\ntracer_provider: {{processors: [{processor}]}}\n"))
    };
    let (name, text) = match dialect {
        "lines over http" => toml("http", "['Authorization: Bearer %{file:token}%', 'x-tenant: seven']"),
        "a table over grpc" => {
            toml("grpc", "{ Authorization = 'Bearer %{file:token}%', x-tenant = 'seven' }")
        }
        "declarative headers" => declarative(
            "otlp_grpc",
            &format!(
                "endpoint: '{endpoint}', headers: [{{name: x-tenant, value: seven}}, \
                 {{name: Authorization, value: 'Bearer %{{file:token}}%'}}]"
            ),
        ),
        "a declarative list" => declarative(
            "otlp_http",
            &format!(
                "endpoint: '{endpoint}/v1/traces', headers: [{{name: x-tenant, value: seven}}], \
                 headers_list: 'x-tenant=%{{file:token}}%,authorization=Bearer %{{file:token}}%'"
            ),
        ),
        other => panic!("{other}"),
    };
    let config = Config::from_file(scratch.write(name, text)).unwrap();
    assert!(
        config.diagnostics().iter().all(|it| it.severity != standpipe::config::DiagnosticSeverity::Error)
    );
    config.service_name("shop")
}

#[cfg(unix)]
#[test]
fn reads_a_file_again_that_is_replaced_by_a_link() {
    for dialect in ["lines over http", "a table over grpc", "declarative headers", "a declarative list"] {
        let scratch = Scratch::new();
        let receiver = Receiver::start().unwrap();
        let is_grpc = ["a table over grpc", "declarative headers"].contains(&dialect);
        let endpoint = if is_grpc { receiver.grpc_endpoint() } else { receiver.endpoint() };
        publish(&scratch, "first-token");
        let telemetry = start_with(with_token_file(&scratch, dialect, &endpoint));
        emit(&telemetry.tracer("shop"), 1);
        assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
        publish(&scratch, "second-token");
        receiver.script([Answer::status(401)]);
        emit(&telemetry.tracer("shop"), 1);
        let ledger = telemetry.shutdown(LONG);
        assert_eq!((ledger.lost(), receiver.span_count()), (0, 2), "{dialect}: {ledger}");
        let seen = ["first-token", "first-token", "second-token"].map(|token| format!("Bearer {token}"));
        assert_eq!(authorizations(&receiver), seen, "{dialect}");
        let last = receiver.requests().pop().unwrap();
        assert_eq!(last.header("x-tenant"), Some("seven"), "{dialect}");
    }
}

#[cfg(unix)]
#[test]
fn uses_the_new_text_of_a_file_before_the_old_one_is_refused() {
    let (scratch, receiver) = (Scratch::new(), Receiver::start().unwrap());
    publish(&scratch, "old-token");
    let telemetry = start_with(with_token_file(&scratch, "lines over http", &receiver.endpoint()));
    let begun = Instant::now();
    for token in ["first-token", "second-token"] {
        publish(&scratch, token);
        while authorizations(&receiver).last() != Some(&format!("Bearer {token}")) && begun.elapsed() < LONG {
            emit(&telemetry.tracer("shop"), 1);
            assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
            // The file is read at most once per second.
            thread::park_timeout(Duration::from_millis(50));
        }
    }
    assert!(begun.elapsed() < LONG);
    assert_eq!(telemetry.shutdown(LONG).lost(), 0);
}

#[cfg(unix)]
#[test]
fn waits_until_a_refused_file_changes() {
    let scratch = Scratch::new();
    publish(&scratch, "first-token");
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&requests);
    let collector = serve(move |request| {
        counted.fetch_add(1, Ordering::SeqCst);
        (if request.headers["authorization"] == "Bearer second-token" { 200 } else { 403 }, String::new())
    });
    let problems = Problems::default();
    let endpoint = format!("http://{collector}");
    let telemetry = problems.start_with(with_token_file(&scratch, "lines over http", &endpoint));
    emit(&telemetry.tracer("shop"), 1);
    let problem = problems.wait_for(ProblemKind::Unavailable);
    assert!(problem.message.contains("403"), "{problem}");
    // The file is absent for a moment.
    std::fs::remove_file(scratch.path().join("..data")).unwrap();
    publish(&scratch, "second-token");
    let ledger = telemetry.shutdown(LONG);
    let attempts = ledger.exporters[0].attempts;
    assert_eq!((ledger.total().delivered, ledger.lost()), (1, 0), "{ledger}");
    // After a refusal, an attempt repeats its request only if the file has changed, and the file changed only once.
    assert!(requests.load(Ordering::SeqCst) as u64 <= attempts + 1, "{attempts} attempts");
}

#[cfg(unix)]
#[test]
fn a_forked_child_calls_the_function_and_reads_the_file_itself() {
    let name = "a_forked_child_calls_the_function_and_reads_the_file_itself";
    let Some(task) = process::task() else {
        for source in ["function", "file"] {
            let receiver = Receiver::start().unwrap();
            let reports = process::run(name, &format!("{source} {}", receiver.endpoint()));
            let [parent, child] = &reports[..] else { panic!("{reports:?}") };
            let seen = [parent, child].map(|token| format!("Bearer {token}"));
            assert_eq!((authorizations(&receiver), receiver.span_count()), (seen.to_vec(), 2), "{source}");
            assert_ne!(parent, child);
        }
        return;
    };
    let (source, endpoint) = task.split_once(' ').unwrap();
    let scratch = Scratch::new();
    publish(&scratch, "token-of-the-parent");
    let config = match source {
        "file" => with_token_file(&scratch, "lines over http", endpoint),
        _ => Config::new().service_name("shop").exporter(exporter_to(endpoint).headers_from(|| {
            let token = format!("token-of-{}", std::process::id());
            Ok(Credentials::new().header("authorization", format!("Bearer {token}")).valid_for(FOR_EVER))
        })),
    };
    let telemetry = start_with(config);
    let deliver = |token: &str| {
        emit(&telemetry.tracer("shop"), 1);
        process::report(if source == "file" {
            token.to_owned()
        } else {
            format!("token-of-{}", std::process::id())
        });
        telemetry.flush(LONG) == FlushOutcome::Complete
    };
    assert!(deliver("token-of-the-parent"));
    publish(&scratch, "token-of-the-child");
    assert!(process::in_a_fork(|| deliver("token-of-the-child") && telemetry.shutdown(LONG).lost() == 0));
}

#[cfg(unix)]
#[test]
fn a_child_that_is_forked_during_a_call_ends_in_time() {
    let name = "a_child_that_is_forked_during_a_call_ends_in_time";
    let Some(endpoint) = process::task() else {
        let receiver = Receiver::start().unwrap();
        process::run(name, &receiver.endpoint());
        return assert_eq!(receiver.span_count(), 1);
    };
    let (entered, calls) = mpsc::channel();
    let (open, gate) = mpsc::channel::<()>();
    // In the forked child, this lock stays locked forever, because the child has no copy of the thread that holds it.
    let gate = Mutex::new((gate, entered));
    let telemetry = start(exporter_to(&endpoint).headers_from(move || {
        let (gate, entered) = &*gate.lock().unwrap();
        entered.send(()).unwrap();
        let _ = gate.recv();
        Ok(Credentials::new().header("x-token", "good"))
    }));
    emit(&telemetry.tracer("shop"), 1);
    calls.recv_timeout(LONG).unwrap();
    assert!(process::in_a_fork(|| {
        emit(&telemetry.tracer("shop"), 1);
        let (begun, budget) = (Instant::now(), Duration::from_millis(200));
        let lost = telemetry.shutdown(budget).lost();
        lost == 1 && begun.elapsed() < budget + NOISE
    }));
    open.send(()).unwrap();
    drop(open);
    assert_eq!(telemetry.shutdown(LONG).lost(), 0);
}

#[test]
fn shows_no_value_and_probes_with_the_headers() {
    let receiver = Receiver::start().unwrap();
    let exporter = Exporter::http(receiver.endpoint())
        .signals([Signal::Traces])
        .headers_from(|| Ok(Credentials::new().header("authorization", "Bearer hunter2")));
    let shown = format!("{exporter:?}{:?}", Credentials::new().header("authorization", "Bearer hunter2"));
    assert!(!shown.contains("hunter2"), "{shown}");
    assert!(probe(&exporter, LONG).is_good());
    assert_eq!(authorizations(&receiver), ["Bearer hunter2"]);
    let failing = Exporter::http(receiver.endpoint()).headers_from(|| Err("no token".into()));
    assert!(probe(&failing, LONG).to_string().contains("settings: failed: no token"));
}

#[test]
fn signs_each_attempt_with_sigv4() {
    let rejected = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&rejected);
    let collector = serve(move |request| {
        // The first attempt fails, so that the second one shows that each attempt has its own signature.
        if counted.fetch_add(1, Ordering::SeqCst) == 0 {
            return (503, format!("leaked {}", request.headers["authorization"]));
        }
        let url = format!("http://{}{}", request.headers["host"], request.target);
        match sigv4::is_valid(&url, &request.headers, &request.body) {
            true => (200, String::new()),
            false => (403, "signature does not match".to_owned()),
        }
    });
    for compression in [Compression::None, Compression::Gzip] {
        rejected.store(0, Ordering::SeqCst);
        let attempts = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&attempts);
        let problems = Problems::default();
        let exporter = gathering_to(&format!("http://{collector}"))
            .compression(compression)
            .signals([Signal::Traces])
            .header("x-tenant", "seven")
            .sign_with(move |request| {
                let second = counted.fetch_add(1, Ordering::SeqCst);
                let time = format!("20150830T12360{second}Z");
                Ok(sigv4::sign(request.url, request.headers, request.body, &time))
            });
        let telemetry = problems.start(exporter);
        emit(&telemetry.tracer("shop"), 20);
        let ledger = telemetry.shutdown(LONG);
        assert_eq!((ledger.lost(), attempts.load(Ordering::SeqCst)), (0, 2), "{ledger}");
        let problem = problems.wait_for(ProblemKind::Unavailable);
        assert!(problem.message.contains("leaked") && !problem.message.contains("Signature="), "{problem}");
    }
}

#[test]
fn reports_a_failed_signature_and_refuses_one_over_grpc() {
    let receiver = Receiver::start().unwrap();
    let calls = AtomicUsize::new(0);
    let problems = Problems::default();
    let telemetry =
        problems.start(exporter(&receiver).sign_with(move |_| match calls.fetch_add(1, Ordering::SeqCst) {
            0 => Err("no key".into()),
            1 => panic!("on purpose"),
            _ => Ok(Credentials::new().header("x-signature", "good")),
        }));
    emit(&telemetry.tracer("shop"), 1);
    let ledger = telemetry.shutdown(LONG);
    assert_eq!((ledger.lost(), receiver.request_count()), (0, 1), "{ledger}");
    let problem = problems.wait_for(ProblemKind::Unavailable);
    assert!(problem.message.ends_with("the request cannot be signed: no key"), "{problem}");
    let exporter = Exporter::grpc(receiver.grpc_endpoint()).sign_with(|_| Ok(Credentials::new()));
    let refused = Telemetry::start(Config::new().service_name("shop").exporter(exporter)).err().unwrap();
    assert!(refused.to_string().contains("requests over gRPC cannot be signed"), "{refused}");
}
