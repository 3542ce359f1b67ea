//! Puts what the variables say into an exporter.

use std::path::Path;
use std::time::Duration;

use super::given::{Given, Wish, Wishes};
use super::reader::Reader;
use crate::config::endpoint::{Endpoint, PathRule};
use crate::config::error::Fault;
use crate::config::key::Key;
use crate::config::{Exporter, Secret, Source, Transport, expand};

/// Takes over everything that can be; what cannot makes the exporter one that validation refuses.
pub(super) fn put(wishes: &Wishes, exporter: &mut Exporter, reader: &mut Reader<'_>) {
    // in the order of the keys: the endpoint's meaning depends on the transport
    for (key, wish) in wishes.iter() {
        let key = *key;
        let source = Source::Environment(wish.variable.clone());
        let done = wish.given.clone().and_then(|given| set(key, given, exporter, &source));
        match done {
            Ok(shown) => exporter.record(key, source, shown),
            Err(fault) => exporter.refuse(key, source, fault),
        }
    }
    put_client_files(wishes, exporter);
    warn_of_missing_path(exporter, reader);
}

/// Takes one value over; returns what to show instead of it, if it should not be shown itself.
fn set(key: Key, given: Given, exporter: &mut Exporter, source: &Source) -> Result<Option<String>, Fault> {
    match given {
        Given::Transport(transport) => exporter.set_transport(transport, source.clone()),
        Given::Endpoint { text, rule, encrypt } => {
            let is_grpc = exporter.http.transport == Transport::Grpc;
            let text = if encrypt && is_grpc { encrypted(text) } else { text };
            exporter.http.path_rule = rule;
            exporter.set_endpoint(text, None, source.clone());
        }
        Given::Headers(headers) => {
            for (name, value) in headers {
                exporter.add_header(&name, value.expose(), source.clone());
            }
        }
        Given::File(path) => {
            if key == Key::CaFile {
                exporter.http.tls.ca = Some(read(&path)?);
            }
            return Ok(Some(path));
        }
        Given::Time(time) => set_time(key, time, exporter),
        Given::Count(count) if key == Key::QueueRecords => exporter.queue.records = count,
        Given::Count(count) => exporter.batch.records = count,
        Given::WhenFull(when_full) => exporter.queue.when_full = when_full,
        Given::Compression(compression) => exporter.http.compression = compression,
        Given::Temporality(temporality) => exporter.push.temporality = temporality,
        Given::Histograms(histograms) => exporter.push.histograms = histograms,
    }
    Ok(None)
}

fn set_time(key: Key, time: Duration, exporter: &mut Exporter) {
    match key {
        Key::Linger => exporter.pace.linger = time,
        Key::Interval => exporter.push.interval = time,
        Key::GiveUpAfter => exporter.retry.give_up_after = time,
        Key::BlockTimeout => exporter.queue.block_timeout = Some(time),
        _ => exporter.http.timeout = time,
    }
}

/// `host` or `host:port` as one of https; what is neither stays as it is, for validation to refuse.
fn encrypted(text: String) -> String {
    match Endpoint::parse(&text, Transport::Grpc) {
        Ok(endpoint) => endpoint.origin().replacen("http://", "https://", 1),
        Err(_) => text,
    }
}

/// Both files or neither.
fn put_client_files(wishes: &Wishes, exporter: &mut Exporter) {
    const KEYS: [Key; 2] = [Key::ClientCertificateFile, Key::ClientKeyFile];
    let [certificate, key] = KEYS.map(|key| wishes.get(&key));
    match (certificate, key) {
        (Some(certificate), Some(key)) => {
            let certificate = client_file(KEYS[0], certificate, exporter);
            let key = client_file(KEYS[1], key, exporter);
            // what is not even text holds no key: the rule for PEM will say so
            let key = key.map(|pem| Secret::new(String::from_utf8(pem).unwrap_or_default()));
            exporter.http.tls.client = certificate.zip(key);
        }
        (Some(Wish { variable, .. }), None) => {
            refuse_half(KEYS[0], variable, &variable.replace("CLIENT_CERTIFICATE", "CLIENT_KEY"), exporter);
        }
        (None, Some(Wish { variable, .. })) => {
            refuse_half(KEYS[1], variable, &variable.replace("CLIENT_KEY", "CLIENT_CERTIFICATE"), exporter);
        }
        (None, None) => {}
    }
}

fn client_file(key: Key, wish: &Wish, exporter: &mut Exporter) -> Option<Vec<u8>> {
    let Ok(Given::File(path)) = &wish.given else { return None };
    let refuse = |fault| exporter.refuse(key, Source::Environment(wish.variable.clone()), fault);
    read(path).map_err(refuse).ok()
}

fn refuse_half(key: Key, variable: &str, missing: &str, exporter: &mut Exporter) {
    let fault = Fault::new(format!("set without {missing}"), "set both or neither");
    exporter.refuse(key, Source::Environment(variable.to_owned()), fault);
}

fn read(path: &str) -> Result<Vec<u8>, Fault> {
    expand::read_bounded(Path::new(path)).map_err(|cause| expand::unreadable(path, path, &cause))
}

/// The endpoint of one signal is used as it is: nothing is put behind it, and hardly any server listens at its root.
fn warn_of_missing_path(exporter: &Exporter, reader: &mut Reader<'_>) {
    let (http, Source::Environment(variable)) = (&exporter.http, exporter.source(Key::Endpoint)) else {
        return;
    };
    let is_verbatim = http.transport == Transport::Http && http.path_rule == PathRule::Verbatim;
    let has_no_path = http.parsed().is_ok_and(|endpoint| !endpoint.has_path());
    // who writes the last slash means the root
    if is_verbatim && has_no_path && !http.endpoint.ends_with('/') {
        for signal in exporter.signals.iter() {
            let what = format!("has no path, so {} are posted to /", signal.name());
            reader.warn(&variable, what, format!("write {} behind it", signal.path()));
        }
    }
}
