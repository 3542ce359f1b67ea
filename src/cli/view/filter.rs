//! Filters of `receive` and `show` for spans, traces, log records and metrics.

use std::collections::HashSet;
use std::time::Duration;

use clap::Args;
use clap::builder::{NonEmptyStringValueParser, TypedValueParser};
use standpipe::receiver::{ReceivedMetric, Records};

use super::super::describe::{self, LogView, SpanView};
use super::super::record::LevelParser;
use super::super::text;

/// Number of hexadecimal digits of a trace id.
const ID_DIGITS: usize = 32;

// Options of the filters. By default, everything is shown. If an option is given more than once, one matching value is
// enough. This is not a doc comment, because clap would show a doc comment in the help.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "Filters (the whole tree is shown if any of its spans or log records matches)")]
pub(crate) struct Filter {
    /// Only this service; may be given more than once.
    #[arg(long = "service", value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) services: Vec<String>,
    /// Only spans, metrics and log records with TEXT in their name, event name or body; may be given more than once.
    #[arg(long = "name", value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) names: Vec<String>,
    /// Hide spans with TEXT in their name and, in a tree, all spans below them; may be given more than once.
    #[arg(long = "hide", value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) hidden: Vec<String>,
    /// Only log records of this severity or higher: a name, or a number from 1 to 24.
    #[arg(long, value_parser = LevelParser.map(|level| level as i32))]
    pub(crate) level: Option<i32>,
    /// Only traces with an error, and log records of severity ERROR or higher; with --flat or --json, spans with an
    /// error.
    #[arg(long)]
    pub(crate) errors: bool,
    /// Only traces of at least this duration, for example 100ms or 1.5s; with --flat or --json, spans.
    #[arg(long, value_name = "TIME", value_parser = text::duration)]
    pub(crate) min: Option<Duration>,
    /// Only traces whose id begins with ID.
    #[arg(long, value_name = "ID", value_parser = trace)]
    pub(crate) trace: Option<String>,
}

impl Filter {
    /// Returns the records that match on their own, without regard to the rest of their trace.
    pub(crate) fn select(&self, records: &Records) -> Records {
        let mut shown = records.clone();
        shown.spans.retain(|span| self.shows_span(&span.into()));
        shown.logs.retain(|log| self.shows_log(&log.into()));
        shown.metrics.retain(|metric| self.shows_metric(metric));
        shown
    }

    /// Returns whether no option of the filter is given.
    pub(crate) fn shows_everything(&self) -> bool {
        *self == Self::default()
    }

    /// Returns whether a trace with this id may be shown.
    pub(crate) fn shows_id(&self, id: &[u8]) -> bool {
        self.trace.as_ref().is_none_or(|start| describe::id(id).starts_with(start))
    }

    fn shows_span(&self, view: &SpanView<'_>) -> bool {
        self.shows_id(&view.span.trace_id)
            && self.is_match(view)
            && !self.hides(view)
            && (!self.errors || view.error().is_some())
            && self.min.is_none_or(|min| u128::from(view.nanos()) >= min.as_nanos())
    }

    /// Returns whether to show a log record that is not part of a drawn trace. A filter by duration excludes it,
    /// because a log record has no duration.
    pub(crate) fn shows_log(&self, view: &LogView<'_>) -> bool {
        self.has_level(view)
            && self.min.is_none()
            && self.shows_id(&view.log.trace_id)
            && self.is_log_match(view)
            && (!self.errors || view.is_error())
    }

    pub(crate) fn has_level(&self, view: &LogView<'_>) -> bool {
        self.level.is_none_or(|level| view.severity_number() >= level)
    }

    /// Returns whether a metric is shown. Filters by error, duration or trace exclude all metrics, because a metric has
    /// no error, duration or trace.
    pub(crate) fn shows_metric(&self, received: &ReceivedMetric) -> bool {
        !self.errors
            && self.min.is_none()
            && self.trace.is_none()
            && self.is_of_service(received.service_name())
            && self.is_named(&[received.name()])
    }

    /// Returns whether a trace is shown: one of its spans or log records must match by both service and name. If the
    /// filter asks for an error or a minimum duration, the trace must have that, too.
    pub(crate) fn shows_trace(&self, spans: &[SpanView<'_>], logs: &[LogView<'_>]) -> bool {
        let (start, end) = describe::interval(spans);
        let has_error =
            || spans.iter().any(|view| view.error().is_some()) || logs.iter().any(LogView::is_error);
        (spans.iter().any(|view| self.is_match(view)) || logs.iter().any(|view| self.is_log_match(view)))
            && (!self.errors || has_error())
            && self.min.is_none_or(|min| u128::from(end.saturating_sub(start)) >= min.as_nanos())
    }

    /// Returns whether `--hide` matches the name of a span.
    pub(crate) fn hides(&self, view: &SpanView<'_>) -> bool {
        contains_any(&view.span.name, &self.hidden)
    }

    /// Returns the ids of hidden spans: those that `--hide` matches, and all their descendants.
    pub(crate) fn hidden_ids<'a>(&self, spans: &[SpanView<'a>]) -> HashSet<&'a [u8]> {
        if self.hidden.is_empty() {
            return HashSet::new();
        }
        let named = spans.iter().filter(|view| self.hides(view));
        describe::with_descendants(spans.iter().map(|view| view.span), named.map(|view| view.span))
    }

    /// Returns whether the service and the name of a span match.
    pub(crate) fn is_match(&self, view: &SpanView<'_>) -> bool {
        self.is_of_service(view.service) && self.is_named(&[&view.span.name])
    }

    fn is_log_match(&self, view: &LogView<'_>) -> bool {
        // The body is formatted only if there is a filter by name.
        self.is_of_service(view.service)
            && (self.names.is_empty() || self.is_named(&[&view.log.event_name, &view.body()]))
    }

    fn is_of_service(&self, service: &str) -> bool {
        self.services.is_empty() || self.services.iter().any(|wanted| wanted == service)
    }

    fn is_named(&self, names: &[&str]) -> bool {
        self.names.is_empty() || names.iter().any(|name| contains_any(name, &self.names))
    }
}

