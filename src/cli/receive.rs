//! `standpipe receive`: what arrives, as it arrives.

use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::{SystemTime, UNIX_EPOCH};

use standpipe::receiver::{Batch, Receiver};

use super::describe::{self, SpanView};
use super::paint::{Ink, Look};
use super::{Failure, print};

/// Batches that wait to be printed; then the senders wait for their answers.
const BACKLOG: usize = 16;

const TIME: usize = 13;
const SERVICE: usize = 12;
const NAME: usize = 28;
const LONGEST_NAME: usize = 40;
const KIND: usize = 8;
const DURATION: usize = 8;
const STATUS: usize = 5;
const GAP: usize = 2;
/// All columns of a terminal's line but the name.
const BESIDE_NAME: usize = TIME + SERVICE + KIND + DURATION + STATUS + 5 * GAP;

/// How the lines of a span are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Two lines for each span, cut to the width of the terminal.
    Cut,
    /// One line for each span, however long, to be searched.
    Whole,
}

/// Prints what arrives until the process is stopped or nobody reads any more.
pub(crate) fn run(address: SocketAddr, layout: Layout, look: &Look) -> Result<ExitCode, Failure> {
    // Batches come on many threads; only this one prints, so that it can end the program.
    let (arrive, arriving) = mpsc::sync_channel(BACKLOG);
    let receiver = Receiver::builder()
        .address(address)
        .keep_bytes(0)
        .on_batch(move |batch| {
            // Fails only when the program is about to end.
            let _ = arrive.send(batch.clone());
        })
        .start()
        .map_err(|error| cannot_listen(address, &error))?;

    print(&[greeting(&receiver.endpoint(), look)])?;
    for batch in arriving {
        print(&draw_batch(&batch, layout, look))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn cannot_listen(address: SocketAddr, error: &io::Error) -> Failure {
    let free_port = SocketAddr::new(address.ip(), 0);
    Failure::Message(match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!("{address}: address already in use; is a collector running? try --address {free_port}")
        }
        io::ErrorKind::PermissionDenied => {
            format!("{address}: permission denied; try a port above 1023, or --address {free_port}")
        }
        io::ErrorKind::AddrNotAvailable => {
            format!("{address}: this machine has no such address; try --address 127.0.0.1:{}", address.port())
        }
        _ => format!("{address}: {error}"),
    })
}

fn greeting(endpoint: &str, look: &Look) -> String {
    let mut line = look.line();
    line.put(Ink::PLAIN, "listening on ").put(Ink::PLAIN.bold(), endpoint);
    line.put(Ink::FAINT, "  (your exporter's endpoint; Ctrl-C stops)");
    line.finish()
}

fn draw_batch(batch: &Batch, layout: Layout, look: &Look) -> Vec<String> {
    let views: Vec<SpanView<'_>> = batch.spans.iter().map(SpanView::from).collect();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    draw(&views, u64::try_from(now.as_nanos()).unwrap_or(u64::MAX), layout, look)
}

