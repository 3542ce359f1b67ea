//! What is searched for? `service:pay err dur>100ms http.route=/checkout -health or name:refund`.
//!
//! Words are joined by "and", `or` separates alternatives, and `-` in front of a word means "not". A word that is no condition
//! is looked for in names, services, ids, bodies and the values of attributes.

use standpipe::receiver::proto::KeyValue;
use standpipe::receiver::{ReceivedLog, ReceivedSpan};

use super::super::describe;
use super::super::log_view::LogView;
use super::super::record::severity;
use super::super::text;
use super::store::{Trace, is_error};

/// Digits of a trace id that are taken for one: fewer are in many words.
const SHORTEST_ID: usize = 8;

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
            match word {
                Word { is_literal: false, ref text, .. } if matches!(text.as_str(), "or" | "OR") => {
                    alternatives.push(Vec::new());
                }
                word => {
                    if let Some(conditions) = alternatives.last_mut() {
                        conditions.push(word.condition()?);
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

/// A word of the search, without its quotes.
#[derive(Default)]
struct Word {
    text: String,
    is_negated: bool,
    /// It begins with a quote: no part of it means anything.
    is_literal: bool,
}

impl Word {
    fn condition(self) -> Result<Condition, String> {
        let test = match self.is_literal {
            true => Test::Anywhere(self.text.to_lowercase()),
            false => Test::parse(&self.text)?,
        };
        Ok(Condition { is_negated: self.is_negated, test })
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
            "dur" => text::duration(value)
                .ok()
                .filter(|_| !value.ends_with(|c: char| c.is_ascii_digit()))
                .and_then(|duration| u64::try_from(duration.as_nanos()).ok())
                .map(|nanos| Self::Nanos(comparison, nanos))
                .ok_or_else(|| format!("dur: write a time with its unit, as dur>100ms, not {value:?}")),
            "spans" => value
                .parse()
                .map(|count| Self::Spans(comparison, count))
                .map_err(|_| format!("spans: write a number, as spans>50, not {value:?}")),
            _ => severity(value).map(|level| Self::Severity(comparison, level as i32)).map_err(|_| {
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
                text.len() >= SHORTEST_ID && describe::id(&trace.key).starts_with(text.as_str())
                    || trace.spans.iter().any(|kept| self.matches_span(&kept.received))
            }
            _ => trace.spans.iter().any(|kept| self.matches_span(&kept.received)),
        }
    }

    fn matches_span(&self, received: &ReceivedSpan) -> bool {
        let span = &received.span;
        match self {
            Self::Anywhere(text) => {
                has(&span.name, text)
                    || has(received.service_name(), text)
                    || describe::id(&span.span_id) == *text
                    || span.status.as_ref().is_some_and(|status| has(&status.message, text))
                    || any_value_has(&span.attributes, text)
                    || span
                        .events
                        .iter()
                        .any(|event| has(&event.name, text) || any_value_has(&event.attributes, text))
            }
            Self::Service(text) => has(received.service_name(), text),
            Self::Name(text) => has(&received.span.name, text),
            Self::Error => is_error(received),
            _ => {
                let of_record = [&span.attributes, &received.resource.attributes, &received.scope.attributes];
                let of_events = span.events.iter().map(|event| &event.attributes);
                self.matches_attributes(of_record.into_iter().chain(of_events))
            }
        }
    }

    fn matches_log(&self, received: &ReceivedLog) -> bool {
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
            _ => self.matches_attributes(
                [&received.log.attributes, &received.resource.attributes, &received.scope.attributes]
                    .into_iter(),
            ),
        }
    }

    /// A key that is missing is neither equal nor different.
    fn matches_attributes<'a>(&self, lists: impl Iterator<Item = &'a Vec<KeyValue>>) -> bool {
        let (Self::HasKey(key) | Self::Equals(key, _) | Self::Differs(key, _) | Self::Contains(key, _)) =
            self
        else {
            return false;
        };
        let mut of_key = lists.flatten().filter(|attribute| attribute.key == *key);
        of_key.any(|attribute| {
            let value = shown(attribute).to_lowercase();
            match self {
                Self::Equals(_, text) => value == *text,
                Self::Differs(_, text) => value != *text,
                Self::Contains(_, text) => value.contains(text.as_str()),
                _ => true,
            }
        })
    }
}

/// Words between blanks; quotes hold blanks together, and `\\` before a quote makes it part of the word.
fn words(text: &str) -> Vec<Word> {
    let mut words = vec![Word::default()];
    let (mut is_quoted, mut is_escaped) = (false, false);
    for character in text.chars() {
        let Some(word) = words.last_mut() else { break };
        let is_first = word.text.is_empty();
        match character {
            '\\' if is_quoted && !is_escaped => {
                is_escaped = true;
                continue;
            }
            '"' if !is_escaped => {
                word.is_literal |= is_first;
                is_quoted = !is_quoted;
            }
            '-' if is_first && !is_quoted && !word.is_negated => word.is_negated = true,
            character if character.is_whitespace() && !is_quoted => words.push(Word::default()),
            character => word.text.push(character),
        }
        is_escaped = false;
    }
    words.retain(|word| !word.text.is_empty());
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
        assert_eq!(Query::parse("or - ").expect("it is valid"), Query::default());
    }

    #[test]
    fn what_is_in_quotes_is_looked_for_as_it_is() {
        for literal in ["or", "err", "-5", "a=b", "service:x", "two words"] {
            assert_eq!(only(&format!("\"{literal}\"")), Test::Anywhere(literal.to_owned()));
        }
        let equals = Test::Equals("msg".to_owned(), "say \"hi\" now".to_owned());
        assert_eq!(only(r#"msg="say \"hi\" now""#), equals);
        let negated = Query::parse(r#"-"or""#).expect("it is valid");
        assert!(negated.0[0][0].is_negated);
    }
}
