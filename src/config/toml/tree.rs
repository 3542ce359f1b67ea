//! What the parser read, as a tree that knows no format.

use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

use crate::config::node::{Field, Integer, Node, Tree};

/// The whole document. Nesting has been bounded before the parser saw it.
pub(super) fn node_of(root: &Spanned<DeTable<'_>>) -> Node {
    Node { at: root.span().start, value: table(root.get_ref()) }
}

fn node(value: &Spanned<DeValue<'_>>) -> Node {
    let tree = match value.get_ref() {
        DeValue::String(text) => Tree::Text(text.to_string()),
        DeValue::Integer(number) => Tree::Integer(integer(number)),
        DeValue::Float(number) => Tree::Float {
            written: number.as_str().to_owned(),
            value: number.as_str().parse().unwrap_or(f64::NAN),
        },
        DeValue::Boolean(truth) => Tree::Bool(*truth),
        DeValue::Datetime(_) => Tree::Date,
        DeValue::Array(items) => Tree::List(items.iter().map(node).collect()),
        DeValue::Table(fields) => table(fields),
    };
    Node { at: value.span().start, value: tree }
}

fn table(table: &DeTable<'_>) -> Tree {
    let field = |(name, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
        let name: &Spanned<toml::de::DeString<'_>> = name;
        Field { name: name.get_ref().to_string(), at: name.span().start, node: node(value) }
    };
    let mut fields: Vec<Field> = table.iter().map(field).collect();
    // all that have a place are sorted like this: places and numbers need one sort, whatever they belong to
    fields.sort_by_cached_key(|field| field.at);
    Tree::Table(fields)
}

fn integer(number: &DeInteger<'_>) -> Integer {
    let digits = number.as_str();
    let at_its_end = if digits.starts_with('-') { i128::MIN } else { i128::MAX };
    let value = i128::from_str_radix(digits, number.radix()).unwrap_or(at_its_end);
    Integer { written: digits.to_owned(), value }
}
