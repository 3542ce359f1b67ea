//! The rules that hold for every value, whoever set it.

mod remarks;

use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::error::{ConfigError, Fault, Finding, FindingSeverity};
use super::key::Key;
use super::{Compression, Config, Exporter, Location, Transport, duration, header, size};

/// The queue keeps its two counts in one word: 24 bits for records …
pub(super) const QUEUE_RECORDS: RangeInclusive<u64> = 1..=(1 << 24) - 1;
/// … and 32 bits and one step for bytes.
const QUEUE_BYTES: RangeInclusive<u64> = 1 << 10..=1 << 32;
/// No batch can hold more than the queue can.
const BATCH_RECORDS: RangeInclusive<u64> = QUEUE_RECORDS;
const BATCH_BYTES: RangeInclusive<u64> = 1 << 10..=64 << 20;
/// Every moment that is computed from a duration must be one that the clock can tell.
pub(super) const LONGEST: Duration = Duration::from_secs(365 * 86_400);

/// Checks a configuration, of which a reader has already found some things and some exporters to be broken.
///
/// # Errors
///
/// All findings, if at least one is an error; with them the configuration without its broken exporters. What is disabled
/// has no errors, only warnings.
pub(super) fn validate(
    mut config: Config,
    mut findings: Vec<Finding>,
    broken_exporters: &[usize],
) -> Result<Config, ConfigError> {
    let mut ids = HashSet::new();
    let mut broken: Vec<bool> = vec![false; config.exporters.len()];
    for &index in broken_exporters {
        broken[index] = true;
    }
    for (index, exporter) in config.exporters.iter().enumerate() {
        let mut found = Vec::new();
        check(exporter, &mut found);
        if !ids.insert(exporter.label()) {
            found.push(whole(exporter, "another exporter has the same id", "give each its own with id"));
        }
        broken[index] |= found.iter().any(|finding| finding.severity == FindingSeverity::Error);
        // a variable that several exporters ask is wrong once
        found.retain(|finding| finding.location.is_some() || !findings.contains(finding));
        findings.append(&mut found);
    }
    findings.extend(remarks::on_observation(&config));
    if config.disabled {
        // nothing of it will be started, so nothing of it is a reason for a program not to start
        findings
            .iter_mut()
            .for_each(|finding| finding.severity = finding.severity.min(FindingSeverity::Warning));
    }
    let failed = findings.iter().any(|finding| finding.severity == FindingSeverity::Error);
    // an exporter that both routes use is checked twice
    let mut told = HashSet::new();
    findings.retain(|finding| told.insert(finding.to_string()));
    // by columns, then by lines: equal ones keep their order, and a number is what all places are sorted by
    let by: [fn(&Location) -> usize; 2] = [|place| place.column, |place| place.line];
    for number in by {
        findings.sort_by_cached_key(|finding| finding.location.as_ref().map_or(0, number));
    }

    let told = findings.iter().filter(|finding| finding.severity < FindingSeverity::Error);
    // what is validated twice, after reading and at start, is told once
    let known: HashSet<String> = config.findings.iter().map(ToString::to_string).collect();
    let new: Vec<Finding> = told.filter(|finding| !known.contains(&finding.to_string())).cloned().collect();
    config.findings.extend(new);
    // whatever was told of it: what is broken is never started
    let mut keep = broken.iter().map(|broken| !broken);
    config.exporters.retain(|_| keep.next().unwrap_or(false));
    if !failed {
        return Ok(config);
    }
    Err(ConfigError::new(findings, config))
}

