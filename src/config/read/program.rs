//! Reads the keys of `telemetry` that describe the program: service name, resource, sampling, views, detectors,
//! propagators and exemplars. A view has a `selector` and a `stream`, as in OpenTelemetry's declarative configuration.

use super::Found;
use super::table::{BELOW_IT, Report};
use crate::config::ProviderSettings;
use crate::config::error::{Advice, Checked, Fault};
use crate::config::node::{Field, Integer, Node, Tree};
use crate::config::provider::{SERVICE_NAME, Sampler};
use crate::config::read::value::{self, Resolver, Text, WHOLE_NUMBER, wrong_type};
use crate::config::section::{PROGRAM_KEYS, Section, TELEMETRY};
use crate::config::settings::general::{DETECT, EXEMPLARS, GeneralKind, GeneralRow, PROPAGATORS};
use crate::config::text::dotted;
use crate::config::values::header::MAX_ATTRIBUTES;
use crate::config::values::{InstrumentKind, Named};
use crate::config::view::{View, ViewAggregation};
use crate::record::{ExponentialLimits, Value};

const NAME_ADVICE: &str = "write a name like shop";
const RESOURCE_ADVICE: &str = "write attributes like \"deployment.environment.name\" and their values";
const VIEWS_ADVICE: &str = "write a list of tables, each with selector and stream";
const ATTRIBUTE_ADVICE: &str = "write a string, a boolean, a number or an array of these";

impl Found<'_> {
    /// Reads the keys of the program. An error in them does not disable an exporter.
    pub(super) fn read_program(&mut self, root: &Node) {
        let fields = root.at(&[TELEMETRY]).and_then(Node::as_table).unwrap_or_default();
        let [name, resource, sampling, views, ..] = PROGRAM_KEYS;
        // The service name is read last, because it takes precedence over the attribute `service.name`.
        if let Some(Field { node, .. }) = given(fields, resource) {
            match node.as_table() {
                Some(fields) => self.attributes(fields, &[resource], &mut 0),
                None => self.check(Err(wrong_type(node, RESOURCE_ADVICE)), &[resource], node),
            }
        }
        if let Some(Field { node, .. }) = given(fields, views) {
            if !matches!(node.value, Tree::List(_)) {
                self.check(Err(wrong_type(node, VIEWS_ADVICE)), &[views], node);
            }
            let listed = if let Tree::List(nodes) = &node.value { &nodes[..] } else { &[] };
            let read = |node| read_view(node, &[TELEMETRY, views], &mut self.report);
            self.config.main.views.extend(listed.iter().filter_map(read));
            self.config.main.view_nodes = listed.to_vec();
        }
        read_provider(fields, [name, sampling], None, &mut self.config.main, &mut self.report);
        for row in [&DETECT, &PROPAGATORS, &EXEMPLARS] {
            let Some(Field { node, .. }) = given(fields, row.key) else { continue };
            let set = self.words(row, node);
            self.check(set, &[row.key], node);
        }
    }

    /// Sets a list of words, which is an array or a text with commas.
    fn words(&mut self, row: &'static GeneralRow, node: &Node) -> Checked {
        let GeneralKind::Words(list) = &row.kind else { return Ok(()) };
        let advice = if list.is_one { "write one word" } else { "write a list of names" };
        let items = match &node.value {
            Tree::List(items) if !list.is_one => &items[..],
            _ => std::slice::from_ref(node),
        };
        let texts = items.iter().map(|item| value::text_in(item, node, self.report.resolver, advice));
        let texts: Vec<Text<'_>> = texts.collect::<Result<_, _>>()?;
        let words: Vec<&str> = texts.iter().flat_map(|text| list.split(&text.text)).collect();
        words.iter().find_map(|word| list.fault(word)).map_or(Ok(()), Err)?;
        (list.set)(&mut self.config, &words);
        self.config.sources.insert(row.key, self.report.source(node.at));
        Ok(())
    }

    /// Reads attributes; `count` is the number of attributes so far. TOML parses an unquoted name with dots as nested
    /// tables, so the names of nested tables are joined again.
    fn attributes(&mut self, fields: &[Field], path: &[&str], count: &mut usize) {
        for field in fields.iter().filter(|field| field.node.value != Tree::Null) {
            let path = [path, &[&field.name]].concat();
            if let Some(fields) = field.node.as_table() {
                self.attributes(fields, &path, count);
                continue;
            }
            let (key, node, main) = (path[1..].join("."), &field.node, &mut self.config.main);
            let what = || format!("more than {MAX_ATTRIBUTES} attributes: the rest is ignored");
            let set = match *count {
                MAX_ATTRIBUTES => Fault::err(what(), "remove some"),
                count if count > MAX_ATTRIBUTES => return,
                _ => self.report.set_attribute(main, &key, node, ATTRIBUTE_ADVICE),
            };
            *count += 1;
            self.check(set, &path, node);
        }
    }

    /// Reports the reason why a value was not used.
    fn check(&mut self, set: Checked, path: &[&str], node: &Node) {
        if let Err(fault) = set {
            self.report.lone_error(node.at, dotted(&[&[TELEMETRY], path].concat()), fault);
        }
    }
}

