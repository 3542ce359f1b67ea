//! Validates a configuration from code, file or environment: the rule of each row, rules between settings, and warnings
//! about values that work but are probably mistakes.

use std::time::Duration;

use crate::config::endpoint::{Endpoint, PathRule, exposes_password, is_https_proxy};
use crate::config::error::{
    Checked, ConfigError, Configured, Diagnostic, DiagnosticSeverity, Fault, Words, add_new,
};
use crate::config::settings::general::SELF_OBSERVATION;
use crate::config::settings::{
    BATCH_RECORDS, BLOCK_TIMEOUT, CA_FILE, CLIENT_CERTIFICATE_FILE, ENDPOINT, EXTRA_CA_FILE, FILE, HEADERS,
    PROXY, RETRY_MAX_DELAY, SIGNALS, SPOOL, SettingRow, USER_AGENT, VariableNames, rows,
};
use crate::config::text::{listed, shortened, unshown};
use crate::config::{
    Compression, Config, Exporter, ProviderName, Proxy, Roots, Secret, SettingSource, Transport, View,
    WhenFull, demand, header, no_proxy, proxy_for, units,
};
use crate::record::Signal;

/// Checks a configuration. `diagnostics` and `broken` are the results of the code that read it; `broken` contains the
/// indexes of the exporters with errors.
///
/// # Errors
///
/// Returns an error if at least one diagnostic is an error. The returned error contains all diagnostics and the
/// configuration without its broken exporters. In a disabled configuration, errors become warnings.
pub(super) fn validate(mut config: Config, mut diagnostics: Vec<Diagnostic>, broken: &[usize]) -> Configured {
    let mut names = Vec::new();
    let mut is_broken: Vec<bool> = (0..config.exporters.len()).map(|index| broken.contains(&index)).collect();
    for (index, exporter) in config.exporters.iter().enumerate() {
        let mut found = Vec::new();
        check(exporter, &mut found);
        // Names identify exporters in problems and in the ledger. All but the first of the same name are broken.
        if names.contains(&exporter.name()) {
            let fix = "give each its own with Exporter::named";
            found.push(whole(exporter, "another exporter has the same name", fix));
        }
        names.push(exporter.name());
        is_broken[index] |= found.iter().any(|diagnostic| diagnostic.severity == DiagnosticSeverity::Error);
        diagnostics.append(&mut found);
    }
    let routes = [&mut config.main, &mut config.application];
    for settings in routes.into_iter().filter(|_| demand::VIEWS.is_raised()) {
        diagnostics.extend(settings.views.iter().flat_map(View::diagnostics));
        // Like a broken exporter, a faulty view must not take effect in `ConfigError::into_usable`.
        settings.views.retain(|view| view.faults().next().is_none());
    }
    diagnostics.extend(idle_self_observation(&config));
    // The transport reads the proxy variables of the process, wherever the configuration comes from.
    diagnostics.extend(no_proxy::diagnostics(&config, |name| std::env::var(name).ok()));
    if config.disabled {
        // Nothing will be started, so no error may keep the program from starting.
        diagnostics.iter_mut().for_each(|diagnostic| {
            diagnostic.severity = diagnostic.severity.min(DiagnosticSeverity::Warning)
        });
    }
    let failed = diagnostics.iter().any(|diagnostic| diagnostic.severity == DiagnosticSeverity::Error);
    sort_by_place(&mut diagnostics);
    // Duplicates occur: an exporter of both providers is checked twice, and several exporters may read one variable.
    let mut found = Vec::new();
    diagnostics.into_iter().for_each(|diagnostic| add_new(&mut found, diagnostic));
    // A configuration is validated twice, after reading and at start, so it may contain the diagnostic already.
    for diagnostic in found.iter().filter(|found| found.severity < DiagnosticSeverity::Error) {
        add_new(&mut config.diagnostics, diagnostic.clone());
    }
    // Broken exporters are removed, so that they are never started.
    let mut keep = is_broken.iter().map(|broken| !broken);
    config.exporters.retain(|_| keep.next().unwrap_or(false));
    if failed { Err(ConfigError::new(found, config)) } else { Ok(config) }
}

