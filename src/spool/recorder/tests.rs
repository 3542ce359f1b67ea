//! Recovery of a recorder after a kill at every single instruction.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::bounded;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message;

use super::layout::SLOT_HEADER_BYTES;
use super::*;
use crate::config::{QueueSettings, WhenFull};
use crate::pipeline::ledger::Counters;
use crate::pipeline::problems::ProblemReporter;
use crate::pipeline::queue::{Queue, Shared, Wait};
use crate::process::with_fork_lock;
use crate::record::wire::encode_field;
use crate::record::{Chunk, Scope, SpanRecord, Status, Value, content, frames};
use crate::spool::checksum;
use crate::spool::directory::Directory;
use crate::spool::segment::{Owner, Place as EntryPlace};
use crate::tests::{share_of, stride};

mod open_spans;

/// A directory that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("standpipe-recorder-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Directory::open(&path).unwrap();
        Self(path)
    }

    fn recorder(&self) -> PathBuf {
        let directory = Directory::open(&self.0).unwrap();
        directory.recorder_path(directory.instances().unwrap().first().unwrap())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn create(folder: &Path, slots: u32) -> Arc<Recorder> {
    let (instance, file) = Directory::open(folder).unwrap().create_recorder().unwrap();
    let header = Header {
        slots,
        resource_bytes: RESOURCE.len() as u32,
        open_spans: 2,
        created: 7,
        boot_id: [1; 16],
        instance: u64::from_str_radix(&instance, 16).unwrap(),
        owner: Owner::new("shop", "otlp"),
    };
    Recorder::create(&file, header, RESOURCE).unwrap()
}

/// An empty `Resource`, as field 1 of `ResourceSpans`.
const RESOURCE: &[u8] = &[0x0a, 0x00];

/// Returns a framed span whose name is `number` in four digits, repeated `words` times.
fn record(number: u32, words: usize) -> Vec<u8> {
    let (mut span, mut frame) = (Vec::new(), Vec::new());
    encode_field(0x2a, format!("{number:04}").repeat(words).as_bytes(), &mut span);
    encode_field(0x12, &span, &mut frame);
    frame
}

/// Returns the numbers of all records in the file, and the number of damaged places.
fn recovered(path: &Path, boot_id: [u8; 16]) -> Result<(BTreeSet<u32>, u64), &'static str> {
    recovered_and_unproven(path, boot_id).map(|(numbers, damaged, _)| (numbers, damaged))
}

/// Like `recovered`, but also returns the number of unproven chunks.
fn recovered_and_unproven(path: &Path, boot_id: [u8; 16]) -> Result<(BTreeSet<u32>, u64, u64), &'static str> {
    recovered_with_entries(path, boot_id, |_| false)
}

/// Like `recovered_and_unproven`, without the records that are also in an entry according to `has_entry`.
fn recovered_with_entries(
    path: &Path,
    boot_id: [u8; 16],
    has_entry: impl Fn(EntryPlace) -> bool,
) -> Result<(BTreeSet<u32>, u64, u64), &'static str> {
    let mut numbers = BTreeSet::new();
    let Ok(mut orphan) = OrphanedQueue::read(path, boot_id) else { return Ok((numbers, 1, 0)) };
    orphan.leave_to_entries(|place| Ok(has_entry(place))).unwrap();
    for signal in Signal::ALL {
        while let Some(request) = orphan.next(signal) {
            let chunk = Chunk::of_request(signal, &request.body).expect("it is a request");
            for run in chunk.runs() {
                for frame in frames(chunk.bytes(run.start, run.end)) {
                    let words = content(frame).and_then(content).unwrap();
                    let number = words.get(..4).unwrap_or_default();
                    let Ok(known) = String::from_utf8_lossy(number).parse() else {
                        return Err("a record is torn");
                    };
                    if !words.chunks(4).all(|word| word == number) {
                        return Err("a record is torn");
                    }
                    if !numbers.insert(known) {
                        return Err("a record is there twice");
                    }
                }
            }
        }
    }
    Ok((numbers, orphan.damaged, orphan.unproven))
}

