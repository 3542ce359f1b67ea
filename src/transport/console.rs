//! The console transport: OTLP JSON on standard output, one line per request.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::{Payload, Transport, Verdict, encode_json, lower_first, shrink};

/// Prints batches instead of sending them.
///
/// A write to a full pipe cannot be interrupted: it blocks the worker until the pipe is read. A shutdown does not wait
/// for such a write, and leaves the worker blocked in it.
#[derive(Debug, Default)]
pub(crate) struct Console {
    line: Vec<u8>,
    /// True after a failed write, which may have printed a part of its line.
    is_torn: bool,
    /// True if failed writes are retried, because the records are on disk (`standpipe drain`).
    is_patient: bool,
    is_over: Arc<AtomicBool>,
}

impl Console {
    pub(crate) fn new(is_patient: bool) -> Self {
        Self { is_patient, ..Self::default() }
    }

    fn print(&mut self, to: &mut impl Write) -> Verdict {
        // Without a line end, this line would be appended to the incomplete one.
        let start: &[u8] = if self.is_torn { b"\n" } else { b"" };
        let written = to.write_all(start).and_then(|()| to.write_all(&self.line)).and_then(|()| to.flush());
        self.is_torn = written.is_err();
        let Err(error) = written else { return Verdict::Accepted };
        let reason = format!("write to stdout: {}", lower_first(&error.to_string()));
        match self.is_patient {
            true => Verdict::TryLater { after: None, reason },
            false => Verdict::Refused { reason },
        }
    }
}

impl Transport for Console {
    fn encode(&mut self, payload: &Payload<'_>, _: usize) -> bool {
        let is_encoded = encode_json(&mut self.line, payload, usize::MAX);
        self.line.push(b'\n');
        is_encoded
    }

    fn send(&mut self, _: &Payload<'_>, deadline: Instant) -> Verdict {
        // Locked before the time is checked, because another thread may hold the lock for a long time.
        let mut stdout = io::stdout().lock();
        if self.is_over.load(Ordering::SeqCst) || Instant::now() >= deadline {
            return Verdict::TryLater { after: None, reason: "write to stdout: no time left".to_owned() };
        }
        let verdict = self.print(&mut stdout);
        shrink(&mut self.line);
        verdict
    }

    fn interrupter(&self) -> Box<dyn Fn() + Send + Sync> {
        let is_over = Arc::clone(&self.is_over);
        Box::new(move || is_over.store(true, Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::time::Duration;

    use super::*;
    use crate::record::Signal;

    /// A writer that accepts a number of bytes and then fails.
    struct Narrow {
        taken: Vec<u8>,
        room: usize,
    }

    impl Write for Narrow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let fitting = bytes.len().min(self.room);
            if fitting == 0 && !bytes.is_empty() {
                return Err(ErrorKind::StorageFull.into());
            }
            self.room -= fitting;
            self.taken.extend_from_slice(&bytes[..fitting]);
            Ok(fitting)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_that_was_cut_off_does_not_spoil_the_next_one() {
        let mut console = Console { line: b"{\"a\":1}\n".to_vec(), ..Console::default() };
        let mut out = Narrow { taken: Vec::new(), room: 3 };
        let Verdict::Refused { reason } = console.print(&mut out) else {
            panic!("it cannot have been printed")
        };
        assert_eq!(reason, "write to stdout: no storage space");
        out.room = 100;
        assert_eq!(console.print(&mut out), Verdict::Accepted);
        assert_eq!(console.print(&mut out), Verdict::Accepted);
        assert_eq!(String::from_utf8(out.taken).unwrap(), "{\"a\n{\"a\":1}\n{\"a\":1}\n");
    }

    #[test]
    fn nothing_is_printed_when_the_time_is_up() {
        let mut console = Console::default();
        let payload = Payload { signal: Signal::Traces, body: &[] };
        let too_late = Verdict::TryLater { after: None, reason: "write to stdout: no time left".to_owned() };
        assert_eq!(console.send(&payload, Instant::now()), too_late);
        console.interrupter()();
        assert_eq!(console.send(&payload, Instant::now() + Duration::from_secs(60)), too_late);
    }
}
