//! The kinds of settings: how values of each kind are read, stored, checked and shown.

use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use crate::config::endpoint::PathRule;
use crate::config::error::{Advice, Checked, Fault};
use crate::config::header::shown_name;
use crate::config::node::Node;
use crate::config::read::value::{self, Resolver, Text};
use crate::config::settings::SettingRow;
use crate::config::settings::file::Pem;
use crate::config::text::MASK;
use crate::config::{Exporter, Secret, SettingSource, units};
use crate::record::Signal;
use SettingValue as Value;

/// Accessors of a stored value.
pub(crate) struct Field<O, T> {
    pub(crate) get: fn(&O) -> T,
    pub(crate) set: fn(&mut O, T),
}

/// Makes the [`Field`] for a field of its owner, such as `queue.records`.
macro_rules! field {
    ($($name:ident).+) => {
        Field { get: |owner| owner.$($name).+, set: |owner, value| owner.$($name).+ = value }
    };
}
pub(crate) use field;

/// The kind of a setting of an exporter, with the accessors of its value.
pub(crate) enum Kind {
    Duration {
        field: Field<Exporter, Duration>,
        range: RangeInclusive<Duration>,
    },
    /// A duration, or [`NO_LIMIT`], which is stored as `None`.
    Limit {
        field: Field<Exporter, Option<Duration>>,
        range: RangeInclusive<Duration>,
    },
    Number {
        field: Field<Exporter, usize>,
        unit: Unit,
        range: RangeInclusive<u64>,
        /// Description of the largest value, such as "the most the queue can count".
        most: &'static str,
    },
    /// One of a few words; case is ignored.
    Word {
        names: fn() -> Vec<&'static str>,
        get: fn(&Exporter) -> String,
        /// Ignores unknown words.
        set: fn(&mut Exporter, &str),
        /// Words in variables and their equivalents in files; empty if both are the same.
        variables: &'static [(&'static str, &'static str)],
    },
    Bool {
        field: Field<Exporter, bool>,
        /// Words that an environment variable may contain, and the meaning of each.
        variables: &'static [(&'static str, bool)],
    },
    /// PEM text, which files and variables name by a path.
    File {
        get: fn(&Exporter) -> Option<&[u8]>,
        set: fn(&mut Exporter, Pem),
        /// Text that is shown if no file is set.
        default: &'static str,
    },
    Text {
        /// The third argument is true if the text contains an expanded secret.
        set: fn(&mut Exporter, String, bool),
        show: fn(&Exporter) -> String,
    },
    Endpoint,
    Headers,
    Signals,
}

/// The unit of a [`Kind::Number`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Records,
    Bytes,
}

impl Unit {
    pub(crate) fn show(self, number: u64) -> String {
        match self {
            Self::Records => number.to_string(),
            Self::Bytes => units::show_size(number),
        }
    }
}

/// Makes the [`Kind::File`] for a field of the exporter, such as `connection.tls.ca`.
macro_rules! file {
    ($($name:ident).+, $default:expr) => {
        Kind::File {
            get: |exporter| exporter.$($name).+.as_deref(),
            set: |exporter, pem| exporter.$($name).+ = Some(pem),
            default: $default,
        }
    };
}
pub(crate) use file;

/// Makes a [`Kind::Word`] whose words are the `NAMES` of a type.
macro_rules! word {
    ($type:ident, $($name:ident).+, $variables:expr) => {
        Kind::Word {
            names: $type::names,
            get: |exporter| exporter.$($name).+.name().into(),
            set: |exporter, word| $type::parse(word).into_iter().for_each(|it| exporter.$($name).+ = it),
            variables: $variables,
        }
    };
}
pub(crate) use word;

/// The value of one setting, read from a file or a variable.
#[derive(Clone, PartialEq)]
pub(crate) enum SettingValue {
    Duration(Duration),
    /// No limit, for a [`Kind::Limit`].
    NoLimit,
    Number(usize),
    /// A word that the kind knows.
    Word(String),
    Bool(bool),
    File {
        /// Path without expanded secrets.
        path: String,
        /// Content of the file. A variable is parsed once per signal, but a pipe can be read only once. Therefore the
        /// parser of variables leaves `None`, and [`SettingValue::load`] reads the file later.
        pem: Option<Pem>,
    },
    Text {
        text: String,
        is_secret: bool,
    },
    Endpoint {
        text: String,
        /// Text to show if `text` contains an expanded secret.
        written: Option<String>,
        rule: PathRule,
        /// Whether a gRPC endpoint without a scheme is plaintext; `None` if unset.
        insecure: Option<bool>,
    },
    Headers(Vec<(String, Secret)>),
}

