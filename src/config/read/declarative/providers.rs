//! Reads the providers: processors and readers with equal settings become one exporter.

use std::time::Duration;

use super::{LIMITS_OF_LOGS, LIMITS_OF_TRACES, Limit, OWN_KEYS, Part, Reader, TEXT};
use crate::config::endpoint::PathRule;
use crate::config::error::{Fault, Location};
use crate::config::node::Tree;
use crate::config::read::program::read_view;
use crate::config::read::table::changing_headers;
use crate::config::read::value;
use crate::config::settings::general::EXEMPLARS;
use crate::config::settings::kind::SettingValue;
use crate::config::settings::{
    BATCH_BYTES, BATCH_RECORDS, CA_FILE, CARDINALITY_LIMIT, CLIENT_CERTIFICATE_FILE, CLIENT_KEY_FILE,
    COMPRESSION, ENDPOINT, FILE, GIVE_UP_AFTER, HEADERS, HISTOGRAMS, INTERVAL, LEVEL, LINGER, QUEUE_BYTES,
    QUEUE_RECORDS, RESPONSE_BYTES, SIGNALS, SettingRow, TEMPORALITY, TIMEOUT, TRANSPORT, rows,
};
use crate::config::summary::SmallMap;
use crate::config::values::{InstrumentKind, Named, header};
use crate::config::{Exporter, HeaderSource, Secret, SettingSource, Transport, env};
use crate::record::Signal;

/// Keys and the settings that they set.
pub(super) type Keys = &'static [(&'static str, &'static SettingRow)];
pub(super) const BATCH: Keys = &[
    ("schedule_delay", &LINGER),
    ("export_timeout", &GIVE_UP_AFTER),
    ("max_queue_size", &QUEUE_RECORDS),
    ("max_export_batch_size", &BATCH_RECORDS),
];
pub(super) const PERIODIC: Keys = &[
    ("interval", &INTERVAL),
    ("timeout", &GIVE_UP_AFTER),
    ("max_export_batch_size/development", &BATCH_RECORDS),
];
pub(super) const OTLP: Keys = &[
    ("compression", &COMPRESSION),
    ("timeout", &TIMEOUT),
    ("max_request_size", &BATCH_BYTES),
    ("max_response_size", &RESPONSE_BYTES),
];
pub(super) const METRICS: Keys =
    &[("temporality_preference", &TEMPORALITY), ("default_histogram_aggregation", &HISTOGRAMS)];
pub(super) const TLS: Keys =
    &[("ca_file", &CA_FILE), ("cert_file", &CLIENT_CERTIFICATE_FILE), ("key_file", &CLIENT_KEY_FILE)];
const TEMPORALITIES: [(&str, &str); 3] =
    [("cumulative", "cumulative"), ("delta", "delta"), ("low_memory", "lowmemory")];

/// Name, signal, limits and allowed keys of a provider. The first key is that of its list of processors or readers.
type Provider = (&'static str, Signal, &'static [Limit], &'static [&'static str]);
pub(super) const PROVIDERS: [Provider; 3] = [
    (
        "tracer_provider",
        Signal::Traces,
        LIMITS_OF_TRACES,
        &["processors", "limits", "sampler", "id_generator", TRACERS],
    ),
    ("meter_provider", Signal::Metrics, &[], &["readers", "views", "exemplar_filter", METERS]),
    ("logger_provider", Signal::Logs, LIMITS_OF_LOGS, &["processors", "limits", LOGGERS]),
];
const TRACERS: &str = "tracer_configurator/development";
const METERS: &str = "meter_configurator/development";
const LOGGERS: &str = "logger_configurator/development";

pub(super) const HTTP: &str = "otlp_http";
pub(super) const GRPC: &str = "otlp_grpc";
pub(super) const FILE_EXPORTER: &str = "otlp_file/development";
pub(super) const CONSOLE: &str = "console";

/// Maximum number of processors of a provider, which bounds the cost of a hostile file.
const MAX_MEMBERS: usize = 64;

