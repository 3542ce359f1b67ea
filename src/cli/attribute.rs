//! Attributes of the command line and of JSON lines: `KEY=VALUE`, `KEY:=JSON`, and what they are as OpenTelemetry's values.

use clap::Args;
use serde_json::Value as Json;
use standpipe::{IntoValue, Value};

use super::sender;

/// A key and its value.
pub(crate) type Attribute = (String, Json);

/// The option for attributes.
#[derive(Debug, Args)]
pub(crate) struct Attributes {
    /// An attribute, as text; KEY:=JSON for a number, true, false or a list. May be given more than once.
    #[arg(short, long = "attr", value_name = "KEY=VALUE", value_parser = parse)]
    attributes: Vec<Attribute>,
}

impl Attributes {
    /// Those of the environment, then those of the options: of a key the last one counts.
    pub(crate) fn all(&self) -> Vec<Attribute> {
        let list = sender::of_environment("OTEL_CLI_ATTRIBUTES").unwrap_or_default();
        parse_list(&list).into_iter().chain(self.attributes.iter().cloned()).collect()
    }
}

/// Reads `KEY=VALUE`, which is text, or `KEY:=JSON`.
///
/// # Errors
/// When it is neither. The message does not repeat the value, which may be a secret.
fn parse(word: &str) -> Result<Attribute, String> {
    let Some((key, value)) = word.split_once('=').filter(|(key, _)| !matches!(*key, "" | ":")) else {
        return Err("write KEY=VALUE, or KEY:=JSON for a number".to_owned());
    };
    match key.strip_suffix(':') {
        None => Ok((key.to_owned(), value.into())),
        Some(key) => match serde_json::from_str(value) {
            Ok(value) => Ok((key.to_owned(), value)),
            Err(_) => {
                Err(format!("the value of {key} is not JSON, as 42, 1.5 or true; for text write {key}=VALUE"))
            }
        },
    }
}

/// Reads `k=v,k=v`, the form of `OTEL_CLI_ATTRIBUTES`; a part that is no attribute is left out.
fn parse_list(list: &str) -> Vec<Attribute> {
    list.split(',').filter_map(|part| parse(part).ok()).collect()
}

/// Attributes of which each is a [scalar]: lists and objects become JSON text.
pub(crate) fn flat(attributes: Vec<Attribute>) -> Vec<Attribute> {
    let flat =
        |value: Json| if value.is_array() || value.is_object() { value.to_string().into() } else { value };
    attributes.into_iter().map(|(key, value)| (key, flat(value))).collect()
}

/// The value of what is neither a list nor an object nor null.
pub(crate) fn scalar(json: &Json) -> Option<Value<'_>> {
    match json {
        Json::Bool(value) => Some(Value::Bool(*value)),
        Json::String(value) => Some(Value::Str(value)),
        Json::Number(number) => match number.as_i64() {
            Some(value) => Some(Value::Int(value)),
            None => number.as_f64().map(Value::Float),
        },
        Json::Null | Json::Array(_) | Json::Object(_) => None,
    }
}

/// A JSON value as an attribute has it. Lists of one type stay lists; what is nested or mixed becomes JSON text. Null is no
/// attribute.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AsValue<'a>(pub(crate) &'a Json);

impl IntoValue for AsValue<'_> {
    fn with_value(self, write: impl FnOnce(Value<'_>)) {
        let Json::Array(items) = self.0 else {
            return match scalar(self.0) {
                Some(value) => write(value),
                None if self.0.is_null() => {}
                None => write(Value::Str(&self.0.to_string())),
            };
        };
        if let Some(texts) = items.iter().map(Json::as_str).collect::<Option<Vec<_>>>() {
            write(Value::Strs(&texts));
        } else if let Some(integers) = items.iter().map(Json::as_i64).collect::<Option<Vec<_>>>() {
            write(Value::Ints(&integers));
        } else if let Some(numbers) = items.iter().map(Json::as_f64).collect::<Option<Vec<_>>>() {
            write(Value::Floats(&numbers));
        } else if let Some(flags) = items.iter().map(Json::as_bool).collect::<Option<Vec<_>>>() {
            write(Value::Bools(&flags));
        } else {
            write(Value::Str(&self.0.to_string()));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_attribute_is_text_unless_it_says_json() {
        assert_eq!(parse("a=1"), Ok(("a".to_owned(), json!("1"))));
        assert_eq!(parse("a=b=c"), Ok(("a".to_owned(), json!("b=c"))));
        assert_eq!(parse("a:=1"), Ok(("a".to_owned(), json!(1))));
        assert_eq!(parse("a:=[1.5,2]"), Ok(("a".to_owned(), json!([1.5, 2]))));
        for wrong in ["a", "=a", ":=1", ""] {
            assert_eq!(parse(wrong).unwrap_err(), "write KEY=VALUE, or KEY:=JSON for a number");
        }
        let error = parse("a:=secret").unwrap_err();
        assert!(error.ends_with("for text write a=VALUE") && !error.contains("secret"), "{error}");
        assert_eq!(parse_list("a=1,odd,,b=2").len(), 2);
    }

    #[test]
    fn values_keep_their_type() {
        let written = |json: Json| {
            let mut text = String::new();
            AsValue(&json).with_value(|value| text = format!("{value:?}"));
            text
        };
        assert_eq!(written(json!(42)), "Int(42)");
        assert_eq!(written(json!(u64::MAX)), "Float(1.8446744073709552e19)");
        assert_eq!(written(json!([1, 2.5])), "Floats([1.0, 2.5])");
        assert_eq!(written(json!([true])), "Bools([true])");
        assert_eq!(written(json!(["a", 1])), "Str(\"[\\\"a\\\",1]\")");
        assert_eq!(written(json!({"a": 1})), "Str(\"{\\\"a\\\":1}\")");
        assert_eq!(written(json!(null)), "");
    }
}
