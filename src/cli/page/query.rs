//! What is searched for? `service:pay err dur>100ms http.route=/checkout -health or name:refund`.
//!
//! Words are joined by "and", `or` separates alternatives, and `-` in front of a word means "not". A word that is no condition
//! is looked for in names, services, ids, bodies and the values of attributes.

use standpipe::receiver::proto::common::v1::KeyValue;
use standpipe::receiver::{ReceivedLog, ReceivedSpan};

use super::super::describe;
use super::super::log_view::LogView;
use super::store::{Trace, is_error};

/// One of several alternatives, each of conditions that hold together.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Query(Vec<Vec<Condition>>);

#[derive(Debug, PartialEq)]
struct Condition {
    is_negated: bool,
    test: Test,
}

/// Texts are in lower case.
#[derive(Debug, PartialEq)]
enum Test {
    Anywhere(String),
    Service(String),
    Name(String),
    TraceId(String),
    Error,
    Nanos(Comparison, u64),
    Spans(Comparison, u64),
    Severity(Comparison, i32),
    HasKey(String),
    Equals(String, String),
    Differs(String, String),
    Contains(String, String),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Comparison {
    Above,
    AtLeast,
    Below,
    AtMost,
    Equal,
}

impl Comparison {
    fn holds<T: PartialOrd>(self, left: T, right: T) -> bool {
        match self {
            Self::Above => left > right,
            Self::AtLeast => left >= right,
            Self::Below => left < right,
            Self::AtMost => left <= right,
            Self::Equal => left == right,
        }
    }
}

impl Query {
    /// # Errors
    /// What is wrong with a word, and how it is written.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut alternatives = vec![Vec::new()];
        for word in words(text) {
            match word.as_str() {
                "or" | "OR" => alternatives.push(Vec::new()),
                word => {
                    if let Some(conditions) = alternatives.last_mut() {
                        conditions.push(Condition::parse(word)?);
                    }
                }
            }
        }
        alternatives.retain(|conditions| !conditions.is_empty());
        Ok(Self(alternatives))
    }

    pub(super) fn matches_trace(&self, trace: &Trace) -> bool {
        self.any(|test| test.matches_trace(trace))
    }

    pub(super) fn matches_log(&self, log: &ReceivedLog) -> bool {
        self.any(|test| test.matches_log(log))
    }

    fn any(&self, matches: impl Fn(&Test) -> bool) -> bool {
        let holds = |condition: &Condition| matches(&condition.test) != condition.is_negated;
        self.0.is_empty() || self.0.iter().any(|conditions| conditions.iter().all(holds))
    }
}

impl Condition {
    fn parse(word: &str) -> Result<Self, String> {
        let (is_negated, word) = match word.strip_prefix('-') {
            Some(rest) if !rest.is_empty() => (true, rest),
            _ => (false, word),
        };
        Ok(Self { is_negated, test: Test::parse(word)? })
    }
}

impl Test {
    fn parse(word: &str) -> Result<Self, String> {
        let lower = word.to_lowercase();
        if matches!(lower.as_str(), "err" | "error" | "errors") {
            return Ok(Self::Error);
        }
        for (prefix, test) in [
            ("service:", Self::Service as fn(String) -> Self),
            ("name:", Self::Name),
            ("trace:", Self::TraceId),
        ] {
            if let Some(rest) = lower.strip_prefix(prefix) {
                return Ok(test(rest.to_owned()));
            }
        }
        if let Some(key) = word.strip_prefix("has:") {
            return Ok(Self::HasKey(key.to_owned()));
        }
        for name in ["dur", "spans", "sev"] {
            if let Some((comparison, value)) = lower.strip_prefix(name).and_then(comparison) {
                return Self::number(name, comparison, value);
            }
        }
        // the operator that comes first, so that a value may have any of them
        let Some((key, rest)) = word.find(['!', '=', '~']).filter(|at| *at > 0).map(|at| word.split_at(at))
        else {
            return Ok(Self::Anywhere(lower));
        };
        let operators =
            [("!=", Self::Differs as fn(String, String) -> Self), ("=", Self::Equals), ("~", Self::Contains)];
        let found =
            operators.into_iter().find_map(|(operator, test)| Some((rest.strip_prefix(operator)?, test)));
        Ok(match found {
            Some((value, test)) => test(key.to_owned(), value.to_lowercase()),
            None => Self::Anywhere(lower),
        })
    }