/// A step of the traced process.
#[derive(Debug, Clone, Copy)]
enum Step {
    Enqueue {
        scope: usize,
        words: usize,
    },
    /// The worker takes all queued records, notes the entry and writes it.
    Note,
    /// The worker takes all queued records, and the collector answers.
    Settle,
}

/// The script: the first record of a chunk, one more, another scope, a full chunk, slots that are returned and reused,
/// a record that takes the slots of several chunks, a chunk that returns unneeded slots, and an entry noted in place of
/// an older one.
fn script() -> Vec<Step> {
    let small = |scope| Step::Enqueue { scope, words: 6 };
    let [medium, large] = [|words| Step::Enqueue { scope: 0, words }; 2];
    vec![
        small(0),
        small(0),
        small(1),
        large(7_900),
        small(0),
        large(8_400),
        small(0),
        Step::Settle,
        small(1),
        Step::Settle,
        large(7_000),
        medium(1_400),
        medium(300),
        Step::Note,
        Step::Settle,
        small(0),
        small(1),
        Step::Note,
        Step::Settle,
        small(0),
        small(1),
        Step::Note,
        Step::Settle,
        small(1),
    ]
}

impl Step {
    fn frame(self, number: u32) -> Vec<u8> {
        match self {
            Self::Enqueue { words, .. } => record(number, words),
            Self::Note | Self::Settle => Vec::new(),
        }
    }
}

/// Number of finished steps, which the tracing process reads.
static OVER: AtomicU32 = AtomicU32::new(0);
/// Environment variable with the directory of the traced process.
const WATCHED: &str = "STANDPIPE_WATCHED";
/// If set, large records are traced, too.
const EVERY_BYTE: &str = "STANDPIPE_EVERY_BYTE";

fn run_script(folder: &Path) {
    let recorder = create(folder, 48);
    let reporter = Arc::new(ProblemReporter::new("otlp", None, None));
    let mut shared = Shared::new(Arc::new(Counters::default()), reporter, bounded(1).0);
    shared.recorder = Some(recorder);
    let settings = QueueSettings { when_full: WhenFull::DropNewest, ..QueueSettings::default() };
    let queue = Queue::new(&settings, usize::MAX, shared);
    let scopes = ["a", "b"].map(|name| Arc::new(Scope::new(Signal::Traces, name, "")));
    let with_frame =
        |(number, step): (u32, Step)| (number, step, step.frame(number), is_watched(number, step));
    let steps: Vec<_> = (0..).zip(script()).map(with_frame).collect();
    let mut chunks = Vec::with_capacity(100);
    stop_to_be_watched(folder);
    for (number, step, frame, is_watched) in steps {
        match step {
            Step::Enqueue { scope, .. } => {
                if !is_watched {
                    stop();
                }
                queue.enqueue(&scopes[scope], &frame, 1, &Wait::No);
                if !is_watched {
                    stop();
                }
            }
            Step::Note => {
                stop();
                queue.drain(|chunk| chunks.push(chunk));
                if is_watched {
                    stop();
                }
                chunks.iter().for_each(|chunk| chunk.note_entry(number, number));
                if !is_watched {
                    stop();
                }
            }
            Step::Settle => {
                // The checksum is not traced: it takes millions of instructions, and recovery after a kill needs no
                // checksum.
                stop();
                queue.drain(|chunk| chunks.push(chunk));
                if is_watched {
                    stop();
                }
                for chunk in chunks.drain(..) {
                    let (records, bytes) = chunk.runs().iter().fold((0, 0), |(records, bytes), run| {
                        (records + run.records, bytes + run.end - run.start)
                    });
                    queue.give_back(chunk);
                    queue.release(records, bytes);
                }
                if !is_watched {
                    stop();
                }
            }
        }
        OVER.fetch_add(1, Ordering::SeqCst);
    }
    std::process::exit(0);
}

/// Returns whether a step is traced instruction by instruction. By default, five steps are traced: one begins a chunk,
/// two append records, one is a note and one settles. No large record is traced, because large records take most of
/// the time.
fn is_watched(number: u32, step: Step) -> bool {
    let is_large = matches!(step, Step::Enqueue { words, .. } if words > 2000);
    let is_chosen = share_of(16) > 1 || [2, 7, 12, 15, 17].contains(&number);
    is_chosen && (!is_large || std::env::var_os(EVERY_BYTE).is_some())
}

