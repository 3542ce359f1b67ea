//! The console transport: OTLP JSON on standard output, one line per request.

pub(super) mod json;

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::{Payload, Transport, Verdict, lower_first};
use crate::record::wire::Malformed;

/// Maximum capacity of the line buffer that is kept for the next line.
const KEPT_BYTES: usize = 1 << 20;

/// Prints batches instead of sending them.
///
/// A write to a full pipe cannot be interrupted: it blocks the worker until the pipe is read. A shutdown does not wait for
/// such a write, and leaves the worker blocked in it.
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
        let end_of_torn: &[u8] = if self.is_torn { b"\n" } else { b"" };
        let written =
            to.write_all(end_of_torn).and_then(|()| to.write_all(&self.line)).and_then(|()| to.flush());
        self.is_torn = written.is_err();
        match written {
            Ok(()) => Verdict::Accepted,
            Err(error) => {
                let reason = format!("write to stdout: {}", lower_first(&error.to_string()));
                match self.is_patient {
                    true => Verdict::TryLater { after: None, reason },
                    false => Verdict::Refused { reason },
                }
            }
        }
    }
}

impl Transport for Console {
    fn send(&mut self, payload: &Payload<'_>, deadline: Instant) -> Verdict {
        self.line.clear();
        if json::write(&mut self.line, payload.signal, &payload.body.concat()) == Err(Malformed) {
            return Verdict::Refused { reason: "write to stdout: the request is not OTLP".to_owned() };
        }
        self.line.push(b'\n');
        // Locked before the time is checked, because another thread may hold the lock for a long time.
        let mut stdout = io::stdout().lock();
        if self.is_over.load(Ordering::SeqCst) || Instant::now() >= deadline {
            return Verdict::TryLater { after: None, reason: "write to stdout: no time left".to_owned() };
        }
        let verdict = self.print(&mut stdout);
        self.line.clear();
        self.line.shrink_to(KEPT_BYTES);
        verdict
    }

    fn interrupter(&self) -> Box<dyn Fn() + Send + Sync> {
        let is_over = Arc::clone(&self.is_over);
        Box::new(move || is_over.store(true, Ordering::SeqCst))
    }

    fn cutter(&self) -> Box<dyn Fn() + Send + Sync> {
        // A write to standard output cannot be interrupted.
        Box::new(|| {})
    }
}

#[cfg(test)]
mod tests;