impl Report<'_> {
    /// Sets an attribute of the resource.
    pub(super) fn set_attribute(
        &self,
        to: &mut ProviderSettings,
        key: &str,
        node: &Node,
        advice: Advice,
    ) -> Checked {
        let (source, resolver) = (self.source(node.at), self.resolver);
        Fault::unless(!key.is_empty(), "the name is empty", "write a name")?;
        if let Some(first) = to.resource_source(key).location() {
            return Err(Fault::duplicate_key(first.line));
        }
        to.attribute_nodes.insert(key.to_owned(), node.clone());
        let list = if let Tree::List(nodes) = &node.value { Some(&nodes[..]) } else { None };
        let items = list.unwrap_or(std::slice::from_ref(node)).iter();
        let read = items.map(|item| item_of(item, node, resolver, advice));
        let items: Vec<Item<'_>> = read.collect::<Result<_, _>>()?;
        let texts = items.iter().map(|(text, it)| (text.as_ref().map(|text| Value::Str(&text.text)), *it));
        let values: Vec<Value<'_>> = texts.map(|(text, plain)| text.unwrap_or(plain)).collect();
        let text = items.first().and_then(|(text, _)| text.as_ref()).filter(|text| text.is_secret);
        let written = text.filter(|_| list.is_none()).map(|text| text.written);
        let value = if list.is_some() { Value::Array(&values) } else { values[0] };
        to.set_resource(key, value, written, source);
        Ok(())
    }

    /// Sets the service name, unless it is empty. Returns the text of a warning, if any.
    fn set_service_name(&self, to: &mut ProviderSettings, node: &Node) -> Checked<Option<String>> {
        let name = value::loose_text(node, self.resolver, NAME_ADVICE)?;
        if name.text.trim().is_empty() {
            return Ok(Some("is empty, so the default name is used".to_owned()));
        }
        let written = name.is_secret.then_some(name.written);
        let shown = Node { at: node.at, value: Tree::Text(name.written.to_owned()) };
        to.attribute_nodes.insert(SERVICE_NAME.to_owned(), shown);
        to.set_resource(SERVICE_NAME, Value::Str(&name.text), written, self.source(node.at));
        Ok(None)
    }

    /// Sets the percentage of traces. Returns the text of a warning, if any.
    fn set_sampling(&self, to: &mut ProviderSettings, node: &Node) -> Checked<Option<String>> {
        let given = value::percent(node, self.resolver)?;
        let percent = given.clamp(0.0, 100.0);
        // The same division as in Tracetest, so that both programs record the same traces.
        to.set_sampler(Sampler::trace_id_ratio(percent / 100.0), Some(percent), self.source(node.at));
        let kept = if given > percent { "all traces are" } else { "no trace is" };
        Ok((given != percent).then(|| format!("{given} is not 0 to 100 percent: {kept} kept")))
    }
}

