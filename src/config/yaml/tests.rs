//! What texts become, and what they cannot do.

mod hostile;
mod mistakes;

use super::*;
use crate::config::node::{Field, Places as _, Tree};
use crate::config::section::Section;

/// A text without mistakes.
fn read(text: &str) -> Content {
    let document = content_of(text, "f").expect(text);
    assert_eq!(document.mistakes, [], "{text}");
    document
}

fn text(value: &str) -> Tree {
    Tree::Text(value.to_owned())
}

/// Only what it says, without places.
fn shown(node: &Node) -> String {
    let field = |field: &Field| format!("{}: {}", field.name, shown(&field.node));
    match &node.value {
        Tree::Null => "null".to_owned(),
        Tree::Bool(value) => value.to_string(),
        Tree::Integer(integer) => integer.value.to_string(),
        Tree::Float { value, .. } => format!("{value:?}"),
        Tree::Text(text) => format!("{text:?}"),
        Tree::Date => "date".to_owned(),
        Tree::List(nodes) => format!("[{}]", nodes.iter().map(shown).collect::<Vec<_>>().join(", ")),
        Tree::Table(fields) => format!("{{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(", ")),
    }
}

fn assert_reads(text: &str, expected: &str) {
    assert_eq!(shown(&read(text).root), expected, "{text}");
}

fn place(document: &Content, at: usize) -> String {
    document.places.location(at).to_string()
}

fn at_path<'d>(document: &'d Content, path: &[&str]) -> &'d Field {
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
    let document = read("\u{feff}ä: {ö: [ü, \"x\"]}\nlast:\n  inner: |\n    text\n");
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
    for text in ["", "\n\n", "# a comment\n", "---\n", "\u{feff}", "..."] {
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
fn tags_of_the_core_schema_are_honoured() {
    assert_reads(
        "[!!str 12, !!int '7', !!float 3, !!bool \"true\", !!null '', ! 12, !!str , !!seq [1], !!map {}]",
        r#"["12", 7, 3.0, true, null, "12", "", [1], {}]"#,
    );
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
    let yaml = "- &a {x: 1}\n- &b {<<: *a, y: 2}\n- {<<: *b, !!merge z: 3}\n";
    assert!(!content_of(yaml, "f").unwrap().mistakes.is_empty(), "only << can be tagged !!merge");
    let Tree::List(nodes) = read("- &a {x: 1}\n- &b {<<: *a, y: 2}\n- {!!merge <<: *b, z: 3}\n").root.value
    else {
        panic!("a list")
    };
    assert_eq!(shown(&nodes[2]), "{x: 1, y: 2, z: 3}");
}

#[test]
fn a_quoted_merge_key_is_a_key_like_any_other() {
    assert_reads("'<<': {a: 1}", "{<<: {a: 1}}");
    assert_eq!(read("a: <<").root.get("a").unwrap().node.value, text("<<"));
}

/// Two tracers and two exporters of routes; one of each gets another line.
fn with_a_line(line: &str) -> [String; 2] {
    let rest = "metrics:\n  open-telemetry: {transport: http}\nserver:\n  telemetry: {exporter: good}\n";
    let tracers = |bad: &str| {
        format!(
            "tracer:\n  good:\n    type: otel\n  bad:\n    type: otel\n{bad}    transport: http\n  last:\n    type: otel\n"
        )
    };
    let exporters = |bad: &str| {
        format!(
            "telemetry:\n  exporters:\n    good:\n      sampling: 1\n    bad:\n{bad}      sampling: 2\n    last:\n      sampling: 3\n"
        )
    };
    [
        format!("{}{}{rest}", tracers(&format!("    {line}\n")), exporters("")),
        format!("{}{}{rest}", tracers(""), exporters(&format!("      {line}\n"))),
    ]
}

#[test]
fn a_broken_section_never_disables_another() {
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
        let owners = [Section::Tracer("bad".to_owned()), Section::Exporter("bad".to_owned())];
        for (text, owner) in with_a_line(line).into_iter().zip(owners) {
            let document = parse("f", &text);
            let [mistake] = &document.mistakes[..] else { panic!("{text}: {:?}", document.mistakes) };
            assert_eq!(mistake.owner, Owner::Section(owner.clone()), "{text}");
            assert_eq!(mistake.finding.key, owner.path().join("."), "{text}");
            let place = mistake.finding.location.as_ref().unwrap();
            assert!(text.lines().nth(place.line - 1).is_some(), "{text}: {place}");
            let names = |path: &[&str]| -> Vec<&str> {
                let fields = path.iter().fold(&document.root, |node, name| &node.get(name).expect(name).node);
                fields.as_table().unwrap().iter().map(|field| field.name.as_str()).collect()
            };
            assert_eq!(names(&["tracer"]), ["good", "bad", "last"], "{text}");
            assert_eq!(names(&["telemetry", "exporters"]), ["good", "bad", "last"], "{text}");
            assert_eq!(names(&["metrics", "open-telemetry"]), ["transport"], "{text}");
            assert_eq!(names(&["tracer", "last"]), ["type"], "{text}");
            let bad = owner.path().iter().fold(&document.root, |node, name| &node.get(name).unwrap().node);
            assert_eq!(bad.value, Tree::Null);
            assert!(document.places.is_spoilt(bad.at), "{text}");
        }
    }
}

#[test]
fn every_broken_section_is_reported_at_its_own_place() {
    let text =
        "postgres: [1\r\ntracer:\r\n  # why\r\n  a:\r\n    x: 'y\r\n  b: {z: 1}\r\n  c: [}\r\nserver: {}\r\n";
    let document = parse("f", text);
    let said: Vec<String> = document.mistakes.iter().map(|mistake| mistake.finding.to_string()).collect();
    assert_eq!(
        said,
        [
            "f:1:11: postgres: [ is never closed; write ]",
            "f:5:8: tracer.a: a quote is never closed; close it",
            "f:7:6: tracer.c: [ is closed by }; write ]",
        ]
    );
    assert_eq!(shown(&document.root), "{postgres: null, tracer: {a: null, b: {z: 1}, c: null}, server: {}}");
    let of_b = document.root.get("tracer").unwrap().node.get("b").unwrap();
    assert_eq!(document.places.location(of_b.node.get("z").unwrap().node.at).to_string(), "f:6:10");
}

#[test]
fn what_was_anchored_in_a_broken_section_is_missed_where_it_is_used() {
    let document = parse("f", "base: &base\n  x: [\ntracer:\n  a: {<<: *base}\n  b: {}\n");
    let mut owners: Vec<&Owner> = document.mistakes.iter().map(|mistake| &mistake.owner).collect();
    owners.dedup();
    assert_eq!(owners, [&Owner::Other, &Owner::Section(Section::Tracer("a".to_owned()))]);
}

#[test]
fn a_mistake_that_belongs_to_no_section_leaves_nothing() {
    for text in [
        "{tracer: {a: {}}, b: [}\n",
        "'\ntracer:\n  a: {}\n",
        "tracer: [\n  a: {}\n",
        "a: [\n---\ntracer:\n  a: {}\n",
        "%YAML 3.0\n---\ntracer: {}\n",
    ] {
        let document = parse("f", text);
        let owners: Vec<&Owner> = document.mistakes.iter().map(|mistake| &mistake.owner).collect();
        assert_eq!(owners, [&Owner::Unknown], "{text}");
    }
}