/// Sorts by place; equal places keep their order. An insertion sort needs much less code than the standard library's
/// sort, and there are at most a few hundred diagnostics.
fn sort_by_place(diagnostics: &mut Vec<Diagnostic>) {
    let place = |diagnostic: &Diagnostic| {
        diagnostic.location.as_ref().map_or((0, 0), |location| (location.line, location.column))
    };
    for index in 1..diagnostics.len() {
        let next = diagnostics.remove(index);
        // `<=` inserts after equal places, which makes the sort stable.
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
        let ruled =
            if (row.applies_to)(exporter.connection.transport) { (row.rule)(exporter) } else { Ok(()) };
        // At most one error is reported per setting. The rule is checked before the range, because its message explains
        // more.
        if let Err(fault) = ruled.and_then(|()| row.kind.check(exporter)) {
            report(DiagnosticSeverity::Error, row, fault);
        }
    }
    for (severity, row, fault) in Remarks::of(exporter, |name| std::env::var(name).ok()).found {
        report(severity, row, fault);
    }
    found.extend(rows().filter_map(|row| check_partner(exporter, row)));
    for (index, (name, value)) in exporter.connection.headers.iter().enumerate().filter(|_| connects) {
        if let Err(fault) = exporter.connection.check_header(index, name, value) {
            let source = exporter.header_source(index);
            found.push(exporter.diagnostic(DiagnosticSeverity::Error, &HEADERS, source, fault));
        }
    }
    for (row, source, fault) in &exporter.refused {
        found.push(exporter.diagnostic(DiagnosticSeverity::Error, row, source, fault.clone()));
    }
    if exporter.own_name().is_empty() {
        found.push(whole(exporter, "the name is empty", "leave it out for \"otlp\""));
    }
}

/// Reports a setting without the partner that it needs, at the place of the setting.
fn check_partner(exporter: &Exporter, row: &'static SettingRow) -> Option<Diagnostic> {
    let partner = row.partner.filter(|partner| exporter.is_set(row) && !exporter.is_set(partner))?;
    let source = exporter.source(row);
    let fault = match (&source, &row.variables, &partner.variables) {
        (
            SettingSource::Environment(variable),
            VariableNames::OfExporter(end),
            VariableNames::OfExporter(missing),
        ) => Fault::new(format!("set without {}", variable.replace(end, missing)), "set both or neither"),
        _ => {
            let key = exporter.key(row);
            let name = key.rsplit('.').next().unwrap_or_default();
            Fault::new(format!("missing, but needed by {name}"), "write both or neither")
        }
    };
    Some(exporter.diagnostic(DiagnosticSeverity::Error, partner, &source, fault))
}

/// Makes an error about an exporter as a whole, at the place of its section.
fn whole(exporter: &Exporter, what: &'static str, fix: &'static str) -> Diagnostic {
    Fault::new(what, fix).error(exporter.location().cloned(), exporter.path())
}

pub(crate) fn signals(exporter: &Exporter) -> Checked {
    let nothing = || Fault::new("no signal is selected, so nothing would be sent", SIGNALS.advice);
    exporter.signals.iter().next().map(|_| ()).ok_or_else(nothing)
}

pub(crate) fn max_delay(exporter: &Exporter) -> Checked {
    let (first, max) = (exporter.retry.first_delay, exporter.retry.max_delay);
    // The range is checked first: comparing a value that is out of range would suggest a wrong correction.
    RETRY_MAX_DELAY.kind.check(exporter)?;
    let [shown_first, shown_max] = [first, max].map(units::show_duration);
    let what = format!("{shown_max} is shorter than retry-first-delay, {shown_first}");
    Fault::unless(max >= first, what, format!("write {shown_first} or more"))
}

pub(crate) fn block_timeout(exporter: &Exporter) -> Checked {
    let waits = exporter.queue.block_timeout != Some(Duration::ZERO);
    Fault::unless(waits, "0s means never to wait", "write lossy = true for that")
}

pub(crate) fn endpoint(exporter: &Exporter, can_encrypt: bool) -> Checked {
    let endpoint = exporter.connection.parsed().map_err(|fault| {
        let http = &exporter.connection;
        // The shown form of a malformed endpoint is masked already: it consists of the scheme and `***`.
        let shown = || format!("{:?}", shortened(&http.shown_endpoint));
        fault.of(unshown(&http.endpoint).map_or_else(shown, str::to_owned))
    })?;
    let fix = "build standpipe with its feature \"tls\", or begin it with http:// for plaintext";
    Fault::unless(!endpoint.tls || can_encrypt, "needs TLS, which this build does not have", fix)
}

