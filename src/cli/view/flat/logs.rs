//! Which columns and details does `receive` show of a log record?

use standpipe::receiver::ReceivedLog;

use super::row::{Cell, Row, SERVICE, TIME};
use crate::cli::describe;
use crate::cli::log_view::LogView;
use crate::cli::style::Ink;
use crate::cli::text;

const SEVERITY: usize = 6;
/// The severity texts of senders may be longer than this.
const LONGEST_SEVERITY: usize = 16;
const BODY: usize = 28;

/// What a batch holds: a summary and rows.
pub(super) fn list(logs: &[ReceivedLog]) -> (String, impl Iterator<Item = Row>) {
    let rows = logs.iter().map(|received| {
        let view = LogView::from(received);
        row(&view, describe::attributes(&view.log.attributes))
    });
    (describe::count(logs.len() as u64, "log record"), rows)
}

/// The row of a log record, of whose attributes this is to be shown.
pub(crate) fn row(view: &LogView<'_>, attributes: String) -> Row {
    let severity = view.severity();
    let severity_width = text::width(&severity).clamp(SEVERITY, LONGEST_SEVERITY);
    let body_ink = if view.is_error() { Ink::BAD } else { Ink::PLAIN };
    let mut cells = vec![
        Cell::new(Ink::FAINT, describe::time_of_day(view.unix_nanos()), TIME),
        Cell::new(Ink::of_name(view.service), view.service, SERVICE),
        Cell::new(view.ink(), severity, severity_width),
    ];
    if !view.log.event_name.is_empty() {
        cells.push(Cell::pushing(body_ink.bold(), &view.log.event_name, 0));
    }
    cells.push(Cell::pushing(body_ink, view.body(), BODY));
    let details = vec![(Ink::FAINT, view.ids()), (Ink::FAINT, attributes)];
    Row { cells, details, below: Vec::new() }
}

#[cfg(test)]
mod tests {
    use standpipe::receiver::proto::{AnyValue, KeyValue, LogRecord, Value};

    use super::*;
    use crate::cli::style::plain_style;
    use crate::cli::view::flat::Layout;

    fn any(text: &str) -> Option<AnyValue> {
        Some(AnyValue { value: Some(Value::StringValue(text.to_owned())) })
    }

    fn log(body: &str) -> LogRecord {
        LogRecord {
            time_unix_nano: 1_700_049_600_000_000_000,
            severity_number: 13,
            body: any(body),
            attributes: vec![KeyValue {
                key: "order.id".to_owned(),
                value: any("4711"),
                ..Default::default()
            }],
            trace_id: vec![0xab; 16],
            span_id: vec![0xcd; 8],
            ..LogRecord::default()
        }
    }

    fn drawn(log: &LogRecord, layout: Layout, width: usize) -> Vec<String> {
        row(&LogView { log, service: "storefront" }, describe::attributes(&log.attributes))
            .draw(layout, &plain_style(width))
    }

    #[test]
    fn a_log_record_is_one_line_if_it_has_the_room() {
        let expected = "12:00:00.000Z  storefront    WARN    card declined                 \
                        abababab/cdcdcdcd  order.id=4711";
        assert_eq!(drawn(&log("card declined"), Layout::Whole, 80), [expected]);
        assert_eq!(drawn(&log("card declined"), Layout::Cut, 100), [expected]);
    }

    #[test]
    fn on_a_narrow_terminal_the_details_have_a_line_of_their_own() {
        let expected = [
            "12:00:00.000Z  storefront    WARN    card declined",
            "               abababab/cdcdcdcd  order.id=4711",
        ];
        assert_eq!(drawn(&log("card declined"), Layout::Cut, 80), expected);
    }

    #[test]
    fn a_log_record_with_nothing_but_a_body_is_one_line() {
        let bare =
            LogRecord { attributes: Vec::new(), trace_id: Vec::new(), span_id: Vec::new(), ..log("x") };
        let full = LogRecord { body: any(&"x".repeat(200)), ..bare.clone() };
        assert_eq!(drawn(&bare, Layout::Cut, 80).len(), 1);
        assert_eq!(drawn(&full, Layout::Cut, 80).len(), 1);
    }

    #[test]
    fn an_event_has_its_name_before_its_body() {
        let event = LogRecord { event_name: "order.paid".to_owned(), ..log("twice") };
        let line = &drawn(&event, Layout::Whole, 100)[0];
        assert!(line.contains("WARN    order.paid  twice  "), "{line}");
    }

    #[test]
    fn a_strange_severity_is_shown_and_does_not_take_the_line() {
        let strange = LogRecord { severity_text: "notice".to_owned(), ..log("disk") };
        assert!(drawn(&strange, Layout::Cut, 100)[0].contains("  notice(13)  disk"));
        let endless = LogRecord { severity_text: "severe".repeat(100), ..log("disk") };
        assert!(drawn(&endless, Layout::Cut, 100)[0].contains("  disk"));
    }

    #[test]
    fn lines_are_cut_on_a_terminal_and_whole_elsewhere() {
        let long = "declined ".repeat(100);
        let long_event = LogRecord { event_name: long.clone(), ..log(&long) };
        for width in [66, 80, 100, 200] {
            for log in [&log(&long), &long_event] {
                let lines = drawn(log, Layout::Cut, width);
                assert!(lines.iter().all(|line| text::width(line) <= width), "{lines:?}");
            }
        }
        let whole = &drawn(&log(&long), Layout::Whole, 80)[0];
        assert!(whole.contains(&long) && whole.contains("order.id=4711"), "{whole}");
    }

    #[test]
    fn a_hostile_log_record_cannot_move_the_cursor() {
        let hostile = "\x1b[2J\r\n\u{9b}\u{202e}";
        let mut log = log(hostile);
        log.severity_text = hostile.to_owned();
        log.event_name = hostile.to_owned();
        log.attributes[0].key = hostile.to_owned();
        for layout in [Layout::Whole, Layout::Cut] {
            let view = LogView { log: &log, service: hostile };
            let lines = row(&view, describe::attributes(&log.attributes)).draw(layout, &plain_style(100));
            assert!(lines.concat().chars().all(|c| !c.is_control() && c != '\u{202e}'), "{lines:?}");
        }
    }
}