/// A processor or a reader with its exporter.
pub(super) struct Member {
    signal: Signal,
    /// Name of the exporter, to which a signal or a number may be appended.
    name: &'static str,
    path: String,
    location: Location,
    /// Settings in the order in which they are applied.
    values: Vec<(&'static SettingRow, SettingValue, SettingSource)>,
    /// Paths of settings in the document.
    pub(super) paths: SmallMap<&'static str, String>,
    cardinality_limits: [Option<usize>; InstrumentKind::NAMES.len()],
    has_secret_header: bool,
    /// Headers that contain the text of a file, and how to read this file again.
    header_sources: Vec<HeaderSource>,
}

impl Member {
    fn get(&self, row: &SettingRow) -> Option<&SettingValue> {
        self.values.iter().find(|(known, ..)| known.key == row.key).map(|(_, value, _)| value)
    }

    pub(super) fn put(&mut self, row: &'static SettingRow, value: SettingValue, source: SettingSource) {
        self.values.retain(|(known, ..)| known.key != row.key);
        self.values.push((row, value, source));
    }

    /// Returns whether two members can share an exporter: they have different signals and equal settings. A setting
    /// that neither member has counts as equal, even if the defaults of the signals differ.
    fn agrees_with(&self, other: &Self) -> bool {
        let agrees = |row: &'static SettingRow| {
            let is_unset = self.get(row).is_none() && other.get(row).is_none();
            // A member whose signal does not use the setting accepts any value of the other member.
            let is_silent = |it: &Self| it.get(row).is_none() && !it.has_default(row);
            let default = |it: &Self| row.kind.get(&with_defaults("", "", None, &[it.signal]));
            let value = |it: &Self| it.get(row).cloned().or_else(|| default(it));
            is_unset || is_silent(self) || is_silent(other) || value(self) == value(other)
        };
        let files = |it: &Self| it.header_sources.iter().map(|it| it.written.clone()).collect::<Vec<_>>();
        self.signal != other.signal && files(self) == files(other) && rows().all(agrees)
    }

    /// Returns whether the schema has a default of the setting for the member's signal.
    fn has_default(&self, row: &SettingRow) -> bool {
        let of_queue = [QUEUE_RECORDS.key, QUEUE_BYTES.key, BATCH_RECORDS.key];
        row.signals.contains(&self.signal) && (self.signal != Signal::Metrics || !of_queue.contains(&row.key))
    }
}

/// Returns an exporter with the defaults of the schema.
pub(super) fn with_defaults(name: &str, path: &str, at: Option<Location>, signals: &[Signal]) -> Exporter {
    let mut exporter = env::with_defaults(name, path.to_owned(), at, signals);
    (exporter.queue.records, exporter.batch.records) = (2_048, 512);
    exporter.retry.give_up_after = Duration::from_secs(30);
    exporter
}

/// Returns whether `distribution.standpipe` may have a setting for a signal.
pub(super) fn is_own(row: &SettingRow, signal: Signal) -> bool {
    let is_other = [TRANSPORT.key, ENDPOINT.key, HEADERS.key, FILE.key].contains(&row.key);
    row.is_in_tables && row.signals.contains(&signal) && !is_other
}

