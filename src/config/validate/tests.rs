use super::*;
use crate::config::Application;
use crate::config::settings::MAX_DURATION;

fn refused(exporter: Exporter) -> String {
    Config::new().exporter(exporter).validate().expect_err("out of range").to_string()
}

fn exporter() -> Exporter {
    Exporter::http("http://localhost:4318")
}

#[test]
fn sizes_that_the_queue_cannot_count_are_refused_by_name() {
    const TOO_LARGE: &str = "is too large: the most the queue can count is";
    let huge = usize::MAX;
    let (most_bytes, most_words) = match usize::BITS {
        64 => ("4 GiB", TOO_LARGE),
        _ => ("1 GiB", "is too large: the most a queue may hold on a 32-bit machine is"),
    };
    for (exporter, message) in [
        (exporter().queue_records(0), "queue-records: 0 is too small; write 1 to 16777215".to_owned()),
        (
            exporter().queue_records(huge),
            format!("queue-records: {huge} {TOO_LARGE} 16777215; write 1 to 16777215"),
        ),
        (exporter().queue_bytes(0), format!("queue-bytes: 0 is too small; write 1 KiB to {most_bytes}")),
        (
            exporter().queue_bytes(huge),
            format!("queue-bytes: {huge} {most_words} {most_bytes}; write 1 KiB to {most_bytes}"),
        ),
        (exporter().batch_records(0), "batch-records: 0 is too small; write 1 to 16777215".to_owned()),
        (
            exporter().batch_bytes(huge),
            format!(
                "batch-bytes: {huge} is too large: the most a request may hold is 64 MiB; write 1 KiB to 64 MiB"
            ),
        ),
    ] {
        assert_eq!(refused(exporter), format!("exporter \"otlp\".{message}"));
    }
}

#[test]
fn the_ends_of_every_range_are_allowed() {
    let exporter = exporter()
        .queue_records(1)
        .queue_bytes(1 << 10)
        .batch_records((1 << 24) - 1)
        .batch_bytes(64 << 20)
        .throttle(Duration::ZERO)
        .linger(MAX_DURATION)
        .timeout(Duration::from_millis(1));
    assert!(Config::new().exporter(exporter).validate().is_ok());
}

#[test]
fn durations_that_no_clock_can_add_are_refused() {
    for exporter in [
        exporter().timeout(Duration::MAX),
        exporter().throttle(Duration::MAX),
        exporter().interval(Duration::MAX),
        exporter().linger(Duration::MAX),
        exporter().block_timeout(Duration::MAX),
        exporter().give_up_after(Duration::MAX),
        exporter().retry_delays(Duration::from_secs(1), Duration::MAX),
    ] {
        let message = refused(exporter);
        assert!(message.ends_with("is too long; write at most 365d"), "{message}");
    }
    assert_eq!(
        refused(exporter().timeout(Duration::ZERO)),
        "exporter \"otlp\".timeout: 0s is too short; write 1ms to 365d"
    );
    assert_eq!(
        refused(exporter().interval(Duration::ZERO)),
        "exporter \"otlp\".interval: 0s is too short; write 1ms to 365d"
    );
}

#[cfg(feature = "json")]
#[test]
fn retry_delays_in_the_wrong_order_are_refused_where_there_are_retries() {
    let [first, max] = [2, 1].map(Duration::from_secs);
    for exporter in [exporter(), Exporter::grpc("localhost")] {
        assert_eq!(
            refused(exporter.retry_delays(first, max)),
            "exporter \"otlp\".retry-max-delay: 1s is shorter than retry-first-delay, 2s; write 2s or more"
        );
    }
    let printing = Exporter::console().retry_delays(first, max);
    assert!(Config::new().exporter(printing).validate().is_ok());
}

#[test]
fn an_exporter_that_sends_no_signal_is_refused() {
    assert_eq!(
        refused(exporter().signals([])),
        "exporter \"otlp\".signals: no signal is selected, so nothing would be sent; \
         name at least one of traces, logs and metrics"
    );
}

