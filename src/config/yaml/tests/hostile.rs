//! No text may take long, grow without bound, or end the program.

use std::fs;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

const MIB: usize = 1 << 20;
/// The promise is a tenth of a second, in optimised code on a quiet machine; the true figures are printed.
const DEADLINE: Duration = Duration::from_secs(2);

/// One mebibyte of something, the most that a file may have.
fn full_of(part: &str) -> String {
    part.repeat(MIB / part.len())
}

/// Less without optimisation, where there are many to try: the deadline still catches what grows with the square.
fn filled_with(part: &str) -> String {
    const SIZE: usize = if cfg!(debug_assertions) { MIB / 32 } else { MIB };
    part.repeat(SIZE / part.len())
}

/// How it ends; it must do so in time.
fn outcome(name: &str, text: &str) -> Result<Content, String> {
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

/// How long this thread has been on a processor, where the system tells: a busy machine does not count.
fn on_processor() -> Option<Duration> {
    let spent = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(spent.split_whitespace().next()?.parse().ok()?))
}

fn assert_refused(name: &str, text: &str, expected: &str) {
    let said = outcome(name, text).expect_err(name);
    assert!(said.contains(expected), "{name}: {said}");
}

#[test]
fn nesting_beyond_the_limit_is_refused_at_once() {
    for part in ["[", "{", "- ", "? ", ": ", "[{a: ", "- ? ", "- - -\t", "[?", "{? "] {
        let said = outcome(part, &full_of(part)).expect_err(part);
        println!("{said}");
    }
    for part in ["[", "{", "- ", "? ", ": "] {
        assert_refused(part, &full_of(part), "nested deeper than 64 levels; write fewer levels");
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
    // at the first alias that is too much, not at the end of what it would have become
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
    for part in ["1,", "[],", "a: 1, ", "? a : b, ", "&a 1, ", "!!str 1, ", "\"\","] {
        let text = format!("[{}]", full_of(part));
        let said = outcome(part, &text).expect_err(part);
        assert!(said.contains("more than 20000 values"), "{part}: {said}");
    }
    for part in ["- a\n", "- &a x\n", "- !!str x\n", "-\n"] {
        assert_refused(part, &full_of(part), "more than 20000 values");
    }
    let keys: String = (0..70_000).map(|number| format!("key{number}: x\n")).collect();
    assert_refused("keys", &keys, "more than 20000 values");
    let keys: String = (0..9_900).map(|number| format!("key{number}: x\n")).collect();
    let document = outcome("fewer keys", &keys).expect("within the limit");
    assert_eq!(document.root.as_table().map(<[_]>::len), Some(9_900));
}

#[test]
fn references_to_themselves_and_endless_duplicates_are_only_mistakes_until_the_limit() {
    let document = outcome("few of themselves", &"a: &a [*a]\n".repeat(1_000)).expect("a document");
    assert_eq!(document.mistakes.len(), 101);
    assert_refused("of themselves", &full_of("a: &a [*a]\n"), "more than 20000 values");
    assert_refused("duplicates", &full_of("a: 1\n"), "more than 20000 values");
    assert_refused("unknown aliases", &format!("- &a x\n{}", full_of("- *b\n")), "more than 20000 values");
    assert_refused("aliases", &format!("- &a x\n{}", full_of("- *a\n")), "more than 20000 values");
}

#[test]
fn one_long_line_is_one_text() {
    let cases = [
        ("plain", full_of("a")),
        ("words", full_of("a ") + "a"),
        ("two bytes each", full_of("ü")),
        ("double quoted", format!("\"{}\"", full_of("a"))),
        ("escapes", format!("\"{}\"", full_of("\\n"))),
        ("lines in quotes", format!("\"{}\"", full_of("a\n"))),
        ("spaces in quotes", format!("\"{} \"", full_of(" "))),
        ("quotes", format!("'{}'", full_of("''"))),
        ("literal", format!("|\n{}", full_of("  a\n"))),
        ("folded", format!(">\n{}", full_of("  a\n"))),
        ("empty lines", format!("|\n{}", full_of("   \n"))),
        ("plain lines", full_of("a\n")),
        ("digits", full_of("9")),
        ("fraction", format!("0.{}", full_of("9"))),
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
    for part in parts {
        for text in
            [filled_with(part), format!("[{}", filled_with(part)), format!("a: \"{}", filled_with(part))]
        {
            _ = outcome(&format!("{part:?}"), &text);
        }
    }
    let directives: String = (0..60_000).map(|number| format!("%TAG !a{number}! b\n")).collect();
    _ = outcome("directives", &(directives + "--- x"));
    _ = outcome("a tag", &format!("!{} x", full_of("%41")));
    _ = outcome("an anchor", &format!("&{} x", full_of("a")));
    _ = outcome("a key", &format!("{}: x", full_of("a")));
    _ = outcome("a quoted key", &format!("{{\"{}\": x}}", full_of("a")));
}

proptest! {
    #[test]
    fn no_text_ends_the_program_and_every_place_is_in_the_text(parts in prop::collection::vec(part(), 0..40)) {
        let text = parts.concat();
        let lines = text.split(['\n', '\r']).count();
        match content_of(&text, "f") {
            Ok(document) => assert_places(&document, &document.root, lines),
            Err(diagnostic) => prop_assert!(diagnostic.location.is_some_and(|location| location.line <= lines)),
        }
    }
}

/// What YAML is made of.
fn part() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "a: ", "b: ", "<<: ", "- ", "? ", ": ", "[", "]", "{", "}", ", ", "\n", "\n  ", "\n    ", "\r\n",
        "\t", "&a ", "*a", "&b ", "*b", "!!str ", "!!int ", "!x ", "|\n", ">\n", "'", "\"", "\\", "# ",
        "---\n", "...\n", "%", "x", "ü", "1", "1.5", "true", "~", "\u{feff}", "\0",
    ])
}

fn assert_places(document: &Content, node: &Node, lines: usize) {
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
