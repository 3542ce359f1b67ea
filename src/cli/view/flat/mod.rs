//! How are records listed? One entry for each, under a heading for each request.

pub(crate) mod logs;
mod points;
mod row;
mod spans;

use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use standpipe::receiver::{Protocol, Records};

use self::row::Row;
use super::super::describe;
use super::super::style::{Ink, Style};

/// How a record is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Lines are cut to the width of the terminal, and details that have no room in the first get a second one.
    Cut,
    /// One line for each record, to be searched, with up to 65,536 characters of each text.
    Whole,
}

/// Each record is written before the next is drawn: a batch may have a million of them.
pub(super) fn print(
    records: &Records,
    protocol: Option<Protocol>,
    layout: Layout,
    full: bool,
    style: &Style,
    out: &mut impl Write,
) -> io::Result<()> {
    if !records.spans.is_empty() {
        print_list(spans::list(&records.spans, layout, full, style), protocol, layout, style, out)?;
    }
    if !records.logs.is_empty() {
        print_list(logs::list(&records.logs), protocol, layout, style, out)?;
    }
    if !records.metrics.is_empty() {
        print_list(points::list(&records.metrics, layout, style), protocol, layout, style, out)?;
    }
    Ok(())
}

fn print_list(
    (content, rows): (String, impl Iterator<Item = Row>),
    protocol: Option<Protocol>,
    layout: Layout,
    style: &Style,
    out: &mut impl Write,
) -> io::Result<()> {
    let heading = match protocol {
        Some(protocol) => heading(&format!("{content} over {}", protocol.name()), now(), style),
        None => rule(&content, style.line(), style),
    };
    writeln!(out, "{heading}")?;
    for row in rows {
        for line in row.draw(layout, style) {
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}

/// The time as OTLP writes it.
pub(super) fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

/// The line over a batch: when it came, and what is in it.
fn heading(content: &str, received_unix_nanos: u64, style: &Style) -> String {
    let mut line = style.line();
    line.put(Ink::FAINT, &style.glyphs.rule.repeat(2)).space(1);
    line.put(Ink::FAINT, &describe::time_of_day(received_unix_nanos)).space(1);
    rule(content, line, style)
}

fn rule(content: &str, mut line: super::super::style::Line<'_>, style: &Style) -> String {
    line.put(Ink::PLAIN.bold(), content).space(1);
    let rest = style.width.saturating_sub(line.width());
    line.put(Ink::FAINT, &style.glyphs.rule.repeat(rest));
    line.finish()
}

#[cfg(test)]
mod tests {
    use super::super::super::style::plain_style;
    use super::*;

    #[test]
    fn a_heading_says_when_a_batch_came_and_what_is_in_it() {
        let line = heading("3 log records over HTTP", 1_700_049_600_005_000_000, &plain_style(50));
        assert_eq!(line, "── 12:00:00.005Z 3 log records over HTTP ─────────");
    }
}
