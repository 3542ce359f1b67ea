//! Appends received telemetry to a file as OTLP JSON lines, on a separate thread.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use standpipe::shared::spawn;

use super::super::caller::private_file;
use super::super::{Failure, describe, report_error, text};
use super::printer;
use super::queue::{Entry, Queue};

/// Maximum time for opening the file.
const OPEN_TIMEOUT: Duration = Duration::from_secs(3);

/// A file to which a thread appends all batches of a queue.
pub(super) struct Save {
    pub(super) queue: Arc<Queue>,
    name: String,
    ended: mpsc::Receiver<u64>,
    has_failed: Arc<AtomicBool>,
}

/// Opens the file for appending and starts the thread.
pub(super) fn start(path: &Path) -> Result<Save, Failure> {
    let name = text::name(path);
    let cannot = |error: io::Error| Failure::Message(format!("--save {name}: {error}"));
    let file = open(path, OPEN_TIMEOUT).map_err(cannot)?;
    let (queue, has_failed) = (Arc::new(Queue::default()), Arc::new(AtomicBool::new(false)));
    let (end, ended) = mpsc::channel();
    let save = {
        let (name, queue, has_failed) = (name.clone(), queue.clone(), has_failed.clone());
        move || _ = end.send(run(file, &name, &queue, &has_failed))
    };
    spawn("standpipe-save", save).map_err(cannot)?;
    Ok(Save { queue, name, ended, has_failed })
}

/// Opens the file on another thread, and gives up after `timeout`: opening a named pipe that no process reads blocks.
fn open(path: &Path, timeout: Duration) -> io::Result<File> {
    let (send, opened) = mpsc::channel();
    let path = path.to_owned();
    spawn("standpipe-open", move || _ = send.send(open_at_line_start(&path)))?;
    opened.recv_timeout(timeout).unwrap_or_else(|_| {
        let what = "the file could not be opened in time; if it is a named pipe, start its reader first";
        Err(io::Error::new(io::ErrorKind::TimedOut, what))
    })
}

fn open_at_line_start(path: &Path) -> io::Result<File> {
    let has_content = fs::metadata(path).is_ok_and(|known| known.is_file() && known.len() > 0);
    // Telemetry may contain personal data, so only the owner may read a new file.
    let mut file = private_file().create(true).append(true).open(path)?;
    // If an earlier process died while writing, the last line is incomplete, so a line end is added. If the last byte
    // cannot be read, one is added as well: an empty line does no harm.
    if has_content && !last_byte(path).is_ok_and(|last| last == b'\n') {
        file.write_all(b"\n")?;
    }
    Ok(file)
}

fn last_byte(path: &Path) -> io::Result<u8> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last).map(|()| last[0])
}

impl Save {
    /// Closes the queue, and waits up to `timeout` for the end of the thread. Returns a message with the result.
    pub(super) fn finish(&self, timeout: Duration) -> String {
        self.queue.close(Vec::new());
        let name = &self.name;
        match self.ended.recv_timeout(timeout) {
            Ok(records) => format!("saved {} to {name}", describe::count(records, "record")),
            Err(_) => {
                self.has_failed.store(true, Ordering::Relaxed);
                format!("{name} is incomplete: not all records were written in time")
            }
        }
    }

    /// Returns whether records are missing in the file.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }
}

/// Writes the batches of the queue until its end or an error. Returns the number of written records.
fn run(file: File, name: &str, queue: &Queue, has_failed: &AtomicBool) -> u64 {
    let report = |what: &str| {
        has_failed.store(true, Ordering::Relaxed);
        report_error(&format!("--save {name}: {what}"));
    };
    let mut file = Some(BufWriter::new(file));
    let mut saved = 0;
    let mut has_ended = false;
    while !has_ended {
        match queue.next(None) {
            Some(Entry::Batch(batch)) => {
                let write = |file: &mut BufWriter<File>| {
                    batch.records.write_json_lines(file).and_then(|()| file.flush())
                };
                if let Some(Err(error)) = file.as_mut().map(write) {
                    report(&format!("{error}; no more records are saved"));
                    // The file may end with an incomplete line, so nothing more is appended to it.
                    file = None;
                } else if file.is_some() {
                    saved += batch.record_count() as u64;
                }
                queue.release(&batch);
            }
            Some(Entry::End(_)) => has_ended = true,
            Some(Entry::Refusal(..)) | None => {}
        }
        if let Some(missed) = queue.take_missed() {
            let missed = printer::count_missed(missed);
            report(&format!("{missed} not saved: they arrived faster than they could be written"));
        }
    }
    saved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_saved_begins_a_line_of_its_own() {
        let path = std::env::temp_dir().join(format!("standpipe-save-{}", std::process::id()));
        for (before, after) in
            [("", "{}\n"), ("{}\n", "{}\n{}\n"), ("{\"resourceSpans\":", "{\"resourceSpans\":\n{}\n")]
        {
            fs::write(&path, before).expect("a temporary file");
            open(&path, OPEN_TIMEOUT).and_then(|mut file| file.write_all(b"{}\n")).expect("it is opened");
            assert_eq!(fs::read_to_string(&path).expect("it is there"), after);
        }
        fs::remove_file(&path).expect("it is there");
    }

    #[cfg(unix)]
    #[test]
    fn a_new_file_is_its_owners_alone_and_an_existing_one_keeps_its_mode() {
        use std::os::unix::fs::{MetadataExt, PermissionsExt};
        let path = std::env::temp_dir().join(format!("standpipe-mode-{}", std::process::id()));
        // A killed process with the same id may have left the file.
        let _ = fs::remove_file(&path);
        let mode = || {
            open(&path, OPEN_TIMEOUT).expect("it is opened");
            fs::metadata(&path).expect("it is there").mode() & 0o777
        };
        assert_eq!(mode(), 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("it is ours");
        assert_eq!(mode(), 0o644);
        fs::remove_file(&path).expect("it is there");
    }

    #[cfg(unix)]
    #[test]
    fn a_pipe_that_no_process_reads_is_an_error_and_no_wait_without_end() {
        let path = std::env::temp_dir().join(format!("standpipe-pipe-{}", std::process::id()));
        // A killed process with the same id may have left the pipe.
        let _ = fs::remove_file(&path);
        let made = std::process::Command::new("mkfifo").arg(&path).status().expect("mkfifo is there");
        assert!(made.success());
        let opened = open(&path, Duration::from_millis(200));
        let error = opened.err().map(|error| error.to_string()).unwrap_or_default();
        fs::remove_file(&path).expect("it is there");
        assert!(error.contains("if it is a named pipe, start its reader first"), "{error}");
    }
}
