//! Which parts of a command line are secrets? Those that `exec --help` lists. Pure.
//!
//! An argument may be a whole script, so names and values are looked for within it, and a value goes as far as a shell, JSON or a
//! header would take it. Where that is not clear, more is masked rather than less.

use std::ops::Range;

/// What a secret is recorded as.
const MASK: &str = "***";

/// What the words of a name end with whose value is a secret, in lower case.
const SECRET_ENDS: [&str; 9] =
    ["password", "passwd", "passphrase", "secret", "secrets", "token", "apikey", "credential", "credentials"];
/// Words that make a name a secret's.
const SECRET_WORDS: [&str; 13] = [
    "key",
    "pass",
    "pwd",
    "pw",
    "sig",
    "signature",
    "pat",
    "auth",
    "authorization",
    "cookie",
    "cookies",
    "session",
    "bearer",
];
/// Words that a name with `key` in it is harmless with.
const KINDS_OF_KEYS: [&str; 8] =
    ["sort", "primary", "foreign", "public", "partition", "group", "order", "cache"];
/// What a name ends with that says where a secret is, not what it is; or begins with that turns it off.
const PLACES: [&str; 5] = ["file", "path", "stdin", "name", "dir"];
/// Headers whose whole value is a secret, blanks and all.
const SECRET_HEADERS: [&str; 3] = ["authorization", "cookie", "cookies"];
/// Words with a secret behind them.
const SCHEMES: [&str; 3] = ["bearer", "basic", "digest"];
/// What well-known tokens begin with, and how long the shortest are.
const TOKEN_PREFIXES: [&str; 9] =
    ["ghp_", "gho_", "ghs_", "github_pat_", "glpat-", "xoxb-", "sk-", "AKIA", "eyJ"];
const SHORTEST_TOKEN: usize = 16;
/// Options of `user:password`.
const USER_OPTIONS: [&str; 3] = ["-u", "--user", "--proxy-user"];

/// The arguments of a command with its secrets masked.
pub(super) fn mask(arguments: impl Iterator<Item = String>) -> Vec<String> {
    let mut next = Next::Plain;
    let masked = arguments.map(|argument| {
        let (masked, after) = match next {
            Next::Secret if is_scheme(&argument) => (MASK.to_owned(), Next::Secret),
            Next::Secret => (MASK.to_owned(), Next::Plain),
            Next::User => (user(&argument), Next::Plain),
            Next::Plain => {
                let masked = option(&argument).unwrap_or_else(|| text(&argument));
                (masked, Next::after(&argument))
            }
        };
        next = after;
        masked
    });
    masked.collect()
}

/// What an argument means for the next one.
#[derive(Clone, Copy)]
enum Next {
    Plain,
    Secret,
    /// `user:password`.
    User,
}

impl Next {
    fn after(argument: &str) -> Self {
        let name = argument.strip_suffix([':', '=']);
        let is_option = argument.starts_with('-') && argument.chars().all(is_of_name);
        match argument {
            argument if USER_OPTIONS.contains(&argument) => Self::User,
            argument if is_scheme(argument) || is_option && is_secret(argument) => Self::Secret,
            _ if name.is_some_and(|name| is_secret(last_name(name))) => Self::Secret,
            _ => Self::Plain,
        }
    }
}

/// `--password=VALUE`: no script begins so, and the value is all that follows, blanks and all.
fn option(argument: &str) -> Option<String> {
    let (name, _) = argument.split_once('=')?;
    let is_it = name.starts_with('-') && name.chars().all(is_of_name) && is_secret(name);
    is_it.then(|| format!("{name}={MASK}"))
}

/// A text with the secrets in it masked.
fn text(whole: &str) -> String {
    let mut secrets: Vec<Range<usize>> = assigned(whole);
    secrets.extend(behind_words(whole));
    secrets.extend(tokens(whole));
    secrets.extend(words(whole).filter_map(login));
    secrets.extend(user_options(whole));
    secrets.retain(|secret| !secret.is_empty());
    secrets.sort_by_key(|secret| (secret.start, secret.end));
    let (mut masked, mut done) = (String::new(), 0);
    for secret in secrets {
        if secret.start >= done {
            masked += &whole[done..secret.start];
            masked += MASK;
        }
        done = done.max(secret.end);
    }
    masked + &whole[done..]
}

