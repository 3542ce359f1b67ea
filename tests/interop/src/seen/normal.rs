//! Normal form of OTLP JSON: writers differ in the fields that they omit and in how they write numbers.

use serde_json::{Map, Value};

/// Removes fields that have protobuf's default value, writes every number as text, and converts attributes to a map.
pub(crate) fn normal(tree: Value) -> Value {
    tidy(tree).unwrap_or(Value::Null)
}

fn tidy(tree: Value) -> Option<Value> {
    match tree {
        Value::Null => None,
        Value::Bool(truth) => truth.then_some(Value::Bool(true)),
        Value::Number(_) | Value::String(_) => {
            let text = scalar(tree);
            (text != "" && text != "0").then_some(text)
        }
        Value::Array(items) if items.is_empty() => None,
        // Items of an array are never removed.
        Value::Array(items) => Some(items.into_iter().map(|item| keep(item, tidy)).collect()),
        Value::Object(fields) => {
            let fields: Map<String, Value> = fields.into_iter().filter_map(tidy_field).collect();
            (!fields.is_empty()).then_some(Value::Object(fields))
        }
    }
}

fn tidy_field((name, value): (String, Value)) -> Option<(String, Value)> {
    let value = match name.as_str() {
        "attributes" => by_key(value),
        "body" => any_value(value),
        _ => tidy(value),
    };
    value.map(|value| (name, value))
}

/// Converts a list of keys and values to a map. A duplicate key is marked, so that it becomes a difference.
fn by_key(list: Value) -> Option<Value> {
    let Value::Array(items) = list else { return None };
    let mut map = Map::new();
    for mut item in items {
        let key = item["key"].as_str().unwrap_or("no key").to_owned();
        let value = any_value(item["value"].take()).unwrap_or(Value::Null);
        if map.insert(key.clone(), value).is_some() {
            map.insert(format!("{key} is there twice"), Value::Bool(true));
        }
    }
    (!map.is_empty()).then_some(Value::Object(map))
}

/// Returns a value with its kind. `{"intValue": "0"}` is kept, although it is the default.
fn any_value(value: Value) -> Option<Value> {
    let Value::Object(fields) = value else { return None };
    let (kind, mut value) = fields.into_iter().find(|(_, value)| !value.is_null())?;
    let value = match kind.as_str() {
        "arrayValue" => match value["values"].take() {
            Value::Array(items) => items.into_iter().map(|item| keep(item, any_value)).collect(),
            _ => Value::Array(Vec::new()),
        },
        "kvlistValue" => by_key(value["values"].take()).unwrap_or_else(|| Value::Object(Map::new())),
        _ => scalar(value),
    };
    Some(Value::Object(Map::from_iter([(kind, value)])))
}

fn keep(item: Value, tidy: fn(Value) -> Option<Value>) -> Value {
    match item {
        Value::Number(_) | Value::String(_) => scalar(item),
        item => tidy(item).unwrap_or(Value::Null),
    }
}

fn scalar(value: Value) -> Value {
    match value {
        // 12, 12.0 and "12" are equal.
        Value::Number(number) => match number.as_i64() {
            Some(whole) => whole.to_string().into(),
            None => number.as_f64().unwrap_or(f64::NAN).to_string().into(),
        },
        other => other,
    }
}
