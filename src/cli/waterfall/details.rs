//! The lines beneath a span, the log records outside of every span, and where the spans of a trace came from.

use std::collections::{HashMap, HashSet};

use standpipe::receiver::proto::{Event, Link, Span};

use super::tree::Node;
use super::{Drawing, Trace, WITH_BARS, WITH_SERVICES, key_of};
use crate::cli::describe::{self, SpanView};
use crate::cli::log_view::LogView;
use crate::cli::style::{Ink, Line, Style};
use crate::cli::text;

/// Events, log records and links listed beneath a span, `MOST_LISTED` of each; the rest is counted.
const MOST_LISTED: usize = 6;
/// Log records listed outside of every span; the rest is counted.
const MOST_STRAYS: usize = 12;
/// The usual severities have four or five letters; what is logged begins in one column.
const SEVERITY: usize = 5;
/// The name of the events that errors are recorded as.
const EXCEPTION: &str = "exception";
/// How far the second line of a detail is indented.
const NEXT_LINE: usize = 2;

/// Scopes named for a service; the rest is counted.
const MAX_SCOPES: usize = 4;

/// A piece of text, what it is written with, and the cells that it takes at least.
pub(super) type Piece = (Ink, String, usize);

impl<'a> Drawing<'_, 'a> {
    pub(super) fn details(
        &self,
        trace: &Trace<'a>,
        node: &Node,
        view: &SpanView<'a>,
        lines: &mut Vec<String>,
    ) {
        let trunks = [node.trunks.as_slice(), &[node.has_children]].concat();
        for pieces in self.first_lines(trace, node, view).into_iter().chain(self.remarks(node, view)) {
            self.flow(&trunks, &pieces, lines);
        }
    }

    /// What the span is: its kind, what it shares its row with, its attributes, and in full its ids.
    fn first_lines(&self, trace: &Trace<'a>, node: &Node, view: &SpanView<'a>) -> Vec<Vec<Piece>> {
        let span = view.span;
        let kind = match view.kind() {
            "unspecified" | "internal" if !self.options.full || view.is_past => "",
            kind => kind,
        };
        let mut first = vec![(Ink::FAINT, kind.to_owned(), 0)];
        if !node.like.is_empty() {
            let longest = std::iter::once(&node.index).chain(&node.like);
            let longest = longest.map(|&index| trace.spans[index].nanos()).max().unwrap_or(0);
            let spans = describe::count(1 + node.like.len() as u64, "span");
            let longest = describe::duration(longest, self.style);
            first.push((Ink::PLAIN, format!("{spans} in all, the longest {longest}"), 0));
        } else {
            let attributes = describe::telling(&span.attributes, self.options.full);
            // that there are others is worth no line of its own
            if !kind.is_empty() || attributes.iter().any(|text| !text.starts_with('+')) {
                first.extend(attributes.into_iter().map(|text| (Ink::FAINT, text, 0)));
            }
        }
        let mut lines = vec![first];
        if self.options.full && !view.is_past {
            let mut ids = vec![(Ink::FAINT, format!("span {}", describe::id(&span.span_id)), 0)];
            if describe::is_id(&span.parent_span_id) {
                ids.push((Ink::FAINT, format!("parent {}", describe::id(&span.parent_span_id)), 0));
            }
            if !span.trace_state.is_empty() {
                ids.push((Ink::FAINT, format!("tracestate {}", span.trace_state), 0));
            }
            if !view.scope.is_empty() {
                ids.push((Ink::FAINT, format!("scope {}", view.scope), 0));
            }
            lines.push(ids);
        }
        lines
    }

    /// Writes pieces to the right of the guides, in as many lines as they take.
    pub(super) fn flow(&self, trunks: &[bool], pieces: &[Piece], lines: &mut Vec<String>) {
        let begin = |indent: usize| {
            let mut line = self.style.line();
            self.guides(trunks, &mut line);
            line.space(indent);
            line
        };
        let mut line = begin(0);
        let mut is_empty = true;
        for (ink, text, least) in pieces.iter().filter(|(_, text, _)| !text.is_empty()) {
            let text = text::shorten(text);
            // or the line could end in spaces
            for (number, text) in self.parts(text.trim_end()).into_iter().enumerate() {
                if !is_empty && (number > 0 || line.width() + self.style.width_of(text) > self.style.width) {
                    lines.push(std::mem::replace(&mut line, begin(NEXT_LINE)).finish());
                }
                is_empty = false;
                let mut rest = text;
                while let Some(end) = self.end_of_line(rest, line.room()) {
                    // the rest of a long text goes below it
                    line.put(*ink, &rest[..end]);
                    rest = &rest[end..];
                    lines.push(std::mem::replace(&mut line, begin(NEXT_LINE)).finish());
                }
                let end = line.width() + least;
                line.put_rest(*ink, rest).pad_to(end).space(2);
            }
        }
        if !is_empty {
            lines.push(line.finish());
        }
    }

    /// Where a text is to go on in the next line, if all of it is to be shown.
    fn end_of_line(&self, text: &str, room: usize) -> Option<usize> {
        let end = text::end_within(text, room, self.style.charset);
        Some(end).filter(|end| self.options.full && *end < text.len())
    }

    /// The lines of a text, if all of it is to be shown.
    fn parts<'t>(&self, text: &'t str) -> Vec<&'t str> {
        if self.options.full { text.lines().collect() } else { vec![text] }
    }

    /// What happened in the span, a line each: its error, events and log records, links, and what is missing.
    pub(super) fn remarks(&self, node: &Node, view: &SpanView<'a>) -> Vec<Vec<Piece>> {
        let span = view.span;
        let glyphs = self.style.glyphs;
        let logs = self.logs.get(&key_of(view)).map_or(&[][..], Vec::as_slice);
        let full = self.options.full;
        let most = if full { usize::MAX } else { MOST_LISTED };
        let mut lines = Vec::new();
        let mut add = |pieces: &[Piece]| lines.push(pieces.to_vec());

        if let Some(message) = view.error() {
            let message = if message.is_empty() { "error" } else { message };
            add(&[(Ink::BAD, format!("{} {message}", glyphs.cross), 0)]);
        }
        for moment in moments(&span.events, logs, most) {
            add(&moment.pieces(span.start_time_unix_nano, full, self.style));
        }
        for link in span.links.iter().take(most) {
            let trace = format!("in trace {}", describe::short_id(&link.trace_id));
            let mut pieces = vec![
                (Ink::PLAIN, format!("{} {}", glyphs.link, self.target(link)), 0),
                (Ink::FAINT, trace, 0),
            ];
            let attributes = describe::telling(&link.attributes, full);
            pieces.extend(attributes.into_iter().map(|text| (Ink::FAINT, text, 0)));
            add(&pieces);
        }
        let unlisted = [(span.events.len(), "event"), (logs.len(), "log record"), (span.links.len(), "link")];
        let unlisted = unlisted.map(|(number, what)| (number.saturating_sub(most) as u64, what));
        if let Some(rest) = counts(&unlisted) {
            add(&[(Ink::FAINT, format!("and {rest} more"), 0)]);
        }
        let dropped = [
            (u64::from(span.dropped_attributes_count), "attribute"),
            (u64::from(span.dropped_events_count), "event"),
            (u64::from(span.dropped_links_count), "link"),
        ];
        if let Some(dropped) = counts(&dropped) {
            add(&[(Ink::WARNING, format!("{dropped} above the limits, dropped"), 0)]);
        }
        if node.is_orphan && !view.is_past {
            let parent = describe::short_id(&span.parent_span_id);
            let where_to = if self.options.is_cut { "not kept any more" } else { "not here" };
            add(&[(Ink::FAINT, format!("its parent {parent} is {where_to}"), 0)]);
        }
        if node.hidden > 0 {
            let spans = describe::count(node.hidden as u64, "span");
            add(&[(Ink::WARNING, format!("+{spans} below"), 0)]);
        }
        lines
    }

    /// The name of the span a link points to, or its id if it is not here.
    fn target(&self, link: &Link) -> String {
        match self.names.get(&(link.trace_id.as_slice(), link.span_id.as_slice())) {
            Some(name) => (*name).to_owned(),
            None => format!("span {}", describe::short_id(&link.span_id)),
        }
    }
}

