//! Every mistake is told in words, at its place.

use super::*;
use crate::config::error::DiagnosticSeverity;

/// Why nothing can be read.
fn refused(text: &str) -> String {
    content_of(text, "f").expect_err(text).to_string()
}

/// What is wrong in a text that can be read.
fn mistakes(text: &str) -> Vec<String> {
    content_of(text, "f").expect(text).mistakes.iter().map(|mistake| mistake.diagnostic.to_string()).collect()
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
    let colon = "a colon where no key can stand; quote text with a colon in it, indent keys alike, and close what is \
                 open above";
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
        ("a: [[x] [y]]\n", "1:9", "a list goes on without a comma; write , or ] here"),
        ("a: {b: [x] c: 1}\n", "1:12", "a table goes on without a comma; write , or } here"),
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
            "text after | or >; begin it in the next line; text that begins with | or > needs quotes",
        ),
        (
            "- a\nb: 1\n",
            "2:1",
            "a list is out of place; write its dashes under each other, each with a space after it",
        ),
        (
            "a: 'x'#d\n",
            "1:7",
            "a comment is out of place; write a space before #; text with # in it needs quotes",
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
        ("a: !x!y 1\n", "1:4", "a tag that cannot be read; remove it; text that begins with ! needs quotes"),
    ];
    for (text, place, expected) in table {
        assert_eq!(refused(text), format!("f:{place}: {expected}"), "{text:?}");
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
    let expected = "<< brings in tables only; write an alias of a table, or a list of them";
    for value in ["1", "[{a: 1}, 2]", "", "text"] {
        let text = format!("x:\n  <<: {value}\n  y: 1\n");
        let document = content_of(&text, "f").unwrap();
        assert_eq!(shown(&document.root), "{x: {y: 1}}", "{value}");
        assert!(mistakes(&text)[0].ends_with(&format!("x.\"<<\": {expected}")), "{:?}", mistakes(&text));
    }
}

#[test]
fn an_alias_without_an_anchor_spoils_its_place_only() {
    let document = content_of("a: *b\nb: &b 1\nc: *b\n", "f").unwrap();
    assert_eq!(shown(&document.root), "{a: null, b: 1, c: 1}");
    let said: Vec<String> = document.mistakes.iter().map(|mistake| mistake.diagnostic.to_string()).collect();
    let fix = "mark its value with & before; text that begins with * needs quotes";
    assert_eq!(said, [format!("f:1:4: a: an alias of nothing; {fix}")]);
    assert!(document.places.is_spoilt(document.root.get("a").unwrap().node.at));
    assert!(!document.places.is_spoilt(document.root.get("b").unwrap().node.at));
    assert_eq!(mistakes("*b : 1\n").len(), 1, "no echo about the key");
}

#[test]
fn an_alias_of_what_it_is_part_of_is_a_mistake() {
    let said = mistakes("a: &a [1, *a]\n");
    assert_eq!(said, ["f:1:11: a: an alias inside of the value that it stands for; write the value out"]);
}

#[test]
fn tags_that_are_not_known_or_not_true_are_mistakes_at_the_tag() {
    let unknown = "a tag of another program; remove it; text that begins with ! needs quotes";
    assert_eq!(mistakes("a: !secret x\n"), [format!("f:1:4: a: {unknown}")]);
    assert_eq!(mistakes("a: !!binary x\n"), [format!("f:1:4: a: {unknown}")]);
    assert_eq!(mistakes("a: !vault\n  b: 1\n"), [format!("f:1:4: a: {unknown}")]);
    assert_eq!(
        mistakes("a: !!int x\n"),
        ["f:1:4: a: the tag asks for an integer, found something else; remove the tag"]
    );
    assert_eq!(
        mistakes("a: !!map [1]\n"),
        ["f:1:4: a: the tag asks for a table, found a list; remove the tag"]
    );
    assert_eq!(mistakes("a: !!seq x\n").len(), 1);
}

#[test]
fn only_the_first_document_is_read_and_a_warning_says_so() {
    let document = content_of("---\na: 1\n---\na: 2\n---\n[\n", "f").unwrap();
    assert_eq!(shown(&document.root), "{a: 1}");
    let [Mistake { diagnostic, .. }] = document.mistakes.as_slice() else { panic!("one") };
    assert_eq!(diagnostic.severity, DiagnosticSeverity::Warning);
    assert_eq!(
        diagnostic.to_string(),
        "warning: f:3:1: only the first document of a file is read, this one is not; put it into a file of its own"
    );
    assert_eq!(mistakes("a: 1\n...\n"), [""; 0]);
}

#[test]
fn mistakes_come_in_the_order_of_the_file_and_endless_ones_are_counted() {
    let text = "a:\n  <<: 1\n  b: *x\n".to_owned() + &"a: 1\n".repeat(150);
    let said = mistakes(&text);
    assert_eq!(said.len(), 101);
    assert!(said[0].starts_with("f:2:7: a.\"<<\": "), "{}", said[0]);
    assert!(said[1].starts_with("f:3:6: a.b: "), "{}", said[1]);
    assert_eq!(said[100], "f:102:1: 52 more mistakes from here on");
}

#[test]
fn endless_and_odd_names_are_shown_short_and_on_one_line() {
    let long = "k".repeat(100);
    let said = mistakes(&format!("\"x\\ny\":\n  {long}: 1\n  {long}: 2\n"));
    let cut = "k".repeat(60);
    assert!(said[0].starts_with(&format!("f:3:3: \"x\\u000Ay\".\"{cut}…\": duplicate key")), "{}", said[0]);
}