/// Makes the parent process trace this thread, and stops it.
fn stop_to_be_watched(folder: &Path) {
    // SAFETY: calls without memory; the parent expects the stop
    let thread = unsafe {
        libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
        libc::syscall(libc::SYS_gettid)
    };
    fs::write(folder.join("new"), format!("{thread} {}", &raw const OVER as usize)).unwrap();
    fs::rename(folder.join("new"), folder.join("watch")).unwrap();
    stop();
}

/// Stops, so that the parent begins or ends single-stepping.
fn stop() {
    // SAFETY: the call takes no pointer
    unsafe { libc::raise(libc::SIGSTOP) };
}

/// Result of the checks of all states of the file.
#[derive(Debug, Default)]
struct Watched {
    instructions: u64,
    faults: u64,
    last_fault: String,
}

/// Runs the script in a child process, and recovers the file after each instruction.
fn watch(test: &str, wrong: &str, expected: &Expected<'_>) -> Watched {
    let folder = Folder::new(&format!("{test}-{wrong}"));
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([&format!("spool::recorder::tests::{test}"), "--exact", "--nocapture"])
        .env(WATCHED, &folder.0)
        .env("STANDPIPE_WRONG_ORDER", wrong)
        .stdout(Stdio::null());
    // Until the child executes its program, it shares the locks on files of other tests, so the fork lock is held.
    // `spawn` uses `posix_spawn`, which runs no fork handlers. A fork handler would wait forever for the held lock.
    let mut child = with_fork_lock(|| command.spawn()).unwrap();
    let by = Instant::now() + Duration::from_secs(60);
    let handed_over = loop {
        match fs::read_to_string(folder.0.join("watch")) {
            Ok(text) => break text,
            Err(_) if child.try_wait().unwrap().is_none() && Instant::now() < by => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(error) => panic!("the process is not there: {error}"),
        }
    };
    let (thread, over) = handed_over.split_once(' ').unwrap();
    let thread = thread.parse().unwrap();
    let watched = single_step(thread, over.parse().unwrap(), child.id(), &folder.recorder(), expected);
    let _ = child.kill();
    // SAFETY: waits for a thread that this thread traces; the process cannot end before this wait
    unsafe { libc::waitpid(thread, std::ptr::null_mut(), libc::__WALL) };
    let _ = child.wait();
    watched
}

/// Expected contents of the file.
struct Expected<'a> {
    /// The part of the file that determines the recovered records.
    decisive: fn(&Header) -> Range<usize>,
    /// Returns an error if the file is wrong after `over` finished steps.
    judge: &'a dyn Fn(usize, &Path) -> Result<(), String>,
}

fn single_step(
    thread: libc::pid_t,
    over: u64,
    process: u32,
    path: &Path,
    expected: &Expected<'_>,
) -> Watched {
    const MAX_INSTRUCTIONS: u64 = 5_000_000;
    /// Number of faults after which a run with a wrong order of stores has proved that the test finds faults.
    const ENOUGH: u64 = 20;
    let memory = File::open(format!("/proc/{process}/mem")).unwrap();
    let file = File::open(path).unwrap();
    let mut page = [0; PAGE];
    file.read_exact_at(&mut page, 0).unwrap();
    let decisive = (expected.decisive)(&Header::read(&page).unwrap());
    let (mut words, mut words_before) = (vec![0; decisive.len()], Vec::new());
    let seldom = 64 * u64::from(16 / share_of(16).min(16));
    let mut watched = Watched::default();
    let (mut status, mut is_stepping) = (0, false);
    loop {
        // SAFETY: the thread is a traced one of a child of this thread, and `status` outlives the call
        let reaped = unsafe { libc::waitpid(thread, &mut status, libc::__WALL) };
        assert_eq!(reaped, thread, "{}", io::Error::last_os_error());
        if !libc::WIFSTOPPED(status) {
            return watched;
        }
        assert!(watched.instructions < MAX_INSTRUCTIONS, "the process does not come to its end");
        file.read_exact_at(&mut words, decisive.start as u64).unwrap();
        // The recovered records should change only with the decisive words, so other states are checked less often.
        if words != words_before || watched.instructions % seldom == 0 {
            words_before.clone_from(&words);
            let mut word = [0; 4];
            memory.read_exact_at(&mut word, over).unwrap();
            if let Err(fault) = (expected.judge)(u32::from_ne_bytes(word) as usize, path) {
                watched.faults += 1;
                watched.last_fault = fault;
                if watched.faults == ENOUGH {
                    return watched;
                }
            }
        }
        watched.instructions += 1;
        is_stepping ^= libc::WSTOPSIG(status) == libc::SIGSTOP;
        let request = if is_stepping { libc::PTRACE_SINGLESTEP } else { libc::PTRACE_CONT };
        // SAFETY: the thread is stopped, and its tracer is this thread
        let stepped = unsafe { libc::ptrace(request, thread, 0, 0) };
        assert_eq!(stepped, 0, "{}", io::Error::last_os_error());
    }
}

