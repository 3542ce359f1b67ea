//! Reads OpenTelemetry's declarative configuration: YAML with a top-level `file_format`, in which variables are
//! substituted. All other variables of OpenTelemetry are ignored and reported.
//!
//! ```text
//! root → limits, resource, propagator, samplers → Config
//!      → providers → one Member for each processor or reader → members with equal settings share an Exporter
//! ```

mod parts;
mod providers;
mod write;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

use self::providers::{Member, words_of};
pub use self::write::to_declarative;
use super::table::{BELOW_IT, Report};
use super::value::{self, Resolver, wrong_type};
use crate::config::env::{OTEL_CONFIG_FILE, Variables};
use crate::config::error::{Checked, Configured, Fault};
use crate::config::node::{Field, Node, Tree};
use crate::config::settings::general::{
    DISABLED, GeneralKind, GeneralRow, LOG_LIMITS, SELF_OBSERVATION, SPAN_LIMITS,
};
use crate::config::settings::kind::{Kind, SettingValue as Value};
use crate::config::settings::{BATCH_BYTES, SettingRow};
use crate::config::text::{self, is_showable, what_to_write};
use crate::config::{Config, Level, SettingSource, demand, validate, yaml};
use crate::record::MAX_DEPTH;

/// The key that every file of this dialect has.
pub(super) const FILE_FORMAT: &str = "file_format";

/// Keys at the root. Other keys there belong to other programs.
const ROOT: [&str; 10] = [
    FILE_FORMAT,
    "disabled",
    "log_level",
    "attribute_limits",
    "resource",
    "propagator",
    "tracer_provider",
    "meter_provider",
    "logger_provider",
    "distribution",
];

const TEXT: &str = "write a string";
const WORD: &str = "write one of the words of the schema";
const LIST: &str = "write a list, whose items begin with dashes";

