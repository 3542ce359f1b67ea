//! How is what comes kept? As lines of OTLP JSON at the end of a file, by a thread of its own.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use standpipe::receiver::Batch;

use super::super::{Failure, describe, report_error, view};
use super::printer;
use super::queue::{self, Entry, Queue, Waiting};

/// A file that takes what comes.
pub(super) struct Save {
    path: PathBuf,
    queue: Queue,
    ended: mpsc::Receiver<u64>,
    has_failed: Arc<AtomicBool>,
}

/// Opens the file, to add to what it has.
pub(super) fn start(path: &Path) -> Result<Save, Failure> {
    let cannot = |error: io::Error| Failure::Message(format!("--save {}: {error}", path.display()));
    let file = OpenOptions::new().create(true).append(true).open(path).map_err(cannot)?;
    let (queue, waiting) = queue::new();
    let (end, ended) = mpsc::channel();
    let has_failed = Arc::new(AtomicBool::new(false));
    let saver = Saver { name: path.display().to_string(), has_failed: has_failed.clone() };
    thread::Builder::new()
        .name("standpipe-save".to_owned())
        .spawn(move || _ = end.send(saver.run(file, &waiting)))
        .map_err(cannot)?;
    Ok(Save { path: path.to_owned(), queue, ended, has_failed })
}

impl Save {
    pub(super) fn queue(&self) -> Queue {
        self.queue.clone()
    }

    /// Waits until all that came is written, `timeout` at most. Returns what to say about it.
    pub(super) fn finish(&self, timeout: Duration) -> String {
        self.queue.close(Vec::new());
        let path = self.path.display();
        match self.ended.recv_timeout(timeout) {
            Ok(records) => format!("saved {} to {path}", describe::count(records, "record")),
            Err(_) => {
                self.has_failed.store(true, Ordering::Relaxed);
                format!("{path} was not written in time")
            }
        }
    }

    /// Whether something is not in the file.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }
}

struct Saver {
    name: String,
    has_failed: Arc<AtomicBool>,
}

impl Saver {
    /// Returns how many records were written.
    fn run(&self, file: File, waiting: &Waiting) -> u64 {
        let mut file = Some(BufWriter::new(file));
        let mut saved = 0;
        loop {
            match waiting.next(None) {
                Some(Entry::Batch(batch)) => {
                    if let Some(Err(error)) = file.as_mut().map(|file| write(file, &batch)) {
                        self.report(&format!("{error}; nothing is saved from here on"));
                        // a part of a line may be there, which what follows would become a part of
                        file = None;
                    } else if file.is_some() {
                        saved += batch.record_count() as u64;
                    }
                    waiting.release(&batch);
                }
                Some(Entry::End) => return saved,
                Some(Entry::Refusal(..)) | None => {}
            }
            if let Some(missed) = waiting.take_missed() {
                self.report(&format!(
                    "{} not saved: they came faster than they could be written",
                    printer::count_missed(missed)
                ));
            }
        }
    }

    fn report(&self, what: &str) {
        self.has_failed.store(true, Ordering::Relaxed);
        report_error(&format!("--save {}: {what}", self.name));
    }
}

fn write(file: &mut BufWriter<File>, batch: &Batch) -> io::Result<()> {
    view::write_json(&batch.spans, &batch.logs, &batch.metrics, file)?;
    file.flush()
}
