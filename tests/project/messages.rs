//! The chapter `messages` of the guide explains every problem and every diagnostic, and nothing else.
//!
//! The chapter is compared with the text of the source: in both, `…` takes the place of each part of a message that varies.

use std::fs;
use std::path::{Path, PathBuf};

const CHAPTER: &str = include_str!("../../src/guide/messages.md");
/// Folders and files whose code writes messages.
const SOURCES: [&str; 7] =
    ["config", "metrics", "pipeline", "spool", "transport", "telemetry.rs", "problem.rs"];
/// Shorter parts of a message prove nothing.
const MIN_PART: usize = 5;

/// Returns the code of a file or folder without tests and comments. Strings that continue in the next line are joined.
fn code(name: &str) -> String {
    let mut waiting = vec![PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src")).join(name)];
    let mut code = String::new();
    while let Some(path) = waiting.pop() {
        if path.is_dir() {
            waiting.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else if is_code(&path) {
            let text = fs::read_to_string(path).unwrap();
            let text = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap();
            text.lines().filter(|line| !line.trim_start().starts_with("//")).for_each(|line| {
                code += line;
                code += "\n";
            });
        }
    }
    let lines: Vec<&str> = code.split("\\\n").collect();
    lines[0].to_owned() + &lines[1..].iter().map(|line| line.trim_start()).collect::<String>()
}

fn is_code(path: &Path) -> bool {
    let is_test = path.to_string_lossy().contains("/simulation/") || path.ends_with("tests.rs");
    path.extension().is_some_and(|extension| extension == "rs") && !is_test
}

/// Writes placeholders as `…`, and quotes without their backslashes.
fn normalized(code: &str) -> String {
    let mut text = String::new();
    for (index, part) in code.replace("\\\"", "\"").split('{').enumerate() {
        let is_placeholder = |name: &str| name.len() < 40 && !name.contains(['\n', ' ', '{']);
        match part.split_once('}').filter(|(name, _)| index > 0 && is_placeholder(name)) {
            Some((_, rest)) => text += &format!("…{rest}"),
            None if index == 0 => text += part,
            None => text += &format!("{{{part}"),
        }
    }
    text
}

/// Returns the string with which the code begins, perhaps in `format!`.
fn literal(code: &str) -> Option<String> {
    let code = code.trim_start().trim_start_matches("format!(").trim_start().strip_prefix('"')?;
    let is_end = |(at, _): &(usize, &str)| !code[..*at].ends_with('\\');
    let end = code.match_indices('"').find(is_end)?.0;
    Some(normalized(&code[..end]))
}

/// Returns the rows of all tables with this number of columns.
fn rows(columns: usize) -> impl Iterator<Item = Vec<String>> {
    let cells = |line: &str| {
        let line = line.replace("\\|", "\u{1}");
        let line = line.trim_matches(['|', ' ']);
        line.split('|').map(|cell| cell.trim().replace('\u{1}', "|")).collect()
    };
    let rows = CHAPTER.lines().filter(|line| line.starts_with("| ")).map(cells);
    rows.filter(move |row: &Vec<String>| row.len() == columns)
}

/// Returns the texts between backticks.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// Returns kind and message of the problems, from rows of kind, message, meaning and what to do.
fn problems() -> Vec<(String, String)> {
    rows(4).map(|row| (row[0].trim_matches('`').to_owned(), row[1].clone())).collect()
}

/// Returns the messages of the diagnostics, from rows of message, meaning and what to do.
fn diagnostics() -> Vec<String> {
    rows(3).map(|row| row[0].clone()).collect()
}

#[test]
fn every_kind_of_problem_is_explained_as_often_as_the_code_reports_it() {
    let kinds = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/src/problem.rs")).unwrap();
    let kinds = kinds.split_once("pub enum ProblemKind {").unwrap().1.split_once("\n}").unwrap().0.to_owned();
    let kinds: Vec<&str> =
        kinds.lines().filter_map(|line| line.strip_prefix("    ")?.strip_suffix(',')).collect();
    assert!(kinds.len() >= 15, "{kinds:?}");
    let code: String = ["metrics", "pipeline", "telemetry.rs"].map(code).concat();
    let problems = problems();
    for kind in kinds {
        let explained = problems.iter().filter(|(explained, _)| explained == kind).count();
        let reported = code.matches(&format!("ProblemKind::{kind}")).count();
        assert!(reported > 0, "{kind} is never reported");
        assert!(explained >= reported, "{kind}: {reported} reports, {explained} rows in messages.md");
    }
}

#[test]
fn every_message_in_the_chapter_is_one_of_the_source() {
    let code = normalized(&SOURCES.map(code).concat());
    let cells = problems().into_iter().map(|(_, message)| message).chain(diagnostics());
    let (mut count, mut missing) = (0, Vec::new());
    for cell in cells {
        for part in quoted(&normalized(&cell)).flat_map(|message| message.split('…')) {
            let part = part.trim_matches([' ', ':', ';', ',']);
            count += 1;
            if part.len() >= MIN_PART && !code.contains(part) {
                missing.push(part.to_owned());
            }
        }
    }
    assert!(missing.is_empty(), "in messages.md, not in the source: {missing:#?}");
    assert!(count > 200, "{count}");
}

#[test]
fn every_diagnostic_of_the_configuration_is_in_the_chapter() {
    let starts = ["Fault::new(", "Fault::err(", "let what =", "report.note(at, path, "];
    assert_explains(&diagnostics(), "config", &starts, 100);
}

#[test]
fn every_note_of_a_spool_is_in_the_chapter() {
    let messages: Vec<String> = problems().into_iter().map(|(_, message)| message).collect();
    assert_explains(&messages, "spool", &["Note::new(", "message: ", "let what ="], 8);
}

/// Asserts that the cells contain every string that follows one of these starts in the code, of which there are many.
fn assert_explains(cells: &[String], folder: &str, starts: &[&str], min_messages: usize) {
    let cells: Vec<String> = cells.iter().map(|cell| normalized(cell)).collect();
    let explained: Vec<&str> = cells.iter().flat_map(|cell| quoted(cell)).collect();
    let code = code(folder);
    let rests = starts.iter().flat_map(|start| code.split(start).skip(1));
    let messages: Vec<String> = rests.filter_map(literal).collect();
    assert!(messages.len() >= min_messages, "{}", messages.len());
    let is_missing = |message: &&String| {
        let parts = message.split('…').map(|part| part.trim_matches([' ', ':', ';']));
        let parts: Vec<&str> = parts.filter(|part| part.len() >= MIN_PART).collect();
        // A message may be longer than its beginning in the chapter.
        let has = |explained: &str, part: &str| {
            explained.contains(part)
                || explained.split('…').any(|shown| shown.len() > 30 && part.starts_with(shown.trim()))
        };
        !explained.iter().any(|explained| parts.iter().all(|part| has(explained, part)))
    };
    let missing: Vec<&String> = messages.iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "messages.md does not explain {missing:#?}");
}
