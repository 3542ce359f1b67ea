//! Which parts of a command line are secrets? Those that `exec --help` lists. Pure.

/// What a secret is recorded as.
const MASK: &str = "***";

/// Parts of names whose values are secrets, in lower case.
const SECRET_NAMES: [&str; 12] = [
    "passw",
    "passphrase",
    "secret",
    "token",
    "apikey",
    "oauth",
    "authoriz",
    "authentic",
    "cookie",
    "credential",
    "bearer",
    "signature",
];
/// Names, or words of them, that are too short to be looked for as parts: `key`, not `monkey`; `auth`, not `author`.
const SECRET_WORDS: [&str; 7] = ["key", "auth", "pass", "pwd", "pw", "sig", "pat"];
/// What well-known tokens begin with, and how long the shortest are.
const TOKEN_PREFIXES: [&str; 9] =
    ["ghp_", "gho_", "ghs_", "github_pat_", "glpat-", "xoxb-", "sk-", "AKIA", "eyJ"];
const SHORTEST_TOKEN: usize = 16;
const QUOTES: [char; 2] = ['"', '\''];

/// The arguments of a command with its secrets masked.
pub(super) fn mask(arguments: impl Iterator<Item = String>) -> Vec<String> {
    let mut masker = Masker::default();
    arguments.map(|argument| masker.argument(&argument)).collect()
}

/// What the word before means for the next one.
#[derive(Default)]
struct Masker {
    next: Next,
}

#[derive(Default, Clone, Copy, PartialEq)]
enum Next {
    #[default]
    Plain,
    /// The value of an option.
    Secret,
    /// `user:password`.
    User,
    /// The rest of a text in quotes, or of a header.
    Rest,
}

impl Masker {
    /// Word by word, since an argument may be a whole script. Blanks and quotes are kept.
    fn argument(&mut self, argument: &str) -> String {
        match std::mem::take(&mut self.next) {
            Next::Secret => return MASK.to_owned(),
            Next::User => return user(argument),
            Next::Plain | Next::Rest => {}
        }
        let mut masked = String::new();
        let mut rest = argument;
        while !rest.is_empty() {
            let (word, after) = rest.split_at(rest.find(is_between_words).unwrap_or(rest.len()));
            let (between, after) =
                after.split_at(after.find(|c| !is_between_words(c)).unwrap_or(after.len()));
            masked += &self.word(word);
            masked += between;
            self.next = match self.next {
                Next::Secret if between.ends_with(QUOTES) => Next::Rest,
                // `NAME= command`: nothing is behind it
                Next::Rest if word.ends_with('=') && !between.starts_with(QUOTES) => Next::Plain,
                Next::Rest if !word.ends_with([':', '=']) && between.contains(['"', '\'', '\n']) => {
                    Next::Plain
                }
                next => next,
            };
            rest = after;
        }
        masked
    }

    fn word(&mut self, word: &str) -> String {
        if word.is_empty() {
            return String::new();
        }
        match std::mem::take(&mut self.next) {
            Next::Secret => return MASK.to_owned(),
            Next::User => return user(word),
            Next::Rest => {
                self.next = Next::Rest;
                return MASK.to_owned();
            }
            Next::Plain => {}
        }
        if TOKEN_PREFIXES.iter().any(|prefix| word.starts_with(prefix)) && word.len() >= SHORTEST_TOKEN {
            return MASK.to_owned();
        }
        if word.eq_ignore_ascii_case("bearer") || word.eq_ignore_ascii_case("basic") {
            self.next = Next::Secret;
            return word.to_owned();
        }
        if matches!(word, "-u" | "--user" | "--proxy-user") {
            self.next = Next::User;
            return word.to_owned();
        }
        if word.starts_with('-') && !word.contains(['=', ':']) && is_secret(word) {
            self.next = Next::Secret;
            return word.to_owned();
        }
        let word =
            word.strip_prefix("--user=").map_or(word.to_owned(), |value| format!("--user={}", user(value)));
        self.assignments(&urls(&word))
    }

    /// Masks what follows `name=` and `name:`, in each part of a query or of a list.
    fn assignments(&mut self, word: &str) -> String {
        let mut masked = String::new();
        for part in word.split_inclusive(['&', '?', ';', ',']) {
            let (part, separator) = match part.strip_suffix(['&', '?', ';', ',']) {
                Some(inside) => (inside, &part[inside.len()..]),
                None => (part, ""),
            };
            match part.find(['=', ':']) {
                Some(at) if is_secret(&part[..at]) && part[at + 1..].is_empty() => {
                    // `Authorization: Bearer x`, `PASSWORD='x y'`
                    masked += part;
                    self.next = Next::Rest;
                }
                Some(at) if is_secret(&part[..at]) && !part[at..].starts_with("://") => {
                    masked += &part[..=at];
                    masked += MASK;
                }
                _ => masked += part,
            }
            masked += separator;
        }
        masked
    }
}

