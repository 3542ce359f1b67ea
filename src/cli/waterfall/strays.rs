//! Log records that were written outside of every span that is drawn.

use super::Drawing;
use super::details::{log_pieces, put_pieces};
use crate::cli::describe;
use crate::cli::logs::LogView;
use crate::cli::paint::Ink;

/// So many are listed; the rest is counted.
const MOST_LISTED: usize = 12;

impl<'a> Drawing<'_, 'a> {
    pub(super) fn strays(&self, strays: &[LogView<'a>], lines: &mut Vec<String>) {
        let mut heading = self.look.line();
        heading.put_rest(Ink::FAINT, "logs outside of these spans ");
        let number = format!(" {}", describe::count(strays.len() as u64, "log record"));
        let rule = self.look.width.saturating_sub(heading.width() + number.len());
        heading.put(Ink::FAINT, &self.look.glyphs.rule.repeat(rule)).put_rest(Ink::PLAIN, &number);
        lines.push(heading.finish());

        for view in strays.iter().take(MOST_LISTED) {
            lines.push(self.stray(view));
        }
        if let Some(rest) = strays.len().checked_sub(MOST_LISTED).filter(|rest| *rest > 0) {
            let mut line = self.look.line();
            line.put_rest(Ink::FAINT, &format!("and {rest} more"));
            lines.push(line.finish());
        }
    }

    fn stray(&self, view: &LogView<'a>) -> String {
        let before = [
            (Ink::FAINT, describe::time_of_day(view.unix_nanos()), 0),
            (self.palette.ink(view.service), view.service.to_owned(), 0),
        ];
        let attributes = (Ink::FAINT, describe::attributes(&view.log.attributes), 0);
        let mut line = self.look.line();
        put_pieces(&before, &mut line);
        put_pieces(&log_pieces(view), &mut line);
        put_pieces(&[attributes], &mut line);
        line.finish()
    }
}