/// The values of `name=value` and `name: value`.
fn assigned(whole: &str) -> Vec<Range<usize>> {
    let mut values = Vec::new();
    let mut quotes = Quotes::new(whole);
    for (at, separator) in whole.match_indices(['=', ':']) {
        let before = whole[..at].trim_end_matches([' ', '\t']);
        let is_apart = before.len() < at;
        // `"password": …`, also with its quotes escaped
        let quoted = before.trim_end_matches(['"', '\'', '\\']);
        let name = last_name(quoted);
        if !is_secret(name) || whole[at..].starts_with("://") {
            continue;
        }
        let start = quoted.len() - name.len();
        let behind = &whole[at + 1..];
        let blanks = behind.len() - behind.trim_start_matches([' ', '\t']).len();
        // `NAME= command`: nothing is assigned
        if separator == "=" && blanks > 0 && !is_apart {
            continue;
        }
        let from = at + 1 + blanks;
        let enclosing = quotes.at(at);
        let is_header =
            separator == ":" && last_words(name).any(|word| SECRET_HEADERS.contains(&word.as_str()));
        let end = match is_header {
            true => line_end(whole, from, enclosing),
            false => value_end(
                whole,
                from,
                Ends {
                    enclosing,
                    of_query: whole[..start].ends_with(['?', '&', '#']),
                    of_json: quoted.len() < before.len(),
                },
            ),
        };
        values.push(inner(whole, from, end));
    }
    values
}

/// What follows `--password` and `Bearer` within a text.
fn behind_words(whole: &str) -> Vec<Range<usize>> {
    let mut values = Vec::new();
    let is_between = |character: char| {
        character.is_whitespace() || matches!(character, '"' | '\'' | ';' | '=' | ':' | '(')
    };
    let mut quotes = Quotes::new(whole);
    for (at, _) in whole.match_indices(char::is_whitespace) {
        let word = &whole[whole[..at].rfind(is_between).map_or(0, |place| place + 1)..at];
        let is_user = USER_OPTIONS.contains(&word);
        let is_option = word.starts_with('-') && word.chars().all(is_of_name) && is_secret(word);
        if is_user || is_option || is_scheme(word) {
            let from = whole.len() - whole[at..].trim_start().len();
            let value = inner(whole, from, value_end(whole, from, Ends::of_word(quotes.at(at))));
            values.extend(if is_user { password(whole, value) } else { Some(value) });
        }
    }
    values
}

/// Tokens of services that give them a prefix.
fn tokens(whole: &str) -> Vec<Range<usize>> {
    let is_of_token = |character: char| {
        character.is_ascii_alphanumeric() || matches!(character, '_' | '-' | '.' | '+' | '/')
    };
    let found = TOKEN_PREFIXES.iter().flat_map(|prefix| whole.match_indices(prefix)).map(|(at, _)| {
        let length = whole[at..].find(|character| !is_of_token(character)).unwrap_or(whole.len() - at);
        at..at + length
    });
    let is_one = |token: &Range<usize>| {
        token.len() >= SHORTEST_TOKEN
            && !whole[..token.start].ends_with(|before: char| before.is_ascii_alphanumeric())
    };
    found.filter(is_one).collect()
}

/// The words of a text, with where they begin.
fn words(whole: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_between = |character: char| character.is_whitespace() || matches!(character, '"' | '\'' | '`');
    let mut at = 0;
    whole.split(is_between).map(move |word| {
        let start = at;
        // what is between two words is one byte, unless it is a blank of another alphabet
        at += word.len() + whole[at + word.len()..].chars().next().map_or(0, char::len_utf8);
        (start, word)
    })
}

