//! Compares sent and received records, field by field, and reports differences by their path.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::Error;
use crate::seen::Record;
use crate::showcase::Showcase;

/// Maximum number of differences that are shown. The others are counted.
const MAX_REPORTED: usize = 5;

/// Returns an error with the records that are missing, unexpected or different.
pub(crate) fn compare(showcase: &Showcase, mut found: Vec<Record>) -> Result<(), Error> {
    found.iter_mut().for_each(|record| showcase.blur(record));
    let expected = by_name(showcase.expected.clone());
    let mut found = by_name(found);
    let mut differences = Vec::new();
    for (name, expected) in &expected {
        match found.remove(name).as_deref() {
            None => differences.push(format!("{name} is missing")),
            Some([record]) => differ(record, &expected[0], name, &mut differences),
            Some(records) => differences.push(format!("{name} is there {} times", records.len())),
        }
    }
    differences.extend(found.keys().map(|name| format!("{name} was never sent")));
    if differences.is_empty() {
        return Ok(());
    }
    let more = differences.len().saturating_sub(MAX_REPORTED);
    differences.truncate(MAX_REPORTED);
    if more > 0 {
        differences.push(format!("and {more} more"));
    }
    Err(differences.join("; ").into())
}

/// Records by signal and name, as trees.
fn by_name(records: Vec<Record>) -> BTreeMap<String, Vec<Value>> {
    let mut map = BTreeMap::<_, Vec<_>>::new();
    for record in records {
        let Record { signal, resource, scope, body } = record;
        // Log records are identified by their severity.
        let name = body["name"].as_str().or(body["severityText"].as_str()).unwrap_or("without a name");
        let name = format!("{signal}/{name}");
        map.entry(name).or_default().push(json!({ "resource": resource, "scope": scope, "record": body }));
    }
    map
}

fn differ(found: &Value, expected: &Value, path: &str, differences: &mut Vec<String>) {
    match (found, expected) {
        (Value::Object(found), Value::Object(expected)) => {
            let names = found.keys().chain(expected.keys().filter(|name| !found.contains_key(*name)));
            for name in names {
                let (found, expected) = (found.get(name), expected.get(name));
                let of = |value: Option<&Value>| value.cloned().unwrap_or(Value::Null);
                differ(&of(found), &of(expected), &format!("{path}.{name}"), differences);
            }
        }
        (Value::Array(found), Value::Array(expected)) if found.len() == expected.len() => {
            for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
                differ(found, expected, &format!("{path}[{index}]"), differences);
            }
        }
        _ if found == expected => {}
        _ => differences.push(format!("{path} is {found} instead of {expected}")),
    }
}