/// Something that happened while a span was open.
enum Moment<'a> {
    Event(&'a Event),
    Log(LogView<'a>),
}

impl Moment<'_> {
    fn unix_nanos(&self) -> u64 {
        match self {
            Self::Event(event) => event.time_unix_nano,
            Self::Log(view) => view.unix_nanos(),
        }
    }

    fn pieces(&self, span_start: u64, full: bool, style: &Style) -> Vec<Piece> {
        let offset = (Ink::FAINT, offset(self.unix_nanos(), span_start, style), 0);
        let (mut pieces, attributes) = match self {
            Self::Event(event) => {
                let ink = if event.name == EXCEPTION { Ink::BAD } else { Ink::PLAIN };
                (vec![(ink, format!("{} {}", style.glyphs.event, event.name), 0)], &event.attributes)
            }
            Self::Log(view) => (log_pieces(view).to_vec(), &view.log.attributes),
        };
        pieces.push(offset);
        let attributes = describe::telling(attributes, full);
        pieces.extend(attributes.into_iter().map(|text| (Ink::FAINT, text, 0)));
        pieces
    }
}

/// The most telling events and log records, `most` of each, in the order of time.
fn moments<'a>(events: &'a [Event], logs: &[LogView<'a>], most: usize) -> Vec<Moment<'a>> {
    let events = telling_first(events, |event| event.name == EXCEPTION).take(most).map(Moment::Event);
    let logs = telling_first(logs, LogView::is_error).take(most).copied().map(Moment::Log);
    let mut moments: Vec<Moment<'a>> = events.chain(logs).collect();
    moments.sort_by_key(Moment::unix_nanos);
    moments
}

/// What is shown of a span's events where there is no tree: pieces of text for each, and how many more there are.
pub(crate) fn events(span: &Span, full: bool, style: &Style) -> Vec<Vec<(Ink, String)>> {
    let most = if full { usize::MAX } else { MOST_LISTED };
    let moments = moments(&span.events, &[], most).into_iter();
    let pieces = moments.map(|moment| moment.pieces(span.start_time_unix_nano, full, style));
    let mut lines: Vec<Vec<_>> =
        pieces.map(|line| line.into_iter().map(|(ink, text, _)| (ink, text)).collect()).collect();
    if let Some(rest) = counts(&[(span.events.len().saturating_sub(most) as u64, "event")]) {
        lines.push(vec![(Ink::FAINT, format!("and {rest} more"))]);
    }
    lines
}

/// All items, those that tell of an error before the others.
fn telling_first<T>(items: &[T], is_telling: impl Fn(&T) -> bool + Copy) -> impl Iterator<Item = &T> {
    let telling = items.iter().filter(move |item| is_telling(item));
    telling.chain(items.iter().filter(move |item| !is_telling(item)))
}

fn offset(time: u64, span_start: u64, style: &Style) -> String {
    match time.checked_sub(span_start) {
        Some(after) => format!("at {}", describe::duration(after, style)),
        None => "before it began".to_owned(),
    }
}

/// `2 events, 1 link`, or nothing if there are none.
fn counts(counts: &[(u64, &str)]) -> Option<String> {
    let some: Vec<String> = counts
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, what)| describe::count(*number, what))
        .collect();
    (!some.is_empty()).then(|| some.join(", "))
}

