//! Which columns and details does `receive` show of a span?

use standpipe::receiver::ReceivedSpan;

use super::Layout;
use super::row::{Cell, Row, SERVICE, TIME, is_tight, name_width};
use crate::cli::describe::{self, SpanView};
use crate::cli::style::{Ink, Style};
use crate::cli::table::GAP;
use crate::cli::waterfall;

const KIND: usize = 8;
/// After time, service and name.
const KIND_AT: usize = 3;
const DURATION: usize = 8;
const STATUS: usize = 5;
/// All columns but the name.
const BESIDE_NAME: usize = TIME + SERVICE + KIND + DURATION + STATUS + 5 * GAP;

/// What a batch holds: a summary and rows.
pub(super) fn list(
    spans: &[ReceivedSpan],
    layout: Layout,
    full: bool,
    style: &Style,
) -> (String, impl Iterator<Item = Row>) {
    let rows = spans.iter().map(move |received| row(&received.into(), layout, full, style));
    (describe::count(spans.len() as u64, "span"), rows)
}

fn row(view: &SpanView<'_>, layout: Layout, full: bool, style: &Style) -> Row {
    let ink = if view.error().is_some() { Ink::BAD } else { Ink::PLAIN };
    let status_ink = if view.error().is_some() { Ink::BAD.bold() } else { Ink::FAINT };
    let duration = format!("{:>DURATION$}", describe::duration(view.nanos(), style));
    let is_tight = is_tight(BESIDE_NAME, layout, style);
    let beside = if is_tight { BESIDE_NAME - KIND - GAP } else { BESIDE_NAME };
    let mut cells = vec![
        Cell::new(Ink::FAINT, describe::time_of_day(view.span.start_time_unix_nano), TIME),
        Cell::new(Ink::of_name(view.service), view.service, SERVICE),
        Cell::new(ink.bold(), &view.span.name, name_width(beside, layout, style)),
        Cell::new(ink, duration, DURATION),
        Cell::new(status_ink, view.status(), STATUS),
    ];
    let ids =
        format!("{}/{}", describe::short_id(&view.span.trace_id), describe::short_id(&view.span.span_id));
    let mut details = vec![
        (Ink::FAINT, ids),
        (Ink::BAD, view.error().unwrap_or_default().to_owned()),
        (Ink::FAINT, describe::attributes(&view.span.attributes)),
    ];
    match is_tight {
        true => details.insert(0, (Ink::FAINT, view.kind().to_owned())),
        false => cells.insert(KIND_AT, Cell::new(Ink::FAINT, view.kind(), KIND)),
    }
    let below = waterfall::events(view.span, full, style);
    Row { cells, details, below }
}

#[cfg(test)]
mod tests {
    use standpipe::receiver::proto::{AnyValue, Event, KeyValue, Span, Status, Value};

    use super::*;
    use crate::cli::style::plain_style;
    use crate::cli::text;

    const NOON: u64 = 1_700_049_600_000_000_000;

    fn span(name: &str) -> Span {
        let value = AnyValue { value: Some(Value::StringValue("/checkout".to_owned())) };
        Span {
            trace_id: vec![0xab; 16],
            span_id: vec![0xcd; 8],
            name: name.to_owned(),
            kind: 2,
            start_time_unix_nano: NOON,
            end_time_unix_nano: NOON + 31_200_000,
            attributes: vec![KeyValue {
                key: "url.path".to_owned(),
                value: Some(value),
                ..KeyValue::default()
            }],
            ..Span::default()
        }
    }

    fn drawn(span: &Span, layout: Layout, width: usize) -> Vec<String> {
        let style = plain_style(width);
        row(&SpanView::bare(span, "storefront"), layout, false, &style).draw(layout, &style)
    }

    fn failed(name: &str, message: &str) -> Span {
        Span { status: Some(Status { code: 2, message: message.to_owned() }), ..span(name) }
    }

    #[test]
    fn a_span_is_one_line_where_lines_are_whole() {
        let lines = drawn(&failed("POST /checkout", "card declined"), Layout::Whole, 100);
        let expected = "12:00:00.000Z  storefront    POST /checkout                server     31.2 ms  error  \
                        abababab/cdcdcdcd  card declined  url.path=/checkout";
        assert_eq!(lines, [expected]);
    }

    #[test]
    fn on_a_narrow_terminal_the_details_have_a_line_of_their_own() {
        let lines = drawn(&failed("POST /checkout", "card declined"), Layout::Cut, 80);
        let expected = [
            "12:00:00.000Z  storefront    POST /checkout            server     31.2 ms  error",
            "               abababab/cdcdcdcd  card declined  url.path=/checkout",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn events_are_behind_their_span_where_lines_are_whole_and_below_it_elsewhere() {
        let event = |number: u64| Event {
            time_unix_nano: NOON + number * 1_000_000,
            name: format!("retry {number}"),
            attributes: span("").attributes,
            ..Event::default()
        };
        let busy = Span { events: (1..=8).map(event).collect(), ..span("POST /checkout") };
        let lines = drawn(&busy, Layout::Whole, 100);
        let [line] = &lines[..] else { panic!("{lines:#?}") };
        assert!(line.contains("◆ retry 1  at 1.00 ms  url.path=/checkout  ◆ retry 2  at"), "{line}");
        assert!(line.ends_with("◆ retry 6  at 6.00 ms  url.path=/checkout  and 2 events more"), "{line}");
        let lines = drawn(&busy, Layout::Cut, 80);
        assert_eq!(lines[2], "               ◆ retry 1  at 1.00 ms  url.path=/checkout");
        assert_eq!((lines.len(), lines[8].trim()), (9, "and 2 events more"));
    }

    #[test]
    fn no_terminal_is_so_narrow_that_a_name_is_left_out() {
        let expected = [
            "12:00:00.000Z  storefront    POST /c…   31.2 ms",
            "               server  abababab/cdcdcdcd  url.p…",
        ];
        let lines = drawn(&span("POST /checkout"), Layout::Cut, 48);
        assert_eq!(lines, expected);
    }

    #[test]
    fn lines_are_cut_on_a_terminal_and_whole_elsewhere() {
        let long = failed(&"checkout ".repeat(40), &"declined ".repeat(40));
        for width in [66, 80, 100, 200] {
            assert!(drawn(&long, Layout::Cut, width).iter().all(|line| text::width(line) <= width));
        }
        let whole = &drawn(&long, Layout::Whole, 80)[0];
        assert!(whole.contains(&long.name) && whole.contains("url.path=/checkout"), "{whole}");
    }

    #[test]
    fn a_hostile_span_cannot_move_the_cursor() {
        let mut hostile = failed("\x1b[2J\x1b[H", "\x1b]0;owned\x07");
        hostile.attributes[0].key = "a\r\nb\u{9b}".to_owned();
        for layout in [Layout::Whole, Layout::Cut] {
            let lines = drawn(&hostile, layout, 100);
            assert!(lines.concat().chars().all(|c| !c.is_control()), "{lines:?}");
        }
    }
}
