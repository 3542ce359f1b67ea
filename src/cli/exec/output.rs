//! Copies the output of a command byte for byte, and emits each of its lines as a log record.
//!
//! One thread per stream reads a pipe, writes to the same stream of this process, and emits the lines. After the end of
//! the command, [`Copies::finish`] waits until the pipes are empty. Processes that the command left running may keep
//! the pipes open and write forever, so the wait is bounded by the amount that a pipe can hold.

use std::io::{self, IsTerminal, Read, Write};
use std::mem;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use standpipe::shared::spawn;
use standpipe::{Logger, Severity, SpanContext};

use super::process::{Pipe, Stream, await_readable, is_readable, stream};

/// Maximum bytes of a record. A longer line becomes several records.
const MAX_LINE_BYTES: usize = 16 << 10;
/// Bytes of one read.
const READ_BYTES: usize = 16 << 10;
/// Maximum number of reads that are needed to empty both pipes. A pipe holds 1 MiB at most.
const MAX_READS_LEFT: usize = 2 * ((1 << 20) / READ_BYTES + 1);
/// Minimum time that [`Copies::finish`] gives a copying thread to be scheduled.
const SCHEDULING_TIME: Duration = Duration::from_millis(200);
/// Pause between two polls, or between two attempts to write.
const PAUSE: Duration = Duration::from_millis(5);

/// Threads that copy the output of a command, one for each stream.
pub(super) struct Copies {
    /// Channels that pass the pipes to the threads: first standard output, then standard error.
    streams: [mpsc::Sender<Stream>; 2],
    /// Weak handles to the pipes that were passed to the threads.
    pipes: Vec<Pipe>,
    /// Disconnected once both threads have ended.
    running: mpsc::Receiver<()>,
    progress: Arc<Progress>,
}

/// Numbers of reads from both streams together.
#[derive(Default)]
struct Progress {
    /// Reads that were begun. Incremented before bytes are taken out of a pipe, so that `read == done` and two empty
    /// pipes mean that nothing is left.
    read: AtomicUsize,
    /// Reads that have finished: their bytes were written, or the write failed.
    done: AtomicUsize,
}

impl Copies {
    /// Starts the threads and makes the command write to pipes.
    ///
    /// The threads start before the command. If a thread cannot be started, the command can still run without copies.
    ///
    /// # Errors
    /// Returns an error if one of the threads cannot be started.
    pub(super) fn start(command: &mut Command, logger: &Logger, context: &SpanContext) -> io::Result<Self> {
        let progress = Arc::new(Progress::default());
        let (runs, running) = mpsc::channel();
        let copy = |name: &'static str, mut to: Box<dyn Write + Send>| {
            let (logger, context, progress, runs) =
                (logger.clone(), context.clone(), Arc::clone(&progress), runs.clone());
            let (stream, given) = mpsc::channel();
            // `spawn` blocks signals in the new thread, so the handlers of this process do not run there.
            spawn(format!("standpipe-{name}"), move || {
                let log = |line: &[u8]| {
                    let body = String::from_utf8_lossy(line);
                    logger.record(Severity::Info, body).set("log.iostream", name).context(&context).emit();
                };
                if let Ok(from) = given.recv() {
                    pass_on(from, await_readable, &mut to, Lines::new(log), &progress, runs);
                }
            })?;
            io::Result::Ok(stream)
        };
        let streams = [copy("stdout", showing(io::stdout()))?, copy("stderr", showing(io::stderr()))?];
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(Self { streams, pipes: Vec::new(), running, progress })
    }

    /// Passes the pipes of the command to the threads, which copy them until the end of the output.
    pub(super) fn copy(&mut self, child: &mut Child) {
        let given = [child.stdout.take().map(stream), child.stderr.take().map(stream)];
        for (to, given) in self.streams.iter().zip(given) {
            if let Some((stream, pipe)) = given {
                // The thread waits for its stream, so the channel is connected.
                let _ = to.send(stream);
                self.pipes.push(pipe);
            }
        }
    }

    /// Waits for the end of both streams, after the command has ended.
    ///
    /// Processes that the command left running may keep the streams open. The wait therefore also ends if the pipes are
    /// empty, or if more was read than the command can have left in the pipes.
    pub(super) fn finish(self) {
        // A thread that has not received a stream ends when its channel is closed.
        drop(self.streams);
        let (began, before) = (Instant::now(), self.progress.read.load(Ordering::SeqCst));
        while let Err(RecvTimeoutError::Timeout) = self.running.recv_timeout(PAUSE) {
            // `read` is loaded last. A thread increments `read` before it empties a pipe, and `done` after it has
            // written the bytes. While a thread still has bytes to write, `read` and `done` therefore differ.
            let is_left = self.pipes.iter().any(is_readable);
            let done = self.progress.done.load(Ordering::SeqCst);
            let read = self.progress.read.load(Ordering::SeqCst);
            if read - before > MAX_READS_LEFT
                || began.elapsed() >= SCHEDULING_TIME && !is_left && done == read
            {
                return;
            }
        }
    }
}

