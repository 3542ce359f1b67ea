//! Reads the parts of a declarative configuration that are not exporters: resource, propagators, samplers and levels.

use super::{Part, Reader, TEXT};
use crate::config::SettingSource;
use crate::config::error::Fault;
use crate::config::node::{Integer, Node, Tree};
use crate::config::provider::{
    AttributeCondition, ComposableSampler, ParentOrigin, SERVICE_NAME, Sampler, SamplerKind, SamplingRule,
};
use crate::config::read::program::number;
use crate::config::read::value;
use crate::config::settings::general::{DETECT, GeneralKind, PROPAGATORS};
use crate::config::text::words;
use crate::config::values::{Detector, Level, Named, header};
use crate::context::Propagators;
use crate::record::{Severity, SpanKind, Value};

const SERVICE_VARIABLE: &str = "OTEL_SERVICE_NAME";
/// Types of attributes.
const TYPES: [&str; 8] =
    ["string", "bool", "int", "double", "string_array", "bool_array", "int_array", "double_array"];
const ATTRIBUTE: &str = "write a value of its type, or change the type";

/// Branches of `parent_based`, and the only sampler that each of them may have.
const BRANCHES: [(&str, &str); 4] = [
    ("remote_parent_sampled", "always_on"),
    ("remote_parent_not_sampled", "always_off"),
    ("local_parent_sampled", "always_on"),
    ("local_parent_not_sampled", "always_off"),
];
const COMPOSITE: &str = "composite/development";
const PROBABILITY: &str = "probability/development";
const REMOTE: &str = "jaeger_remote/development";
const KINDS: [(&str, SpanKind); 5] = [
    ("internal", SpanKind::Internal),
    ("server", SpanKind::Server),
    ("client", SpanKind::Client),
    ("producer", SpanKind::Producer),
    ("consumer", SpanKind::Consumer),
];
const ORIGINS: [(&str, ParentOrigin); 3] =
    [("none", ParentOrigin::None), ("local", ParentOrigin::Local), ("remote", ParentOrigin::Remote)];

