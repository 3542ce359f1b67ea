//! The chapter `messages` of the guide explains every problem and every diagnostic, and nothing else.
//!
//! The chapter is compared with the text of the source: in both, `…` takes the place of each part of a message that
//! varies.

mod modules;

use std::fs;
use std::path::{Path, PathBuf};

const CHAPTER: &str = include_str!("../../src/guide/messages.md");
/// Folders and files whose code writes messages.
const SOURCES: [&str; 10] = [
    "config",
    "context/w3c.rs",
    "metrics",
    "pipeline",
    "problem.rs",
    "record/id.rs",
    "spool",
    "telemetry.rs",
    "telemetry/global.rs",
    "transport",
];
/// Minimum length of the parts of a message that are searched. Shorter parts are in many texts.
const MIN_PART: usize = 5;
/// Texts with fewer words are messages only where a diagnostic is made.
const MIN_WORDS: usize = 3;
/// First words of advice. Advice follows a message after a semicolon. The chapter does not repeat advice.
const ADVICE: &str = "add begin build close configure describe did encode end for give indent leave name percent-encode put \
                      quote raise remove rename save select send set write";
/// Beginnings of texts that are not messages: names, words to search for, parts of messages, advice, and assertions.
const NO_MESSAGES: [&str; 62] = [
    "it is already set in line …",
    "service-name service.name servicename",
    "sampler sampling sample-rate",
    "url address host server",
    "insecure tls ssl",
    "the scheme of endpoint decides: write http:// or https://",
    "ca certificate ca-cert",
    "enable.logs enable.log logs",
    "enable.spans enable.traces",
    "passw pwd secret",
    "auth key pass",
    "a URL with user info",
    "… (… characters)",
    "a text of several lines",
    "is this a TOML file?",
    "string values must be quoted",
    "gRPC has none: write \"http://localhost:4318\"",
    "names are letters, digits and -",
    "a whole number",
    "headers, endpoint and user-agent",
    "a request can carry … KiB of them",
    "the most the queue can count",
    "the most a queue may hold on a 32-bit machine",
    "the most a request may hold",
    "the most a metric may have",
    "the most a spool may hold",
    "the most a response may hold",
    "the most a file may hold",
    "the most files that are kept",
    "a value is set by the kind that has read it",
    "… bytes of PEM",
    "standpipe init writes a file to begin with",
    "Adds to the sum",
    "Adds a value",
    "Sets the value",
    "Records a value",
    "NaN or infinite",
    "values of one array have one type",
    "a counter of floats",
    "an up-down counter",
    "a gauge of integers",
    "a histogram of integers",
    "with a callback",
    "correct the endpoint or switch … off for this exporter",
    "the caller checks it",
    ", and an unknown number of records in … bytes",
    "… (… so far)",
    "kept because it is damaged",
    "exporter \"…\" of service \"…\"",
    "an unknown number of records is",
    "1 record is",
    "an unknown number of queued records is lost",
    "the pool has as many slots as the file",
    "the pool has as many places as the file",
    "it is a word of the first page",
    "CONNECT …",
    "OK CANCELLED UNKNOWN",
    "the request for the proxy does not begin with its method",
    "the head of the request is too long",
    "the application's name in the program, serviceName in the file",
    "the service's name in the program, service-name in [telemetry] of the file",
    "nothing in this program asks for gRPC",
];

