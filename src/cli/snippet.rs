//! The line a problem is in, with a caret under the column, and nothing in it that is secret.

/// Keys whose values may be shown. Anything else could be a header or a misspelt one.
const HARMLESS: [&str; 29] = [
    "type",
    "enable",
    "enable.log-exporter",
    "enable.span-exporter",
    "transport",
    "endpoint",
    "level",
    "interval",
    "temporality",
    "histograms",
    "self-observation",
    "throttle",
    "lossy",
    "timeout",
    "block-timeout",
    "queue-records",
    "queue-bytes",
    "batch-records",
    "batch-bytes",
    "linger",
    "compression",
    "proxy",
    "give-up-after",
    "retry-first-delay",
    "retry-max-delay",
    "user-agent",
    "ca-file",
    "client-certificate-file",
    "client-key-file",
];

const MASK: &str = "***";
/// Longer lines are cut around the caret.
const LONGEST_LINE: usize = 160;

/// A line fit to be shown, and the cell of the caret, counted from 0.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Snippet {
    pub(crate) line: String,
    pub(crate) caret: usize,
}

impl Snippet {
    /// The place at `line` and `column` of `text`, both counted from 1; `None` if it has no such line.
    pub(crate) fn cut(text: &str, line: usize, column: usize) -> Option<Self> {
        let original = text.lines().nth(line.checked_sub(1)?)?;
        let shown = without_secrets(original).replace('\t', " ");
        let shown: String = shown.chars().take(LONGEST_LINE).collect();
        // What is masked has no columns of its own.
        let end = shown.strip_suffix(MASK).unwrap_or(&shown).chars().count();
        let caret = column.saturating_sub(1).min(end);
        Some(Self { line: shown, caret })
    }
}

/// The line with every value masked that is not known to be harmless.
fn without_secrets(line: &str) -> String {
    let trimmed = line.trim();
    let is_table = trimmed.starts_with('[') && !trimmed.contains(['"', '\'', '=', ',']);
    if is_table {
        return line.to_owned();
    }
    match line.split_once('=') {
        Some((key, value)) if HARMLESS.contains(&unquoted(key)) && is_one_value(value) => line.to_owned(),
        Some((key, value)) if is_key(key) && is_begun(value) => format!("{key}= {MASK}"),
        // The rest of a list, of a text, or of something that is no TOML at all.
        _ if trimmed.is_empty() => String::new(),
        _ => format!("{}{MASK}", &line[..line.len() - line.trim_start().len()]),
    }
}

fn unquoted(key: &str) -> &str {
    let key = key.trim();
    let inside = |quote| key.strip_prefix(quote)?.strip_suffix(quote);
    inside('"').or_else(|| inside('\'')).unwrap_or(key)
}

/// Whether this is the name of a key, and not the first half of a token.
fn is_key(key: &str) -> bool {
    let name = unquoted(key);
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

/// Whether a value follows, and not just the padding at the end of a token in base 64.
fn is_begun(value: &str) -> bool {
    let value = value.trim_start();
    !value.is_empty() && !value.starts_with('=')
}

/// Whether nothing else hides behind the value: no second key, no password in a URL, no comment, no expansion.
fn is_one_value(value: &str) -> bool {
    !value.contains(['=', '@', '#', '?', '{', ','])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str) -> String {
        Snippet::cut(line, 1, 1).expect("it has one line").line
    }

    #[test]
    fn the_caret_stands_under_the_column() {
        let text = "[tracer.otel]\n  timeout = \"0s\"\n";
        let snippet = Snippet::cut(text, 2, 13).expect("there is a second line");
        assert_eq!(snippet, Snippet { line: "  timeout = \"0s\"".to_owned(), caret: 12 });
        assert_eq!(Snippet::cut(text, 9, 1), None);
        assert_eq!(Snippet::cut(text, 0, 1), None);
    }

    #[test]
    fn a_caret_within_a_masked_value_stands_at_its_beginning() {
        let text = "headers = [\"Authorization: Bearer hunter2\", \"hunter2\"]";
        let snippet = Snippet::cut(text, 1, 45).expect("a line");
        assert_eq!(snippet, Snippet { line: "headers = ***".to_owned(), caret: 10 });
    }

    #[test]
    fn a_caret_behind_the_line_stays_at_its_end() {
        assert_eq!(Snippet::cut("lossy =", 1, 500).expect("a line").caret, 7);
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
    fn an_unknown_key_keeps_its_name() {
        assert_eq!(shown("endpont = \"http://localhost\""), "endpont = ***");
        assert_eq!(shown("'tracer.otel.heders' = 1"), "'tracer.otel.heders' = ***");
        assert_eq!(shown("lossy ="), "lossy =");
    }

    #[test]
    fn an_endless_line_is_cut() {
        assert!(shown(&format!("timeout = \"{}\"", "1".repeat(1 << 20))).len() <= LONGEST_LINE);
    }
}
