//! The rules that hold for every value, whoever set it.

mod remarks;

use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::endpoint::Endpoint;
use super::error::{ConfigError, Fault, Finding, FindingSeverity};
use super::key::Key;
use super::path::{quoted, unshown};
use super::{Compression, Config, Exporter, Location, Transport, duration, header, no_proxy, size};

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
    findings.extend(no_proxy::findings(&config, |name| std::env::var(name).ok()));
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
    // by columns, then by lines, as equal ones keep their order: sorting is compiled anew for every kind of key, and is large
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
        (Key::Headers, check_head(exporter)),
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
        let http = &exporter.http;
        let shown = unshown(&http.endpoint).map_or_else(|| quoted(&http.shown_endpoint), str::to_owned);
        let what = format!("{shown} {}", fault.what);
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

/// What is too long by itself is reported as that.
fn check_head(exporter: &Exporter) -> Result<(), Fault> {
    let http = &exporter.http;
    let product = http.user_agent.as_deref();
    let mut values = http.headers.iter().map(|(_, value)| value.expose()).chain(product);
    if values.any(header::is_too_long) || Endpoint::is_too_long(&http.endpoint) {
        return Ok(());
    }
    http.check_head().map_err(|what| Fault::new(what, "write shorter ones"))
}

#[cfg(test)]
mod tests;