/// Writes the pieces that are not empty, with a gap of two cells between them.
fn put_pieces(pieces: &[Piece], line: &mut Line<'_>) {
    for (ink, text, width) in pieces.iter().filter(|(_, text, _)| !text.is_empty()) {
        let end = line.width() + width;
        line.put_rest(*ink, text).pad_to(end).space(2);
    }
}

/// The severity, the event name and the body of a log record.
fn log_pieces(view: &LogView<'_>) -> [Piece; 3] {
    let ink = if view.is_error() { Ink::BAD } else { Ink::PLAIN };
    [
        (view.ink(), view.severity(), SEVERITY),
        (ink.bold(), view.log.event_name.clone(), 0),
        (ink, view.body(), 0),
    ]
}

/// Log records that were written outside of every span that is drawn.
impl<'a> Drawing<'_, 'a> {
    pub(super) fn strays(&self, strays: &[LogView<'a>], lines: &mut Vec<String>) {
        let mut heading = self.style.line();
        heading.put_rest(Ink::FAINT, "logs outside of these spans ");
        let number = format!(" {}", describe::count(strays.len() as u64, "log record"));
        let rule = self.style.width.saturating_sub(heading.width() + number.len());
        heading.put(Ink::FAINT, &self.style.glyphs.rule.repeat(rule)).put_rest(Ink::PLAIN, &number);
        lines.push(heading.finish());

        let mut listed: Vec<_> = telling_first(strays, LogView::is_error).take(MOST_STRAYS).collect();
        listed.sort_by_key(|view| view.unix_nanos());
        for view in listed {
            lines.push(self.stray(view));
        }
        if let Some(rest) = strays.len().checked_sub(MOST_STRAYS).filter(|rest| *rest > 0) {
            let mut line = self.style.line();
            line.put_rest(Ink::FAINT, &format!("and {rest} more"));
            lines.push(line.finish());
        }
    }

    fn stray(&self, view: &LogView<'a>) -> String {
        let before = [
            (Ink::FAINT, describe::time_of_day(view.unix_nanos()), 0),
            (self.palette.ink(view.service), view.service.to_owned(), 0),
        ];
        let attributes = describe::telling(&view.log.attributes, self.options.full);
        let attributes: Vec<Piece> = attributes.into_iter().map(|text| (Ink::FAINT, text, 0)).collect();
        let mut line = self.style.line();
        put_pieces(&before, &mut line);
        put_pieces(&log_pieces(view), &mut line);
        put_pieces(&attributes, &mut line);
        line.finish()
    }
}