#[test]
fn a_second_exporter_of_the_same_name_is_refused_and_the_first_one_kept() {
    let config = Config::new().exporter(exporter()).exporter(exporter().linger(MAX_DURATION));
    let error = config.validate().expect_err("the same name");
    assert_eq!(
        error.to_string(),
        "exporter \"otlp\": another exporter has the same name; give each its own with Exporter::named"
    );
    let usable = error.into_usable();
    assert_eq!(usable.exporters().len(), 1);
    assert_eq!(usable.exporters()[0].pace.linger, Duration::ZERO);
    assert!(usable.validate().is_ok());
}

#[test]
fn all_errors_of_all_exporters_come_at_once() {
    let config = Config::new()
        .exporter(exporter().named("a").queue_records(0).timeout(Duration::ZERO))
        .exporter(exporter().named("b"))
        .exporter(Exporter::http("ftp://x").named("c").header("Bad Name", "hunter2"));
    let error = config.validate().expect_err("four errors");
    let keys: Vec<&str> = error.diagnostics().iter().map(|diagnostic| diagnostic.key.as_str()).collect();
    assert_eq!(
        keys,
        [
            "exporter \"a\".queue-records",
            "exporter \"a\".timeout",
            "exporter \"c\".endpoint",
            "exporter \"c\".headers"
        ]
    );
    assert_eq!(error.into_usable().exporters()[0].name(), "b");
}

#[test]
fn certificates_without_https_are_a_warning_told_once() {
    let config = Config::new().exporter(exporter().ca_pem("-----BEGIN CERTIFICATE-----\n"));
    let twice = config.validate().and_then(Config::validate).expect("only a warning");
    let [diagnostic] = twice.diagnostics() else { panic!("{:?}", twice.diagnostics()) };
    assert_eq!(
        diagnostic.to_string(),
        "warning: exporter \"otlp\".ca-file: has no effect: the endpoint is not https; write https:// or remove it"
    );
}

