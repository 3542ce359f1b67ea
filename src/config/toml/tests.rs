//! Parsed texts, the places of mistakes, and the sections that a mistake concerns.

use proptest::prelude::*;

use super::*;
use crate::config::node::Mistake;
use crate::config::node::{Field, Node, Tree};
use crate::config::section::{Owner, Section};
use crate::config::text::{encode, quote};

/// Returns the values of a tree without places.
fn shown(node: &Node) -> String {
    let field = |field: &Field| format!("{}: {}", field.name, shown(&field.node));
    match &node.value {
        Tree::Null => "null".to_owned(),
        Tree::Bool(value) => value.to_string(),
        Tree::Integer(integer) => integer.value.to_string(),
        Tree::Float { value, .. } => format!("{value:?}"),
        Tree::Text(text) => format!("{text:?}"),
        #[cfg(feature = "yaml")]
        Tree::Inserted { .. } => unreachable!("TOML inserts no variables"),
        Tree::Date => "date".to_owned(),
        Tree::List(nodes) => format!("[{}]", nodes.iter().map(shown).collect::<Vec<_>>().join(", ")),
        Tree::Table(fields) => format!("{{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(", ")),
    }
}

#[track_caller]
fn assert_reads(text: &str, expected: &str) {
    let document = parse("f", text);
    assert_eq!(document.mistakes, [], "{text}");
    assert_eq!(shown(&document.root), expected, "{text}");
}

fn said(document: &Document<'_>) -> Vec<String> {
    document.mistakes.iter().map(|mistake| mistake.diagnostic.to_string()).collect()
}

/// Asserts the parsed values and the mistakes of a text.
#[track_caller]
fn assert_mistakes(text: &str, read: &str, expected: &[&str]) {
    let document = parse("f", text);
    assert_eq!(said(&document), expected, "{text}");
    assert_eq!(shown(&document.root), read, "{text}");
}

#[test]
fn lines_and_columns_count_characters_from_one() {
    let long = "ü".repeat(3_000);
    let text = format!("a\nöb = 1\r\n\n{long}X\n");
    let document = parse("f", &text);
    let place = |wanted: &str| {
        let location = document.places.location(text.find(wanted).expect(wanted));
        (location.line, location.column)
    };
    for (wanted, expected) in
        [("a", (1, 1)), ("b", (2, 2)), ("1", (2, 6)), ("\r", (2, 7)), ("ü", (4, 1)), ("X", (4, 3_001))]
    {
        assert_eq!(place(wanted), expected, "{wanted}");
    }
    assert_eq!(document.places.location(text.len()).line, 5);
    assert_eq!(parse("f", "").places.location(0).to_string(), "f:1:1");
    assert!(said(&parse("f", "\u{feff}= 1"))[0].starts_with("f:1:1: "), "a byte order mark is no column");
}

#[test]
fn tables_values_and_their_places_become_a_tree_in_the_order_of_the_document() {
    assert_reads(
        "x.y = 0x1F\n[b.c]\nd = ['e', {f = 1.5, g.h = true}]\n[a]\nt = 1979-05-27\n[[l]]\nk = '''\nv'''\n[[l]]\n",
        "{x: {y: 31}, b: {c: {d: [\"e\", {f: 1.5, g: {h: true}}]}}, a: {t: date}, l: [{k: \"v\"}, {}]}",
    );
    assert_reads(
        &format!("a = -{0}\nb = {0}", "9".repeat(50)),
        &format!("{{a: {}, b: {}}}", i128::MIN, i128::MAX),
    );
    let document = parse("f", "[tracer.a]\n  type = 'x'\n");
    let tracer = &document.root.get("tracer").unwrap().node;
    let kind = tracer.get("a").unwrap().node.get("type").unwrap();
    let places = [tracer.get("a").unwrap().at, tracer.get("a").unwrap().node.at, kind.at, kind.node.at];
    assert_eq!(
        places.map(|at| document.places.location(at).to_string()),
        ["f:1:9", "f:1:1", "f:2:3", "f:2:10"]
    );
}

#[test]
fn a_quoted_key_is_decoded_to_what_was_quoted() {
    for text in ["", "otel", "a.b", "a\"b\\c", "line\nbreak\u{7f}\u{85}", "ü 🎈", "'"] {
        for written in [quote(text), encode(text)] {
            let line = format!("{written} = 1");
            let document = parse("f", &line);
            assert_eq!(document.root.as_table().unwrap()[0].name, text);
        }
    }
}

#[test]
fn a_string_ends_at_its_own_quotes_only() {
    for (written, expected) in [
        (r#""a" # b"#, "a"),
        (r#""" # b"#, ""),
        (r#""a\\"#, "a\\"),
        (r#""a\"b" # c"#, "a\"b"),
        (r"'a\' # b", "a\\"),
        ("'a\"' # b", "a\""),
        ("\"\"\"a\n\"b\" \\\"\"\" '\"\"\" # c", "a\n\"b\" \"\"\" '"),
        ("\"\"\"a\"\"\"\"\" # c", "a\"\""),
        ("\"\"\"a\\\n b\"\"\" # c", "ab"),
        ("'''a\n''b''' # c", "a\n''b"),
        ("'ü'", "ü"),
    ] {
        let closing = if written.ends_with('\\') { "\"" } else { "" };
        assert_reads(&format!("x = {written}{closing}\ny = 1"), &format!("{{x: {expected:?}, y: 1}}"));
    }
    for unclosed in ["\"a", "\"a\\", "'a"] {
        let text = format!("x = {unclosed}\ny = 1");
        let document = parse("f", &text);
        assert_eq!((document.mistakes.len(), document.root.get("y").is_some()), (1, true), "{text}");
    }
}

#[test]
fn a_key_is_read_in_parts() {
    assert_reads("a.b-c . \"d.e\".'f' = 1", "{a: {b-c: {d.e: {f: 1}}}}");
    for (text, owner) in [
        ("tracer.a.\"b = 1", Owner::Section(Section::Tracer("a".to_owned()))),
        ("tracer.a. = 1", Owner::Section(Section::Tracer("a".to_owned()))),
        ("tracer.\"a = 1", Owner::Unknown),
        (".tracer.a = 1", Owner::Unknown),
        ("ä = 1", Owner::Unknown),
        ("", Owner::Other),
    ] {
        let document = parse("f", text);
        assert_eq!(
            document.mistakes.iter().map(|mistake| &mistake.owner).next_back(),
            (!text.is_empty()).then_some(&owner),
            "{text}"
        );
    }
}

#[test]
fn what_is_nested_too_deep_is_passed_over_as_a_whole() {
    let (open, close) = ("[".repeat(32), "]".repeat(32));
    for (inner, is_closed) in [
        ("1, [2, ']'], {a = \"]\"}", true),
        (" # ]\n", true),
        ("{a = [\n{}]}", true),
        ("'''a]\n'''", true),
        ("[", false),
        ("'''\n", false),
    ] {
        let text = format!("[tracer.a]\nx = {open}{inner}{close}\ny = 1");
        let document = parse("f", &text);
        let [Mistake { owner, .. }] = &document.mistakes[..] else { panic!("{text}: {:?}", said(&document)) };
        let expected =
            if is_closed { Owner::Section(Section::Tracer("a".to_owned())) } else { Owner::Unknown };
        assert_eq!(*owner, expected, "{text}");
        let read = if is_closed { "{tracer: {a: {y: 1}}}" } else { "{tracer: {a: {}}}" };
        assert_eq!(shown(&document.root), read, "{text}");
    }
}

#[test]
fn enable_may_be_a_value_and_a_table() {
    for (text, expected) in [
        ("[a]\nenable = true\nenable.x = 1", "{a: {enable: true, enable.: {x: 1}}}"),
        ("[a]\nenable.x = 1\n\"en\\u0061ble\" = true", "{a: {enable.: {x: 1}, enable: true}}"),
        ("[a]\nenable = true\nenable = {x = 1}", "{a: {enable: true, enable.: {x: 1}}}"),
        ("[a]\nenable = true\n[ a . enable ] # why\nx = 1", "{a: {enable: true, enable.: {x: 1}}}"),
        ("a = {enable = true, enable.x = 1}", "{a: {enable: true, enable.: {x: 1}}}"),
        ("[a]\nenable.x = 1\nenable.y.z = 2", "{a: {enable: {x: 1, y: {z: 2}}}}"),
        ("[a.enable]\nx = 1", "{a: {enable: {x: 1}}}"),
        ("[[enable]]\nx = 1", "{enable: [{x: 1}]}"),
        ("[a]\nenable-x = true", "{a: {enable-x: true}}"),
        ("", "{}"),
    ] {
        assert_reads(text, expected);
    }
    let twice = "f:3:1: a.enable: duplicate key; it is already set in line 2; remove one of the two";
    assert_mistakes("[a]\nenable = true\nenable = false", "{a: {enable: true}}", &[twice]);
    let twice = "f:3:1: a.enable: duplicate key; it is already set in line 2; remove one of the two";
    assert_mistakes("[a]\nenable.x = 1\nenable = {}", "{a: {enable: {x: 1}}}", &[twice]);
}

#[test]
fn a_line_that_is_no_statement_is_reported_and_all_others_are_read() {
    for (line, expected) in [
        ("a 1", "key without a value; write key = value"),
        ("type: 'x'", "type: key without a value; write key = value"),
        ("!", "not a key; "),
        ("ü = 1", "not a key; "),
        ("aü = 1", "not a key; "),
        ("= 1", "not a key; "),
        ("a. = 1", "not a key; "),
        ("\"a = 1", "not a key; "),
        ("]", "not a key; "),
        ("{", "not a key; "),
        ("a \"\"\"", "key without a value; "),
        ("'''", "not a key; "),
    ] {
        let text = format!("before = 1\n{line}\nafter = 2");
        let document = parse("f", &text);
        let said = said(&document);
        assert!(said.len() == 1 && said[0].starts_with(&format!("f:2:1: {expected}")), "{line}: {said:?}");
        assert_eq!(shown(&document.root), "{before: 1, after: 2}", "{line}");
    }
}

#[test]
fn a_broken_header_takes_its_own_keys_along_and_no_others() {
    for header in ["[a", "[a] b = 1", "[[a]", "[a]]", "[a.]", "[a] \"\"\"", "[a = 1"] {
        let text = format!("{header}\nb = 2\nc\nd = !\n[e]\nf = 1");
        let document = parse("f", &text);
        let said = said(&document);
        let expected = "malformed table header; write it like [tracer.otel], alone in its line";
        assert!(said.len() == 1 && said[0].ends_with(expected), "{header}: {said:?}");
        assert_eq!(shown(&document.root), "{e: {f: 1}}", "{header}");
    }
    let document = parse("f", "[a]\rx\nb = 2\n[e]\nf = 1");
    assert_eq!(said(&document), ["f:1:4: the line end is a lone carriage return; end lines with LF or CRLF"]);
    assert_eq!(shown(&document.root), "{e: {f: 1}}");
}

#[test]
fn a_broken_value_is_reported_at_its_place_and_keeps_its_key() {
    assert_mistakes(
        "[tracer.a]\nlevel = info\nlevel = 'x'\nlossy = tru\nx = {a = 1, a = 2}\n",
        "{tracer: {a: {level: inf, lossy: true, x: {a: 1}}}}",
        &[
            "f:2:9: tracer.a.level: not a value; write \"trace\", \"debug\", \"info\", \"warn\", \"error\" or \"disable\"",
            "f:3:1: tracer.a.level: duplicate key; it is already set in line 2; remove one of the two",
            "f:4:9: tracer.a.lossy: not a value; write true or false, without quotes",
            "f:5:13: tracer.a.x: duplicate key; it is already set in line 5; remove one of the two",
        ],
    );
    assert_mistakes(
        "a = ['x' 'y']\nb = 1979-13-01\nc = 1 2\nd = [\"x, 'y']\ne = 5\n",
        "{a: [\"x\", \"y\"], b: date, c: \"1 2\", d: [\"x, 'y']\"], e: 5}",
        &[
            "f:1:10: a: missing comma between array elements; expected `,`",
            "f:3:5: c: not a value; write text in \"quotes\", or true, false or a number",
            "f:4:14: d: invalid basic string; expected `\"`",
        ],
    );
    let document = parse("f", "a = !\nb = 1");
    let is_spoilt = |name: &str| document.places.is_spoilt(document.root.get(name).unwrap().node.at);
    assert_eq!((is_spoilt("a"), is_spoilt("b")), (true, false));
}

#[test]
fn advises_on_every_malformed_number_and_stray_sign() {
    const NUMBER: &str = "write a number like 10, or text in \"quotes\"";
    for (value, what, fix) in [
        ("1__0", "`_` may only go between digits", NUMBER),
        ("1_", "`_` may only go between digits", NUMBER),
        ("01", "unexpected leading zero", NUMBER),
        ("0_1", "unexpected leading zero", NUMBER),
        ("++1", "redundant numeric sign", NUMBER),
        ("-0x1", "integers with a radix cannot be signed", NUMBER),
        ("= 1", "extra `=`", "write one =, or quote text that begins with ="),
    ] {
        let said = said(&parse("f", &format!("x = {value}\n")));
        assert!(said.len() == 1 && said[0].ends_with(&format!("x: {what}; {fix}")), "{value}: {said:?}");
    }
}

#[test]
fn a_header_or_a_key_ends_with_its_line_whatever_is_quoted_in_it() {
    for (line, owner) in [
        ("[tracer.\"\"\"x]", "x]\n"),
        ("[tracer.'''x]", "x]\n"),
        ("[tracer.\"\"\"x\"\"\"]", "x"),
        ("[tracer.x] '''", "x"),
        ("[tracer.x]\n\"\"\"", "x"),
        ("[tracer.x]\n'''y = [", "x"),
        ("[tracer.x]\ny '''z''' = \"\"\"", "x"),
    ] {
        let text = format!("{line}\n[tracer.b]\nc = 1\n[d]\ne = '''f'''");
        let document = parse("f", &text);
        let [mistake] = &document.mistakes[..] else { panic!("{line}: {:?}", said(&document)) };
        assert_eq!(mistake.owner, Owner::Section(Section::Tracer(owner.to_owned())), "{line}");
        let read = shown(&document.root).replace("x: {}, ", "");
        assert_eq!(read, "{tracer: {b: {c: 1}}, d: {e: \"f\"}}", "{line}");
    }
}

/// A section in the middle of a broken value is read, even if a line after the section closes the value.
#[test]
fn a_broken_value_gives_back_the_sections_that_it_took_in() {
    for (broken, close) in [
        ("x = [", "]"),
        ("x = ['a',", "]"),
        ("x = {a = 1,", "}"),
        ("x = 1 '''", "'''"),
        ("x = [['a'], \"b]", "]"),
    ] {
        let text = format!("[servers]\n{broken}\n[tracer.a]\nb = 1\n[c]\n{close}");
        let document = parse("f", &text);
        assert_eq!(document.mistakes[0].owner, Owner::Other, "{broken}: {:?}", said(&document));
        let read = shown(&document.root);
        assert!(read.ends_with("tracer: {a: {b: 1}}, c: {}}"), "{broken}: {read}");
    }
}

#[test]
fn a_table_is_described_once() {
    let twice = "duplicate key; it is already set in line 1; remove one of the two";
    for (text, expected) in [
        ("a = 1\na = 2", format!("f:2:1: a: {twice}")),
        ("[a]\n[a]", format!("f:2:2: a: {twice}")),
        ("[[a]]\n[a]", format!("f:2:2: a: {twice}")),
        ("[a]\n[[a]]", format!("f:2:3: a: {twice}")),
        ("a.b = 1\n[a]", format!("f:2:2: a: {twice}")),
        (
            "[a.b]\n[a]\nb.c = 1",
            "f:3:1: a.b.c: duplicate key; it is already set in line 1; remove one of the two".into(),
        ),
        (
            "a = 1\na.b = 2",
            "f:2:1: a.b: a is an integer in line 1, which has no keys; remove one of the two".into(),
        ),
        (
            "a = {}\n[a.b]",
            "f:2:2: a.b: a is an inline table in line 1, which cannot be extended; remove one of the two"
                .into(),
        ),
    ] {
        assert_eq!(said(&parse("f", text)), [expected], "{text}");
    }
    assert_reads(
        "[a.b.c]\n[a]\nd = 1\n[a.b]\n[[e]]\n[e.f]\n[[e]]\n[e.f]",
        "{a: {d: 1, b: {c: {}}}, e: [{f: {}}, {f: {}}]}",
    );
}

#[test]
fn nesting_is_bounded_and_what_follows_is_read() {
    for broken in [
        format!("a = {}{}", "[".repeat(32), "]".repeat(32)),
        format!("a = {}1{}", "{x = ".repeat(33), "}".repeat(33)),
        format!("{}x = 1", "x.".repeat(32)),
        format!("a = {{{}x = [[]]}}", "x.".repeat(30)),
        format!("a = {{{}x = 1}}", "x.".repeat(40)),
    ] {
        let text = format!("{broken}\nb = 1");
        let document = parse("f", &text);
        assert_eq!(shown(&document.root), "{b: 1}", "{broken}");
        let [mistake] = said(&document).try_into().expect("one");
        let mistake: String = mistake;
        assert!(mistake.ends_with("nested deeper than 32 levels; write fewer levels"), "{mistake}");
    }
    let header = format!("[{}x]\nb = 1\n[c]", "x.".repeat(32));
    assert_eq!(shown(&parse("f", &header).root), "{c: {}}");
    let deepest = format!("a = {}{}", "[".repeat(31), "]".repeat(31));
    assert!(parse("f", &deepest).mistakes.is_empty());
}

#[test]
fn a_document_with_too_much_in_it_is_cut_off_and_this_concerns_all() {
    let values = format!("[tracer.a]\nx = 1\ny = [{}]\nb = 1", "1,".repeat(20_000));
    let lines: String = (0..20_001).map(|number| format!("k{number}=1\n")).collect();
    for (text, place, what, kept) in [
        (values, "f:3:1: tracer.a: ", "more than 20000 values: the rest is ignored", 1),
        (lines, "f:20001:1: ", "more than 20000 values: the rest is ignored", 20_000),
        ("!\n".repeat(1_000), "f:101:1: ", "too many mistakes: the rest is ignored", 0),
    ] {
        let document = parse("f", &text);
        let Mistake { owner, diagnostic } = document.mistakes.last().expect(what);
        assert!(diagnostic.to_string().starts_with(&format!("{place}{what}")), "{diagnostic}");
        assert_eq!(*owner, Owner::Unknown);
        assert_eq!(document.root.as_table().map(<[_]>::len), Some(kept), "{what}");
    }
}

#[test]
fn of_a_malformed_header_nothing_is_shown_that_may_be_a_value() {
    for (text, expected) in [
        ("[tracer.a b]", "tracer.a: "),
        ("[tracer.\"S3CRET: x\" b]", "tracer: "),
        ("headers =\n[\"Authorization: Bearer S3CRET\", \"x: y\"]", ""),
        ("['S3CRET', 'b'", ""),
        ("['''etrics.open-telemetry]headers = [\"a: S3CRET\"]", ""),
    ] {
        let all = said(&parse("f", text));
        let last = all.last().expect(text);
        assert!(
            last.ends_with(&format!(
                "1: {expected}malformed table header; write it like [tracer.otel], alone in its line"
            )),
            "{text}: {all:?}"
        );
    }
}

#[test]
fn of_two_mistakes_in_a_statement_the_first_is_reported() {
    for (text, expected) in [
        ("a = { b c = 1, d c = 2 }", "f:1:9: a: "),
        ("a = { = 1, = 2 }", "f:1:7: a: "),
        ("a = { b = 1, b = 2, c d = 3 }", "f:1:14: a: duplicate key"),
    ] {
        let all = said(&parse("f", text));
        assert!(matches!(&all[..], [only] if only.starts_with(expected)), "{text}: {all:?}");
    }
}

#[test]
fn a_byte_order_mark_within_the_text_is_no_part_of_a_key() {
    for (text, flaw) in [("a = 1\n\u{feff}b = 2\nc = 3", "not a key"), ("a = 1\n\u{feff}[b]\n", "malformed")]
    {
        let document = parse("f", text);
        assert!(matches!(&said(&document)[..], [only] if only.contains(flaw)), "{:?}", said(&document));
        assert!(!shown(&document.root).contains('b'));
    }
}

#[test]
fn a_mistake_concerns_the_section_it_stands_in() {
    let tracer = |id: &str| Owner::Section(Section::Tracer(id.to_owned()));
    let metrics = || Owner::Section(Section::Metrics);
    for (text, owner) in [
        ("[tracer.a]\n!", tracer("a")),
        ("[tracer.\"a.b\"]\nx = 1\n!", tracer("a.b")),
        ("[tracer.a.headers]\n!", tracer("a")),
        ("[tracer.a.headers", tracer("a")),
        ("[tracer.a]\n[tracer.b !\nx = 1", tracer("b")),
        ("[tracer.a", tracer("a")),
        ("tracer.a.x = !", tracer("a")),
        ("metrics.open-telemetry.x = !", metrics()),
        ("[tracer]\na.x = !", tracer("a")),
        ("[metrics.'open-telemetry'.headers]\n!", metrics()),
        ("[metrics.open-telemetry !", metrics()),
        ("[metrics]\nopen-telemetry = !", metrics()),
        ("metrics = {open-telemetry = {x = !", Owner::Unknown),
        ("metrics = {open-telemetry = {x = !}}", metrics()),
        ("[metrics !", metrics()),
        ("[metrics]\nx !", Owner::Other),
        ("[metrics.prometheus]\n!", Owner::Other),
        ("[server]\nmetrics.open-telemetry.x = !", Owner::Other),
        // An unclosed value may contain any section.
        ("[tracer.a]\nx = \"\"\"", Owner::Unknown),
        ("[server]\nx = [!", Owner::Unknown),
        ("[server]\nx = 1 '''\n", Owner::Unknown),
        ("[server !\nx = [", Owner::Unknown),
        // The unclosed quote hides the closing bracket, so the statement is cut off after the line of the quote, and
        // its owner is known.
        ("[tracer.a]\nx = [\"a]\n[tracer.b]\n", tracer("a")),
        ("tracer = !", Owner::Unknown),
        ("x !", Owner::Other),
        ("[server]\nx !", Owner::Other),
        ("!", Owner::Unknown),
        ("[!", Owner::Unknown),
        ("# \u{1}", Owner::Unknown),
        ("[tracer.a]\n# \u{1}", tracer("a")),
    ] {
        let document = parse("f", text);
        let last = document.mistakes.last().expect(text);
        assert_eq!(last.owner, owner, "{text:?}: {:?}", said(&document));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: crate::tests::share_of(2_000), failure_persistence: None, ..ProptestConfig::default() })]

    /// The `toml` crate is the reference: it uses the same low-level parser, `toml_parser`, but interprets the events
    /// with its own code.
    #[test]
    fn what_is_toml_has_no_mistake_and_what_is_not_has_one(
        pieces in prop::collection::vec(prop::sample::select(vec![
            "a", "b.c", "'d'", "\"e.#\"", " = ", "=", "1", "true", "'x#'", "\"y\\\"\"", "\"\"\"\nz = '\"\"\"",
            "'''\"\n'''", "[", "]", "[[", "]]", "{", "}", ", ", "\n", "\n", "# '\n", "[f]\n", "g = 1\n",
            "h.i = [\n1]\n", "j = {k = 1}\n",
        ]), 0..12)
    ) {
        let text: String = pieces.concat();
        let is_toml = toml::de::DeTable::parse(&text).is_ok();
        prop_assert_eq!(parse("f", &text).mistakes.is_empty(), is_toml, "{}", text);
    }
}
