//! Telemetry over Unix sockets.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use standpipe::config::DiagnosticSeverity;
use standpipe::probe::probe;
use standpipe::receiver::Receiver;
use standpipe::{Compression, Config, Exporter, FlushOutcome, ProblemKind, Signal, Telemetry};

use crate::support::process;
use crate::support::scene::{LONG, NOISE, Problems, emit, start};
use crate::support::scratch::Scratch;

fn endpoint(path: &Path) -> String {
    format!("unix:{}", path.display())
}

#[test]
fn delivers_all_signals_over_http_and_grpc() {
    let scratch = Scratch::new_in(&std::env::temp_dir());
    let (http, grpc) = (scratch.path().join("http.sock"), scratch.path().join("grpc.sock"));
    let receiver = Receiver::builder().unix_socket(&http).grpc_unix_socket(&grpc).start().unwrap();
    for exporter in [
        Exporter::http(endpoint(&http)),
        Exporter::http(format!("unix://{}", http.display())).compression(Compression::Gzip),
        Exporter::grpc(endpoint(&grpc)),
    ] {
        let connections = receiver.connection_count();
        let before = (receiver.span_count(), receiver.log_count(), receiver.point_count());
        let telemetry = start(exporter);
        for _ in 0..2 {
            telemetry.tracer("shop").span("checkout").end();
            telemetry.logger("shop").info("paid").emit();
            assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
        }
        telemetry.meter("shop").counter("sales").add(1, ());
        let ledger = telemetry.shutdown(LONG);
        assert_eq!(ledger.lost(), 0, "{ledger}");
        assert_eq!(
            (receiver.span_count(), receiver.log_count(), receiver.point_count()),
            (before.0 + 2, before.1 + 2, before.2 + 1)
        );
        assert_eq!(receiver.connection_count(), connections + 1, "the connection is kept");
    }
    drop(receiver);
    assert!(!http.exists() && !grpc.exists(), "the receiver leaves its sockets behind");
}

#[test]
fn reports_a_missing_socket_and_loses_nothing() {
    let scratch = Scratch::new_in(&std::env::temp_dir());
    let path = scratch.path().join("otel.sock");
    for exporter in [Exporter::http(endpoint(&path)), Exporter::grpc(endpoint(&path))] {
        let is_grpc = !exporter.endpoints()[0].1.is_empty() && format!("{exporter:?}").contains("grpc");
        let problems = Problems::default();
        let delay = Duration::from_millis(1);
        let telemetry = problems.start(exporter.retry_delays(delay, delay));
        emit(&telemetry.tracer("shop"), 3);
        let problem = problems.wait_for(ProblemKind::Unavailable);
        let advice = "no such socket; is the collector running, and does it listen at this path?";
        assert!(problem.message.ends_with(&format!("{}: {advice}", endpoint(&path))), "{problem}");
        // Leaves a stale socket, as a dead program does. The receiver replaces it.
        drop(UnixListener::bind(&path).unwrap());
        let builder = Receiver::builder();
        let builder = if is_grpc { builder.grpc_unix_socket(&path) } else { builder.unix_socket(&path) };
        let receiver = builder.start().unwrap();
        assert!(receiver.wait_for_spans(3, LONG));
        let ledger = telemetry.shutdown(LONG);
        assert_eq!(ledger.lost(), 0, "{ledger}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn delivers_to_an_abstract_socket() {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::SocketAddr;

    let name = format!("standpipe-test-{}", std::process::id());
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let server = thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut head = Vec::new();
        while !head.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
            let mut bytes = [0; 4096];
            let count = client.read(&mut bytes).unwrap();
            head.extend_from_slice(&bytes[..count]);
        }
        client.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
        String::from_utf8_lossy(&head).to_ascii_lowercase()
    });
    let telemetry = start(Exporter::http(format!("unix-abstract:{name}")).signals([Signal::Traces]));
    emit(&telemetry.tracer("shop"), 1);
    let ledger = telemetry.shutdown(LONG);
    let head = server.join().unwrap();
    assert_eq!(ledger.lost(), 0, "{ledger}");
    assert!(head.starts_with("post /v1/traces http/1.1\r\n"), "{head}");
    assert!(head.contains("\r\nhost: localhost\r\n"), "{head}");
}