impl Reader<'_> {
    pub(super) fn resource(&mut self, part: &Part<'_>) {
        self.table(part, &["attributes", "attributes_list", "schema_url", "detection/development"]);
        if let Some(url) = part.given("schema_url").and_then(|url| self.text(&url)) {
            self.config.main.set_schema_url(&url);
        }
        let attributes = part.get("attributes").map(|it| self.list(&it)).unwrap_or_default();
        if attributes.len() > header::MAX_ATTRIBUTES {
            let what = format!("more than {} attributes: the rest is ignored", header::MAX_ATTRIBUTES);
            self.error(part, what, "remove some");
        }
        for item in attributes.iter().take(header::MAX_ATTRIBUTES) {
            self.table(item, &["name", "value", "type"]);
            self.attribute(item);
        }
        if let Some(list) = part.given("attributes_list") {
            let text = value::text(list.node, self.report.resolver, TEXT);
            let read = text.and_then(|text| Ok((header::read_attributes(&text.text)?, text.is_secret)));
            let (attributes, is_secret) = self.take(&list, read).unwrap_or_default();
            let (main, source) = (&mut self.config.main, self.report.source(list.node.at));
            for (key, value) in attributes {
                // `attributes` takes precedence over `attributes_list`, as the schema says.
                if main.resource_source(&key) == SettingSource::Default {
                    let written = is_secret.then_some("***");
                    main.set_resource(&key, Value::Str(&value), written, source.clone());
                }
            }
        }
        let Some(detection) = part.given("detection/development") else { return };
        self.table(&detection, &["attributes", "detectors"]);
        self.ignore(&detection, "attributes", "all attributes of the detectors are added");
        let Some(listed) = detection.get("detectors") else { return };
        for item in self.list(&listed) {
            let found = self.component(&item, &Detector::names()).and_then(|(name, _)| Detector::parse(name));
            self.config.detectors.extend(found);
        }
        self.config.sources.insert(DETECT.key, self.report.source(listed.node.at));
        // By the specification, the service detector reads `OTEL_SERVICE_NAME` even if the file does not refer to it.
        if self.config.detectors.contains(&Detector::Service) {
            self.referenced.borrow_mut().insert(SERVICE_VARIABLE.to_owned());
            let source = SettingSource::Environment(SERVICE_VARIABLE.to_owned());
            if let Some(Ok(name)) = self.variables.get(SERVICE_VARIABLE) {
                self.config.main.fill_resource(SERVICE_NAME, name, source);
            }
        }
    }

    fn attribute(&mut self, item: &Part<'_>) -> Option<()> {
        let name = self.required(item, "name").and_then(|name| self.text(&name))?;
        let value = self.required(item, "value").filter(|value| value.node.value != Tree::Null)?;
        let kind = item.given("type");
        let kind = kind.map_or(Some(TYPES[0]), |kind| self.word(&kind, &TYPES.map(|name| (name, name))))?;
        let (kind, is_array) = kind.strip_suffix("_array").map_or((kind, false), |kind| (kind, true));
        let node = Some(value.node).filter(|node| matches!(node.value, Tree::List(_)) == is_array);
        let Some(node) = node.and_then(|node| coerced(node, kind)) else {
            self.error(&value, format!("found {}", value.node.kind()), ATTRIBUTE);
            return None;
        };
        if kind == "string" && node != *value.node {
            let what = format!("found {}, but the type is string", value.node.kind());
            self.warn(&value, what, "quote it, or write its type");
        }
        let set = self.report.set_attribute(&mut self.config.main, &name, &node, ATTRIBUTE);
        self.take(&value, set)
    }

    /// Reads the propagators. If the key is missing, nothing is propagated, as the schema demands.
    pub(super) fn propagator(&mut self, root: &Part<'_>) {
        self.config.propagators = Propagators::new([]);
        let part = root.get("propagator");
        let Some(part) = part.filter(|part| self.table(part, &["composite", "composite_list"])) else {
            return self.report.note(root.node.at, "propagator", "missing, so contexts are not propagated");
        };
        let items = part.get("composite").map(|it| self.list(&it)).unwrap_or_default();
        let mut names: Vec<(String, Part<'_>)> = Vec::new();
        for item in &items {
            let found = item.only().map(|(name, inner)| (name.to_owned(), inner));
            if found.is_none() {
                self.error(item, format!("found {}", item.node.kind()), "write a name like tracecontext:");
            }
            names.extend(found);
        }
        if let Some(list) = part.given("composite_list") {
            let text = self.text(&list).unwrap_or_default();
            names.extend(words(&text).into_iter().map(|name| (name.to_owned(), list.clone())));
        }
        let GeneralKind::Words(list) = &PROPAGATORS.kind else { return };
        for (place, fault) in names.iter().filter_map(|(name, place)| Some((place, list.fault(name)?))) {
            self.report.warning(place.node.at, place.path.clone(), fault);
        }
        let names: Vec<&str> = names.iter().map(|(name, _)| &**name).collect();
        (list.set)(&mut self.config, &names);
        self.config.sources.insert(PROPAGATORS.key, self.report.source(part.node.at));
    }

    /// Reads the lowest severities of log records: one for all loggers, and others for loggers by name.
    pub(super) fn levels(&mut self, part: &Part<'_>) {
        const ENABLED: &str = "enabled";
        const LEAST: &str = "minimum_severity";
        self.table(part, &["default_config", "loggers"]);
        let mut configs = Vec::from_iter(part.given("default_config").map(|config| (None, config)));
        for logger in part.get("loggers").map(|it| self.list(&it)).unwrap_or_default() {
            self.table(&logger, &["name", "config"]);
            let name = self.required(&logger, "name").and_then(|name| self.text(&name));
            configs.extend(name.map(Some).zip(self.required(&logger, "config")));
        }
        for (name, config) in configs {
            self.table(&config, &[ENABLED, LEAST, "trace_based"]);
            if config.given("trace_based").is_some_and(|it| it.node.value == Tree::Bool(true)) {
                self.refuse(&config, "trace_based");
            }
            let is_off = config.given(ENABLED).is_some_and(|it| it.node.value == Tree::Bool(false));
            let severity = config.given(LEAST).and_then(|it| self.severity(&it));
            let level = if is_off { Some(Level::DISABLE) } else { severity.map(|it| Level(Some(it))) };
            match (name, level) {
                (Some(_), _) if is_off => self.refuse(&config, ENABLED),
                (Some(name), _) => self.config.scope_levels.extend(severity.map(|least| (name, least))),
                (None, level) => self.level = level.map(|it| (it, self.report.source(config.node.at))),
            }
        }
    }

    fn severity(&mut self, part: &Part<'_>) -> Option<Severity> {
        let all = (1..=24).filter_map(Severity::from_number);
        // The schema writes severities in lower case: `info`, `info2`.
        let names: Vec<_> = all.map(|it| (it.name().to_ascii_lowercase(), it)).collect();
        self.word(part, &names.iter().map(|(name, it)| (&**name, *it)).collect::<Vec<_>>())
    }

    pub(super) fn sampler(&mut self, part: &Part<'_>) -> Option<Sampler> {
        const NAMES: [&str; 8] = [
            "always_on",
            "always_off",
            "parent_based",
            "trace_id_ratio_based",
            "always_record",
            PROBABILITY,
            COMPOSITE,
            REMOTE,
        ];
        let (name, inner) = self.component(part, &NAMES)?;
        if ![COMPOSITE, REMOTE].contains(&name) && !self.optional(&inner, keys_of_sampler(name)) {
            return None;
        }
        Some(match name {
            "always_on" => Sampler::always_on(),
            "always_off" => Sampler::always_off(),
            "trace_id_ratio_based" => Sampler::trace_id_ratio(self.ratio(&inner)?),
            PROBABILITY => Sampler::probability(self.ratio(&inner)?),
            "always_record" => {
                self.required(&inner, "root").and_then(|root| self.sampler(&root))?.always_record()
            }
            "parent_based" => {
                for (branch, only) in BRANCHES {
                    let other = inner.given(branch).filter(|it| it.only().is_none_or(|(it, _)| it != only));
                    let what = "standpipe records a span if its parent is recorded";
                    let fix = format!("write {only}, or leave it out");
                    other.iter().for_each(|other| self.error(other, what, fix.clone()));
                }
                let root = inner.given("root");
                let root = root.map_or(Some(Sampler::always_on()), |root| self.sampler(&root))?;
                // Built directly, because `Sampler::parent_based` does not wrap a root that is itself `parent_based`.
                Sampler(SamplerKind::ParentBased(Box::new(root.0)))
            }
            COMPOSITE => Sampler::composite(self.composable(&inner)?),
            _ => {
                let fix = "write parent_based with trace_id_ratio_based";
                self.error(&inner, "no sampler asks a server", fix);
                return None;
            }
        })
    }

    fn composable(&mut self, part: &Part<'_>) -> Option<ComposableSampler> {
        let names = ["always_on", "always_off", "probability", "parent_threshold", "rule_based"];
        let (name, inner) = self.component(part, &names)?;
        if !self.optional(&inner, keys_of_sampler(name)) {
            return None;
        }
        Some(match name {
            "always_on" => ComposableSampler::AlwaysOn,
            "always_off" => ComposableSampler::AlwaysOff,
            "probability" => ComposableSampler::Probability(self.ratio(&inner)?),
            "parent_threshold" => {
                let root = self.required(&inner, "root")?;
                ComposableSampler::ParentThreshold(Box::new(self.composable(&root)?))
            }
            _ => {
                let rules = inner.given("rules").map(|rules| self.list(&rules)).unwrap_or_default();
                let rules = rules.iter().map(|rule| self.rule(rule));
                ComposableSampler::RuleBased(rules.collect::<Option<_>>()?)
            }
        })
    }

    fn rule(&mut self, part: &Part<'_>) -> Option<SamplingRule> {
        self.table(part, &["attribute_values", "attribute_patterns", "span_kinds", "parent", "sampler"]);
        let sampler = self.required(part, "sampler")?;
        let mut rule = SamplingRule { sampler: self.composable(&sampler)?, ..SamplingRule::default() };
        for (name, keys) in [
            ("attribute_values", &["key", "values"][..]),
            ("attribute_patterns", &["key", "included", "excluded"]),
        ] {
            let Some(condition) = part.given(name) else { continue };
            self.table(&condition, keys);
            let key = self.required(&condition, "key").and_then(|key| self.text(&key))?;
            let mut texts = |name| condition.given(name).map(|it| self.texts(&it)).unwrap_or_default();
            let [values, included, excluded] = ["values", "included", "excluded"].map(&mut texts);
            rule.attributes.push(AttributeCondition { key, values, included, excluded });
        }
        let words = |name| part.given(name).map(|it| self.list(&it)).unwrap_or_default();
        let [kinds, parents] = ["span_kinds", "parent"].map(words);
        rule.kinds = kinds.iter().map(|kind| self.word(kind, &KINDS)).collect::<Option<_>>()?;
        rule.parents = parents.iter().map(|origin| self.word(origin, &ORIGINS)).collect::<Option<_>>()?;
        Some(rule)
    }

    /// Returns the ratio of a sampler; 1 if it is not given.
    fn ratio(&mut self, part: &Part<'_>) -> Option<f64> {
        let Some(part) = part.given("ratio") else { return Some(1.0) };
        let ratio = number(part.node, false).ok().filter(|ratio| (0.0..=1.0).contains(ratio));
        let fault = Fault::new("is not a ratio of traces", "write 0 to 1, like 0.25");
        self.take(&part, ratio.ok_or(fault))
    }
}