fn check(exporter: &Exporter, found: &mut Vec<Finding>) {
    let mut report = |severity, key, fault| {
        found.push(exporter.finding(severity, key, &exporter.source(key), fault));
    };
    let bounds = [
        (
            Key::QueueRecords,
            check_count(exporter.queue.records, QUEUE_RECORDS, "the most the queue can count"),
        ),
        (Key::QueueBytes, check_size(exporter.queue.bytes, QUEUE_BYTES, "the most the queue can count")),
        (
            Key::BatchRecords,
            check_count(exporter.batch.records, BATCH_RECORDS, "the most the queue can count"),
        ),
        (Key::BatchBytes, check_size(exporter.batch.bytes, BATCH_BYTES, "the most a request may hold")),
        (Key::Signals, check_signals(exporter)),
        (Key::Interval, check_positive(exporter.push.interval)),
        (Key::Throttle, check_at_most(exporter.pace.throttle)),
        (Key::Linger, check_at_most(exporter.pace.linger)),
        (Key::Timeout, check_positive(exporter.http.timeout)),
        (Key::GiveUpAfter, check_positive(exporter.retry.give_up_after)),
        (Key::RetryFirstDelay, check_positive(exporter.retry.first_delay)),
        (Key::RetryMaxDelay, check_max_delay(exporter)),
        (Key::BlockTimeout, check_block_timeout(exporter.queue.block_timeout)),
    ];
    let connection = [
        (Key::Transport, check_transport(exporter.http.transport, cfg!(feature = "grpc"))),
        (Key::Endpoint, check_endpoint(exporter, cfg!(feature = "tls"))),
        (Key::Compression, check_compression(exporter.http.compression, cfg!(feature = "gzip"))),
        (Key::CaFile, check_ca(exporter)),
        (Key::ClientCertificateFile, check_client_certificate(exporter)),
        (Key::ClientKeyFile, check_client_key(exporter)),
        (Key::UserAgent, check_user_agent(exporter)),
    ];
    // what is printed needs none, whatever is said about it
    let connects = exporter.http.transport.connects();
    for (key, result) in bounds.into_iter().chain(connection.into_iter().filter(|_| connects)) {
        if let Err(fault) = result {
            report(FindingSeverity::Error, key, fault);
        }
    }
    for (severity, key, fault) in remarks::on(exporter) {
        report(severity, key, fault);
    }
    for (index, (name, value)) in exporter.http.headers.iter().enumerate().filter(|_| connects) {
        let checked = header::check(index + 1, name, value.expose());
        if let Err(fault) = checked.and_then(|()| check_metadata(exporter.http.transport, name)) {
            found.push(exporter.finding(
                FindingSeverity::Error,
                Key::Headers,
                exporter.header_source(index),
                fault,
            ));
        }
    }
    for (key, source, fault) in exporter.refused() {
        found.push(exporter.finding(FindingSeverity::Error, *key, source, fault.clone()));
    }
    if exporter.name().is_empty() {
        found.push(whole(exporter, "the id is empty", "leave it out for \"otlp\""));
    }
}

fn whole(exporter: &Exporter, what: &'static str, fix: &'static str) -> Finding {
    Fault::new(what, fix).found(FindingSeverity::Error, exporter.location().cloned(), exporter.path())
}

fn check_signals(exporter: &Exporter) -> Result<(), Fault> {
    match exporter.signals.iter().next() {
        Some(_) => Ok(()),
        None => Err(Fault::new("there is none, so nothing would be sent", Key::Signals.advice())),
    }
}

fn check_count(count: usize, range: RangeInclusive<u64>, why: &str) -> Result<(), Fault> {
    check_range(count, range, why, |count| count.to_string())
}

fn check_size(bytes: usize, range: RangeInclusive<u64>, why: &str) -> Result<(), Fault> {
    check_range(bytes, range, why, size::show)
}

fn check_range(
    value: usize,
    range: RangeInclusive<u64>,
    why: &str,
    show: fn(u64) -> String,
) -> Result<(), Fault> {
    let value = value as u64;
    if range.contains(&value) {
        return Ok(());
    }
    let (least, most) = (show(*range.start()), show(*range.end()));
    let problem = if value < *range.start() { "small".to_owned() } else { format!("large: {why} is {most}") };
    Err(Fault::new(format!("{} is too {problem}", show(value)), format!("write {least} to {most}")))
}

fn check_at_most(value: Duration) -> Result<(), Fault> {
    if value <= LONGEST {
        return Ok(());
    }
    Err(Fault::new(format!("{} is too long", duration::show(value)), "write at most 365d"))
}

fn check_positive(value: Duration) -> Result<(), Fault> {
    if value < Duration::from_millis(1) {
        return Err(Fault::new(format!("{} is too short", duration::show(value)), "write 1ms to 365d"));
    }
    check_at_most(value)
}

fn check_max_delay(exporter: &Exporter) -> Result<(), Fault> {
    let (first, max) = (exporter.retry.first_delay, exporter.retry.max_delay);
    check_positive(max)?;
    if max < first {
        let (first, max) = (duration::show(first), duration::show(max));
        let what = format!("{max} is shorter than retry-first-delay, {first}");
        return Err(Fault::new(what, format!("write {first} or more")));
    }
    Ok(())
}