/// Returns the code of a file or folder without tests and comments. Strings that continue in the next line are joined.
fn code(name: &str) -> String {
    let mut waiting = vec![PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src")).join(name)];
    let mut code = String::new();
    while let Some(path) = waiting.pop() {
        if path.is_dir() {
            waiting.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else if is_code(&path) {
            let text = fs::read_to_string(path).unwrap();
            let text = text.split("mod tests {").next().unwrap();
            text.lines().filter(|line| !line.trim_start().starts_with("//")).for_each(|line| {
                code += line;
                code += "\n";
            });
        }
    }
    let lines: Vec<&str> = code.split("\\\n").collect();
    lines[0].to_owned() + &lines[1..].iter().map(|line| line.trim_start()).collect::<String>()
}

/// Returns whether a file may contain messages. The ledger and its metrics have texts, but no messages.
fn is_code(path: &Path) -> bool {
    let path = path.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap();
    let has_messages = |part: &str| !["simulation", "tests", "ledger", "self_observation"].contains(&part);
    path.extension().is_some_and(|extension| extension == "rs")
        && path.with_extension("").iter().all(|part| part.to_str().is_some_and(has_messages))
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

/// Returns the length of the string with which the code begins, including its quotes.
fn string_length(code: &str) -> usize {
    let mut is_escaped = false;
    let end = code.char_indices().skip(1).find(|(_, character)| {
        let is_end = *character == '"' && !is_escaped;
        is_escaped = *character == '\\' && !is_escaped;
        is_end
    });
    end.map_or(code.len(), |(at, _)| at + 1)
}

/// Returns the length of the character with which the code begins, including its quotes; 1 for a lifetime.
fn character_length(code: &str) -> usize {
    match code.strip_prefix("'\\") {
        Some(rest) => 2 + rest.char_indices().skip(1).find(|(_, c)| *c == '\'').map_or(0, |(at, _)| at + 1),
        None => code.char_indices().nth(2).filter(|(_, c)| *c == '\'').map_or(1, |(at, _)| at + 1),
    }
}

/// Returns all strings of the code, except reasons of attributes and of `expect`.
fn strings(code: &str) -> Vec<String> {
    let mut strings = Vec::new();
    let mut rest = code;
    while let Some(at) = rest.find(['"', '\'', '/']) {
        let (before, from) = rest.split_at(at);
        let length = match from.as_bytes()[0] {
            b'"' => string_length(from),
            b'\'' => character_length(from),
            _ if from.starts_with("//") => from.find('\n').unwrap_or(from.len()),
            _ => 1,
        };
        let is_reason = ["reason = ", "must_use = ", "label = ", "message = ", "expect("];
        if from.starts_with('"') && !is_reason.iter().any(|end| before.ends_with(end)) {
            strings.push(normalized(&from[1..length - 1]));
        }
        rest = &from[length..];
    }
    strings
}

/// Returns the part of the chapter that explains the messages of the library.
fn library() -> &'static str {
    CHAPTER.split("\n# Errors of the command\n").next().unwrap()
}

/// Returns the rows of all tables of a part that have this number of columns.
fn rows(part: &str, columns: usize) -> impl Iterator<Item = Vec<String>> {
    let cells = |line: &str| {
        let line = line.replace("\\|", "\u{1}");
        let line = line.trim_matches(['|', ' ']);
        line.split('|').map(|cell| cell.trim().replace('\u{1}', "|")).collect()
    };
    let rows = part.lines().filter(|line| line.starts_with("| ")).map(cells);
    rows.filter(move |row: &Vec<String>| row.len() == columns)
}

/// Returns the texts between backticks.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// Returns kind and message of the problems, from rows of kind, message, meaning and what to do.
fn problems() -> Vec<(String, String)> {
    rows(library(), 4).map(|row| (row[0].trim_matches('`').to_owned(), row[1].clone())).collect()
}

/// Returns the messages of the diagnostics, from rows of message, meaning and what to do.
fn diagnostics() -> Vec<String> {
    rows(library(), 3).map(|row| row[0].clone()).collect()
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
    // Only lines with a quote are searched for hundreds of parts: continued strings are one line.
    let code = SOURCES.map(code).concat();
    let code: Vec<&str> = code.lines().filter(|line| line.contains('"')).collect();
    let code = normalized(&code.join("\n"));
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
    let code = code("config");
    let starts = ["Fault::new(", "Fault::err(", "let what =", "report.note(at, path, "];
    let rests = starts.iter().flat_map(|start| code.split(start).skip(1));
    let messages: Vec<String> = rests.filter_map(literal).collect();
    assert!(messages.len() >= 100, "{}", messages.len());
    assert_explains(messages);
}

#[test]
fn every_text_of_the_source_is_in_the_chapter_unless_it_is_not_a_message() {
    let texts: Vec<String> = SOURCES.iter().flat_map(|source| strings(&code(source))).collect();
    let mut unused = NO_MESSAGES.to_vec();
    let is_message = |text: &String| {
        let known = NO_MESSAGES.iter().find(|known| text.trim().starts_with(**known));
        unused.retain(|unused| Some(unused) != known);
        let message = text.split("; ").next().unwrap();
        let mut words = message.split(' ').filter(|word| !word.is_empty()).peekable();
        let is_advice = words.peek().is_some_and(|first| ADVICE.split(' ').any(|word| word == *first));
        known.is_none() && !is_advice && words.count() >= MIN_WORDS
    };
    let messages: Vec<String> = texts.into_iter().filter(is_message).collect();
    assert!(messages.len() > 200, "{}", messages.len());
    assert_explains(messages);
    assert!(unused.is_empty(), "not in the source: {unused:#?}");
}

/// Asserts that the chapter explains all messages.
fn assert_explains(mut messages: Vec<String>) {
    let cells = problems().into_iter().map(|(_, message)| message).chain(diagnostics());
    let cells: Vec<String> = cells.map(|cell| normalized(&cell)).collect();
    let explained: Vec<&str> = cells.iter().flat_map(|cell| quoted(cell)).collect();
    messages.retain(|message| {
        let message = message.split("; ").next().unwrap();
        let parts = message.split('…').map(|part| part.trim_matches([' ', ':', ';', ',']));
        let parts: Vec<&str> = parts.filter(|part| part.len() >= MIN_PART).collect();
        // The chapter may contain only the beginning of a long part.
        let has = |explained: &str, part: &str| {
            explained.contains(part)
                || explained.split('…').any(|shown| shown.len() > 30 && part.starts_with(shown.trim()))
        };
        !explained.iter().any(|explained| parts.iter().all(|part| has(explained, part)))
    });
    assert!(messages.is_empty(), "messages.md does not explain {messages:#?}");
}
