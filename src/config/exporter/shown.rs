//! The settings of an exporter as people may see them.

use std::fmt;

use super::Exporter;
use crate::config::header::shown_name;
use crate::config::key::Key;
use crate::config::path::shown;
use crate::config::{Setting, WhenFull, duration, size};
use crate::record::Signal;

impl Exporter {
    /// Every setting that makes a difference to what is sent, with its value and where that came from, always in
    /// the same order. Secrets are `***`; of headers the names are shown.
    pub fn effective(&self) -> Vec<Setting> {
        let matters = |key: &&Key| {
            key.signals().iter().any(|&signal| self.signals.contain(signal))
                && key.matters_to(self.http.transport)
        };
        let setting = |key: &Key| Setting::new(key.name(), &self.shown(*key), self.source(*key));
        Key::ALL.iter().filter(matters).map(setting).collect()
    }

    fn shown(&self, key: Key) -> String {
        if let Some(shown) = self.origins.get(&key).and_then(|origin| origin.shown.as_ref()) {
            return shown.clone();
        }
        let http = &self.http;
        let pem = |bytes: &[u8]| format!("{} bytes of PEM", bytes.len());
        match key {
            Key::Transport => http.transport.name().to_owned(),
            Key::Endpoint => http.shown_endpoint.clone(),
            Key::Headers if http.headers.is_empty() => "none".to_owned(),
            Key::Headers => {
                let shown: Vec<String> = http
                    .headers
                    .iter()
                    .map(|(name, value)| format!("{}: {value}", shown_name(name)))
                    .collect();
                shown.join(", ")
            }
            Key::Signals => {
                let names: Vec<&str> = self.signals.iter().map(Signal::name).collect();
                names.join(", ")
            }
            Key::Level => self.level.name(),
            Key::Interval => duration::show(self.push.interval),
            Key::Temporality => self.push.temporality.name().to_owned(),
            Key::Histograms => self.push.histograms.name().to_owned(),
            Key::Throttle => duration::show(self.pace.throttle),
            Key::Linger => duration::show(self.pace.linger),
            Key::Lossy => (self.queue.when_full == WhenFull::DropNewest).to_string(),
            Key::BlockTimeout => self.queue.block_timeout.map_or_else(|| "none".to_owned(), duration::show),
            Key::QueueRecords => self.queue.records.to_string(),
            Key::QueueBytes => size::show(self.queue.bytes as u64),
            Key::BatchRecords => self.batch.records.to_string(),
            Key::BatchBytes => size::show(self.batch.bytes as u64),
            Key::Timeout => duration::show(http.timeout),
            Key::GiveUpAfter => duration::show(self.retry.give_up_after),
            Key::RetryFirstDelay => duration::show(self.retry.first_delay),
            Key::RetryMaxDelay => duration::show(self.retry.max_delay),
            Key::Compression => http.compression.name().to_owned(),
            Key::Proxy => http.proxy.name().to_owned(),
            Key::CaFile => http.tls.ca.as_deref().map_or_else(|| "bundled roots".to_owned(), pem),
            Key::ClientCertificateFile => http
                .tls
                .client
                .as_ref()
                .map_or_else(|| "none".to_owned(), |(certificate, _)| pem(certificate)),
            Key::ClientKeyFile => {
                http.tls.client.as_ref().map_or_else(|| "none".to_owned(), |(_, key)| key.to_string())
            }
            Key::UserAgent => match &http.user_agent {
                Some(product) => format!("{} standpipe/{}", shown(product), env!("CARGO_PKG_VERSION")),
                None => concat!("standpipe/", env!("CARGO_PKG_VERSION")).to_owned(),
            },
        }
    }
}

/// As [`effective`](Exporter::effective): no secret is in it.
impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Exporter");
        shown.field("id", &self.id);
        for setting in self.effective() {
            shown.field(setting.key, &format_args!("{}", setting.value));
        }
        shown.finish()
    }
}
