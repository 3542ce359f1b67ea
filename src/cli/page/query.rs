//! Search language for traces and logs: `service:pay err dur>100ms http.route=/checkout -health or name:refund`.
//!
//! All words must match; `or` separates alternatives, and a leading `-` negates a word. A word that is not a condition
//! is searched for in names, services, ids, bodies and attribute values.

use std::cmp::Ordering::{self, Equal, Greater, Less};

use standpipe::receiver::proto::KeyValue;
use standpipe::receiver::{ReceivedLog, ReceivedSpan};

use super::super::describe::{self, LogView, SpanView};
use super::super::record::severity;
use super::super::text;
use super::store::{Trace, is_error};

/// Minimum length of a word that is compared with the beginning of trace ids. Shorter words could match an id by
/// chance.
const MIN_ID_DIGITS: usize = 8;

/// Comparison operators, and the orderings that they accept. `>=` precedes `>`, because the first matching prefix is
/// used.
const COMPARISONS: [(&str, &[Ordering]); 5] =
    [(">=", &[Greater, Equal]), ("<=", &[Less, Equal]), (">", &[Greater]), ("<", &[Less]), ("=", &[Equal])];

/// A parsed search in disjunctive form: a record matches if all conditions of at least one alternative hold.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Query(Vec<Vec<Condition>>);

#[derive(Debug, PartialEq)]
struct Condition {
    is_negated: bool,
    test: Test,
}