#[test]
fn a_thread_less_telemetry_uses_a_socket() {
    let scratch = Scratch::new_in(&std::env::temp_dir());
    let path = scratch.path().join("otel.sock");
    let receiver = Receiver::builder().unix_socket(&path).start().unwrap();
    let exporter = Exporter::http(endpoint(&path)).block_timeout(Duration::from_secs(1));
    let config = Config::new().service_name("shop").exporter(exporter);
    let telemetry = Telemetry::start_manual(config).unwrap();
    emit(&telemetry.tracer("shop"), 1);
    let ledger = telemetry.shutdown(LONG);
    assert_eq!((ledger.lost(), receiver.span_count()), (0, 1), "{ledger}");
}

#[test]
fn a_probe_shows_the_socket() {
    let scratch = Scratch::new_in(&std::env::temp_dir());
    let path = scratch.path().join("otel.sock");
    let shown = endpoint(&path);
    let absent = probe(&Exporter::http(&shown), LONG);
    let expected = format!("exporter otlp: {shown}: connect: failed: {shown}: no such socket; is the");
    assert!(absent.to_string().starts_with(&expected), "{absent}");
    let receiver = Receiver::builder().unix_socket(&path).grpc_unix_socket(path.with_extension("grpc"));
    let receiver = receiver.start().unwrap();
    let report = probe(&Exporter::http(&shown), LONG);
    assert!(report.is_good() && report.to_string().contains(&format!("connect: {shown}\n")), "{report}");
    let report = probe(&Exporter::grpc(endpoint(&path.with_extension("grpc"))), LONG);
    assert!(report.is_good(), "{report}");
    // The probe sends the HTTP/2 preface to the socket for HTTP/1.1.
    let report = probe(&Exporter::grpc(&shown), LONG);
    assert!(!report.is_good() && report.to_string().contains("HTTP/1"), "{report}");
    drop(receiver);
}