    fn number(name: &str, comparison: Comparison, value: &str) -> Result<Self, String> {
        match name {
            "dur" => nanos(value)
                .map(|nanos| Self::Nanos(comparison, nanos))
                .ok_or_else(|| format!("dur: write a time with its unit, as dur>100ms, not {value:?}")),
            "spans" => value
                .parse()
                .map(|count| Self::Spans(comparison, count))
                .map_err(|_| format!("spans: write a number, as spans>50, not {value:?}")),
            _ => severity(value).map(|number| Self::Severity(comparison, number)).ok_or_else(|| {
                format!("sev: write trace, debug, info, warn, error or fatal, as sev>=warn, not {value:?}")
            }),
        }
    }

    fn matches_trace(&self, trace: &Trace) -> bool {
        match self {
            Self::Nanos(comparison, nanos) => comparison.holds(trace.nanos(), *nanos),
            Self::Spans(comparison, count) => comparison.holds(trace.spans.len() as u64, *count),
            Self::Error => trace.errors > 0,
            Self::TraceId(id) => describe::id(&trace.key).starts_with(id.as_str()),
            Self::Severity(..) => false,
            Self::Anywhere(text) => {
                describe::id(&trace.key).starts_with(text.as_str())
                    || trace.spans.iter().any(|span| self.matches_span(span))
            }
            _ => trace.spans.iter().any(|span| self.matches_span(span)),
        }
    }

    fn matches_span(&self, received: &ReceivedSpan) -> bool {
        let attributes = [&received.span.attributes, &received.resource.attributes];
        match self {
            Self::Anywhere(text) => {
                has(&received.span.name, text)
                    || has(received.service_name(), text)
                    || describe::id(&received.span.span_id) == *text
                    || received.span.events.iter().any(|event| has(&event.name, text))
                    || any_value_has(&received.span.attributes, text)
            }
            Self::Service(text) => has(received.service_name(), text),
            Self::Name(text) => has(&received.span.name, text),
            Self::Error => is_error(received),
            _ => self.matches_attributes(&attributes),
        }
    }

    fn matches_log(&self, received: &ReceivedLog) -> bool {
        let attributes = [&received.log.attributes, &received.resource.attributes];
        let body = || LogView::from(received).body();
        match self {
            Self::Anywhere(text) => {
                has(&body(), text)
                    || has(received.service_name(), text)
                    || describe::id(&received.log.trace_id) == *text
                    || any_value_has(&received.log.attributes, text)
            }
            Self::Service(text) => has(received.service_name(), text),
            Self::Name(text) => has(&received.log.event_name, text),
            Self::TraceId(id) => {
                !id.is_empty() && describe::id(&received.log.trace_id).starts_with(id.as_str())
            }
            Self::Error => received.log.severity_number >= 17,
            Self::Severity(comparison, number) => comparison.holds(received.log.severity_number, *number),
            Self::Contains(key, text) if key == "body" => has(&body(), text),
            Self::Nanos(..) | Self::Spans(..) => false,
            _ => self.matches_attributes(&attributes),
        }
    }

    /// A key that is missing is neither equal nor different.
    fn matches_attributes(&self, lists: &[&Vec<KeyValue>]) -> bool {
        let value = |key: &str| {
            let found = lists.iter().flat_map(|list| list.iter()).find(|attribute| attribute.key == key);
            found.map(|attribute| shown(attribute).to_lowercase())
        };
        match self {
            Self::HasKey(key) => value(key).is_some(),
            Self::Equals(key, text) => value(key).is_some_and(|value| value == *text),
            Self::Differs(key, text) => value(key).is_some_and(|value| value != *text),
            Self::Contains(key, text) => value(key).is_some_and(|value| value.contains(text.as_str())),
            _ => false,
        }
    }
}