/// A condition without its negation. All texts except keys are in lower case.
#[derive(Debug, PartialEq)]
enum Test {
    Anywhere(String),
    Service(String),
    Name(String),
    TraceId(String),
    Error,
    Nanos(&'static [Ordering], u64),
    Spans(&'static [Ordering], u64),
    Severity(&'static [Ordering], i32),
    HasKey(String),
    Equals(String, String),
    Differs(String, String),
    Contains(String, String),
}

impl Query {
    /// Parses a search.
    ///
    /// # Errors
    /// Returns a hint if a condition is malformed.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut alternatives = vec![Vec::new()];
        for Word { text, is_negated, is_literal } in words(text) {
            let test = match text.as_str() {
                _ if is_literal => Test::Anywhere(text.to_lowercase()),
                "or" | "OR" => {
                    alternatives.push(Vec::new());
                    continue;
                }
                _ => Test::parse(&text)?,
            };
            if let Some(conditions) = alternatives.last_mut() {
                conditions.push(Condition { is_negated, test });
            }
        }
        // While a search is typed, `or` may be its last word. An empty alternative would match everything.
        alternatives.retain(|conditions| !conditions.is_empty());
        Ok(Self(alternatives))
    }

    pub(crate) fn matches_trace(&self, trace: &Trace) -> bool {
        self.any(|test| test.matches_trace(trace))
    }

    pub(super) fn matches_span(&self, span: &ReceivedSpan) -> bool {
        self.any(|test| test.matches_span(span))
    }

    pub(crate) fn matches_log(&self, log: &ReceivedLog) -> bool {
        self.any(|test| test.matches_log(log))
    }

    fn any(&self, matches: impl Fn(&Test) -> bool) -> bool {
        let holds = |condition: &Condition| matches(&condition.test) != condition.is_negated;
        // An empty search matches everything.
        self.0.is_empty() || self.0.iter().any(|conditions| conditions.iter().all(holds))
    }
}

/// A word of the search, without its quotes.
#[derive(Default)]
struct Word {
    text: String,
    is_negated: bool,
    /// Whether the word begins with a quote, so that it is plain text and not a condition.
    is_literal: bool,
}

impl Test {
    fn parse(word: &str) -> Result<Self, String> {
        let lower = word.to_lowercase();
        if matches!(lower.as_str(), "err" | "error" | "errors") {
            return Ok(Self::Error);
        }
        type OfText = fn(String) -> Test;
        let prefixes =
            [("service:", Self::Service as OfText), ("name:", Self::Name), ("trace:", Self::TraceId)];
        let found = prefixes.iter().find_map(|(prefix, test)| Some((lower.strip_prefix(prefix)?, test)));
        if let Some((text, test)) = found {
            return Ok(test(text.to_owned()));
        }
        if let Some(key) = word.strip_prefix("has:") {
            return Ok(Self::HasKey(key.to_owned()));
        }
        // Checked before attributes: `dur=5s` compares the duration, and not an attribute `dur`.
        for name in ["dur", "spans", "sev"] {
            let rest = lower.strip_prefix(name).unwrap_or_default();
            let found =
                COMPARISONS.iter().find_map(|(sign, accepted)| Some((accepted, rest.strip_prefix(sign)?)));
            if let Some((accepted, value)) = found {
                return Self::number(name, accepted, value);
            }
        }
        // The first operator separates key and value, so that the value may contain further operators.
        let (key, rest) = word.split_at(word.find(['!', '=', '~']).unwrap_or(0));
        let operators =
            [("!=", Self::Differs as fn(String, String) -> Self), ("=", Self::Equals), ("~", Self::Contains)];
        let found = operators.iter().find_map(|(operator, test)| Some((rest.strip_prefix(operator)?, test)));
        Ok(match found.filter(|_| !key.is_empty()) {
            Some((value, test)) => test(key.to_owned(), value.to_lowercase()),
            None => Self::Anywhere(lower),
        })
    }

    fn number(name: &str, accepted: &'static [Ordering], value: &str) -> Result<Self, String> {
        match name {
            // `text::duration` accepts a number without a unit, which is ambiguous here.
            "dur" => text::duration(value)
                .ok()
                .filter(|_| !value.ends_with(|c: char| c.is_ascii_digit()))
                .and_then(|duration| u64::try_from(duration.as_nanos()).ok())
                .map(|nanos| Self::Nanos(accepted, nanos))
                .ok_or_else(|| format!("dur: write a time with its unit, for example dur>100ms, not {value:?}")),
            "spans" => value
                .parse()
                .map(|count| Self::Spans(accepted, count))
                .map_err(|_| format!("spans: write a number, for example spans>50, not {value:?}")),
            _ => severity(value).map(|level| Self::Severity(accepted, level as i32)).map_err(|_| {
                format!("sev: write trace, debug, info, warn, error or fatal, for example sev>=warn, not {value:?}")
            }),
        }
    }

    fn matches_trace(&self, trace: &Trace) -> bool {
        match self {
            Self::Nanos(accepted, nanos) => accepted.contains(&trace.nanos().cmp(nanos)),
            Self::Spans(accepted, count) => accepted.contains(&(trace.spans.len() as u64).cmp(count)),
            Self::Error => trace.errors > 0,
            Self::TraceId(id) => describe::id(&trace.key).starts_with(id.as_str()),
            Self::Anywhere(text) => {
                text.len() >= MIN_ID_DIGITS && describe::id(&trace.key).starts_with(text.as_str())
                    || trace.spans.iter().any(|received| self.matches_span(received))
            }
            // Each condition is tested separately, so different spans of the trace may meet different conditions.
            _ => trace.spans.iter().any(|received| self.matches_span(received)),
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
            Self::Nanos(accepted, nanos) => accepted.contains(&SpanView::from(received).nanos().cmp(nanos)),
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
            Self::Severity(accepted, number) => accepted.contains(&received.log.severity_number.cmp(number)),
            Self::Contains(key, text) if key == "body" => has(&body(), text),
            _ => {
                let log = &received.log.attributes;
                let lists = [log, &received.resource.attributes, &received.scope.attributes];
                self.matches_attributes(lists.into_iter())
            }
        }
    }

    /// Tests the attributes of a record. A record without the key does not match, not even with `!=`.
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

/// Splits a search into words at white space. Quotes enclose white space. A backslash between quotes is removed, and
/// the character after the backslash is part of the word, even if it is a quote.
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
                // Only a quote at the beginning makes the word literal. In `name:"load cart"`, it just encloses white
                // space.
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

/// Returns whether `whole` contains `text`, ignoring case. `text` must be in lower case.
fn has(whole: &str, text: &str) -> bool {
    whole.to_lowercase().contains(text)
}

fn any_value_has(attributes: &[KeyValue], text: &str) -> bool {
    attributes.iter().any(|attribute| has(&shown(attribute), text))
}

/// Returns the value of an attribute, without the quotes that [`describe::whole_value`] puts around some texts.
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
        assert_eq!(only("dur>=1.5s"), Test::Nanos(&[Greater, Equal], 1_500_000_000));
        assert_eq!(only("spans<50"), Test::Spans(&[Less], 50));
        assert_eq!(only("sev>=warn"), Test::Severity(&[Greater, Equal], 13));
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