impl<'a> Drawing<'_, 'a> {
    pub(super) fn origins(&self, trace: &Trace<'a>, lines: &mut Vec<String>) {
        let mut services: Vec<(&str, Vec<&SpanView<'a>>)> = Vec::new();
        let mut places: HashMap<&str, usize> = HashMap::new();
        for (_, view) in trace.in_order().filter(|(_, view)| !view.is_past) {
            places.entry(view.service).or_insert_with(|| {
                services.push((view.service, Vec::new()));
                services.len() - 1
            });
        }
        for view in trace.spans.iter().filter(|view| !view.is_past) {
            if let Some(&place) = places.get(view.service) {
                services[place].1.push(view);
            }
        }
        for (service, spans) in services {
            self.origin(service, &spans, lines);
        }
    }

    fn origin(&self, service: &str, spans: &[&SpanView<'a>], lines: &mut Vec<String>) {
        let Some(first) = spans.first() else { return };
        let resource: Vec<_> =
            first.resource.iter().filter(|attribute| attribute.key != "service.name").cloned().collect();
        let ink = self.palette.ink(service);
        let mut pieces = vec![(Ink::FAINT, "from".to_owned(), 0)];
        // where there is no room for names, this is what the marks mean
        if (WITH_BARS..WITH_SERVICES).contains(&self.style.width) {
            pieces.push((ink, self.palette.mark(service, self.style), 0));
        }
        pieces.push((ink, if service.is_empty() { "an unnamed service" } else { service }.to_owned(), 0));
        let named = pieces.len();
        pieces.extend(scopes(spans, self.options.full).into_iter().map(|scope| (Ink::FAINT, scope, 0)));
        let attributes = describe::telling(&resource, self.options.full);
        let has_content = pieces.len() > named || attributes.iter().any(|text| !text.starts_with('+'));
        if has_content || self.style.width < WITH_SERVICES {
            pieces.extend(attributes.into_iter().map(|text| (Ink::FAINT, text, 0)));
            self.flow(&[], &pieces, lines);
        }
    }
}

/// `scope shop 1.4`, or as many as there are.
fn scopes(spans: &[&SpanView<'_>], full: bool) -> Option<String> {
    let mut known = HashSet::new();
    let named = spans.iter().filter(|view| !view.scope.is_empty());
    let new = named.filter(|view| known.insert((view.scope, view.scope_version)));
    let mut scopes: Vec<String> =
        new.map(|view| format!("{} {}", view.scope, view.scope_version).trim_end().to_owned()).collect();
    let what = if scopes.len() == 1 { "scope" } else { "scopes" };
    let listed = if full { scopes.len() } else { MAX_SCOPES };
    let more = scopes.len().checked_sub(listed).filter(|more| *more > 0);
    let more = more.map(|more| format!(" +{more}")).unwrap_or_default();
    scopes.truncate(listed);
    (!scopes.is_empty()).then(|| format!("{what} {}{more}", scopes.join(", ")))
}