fn check_block_timeout(value: Option<Duration>) -> Result<(), Fault> {
    match value {
        Some(Duration::ZERO) => Err(Fault::new("0s means never to wait", "write lossy = true for that")),
        Some(value) => check_positive(value),
        None => Ok(()),
    }
}

fn check_endpoint(exporter: &Exporter, can_encrypt: bool) -> Result<(), Fault> {
    let endpoint = exporter.http.parsed().map_err(|fault| {
        let what = format!("{:?} {}", exporter.http.shown_endpoint, fault.what);
        fault.saying(what)
    })?;
    if endpoint.tls && !can_encrypt {
        return Err(Fault::new(
            "https needs TLS, which this build does not have",
            "build standpipe with its feature \"tls\"",
        ));
    }
    Ok(())
}

fn check_transport(transport: Transport, can_call: bool) -> Result<(), Fault> {
    if transport == Transport::Grpc && !can_call {
        return Err(Fault::new(
            "this build cannot send over gRPC",
            "build standpipe with its feature \"grpc\"",
        ));
    }
    Ok(())
}

fn check_metadata(transport: Transport, name: &str) -> Result<(), Fault> {
    match transport {
        Transport::Grpc => header::check_metadata(name),
        Transport::Http | Transport::Console => Ok(()),
    }
}

fn check_compression(compression: Compression, can_compress: bool) -> Result<(), Fault> {
    if compression == Compression::Gzip && !can_compress {
        return Err(Fault::new(
            "this build cannot compress",
            "build standpipe with its feature \"gzip\", or write \"none\"",
        ));
    }
    Ok(())
}

fn check_ca(exporter: &Exporter) -> Result<(), Fault> {
    exporter.http.tls.ca.as_ref().map_or(Ok(()), |pem| check_pem(pem, "CERTIFICATE"))
}

fn check_client_certificate(exporter: &Exporter) -> Result<(), Fault> {
    exporter.http.tls.client.as_ref().map_or(Ok(()), |(certificate, _)| check_pem(certificate, "CERTIFICATE"))
}

fn check_client_key(exporter: &Exporter) -> Result<(), Fault> {
    exporter
        .http
        .tls
        .client
        .as_ref()
        .map_or(Ok(()), |(_, key)| check_pem(key.expose().as_bytes(), "PRIVATE KEY"))
}

/// Only that it is the right kind of file; what is in it is for the TLS library to judge.
fn check_pem(pem: &[u8], kind: &str) -> Result<(), Fault> {
    let end_of_label = format!("{kind}-----");
    let is_begin = |line: &[u8]| {
        line.starts_with(b"-----BEGIN ") && line.trim_ascii_end().ends_with(end_of_label.as_bytes())
    };
    if pem.split(|&byte| byte == b'\n').any(is_begin) {
        return Ok(());
    }
    Err(Fault::new(format!("holds no PEM block \"{kind}\""), "name a file in PEM form"))
}

