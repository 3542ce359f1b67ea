//! What a command prints, passed on byte for byte, and its lines as log records.

use std::io::{self, Read, Write};
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};

use standpipe::{Logger, Severity, SpanContext};

/// A longer line becomes several records.
const LONGEST_LINE: usize = 16 << 10;

/// Has the command write where [`copy`] reads.
pub(super) fn pipe(command: &mut Command) {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
}

/// The threads that copy, one for each stream.
pub(super) struct Copies(Vec<JoinHandle<()>>);

impl Copies {
    /// Waits for the end of both streams.
    pub(super) fn finish(self) {
        self.0.into_iter().for_each(|copy| drop(copy.join()));
    }
}

/// Copies what the command prints until it prints no more.
pub(super) fn copy(child: &mut Child, logger: &Logger, context: &SpanContext) -> Copies {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let log = |stream: &'static str| {
        let (logger, context) = (logger.clone(), context.clone());
        move |line: &[u8]| {
            let body = String::from_utf8_lossy(line);
            logger.record(Severity::Info, body).set("log.iostream", stream).context(&context).emit();
        }
    };
    let (out, err) = (log("stdout"), log("stderr"));
    let copies = [
        stdout.map(|stdout| thread::spawn(move || pass_on(stdout, io::stdout(), Lines::new(out)))),
        stderr.map(|stderr| thread::spawn(move || pass_on(stderr, io::stderr(), Lines::new(err)))),
    ];
    Copies(copies.into_iter().flatten().collect())
}

/// Writes each piece as it comes. Where it cannot be written, reading ends: the command notices as if it wrote there itself.
fn pass_on(mut from: impl Read, mut to: impl Write, mut lines: Lines<impl FnMut(&[u8])>) {
    let mut buffer = vec![0; 16 << 10];
    loop {
        let piece = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => &buffer[..length],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        if to.write_all(piece).and_then(|()| to.flush()).is_err() {
            break;
        }
        lines.add(piece);
    }
    lines.end();
}

/// Pieces of text → lines without their ends. Empty ones are left out.
struct Lines<F> {
    unfinished: Vec<u8>,
    on_line: F,
}

impl<F: FnMut(&[u8])> Lines<F> {
    fn new(on_line: F) -> Self {
        Self { unfinished: Vec::new(), on_line }
    }

    fn add(&mut self, piece: &[u8]) {
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            for part in part.chunks(LONGEST_LINE) {
                if self.unfinished.len() + part.len() > LONGEST_LINE {
                    self.end();
                }
                self.unfinished.extend_from_slice(part);
            }
            if part.ends_with(b"\n") {
                self.end();
            }
        }
    }

    /// Takes what is there as a line.
    fn end(&mut self) {
        let line = self.unfinished.strip_suffix(b"\n").unwrap_or(&self.unfinished);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if !line.is_empty() {
            (self.on_line)(line);
        }
        self.unfinished.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed_on(pieces: &[&[u8]]) -> (Vec<u8>, Vec<String>) {
        struct Pieces<'a>(std::slice::Iter<'a, &'a [u8]>);
        impl Read for Pieces<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                let Some(piece) = self.0.next() else { return Ok(0) };
                buffer[..piece.len()].copy_from_slice(piece);
                Ok(piece.len())
            }
        }
        let (mut written, mut lines) = (Vec::new(), Vec::new());
        let seen = Lines::new(|line: &[u8]| lines.push(String::from_utf8_lossy(line).into_owned()));
        pass_on(Pieces(pieces.iter()), &mut written, seen);
        (written, lines)
    }

    #[test]
    fn lines_are_found_however_they_are_cut_and_the_bytes_are_the_same() {
        let pieces: [&[u8]; 5] = [b"one\ntw", b"o\r", b"\n\n\nthree", b" \xff", b"\nfour"];
        let (written, lines) = passed_on(&pieces);
        assert_eq!(written, pieces.concat());
        assert_eq!(lines, ["one", "two", "three \u{fffd}", "four"]);
    }

    #[test]
    fn a_line_without_end_becomes_records_of_a_bounded_size() {
        let piece = [b'x'; 10_000];
        let (written, lines) = passed_on(&[&piece, &piece, &piece, b"\nnext\n"]);
        assert_eq!(written.len(), 30_006);
        assert!(lines.iter().all(|line| line.len() <= LONGEST_LINE));
        assert_eq!(lines.iter().map(String::len).sum::<usize>(), 30_004);
        assert_eq!(lines.last().map(String::as_str), Some("next"));
    }
}