/// Checks the file after `over` steps. Enqueued records must be in it, but records that were settled or are in an entry
/// must not. An entry counts as written once its step is over. Records that the next step changes may or may not be
/// there.
fn judge(over: usize, path: &Path) -> Result<(), String> {
    let (mut must, mut may) = (BTreeSet::new(), BTreeSet::new());
    for (number, step) in (0..).zip(script()).take(over + 1) {
        match step {
            Step::Enqueue { .. } if (number as usize) < over => _ = must.insert(number),
            Step::Enqueue { .. } => _ = may.insert(number),
            Step::Note | Step::Settle if (number as usize) < over => must.clear(),
            Step::Note => {}
            Step::Settle => may.append(&mut must),
        }
    }
    let (found, damaged, _) = recovered_with_entries(path, [1; 16], |place| place.segment < over as u64)?;
    let is_right =
        must.is_subset(&found) && found.iter().all(|number| must.contains(number) || may.contains(number));
    if is_right && damaged == 0 {
        return Ok(());
    }
    Err(format!("after {over} steps: {found:?} instead of {must:?} and perhaps {may:?}, {damaged} damaged"))
}

#[test]
fn a_record_is_found_from_the_instruction_on_that_accepts_it_and_never_torn() {
    let test = "a_record_is_found_from_the_instruction_on_that_accepts_it_and_never_torn";
    if let Some(folder) = std::env::var_os(WATCHED) {
        run_script(Path::new(&folder));
    }
    let slot_headers = |header: &Header| {
        header.slot_headers_at()..header.slot_headers_at() + header.slots as usize * SLOT_HEADER_BYTES
    };
    let expected = Expected { decisive: slot_headers, judge: &judge };
    let right = watch(test, "", &expected);
    println!("{} instructions, {} faults", right.instructions, right.faults);
    assert!(right.instructions > 10_000 && right.faults == 0, "{right:?}");
    // Control: if one change is made in the wrong order, the test finds faults.
    for wrong in ["commit", "begin", "note"].into_iter().take(share_of(3) as usize) {
        let watched = watch(test, wrong, &expected);
        println!("{wrong}: {} faults, the last: {}", watched.faults, watched.last_fault);
        assert!(watched.faults > 0, "{wrong}: {watched:?}");
    }
}

#[test]
fn slots_that_a_chunk_does_not_need_are_free_for_others() {
    let folder = Folder::new("shrunk");
    let recorder = create(&folder.0, 9);
    let scope = Arc::new(Scope::new(Signal::Traces, "a", ""));
    let chunk_of = |number, words| {
        let frame = record(number, words);
        let mut chunk = Chunk::with_capacity(Signal::Traces, 0);
        chunk.move_to(recorder.take(Signal::Traces, scope.run_header().len() + frame.len())?);
        chunk.append(&scope, &frame, 1);
        chunk.shrink();
        Some(chunk)
    };
    // Of 9 adjacent slots, the chunks get 5, then 3, then the last one, although a full chunk needs 8.
    let chunks = [chunk_of(0, 4_500), chunk_of(1, 2_500), chunk_of(2, 900)];
    assert!(chunks.iter().all(Option::is_some), "{chunks:?}");
    assert!(chunk_of(3, 1).is_none() && !recorder.has_all());
    recorder.close();
    drop(chunks);
    assert_eq!(recovered(&folder.recorder(), [1; 16]), Ok(((0..3).collect(), 0)));
}