impl SettingValue {
    /// Reads the file that the value names, unless it has been read.
    pub(crate) fn load(self) -> Checked<Self> {
        let Self::File { path, pem: None } = self else { return Ok(self) };
        let read = value::read_bounded(Path::new(&path));
        let pem = read.map_err(|cause| value::unreadable(&path, &path, &cause))?;
        let pem = Pem::of_file(pem, Resolver::new("").absolute(&path));
        Ok(Self::File { path, pem: Some(pem) })
    }
}

impl Kind {
    /// Reads the value of a node. Headers are read elsewhere, because each header has its own place.
    pub(crate) fn read(&self, node: &Node, resolver: &Resolver, advice: Advice) -> Checked<SettingValue> {
        Ok(match self {
            // Tested before the duration, because `none` is not a duration.
            Self::Limit { .. } if node.as_text().is_some_and(is_no_limit) => Value::NoLimit,
            Self::Duration { .. } | Self::Limit { .. } => {
                Value::Duration(value::duration(node, resolver, advice)?)
            }
            // Checked before the cast, which would truncate on 32-bit machines.
            Self::Number { unit, range, most, .. } => {
                let number = match unit {
                    Unit::Records => value::count(node)?,
                    Unit::Bytes => value::bytes(node, resolver, advice)?,
                };
                check_number(number, *unit, range, most)?;
                Value::Number(number as usize)
            }
            Self::Word { names, .. } => Value::Word(value::word(node, resolver, advice, &names())?.into()),
            Self::Bool { .. } => Value::Bool(value::bool(node)?),
            Self::File { .. } => {
                let Text { written, text, .. } = value::text(node, resolver, advice)?;
                let read = resolver.read(&text);
                let pem = read.map_err(|cause| value::unreadable(written, &text, &cause))?;
                let pem = Some(Pem::of_file(pem, resolver.absolute(&text)));
                Value::File { path: written.to_owned(), pem }
            }
            Self::Text { .. } => {
                let Text { text, is_secret, .. } = value::text(node, resolver, advice)?;
                Value::Text { text, is_secret }
            }
            Self::Endpoint => {
                let Text { written, text, is_secret } = value::text(node, resolver, advice)?;
                let written = is_secret.then(|| written.to_owned());
                Value::Endpoint { text, written, rule: PathRule::default(), insecure: None }
            }
            Self::Headers | Self::Signals => return Err(value::wrong_type(node, advice)),
        })
    }

    /// Returns the words in variables, and their equivalents in files.
    pub(crate) fn words(&self) -> Vec<(&'static str, &'static str)> {
        match self {
            Self::Word { names, variables: [], .. } => names().into_iter().map(|it| (it, it)).collect(),
            Self::Word { variables, .. } => variables.to_vec(),
            _ => Vec::new(),
        }
    }

    /// Returns the value that a setting of this kind has in an exporter; `None` if such values cannot be compared.
    pub(crate) fn get(&self, exporter: &Exporter) -> Option<SettingValue> {
        match self {
            Self::Duration { field, .. } => Some(Value::Duration((field.get)(exporter))),
            Self::Limit { field, .. } => Some((field.get)(exporter).map_or(Value::NoLimit, Value::Duration)),
            Self::Number { field, .. } => Some(Value::Number((field.get)(exporter))),
            Self::Word { get, .. } => Some(Value::Word(get(exporter))),
            Self::Bool { field, .. } => Some(Value::Bool((field.get)(exporter))),
            Self::File { .. } | Self::Text { .. } | Self::Endpoint | Self::Headers | Self::Signals => None,
        }
    }

