//! Reads the keys of `telemetry` that describe the program: service name, resource and sampling.

use super::Found;
use super::table::Report;
use crate::config::error::Fault;
use crate::config::node::{Field, Node, Tree};
use crate::config::provider::SERVICE_NAME;
use crate::config::read::value::{self, Resolver, Text, Unusable};
use crate::config::sampler::Sampler;
use crate::config::section::{PROGRAM_KEYS, Section, TELEMETRY};
use crate::config::text::dotted;
use crate::config::values::header::MAX_ATTRIBUTES;
use crate::config::{ProviderSettings, SettingSource};
use crate::record::Value;

const NAME_ADVICE: &str = "write a name like shop";
const RESOURCE_ADVICE: &str = "write attributes like \"deployment.environment.name\" and their values";
const ATTRIBUTE_ADVICE: &str = "write a string, a boolean, a number or an array of these";

impl Found<'_> {
    /// Reads the keys of the program. An error in them does not disable an exporter.
    pub(super) fn read_program(&mut self, root: &Node) {
        let fields = root.get(TELEMETRY).and_then(|telemetry| telemetry.node.as_table()).unwrap_or_default();
        let [name, resource, sampling] = PROGRAM_KEYS;
        // The service name is read last, because it takes precedence over the attribute `service.name`.
        if let Some(Field { node, .. }) = given(fields, resource) {
            match node.as_table() {
                Some(fields) => self.attributes(fields, &[resource], &mut 0),
                None => self.check(Err(Unusable::WrongType), &[resource], node, RESOURCE_ADVICE),
            }
        }
        read_provider(fields, [name, sampling], None, &mut self.config.main, &mut self.report);
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
            *count += 1;
            if *count > MAX_ATTRIBUTES {
                if *count == MAX_ATTRIBUTES + 1 {
                    let what = format!("more than {MAX_ATTRIBUTES} attributes: the rest is ignored");
                    self.check(Err(Fault::new(what, "remove some").into()), &path, &field.node, "");
                }
                return;
            }
            let set = self.attribute(&path[1..].join("."), &field.node);
            self.check(set, &path, &field.node, ATTRIBUTE_ADVICE);
        }
    }

    fn attribute(&mut self, key: &str, node: &Node) -> Result<(), Unusable> {
        let settings = &mut self.config.main;
        Fault::unless(!key.is_empty(), "the name is empty", "write a name")?;
        if let Some(first) = settings.resource_source(key).location() {
            return Err(Fault::duplicate_key(first.line).into());
        }
        let (source, resolver) = (self.report.source(node.at), self.report.resolver);
        match &node.value {
            Tree::List(nodes) => {
                let items = nodes.iter().map(|node| Item::read(node, resolver));
                let items: Vec<Item<'_>> = items.collect::<Result<_, _>>()?;
                let values: Vec<Value<'_>> = items.iter().map(Item::value).collect();
                settings.set_resource(key, Value::Array(&values), None, source);
            }
            _ => {
                let item = Item::read(node, resolver)?;
                let written = match &item {
                    Item::Text(text) if text.is_secret => Some(text.written),
                    _ => None,
                };
                settings.set_resource(key, item.value(), written, source);
            }
        }
        Ok(())
    }

    /// Reports the reason why a value was not used.
    fn check(&mut self, set: Result<(), Unusable>, path: &[&str], node: &Node, advice: &'static str) {
        if let Err(unusable) = set {
            let path = dotted(&[&[TELEMETRY], path].concat());
            self.report.lone_error(node.at, path, unusable.into_fault(node, advice));
        }
    }
}

/// Reads service name and sampling from the fields of a section, or of `telemetry` if `section` is `None`. The array
/// contains the keys of both. An error disables the section; an error in `telemetry` disables no exporter.
pub(super) fn read_provider(
    fields: &[Field],
    [name, sampling]: [&str; 2],
    section: Option<&Section>,
    settings: &mut ProviderSettings,
    report: &mut Report<'_>,
) {
    for (key, advice) in [(name, NAME_ADVICE), (sampling, value::PERCENT_ADVICE)] {
        let Some(Field { node, .. }) = given(fields, key) else { continue };
        let set = if key == name { set_service_name } else { set_sampling };
        let table = section.map_or(vec![TELEMETRY], Section::path);
        let path = dotted(&[&table[..], &[key]].concat());
        match (set(settings, node, report.resolver, report.source(node.at)), section) {
            (Ok(None), _) => {}
            (Ok(Some(odd)), _) => report.warning(node.at, path, Fault::new(odd, advice)),
            (Err(unusable), Some(_)) => {
                report.error(section, node.at, path, unusable.into_fault(node, advice))
            }
            (Err(unusable), None) => report.lone_error(node.at, path, unusable.into_fault(node, advice)),
        }
    }
}

/// Sets the service name, unless it is empty. Returns the text of a warning, if any.
fn set_service_name(
    settings: &mut ProviderSettings,
    node: &Node,
    resolver: &Resolver,
    source: SettingSource,
) -> Result<Option<String>, Unusable> {
    let name = value::loose_text(node, resolver)?;
    if name.text.trim().is_empty() {
        return Ok(Some("is empty, so the default name is used".to_owned()));
    }
    let written = name.is_secret.then_some(name.written);
    settings.set_resource(SERVICE_NAME, Value::Str(&name.text), written, source);
    Ok(None)
}

/// Sets the percentage of traces. Returns the text of a warning, if any.
fn set_sampling(
    settings: &mut ProviderSettings,
    node: &Node,
    resolver: &Resolver,
    source: SettingSource,
) -> Result<Option<String>, Unusable> {
    let given = value::percent(node, resolver)?;
    let percent = given.clamp(0.0, 100.0);
    // The same division as in Tracetest, so that both programs record the same traces.
    settings.set_sampler(Sampler::trace_id_ratio(percent / 100.0), Some(percent), source);
    let kept = if given > percent { "all traces are" } else { "no trace is" };
    Ok((given != percent).then(|| format!("{given} is not 0 to 100 percent: {kept} kept")))
}

/// Returns the field of this name, unless it is null.
pub(super) fn given<'t>(fields: &'t [Field], name: &str) -> Option<&'t Field> {
    fields.iter().find(|field| field.name == name && field.node.value != Tree::Null)
}

/// A single attribute value, or an element of an array.
enum Item<'n> {
    Text(Text<'n>),
    Plain(Value<'static>),
}

impl<'n> Item<'n> {
    fn read(node: &'n Node, resolver: &Resolver) -> Result<Self, Unusable> {
        Ok(match &node.value {
            Tree::Bool(value) => Self::Plain(Value::Bool(*value)),
            Tree::Float { value, .. } => Self::Plain(Value::Float(*value)),
            Tree::Integer(number) => {
                let too_large = |_| Fault::new("is too large for an integer", "write it in quotes");
                Self::Plain(Value::Int(i64::try_from(number.value).map_err(too_large)?))
            }
            _ => Self::Text(value::text(node, resolver)?),
        })
    }

    fn value(&self) -> Value<'_> {
        match self {
            Self::Text(text) => Value::Str(&text.text),
            Self::Plain(value) => *value,
        }
    }
}