/// The password of `scheme://user:password@host` and of `user:password@host`, or all before the `@` where there is no user.
fn login((base, word): (usize, &str)) -> Option<Range<usize>> {
    let (start, is_url) = word.find("://").map_or((0, false), |at| (at + 3, true));
    let authority_end = word[start..].find(['/', '?', '#']).map_or(word.len(), |at| start + at);
    let colon = word[start..authority_end].find(':').map(|at| start + at + 1);
    let is_port = colon.is_some_and(|at| {
        at < authority_end && word[at..authority_end].bytes().all(|byte| byte.is_ascii_digit())
    });
    // a password may have `/` and `#` in it; a port is digits
    let until = if colon.is_some() && !is_port { word.len() } else { authority_end };
    let sign = start + word[start..until].rfind('@')?;
    match colon.filter(|colon| *colon <= sign) {
        Some(colon) => Some(base + colon..base + sign),
        None => is_url.then_some(base + start..base + sign),
    }
}

/// The passwords of `--user=name:password` and `-uname:password`, with quotes or without.
fn user_options(whole: &str) -> Vec<Range<usize>> {
    let prefixes = ["--user=", "--proxy-user=", "-u"];
    let mut quotes = Quotes::new(whole);
    let found = words(whole).filter_map(|(base, word)| {
        let from = base + prefixes.into_iter().find(|prefix| word.starts_with(prefix))?.len();
        password(whole, inner(whole, from, value_end(whole, from, Ends::of_word(quotes.at(base)))))
    });
    found.collect()
}

/// That of `name:password`.
fn password(whole: &str, value: Range<usize>) -> Option<Range<usize>> {
    Some(value.start + password_at(&whole[value.clone()])?..value.end)
}

/// What ends a value beside a blank.
#[derive(Clone, Copy)]
struct Ends {
    enclosing: Enclosing,
    /// It is one of a URL's query.
    of_query: bool,
    /// Its name is in quotes, as in JSON.
    of_json: bool,
}

impl Ends {
    fn of_word(enclosing: Enclosing) -> Self {
        Self { enclosing, of_query: false, of_json: false }
    }
}

/// Where the value ends that begins at `from`: as a shell would have it, quotes, escapes and substitutions included.
fn value_end(whole: &str, from: usize, ends: Ends) -> usize {
    let mut characters = characters(&whole[from..]).peekable();
    while let Some((at, character, is_escaped)) = characters.next() {
        let closing = match character {
            _ if ends.enclosing.is_closed_by(character, is_escaped) => return from + at,
            // JSON within quotes
            '"' if is_escaped => character,
            _ if is_escaped => continue,
            character if character.is_whitespace() => return from + at,
            '&' | '#' if ends.of_query => return from + at,
            ',' | '}' | ']' if ends.of_json => return from + at,
            '"' | '\'' | '`' => character,
            '$' if characters.peek().is_some_and(|(_, next, _)| *next == '(') => ')',
            _ => continue,
        };
        if !characters.any(|(_, other, other_is_escaped)| other == closing && other_is_escaped == is_escaped)
        {
            return whole.len();
        }
    }
    whole.len()
}

/// Where a header ends: with its line, or with the quote that it is in.
fn line_end(whole: &str, from: usize, enclosing: Enclosing) -> usize {
    let is_end = |character, is_escaped| character == '\n' || enclosing.is_closed_by(character, is_escaped);
    let end = characters(&whole[from..]).find(|(_, character, is_escaped)| is_end(*character, *is_escaped));
    end.map_or(whole.len(), |(at, _, _)| from + at)
}

/// Where each character begins, and whether it is escaped: then it begins with its `\`.
fn characters(text: &str) -> impl Iterator<Item = (usize, char, bool)> {
    let mut all = text.char_indices();
    std::iter::from_fn(move || match all.next()? {
        (at, '\\') => Some((at, all.next().map_or('\\', |(_, escaped)| escaped), true)),
        (at, character) => Some((at, character, false)),
    })
}

/// A value without the quotes around it, if they are around all of it.
fn inner(whole: &str, from: usize, end: usize) -> Range<usize> {
    let value = &whole[from..end];
    let quote = value.chars().next().filter(|first| matches!(first, '"' | '\''));
    match quote {
        Some(quote) if value.len() > 1 && value[1..].find(quote) == Some(value.len() - 2) => {
            from + 1..end - 1
        }
        _ => from..end,
    }
}

/// The quotes that a place of a text is in.
#[derive(Clone, Copy, Default)]
struct Enclosing {
    quote: Option<char>,
    /// Within double quotes, `\"` encloses as well.
    has_escaped: bool,
}