    /// Returns the value of an exporter in the syntax of a file. Secrets are `***`.
    pub(crate) fn show(&self, exporter: &Exporter) -> String {
        match self {
            Self::Duration { field, .. } => units::show_duration((field.get)(exporter)),
            Self::Limit { field, .. } => (field.get)(exporter).map_or(NO_LIMIT.into(), units::show_duration),
            Self::Number { field, unit, .. } => unit.show((field.get)(exporter) as u64),
            Self::Word { get, .. } => get(exporter),
            Self::Bool { field, .. } => (field.get)(exporter).to_string(),
            Self::File { get, default, .. } => {
                get(exporter).map_or((*default).to_owned(), |pem| format!("{} bytes of PEM", pem.len()))
            }
            Self::Text { show, .. } => show(exporter),
            Self::Endpoint => exporter.connection.shown_endpoint.clone(),
            Self::Headers if exporter.connection.headers.is_empty() => "none".to_owned(),
            Self::Headers => {
                let headers = exporter.connection.headers.iter();
                let shown = headers.map(|(name, value)| format!("{}: {value:?}", shown_name(name)));
                shown.collect::<Vec<_>>().join(", ")
            }
            Self::Signals => exporter.signals.iter().map(Signal::name).collect::<Vec<_>>().join(", "),
        }
    }

    /// Checks whether the value of an exporter is in its range.
    pub(crate) fn check(&self, exporter: &Exporter) -> Checked {
        match self {
            Self::Duration { field, range } => check_duration((field.get)(exporter), range),
            Self::Limit { field, range } => {
                (field.get)(exporter).map_or(Ok(()), |value| check_duration(value, range))
            }
            Self::Number { field, unit, range, most } => {
                check_number((field.get)(exporter) as u64, *unit, range, most)
            }
            _ => Ok(()),
        }
    }
}

impl Exporter {
    /// Sets a value that the kind of the row has read from a file or a variable.
    pub(crate) fn apply(&mut self, row: &'static SettingRow, value: SettingValue, source: SettingSource) {
        // Text to show instead of the value.
        let mut shown = None;
        match (&row.kind, value) {
            (Kind::Duration { field, .. }, Value::Duration(value)) => (field.set)(self, value),
            (Kind::Limit { field, .. }, Value::Duration(value)) => (field.set)(self, Some(value)),
            (Kind::Limit { field, .. }, Value::NoLimit) => (field.set)(self, None),
            (Kind::Number { field, .. }, Value::Number(value)) => (field.set)(self, value),
            (Kind::Word { set, .. }, Value::Word(word)) => set(self, &word),
            (Kind::Bool { field, .. }, Value::Bool(value)) => (field.set)(self, value),
            (Kind::File { set, .. }, Value::File { path, pem }) => {
                set(self, pem.unwrap_or_default());
                shown = Some(path);
            }
            (Kind::Text { set, .. }, Value::Text { text, is_secret }) => {
                set(self, text, is_secret);
                shown = is_secret.then(|| MASK.to_owned());
            }
            (Kind::Endpoint, Value::Endpoint { text, written, rule, insecure }) => {
                (self.connection.path_rule, self.connection.insecure) = (rule, insecure);
                self.set_endpoint(text, written.as_deref());
            }
            (Kind::Headers, Value::Headers(headers)) => {
                headers
                    .iter()
                    .for_each(|(name, value)| self.add_header(name, value.expose(), source.clone()));
            }
            _ => unreachable!("a value is set by the kind that has read it"),
        }
        self.record(row, source, shown);
    }
}

/// The word for "no limit" in files and variables.
const NO_LIMIT: &str = "none";

pub(crate) fn is_no_limit(text: &str) -> bool {
    text.eq_ignore_ascii_case(NO_LIMIT)
}

fn check_duration(value: Duration, range: &RangeInclusive<Duration>) -> Checked {
    let [shown, least, most] = [&value, range.start(), range.end()].map(|&time| units::show_duration(time));
    let (what, fix) = match value < *range.start() {
        true => ("is too short", format!("write {least} to {most}")),
        false => ("is too long", format!("write at most {most}")),
    };
    Fault::unless(range.contains(&value), format!("{shown} {what}"), fix)
}

fn check_number(value: u64, unit: Unit, range: &RangeInclusive<u64>, most: &str) -> Checked {
    let [value_shown, least, largest] = [value, *range.start(), *range.end()].map(|number| unit.show(number));
    let problem =
        if value < *range.start() { "small".to_owned() } else { format!("large: {most} is {largest}") };
    let (what, fix) = (format!("{value_shown} is too {problem}"), format!("write {least} to {largest}"));
    Fault::unless(range.contains(&value), what, fix)
}
