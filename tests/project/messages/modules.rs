//! The chapter `messages` explains every error and warning of the command, the probe, the receiver and the C interface.
//!
//! Every text in the code of these modules counts as a message, with two exceptions: the texts in attributes, which are
//! help texts, and the texts in `other_texts.txt`. That file lists output and advice word for word, so a new or changed
//! text is never excepted by accident. In an expression that makes an error, only names may be excepted.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::Path;

use super::{CHAPTER, character_length, library, normalized, quoted, rows, string_length};

/// Modules, and their sections of the chapter.
const MODULES: [(&str, &str); 4] = [
    ("cli", "# Errors of the command"),
    ("probe", "# Results of a probe"),
    ("receiver", "# Refusals of the receiver"),
    ("ffi", "# Errors of the C interface"),
];
/// Texts that are not messages: lines `[file]`, each followed by the texts of that file.
const OTHER_TEXTS: &str = include_str!("other_texts.txt");
/// Beginnings of expressions that make an error or a warning.
const MAKERS: [&str; 20] = [
    "Err(",
    "Failure::Message(",
    "Failure::Usage(",
    "Fault::protocol(",
    "Ink::BAD, ",
    "Ink::WARNING, ",
    "JsonError(",
    "Refusal::new(",
    "Refusal::unless(",
    "Refusal::undecodable(",
    "Response::failed(",
    "complaints.push(",
    "eprintln!(",
    "invalid(",
    "io::Error::new(",
    "map_err(",
    "ok_or(",
    "ok_or_else(",
    "panic!(",
    "report_error(",
];
/// Texts with fewer words are messages only where an error is made.
const MIN_WORDS: usize = 2;
/// Maximum number of words of a listed text in an expression that makes an error. This limit admits only names.
const MAX_NAME_WORDS: usize = 3;

/// A string of the source.
struct Text {
    text: String,
    /// Whether the string is in an expression that makes an error.
    is_error: bool,
}

impl Text {
    fn words(&self) -> usize {
        let is_word = |word: &&str| word.chars().filter(char::is_ascii_alphabetic).count() >= 2;
        self.text.split([' ', '\n']).filter(is_word).count()
    }

    /// Returns whether the text may be a message.
    fn is_candidate(&self) -> bool {
        self.words() >= if self.is_error { 1 } else { MIN_WORDS }
    }
}

/// Returns the length of the brackets with which the code begins, including their content.
fn brackets_length(code: &str) -> usize {
    let (mut at, mut depth) = (0, 0);
    while at < code.len() {
        let rest = &code[at..];
        let first = rest.chars().next().expect("it is not the end");
        match first {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        at += match first {
            '"' => string_length(rest),
            '\'' => character_length(rest),
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            _ => first.len_utf8(),
        };
        if depth == 0 {
            return at;
        }
    }
    code.len()
}

/// Returns the ranges in which errors are made.
fn error_ranges(code: &str) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    for maker in MAKERS {
        for (at, _) in code.match_indices(maker) {
            // A maker that does not end with a parenthesis, such as `Ink::BAD, `, is itself an argument of a call. Then
            // the range covers all arguments of this call.
            let open = match maker.strip_suffix('(') {
                Some(name) => at + name.len(),
                None => code[..at].rfind('(').unwrap_or(at),
            };
            ranges.push(open..open + brackets_length(&code[open..]));
        }
    }
    ranges
}

/// Returns the ranges of the first and of the second argument of each `Problem::new`: the error, and the advice.
fn problem_ranges(code: &str) -> (Vec<Range<usize>>, Vec<Range<usize>>) {
    let problems = code.match_indices("Problem::new(").map(|(at, maker)| at + maker.len());
    let arguments = problems.filter_map(|first| {
        let end = first - 1 + brackets_length(&code[first - 1..]);
        let mut at = first;
        while at < end {
            match code[at..].chars().next()? {
                ',' => return Some((first..at, at..end)),
                '"' => at += string_length(&code[at..]),
                '(' | '[' | '{' => at += brackets_length(&code[at..]),
                other => at += other.len_utf8(),
            }
        }
        None
    });
    arguments.unzip()
}

/// Returns all strings of the code, except those in attributes and in comments.
fn texts(code: &str) -> Vec<Text> {
    let code = code.split("mod tests {").next().unwrap_or_default();
    let (problems, advice) = problem_ranges(code);
    let errors = [error_ranges(code), problems].concat();
    let (mut texts, mut at) = (Vec::new(), 0);
    while at < code.len() {
        let rest = &code[at..];
        at += match rest.chars().next().expect("it is not the end") {
            '#' if rest.starts_with("#[") || rest.starts_with("#![") => {
                let open = rest.find('[').expect("it is there");
                open + brackets_length(&rest[open..])
            }
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '\'' => character_length(rest),
            '"' => {
                let length = string_length(rest);
                let lines = rest[1..length - 1].split("\\\n");
                let text: String =
                    lines.enumerate().map(|(i, l)| if i > 0 { l.trim_start() } else { l }).collect();
                let is_in = |ranges: &[Range<usize>]| ranges.iter().any(|range| range.contains(&at));
                let is_error = is_in(&errors) && !is_in(&advice);
                texts.push(Text { text: normalized(&text), is_error });
                length
            }
            other => other.len_utf8(),
        };
    }
    texts.retain(Text::is_candidate);
    texts
}

