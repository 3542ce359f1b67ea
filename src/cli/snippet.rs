//! Quotes the line that has a problem, but not its secrets, and returns the column of the caret below the line.
//!
//! The quotation is an allow-list: a value is shown only if its key is known to be harmless, or if the value is short
//! and of a harmless form. All other values are replaced with `***`, because a line with a mistake cannot be parsed
//! reliably.

use std::path::Path;

use standpipe::config::Setting;

const MASK: &str = "***";
/// Maximum length of a header name that is shown. A longer word may be a token.
const MAX_NAME: usize = 40;
/// Minimum length of a word that may be a token.
const MIN_TOKEN: usize = 24;
/// Maximum characters of a quoted line.
const MAX_LINE: usize = 160;

/// Syntax of a configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Syntax {
    /// `key = value`
    #[default]
    Toml,
    /// `key: value`
    Yaml,
}

impl Syntax {
    /// Returns the syntax for the extension of a file name, as the library does.
    pub(crate) fn of(file: &Path) -> Self {
        let ending = file.extension().unwrap_or_default();
        let is_yaml = ["yaml", "yml"].iter().any(|yaml| ending.eq_ignore_ascii_case(yaml));
        if is_yaml { Self::Yaml } else { Self::Toml }
    }

    /// Guesses the syntax from the first line that is neither empty nor a comment.
    pub(crate) fn guess(text: &str) -> Self {
        let is_blank = |line: &&str| line.is_empty() || line.starts_with('#');
        let first = text.lines().map(str::trim).find(|line| !is_blank(line)).unwrap_or_default();
        if first.starts_with('[') || toml_entry(first).is_some() { Self::Toml } else { Self::Yaml }
    }

    /// Returns a line of `text` without secrets, and the column of the caret, counted from 0.
    ///
    /// `place` is the line and column of the problem, counted from 1. Returns `None` if the line does not exist. With
    /// `in_headers`, every value is masked.
    pub(crate) fn quote(
        self,
        text: &str,
        place: (usize, usize),
        in_headers: bool,
    ) -> Option<(String, usize)> {
        let (line, column) = place;
        // Some editors write a byte order mark at the beginning of a file.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let original = text.lines().nth(line.checked_sub(1)?)?;
        let shown = match self {
            Self::Toml if is_inside_a_text(text, line) => MASK.to_owned(),
            _ => without_secrets(original, self, in_headers),
        };
        let shown: String = shown.replace('\t', " ").chars().take(MAX_LINE).collect();
        // The caret must not point into a masked value.
        let end = shown.strip_suffix(MASK).unwrap_or(&shown).chars().count();
        Some((shown, column.saturating_sub(1).min(end)))
    }
}

/// Returns the line without its comment, and with `***` in place of every value that may be a secret.
fn without_secrets(line: &str, syntax: Syntax, is_among_headers: bool) -> String {
    let code = line.split(" #").next().unwrap_or_default().trim_end();
    let (has_no_value, entry) = match syntax {
        // A table such as `[tracer.otel]` has no value. Among headers, text in brackets may be a value.
        Syntax::Toml => (!is_among_headers && is_header_of_table(code), toml_entry(code)),
        // A key such as `exporters:`, whose entries are on the next lines, has no value.
        Syntax::Yaml => (code.ends_with(':') && is_key(code), yaml_entry(code)),
    };
    if has_no_value {
        return code.to_owned();
    }
    let shows = |key: &str, value: &str| {
        let name = name_of(key);
        !is_among_headers && is_key(key) && Setting::is_harmless(name, unquoted(value))
    };
    let is_name = if is_among_headers { is_header } else { is_key };
    match entry {
        Some((key, value)) if shows(key, value) => code.to_owned(),
        Some((key, value)) if is_name(key) && is_begun(value) => format!("{key} {MASK}"),
        _ if line.trim().is_empty() => String::new(),
        // The line continues a list or a string, or is not an entry.
        _ => format!("{}{MASK}", &line[..line.len() - line.trim_start().len()]),
    }
}

