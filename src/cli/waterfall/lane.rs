//! Draws the bars of spans over time, with a resolution of an eighth of a cell, and the ruler above them.

use crate::cli::describe;
use crate::cli::style::{Ink, Line, Style};
use crate::cli::text::{self, Charset};

/// Minimum width of a bar in eighths of a cell, so that the shortest span is visible.
const MIN_BAR_EIGHTHS: usize = 2;
/// Minimum number of cells between two labels of the ruler.
const LABEL_GAP: usize = 2;

/// Characters that fill a cell from the left. The index is the number of eighths.
const FROM_LEFT: [&str; 9] = [" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"];

/// Conversion of times to cells.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    pub(super) start: u64,
    pub(super) nanos: u64,
    pub(super) cells: usize,
}

impl Scale {
    fn eighths(&self, time: u64) -> usize {
        let elapsed = u128::from(time.saturating_sub(self.start).min(self.nanos));
        let all = self.cells * 8;
        // The product of a u64 and the eighths of a line fits into a u128, and the quotient is at most `all`.
        (elapsed * all as u128).checked_div(u128::from(self.nanos)).map_or(0, |eighths| eighths as usize)
    }

    fn cell(&self, time: u64) -> usize {
        (self.eighths(time) / 8).min(self.cells.saturating_sub(1))
    }
}

/// One span's bar.
pub(super) struct Bar<'a> {
    pub(super) ink: Ink,
    pub(super) start: u64,
    pub(super) end: u64,
    /// Times of the span's events.
    pub(super) events: &'a [u64],
}

impl Bar<'_> {
    /// Draws the bar over exactly `scale.cells` cells.
    pub(super) fn draw(&self, scale: &Scale, style: &Style, line: &mut Line<'_>) {
        let all = scale.cells * 8;
        let start = scale.eighths(self.start).min(all.saturating_sub(MIN_BAR_EIGHTHS));
        let end = scale.eighths(self.end).max(start + MIN_BAR_EIGHTHS);
        let markers: Vec<usize> = self.events.iter().map(|&time| scale.cell(time)).collect();

        for cell in 0..scale.cells {
            let from = start.saturating_sub(cell * 8).min(8);
            let to = end.saturating_sub(cell * 8).min(8);
            let is_covered = from < to;
            if markers.contains(&cell) {
                let ink = if is_covered { self.ink.as_ground() } else { self.ink };
                line.put(ink, style.glyph("◆"));
            } else if is_covered {
                let (glyph, is_reversed) = block(from, to, style);
                line.put(if is_reversed { self.ink.reversed() } else { self.ink }, glyph);
            } else {
                line.space(1);
            }
        }
    }
}

/// Returns the character that covers a cell between two eighths, and whether it is drawn reversed.
///
/// Unicode has characters for every eighth from the left, but from the right only for one half and one eighth. With
/// colors, a cell that is covered from the right is drawn reversed: the background is filled, and the left part is cut
/// out.
fn block(from: usize, to: usize, style: &Style) -> (&'static str, bool) {
    let covered = to - from;
    if style.charset == Charset::Ascii {
        return (if covered >= 4 { "=" } else { "-" }, false);
    }
    let hugs_left = from <= 8 - to;
    match covered {
        8 => ("█", false),
        _ if hugs_left => (FROM_LEFT[covered], false),
        _ if style.color => (FROM_LEFT[8 - covered], true),
        6..=7 => ("█", false),
        3..=5 => ("▐", false),
        _ => ("▕", false),
    }
}

/// Draws the times above the bars. The step from one time to the next is 1, 2 or 5 times a power of ten.
pub(super) fn ruler(scale: &Scale, style: &Style, line: &mut Line<'_>) {
    let left = line.width();
    let mut time = 0;
    let step = step(scale, style);
    while time < scale.nanos.max(1) {
        let cell = scale.cell(scale.start.saturating_add(time));
        let label = label(time, style);
        if cell + text::width(&label) > scale.cells {
            break;
        }
        line.pad_to(left + cell).put(Ink::FAINT, &label);
        time = time.saturating_add(step);
    }
}

