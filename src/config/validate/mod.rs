//! Which rules hold for every value, from code, file or environment? Those of its row, and a few between settings.

mod remarks;

use std::time::Duration;

use crate::config::endpoint::Endpoint;
use crate::config::error::{ConfigError, Diagnostic, DiagnosticSeverity, Fault};
use crate::config::settings::SettingRow;
use crate::config::settings::{HEADERS, RETRY_MAX_DELAY, SIGNALS, SPOOL, USER_AGENT, rows};
use crate::config::text::{quoted, unshown};
use crate::config::{Compression, Config, Exporter, SettingSource, Transport, header, no_proxy, units};

/// Checks a configuration, of which a reader has already found some things and some exporters to be broken.
///
/// # Errors
///
/// All diagnostics, if at least one is an error; with them the configuration without its broken exporters. What is disabled
/// has no errors, only warnings.
pub(in crate::config) fn validate(
    mut config: Config,
    mut diagnostics: Vec<Diagnostic>,
    broken_exporters: &[usize],
) -> Result<Config, ConfigError> {
    let mut names = Vec::new();
    let mut broken: Vec<bool> = vec![false; config.exporters.len()];
    for &index in broken_exporters {
        broken[index] = true;
    }
    for (index, exporter) in config.exporters.iter().enumerate() {
        let mut found = Vec::new();
        check(exporter, &mut found);
        if names.contains(&exporter.name()) {
            found.push(whole(
                exporter,
                "another exporter has the same name",
                "give each its own with Exporter::named",
            ));
        }
        names.push(exporter.name());
        broken[index] |= found.iter().any(|diagnostic| diagnostic.severity == DiagnosticSeverity::Error);
        // a variable that several exporters ask is wrong once
        found.retain(|diagnostic| diagnostic.location.is_some() || !diagnostics.contains(diagnostic));
        diagnostics.append(&mut found);
    }
    diagnostics.extend(remarks::on_observation(&config));
    diagnostics.extend(no_proxy::diagnostics(&config, |name| std::env::var(name).ok()));
    if config.disabled {
        // nothing of it will be started, so nothing of it is a reason for a program not to start
        diagnostics.iter_mut().for_each(|diagnostic| {
            diagnostic.severity = diagnostic.severity.min(DiagnosticSeverity::Warning)
        });
    }
    let failed = diagnostics.iter().any(|diagnostic| diagnostic.severity == DiagnosticSeverity::Error);
    // an exporter that both providers use is checked twice
    let mut seen = Vec::new();
    diagnostics.retain(|diagnostic| {
        let text = diagnostic.to_string();
        let is_new = !seen.contains(&text);
        seen.push(text);
        is_new
    });
    sort_by_place(&mut diagnostics);

    let harmless = diagnostics.iter().filter(|diagnostic| diagnostic.severity < DiagnosticSeverity::Error);
    // what is validated twice, after reading and at start, is reported once
    let known: Vec<String> = config.diagnostics.iter().map(ToString::to_string).collect();
    let new: Vec<Diagnostic> =
        harmless.filter(|diagnostic| !known.contains(&diagnostic.to_string())).cloned().collect();
    config.diagnostics.extend(new);
    // what is broken is never started
    let mut keep = broken.iter().map(|broken| !broken);
    config.exporters.retain(|_| keep.next().unwrap_or(false));
    if !failed {
        return Ok(config);
    }
    Err(ConfigError::new(diagnostics, config))
}

/// Equal ones keep their order. One after the other: the library's sort is compiled anew for every kind of key, and is large.
fn sort_by_place(diagnostics: &mut Vec<Diagnostic>) {
    let place = |diagnostic: &Diagnostic| {
        diagnostic.location.as_ref().map_or((0, 0), |location| (location.line, location.column))
    };
    for index in 1..diagnostics.len() {
        let next = diagnostics.remove(index);
        let at = diagnostics[..index].partition_point(|other| place(other) <= place(&next));
        diagnostics.insert(at, next);
    }
}

fn check(exporter: &Exporter, found: &mut Vec<Diagnostic>) {
    let mut report = |severity, row, fault| {
        found.push(exporter.diagnostic(severity, row, &exporter.source(row), fault));
    };
    let connects = exporter.connection.transport.connects();
    for row in rows() {
        let of_connection = if connects { (row.connection_rule)(exporter) } else { Ok(()) };
        let ruled = of_connection.and_then(|()| (row.rule)(exporter));
        if let Err(fault) = ruled.and_then(|()| row.kind.check(exporter)) {
            report(DiagnosticSeverity::Error, row, fault);
        }
    }
    for (severity, row, fault) in remarks::on(exporter, |name| std::env::var(name).ok()) {
        report(severity, row, fault);
    }
    found.extend(rows().filter_map(|row| check_partner(exporter, row)));
    for (index, (name, value)) in exporter.connection.headers.iter().enumerate().filter(|_| connects) {
        let checked = header::check(index + 1, name, value.expose());
        if let Err(fault) = checked.and_then(|()| check_metadata(exporter.connection.transport, name)) {
            let source = exporter.header_source(index);
            found.push(exporter.diagnostic(DiagnosticSeverity::Error, &HEADERS, source, fault));
        }
    }
    for (row, source, fault) in exporter.refused() {
        found.push(exporter.diagnostic(DiagnosticSeverity::Error, row, source, fault.clone()));
    }
    if exporter.own_name().is_empty() {
        found.push(whole(exporter, "the name is empty", "leave it out for \"otlp\""));
    }
}

