//! Parsed texts, messages about mistakes, and bounds for hostile texts.

use std::fs;
use std::time::{Duration, Instant};

use granit_parser::ScalarStyle;
use proptest::prelude::*;

use super::tree::{MAX_TEXT, MAX_VALUES, Weight, scalar};
use super::*;
use crate::config::DiagnosticSeverity;
use crate::config::node::{Field, Integer, Tree};
use crate::tests::{share_of, size_within};

/// Returns the document, or the error if nothing can be read.
fn content_of<'d>(text: &'d str, file: &'d str) -> Result<Document<'d>, Diagnostic> {
    let mut document = parse(file, text);
    match &document.mistakes[..] {
        [only] if only.owner == Owner::Unknown && document.root.value == Tree::Null => {
            Err(document.mistakes.remove(0).diagnostic)
        }
        _ => Ok(document),
    }
}

/// Parses a text without mistakes.
fn read(text: &str) -> Document<'_> {
    let document = content_of(text, "f").expect(text);
    assert_eq!(document.mistakes, [], "{text}");
    document
}

fn text(value: &str) -> Tree {
    Tree::Text(value.to_owned())
}

/// Returns the values of a tree without places.
fn shown(node: &Node) -> String {
    let field = |field: &Field| format!("{}: {}", field.name, shown(&field.node));
    match &node.value {
        Tree::Null => "null".to_owned(),
        Tree::Bool(value) => value.to_string(),
        Tree::Integer(integer) => integer.value.to_string(),
        Tree::Float { value, .. } => format!("{value:?}"),
        Tree::Text(text) | Tree::Inserted { text, .. } => format!("{text:?}"),
        Tree::Date => "date".to_owned(),
        Tree::List(nodes) => format!("[{}]", nodes.iter().map(shown).collect::<Vec<_>>().join(", ")),
        Tree::Table(fields) => format!("{{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(", ")),
    }
}

fn assert_reads(text: &str, expected: &str) {
    assert_eq!(shown(&read(text).root), expected, "{text}");
}

fn place(document: &Document<'_>, at: usize) -> String {
    document.places.location(at).to_string()
}

fn at_path<'d>(document: &'d Document<'_>, path: &[&str]) -> &'d Field {
    let (first, rest) = path.split_first().expect("a path");
    let field = document.root.get(first).expect(first);
    rest.iter().fold(field, |field, name| field.node.get(name).expect(name))
}

#[test]
fn tables_lists_and_scalars_become_a_tree_in_the_order_of_the_document() {
    let yaml = "postgres:\n\
                telemetry:\n\
                \x20 exporters:\n\
                \x20   collector:\n\
                \x20     serviceName: shop   # a comment\n\
                \x20     sampling: 0.1\n\
                \x20     on: yes\n\
                \x20     tls: true\n\
                \x20     headers:\n\
                \x20     - 'a: b'\n\
                \x20     - {c: 1, d: }\n";
    assert_reads(
        yaml,
        "{postgres: null, telemetry: {exporters: {collector: {serviceName: \"shop\", sampling: 0.1, \
         on: \"yes\", tls: true, headers: [\"a: b\", {c: 1, d: null}]}}}}",
    );
}

#[test]
fn every_value_and_every_key_knows_its_line_and_its_column_in_characters() {
    let document = read("ä: {ö: [ü, \"x\"]}\nlast:\n  inner: |\n    text\n");
    assert_eq!(place(&document, document.root.at), "f:1:1");
    let outer = at_path(&document, &["ä"]);
    assert_eq!(
        (place(&document, outer.at), place(&document, outer.node.at)),
        ("f:1:1".into(), "f:1:4".into())
    );
    let list = at_path(&document, &["ä", "ö"]);
    assert_eq!((place(&document, list.at), place(&document, list.node.at)), ("f:1:5".into(), "f:1:8".into()));
    let Tree::List(nodes) = &list.node.value else { panic!("a list") };
    assert_eq!(place(&document, nodes[1].at), "f:1:12");
    assert_eq!(place(&document, at_path(&document, &["last", "inner"]).at), "f:3:3");
    assert!(outer.at < list.at && list.at < list.node.at && list.node.at < nodes[0].at);
}

#[test]
fn an_empty_text_is_nothing_at_its_first_place() {
    for text in ["", "\n\n", "# a comment\n", "---\n", "..."] {
        let document = read(text);
        assert_eq!(document.root.value, Tree::Null, "{text:?}");
        assert_eq!(place(&document, document.root.at).split(':').nth(1), Some("1"), "{text:?}");
    }
}

#[test]
fn block_scalars_keep_or_fold_their_lines() {
    assert_reads("a: |\n  one\n  two\nb: >-\n  one\n  two\n", r#"{a: "one\ntwo\n", b: "one two"}"#);
    assert_reads("a: one\n  two\nb: \"x\\ty\"\nc: 'it''s'\n", r#"{a: "one two", b: "x\ty", c: "it's"}"#);
}

#[test]
fn windows_line_ends_are_line_ends() {
    let document = read("a: 1\r\nb:\r\n  c: x\r\n");
    assert_eq!(shown(&document.root), "{a: 1, b: {c: \"x\"}}");
    assert_eq!(place(&document, at_path(&document, &["b", "c"]).node.at), "f:3:6");
}

#[test]
fn json_is_yaml() {
    assert_reads(r#"{"a": [1, -2.5, true, null, "x"]}"#, r#"{a: [1, -2.5, true, null, "x"]}"#);
}

#[test]
fn what_the_core_schema_does_not_know_is_text_and_so_is_what_is_quoted() {
    assert_reads("[yes, no, on, off, 10s, 1m30s, localhost:4317]", {
        r#"["yes", "no", "on", "off", "10s", "1m30s", "localhost:4317"]"#
    });
    assert_reads("['1', \"true\", 'null', \"\"]", r#"["1", "true", "null", ""]"#);
    assert_reads(
        "[0o17, 0x1F, -.inf, 007, ~, NULL, TRUE, False]",
        "[15, 31, -inf, 7, null, null, true, false]",
    );
}

#[test]
fn a_tag_makes_a_scalar_text() {
    assert_reads("[!!str 12, ! 12, !!str , ! [1]]", r#"["12", "12", "", [1]]"#);
    assert_reads("!<tag:yaml.org,2002:str> 1", "\"1\"");
}

#[test]
fn numbers_and_booleans_are_keys_by_their_text() {
    assert_reads("1: a\n0x10: b\n1.50: c\ntrue: d\n", r#"{1: "a", 0x10: "b", 1.50: "c", true: "d"}"#);
    assert_reads("? long\n: value\n", r#"{long: "value"}"#);
}

#[test]
fn an_alias_stands_for_a_copy_whose_place_is_that_of_the_original() {
    let document = read("a: &x\n  b: 1\nc: *x\nd: [*x, &y text, *y]\n*y : key\n");
    assert_eq!(
        shown(&document.root),
        "{a: {b: 1}, c: {b: 1}, d: [{b: 1}, \"text\", \"text\"], text: \"key\"}"
    );
    assert_eq!(place(&document, at_path(&document, &["c"]).at), "f:3:1");
    assert_eq!(place(&document, at_path(&document, &["c", "b"]).node.at), "f:2:6");
}

#[test]
fn the_last_anchor_of_a_name_counts() {
    assert_reads("[&a 1, *a, &a 2, *a]", "[1, 1, 2, 2]");
}

#[test]
fn a_merge_key_brings_in_fields_and_explicit_keys_win_wherever_they_stand() {
    let yaml = "base: &base {endpoint: a, sampling: 1}\n\
                one: {<<: *base, sampling: 2, type: x}\n\
                two: {sampling: 2, <<: *base}\n";
    let document = read(yaml);
    assert_eq!(shown(&at_path(&document, &["one"]).node), r#"{endpoint: "a", sampling: 2, type: "x"}"#);
    assert_eq!(shown(&at_path(&document, &["two"]).node), r#"{sampling: 2, endpoint: "a"}"#);
}

#[test]
fn the_first_table_of_a_list_of_merges_wins() {
    let yaml = "- &a {x: 1, y: 1}\n- &b {y: 2, z: 2}\n- <<: [*a, *b, {z: 3, w: 3}]\n  v: 0\n";
    let Tree::List(nodes) = read(yaml).root.value else { panic!("a list") };
    assert_eq!(shown(&nodes[2]), "{x: 1, y: 1, z: 2, w: 3, v: 0}");
}

#[test]
fn merges_of_merges_bring_in_everything() {
    let yaml = "- &a {x: 1}\n- &b {<<: *a, y: 2}\n- {<<: *b, z: 3}\n";
    let Tree::List(nodes) = read(yaml).root.value else { panic!("a list") };
    assert_eq!(shown(&nodes[2]), "{x: 1, y: 2, z: 3}");
}

#[test]
fn a_quoted_merge_key_is_a_key_like_any_other() {
    assert_reads("'<<': {a: 1}", "{<<: {a: 1}}");
    assert_eq!(read("a: <<").root.get("a").unwrap().node.value, text("<<"));
}

#[test]
fn reports_a_syntax_error_with_its_place_and_reads_nothing() {
    for line in [
        "a: b: c",
        "a: [1, 2",
        "a: {b: 1",
        "a: 'x",
        "a: \"x",
        "a: \"\\q\"",
        "a: 'x' y",
        "a: ]",
        "a: @x",
        "a: *",
        "a: !x!y 1",
        "a: | x",
        "\ta: 1",
        "a",
        "   a: 1",
        "- a",
        "a: \u{1}",
    ] {
        let text = format!(
            "tracer:\n  good:\n    type: otel\n  bad:\n    type: otel\n    {line}\n    transport: http\n  last:\n    type: otel\n"
        );
        let document = parse("f", &text);
        let [mistake] = &document.mistakes[..] else { panic!("{text}: {:?}", document.mistakes) };
        assert_eq!(mistake.owner, Owner::Unknown, "{text}");
        let place = mistake.diagnostic.location.as_ref().expect("a place");
        assert!((4..=10).contains(&place.line), "{text}: {place}");
        assert_eq!(document.root.value, Tree::Null, "{text}");
    }
}

// The types of plain scalars.

fn any(text: &str) -> Tree {
    scalar(text.into(), ScalarStyle::Plain, false)
}

fn whole(text: &str, value: i128) {
    assert_eq!(any(text), Tree::Integer(Integer { written: text.to_owned(), value }));
}

fn fraction(text: &str, value: f64) {
    assert_eq!(any(text), Tree::Float { written: text.to_owned(), value });
}

#[test]
fn nothing_has_five_spellings() {
    for text in ["", "~", "null", "Null", "NULL"] {
        assert_eq!(any(text), Tree::Null, "{text}");
    }
}

#[test]
fn booleans_have_three_spellings_each_and_other_words_stay_text() {
    for (text, value) in [("true", true), ("True", true), ("TRUE", true), ("false", false), ("FALSE", false)]
    {
        assert_eq!(any(text), Tree::Bool(value), "{text}");
    }
    for text in ["yes", "no", "on", "off", "y", "n", "Yes", "ON", "tRUE", "nUll"] {
        assert_eq!(any(text), Tree::Text(text.to_owned()));
    }
}

#[test]
fn integers_are_decimal_octal_or_hexadecimal_and_kept_at_the_ends_of_the_scale() {
    whole("0", 0);
    whole("-12", -12);
    whole("+7", 7);
    whole("010", 10);
    whole("0o17", 15);
    whole("0xfF", 255);
    whole("-170141183460469231731687303715884105728", i128::MIN);
    whole(&"9".repeat(100), i128::MAX);
    whole(&format!("-{}", "9".repeat(100)), i128::MIN);
    whole(&format!("0x{}", "f".repeat(100)), i128::MAX);
}

#[test]
fn floats_are_fractions_exponents_and_the_three_words() {
    fraction("1.5", 1.5);
    fraction("-.5", -0.5);
    fraction("1.", 1.0);
    fraction("1e3", 1000.0);
    fraction("+12.5E-1", 1.25);
    fraction(".inf", f64::INFINITY);
    fraction("-.INF", f64::NEG_INFINITY);
    assert!(matches!(any(".nan"), Tree::Float { value, .. } if value.is_nan()));
}

#[test]
fn what_only_looks_like_a_number_is_text() {
    let texts = [
        "1_000",
        "0b1",
        "-0x1",
        "0o8",
        "0x",
        "+",
        "-",
        ".",
        "e3",
        "1e",
        "inf",
        "NaN",
        "infinity",
        "-.nan",
        "1.2.3",
        "10s",
        "0.1%",
        "127.0.0.1:4317",
        "--1",
        "+-1",
        "1 ",
        "٣",
    ];
    for text in texts {
        assert_eq!(any(text), Tree::Text(text.to_owned()));
    }
}

#[test]
fn what_is_quoted_or_a_block_is_text() {
    use ScalarStyle::{DoubleQuoted, Folded, Literal, SingleQuoted};
    for style in [SingleQuoted, DoubleQuoted, Literal, Folded] {
        for text in ["true", "1", "", "~"] {
            assert_eq!(scalar(text.into(), style, false), Tree::Text(text.to_owned()));
        }
    }
}

// Every mistake has a message and a location.

/// Returns the error of a text of which nothing can be read.
fn refused(text: &str) -> String {
    content_of(text, "f").err().expect(text).to_string()
}

/// Returns the mistakes of a text that can be read.
fn mistakes(text: &str) -> Vec<String> {
    content_of(text, "f").expect(text).mistakes.iter().map(|mistake| mistake.diagnostic.to_string()).collect()
}

#[test]
fn a_broken_alias_spoils_its_own_value_only() {
    let document = content_of("a: *b\nb: &b 1\nc: *b\n", "f").unwrap();
    assert_eq!(shown(&document.root), "{a: null, b: 1, c: 1}");
    let fix = "write & and the name before its value; quote text that begins with *";
    assert_eq!(mistakes("a: *b\nb: &b 1\nc: *b\n"), [format!("f:1:4: a: an alias without an anchor; {fix}")]);
    assert_eq!(mistakes("*b : 1\n").len(), 1, "no second mistake for the key");
    let within = "an alias inside the value of its anchor; write the value out";
    assert_eq!(mistakes("a: &a [1, *a]\n"), [format!("f:1:11: a: {within}")]);
}

#[test]
fn a_carriage_return_ends_a_line() {
    let unknown = "an unknown tag; remove it, or write !!str for text; quote text that begins with !";
    for end in ["\r", "\r\n", "\n"] {
        let text = format!("a: 1{end}{end}b:{end}  c: !x 1{end}");
        assert_eq!(mistakes(&text), [format!("f:4:6: b.c: {unknown}")], "{end:?}");
    }
}

#[test]
fn a_tab_in_the_indentation_is_called_by_its_name_at_its_place() {
    for (text, place) in [
        ("a:\n\tb: 1\n", "2:1"),
        ("a:\n\t- b\n", "2:1"),
        ("a:\n  b: 1\n\tc: 2\n", "3:1"),
        ("a:\n  b: 1\n  \tc: 2\n", "3:3"),
        ("- a\n\t- b\n", "2:1"),
        ("a: |\n\tx\n", "2:1"),
        ("a: [\n\t1]\n", "2:1"),
    ] {
        assert_eq!(
            refused(text),
            format!("f:{place}: a tab is used for indentation; write spaces"),
            "{text:?}"
        );
    }
}

#[test]
fn a_tab_elsewhere_is_a_space() {
    assert_reads("a:\t1\nb: x\ty\n", "{a: 1, b: \"x\\ty\"}");
}

#[test]
fn syntax_is_refused_in_our_words_with_a_place_and_a_fix() {
    let colon = "an unexpected colon; quote text that contains a colon, indent keys alike, and close brackets \
                 and quotes above";
    let table = [
        ("a: b: c\n", "1:5", colon),
        ("a: [1, 2\nb: 3\n", "2:2", colon),
        ("a: 1\n b: 2\n", "2:3", colon),
        ("a:\n  b: 1\n c: 2\n", "3:2", "a key is expected here; indent all keys of a table alike"),
        (
            "a: 1\nb\nc: 2\n",
            "2:1",
            "a key without a colon; write a colon and a space after it, in the same line",
        ),
        ("a: %{env:X}%\n", "1:4", "text cannot begin with %; quote it"),
        ("a: @x\n", "1:4", "text cannot begin with @; quote it"),
        ("a: `x`\n", "1:4", "text cannot begin with `; quote it"),
        ("a: *\n", "1:4", "& or * without a name; quote text that begins with & or *"),
        ("a: ]\n", "1:4", "a bracket is closed that was never opened; remove it, or quote the text"),
        ("a: [1}\n", "1:4", "[ is closed by }; write ]"),
        ("a: [1, 2\n", "1:4", "[ is never closed; write ]"),
        ("a: {b: 1\n", "1:4", "{ is never closed; write }"),
        ("a: [[x] [y]]\n", "1:9", "a comma is missing in a list; write , or ] here"),
        ("a: {b: [x] c: 1}\n", "1:12", "a comma is missing in a table; write , or } here"),
        ("a: 'x", "1:4", "a quote is never closed; close it"),
        (
            "a: 'x\nb: 1\n",
            "2:1",
            "a line of quoted text is not indented; close the quote above, or indent this line",
        ),
        ("a: 'x' y\n", "1:8", "text after the closing quote; quote the whole value"),
        (
            "a: \"C:\\dir\"\n",
            "1:4",
            "an unknown escape in double quotes; write \\\\ for a backslash, or use single quotes",
        ),
        (
            "a: | x\n  y\n",
            "1:4",
            "text after | or >; begin it in the next line; quote text that begins with | or >",
        ),
        (
            "- a\nb: 1\n",
            "2:1",
            "a list is out of place; write its dashes under each other, each with a space after it",
        ),
        (
            "a: 'x'#d\n",
            "1:7",
            "a comment is out of place; write a space before #; quote text that contains #",
        ),
        (
            "a: \u{1}\n",
            "1:4",
            "a character that YAML does not allow: \\u{1}; remove it, or write it as an escape in double quotes",
        ),
        (
            "%YAML 3.0\n---\na: 1\n",
            "1:1",
            "a directive that cannot be read; remove the line that begins with %",
        ),
        ("a: !x!y 1\n", "1:4", "a tag that cannot be read; remove it; quote text that begins with !"),
    ];
    for (text, place, expected) in table {
        assert_eq!(refused(text), format!("f:{place}: {expected}"), "{text:?}");
    }
}

/// One kind of error for each message, including kinds that hardly any text causes.
#[test]
fn every_message_about_syntax_has_a_fix() {
    use granit_parser::ErrorKind as Kind;

    let colon = "an unexpected colon; quote text that contains a colon, indent keys alike, and close brackets \
                 and quotes above";
    let list = "a list is out of place; write its dashes under each other, each with a space after it";
    let escape = "an unknown escape in double quotes; write \\\\ for a backslash, or use single quotes";
    let ended = "the document has ended before this; indent keys of one table alike, or remove the rest";
    for (kind, expected) in [
        (Kind::TabInPlainScalar, "a tab is used for indentation; write spaces"),
        (Kind::RecursionLimitExceeded, "nested deeper than 64 levels; write fewer levels"),
        (Kind::UnexpectedCharacter { character: '@' }, "text cannot begin with @; quote it"),
        (Kind::UnclosedFlowCollection { open: '{' }, "{ is never closed; write }"),
        (Kind::MismatchedFlowCollectionEnd { open: '[', close: '}' }, "[ is closed by }; write ]"),
        (
            Kind::MisplacedFlowCollectionEnd,
            "a bracket is closed that was never opened; remove it, or quote the text",
        ),
        (Kind::UnexpectedEofFlowSequence, "a comma is missing in a list; write , or ] here"),
        (Kind::UnexpectedEofFlowMapping, "a comma is missing in a table; write , or } here"),
        (Kind::DocumentIndicatorInQuotedScalar, "a quote is never closed; close it"),
        (
            Kind::InvalidQuotedScalarIndent,
            "a line of quoted text is not indented; close the quote above, or indent this line",
        ),
        (Kind::InvalidTrailingDoubleQuotedScalar, "text after the closing quote; quote the whole value"),
        (Kind::InvalidColonPlacement, colon),
        (Kind::InvalidMappingValueWhitespace, "no space after a colon; write one"),
        (
            Kind::InvalidSimpleKey,
            "a key without a colon; write a colon and a space after it, in the same line",
        ),
        (Kind::UnexpectedEofBlockMapping, "a key is expected here; indent all keys of a table alike"),
        (Kind::UnexpectedEofBlockSequence, list),
        (Kind::InvalidIndentation, "the indentation matches no line above; indent keys of one table alike"),
        (Kind::ExpectedDocumentStart, ended),
        (
            Kind::ZeroBlockScalarIndent,
            "text after | or >; begin it in the next line; quote text that begins with | or >",
        ),
        (Kind::MissingAnchorOrAliasName, "& or * without a name; quote text that begins with & or *"),
        (Kind::UnpairedLowSurrogate, escape),
        (
            Kind::CommentInterceptedScalar,
            "a comment is out of place; write a space before #; quote text that contains #",
        ),
        (Kind::BomInsideDocument, "a byte order mark within the text; remove it"),
        (
            Kind::DuplicateVersionDirective,
            "a directive that cannot be read; remove the line that begins with %",
        ),
        (Kind::UndeclaredTagHandle, "a tag that cannot be read; remove it; quote text that begins with !"),
        (Kind::UnexpectedEof, "this is not YAML; put text with special characters into quotes"),
    ] {
        assert_eq!(in_our_words(&kind).to_string(), expected, "{kind:?}");
    }
}

#[test]
fn a_secret_is_never_part_of_a_message() {
    for text in
        ["a: @hunter2\n", "a: \"\\hunter2\"\n", "a: !!int hunter2\n", "a: *hunter2\n", "a: 'x' hunter2\n"]
    {
        let said = match content_of(text, "f") {
            Ok(document) => format!("{:?}", document.mistakes),
            Err(diagnostic) => format!("{diagnostic:?}"),
        };
        assert!(!said.contains("hunter2"), "{said}");
    }
}

#[test]
fn a_duplicate_key_is_told_with_both_lines_and_the_first_counts() {
    let text = "telemetry:\n  exporters:\n    a: {x: 1}\n    b: 1\n    a: {x: 2}\n    a: 3\n";
    let document = content_of(text, "f").unwrap();
    assert_eq!(shown(&document.root), "{telemetry: {exporters: {a: {x: 1}, b: 1}}}");
    let said = mistakes(text);
    assert_eq!(
        said,
        [
            "f:5:5: telemetry.exporters.a: duplicate key; it is already set in line 3; remove one of the two",
            "f:6:5: telemetry.exporters.a: duplicate key; it is already set in line 3; remove one of the two",
        ]
    );
    assert_eq!(document.mistakes[0].diagnostic.location.as_ref().map(|place| place.line), Some(5));
}

#[test]
fn keys_are_duplicates_by_their_text_and_merges_too() {
    assert_eq!(mistakes("{a: 1, 'a': 2}").len(), 1);
    assert_eq!(mistakes("{1: 1, '1': 2}").len(), 1);
    assert_eq!(
        mistakes("a: &a {x: 1}\nb:\n  <<: *a\n  <<: *a\n"),
        ["f:4:3: b.\"<<\": duplicate key; it is already set in line 3; remove one of the two"]
    );
}

#[test]
fn a_key_that_is_not_text_is_left_out_with_its_value() {
    let text = "a:\n  ? [x]\n  : 1\n  ? {y: 1}\n  : [2]\n  : 3\n  z: 4\n";
    assert_eq!(shown(&content_of(text, "f").unwrap().root), "{a: {z: 4}}");
    assert_eq!(
        mistakes(text),
        [
            "f:2:5: a: found a list as a key; write text",
            "f:4:5: a: found a table as a key; write text",
            "f:6:3: a: found nothing as a key; write text",
        ]
    );
}

#[test]
fn only_tables_can_be_merged() {
    let expected = "<< can only merge tables; write an alias of a table, or a list of them";
    for value in ["1", "[{a: 1}, 2]", "", "text"] {
        let text = format!("x:\n  <<: {value}\n  y: 1\n");
        let document = content_of(&text, "f").unwrap();
        assert_eq!(shown(&document.root), "{x: {y: 1}}", "{value}");
        assert!(mistakes(&text)[0].ends_with(&format!("x.\"<<\": {expected}")), "{:?}", mistakes(&text));
    }
}

#[test]
fn other_tags_are_mistakes_at_the_tag() {
    let unknown = "an unknown tag; remove it, or write !!str for text; quote text that begins with !";
    assert_eq!(mistakes("a: !secret x\n"), [format!("f:1:4: a: {unknown}")]);
    assert_eq!(mistakes("a: !!binary x\n"), [format!("f:1:4: a: {unknown}")]);
    assert_eq!(mistakes("a: !vault\n  b: 1\n"), [format!("f:1:4: a: {unknown}")]);
    assert_eq!(mistakes("a: !!int 1\n"), [format!("f:1:4: a: {unknown}")]);
    assert_eq!(mistakes("a: !!map {}\n"), [format!("f:1:4: a: {unknown}")]);
    let document = parse("f", "a: !x 1\nb: 1\n");
    assert!(document.places.is_spoilt(document.root.get("a").unwrap().node.at));
    assert!(!document.places.is_spoilt(document.root.get("b").unwrap().node.at));
}

#[test]
fn only_the_first_document_is_read_and_a_warning_says_so() {
    let document = content_of("---\na: 1\n---\na: 2\n---\n[\n", "f").unwrap();
    assert_eq!(shown(&document.root), "{a: 1}");
    let [Mistake { diagnostic, .. }] = document.mistakes.as_slice() else { panic!("one") };
    assert_eq!(diagnostic.severity, DiagnosticSeverity::Warning);
    assert_eq!(
        diagnostic.to_string(),
        "warning: f:3:1: only the first document of a file is read, and this one is ignored; put it into a separate file"
    );
    assert_eq!(mistakes("a: 1\n...\n"), [""; 0]);
}

#[test]
fn endless_names_and_names_of_several_lines_are_masked() {
    let long = "k".repeat(100);
    let said = mistakes(&format!("\"x\\ny\":\n  {long}: 1\n  {long}: 2\n"));
    assert!(said[0].starts_with("f:3:3: ***.***: duplicate key"), "{}", said[0]);
}

// No text may take long, use unbounded memory, or end the program.

const MIB: usize = 1 << 20;
/// The deadline is 20 times what optimized code should take on an idle machine. Measured times are printed.
const DEADLINE: Duration = Duration::from_secs(2);

/// One mebibyte of repeated text, the maximum size of a file.
fn full_of(part: &str) -> String {
    part.repeat(MIB / part.len())
}

/// At most one mebibyte of repeated text: less without optimization, because there are many texts. The deadline still
/// detects quadratic growth.
fn filled_with(part: &str) -> String {
    const MOST: u32 = (MIB / 32) as u32;
    let size = if cfg!(debug_assertions) { size_within(MOST / 2..=MOST) as usize } else { MIB };
    part.repeat(size / part.len())
}

/// Parses a text, and asserts that this takes less than [`DEADLINE`].
fn outcome<'d>(name: &str, text: &'d str) -> Result<Document<'d>, String> {
    let (before, start) = (on_processor(), Instant::now());
    let read = content_of(text, "f").map_err(|diagnostic| diagnostic.to_string());
    let took = match (before, on_processor()) {
        (Some(before), Some(after)) => after.saturating_sub(before),
        _ => start.elapsed(),
    };
    let said =
        read.as_ref().map_or_else(Clone::clone, |document| format!("{} mistakes", document.mistakes.len()));
    println!("{name:>24} {:>6} ms {:>8} bytes: {said}", took.as_millis(), text.len());
    assert!(took < DEADLINE, "{name} took {took:?}");
    read
}

/// Returns the processor time of this thread, if the system reports it, so that a busy machine does not matter.
fn on_processor() -> Option<Duration> {
    let spent = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(spent.split_whitespace().next()?.parse().ok()?))
}

fn assert_refused(name: &str, text: &str, expected: &str) {
    let said = outcome(name, text).err().expect(name);
    assert!(said.contains(expected), "{name}: {said}");
}

#[test]
fn nesting_beyond_the_limit_is_refused_at_once() {
    for part in ["[", "{", "- ", "? ", ": "] {
        assert_refused(part, &full_of(part), "nested deeper than 64 levels; write fewer levels");
    }
    for part in ["[{a: ", "- ? ", "- - -\t", "[?", "{? "] {
        let said = outcome(part, &full_of(part)).err().expect(part);
        println!("{said}");
    }
    let mut stairs = String::new();
    for level in 0..1_400 {
        stairs += &" ".repeat(level);
        stairs += "a:\n";
    }
    assert_refused("stairs", &stairs, "f:65:65: nested deeper than 64 levels");
}

#[test]
fn the_limit_of_nesting_is_exact_and_counts_both_styles_and_aliases() {
    let lists = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert!(content_of(&lists(64), "f").is_ok());
    assert_refused("65 levels", &lists(65), "f:1:65: nested deeper than 64 levels");
    assert!(content_of(&format!("{}{}", "- ".repeat(32), lists(32)), "f").is_ok());
    assert_refused("32 and 33 levels", &format!("{}{}", "- ".repeat(32), lists(33)), "nested deeper than 64");
    let through_alias =
        |outer: usize| format!("- &a {}\n- {}*a{}", lists(32), "[".repeat(outer), "]".repeat(outer));
    assert!(content_of(&through_alias(31), "f").is_ok());
    assert_refused("through an alias", &through_alias(32), "nested deeper than 64 levels");
}

#[test]
fn a_bomb_of_aliases_is_refused_before_it_goes_off() {
    let bomb = |levels: usize| {
        let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..levels {
            let aliases = vec![format!("*a{}", level - 1); 9].join(", ");
            text += &format!("a{level}: &a{level} [{aliases}]\n");
        }
        text
    };
    assert!(outcome("three levels", &bomb(3)).is_ok());
    // Refused at the first alias that exceeds the budget, before the expansion.
    assert_refused(
        "billion laughs",
        &bomb(9),
        "f:5:10: more than 20000 values; write a smaller file, with fewer aliases",
    );
    assert_refused("billions of laughs", &bomb(60), "more than 20000 values");
}

#[test]
fn a_bomb_of_merges_is_refused_before_it_goes_off() {
    let mut text = "a0: &a0 {k: {x: 1}, l: {x: 1}}\n".to_owned();
    for level in 1..60 {
        let last = level - 1;
        text +=
            &format!("a{level}: &a{level} {{<<: [*a{last}, *a{last}], k{level}: *a{last}, l: *a{last}}}\n");
    }
    assert_refused("merges", &text, "more than 20000 values");
}

#[test]
fn a_long_text_cannot_be_repeated_without_end() {
    let text = format!("- &a {}\n", "x".repeat(MIB / 2)) + &"- *a\n".repeat(50_000);
    assert_refused("half a mebibyte", &text, "more than 4 MiB of text");
    let text = format!("- &a {{k: {}}}\n", "x".repeat(5_000)) + &"- {<<: *a}\n".repeat(50_000);
    assert_refused("merged", &text, "more than 4 MiB of text");
}

#[test]
fn anchors_in_anchors_are_charged_for_what_is_kept() {
    let inside = vec!["1"; 5_000].join(",");
    let text = format!("{}[{inside}]{}", "&a [".repeat(60), "]".repeat(60));
    assert_refused("anchors in anchors", &text, "more than 20000 values");
}

#[test]
fn many_values_are_refused_and_some_are_fine() {
    let flow = ["1,", "&a 1, ", "a: 1, ", "? a : b, ", "[],", "!!str 1, ", "\"\","];
    for part in flow.into_iter().take(size_within(2..=7) as usize) {
        let text = format!("[{}]", full_of(part));
        let said = outcome(part, &text).err().expect(part);
        assert!(said.contains("more than 20000 values"), "{part}: {said}");
    }
    let block = ["- a\n", "- &a x\n", "- !!str x\n", "-\n"];
    for part in block.into_iter().take(share_of(4) as usize) {
        assert_refused(part, &full_of(part), "more than 20000 values");
    }
    let keys: String = (0..size_within(11_000..=70_000)).map(|number| format!("key{number}: x\n")).collect();
    assert_refused("keys", &keys, "more than 20000 values");
    let keys: String = (0..9_900).map(|number| format!("key{number}: x\n")).collect();
    let document = outcome("fewer keys", &keys).expect("within the limit");
    assert_eq!(document.root.as_table().map(<[_]>::len), Some(9_900));
}

#[test]
fn endless_duplicates_are_only_mistakes_until_the_limit() {
    let few = "a: 1\n".repeat(1_000);
    let document = outcome("few duplicates", &few).expect("a document");
    assert_eq!(document.mistakes.len(), 999);
    assert_refused("duplicates", &full_of("a: 1\n"), "more than 20000 values");
    assert_refused("aliases", &format!("- &a x\n{}", full_of("- *a\n")), "more than 20000 values");
}

#[test]
fn one_long_line_is_one_text() {
    let cases = [
        ("plain", filled_with("a")),
        ("words", filled_with("a ") + "a"),
        ("two bytes each", filled_with("ü")),
        ("double quoted", format!("\"{}\"", filled_with("a"))),
        ("escapes", format!("\"{}\"", filled_with("\\n"))),
        ("lines in quotes", format!("\"{}\"", filled_with("a\n"))),
        ("spaces in quotes", format!("\"{} \"", filled_with(" "))),
        ("quotes", format!("'{}'", filled_with("''"))),
        ("literal", format!("|\n{}", filled_with("  a\n"))),
        ("folded", format!(">\n{}", filled_with("  a\n"))),
        ("empty lines", format!("|\n{}", filled_with("   \n"))),
        ("plain lines", filled_with("a\n")),
        ("digits", filled_with("9")),
        ("fraction", format!("0.{}", filled_with("9"))),
    ];
    for (name, text) in cases {
        let document = outcome(name, &text).expect(name);
        assert!(!matches!(document.root.value, Tree::List(_) | Tree::Table(_)), "{name}");
    }
}

#[test]
fn whatever_else_fills_a_file_ends_in_time() {
    let parts = [
        "# x\n",
        "#",
        "\n",
        " ",
        "\t",
        "\r",
        "\r\n",
        "---\n",
        "...\n",
        "--- a\n",
        "%TAG !a! b\n",
        "%a b\n",
        ":",
        "a: ",
        "&a ",
        "!a ",
        "*a ",
        "&",
        "*",
        "!",
        "|",
        ">",
        "|\n",
        "'",
        "\"",
        "`",
        "@",
        "%",
        ",",
        "]",
        "}",
        "\0",
        "\u{feff}",
        "\u{85}",
        "\u{2028}",
        "a: b\r\n",
        "\"a\"\n",
        "[]",
        "{}",
        "[]: ",
        "{}: ",
        "? a\n",
        "? a\n: b\n",
        "- ? a\n",
        "a:\n- b\n",
        "-\t",
        "<<: ",
        "<<: {}\n",
        "a: |\n  x\n",
        "a: >\n  x\n",
        "a:\n b:\n",
        "\"\\u12",
        "\\",
        "~",
        "!!",
        "!<",
        "%41",
        "a: 'b'\n",
        "a: &a\n",
        "a #",
        "a:\n\t",
        "-\n ",
        "{a: b}\n",
        "[a\n",
        "{a\n",
        "[a: ",
        "{[",
        "[{",
        "]{",
    ];
    let texts = parts.iter().flat_map(|part| ["", "[", "a: \""].map(|start| (start, part)));
    // 5 and the number of starts have no common divisor, so each start meets many parts.
    let step = if share_of(16) == 1 { 5 } else { 1 };
    for (start, part) in texts.step_by(step) {
        _ = outcome(&format!("{part:?}"), &format!("{start}{}", filled_with(part)));
    }
    // Fewer cases without optimization; they still detect quadratic growth.
    let count = if cfg!(debug_assertions) { size_within(4_000..=15_000) } else { 60_000 };
    let directives: String = (0..count).map(|number| format!("%TAG !a{number}! b\n")).collect();
    _ = outcome("directives", &(directives + "--- x"));
    const MOST: u32 = MIB as u32;
    let long = |part: &str| part.repeat(size_within(MOST / 8..=MOST) as usize / part.len());
    _ = outcome("a tag", &format!("!{} x", long("%41")));
    _ = outcome("an anchor", &format!("&{} x", long("a")));
    _ = outcome("a key", &format!("{}: x", long("a")));
    _ = outcome("a quoted key", &format!("{{\"{}\": x}}", long("a")));
}

proptest! {
    #[test]
    fn no_text_ends_the_program_and_every_place_is_in_the_text(parts in prop::collection::vec(part(), 0..40)) {
        let text = parts.concat();
        let lines = text.split(['\n', '\r']).count();
        for mistake in parse("f", &text).mistakes {
            prop_assert!(mistake.diagnostic.location.is_some_and(|location| location.line <= lines));
        }
        match content_of(&text, "f") {
            Ok(document) => assert_places(&document, &document.root, lines),
            Err(diagnostic) => prop_assert!(diagnostic.location.is_some_and(|location| location.line <= lines)),
        }
    }
}

/// The building blocks of YAML.
fn part() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "a: ",
        "b: ",
        "tracer:\n",
        "<<: ",
        "- ",
        "? ",
        ": ",
        "[",
        "]",
        "{",
        "}",
        ", ",
        "\n",
        "\n  ",
        "\n    ",
        "\r\n",
        "\t",
        "&a ",
        "*a",
        "&b ",
        "*b",
        "!!str ",
        "!!int ",
        "!x ",
        "|\n",
        ">\n",
        "'",
        "\"",
        "\\",
        "# ",
        "---\n",
        "...\n",
        "%",
        "x",
        "ü",
        "1",
        "1.5",
        "true",
        "~",
        "\u{feff}",
        "\0",
    ])
}

fn assert_places(document: &Document<'_>, node: &Node, lines: usize) {
    let assert_known = |at: usize| {
        let location = document.places.location(at);
        assert!((1..=lines).contains(&location.line) && location.column > 0, "{location}");
    };
    assert_known(node.at);
    match &node.value {
        Tree::List(nodes) => nodes.iter().for_each(|node| assert_places(document, node, lines)),
        Tree::Table(fields) => fields.iter().for_each(|field| {
            assert_known(field.at);
            assert_places(document, &field.node, lines);
        }),
        _ => {}
    }
}

#[test]
fn a_budget_is_spent_to_the_last_value_and_byte_and_no_further() {
    let too_much = |what: &'static str| Fault::new(what, "write a smaller file, with fewer aliases");
    let mut budget = Weight::BUDGET;
    assert_eq!(budget.charge(Weight { values: MAX_VALUES - 1, text: MAX_TEXT, levels: 9 }), Ok(()));
    assert_eq!(budget.charge(Weight { values: 1, text: 0, levels: 0 }), Ok(()));
    let refused = budget.charge(Weight { values: 1, text: 0, levels: 0 });
    assert_eq!(refused, Err(too_much("more than 20000 values")));
    let refused = budget.charge(Weight { values: 0, text: 1, levels: 0 });
    assert_eq!(refused, Err(too_much("more than 4 MiB of text")));
}

#[test]
fn a_collection_weighs_what_is_in_it_and_one_level_more() {
    let mut inner = Weight::COLLECTION;
    inner.put_in(Weight::of_text("four"));
    let mut outer = Weight::COLLECTION;
    outer.put_in(inner);
    outer.put_in(Weight::of_text("x"));
    assert_eq!(outer, Weight { values: 4, text: 5, levels: 2 });
}

/// Parses one value, in which these variables are substituted: S=value, B=true and so on.
fn substituted(value: &str) -> Result<Tree, String> {
    let lookup = |name: &str| {
        let variables = [
            ("S", "value"),
            ("B", "true"),
            ("I", "1"),
            ("H", "0xdeadbeef"),
            ("E", ""),
            ("M", "v\nk:v"),
            ("R", "${S}"),
            ("D", "v$$"),
            ("X", "x"),
            ("env", "of env"),
        ];
        Ok(variables.into_iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_owned()))
    };
    let text = format!("a: {value} # ${{S:?}}\n");
    let document = parse_with("<yaml>", &text, Some(&lookup));
    match document.mistakes.first() {
        Some(mistake) => Err(mistake.diagnostic.to_string()),
        None => match document.root.get("a").map(|field| field.node.value.clone()) {
            Some(Tree::Inserted { text, .. }) => Ok(Tree::Text(text)),
            value => Ok(value.unwrap()),
        },
    }
}

#[test]
fn substitutes_variables_as_the_specification_says() {
    let text = |text: &str| Tree::Text(text.to_owned());
    let integer = |written: &str, value| Tree::Integer(Integer { written: written.to_owned(), value });
    for (value, plain, quoted) in [
        ("${S}", text("value"), text("value")),
        ("${env:S}", text("value"), text("value")),
        ("${B}", Tree::Bool(true), text("true")),
        ("${env:B}", Tree::Bool(true), text("true")),
        ("${I}", integer("1", 1), text("1")),
        ("${H}", integer("0xdeadbeef", 3_735_928_559), text("0xdeadbeef")),
        ("x ${S} ${I}", text("x value 1"), text("x value 1")),
        ("${M}", text("v\nk:v"), text("v\nk:v")),
        ("${U}", Tree::Null, text("")),
        ("${E}", Tree::Null, text("")),
        ("${U:-}", Tree::Null, text("")),
        ("${U:-fb}", text("fb"), text("fb")),
        ("${E:-fb}", text("fb"), text("fb")),
        ("${S:-fb}", text("value"), text("value")),
        ("${U:-1}", integer("1", 1), text("1")),
        ("${R}", text("${S}"), text("${S}")),
        ("${D}", text("v$$"), text("v$$")),
        ("${U:-${S}}", text("${S}"), text("${S}")),
        ("${X:-${S}}", text("x}"), text("x}")),
        ("$${S}", text("${S}"), text("${S}")),
        ("$$${S}", text("$value"), text("$value")),
        ("$$$${S}", text("$${S}"), text("$${S}")),
        ("$${S:-${S}}", text("${S:-value}"), text("${S:-value}")),
        ("${U:-$${U}}", text("${U:-${U}}"), text("${U:-${U}}")),
        ("a $$ b", text("a $ b"), text("a $ b")),
        ("a $ b", text("a $ b"), text("a $ b")),
        ("${S", text("${S"), text("${S")),
        ("${}", text("${}"), text("${}")),
        ("${é${S}", text("${évalue"), text("${évalue")),
        ("${env:-x}", text("of env"), text("of env")),
    ] {
        assert_eq!(substituted(value), Ok(plain), "{value}");
        assert_eq!(substituted(&format!("\"{value}\"")), Ok(quoted.clone()), "in quotes: {value}");
        assert_eq!(substituted(&format!("!!str {value}")), Ok(quoted), "tagged: {value}");
    }
    let what =
        "a reference is neither ${NAME} nor ${NAME:-default}; write one of these, or $$ for a dollar sign";
    for value in ["${S:?e}", "${1A}", "${A B}", "${sys:S}", "${S-x}", "x ${é} ${a.b}"] {
        assert_eq!(substituted(value), Err(format!("<yaml>:1:4: {what}")), "{value}");
    }
}

#[test]
fn substitutes_nothing_in_keys_and_in_other_dialects() {
    let text = "${S}: {<<: {b: '${S}'}}\n";
    let document = parse_with("<yaml>", text, Some(&|_| Ok(Some("v".to_owned()))));
    let inner = &document.root.get("${S}").expect("keys are unchanged").node;
    assert_eq!(inner.get("b").map(|field| field.node.as_text()), Some(None), "the value may be a secret");
    let plain = parse("<yaml>", text);
    let inner = &plain.root.get("${S}").expect("keys are unchanged").node;
    assert_eq!(inner.get("b").and_then(|field| field.node.as_text()), Some("${S}"));
}

#[test]
fn long_values_and_unclosed_references_are_substituted_in_time() {
    let long = "x".repeat(1 << 20);
    let document = parse_with("<yaml>", "a: '${L}${L}${L}${L}${L}'", None);
    assert!(document.mistakes.is_empty());
    let lookup = |_: &str| Ok(Some(long.clone()));
    let document = parse_with("<yaml>", "a: '${L}${L}${L}${L}${L}'", Some(&lookup));
    assert!(document.mistakes[0].diagnostic.what.contains("more than 4 MiB of text"));
    let unclosed = format!("a: '{}'", "${".repeat(1 << 19));
    let document = parse_with("<yaml>", &unclosed, Some(&lookup));
    assert!(document.mistakes.is_empty());
}