/// The key of a limit, and the rows that it sets.
type Limit = (&'static str, &'static [&'static GeneralRow]);
const ATTRIBUTE_LIMITS: &[Limit] = &[
    ("attribute_count_limit", &[&SPAN_LIMITS[0], &LOG_LIMITS[0]]),
    ("attribute_value_length_limit", &[&SPAN_LIMITS[5], &LOG_LIMITS[1]]),
];
const LIMITS_OF_TRACES: &[Limit] = &[
    ("attribute_count_limit", &[&SPAN_LIMITS[0]]),
    ("event_count_limit", &[&SPAN_LIMITS[1]]),
    ("link_count_limit", &[&SPAN_LIMITS[2]]),
    ("event_attribute_count_limit", &[&SPAN_LIMITS[3]]),
    ("link_attribute_count_limit", &[&SPAN_LIMITS[4]]),
    ("attribute_value_length_limit", &[&SPAN_LIMITS[5]]),
];
const LIMITS_OF_LOGS: &[Limit] =
    &[("attribute_count_limit", &[&LOG_LIMITS[0]]), ("attribute_value_length_limit", &[&LOG_LIMITS[1]])];
const DEPTH_LIMIT: &str = "attribute_value_depth_limit";

/// Reads the text of a file.
///
/// # Errors
/// If at least one diagnostic is an error, returns all diagnostics and the configuration without its broken exporters.
pub(super) fn read(file: &str, text: &str, resolver: &Resolver, variables: &Variables) -> Configured {
    // In a `RefCell`, because two owners add names: `lookup` during parsing, and the reader.
    let referenced = RefCell::new(BTreeSet::from([OTEL_CONFIG_FILE.to_owned()]));
    let lookup = |name: &str| {
        referenced.borrow_mut().insert(name.to_owned());
        variables.lookup(name)
    };
    let document = yaml::parse_with(file, text.strip_prefix('\u{feff}').unwrap_or(text), Some(&lookup));
    let (root, has_mistakes) = (document.root, !document.mistakes.is_empty());
    let report = Report::new(resolver, &document.places, document.mistakes, true);
    let (config, members) = (Config::new(), Vec::new());
    let mut reader =
        Reader { report, config, members, level: None, errors: 0, variables, referenced: &referenced };
    let root = Part { node: &root, path: String::new() };
    // After a mistake, nothing is read: an incomplete configuration could send telemetry to the wrong place.
    let is_readable = !has_mistakes && reader.has_known_format(&root);
    if is_readable {
        reader.root(&root);
        reader.assemble();
    }
    let Reader { mut report, config, .. } = reader;
    demand::raise_all();
    let referenced = referenced.borrow();
    let is_ignored = |name: &&str| name.starts_with("OTEL_") && !referenced.contains(*name);
    for name in variables.names().filter(|name| is_ignored(name) && is_readable) {
        let fix = "write a reference to it, or unset it";
        report.ignore(name, Fault::new("the file does not refer to it", fix));
    }
    validate::validate(config, report.diagnostics.into_diagnostics(), &[])
}

/// A value and its path in the document.
#[derive(Clone)]
struct Part<'t> {
    node: &'t Node,
    path: String,
}

impl<'t> Part<'t> {
    /// Returns the value of a key, which may be null.
    fn get(&self, name: &str) -> Option<Self> {
        self.node.get(name).map(|field| Self { node: &field.node, path: self.below(name) })
    }

    /// Returns the value of a key, unless it is null.
    fn given(&self, name: &str) -> Option<Self> {
        self.get(name).filter(|part| part.node.value != Tree::Null)
    }

    fn below(&self, name: &str) -> String {
        // A key may be a misplaced secret.
        let name = if is_showable(name) { name } else { "***" };
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    fn items(&self) -> Vec<Self> {
        let Tree::List(nodes) = &self.node.value else { return Vec::new() };
        let item = |(index, node)| Self { node, path: format!("{}[{index}]", self.path) };
        nodes.iter().enumerate().map(item).collect()
    }

    /// Returns the only key of a component, and its value, which may be null.
    fn only(&self) -> Option<(&'t str, Self)> {
        let [field] = self.node.as_table()? else { return None };
        Some((&field.name, Self { node: &field.node, path: self.below(&field.name) }))
    }
}

struct Reader<'d> {
    report: Report<'d>,
    config: Config,
    members: Vec<Member>,
    /// Lowest severity of exported log records.
    level: Option<(Level, SettingSource)>,
    /// Number of errors so far.
    errors: usize,
    variables: &'d Variables,
    /// Names of the variables to which the file refers.
    referenced: &'d RefCell<BTreeSet<String>>,
}

impl Reader<'_> {
    fn error(&mut self, part: &Part<'_>, what: impl Into<String>, fix: impl Into<String>) {
        self.fail(part, part.path.clone(), Fault::new(what.into(), fix.into()));
    }

    fn fail(&mut self, part: &Part<'_>, path: String, fault: Fault) {
        self.errors += 1;
        self.report.lone_error(part.node.at, path, fault);
    }

    fn warn(&mut self, part: &Part<'_>, what: impl Into<String>, fix: impl Into<String>) {
        self.report.warning(part.node.at, part.path.clone(), Fault::new(what.into(), fix.into()));
    }

    /// Returns the value that was read from a part, or reports why the part cannot be used.
    fn take<T>(&mut self, part: &Part<'_>, read: Checked<T>) -> Option<T> {
        read.map_err(|fault| self.fail(part, part.path.clone(), fault)).ok()
    }

    fn text(&mut self, part: &Part<'_>) -> Option<String> {
        self.take(part, value::loose_text(part.node, self.report.resolver, TEXT)).map(|text| text.text)
    }

    /// Returns the meaning of a word of the schema, where case matters.
    fn word<T: Copy>(&mut self, part: &Part<'_>, words: &[(&str, T)]) -> Option<T> {
        let read = value::text(part.node, self.report.resolver, WORD).and_then(|text| {
            let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            let meaning = words.iter().find(|(word, _)| *word == text.text).map(|(_, meaning)| *meaning);
            let word = if text.is_secret { "" } else { &*text.text };
            let fault = || text.fault(Fault::new("is not known", what_to_write(word, &known)));
            meaning.ok_or_else(fault)
        });
        self.take(part, read)
    }

    /// Returns the items of a list, which must not be empty.
    fn list<'t>(&mut self, part: &Part<'t>) -> Vec<Part<'t>> {
        match &part.node.value {
            Tree::List(items) if !items.is_empty() => {}
            Tree::List(_) => self.error(part, "is empty", "write an item or remove it"),
            _ => self.error(part, format!("found {}", part.node.kind()), LIST),
        }
        part.items()
    }

    fn texts(&mut self, part: &Part<'_>) -> Vec<String> {
        self.list(part).iter().filter_map(|item| self.text(item)).collect()
    }

    /// Checks that a part is a table with these keys only. Returns `false` if it is not a table.
    fn table(&mut self, part: &Part<'_>, known: &[&str]) -> bool {
        let fields = part.node.as_table().unwrap_or_default();
        for field in fields.iter().filter(|field| !known.contains(&&*field.name)) {
            self.report.unknown_key(field.at, part.below(&field.name), &field.name, known);
        }
        part.node.as_table().is_some()
            || self.take::<()>(part, Err(wrong_type(part.node, BELOW_IT))).is_some()
    }

    /// Checks the keys of a component, whose value may be null.
    fn optional(&mut self, part: &Part<'_>, known: &[&str]) -> bool {
        part.node.value == Tree::Null || self.table(part, known)
    }

    /// Returns a component: the only key of a table, which must be one of the known names, and its value.
    fn component<'t>(&mut self, part: &Part<'t>, known: &[&'static str]) -> Option<(&'static str, Part<'t>)> {
        let Some((name, inner)) = part.only() else {
            let count = part.node.as_table().map_or(0, <[_]>::len);
            let found = format!("found {}", part.node.kind());
            let what = if count > 1 { "has several keys".into() } else { found };
            self.error(part, what, format!("write one key: {}", known.join(", ")));
            return None;
        };
        let found = known.iter().find(|known| **known == name);
        if found.is_none() {
            // In drafts of the schema, `otlp` was the name of an exporter.
            let fix = match name {
                "otlp" => "write otlp_http or otlp_grpc".to_owned(),
                _ => what_to_write(name, known),
            };
            self.error(&inner, "is not known here", fix);
        }
        found.map(|name| (*name, inner))
    }

    /// Returns a required value, which may be null, or reports that it is missing.
    fn required<'t>(&mut self, part: &Part<'t>, name: &str) -> Option<Part<'t>> {
        let found = part.get(name);
        if found.is_none() {
            self.fail(part, part.below(name), Fault::new("missing", "write it: the schema requires it"));
        }
        found
    }

    /// Reads the settings for which the schema has these keys.
    fn settings(
        &mut self,
        part: &Part<'_>,
        keys: &[(&'static str, &'static SettingRow)],
        member: &mut Member,
    ) {
        for &(name, row) in keys {
            member.paths.insert(row.key, part.below(name));
            let Some(given) = part.given(name) else { continue };
            if let Some(value) = self.setting(row, &given) {
                member.put(row, value, self.report.source(given.node.at));
            }
        }
    }

    /// Reads a value in the units of the schema: milliseconds, bytes, and words where case matters.
    fn setting(&mut self, row: &'static SettingRow, part: &Part<'_>) -> Option<Value> {
        let millis = |time: &Duration| time.as_millis() as u64;
        let (least, most) = match &row.kind {
            Kind::Duration { range, .. } => (millis(range.start()), millis(range.end())),
            Kind::Limit { range, .. } => (0, millis(range.end())),
            // In the schema, a request size of 0 means no limit. Other numbers have the range of their row.
            Kind::Number { range, .. } if row.key == BATCH_BYTES.key => (0, *range.end()),
            Kind::Number { range, .. } => (*range.start(), *range.end()),
            Kind::Word { .. } => return self.word(part, &words_of(row)).map(|word| Value::Word(word.into())),
            _ => return self.take(part, row.kind.read(part.node, self.report.resolver, row.advice)),
        };
        let read = value::count(part.node).and_then(|number| {
            let (what, fix) = (format!("{number} is out of range"), format!("write {least} to {most}"));
            Fault::unless((least..=most).contains(&number), what, fix).map(|()| number)
        });
        let number = self.take(part, read)?;
        Some(match &row.kind {
            Kind::Limit { .. } if number == 0 => Value::NoLimit,
            Kind::Duration { .. } | Kind::Limit { .. } => Value::Duration(Duration::from_millis(number)),
            // Zero means no limit.
            _ => Value::Number(if number == 0 { most } else { number } as usize),
        })
    }

    /// Warns about a key that standpipe cannot honor.
    fn ignore(&mut self, part: &Part<'_>, name: &str, why: &str) {
        part.given(name).iter().for_each(|it| self.warn(it, format!("has no effect: {why}"), "remove it"));
    }

    /// Reads a setting that belongs to no exporter.
    fn general(&mut self, row: &'static GeneralRow, part: &Part<'_>) {
        let read = match &row.kind {
            GeneralKind::Bool(field) => {
                self.take(part, value::bool(part.node)).map(|on| (field.set)(&mut self.config, on))
            }
            GeneralKind::Words(list) => {
                let words: Vec<_> = (list.names)().into_iter().map(|name| (name, name)).collect();
                self.word(part, &words).map(|word| (list.set)(&mut self.config, &[word]))
            }
            kind => self.take(part, value::count(part.node)).map(|it| kind.set_count(&mut self.config, it)),
        };
        if read.is_some() {
            self.config.sources.insert(row.key, self.report.source(part.node.at));
        }
    }

    /// Checks the version. A later minor version is read, with a warning.
    fn has_known_format(&mut self, root: &Part<'_>) -> bool {
        const EXAMPLE: &str = "write file_format: \"1.0\"";
        const NEWER: &str = "is newer than standpipe, which knows 1.0 to 1.2";
        let Some(part) = root.given(FILE_FORMAT) else {
            let what = "missing, so this is not OpenTelemetry's declarative configuration";
            self.fail(root, FILE_FORMAT.to_owned(), Fault::new(what, EXAMPLE));
            return false;
        };
        let version = self.text(&part).unwrap_or_default();
        let minor = version.strip_prefix("1.").and_then(|rest| rest.split(['-', '.']).next()?.parse().ok());
        match minor {
            None => self.error(&part, "is not a version that standpipe reads", EXAMPLE),
            Some(0..=2u32) if part.node.as_text().is_some() => {}
            Some(0..=2) => self.warn(&part, "is a number, which other SDKs refuse", "write it in quotes"),
            Some(_) => self.warn(&part, NEWER, "remove keys that are reported as unknown"),
        }
        minor.is_some()
    }

    fn root(&mut self, root: &Part<'_>) {
        let distribution = root.given("distribution");
        for (part, known) in [(Some(root), &ROOT[..]), (distribution.as_ref(), &[OWN])] {
            let Some(part) = part else { continue };
            let fields = part.node.as_table().unwrap_or_default().iter();
            for Field { at, name, .. } in fields.filter(|field| !known.contains(&&*field.name)) {
                match text::slip(name, &ROOT) {
                    Some(_) => self.report.unknown_key(*at, part.below(name), name, &ROOT),
                    None => self.report.note(*at, part.below(name), "ignored: it is for other programs"),
                }
            }
        }
        root.given("disabled").iter().for_each(|part| self.general(&DISABLED, part));
        self.ignore(root, "log_level", "standpipe writes no log of its own");
        let own = distribution.and_then(|distribution| distribution.given(OWN));
        let observed = own.as_ref().and_then(|own| own.given(SELF_OBSERVATION.key));
        observed.iter().for_each(|part| self.general(&SELF_OBSERVATION, part));
        root.get("attribute_limits").iter().for_each(|part| self.limits(part, ATTRIBUTE_LIMITS));
        root.get("resource").iter().for_each(|part| self.resource(part));
        self.propagator(root);
        self.providers(root, own.as_ref());
    }

    /// Reads limits of attributes. [`DEPTH_LIMIT`] is a key of the schema, but has no effect.
    fn limits(&mut self, part: &Part<'_>, limits: &[Limit]) {
        let known: Vec<&str> = limits.iter().map(|(name, _)| *name).chain([DEPTH_LIMIT]).collect();
        if !self.table(part, &known) {
            return;
        }
        for (name, rows) in limits {
            part.given(name).iter().for_each(|it| rows.iter().for_each(|row| self.general(row, it)));
        }
        // Values never have more than `MAX_DEPTH` levels. A higher limit, such as the schema's default of 64, needs no
        // warning.
        let is_low = |limit: &Part<'_>| value::count(limit.node).is_ok_and(|depth| depth < MAX_DEPTH as u64);
        if part.given(DEPTH_LIMIT).is_some_and(|limit| is_low(&limit)) {
            self.ignore(part, DEPTH_LIMIT, &format!("values have up to {MAX_DEPTH} levels"));
        }
    }
}

/// Key below `distribution` for the settings of this crate.
const OWN: &str = "standpipe";
const OWN_KEYS: [&str; 4] = [SELF_OBSERVATION.key, "traces", "metrics", "logs"];

#[cfg(all(test, feature = "grpc", feature = "gzip", feature = "json", feature = "spool", feature = "tls"))]
mod tests;