fn contains_any(name: &str, parts: &[String]) -> bool {
    parts.iter().any(|part| name.contains(part.as_str()))
}

/// Parses the value of `--trace`: the beginning of an id.
fn trace(word: &str) -> Result<String, String> {
    let is_id = (1..=ID_DIGITS).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    match is_id {
        true => Ok(word.to_ascii_lowercase()),
        false => Err(format!("write up to {ID_DIGITS} hexadecimal digits, for example 36c3ef3e")),
    }
}

#[cfg(test)]
mod tests {
    use standpipe::receiver::ReceivedSpan;

    use super::*;

    fn records(text: &str) -> Records {
        Records::from_json(text.as_bytes()).expect("it is OTLP")
    }

    fn of_spans() -> Records {
        let text = r#"{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"shop"}}]},
            "scopeSpans":[{"spans":[
            {"traceId":"abcd","spanId":"01","name":"GET /","startTimeUnixNano":"0","endTimeUnixNano":"200000000"},
            {"traceId":"abcd","spanId":"02","parentSpanId":"01","name":"health","endTimeUnixNano":"1000"},
            {"traceId":"abcd","spanId":"03","parentSpanId":"02","name":"ping","status":{"code":2}}]}]}]}"#;
        records(text)
    }

    fn spans() -> Vec<ReceivedSpan> {
        of_spans().spans
    }

    fn shown(filter: &Filter) -> (Vec<String>, bool) {
        let spans = spans();
        let views: Vec<SpanView<'_>> = spans.iter().map(SpanView::from).collect();
        let names = filter.select(&of_spans()).spans.iter().map(|span| span.name().to_owned()).collect();
        (names, filter.shows_trace(&views, &[]))
    }

    #[test]
    fn spans_are_chosen_one_by_one_and_traces_as_a_whole() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let min = |millis| Some(Duration::from_millis(millis));
        let all = words(&["GET /", "health", "ping"]);
        let cases = [
            (Filter::default(), all.clone(), true),
            (Filter { services: words(&["pay", "shop"]), ..Filter::default() }, all.clone(), true),
            (Filter { services: words(&["sho"]), ..Filter::default() }, vec![], false),
            (Filter { names: words(&["eal"]), ..Filter::default() }, words(&["health"]), true),
            (Filter { errors: true, ..Filter::default() }, words(&["ping"]), true),
            (Filter { min: min(200), ..Filter::default() }, words(&["GET /"]), true),
            (Filter { min: min(201), ..Filter::default() }, vec![], false),
            (Filter { trace: Some("ab".to_owned()), ..Filter::default() }, all, true),
            (Filter { hidden: words(&["health"]), ..Filter::default() }, words(&["GET /", "ping"]), true),
        ];
        for (filter, names, is_shown) in cases {
            assert_eq!(shown(&filter), (names, is_shown), "{filter:?}");
        }
        assert!(!Filter { trace: Some("b".to_owned()), ..Filter::default() }.shows_id(&[0xab, 0xcd]));
    }

    #[test]
    fn what_is_hidden_takes_all_below_it_along_even_in_a_circle() {
        let mut spans = spans();
        let filter = Filter { hidden: vec!["health".to_owned()], ..Filter::default() };
        let hidden = |spans: &[ReceivedSpan]| {
            let views: Vec<SpanView<'_>> = spans.iter().map(SpanView::from).collect();
            let mut ids: Vec<u8> = filter.hidden_ids(&views).iter().map(|id| id[0]).collect();
            ids.sort_unstable();
            ids
        };
        assert_eq!(hidden(&spans), [2, 3]);
        let circle = std::sync::Arc::make_mut(&mut spans[1].span);
        circle.parent_span_id = vec![3];
        assert_eq!(hidden(&spans), [2, 3]);
        // A root is not a child of a span without an id.
        let nameless = std::sync::Arc::make_mut(&mut spans[1].span);
        nameless.span_id = vec![];
        assert_eq!(hidden(&spans), [0; 0]);
    }

    #[test]
    fn log_records_are_chosen_by_severity() {
        let text = r#"{"resourceLogs":[{"scopeLogs":[{"logRecords":[
            {"severityNumber":9},{"severityText":"ERROR"},{"severityNumber":13,"body":{"stringValue":"declined"}},{"severityNumber":17}]}]}]}"#;
        let records = records(text);
        let count = |filter: Filter| filter.select(&records).logs.len();
        assert_eq!(count(Filter { level: Some(13), ..Filter::default() }), 3);
        assert_eq!(count(Filter { errors: true, ..Filter::default() }), 2);
        assert_eq!(count(Filter { names: vec!["declined".to_owned()], ..Filter::default() }), 1);
        assert_eq!(count(Filter { min: Some(Duration::ZERO), ..Filter::default() }), 0);
    }

    #[test]
    fn a_trace_is_chosen_by_the_beginning_of_its_id() {
        assert_eq!(trace("36C3"), Ok("36c3".to_owned()));
        for wrong in ["", "xyz", &"a".repeat(33)] {
            assert!(trace(wrong).is_err(), "{wrong}");
        }
    }
}