/// Creates a file with three chunks: one complete, one partly settled, and one being filled.
fn three_chunks(folder: &Folder) -> PathBuf {
    let recorder = create(&folder.0, 3);
    let scope = Arc::new(Scope::new(Signal::Traces, "a", ""));
    let chunk_of = |numbers: Range<u32>| {
        let mut chunk = Chunk::with_capacity(Signal::Traces, 0);
        chunk.move_to(recorder.take(Signal::Traces, 0).unwrap());
        numbers.for_each(|number| chunk.append(&scope, &record(number, 8), 1));
        chunk
    };
    let (mut complete, mut settled, open) = (chunk_of(0..5), chunk_of(5..10), chunk_of(10..15));
    complete.seal(|bytes| checksum([bytes]));
    settled.seal(|bytes| checksum([bytes]));
    let end = settled.runs()[0].start + 2 * record(5, 8).len();
    drop(settled.copy_bytes(settled.runs()[0].start, end));
    recorder.close();
    drop((complete, settled, open));
    folder.recorder()
}

#[test]
fn what_was_settled_does_not_come_again_and_another_boot_needs_checksums() {
    let folder = Folder::new("settled");
    let path = three_chunks(&folder);
    let all = (0..5).chain(7..15).collect();
    assert_eq!(recovered(&path, [1; 16]), Ok((all, 0)));
    let proven = (0..5).chain(7..10).collect();
    let found = recovered_and_unproven(&path, [2; 16]);
    assert_eq!(found, Ok((proven, 0, 1)), "the open chunk may not have reached the disk");
}

#[test]
fn whatever_byte_has_changed_no_record_is_found_that_was_not_there() {
    let folder = Folder::new("flips");
    let path = three_chunks(&folder);
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let all: BTreeSet<u32> = (0..15).collect();
    let data_at = 3 * PAGE as u64;
    let used = 5 * record(0, 8).len() as u64 + 32;
    // The bytes of the third chunk are not changed, because this chunk is open and has no checksum yet.
    let slots = (0..2).map(|slot| data_at + slot * SLOT_BYTES as u64).map(|at| at..at + used);
    // The header does not use most of the first page.
    for (at, bits) in (0..128)
        .chain((128..PAGE as u64 + 8).step_by(stride()))
        .chain(2 * PAGE as u64..2 * PAGE as u64 + 3 * SLOT_HEADER_BYTES as u64)
        .chain(slots.flatten())
        .flat_map(|at| [1, 0x80, 0xff].map(|bits| (at, bits)))
        .step_by(stride())
    {
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ bits], at).unwrap();
        let (found, _) = recovered(&path, [1; 16]).unwrap_or_else(|fault| panic!("{fault}: byte {at}"));
        assert!(found.is_subset(&all), "byte {at}: {found:?}");
        file.write_all_at(&byte, at).unwrap();
    }
}

#[test]
fn delivers_every_record_whatever_bit_of_a_slot_header_has_flipped() {
    let folder = Folder::new("header-flips");
    let path = three_chunks(&folder);
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let all: BTreeSet<u32> = (0..5).chain(7..15).collect();
    let headers = 2 * PAGE as u64;
    for bit in (0..3 * SLOT_HEADER_BYTES as u64 * 8).step_by(stride()) {
        let (at, mut byte) = (headers + bit / 8, [0]);
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 1 << (bit % 8)], at).unwrap();
        assert_eq!(recovered(&path, [1; 16]), Ok((all.clone(), 0)), "bit {bit}");
        file.write_all_at(&byte, at).unwrap();
    }
}

/// Creates a file with an open chunk of `spans` spans with all kinds of fields, and a free slot.
fn open_chunk(folder: &Folder, spans: u8) -> PathBuf {
    let recorder = create(&folder.0, 2);
    let mut chunk = Chunk::with_capacity(Signal::Traces, 0);
    chunk.move_to(recorder.take(Signal::Traces, 0).unwrap());
    let scopes = ["shop", "bank"].map(|name| Arc::new(Scope::new(Signal::Traces, name, "1.0")));
    for id in 0..spans {
        let mut span = SpanRecord::default();
        span.limit(&Default::default(), usize::MAX);
        span.begin(&open_spans::head("checkout", id + 1));
        span.set("text", Value::Str("\u{fc}ber"));
        span.set("list", Value::Ints(&[1, -2]));
        span.open_event("event", 20);
        span.set_in_sub_message("key", Value::Bool(true));
        span.end_sub_message();
        span.set_status(Status::Error("failed"));
        chunk.append(&scopes[usize::from(id / 3) % 2], span.finish(30).unwrap(), 1);
    }
    recorder.close();
    drop(chunk);
    folder.recorder()
}