impl Enclosing {
    fn is_closed_by(self, character: char, is_escaped: bool) -> bool {
        match is_escaped {
            true => self.has_escaped && character == '"',
            false => self.quote == Some(character),
        }
    }

    fn pass(&mut self, character: char, is_escaped: bool) {
        match (self.quote, character) {
            (Some('"'), '"') if is_escaped => self.has_escaped = !self.has_escaped,
            (None | Some('"'), _) if is_escaped => {}
            (None, '"' | '\'') => self.quote = Some(character),
            (Some(quote), _) if quote == character => *self = Self::default(),
            _ => {}
        }
    }
}

/// Finds what encloses the places of a text, in their order: each character is looked at once.
struct Quotes<'a> {
    whole: &'a str,
    passed: usize,
    enclosing: Enclosing,
}

impl<'a> Quotes<'a> {
    fn new(whole: &'a str) -> Self {
        Self { whole, passed: 0, enclosing: Enclosing::default() }
    }

    fn at(&mut self, place: usize) -> Enclosing {
        for (_, character, is_escaped) in characters(&self.whole[self.passed..place]) {
            self.enclosing.pass(character, is_escaped);
        }
        self.passed = place;
        self.enclosing
    }
}

fn is_of_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '-' | '.')
}

/// The name at the end of a text.
fn last_name(before: &str) -> &str {
    &before[before.trim_end_matches(is_of_name).len()..]
}

/// The words of a name in lower case: of `--api-key`, `DB_PASSWORD`, `X-Auth-Token` and `accessToken`.
fn last_words(name: &str) -> impl DoubleEndedIterator<Item = String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for character in name.chars() {
        let is_new = !character.is_ascii_alphanumeric() || was_lower && character.is_ascii_uppercase();
        if is_new {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| character.is_ascii_alphanumeric()) {
            word.push(character.to_ascii_lowercase());
        }
        was_lower = character.is_ascii_lowercase();
    }
    words.retain(|word| !word.is_empty());
    words.into_iter()
}

/// Whether what a name stands for is a secret.
fn is_secret(name: &str) -> bool {
    let words: Vec<String> = last_words(name).collect();
    let is_place = words.last().is_some_and(|last| PLACES.contains(&last.as_str()));
    let is_off = words.first().is_some_and(|first| first == "no");
    let is_harmless =
        |word: &String| word == "key" && words.iter().any(|other| KINDS_OF_KEYS.contains(&other.as_str()));
    let has_secret = words.iter().any(|word| {
        let is_one =
            SECRET_WORDS.contains(&word.as_str()) || SECRET_ENDS.iter().any(|end| word.ends_with(end));
        is_one && !is_harmless(word)
    });
    has_secret && !is_place && !is_off
}

fn is_scheme(word: &str) -> bool {
    SCHEMES.iter().any(|scheme| word.eq_ignore_ascii_case(scheme))
}

/// `user:***`
fn user(word: &str) -> String {
    password_at(word).map_or_else(|| text(word), |at| format!("{}{MASK}", &word[..at]))
}