/// Returns whether a multi-line string begins above this line and does not end above it.
fn is_inside_a_text(text: &str, line: usize) -> bool {
    let above: usize = text.split_inclusive('\n').take(line - 1).map(str::len).sum();
    let mut rest = &text[..above];
    while let Some(at) = ["\"\"\"", "'''"].iter().filter_map(|quotes| rest.find(quotes)).min() {
        let (quotes, inside) = rest[at..].split_at(3);
        match inside.find(quotes) {
            Some(end) => rest = &inside[end + 3..],
            None => return true,
        }
    }
    false
}

/// Returns whether the line is `[table]` or `[[table]]`, the name may be shown, and the table is not below `headers`.
fn is_header_of_table(line: &str) -> bool {
    let name = line.trim().trim_start_matches('[').trim_end_matches(']');
    // A line such as `["name"]` is refused, because it may be an element of an array that began above.
    line.trim().starts_with('[') && is_key(name) && !name.contains(['"', '\'']) && !name.contains(".headers.")
}

/// Splits a line of TOML after the first `=`, the separator between its key and its value.
fn toml_entry(line: &str) -> Option<(&str, &str)> {
    line.find('=').map(|at| line.split_at(at + 1))
}

/// Splits a line of YAML after the `:` between its key and its value. A space or the end of the line follows such a
/// colon.
fn yaml_entry(line: &str) -> Option<(&str, &str)> {
    let is_end = |at: &usize| line[at + 1..].chars().next().is_none_or(char::is_whitespace);
    let at = line.match_indices(':').map(|(at, _)| at).find(is_end)?;
    Some(line.split_at(at + 1))
}

/// Returns whether this is the name of a key, and not a part of a token.
fn is_key(key: &str) -> bool {
    let name = name_of(key);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !name.is_empty() && name.chars().all(is_plain) && !name.split('.').any(is_token)
}

/// Returns whether this is the name of a header. The rules are stricter than those of [`is_key`], because a header line
/// may begin with a secret.
fn is_header(key: &str) -> bool {
    let name = name_of(key).rsplit("headers.").next().unwrap_or_default();
    is_key(key) && name.len() <= MAX_NAME && !name.contains(|c: char| c.is_ascii_digit())
}

/// Returns whether a word looks like a token: long, with upper-case letters, lower-case letters and digits.
fn is_token(name: &str) -> bool {
    let kinds = [char::is_ascii_lowercase, char::is_ascii_uppercase, char::is_ascii_digit];
    name.len() >= MIN_TOKEN && kinds.iter().all(|kind| name.chars().any(|c| kind(&c)))
}

/// Returns a key without its separator, its quotes and the dash of a list item.
fn name_of(key: &str) -> &str {
    let key = key.trim().trim_end_matches(['=', ':']);
    unquoted(key.strip_prefix("- ").unwrap_or(key))
}

fn unquoted(key: &str) -> &str {
    let key = key.trim();
    let inside = |quote| key.strip_prefix(quote)?.strip_suffix(quote);
    inside('"').or_else(|| inside('\'')).unwrap_or(key)
}

