//! Certificates that are replaced while the program runs, and the system's root certificates.

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use standpipe::receiver::Receiver;
use standpipe::{Config, Exporter, FlushOutcome, ProblemKind, Telemetry};

use super::{PATIENCE, Relay};
use crate::support::process;
use crate::support::scene::Problems;
use crate::support::scratch::Scratch;
use crate::support::tls::{Identity, TestCa, TlsFront};

fn front(identity: &Identity, receiver: &Receiver, is_grpc: bool) -> TlsFront {
    match is_grpc {
        true => TlsFront::offering("h2", identity, receiver.grpc_address()),
        false => TlsFront::start(identity, receiver.address()),
    }
}

fn exporter_to(relay: &Relay, is_grpc: bool) -> Exporter {
    let url = format!("https://localhost:{}", relay.address.port());
    let exporter = if is_grpc { Exporter::grpc(url) } else { Exporter::http(url) };
    exporter.throttle(Duration::ZERO).retry_delays(Duration::from_millis(1), Duration::from_millis(20))
}

fn deliver(telemetry: &Telemetry) {
    telemetry.tracer("shop").span("checkout").end();
    assert_eq!(telemetry.flush(PATIENCE), FlushOutcome::Complete);
}

#[test]
fn retries_an_outdated_certificate_of_the_server_until_it_is_renewed() {
    let (ca, receiver) = (TestCa::new(), Receiver::start().unwrap());
    for (outdated, why) in [(ca.expired(), "has expired"), (ca.not_yet_valid(), "not valid yet")] {
        for is_grpc in [false, true] {
            let before = front(&outdated, &receiver, is_grpc);
            let renewed = front(&ca.leaf("localhost"), &receiver, is_grpc);
            let relay = Relay::start(before.address());
            let problems = Problems::default();
            let telemetry = problems.start(exporter_to(&relay, is_grpc).ca_pem(ca.pem()));
            telemetry.tracer("shop").span("checkout").end();
            let problem = problems.wait_for(ProblemKind::Unavailable);
            assert!(problem.message.contains(why), "{problem}");
            relay.lead_to(renewed.address());
            let ledger = telemetry.shutdown(PATIENCE);
            assert_eq!((ledger.total().delivered, ledger.lost()), (1, 0), "{ledger}");
        }
    }
}

#[test]
fn uses_a_renewed_client_certificate_after_a_refusal_of_the_expired_one() {
    let (ca, receiver, scratch) = (TestCa::new(), Receiver::start().unwrap(), Scratch::new());
    let write = |identity: &Identity| {
        scratch.write("client.pem", &identity.certificate_pem);
        scratch.write("client.key", &identity.key_pem);
    };
    let server = ca.leaf("localhost");
    for is_grpc in [false, true] {
        write(&ca.expired_client("shop.example"));
        let front = match is_grpc {
            true => TlsFront::offering_to_clients_of("h2", &server, &ca, receiver.grpc_address()),
            false => TlsFront::requiring_client_certificate(&server, &ca, receiver.address()),
        };
        let relay = Relay::start(front.address());
        let exporter = exporter_to(&relay, is_grpc)
            .ca_pem(ca.pem())
            .client_files(scratch.path().join("client.pem"), scratch.path().join("client.key"));
        let problems = Problems::default();
        let telemetry = problems.start(exporter);
        telemetry.tracer("shop").span("checkout").end();
        let problem = problems.wait_for(ProblemKind::Unavailable);
        assert!(problem.message.contains("refuses the client certificate: CertificateExpired"), "{problem}");
        write(&ca.client("shop.example"));
        let ledger = telemetry.shutdown(PATIENCE);
        assert_eq!((ledger.total().delivered, ledger.lost()), (1, 0), "{ledger}");
    }
}

#[test]
fn follows_a_replaced_ca_file_and_keeps_the_old_text_while_the_new_one_is_broken() {
    let (old, new, receiver, scratch) =
        (TestCa::new(), TestCa::new(), Receiver::start().unwrap(), Scratch::new());
    for is_grpc in [false, true] {
        let path = scratch.write("ca.pem", old.pem());
        let first = front(&old.leaf("localhost"), &receiver, is_grpc);
        let relay = Relay::start(first.address());
        let problems = Problems::default();
        // The path is relative to the directory of the configuration file.
        let file = format!(
            "[tracer.otel]\ntype = 'otel'\nthrottle = '0s'\nretry-first-delay = '1ms'\ntransport = '{}'\nendpoint = 'https://localhost:{}'\nca-file = 'ca.pem'\n",
            if is_grpc { "grpc" } else { "http" },
            relay.address.port()
        );
        let config = Config::from_file(scratch.write("otlp.toml", file)).unwrap().service_name("shop");
        let telemetry = problems.start_with(config);
        deliver(&telemetry);
        // The server closes the connection below, so the next request needs a new connection, for which the file is
        // read again.
        std::fs::write(&path, "-----BEGIN CERTIFICATE-----\nhunter2\n").unwrap();
        let second = front(&old.leaf("localhost"), &receiver, is_grpc);
        relay.lead_to(second.address());
        drop(first);
        deliver(&telemetry);
        let problem = problems.wait_for(ProblemKind::Configuration);
        let expected = "the new certificates cannot be used, so the old ones stay: CA: ";
        assert!(problem.message.starts_with(expected), "{problem}");
        assert!(!problem.message.contains("hunter2"), "{problem}");
        std::fs::write(&path, new.pem()).unwrap();
        let third = front(&new.leaf("localhost"), &receiver, is_grpc);
        relay.lead_to(third.address());
        drop(second);
        deliver(&telemetry);
        let ledger = telemetry.shutdown(PATIENCE);
        assert_eq!((ledger.total().delivered, ledger.lost()), (3, 0), "{ledger}");
    }
}