fn is_between_words(c: char) -> bool {
    c.is_whitespace() || QUOTES.contains(&c)
}

/// Whether a name is one of a secret: `--api-key`, `DB_PASSWORD`, `X-Auth-Token`, `accessToken`.
fn is_secret(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let mut words = lower.split(|c: char| !c.is_ascii_alphanumeric());
    // the start of a query has the URL before it
    SECRET_NAMES.iter().any(|part| lower.contains(part))
        || words.any(|word| SECRET_WORDS.contains(&word))
        || name.ends_with("Key")
}

/// `user:***`
fn user(word: &str) -> String {
    match word.split_once(':') {
        Some((user, _)) => format!("{user}:{MASK}"),
        None => word.to_owned(),
    }
}

/// Masks the password of `scheme://user:password@host`, or all before the `@` where there is no user.
fn urls(word: &str) -> String {
    let Some((before, rest)) = word.split_once("://") else { return word.to_owned() };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, after) = rest.split_at(end);
    let authority = match authority.rsplit_once('@') {
        None => authority.to_owned(),
        Some((login, host)) => match login.split_once(':') {
            Some((user, _)) => format!("{user}:{MASK}@{host}"),
            None => format!("{MASK}@{host}"),
        },
    };
    format!("{before}://{authority}{}", urls(after))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(arguments: &[&str]) -> Vec<String> {
        mask(arguments.iter().map(|argument| (*argument).to_owned()))
    }

    #[test]
    fn secrets_are_masked_in_every_form_that_the_help_lists() {
        let cases: [(&[&str], &[&str]); 26] = [
            (&["--password", "s3cr3t", "a"], &["--password", "***", "a"]),
            (&["--password", "-s3cr3t"], &["--password", "***"]),
            (&["--token=s3cr3t"], &["--token=***"]),
            (&["--api-key", "s3cr3t"], &["--api-key", "***"]),
            (&["-e", "DB_PASSWORD=s3cr3t"], &["-e", "DB_PASSWORD=***"]),
            (&["-DaccessToken=s3cr3t=="], &["-DaccessToken=***"]),
            (&["key=s3cr3t"], &["key=***"]),
            (&["--auth", "s3cr3t", "X-Auth:s3cr3t"], &["--auth", "***", "X-Auth:***"]),
            (&["-H", "Authorization: Bearer s3cr3t"], &["-H", "Authorization: *** ***"]),
            (&["-H", "authorization:s3cr3t", "a"], &["-H", "authorization:***", "a"]),
            (&["-H", "X-Api-Key: s3cr3t", "a"], &["-H", "X-Api-Key: ***", "a"]),
            (&["Bearer", "s3cr3t"], &["Bearer", "***"]),
            (&["https://u:s3cr3t@h/p?q=1"], &["https://u:***@h/p?q=1"]),
            (&["git+https://s3cr3t@h/p"], &["git+https://***@h/p"]),
            (&["postgres://u:s3c@r3t@h:5432/db"], &["postgres://u:***@h:5432/db"]),
            (&["http://h/?a=1&api_key=s3cr3t&b=2"], &["http://h/?a=1&api_key=***&b=2"]),
            (&["-u", "me:s3cr3t"], &["-u", "me:***"]),
            (&["--user=me:s3cr3t"], &["--user=me:***"]),
            (&["ghp_s3cr3ts3cr3ts3cr3t"], &["***"]),
            (&["eyJhbGciOiJIUzI1NiJ9.s3cr3t"], &["***"]),
            (&["-c", "a --token s3cr3t; b"], &["-c", "a --token *** b"]),
            (
                &["-c", "curl -H \"Authorization: Basic s3cr3t\" 'http://u:s3cr3t@h'; ls"],
                &["-c", "curl -H \"Authorization: *** ***\" 'http://u:***@h'; ls"],
            ),
            (&["--password", "s3cr3t s3cr3t", "a"], &["--password", "***", "a"]),
            (&["-c", "a --password 's3cr3t s3cr3t' b"], &["-c", "a --password '*** ***' b"]),
            (&["-c", "TOKEN= make; KEY=\"s3cr3t s3cr3t\" ls"], &["-c", "TOKEN= make; KEY=\"*** ***\" ls"]),
            (&["-c", "PGPASSWORD='s3cr3t' psql"], &["-c", "PGPASSWORD='***' psql"]),
        ];
        for (arguments, expected) in cases {
            assert_eq!(masked(arguments), expected, "{arguments:?}");
        }
    }

    #[test]
    fn what_is_no_secret_is_left_as_it_is() {
        let plain = [
            "make",
            "-j4",
            "--keyboard=us",
            "monkey=1",
            "http://localhost:4318/v1/traces?a=b",
            "a:b",
            "C:\\temp",
            "-p",
            "22",
            "sk-1",
            "two  words 'quoted'",
            "",
            "--compass",
            "--author=me",
            "x=key",
        ];
        assert_eq!(masked(&plain), plain);
    }
}
