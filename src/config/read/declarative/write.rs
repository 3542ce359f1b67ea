//! Writes a configuration as OpenTelemetry's declarative configuration, which [`read`](super::read) reads back.
//!
//! No secret is resolved: a reference in the original remains a reference, and any other secret becomes a reference to
//! a new variable, with a warning. Settings that the format cannot express are left out, with a warning.

use super::providers::{
    BATCH, CONSOLE, FILE_EXPORTER, GRPC, HTTP, Keys, METRICS, OTLP, PERIODIC, PROVIDERS, TLS, is_own,
    with_defaults, words_of,
};
use super::{FILE_FORMAT, OWN};
use crate::config::error::{Diagnostic, Fault, Words, add_new};
use crate::config::node::{Node, Tree};
use crate::config::provider::SamplerKind;
use crate::config::settings::general::{
    DETECT, DISABLED, EXEMPLARS, GeneralRow, PROPAGATORS, SELF_OBSERVATION,
};
use crate::config::settings::kind::SettingValue;
use crate::config::settings::{ENDPOINT, HEADERS, SIGNALS, SettingRow, rows};
use crate::config::text::{encode, is_credential_name, quote, shown};
use crate::config::values::{Named, header};
use crate::config::yaml::reference;
use crate::config::{Config, Exporter, ProviderName, Setting, SettingSource, Transport};
use crate::record::Signal;

/// Returns the text of a file with this configuration, and warnings about secrets and omitted settings.
pub fn to_declarative(config: &Config) -> (String, Vec<Diagnostic>) {
    let mut writer = Writer { config, text: String::new(), found: Vec::new(), done: Vec::new() };
    let is_declarative = |it: &&Exporter| PROVIDERS.iter().any(|(name, ..)| it.path().starts_with(name));
    match config.exporters.iter().find(is_declarative) {
        None => writer.write(),
        Some(exporter) => {
            let fault = Fault::new("the file has this format already", "leave out --to");
            writer.found.push(fault.error(exporter.location().cloned(), FILE_FORMAT));
        }
    }
    (writer.text, writer.found)
}

/// Keys and their values as YAML spells them.
type Fields = Vec<(&'static str, String)>;

/// Returns a table in one line.
fn flow<K: AsRef<str>>(fields: impl IntoIterator<Item = (K, String)>) -> String {
    let fields = fields.into_iter().map(|(name, value)| format!("{}: {value}", name.as_ref()));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
}

fn list(items: impl IntoIterator<Item = String>) -> String {
    format!("[{}]", items.into_iter().collect::<Vec<_>>().join(", "))
}

fn text(text: &str) -> String {
    quote(&escaped(text))
}

/// Returns a reference to a variable, for which the reader inserts the value.
fn value_of(variable: &str) -> String {
    quote(&format!("${{{variable}}}"))
}

fn escaped(text: &str) -> String {
    text.replace('$', "$$")
}

/// Returns the YAML of a number, a word or a measure such as `5s`; quotes all but whole numbers and plain words.
fn scalar(text: &str) -> String {
    let is_word = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    if is_word || text.parse::<u64>().is_ok() { text.to_owned() } else { quote(text) }
}

struct Writer<'c> {
    config: &'c Config,
    text: String,
    found: Vec<Diagnostic>,
    /// Keys of the written settings that belong to no exporter.
    done: Vec<&'static str>,
}