pub(crate) fn transport(transport: Transport, can_call: bool, has_json: bool) -> Checked {
    let fix = "build standpipe with its feature \"grpc\"";
    Fault::unless(transport != Transport::Grpc || can_call, "this build cannot send over gRPC", fix)?;
    let needs_json = !matches!(transport, Transport::Http | Transport::Grpc);
    let fix = "build standpipe with its feature \"json\"";
    Fault::unless(!needs_json || has_json, "this build cannot write JSON", fix)
}

pub(crate) fn file(exporter: &Exporter) -> Checked {
    let path = &exporter.connection.file.path;
    Fault::unless(!path.as_os_str().is_empty(), "no file is named", FILE.advice)
}

pub(crate) fn compression(compression: Compression, can_compress: bool) -> Checked {
    let fix = "build standpipe with its feature \"gzip\", or write \"none\"";
    Fault::unless(compression != Compression::Gzip || can_compress, "this build cannot compress", fix)
}

pub(crate) fn roots(exporter: &Exporter) -> Checked {
    let can_use = exporter.connection.tls.roots != Roots::System || cfg!(feature = "system-roots");
    let fix = "build standpipe with its feature \"system-roots\", or write \"bundled\"";
    Fault::unless(can_use, "this build cannot use the roots of the system", fix)
}

pub(crate) fn spool(exporter: &Exporter) -> Checked {
    let Some(directory) = &exporter.spool.directory else { return Ok(()) };
    let fix = "build standpipe with its feature \"spool\"";
    Fault::unless(!directory.as_os_str().is_empty(), "is empty", SPOOL.advice)?;
    Fault::unless(cfg!(feature = "spool"), "this build has no spool", fix)?;
    Fault::unless(cfg!(target_os = "linux"), "only Linux has a spool", "leave it out")
}

/// Checks that a file contains a PEM block of this kind. The TLS library checks the content.
pub(crate) fn pem(pem: Option<&[u8]>, kind: &str) -> Checked {
    let Some(pem) = pem else { return Ok(()) };
    let end_of_label = format!("{kind}-----");
    let is_begin = |line: &[u8]| {
        line.starts_with(b"-----BEGIN ") && line.trim_ascii_end().ends_with(end_of_label.as_bytes())
    };
    let has_block = pem.split(|&byte| byte == b'\n').any(is_begin);
    Fault::unless(has_block, format!("holds no PEM block \"{kind}\""), "name a file in PEM form")
}

pub(crate) fn user_agent(exporter: &Exporter) -> Checked {
    let Some(product) = &exporter.connection.user_agent else { return Ok(()) };
    Fault::unless(!product.trim().is_empty(), "is empty", USER_AGENT.advice)?;
    header::check_value(product).map_err(|problem| Fault::new(problem, USER_AGENT.advice))
}

/// Checks the length of endpoint, user agent and headers together, unless one of them alone is too long: that is
/// reported separately.
pub(crate) fn head(exporter: &Exporter) -> Checked {
    let http = &exporter.connection;
    let product = http.user_agent.as_deref();
    let mut values = http.headers.iter().map(|(_, value)| value.expose()).chain(product);
    if values.any(header::is_too_long) || Endpoint::is_too_long(&http.endpoint) {
        return Ok(());
    }
    http.check_head()
}

/// Collects warnings and notes about values that work but are probably mistakes.
struct Remarks<'e> {
    exporter: &'e Exporter,
    found: Vec<(DiagnosticSeverity, &'static SettingRow, Fault)>,
}

