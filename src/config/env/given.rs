//! What the variables say of the settings of an exporter, signal by signal.

use std::time::Duration;

use super::reader::Reader;
use super::{names, pairs};
use crate::config::endpoint::PathRule;
use crate::config::error::Fault;
use crate::config::few::Few;
use crate::config::key::Key;
use crate::config::validate::QUEUE_RECORDS;
use crate::config::{Compression, Histograms, Secret, Temporality, Transport, WhenFull};
use crate::record::Signal;

/// What is wished for one signal, or for all signals of an exporter.
/// They are in the order of the keys.
pub(super) type Wishes = Few<Key, Wish>;

/// What a variable says of one setting.
#[derive(Clone)]
pub(super) struct Wish {
    pub(super) variable: String,
    /// `Err` for what must not be ignored: the exporter cannot be used then.
    pub(super) given: Result<Given, Fault>,
}

#[derive(Clone, PartialEq)]
pub(super) enum Given {
    Transport(Transport),
    Endpoint {
        text: String,
        rule: PathRule,
        /// Whether a gRPC endpoint without a scheme is one of https.
        encrypt: bool,
    },
    Headers(Vec<(String, Secret)>),
    /// A path.
    File(String),
    Time(Duration),
    Count(usize),
    WhenFull(WhenFull),
    Compression(Compression),
    Temporality(Temporality),
    Histograms(Histograms),
}

impl Reader<'_> {
    /// All that is said for a signal.
    pub(super) fn wishes(&mut self, signal: Signal) -> Wishes {
        let mut wishes = Wishes::new();
        for &key in Key::ALL {
            if let Some(wish) = self.wish(signal, key) {
                wishes.insert(key, wish);
            }
        }
        wishes
    }

    /// What the signal's own variable says, or else that of all signals.
    pub(super) fn wish(&mut self, signal: Signal, key: Key) -> Option<Wish> {
        let own = names::own(signal, key)?;
        [Some(own), names::base(key).map(str::to_owned)].into_iter().flatten().find_map(|variable| {
            let given = self.value(key, &variable, Some(signal))?;
            Some(Wish { variable, given })
        })
    }

    /// What is said for all signals.
    pub(super) fn base_wish(&mut self, key: Key) -> Option<Wish> {
        let variable = names::base(key)?;
        Some(Wish { given: self.value(key, variable, None)?, variable: variable.to_owned() })
    }

    fn value(&mut self, key: Key, variable: &str, signal: Option<Signal>) -> Option<Result<Given, Fault>> {
        let given = match key {
            Key::Transport => Given::Transport(self.protocol(variable)?),
            Key::Endpoint => {
                let text = self.given(variable)?;
                return Some(text.map(|text| self.endpoint(text, variable, signal)));
            }
            Key::Headers => return Some(self.given(variable)?.and_then(pairs::headers).map(Given::Headers)),
            Key::CaFile | Key::ClientCertificateFile | Key::ClientKeyFile => {
                return Some(self.given(variable)?.map(|path| Given::File(path.to_owned())));
            }
            Key::Linger => Given::Time(self.time(variable, 0)?),
            Key::Interval | Key::Timeout | Key::GiveUpAfter | Key::BlockTimeout => {
                Given::Time(self.time(variable, 1)?)
            }
            Key::QueueRecords | Key::BatchRecords => {
                Given::Count(usize::try_from(self.count(variable, QUEUE_RECORDS)?).ok()?)
            }
            Key::Lossy => Given::WhenFull(
                self.word(variable, &[("DROP", WhenFull::DropNewest), ("BLOCK", WhenFull::Block)])?,
            ),
            Key::Compression => Given::Compression(
                self.word(variable, &[("gzip", Compression::Gzip), ("none", Compression::None)])?,
            ),
            Key::Temporality => Given::Temporality(self.word(variable, &Temporality::NAMES)?),
            Key::Histograms => Given::Histograms(self.word(
                variable,
                &[
                    ("explicit_bucket_histogram", Histograms::Explicit),
                    ("base2_exponential_bucket_histogram", Histograms::Exponential),
                ],
            )?),
            _ => return None,
        };
        Some(Ok(given))
    }

    fn protocol(&mut self, variable: &str) -> Option<Transport> {
        const PROTOBUF: &str = "http/protobuf";
        const JSON: &str = "http/json";
        let words = [(PROTOBUF, PROTOBUF), ("grpc", "grpc"), (JSON, JSON)];
        match self.word(variable, &words)? {
            "grpc" => return Some(Transport::Grpc),
            JSON => {
                let what = "http/protobuf is used: this version cannot send JSON";
                self.warn(variable, what, "write http/protobuf");
            }
            _ => {}
        }
        Some(Transport::Http)
    }

    fn endpoint(&mut self, text: &str, variable: &str, signal: Option<Signal>) -> Given {
        // other endpoints say it themselves
        let is_bare = !text.contains("://");
        let own = signal.filter(|_| is_bare).and_then(|signal| self.truth(&names::insecure(Some(signal))));
        let insecure = match own {
            None if is_bare => self.truth(&names::insecure(None)),
            own => own,
        };
        Given::Endpoint {
            text: text.to_owned(),
            rule: if names::base(Key::Endpoint) == Some(variable) {
                PathRule::Base
            } else {
                PathRule::Verbatim
            },
            encrypt: insecure == Some(false),
        }
    }
}
