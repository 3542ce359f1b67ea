//! How do the variables `TRACETEST_…` replace values that a file has?

use std::collections::HashSet;

use super::report::Report;
use crate::config::env::Variables;
use crate::config::error::Fault;
use crate::config::node::{Node, Tree};
use crate::config::section::{EXPORTERS, SERVER};

const PREFIX: &str = "TRACETEST";

/// Replaces every value below `telemetry` and `server.telemetry` whose path, in capitals and with `_`, is the name of
/// a variable.
pub(super) fn apply(root: &mut Node, variables: &Variables, report: &mut Report<'_>) {
    let mut used = HashSet::new();
    for path in [&EXPORTERS[..1], &SERVER[..]] {
        let mut name = PREFIX.to_owned();
        let mut node = Some(&mut *root);
        for part in path {
            push(&mut name, part);
            node = node.and_then(|node| field_of(node, part));
        }
        if let Some(node) = node {
            replace(node, &name, variables, report, &mut used);
            for unused in variables.names().filter(|known| is_below(known, &name) && !used.contains(*known)) {
                let what = "the file has no such key";
                report.ignore(unused, Fault::new(what, "write the key in the file, or unset it"));
            }
        }
    }
}

/// Whether a variable is for something below what another would be for.
fn is_below(variable: &str, name: &str) -> bool {
    variable.strip_prefix(name).is_some_and(|rest| rest.starts_with('_'))
}

fn replace(
    node: &mut Node,
    name: &str,
    variables: &Variables,
    report: &mut Report<'_>,
    used: &mut HashSet<String>,
) {
    match &mut node.value {
        Tree::Table(fields) => {
            // names that no variable has are not spelt out: there may be many names, and long ones
            if !variables.names().any(|known| known.starts_with(name)) {
                return;
            }
            for field in fields {
                let mut name = name.to_owned();
                push(&mut name, &field.name);
                replace(&mut field.node, &name, variables, report, used);
            }
        }
        Tree::List(_) => {}
        value => match variables.get(name) {
            Some(Ok(text)) => {
                *value = Tree::Text(text.to_owned());
                report.replace(node.at, name.to_owned());
                used.insert(name.to_owned());
            }
            Some(Err(not_utf8)) => {
                report.ignore(name, not_utf8.into());
                used.insert(name.to_owned());
            }
            None => {}
        },
    }
}

fn push(name: &mut String, part: &str) {
    // shells have no other characters in names
    let in_capitals = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    name.push('_');
    name.extend(part.chars().map(in_capitals));
}

fn field_of<'n>(node: &'n mut Node, name: &str) -> Option<&'n mut Node> {
    match &mut node.value {
        Tree::Table(fields) => {
            fields.iter_mut().find(|field| field.name == name).map(|field| &mut field.node)
        }
        _ => None,
    }
}

#[cfg(all(test, unix, feature = "grpc"))]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    use crate::config::env::Variables;
    use crate::config::read::expand::Surroundings;
    use crate::config::{read, toml};

    #[test]
    fn a_variable_that_is_no_text_is_told_and_the_files_value_stays() {
        let text = "telemetry.exporters.c.exporter.type = 'collector'\n\
                    telemetry.exporters.c.serviceName = 'shop'\n\
                    server.telemetry.exporter = 'c'\n";
        let name = "TRACETEST_TELEMETRY_EXPORTERS_C_SERVICENAME";
        let variables: Variables = [(name, OsString::from_vec(vec![0xff]))].into_iter().collect();
        let config = read::read(toml::parse("f", text), &Surroundings::new(""), &variables).expect("usable");
        assert_eq!(config.summaries()[0].service_name, "shop");
        let told: Vec<String> = config.diagnostics().iter().map(ToString::to_string).collect();
        assert!(
            told.contains(&format!("warning: {name}: ignored: is not UTF-8; set it to text")),
            "{told:?}"
        );
    }
}