/// Reads the service name (key `name`) and the percentage of traces (key `sampling`) from the fields of a section, or
/// of `telemetry` if `section` is `None`. An error disables the section; an error in `telemetry` disables no exporter.
pub(super) fn read_provider(
    fields: &[Field],
    [name, sampling]: [&str; 2],
    section: Option<&Section>,
    settings: &mut ProviderSettings,
    report: &mut Report<'_>,
) {
    for (key, advice) in [(name, NAME_ADVICE), (sampling, value::PERCENT_ADVICE)] {
        let Some(Field { node, .. }) = given(fields, key) else { continue };
        let set = if key == name { Report::set_service_name } else { Report::set_sampling };
        let table = section.map_or(vec![TELEMETRY], Section::path);
        let path = dotted(&[&table[..], &[key]].concat());
        match (set(report, settings, node), section) {
            (Ok(None), _) => {}
            (Ok(Some(odd)), _) => report.warning(node.at, path, Fault::new(odd, advice)),
            (Err(fault), Some(_)) => report.error(section, node.at, path, fault),
            (Err(fault), None) => report.lone_error(node.at, path, fault),
        }
    }
}

/// Returns the field of this name, unless it is null.
pub(super) fn given<'t>(fields: &'t [Field], name: &str) -> Option<&'t Field> {
    fields.iter().find(|field| field.name == name && field.node.value != Tree::Null)
}

/// An attribute value or an element of an array. The second field is the value if the first one, a text, is `None`.
type Item<'n> = (Option<Text<'n>>, Value<'static>);

/// Reads `node`: the attribute value `whole`, or one element of `whole` if `whole` is an array.
fn item_of<'n>(node: &'n Node, whole: &Node, resolver: &Resolver, advice: Advice) -> Checked<Item<'n>> {
    let plain = match &node.value {
        Tree::Bool(value) => Value::Bool(*value),
        Tree::Float { value, .. } => Value::Float(*value),
        Tree::Integer(number) => {
            let too_large = |_| Fault::new("is too large for an integer", "write it in quotes");
            Value::Int(i64::try_from(number.value).map_err(too_large)?)
        }
        _ => return Ok((Some(value::text_in(node, whole, resolver, advice)?), Value::Str(""))),
    };
    Ok((None, plain))
}

const SELECTOR: [&str; 6] =
    ["instrument_name", "instrument_type", "unit", "meter_name", "meter_version", "meter_schema_url"];
const STREAM: [&str; 5] =
    ["name", "description", "aggregation", "aggregation_cardinality_limit", "attribute_keys"];
pub(super) const EXPLICIT: &str = "explicit_bucket_histogram";
pub(super) const EXPONENTIAL: &str = "base2_exponential_bucket_histogram";
const EXPONENTIAL_KEYS: [&str; 3] = ["max_scale", "max_size", "record_min_max"];

const KIND_ADVICE: &str = "write a kind like counter, histogram or observable_gauge";
const AGGREGATION_ADVICE: &str = "write default, drop, sum, last_value, explicit_bucket_histogram or \
                                  base2_exponential_bucket_histogram";

/// Returns the view that a table at this path describes, or reports why the table describes none.
pub(super) fn read_view(node: &Node, path: &[&str], report: &mut Report<'_>) -> Option<View> {
    let view = View { source: report.source(node.at), ..View::default() };
    let mut reader = ViewReader { view, report, is_valid: true };
    reader.table(node, path, &["selector", "stream"]);
    // Only a view whose parts are valid is checked as a whole.
    let faults: Vec<_> = reader.view.faults().filter(|_| reader.is_valid).collect();
    for (part, fault) in faults {
        let at = node.at(&["stream", part]).unwrap_or(node);
        reader.refuse(at, &[path, &["stream", part]].concat(), fault);
    }
    reader.is_valid.then_some(reader.view)
}

struct ViewReader<'r, 'd> {
    view: View,
    report: &'r mut Report<'d>,
    is_valid: bool,
}

impl ViewReader<'_, '_> {
    /// Reads a table that may have these keys. A key without a value counts as absent.
    fn table(&mut self, node: &Node, path: &[&str], known: &[&str]) {
        let fields = match &node.value {
            Tree::Table(fields) => fields,
            Tree::Null => return,
            _ => return self.refuse(node, path, wrong_type(node, BELOW_IT)),
        };
        for field in fields.iter().filter(|field| field.node.value != Tree::Null) {
            let path = [path, &[&field.name]].concat();
            if !known.contains(&&*field.name) {
                self.report.unknown_key(field.at, dotted(&path), &field.name, known);
            } else if let Err(fault) = self.set(&field.name, &field.node, &path) {
                self.refuse(&field.node, &path, fault);
            }
        }
    }

