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

const SERVICE: usize = 14;
const NAME: usize = 28;
const KIND: usize = 11;
const DURATION: usize = 8;
const STATUS: usize = 5;

/// Prints what arrives until the process is stopped or nobody reads any more.
pub(crate) fn run(address: SocketAddr, whole_lines: bool, look: &Look) -> Result<ExitCode, Failure> {
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
        print(&draw_batch(&batch, whole_lines, look))?;
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
    line.put(Ink::FAINT, "  (the endpoint for your exporters; Ctrl-C stops)");
    line.finish()
}

fn draw_batch(batch: &Batch, whole_lines: bool, look: &Look) -> Vec<String> {
    let views: Vec<SpanView<'_>> = batch.spans.iter().map(SpanView::from).collect();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    draw(&views, u64::try_from(now.as_nanos()).unwrap_or(u64::MAX), whole_lines, look)
}

/// Draws one batch: a line over it, then a line for each span.
///
/// On a terminal the lines are cut to its width; elsewhere they are whole, so that they can be searched.
pub(crate) fn draw(
    spans: &[SpanView<'_>],
    received_unix_nanos: u64,
    whole_lines: bool,
    look: &Look,
) -> Vec<String> {
    let mut lines = vec![heading(spans.len() as u64, received_unix_nanos, look)];
    lines.extend(spans.iter().map(|view| row(view, whole_lines, look)));
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

fn row(view: &SpanView<'_>, whole: bool, look: &Look) -> String {
    let span = view.span;
    let error = view.error();
    let ink = if error.is_some() { Ink::BAD } else { Ink::PLAIN };
    let mut line = look.line();
    let mut column = 0;
    let mut cell = |ink: Ink, text: &str, width: usize| {
        if whole {
            line.put(ink, text)
        } else {
            line.put_within(ink, text, width)
        };
        column += width + 2;
        line.pad_to(column.max(line.width() + 2));
    };
    cell(Ink::FAINT, &describe::time_of_day(span.start_time_unix_nano), 13);
    cell(Ink::of_service(0), view.service, SERVICE);
    cell(ink.bold(), &span.name, NAME);
    cell(Ink::FAINT, view.kind(), KIND);
    cell(ink, &format!("{:>DURATION$}", describe::duration(view.nanos(), look)), DURATION);
    cell(ink, view.status(), STATUS);
    let ids = format!("{}/{}", describe::short_id(&span.trace_id), describe::short_id(&span.span_id));
    cell(Ink::FAINT, &ids, 17);

    let message = error.unwrap_or_default();
    let attributes = describe::attributes(&span.attributes);
    for (ink, text) in [(Ink::BAD, message), (Ink::FAINT, &attributes)] {
        if !text.is_empty() {
            if whole {
                line.put(ink, text)
            } else {
                line.put_rest(ink, text)
            };
            line.space(2);
        }
    }
    line.finish()
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::common::v1::any_value::Value;
    use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
    use opentelemetry_proto::tonic::trace::v1::{Span, Status};

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

    fn drawn(span: &Span, whole: bool) -> Vec<String> {
        draw(
            &[SpanView { span, service: "storefront", scope: "shop" }],
            NOON + 5_000_000,
            whole,
            &plain_look(130),
        )
    }

    #[test]
    fn a_batch_is_a_heading_and_a_line_for_each_span() {
        let mut failed = span("POST /checkout");
        failed.status = Some(Status { code: 2, message: "card declined".to_owned() });
        let lines = drawn(&failed, true);
        assert!(lines[0].starts_with("── 12:00:00.005Z 1 span ────"), "{}", lines[0]);
        let expected = "12:00:00.000Z  storefront      POST /checkout                server        31.2 ms  error  \
                        abababab/cdcdcdcd  card declined  url.path=/checkout";
        assert_eq!(lines[1], expected);
    }

    #[test]
    fn lines_are_cut_on_a_terminal_and_whole_elsewhere() {
        let long = span(&"checkout ".repeat(40));
        assert!(drawn(&long, false).iter().all(|line| text::width(line) <= 130));
        let whole = &drawn(&long, true)[1];
        assert!(whole.contains(&long.name) && whole.contains("url.path=/checkout"), "{whole}");
    }

    #[test]
    fn a_hostile_batch_cannot_move_the_cursor() {
        let mut hostile = span("\x1b[2J\x1b[H");
        hostile.attributes[0].key = "a\r\nb\u{9b}".to_owned();
        hostile.status = Some(Status { code: 2, message: "\x1b]0;owned\x07".to_owned() });
        for whole in [true, false] {
            let lines = drawn(&hostile, whole);
            assert!(lines.concat().chars().all(|c| !c.is_control()), "{lines:?}");
        }
    }
}