impl<'e> Remarks<'e> {
    fn of(exporter: &'e Exporter, variable: fn(&str) -> Option<String>) -> Self {
        let mut remarks = Self { exporter, found: Vec::new() };
        if exporter.is_set(&FILE) && exporter.connection.transport != Transport::File {
            remarks.warn(&FILE, "has no effect: the transport is not file", "write transport = \"file\"");
        }
        if exporter.connection.transport.connects() {
            remarks.queue();
            if let Ok(endpoint) = &exporter.connection.parsed() {
                let proxy = proxy_for(endpoint.tls, endpoint.host_and_port(), variable);
                remarks
                    .proxy(endpoint, proxy.filter(|_| exporter.connection.proxy == Proxy::FromEnvironment));
                remarks.clear_credentials(endpoint);
                match exporter.connection.transport.is_http() {
                    _ if endpoint.socket.is_some() => {}
                    true => remarks.http_path(endpoint),
                    false => remarks.grpc_path(endpoint),
                }
                remarks.port(endpoint);
            }
        }
        remarks
    }

    fn warn(&mut self, row: &'static SettingRow, what: impl Into<Words>, fix: impl Into<Words>) {
        self.found.push((DiagnosticSeverity::Warning, row, Fault::new(what, fix)));
    }

    /// Warns about `block-timeout` if records are dropped instead, and about batches that are larger than the queue.
    fn queue(&mut self) {
        let exporter = self.exporter;
        let is_idle = exporter.queue.when_full == WhenFull::DropNewest && BLOCK_TIMEOUT.matters_to(exporter);
        let fix = match exporter.source(&BLOCK_TIMEOUT) {
            SettingSource::Environment(variable) => {
                format!("set {}=BLOCK", variable.replace("BLOCK_ON_QUEUE_FULL_TIMEOUT", "ON_QUEUE_FULL"))
            }
            SettingSource::File(_) => "write lossy = false, or remove it".to_owned(),
            SettingSource::Default | SettingSource::Code => String::new(),
        };
        if is_idle && !fix.is_empty() {
            self.warn(&BLOCK_TIMEOUT, "has no effect: no caller waits", fix);
        }
        let (batch, queue) = (exporter.batch.records, exporter.queue.records);
        if batch > queue && exporter.is_set(&BATCH_RECORDS) {
            let what = format!("{batch} is more than the queue holds: a request has at most {queue} records");
            self.warn(&BATCH_RECORDS, what, format!("write {queue} or less, or make the queue larger"));
        }
    }

    /// Warns about certificate settings if neither the endpoint nor its proxy uses TLS, and about a proxy's password
    /// that is sent to another machine without encryption. `proxy` is a variable and its value.
    fn proxy(&mut self, endpoint: &Endpoint, proxy: Option<(&str, String)>) {
        let tls = &self.exporter.connection.tls;
        let client = tls.client().map(|_| &CLIENT_CERTIFICATE_FILE);
        let extra = tls.extra_ca.as_ref().map(|_| &EXTRA_CA_FILE);
        let row = tls.ca.as_ref().map(|_| &CA_FILE).or(extra).or(client);
        let has_tls = endpoint.tls || proxy.as_ref().is_some_and(|(_, proxy)| is_https_proxy(proxy));
        if let Some(row) = row.filter(|_| !has_tls) {
            let what = "has no effect: the endpoint is not https";
            self.warn(row, what, "write https:// or remove it");
        }
        if let Some((variable, _)) = proxy.filter(|(_, proxy)| exposes_password(proxy)) {
            let what = format!("the password in {variable} is sent in clear text: the proxy is not https");
            self.warn(&PROXY, what, "begin its address with https:// if it supports TLS");
        }
    }

    /// Warns about credentials in headers or in the query that are sent to another machine without encryption.
    fn clear_credentials(&mut self, endpoint: &Endpoint) {
        let connection = &self.exporter.connection;
        if endpoint.tls || endpoint.is_loopback() {
            return;
        }
        let is_credential = |(name, value): &(String, Secret)| header::is_credential(name, value.expose());
        let has_credentials = connection.has_secret_header || connection.headers.iter().any(is_credential);
        // gRPC does not send the query.
        let query = endpoint.query.get(1..).filter(|_| connection.transport.is_http());
        let mut pairs = query.unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
        let has_key = pairs.any(|(name, value)| header::is_credential(name, value));
        let what = "credentials are sent in clear text: the endpoint is not https";
        let fix = "begin the endpoint with https://";
        if has_credentials {
            self.warn(&HEADERS, what, fix);
        }
        if has_key {
            self.warn(&ENDPOINT, what, fix);
        }
    }

