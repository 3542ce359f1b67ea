//! The first walk over a TOML document, before the parser sees it.
//!
//! Three things that the parser does not do are done here, and every place in the document stays known:
//!
//! - `enable = true` beside `enable.log-exporter = true` is not TOML, but tracers are written that way. The
//!   second key is handed on as `"enable.log-exporter"`, and a table called `enable` as `"enable."`. Only the
//!   third part of a path that starts with `tracer` is ever renamed;
//! - a line that is no statement would end the parser's work: it is reported and blanked, and the rest is read;
//! - nesting is bounded, so that no document can exhaust the stack of those who walk it later.

use std::ops::Range;

use super::cursor::{Cursor, MAX_DEPTH};
use super::outline::{Malformed, Outline, Statement, Table, TableKind, decode};
use crate::config::section::ENABLE_TABLE;
use crate::config::text::quote;

/// After so many lines that are no statements a document is not read any further …
const MAX_MALFORMED: usize = 100;
/// … nor after so many headers and values: a large configuration has hundreds.
const MAX_VALUES: usize = 20_000;

const TOO_DEEP: (&str, &str) = ("nested deeper than 32 levels", "write it flatter");
const NO_HEADER: (&str, &str) = ("malformed table header", "write it like [tracer.otel], alone in its line");
const NO_KEY: (&str, &str) =
    ("not a key", "write key = value; quote a key that holds more than letters, digits, - and _");
const NO_TOML: (&str, &str) = ("too many mistakes, nothing is read from here on", "is this a TOML file?");
const TOO_LONG: (&str, &str) =
    ("more than 20000 values, nothing is read from here on", "write a shorter file");
const FOREIGN_LINE_ENDS: (&str, &str) =
    ("lines end in a carriage return alone, nothing is read from here on", "end them with a line feed");
const NO_VALUE: (&str, &str) = ("key without a value", "write key = value");
const NO_END: (&str, &str) = ("never closed, nothing is read from here on", "close it");

/// Walks over the whole document.
pub(super) fn scan(document: &str) -> Outline<'_> {
    let foreign_end = foreign_line_end(document);
    let cursor = Cursor::new(&document[..foreign_end.unwrap_or(document.len())]);
    let mut scanner = Scanner { document, cursor, values: 0, outline: Outline::new(document) };
    scanner.cursor.skip_blank();
    // each statement takes at least its first character, so this ends
    while let Some(first) = scanner.cursor.peek() {
        if scanner.outline.malformed().len() >= MAX_MALFORMED {
            scanner.give_up(scanner.cursor.at(), NO_TOML);
        } else if first == b'[' {
            scanner.header();
        } else {
            scanner.assignment();
        }
        scanner.cursor.skip_blank();
    }
    if let Some(at) = foreign_end {
        scanner.give_up(at, FOREIGN_LINE_ENDS);
    }
    scanner.outline
}

/// Where the first carriage return without a line feed is, if it is one of so many that the lines must end that way.
fn foreign_line_end(document: &str) -> Option<usize> {
    let is_alone = |at: &usize| document.as_bytes().get(at + 1) != Some(&b'\n');
    let mut alone = document.match_indices('\r').map(|(at, _)| at).filter(is_alone);
    let first = alone.next()?;
    alone.nth(MAX_MALFORMED).map(|_| first)
}

struct Scanner<'d> {
    document: &'d str,
    cursor: Cursor<'d>,
    /// Headers and values so far.
    values: usize,
    outline: Outline<'d>,
}

/// Why a value could not be walked over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Abandoned {
    TooDeep,
    /// There were too many values, in it and before it.
    TooLong,
    /// It never ends; the parser will say so.
    Unclosed,
}