fn check_user_agent(exporter: &Exporter) -> Result<(), Fault> {
    match &exporter.http.user_agent {
        Some(product) if product.trim().is_empty() => Err(Fault::new("is empty", Key::UserAgent.advice())),
        Some(product) => {
            header::check_value(product).map_err(|problem| Fault::new(problem, Key::UserAgent.advice()))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Source;
    use crate::record::Signal;

    fn refused(exporter: Exporter) -> String {
        Config::new().exporter(exporter).validate().expect_err("out of range").to_string()
    }

    fn exporter() -> Exporter {
        Exporter::http("http://localhost:4318")
    }

    #[test]
    fn sizes_that_the_queue_cannot_count_are_refused_by_name() {
        const MOST: &str = "is too large: the most the queue can count is";
        let huge = usize::MAX;
        for (exporter, message) in [
            (exporter().queue_records(0), "queue-records: 0 is too small; write 1 to 16777215".to_owned()),
            (
                exporter().queue_records(huge),
                format!("queue-records: {huge} {MOST} 16777215; write 1 to 16777215"),
            ),
            (exporter().queue_bytes(0), "queue-bytes: 0 is too small; write 1 KiB to 4 GiB".to_owned()),
            (exporter().queue_bytes(huge), format!("queue-bytes: {huge} {MOST} 4 GiB; write 1 KiB to 4 GiB")),
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
            .linger(LONGEST)
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

    #[test]
    fn an_exporter_that_sends_no_signal_is_refused() {
        assert_eq!(
            refused(exporter().signals([])),
            "exporter \"otlp\".signals: there is none, so nothing would be sent; \
             name at least one of traces, logs and metrics"
        );
    }

    #[test]
    fn a_second_exporter_of_the_same_id_is_refused_and_the_first_one_kept() {
        let config = Config::new().exporter(exporter()).exporter(exporter().linger(LONGEST));
        let error = config.validate().expect_err("the same id");
        assert_eq!(
            error.to_string(),
            "exporter \"otlp\": another exporter has the same id; give each its own with id"
        );
        let usable = error.into_usable();
        assert_eq!(usable.exporters().len(), 1);
        assert_eq!(usable.exporters()[0].pace.linger, Duration::ZERO);
        assert!(usable.validate().is_ok());
    }

    #[test]
    fn all_errors_of_all_exporters_come_at_once() {
        let config = Config::new()
            .exporter(exporter().id("a").queue_records(0).timeout(Duration::ZERO))
            .exporter(exporter().id("b"))
            .exporter(Exporter::http("ftp://x").id("c").header("Bad Name", "hunter2"));
        let error = config.validate().expect_err("four errors");
        let keys: Vec<&str> = error.findings().iter().map(|finding| finding.key.as_str()).collect();
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
        let [finding] = twice.findings() else { panic!("{:?}", twice.findings()) };
        assert_eq!(
            finding.to_string(),
            "warning: exporter \"otlp\".ca-file: has no effect: the endpoint is not https; write https:// or remove it"
        );
    }

    #[test]
    fn signals_that_share_a_path_are_a_warning() {
        let told = |exporter| {
            let config = Config::new().exporter(exporter).validate().expect("only a warning");
            config.findings().iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let to_a_path = || Exporter::http("http://localhost:4318/v1/otel");
        let warning = |signals: &str| {
            format!(
                "warning: exporter \"otlp\".endpoint: {signals} are posted to the same path; \
                 leave the path out, or make one exporter for each"
            )
        };
        assert_eq!(told(to_a_path()), [warning("traces, logs and metrics")]);
        assert_eq!(told(to_a_path().signals([Signal::Logs, Signal::Traces])), [warning("traces and logs")]);
        assert_eq!(told(to_a_path().signals([Signal::Logs])), [""; 0]);
        assert_eq!(told(Exporter::http("http://localhost:4318/?key=1")), [""; 0]);
    }

    #[test]
    fn what_is_printed_needs_no_connection_but_the_same_bounds() {
        let mut printed =
            Exporter::http("ftp://user:hunter2@nowhere/x").header("Bad Name", "hunter2").ca_pem("no");
        printed.set_transport(Transport::Console, Source::Code);
        let config = Config::new().exporter(printed.clone()).validate().expect("nothing is connected to");
        assert!(config.findings().is_empty(), "{:?}", config.findings());
        assert_eq!(
            refused(printed.timeout(2 * LONGEST).queue_records(0)),
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
    fn an_empty_id_or_product_is_refused() {
        assert_eq!(refused(exporter().id("")), "exporter \"\": the id is empty; leave it out for \"otlp\"");
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
                    "exporter \"otlp\".headers: header {name:?} is not yours to set over gRPC; \
                     remove it: standpipe writes what is needed"
                )
            );
            assert!(Config::new().exporter(exporter().header(name, "x")).validate().is_ok(), "{name}");
        }
    }

    #[test]
    fn what_a_build_cannot_do_is_refused() {
        let secure = Exporter::http("https://localhost");
        let fault = check_endpoint(&secure, false).expect_err("no TLS");
        assert_eq!(fault.what, "https needs TLS, which this build does not have");
        assert!(check_endpoint(&exporter(), false).is_ok());
        let fault = check_transport(Transport::Grpc, false).expect_err("no gRPC");
        assert_eq!(fault.what, "this build cannot send over gRPC");
        assert!(check_transport(Transport::Http, false).is_ok());
        let fault = check_compression(Compression::Gzip, false).expect_err("no gzip");
        assert_eq!(fault.what, "this build cannot compress");
        assert!(check_compression(Compression::None, false).is_ok());
    }
}