fn label(time: u64, style: &Style) -> String {
    let text = if time == 0 { "0".to_owned() } else { describe::round_duration(time, style) };
    format!("{}{text}", style.glyph("╷"))
}

/// Returns the smallest step at which labels do not touch.
pub(super) fn step(scale: &Scale, style: &Style) -> u64 {
    let steps = (0..20).flat_map(|power| [1, 2, 5].map(|digit| 10u64.pow(power).saturating_mul(digit)));
    let fits = |step: &u64| {
        let room = scale.eighths(scale.start.saturating_add(*step)) / 8;
        let widest = (1..8).map(|n| text::width(&label(step.saturating_mul(n), style))).max().unwrap_or(0);
        room >= widest + LABEL_GAP || *step >= scale.nanos
    };
    steps.into_iter().find(fits).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use crate::cli::style::plain_style;

    use super::*;

    fn drawn(start: u64, end: u64, events: &[u64], style: &Style) -> String {
        let scale = Scale { start: 1000, nanos: 80, cells: 10 };
        let bar = Bar { ink: Ink::PLAIN, start: 1000 + start, end: 1000 + end, events };
        let mut line = style.line();
        line.put(Ink::PLAIN, "[");
        bar.draw(&scale, style, &mut line);
        line.put(Ink::PLAIN, "]");
        line.finish()
    }

    #[test]
    fn bars_end_to_the_eighth_of_a_cell() {
        let style = plain_style(80);
        assert_eq!(drawn(0, 80, &[], &style), "[██████████]");
        assert_eq!(drawn(0, 41, &[], &style), "[█████▏    ]");
        assert_eq!(drawn(8, 23, &[], &style), "[ █▉       ]");
        assert_eq!(drawn(12, 16, &[], &style), "[ ▐        ]");
    }

    #[test]
    fn colors_begin_to_the_eighth_of_a_cell_as_well() {
        let style = Style { color: true, ..plain_style(80) };
        assert_eq!(drawn(11, 24, &[], &style), "[ \x1b[7m▍\x1b[0m█       ]");
    }

    #[test]
    fn the_shortest_span_is_seen_even_at_the_end() {
        let style = plain_style(80);
        assert_eq!(drawn(40, 40, &[], &style), "[     ▎    ]");
        assert_eq!(drawn(80, 80, &[], &style), "[         ▕]");
    }

    #[test]
    fn events_are_marked_where_they_happened() {
        assert_eq!(drawn(0, 40, &[1000, 1020, 1079], &plain_style(80)), "[◆█◆██    ◆]");
    }

    #[test]
    fn times_outside_the_trace_stay_on_the_lane() {
        let style = plain_style(80);
        let scale = Scale { start: 1000, nanos: 0, cells: 10 };
        let mut line = style.line();
        Bar { ink: Ink::PLAIN, start: 0, end: u64::MAX, events: &[0, u64::MAX] }
            .draw(&scale, &style, &mut line);
        assert_eq!(line.width(), 10);
        assert_eq!(drawn(9_000, 10_000, &[], &style), "[         ▕]");
    }

    #[test]
    fn ruler_labels_keep_apart_and_on_the_lane() {
        for nanos in [0, 1, 7, 950, 12_345, 412_000_000, 59_000_000_000, 7_200_000_000_000, u64::MAX] {
            for cells in [0, 1, 10, 40, 150] {
                let style = plain_style(200);
                let mut line = style.line();
                ruler(&Scale { start: 5, nanos, cells }, &style, &mut line);
                assert!(line.width() <= cells.max(2), "{nanos} ns on {cells} cells");
                let text = line.finish();
                assert!(text.matches('╷').count() < 20, "{text}");
            }
        }
        let style = plain_style(80);
        let mut line = style.line();
        ruler(&Scale { start: 5, nanos: 412_000_000, cells: 40 }, &style, &mut line);
        assert_eq!(line.finish(), "╷0       ╷100 ms   ╷200 ms   ╷300 ms");
    }
}