fn keys_of_sampler(name: &str) -> &'static [&'static str] {
    match name {
        "trace_id_ratio_based" | "probability" | PROBABILITY => &["ratio"],
        "parent_based" => &["root", BRANCHES[0].0, BRANCHES[1].0, BRANCHES[2].0, BRANCHES[3].0],
        "always_record" | "parent_threshold" => &["root"],
        "rule_based" => &["rules"],
        _ => &[],
    }
}

/// Converts a value, or each element of an array, to a type. Returns `None` if a value cannot be converted.
fn coerced(node: &Node, kind: &str) -> Option<Node> {
    let value = match (&node.value, kind) {
        (Tree::List(list), _) => Tree::List(list.iter().map(|it| coerced(it, kind)).collect::<Option<_>>()?),
        (Tree::Text(_) | Tree::Inserted { .. }, "string")
        | (Tree::Bool(_), "bool")
        | (Tree::Integer(_), "int")
        | (Tree::Float { .. }, "double") => node.value.clone(),
        (Tree::Integer(Integer { written, value }), "double") => {
            Tree::Float { written: written.clone(), value: *value as f64 }
        }
        (Tree::Integer(Integer { written, .. }) | Tree::Float { written, .. }, "string") => {
            Tree::Text(written.clone())
        }
        (Tree::Bool(value), "string") => Tree::Text(value.to_string()),
        _ => return None,
    };
    Some(Node { at: node.at, value })
}
