//! Generates the chapter `compliance` of the guide from a table, and checks the names in the table.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

const TABLE: &str = include_str!("compliance.toml");
const CHAPTER: &str = include_str!("../../src/guide/compliance.md");
const STATUSES: [&str; 4] = ["met", "partly", "not met", "out of scope"];
/// Numbers of rows of the matrix, in the order of its sections.
const ROWS: [usize; 12] = [64, 2, 88, 18, 7, 19, 30, 13, 59, 17, 2, 7];

#[derive(Deserialize)]
struct Table {
    section: Vec<Section>,
}

#[derive(Deserialize)]
struct Section {
    id: String,
    title: String,
    /// Id, description, status, and where it is met or why not.
    rows: Vec<[String; 4]>,
}

impl Section {
    fn count(&self, status: &str) -> usize {
        self.rows.iter().filter(|[_, _, of_row, _]| of_row == status).count()
    }
}

fn sections() -> Vec<Section> {
    toml::from_str::<Table>(TABLE).expect("the table is TOML").section
}

/// Returns the cells of a table row: the number of rows with each status, and the number of all rows.
fn counts(sections: &[Section]) -> String {
    let counts = STATUSES.map(|status| sections.iter().map(|section| section.count(status)).sum::<usize>());
    let counts = counts.into_iter().chain([sections.iter().map(|section| section.rows.len()).sum()]);
    counts.map(|count| format!(" {count} |")).collect()
}

/// Returns the text of the chapter.
fn chapter(sections: &[Section]) -> String {
    let mut text = "\
OpenTelemetry's compliance matrix, row by row: what standpipe meets, and where.

The OpenTelemetry project compares its SDKs in a [matrix](https://github.com/open-telemetry/opentelemetry-specification/blob/main/spec-compliance-matrix.md).
This chapter has all its rows, in its order, described in our words. It is generated from `tests/project/compliance.toml`, and a test
checks that everything named here exists. Optional rows are marked. A row is out of scope if standpipe deliberately has no such part; the
last column has the reason.

"
    .to_owned();
    text += &format!(
        "| section | {} | rows |\n|---|{}\n",
        STATUSES.join(" | "),
        "--:|".repeat(STATUSES.len() + 1)
    );
    for section in sections {
        text += &format!("| {} |{}\n", section.title, counts(std::slice::from_ref(section)));
    }
    text += &format!("| all |{}\n", counts(sections));
    for Section { title, rows, .. } in sections {
        text += &format!("\n# {title}\n\n| row | status | where, or why not |\n|---|---|---|\n");
        for [_, row, status, place] in rows {
            text += &format!("| {row} | {status} | {place} |\n");
        }
    }
    text
}

/// Returns the texts between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Returns the texts of all source files and chapters below a folder, except for this test and its chapter.
fn texts(folder: &str, wanted: &Wanted<'_>) -> Vec<Indexed> {
    let mut waiting: Vec<PathBuf> = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)];
    let mut texts = Vec::new();
    while let Some(path) = waiting.pop() {
        let is_own = path.file_stem().is_some_and(|name| name == "compliance");
        if path.is_dir() {
            waiting.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|end| end == "rs" || end == "md") && !is_own {
            texts.push(Indexed::new(fs::read_to_string(path).unwrap(), wanted));
        }
    }
    texts
}

/// Returns the name, the item of a type or module, and the last word of a name with dots.
fn parts(name: &str) -> impl Iterator<Item = &str> {
    [name].into_iter().chain(name.splitn(2, "::")).chain(name.rsplit('.').next())
}

/// The words of the names that are looked for. Only these are collected from the files.
struct Wanted<'a> {
    words: HashSet<&'a str>,
    /// Whether a word has this length and first byte. Most words of the files need no lookup of their hash.
    shapes: Vec<bool>,
}

impl<'a> Wanted<'a> {
    fn new(names: impl Iterator<Item = &'a str>) -> Self {
        let words: HashSet<&str> = names.flat_map(parts).collect();
        let mut shapes = vec![false; 1 << 16];
        words.iter().filter(|word| !word.is_empty()).for_each(|word| shapes[Self::shape(word)] = true);
        Self { words, shapes }
    }

    fn shape(word: &str) -> usize {
        word.len() % 256 * 256 + usize::from(word.as_bytes()[0])
    }

    fn has(&self, word: &str) -> bool {
        self.shapes[Self::shape(word)] && self.words.contains(word)
    }
}

/// A file and those of its words that are wanted. Every name is searched in every file, but each file is read once.
struct Indexed {
    text: String,
    words: HashSet<String>,
    declared: HashSet<String>,
    /// Types with an `impl` block.
    implemented: HashSet<String>,
}

