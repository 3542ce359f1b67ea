//! A running server that can be stopped and restarted, and the records that have passed through it.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fmt, fs};

use standpipe::receiver::Receiver;

use super::{Order, Place, Server, Transport};
use crate::Error;
use crate::process::{Ending, Process, Recipe, free_port};
use crate::seen::{self, Record};

/// Maximum time for a confirmed record to pass through a server to the sink.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(60);
/// Attempts to start a server: another process may take the port after it was chosen.
const ATTEMPTS: usize = 3;

pub(crate) struct Stage {
    recipe: Recipe,
    process: Option<Process>,
    port: u16,
    ending: Ending,
    view: View,
}

/// The source from which received records are read.
enum View {
    /// A file that the server writes before it answers.
    Book(PathBuf),
    /// The receiver to which the server forwards. This also tests the receiver with clients other than standpipe.
    Sink(Receiver),
}

/// How many records of each signal were sent.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sent {
    pub(crate) spans: usize,
    pub(crate) logs: usize,
    pub(crate) points: usize,
}

impl fmt::Display for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} spans, {} logs, {} points", self.spans, self.logs, self.points)
    }
}

impl Stage {
    /// Starts the server, in an empty folder below `scratch`.
    pub(crate) fn open(
        server: &dyn Server,
        order: &Order<'_>,
        tools: &Path,
        scratch: &Path,
    ) -> Result<Self, Error> {
        let folder = scratch.join(server.name());
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        let book = folder.join("received.jsonl");
        let sink = Receiver::start()?;
        let sink_url = match order.transport {
            Transport::Http => sink.endpoint(),
            Transport::Grpc => sink.grpc_endpoint(),
        };
        let mut attempt = 1;
        let (recipe, process, port) = loop {
            let port = free_port()?;
            let place = Place { port, tools, folder: &folder, book: &book, sink: &sink_url };
            let recipe = server.recipe(order, &place)?;
            match Process::start(&recipe, port) {
                Ok(process) => break (recipe, process, port),
                Err(error) if attempt == ATTEMPTS => return Err(error),
                Err(_) => attempt += 1,
            }
        };
        let view = if server.passes_on() { View::Sink(sink) } else { View::Book(book) };
        Ok(Self { recipe, process: Some(process), port, ending: server.ending(), view })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Ends the server as abruptly as is possible without losing confirmed records. The received records can still be
    /// read.
    pub(crate) fn end(&mut self) -> Result<(), Error> {
        self.process.take().map_or(Ok(()), |process| process.end(self.ending))
    }

    /// Asks the server to end.
    pub(crate) fn ask_to_end(&mut self) -> Result<(), Error> {
        self.process.take().map_or(Ok(()), |process| process.end(Ending::Ask))
    }

    /// Restarts the server on the same port.
    pub(crate) fn start_again(&mut self) -> Result<(), Error> {
        self.process = Some(Process::start(&self.recipe, self.port)?);
        Ok(())
    }

    /// Returns whether this many spans have arrived, or this many requests if the server writes a file.
    pub(crate) fn has_seen_spans(&self, count: usize) -> bool {
        match &self.view {
            // Each line is a request.
            View::Book(book) => {
                fs::read(book).unwrap_or_default().iter().filter(|byte| **byte == b'\n').count() >= count
            }
            View::Sink(sink) => sink.span_count() >= count as u64,
        }
    }

    /// Returns the received records. If the server forwards them, waits for all that were sent, up to the timeout.
    pub(crate) fn records(&self, sent: Sent) -> Result<Vec<Record>, Error> {
        match &self.view {
            View::Book(book) => seen::in_book(&fs::read_to_string(book)?),
            View::Sink(sink) => {
                // The result is ignored: the caller finds missing records.
                let _ = sink.wait_for_spans(sent.spans as u64, ARRIVAL_TIMEOUT)
                    && sink.wait_for_logs(sent.logs as u64, ARRIVAL_TIMEOUT)
                    && sink.wait_for_points(sent.points as u64, ARRIVAL_TIMEOUT);
                seen::in_sink(sink)
            }
        }
    }

    /// Returns the faults that the server found, if it checks requests.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let View::Book(book) = &self.view else { return Vec::new() };
        let text = fs::read_to_string(book.with_file_name("complaints.txt")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}
