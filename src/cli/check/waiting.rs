//! Says on a terminal whom it waits for, and takes it back when the answer is there.

use std::collections::BTreeMap;
use std::env;
use std::io::{self, IsTerminal, Write};

use crate::cli::paint::Look;
use crate::cli::text;

/// A line that stands there until it is dropped. It is on standard error: it is no part of what is found.
#[derive(Debug)]
pub(super) struct Waiting;

impl Waiting {
    /// `None` where nobody would see it.
    pub(super) fn begin(endpoints: &BTreeMap<&str, String>, look: &Look) -> Option<Self> {
        let can_be_taken_back = env::var_os("TERM").is_some_and(|term| term != "dumb");
        if !can_be_taken_back || !io::stdout().is_terminal() || !io::stderr().is_terminal() {
            return None;
        }
        write(&format!("\r{}", message(endpoints, look)));
        Some(Self)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        write("\r\x1b[K");
    }
}

/// If it cannot be written there is nobody to tell.
fn write(text: &str) {
    let mut stderr = io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

fn message(endpoints: &BTreeMap<&str, String>, look: &Look) -> String {
    let mut urls: Vec<&str> = endpoints.values().map(String::as_str).collect();
    urls.sort_unstable();
    urls.dedup();
    let ellipsis = look.glyphs.ellipsis;
    let message = format!("asking {} {ellipsis}", urls.join(", "));
    let message = text::printable(&message, look.charset).into_owned();
    // a line that wraps could not be taken back
    text::cut(&message, look.width - 1, ellipsis).into_owned()
}

#[cfg(test)]
mod tests {
    use super::super::super::paint::plain_look;
    use super::*;

    #[test]
    fn the_message_names_every_endpoint_once_and_never_wraps() {
        let endpoints = BTreeMap::from([
            ("logs", "http://a/v1/all".to_owned()),
            ("metrics", "http://b\x1b[2J".to_owned()),
            ("traces", "http://a/v1/all".to_owned()),
        ]);
        assert_eq!(message(&endpoints, &plain_look(80)), "asking http://a/v1/all, http://b\\u{1b}[2J …");
        assert_eq!(text::width(&message(&endpoints, &plain_look(44))), 43);
    }
}
