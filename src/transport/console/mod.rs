//! OTLP JSON on standard output: one request, one line.

pub(super) mod json;

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::{Payload, Transport, Verdict, lower_first};
use crate::record::wire::Malformed;

/// Storage for a line that is larger than this is not kept for the next one.
const KEPT_BYTES: usize = 1 << 20;

/// Prints batches instead of sending them.
///
/// A write to a pipe that is not read cannot be ended: it blocks the worker until the pipe is read, and a shutdown leaves
/// both behind.
#[derive(Debug, Default)]
pub(crate) struct Console {
    line: Vec<u8>,
    /// A write has failed: a part of its line may have been printed.
    is_torn: bool,
    /// Whether what cannot be printed is tried again: it is on disk.
    is_patient: bool,
    is_over: Arc<AtomicBool>,
}

impl Console {
    pub(crate) fn new(is_patient: bool) -> Self {
        Self { is_patient, ..Self::default() }
    }

    fn print(&mut self, to: &mut impl Write) -> Verdict {
        // or this line would be lost with the one before
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
            return Verdict::Refused { reason: "write to stdout: the request is no OTLP".to_owned() };
        }
        self.line.push(b'\n');
        // another thread may have held it for long
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
        // a write cannot be ended
        Box::new(|| {})
    }
}

#[cfg(test)]
mod tests;