/// Where the password of `user:password` begins. Two numbers are ids of a user and a group.
fn password_at(word: &str) -> Option<usize> {
    let (user, password) = word.split_once(':')?;
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    (!(is_number(user) && is_number(password))).then_some(user.len() + 1)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn masked(arguments: &[&str]) -> Vec<String> {
        mask(arguments.iter().map(|argument| (*argument).to_owned()))
    }

    #[test]
    fn secrets_are_masked_in_every_form_that_the_help_lists() {
        let cases: [(&[&str], &[&str]); 35] = [
            (&["--password", "s3cr3t", "a"], &["--password", "***", "a"]),
            (&["--password", "-s3cr3t"], &["--password", "***"]),
            (&["--token=s3cr3t"], &["--token=***"]),
            (&["--api-key", "s3cr3t"], &["--api-key", "***"]),
            (&["-e", "DB_PASSWORD=s3cr3t"], &["-e", "DB_PASSWORD=***"]),
            (&["-DaccessToken=s3cr3t=="], &["-DaccessToken=***"]),
            (&["key=s3cr3t"], &["key=***"]),
            (&["--auth", "s3cr3t", "X-Auth:s3cr3t"], &["--auth", "***", "X-Auth:***"]),
            (&["-H", "Authorization: Bearer s3cr3t"], &["-H", "Authorization: ***"]),
            (&["-H", "authorization:s3cr3t", "a"], &["-H", "authorization:***", "a"]),
            (&["-H", "X-Api-Key: s3cr3t", "a"], &["-H", "X-Api-Key: ***", "a"]),
            (&["Bearer", "s3cr3t"], &["Bearer", "***"]),
            (&["https://u:s3cr3t@h/p?q=1"], &["https://u:***@h/p?q=1"]),
            (&["git+https://s3cr3t@h/p"], &["git+https://***@h/p"]),
            (&["postgres://u:s3c@r3t@h:5432/db"], &["postgres://u:***@h:5432/db"]),
            (&["http://h/?a=1&api_key=s3cr3t&b=2"], &["http://h/?a=1&api_key=***&b=2"]),
            (&["-u", "me:s3cr3t"], &["-u", "me:***"]),
            (&["ghp_s3cr3ts3cr3ts3cr3t"], &["***"]),
            (&["eyJhbGciOiJIUzI1NiJ9.s3cr3t"], &["***"]),
            (&["-c", "a --token s3cr3t ; b"], &["-c", "a --token *** ; b"]),
            (
                &["-c", "curl -H \"Authorization: Basic s3cr3t\" 'http://u:s3cr3t@h'; ls"],
                &["-c", "curl -H \"Authorization: ***\" 'http://u:***@h'; ls"],
            ),
            (&["--password", "s3cr3t s3cr3t", "a"], &["--password", "***", "a"]),
            (&["-c", "a --password 's3cr3t s3cr3t' b"], &["-c", "a --password '***' b"]),
            (&["-c", "TOKEN= make; KEY=\"s3cr3t s3cr3t\" ls"], &["-c", "TOKEN= make; KEY=\"***\" ls"]),
            (&["-c", "PGPASSWORD='s3cr3t' psql"], &["-c", "PGPASSWORD='***' psql"]),
            (&["-d", r#"{"password":"s3cr3t","a":1}"#], &["-d", r#"{"password":"***","a":1}"#]),
            (&["Authorization:", "Bearer", "s3cr3t", "a"], &["Authorization:", "***", "***", "a"]),
            (&["--env=DB_PASSWORD=s3cr3t"], &["--env=DB_PASSWORD=***"]),
            (&["-c", "curl -u me:s3cr3t h"], &["-c", "curl -u me:*** h"]),
            (&["-c", "echo token: a; make -j4"], &["-c", "echo token: *** make -j4"]),
            (&["-c", r#"curl -u"me:s3 cr3t" h"#], &["-c", r#"curl -u"me:***" h"#]),
            (&["-c", r#"a -u "1:1" --user="1:1" b"#], &["-c", r#"a -u "1:1" --user="1:1" b"#]),
            (&["-c", r#"PASSWORD="s3\" cr3t" ls"#], &["-c", "PASSWORD=*** ls"]),
            (
                &["-c", r#"bash -c "curl -H \"X-Api-Key: s3cr3t\" \"http://h\"""#],
                &["-c", r#"bash -c "curl -H \"X-Api-Key: ***\" \"http://h\"""#],
            ),
            (&["-d", r#""{\"password\":\"s3 cr3t\",\"a\":1}""#], &["-d", r#""{\"password\":***,\"a\":1}""#]),
        ];
        for (arguments, expected) in cases {
            assert_eq!(masked(arguments), expected, "{arguments:?}");
        }
    }

    #[test]
    fn no_part_of_a_secret_is_left_however_it_is_written() {
        assert_eq!(masked(&["--db-password=correct horse battery"]), ["--db-password=***"]);
        let secrets: [&[&str]; 51] = [
            &["--build-arg=TOKEN=hunter2"],
            &["--from-literal=password=hunter2"],
            &["--set=db.password=hunter2"],
            &["--header=Authorization:hunter2"],
            &["--header=X-Api-Key: hunter2"],
            &["--header=Authorization:Basic hunter2"],
            &["-Dfoo=bar:password=hunter2"],
            &["--registry=//r/:_authToken=hunter2"],
            &["{'token': 'hunter2'}"],
            &[r#"{\"password\":\"hunter2\"}"#],
            &["-c", r#"curl -d '{"a":1, "secret" : "hunter2"}' h"#],
            &["-H", "Authorization:Bearer hunter2"],
            &["--password=abc,hunter2"],
            &["PASSWORD=a?hunter2"],
            &["PASSWORD=a&hunter2"],
            &["-c", "PGPASSWORD=ab,hunter2 psql"],
            &["GH=ghp_hunter2hunter2hunter2"],
            &["--x=glpat-hunter2hunter2"],
            &["http://h/?q=ghp_hunter2hunter2hunter2"],
            &["postgres://u:hunt#hunter2@h/db"],
            &["postgres://u:hunt/hunter2@h/db"],
            &["http://h/#token=hunter2"],
            &["--proxy-user=me:hunter2"],
            &["--user=me:hunter2"],
            &["-ume:hunter2"],
            &["u:hunter2@tcp(h)/db"],
            &["-c", r"PASSWORD=ab\ hunter2 ls"],
            &["-c", r#"PASSWORD='ab'"hunter2" ls"#],
            &["-c", "PASSWORD=$(echo hunter2) ls"],
            &["-c", "TOKEN=`echo hunter2 x` ls"],
            &["--password", "ab 'cd' hunter2"],
            &["password = hunter2"],
            &["Authorization: Digest username=\"u\", response=\"hunter2\""],
            &["Authorization:", "hunter2"],
            &["dbpassword=hunter2"],
            &["-c", "export API_TOKEN=hunter2 && make"],
            &["-c", r#"curl --user="me:hunter2" h"#],
            &["-c", r#"curl --user="me:ab hunter2" h"#],
            &["-c", "curl -s --proxy-user='me:hunter2' h"],
            &["-c", r#"curl -u"me:hunter2" h"#],
            &["-c", r#"curl -ume:"hunter2" h"#],
            &["-c", r#"bash -c "curl -u'me:ab hunter2' h""#],
            &["-d", r#"{"password":"ab\" hunter2"}"#],
            &["-c", r#"PASSWORD="ab\" hunter2" ls"#],
            &["-c", r"TOKEN=`echo \`date\` hunter2` ls"],
            &["-c", r#"echo \"; PASSWORD="ab hunter2" ls"#],
            &["-c", r#"echo "\""; PASSWORD="ab hunter2" ls"#],
            &["-c", r"echo 'a\'; PASSWORD='ab hunter2' ls"],
            &["-c", r#"curl -H "Authorization: Digest a=\"b\", response=\"hunter2\"" h"#],
            &["-c", r#"bash -c "PASSWORD=\"ab hunter2\" ls""#],
            &["-c", r#"curl -d "{\"password\": \"ab hunter2\"}" h"#],
        ];
        for arguments in secrets {
            let masked = masked(arguments);
            assert!(!masked.concat().contains("hunter2"), "{arguments:?}: {masked:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_can_be_looked_through(
            text in "([a-zé:=@/#?&'\"` \\\\{}-]|password|-u|--user=|://|Bearer |sk-){0,40}",
        ) {
            masked(&[&text, &text]);
        }
    }

    #[test]
    fn a_script_is_looked_through_in_time_that_grows_with_its_length() {
        for part in ["a ", " ", "\n", "a=b ", "\"a: b\" ", "-u ", "key=a ", "--key a\n"] {
            let began = Instant::now();
            masked(&["-c", &part.repeat((128 << 10) / part.len())]);
            assert!(began.elapsed() < Duration::from_secs(10), "{part:?}: {:?}", began.elapsed());
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
            "http://localhost:4318/a@b",
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
            "--extern",
            "tokenizers=/path",
            "--no-password",
            "mydb",
            "--password-stdin",
            "next",
            "--max-tokens=512",
            "--sort-key=name",
            "-u",
            "1000:1000",
            "git@github.com:org/repo",
            "--token-file",
            "f",
            "--tls-key-path=/etc/key.pem",
        ];
        assert_eq!(masked(&plain), plain);
    }
}
