//! Draws the lines below a span, the log records outside of all spans, and the origins of a trace's spans.

use std::collections::{BTreeMap, HashMap, HashSet};

use standpipe::receiver::proto::{Event, KeyValue, Link, Span};

use super::tree::Node;
use super::{Drawing, Trace, WITH_BARS, WITH_SERVICES, key_of};
use crate::cli::describe::{self, LogView, SpanView};
use crate::cli::style::{Ink, Style};
use crate::cli::text;

/// Maximum number of events, of log records and of links below a span; the rest is counted.
const MAX_LISTED: usize = 6;
/// Maximum number of log records outside of all spans; the rest is counted.
const MAX_STRAYS: usize = 12;
/// Minimum width of a severity, so that the bodies of most log records begin in the same column.
const SEVERITY: usize = 5;
/// Event name of recorded exceptions, by semantic convention.
const EXCEPTION: &str = "exception";
/// Indentation of the further lines of a detail.
const NEXT_LINE: usize = 2;
/// Maximum number of scopes named for a service; the rest is counted.
const MAX_SCOPES: usize = 4;

/// A piece of text with its ink.
pub(crate) type Piece = (Ink, String);

impl<'a> Drawing<'_, 'a> {
    pub(super) fn details(&self, trace: &Trace<'a>, node: &Node, lines: &mut Vec<String>) {
        let view = &trace.spans[node.index];
        let trunks = [node.trunks.as_slice(), &[node.has_children]].concat();
        for pieces in self.first_lines(trace, node, view).into_iter().chain(self.remarks(node, view)) {
            self.flow(&trunks, &pieces, lines);
        }
    }

    /// Returns the first two lines below a span. The first line has the span's kind, and its attributes or the number
    /// of spans that share its row. With the option `full`, the second line has the span's ids and its scope.
    pub(super) fn first_lines(&self, trace: &Trace<'a>, node: &Node, view: &SpanView<'a>) -> [Vec<Piece>; 2] {
        let span = view.span;
        let kind = match view.kind() {
            _ if view.is_past => "",
            "unspecified" | "internal" if !self.options.full => "",
            kind => kind,
        };
        let mut first = vec![(Ink::FAINT, kind.to_owned())];
        if !node.like.is_empty() {
            let longest = std::iter::once(&node.index).chain(&node.like);
            let longest = longest.map(|&index| trace.spans[index].nanos()).max().unwrap_or(0);
            let spans = describe::count(1 + node.like.len() as u64, "span");
            let longest = describe::duration(longest, self.style);
            first.push((Ink::PLAIN, format!("{spans} in all, the longest {longest}")));
        } else if !view.is_past {
            let attributes = telling(&span.attributes, self.options.full);
            // A line that contains only the number of omitted attributes is left out.
            if !kind.is_empty() || !is_count(&attributes) {
                first.extend(attributes);
            }
        }
        if !self.options.full || view.is_past {
            return [first, Vec::new()];
        }
        let parent =
            Some(describe::id(&span.parent_span_id)).filter(|_| describe::is_id(&span.parent_span_id));
        let ids = [
            ("span", describe::id(&span.span_id)),
            ("parent", parent.unwrap_or_default()),
            ("tracestate", span.trace_state.clone()),
            ("scope", view.scope.to_owned()),
        ];
        let ids = ids.into_iter().filter(|(what, id)| *what == "span" || !id.is_empty());
        [first, ids.map(|(what, id)| (Ink::FAINT, format!("{what} {id}"))).collect()]
    }

    /// Writes pieces to the right of the guides, in as many lines as necessary.
    pub(super) fn flow(&self, trunks: &[bool], pieces: &[Piece], lines: &mut Vec<String>) {
        let begin = |indent: usize| {
            let mut line = self.style.line();
            self.guides(trunks, &mut line);
            line.space(indent);
            line
        };
        let mut line = begin(0);
        let mut is_empty = true;
        for (ink, text) in pieces.iter().filter(|(_, text)| !text.is_empty()) {
            let text = text::shorten(text);
            let parts: Vec<&str> = if self.options.full { text.lines().collect() } else { vec![&text] };
            for (number, text) in parts.into_iter().enumerate() {
                if !is_empty && (number > 0 || line.width() + self.style.width_of(text) > self.style.width) {
                    lines.push(std::mem::replace(&mut line, begin(NEXT_LINE)).finish());
                }
                is_empty = false;
                let mut rest = text;
                let end_of_line = |text: &str, room| {
                    let end = text::end_within(text, room, self.style.charset);
                    Some(end).filter(|end| self.options.full && *end < text.len())
                };
                while let Some(end) = end_of_line(rest, line.room()) {
                    // With `--full`, a long text continues in the next line.
                    line.put(*ink, &rest[..end]);
                    rest = &rest[end..];
                    lines.push(std::mem::replace(&mut line, begin(NEXT_LINE)).finish());
                }
                line.put_rest(*ink, rest).space(2);
            }
        }
        if !is_empty {
            lines.push(line.finish());
        }
    }

    /// Returns lines for the span's error, events, log records and links, and for what is omitted, dropped or missing.
    pub(super) fn remarks(&self, node: &Node, view: &SpanView<'a>) -> Vec<Vec<Piece>> {
        // If the span was drawn before, only its new log records are shown.
        let bare = Span { start_time_unix_nano: view.span.start_time_unix_nano, ..Span::default() };
        let span = if view.is_past { &bare } else { view.span };
        let logs = self.logs.get(&key_of(view)).map_or(&[][..], Vec::as_slice);
        let full = self.options.full;
        let most = if full { usize::MAX } else { MAX_LISTED };
        let mut lines = Vec::new();
        if let Some(message) = view.error() {
            lines.push(vec![error(message, self.style)]);
        }
        let events = unlogged(&span.events, logs);
        let moments = moments(&events, logs, most).into_iter();
        lines.extend(moments.map(|moment| moment.pieces(span.start_time_unix_nano, full, self.style)));
        for link in span.links.iter().take(most) {
            let mut pieces = vec![
                (Ink::PLAIN, format!("{} {}", self.style.glyph("↗"), self.target(link))),
                (Ink::FAINT, format!("in trace {}", describe::short_id(&link.trace_id))),
            ];
            pieces.extend(telling(&link.attributes, full));
            lines.push(pieces);
        }
        let unlisted = [(events.len(), "event"), (logs.len(), "log record"), (span.links.len(), "link")];
        let unlisted = unlisted.map(|(number, what)| (number.saturating_sub(most) as u64, what));
        let dropped = [
            (u64::from(span.dropped_attributes_count), "attribute"),
            (u64::from(span.dropped_events_count), "event"),
            (u64::from(span.dropped_links_count), "link"),
        ];
        let unlisted = counts(&unlisted).map(|rest| (Ink::FAINT, format!("and {rest} more")));
        let dropped =
            counts(&dropped).map(|rest| (Ink::WARNING, format!("{rest} above the limits, dropped")));
        let missing = (node.is_orphan && !view.is_past).then(|| {
            let parent = describe::short_id(&span.parent_span_id);
            let where_to = if self.options.is_cut { "no longer kept" } else { "not here" };
            (Ink::FAINT, format!("its parent {parent} is {where_to}"))
        });
        let hidden = (node.hidden > 0).then(|| {
            let spans = describe::count(node.hidden as u64, "span");
            (Ink::WARNING, format!("+{spans} below"))
        });
        lines.extend([unlisted, dropped, missing, hidden].into_iter().flatten().map(|piece| vec![piece]));
        lines
    }

    /// Returns the name of the span that a link points to, or its id if the span is unknown.
    fn target(&self, link: &Link) -> String {
        let name = self.names.get(&(link.trace_id.as_slice(), link.span_id.as_slice()));
        name.map_or_else(|| format!("span {}", describe::short_id(&link.span_id)), ToString::to_string)
    }

    /// Draws the log records that belong to no drawn span.
    pub(super) fn strays(&self, strays: &[LogView<'a>], lines: &mut Vec<String>) {
        let number = describe::count(strays.len() as u64, "log record");
        let title = [(Ink::FAINT, "logs outside of these spans")];
        lines.push(self.style.ruled(&title, &[(Ink::PLAIN, &number)]));
        let mut listed: Vec<_> = telling_first(strays, LogView::is_error).take(MAX_STRAYS).collect();
        listed.sort_by_key(|view| view.unix_nanos());
        for view in listed {
            let mut pieces = vec![
                (Ink::FAINT, describe::time_of_day(view.unix_nanos())),
                (self.palette.ink(view.service), view.service.to_owned()),
            ];
            pieces.extend(log_pieces(view));
            pieces.extend(telling(&view.log.attributes, self.options.full));
            self.flow(&[], &pieces, lines);
        }
        if strays.len() > MAX_STRAYS {
            let rest = format!("and {} more", strays.len() - MAX_STRAYS);
            lines.push(self.style.line_of(Ink::FAINT, &rest));
        }
    }

    /// Draws a line with the scopes and the resource of each service that has a row. Scopes and resources that were
    /// drawn before are left out.
    pub(super) fn origins(&mut self, trace: &Trace<'a>, lines: &mut Vec<String>) {
        let shown: HashSet<&str> = trace.in_order().map(|(_, view)| view.service).collect();
        let mut services: BTreeMap<_, Vec<&SpanView<'a>>> = BTreeMap::new();
        for view in trace.spans.iter().filter(|view| !view.is_past && shown.contains(view.service)) {
            let place = self.palette.place(view.service).unwrap_or(usize::MAX);
            services.entry((place, view.service)).or_default().push(view);
        }
        services.into_iter().for_each(|((_, service), spans)| self.origin(service, &spans, lines));
    }

    fn origin(&mut self, service: &str, spans: &[&SpanView<'a>], lines: &mut Vec<String>) {
        let Some(first) = spans.first() else { return };
        let resource: Vec<_> =
            first.resource.iter().filter(|attribute| attribute.key != "service.name").cloned().collect();
        let ink = self.palette.ink(service);
        let mut pieces = vec![(Ink::FAINT, "from".to_owned())];
        // At this width, rows show marks instead of service names, and this line explains the marks.
        if (WITH_BARS..WITH_SERVICES).contains(&self.style.width) {
            pieces.push((ink, self.palette.mark(service, self.style)));
        }
        pieces.push((ink, if service.is_empty() { "an unnamed service" } else { service }.to_owned()));
        let scopes = scopes(spans);
        let attributes = telling(&resource, self.options.full);
        if scopes.is_empty() && is_count(&attributes) && self.style.width >= WITH_SERVICES {
            return;
        }
        let texts = attributes.iter().map(|(_, text)| text.as_str());
        // Joined with null characters, different lists of attributes have different texts.
        let origin = format!("{service}\0{}", texts.collect::<Vec<_>>().join("\0"));
        let origins = scopes.iter().map(|scope| format!("{service}\0 {scope}")).chain([origin]);
        // `count` instead of `any`: every scope must be announced, even if the first one is new.
        if origins.filter(|origin| self.palette.announce(origin)).count() > 0 {
            pieces.push((Ink::FAINT, list(scopes, self.options.full)));
            pieces.extend(attributes);
            self.flow(&[], &pieces, lines);
        }
    }
}

/// Returns the most informative attributes and the number of others, or all attributes if `full`.
fn telling(attributes: &[KeyValue], full: bool) -> Vec<Piece> {
    describe::telling(attributes, full).into_iter().map(|text| (Ink::FAINT, text)).collect()
}

/// Returns whether there are no pieces, or only the number of omitted attributes.
fn is_count(attributes: &[Piece]) -> bool {
    attributes.iter().all(|(_, text)| text.starts_with('+'))
}

/// An event or log record of a span.
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
        let (mut pieces, attributes) = match self {
            Self::Event(event) => {
                let ink = if event.name == EXCEPTION { Ink::BAD } else { Ink::PLAIN };
                (
                    vec![(ink, format!("{} {}", style.glyph("◆"), event.name).trim_end().to_owned())],
                    &event.attributes,
                )
            }
            Self::Log(view) => (log_pieces(view).to_vec(), &view.log.attributes),
        };
        let offset = match self.unix_nanos().checked_sub(span_start) {
            Some(after) => format!("at {}", describe::duration(after, style)),
            None => "before it began".to_owned(),
        };
        pieces.push((Ink::FAINT, offset));
        pieces.extend(telling(attributes, full));
        pieces
    }
}