/// Returns the texts of all files of a module, by file.
fn texts_of_module(module: &str) -> BTreeMap<String, Vec<Text>> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut waiting, mut found) = (vec![src.join(module)], BTreeMap::new());
    while let Some(path) = waiting.pop() {
        if path.is_dir() {
            waiting.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let name = path.strip_prefix(&src).unwrap().to_string_lossy().replace('\\', "/");
        if name.ends_with(".rs") && !name.ends_with("tests.rs") && !name.contains("/tests/") {
            found.insert(name, texts(&fs::read_to_string(path).unwrap()));
        }
    }
    found
}

/// Returns the listed texts that are not messages, by file.
fn other_texts() -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    let (mut texts, mut file) = (BTreeMap::new(), "");
    for line in OTHER_TEXTS.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.strip_prefix('[').and_then(|line| line.strip_suffix(".rs]")) {
            Some(_) => file = &line[1..line.len() - 1],
            None => {
                let is_new = texts.entry(file).or_insert_with(BTreeSet::new).insert(line);
                assert!(is_new, "{file}: listed twice: {line}");
            }
        }
    }
    texts
}

fn trimmed(text: &str) -> &str {
    text.trim_matches([' ', ':', ';', ','])
}

/// Returns a message without the advice that follows it.
fn without_advice(text: &str) -> &str {
    trimmed(text.split("; ").next().unwrap_or_default())
}

/// Returns a section of the chapter, up to the next one.
fn section(title: &str) -> &'static str {
    let (_, rest) = CHAPTER.split_once(&format!("\n{title}\n")).expect(title);
    rest.split("\n# ").next().unwrap_or_default()
}

/// Returns the messages of a part of the chapter.
fn explained(part: &str) -> Vec<String> {
    let cells = rows(part, 3).chain(rows(part, 4).map(|row| row[1..].to_vec()));
    cells
        .flat_map(|row| {
            quoted(&row[0]).map(|quote| trimmed(&normalized(quote)).to_owned()).collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn every_error_and_warning_of_each_module_is_explained() {
    let explained: BTreeSet<String> = explained(CHAPTER).into_iter().collect();
    let other_texts = other_texts();
    let mut missing = Vec::new();
    for (module, _) in MODULES {
        for (file, texts) in texts_of_module(module) {
            let others = other_texts.get(file.as_str());
            for text in texts {
                let line = text.text.trim();
                let is_other = others.is_some_and(|others| others.contains(line));
                let is_name = text.words() <= MAX_NAME_WORDS;
                assert!(
                    !is_other || !text.is_error || is_name,
                    "{file}: an error, but listed as another text: {line}"
                );
                let is_known = [trimmed(line), without_advice(line)].iter().any(|it| explained.contains(*it));
                if !is_other && !is_known {
                    missing.push(format!("[{file}]{} {line}", if text.is_error { " (error)" } else { "" }));
                }
            }
        }
    }
    assert!(missing.is_empty(), "messages.md does not explain:\n{}", missing.join("\n"));
}

#[test]
fn every_message_of_a_section_is_one_of_its_module_and_is_explained_once() {
    let mut seen: BTreeSet<String> = explained(library()).into_iter().collect();
    let mut twice = Vec::new();
    for (module, title) in MODULES {
        let texts: Vec<String> =
            texts_of_module(module).into_values().flatten().map(|Text { text, .. }| text).collect();
        let messages = explained(section(title));
        assert!(!messages.is_empty(), "{title}");
        for message in messages {
            let is_one = |text: &String| trimmed(text) == message || without_advice(text) == message;
            assert!(texts.iter().any(is_one), "{title}: not in src/{module}: {message}");
            if !seen.insert(message.clone()) {
                twice.push(message);
            }
        }
    }
    assert!(twice.is_empty(), "explained twice: {twice:#?}");
}

#[test]
fn every_other_text_is_in_its_file() {
    let texts: BTreeMap<_, _> = MODULES.into_iter().flat_map(|(module, _)| texts_of_module(module)).collect();
    for (file, listed) in other_texts() {
        let of_file = texts.get(file).unwrap_or_else(|| panic!("there is no src/{file}"));
        for text in listed {
            assert!(of_file.iter().any(|found| found.text.trim() == text), "{file}: {text}");
        }
    }
}