/// Returns whether the text after a separator is a value. Otherwise the separator may be the padding (`=`) of a base64
/// token.
fn is_begun(value: &str) -> bool {
    let value = value.trim_start();
    !value.is_empty() && !value.starts_with('=')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str) -> String {
        Syntax::Toml.quote(line, (1, 1), false).expect("it has one line").0
    }

    fn shown_in_yaml(line: &str) -> String {
        Syntax::Yaml.quote(line, (1, 1), false).expect("it has one line").0
    }

    #[test]
    fn the_caret_stands_under_the_column() {
        let text = "[tracer.otel]\n  timeout = \"0s\"\n";
        let snippet = Syntax::Toml.quote(text, (2, 13), false).expect("there is a second line");
        assert_eq!(snippet, ("  timeout = \"0s\"".to_owned(), 12));
        assert_eq!(Syntax::Toml.quote(text, (9, 1), false), None);
        assert_eq!(Syntax::Toml.quote(text, (0, 1), false), None);
    }

    #[test]
    fn a_caret_within_a_masked_value_stands_at_its_beginning() {
        let text = "headers = [\"Authorization: Bearer hunter2\", \"hunter2\"]";
        let snippet = Syntax::Toml.quote(text, (1, 45), false).expect("a line");
        assert_eq!(snippet, ("headers = ***".to_owned(), 10));
    }

    #[test]
    fn the_mark_of_some_editors_is_no_part_of_the_first_line() {
        let snippet = Syntax::Toml.quote("\u{feff}level = 1", (1, 9), false).expect("a line");
        assert_eq!(snippet, ("level = 1".to_owned(), 8));
    }

    #[test]
    fn a_caret_behind_the_line_stays_at_its_end() {
        assert_eq!(Syntax::Toml.quote("lossy =", (1, 500), false).expect("a line").1, 7);
    }

    #[test]
    fn harmless_values_are_shown_as_written() {
        for line in [
            "[tracer.otel]",
            "[metrics.open-telemetry]",
            "interval = '0s'",
            "timeout = '0s'",
            "\"queue-records\" = 0",
            "endpoint = \"http://localhost\"",
        ] {
            assert_eq!(shown(line), line);
            assert_eq!(shown(&format!("{line}  # why")), line);
        }
    }

    #[test]
    fn harmless_yaml_is_shown_without_its_comments() {
        for (line, expected) in [
            ("telemetry:", "telemetry:"),
            ("    colector: # mine", "    colector:"),
            ("      sampling: 100 # 100%", "      sampling: 100"),
            ("          endpoint: otel-collector:4317", "          endpoint: otel-collector:4317"),
            ("- type: collector", "- type: collector"),
            ("\"serviceName\": tracetest", "\"serviceName\": tracetest"),
            ("    applicationExporter: colector", "    applicationExporter: colector"),
            ("      samplin: 100", "      samplin: 100"),
            (
                "      endpont: https://collector.example:4317",
                "      endpont: https://collector.example:4317",
            ),
        ] {
            assert_eq!(shown_in_yaml(line), expected);
        }
    }

    #[test]
    fn a_file_is_quoted_as_it_is_read() {
        for (file, syntax) in [
            ("a.toml", Syntax::Toml),
            ("a.yaml", Syntax::Yaml),
            ("a.YML", Syntax::Yaml),
            ("yaml", Syntax::Toml),
            ("a.conf", Syntax::Toml),
        ] {
            assert_eq!(Syntax::of(file.as_ref()), syntax, "{file}");
        }
    }

    #[test]
    fn no_secret_of_a_yaml_file_is_shown() {
        for line in [
            "headers: \"Authorization: Bearer hunter2\"",
            "  - \"Authorization: Bearer hunter2\"",
            "  - 'endpoint: hunter2'",
            "  Authorization: Bearer hunter2",
            "  - Authorization: Bearer hunter2",
            "  \"Authorization\": hunter2",
            "  Bearer hunter2:",
            "  hunter2",
            "  hunter2:more",
            "  [hunter2]",
            "  {hunter2}",
            "  endpoint: http://me:hunter2@localhost",
            "  endpoint: http://localhost headers: hunter2",
            "  level: \"loud\" authorization: hunter2",
            "  lossy: yes\r    headers: hunter2",
            "  endpoint: http://localhost/?key=hunter2",
            "  collector: {endpoint: hunter2}",
            "  sampling: 100 # hunter2",
            "  sampling: 100 #hunter2",
            "# hunter2",
            "  # hunter2",
        ] {
            assert!(!shown_in_yaml(line).contains("hunter2"), "{line} is shown as {}", shown_in_yaml(line));
        }
    }

    #[test]
    fn no_secret_is_shown_however_it_is_written() {
        let lines = [
            "headers = [\"Authorization: Bearer hunter2\"]",
            "heders = [\"Authorization: Bearer hunter2\"]",
            "  \"Authorization: Bearer hunter2\",",
            "Authorization = \"Bearer hunter2\"",
            "headers.Authorization = \"hunter2\"",
            "otel = { timeout = \"1s\", headers = [\"Authorization: hunter2\"] }",
            "timeout = \"1s\", headers = [\"Authorization: hunter2\"]",
            "timeout = \"1s\" # was hunter2",
            "endpoint = \"http://me:hunter2@localhost\"",
            "endpoint = \"http://localhost/?key=hunter2\"",
            "timeout = [ \"1s\", \"hunter2\" ]",
            "hunter2",
            "hunter2=",
            "hunter2==",
            "  \"Basic hunter2==\",",
            "  \"hunter2==\",",
            "  'Authorization: hunter2=',",
            "[\"hunter2\"]",
            "# hunter2",
        ];
        for line in lines {
            assert!(!shown(line).contains("hunter2"), "{line} is shown as {}", shown(line));
        }
    }

    #[test]
    fn no_line_of_a_text_that_takes_several_is_shown() {
        let text = "a = \"\"\"\ntype = hunter2\n\"\"\"\ntype = 'x'\nb = '''x'''\nc = '''\ntype = hunter2";
        for (line, expected) in [(2, MASK), (4, "type = 'x'"), (5, "b = ***"), (7, MASK)] {
            assert_eq!(Syntax::Toml.quote(text, (line, 1), false).expect("a line").0, expected, "{line}");
        }
        for line in [
            "ca-file = \"\"\"-----BEGIN hunter2",
            "ca-file = '-----BEGIN PRIVATE KEY-----hunter2'",
            "ca-file = \"a\\nhunter2\"",
            &format!("ca-file = '{}hunter2'", "x".repeat(60)),
        ] {
            assert_eq!(shown(line), "ca-file = ***");
        }
    }

    #[test]
    fn a_token_in_the_place_of_a_key_is_not_shown() {
        assert_eq!(shown("c2VjcmV0LXRva2VuLWh1bnRlcjI = 1"), MASK);
        let of_headers = |line: &str| Syntax::Toml.quote(line, (1, 1), true).expect("a line").0;
        assert_eq!(of_headers("eyJhbGciOiJIUzI1NiJ9 = 1"), MASK);
        assert_eq!(of_headers("headers.X-Tenant = 1"), "headers.X-Tenant = ***");
    }

    #[test]
    fn an_unknown_key_keeps_its_name() {
        assert_eq!(shown("endpont = \"http://localhost/hunter\""), "endpont = ***");
        assert_eq!(shown("'tracer.otel.heders' = 'Hunter'"), "'tracer.otel.heders' = ***");
        assert_eq!(shown("lossy ="), "lossy =");
    }

    #[test]
    fn masks_value_of_unknown_key_only_if_it_may_be_secret() {
        for line in [
            "endpont = \"http://localhost:4318\"",
            "color = 'blue'",
            "losy = true",
            "timout = '5 s'",
            "queue_records = 100",
            "queue-byte = '16 MiB'",
        ] {
            assert_eq!(shown(line), line);
        }
        for (line, masked) in [
            ("api-key = 'abc'", "api-key = ***"),
            ("Password = 1234", "Password = ***"),
            ("x-tenant = 'abc'", "x-tenant = ***"),
            ("color = 'hunter2'", "color = ***"),
            ("color = 'Hunter'", "color = ***"),
            ("color = 'correct-horse-battery'", "color = ***"),
            ("color = 4929123412341234", "color = ***"),
            ("color = 'https://a.example/hunter'", "color = ***"),
            ("color = ['hunter']", "color = ***"),
        ] {
            assert_eq!(shown(line), masked);
        }
    }

    #[test]
    fn an_endless_line_is_cut() {
        assert!(shown(&format!("timeout = \"{}\"", "1".repeat(1 << 20))).len() <= MAX_LINE);
    }
}