#[test]
fn every_format_names_a_socket() {
    let toml = "[tracer.a]\ntype = 'otel'\ntransport = 'grpc'\nendpoint = 'unix:/run/otel.sock'\n";
    let yaml = "tracer:\n  a:\n    type: otel\n    transport: http\n    endpoint: unix:///run/otel.sock\n";
    let tracetest = "telemetry: {exporters: {a: {exporter: {type: collector, collector: {endpoint: 'unix:/run/otel.sock'}}}}}\n\
                     server: {telemetry: {exporter: a}}\n";
    let declarative = |exporter: &str| {
        let processor =
            format!("{{batch: {{exporter: {{{exporter}: {{endpoint: 'unix:/run/otel.sock'}}}}}}}}");
        format!("file_format: '1.0'\ntracer_provider: {{processors: [{processor}]}}\n")
    };
    let scratch = Scratch::new_in(&std::env::temp_dir());
    let from_file = |text: &str| Config::from_file(scratch.write("otlp.yaml", text));
    let from_variables = |protocol: &str| {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "unix:/run/otel.sock");
        Config::from_variables([endpoint, ("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)])
    };
    let configs = [
        Config::from_toml_str(toml),
        from_file(yaml),
        from_file(tracetest),
        from_file(&declarative("otlp_http")),
        from_file(&declarative("otlp_grpc")),
        from_variables("grpc"),
        from_variables("http/protobuf"),
    ];
    for (index, config) in configs.into_iter().enumerate() {
        let config = config.unwrap();
        let all = config.diagnostics();
        let mistakes: Vec<_> = all.iter().filter(|it| it.severity != DiagnosticSeverity::Note).collect();
        assert!(mistakes.is_empty(), "{index}: {mistakes:?}");
        let endpoints = config.exporters()[0].endpoints();
        assert!(endpoints.iter().all(|(_, shown)| shown == "unix:/run/otel.sock"), "{index}: {endpoints:?}");
    }
}

/// Replaces root by an ordinary user, to whom permissions apply.
#[allow(unsafe_code)]
fn become_nobody() {
    const NOBODY: libc::uid_t = 65_534;
    // SAFETY: only changes the user of this process, which has nothing else to do.
    assert!(unsafe { libc::geteuid() != 0 || libc::setuid(NOBODY) == 0 });
}

#[test]
fn names_the_permission_that_is_missing_and_delivers_once_it_is_given() {
    let name = "names_the_permission_that_is_missing_and_delivers_once_it_is_given";
    let Some(task) = process::task() else {
        let set_mode = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        for (protocol, is_of_directory) in [("http", false), ("http", true), ("grpc", false), ("grpc", true)]
        {
            let scratch = Scratch::new_in(&std::env::temp_dir());
            set_mode(scratch.path(), 0o755);
            let path = scratch.path().join("otel.sock");
            let builder = Receiver::builder();
            let receiver = match protocol {
                "http" => builder.unix_socket(&path),
                _ => builder.grpc_unix_socket(&path),
            };
            let receiver = receiver.start().unwrap();
            let closed = if is_of_directory { scratch.path() } else { &path };
            set_mode(&path, 0o777);
            set_mode(closed, 0);
            let mut child = process::Child::start(name, &format!("{protocol} {}", endpoint(&path)));
            let problem = child.next_report();
            let advice = "permission denied; this user needs write permission for the socket and access to its directory";
            assert!(problem.ends_with(&format!("{}: {advice}", endpoint(&path))), "{problem}");
            set_mode(closed, 0o777);
            assert_eq!(child.finish(), ["3 delivered, 0 lost"]);
            assert_eq!(receiver.span_count(), 3);
        }
        return;
    };
    become_nobody();
    let exporter = match task.split_once(' ').unwrap() {
        ("http", endpoint) => Exporter::http(endpoint),
        (_, endpoint) => Exporter::grpc(endpoint),
    };
    let problems = Problems::default();
    let delay = Duration::from_millis(1);
    let telemetry = problems.start(exporter.retry_delays(delay, 20 * delay));
    emit(&telemetry.tracer("shop"), 3);
    process::report(&problems.wait_for(ProblemKind::Unavailable).message);
    let ledger = telemetry.shutdown(LONG);
    process::report(format!("{} delivered, {} lost", ledger.total().delivered, ledger.lost()));
}

#[test]
fn a_server_that_accepts_no_clients_delays_neither_the_attempt_nor_the_shutdown() {
    let scratch = Scratch::new_in(&std::env::temp_dir());
    let path = scratch.path().join("otel.sock");
    let listener = full(&path);
    for exporter in [Exporter::http(endpoint(&path)), Exporter::grpc(endpoint(&path))] {
        let (problems, begun) = (Problems::default(), Instant::now());
        let telemetry = problems.start(exporter.timeout(Duration::from_millis(100)));
        emit(&telemetry.tracer("shop"), 1);
        let problem = problems.wait_for(ProblemKind::Unavailable);
        assert!(problem.message.ends_with(": no answer in time"), "{problem}");
        let ledger = telemetry.shutdown(Duration::from_millis(200));
        assert!(begun.elapsed() < NOISE, "{:?}", begun.elapsed());
        assert_eq!(ledger.total().dropped.shutdown, 1, "{ledger}");
    }
    drop(listener);
}

/// Returns a listener whose queue of pending clients is full, and these clients.
#[allow(unsafe_code)]
fn full(path: &Path) -> (UnixListener, Vec<UnixStream>) {
    let listener = UnixListener::bind(path).unwrap();
    // SAFETY: only shortens the queue of a socket that is open.
    assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 0) }, 0);
    // The queue has room for one client.
    let clients = vec![UnixStream::connect(path).unwrap()];
    (listener, clients)
}
