//! What is known of a span beyond its name and its time, in the lines beneath it.

use standpipe::receiver::proto::common::v1::KeyValue;
use standpipe::receiver::proto::trace::v1::span::{Event, Link};

use super::tree::Node;
use super::{Drawing, key_of};
use crate::cli::describe::{self, SpanView};
use crate::cli::logs::LogView;
use crate::cli::paint::{Ink, Line, Look};

/// Events, log records and links listed beneath a span, so many of each; the rest is counted.
const MOST_LISTED: usize = 6;
/// The usual severities have four or five letters; what is logged begins in one column.
const SEVERITY: usize = 5;

/// A piece of text, what it is written with, and the cells that it takes at least.
pub(super) type Piece = (Ink, String, usize);

impl<'a> Drawing<'_, 'a> {
    pub(super) fn details(&self, node: &Node, view: &SpanView<'a>, lines: &mut Vec<String>) {
        let origin = [view.kind(), view.scope].into_iter().filter(|part| !part.is_empty());
        let origin = origin.collect::<Vec<_>>().join(self.look.glyphs.separator);
        let attributes = describe::attributes(&view.span.attributes);
        let first = vec![(Ink::FAINT, origin, 0), (Ink::FAINT, attributes, 0)];
        for pieces in std::iter::once(first).chain(self.remarks(node, view)) {
            let mut line = self.look.line();
            self.guides(&node.trunks, &mut line);
            self.guides(&[node.has_children], &mut line);
            put_pieces(&pieces, &mut line);
            lines.push(line.finish());
        }
    }

    /// What happened in the span, a line each: its error, events and log records, links, and what is missing.
    pub(super) fn remarks(&self, node: &Node, view: &SpanView<'a>) -> Vec<Vec<Piece>> {
        let span = view.span;
        let glyphs = self.look.glyphs;
        let logs = self.logs.get(&key_of(view)).map_or(&[][..], Vec::as_slice);
        let mut lines = Vec::new();
        let mut add = |pieces: &[Piece]| lines.push(pieces.to_vec());

        if let Some(message) = view.error() {
            let message = if message.is_empty() { "error" } else { message };
            add(&[(Ink::BAD, format!("{} {message}", glyphs.cross), 0)]);
        }
        for moment in moments(&span.events, logs) {
            add(&moment.pieces(span.start_time_unix_nano, self.look));
        }
        for link in span.links.iter().take(MOST_LISTED) {
            let trace = format!("in trace {}", describe::short_id(&link.trace_id));
            add(&[(Ink::PLAIN, format!("{} {}", glyphs.link, self.target(link)), 0), (Ink::FAINT, trace, 0)]);
        }
        let unlisted = [(span.events.len(), "event"), (logs.len(), "log record"), (span.links.len(), "link")];
        let unlisted = unlisted.map(|(number, what)| (number.saturating_sub(MOST_LISTED) as u64, what));
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
        if node.is_orphan {
            let parent = describe::short_id(&span.parent_span_id);
            add(&[(Ink::FAINT, format!("its parent {parent} is not here"), 0)]);
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

    fn pieces(&self, span_start: u64, look: &Look) -> Vec<Piece> {
        let offset = (Ink::FAINT, offset(self.unix_nanos(), span_start, look), 0);
        match self {
            Self::Event(event) => {
                let ink = if event.name == "exception" { Ink::BAD } else { Ink::PLAIN };
                let name = (ink, format!("{} {}", look.glyphs.event, event.name), 0);
                vec![name, offset, (Ink::FAINT, attributes(&event.attributes), 0)]
            }
            Self::Log(view) => {
                let attributes = (Ink::FAINT, attributes(&view.log.attributes), 0);
                log_pieces(view).into_iter().chain([offset, attributes]).collect()
            }
        }
    }
}

/// The first events and the first log records, in the order of time.
fn moments<'a>(events: &'a [Event], logs: &[LogView<'a>]) -> Vec<Moment<'a>> {
    let events = events.iter().take(MOST_LISTED).map(Moment::Event);
    let logs = logs.iter().take(MOST_LISTED).copied().map(Moment::Log);
    let mut moments: Vec<Moment<'a>> = events.chain(logs).collect();
    moments.sort_by_key(Moment::unix_nanos);
    moments
}

fn offset(time: u64, span_start: u64, look: &Look) -> String {
    match time.checked_sub(span_start) {
        Some(after) => format!("at {}", describe::duration(after, look)),
        None => "before it began".to_owned(),
    }
}

/// All but the stack trace, which would push everything else off the line.
fn attributes(attributes: &[KeyValue]) -> String {
    let shown = attributes.iter().filter(|attribute| attribute.key != "exception.stacktrace").cloned();
    describe::attributes(&shown.collect::<Vec<_>>())
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

/// Writes the pieces that are not empty, two cells of air between them.
pub(super) fn put_pieces(pieces: &[Piece], line: &mut Line<'_>) {
    for (ink, text, width) in pieces.iter().filter(|(_, text, _)| !text.is_empty()) {
        let end = line.width() + width;
        line.put_rest(*ink, text).pad_to(end).space(2);
    }
}

/// What a log record says: how severe it is, and its body.
pub(super) fn log_pieces(view: &LogView<'_>) -> [Piece; 3] {
    let ink = if view.is_error() { Ink::BAD } else { Ink::PLAIN };
    [
        (view.ink(), view.severity(), SEVERITY),
        (ink.bold(), view.log.event_name.clone(), 0),
        (ink, view.body(), 0),
    ]
}