#[test]
fn sends_only_requests_that_decode_and_counts_the_rest_whatever_bit_of_an_open_chunk_has_flipped() {
    let folder = Folder::new("open-flips");
    let path = open_chunk(&folder, 5);
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let mut page = [0; PAGE];
    file.read_exact_at(&mut page, 0).unwrap();
    let data_at = Header::read(&page).unwrap().data_at() as u64;
    let mut damaged_records = 0;
    let mut look = |what: &str| {
        let mut left = OrphanedQueue::read(&path, [1; 16]).unwrap();
        let (mut spans, mut records) = (Vec::new(), 0);
        while let Some(request) = left.next(Signal::Traces) {
            let decoded = ExportTraceServiceRequest::decode(&request.body[..]).expect(what);
            let scopes = decoded.resource_spans.into_iter().flat_map(|of_resource| of_resource.scope_spans);
            spans.extend(scopes.flat_map(|of_scope| of_scope.spans));
            records += request.records;
        }
        let lost = left.lost[Signal::Traces as usize];
        assert!(records + lost == 5 || left.lost_bytes > 0, "{what}: {records} delivered, {lost} lost");
        assert_eq!(
            (left.damaged > 0, records),
            (lost > 0 || left.lost_bytes > 0, spans.len() as u64),
            "{what}"
        );
        damaged_records += lost;
        spans
    };
    let intact = look("intact");
    assert_eq!(intact.len(), 5);
    let mut slot = [0; SLOT_BYTES];
    file.read_exact_at(&mut slot, data_at).unwrap();
    let bytes = slot.iter().rposition(|byte| *byte != 0).unwrap() as u64 + 1;
    for bit in (0..bytes * 8).step_by(stride()) {
        let (at, mut byte) = (data_at + bit / 8, [0]);
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 1 << (bit % 8)], at).unwrap();
        let altered = look(&format!("bit {bit}")).iter().filter(|span| !intact.contains(span)).count();
        assert!(altered <= 1, "bit {bit}: no part of a span is taken for another one");
        file.write_all_at(&byte, at).unwrap();
    }
    assert!(damaged_records > 100 / stride() as u64, "{damaged_records}");
}

#[test]
fn a_file_that_was_cut_gives_the_chunks_that_are_whole() {
    let folder = Folder::new("cut");
    let path = three_chunks(&folder);
    let file = File::options().write(true).open(&path).unwrap();
    let mut before = recovered(&path, [1; 16]).unwrap().0.len();
    for bytes in (0..=file.metadata().unwrap().len()).rev().step_by(97) {
        file.set_len(bytes).unwrap();
        let found =
            recovered(&path, [1; 16]).unwrap_or_else(|fault| panic!("{fault}: {bytes} bytes")).0.len();
        assert!(found <= before, "{bytes} bytes");
        before = found;
    }
    assert_eq!(before, 0);
}

#[test]
fn an_allocation_goes_on_after_a_signal() {
    let mut calls = Vec::new();
    let allocated = in_steps(5 << 19, |at, len| {
        calls.push((at, len));
        if calls.len() % 2 == 1 { Err(io::Error::from_raw_os_error(libc::EINTR)) } else { Ok(()) }
    });
    allocated.unwrap();
    let steps = [(0, 1 << 20), (1 << 20, 1 << 20), (2 << 20, 1 << 19)];
    assert_eq!(calls, steps.into_iter().flat_map(|step| [step, step]).collect::<Vec<_>>());
    assert_eq!(
        in_steps(1, |_, _| Err(io::ErrorKind::StorageFull.into())).unwrap_err().kind(),
        io::ErrorKind::StorageFull
    );
}
