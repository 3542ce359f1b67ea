//! How are numbers drawn as a sparkline, a row of small bars?

use super::style::Style;
use super::text::Charset;

/// The first is for nothing at all, so that little and nothing look different.
const UNICODE: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const ASCII: [char; 8] = ['_', '.', '-', ':', '=', '+', '*', '#'];

/// A bar for each value, the largest as high as a bar can be; several values share one if there are more than `cells`.
///
/// What is below zero, or no number, counts as zero.
pub(crate) fn bars(values: &[f64], cells: usize, style: &Style) -> String {
    let heights = shared(values, cells);
    let highest = heights.iter().copied().fold(0.0, f64::max);
    let shapes = match style.charset {
        Charset::Unicode => &UNICODE,
        Charset::Ascii => &ASCII,
    };
    heights.iter().map(|height| shapes[level(*height, highest, shapes.len() - 1)]).collect()
}

/// The mean of the values that share a cell, for each cell.
fn shared(values: &[f64], cells: usize) -> Vec<f64> {
    let cells = cells.min(values.len());
    let start = |cell: usize| cell * values.len() / cells;
    (0..cells)
        .map(|cell| {
            let sharing = &values[start(cell)..start(cell + 1)];
            // the second bound is for NaN; divided first, so that no sum is too large for a number
            sharing.iter().map(|value| value.clamp(0.0, f64::MAX).max(0.0) / sharing.len() as f64).sum()
        })
        .collect()
}

fn level(height: f64, highest: f64, top: usize) -> usize {
    if height <= 0.0 {
        return 0;
    }
    ((height / highest * top as f64).round() as usize).clamp(1, top)
}

#[cfg(test)]
mod tests {
    use super::super::style::plain_style;
    use super::*;

    fn drawn(values: &[f64], cells: usize) -> String {
        bars(values, cells, &plain_style(80))
    }

    #[test]
    fn the_largest_is_the_highest_and_little_is_more_than_nothing() {
        assert_eq!(drawn(&[0.0, 0.001, 2.0, 3.5, 7.0], 10), "▁▂▃▅█");
        assert_eq!(drawn(&[0.0, 0.0], 10), "▁▁");
    }

    #[test]
    fn many_values_share_the_cells_they_have() {
        let values: Vec<f64> = (0..1000).map(f64::from).collect();
        assert_eq!(drawn(&values, 7), "▂▃▄▅▆▇█");
        assert_eq!(drawn(&values, 1), "█");
        // ten in four cells: uneven shares do not make a flat line hilly
        assert_eq!(drawn(&[5.0; 10], 4), "████");
    }

    #[test]
    fn there_is_a_line_for_every_input() {
        assert_eq!((drawn(&[], 10), drawn(&[1.0], 0)), (String::new(), String::new()));
        assert_eq!(drawn(&[f64::NAN, f64::NEG_INFINITY, -1.0, 1.0], 10), "▁▁▁█");
        assert_eq!(drawn(&[f64::INFINITY, f64::MAX, 1.0], 10), "██▂");
        assert_eq!(drawn(&[f64::MAX; 9], 2), "██");
    }

    #[test]
    fn ascii_has_bars_too() {
        let ascii = Style { charset: Charset::Ascii, ..plain_style(80) };
        assert_eq!(bars(&[0.0, 1.0, 4.0, 7.0], 10, &ascii), "_.=#");
    }
}