/// Returns the mark of an error with the message, which may be empty.
pub(super) fn error(message: &str, style: &Style) -> Piece {
    (Ink::BAD, format!("{} {message}", style.glyph("✗")).trim_end().to_owned())
}

/// Returns the span's events that no log record repeats. A bridge may emit the same message as event and log record.
fn unlogged<'a>(events: &'a [Event], logs: &[LogView<'_>]) -> Vec<&'a Event> {
    // Each log record hides one event. Bodies are counted, because several events may have the same text.
    let mut bodies: HashMap<String, usize> = HashMap::new();
    if !events.is_empty() {
        logs.iter().for_each(|log| *bodies.entry(log.body()).or_default() += 1);
    }
    let is_unlogged = |event: &&Event| match bodies.get_mut(&event.name).filter(|count| **count > 0) {
        Some(count) => {
            *count -= 1;
            false
        }
        None => true,
    };
    events.iter().filter(is_unlogged).collect()
}

/// Returns up to `most` events and `most` log records, ordered by time. Errors are preferred.
fn moments<'a>(events: &[&'a Event], logs: &[LogView<'a>], most: usize) -> Vec<Moment<'a>> {
    let events =
        telling_first(events, |event| event.name == EXCEPTION).take(most).map(|event| Moment::Event(event));
    let logs = telling_first(logs, LogView::is_error).take(most).copied().map(Moment::Log);
    let mut moments: Vec<Moment<'a>> = events.chain(logs).collect();
    moments.sort_by_key(Moment::unix_nanos);
    moments
}

/// Returns the events of a span for the flat list: the pieces of each event, and the number of others.
pub(crate) fn events(span: &Span, full: bool, style: &Style) -> Vec<Vec<Piece>> {
    let most = if full { usize::MAX } else { MAX_LISTED };
    let moments = moments(&unlogged(&span.events, &[]), &[], most).into_iter();
    let lines = moments.map(|moment| moment.pieces(span.start_time_unix_nano, full, style));
    let rest = counts(&[(span.events.len().saturating_sub(most) as u64, "event")]);
    lines.chain(rest.map(|rest| vec![(Ink::FAINT, format!("and {rest} more"))])).collect()
}

/// Returns all items, errors first.
fn telling_first<T>(items: &[T], is_telling: impl Fn(&T) -> bool + Copy) -> impl Iterator<Item = &T> {
    let telling = items.iter().filter(move |item| is_telling(item));
    telling.chain(items.iter().filter(move |item| !is_telling(item)))
}

/// Returns the counts that are not 0: `2 events, 1 link`. `None` if all are 0.
fn counts(counts: &[(u64, &str)]) -> Option<String> {
    let some = counts.iter().filter(|(number, _)| *number > 0);
    let some: Vec<String> = some.map(|(number, what)| describe::count(*number, what)).collect();
    (!some.is_empty()).then(|| some.join(", "))
}

/// Returns the severity, the event name and the body of a log record.
fn log_pieces(view: &LogView<'_>) -> [Piece; 3] {
    let ink = if view.is_error() { Ink::BAD } else { Ink::PLAIN };
    [
        (view.ink(), format!("{:<SEVERITY$}", view.severity())),
        (ink.bold(), view.log.event_name.clone()),
        (ink, view.body()),
    ]
}

/// Returns the distinct scopes of spans, with their versions.
fn scopes(spans: &[&SpanView<'_>]) -> Vec<String> {
    let mut known = HashSet::new();
    let named = spans.iter().filter(|view| !view.scope.is_empty());
    let new = named.filter(|view| known.insert((view.scope, view.scope_version)));
    new.map(|view| format!("{} {}", view.scope, view.scope_version).trim_end().to_owned()).collect()
}

/// Lists scopes: `scope shop 1.4`, or `scopes a, b +3`. Without scopes, the text is empty.
fn list(mut scopes: Vec<String>, full: bool) -> String {
    let what = match scopes.len() {
        0 => return String::new(),
        1 => "scope",
        _ => "scopes",
    };
    let listed = if full { scopes.len() } else { MAX_SCOPES };
    let more = scopes.len().checked_sub(listed).filter(|more| *more > 0);
    let more = more.map(|more| format!(" +{more}")).unwrap_or_default();
    scopes.truncate(listed);
    format!("{what} {}{more}", scopes.join(", "))
}