impl Indexed {
    fn new(text: String, wanted: &Wanted<'_>) -> Self {
        let mut indexed =
            Self { words: HashSet::new(), declared: HashSet::new(), implemented: HashSet::new(), text };
        let bytes = indexed.text.as_bytes();
        let (mut before, mut at) = ("", 0);
        // Loops over bytes, because iterators take several times as long without optimization.
        while at < bytes.len() {
            let start = at;
            while at < bytes.len() && matches!(bytes[at], b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'_') {
                at += 1;
            }
            if at > start {
                let word = &indexed.text[start..at];
                if wanted.has(word) {
                    match before {
                        "struct" | "enum" | "trait" | "type" | "mod" | "fn" => {
                            _ = indexed.declared.insert(word.to_owned())
                        }
                        "impl" => _ = indexed.implemented.insert(word.to_owned()),
                        _ => {}
                    }
                    if !indexed.words.contains(word) {
                        indexed.words.insert(word.to_owned());
                    }
                }
                before = word;
            }
            at += 1;
        }
        indexed
    }
}

/// Returns whether the source has this item, test or text.
fn exists(name: &str, src: &[Indexed], tests: &[Indexed]) -> bool {
    let all = || src.iter().chain(tests);
    let is_word = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    match name.split_once("::") {
        // Methods that macros define have no `fn` before their names.
        Some((kind, item)) => {
            let has_type = |file: &&Indexed| file.declared.contains(kind) || file.implemented.contains(kind);
            src.iter().any(|file| file.declared.contains(kind))
                && src.iter().any(|file| file.words.contains(kind) && file.words.contains(item))
                && (src.iter().any(|file| file.declared.contains(item))
                    || src.iter().filter(has_type).any(|file| file.words.contains(item)))
        }
        None if is_word(name) && !name.starts_with("OTEL_") => {
            all().any(|file| file.declared.contains(name)) || src.iter().any(|file| file.words.contains(name))
        }
        // The source has one name for spans, log records and data points, with `#` for the kind.
        None if name.starts_with("otel.sdk.") => {
            let template = ["span", "log", "metric_data_point"]
                .iter()
                .fold(name.to_owned(), |name, kind| name.replacen(&format!(".{kind}."), ".#.", 1));
            let template = format!("\"{}\"", template.trim_start_matches("otel.sdk."));
            let last = name.rsplit('.').next().unwrap_or_default();
            let mut files = src.iter().filter(|file| file.words.contains(last));
            files.any(|file| file.text.contains(name) || file.text.contains(&template))
        }
        None => all().any(|file| file.words.contains(name)) || all().any(|file| file.text.contains(name)),
    }
}

#[test]
fn the_chapter_is_generated_from_the_table() {
    let expected = chapter(&sections());
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compliance.md");
    fs::write(&path, &expected).unwrap();
    assert!(CHAPTER == expected, "copy {} to src/guide/compliance.md", path.display());
}

#[test]
fn the_table_has_every_row_of_the_matrix_once_with_a_known_status() {
    let sections = sections();
    assert_eq!(sections.iter().map(|section| section.rows.len()).collect::<Vec<_>>(), ROWS);
    for Section { id, rows, .. } in &sections {
        for (index, [row, text, status, place]) in rows.iter().enumerate() {
            assert!(STATUSES.contains(&status.as_str()), "{id}.{row}: {status}");
            assert!(rows[..index].iter().all(|[other, ..]| other != row), "{id}.{row} occurs twice");
            assert!(![text, place].iter().any(|cell| cell.is_empty() || cell.contains('|')), "{id}.{row}");
            assert!(status != "met" || place.contains('`'), "{id}.{row} does not say where it is met");
        }
    }
}

#[test]
fn everything_that_the_table_names_exists() {
    const MADE_UP: [&str; 2] = ["Telemetry::fly", "spans_fly_away"];
    let mut names = Vec::new();
    for Section { id, rows, .. } in sections() {
        for [row, text, _, place] in rows {
            let of_row = quoted(&text).chain(quoted(&place));
            names.extend(of_row.map(|name| (format!("{id}.{row}"), name.to_owned())));
        }
    }
    let wanted = Wanted::new(names.iter().map(|(_, name)| name.as_str()).chain(MADE_UP));
    let (src, tests) = (texts("src", &wanted), texts("tests", &wanted));
    let missing = names.iter().filter(|(_, name)| !exists(name, &src, &tests));
    let missing: Vec<_> = missing.map(|(row, name)| format!("{row}: {name}")).collect();
    assert!(missing.is_empty(), "not in the source:\n{}", missing.join("\n"));
    assert!(!MADE_UP.iter().any(|name| exists(name, &src, &tests)));
}