impl Scanner<'_> {
    fn header(&mut self) {
        let start = self.cursor.at();
        self.values += 1;
        if self.values > MAX_VALUES {
            return self.give_up(start, TOO_LONG);
        }
        let is_element = self.cursor.take("[[");
        if !is_element {
            self.cursor.take("[");
        }
        let key = self.cursor.key();
        let is_closed = key.is_whole && self.cursor.take(if is_element { "]]" } else { "]" });
        let is_good = is_closed && self.cursor.line_is_over() && key.parts.len() <= MAX_DEPTH;
        if is_good && !is_element {
            self.rename_enable(&[], &key.parts, true);
        }
        self.cursor.skip_line();

        let kind = match (is_good, is_element) {
            (false, _) => TableKind::Malformed,
            (true, true) => TableKind::Element,
            (true, false) => TableKind::Plain,
        };
        let path = key.parts.iter().take(MAX_DEPTH).map(|part| self.decode(part)).collect();
        self.outline.push_table(Table { path, kind });
        self.push_statement(start, start..start, false);
        if !is_good {
            self.reject(start, if key.parts.len() > MAX_DEPTH { TOO_DEEP } else { NO_HEADER });
        }
    }

    fn assignment(&mut self) {
        let start = self.cursor.at();
        let key = self.cursor.key();
        let key_range = start..key.parts.last().map_or(start, |part| part.end);
        if !key.is_whole || !self.cursor.take("=") {
            self.cursor.skip_line();
            self.push_statement(start, key_range, false);
            return self.reject_assignment(start, if key.is_whole { NO_VALUE } else { NO_KEY });
        }
        self.cursor.skip_spaces();
        let base = self.base_of_table();
        let value_start = self.cursor.clone();
        let outcome = self.named_value(base.as_deref(), &key.parts, 0);
        let mut is_unclosed = outcome == Err(Abandoned::Unclosed);
        if outcome == Err(Abandoned::TooDeep) {
            self.cursor = value_start;
            is_unclosed = !self.cursor.skip_nested();
        }
        if outcome == Err(Abandoned::TooLong) {
            return self.give_up(start, TOO_LONG);
        }
        is_unclosed |= !self.cursor.skip_rest_of_line();
        self.push_statement(start, key_range, is_unclosed);
        if is_unclosed && self.is_lost() {
            // a reported header excuses its own keys, but not the loss of all that follows
            self.reject(start, NO_END);
        } else if outcome == Err(Abandoned::TooDeep) || self.is_lost() {
            self.reject_assignment(start, TOO_DEEP);
        }
    }

    /// The value of a key, which stands in a table with the path `base`, if that matters.
    fn named_value(
        &mut self,
        base: Option<&[String]>,
        key: &[Range<usize>],
        depth: usize,
    ) -> Result<(), Abandoned> {
        let depth = depth + key.len();
        if depth > MAX_DEPTH {
            return Err(Abandoned::TooDeep);
        }
        let path = base.and_then(|base| {
            self.rename_enable(base, key, self.cursor.peek() == Some(b'{'));
            let path = base.iter().cloned().chain(key.iter().map(|part| self.decode(part))).collect();
            Some(path).filter(|path: &Vec<String>| matters(path))
        });
        self.value(path.as_deref(), depth)
    }

    fn value(&mut self, path: Option<&[String]>, depth: usize) -> Result<(), Abandoned> {
        self.values += 1;
        match self.cursor.peek() {
            _ if self.values > MAX_VALUES => Err(Abandoned::TooLong),
            Some(b'"' | b'\'') => self.cursor.string().then_some(()).ok_or(Abandoned::Unclosed),
            Some(b'[' | b'{') if depth >= MAX_DEPTH => Err(Abandoned::TooDeep),
            Some(b'[') => self.array(depth + 1),
            Some(b'{') => self.inline_table(path, depth),
            _ => {
                self.cursor.scalar();
                Ok(())
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<(), Abandoned> {
        self.cursor.take("[");
        loop {
            self.cursor.skip_blank();
            match self.cursor.peek() {
                None => return Err(Abandoned::Unclosed),
                Some(b']') => break,
                // also what cannot stand here: the parser will say so
                Some(b',' | b'}') => self.cursor.skip_character(),
                Some(_) => self.value(None, depth)?,
            }
        }
        self.cursor.take("]");
        Ok(())
    }

    fn inline_table(&mut self, path: Option<&[String]>, depth: usize) -> Result<(), Abandoned> {
        self.cursor.take("{");
        loop {
            self.cursor.skip_blank();
            match self.cursor.peek() {
                None => return Err(Abandoned::Unclosed),
                Some(b'}') => break,
                Some(b',') => self.cursor.skip_character(),
                Some(_) => {
                    let start = self.cursor.at();
                    let key = self.cursor.key();
                    if key.is_whole && self.cursor.take("=") {
                        self.cursor.skip_blank();
                        self.named_value(path, &key.parts, depth)?;
                    } else if self.cursor.at() == start {
                        self.cursor.skip_character();
                    }
                }
            }
        }
        self.cursor.take("}");
        Ok(())
    }

    /// Renames `enable` where it would collide; `base` is the path of the table that the key stands in.
    fn rename_enable(&mut self, base: &[String], key: &[Range<usize>], is_table: bool) {
        let part = |index: usize| match base.get(index) {
            Some(part) => Some(part.clone()),
            None => key.get(index - base.len()).map(|range| self.decode(range)),
        };
        if part(0).as_deref() != Some("tracer") || part(2).as_deref() != Some("enable") {
            return;
        }
        let leaf = part(3);
        let Some(enable) = key.get(2 - base.len()) else { return };
        match (leaf, key.get(3 - base.len())) {
            (Some(leaf), Some(range)) => {
                self.outline.replace(enable.start..range.end, quote(&format!("enable.{leaf}")));
            }
            _ if is_table => self.outline.replace(enable.clone(), quote(ENABLE_TABLE)),
            _ => {}
        }
    }

    /// The path of the table being filled, if a key in it could need renaming.
    fn base_of_table(&self) -> Option<Vec<String>> {
        let (_, table) = self.outline.last_table();
        (table.kind == TableKind::Plain && matters(&table.path)).then(|| table.path.clone())
    }

    fn decode(&self, part: &Range<usize>) -> String {
        decode(&self.document[part.clone()])
    }

    fn push_statement(&mut self, start: usize, key: Range<usize>, is_unclosed: bool) {
        let (table, _) = self.outline.last_table();
        self.outline.push_statement(Statement { start, key, table, is_unclosed });
    }

    /// Whether nobody knows which table is being filled.
    fn is_lost(&self) -> bool {
        self.outline.last_table().1.kind == TableKind::Malformed
    }

    /// As [`reject`](Self::reject), but silent below a header that has been reported.
    fn reject_assignment(&mut self, start: usize, reason: (&'static str, &'static str)) {
        if self.is_lost() {
            self.outline.blank(start..self.cursor.at());
        } else {
            self.reject(start, reason);
        }
    }

    /// Cuts off all that is left.
    fn give_up(&mut self, start: usize, (what, fix): (&'static str, &'static str)) {
        self.cursor.skip_all();
        self.push_statement(start, start..start, true);
        self.outline.cut(start);
        self.outline.push_malformed(Malformed { at: start, what, fix });
    }

    /// Hides the statement that has just been walked over, and says why.
    fn reject(&mut self, start: usize, (what, fix): (&'static str, &'static str)) {
        self.outline.blank(start..self.cursor.at());
        self.outline.push_malformed(Malformed { at: start, what, fix });
    }
}

/// Whether the third part of a path can stand in a table of this path.
fn matters(path: &[String]) -> bool {
    path.len() <= 2 && path.first().is_none_or(|first| first == "tracer")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use toml::de::DeTable;

    use super::*;
    use crate::config::section::{Owner, Section};

    fn edited(document: &str) -> String {
        scan(document).edited().0
    }

    #[test]
    fn enable_is_renamed_wherever_a_tracer_may_say_it() {
        for (document, expected) in [
            ("[tracer.a]\nenable.x = true", "[tracer.a]\n\"enable.x\" = true"),
            ("[tracer.a]\nenable . x=1", "[tracer.a]\n\"enable.x\"=1"),
            ("[tracer.a]\n\"enable\".'x' = 1", "[tracer.a]\n\"enable.x\" = 1"),
            ("[tracer.a]\n\"en\\u0061ble\".x = 1", "[tracer.a]\n\"enable.x\" = 1"),
            ("[tracer.a]\nenable.\"x\\\"y\" = 1", "[tracer.a]\n\"enable.x\\\"y\" = 1"),
            ("[tracer.a]\nenable.x.y = 1", "[tracer.a]\n\"enable.x\".y = 1"),
            ("[tracer.a]\nenable = {x = 1}", "[tracer.a]\n\"enable.\" = {x = 1}"),
            ("[tracer.a.enable]\nx = 1", "[tracer.a.\"enable.\"]\nx = 1"),
            ("[ tracer . a . enable ] # why\nx = 1", "[ tracer . a . \"enable.\" ] # why\nx = 1"),
            ("[tracer.a.enable.x]\ny = 1", "[tracer.a.\"enable.x\"]\ny = 1"),
            ("[tracer]\na.enable.x = 1", "[tracer]\na.\"enable.x\" = 1"),
            ("tracer.a.enable.x = 1", "tracer.a.\"enable.x\" = 1"),
            ("tracer.a.enable = {}", "tracer.a.\"enable.\" = {}"),
            ("tracer = {a = {enable.x = 1}}", "tracer = {a = {\"enable.x\" = 1}}"),
            (
                "tracer.a = {enable = true, # enable.x = 1\n enable.x = 1, enable = {}}",
                "tracer.a = {enable = true, # enable.x = 1\n \"enable.x\" = 1, \"enable.\" = {}}",
            ),
            ("[\"tracer\".'a']\r\nenable.x = 1\r\n", "[\"tracer\".'a']\r\n\"enable.x\" = 1\r\n"),
            ("[tracer.enable]\nenable.x = 1", "[tracer.enable]\n\"enable.x\" = 1"),
            ("[tracer.enable.enable]", "[tracer.enable.\"enable.\"]"),
        ] {
            assert_eq!(edited(document), expected);
        }
    }

    #[test]
    fn nothing_else_is_renamed() {
        for document in [
            "[tracer.a]\nenable = true",
            "[tracer.a]\n\"enable.x\" = true",
            "[tracer.a]\nenable-x = true",
            "[tracer.a]\nx.enable.y = true",
            "[tracer.a]\nx = 'enable.x = 1'\n# enable.x = 1",
            "[tracer.a]\nx = \"\"\"\nenable.x = 1\n[tracer.b.enable]\n\"\"\"",
            "[tracer.a]\nx = '''\nenable.x = 1'''",
            "[tracer.a]\nx = [\n{enable.x = 1},\n]",
            "[tracer.a.headers]\nenable.x = 1",
            "[tracer.enable]\nx = 1",
            "[tracer]\nenable.x = 1",
            "[tracer]\n\"a.enable\".x = 1",
            "[tracer.\"a.enable\"]\nx = 1",
            "[[tracer.a]]\nenable.x = 1",
            "[server.a]\nenable.x = 1",
            "[server]\ntracer.a.enable.x = 1",
            "enable.x = 1\nenable.tracer.enable = 1",
            "",
        ] {
            assert_eq!(edited(document), document);
        }
    }

    #[test]
    fn lines_that_are_no_statements_are_blanked_and_told() {
        for (document, expected, what) in [
            ("a 1\nb = 2", "   \nb = 2", "key without a value"),
            ("!\nb = 2", " \nb = 2", "not a key"),
            ("ü = 1\nb = 2", "      \nb = 2", "not a key"),
            ("= 1\nb = 2", "   \nb = 2", "not a key"),
            ("[a\nb = 2\nc\n[d]\ne = 1", "  \n     \n \n[d]\ne = 1", "malformed table header"),
            ("[a] b = 1\n[d]", "         \n[d]", "malformed table header"),
            ("[[a]\n[d]", "    \n[d]", "malformed table header"),
        ] {
            let outline = scan(document);
            assert_eq!(outline.edited().0, expected);
            let told: Vec<&str> = outline.malformed().iter().map(|malformed| malformed.what).collect();
            assert_eq!(told, [what], "{document:?}");
        }
    }

    #[test]
    fn nesting_is_bounded_and_what_follows_is_read() {
        let arrays = format!("a = {}{}\nb = 1", "[".repeat(33), "]".repeat(33));
        let tables = format!("a = {}1{}\nb = 1", "{x = ".repeat(33), "}".repeat(33));
        let dotted = format!("{}x = 1\nb = 1", "x.".repeat(32));
        let mixed = format!("a = {{{}x = [[]]}}\nb = 1", "x.".repeat(30));
        for document in [arrays, tables, dotted, mixed] {
            let outline = scan(&document);
            assert_eq!(outline.edited().0.trim(), "b = 1", "{document:?}");
            assert_eq!(outline.malformed()[0].what, "nested deeper than 32 levels");
        }
        let header = format!("[{}x]\nb = 1", "x.".repeat(32));
        assert_eq!(edited(&header).trim(), "");
        let deepest = format!("a = {}{}", "[".repeat(31), "]".repeat(31));
        assert_eq!(edited(&deepest), deepest);
    }

    #[test]
    fn a_document_with_too_much_in_it_is_cut_off_and_told() {
        let values = format!("[tracer.a]\nenable.x = 1\nenable.y = [{}]\nb = 1", "1,".repeat(20_000));
        let statements = "a=1\n".repeat(20_001);
        for (document, kept) in
            [(values, "[tracer.a]\n\"enable.x\" = 1\n".to_owned()), (statements, "a=1\n".repeat(20_000))]
        {
            let outline = scan(&document);
            assert!(outline.edited().0 == kept, "cut at the wrong place");
            let [told] = outline.malformed() else { panic!("{:?}", outline.malformed()) };
            assert_eq!(told.what, "more than 20000 values, nothing is read from here on");
            assert_eq!(outline.owner_at(told.at), Owner::Unknown);
        }
        let foreign = format!("a = 1\n{}", "b = 1\r".repeat(1_000));
        let outline = scan(&foreign);
        assert_eq!(outline.edited().0, "a = 1\nb = 1");
        let [told] = outline.malformed() else { panic!("{:?}", outline.malformed()) };
        assert_eq!((told.at, &told.what[..33]), (11, "lines end in a carriage return al"));
        let garbage = "!\n".repeat(1_000);
        let outline = scan(&garbage);
        assert_eq!(outline.malformed().len(), 101);
        assert_eq!(outline.malformed()[100].what, "too many mistakes, nothing is read from here on");
    }

    #[test]
    fn a_mistake_concerns_the_section_it_stands_in() {
        let tracer = |id: &str| Owner::Section(Section::Tracer(id.to_owned()));
        let metrics = || Owner::Section(Section::Metrics);
        for (document, owner) in [
            ("[tracer.a]\nHERE", tracer("a")),
            ("[tracer.\"a.b\"]\nx = 1\nHERE", tracer("a.b")),
            ("[tracer.a.headers]\nHERE", tracer("a")),
            ("[tracer.a.headers HERE", tracer("a")),
            ("[tracer.a]\n[tracer.b HERE\nx = 1", tracer("b")),
            ("tracer.a.x = HERE", tracer("a")),
            ("[tracer]\na.x = HERE", tracer("a")),
            ("[tracer.HERE", tracer("HERE")),
            ("[metrics.open-telemetry]\nHERE", metrics()),
            ("[metrics.'open-telemetry'.headers]\nHERE", metrics()),
            ("[metrics.open-telemetry HERE", metrics()),
            ("metrics.open-telemetry.x = HERE", metrics()),
            ("[metrics]\nopen-telemetry = HERE", metrics()),
            ("metrics = {open-telemetry = {x = HERE", Owner::Unknown),
            ("metrics = {open-telemetry = {x = HERE}}", metrics()),
            ("[metrics HERE", metrics()),
            ("[metrics]\nHERE", Owner::Other),
            ("[metrics.prometheus]\nHERE", Owner::Other),
            ("[server]\nmetrics.open-telemetry.x = HERE", Owner::Other),
            ("[tracer.a]\nx = \"\"\"HERE", Owner::Unknown),
            ("[server]\nx = [HERE", Owner::Unknown),
            ("tracer = HERE", Owner::Unknown),
            ("HERE", Owner::Other),
            ("!HERE", Owner::Unknown),
            ("[!HERE", Owner::Unknown),
            ("[server]\nHERE", Owner::Other),
            ("# HERE", Owner::Unknown),
        ] {
            let place = document.find("HERE").expect(document);
            assert_eq!(scan(document).owner_at(place), owner, "{document:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_the_parser_takes_is_never_held_back_from_it(
            pieces in prop::collection::vec(prop::sample::select(vec![
                "a", "b.c", "'d'", "\"e.#\"", " = ", "=", "1", "true", "'x#'", "\"y\\\"\"", "\"\"\"\nz = '\"\"\"",
                "'''\"\n'''", "[", "]", "[[", "]]", "{", "}", ", ", "\n", "\n", "# '\n", "[f]\n", "g = 1\n",
                "h.i = [\n1]\n", "j = {k = 1}\n",
            ]), 0..12)
        ) {
            let document: String = pieces.concat();
            if DeTable::parse(&document).is_ok() {
                let outline = scan(&document);
                prop_assert_eq!(outline.malformed(), &[]);
                prop_assert_eq!(outline.edited().0, document);
            }
        }
    }
}