#[test]
fn signals_that_share_a_path_are_a_warning() {
    let told = |exporter| {
        let config = Config::new().exporter(exporter).validate().expect("only a warning");
        config.diagnostics().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let to_a_path = || Exporter::http_verbatim("http://localhost:4318/v1/otel");
    let warning = |signals: &str| {
        format!(
            "warning: exporter \"otlp\".endpoint: {signals} are posted to the same path; \
             give each signal its own endpoint"
        )
    };
    assert_eq!(told(to_a_path()), [warning("traces, logs and metrics")]);
    assert_eq!(told(to_a_path().signals([Signal::Logs, Signal::Traces])), [warning("traces and logs")]);
    assert_eq!(told(to_a_path().signals([Signal::Logs])), [""; 0]);
    assert_eq!(told(Exporter::http("http://localhost:4318/?key=1")), [""; 0]);
    assert_eq!(told(Exporter::http("http://localhost:4318/v1/traces")), [""; 0]);
    assert_eq!(told(Exporter::http_verbatim("http://localhost:4318")), [warning("traces, logs and metrics")]);
    assert_eq!(told(Exporter::http("http://localhost:4318/v1/tracesx")), [""; 0]);
    assert_eq!(told(Exporter::http("http://localhost:4318?to=/v1/traces")), [""; 0]);
}

#[test]
fn warns_of_credentials_in_clear_text_to_another_machine() {
    let told = |exporter: Exporter, name: &str, value: &str| {
        let config = Config::new().exporter(exporter.header(name, value)).validate().expect("no error");
        config.diagnostics().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let warning = "warning: exporter \"otlp\".headers: credentials are sent in clear text: the endpoint is not https; \
                   begin the endpoint with https://";
    let token = "c2VjcmV0LXRva2VuLWh1bnRlcjI";
    for (name, value) in [("Authorization", "x"), ("api-key", "x"), ("x-honeycomb-team", "x"), ("x", token)] {
        assert_eq!(told(Exporter::http("a.test"), name, value), [warning], "{name}: {value}");
        assert_eq!(told(Exporter::grpc("http://a.test:99"), name, value), [warning], "{name}: {value}");
        for safe in [
            Exporter::http("localhost"),
            Exporter::http("http://127.0.0.1:4318"),
            Exporter::http("https://a.test"),
            Exporter::grpc("a.test:99"),
            Exporter::grpc("[::1]:99"),
        ] {
            assert_eq!(told(safe, name, value), [""; 0], "{name}: {value}");
        }
        // A resolver may map this name to another machine.
        assert_eq!(told(Exporter::http("http://otel.localhost"), name, value), [warning], "{name}: {value}");
    }
    let harmless = |exporter: Exporter| told(exporter, "x-scope-orgid", "team-7");
    assert_eq!(harmless(Exporter::http("a.test")), [""; 0]);
    let warning = warning.replace("headers", "endpoint");
    assert_eq!(harmless(Exporter::http("http://a.test/in?x=1&api-key=hunter2")), [warning]);
    for safe in
        ["http://a.test/in?x=1", "https://a.test/in?api-key=hunter2", "http://localhost?api-key=hunter2"]
    {
        assert_eq!(harmless(Exporter::http(safe)), [""; 0], "{safe}");
    }
}

#[test]
fn warns_of_a_password_in_clear_text_to_a_proxy_on_another_machine() {
    let told = |exporter: Exporter| {
        let variable =
            |name: &str| (name == "http_proxy").then(|| "http://ali:hunter2@proxy:3128".to_owned());
        let found = Remarks::of(&exporter, variable).found.into_iter();
        found.map(|(_, row, fault)| format!("{}: {}", row.key, fault.what)).collect::<Vec<_>>()
    };
    let warning = "proxy: the password in http_proxy is sent in clear text: the proxy is not https";
    assert_eq!(told(Exporter::http("a.test")), [warning]);
    assert_eq!(told(Exporter::grpc("http://a.test:99")), [warning]);
    for safe in [Exporter::http("localhost"), Exporter::http("a.test").proxy(Proxy::Off)] {
        assert_eq!(told(safe), [""; 0]);
    }
}

#[cfg(feature = "json")]
#[test]
fn what_is_printed_needs_no_connection_but_the_same_bounds() {
    let mut printed =
        Exporter::http("ftp://user:hunter2@nowhere/x").header("Bad Name", "hunter2").ca_pem("no");
    printed.set_transport(Transport::Console);
    let config = Config::new().exporter(printed.clone()).validate().expect("nothing is connected to");
    assert!(config.diagnostics().is_empty(), "{:?}", config.diagnostics());
    assert_eq!(
        refused(printed.timeout(2 * MAX_DURATION).queue_records(0)),
        "exporter \"otlp\".queue-records: 0 is too small; write 1 to 16777215\n\
         exporter \"otlp\".timeout: 730d is too long; write at most 365d"
    );
}

#[test]
fn what_is_not_pem_is_refused() {
    let secure = || Exporter::http("https://localhost");
    assert_eq!(
        refused(secure().ca_pem("\u{1}\u{2}")),
        "exporter \"otlp\".ca-file: holds no PEM block \"CERTIFICATE\"; name a file in PEM form"
    );
    let certificate = "junk\n-----BEGIN CERTIFICATE-----\r\nAAAA\r\n-----END CERTIFICATE-----\r\n";
    assert_eq!(
        refused(secure().client_pem(certificate, certificate)),
        "exporter \"otlp\".client-key-file: holds no PEM block \"PRIVATE KEY\"; name a file in PEM form"
    );
    let key = "-----BEGIN RSA PRIVATE KEY-----\n";
    assert!(Config::new().exporter(secure().client_pem(certificate, key)).validate().is_ok());
}

#[test]
fn an_empty_name_or_product_is_refused() {
    assert_eq!(refused(exporter().named("")), "exporter \"\": the name is empty; leave it out for \"otlp\"");
    assert_eq!(
        refused(exporter().user_agent(" ")),
        "exporter \"otlp\".user-agent: is empty; write a product like \"shop/1.2\""
    );
}

#[test]
fn headers_that_only_grpc_cannot_carry_are_refused_only_there() {
    for name in ["Host", "TE", "grpc-timeout", "keep-alive", "Proxy-Connection", "upgrade"] {
        assert_eq!(
            refused(Exporter::grpc("localhost").header("x-tenant", "seven").header(name, "hunter2")),
            format!(
                "exporter \"otlp\".headers: header {name:?} cannot be set over gRPC; \
                 remove it: gRPC writes it or forbids it"
            )
        );
        assert!(Config::new().exporter(exporter().header(name, "x")).validate().is_ok(), "{name}");
    }
}

#[test]
fn what_a_build_cannot_do_is_refused() {
    let secure = Exporter::http("https://localhost");
    let fault = endpoint(&secure, false).expect_err("no TLS");
    assert_eq!(fault.what, "needs TLS, which this build does not have");
    let fault = endpoint(&Exporter::grpc("collector:4317"), false).expect_err("no TLS");
    assert_eq!(fault.what, "needs TLS, which this build does not have");
    assert!(fault.fix.ends_with("or begin it with http:// for plaintext"), "{}", fault.fix);
    assert!(endpoint(&Exporter::grpc("localhost:4317"), false).is_ok());
    assert!(endpoint(&exporter(), false).is_ok());
    let fault = transport(Transport::Grpc, false, true).expect_err("no gRPC");
    assert_eq!(fault.what, "this build cannot send over gRPC");
    let fault = transport(Transport::HttpJson, true, false).expect_err("no JSON");
    assert_eq!(fault.what, "this build cannot write JSON");
    assert!(transport(Transport::Http, false, false).is_ok());
    let fault = compression(Compression::Gzip, false).expect_err("no gzip");
    assert_eq!(fault.what, "this build cannot compress");
    assert!(compression(Compression::None, false).is_ok());
}

#[test]
fn certificates_are_of_use_to_an_https_proxy() {
    let idle = |endpoint: &str, proxy: Proxy, variable: fn(&str) -> Option<String>| {
        let exporter = Exporter::http(endpoint).proxy(proxy).ca_pem("-----BEGIN CERTIFICATE-----");
        Remarks::of(&exporter, variable).found.iter().any(|(_, row, _)| row.key == CA_FILE.key)
    };
    let https = |name: &str| (name == "http_proxy").then(|| "HTTPS://proxy:3129".to_owned());
    let http = |name: &str| (name == "http_proxy").then(|| "http://proxy:3128".to_owned());
    let excepted = |name: &str| match name {
        "http_proxy" => Some("https://proxy:3129".to_owned()),
        "no_proxy" => Some("a.test".to_owned()),
        _ => None,
    };
    for (endpoint, proxy, variable, is_idle) in [
        ("http://a.test", Proxy::FromEnvironment, https as fn(&str) -> Option<String>, false),
        ("http://a.test", Proxy::Off, https, true),
        ("http://localhost", Proxy::FromEnvironment, https, true),
        ("http://a.test", Proxy::FromEnvironment, http, true),
        ("http://a.test", Proxy::FromEnvironment, excepted, true),
        ("https://a.test", Proxy::FromEnvironment, http, false),
    ] {
        assert_eq!(idle(endpoint, proxy, variable), is_idle, "{endpoint} {proxy:?}");
    }
}

#[test]
fn self_observation_that_nobody_would_see_is_told() {
    let told = |signal| {
        let exporter = Exporter::http("localhost").signals([signal]);
        let config = Config::new().exporter(exporter).self_observation(true).validate();
        config.expect("only a warning").diagnostics().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(told(Signal::Metrics), [""; 0]);
    let application = Application::new().exporter(Exporter::http("localhost").signals([Signal::Metrics]));
    let config = Config::new().exporter(Exporter::http("localhost").signals([Signal::Traces]));
    let config = config.application(application).self_observation(true).validate();
    assert_eq!(config.expect("only a warning").diagnostics().len(), 1);
    assert_eq!(
        told(Signal::Traces),
        ["warning: self-observation: has no effect: no exporter sends metrics; \
             add an exporter of metrics"]
    );
}