    fn refuse(&mut self, node: &Node, path: &[&str], fault: Fault) {
        self.is_valid = false;
        self.report.lone_error(node.at, dotted(path), fault);
    }

    /// Sets the value of a key. A key means the same in every table of a view, so the key alone identifies the value.
    fn set(&mut self, key: &str, node: &Node, path: &[&str]) -> Checked {
        let resolver = self.report.resolver;
        let text = |node: &Node| Ok(value::loose_text(node, resolver, "write a string")?.text);
        let view = &mut self.view;
        match key {
            "selector" => self.table(node, path, &SELECTOR),
            "stream" => self.table(node, path, &STREAM),
            "attribute_keys" => self.table(node, path, &["included", "excluded"]),
            "aggregation" => self.aggregation(node, path)?,
            "instrument_type" => {
                let word = value::word(node, resolver, KIND_ADVICE, &InstrumentKind::names())?;
                view.kind = InstrumentKind::parse(word);
            }
            "instrument_name" => view.pattern = Some(text(node)?),
            "unit" => view.unit = Some(text(node)?),
            "meter_name" => view.meter = Some(text(node)?),
            "meter_version" => view.meter_version = Some(text(node)?),
            "meter_schema_url" => view.meter_schema_url = Some(text(node)?),
            "name" => view.name = Some(text(node)?),
            "description" => view.description = Some(text(node)?),
            "included" => view.keys().kept = Some(list(node, text)?),
            "excluded" => view.keys().removed = list(node, text)?,
            "aggregation_cardinality_limit" => view.limit = Some(number(node, true)? as usize),
            "record_min_max" => view.omits_min_max = !value::bool(node)?,
            _ => match &mut view.aggregation {
                ViewAggregation::Exponential(limits) if key == "max_scale" => {
                    limits.scale = number(node, true)? as i32;
                }
                ViewAggregation::Exponential(limits) => limits.buckets = number(node, true)? as i32,
                explicit => {
                    let bounds = list(node, |node| number(node, false))?;
                    *explicit = ViewAggregation::Explicit(Some(bounds.into()));
                }
            },
        }
        Ok(())
    }

    /// Reads the name of an aggregation, or a table with the name as its only key and with parameters below it.
    fn aggregation(&mut self, node: &Node, path: &[&str]) -> Checked {
        let (name, parameters) = match (node.as_text(), node.as_table()) {
            (Some(name), _) => (name, None),
            (None, Some([field])) => (&*field.name, Some(&field.node)),
            _ => return Err(wrong_type(node, AGGREGATION_ADVICE)),
        };
        let (aggregation, known): (_, &[&str]) = match name {
            "default" => (ViewAggregation::Default, &[]),
            "drop" => (ViewAggregation::Drop, &[]),
            "sum" => (ViewAggregation::Sum, &[]),
            "last_value" => (ViewAggregation::LastValue, &[]),
            EXPLICIT => (ViewAggregation::Explicit(None), &["boundaries", "record_min_max"]),
            EXPONENTIAL => (ViewAggregation::Exponential(ExponentialLimits::DEFAULT), &EXPONENTIAL_KEYS),
            _ => return Fault::err("is not an aggregation", AGGREGATION_ADVICE),
        };
        self.view.aggregation = aggregation;
        parameters.into_iter().for_each(|node| self.table(node, &[path, &[name]].concat(), known));
        Ok(())
    }
}

fn list<T>(node: &Node, read: impl FnMut(&Node) -> Checked<T>) -> Checked<Vec<T>> {
    let Tree::List(nodes) = &node.value else { return Err(wrong_type(node, "write a list")) };
    nodes.iter().map(read).collect()
}

/// Returns a number as `f64`. Callers convert it with `as`, which saturates; a saturated number is outside of the
/// range of its key, so the range check of the caller reports it.
pub(super) fn number(node: &Node, is_whole: bool) -> Checked<f64> {
    match &node.value {
        Tree::Integer(Integer { value, .. }) => Ok(*value as f64),
        Tree::Float { value, .. } if !is_whole => Ok(*value),
        _ => Err(wrong_type(node, if is_whole { WHOLE_NUMBER } else { "write a number, without quotes" })),
    }
}