/// Words between blanks; quotes hold blanks together.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut is_quoted = false;
    for character in text.chars() {
        match character {
            '"' => is_quoted = !is_quoted,
            character if character.is_whitespace() && !is_quoted => words.push(String::new()),
            character => words.last_mut().unwrap_or(&mut String::new()).push(character),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

fn comparison(rest: &str) -> Option<(Comparison, &str)> {
    let operators = [
        (">=", Comparison::AtLeast),
        ("<=", Comparison::AtMost),
        (">", Comparison::Above),
        ("<", Comparison::Below),
        ("=", Comparison::Equal),
    ];
    operators.into_iter().find_map(|(operator, comparison)| Some((comparison, rest.strip_prefix(operator)?)))
}

/// `100ms`, `1.5s`, `2min`.
fn nanos(word: &str) -> Option<u64> {
    let unit = word.trim_start_matches(|character: char| character.is_ascii_digit() || character == '.');
    let number: f64 = word[..word.len() - unit.len()].parse().ok()?;
    let factor = match unit {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "min" | "m" => 60e9,
        "h" => 3600e9,
        _ => return None,
    };
    Some((number * factor) as u64)
}

/// The lowest number of a level.
fn severity(word: &str) -> Option<i32> {
    let levels = ["trace", "debug", "info", "warn", "error", "fatal"];
    let level = levels.iter().position(|level| *level == word)?;
    Some(level as i32 * 4 + 1)
}

/// `text` is in lower case.
fn has(whole: &str, text: &str) -> bool {
    whole.to_lowercase().contains(text)
}

fn any_value_has(attributes: &[KeyValue], text: &str) -> bool {
    attributes.iter().any(|attribute| has(&shown(attribute), text))
}

fn shown(attribute: &KeyValue) -> String {
    let text = describe::whole_value(attribute.value.as_ref());
    match text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(inner) => inner.to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(text: &str) -> Test {
        let mut query = Query::parse(text).expect("it is valid");
        query.0.remove(0).remove(0).test
    }

    #[test]
    fn each_word_is_the_condition_that_it_looks_like() {
        let text = |text: &str| text.to_owned();
        assert_eq!(only("Checkout"), Test::Anywhere(text("checkout")));
        assert_eq!(only("service:Pay"), Test::Service(text("pay")));
        assert_eq!(only("name:\"load cart\""), Test::Name(text("load cart")));
        assert_eq!(only("err"), Test::Error);
        assert_eq!(only("dur>=1.5s"), Test::Nanos(Comparison::AtLeast, 1_500_000_000));
        assert_eq!(only("spans<50"), Test::Spans(Comparison::Below, 50));
        assert_eq!(only("sev>=warn"), Test::Severity(Comparison::AtLeast, 13));
        assert_eq!(only("has:http.route"), Test::HasKey(text("http.route")));
        assert_eq!(only("a.b=x=y"), Test::Equals(text("a.b"), text("x=y")));
        assert_eq!(only("a.b!=X"), Test::Differs(text("a.b"), text("x")));
        assert_eq!(only("body~Declined"), Test::Contains(text("body"), text("declined")));
    }

    #[test]
    fn a_number_that_is_none_is_an_error_that_shows_how_to_write_it() {
        for (text, expected) in [("dur>100", "dur>100ms"), ("spans>x", "spans>50"), ("sev>loud", "sev>=warn")]
        {
            let error = Query::parse(text).expect_err("it is invalid");
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn words_are_joined_by_and_unless_or_is_between_them() {
        let query = Query::parse("service:pay err or -spans>50").expect("it is valid");
        assert_eq!(query.0.iter().map(Vec::len).collect::<Vec<_>>(), [2, 1]);
        assert!(query.0[1][0].is_negated);
        assert_eq!(Query::parse("or").expect("it is valid"), Query::default());
    }
}
