//! A server at work, which can be ended and started again, and what has come through it.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fmt, fs};

use standpipe::receiver::Receiver;

use super::{Order, Place, Server, Transport};
use crate::Error;
use crate::process::{Ending, Process, Recipe, free_port};
use crate::seen::{self, Record};

/// The longest that what was confirmed may take through a server to the sink.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(60);
/// Another process may take a port between the look and the start.
const ATTEMPTS: usize = 3;

pub(crate) struct Stage {
    recipe: Recipe,
    process: Option<Process>,
    port: u16,
    ending: Ending,
    view: View,
}

/// Where what came through is seen.
enum View {
    /// A file that the server writes before it answers.
    Book(PathBuf),
    /// The receiver that the server passes on to; so other clients than ours are tried on it.
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

    /// Ends the server as hard as it can take it; what came through stays to be seen.
    pub(crate) fn end(&mut self) -> Result<(), Error> {
        self.process.take().map_or(Ok(()), |process| process.end(self.ending))
    }

    /// Asks the server to end.
    pub(crate) fn ask_to_end(&mut self) -> Result<(), Error> {
        self.process.take().map_or(Ok(()), |process| process.end(Ending::Ask))
    }

    /// Starts the server again where it was.
    pub(crate) fn start_again(&mut self) -> Result<(), Error> {
        self.process = Some(Process::start(&self.recipe, self.port)?);
        Ok(())
    }

    /// Whether this many spans have come through, or requests, where only those can be counted at a glance.
    pub(crate) fn has_seen_spans(&self, count: usize) -> bool {
        match &self.view {
            // a line is a request
            View::Book(book) => {
                fs::read(book).unwrap_or_default().iter().filter(|byte| **byte == b'\n').count() >= count
            }
            View::Sink(sink) => sink.span_count() >= count as u64,
        }
    }

    /// What has come through, when all that was sent is there or time is up.
    pub(crate) fn records(&self, sent: Sent) -> Result<Vec<Record>, Error> {
        match &self.view {
            View::Book(book) => seen::in_book(&fs::read_to_string(book)?),
            View::Sink(sink) => {
                // whether it was in vain is seen in the records
                let _ = sink.wait_for_spans(sent.spans as u64, ARRIVAL_TIMEOUT)
                    && sink.wait_for_logs(sent.logs as u64, ARRIVAL_TIMEOUT)
                    && sink.wait_for_points(sent.points as u64, ARRIVAL_TIMEOUT);
                seen::in_sink(sink)
            }
        }
    }

    /// What the server found wrong, if it is one that looks.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let View::Book(book) = &self.view else { return Vec::new() };
        let text = fs::read_to_string(book.with_file_name("complaints.txt")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}