impl Reader<'_> {
    /// Reads the providers. `own` has the settings of this crate.
    pub(super) fn providers(&mut self, root: &Part<'_>, own: Option<&Part<'_>>) {
        let given: Vec<_> = PROVIDERS.iter().filter_map(|row| Some((row, root.get(row.0)?))).collect();
        if given.is_empty() && !self.config.disabled {
            let what =
                "describes no exporter: there is no tracer_provider, meter_provider or logger_provider";
            let fault = Fault::new(what, "write one of them, as standpipe init otel does");
            self.report.warning(root.node.at, "", fault);
        }
        for ((_, signal, limits, known), part) in given {
            if !self.table(&part, known) {
                continue;
            }
            for (key, value) in known.iter().filter_map(|key| Some((*key, part.given(key)?))) {
                match key {
                    "limits" => self.limits(&value, limits),
                    "sampler" => {
                        if let Some(read) = self.sampler(&value) {
                            self.config.main.set_sampler(read, None, self.report.source(value.node.at));
                        }
                    }
                    "id_generator" if value.only().is_none_or(|(name, _)| name != "random") => {
                        self.ignore(&part, key, "ids are random unless the program sets a generator");
                    }
                    "views" => {
                        let (views, path) = (self.list(&value), ["meter_provider", "views"]);
                        let read = |view: &Part<'_>| read_view(view.node, &path, &mut self.report);
                        self.config.main.views.extend(views.iter().filter_map(read));
                    }
                    "exemplar_filter" => self.general(&EXEMPLARS, &value),
                    LOGGERS => self.levels(&value),
                    TRACERS | METERS => self.refuse(&part, key),
                    _ => {}
                }
            }
            self.processors(&part, known[0], *signal, own);
        }
        let Some(own) = own.filter(|own| self.table(own, &OWN_KEYS)) else { return };
        for signal in Signal::ALL {
            if !self.members.iter().any(|member| member.signal == signal) {
                self.ignore(own, signal.name(), "no exporter sends them");
            }
        }
    }

    /// Reports an error for an unsupported key that would change the exported telemetry.
    pub(super) fn refuse(&mut self, part: &Part<'_>, name: &str) {
        part.given(name).iter().for_each(|found| self.error(found, "is not applied", "remove it"));
    }

    fn processors(&mut self, provider: &Part<'_>, key: &str, signal: Signal, own: Option<&Part<'_>>) {
        let listed = self.required(provider, key).map(|list| self.list(&list)).unwrap_or_default();
        if let Some(item) = listed.get(MAX_MEMBERS) {
            self.error(item, format!("more than {MAX_MEMBERS} of them: the rest is ignored"), "remove some");
        }
        let own = own.and_then(|own| own.given(signal.name()));
        let is_wrong = |own: &Part<'_>| matches!(&own.node.value, Tree::List(it) if it.len() != listed.len());
        if let Some(own) = own.as_ref().filter(|own| is_wrong(own)) {
            let what = format!("does not have one item for each of the {key}");
            self.error(own, what, "write a list with as many items, or one table");
        }
        for (index, item) in listed.iter().take(MAX_MEMBERS).enumerate() {
            let errors = self.errors;
            let Some(mut member) = self.processor(item, signal) else { continue };
            // If `own` is a list, its items belong to the processors in the same order; a table belongs to all of them.
            let own = own.as_ref().and_then(|own| match &own.node.value {
                Tree::List(_) => own.items().into_iter().nth(index),
                _ => Some(own.clone()),
            });
            own.iter().for_each(|own| self.own(own, &mut member));
            // After an error, the member is left out: an exporter without a setting, such as a header, must not send.
            if self.errors == errors {
                self.members.push(member);
            }
        }
    }

    fn processor(&mut self, item: &Part<'_>, signal: Signal) -> Option<Member> {
        let names: &[&str] = match signal {
            Signal::Metrics => &["periodic", "pull"],
            Signal::Traces => &["batch", "simple"],
            Signal::Logs => &["batch", "simple", "event_to_span_event_bridge/development"],
        };
        let (kind, inner) = self.component(item, names)?;
        let (keys, others): (Keys, &[&str]) = match kind {
            "batch" => (BATCH, &["exporter"]),
            "simple" => (&[], &["exporter"]),
            "periodic" => (PERIODIC, &["exporter", "producers", "cardinality_limits"]),
            _ => {
                let fix = if kind == "pull" { "write periodic with otlp_http" } else { "remove it" };
                self.error(&inner, "is not supported", fix);
                return None;
            }
        };
        if !self.table(&inner, &known(&[keys], others)) {
            return None;
        }
        let exporter = self.required(&inner, "exporter")?;
        let (exporter, part) = self.component(&exporter, &[HTTP, GRPC, FILE_EXPORTER, CONSOLE])?;
        let mut member = Member {
            signal,
            name: "otlp",
            path: part.path.clone(),
            location: self.report.places.location(part.node.at),
            values: Vec::new(),
            paths: SmallMap::default(),
            cardinality_limits: [None; 7],
            has_secret_header: false,
            header_sources: Vec::new(),
        };
        self.settings(&inner, keys, &mut member);
        if kind == "simple" {
            let what = "records are sent at once, but by another thread";
            self.report.note(inner.node.at, inner.path.clone(), what);
            // The nearest equivalent of a simple processor: the worker does not wait for further records.
            member.put(&LINGER, SettingValue::Duration(Duration::ZERO), self.report.source(inner.node.at));
        }
        self.refuse(&inner, "producers");
        inner.get("cardinality_limits").iter().for_each(|limits| self.cardinality(limits, &mut member));
        let of_metrics = if signal == Signal::Metrics { METRICS } else { &[] };
        match exporter {
            HTTP | GRPC => self.otlp(exporter, &part, of_metrics, &mut member),
            _ => self.stream(exporter, &part, of_metrics, &mut member),
        }
        self.settings(&part, of_metrics, &mut member);
        Some(member)
    }

    /// Reads an exporter that writes to standard output or to a file.
    fn stream(&mut self, exporter: &str, part: &Part<'_>, of_metrics: Keys, member: &mut Member) {
        let others = if exporter == FILE_EXPORTER { &["output_stream"][..] } else { &[] };
        self.optional(part, &known(&[of_metrics], others));
        let stream = others.iter().find_map(|name| part.given(name));
        let text = stream.as_ref().map_or(Some("stdout".to_owned()), |stream| self.text(stream));
        let at = stream.unwrap_or(part.clone());
        let source = self.report.source(at.node.at);
        let path = text.as_deref().and_then(|text| text.strip_prefix("file://"));
        member.name = if path.is_some() { "file" } else { "console" };
        member.put(&TRANSPORT, SettingValue::Word(member.name.into()), source.clone());
        if let Some(path) = path {
            member.put(&FILE, SettingValue::Text { text: path.to_owned(), is_secret: false }, source);
        } else if text.as_deref() != Some("stdout") {
            self.error(&at, "is not a stream", "write stdout or file:///path");
        }
    }

    fn otlp(&mut self, exporter: &str, part: &Part<'_>, of_metrics: Keys, member: &mut Member) {
        let is_http = exporter == HTTP;
        let format = if is_http { &["encoding"][..] } else { &[] };
        let others = [&["endpoint", "headers", "headers_list", "tls"], format].concat();
        self.optional(part, &known(&[OTLP, of_metrics], &others));
        let encodings = [("protobuf", "http"), ("json", "http/json")];
        let encoding = part.given("encoding").filter(|_| is_http);
        let transport = encoding.as_ref().and_then(|encoding| self.word(encoding, &encodings));
        let transport = transport.unwrap_or(if is_http { "http" } else { "grpc" });
        let at = encoding.as_ref().unwrap_or(part).node.at;
        member.put(&TRANSPORT, SettingValue::Word(transport.into()), self.report.source(at));
        let mut insecure = Some(false);
        if let Some(tls) = part.given("tls") {
            let option = if is_http { &[][..] } else { &["insecure"] };
            self.table(&tls, &known(&[TLS], option));
            if let Some(flag) = tls.given("insecure").filter(|_| !is_http) {
                insecure = self.take(&flag, value::bool(flag.node));
            }
            for file in TLS.iter().filter_map(|(name, _)| tls.given(name)) {
                if file.node.as_text().is_some_and(|path| !path.starts_with('/')) {
                    self.warn(&file, "is relative to the directory of this file", "write an absolute path");
                }
            }
            self.settings(&tls, TLS, member);
        }
        member.paths.insert(ENDPOINT.key, part.below("endpoint"));
        member.paths.insert(HEADERS.key, part.below("headers"));
        self.endpoint(part, is_http, insecure, member);
        self.headers(part, member);
        self.settings(part, OTLP, member);
    }

    /// Reads the endpoint. The path of the signal at the end of the endpoint is removed, so that the endpoints of
    /// several signals are equal and can share an exporter.
    fn endpoint(&mut self, part: &Part<'_>, is_http: bool, insecure: Option<bool>, member: &mut Member) {
        let (signal, insecure) = (member.signal, insecure.filter(|_| !is_http));
        let mut put = |text, written, rule, source| {
            member.put(&ENDPOINT, SettingValue::Endpoint { text, written, rule, insecure }, source);
        };
        let Some(endpoint) = part.given("endpoint") else {
            let transport = if is_http { Transport::Http } else { Transport::Grpc };
            let text = transport.default_endpoint().to_owned();
            return put(text, None, PathRule::Base, SettingSource::Default);
        };
        let read = value::text(endpoint.node, self.report.resolver, ENDPOINT.advice);
        let Some(value::Text { text, written, is_secret }) = self.take(&endpoint, read) else { return };
        let written = is_secret.then(|| written.to_owned());
        let (_, rest) = text.split_once("://").unwrap_or_default();
        if is_http && !rest.is_empty() && !rest.contains('/') {
            let fix = format!("append {}", signal.path());
            self.warn(&endpoint, format!("has no path, so {} are posted to /", signal.name()), fix);
        } else if rest.is_empty() && insecure == Some(false) && !text.starts_with("unix") {
            self.warn(&endpoint, "has no scheme, so TLS is used", "begin it with https://, or write http://");
        }
        let source = self.report.source(endpoint.node.at);
        let base = |text: &str| text.strip_suffix(signal.path()).map(str::to_owned);
        let shortened = base(&text).filter(|base| base.contains("://") && is_http);
        match (shortened, written.as_deref().map(base)) {
            (Some(short), None) => put(short, None, PathRule::Base, source),
            (Some(short), Some(Some(shown))) => put(short, Some(shown), PathRule::Base, source),
            _ => put(text, written, if is_http { PathRule::Verbatim } else { PathRule::Base }, source),
        }
    }

    /// Reads `headers_list` and `headers`; a header in `headers` takes precedence. An invalid header is an error, so
    /// that no exporter sends without one of its headers.
    fn headers(&mut self, part: &Part<'_>, member: &mut Member) {
        let (resolver, mut headers) = (self.report.resolver, Vec::new());
        for item in part.get("headers").map(|list| self.list(&list)).unwrap_or_default() {
            self.table(&item, &["name", "value"]);
            let name = self.required(&item, "name").and_then(|name| self.text(&name));
            let given = self.required(&item, "value");
            if let Some(null) = given.as_ref().filter(|it| it.node.value == Tree::Null) {
                self.warn(null, "is null, so this header is not sent", "write text, or remove it");
                continue;
            }
            let Some((name, given)) = name.zip(given) else { continue };
            let text = value::loose_text(given.node, resolver, TEXT);
            let Some(text) = self.take(&given, text) else { continue };
            member.has_secret_header |= text.is_secret;
            headers.retain(|(known, _): &(String, Secret)| !known.eq_ignore_ascii_case(&name));
            headers.push((name.clone(), Secret::new(&text.text)));
            let read = move |text: &str| Ok(vec![(name.clone(), Secret::new(text))]);
            member.header_sources.extend(changing_headers(given.node, resolver, read));
        }
        let mut place = part.get("headers");
        if let Some(list) = part.given("headers_list") {
            let others: Vec<String> = headers.iter().map(|(name, _)| name.clone()).collect();
            let read_pairs = move |text: &str| {
                let mut pairs = header::read_pairs(text)?;
                pairs.retain(|(name, _)| !others.iter().any(|other| other.eq_ignore_ascii_case(name)));
                Ok(pairs)
            };
            let read = value::text(list.node, resolver, HEADERS.advice).and_then(|text| {
                member.has_secret_header |= text.is_secret;
                read_pairs(&text.text)
            });
            headers.splice(0..0, self.take(&list, read).unwrap_or_default());
            member.header_sources.extend(changing_headers(list.node, resolver, read_pairs));
            place = place.or(Some(list));
        }
        let Some(place) = place.filter(|_| !headers.is_empty()) else { return };
        self.take(&place, header::check_count(headers.len()));
        member.put(&HEADERS, SettingValue::Headers(headers), self.report.source(place.node.at));
    }

    fn cardinality(&mut self, part: &Part<'_>, member: &mut Member) {
        self.table(part, &[&InstrumentKind::names()[..], &["default"]].concat());
        self.settings(part, &[("default", &CARDINALITY_LIMIT)], member);
        for (name, kind) in InstrumentKind::NAMES {
            let Some(limit) = part.given(name) else { continue };
            if let Some(SettingValue::Number(most)) = self.setting(&CARDINALITY_LIMIT, &limit) {
                member.cardinality_limits[*kind as usize] = Some(most);
            }
        }
    }

    /// Reads the settings of this crate for one processor, with the keys and units of the crate's other file formats.
    fn own(&mut self, part: &Part<'_>, member: &mut Member) {
        let offered: Vec<&'static SettingRow> = rows().filter(|row| is_own(row, member.signal)).collect();
        self.table(part, &offered.iter().map(|row| row.key).collect::<Vec<_>>());
        for (row, given) in offered.into_iter().filter_map(|row| Some((row, part.given(row.key)?))) {
            let value = self.take(&given, row.kind.read(given.node, self.report.resolver, row.advice));
            member.paths.insert(row.key, given.path);
            value.into_iter().for_each(|it| member.put(row, it, self.report.source(given.node.at)));
        }
    }

    /// Builds the exporters: members of different signals with equal settings share one.
    pub(super) fn assemble(&mut self) {
        let mut groups: Vec<Vec<Member>> = Vec::new();
        for member in self.members.drain(..) {
            match groups.iter_mut().find(|group| group.iter().all(|other| other.agrees_with(&member))) {
                Some(group) => group.push(member),
                None => groups.push(vec![member]),
            }
        }
        let names: Vec<&str> = groups.iter().map(|group| group[0].name).collect();
        for group in groups {
            let (first, signals) = (&group[0], group.iter().map(|member| member.signal).collect::<Vec<_>>());
            let is_shared = names.iter().filter(|it| **it == first.name).count() > 1 && signals.len() == 1;
            let name =
                if is_shared { format!("{}.{}", first.name, signals[0].name()) } else { first.name.into() };
            let is_taken = |name: &str| self.config.exporters.iter().any(|other| other.name() == name);
            // Several processors of one signal would have the same name; the second gets a number: `otlp.traces.2`.
            let numbered = (2..).map(|number| format!("{name}.{number}"));
            let mut unique = std::iter::once(name.clone()).chain(numbered).filter(|name| !is_taken(name));
            let unique = unique.next().unwrap_or_default();
            let mut exporter = with_defaults(&unique, &first.path, Some(first.location.clone()), &signals);
            exporter.record(&SIGNALS, SettingSource::File(first.location.clone()), None);
            for member in &group {
                exporter.connection.has_secret_header |= member.has_secret_header;
                exporter.connection.header_sources.clone_from(&member.header_sources);
                if member.signal == Signal::Metrics {
                    exporter.reader.cardinality_limits = member.cardinality_limits;
                }
            }
            for row in rows() {
                let is_it = |(known, ..): &&(&SettingRow, _, _)| known.key == row.key;
                let setting = group.iter().find_map(|it| Some((it, it.values.iter().find(is_it)?)));
                if let Some((_, (_, value, source))) = setting {
                    exporter.apply(row, value.clone(), source.clone());
                }
                let path = setting.map_or(first, |(member, _)| member).paths.get(row.key);
                path.into_iter().for_each(|path| exporter.paths.insert(row.key, path.clone()));
            }
            // A level in `distribution` is set for one exporter, and takes precedence over that of all loggers.
            let is_open = signals.contains(&Signal::Logs) && !exporter.is_set(&LEVEL);
            if let Some((level, source)) = self.level.as_ref().filter(|_| is_open) {
                exporter.level = *level;
                exporter.record(&LEVEL, source.clone(), None);
            }
            self.config.exporters.push(exporter);
        }
    }
}

/// Returns the words that the schema has for the values of a setting, each with the word of this crate's other files.
pub(super) fn words_of(row: &SettingRow) -> Vec<(&'static str, &'static str)> {
    if row.key == TEMPORALITY.key { TEMPORALITIES.to_vec() } else { row.kind.words() }
}

/// Returns all keys of a table.
fn known(settings: &[Keys], others: &[&'static str]) -> Vec<&'static str> {
    let of_settings = settings.iter().flat_map(|keys| keys.iter().map(|(name, _)| *name));
    of_settings.chain(others.iter().copied()).collect()
}