/// What is set without the setting that it needs is reported where it is set.
fn check_partner(exporter: &Exporter, row: &'static SettingRow) -> Option<Diagnostic> {
    let partner = row.partner.filter(|partner| exporter.is_set(row) && !exporter.is_set(partner))?;
    let source = exporter.source(row);
    let fault = match (&source, row.variables.exporter.zip(partner.variables.exporter)) {
        (SettingSource::Environment(variable), Some((end, missing))) => {
            Fault::new(format!("set without {}", variable.replace(end, missing)), "set both or neither")
        }
        _ => Fault::new(format!("missing beside {}", row.key), "write both or neither"),
    };
    Some(exporter.diagnostic(DiagnosticSeverity::Error, partner, &source, fault))
}

fn whole(exporter: &Exporter, what: &'static str, fix: &'static str) -> Diagnostic {
    Fault::new(what, fix).found(DiagnosticSeverity::Error, exporter.location().cloned(), exporter.path())
}

pub(in crate::config) fn signals(exporter: &Exporter) -> Result<(), Fault> {
    match exporter.signals.iter().next() {
        Some(_) => Ok(()),
        None => Err(Fault::new("there is none, so nothing would be sent", SIGNALS.advice)),
    }
}

pub(in crate::config) fn max_delay(exporter: &Exporter) -> Result<(), Fault> {
    let (first, max) = (exporter.retry.first_delay, exporter.retry.max_delay);
    RETRY_MAX_DELAY.kind.check(exporter)?;
    if max < first {
        let (first, max) = (units::show_duration(first), units::show_duration(max));
        let what = format!("{max} is shorter than retry-first-delay, {first}");
        return Err(Fault::new(what, format!("write {first} or more")));
    }
    Ok(())
}

pub(in crate::config) fn block_timeout(exporter: &Exporter) -> Result<(), Fault> {
    match exporter.queue.block_timeout {
        Some(Duration::ZERO) => Err(Fault::new("0s means never to wait", "write lossy = true for that")),
        _ => Ok(()),
    }
}

pub(in crate::config) fn endpoint(exporter: &Exporter) -> Result<(), Fault> {
    check_endpoint(exporter, cfg!(feature = "tls"))
}

fn check_endpoint(exporter: &Exporter, can_encrypt: bool) -> Result<(), Fault> {
    let endpoint = exporter.connection.parsed().map_err(|fault| {
        let http = &exporter.connection;
        let shown = unshown(&http.endpoint).map_or_else(|| quoted(&http.shown_endpoint), str::to_owned);
        let what = format!("{shown} {}", fault.what);
        fault.saying(what)
    })?;
    if endpoint.tls && !can_encrypt {
        return Err(Fault::new(
            "needs TLS, which this build does not have",
            "build standpipe with its feature \"tls\", or begin it with http:// for plaintext",
        ));
    }
    Ok(())
}

pub(in crate::config) fn transport(exporter: &Exporter) -> Result<(), Fault> {
    check_transport(exporter.connection.transport, cfg!(feature = "grpc"))
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

pub(in crate::config) fn compression(exporter: &Exporter) -> Result<(), Fault> {
    check_compression(exporter.connection.compression, cfg!(feature = "gzip"))
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

pub(in crate::config) fn spool(exporter: &Exporter) -> Result<(), Fault> {
    let fault = |what: &'static str, fix: &'static str| Err(Fault::new(what, fix));
    match &exporter.spool.directory {
        None => Ok(()),
        Some(directory) if directory.as_os_str().is_empty() => fault("is empty", SPOOL.advice),
        Some(_) if !cfg!(feature = "spool") => {
            fault("this build has no spool", "build standpipe with its feature \"spool\"")
        }
        Some(_) if !cfg!(target_os = "linux") => fault("only Linux has a spool", "leave it out"),
        Some(_) => Ok(()),
    }
}

/// Only that it is the right kind of file; what is in it is for the TLS library to judge.
pub(in crate::config) fn pem(pem: Option<&[u8]>, kind: &str) -> Result<(), Fault> {
    let Some(pem) = pem else { return Ok(()) };
    let end_of_label = format!("{kind}-----");
    let is_begin = |line: &[u8]| {
        line.starts_with(b"-----BEGIN ") && line.trim_ascii_end().ends_with(end_of_label.as_bytes())
    };
    if pem.split(|&byte| byte == b'\n').any(is_begin) {
        return Ok(());
    }
    Err(Fault::new(format!("holds no PEM block \"{kind}\""), "name a file in PEM form"))
}

pub(in crate::config) fn user_agent(exporter: &Exporter) -> Result<(), Fault> {
    match &exporter.connection.user_agent {
        Some(product) if product.trim().is_empty() => Err(Fault::new("is empty", USER_AGENT.advice)),
        Some(product) => {
            header::check_value(product).map_err(|problem| Fault::new(problem, USER_AGENT.advice))
        }
        None => Ok(()),
    }
}

/// What is too long by itself is reported as that.
pub(in crate::config) fn head(exporter: &Exporter) -> Result<(), Fault> {
    let http = &exporter.connection;
    let product = http.user_agent.as_deref();
    let mut values = http.headers.iter().map(|(_, value)| value.expose()).chain(product);
    if values.any(header::is_too_long) || Endpoint::is_too_long(&http.endpoint) {
        return Ok(());
    }
    http.check_head().map_err(|what| Fault::new(what, "write shorter ones"))
}

#[cfg(all(test, feature = "grpc", feature = "tls"))]
mod tests;
