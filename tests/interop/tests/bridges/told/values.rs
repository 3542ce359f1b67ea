//! Attributes and their values, as text that shows the type.

use standpipe::receiver::proto::{AnyValue, KeyValue, Value};

use super::Facts;

/// Describes attributes as a set. A duplicate key has both values.
pub(crate) fn attributes(list: &[KeyValue], prefix: &str, facts: &mut Facts) {
    let mut told = Facts::new();
    for KeyValue { key, value, .. } in list {
        let value = of_kind(value.as_ref());
        told.entry(format!("{prefix}attribute {key}"))
            .and_modify(|values| *values += &format!(" and {value}"))
            .or_insert(value);
    }
    facts.extend(told);
}

/// Returns a value with its type: the string "1" is not the number 1.
pub(crate) fn of_kind(value: Option<&AnyValue>) -> String {
    let list = |items: Vec<String>| items.join(", ");
    match value.and_then(|value| value.value.as_ref()) {
        None => "nothing".to_owned(),
        Some(Value::StringValue(text)) => format!("{text:?}"),
        Some(Value::BoolValue(truth)) => format!("bool {truth}"),
        Some(Value::IntValue(number)) => format!("int {number}"),
        Some(Value::DoubleValue(number)) => format!("double {number:?}"),
        Some(Value::BytesValue(bytes)) => format!("bytes {}", hex(bytes)),
        Some(Value::ArrayValue(array)) => {
            format!("[{}]", list(array.values.iter().map(|item| of_kind(Some(item))).collect()))
        }
        Some(Value::KvlistValue(map)) => {
            let entry = |entry: &KeyValue| format!("{}: {}", entry.key, of_kind(entry.value.as_ref()));
            let mut entries: Vec<String> = map.values.iter().map(entry).collect();
            // A map has no order.
            entries.sort();
            format!("{{{}}}", list(entries))
        }
    }
}

/// Returns the thread that the attributes name.
pub(super) fn thread(list: &[KeyValue]) -> Option<i64> {
    let value = list.iter().find(|attribute| attribute.key == "thread.id")?.value.as_ref()?;
    match value.value {
        Some(Value::IntValue(id)) => Some(id),
        _ => None,
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