/// Boxes a stream of this process. A Windows console is wrapped in [`Console`].
fn showing(to: impl Write + IsTerminal + Send + 'static) -> Box<dyn Write + Send> {
    match cfg!(windows) && to.is_terminal() {
        true => Box::new(Console { to, unfinished: Vec::new() }),
        false => Box::new(to),
    }
}

/// A Windows console. std refuses bytes that are not UTF-8 there, so they are replaced with U+FFFD.
struct Console<W> {
    to: W,
    /// Incomplete character at the end of the bytes that arrived so far.
    unfinished: Vec<u8>,
}

impl<W: Write> Write for Console<W> {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        self.unfinished.extend_from_slice(piece);
        let rest = self.unfinished.split_off(whole_characters(&self.unfinished));
        let text = mem::replace(&mut self.unfinished, rest);
        write(&mut self.to, String::from_utf8_lossy(&text).as_bytes())?;
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Copies a stream until its end.
///
/// If the bytes cannot be written, reading ends: the pipe closes, and the command gets the error that a direct write
/// would cause. `_runs` is dropped at the end, which tells [`Copies::finish`] that this thread has ended.
fn pass_on<R: Read>(
    mut from: R,
    await_readable: impl Fn(&mut R),
    mut to: impl Write,
    mut lines: Lines<impl FnMut(&[u8])>,
    progress: &Progress,
    _runs: mpsc::Sender<()>,
) {
    let mut buffer = vec![0; READ_BYTES];
    loop {
        await_readable(&mut from);
        progress.read.fetch_add(1, Ordering::SeqCst);
        match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => match write(&mut to, &buffer[..length]) {
                Ok(()) => lines.add(&buffer[..length]),
                Err(_) => break,
            },
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
        progress.done.fetch_add(1, Ordering::SeqCst);
    }
    // The last line may have no line end.
    lines.end();
    // The loop ended before it counted its last read as done.
    progress.done.fetch_add(1, Ordering::SeqCst);
}

/// Writes all bytes. Another program may have made the output non-blocking: while it accepts no bytes, this function
/// waits and tries again.
fn write(to: &mut impl Write, mut piece: &[u8]) -> io::Result<()> {
    loop {
        let done = match piece {
            [] => to.flush().map(|()| None),
            piece => to.write(piece).map(Some),
        };
        match done {
            Ok(None) => return Ok(()),
            Ok(Some(0)) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(Some(length)) => piece = &piece[length..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::sleep(PAUSE),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Splits pieces of text into lines without line ends. Empty lines are left out.
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
            // A chunk has at most half of the bytes of a record, so it fits after the character that `cut` may keep.
            for part in part.chunks(MAX_LINE_BYTES / 2) {
                if self.unfinished.len() + part.len() > MAX_LINE_BYTES {
                    self.cut();
                }
                self.unfinished.extend_from_slice(part);
            }
            if part.ends_with(b"\n") {
                self.end();
            }
        }
    }

    /// Ends the line here. An incomplete character at its end is kept for the next line.
    fn cut(&mut self) {
        let rest = self.unfinished.split_off(whole_characters(&self.unfinished));
        self.end();
        self.unfinished = rest;
    }

    /// Ends the line here.
    fn end(&mut self) {
        let line = self.unfinished.strip_suffix(b"\n").unwrap_or(&self.unfinished);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if !line.is_empty() {
            (self.on_line)(line);
        }
        self.unfinished.clear();
    }
}

/// Returns the length of `text` without an incomplete character at its end.
fn whole_characters(text: &[u8]) -> usize {
    match std::str::from_utf8(text) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => text.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed_on(pieces: &[&[u8]]) -> (Vec<u8>, Vec<String>) {
        struct Pieces<'a>(std::slice::Iter<'a, &'a [u8]>, &'a Progress);
        impl Read for Pieces<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                let is_counted = self.1.read.load(Ordering::SeqCst) > self.1.done.load(Ordering::SeqCst);
                assert!(is_counted, "what is taken is counted, or a command's end does not wait for it");
                let Some(piece) = self.0.next() else { return Ok(0) };
                buffer[..piece.len()].copy_from_slice(piece);
                Ok(piece.len())
            }
        }
        let (mut written, mut lines) = (Vec::new(), Vec::new());
        let seen = Lines::new(|line: &[u8]| lines.push(String::from_utf8_lossy(line).into_owned()));
        let progress = Progress::default();
        pass_on(Pieces(pieces.iter(), &progress), |_| {}, &mut written, seen, &progress, mpsc::channel().0);
        assert_eq!(progress.read.into_inner(), progress.done.into_inner());
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
        assert!(lines.iter().all(|line| line.len() <= MAX_LINE_BYTES));
        assert_eq!(lines.iter().map(String::len).sum::<usize>(), 30_004);
        assert_eq!(lines.last().map(String::as_str), Some("next"));
    }
    #[test]
    fn a_line_that_is_too_long_is_cut_between_characters() {
        let line = format!("x{}", "ü".repeat(20_000));
        let pieces: Vec<&[u8]> = line.as_bytes().chunks(10_000).collect();
        assert_eq!(passed_on(&pieces).1.concat(), line);
    }

    #[test]
    fn a_console_is_given_whole_characters_and_no_other_bytes() {
        let mut console = Console { to: Vec::new(), unfinished: Vec::new() };
        for piece in [&b"gr\xc3"[..], b"\xbc\xc3", b"\x9fe \xe2\x82", b"\xac\n", b"gr\x81\xe1e\n"] {
            write(&mut console, piece).unwrap();
        }
        assert_eq!(String::from_utf8(console.to).unwrap(), "grüße €\ngr\u{fffd}\u{fffd}e\n");
    }

    #[test]
    #[cfg(unix)]
    fn what_is_left_is_waited_for_however_late_it_is_read() {
        let (mut printing, read) = std::os::unix::net::UnixStream::pair().unwrap();
        let (mut stream, pipe) = stream(std::os::fd::OwnedFd::from(read));
        printing.write_all(b"late").unwrap();
        let (runs, running) = mpsc::channel();
        let streams = [mpsc::channel().0, mpsc::channel().0];
        let copies = Copies { streams, pipes: vec![pipe], running, progress: Arc::default() };
        let (end, ended) = mpsc::channel();
        let finish = thread::spawn(move || {
            copies.finish();
            end.send(())
        });
        assert!(ended.recv_timeout(2 * SCHEDULING_TIME).is_err(), "it ends before all is read");
        stream.read_exact(&mut [0; 4]).unwrap();
        ended.recv().unwrap();
        finish.join().unwrap().unwrap();
        drop((runs, printing));
    }

    #[test]
    fn a_file_without_room_is_waited_for() {
        /// Accepts three bytes in every second call, and has no room in the other calls.
        struct Full(Vec<u8>, bool);
        impl Write for Full {
            fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
                self.flush()?;
                let length = piece.len().min(3);
                self.0.extend_from_slice(&piece[..length]);
                Ok(length)
            }
            fn flush(&mut self) -> io::Result<()> {
                self.1 = !self.1;
                if self.1 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
            }
        }
        let mut full = Full(Vec::new(), false);
        write(&mut full, b"ten bytes.").unwrap();
        assert_eq!(full.0, b"ten bytes.");
    }
}