#[test]
fn keeps_the_old_pair_while_only_the_certificate_is_replaced() {
    let (ca, receiver, scratch) = (TestCa::new(), Receiver::start().unwrap(), Scratch::new());
    let (old, new, server) = (ca.client("shop.example"), ca.client("shop.example"), ca.leaf("localhost"));
    let front = || TlsFront::requiring_client_certificate(&server, &ca, receiver.address());
    let (first, second, third) = (front(), front(), front());
    let relay = Relay::start(first.address());
    let certificate = scratch.write("client.pem", &old.certificate_pem);
    let key = scratch.write("client.key", &old.key_pem);
    let problems = Problems::default();
    let exporter = exporter_to(&relay, false).ca_pem(ca.pem());
    let telemetry = problems.start(exporter.client_files(&certificate, &key));
    deliver(&telemetry);
    std::fs::write(&certificate, &new.certificate_pem).unwrap();
    relay.lead_to(second.address());
    drop(first);
    deliver(&telemetry);
    let problem = problems.wait_for(ProblemKind::Configuration);
    let expected = "the new certificates cannot be used, so the old ones stay: client key: it does not belong to the client certificate";
    assert_eq!(problem.message, expected);
    std::fs::write(&key, &new.key_pem).unwrap();
    relay.lead_to(third.address());
    drop(second);
    deliver(&telemetry);
    let ledger = telemetry.shutdown(PATIENCE);
    assert_eq!((ledger.total().delivered, ledger.lost()), (3, 0), "{ledger}");
    assert_eq!(problems.reported().len(), 1, "{:?}", problems.reported());
}

#[cfg(unix)]
#[test]
fn a_forked_child_uses_the_certificates_of_its_time() {
    let name = "a_forked_child_uses_the_certificates_of_its_time";
    let Some(task) = process::task() else {
        let (ca, receiver, scratch) = (TestCa::new(), Receiver::start().unwrap(), Scratch::new());
        for is_grpc in [false, true] {
            let front = front(&ca.leaf("localhost"), &receiver, is_grpc);
            let protocol = if is_grpc { "grpc" } else { "http" };
            let new = scratch.write("new.pem", ca.pem());
            process::run(name, &format!("{protocol} {} {}", front.url(), new.display()));
        }
        return assert_eq!(receiver.span_count(), 2);
    };
    let [protocol, url, new] = task.split(' ').collect::<Vec<_>>()[..] else { panic!("{task}") };
    let scratch = Scratch::new();
    let path = scratch.write("ca.pem", TestCa::new().pem());
    let exporter = if protocol == "grpc" { Exporter::grpc(url) } else { Exporter::http(url) };
    let telemetry = Problems::default().start(exporter.ca_file(&path));
    std::fs::copy(new, path).unwrap();
    assert!(process::in_a_fork(|| {
        telemetry.tracer("shop").span("checkout").end();
        telemetry.shutdown(PATIENCE).lost() == 0
    }));
}

#[test]
fn trusts_an_extra_authority_beside_the_others() {
    let (one, other, receiver) = (TestCa::new(), TestCa::new(), Receiver::start().unwrap());
    for ca in [&one, &other] {
        let front = front(&ca.leaf("localhost"), &receiver, false);
        let exporter = Exporter::http(front.url()).ca_pem(one.pem()).extra_ca_pem(other.pem());
        let telemetry = Problems::default().start(exporter);
        deliver(&telemetry);
        assert_eq!(telemetry.shutdown(PATIENCE).lost(), 0);
    }
    let front = front(&one.leaf("localhost"), &receiver, false);
    let telemetry = Problems::default().start(Exporter::http(front.url()).extra_ca_pem(one.pem()));
    deliver(&telemetry);
    assert_eq!(telemetry.shutdown(PATIENCE).lost(), 0);
}

/// Runs `standpipe check` with these certificates as the system's roots.
fn check(configuration: &Path, roots: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_standpipe"))
        .arg("check")
        .arg(configuration)
        .env("SSL_CERT_FILE", roots)
        .env_remove("SSL_CERT_DIR")
        .output()
        .unwrap()
}

#[test]
fn trusts_the_roots_of_the_system_and_requires_some() {
    let (ca, receiver, scratch) = (TestCa::new(), Receiver::start().unwrap(), Scratch::new());
    let front = front(&ca.leaf("localhost"), &receiver, false);
    let file = format!(
        "[tracer.otel]\ntype = 'otel'\ntransport = 'http'\nendpoint = '{}'\nroots = 'system'\n",
        front.url()
    );
    let file = scratch.write("otlp.toml", file);
    let output = check(&file, &scratch.write("roots.pem", ca.pem()));
    assert!(output.status.success(), "{output:?}");
    let output = check(&file, &scratch.write("stranger.pem", TestCa::new().pem()));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!output.status.success() && text.contains("unknown issuer"), "{text}");
    let output = check(&file, &scratch.write("none.pem", ""));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!output.status.success() && text.contains("the system has no trusted roots"), "{text}");
}

#[test]
fn reports_a_missing_file_at_start() {
    let exporter = Exporter::http("https://localhost:1").client_files("no/such.pem", "no/such.key");
    let error = Telemetry::start(Config::new().service_name("shop").exporter(exporter)).err().unwrap();
    let text = error.to_string();
    assert!(
        text.contains("client-certificate-file: cannot read file \"no/such.pem\": no such file"),
        "{text}"
    );
    assert!(text.contains("client-key-file: cannot read file \"no/such.key\": no such file"), "{text}");
}