impl Writer<'_> {
    fn write(&mut self) {
        let config = self.config;
        self.line(0, FILE_FORMAT, "\"1.0\"");
        self.general(0, "disabled", &DISABLED);
        self.resource();
        // Without this section, contexts would not be propagated.
        self.line(0, "propagator", &flow([("composite_list", text(&PROPAGATORS.kind.show(config)))]));
        self.done.push(PROPAGATORS.key);
        let (foreign, exporters): (Vec<_>, Vec<_>) =
            config.exporters.iter().partition(|it| it.provider() == Some(ProviderName::Application));
        let mut own = Vec::new();
        for (name, signal, limits, known) in &PROVIDERS {
            let sending: Vec<_> = exporters.iter().filter(|it| it.signals.contain(*signal)).collect();
            if sending.is_empty() {
                continue;
            }
            self.line(0, name, "");
            self.line(1, known[0], "");
            let settings: Vec<String> = sending.iter().map(|it| self.processor(it, *signal)).collect();
            own.push((signal.name(), settings));
            self.below(1, "limits", |writer| {
                limits.iter().for_each(|(name, rows)| writer.general(2, name, rows[0]));
            });
            if *signal == Signal::Traces {
                let sampler = self.sampler(&config.main.sampler.0);
                sampler.iter().for_each(|sampler| self.line(1, "sampler", sampler));
            } else if *signal == Signal::Metrics {
                let (nodes, source) = (&config.main.view_nodes, SettingSource::Default);
                let views = list(nodes.iter().map(|it| self.converted(it, &source, "view")));
                self.line(1, "views", &views);
                self.done.push("view");
                self.general(1, "exemplar_filter", &EXEMPLARS);
            }
        }
        self.below(0, "distribution", |writer| {
            writer.below(1, OWN, |writer| {
                writer.general(2, SELF_OBSERVATION.key, &SELF_OBSERVATION);
                for (signal, settings) in own {
                    match &settings[..] {
                        [only] => writer.line(2, signal, only),
                        _ if settings.iter().all(|it| it == "{}") => {}
                        _ => writer.line(2, signal, &list(settings)),
                    }
                }
            });
        });
        foreign.iter().for_each(|it| self.leave_out(&it.source(&SIGNALS), it.name()));
        for Setting { key, source, .. } in config.effective() {
            let is_left = !self.done.contains(&key) && !key.starts_with("application.");
            if is_left && source != SettingSource::Default {
                self.leave_out(&source, key);
            }
        }
    }

    /// Writes a key and its value, unless the value is an empty list or table.
    fn line(&mut self, depth: usize, key: &str, value: &str) {
        if !["[]", "{}"].contains(&value) {
            let line = format!("{:depth$}{key}: {value}", "", depth = 2 * depth);
            self.text += line.trim_end();
            self.text.push('\n');
        }
    }

    fn lines(&mut self, depth: usize, fields: Fields) {
        fields.iter().for_each(|(key, value)| self.line(depth, key, value));
    }

    /// Writes a key above the lines that `write` writes, if there are any.
    fn below(&mut self, depth: usize, key: &str, write: impl FnOnce(&mut Self)) {
        let before = std::mem::take(&mut self.text);
        write(self);
        let lines = std::mem::replace(&mut self.text, before);
        if !lines.is_empty() {
            self.line(depth, key, "");
            self.text += &lines;
        }
    }

    fn warn(&mut self, source: &SettingSource, key: &str, what: impl Into<Words>, fix: &'static str) {
        add_new(&mut self.found, Fault::new(what, fix).warning(source.location().cloned(), key));
    }

    fn leave_out(&mut self, source: &SettingSource, key: &str) {
        self.warn(source, key, "is left out: the format has no place for it", "set it in code");
    }

    /// Writes a setting that belongs to no exporter, unless it is unset or its value is `any`, which means no limit.
    fn general(&mut self, depth: usize, name: &str, row: &GeneralRow) {
        self.done.push(row.key);
        let value = row.kind.show(self.config);
        if self.config.source(row) != SettingSource::Default && value != "any" {
            self.line(depth, name, &scalar(&value));
        }
    }

    fn resource(&mut self) {
        let (main, detectors) = (&self.config.main, &self.config.detectors);
        self.done.extend(["service-name", "resource", DETECT.key]);
        let (mut attributes, mut variables) = (Vec::new(), Fields::new());
        for (key, value) in main.resource.shown() {
            let (source, path) = (main.resource_source(key), format!("resource.{}", shown(key)));
            let node = main.attribute_nodes.get(key);
            let has_reference = node.and_then(Node::as_text).is_some_and(|text| text.contains("%{"));
            let (value, kind) = match (&source, node) {
                (SettingSource::Environment(variable), None) if is_credential_name(key) => {
                    // For the reader, `attributes` takes precedence over `attributes_list`.
                    variables = vec![("attributes_list", value_of(variable))];
                    continue;
                }
                _ if is_credential_name(key) && !has_reference => {
                    (self.secret(&source, &path, &["resource", key]), "string".to_owned())
                }
                (_, Some(node)) => (self.converted(node, &source, &path), kind(node)),
                (_, None) => (text(&value), "string".to_owned()),
            };
            if kind.is_empty() {
                self.leave_out(&source, &path);
            } else {
                attributes.push(flow([("name", text(key)), ("value", value), ("type", kind)]));
            }
        }
        self.below(0, "resource", |writer| {
            writer.below(1, "attributes", |writer| {
                attributes.iter().for_each(|it| writer.text += &format!("    - {it}\n"));
            });
            writer.lines(1, variables);
            writer.below(1, "detection/development", |writer| {
                let detectors = detectors.iter().map(|it| flow([(it.name(), String::new())]));
                writer.line(2, "detectors", &list(detectors));
            });
        });
    }

    /// Returns a sampler, unless only code can set it.
    fn sampler(&mut self, sampler: &SamplerKind) -> Option<String> {
        let (name, parameters) = match sampler {
            SamplerKind::AlwaysOn => ("always_on", String::new()),
            SamplerKind::AlwaysOff => ("always_off", String::new()),
            SamplerKind::TraceIdRatio(it) => ("trace_id_ratio_based", flow([("ratio", it.to_string())])),
            SamplerKind::ParentBased(root) => ("parent_based", flow([("root", self.sampler(root)?)])),
            SamplerKind::AlwaysRecord(_) | SamplerKind::Composite(_) => return None,
        };
        self.done.push("sampler");
        Some(flow([(name, parameters)]))
    }

    /// Writes the processor or reader of a signal. Returns those settings for which the schema has no key.
    fn processor(&mut self, exporter: &Exporter, signal: Signal) -> String {
        let (defaults, transport) = (with_defaults("", "", None, &[signal]), exporter.connection.transport);
        let is_left = |row: &&SettingRow| {
            let is_changed = exporter.is_set(row) || row.kind.get(exporter) != row.kind.get(&defaults);
            is_own(row, signal) && (row.applies_to)(transport) && is_changed
        };
        let mut left: Vec<&SettingRow> = rows().filter(is_left).collect();
        let mut take = |writer: &mut Self, keys: Keys| -> Fields {
            let is_left = |(_, row): &&(&str, &SettingRow)| left.iter().any(|it| it.key == row.key);
            let found: Vec<_> = keys.iter().filter(is_left).collect();
            left.retain(|row| !found.iter().any(|(_, it)| it.key == row.key));
            found.iter().map(|(name, row)| (*name, writer.value(row, exporter, false))).collect()
        };
        let (kind, keys, of_metrics) = match signal {
            Signal::Metrics => ("- periodic", PERIODIC, METRICS),
            Signal::Traces | Signal::Logs => ("- batch", BATCH, &[][..]),
        };
        self.line(2, kind, "");
        let fields = take(self, keys);
        self.lines(4, fields);
        self.line(4, "exporter", "");
        let endpoint = |writer: &mut Self| vec![("endpoint", writer.endpoint(exporter, signal))];
        let (name, mut fields) = match transport {
            Transport::Console => (CONSOLE, Fields::new()),
            Transport::File => {
                let path = exporter.connection.file.path.display();
                (FILE_EXPORTER, vec![("output_stream", text(&format!("file://{path}")))])
            }
            Transport::Grpc => (GRPC, endpoint(self)),
            Transport::Http | Transport::HttpJson => (HTTP, endpoint(self)),
        };
        if transport == Transport::HttpJson {
            fields.push(("encoding", "json".to_owned()));
        }
        if transport.connects() {
            fields.push(self.headers(exporter));
            fields.extend(take(self, OTLP));
            fields.push(("tls", flow(take(self, TLS))));
        }
        fields.extend(take(self, of_metrics));
        self.line(5, name, "");
        self.lines(6, fields);
        flow(left.into_iter().map(|row| (row.key, self.value(row, exporter, true))))
    }

    /// Returns a value in the units of the schema, or of standpipe's other files if `is_own`.
    fn value(&mut self, row: &SettingRow, exporter: &Exporter, is_own: bool) -> String {
        match row.kind.get(exporter) {
            Some(_) if is_own => scalar(&row.kind.show(exporter)),
            Some(SettingValue::Duration(time)) => time.as_millis().to_string(),
            Some(SettingValue::NoLimit) => "0".to_owned(),
            Some(SettingValue::Word(word)) => {
                let found = words_of(row).into_iter().find(|(_, meaning)| *meaning == word);
                found.map_or(word, |(word, _)| word.to_owned())
            }
            Some(SettingValue::Number(number)) => number.to_string(),
            _ => match exporter.nodes.get(row.key) {
                Some(node) => self.converted(node, &exporter.source(row), &exporter.key(row)),
                None => text(&exporter.shown(row)),
            },
        }
    }

    /// Returns the URL of a signal, or the address of a socket.
    fn endpoint(&mut self, exporter: &Exporter, signal: Signal) -> String {
        let (http, source, key) = (&exporter.connection, exporter.source(&ENDPOINT), exporter.key(&ENDPOINT));
        let url = http.url(signal);
        if http.endpoint == http.shown_endpoint {
            let socket = http.parsed().ok().and_then(|endpoint| endpoint.shown_socket());
            return text(&socket.unwrap_or(url));
        }
        let written = match (&source, exporter.nodes.get(ENDPOINT.key).and_then(Node::as_text)) {
            (SettingSource::Environment(variable), _) => Some(format!("${{{variable}}}")),
            (_, Some(text)) if text.contains("%{") => Some(self.template(text, &source, &key)),
            _ => None,
        };
        // The URL contains the endpoint. It may have a scheme before the endpoint, and a port and a path after the
        // endpoint.
        match written.zip(url.split_once(http.endpoint.trim_end_matches('/'))) {
            Some((written, (before, after))) => {
                quote(&format!("{before}{}{}", written.trim_end_matches('/'), escaped(after)))
            }
            None => self.secret(&source, &key, &[exporter.own_name(), signal.name(), "url"]),
        }
    }

    fn headers(&mut self, exporter: &Exporter) -> (&'static str, String) {
        let (node, key) = (exporter.nodes.get(HEADERS.key).map(|it| &it.value), exporter.key(&HEADERS));
        let mut headers = Vec::new();
        for (index, (name, _)) in exporter.connection.headers.iter().enumerate() {
            let source = exporter.header_source(index);
            if let SettingSource::Environment(variable) = source {
                // One variable sets all headers.
                return ("headers_list", value_of(variable));
            }
            let of_line = |line| header::split(line).ok().filter(|(known, _)| known == name).map(|it| it.1);
            let value = match node {
                Some(Tree::List(lines)) => lines.get(index).and_then(Node::as_text).and_then(of_line),
                Some(Tree::Text(line)) => of_line(line),
                Some(Tree::Table(fields)) => fields.get(index).and_then(|field| field.node.as_text()),
                _ => None,
            };
            let value = match value.filter(|value| value.contains("%{")) {
                Some(value) => quote(&self.template(value, source, &key)),
                None => self.secret(source, &key, &[exporter.own_name(), name]),
            };
            headers.push(flow([("name", text(name)), ("value", value)]));
        }
        ("headers", list(headers))
    }

    /// Returns a value of a file, in which references have the syntax of the declarative configuration.
    fn converted(&mut self, node: &Node, source: &SettingSource, key: &str) -> String {
        match &node.value {
            Tree::Text(text) => quote(&self.template(text, source, key)),
            Tree::Bool(on) => on.to_string(),
            Tree::Integer(number) => number.value.to_string(),
            Tree::Float { value, .. } => format!("{value:?}").replace("inf", ".inf").replace("NaN", ".nan"),
            Tree::List(items) => list(items.iter().map(|it| self.converted(it, source, key))),
            Tree::Table(fields) => {
                flow(fields.iter().map(|it| (encode(&it.name), self.converted(&it.node, source, key))))
            }
            _ => String::new(),
        }
    }

    /// Returns the text of a file with references to variables as `${NAME}`.
    fn template(&mut self, written: &str, source: &SettingSource, key: &str) -> String {
        let written = escaped(written);
        let mut parts = written.split("%{");
        let mut text = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let variable = part.strip_prefix("env:").and_then(|part| part.split_once("}%"));
            let is_name = |(name, _): &(&str, &str)| matches!(reference(name.trim()), Some((_, None)));
            let Some((name, after)) = variable.filter(is_name) else {
                let fix = "for other programs, write a variable like ${NAME}";
                self.warn(source, key, "contains a reference that only standpipe knows", fix);
                return written;
            };
            text += &format!("${{{}}}{after}", name.trim());
        }
        text
    }

    /// Returns a reference to a new variable, which replaces a secret.
    fn secret(&mut self, source: &SettingSource, key: &str, parts: &[&str]) -> String {
        let name = format!("secret_{}", parts.join("_")).to_ascii_uppercase();
        let name = name.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
        let value = format!("${{{name}}}");
        let what = format!("may be a secret, so {value} is written in its place");
        self.warn(source, key, what, "set this variable to the value");
        quote(&value)
    }
}

/// Returns the type of an attribute in the words of the schema; empty for arrays of several types.
fn kind(node: &Node) -> String {
    match &node.value {
        Tree::Bool(_) => "bool".to_owned(),
        Tree::Integer(_) => "int".to_owned(),
        Tree::Float { .. } => "double".to_owned(),
        Tree::List(items) => {
            let mut kinds = items.iter().map(kind);
            let first = kinds.next().unwrap_or_default();
            if kinds.all(|it| it == first) && !items.is_empty() { first + "_array" } else { String::new() }
        }
        _ => "string".to_owned(),
    }
}