    /// Warns about paths that no collector has: two paths of signals in a row, the path of another signal, or one path
    /// for several signals.
    fn http_path(&mut self, endpoint: &Endpoint) {
        let exporter = self.exporter;
        let names_two = |(_, url): (Signal, String)| {
            let segments: Vec<&str> = url.split('?').next().unwrap_or_default().split('/').collect();
            let names_signal =
                |pair: &&[&str]| pair[0] == "v1" && Signal::ALL.iter().any(|signal| signal.name() == pair[1]);
            segments.windows(2).filter(names_signal).count() > 1
        };
        if exporter.endpoints().into_iter().any(names_two) {
            let fix = "leave the path out: standpipe appends it";
            return self.warn(&ENDPOINT, "the path names a signal twice", fix);
        }
        let rule = exporter.connection.path_rule;
        if !rule.keeps_path() {
            return;
        }
        let is_of = |signal: &Signal| endpoint.path.ends_with(signal.path());
        let named = Signal::ALL.into_iter().find(is_of).filter(|signal| !exporter.signals.contain(*signal));
        let signals: Vec<Signal> = exporter.signals.iter().collect();
        if let (Some(named), Some(sent)) = (named, signals.first()) {
            let what = format!("{} are posted to the path of {}", sent.name(), named.name());
            return self.warn(&ENDPOINT, what, format!("leave the path out, or write {}", sent.path()));
        }
        // For variables, `env::exporters` warns about an endpoint without a path.
        let is_at_root = rule == PathRule::Verbatim && exporter.source(&ENDPOINT) == SettingSource::Code;
        if signals.len() >= 2 && (!endpoint.path.is_empty() || is_at_root) {
            let names: Vec<&str> = signals.into_iter().map(Signal::name).collect();
            let what = format!("{} are posted to the same path", listed(&names, "and"));
            let fix = match exporter.location() {
                Some(_) => "leave the path out, or write one table for each",
                None => "give each signal its own endpoint",
            };
            self.warn(&ENDPOINT, what, fix);
        }
    }

    /// Warns about a path or a query, neither of which exists in gRPC.
    fn grpc_path(&mut self, endpoint: &Endpoint) {
        if !endpoint.path.is_empty() {
            // The shown origin contains no expanded secret.
            let origin = self.exporter.connection.shown_origin();
            let fix = origin.map_or_else(|| "remove it".to_owned(), |origin| format!("write {origin:?}"));
            self.warn(&ENDPOINT, "the path is ignored: gRPC has none", fix);
        }
        if !endpoint.query.is_empty() {
            let what = "the query is ignored: gRPC has none";
            self.warn(&ENDPOINT, what, "send its values as headers");
        }
    }

    /// Notes the use of the other transport's default port: 4317 and 4318 are easily confused.
    fn port(&mut self, endpoint: &Endpoint) {
        let own = self.exporter.connection.transport;
        let (name, other) = if own.is_http() { ("HTTP", Transport::Grpc) } else { ("gRPC", Transport::Http) };
        let (_, port) = endpoint.host_and_port();
        if port == other.default_port() {
            let (usual, other) = (own.default_port(), other.name());
            let what = format!("{port} is usually the port of {other}");
            let fix = format!("write {usual} for {name}, or choose {other} as the transport");
            self.found.push((DiagnosticSeverity::Note, &ENDPOINT, Fault::new(what, fix)));
        }
    }
}

/// Warns about self-observation if no exporter sends metrics.
fn idle_self_observation(config: &Config) -> Option<Diagnostic> {
    // The application's exporters do not export the program's ledger.
    let is_seen = config.exporters.iter().any(|exporter| {
        exporter.signals.contain(Signal::Metrics) && exporter.provider() != Some(ProviderName::Application)
    });
    let source = config.source(&SELF_OBSERVATION);
    (config.self_observation && !is_seen && !config.exporters.is_empty()).then(|| {
        let what = "has no effect: no exporter sends metrics";
        let fault = Fault::new(what, "add an exporter of metrics");
        fault.warning(source.location().cloned(), SELF_OBSERVATION.key)
    })
}

#[cfg(all(test, feature = "grpc", feature = "tls"))]
mod tests;