/// Draws one batch: a line over it, then its spans.
pub(crate) fn draw(
    spans: &[SpanView<'_>],
    received_unix_nanos: u64,
    layout: Layout,
    look: &Look,
) -> Vec<String> {
    let mut lines = vec![heading(spans.len() as u64, received_unix_nanos, look)];
    for view in spans {
        match layout {
            Layout::Cut => lines.extend(cut_lines(view, look)),
            Layout::Whole => lines.push(whole_line(view, look)),
        }
    }
    lines
}

fn heading(spans: u64, received_unix_nanos: u64, look: &Look) -> String {
    let mut line = look.line();
    line.put(Ink::FAINT, &look.glyphs.rule.repeat(2)).space(1);
    line.put(Ink::FAINT, &describe::time_of_day(received_unix_nanos)).space(1);
    line.put(Ink::PLAIN.bold(), &describe::count(spans, "span")).space(1);
    let rest = look.width.saturating_sub(line.width());
    line.put(Ink::FAINT, &look.glyphs.rule.repeat(rest));
    line.finish()
}

fn cut_lines(view: &SpanView<'_>, look: &Look) -> [String; 2] {
    let mut first = look.line();
    let mut end = 0;
    let name = look.width.saturating_sub(BESIDE_NAME).min(LONGEST_NAME);
    for cell in cells(view, name, look) {
        first.pad_to(end).put_within(cell.ink, &cell.text, cell.width);
        end += cell.width + GAP;
    }
    let mut second = look.line();
    second.space(TIME + GAP);
    for (ink, text) in details(view) {
        second.put_rest(ink, &text).space(GAP);
    }
    [first.finish(), second.finish()]
}

fn whole_line(view: &SpanView<'_>, look: &Look) -> String {
    let mut line = look.line();
    let mut end = 0;
    for cell in cells(view, NAME, look) {
        line.pad_to(end).put(cell.ink, &cell.text);
        end = line.width().max(end + cell.width) + GAP;
    }
    line.pad_to(end);
    for (ink, text) in details(view) {
        line.put(ink, &text).space(GAP);
    }
    line.finish()
}

/// A text in a column.
struct Cell {
    ink: Ink,
    text: String,
    width: usize,
}

fn cells(view: &SpanView<'_>, name_width: usize, look: &Look) -> [Cell; 6] {
    let cell = |ink, text: &str, width| Cell { ink, text: text.to_owned(), width };
    let ink = if view.error().is_some() { Ink::BAD } else { Ink::PLAIN };
    let duration = format!("{:>DURATION$}", describe::duration(view.nanos(), look));
    let status_ink = if view.error().is_some() { Ink::BAD.bold() } else { Ink::FAINT };
    [
        cell(Ink::FAINT, &describe::time_of_day(view.span.start_time_unix_nano), TIME),
        cell(Ink::of_name(view.service), view.service, SERVICE),
        cell(ink.bold(), &view.span.name, name_width),
        cell(Ink::FAINT, view.kind(), KIND),
        cell(ink, &duration, DURATION),
        cell(status_ink, view.status(), STATUS),
    ]
}

/// Ids, the message of an error, attributes: whatever of them there is.
fn details(view: &SpanView<'_>) -> Vec<(Ink, String)> {
    let ids =
        format!("{}/{}", describe::short_id(&view.span.trace_id), describe::short_id(&view.span.span_id));
    let message = view.error().unwrap_or_default().to_owned();
    let attributes = describe::attributes(&view.span.attributes);
    let all = [(Ink::FAINT, ids), (Ink::BAD, message), (Ink::FAINT, attributes)];
    all.into_iter().filter(|(_, text)| !text.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use standpipe::receiver::proto::common::v1::any_value::Value;
    use standpipe::receiver::proto::common::v1::{AnyValue, KeyValue};
    use standpipe::receiver::proto::trace::v1::{Span, Status};

    use super::super::paint::plain_look;
    use super::super::text;
    use super::*;

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
        let view = SpanView { span, service: "storefront", scope: "shop" };
        draw(&[view], NOON + 5_000_000, layout, &plain_look(width))
    }

    fn failed(name: &str, message: &str) -> Span {
        Span { status: Some(Status { code: 2, message: message.to_owned() }), ..span(name) }
    }

    #[test]
    fn a_batch_is_a_heading_and_a_line_for_each_span() {
        let lines = drawn(&failed("POST /checkout", "card declined"), Layout::Whole, 100);
        assert!(lines[0].starts_with("── 12:00:00.005Z 1 span ────"), "{}", lines[0]);
        let expected = "12:00:00.000Z  storefront    POST /checkout                server     31.2 ms  error  \
                        abababab/cdcdcdcd  card declined  url.path=/checkout";
        assert_eq!(lines[1..], [expected]);
    }

    #[test]
    fn on_a_terminal_the_details_have_a_line_of_their_own() {
        let lines = drawn(&failed("POST /checkout", "card declined"), Layout::Cut, 80);
        let expected = [
            "12:00:00.000Z  storefront    POST /checkout            server     31.2 ms  error",
            "               abababab/cdcdcdcd  card declined  url.path=/checkout",
        ];
        assert_eq!(lines[1..], expected);
    }

    #[test]
    fn lines_are_cut_on_a_terminal_and_whole_elsewhere() {
        let long = failed(&"checkout ".repeat(40), &"declined ".repeat(40));
        for width in [66, 80, 100, 200] {
            assert!(drawn(&long, Layout::Cut, width).iter().all(|line| text::width(line) <= width));
        }
        let whole = &drawn(&long, Layout::Whole, 80)[1];
        assert!(whole.contains(&long.name) && whole.contains("url.path=/checkout"), "{whole}");
    }

    #[test]
    fn a_hostile_batch_cannot_move_the_cursor() {
        let mut hostile = failed("\x1b[2J\x1b[H", "\x1b]0;owned\x07");
        hostile.attributes[0].key = "a\r\nb\u{9b}".to_owned();
        for layout in [Layout::Whole, Layout::Cut] {
            let lines = drawn(&hostile, layout, 100);
            assert!(lines.concat().chars().all(|c| !c.is_control()), "{lines:?}");
        }
    }
}
