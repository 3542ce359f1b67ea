//! The names of all settings of an exporter, in the order in which they are shown.

use super::Transport;
use crate::record::Signal;

macro_rules! keys {
    ($($variant:ident = $name:literal, $advice:literal;)*) => {
        /// One setting of an exporter.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(super) enum Key {
            $($variant,)*
        }

        impl Key {
            pub(super) const ALL: &'static [Key] = &[$(Key::$variant,)*];

            /// As files spell it.
            pub(super) fn name(self) -> &'static str {
                match self {
                    $(Key::$variant => $name,)*
                }
            }

            /// What to write, for messages about a value of the wrong kind.
            pub(super) fn advice(self) -> &'static str {
                match self {
                    $(Key::$variant => $advice,)*
                }
            }
        }
    };
}

impl Key {
    /// As files spell it that describe routes, where they have it.
    pub(super) fn name_in_routes(self) -> &'static str {
        match self {
            Key::Transport => "exporter.type",
            Key::Endpoint => "exporter.collector.endpoint",
            Key::Interval => "metricsReaderInterval",
            _ => self.name(),
        }
    }

    /// The signals that the setting makes a difference to.
    pub(super) fn signals(self) -> &'static [Signal] {
        match self {
            Key::Level => &[Signal::Logs],
            Key::Interval | Key::Temporality | Key::Histograms => &[Signal::Metrics],
            // the worker collects metrics itself: nobody waits for room, and the interval is the pace
            Key::Throttle | Key::Linger | Key::Lossy | Key::BlockTimeout => &[Signal::Traces, Signal::Logs],
            _ => &Signal::ALL,
        }
    }

    /// Whether the setting makes a difference to what travels like this.
    pub(super) fn matters_to(self, transport: Transport) -> bool {
        match self {
            Key::Endpoint | Key::Headers | Key::Compression | Key::Proxy | Key::UserAgent => {
                transport.connects()
            }
            Key::CaFile | Key::ClientCertificateFile | Key::ClientKeyFile => transport.connects(),
            // what cannot be printed is not tried again
            Key::Timeout | Key::GiveUpAfter | Key::RetryFirstDelay | Key::RetryMaxDelay => {
                transport.connects()
            }
            _ => true,
        }
    }
}

keys! {
    Transport = "transport", "write \"http\", \"grpc\" or \"disable\"";
    Endpoint = "endpoint", "write a URL like \"http://localhost:4318\"";
    Headers = "headers", "write a list like [\"Name: value\"], one such string, or a table";
    Signals = "signals", "name at least one of traces, logs and metrics";
    Level = "level", "write \"trace\", \"debug\", \"info\", \"warn\", \"error\" or \"disable\"";
    Interval = "interval", "write a duration like \"1m\"";
    Temporality = "temporality", "write \"cumulative\", \"delta\" or \"lowmemory\"";
    Histograms = "histograms", "write \"explicit\" or \"exponential\"";
    Throttle = "throttle", "write a duration like \"1s\"";
    Linger = "linger", "write a duration like \"200ms\"";
    Lossy = "lossy", "write true or false, without quotes";
    BlockTimeout = "block-timeout", "write a duration like \"5s\"";
    QueueRecords = "queue-records", "write a whole number, without quotes";
    QueueBytes = "queue-bytes", "write a size like \"16 MiB\" or a number of bytes";
    BatchRecords = "batch-records", "write a whole number, without quotes";
    BatchBytes = "batch-bytes", "write a size like \"4 MiB\" or a number of bytes";
    Timeout = "timeout", "write a duration like \"10s\"";
    GiveUpAfter = "give-up-after", "write a duration like \"5m\"";
    RetryFirstDelay = "retry-first-delay", "write a duration like \"250ms\"";
    RetryMaxDelay = "retry-max-delay", "write a duration like \"30s\"";
    Compression = "compression", "write \"none\" or \"gzip\"";
    Proxy = "proxy", "write \"env\" or \"off\"";
    CaFile = "ca-file", "write the path of a PEM file";
    ClientCertificateFile = "client-certificate-file", "write the path of a PEM file";
    ClientKeyFile = "client-key-file", "write the path of a PEM file";
    UserAgent = "user-agent", "write a product like \"shop/1.2\"";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_told_apart_by_their_names() {
        let mut names: Vec<_> = Key::ALL.iter().map(|key| key.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Key::ALL.len());
    }
}
